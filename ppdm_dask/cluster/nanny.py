"""Nannies that end their worker within a second; starting and ending of Dask's SpecClusters."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, ClassVar, Literal
from weakref import WeakSet

from distributed import Nanny, SpecCluster
from distributed.core import Status

from ppdm_dask.cluster.security import GuardedWorker, private_folder

logger = logging.getLogger("distributed")

MEND_SECONDS = 10
CLOSE_SECONDS = 3


def mend_cluster(cluster: SpecCluster, workers: int) -> None:
    """Start workers in place of those that were given up."""
    cluster.sync(_forget_failed, cluster, callback_timeout=MEND_SECONDS)
    cluster.scale(workers)


async def _forget_failed(cluster: SpecCluster) -> None:
    for name, worker in list(cluster.workers.items()):
        if worker.status in (Status.closed, Status.failed):
            del cluster.workers[name]


def close_cluster(
    cluster: SpecCluster,
    first: Callable[..., Awaitable[None]] | None = None,
    *arguments: Any,
    within_seconds: float = CLOSE_SECONDS,
) -> None:
    """Close a cluster; what goes wrong is only for the log, since the run is over.

    Parameters
    ----------
    cluster : distributed.SpecCluster
    first : coroutine function, optional
        Run before that, with the arguments, in the cluster's event loop.
    within_seconds : float
        Time for it.
    """
    try:
        if first is not None:
            cluster.sync(first, *arguments, callback_timeout=within_seconds)
    except Exception:
        logger.exception("The cluster was not prepared for its end in time")
    try:
        cluster.close(timeout=CLOSE_SECONDS)
    except Exception:
        logger.exception("The cluster did not close in time")
    # What is left of it ends when its other side hears no more of us.
    cluster.status = Status.closed


class PromptNanny(Nanny):
    """Nanny that ends its worker in a second: an idle one by itself, a busy or new one by force.

    Its worker serves no HTTP, and keeps what it writes in a folder of this user.
    """

    known: ClassVar[WeakSet[PromptNanny]] = WeakSet()
    halted = False

    def __init__(self, *arguments: Any, **options: Any) -> None:
        guarded: dict[str, Any] = {
            "worker_class": GuardedWorker,
            "local_directory": str(private_folder()),
        }
        super().__init__(*arguments, **(guarded | options))
        self.known.add(self)

    async def instantiate(self) -> Status:
        if self.halted:
            raise RuntimeError("the run is over")
        return await super().instantiate()

    async def halt(self) -> None:
        """Start no worker any more; a worker that is just starting would have to be waited for."""
        self.halted = True
        worker = self.process
        if worker is not None and worker.status == Status.starting and worker.process is not None:
            # Its process may not be there yet, or not any more.
            with suppress(Exception):
                await worker.process.kill()

    async def close(  # type: ignore[override]
        self, timeout: float = 1.0, reason: str = "the run is over"
    ) -> Literal["OK"]:
        return await super().close(timeout=min(timeout, 1.0), reason=reason)


async def halt_all(scheduler: str) -> None:
    """Halt the nannies of this scheduler, also those that their cluster does not know yet."""
    for nanny in list(PromptNanny.known):
        if nanny.scheduler_addr == scheduler:
            await nanny.halt()
