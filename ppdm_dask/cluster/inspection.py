"""Check a cluster before a run: one worker, its environment, and a real batch."""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import dask
import numpy as np

from ppdm_dask.cluster.client import Pool
from ppdm_dask.cluster.kinds import Profile
from ppdm_dask.cluster.kinds.base import show_size
from ppdm_dask.cluster.losses import PoolLost, describe_absence, lost_with_connection, plugin_name
from ppdm_dask.cluster.worker import (
    Failure,
    WorkPlugin,
    accepts_strangers,
    check_peers,
    own_versions,
    parts,
    perform_batch,
)
from ppdm_dask.engine.cells import Cell, Performer, Result, Work
from ppdm_dask.engine.environment import environment
from ppdm_dask.errors import ClusterError, ClusterUnreachable

__all__ = ["Finding", "inspect_cluster"]


REPEATS = 8
BATCH_SECONDS = 120.0
MOST_CLOCK_SECONDS = 30.0


Job = Callable[[int], tuple[Work, Cell]]


@dataclass(frozen=True)
class Finding:
    """One line about something that was checked.

    Parameters
    ----------
    subject : str
        What was looked at.
    found : str
        What it is like.
    ok : bool
        Whether a run should proceed with it.
    """

    subject: str
    found: str
    ok: bool


def inspect_cluster(profile: Profile, folder: Path, job: Job) -> list[Finding]:
    """Start the cluster of a profile with one worker, or connect to a running one, and check it.

    Parameters
    ----------
    profile : Profile
        Where to compute.
    folder : Path
        For logs.
    job : callable
        Returns, for a number of repeats, the work and a cell of a real job, which is then computed.

    Raises
    ------
    ClusterError
        If the cluster cannot be reached or started, or must not be used.
    """
    began = time.monotonic()
    with profile.with_workers(1).pool(folder) as pool:
        try:
            with lost_with_connection():
                _wait_for_worker(pool)
                elapsed = time.monotonic() - began
                check_peers(pool.client, profile.source)
                return [_reached(pool, elapsed), *_look(profile, pool, job)]
        except PoolLost as loss:
            raise ClusterUnreachable(f"{profile.source}: {loss}", profile) from loss


def _wait_for_worker(pool: Pool) -> None:
    end = time.monotonic() + pool.patience
    while not pool.alive():
        if time.monotonic() > end:
            raise PoolLost(describe_absence(pool))
        time.sleep(0.1)


def _reached(pool: Pool, seconds: float) -> Finding:
    address = pool.client.scheduler_info(n_workers=0)["address"]
    return Finding("scheduler", f"{address}, a worker after {seconds:.1f} s", True)


def _look(profile: Profile, pool: Pool, job: Job) -> Iterator[Finding]:
    yield Finding("versions", ", ".join(f"{k} {v}" for k, v in own_versions().items()), True)
    info: Any = pool.client.scheduler_info(n_workers=-1)
    workers = info["workers"]
    if pool.shared:
        there = f"{len(workers)} of {profile.workers}"
        yield Finding("workers there", there, len(workers) >= profile.workers)
    yield _encryption(profile, pool, [info["address"], *workers])
    yield _batch(pool, list(workers), job)
    limits = {about["memory_limit"] for about in workers.values()}
    shown = ", ".join(show_size(limit) if limit else "none" for limit in limits)
    yield Finding("memory limit", f"{shown} a worker", limits == {profile.memory})
    # Threads are asked for after a batch, when libraries are loaded and limited.
    about = pool.client.run(describe_worker)
    libraries = {threads for each in about.values() for threads in each["libraries"]}
    threads = {each["nthreads"] for each in workers.values()}
    found = f"{_range(threads)} a worker, {_range(libraries)} in numerical libraries"
    yield Finding("threads", found, threads == libraries == {1})
    deaths = pool.client.run_on_scheduler(allowed_failures)
    yield Finding("worker deaths allowed", f"{deaths} a batch", deaths >= 3)
    began = time.time()
    stamps = pool.client.run(time.time)
    ended = time.time()
    off = max(max(began - stamp, stamp - ended, 0.0) for stamp in stamps.values())
    yield Finding("clocks", f"{off:.1f} s off at most", off <= MOST_CLOCK_SECONDS)
    ours = _processor()
    same = all(each["processor"] == ours for each in about.values())
    what = "the same features here and there" if same else "other features there; see limits.md"
    yield Finding("processors", what, same)


