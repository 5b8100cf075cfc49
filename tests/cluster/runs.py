"""Runs in a process of their own, for tests that kill them, and what they have done and stored."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import psutil
from toy_works import Draws, make_cells

from ppdm_dask.cluster.runner import execute
from ppdm_dask.engine.ledger import Ledger

DRIVER = Path(__file__).parent / "driver.py"
N_CELLS, REPEATS = 2, 400
CELLS = make_cells(N_CELLS, REPEATS)


class Run:
    """A driver process in a group of its own.

    With ``hold`` it cannot finish while the file of that name is there.

    Parameters
    ----------
    folder : Path
        For the ledger, the record of what is done, and standard error.
    ledger : Path, optional
        The ledger, where it is not in that folder.
    arguments : keywords
        Of ``execute``; ``profile`` is a path, ``seconds`` what a repeat takes, ``bulk`` how many
        numbers more it returns.
    """

    def __init__(
        self,
        folder: Path,
        ledger: Path | None = None,
        *,
        seconds: float = 0.0,
        bulk: int = 0,
        **arguments: Any,
    ) -> None:
        self.record = folder / "record"
        self.hold = folder / "hold"
        self.errors = folder / "stderr"
        files = {"record": str(self.record), "hold": str(self.hold)}
        arguments = {
            "work": {**files, "seconds": seconds, "bulk": bulk},
            "n_cells": N_CELLS,
            "repeats": REPEATS,
            "batch_seconds": 0.1,
            **arguments,
        }
        command = [sys.executable, str(DRIVER), str(ledger or folder / "ledger.sqlite")]
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

    def close(self) -> None:
        """End the process, if it is still there."""
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        if self.process.stdout is not None:
            self.process.stdout.close()


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


def command_of(process: psutil.Process) -> list[str]:
    """A process's command line; empty for one that has ended meanwhile, a zombie too."""
    try:
        return process.cmdline()
    except psutil.NoSuchProcess:
        return []


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
