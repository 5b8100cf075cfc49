"""How workers, and the way to them, are lost, and how that is reported.

Plugins on a shared scheduler are named after the client that brought them, and freed if it died.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from queue import SimpleQueue
from time import monotonic, sleep
from typing import Any

from distributed import Client, Future, KilledWorker
from distributed.client import ClosedClientError
from distributed.scheduler import NoValidWorkerError, NoWorkerError

from ppdm_dask.cluster.client import Pool
from ppdm_dask.cluster.kinds.base import show_size
from ppdm_dask.cluster.worker import Versions, check_peers
from ppdm_dask.engine.cells import summarise
from ppdm_dask.engine.interrupt import Interruption

PREFIX = "ppdm:"


def plugin_name(client: Client) -> str:
    """Return a new name for what a client brings to the workers."""
    return f"{PREFIX}{client.id}:{uuid.uuid4().hex}"


def forget_orphans(client: Client) -> None:
    """Have workers forget the work of drivers that were killed, which nobody else takes back."""
    for name in client.run_on_scheduler(orphans):
        # Another driver may be at it as well.
        with suppress(ValueError):
            client.unregister_worker_plugin(name)


def orphans(dask_scheduler: Any) -> list[str]:
    """Names of plugins whose client is gone; called in the scheduler."""
    return [
        name
        for name in dask_scheduler.worker_plugins
        if name.startswith(PREFIX) and name.split(":")[1] not in dask_scheduler.clients
    ]


MEND_SECONDS = 2.0
POLL_SECONDS = 0.2


class PoolLost(Exception):
    """The workers, or the way to them, are gone or stuck; others may do better."""


@contextmanager
def lost_with_connection() -> Iterator[None]:
    """Context in which a broken connection to the scheduler means that the pool is lost."""
    try:
        yield
    except (OSError, ClosedClientError) as error:
        raise PoolLost(f"the scheduler is gone ({summarise(error)})") from error


class WorkerWatch:
    """Has lost workers of a pool replaced.

    Parameters
    ----------
    pool : Pool

    Attributes
    ----------
    versions : dict or None
        What workers that come later have to be, once a first one was compared.
    """

    def __init__(self, pool: Pool) -> None:
        self.pool = pool
        self.versions: Versions | None = None
        self._mended = self._seen = monotonic()

    def check(self) -> bool:
        """Whether any worker is there.  Too long without any is a loss.

        Raises
        ------
        PoolLost
            If there has been none for as long as the pool has patience.
        """
        now = monotonic()
        alive = self.pool.alive()
        if alive < self.pool.workers and now > self._mended + MEND_SECONDS:
            with lost_with_connection():
                self.pool.mend()
            self._mended = now
        if alive:
            self._seen = now
        elif now > self._seen + self.pool.patience:
            raise PoolLost(describe_absence(self.pool))
        return alive > 0

    def greet(self, stop: Interruption) -> None:
        """Wait for a first worker, then refuse a cluster that differs from this process.

        Raises
        ------
        Stopped
            If a signal said so.
        PoolLost
            If no worker comes, or the scheduler is gone.
        ClusterError
            If the cluster must not be used.
        """
        while not self.pool.alive():
            stop.check()
            self.check()
            sleep(POLL_SECONDS)
        with lost_with_connection():
            self.versions = check_peers(self.pool.client, self.pool.source)
            if self.pool.shared:
                forget_orphans(self.pool.client)


def check_loss(pool: Pool, answer: object, losses: int, most: int) -> None:
    """Raise PoolLost where a result that did not arrive says that its pool is lost.

    Parameters
    ----------
    pool : Pool
    answer : object
        What came in place of the result.
    losses : int
        Results that were lost in a row.
    most : int
        How many may be.
    """
    if isinstance(answer, NoWorkerError | NoValidWorkerError):
        raise PoolLost(f"no worker process is left or can be started{see_log(pool)}")
    if losses > most or pool.client.status != "running":
        raise PoolLost(f"results do not arrive ({answer or 'cancelled'})")


async def deliver(
    client: Client, key: str, future: Future[Any], to: SimpleQueue[tuple[str, object]]
) -> None:
    """Hand what becomes of a future to the main thread; runs in the event loop's thread.

    Waits on if the result is lost with its worker before it is here. Dask answers requests of the
    same moment together.
    """
    answer: object = None
    try:
        answers = await client.gather([future], errors="skip", asynchronous=True)
        if answers:
            answer = answers[0]
    except Exception as error:
        answer = error
    to.put((key, answer))


def describe_absence(pool: Pool) -> str:
    """Say that there is no worker, why the last one ended, and where more is to be read."""
    last = pool.last_death()
    what = f"there has been no worker for {pool.patience:.0f} s"
    return what + (f" (last: {last})" if last else "") + see_log(pool)


def describe_death(pool: Pool, killed: KilledWorker, *, alone: bool = True) -> str:
    """Say how the worker of a task ended, and where more is to be read.

    Parameters
    ----------
    pool : Pool
    killed : KilledWorker
    alone : bool
        Whether nothing else ran in the pool.
    """
    times = "once" if killed.allowed_failures < 1 else f"{killed.allowed_failures + 1} times"
    if _went_over_memory(pool, killed.last_worker.address):
        limit = show_size(killed.last_worker.memory_limit or 0)
        end = f"{'alone ' * alone}it took its worker over the memory limit of {limit}, {times}"
        return f"{end}; {pool.more_memory}{see_log(pool)}"
    last = pool.last_death()
    end = f"its worker process died {times}" + " while it ran alone" * alone
    return end + (f" (last: {last})" if last else "") + see_log(pool)


def _went_over_memory(pool: Pool, worker: str) -> bool:
    """Whether a nanny told the scheduler that it ended this worker for its memory."""
    with suppress(Exception):
        events = pool.client.get_events("worker-restart-memory")
        return any(event["worker"] == worker for _, event in events)
    return False


def see_log(pool: Pool) -> str:
    """The end of a sentence: where more is to be read; empty where nothing is."""
    return "" if pool.log is None else f"; see {pool.log}"
