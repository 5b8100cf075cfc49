"""Runs whose driver is interrupted or killed, in a process of their own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import psutil
import pytest
from toy_works import Draws, make_cells

from ppdm_dask.errors import RunFolderError
from ppdm_dask.parallel.ledger import Ledger
from ppdm_dask.parallel.runner import execute

pytestmark = pytest.mark.cluster

DRIVER = Path(__file__).parent / "driver.py"
N_CELLS, REPEATS = 2, 400
CELLS = make_cells(N_CELLS, REPEATS)


class Run:
    """A driver process in a group of its own; it cannot finish while the file ``hold`` is there."""

    def __init__(self, folder: Path, workers: int) -> None:
        self.record = folder / "record"
        self.hold = folder / "hold"
        self.errors = folder / "stderr"
        arguments = {
            "work": {"record": str(self.record), "hold": str(self.hold)},
            "n_cells": N_CELLS,
            "repeats": REPEATS,
            "workers": workers,
            "batch_seconds": 0.1,
        }
        command = [sys.executable, str(DRIVER), str(folder / "ledger.sqlite")]
        with self.errors.open("wb") as errors:
            self.process = subprocess.Popen(
                [*command, json.dumps(arguments)],
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                start_new_session=True,
            )

    def wait_for(self, done_repeats: int) -> list[psutil.Process]:
        """Read the progress up to this many stored repeats; the driver's processes then."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if int(line) >= done_repeats:
                return psutil.Process(self.process.pid).children(recursive=True)
        raise AssertionError(f"the run ended early: {self.errors.read_text()}")

    def end(self, timeout: float = 60.0) -> int:
        """Exit code, once the process has ended."""
        assert self.process.stdout is not None
        self.process.stdout.read()
        return self.process.wait(timeout)


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[[int], Run]]:
    runs: list[Run] = []
    (tmp_path / "hold").touch()

    def begin(workers: int) -> Run:
        runs.append(Run(tmp_path, workers))
        return runs[-1]

    yield begin
    for run in runs:
        if run.process.poll() is None:
            run.process.kill()
            run.process.wait()
        if run.process.stdout is not None:
            run.process.stdout.close()


def check_gone(processes: list[psutil.Process], seconds: float) -> None:
    # Where process 1 reaps nobody, a zombie is as gone as a process can be.
    end = time.monotonic() + seconds
    while alive := [process for process in processes if is_alive(process)]:
        assert time.monotonic() < end, alive
        time.sleep(0.02)


def is_alive(process: psutil.Process) -> bool:
    try:
        return process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def stored(folder: Path) -> Counter[tuple[str, int]]:
    with Ledger(folder / "ledger.sqlite", readonly=True) as ledger:
        return Counter((cell.id, int(r)) for cell in CELLS for r in ledger.finished(cell))


def performed(record: Path) -> Counter[tuple[str, int]]:
    words = (line.split() for line in record.read_text().splitlines())
    return Counter((cell, int(repeat)) for cell, repeat, _ in words)


def check_finished(folder: Path) -> None:
    """All repeats are stored, with the numbers of a run that was never stopped."""
    with Ledger(folder / "reference.sqlite") as reference:
        execute(Draws(), CELLS, reference, workers=0)
        with Ledger(folder / "ledger.sqlite") as ledger:
            assert ledger.missing(CELLS) == []
            for cell in CELLS:
                ours, theirs = ledger.collect(cell), reference.collect(cell)
                assert ours.keys() == theirs.keys()
                for name in ours:
                    np.testing.assert_array_equal(ours[name], theirs[name])


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
    check_gone(children, 1.0)
    (message,) = run.errors.read_text().splitlines()
    assert message.startswith(f"stopped by {number.name} with ")
    assert message.endswith(" of 800 repeats stored; the same command goes on from there")

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
