"""Cells of an experiment, batches of their repeats, and doing a batch in any process.

Trials depend only on their key; so where and in which batches they are done makes no difference.
"""

from __future__ import annotations

import hashlib
import json
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, Self, runtime_checkable

import numpy.typing as npt
import threadpoolctl

from ppdm_dask.errors import PPDMError

__all__ = ["Cell", "Checkpointed", "Progress", "Unlocked", "Work"]


@dataclass(frozen=True)
class Progress:
    """State of a run after a batch was stored or the mode changed.

    Parameters
    ----------
    done_repeats : int
        Repeats in the ledger, including those of earlier runs.
    total_repeats : int
        Repeats that the cells ask for.
    resumed_repeats : int
        Repeats that were in the ledger when this run began.
    elapsed_seconds : float
        Wall-clock time since this run began.
    mode : str
        How the work is done, as text: ``"synchronous"``, ``"2 threads"``, ``"starting 2
        workers"`` or ``"2 workers"``.
    cell : str
        Id of the cell last worked on; empty before the first.
    """

    done_repeats: int
    total_repeats: int
    resumed_repeats: int
    elapsed_seconds: float
    mode: str
    cell: str


@dataclass(frozen=True)
class Cell:
    """A grid point of a sweep.

    Parameters
    ----------
    id : str
        Readable name, unique within the run.
    params : mapping of str to JSON scalar
        All that the cell's numbers depend on apart from the seed; its hash is the key of the random
        streams, so adding a grid point changes no other number.
    repeats : int
        Monte Carlo repeats of this cell, 1 or more.
    """

    id: str
    params: Mapping[str, Any]
    repeats: int

    @property
    def key(self) -> int:
        """64-bit key of the parameters, in ``[2**63, 2**64)`` so that it always fills two words."""
        # Not hash(): it differs from process to process. The order of keys must not matter.
        text = json.dumps(dict(self.params), sort_keys=True, separators=(",", ":"))
        return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "little") | 1 << 63


class Work(Protocol):
    """The computation behind the cells of one run; picklable, sent to a worker once."""

    def trials(self, cell: Cell, start: int, stop: int) -> dict[str, npt.NDArray[Any]]:
        """Results of repeats ``start .. stop - 1``; each array's first axis is the repeat.

        The numbers depend only on the cell, the repeat and the run's seed.
        """
        ...  # pragma: no cover


@runtime_checkable
class Checkpointed(Work, Protocol):
    """Work that can resume a repeat from a checkpoint."""

    def keeping(self, folder: Path) -> Self:
        """The same work with checkpoints in a folder, which the run makes and removes.

        Where a worker does not see the folder, a repeat starts over.
        """
        ...  # pragma: no cover


@runtime_checkable
class Unlocked(Work, Protocol):
    """Work whose trials may run in several threads at once."""

    def unlocked(self, cell: Cell) -> bool:
        """Whether a cell's trials run without the interpreter's lock, so that threads pay."""
        ...  # pragma: no cover


# Numerical libraries read these when they are loaded.
THREAD_VARIABLES = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "BLIS_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
    "NUMEXPR_NUM_THREADS",
    "NUMBA_NUM_THREADS",
)


@dataclass(frozen=True)
class Result:
    """A finished batch.

    Parameters
    ----------
    arrays : mapping of str to array
        What the trials returned.
    seconds : float
        Wall time of the trials.
    fresh : bool
        Whether the process ran this cell for the first time, so that the time may hold compiling.
    """

    arrays: Mapping[str, npt.NDArray[Any]]
    seconds: float
    fresh: bool


class Performer:
    """Runs trials with one thread in numerical libraries, and takes the time.

    Parameters
    ----------
    work : Work
        The computation.
    """

    def __init__(self, work: Work) -> None:
        self.work = work
        self._seen: set[str] = set()
        self._limits = ExitStack()
        self._modules = 0

    def perform(self, cell: Cell, start: int, stop: int) -> Result:
        """Do repeats ``start .. stop - 1`` of a cell; the work's exceptions pass through."""
        self._limit_threads()
        began = time.perf_counter()
        arrays = self.work.trials(cell, start, stop)
        seconds = time.perf_counter() - began
        fresh = cell.id not in self._seen
        self._seen.add(cell.id)
        return Result(arrays, seconds, fresh)

    def _limit_threads(self) -> None:
        # A limit holds for the libraries loaded before it, and trials may load more.
        if len(sys.modules) != self._modules:
            self._limits.enter_context(threadpoolctl.threadpool_limits(limits=1))
            self._modules = len(sys.modules)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Give the libraries their threads back."""
        self._limits.close()
        self._modules = 0


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
    """A batch that was given up, because it ended its worker even when it ran alone.

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
