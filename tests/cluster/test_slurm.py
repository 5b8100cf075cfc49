"""Runs on a SLURM that the tests start: the same numbers, through every end of a job or driver."""

from __future__ import annotations

import json
import os
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest
from machines import listening
from runs import CELLS, REPEATS, Run, check_finished, check_gone, command_of, performed, stored
from slurm_site import Site, reason_to_skip
from small_recipe import CONFIG, write_recipe
from toy_works import Draws, make_cells

from ppdm_dask.cluster.kinds import load_profile
from ppdm_dask.cluster.runner import execute
from ppdm_dask.engine.cells import Cell, Progress
from ppdm_dask.engine.ledger import Ledger
from ppdm_dask.errors import ClusterError
from ppdm_dask.experiments.run import run

SKIP = reason_to_skip()
pytestmark = [pytest.mark.cluster, pytest.mark.skipif(SKIP is not None, reason=str(SKIP))]

TESTS = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    made = Site(tmp_path_factory.mktemp("slurm"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SLURM_CONF", str(made.configuration))
        # Jobs get the driver's variables; they have to find the package and the toy works.
        patch.setenv("PYTHONPATH", os.pathsep.join([str(TESTS.parent), str(TESTS / "support")]))
        try:
            made.start()
            yield made
        finally:
            made.stop()


@pytest.fixture(autouse=True)
def nothing_is_left(site: Site, tmp_path: Path) -> Iterator[None]:
    """No job, no process of one and no private key outlives a run."""
    yield
    check_gone(job_processes(tmp_path), 5.0)
    assert not site.names()
    assert not list(tmp_path.rglob("*-key.pem"))


def write_profile(folder: Path, **keys: object) -> Path:
    given: dict[str, object] = {
        "kind": "slurm",
        "workers": 2,
        "memory": "1 GiB",
        "interface": "lo",
        "walltime": "00:05:00",
        **keys,
    }
    lines = [f"{key} = {json.dumps(value)}" for key, value in given.items()]
    path = folder / "slurm.toml"
    path.write_text("\n".join(lines) + "\n")
    return path


def job_processes(folder: Path) -> list[psutil.Process]:
    """Processes of jobs whose keys are below a folder, their workers, and who watches over them."""
    found = []
    for process in psutil.process_iter(["cmdline"]):
        words = process.info["cmdline"] or []
        of_jobs = {"ppdm_dask.cluster.job", "ppdm_dask.cluster.jobs"} & set(words)
        if of_jobs and any(word.startswith(str(folder)) for word in words):
            found += [process, *process.children(recursive=True)]
    return found


def wait_until_joined(first: Run, folder: Path, workers: int) -> None:
    """Wait until so many workers have joined: one that still looks for its driver waits for it."""
    driver = psutil.Process(first.process.pid).net_connections(kind="tcp")
    ports = {each.laddr.port for each in driver if each.status == psutil.CONN_LISTEN}
    end = time.monotonic() + 30.0
    while True:
        joined = set()
        for process in job_processes(folder):
            with suppress(psutil.NoSuchProcess):
                far = [each.raddr for each in process.net_connections(kind="tcp") if each.raddr]
                joined |= {process.pid} if ports & {address.port for address in far} else set()
        if len(joined) >= workers:
            return
        assert time.monotonic() < end, joined
        time.sleep(0.1)


def logs(folder: Path) -> list[Path]:
    """Output of jobs, one file a job that has run."""
    return sorted((folder / "jobs").glob("*.err"))


def test_one_digest_and_nothing_listens_beyond_the_interface(site: Site, tmp_path: Path) -> None:
    recipe = write_recipe(tmp_path / "small.toml", CONFIG)
    expected = run(recipe, workers=0, out=tmp_path / "here")
    heard: set[str] = set()

    def listen(progress: Progress) -> None:
        pids = [process.pid for process in job_processes(tmp_path)]
        heard.update(listening([os.getpid(), *pids]))
        if progress.mode == "2 workers":
            assert any(job.state == "RUNNING" for job in site.jobs())

    profile = write_profile(tmp_path, queue="main", directives=["--comment=sweep", "--nice=5"])
    result = run(recipe, cluster=profile, out=tmp_path / "there", progress=listen)
    assert result.outcome.mode == "2 workers"
    assert result.digest == expected.digest
    assert heard
    assert all(address.startswith("127.") for address in heard), heard


def test_a_cancelled_job_is_replaced(site: Site, tmp_path: Path) -> None:
    cells = make_cells(2, 300)
    record = tmp_path / "record"
    cancelled: list[str] = []

    def cancel(progress: Progress) -> None:
        running = [job for job in site.jobs() if job.state == "RUNNING"]
        if progress.done_repeats >= 60 and not cancelled and len(running) == 2:
            cancelled.append(running[0].id)
            site.ask("scancel", running[0].id)

    with Ledger(tmp_path / "ledger.sqlite") as ledger:
        outcome = execute(
            Draws(seconds=0.03, record=str(record)),
            cells,
            ledger,
            profile=load_profile(write_profile(tmp_path)),
            batch_seconds=0.3,
            progress=cancel,
        )
        assert outcome.complete
        assert cancelled
        check_numbers(ledger, tmp_path)
    assert len(logs(tmp_path)) == 3
    # What the cancelled job had in hand was done again, and nothing else.
    again = performed(record) - all_of(cells)
    assert set(again.values()) <= {1}
    assert again.total() <= 0.1 * 600


def test_lifetimes_of_12_seconds(site: Site, tmp_path: Path) -> None:
    with Ledger(tmp_path / "ledger.sqlite") as ledger:
        outcome = execute(
            Draws(seconds=0.05),
            make_cells(2, 300),
            ledger,
            profile=load_profile(write_profile(tmp_path, lifetime="00:00:12")),
            batch_seconds=0.3,
        )
        assert outcome.complete
        check_numbers(ledger, tmp_path)
    assert outcome.elapsed_seconds > 12
    # Each of the two has left before its 12 seconds were over, and one has come in its place.
    assert len(logs(tmp_path)) >= 4
    lost = outcome.elapsed_seconds - outcome.work_seconds / 2
    print(
        f"{outcome.elapsed_seconds:.1f} s for {outcome.work_seconds / 2:.1f} s of work: {lost:.1f}"
    )


def all_of(cells: Sequence[Cell]) -> Counter[tuple[str, int]]:
    return Counter((cell.id, repeat) for cell in cells for repeat in range(cell.repeats))


def check_numbers(ledger: Ledger, folder: Path) -> None:
    """The ledger holds what a run in one process would have put there, each repeat once."""
    cells = make_cells(2, 300)
    assert ledger.missing(cells) == []
    with Ledger(folder / "reference.sqlite") as reference:
        execute(Draws(), cells, reference, workers=0)
        for cell in cells:
            ours, theirs = ledger.collect(cell), reference.collect(cell)
            assert ours.keys() == theirs.keys()
            for name in ours:
                assert ours[name].tobytes() == theirs[name].tobytes()
            assert ledger.finished(cell).tolist() == list(range(300))


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Run]]:
    (tmp_path / "hold").touch()
    runs: list[Run] = []

    def begin(**arguments: Any) -> Run:
        runs.append(Run(tmp_path, **arguments))
        return runs[-1]

    yield begin
    for one in runs:
        one.close()


