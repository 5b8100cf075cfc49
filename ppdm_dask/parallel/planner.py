"""Cutting what is missing into batches of about equal time, longest first."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from ppdm_dask.experiments.plan import Cell
from ppdm_dask.parallel.batches import Batch

__all__ = ["Planner"]

# A pilot is grown by this factor until its time means something, and no batch is larger than this
# many times the largest one measured.
GROWTH = 8
# So many cells must have been begun before they tell what beginning another takes.
TELLING = 3


@dataclass
class _State:
    """What is known of a cell and still to be handed out of it."""

    cell: Cell
    open: list[tuple[int, int]] = field(default_factory=list)
    in_flight: int = 0
    seconds: float | None = None  # a repeat, cheapest measurement so far
    warm: bool = False  # measured in a process that had run the cell before
    settled: bool = False
    largest: int = 0
    measured: int = 0

    @property
    def left(self) -> int:
        return sum(stop - start for start, stop in self.open)


class Planner:
    """Hands out batches until nothing is missing.

    A cell of unknown cost first gives out pilots, one at a time: 1 repeat, then up to 8 times as
    many, until a pilot takes long enough to mean something. From then on its batches take about
    ``batch_seconds``. The cheapest time a repeat counts, as compiling and loading only ever add to
    it; the first measurement of a cell in a process is trusted only when it is confirmed.

    Parameters
    ----------
    missing : iterable of Batch
        The gaps to fill.
    batch_seconds : float
        Time that a batch should take, above 0.
    known : mapping of int to float, optional
        Seconds a repeat by the cell's key, from earlier runs; such cells need no pilot.
    """

    def __init__(
        self,
        missing: Iterable[Batch],
        batch_seconds: float,
        known: Mapping[int, float] | None = None,
    ) -> None:
        self.batch_seconds = batch_seconds
        self._states: dict[str, _State] = {}
        self._first_calls: list[float] = []
        for gap in missing:
            state = self._states.setdefault(gap.cell.id, _State(gap.cell))
            state.open.append((gap.start, gap.stop))
        for state in self._states.values():
            seconds = (known or {}).get(state.cell.key)
            if seconds is not None:
                state.seconds = seconds
                state.warm = state.settled = True
                state.largest = state.left

    @property
    def unfinished(self) -> bool:
        """Whether anything is to be handed out or still in flight."""
        return any(state.open or state.in_flight for state in self._states.values())

    def next(self) -> Batch | None:
        """Hand out a batch; None if all is in flight, or waits for a pilot."""
        waiting = [state for state in self._states.values() if state.open]
        pilots = [state for state in waiting if not state.settled and not state.in_flight]
        if pilots:
            # The fewest measurements first, so that all cells become known side by side.
            return self._cut(min(pilots, key=lambda state: state.measured))
        bulk = [state for state in waiting if state.settled]
        if bulk:
            return self._cut(max(bulk, key=self._length))
        return None

    def _size(self, state: _State) -> int:
        if not state.measured and state.seconds is None:
            return 1
        most = GROWTH * max(state.largest, 1)
        if not state.seconds:
            return most
        return int(min(most, max(1.0, self.batch_seconds / state.seconds)))

    def _length(self, state: _State) -> tuple[float, float]:
        """Seconds that the next batch of a cell and all that is left of it should take."""
        seconds = state.seconds or 0.0
        return min(self._size(state), state.left) * seconds, state.left * seconds

    def _cut(self, state: _State) -> Batch:
        start, stop = state.open[0]
        size = self._size(state)
        if state.settled:
            # Equal parts of the gap, rather than full batches and a crumb.
            size = math.ceil((stop - start) / math.ceil((stop - start) / size))
        end = min(start + size, stop)
        if end < stop:
            state.open[0] = (end, stop)
        else:
            del state.open[0]
        state.in_flight += 1
        return Batch(state.cell, start, end)

    def done(self, batch: Batch, seconds: float, *, fresh: bool) -> None:
        """Note that a batch is stored.

        Parameters
        ----------
        batch : Batch
            As handed out, or a part of it after :meth:`split`.
        seconds : float
            Time of its trials.
        fresh : bool
            Whether its process ran the cell for the first time, so that the time may hold
            compiling and loading.
        """
        state = self._states[batch.cell.id]
        state.in_flight -= 1
        if not state.measured:
            self._first_calls.append(seconds)
        state.measured += 1
        state.largest = max(state.largest, batch.size)
        cheapest = seconds / batch.size
        if state.seconds is None or cheapest < state.seconds:
            state.seconds = cheapest
        state.warm |= not fresh
        # Two measurements in two fresh processes confirm each other well enough to go on.
        if seconds >= max(0.02, self.batch_seconds / 10):
            state.settled |= not fresh or state.measured > 1

    def put_back(self, batch: Batch) -> None:
        """Take back a batch whose result was lost, to be handed out again."""
        state = self._states[batch.cell.id]
        state.in_flight -= 1
        state.open.append((batch.start, batch.stop))
        state.open.sort()

    def split(self, batch: Batch) -> tuple[Batch, Batch]:
        """Cut a batch in flight in two, both in flight."""
        self._states[batch.cell.id].in_flight += 1
        return batch.halves()

    def drop(self, batch: Batch) -> None:
        """Give a batch in flight up."""
        self._states[batch.cell.id].in_flight -= 1

    def give_up(self, cell: Cell) -> list[Batch]:
        """Hand out nothing more of a cell; what was still open of it is returned."""
        state = self._states[cell.id]
        rest = [Batch(cell, start, stop) for start, stop in state.open]
        state.open.clear()
        return rest

    def expected(self, batch: Batch) -> float:
        """Seconds that a batch should take; 0 if nothing is known of its cell."""
        return batch.size * (self._states[batch.cell.id].seconds or 0.0)

    def remaining_seconds(self) -> float:
        """Seconds of work that are to be handed out, as far as reliable measurements tell.

        Neither a first call, which may compile, nor a few milliseconds, which another process may
        have taken, are reliable. But a cell that is not begun will make a first call, as long as
        those of other cells were: the lower median of at least three.
        """
        begin = 0.0
        if len(self._first_calls) >= TELLING:
            begin = statistics.median_low(self._first_calls)
        seconds = 0.0
        for state in self._states.values():
            if state.seconds is None and state.open:
                seconds += begin
            elif state.warm and state.settled:
                seconds += state.left * (state.seconds or 0.0)
        return seconds
