"""The state of a run in its driver: what is stored, what it cost, what was given up."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from ppdm_dask.experiments.plan import Cell
from ppdm_dask.parallel.batches import Batch, Quarantined, subtract
from ppdm_dask.parallel.ledger import Ledger
from ppdm_dask.parallel.perform import Result
from ppdm_dask.parallel.planner import Planner
from ppdm_dask.parallel.progress import Progress

__all__ = ["Outcome", "Tally"]

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
        ``"synchronous"``, ``"2 workers"``, or ``"nothing to do"``.
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
        self.ledger.commit(batch.cell, batch.start, batch.stop, result.arrays, result.seconds)
        self.planner.done(batch, result.seconds, fresh=result.fresh)
        self.computed += batch.size
        self._batches += 1
        self._seconds += result.seconds
        self._tell(batch.cell.id)

    def quarantine(self, batch: Batch, reason: str) -> None:
        """Give a batch up; after the fifth of a cell, the rest of that cell untried."""
        self.planner.drop(batch)
        self._give_up(batch, reason)
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