def _encryption(profile: Profile, pool: Pool, addresses: list[str]) -> Finding:
    """Whether strangers are refused: by the scheduler, from here, and by workers, from there."""
    schemes = {found[0] for address in addresses if (found := parts(address))}
    if profile.security is None:
        return Finding("encryption", "none, on the loopback interface", schemes <= {"tcp"})
    open_to = [address for address in addresses[:1] if accepts_strangers(address)]
    answers = pool.client.run(_accepts_strangers)
    open_to += [address for address, answer in answers.items() if answer]
    if open_to:
        return Finding("encryption", f"{', '.join(open_to)}: open without certificate", False)
    return Finding("encryption", "TLS; strangers are refused", schemes == {"tls"})


def _accepts_strangers(dask_worker: Any) -> bool:
    return accepts_strangers(dask_worker.address)


def _batch(pool: Pool, workers: list[str], job: Job) -> Finding:
    """Have each worker do a batch of a published experiment, and do it here as well."""
    work, cell = job(REPEATS)
    name = plugin_name(pool.client)
    log = None if pool.remote or pool.log is None else str(pool.log)
    pool.client.register_plugin(WorkPlugin(work, [cell], name, log, compare=pool.remote), name=name)
    try:
        # The first batch of a worker loads and compiles, so that time is taken of another.
        answers = _send(pool, name, workers)
        began = time.monotonic()
        answers += _send(pool, name, workers[:1])
        seconds = time.monotonic() - began
    finally:
        if pool.shared:
            pool.client.unregister_worker_plugin(name)
    with Performer(work) as performer:
        here = performer.perform(cell, 0, REPEATS)
    same = all(
        np.array_equal(here.arrays[key], answer.arrays[key])
        for answer in answers
        for key in here.arrays
    )
    numbers = "the same numbers as here" if same else "other numbers than here"
    found = f"{REPEATS} repeats there and back in {1000 * seconds:.0f} ms, {numbers}"
    return Finding("batch", found, same)


def _send(pool: Pool, name: str, workers: list[str]) -> list[Result]:
    futures = [
        pool.client.submit(
            perform_batch,
            name,
            0,
            0,
            REPEATS,
            key=f"{name}-{uuid.uuid4().hex}",
            workers=[worker],
            pure=False,
        )
        for worker in workers
    ]
    answers: list[Result] = []
    for future in futures:
        answer = future.result(timeout=BATCH_SECONDS)
        if not isinstance(answer, Result):
            what = answer.summary if isinstance(answer, Failure) else answer.reason
            raise ClusterError(f"{pool.source}: a worker cannot compute a batch: {what}", answer)
        answers.append(answer)
    return answers


def describe_worker() -> dict[str, Any]:
    """What a worker process is like; called in it."""
    import threadpoolctl

    libraries = [info["num_threads"] for info in threadpoolctl.threadpool_info()]
    return {"libraries": libraries, "processor": _processor(), "pid": os.getpid()}


def allowed_failures() -> int:
    """How often a batch may end its worker and be sent again; called in the scheduler."""
    return int(dask.config.get("distributed.scheduler.allowed-failures"))


def _processor() -> list[str]:
    about = environment()
    return [about["machine"], *about["cpu_features"]]


def _range(numbers: set[int]) -> str:
    return " to ".join(str(number) for number in sorted({min(numbers), max(numbers)}))
