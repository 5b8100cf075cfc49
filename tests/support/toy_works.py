"""Works for the tests; worker processes import this module by its name."""

from __future__ import annotations

import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ppdm_dask.engine.cells import Cell


def make_cells(n_cells: int, repeats: int) -> list[Cell]:
    return [Cell(f"q={q}", {"q": q}, repeats) for q in range(n_cells)]


@dataclass(frozen=True)
class Draws:
    """Random numbers keyed by (seed, cell, repeat).

    A line in ``record`` for each repeat done; repeats from 100 on wait while ``hold`` exists.
    With ``bulk`` there are as many numbers more.
    """

    seed: int = 7
    seconds: float = 0.0
    record: str = ""
    hold: str = ""
    bulk: int = 0

    def trials(self, cell: Cell, start: int, stop: int) -> dict[str, npt.NDArray[Any]]:
        generators = [
            np.random.default_rng(np.random.SeedSequence((self.seed, cell.key, repeat)))
            for repeat in range(start, stop)
        ]
        time.sleep(self.seconds * (stop - start))
        for repeat in range(start, stop):
            while repeat >= 100 and self.hold and os.path.exists(self.hold):
                time.sleep(0.01)
            self.happen(cell, repeat)
        found = {
            "correct": np.array([g.integers(1000) for g in generators], np.int32),
            "pair": np.array([g.random(2) for g in generators]).reshape(stop - start, 2),
        }
        if self.bulk:
            found["bulk"] = np.array([g.random(self.bulk) for g in generators])
        return found

    def happen(self, cell: Cell, repeat: int) -> None:
        if self.record:
            # One write to a file opened for appending is never torn or mixed with another.
            line = f"{cell.id} {repeat} {os.getpid()}\n".encode()
            descriptor = os.open(self.record, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
            os.write(descriptor, line)
            os.close(descriptor)


@dataclass(frozen=True)
class Deadly(Draws):
    """Some repeats end the process that does them: always, or the first time alone."""

    deadly: tuple[tuple[str, int], ...] = ()
    once: str = ""

    def happen(self, cell: Cell, repeat: int) -> None:
        if (cell.id, repeat) in self.deadly:
            if not self.once:
                os.kill(os.getpid(), signal.SIGKILL)
            flag = Path(self.once) / f"{cell.id}-{repeat}"
            if not flag.exists():
                flag.touch()
                os.kill(os.getpid(), signal.SIGKILL)
        super().happen(cell, repeat)


@dataclass(frozen=True)
class Faulty(Draws):
    """One repeat raises an exception."""

    cell: str = "q=1"
    repeat: int = 5

    def happen(self, cell: Cell, repeat: int) -> None:
        if (cell.id, repeat) == (self.cell, self.repeat):
            raise ZeroDivisionError("no records in the training part")
        super().happen(cell, repeat)


@dataclass(frozen=True)
class Hanging(Draws):
    """One repeat does not end: the first time alone, or for as long as a file is there."""

    cell: str = "q=1"
    repeat: int = 0
    once: str = ""
    while_there: str = ""

    def happen(self, cell: Cell, repeat: int) -> None:
        if (cell.id, repeat) == (self.cell, self.repeat):
            if self.once and not os.path.exists(self.once):
                Path(self.once).touch()
                time.sleep(3600)
            while self.while_there and os.path.exists(self.while_there):
                time.sleep(0.01)
        super().happen(cell, repeat)


class SlowStart:
    """The first call in a process takes long, as one that compiles does."""

    def __init__(self, start_seconds: float) -> None:
        self.start_seconds = start_seconds
        self.started = False

    def trials(self, cell: Cell, start: int, stop: int) -> dict[str, npt.NDArray[Any]]:
        if not self.started:
            self.started = True
            time.sleep(self.start_seconds)
        return Draws().trials(cell, start, stop)


@dataclass(frozen=True)
class Hungry(Draws):
    """One repeat takes much memory, and keeps it for a while."""

    cell: str = "q=1"
    repeat: int = 2
    megabytes: int = 0

    def happen(self, cell: Cell, repeat: int) -> None:
        if (cell.id, repeat) == (self.cell, self.repeat):
            taken = np.ones(self.megabytes * 2**17)
            time.sleep(20)
            taken.sum()
        super().happen(cell, repeat)
