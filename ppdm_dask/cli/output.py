"""What commands print: tables, lines, JSON, and the progress of a run."""

from __future__ import annotations

import json
import sys
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TextIO

import ppdm_dask as pp
from ppdm_dask.cli.logs import as_json, quiet, tell
from ppdm_dask.shown import printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import xarray as xr
    from rich.console import RenderableType
    from rich.progress import Progress as Bar
    from rich.progress import TaskID

    from ppdm_dask.engine.cells import Progress


class ProgressReporter:
    """Context manager whose calls report the progress of a run, on standard error by default.

    Where the stream is a terminal this is a bar. Elsewhere it is one line at the start, one at the
    end, and between them at most one every ``interval`` seconds, without control codes. A closed
    stream ends the reports, not the run.

    Parameters
    ----------
    title : str
        What runs; begins each line.
    stream : text file, optional
        Where to write.
    interval : float
        Seconds between two lines.

    Examples
    --------
    >>> from ppdm_dask.engine.cells import Progress
    >>> with ProgressReporter("surveys", sys.stdout) as report:
    ...     report(Progress(250, 1000, 200, 1.0, "2 workers", "q=0.5"))
    ...     report(Progress(1000, 1000, 200, 16.0, "2 workers", "q=1"))
    surveys: 250 of 1,000 repeats (200 from an earlier run), 2 workers
    surveys: 1,000 of 1,000 repeats in 16 s, 2 workers
    """

    def __init__(self, title: str, stream: TextIO | None = None, *, interval: float = 10.0) -> None:
        self.title = title
        self.logged = stream is None and (as_json() or quiet())
        self.stream = sys.stderr if stream is None else stream
        self.interval = interval
        self._last: Progress | None = None
        self._told: Progress | None = None
        self._bar: Bar | None = None
        self._task: TaskID | None = None

    def __enter__(self) -> Self:
        if not self.logged and self.stream.isatty():
            self._bar = _make_bar(self.stream)
            if self._bar is not None:
                self._bar.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._bar is not None:
            self._bar.stop()
        elif self._last is not None and self._last is not self._told:
            self._write(f"{_count(self._last)} in {_span(self._last.elapsed_seconds)}", self._last)

    def __call__(self, progress: Progress) -> None:
        """Take note of a state, and show it if it is time to."""
        first = self._last is None
        self._last = progress
        if self._bar is not None:
            if self._task is None:
                # What was there before the start must not count as speed.
                self._task = self._bar.add_task(
                    self.title,
                    total=progress.total_repeats,
                    completed=progress.resumed_repeats,
                    mode=progress.mode,
                )
            self._bar.update(self._task, completed=progress.done_repeats, mode=progress.mode)
        elif first:
            earlier = ""
            if progress.resumed_repeats:
                earlier = f" ({progress.resumed_repeats:,} from an earlier run)"
            self._write(_count(progress) + earlier, progress)
        elif self._told is None or (
            progress.elapsed_seconds - self._told.elapsed_seconds >= self.interval
            and progress.done_repeats < progress.total_repeats
        ):
            self._write(f"{_count(progress)}{_left(progress)}", progress)

    def _write(self, text: str, progress: Progress) -> None:
        self._told = progress
        if self.logged:
            done, total = progress.done_repeats, progress.total_repeats
            tell(f"{self.title}: {text}, {progress.mode}", done=done, total=total)
            return
        try:
            print(f"{self.title}: {text}, {progress.mode}", file=self.stream, flush=True)
        except OSError:
            self.interval = float("inf")  # closed: the run continues in silence


def _make_bar(stream: TextIO) -> Bar | None:
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
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
        TextColumn("{task.fields[mode]}", markup=False),
        console=console,
        # What else is printed keeps its own stream and leaves the bar alone.
        redirect_stdout=False,
        redirect_stderr=False,
    )


def _count(progress: Progress) -> str:
    return f"{progress.done_repeats:,} of {progress.total_repeats:,} repeats"


def _left(progress: Progress) -> str:
    """Time that is left at the speed so far; empty while too little is done to tell."""
    done = progress.done_repeats - progress.resumed_repeats
    open_repeats = progress.total_repeats - progress.done_repeats
    # The first repeats wait for workers and compilers.
    if done < 0.02 * (done + open_repeats):
        return ""
    left = progress.elapsed_seconds / done * open_repeats
    return f", about {_span(left)} left"


def _span(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"


PIPED_WIDTH = 80
"""Columns of a table that goes into a file or a pipe, unless its numbers need more."""


def print_table(table: RenderableType) -> None:
    """Print a table, without control codes where standard output is not a terminal."""
    from rich.console import Console

    console = Console(highlight=False)
    if not console.is_terminal:
        # Not the width of the terminal that happens to be around: output in a file is reproducible.
        console.width = max(PIPED_WIDTH, console.measure(table).minimum)
    # Written by hand: rich ends the process by itself when a pipe breaks.
    with console.capture() as capture:
        console.print(table)
    text = capture.get()
    sys.stdout.write("\n".join(line.rstrip() for line in text.splitlines()) + "\n")


def print_rows(
    header: Sequence[str], rows: Sequence[Sequence[str]], right: Sequence[int] = ()
) -> None:
    """Print rows of text below a header; columns in `right` are flush right."""
    print_table(pp.drawing.plain_table(header, rows, right))


def print_lines(lines: Iterable[str]) -> None:
    """Print lines, with what could drive a terminal written as escapes."""
    for line in lines:
        say(line)


def say(line: str = "") -> None:
    """Print a line; see :func:`print_lines`."""
    print(printable(line, keep="\n\t"))


def note(line: str) -> None:
    """Print a line on standard error: what a command found out, and is not a result."""
    tell(line)


def print_json(value: Any) -> None:
    """Print one JSON document."""
    text = json.dumps(value, indent=2, ensure_ascii=False)
    # JSON leaves some signs as they are that a terminal may obey.
    print("".join(s if s.isprintable() or s == "\n" else json.dumps(s)[1:-1] for s in text))


def print_result(ds: xr.Dataset) -> None:
    """Print the tables of a result, and the notes below them."""
    kind = pp.experiments.kind_of_result(ds)
    for heading, table in kind.tables(ds):
        print(f"\n{heading}\n")
        print_table(table)
    if notes := kind.notes(ds):
        print()
        print_lines(notes)
