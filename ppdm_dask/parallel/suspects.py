"""Batches whose workers died: run again alone, cut in halves, and given up one repeat at a time."""

from __future__ import annotations

from collections import Counter, deque

from ppdm_dask.parallel.batches import Batch
from ppdm_dask.parallel.tally import Tally

__all__ = ["Suspects"]

MOST_SPLITS = 12  # a cell; each half costs several worker processes


class Suspects:
    """Queue of batches whose workers died several times.

    Such a batch need not be the cause, as its neighbours on the worker get the same marks. So each
    runs again, alone in the pool; one that ends its worker there too is cut in halves, and what
    cannot be cut is quarantined.

    Parameters
    ----------
    tally : Tally
        Is told of what is cut or given up.
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
            self.waiting.extendleft(reversed(self.tally.planner.split(batch)))
        else:
            self.tally.quarantine(batch, reason)
