"""Batches of repeats, gaps between stored ones, and how a failed or dropped batch is told."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from ppdm_dask.engine.cells import Cell
from ppdm_dask.errors import PPDMError

__all__ = ["Batch", "Quarantined", "TrialError", "contiguous", "gaps", "subtract", "summarise"]


@dataclass(frozen=True)
class Batch:
    """Repeats ``start .. stop - 1`` of one cell.

    Parameters
    ----------
    cell : Cell
        The grid point.
    start, stop : int
        Half-open range of repeats, ``0 <= start < stop``.
    """

    cell: Cell
    start: int
    stop: int

    @property
    def size(self) -> int:
        """Number of repeats."""
        return self.stop - self.start

    def __str__(self) -> str:
        if self.size == 1:
            return f"cell {self.cell.id}, repeat {self.start}"
        return f"cell {self.cell.id}, repeats {self.start} to {self.stop - 1}"

    def halves(self) -> tuple[Batch, Batch]:
        """Cut the batch in two; it needs at least 2 repeats."""
        middle = self.start + self.size // 2
        return Batch(self.cell, self.start, middle), Batch(self.cell, middle, self.stop)


@dataclass(frozen=True)
class Quarantined:
    """A batch that was given up, because alone in the cluster it still ended its worker.

    Parameters
    ----------
    batch : Batch
        What was given up; its repeats stay missing from the ledger.
    reason : str
        How its worker ended, and which file says more.
    """

    batch: Batch
    reason: str

    def __str__(self) -> str:
        return f"{self.batch}: {self.reason}"


class TrialError(PPDMError):
    """An exception that the work itself raised; ``__cause__`` is that exception.

    ``subject`` is the :class:`Batch`. It is not tried again: the same would come out.
    """


def gaps(stored: Iterable[tuple[int, int]], repeats: int) -> Iterator[tuple[int, int]]:
    """Half-open ranges of ``0 .. repeats - 1`` that the stored ranges leave open, in order.

    Parameters
    ----------
    stored : iterable of (start, stop)
        Disjoint half-open ranges in increasing order; what lies beyond ``repeats`` is ignored.
    repeats : int
        Number of repeats wanted.
    """
    reached = 0
    for start, stop in stored:
        if start >= repeats:
            break
        if start > reached:
            yield reached, start
        reached = max(reached, stop)
    if reached < repeats:
        yield reached, repeats


def contiguous(cell: Cell, repeats: Iterable[int]) -> Iterator[Batch]:
    """Batches of a cell's repeats, which come in increasing order, each without a gap."""
    start = stop = -1
    for repeat in repeats:
        if repeat != stop:
            if start >= 0:
                yield Batch(cell, start, stop)
            start = repeat
        stop = repeat + 1
    if start >= 0:
        yield Batch(cell, start, stop)


def subtract(batches: Iterable[Batch], others: Iterable[Batch]) -> list[Batch]:
    """What is left of batches without the repeats of others, in the same order."""
    taken: dict[str, list[tuple[int, int]]] = {}
    for other in others:
        taken.setdefault(other.cell.id, []).append((other.start, other.stop))
    return [
        Batch(batch.cell, start, stop)
        for batch in batches
        for start, stop in gaps(
            [(0, batch.start), *sorted(taken.get(batch.cell.id, ()))], batch.stop
        )
    ]


def summarise(error: BaseException) -> str:
    """Type and message of an exception in one line."""
    return " ".join(f"{type(error).__name__}: {error}".split())
