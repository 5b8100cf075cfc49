"""What a run on workers costs besides its work, and how far that carries.

    python benchmarks/scaling.py [--json]         measures, and says whether floors hold
    python benchmarks/scaling.py --figure FILE    draws docs/scaling.md's figure, from part 1 alone

1. Costs of a batch: CPU of driver, scheduler and worker, each in a process of its own, from the
   difference between a run of few and one of many empty batches; and bytes of a batch.
2. A sweep of 240 batches of 0.3 s on two workers: CPU of all processes that is not the work's own,
   starting them included.
3. One and two workers, ours and a bare pool of processes, in turns: what the second worker gains.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import platform
import resource
import socket
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import psutil
from cluster_model import Costs, simulate
from timing import Claim

from ppdm_dask.cluster.kinds import load_profile
from ppdm_dask.cluster.runner import execute
from ppdm_dask.engine.cells import Cell
from ppdm_dask.engine.ledger import Ledger

SWEEP_BATCHES, SWEEP_SECONDS = 240, 0.3
FEW, MANY, COST_ROUNDS = 200, 1_200, 3
ROUNDS = 5
LATENCY = 0.0005  # a good network, one way
SIZES = (10, 20, 50, 100, 200, 500, 1_000)
LENGTHS = (0.5, 1.0, 2.0, 5.0)


@dataclass(frozen=True)
class Busy:
    """Trials that compute for some CPU seconds each, and say what they took."""

    seconds: float

    def trials(self, cell: Cell, start: int, stop: int) -> dict[str, np.ndarray]:
        return {"cpu": np.array([spend(self.seconds) for _ in range(start, stop)])}


def spend(seconds: float) -> float:
    """Compute for that long, by the process's own clock; the seconds it was."""
    began = time.process_time()
    block = np.arange(20_000.0)
    while time.process_time() - began < seconds:
        np.sqrt(block).sum()
    return time.process_time() - began


def cells(count: int, repeats: int) -> list[Cell]:
    return [Cell(f"c={i}", {"c": i}, repeats) for i in range(count)]


def run(work: Busy, grid: list[Cell], **where: Any) -> tuple[float, float]:
    """Wall seconds of a run, and CPU seconds of its trials."""
    with tempfile.TemporaryDirectory() as folder, Ledger(Path(folder) / "ledger.sqlite") as ledger:
        began = time.perf_counter()
        execute(work, grid, ledger, **where)
        seconds = time.perf_counter() - began
        assert not ledger.missing(grid)
        return seconds, sum(float(ledger.collect(cell)["cpu"].sum()) for cell in grid)


# -- costs of a batch --------------------------------------------------------------------------


