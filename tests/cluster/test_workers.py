"""Runs on worker processes: the same numbers, through lost workers, and quietly."""

from __future__ import annotations

import logging
import multiprocessing
import os
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
from distributed import Client, LocalCluster, Worker
from toy_works import Deadly, Draws, Faulty, Hanging, make_cells

from ppdm_dask.cluster import client
from ppdm_dask.cluster.client import local_pool
from ppdm_dask.cluster.keeping import pool_kept
from ppdm_dask.cluster.losses import plugin_name
from ppdm_dask.cluster.runner import execute
from ppdm_dask.cluster.worker import WorkPlugin
from ppdm_dask.engine.cells import Batch, Cell, Progress, TrialError
from ppdm_dask.engine.ledger import Ledger
from ppdm_dask.errors import InputError, PPDMError

pytestmark = pytest.mark.cluster


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ledger.sqlite"


@pytest.fixture(autouse=True)
def nothing_is_left() -> Iterator[None]:
    """No worker process, environment variable or log handler outlives a run."""
    environment = variables()
    handlers = logging.getLogger("distributed").handlers[:]
    yield
    assert worker_pids() == []
    assert variables() == environment
    assert logging.getLogger("distributed").handlers == handlers


def variables() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name != "PYTEST_CURRENT_TEST"}


def worker_pids() -> list[int]:
    children = multiprocessing.active_children()
    return [child.pid for child in children if child.pid and child.name.startswith("Dask Worker")]


def collected(cells: list[Cell], path: Path) -> list[dict[str, Any]]:
    with Ledger(path, readonly=True) as ledger:
        return [ledger.collect(cell) for cell in cells]


def check_same(cells: list[Cell], path: Path, reference: Path) -> None:
    with Ledger(reference) as ledger:
        execute(Draws(), cells, ledger, workers=0)
    for ours, theirs in zip(collected(cells, path), collected(cells, reference), strict=True):
        assert ours.keys() == theirs.keys()
        for name in ours:
            np.testing.assert_array_equal(ours[name], theirs[name])


