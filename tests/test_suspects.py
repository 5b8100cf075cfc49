"""Batches whose workers died are cut down to the repeat at fault before anything is given up."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from toy_works import make_cells

from ppdm_dask.engine import planner as suspects
from ppdm_dask.engine import planner as tally
from ppdm_dask.engine.cells import Batch, Result
from ppdm_dask.engine.ledger import Ledger
from ppdm_dask.engine.planner import Suspects, Tally

CELLS = make_cells(2, 64)


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Tally]:
    """A run with a first repeat of each cell stored at a cost of 10 ms, so that none is a pilot."""
    with Ledger(tmp_path / "ledger.sqlite") as ledger:
        for cell in CELLS:
            ledger.commit(cell, 0, 1, {"x": np.zeros(1)}, 0.01)
        yield Tally(CELLS, ledger, 10.0, None)


def finish(run: Tally, deadly: set[tuple[str, int]]) -> list[Batch]:
    """Do all that is missing where some repeats always end their worker; what ran alone."""
    queue = Suspects(run)
    alone: list[Batch] = []
    while run.planner.unfinished:
        if queue.waiting:
            batch = queue.waiting.popleft()
            alone.append(batch)
        else:
            handed = run.planner.next()
            assert handed is not None
            batch = handed
        repeats = range(batch.start, batch.stop)
        if any((batch.cell.id, repeat) in deadly for repeat in repeats):
            queue.judge(batch, alone=batch in alone, reason="killed by signal 9")
        else:
            arrays = {"x": np.array(repeats, float)}
            run.store(batch, Result(arrays, 0.01 * batch.size, fresh=False))
    return alone


def given_up(run: Tally) -> list[tuple[str, int, int]]:
    return [(e.batch.cell.id, e.batch.start, e.batch.stop) for e in run.quarantined]


def test_only_the_repeat_at_fault_is_given_up(run: Tally) -> None:
    alone = finish(run, {("q=1", 37)})
    assert given_up(run) == [("q=1", 37, 38)]
    assert run.quarantined[0].reason == "killed by signal 9"
    assert run.ledger.missing(CELLS) == [Batch(CELLS[1], 37, 38)]
    # The batch itself, then two halves of each half at fault: 63 repeats are cut 6 times at most.
    assert len(alone) <= 1 + 2 * 6
    assert not run.outcome().complete


def test_innocent_batch_is_stored_when_it_runs_alone(run: Tally) -> None:
    queue = Suspects(run)
    batch = run.planner.next()
    assert batch is not None
    queue.judge(batch, alone=False, reason="killed by signal 9")
    assert list(queue.waiting) == [batch]
    assert run.quarantined == []
    assert run.planner.unfinished


def test_cell_that_always_ends_its_worker_is_given_up_in_time(run: Tally) -> None:
    alone = finish(run, {("q=0", repeat) for repeat in range(1, 64)})
    assert len(alone) <= 1 + 2 * suspects.MOST_SPLITS
    assert run.ledger.missing(CELLS) == [Batch(CELLS[0], 1, 64)]
    missing = [r for cell, start, stop in given_up(run) for r in range(start, stop)]
    assert sorted(missing) == list(range(1, 64)), "each missing repeat is reported once"
    assert {cell for cell, _, _ in given_up(run)} == {"q=0"}


def test_rest_of_a_hopeless_cell_is_not_tried(tmp_path: Path) -> None:
    (cell,) = make_cells(1, 1000)
    with Ledger(tmp_path / "hopeless.sqlite") as ledger:
        ledger.commit(cell, 0, 1, {"x": np.zeros(1)}, 10.0)
        run = Tally([cell], ledger, 0.5, None)
        alone = finish(run, {("q=0", repeat) for repeat in range(1, 1000)})
    assert len(alone) == tally.MOST_QUARANTINED
    assert given_up(run)[-1] == ("q=0", 6, 1000)
    assert run.quarantined[-1].reason == "not tried, as 5 batches of this cell ended their workers"
