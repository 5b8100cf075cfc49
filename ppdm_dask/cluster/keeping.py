"""One pool of local workers for several runs, so that their start is paid once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from contextvars import ContextVar
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from ppdm_dask.cluster.surroundings import logging_to

if TYPE_CHECKING:
    from ppdm_dask.cluster.client import Pool

__all__ = ["lend", "pool_kept"]

Opening = Callable[[], "AbstractContextManager[Pool]"]


class _Keeper:
    """Holds a pool between runs, and closes it when it was lost or another is needed."""

    def __init__(self) -> None:
        self._open = ExitStack()
        self._pool: Pool | None = None

    @contextmanager
    def lend(self, workers: int, log: Path, opening: Opening) -> Iterator[Pool]:
        with ExitStack() as stack:
            if self._pool is not None and self._pool.workers != workers:
                self.close()
            if self._pool is None:
                self._pool = self._open.enter_context(opening())
            else:
                # The log that the pool was opened with gets this too.
                stack.enter_context(logging_to(log))
            try:
                yield replace(self._pool, log=log, kept=True)
            except BaseException:
                # What was lost is not lent again, and what stops a run ends its workers.
                stack.close()
                self.close()
                raise

    def close(self) -> None:
        self._pool = None
        self._open.close()


_KEEPER: ContextVar[_Keeper | None] = ContextVar("keeper", default=None)


@contextmanager
def pool_kept() -> Iterator[None]:
    """Context whose runs share their local workers, which end with it, or when a run fails."""
    keeper = _Keeper()
    token = _KEEPER.set(keeper)
    try:
        yield
    finally:
        _KEEPER.reset(token)
        keeper.close()


def lend(workers: int, log: Path, opening: Opening) -> AbstractContextManager[Pool]:
    """Return a context with a pool: the one that is kept, or a new one.

    Parameters
    ----------
    workers : int
        Number of worker processes.
    log : Path
        File that takes the log of Dask's parts and the workers' standard error.
    opening : callable
        Returns a context that starts such a pool.
    """
    keeper = _KEEPER.get()
    return opening() if keeper is None else keeper.lend(workers, log, opening)
