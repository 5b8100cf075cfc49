"""What is done alike with every cluster that Dask keeps to a list of workers, its SpecCluster."""

# Dask has annotated few of its functions.
# mypy: allow-untyped-calls

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Any

from distributed import SpecCluster
from distributed.core import Status

__all__ = ["close_cluster", "mend_cluster"]

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
    """Close a cluster; what goes wrong is for the log alone, since the run is over.

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