@contextmanager
def separate_processes(workers: int) -> Iterator[tuple[Path, psutil.Process, psutil.Process]]:
    """Scheduler and workers in processes of their own: profile, scheduler, the workers' nanny."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        address = f"tcp://127.0.0.1:{port}"
        common = ["--host", "127.0.0.1", "--dashboard-address", "127.0.0.1:0"]
        commands = [
            ["scheduler", "--port", str(port), *common],
            ["worker", address, *common, "--nthreads", "1", "--nworkers", str(workers)],
        ]
        commands[1] += ["--memory-limit", "1GiB", "--local-directory", name]
        variables = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        variables["PYTHONPATH"] = os.pathsep.join([*sys.path[:1], os.environ.get("PYTHONPATH", "")])
        started = []
        with (folder / "log").open("wb") as log:
            for command in commands:
                program = [sys.executable, "-m", f"distributed.cli.dask_{command[0]}"]
                started.append(
                    psutil.Popen([*program, *command[1:]], stdout=log, stderr=log, env=variables)
                )
                time.sleep(1)
        profile = folder / "profile.toml"
        profile.write_text(
            f'kind = "scheduler"\naddress = "{address}"\nworkers = {workers}\nmemory = "1 GiB"\n'
        )
        try:
            yield profile, started[0], started[1]
        finally:
            for process in reversed(started):
                process.terminate()
                process.wait(20)


def cpu(process: psutil.Process) -> float:
    """CPU seconds of a process and of its children that are there."""
    family = [process, *process.children(recursive=True)]
    return sum(sum(each.cpu_times()[:2]) for each in family)


def costs_of_a_batch() -> dict[str, float]:
    """Seconds of CPU by process, and bytes, of one batch; medians of some rounds."""
    costs: dict[str, list[float]] = {"driver": [], "scheduler": [], "worker": []}
    with separate_processes(1) as (path, scheduler, nanny):
        # One repeat a batch: nothing is as short as these batches should be.
        where = {"profile": load_profile(path), "batch_seconds": 1e-9}
        run(Busy(0.0), cells(4, 50), **where)
        for _ in range(COST_ROUNDS):
            found: dict[int, dict[str, float]] = {}
            for batches in (FEW, MANY):
                before = (time.process_time(), cpu(scheduler), cpu(nanny))
                _, work = run(Busy(0.0), cells(4, batches // 4), **where)
                after = (time.process_time(), cpu(scheduler), cpu(nanny))
                spent = [b - a for a, b in zip(before, after, strict=True)]
                found[batches] = dict(zip(costs, spent, strict=True))
                found[batches]["worker"] -= work
            for key, each in costs.items():
                each.append((found[MANY][key] - found[FEW][key]) / (MANY - FEW))
    medians = {key: statistics.median(each) for key, each in costs.items()}
    return medians | {"bytes": float(bytes_of_a_batch())}


def bytes_of_a_batch() -> int:
    """Bytes that go to a worker and come back for one batch of the published sweep."""
    from distributed.protocol import serialize_bytes

    from ppdm_dask.cluster.worker import perform_batch
    from ppdm_dask.engine.cells import Performer
    from ppdm_dask.experiments.kinds import load_recipe, make_plan

    plan = make_plan(load_recipe("electronic-surveys").with_changes(repeats=10))
    with Performer(plan.work) as performer:
        result = performer.perform(plan.cells[0], 0, 10)
    there = serialize_bytes((perform_batch, ("ppdm-" + 32 * "0", 0, 0, 10)))
    return len(there) + len(serialize_bytes(result))


# -- share of a sweep ---------------------------------------------------------------------------


def share_of_a_sweep() -> dict[str, float]:
    """CPU that is not the work's own, by what it went to, as parts of all CPU."""

    def used(who: int) -> float:
        times = resource.getrusage(who)
        return times.ru_utime + times.ru_stime

    began = used(resource.RUSAGE_SELF), used(resource.RUSAGE_CHILDREN), time.thread_time()
    seconds, work = run(
        Busy(SWEEP_SECONDS),
        cells(8, SWEEP_BATCHES // 8),
        workers=2,
        batch_seconds=SWEEP_SECONDS,
    )
    driver = time.thread_time() - began[2]
    own = used(resource.RUSAGE_SELF) - began[0]
    children = used(resource.RUSAGE_CHILDREN) - began[1]
    everything = own + children
    return {
        "seconds": seconds,
        "work": work,
        "share": 1 - work / everything,
        "driver": driver / everything,
        "scheduler": (own - driver) / everything,
        "workers": (children - work) / everything,
    }


# -- the second worker --------------------------------------------------------------------------


def gains() -> dict[str, list[float]]:
    """Seconds by who and how many, round by round, in turns; the pools are up before."""
    from distributed import Client, LocalCluster

    # A cluster's own silence ends before its last messages.
    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    grid = cells(4, 60)
    spawn = get_context("spawn")
    contestants: dict[str, Callable[[], float]] = {}
    stack = []
    for workers in (1, 2):
        cluster = LocalCluster(
            n_workers=workers,
            threads_per_worker=1,
            dashboard_address="127.0.0.1:0",
            memory_limit="1GiB",
            silence_logs=logging.CRITICAL,
        )
        client = Client(cluster, set_as_default=False)
        pool = ProcessPoolExecutor(workers, mp_context=spawn)
        stack += [client, cluster]
        contestants[f"ours {workers}"] = lambda client=client: run(
            Busy(0.03), grid, client=client, batch_seconds=0.3
        )[0]
        contestants[f"pool {workers}"] = lambda pool=pool: bare(pool)
    try:
        for contestant in contestants.values():
            contestant()
        times: dict[str, list[float]] = {name: [] for name in contestants}
        for _ in range(ROUNDS):
            for name, contestant in contestants.items():
                times[name].append(contestant())
    finally:
        for each in stack:
            each.close()
    return times


def bare(pool: ProcessPoolExecutor) -> float:
    """The same work in 24 pieces of 0.3 s, by a pool of processes and nothing else."""
    began = time.perf_counter()
    for _ in pool.map(spend_often, [0.03] * 24, [10] * 24):
        pass
    return time.perf_counter() - began


def spend_often(seconds: float, times: int) -> None:
    for _ in range(times):
        spend(seconds)


# -- how far that carries -----------------------------------------------------------------------


def efficiency(workers: int, seconds: float, costs: Costs) -> float:
    """Speed of a run of 16 batches a worker, as a part of what it would be without costs."""
    rng = np.random.default_rng(workers)
    lengths = rng.uniform(0.8 * seconds, 1.2 * seconds, size=16 * workers)

    def run_seconds(given: Costs) -> float:
        draws = iter(lengths)
        return simulate(workers, 16 * workers, lambda: float(next(draws)), given).seconds

    return run_seconds(Costs(0.0, 0.0)) / run_seconds(costs)


def project(costs: dict[str, float]) -> dict[str, dict[str, float]]:
    """Efficiency by batch length and number of workers; scheduler in the driver, and apart."""
    found = {}
    for shared in (True, False):
        model = Costs(costs["scheduler"], costs["driver"], costs["worker"], LATENCY, shared)
        for length in LENGTHS:
            name = f"{'in the driver' if shared else 'apart'}, {length:g} s"
            found[name] = {str(size): efficiency(size, length, model) for size in SIZES}
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--figure", type=Path, help="draw the projection into this file")
    given = parser.parse_args()
    costs = costs_of_a_batch()
    machine = f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}"
    facts: dict[str, Any] = {
        "machine": machine,
        "load": os.getloadavg()[0],
        "costs of a batch": costs,
        "efficiency": project(costs),
    }
    if given.figure is not None:
        from scaling_figure import draw

        draw(facts, given.figure)
        print(json.dumps(facts, indent=1))
        return
    share = share_of_a_sweep()
    times = gains()
    one_two = {
        who: [a / b for a, b in zip(times[f"{who} 1"], times[f"{who} 2"], strict=True)]
        for who in ("ours", "pool")
    }
    relative = statistics.median(
        ours / pool for ours, pool in zip(one_two["ours"], one_two["pool"], strict=True)
    )
    claims = [
        Claim("CPU besides the work, of all, in a sweep of 240 batches", share["share"], most=0.2),
        Claim("gain of a second worker over that of a bare pool", relative, least=0.9),
    ]
    facts |= {
        "sweep": share,
        "gain": {who: statistics.median(each) for who, each in one_two.items()},
        "claims": [{**asdict(claim), "holds": claim.holds} for claim in claims],
    }
    if given.json:
        print(json.dumps(facts, indent=1))
    else:
        tell(facts, claims)
    sys.exit(0 if all(claim.holds for claim in claims) else 1)


def tell(facts: dict[str, Any], claims: list[Claim]) -> None:
    """Print what was measured."""
    costs, sweep = facts["costs of a batch"], facts["sweep"]
    print(f"{facts['machine']}, load {facts['load']:.1f}")
    for key in ("driver", "scheduler", "worker"):
        print(f"  CPU of the {key:9s} a batch   {costs[key] * 1e3:7.2f} ms")
    print(f"  bytes a batch, there and back {costs['bytes']:7.0f}")
    for key in ("driver", "scheduler", "workers"):
        print(f"  240 batches: {key:9s}        {100 * sweep[key]:7.1f} % of all CPU")
    for who, gain in facts["gain"].items():
        print(f"  1 -> 2 workers, {who}           {gain:7.2f} x")
    print(f"  {'efficiency':28s}" + "".join(f"{size:>7d}" for size in SIZES) + "  workers")
    for name, row in facts["efficiency"].items():
        print(f"  {name:28s}" + "".join(f"{row[str(size)]:7.2f}" for size in SIZES))
    for claim in claims:
        print(f"  {claim}")


if __name__ == "__main__":
    main()
