"""Workers, scheduler, driver and a cable are taken away; the numbers stay, and nothing is lost."""

from __future__ import annotations

import signal
import sqlite3
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
from machines import (
    DaskProcesses,
    free_port,
    ip,
    needs_namespaces,
    needs_sshd,
    network_namespaces,
    ssh_server,
)
from runs import CELLS, REPEATS, Run, check_finished, check_gone, command_of, performed, stored

from ppdm_dask.cluster.security import make_certificates, write_certificates

pytestmark = pytest.mark.cluster

SECONDS = 0.01  # a repeat
TOTAL = len(CELLS) * REPEATS

Start = Callable[[Path], Run]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    runs: list[Run] = []

    def begin(profile: Path) -> Run:
        runs.append(Run(tmp_path, seconds=SECONDS, profile=str(profile)))
        return runs[-1]

    yield begin
    for run in runs:
        run.close()


@pytest.fixture
def tell(capsys: pytest.CaptureFixture[str]) -> Callable[[str], None]:
    """Print past pytest: how much time was lost is to be read, not asserted."""

    def print_it(text: str) -> None:
        with capsys.disabled():
            print(f"\n    {text}")

    return print_it


def committed(folder: Path) -> set[tuple[object, ...]]:
    """All batches in the ledger, with the checksums of their numbers."""
    with sqlite3.connect(f"file:{folder}/ledger.sqlite?mode=ro", uri=True) as connection:
        rows = connection.execute("SELECT cell, start, stop, checksum FROM batches").fetchall()
    connection.close()
    return set(rows)


def remote(server: int) -> list[psutil.Process]:
    """What runs over SSH, the scheduler first."""
    found = psutil.Process(server).children(recursive=True)
    ours = [each for each in found if "ppdm_dask.cluster.remote" in command_of(each)]
    pythons = [each for each in ours if "python" in each.name()]
    return sorted(pythons, key=lambda each: each.create_time())


def workers(server: int) -> list[psutil.Process]:
    """Worker processes: those that nannies over SSH have spawned."""
    return [
        child
        for nanny in remote(server)[1:]
        for child in nanny.children()
        if "spawn_main" in " ".join(command_of(child))
    ]


@needs_sshd
def test_workers_scheduler_and_driver_are_killed(
    tmp_path: Path, start: Start, tell: Callable[[str], None]
) -> None:
    profile = tmp_path / "ssh.toml"
    began = time.monotonic()
    with ssh_server(tmp_path / "sshd") as server:
        profile.write_text(server.profile() + 'interface = "lo"\n')
        run = start(profile)
        done = 0
        for _ in range(3):
            done += 60
            run.wait_for(done)
            victims = workers(server.process.pid)
            victims[0].kill()
            check_gone(victims[:1], 2.0)
        # A nanny takes its worker along, and nobody is left there to start another.
        nanny = remote(server.process.pid)[1]
        family = [nanny, *nanny.children(recursive=True)]
        nanny.kill()
        check_gone(family, 10.0)
        done += 60
        run.wait_for(done)
        scheduler = remote(server.process.pid)[0]
        scheduler.kill()
        run.wait_for(stored(tmp_path).total() + 60)
        children = psutil.Process(server.process.pid).children(recursive=True)
        assert len(remote(server.process.pid)) >= 3
        run.process.kill()
        assert run.end() == -signal.SIGKILL
        # Nobody tells what runs over SSH: it notices.
        check_gone(children, 10.0)
        kept, before = committed(tmp_path), stored(tmp_path)
        run.record.unlink()
        run = start(profile)
        assert run.end() == 0
        assert run.errors.read_text() == ""
    assert kept <= committed(tmp_path), "a stored batch was lost or changed"
    assert not before & performed(run.record), "a stored repeat was done again"
    assert stored(tmp_path) == Counter((cell.id, r) for cell in CELLS for r in range(REPEATS))
    check_finished(tmp_path)
    took = time.monotonic() - began
    tell(
        f"three workers, a nanny, a scheduler and a driver killed: {took:.0f} s, of which "
        f"{TOTAL * SECONDS / 2:.0f} s are the work of two workers"
    )


@pytest.fixture
def dask(tmp_path: Path) -> DaskProcesses:
    write_certificates(make_certificates(), tmp_path / "certificates")
    return DaskProcesses(tmp_path, free_port())


def test_scheduler_of_somebody_else_is_killed_and_started_anew(
    tmp_path: Path, dask: DaskProcesses, start: Start, tell: Callable[[str], None]
) -> None:
    run = start(dask.profile())
    with dask.scheduler() as scheduler, dask.workers(2):
        run.wait_for(120)
        kept = committed(tmp_path)
        scheduler.kill()
        began = time.monotonic()
    time.sleep(3)
    assert run.process.poll() is None
    with dask.scheduler(), dask.workers(2):
        run.wait_for(len(stored(tmp_path)) + 1)
        tell(f"a scheduler away for 3 s: {time.monotonic() - began:.0f} s to the next batch")
        assert run.end() == 0
    assert kept <= committed(tmp_path)
    assert run.errors.read_text() == ""
    check_finished(tmp_path)


@needs_namespaces
def test_cable_is_cut(
    tmp_path: Path, start: Start, tell: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    # The shortest that Dask allows; scheduler.md says 15 s.
    monkeypatch.setenv("DASK_DISTRIBUTED__COMM__TIMEOUTS__TCP", "11s")
    write_certificates(make_certificates(), tmp_path / "certificates")
    with network_namespaces(2) as spaces:
        dask = DaskProcesses(tmp_path, free_port(), spaces[0][2])
        within = {name: ["ip", "netns", "exec", name] for name, _, _ in spaces}
        run = start(dask.profile())
        with (
            dask.scheduler(),
            dask.workers(host=spaces[0][1], within=within[spaces[0][0]]),
            dask.workers(host=spaces[1][1], within=within[spaces[1][0]]),
        ):
            run.wait_for(200)
            kept = committed(tmp_path)
            ip("link", "set", spaces[1][0], "down")
            began = time.monotonic()
            assert run.end() == 0
            took = time.monotonic() - began
    assert kept <= committed(tmp_path)
    assert run.errors.read_text() == ""
    assert performed(run.record).total() >= TOTAL
    check_finished(tmp_path)
    tell(f"one of two cables cut with 600 of {TOTAL} repeats to do: {took:.0f} s to the end")