@contextmanager
def in_process_cluster(workers: int) -> Iterator[Client]:
    with (
        LocalCluster(
            n_workers=workers,
            threads_per_worker=1,
            processes=False,
            dashboard_address="127.0.0.1:0",
        ) as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        yield client


def lines(record: Path) -> list[tuple[str, int, int]]:
    """What was done: cell, repeat, process."""
    words = (line.split() for line in record.read_text().splitlines())
    return [(cell, int(repeat), int(pid)) for cell, repeat, pid in words]


@pytest.mark.parametrize(("workers", "batch_seconds"), [(1, 0.3), (2, 0.05), (2, 1.0)])
def test_numbers_do_not_depend_on_workers_or_batches(
    path: Path, tmp_path: Path, workers: int, batch_seconds: float
) -> None:
    cells = make_cells(3, 150)
    record = tmp_path / "record"
    work = Draws(seconds=0.002, record=str(record))
    with Ledger(path) as ledger:
        outcome = execute(work, cells, ledger, workers=workers, batch_seconds=batch_seconds)
    check_same(cells, path, tmp_path / "reference.sqlite")
    assert outcome.complete
    assert outcome.mode == ("1 worker" if workers == 1 else "2 workers")
    done = lines(record)
    assert Counter((cell, repeat) for cell, repeat, _ in done) == Counter(
        (cell.id, repeat) for cell in cells for repeat in range(150)
    )
    processes = {pid for _, _, pid in done}
    # On a busy machine one may have done all before the other is up.
    assert 1 <= len(processes) <= workers
    assert os.getpid() not in processes


def test_runs_of_one_command_share_their_workers(path: Path, tmp_path: Path) -> None:
    record = tmp_path / "record"
    work, cells = Draws(seconds=0.001, record=str(record)), make_cells(2, 40)
    logs = []
    with pool_kept():
        for name in ("first", "second", "third"):
            (tmp_path / name).mkdir()
            if name == "third":
                os.kill(worker_pids()[0], signal.SIGKILL)
            with Ledger(tmp_path / name / "ledger.sqlite") as ledger:
                assert execute(work, cells, ledger, workers=1).complete
            check_same(cells, tmp_path / name / "ledger.sqlite", tmp_path / f"{name}.sqlite")
            logs.append((tmp_path / name / "workers.log").exists())
        done = [pid for _, _, pid in lines(record)]
        # A killed worker is replaced as in any run.
        assert len(set(done[:160])) == 1
        assert not {done[0]}.intersection(done[160:])
    assert logs == [True, True, True]
    assert worker_pids() == []


def test_a_run_that_fails_ends_the_workers_that_others_would_share(
    path: Path, tmp_path: Path
) -> None:
    with pool_kept():
        with Ledger(path) as ledger, pytest.raises(TrialError):
            execute(Faulty(), make_cells(3, 20), ledger, workers=1)
        assert worker_pids() == []
        with Ledger(tmp_path / "again.sqlite") as ledger:
            assert execute(Draws(), make_cells(1, 20), ledger, workers=2).complete
        assert len(worker_pids()) == 2
        with Ledger(tmp_path / "more.sqlite") as ledger:
            assert execute(Draws(), make_cells(1, 20), ledger, workers=1).complete
        assert len(worker_pids()) == 1


def test_long_job_moves_to_workers_by_itself(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ppdm_dask.cluster.runner.WORTH_WORKERS_SECONDS", 0.5)
    monkeypatch.setattr("ppdm_dask.cluster.runner._cores", lambda: 2)
    record = tmp_path / "record"
    cells = make_cells(1, 200)
    with Ledger(path) as ledger:
        outcome = execute(Draws(seconds=0.01, record=str(record)), cells, ledger)
    assert "worker" in outcome.mode
    processes = {pid for _, _, pid in lines(record)}
    assert os.getpid() in processes
    assert len(processes) >= 2
    check_same(cells, path, tmp_path / "reference.sqlite")


def look_around(dask_worker: Worker) -> dict[str, Any]:
    """What a worker process is like; called in it."""
    return {
        "variables": {name: os.environ.get(f"{name}_NUM_THREADS") for name in ("OMP", "NUMBA")},
        "blocked": signal.pthread_sigmask(signal.SIG_BLOCK, []),
        "limit": dask_worker.memory_manager.memory_limit,
        "threads": dask_worker.state.nthreads,
    }


def test_pool_is_local_and_single_threaded(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "4")
    with local_pool(2, tmp_path / "workers.log", memory_limit=10**9) as pool:
        pool.client.wait_for_workers(2, timeout=60)
        seen = pool.client.run(look_around)
        us = psutil.Process()
        listening = [
            connection.laddr.ip
            for process in (us, *us.children())
            for connection in process.net_connections()
            if connection.status == psutil.CONN_LISTEN
        ]
    assert len(seen) == 2
    for worker in seen.values():
        assert worker["variables"] == {"OMP": "1", "NUMBA": "1"}
        assert signal.SIGINT in worker["blocked"]
        assert worker["limit"] == 10**9
        assert worker["threads"] == 1
    assert len(listening) >= 5
    assert set(listening) == {"127.0.0.1"}
    assert capfd.readouterr() == ("", "")
    assert "Register worker" in (tmp_path / "workers.log").read_text()


def test_default_memory_limit_is_explicit(tmp_path: Path) -> None:
    with local_pool(1, tmp_path / "workers.log") as pool:
        pool.client.wait_for_workers(1, timeout=60)
        (worker,) = pool.client.run(look_around).values()
    assert 0.5 * psutil.virtual_memory().total < worker["limit"] <= psutil.virtual_memory().total


class TestLostWorkers:
    def test_killed_worker(
        self, path: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
    ) -> None:
        killed: list[int] = []

        def kill_one(progress: Progress) -> None:
            if progress.done_repeats > 60 and not killed:
                killed.append(worker_pids()[0])
                os.kill(killed[0], signal.SIGKILL)

        cells = make_cells(2, 300)
        with Ledger(path) as ledger:
            outcome = execute(
                Draws(seconds=0.003),
                cells,
                ledger,
                workers=2,
                batch_seconds=0.1,
                progress=kill_one,
            )
        assert len(killed) == 1
        assert outcome.complete
        assert outcome.quarantined == ()
        check_same(cells, path, tmp_path / "reference.sqlite")
        assert capfd.readouterr() == ("", "")
        log = (tmp_path / "workers.log").read_text()
        assert f"Worker process {killed[0]} was killed by signal 9" in log

    def test_all_workers_killed_as_they_start(self, path: Path, tmp_path: Path) -> None:
        over = threading.Event()
        killed: set[int] = set()

        def kill_all() -> None:
            end = time.monotonic() + 60
            while len(killed) < 4 and time.monotonic() < end:
                for pid in set(worker_pids()) - killed:
                    os.kill(pid, signal.SIGKILL)
                    killed.add(pid)
                over.wait(0.01)

        killer = threading.Thread(target=kill_all)
        killer.start()
        cells = make_cells(2, 50)
        try:
            with Ledger(path) as ledger:
                outcome = execute(Draws(), cells, ledger, workers=2)
        finally:
            over.set()
            killer.join()
        assert len(killed) >= 4
        assert outcome.complete
        check_same(cells, path, tmp_path / "reference.sqlite")

    def test_repeat_that_ends_its_worker_once(self, path: Path, tmp_path: Path) -> None:
        cells = make_cells(2, 40)
        work = Deadly(deadly=(("q=0", 0), ("q=1", 20)), once=str(tmp_path))
        with Ledger(path) as ledger:
            assert execute(work, cells, ledger, workers=2).complete
        check_same(cells, path, tmp_path / "reference.sqlite")

    def test_repeat_that_always_ends_its_worker_is_the_only_one_missing(
        self,
        path: Path,
        tmp_path: Path,
        capfd: pytest.CaptureFixture[str],
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        # Half the deaths of a real run.
        assert client.SETTINGS["distributed.scheduler.allowed-failures"] == 3
        monkeypatch.setitem(client.SETTINGS, "distributed.scheduler.allowed-failures", 1)
        cells = make_cells(2, 3)
        with Ledger(path) as ledger:
            outcome = execute(Deadly(deadly=(("q=1", 2),)), cells, ledger, workers=2)
            assert ledger.missing(cells) == [Batch(cells[1], 2, 3)]
            assert not outcome.complete
            (given_up,) = outcome.quarantined
            assert given_up.batch == Batch(cells[1], 2, 3)
            text = str(given_up)
            assert text.startswith("cell q=1, repeat 2: its worker process died 2 times while it")
            assert "was killed by signal 9" in text
            assert text.endswith(f"see {tmp_path / 'workers.log'}")
            assert capfd.readouterr() == ("", "")
            # The same call again leaves it alone, though the fault is mended, and says so.
            same = execute(Draws(), cells, ledger, workers=0)
            assert (same.computed_repeats, same.remembered) == (0, 1)
            assert same.quarantined == outcome.quarantined
            again = execute(Draws(), cells, ledger, workers=0, retry_failed=True)
        assert again.computed_repeats == 1
        assert again.quarantined == ()
        check_same(cells, path, tmp_path / "reference.sqlite")


class TestStalls:
    def test_workers_that_cannot_start(
        self, path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setitem(client.SETTINGS, "distributed.scheduler.no-workers-timeout", "1s")
        monkeypatch.setitem(client.ENVIRONMENT, "PYTHONHOME", str(tmp_path))
        monkeypatch.setattr("ppdm_dask.cluster.session.MOST_REBUILDS", 1)
        with Ledger(path) as ledger, pytest.raises(PPDMError) as caught:
            execute(Draws(), make_cells(1, 10), ledger, workers=1)
        assert str(caught.value) == (
            "workers were lost 2 times in a row without finishing a batch: no worker process is "
            f"left or can be started; see {tmp_path / 'workers.log'}; what is stored is kept"
        )

    def test_workers_that_hang_are_replaced(self, path: Path, tmp_path: Path) -> None:
        cells = make_cells(2, 30)
        work = Hanging(once=str(tmp_path / "hung"))
        with Ledger(path) as ledger:
            # Long enough for a new worker on a busy machine to load what it needs.
            outcome = execute(work, cells, ledger, workers=2, stall_seconds=8.0)
        assert (tmp_path / "hung").exists()
        assert outcome.complete
        assert outcome.quarantined == ()
        check_same(cells, path, tmp_path / "reference.sqlite")

    def test_repeat_that_always_hangs_is_given_up(
        self, path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("ppdm_dask.cluster.session.START_SECONDS", 2.0)
        cells = make_cells(2, 10)
        flag = tmp_path / "hanging"
        flag.touch()
        # Threads start at once; a third and a fourth are left when two hang.
        with in_process_cluster(4) as ours:
            try:
                with Ledger(path) as ledger:
                    outcome = execute(
                        Hanging(while_there=str(flag)),
                        cells,
                        ledger,
                        client=ours,
                        stall_seconds=2.0,
                    )
                    assert ledger.missing(cells) == [Batch(cells[1], 0, 1)]
            finally:
                flag.unlink()
        (given_up,) = outcome.quarantined
        assert given_up.batch == Batch(cells[1], 0, 1)
        assert given_up.reason == "it ran alone for 2 s without an end"


class TestErrors:
    def test_error_of_the_work(
        self, path: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
    ) -> None:
        record = tmp_path / "record"
        work = Faulty(record=str(record))
        with Ledger(path) as ledger, pytest.raises(TrialError) as caught:
            execute(work, make_cells(3, 20), ledger, workers=2)
        assert str(caught.value).startswith("cell q=1, repeats 1 to 8: ZeroDivisionError: no rec")
        cause = caught.value.__cause__
        assert isinstance(cause, ZeroDivisionError)
        assert any("toy_works.py" in note for note in cause.__notes__)
        # Repeats 1 to 4 were done before the error, once: it is not tried again.
        tried = Counter(repeat for cell, repeat, _ in lines(record) if cell == "q=1")
        assert tried == dict.fromkeys(range(5), 1)
        assert capfd.readouterr() == ("", "")

    def test_work_that_cannot_be_pickled(self, path: Path) -> None:
        class Locked(Draws):
            def __reduce__(self) -> tuple[Callable[[], None], tuple[()]]:
                raise TypeError("cannot pickle '_thread.lock' object")

        with Ledger(path) as ledger, pytest.raises(InputError, match="cannot be sent to other"):
            execute(Locked(), make_cells(1, 10), ledger, workers=1)


def plugins(dask_worker: Worker) -> set[str]:
    return {name for name in dask_worker.plugins if name.startswith("ppdm:")}


def test_work_of_a_killed_driver_is_forgotten(path: Path) -> None:
    with in_process_cluster(1) as ours:
        with Client(ours.scheduler.address, set_as_default=False) as killed:
            orphan = plugin_name(killed)
            killed.register_plugin(WorkPlugin(Draws(), [], orphan, None), name=orphan)
        with Client(ours.scheduler.address, set_as_default=False) as living:
            kept = plugin_name(living)
            living.register_plugin(WorkPlugin(Draws(), [], kept, None), name=kept)
            assert set().union(*ours.run(plugins).values()) == {orphan, kept}
            with Ledger(path) as ledger:
                assert execute(Draws(), make_cells(1, 20), ledger, client=ours).complete
            assert set().union(*ours.run(plugins).values()) == {kept}


def test_cluster_of_the_caller(path: Path, tmp_path: Path) -> None:
    cells = make_cells(2, 60)
    with in_process_cluster(2) as ours:
        with Ledger(path) as ledger:
            outcome = execute(Draws(), cells, ledger, client=ours)
        assert ours.submit(abs, -3).result(timeout=30) == 3
        plugins = ours.run(lambda dask_worker: list(dask_worker.plugins))
    with (
        Ledger(tmp_path / "other.sqlite") as ledger,
        pytest.raises(InputError, match="this client is closed; a connected one is needed"),
    ):
        execute(Draws(), cells, ledger, client=ours)
    assert outcome.complete
    assert outcome.mode == "2 workers"
    assert all(not name.startswith("ppdm") for names in plugins.values() for name in names)
    check_same(cells, path, tmp_path / "reference.sqlite")
