"""A search with a custom objective on workers: the same bits, through lost workers."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import numpy as np
import psutil
import pytest
from distributed import Client, LocalCluster
from runs import check_gone

import ppdm_dask as pp
from ppdm_dask.cluster import population as population_room
from ppdm_dask.cluster.client import ENVIRONMENT, LEAKED
from ppdm_dask.cluster.population import population_map
from ppdm_dask.cluster.surroundings import environment_kept
from ppdm_dask.errors import InputError, PPDMError
from ppdm_dask.search.problem import Problem, evaluate

pytestmark = pytest.mark.cluster

PRIOR = [0.2, 0.5, 0.3]
PROBLEM = Problem(PRIOR, 1_000, 0.8)
DRIVER = os.getpid()


def objective(P):
    """Error and privacy of the paper, rounded as the stack happens to be."""
    found = evaluate(PROBLEM, P)
    return np.stack([found.privacy, found.mse * (1 + 1e-12 * P.sum())], axis=1)


class Deadly:
    """Ends its process as often as there are files to take; the driver's own stays."""

    def __init__(self, folder: Path, driver: int) -> None:
        self.folder, self.driver = folder, driver

    def __call__(self, P):
        if os.getpid() != self.driver:
            for file in self.folder.glob("kill-*"):
                try:
                    file.unlink()
                except FileNotFoundError:
                    continue
                os.kill(os.getpid(), signal.SIGKILL)
        return objective(P)


def broken(driver, P):
    return objective(P) if os.getpid() == driver else np.zeros(3)


def search(function, generations=12, **arguments):
    return pp.optimize(
        PRIOR,
        1_000,
        0.8,
        method="spea2",
        objective=function,
        generations=generations,
        **arguments,
    )


@pytest.fixture(scope="module")
def serial():
    return search(objective)


@pytest.fixture(autouse=True)
def nothing_is_left():
    before = dict(os.environ)
    yield
    after = dict(os.environ)
    assert not [c for c in multiprocessing.active_children() if c.name.startswith("Dask Worker")]
    before.pop("PYTEST_CURRENT_TEST"), after.pop("PYTEST_CURRENT_TEST")
    assert before == after


@pytest.mark.parametrize("workers", [1, 2])
def test_workers_find_the_same_bits(serial, workers, tmp_path):
    log = tmp_path / "workers.log"
    with population_map(workers=workers, worth_seconds=0, log=log) as population:
        front = search(objective, map=population)
        assert population.away
    assert front.identical(serial)


def test_workers_that_are_killed_in_mid_evolution_change_nothing(serial, tmp_path):
    """One within a chunk, one between two generations, one of the same chunk again."""
    killed = []

    def trouble(generation: int, _: int) -> None:
        if generation == 3:
            (tmp_path / "kill-1").touch()
        if generation == 6:
            workers = [
                child
                for child in multiprocessing.active_children()
                if child.name.startswith("Dask Worker")
            ]
            os.kill(workers[0].pid, signal.SIGKILL)
            killed.append(workers[0].pid)
        if generation == 9:
            (tmp_path / "kill-2").touch()
            (tmp_path / "kill-3").touch()

    with population_map(workers=2, worth_seconds=0) as population:
        front = search(Deadly(tmp_path, DRIVER), map=population, progress=trouble)
    assert killed and not list(tmp_path.glob("kill-*"))
    front.attrs["objective"] = serial.attrs["objective"]
    assert front.identical(serial)


def test_an_objective_that_ends_every_worker_is_given_up(tmp_path):
    for i in range(50):
        (tmp_path / f"kill-{i}").touch()
    with (
        population_map(workers=1, worth_seconds=0) as population,
        pytest.raises(
            PPDMError,
            match=r"^objective: on a chunk of \d+ matrices its worker process "
            r"died 4 times \(last: Worker process \d+ was killed by signal 9",
        ),
    ):
        search(Deadly(tmp_path, DRIVER), map=population)
    assert len(list(tmp_path.glob("kill-*"))) == 46


