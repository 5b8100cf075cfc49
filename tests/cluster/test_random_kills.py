"""Workers are killed at random moments, each with work in its hands; the numbers stay."""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import psutil
import pytest
from runs import is_alive
from toy_works import Draws, make_cells

from ppdm_dask.cluster.runner import execute
from ppdm_dask.engine.cells import Cell
from ppdm_dask.engine.ledger import Ledger

pytestmark = pytest.mark.cluster

KILLS = 8
CELLS = make_cells(2, 500)
WORKERS = 3


@dataclass(frozen=True)
class Marked(Draws):
    """Draws that say in a file of each process what it is at, and take it back at the end."""

    folder: str = ""

    def trials(self, cell: Cell, start: int, stop: int) -> dict[str, npt.NDArray[Any]]:
        mark = Path(self.folder) / str(os.getpid())
        mark.write_text(f"{cell.id} {start} {stop}")
        found = super().trials(cell, start, stop)
        mark.unlink()
        return found


class Killer(threading.Thread):
    """Kills a worker that is at work, at random moments, until it has hit as often as it should.

    Attributes
    ----------
    hits : list of (int, str)
        Processes that were killed, and what each was at when it was gone.
    """

    def __init__(self, folder: Path) -> None:
        super().__init__(daemon=True)
        self.folder = folder
        self.hits: list[tuple[int, str]] = []
        self.over = threading.Event()

    def run(self) -> None:
        chance = random.Random(5)
        while len(self.hits) < KILLS and not self.over.wait(chance.uniform(0.05, 0.4)):
            marks = sorted(self.folder.iterdir())
            alive = [mark for mark in marks if self.is_worker(int(mark.name))]
            if alive:
                self.kill(chance.choice(alive))

    def is_worker(self, pid: int) -> bool:
        return any(child.pid == pid and is_alive(child) for child in psutil.Process().children())

    def kill(self, mark: Path) -> None:
        pid = int(mark.name)
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            return
        while self.is_worker(pid):
            time.sleep(0.01)
        # A mark that is there still was not taken back: the process died with that in its hands.
        if mark.exists() and (at := mark.read_text()):
            self.hits.append((pid, at))
        mark.unlink(missing_ok=True)


def test_workers_die_at_work(tmp_path: Path) -> None:
    folder = tmp_path / "marks"
    folder.mkdir()
    killer = Killer(folder)
    work = Marked(seconds=0.015, folder=str(folder))
    killer.start()
    try:
        with Ledger(tmp_path / "ledger.sqlite") as ledger:
            outcome = execute(work, CELLS, ledger, workers=WORKERS, batch_seconds=0.2)
            found = [ledger.collect(cell) for cell in CELLS]
    finally:
        killer.over.set()
        killer.join()
    assert len(killer.hits) == KILLS, killer.hits
    assert len({pid for pid, _ in killer.hits}) == KILLS
    assert outcome.complete
    assert outcome.quarantined == ()
    with Ledger(tmp_path / "reference.sqlite") as reference:
        execute(Draws(), CELLS, reference, workers=0)
        expected = [reference.collect(cell) for cell in CELLS]
    for ours, theirs in zip(found, expected, strict=True):
        assert ours.keys() == theirs.keys()
        for name in ours:
            np.testing.assert_array_equal(ours[name], theirs[name])