@pytest.mark.parametrize("watched", [True, False], ids=["driver", "driver-and-watcher"])
def test_killed_driver_leaves_nothing(
    site: Site, tmp_path: Path, start: Callable[..., Run], watched: bool
) -> None:
    first = start(profile=str(write_profile(tmp_path)))
    children = first.wait_for(60)
    wait_until_joined(first, tmp_path, 2)
    processes = job_processes(tmp_path)
    # Two jobs with a worker each, busy for as long as the file is there, and who watches over them.
    assert len(processes) >= 5
    assert len(site.names()) == 1
    began = time.monotonic()
    first.process.kill()
    if not watched:
        for process in processes:
            if "ppdm_dask.cluster.jobs" in command_of(process):
                process.kill()
    check_gone([*processes, *children], 10.0)
    while site.names():
        assert time.monotonic() < began + 10.0
        time.sleep(0.1)
    print(f"all gone after {time.monotonic() - began:.1f} s")
    assert first.end() == -signal.SIGKILL
    if not watched:
        for key in tmp_path.rglob("*-key.pem"):
            key.unlink()

    before = stored(tmp_path)
    assert 60 <= before.total() < 2 * REPEATS
    first.record.unlink()
    first.hold.unlink()
    again = start(workers=0)
    assert again.end() == 0
    assert not before & performed(again.record), "a finished repeat was done again"
    assert before + performed(again.record) == all_of(CELLS)
    check_finished(tmp_path)


def test_refused_jobs(site: Site, tmp_path: Path) -> None:
    profile = write_profile(tmp_path, queue="gpu")
    with (
        Ledger(tmp_path / "ledger.sqlite") as ledger,
        pytest.raises(ClusterError) as caught,
    ):
        execute(Draws(), CELLS, ledger, profile=load_profile(profile))
    message = str(caught.value)
    assert message.startswith(f"{profile}: SLURM refuses the jobs: ")
    assert "invalid partition specified: gpu" in message
    assert "\n" not in message


def test_jobs_that_cannot_start(site: Site, tmp_path: Path) -> None:
    profile = write_profile(tmp_path, workers=1, python="/nowhere/python3")
    with (
        Ledger(tmp_path / "ledger.sqlite") as ledger,
        pytest.raises(ClusterError) as caught,
    ):
        execute(Draws(), CELLS, ledger, profile=load_profile(profile))
    message = str(caught.value)
    assert message.startswith(f"{profile}: 5 jobs in a row ended before their worker was there")
    assert "/nowhere/python3: No such file or directory" in message
    assert message.endswith(f"their output is in {tmp_path / 'jobs'}")
    assert "\n" not in message
