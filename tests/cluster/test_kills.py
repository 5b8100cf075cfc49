"""Runs whose driver is interrupted or killed, in a process of their own."""

from __future__ import annotations

import os
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
from runs import CELLS, REPEATS, Run, check_finished, check_gone, performed, stored

from ppdm_dask.engine.ledger import Ledger
from ppdm_dask.errors import RunFolderError

pytestmark = pytest.mark.cluster


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[[int], Run]]:
    runs: list[Run] = []
    (tmp_path / "hold").touch()

    def begin(workers: int) -> Run:
        runs.append(Run(tmp_path, workers=workers))
        return runs[-1]

    yield begin
    for run in runs:
        run.close()


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize(
    ("number", "whole_group"),
    [(signal.SIGINT, False), (signal.SIGINT, True), (signal.SIGTERM, True)],
    ids=["interrupt", "ctrl-c", "terminate"],
)
def test_interrupt_then_resume(
    tmp_path: Path,
    start: Callable[[int], Run],
    workers: int,
    number: signal.Signals,
    whole_group: bool,
) -> None:
    run = start(workers)
    children = run.wait_for(60)
    assert len(children) >= workers
    began = time.monotonic()
    if whole_group:
        os.killpg(run.process.pid, number)
    else:
        run.process.send_signal(number)
    assert run.end() == 130
    assert time.monotonic() - began < 5
    check_gone(children, 5.0)
    (message,) = run.errors.read_text().splitlines()
    assert message.startswith(f"stopped by {number.name} with ")
    assert message.endswith(" of 800 repeats stored; the same command resumes from there")

    before = stored(tmp_path)
    assert 60 <= before.total() < 800
    run.record.unlink()
    run.hold.unlink()
    again = start(0)
    assert again.end() == 0
    assert again.errors.read_text() == ""
    assert not before & performed(again.record), "a finished repeat was done again"
    check_finished(tmp_path)


@pytest.mark.parametrize("workers", [0, 2])
def test_killed_driver_then_resume(
    tmp_path: Path, start: Callable[[int], Run], workers: int
) -> None:
    run = start(workers)
    children = run.wait_for(60)
    with pytest.raises(RunFolderError, match=f"in use by process {run.process.pid};"):
        Ledger(tmp_path / "ledger.sqlite")
    run.process.kill()
    # Nobody tells the workers: they notice.
    check_gone(children, 10.0)
    assert run.end() == -signal.SIGKILL
    assert run.errors.read_text() == ""

    before = stored(tmp_path)
    assert before.total() >= 60
    run.record.unlink()
    run.hold.unlink()
    again = start(workers)
    assert again.end() == 0
    done_now = performed(again.record)
    assert not before & done_now, "a finished repeat was done again"
    assert before + done_now == Counter(
        (cell.id, repeat) for cell in CELLS for repeat in range(REPEATS)
    )
    check_finished(tmp_path)


def test_interrupt_while_workers_start(tmp_path: Path, start: Callable[[int], Run]) -> None:
    run = start(2)
    run.wait_for(0)
    began = time.monotonic()
    os.killpg(run.process.pid, signal.SIGINT)
    assert run.end() == 130
    assert time.monotonic() - began < 5
    assert run.errors.read_text().startswith("stopped by SIGINT with 0 of 800 repeats stored")
    assert not psutil.pid_exists(run.process.pid)
