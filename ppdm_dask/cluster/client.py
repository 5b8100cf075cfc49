"""A pool of worker processes on this machine, by Dask, that other users cannot reach.

It listens on the loopback interface, with certificates that are made for it and forgotten with it.
"""

from __future__ import annotations

import logging
import multiprocessing
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from multiprocessing import resource_tracker
from pathlib import Path

import dask
from distributed import Client, SpecCluster
from distributed.system import MEMORY_LIMIT

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
from ppdm_dask.engine.batches import THREAD_VARIABLES
from ppdm_dask.errors import InputError

__all__ = ["Pool", "borrowed_pool", "local_pool"]


HOST = "127.0.0.1"
MEMORY_SHARE = 0.9

ENVIRONMENT = {
    **dict.fromkeys(THREAD_VARIABLES, "1"),
    # The C library keeps what is freed for the next array: mapping each anew, page by page, takes a
    # third of a worker's time. With one threshold alone the other would fall to 128 KiB.
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
        Starts workers anew whose nanny has given up.
    last_death : callable
        How the worker process ended that ended last; an empty text if that is not known.
    log : Path or None
        File of this machine that takes what workers write to standard error, or what is known of
        them.
    remote : bool
        Whether workers may run on other machines or from another installation, so that they have
        to be compared with this process before they are given work.
    shared : bool
        Whether scheduler and workers go on after the run.
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
