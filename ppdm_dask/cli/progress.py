"""Progress of a run: a bar in a terminal, an occasional line of plain text anywhere else."""

from __future__ import annotations

import sys
from types import TracebackType
from typing import TYPE_CHECKING, Self, TextIO

if TYPE_CHECKING:
    from rich.progress import Progress as Bar
    from rich.progress import TaskID

    from ppdm_dask.engine.cells import Progress

__all__ = ["ProgressReporter"]


class ProgressReporter:
    """Context manager whose calls tell how a run goes on, on standard error by default.

    Where the stream is a terminal this is a bar that is drawn anew. Elsewhere it is one line at
    the start, one at the end, and between them one every ``interval`` seconds at most, without
    control codes. A stream that somebody closed ends the reports, not the run.

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
        self.stream = sys.stderr if stream is None else stream
        self.interval = interval
        self._last: Progress | None = None
        self._told: Progress | None = None
        self._bar: Bar | None = None
        self._task: TaskID | None = None

    def __enter__(self) -> Self:
        if self.stream.isatty():
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
        try:
            print(f"{self.title}: {text}, {progress.mode}", file=self.stream, flush=True)
        except OSError:
            self.interval = float("inf")


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
