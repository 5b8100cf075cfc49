"""Runs in one process: the same numbers however they are cut, stopped and resumed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
import weakref
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import threadpoolctl
from toy_works import Draws, Faulty, SlowStart, make_cells

from ppdm_dask.cluster.kinds import LocalProfile
from ppdm_dask.cluster.runner import execute
from ppdm_dask.engine.cells import Cell, Progress, TrialError
from ppdm_dask.engine.ledger import Ledger
from ppdm_dask.engine.planner import Tally
from ppdm_dask.errors import InputError, PPDMError, RunInterrupted

TESTS = Path(__file__).parent


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ledger.sqlite"


def repeat_by_repeat(cell: Cell, seed: int = 7) -> Mapping[str, npt.NDArray[Any]]:
    """The numbers of `Draws`, said once more."""
    numbers, pairs = [], []
    for repeat in range(cell.repeats):
        seeds = np.random.SeedSequence((seed, cell.key, repeat))
        generator = np.random.default_rng(seeds)
        numbers.append(generator.integers(1000))
        pairs.append(generator.random(2))
    return {"correct": np.array(numbers, np.int32), "pair": np.array(pairs)}


def check_results(ledger: Ledger, cells: list[Cell]) -> None:
    for cell in cells:
        results = ledger.collect(cell)
        for name, expected in repeat_by_repeat(cell).items():
            np.testing.assert_array_equal(results[name], expected)
            assert results[name].dtype == expected.dtype


@pytest.mark.parametrize("batch_seconds", [0.05, 0.3, 1.0])
def test_numbers_do_not_depend_on_the_batches(path: Path, batch_seconds: float) -> None:
    cells = make_cells(3, 150)
    with Ledger(path) as ledger:
        outcome = execute(
            Draws(seconds=0.001), cells, ledger, workers=0, batch_seconds=batch_seconds
        )
        check_results(ledger, cells)
    assert outcome.complete
    assert outcome.computed_repeats == outcome.total_repeats == 450
    assert outcome.mode == "synchronous"
    assert outcome.quarantined == ()
    assert 0.45 <= outcome.work_seconds <= outcome.elapsed_seconds
    assert set(outcome.costs) == {"q=0", "q=1", "q=2"}
    assert all(0.001 <= cost < 0.1 for cost in outcome.costs.values())


def test_new_cell_moves_no_other_number_and_costs_alone(path: Path, tmp_path: Path) -> None:
    record = tmp_path / "record"
    with Ledger(path) as ledger:
        execute(Draws(), make_cells(2, 40), ledger, workers=0)
        cells = make_cells(3, 60)
        outcome = execute(Draws(record=str(record)), cells, ledger, workers=0)
        check_results(ledger, cells)
    assert outcome.resumed_repeats == 80
    assert outcome.computed_repeats == 100
    done = Counter(line.split()[0] for line in record.read_text().splitlines())
    assert done == {"q=0": 20, "q=1": 20, "q=2": 60}


def test_finished_run_has_nothing_to_do(path: Path) -> None:
    cells = make_cells(2, 30)
    with Ledger(path) as ledger:
        execute(Draws(), cells, ledger, workers=0)
        again = execute(Faulty(), cells, ledger)
    assert again.computed_repeats == again.batches == 0
    assert again.mode == "nothing to do"
    assert again.complete


def test_progress_counts_up(path: Path) -> None:
    seen: list[Progress] = []
    cells = make_cells(2, 50)
    with Ledger(path) as ledger:
        execute(Draws(), make_cells(2, 10), ledger, workers=0)
        outcome = execute(Draws(), cells, ledger, workers=0, progress=seen.append)
    assert seen[0].done_repeats == seen[0].resumed_repeats == 20
    assert seen[0].cell == ""
    assert seen[-1].done_repeats == seen[-1].total_repeats == 100
    done = [state.done_repeats for state in seen]
    assert done == sorted(done)
    assert len(seen) == outcome.batches + 1
    assert {state.cell for state in seen[1:]} == {"q=0", "q=1"}
    assert {state.mode for state in seen} == {"synchronous"}


def test_short_job_starts_no_workers(path: Path) -> None:
    with Ledger(path) as ledger:
        outcome = execute(Draws(), make_cells(4, 100), ledger)
    assert outcome.mode == "synchronous"


def test_slow_first_call_starts_no_workers(path: Path) -> None:
    # At the speed of its first call this job would take five minutes.
    with Ledger(path) as ledger:
        outcome = execute(SlowStart(0.3), make_cells(1, 1000), ledger)
    assert outcome.mode == "synchronous"
    assert outcome.complete


class TestErrors:
    def test_error_of_the_work_names_cell_and_repeats(self, path: Path) -> None:
        with Ledger(path) as ledger:
            with pytest.raises(TrialError) as caught:
                execute(Faulty(), make_cells(3, 20), ledger, workers=0)
            stored = sum(ledger.finished(cell).size for cell in make_cells(3, 20))
        message = str(caught.value)
        assert message.startswith("cell q=1, repeats 1 to 8: ZeroDivisionError: no records")
        assert "\n" not in message
        assert isinstance(caught.value.__cause__, ZeroDivisionError)
        assert stored > 0

    def test_result_of_the_wrong_shape(self, path: Path) -> None:
        @dataclass(frozen=True)
        class Short:
            def trials(self, cell: Cell, start: int, stop: int) -> dict[str, npt.NDArray[Any]]:
                return {"x": np.zeros(3)}

        with Ledger(path) as ledger, pytest.raises(PPDMError, match="first axis must be 1 repeats"):
            execute(Short(), make_cells(1, 10), ledger, workers=0)

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            ({"workers": -1}, "workers is -1; it must be 0 or more"),
            ({"batch_seconds": 0.0}, "batch_seconds is 0.0; it must be above 0"),
            ({"batch_seconds": float("nan")}, "batch_seconds is nan; it must be above 0"),
            ({"workers": 2, "client": object()}, "give workers or client, not both"),
        ],
    )
    def test_arguments(self, path: Path, arguments: dict[str, Any], message: str) -> None:
        with Ledger(path) as ledger, pytest.raises(InputError) as caught:
            execute(Draws(), make_cells(1, 10), ledger, **arguments)
        assert str(caught.value) == message

    @pytest.mark.parametrize(
        ("cells", "message"),
        [
            ([Cell("a", {"q": 1}, 0)], "cell a: 0 repeats; at least 1 is needed"),
            ([Cell("a", {"q": 1}, 5), Cell("a", {"q": 2}, 5)], "two cells are called a"),
            ([Cell("a", {"q": 1}, 5), Cell("b", {"q": 1}, 9)], "cells a and b have the same para"),
        ],
    )
    def test_cells(self, path: Path, cells: list[Cell], message: str) -> None:
        with Ledger(path) as ledger, pytest.raises(InputError, match=message):
            execute(Draws(), cells, ledger, workers=0)


@dataclass(frozen=True)
class Signalled:
    """Gets a signal at the start of a trial of one minute."""

    number: signal.Signals

    def trials(self, cell: Cell, start: int, stop: int) -> dict[str, npt.NDArray[Any]]:
        os.kill(os.getpid(), self.number)
        time.sleep(60.0)
        return {}


class Target:
    """What a weak reference can point to."""


@dataclass(frozen=True)
class Swallowing:
    """Trials in which the first exception that SIGINT raises never arrives."""

    how: str
    lost: list[str] = field(default_factory=list)

    def signalled(self) -> None:
        try:
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(60)
        except BaseException as error:
            self.lost.append(type(error).__name__)
            raise

    def trials(self, cell: Cell, start: int, stop: int) -> dict[str, npt.NDArray[Any]]:
        if self.how == "dropped":
            target = Target()
            reference = weakref.ref(target, lambda _: self.signalled())
            del target
            assert reference() is None
        elif self.how == "caught":
            with suppress(BaseException):
                self.signalled()
        else:
            try:
                self.signalled()
            except BaseException:
                raise ValueError("a callback failed") from None
        time.sleep(60)
        return {"x": np.zeros(stop - start)}


class TestInterrupts:
    @pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
    def test_signal_in_a_long_trial(self, path: Path, number: signal.Signals) -> None:
        before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
        cells = make_cells(1, 10)
        with Ledger(path) as ledger:
            execute(Draws(), make_cells(1, 4), ledger, workers=0)
            began = time.monotonic()
            with pytest.raises(RunInterrupted) as caught:
                execute(Signalled(number), cells, ledger, workers=0)
            assert time.monotonic() - began < 20
            assert ledger.finished(cells[0]).size == 4
        assert str(caught.value) == (
            f"stopped by {number.name} with 4 of 10 repeats stored; "
            "the same command resumes from there"
        )
        assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == before

    @pytest.mark.parametrize("how", ["dropped", "caught", "translated"])
    def test_signal_whose_exception_is_lost(
        self, path: Path, how: str, capfd: pytest.CaptureFixture[str]
    ) -> None:
        work = Swallowing(how)
        before = sys.unraisablehook
        with Ledger(path) as ledger:
            began = time.monotonic()
            with pytest.raises(RunInterrupted, match="stopped by SIGINT with 0 of 3"):
                execute(work, make_cells(1, 3), ledger, workers=0)
            assert time.monotonic() - began < 20
        assert work.lost == ["Stopped"]
        assert sys.unraisablehook == before
        assert capfd.readouterr().err == ""

    def test_signal_while_a_batch_is_stored(
        self, path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        cells = make_cells(2, 50)
        commit = Ledger.commit

        def interrupted(self: Ledger, *arguments: Any) -> None:
            os.kill(os.getpid(), signal.SIGINT)
            commit(self, *arguments)

        with Ledger(path) as ledger:
            with monkeypatch.context() as patch, pytest.raises(RunInterrupted):
                patch.setattr(Ledger, "commit", interrupted)
                execute(Draws(), cells, ledger, workers=0)
            assert sum(ledger.finished(cell).size for cell in cells) == 1
            assert execute(Draws(), cells, ledger, workers=0).complete
            check_results(ledger, cells)

    def test_signal_with_the_last_batch(self, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        # Nothing of this run is left to stop, but anyone who asked wants what follows to stop.
        cells = make_cells(1, 1)
        commit = Ledger.commit

        def interrupted(self: Ledger, *arguments: Any) -> None:
            commit(self, *arguments)
            os.kill(os.getpid(), signal.SIGTERM)

        with Ledger(path) as ledger:
            with (
                monkeypatch.context() as patch,
                pytest.raises(RunInterrupted, match="stopped by SIGTERM with 1 of 1 repeats"),
            ):
                patch.setattr(Ledger, "commit", interrupted)
                execute(Draws(), cells, ledger, workers=0)
            assert execute(Draws(), cells, ledger, workers=0).complete
            check_results(ledger, cells)

    def test_background_job_of_a_shell_can_be_interrupted(self, path: Path) -> None:
        # A shell starts what ends in & with SIGINT ignored.
        arguments = '{"work": {"seconds": 60}, "n_cells": 1, "repeats": 5, "workers": 0}'
        command = f"{sys.executable} {TESTS}/cluster/driver.py {path} '{arguments}' & echo $!; wait"
        with subprocess.Popen(
            ["sh", "-c", command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        ) as shell:
            assert shell.stdout is not None
            pid = int(shell.stdout.readline())
            assert shell.stdout.readline() == "0\n"
            os.kill(pid, signal.SIGINT)
            _, errors = shell.communicate(timeout=20)
        assert errors == (
            "stopped by SIGINT with 0 of 5 repeats stored; the same command resumes from there\n"
        )

    def test_off_the_main_thread(self, path: Path) -> None:
        failures: list[BaseException] = []

        def target() -> None:
            try:
                with Ledger(path) as ledger:
                    execute(Draws(), make_cells(1, 20), ledger, workers=0)
            except BaseException as error:
                failures.append(error)

        thread = threading.Thread(target=target)
        thread.start()
        thread.join()
        assert failures == []


def test_libraries_use_one_thread_during_a_run_alone(path: Path) -> None:
    counts: list[int] = []

    class Matrix:
        def trials(self, cell: Cell, start: int, stop: int) -> dict[str, npt.NDArray[Any]]:
            np.linalg.inv(np.eye(3))
            counts.extend(info["num_threads"] for info in threadpoolctl.threadpool_info())
            return {"x": np.zeros(stop - start)}

    with threadpoolctl.threadpool_limits(limits=2), Ledger(path) as ledger:
        execute(Matrix(), make_cells(1, 3), ledger, workers=0)
        after = [info["num_threads"] for info in threadpoolctl.threadpool_info()]
    assert counts
    assert set(counts) == {1}
    assert max(after) == 2


def test_synchronous_run_loads_no_dask(fresh_python: Callable[[str], str]) -> None:
    loaded = fresh_python(
        f"""
