"""Doing all that is missing of a run: in this process, or on workers where they are worth it.

Where nothing is asked for, work that runs without the interpreter's lock is shared by threads of
this process, and other work moves to worker processes if that saves more than their start costs.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from ppdm_dask.cluster.keeping import lend
from ppdm_dask.engine.cells import (
    Cell,
    Performer,
    Progress,
    TrialError,
    Unlocked,
    Work,
    summarise,
)
from ppdm_dask.engine.interrupt import Interruption, Stopped
from ppdm_dask.engine.ledger import Ledger
from ppdm_dask.engine.planner import Outcome, Tally
from ppdm_dask.engine.threads import drive
from ppdm_dask.errors import InputError, RunInterrupted
from ppdm_dask.system import usable_cores

if TYPE_CHECKING:
    from distributed import Client

    from ppdm_dask.cluster.client import Pool
    from ppdm_dask.cluster.kinds import Profile

LOG = logging.getLogger(__name__)

# Wall time that workers have to save: two are up after two to four seconds, which cost as much CPU.
WORTH_WORKERS_SECONDS = 4.0

BATCH_SECONDS = 0.5
# What driver and scheduler need for a batch, with some reserve: docs/scaling.md. Shorter batches
# than this times the number of workers would have workers wait for them.
FRONT_SECONDS = 0.005


def execute(
    work: Work,
    cells: Sequence[Cell],
    ledger: Ledger,
    *,
    workers: int | None = None,
    batch_seconds: float | None = None,
    progress: Callable[[Progress], None] | None = None,
    client: Client | None = None,
    profile: Profile | None = None,
    retry_failed: bool = False,
    stall_seconds: float = 600.0,
) -> Outcome:
    """Compute the repeats that the ledger lacks, and store them batch by batch.

    What comes out does not depend on ``workers``, ``batch_seconds`` or on how often a run was
    stopped and resumed, as long as the work keeps its promise.

    Parameters
    ----------
    work : Work
        The computation; has to be picklable unless ``workers`` is 0.
    cells : sequence of Cell
        Grid points, with different ids and different parameters.
    ledger : Ledger
        Open for writing.
    workers : int, optional
        Number of worker processes; 0 stays in one thread of this process. By default work that is
        :class:`~ppdm_dask.engine.cells.Unlocked` takes a thread of this process for each core.
        Other work begins here, and moves to a worker for each core as soon as that saves more than
        4 seconds: on two cores if more than 8 seconds of work are left.
    batch_seconds : float, optional
        Time that a batch should take, above 0. A batch costs driver and scheduler some
        milliseconds, so by default it is half a second up to 100 workers of a profile, and longer
        in proportion with more.
    progress : callable, optional
        Called with a :class:`~ppdm_dask.engine.cells.Progress` after each batch.
    client : distributed.Client, optional
        Connection to a cluster that is to do the work; it stays open. Excludes ``workers``.
    profile : Profile, optional
        Where to compute, whatever the size of the job. Excludes ``workers`` and ``client``.
    retry_failed : bool
        Try again the repeats that an earlier run of this ledger gave up; without it they stay
        given up.
    stall_seconds : float
        Time without a finished batch after which workers count as stuck and are replaced.

    Returns
    -------
    Outcome
        What was done, and which batches were quarantined.

    Raises
    ------
    RunInterrupted
        On SIGINT or SIGTERM; what was finished is stored, and workers have ended.
    TrialError
        If the work raised an exception.
    InputError
        If an argument is out of its range, or two cells are the same.
    PPDMError
        If workers cannot be kept alive, or the ledger refuses a result.
    """
    _check(cells, workers, batch_seconds, client, profile)
    seconds = batch_seconds or _batch_seconds(profile)
    tally = Tally(cells, ledger, seconds, progress, retry_failed=retry_failed)
    elsewhere = client is not None or profile is not None
    try:
        with Interruption() as stop:
            if tally.planner.unfinished and not elsewhere and not workers:
                _run_here(tally, work, stop, 1 if workers == 0 else _cores())
            if tally.planner.unfinished:
                _run_on_workers(tally, work, stop, workers, client, profile, stall_seconds)
        # A signal that came with the last batch is for what would follow, such as another run.
        stop.check()
    except Stopped as stopped:
        raise RunInterrupted(
            f"stopped by {stopped.args[0].name} with {tally.done} of {tally.total} repeats "
            "stored; the same command resumes from there",
            tally.outcome(),
        ) from None
    return tally.outcome()


def _check(
    cells: Sequence[Cell],
    workers: int | None,
    batch_seconds: float | None,
    client: Client | None,
    profile: Profile | None,
) -> None:
    if workers is not None and workers < 0:
        raise InputError(f"workers is {workers}; it must be 0 or more", workers)
    if batch_seconds is not None and not 0 < batch_seconds < float("inf"):
        raise InputError(f"batch_seconds is {batch_seconds}; it must be above 0", batch_seconds)
    if workers is not None and client is not None:
        raise InputError("give workers or client, not both", workers)
    if profile is not None and (workers is not None or client is not None):
        what = "a cluster profile says how many workers there are: give no workers or client"
        raise InputError(what, profile)
    ids: set[str] = set()
    keys: dict[int, str] = {}
    for cell in cells:
        if cell.repeats < 1:
            raise InputError(f"cell {cell.id}: {cell.repeats} repeats; at least 1 is needed", cell)
        if cell.id in ids:
            raise InputError(f"two cells are called {cell.id}; ids must differ", cell)
        ids.add(cell.id)
        twin = keys.setdefault(cell.key, cell.id)
        if twin != cell.id:
            raise InputError(f"cells {twin} and {cell.id} have the same parameters", cell)


def _batch_seconds(profile: Profile | None) -> float:
    return BATCH_SECONDS if profile is None else max(BATCH_SECONDS, FRONT_SECONDS * profile.workers)


def _cores() -> int:
    return usable_cores()


def _run_here(tally: Tally, work: Work, stop: Interruption, cores: int) -> None:
    """Work in this process: in threads if that pays, else until the rest is worth workers."""
    unlocked = cores > 1 and isinstance(work, Unlocked) and all(map(work.unlocked, tally.cells))
    tally.enter(f"{cores} threads" if unlocked else "synchronous")
    if unlocked:
        LOG.info("compiled work: %d threads share it, and no workers are started", cores)
    with Performer(work) as performer:
        # With as many workers as cores, this share of the rest is what they save.
        saved = 1 - 1 / cores
        while unlocked or tally.planner.remaining_seconds() * saved <= WORTH_WORKERS_SECONDS:
            batch = tally.planner.next()
            if batch is None:
                return
            try:
                with stop.at_once():
                    result = performer.perform(batch.cell, batch.start, batch.stop)
            except Exception as error:
                # A library may have made another error of the interruption.
                stop.check()
                raise TrialError(f"{batch}: {summarise(error)}", batch) from error
            tally.store(batch, result)
            if unlocked:
                # The first batch came before: in this thread compiling can be interrupted.
                drive(tally, performer, stop, cores)
                return


def _run_on_workers(
    tally: Tally,
    work: Work,
    stop: Interruption,
    workers: int | None,
    client: Client | None,
    profile: Profile | None,
    stall_seconds: float,
) -> None:
    # Loading Dask takes half a second, which a short run need not spend.
    from dask.system import CPU_COUNT

    from ppdm_dask.cluster.client import borrowed_pool, local_pool
    from ppdm_dask.cluster.session import dispatch

    def connect() -> AbstractContextManager[Pool]:
        if client is not None:
            return borrowed_pool(client)
        if profile is not None:
            return profile.pool(tally.ledger.path.parent)
        count, log = workers or CPU_COUNT, tally.ledger.path.with_name("workers.log")
        return lend(count, log, lambda: local_pool(count, log))

    dispatch(tally, work, stop, connect, stall_seconds)