def test_what_an_objective_does_wrong_on_a_worker_is_told_as_here():
    with population_map(workers=1, worth_seconds=0) as population:
        with pytest.raises(InputError, match=r"^objective: broken returned an array of .* \(3,\)"):
            search(partial(broken, DRIVER), map=population)
        # The workers are still good for another.
        assert len(search(objective, 1, map=population)["error"])


def test_what_cannot_be_sent_is_told_in_one_line():
    lock = multiprocessing.Lock()

    def locked(P):
        with lock:
            return objective(P)

    with population_map(workers=1, worth_seconds=0) as population:
        with pytest.raises(InputError, match=r"^this objective cannot be sent to other processes"):
            search(locked, map=population)
        # Another is taken after it.
        assert len(search(objective, 1, map=population)["error"])


def test_a_client_of_one_s_own_is_used_and_left_as_it_was(serial):
    with (
        LocalCluster(
            n_workers=2,
            threads_per_worker=1,
            processes=False,
            host="127.0.0.1",
            protocol="tcp://",
            dashboard_address="127.0.0.1:0",
        ) as cluster,
        Client(cluster) as client,
    ):
        with population_map(client, worth_seconds=0) as population:
            front = search(objective, map=population)
        assert front.identical(serial)
        assert client.status == "running"
        plugins = client.run_on_scheduler(
            lambda dask_scheduler: list(dask_scheduler.worker_plugins)
        )
        assert not [name for name in plugins if name.startswith("ppdm:")]


SCRIPT = """
import time
import numpy as np
import ppdm_dask as pp
from ppdm_dask.cluster.population import population_map

def slow(P):
    time.sleep(0.001 * len(P))
    return np.stack([1 - P[:, 0, 0], 2 - P[:, 0, 0] - P[:, 1, 1]], axis=1)

def told(done, whole):
    print(done, flush=True)

with population_map(workers=2, worth_seconds=0) as population:
    pp.optimize([0.3, 0.7], 100, method="spea2", objective=slow, map=population,
                generations=10_000, progress=told)
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_search_and_its_workers(number, tmp_path):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    with subprocess.Popen(
        [sys.executable, str(script)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "1\n"
            children = psutil.Process(process.pid).children(recursive=True)
            assert len(children) >= 2
            # A terminal's Ctrl-C goes to the whole group.
            (os.killpg if number == signal.SIGINT else os.kill)(process.pid, number)
            began = time.monotonic()
            _, errors = process.communicate(timeout=60)
        finally:
            process.kill()
    # Between two generations SIGTERM ends the process as it does any other.
    orderly = -number if number == signal.SIGINT else 128 + number
    assert process.returncode in (orderly, -number)
    check_gone(children, 20)
    assert time.monotonic() - began < 60
    last = errors.strip().splitlines()
    assert last == [] if number == signal.SIGTERM else last[-1] == "KeyboardInterrupt"
    assert "Dask" not in errors and "distributed" not in errors


def marking(driver, folder, P):
    """Evaluated elsewhere than in the driver, it leaves a mark."""
    if os.getpid() != driver:
        Path(folder, str(os.getpid())).touch()
    return objective(P)


def searched(function, **arguments):
    front = search(function, 0, **arguments)
    front.attrs["objective"] = "objective"
    return front


def test_a_search_takes_the_active_client_or_the_one_given(tmp_path, monkeypatch):
    monkeypatch.setattr(population_room, "WORTH_SECONDS", 0.0)
    expected = search(objective, 0)
    with (
        environment_kept([*ENVIRONMENT, *LEAKED]),
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address="127.0.0.1:0") as cluster,
    ):
        for default in (False, True):
            (folder := tmp_path / str(default)).mkdir()
            function = partial(marking, DRIVER, str(folder))
            with Client(cluster, set_as_default=default) as client:
                given = {} if default else {"client": client}
                assert searched(function, **given).identical(expected)
                assert len(list(folder.iterdir())) == 2
                # Methods that have no work for workers take a client too.
                pp.optimize(PRIOR, 1_000, 0.8, method="bound", **given)
                # Within a task its own thread does it, which would wait for itself.
                assert client.submit(searched, objective).result(60).identical(expected)
    with pytest.raises(InputError, match=r"^give map or client, not both"):
        search(objective, 0, map=map, client=client)
