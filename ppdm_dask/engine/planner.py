"""The state of a run in its driver: what is stored, what it cost, what was given up.

What is missing is cut into batches of about equal time, longest first.  Batches whose workers died
run again alone, are cut in halves, and are given up one repeat at a time.
"""

from __future__ import annotations

import logging
import math
import statistics
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from ppdm_dask.engine.cells import Batch, Cell, Progress, Quarantined, Result, subtract
from ppdm_dask.engine.ledger import Ledger

LOG = logging.getLogger(__name__)

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
            # Longest first: at the end of a run short batches fill the gaps between workers.
            return self._cut(max(bulk, key=self._length))
        return None

    def _size(self, state: _State) -> int:
        if not state.measured and state.seconds is None:
            return 1
        most = GROWTH * max(state.largest, 1)
        if not state.seconds:  # quicker than the clock can tell
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
        # Two measurements in two fresh processes confirm each other well enough to continue.
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


# Each takes some seconds, so a cell that always ends its worker would hold a run up for hours.
MOST_QUARANTINED = 5


@dataclass(frozen=True)
class Outcome:
    """What a run did.

    Parameters
    ----------
    computed_repeats, resumed_repeats, total_repeats : int
        Repeats computed now, found in the ledger at the start, and asked for.
    batches : int
        Batches stored now.
    work_seconds, elapsed_seconds : float
        Time of all trials computed now, summed over processes, and wall time of the run.
    mode : str
        ``"synchronous"``, ``"2 threads"``, ``"2 workers"``, or ``"nothing to do"``.
    costs : mapping of str to float
        Seconds of work a repeat by cell id, over all that is stored.
    quarantined : tuple of Quarantined
        Batches that were given up; empty in a run that is complete.
    remembered : int
        How many of them were given up in an earlier run, and not tried again in this one.
    """

    computed_repeats: int
    resumed_repeats: int
    total_repeats: int
    batches: int
    work_seconds: float
    elapsed_seconds: float
    mode: str
    costs: Mapping[str, float]
    quarantined: tuple[Quarantined, ...]
    remembered: int = 0

    @property
    def complete(self) -> bool:
        """Whether every repeat asked for is stored."""
        return self.computed_repeats + self.resumed_repeats == self.total_repeats


class Tally:
    """Stores batches as they come, and tells of them.

    Parameters
    ----------
    cells : sequence of Cell
        The grid points of the run.
    ledger : Ledger
        Open for writing.
    batch_seconds : float
        Time that a batch should take.
    progress : callable or None
        Called with a :class:`Progress` after each batch and each change of mode.
    retry_failed : bool
        Try again what an earlier run gave up.
    """

    def __init__(
        self,
        cells: Sequence[Cell],
        ledger: Ledger,
        batch_seconds: float,
        progress: Callable[[Progress], None] | None,
        *,
        retry_failed: bool = False,
    ) -> None:
        self.cells = cells
        self.ledger = ledger
        self.mode = "nothing to do"
        self.computed = 0
        self.quarantined = [] if retry_failed else ledger.quarantined(cells)
        self.remembered = len(self.quarantined)
        self._progress = progress
        self._began = time.monotonic()
        self._batches = 0
        self._seconds = 0.0
        missing = ledger.missing(cells)
        self.total = sum(cell.repeats for cell in cells)
        self.resumed = self.total - sum(gap.size for gap in missing)
        missing = subtract(missing, [entry.batch for entry in self.quarantined])
        costs = {
            cell.key: ledger.cheapest(cell)
            for cell in {gap.cell.id: gap.cell for gap in missing}.values()
        }
        known = {key: seconds for key, seconds in costs.items() if seconds is not None}
        self.planner = Planner(missing, batch_seconds, known)

    @property
    def done(self) -> int:
        """Repeats in the ledger."""
        return self.resumed + self.computed

    def enter(self, mode: str) -> None:
        """Note and tell how the work is done from now on."""
        self.mode = mode
        self._tell("")

    def store(self, batch: Batch, result: Result) -> None:
        """Commit a batch, then tell of it."""
        # Stored before anything is counted: a failed write must not look like progress.
        self.ledger.commit(batch.cell, batch.start, batch.stop, result.arrays, result.seconds)
        self.planner.done(batch, result.seconds, fresh=result.fresh)
        self.computed += batch.size
        self._batches += 1
        self._seconds += result.seconds
        LOG.debug("%s is stored", batch, extra={"fields": {"seconds": round(result.seconds, 6)}})
        self._tell(batch.cell.id)

    def quarantine(self, batch: Batch, reason: str) -> None:
        """Give a batch up; after the fifth of a cell, the rest of that cell untried."""
        self.planner.drop(batch)
        self._give_up(batch, reason)
        LOG.info("%s is given up: %s", batch, reason)
        new = self.quarantined[self.remembered :]
        same = sum(entry.batch.cell.id == batch.cell.id for entry in new)
        if same >= MOST_QUARANTINED:
            untried = f"not tried, as {same} batches of this cell ended their workers"
            for rest in self.planner.give_up(batch.cell):
                self._give_up(rest, untried)

    def _give_up(self, batch: Batch, reason: str) -> None:
        entry = Quarantined(batch, reason)
        self.ledger.quarantine(entry)
        self.quarantined.append(entry)

    def _tell(self, cell: str) -> None:
        if self._progress is not None:
            elapsed = time.monotonic() - self._began
            self._progress(Progress(self.done, self.total, self.resumed, elapsed, self.mode, cell))

    def outcome(self) -> Outcome:
        """Sum the run up."""
        spent = {cell.id: self.ledger.cost(cell) for cell in self.cells}
        return Outcome(
            computed_repeats=self.computed,
            resumed_repeats=self.resumed,
            total_repeats=self.total,
            batches=self._batches,
            work_seconds=self._seconds,
            elapsed_seconds=time.monotonic() - self._began,
            mode=self.mode,
            costs={name: cost / repeats for name, (cost, repeats) in spent.items() if repeats},
            quarantined=tuple(self.quarantined),
            remembered=self.remembered,
        )


MOST_SPLITS = 12  # a cell; each half costs several worker processes


class Suspects:
    """Queue of batches whose workers died several times.

    Such a batch need not be the cause, as its neighbours on the worker get the same marks. So each
    runs again, alone in the pool; one that ends its worker there too is cut in halves, and what
    cannot be cut is quarantined.

    Parameters
    ----------
    tally : Tally
        Called with what is cut or given up.
    """

    def __init__(self, tally: Tally) -> None:
        self.tally = tally
        self.waiting: deque[Batch] = deque()
        self._splits: Counter[str] = Counter()

    def judge(self, batch: Batch, *, alone: bool, reason: str) -> None:
        """Decide on a batch whose workers died.

        Parameters
        ----------
        batch : Batch
            In flight, as the planner sees it.
        alone : bool
            Whether nothing else ran in the pool.
        reason : str
            How its worker ended.
        """
        if not alone:
            self.waiting.append(batch)
        elif batch.size > 1 and self._splits[batch.cell.id] < MOST_SPLITS:
            self._splits[batch.cell.id] += 1
            # At the head of the queue: the halves show soonest which repeat is to blame.
            self.waiting.extendleft(reversed(self.tally.planner.split(batch)))
        else:
            self.tally.quarantine(batch, reason)
