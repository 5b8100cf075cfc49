"""Pools of Dask workers: on this machine, behind a user's client, or behind a running scheduler.

A pool on this machine cannot be reached by other users: it listens on the loopback interface, with
certificates that are made for it and forgotten with it.
"""

from __future__ import annotations

import logging
import multiprocessing
import os
import socket
import ssl
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from multiprocessing import resource_tracker
from pathlib import Path
from typing import Any, Self

import dask
from distributed import Client, SpecCluster
from distributed.system import MEMORY_LIMIT
from distributed.versions import VersionMismatchWarning
from tornado.ioloop import PeriodicCallback

from ppdm_dask.cluster.nanny import PromptNanny, close_cluster, halt_all, mend_cluster
from ppdm_dask.cluster.security import Certificates, GuardedScheduler, make_certificates
from ppdm_dask.cluster.surroundings import (
    PROCESS_NAME,
    check_semaphores,
    environment_kept,
    interrupts_blocked,
    logging_to,
    main_hidden,
)
from ppdm_dask.engine.cells import THREAD_VARIABLES, summarise
from ppdm_dask.errors import ClusterUnreachable, InputError

HOST = "127.0.0.1"
MEMORY_SHARE = 0.9

ENVIRONMENT = {
    **dict.fromkeys(THREAD_VARIABLES, "1"),
    # The C library keeps what is freed for the next array: mapping each again, page by page, takes
    # a third of a worker's time. With only one threshold the other would fall to 128 KiB.
    "MALLOC_TRIM_THRESHOLD_": str(256 * 2**20),
    "MALLOC_MMAP_THRESHOLD_": str(2**30),
    # A worker configures its logging from the environment, before anything else reaches it.
    "DASK_LOGGING__DISTRIBUTED": "critical",
}
# What else Dask sets in the process that starts the workers.
LEAKED = ("PYTHONHASHSEED", "__DASK_PARENT_PID")

SETTINGS = {
    # A batch whose worker died this many times and once more is suspect; 0 would blame bystanders.
    "distributed.scheduler.allowed-failures": 3,
    "distributed.scheduler.no-workers-timeout": "60s",
    "distributed.deploy.lost-worker-timeout": "60s",
    "distributed.nanny.pre-spawn-environ": ENVIRONMENT,
    # Batches hold little; a worker that outgrows its limit is ended, never paused or spilled.
    "distributed.worker.memory.target": False,
    "distributed.worker.memory.spill": False,
    "distributed.worker.memory.pause": False,
    "distributed.worker.memory.terminate": 0.95,
    "distributed.worker.profile.enabled": False,
    "distributed.admin.system-monitor.gil.enabled": False,
    "distributed.worker.multiprocessing-method": "spawn",
}


@dataclass(frozen=True)
class Pool:
    """Worker processes and the connection to them.

    Parameters
    ----------
    client : distributed.Client
        Connection to the scheduler.
    workers : int
        How many workers there should be.
    alive : callable
        How many workers there are.
    mend : callable
        Starts workers again whose nanny has given up.
    last_death : callable
        How the worker process ended that ended last; an empty text if that is not known.
    log : Path or None
        File of this machine that takes what workers write to standard error, or what is known of
        them.
    remote : bool
        Whether workers may run on other machines or from another installation, so that they have
        to be compared with this process before they are given work.
    shared : bool
        Whether scheduler and workers belong to others and keep running after the run.
    kept : bool
        Whether this process keeps the pool for a later run.
    patience : float
        Seconds without any worker after which the pool counts as lost.
    more_memory : str
        How a user gives a worker more memory, the end of a sentence.
    source : str
        What asked for the pool, for messages: a profile's file.
    """

    client: Client
    workers: int
    alive: Callable[[], int]
    mend: Callable[[], None]
    last_death: Callable[[], str]
    log: Path | None
    remote: bool = False
    shared: bool = False
    kept: bool = False
    patience: float = 60.0
    more_memory: str = "give workers more memory"
    source: str = "the cluster"


@contextmanager
def borrowed_pool(client: Client) -> Iterator[Pool]:
    """Pool behind a client that belongs to the caller, who also closes it.

    Raises
    ------
    InputError
        If the client is not connected.
    """
    if client.status != "running":
        raise InputError(f"this client is {client.status}; a connected one is needed", client)
    workers = max(1, sum(client.nthreads().values()))
    yield Pool(
        client=client,
        workers=workers,
        alive=lambda: workers,
        mend=lambda: None,
        last_death=lambda: "",
        log=None,
        remote=True,
        shared=True,
    )


