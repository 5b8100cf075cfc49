"""Doing one batch, the same way in the driver and in a worker process."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

import numpy.typing as npt
import threadpoolctl

from ppdm_dask.engine.cells import Cell, Work

__all__ = ["THREAD_VARIABLES", "Performer", "Result"]


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
