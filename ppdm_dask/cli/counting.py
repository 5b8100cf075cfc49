"""How far a command on records is: a bar with records a second, and an end in sight."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from threading import Lock
from types import TracebackType
from typing import TYPE_CHECKING, Self, TextIO

from ppdm_dask.cli.logs import as_json, quiet, tell
from ppdm_dask.shown import printable

if TYPE_CHECKING:
    from rich.progress import Progress as Bar
    from rich.progress import TaskID

__all__ = ["RecordsReporter"]


class RecordsReporter:
    """Context manager that shows on standard error how many records are done.

    On a terminal this is a bar.  Elsewhere it is a line every ``interval`` seconds, so that a short
    command says nothing.  Totals of text files are estimates.

    Parameters
    ----------
    title : str
        Begins each line.
    stream : text file, optional
        Where to write.
    interval : float
        Seconds between two lines.
    """

    def __init__(self, title: str, stream: TextIO | None = None, *, interval: float = 10.0) -> None:
        self.title = title
        self.logged = stream is None and (as_json() or quiet())
        self.stream = sys.stderr if stream is None else stream
        self.interval = interval
        self._bar: Bar | None = None
        self._task: TaskID | None = None
        self._total = self._done = 0
        self._begun = self._told = time.monotonic()
        self._lock = Lock()  # a cluster tells from a thread of its own

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._bar is not None:
            if error is None and self._task is not None:
                self._bar.update(self._task, total=self._done, completed=self._done)
            self._bar.stop()

    def __call__(self, total: int) -> Callable[[int], None]:
        """Begin, with about so many records; returns what is called with the records done."""
        self._total, self._begun = total, time.monotonic()
        self._told = self._begun
        if not self.logged and self.stream.isatty():
            self._bar = _bar(self.stream)
            if self._bar is not None:
                self._task = self._bar.add_task(self.title, total=total, speed="")
                self._bar.start()
        return self._add

    def say(self, line: str) -> None:
        """Print a line that is not a result."""
        if self.logged:
            tell(line, done=self._done, total=self._total)
            return
        try:
            print(f"ppdm: {printable(line)}", file=self.stream, flush=True)
        except OSError:
            self.interval = float("inf")  # closed: the work continues in silence

    def _add(self, records: int) -> None:
        with self._lock:
            self._done += records
            now = time.monotonic()
            speed = self._done / max(now - self._begun, 1e-9)
            # Text files turn out to have more than was estimated.
            self._total = max(self._total, self._done)
            if self._bar is not None and self._task is not None:
                self._bar.update(
                    self._task,
                    completed=self._done,
                    total=self._total,
                    speed=f"{speed:,.0f} records/s",
                )
            elif self._bar is None and now - self._told >= self.interval:
                self._told = now
                left = (self._total - self._done) / speed
                self.say(
                    f"{self.title}: {self._done:,} of about {self._total:,} records, "
                    f"{speed:,.0f} a second, about {left:,.0f} s left"
                )


def _bar(stream: TextIO) -> Bar | None:
    """Bar for a terminal; None for one that cannot move its cursor."""
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    console = Console(file=stream)
    if console.is_dumb_terminal:
        return None
    return Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[speed]}", markup=False),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
        console=console,
        redirect_stdout=False,
        redirect_stderr=False,
    )