@contextmanager
def local_pool(
    workers: int,
    log: Path,
    memory_limit: int | None = None,
    *,
    certificates: Certificates | None = None,
    more_memory: str = "take fewer workers, then each has more",
) -> Iterator[Pool]:
    """Start worker processes of one thread each, and end them at the end of the context.

    The context is entered before the workers are up; batches wait for them.

    Parameters
    ----------
    workers : int
        Number of worker processes, 1 or more.
    log : Path
        File that takes the log of Dask's parts.
    memory_limit : int, optional
        Bytes a worker may use; the workers share nine tenths of the memory by default.
    certificates : Certificates, optional
        What the parts show each other; by default new ones are made for this pool.
    more_memory : str
        How a user gives a worker more memory, the end of a sentence.
    """
    security = (certificates or make_certificates()).security()
    limit = memory_limit or int(MEMORY_LIMIT * MEMORY_SHARE / workers)
    with ExitStack() as stack:
        stack.enter_context(logging_to(log))
        stack.enter_context(environment_kept([*ENVIRONMENT, *LEAKED]))
        stack.enter_context(main_hidden())
        stack.enter_context(dask.config.set(SETTINGS))
        # The tracker first: a semaphore would start one that is not quiet.
        _start_tracker()
        check_semaphores()
        stack.callback(_kill_left, {child.pid for child in multiprocessing.active_children()})
        with interrupts_blocked():
            common = {"host": HOST, "protocol": "tls://", "security": security}
            worker = {"nthreads": 1, "memory_limit": limit, "env": ENVIRONMENT, **common}
            cluster = SpecCluster(
                scheduler={"cls": GuardedScheduler, "options": {"port": 0, **common}},
                worker={"cls": PromptNanny, "options": worker},
                security=security,
                silence_logs=False,
                name="local",
            )
            stack.callback(
                close_cluster, cluster, halt_all, cluster.scheduler_address, within_seconds=1
            )
            client = Client(cluster, set_as_default=False, direct_to_workers=True)
            stack.callback(client.close, timeout=2)
        cluster.scale(workers)
        deaths = _Deaths()
        nanny = logging.getLogger("distributed.nanny")
        nanny.addHandler(deaths)
        stack.callback(nanny.removeHandler, deaths)
        yield Pool(
            client=client,
            workers=workers,
            alive=lambda: len(cluster.scheduler_info["workers"]),
            mend=lambda: mend_cluster(cluster, workers),
            last_death=lambda: deaths.last,
            log=log,
            more_memory=more_memory,
        )


def _start_tracker() -> None:
    """Start the process that frees what killed processes leave, and have it keep quiet.

    Its start unblocks signals in the thread that does it, so that it must not be left to the
    threads of the cluster. After a `kill -9` of this process it would count the semaphores left.
    """
    with environment_kept(["PYTHONWARNINGS"]):
        given = os.environ.get("PYTHONWARNINGS")
        quiet = "ignore:resource_tracker:UserWarning"
        os.environ["PYTHONWARNINGS"] = f"{given},{quiet}" if given else quiet
        resource_tracker.ensure_running()


class _Deaths(logging.Handler):
    """Remembers what nannies say of the end of worker processes; they tell nobody else."""

    last = ""

    def emit(self, record: logging.LogRecord) -> None:
        message = record.getMessage()
        if message.startswith("Worker process"):
            self.last = message


def _kill_left(strangers: set[int | None]) -> None:
    """Kill worker processes that outlived their nanny."""
    for child in multiprocessing.active_children():
        if child.pid not in strangers and child.name.startswith(PROCESS_NAME):
            child.kill()


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
        # Differences that matter are refused with one line that says who has what.
        with interrupts_blocked(), warnings.catch_warnings():
            warnings.simplefilter("ignore", VersionMismatchWarning)
            client = Client(
                address,
                security=security,
                set_as_default=False,
                timeout=CONNECT_SECONDS,
                direct_to_workers=False,  # which this machine may not reach
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
    # By what tells most, not by depth: a timeout is raised from the refusal that explains it.
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
