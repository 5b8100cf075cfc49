"""Runs in threads of one process: the same numbers, side by side, and stopped in order."""

from __future__ import annotations

import os
import signal
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from toy_works import Draws, Faulty, make_cells

from ppdm_dask.cluster.runner import execute
from ppdm_dask.engine.cells import Cell, TrialError, Work
from ppdm_dask.engine.ledger import Ledger
from ppdm_dask.errors import RunInterrupted
from ppdm_dask.experiments.kinds import load_recipe, make_plan

Arrays = dict[str, npt.NDArray[Any]]


@pytest.fixture(autouse=True)
def _three_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ppdm_dask.cluster.runner.usable_cores", lambda: 3)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ledger.sqlite"


def batch_threads() -> list[str]:
    return [one.name for one in threading.enumerate() if one.name.startswith("ppdm-batches")]


def check_ended() -> None:
    for one in threading.enumerate():
        if one.name.startswith("ppdm-batches"):
            one.join(timeout=10)
    assert batch_threads() == []


@dataclass(frozen=True)
class Free:
    """A work that says of some cells that threads pay."""

    work: Work
    locked: tuple[str, ...] = ()
    seen: set[str] = field(default_factory=set)

    def unlocked(self, cell: Cell) -> bool:
        return cell.id not in self.locked

    def trials(self, cell: Cell, start: int, stop: int) -> Arrays:
        self.seen.add(threading.current_thread().name)
        return self.work.trials(cell, start, stop)


def results(
    path: Path, work: Work, cells: list[Cell], **arguments: Any
) -> tuple[str, list[Arrays]]:
    with Ledger(path) as ledger:
        outcome = execute(work, cells, ledger, **arguments)
        assert outcome.complete
        return outcome.mode, [dict(ledger.collect(cell)) for cell in cells]


def same(left: list[Arrays], right: list[Arrays]) -> None:
    for ours, theirs in zip(left, right, strict=True):
        assert ours.keys() == theirs.keys()
        for name, values in ours.items():
            np.testing.assert_array_equal(values, theirs[name])
            assert values.dtype == theirs[name].dtype


def test_numbers_are_those_of_one_thread(tmp_path: Path) -> None:
    cells = make_cells(4, 150)
    work = Free(Draws(seconds=0.0005))
    mode, found = results(tmp_path / "three", work, cells, batch_seconds=0.02)
    assert mode == "3 threads"
    assert {name[:12] for name in work.seen} == {"MainThread", "ppdm-batches"}
    mode, expected = results(tmp_path / "one", Free(Draws()), cells, workers=0)
    assert mode == "synchronous"
    same(found, expected)
    check_ended()


def test_a_resumed_run_whose_cost_is_known_takes_threads_too(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ppdm_dask.cluster.runner.WORTH_WORKERS_SECONDS", 0.0)
    work = Free(Draws(seconds=0.001))
    for repeats in (30, 60):
        assert results(path, work, make_cells(2, repeats))[0] == "3 threads"


def test_one_locked_cell_keeps_a_run_in_one_thread(path: Path) -> None:
    work = Free(Draws(), locked=("q=1",))
    assert results(path, work, make_cells(2, 40))[0] == "synchronous"
    assert work.seen == {"MainThread"}


def test_batches_run_side_by_side(path: Path) -> None:
    # Three threads have to meet, or the barrier breaks.
    barrier = threading.Barrier(3, timeout=20)

    class Meeting:
        def trials(self, cell: Cell, start: int, stop: int) -> Arrays:
            if threading.current_thread() is not threading.main_thread():
                barrier.wait()
            return {"x": np.zeros(stop - start)}

    # One repeat in this thread, and three in the others.
    assert results(path, Free(Meeting()), make_cells(4, 1))[0] == "3 threads"
    assert not barrier.broken


def test_error_of_the_work_names_its_batch(path: Path) -> None:
    with Ledger(path) as ledger, pytest.raises(TrialError) as caught:
        execute(Free(Faulty()), make_cells(3, 20), ledger)
    # How far the batch goes depends on how long the pilot before it took.
    assert str(caught.value).startswith("cell q=1, repeats ")
    assert "ZeroDivisionError: no records in the training part" in str(caught.value)
    assert isinstance(caught.value.__cause__, ZeroDivisionError)
    check_ended()


@dataclass(frozen=True)
class Signalled:
    """Gets a signal in the midst, and then waits for `go`."""

    go: threading.Event
    inner: Draws = field(default_factory=Draws)

    def trials(self, cell: Cell, start: int, stop: int) -> Arrays:
        if cell.id == "q=2":
            os.kill(os.getpid(), signal.SIGINT)
            self.go.wait(timeout=30)
        return self.inner.trials(cell, start, stop)


@pytest.mark.parametrize("ends", [True, False])
def test_signal_stores_what_ends_and_waits_for_nothing_else(path: Path, ends: bool) -> None:
    go = threading.Event()
    if ends:
        go.set()
    cells = make_cells(6, 30)
    before = signal.getsignal(signal.SIGINT)
    try:
        with Ledger(path) as ledger:
            with pytest.raises(RunInterrupted, match="stopped by SIGINT with") as caught:
                execute(Free(Signalled(go)), cells, ledger)
            stored = [ledger.finished(cell).size for cell in cells]
            # The batch in which the signal came is the first of its cell.
            assert (stored[2] > 0) == ends
            assert f"with {sum(stored)} of 180 repeats" in str(caught.value)
            assert sum(stored) < 180
    finally:
        go.set()
    assert signal.getsignal(signal.SIGINT) == before
    check_ended()
    found = results(path, Free(Draws()), cells)[1]
    same(found, results(path.with_name("whole"), Draws(), cells, workers=0)[1])


@pytest.mark.parametrize("recipe", ["electronic-surveys", "multi-group"])
def test_sweeps_take_threads_where_compiled_engines_serve_them(recipe: str, tmp_path: Path) -> None:
    plan = make_plan(load_recipe(recipe).with_changes(repeats=20))
    cells = list(plan.cells[2:9])
    threads = results(tmp_path / "threads", plan.work, cells, batch_seconds=0.002)
    alone = results(tmp_path / "alone", plan.work, cells, workers=0)
    assert (threads[0], alone[0]) == ("3 threads", "synchronous")
    same(threads[1], alone[1])


def test_the_plain_path_takes_none(monkeypatch: pytest.MonkeyPatch) -> None:
    def all_unlocked() -> set[bool]:
        plan = make_plan(load_recipe("electronic-surveys"))
        return {plan.work.unlocked(cell) for cell in plan.cells}  # type: ignore[attr-defined]

    assert all_unlocked() == {True}
    monkeypatch.setattr("ppdm_dask.experiments.sweep.plan.has_numba", lambda: False)
    assert all_unlocked() == {False}
