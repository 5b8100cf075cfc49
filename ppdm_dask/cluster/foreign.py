"""A pool behind a scheduler that runs somewhere and was not started by this process."""

from __future__ import annotations

import socket
import ssl
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, Self

import dask
from distributed import Client
from distributed.versions import VersionMismatchWarning
from tornado.ioloop import PeriodicCallback

from ppdm_dask.cluster.client import Pool
from ppdm_dask.cluster.security import Certificates
from ppdm_dask.cluster.surroundings import interrupts_blocked, logging_to
from ppdm_dask.engine.batches import summarise
from ppdm_dask.errors import ClusterUnreachable

__all__ = ["CONNECT_SECONDS", "NETWORK", "WorkerCount", "connected", "foreign_pool"]


CONNECT_SECONDS = 10.0

NETWORK = {
    "distributed.comm.timeouts.connect": f"{CONNECT_SECONDS:.0f}s",
    # A cut connection counts as lost after this, and not before: cables are plugged in again.
    "distributed.comm.timeouts.tcp": "15s",
}


@contextmanager
def foreign_pool(
    address: str, workers: int, log: Path, *, certificates: Certificates | None, source: str
) -> Iterator[Pool]:
    """Connect to a scheduler; it and its workers stay when the context ends.

    Parameters
    ----------
    address : str
        The scheduler's.
    workers : int
        How many workers it should have.
    log : Path
        File that takes the log of Dask's parts in this process.
    certificates : Certificates or None
        What this process shows the scheduler, and whom it trusts.
    source : str
        Named where the scheduler does not answer.

    Raises
    ------
    ClusterUnreachable
        If no scheduler answers.
    """
    with ExitStack() as stack:
        stack.enter_context(logging_to(log))
        stack.enter_context(dask.config.set(NETWORK))
        client = stack.enter_context(connected(address, certificates, source))
        count = stack.enter_context(WorkerCount(client))
        yield Pool(
            client=client,
            workers=workers,
            alive=lambda: count.value,
            mend=lambda: None,
            last_death=lambda: "",
            log=log,
            remote=True,
            source=source,
            shared=True,
            more_memory="start workers with a larger --memory-limit",
        )


@contextmanager
def connected(address: str, certificates: Certificates | None, source: str) -> Iterator[Client]:
    """Client of the scheduler at an address, which is used by name nowhere else.

    Raises
    ------
    ClusterUnreachable
        If no scheduler answers.
    """
    security = None if certificates is None else certificates.security("client")
    try:
        # Differences that matter are refused with a line of our own.
        with interrupts_blocked(), warnings.catch_warnings():
            warnings.simplefilter("ignore", VersionMismatchWarning)
            client = Client(
                address,
                security=security,
                set_as_default=False,
                timeout=CONNECT_SECONDS,
                direct_to_workers=False,
            )
    except Exception as error:
        which = "scheduler" if certificates is None else "scheduler that takes our certificate"
        what = f"{source}: no {which} answers at {address} ({_reason(error)})"
        raise ClusterUnreachable(what, address) from error
    try:
        yield client
    finally:
        with suppress(Exception):
            client.close(timeout=2)


def _reason(error: BaseException) -> str:
    """Say why a connection failed: Dask tries again until its time is over, and says only that."""
    chain: list[BaseException] = [error]
    while (before := chain[-1].__cause__ or chain[-1].__context__) is not None:
        chain.append(before)
    for known in (ssl.SSLError, socket.gaierror, ConnectionRefusedError):
        for each in chain:
            if isinstance(each, known):
                return summarise(each)
    if any(isinstance(each, TimeoutError | OSError) for each in chain):
        return f"no answer within {CONNECT_SECONDS:.0f} s"
    return summarise(error)


class WorkerCount:
    """Context that keeps count of a scheduler's workers, asking in the client's own thread.

    Asking from the thread that drives a run would hold it up when the scheduler is gone.

    Parameters
    ----------
    client : distributed.Client
        Connection to the scheduler.
    """

    def __init__(self, client: Client) -> None:
        self.client = client
        self.loop: Any = client.loop
        self.value = 0
        self._every = PeriodicCallback(self._ask, 500)

    async def _ask(self) -> None:
        with suppress(Exception):
            scheduler: Any = self.client.scheduler
            found = await scheduler.identity(n_workers=0)
            self.value = int(found["n_workers"])

    def __enter__(self) -> Self:
        self.loop.add_callback(self._every.start)
        return self

    def __exit__(self, *_: object) -> None:
        self.loop.add_callback(self._every.stop)