import sys
sys.path.insert(0, {str(TESTS / "support")!r})
from toy_works import Draws, make_cells
from ppdm_dask.engine.ledger import Ledger
from ppdm_dask.cluster.runner import execute
from ppdm_dask.engine.planner import Tally
with Ledger("ledger.sqlite") as ledger:
    outcome = execute(Draws(), make_cells(2, 50), ledger)
assert outcome.complete
print(*sorted({{name.partition(".")[0] for name in sys.modules}}))
"""
    ).split()
    assert "numpy" in loaded
    assert not {"dask", "distributed", "pandas", "sklearn", "xarray"}.intersection(loaded)


@pytest.mark.parametrize(
    ("workers", "batch_seconds", "expected"),
    [(2, None, 0.5), (100, None, 0.5), (1_000, None, 5.0), (1_000, 0.3, 0.3)],
)
def test_batches_grow_with_a_large_cluster(
    path: Path,
    monkeypatch: pytest.MonkeyPatch,
    workers: int,
    batch_seconds: float | None,
    expected: float,
) -> None:
    profile = LocalProfile(source="p.toml", workers=workers, memory=2**30)
    seen: list[float] = []

    def dispatch(tally: Tally, *_: object) -> None:
        seen.append(tally.planner.batch_seconds)

    monkeypatch.setattr("ppdm_dask.cluster.session.dispatch", dispatch)
    with Ledger(path) as ledger:
        execute(Draws(), make_cells(1, 5), ledger, profile=profile, batch_seconds=batch_seconds)
    assert seen == [expected]
