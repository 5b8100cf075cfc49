"""Batches cover what is missing exactly once, and take about the time they should."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from toy_works import make_cells

from ppdm_dask.engine.cells import Batch, Cell
from ppdm_dask.engine.planner import Planner


def simulate(
    planner: Planner,
    costs: dict[str, float],
    *,
    processes: int = 1,
    start_seconds: float = 0.0,
) -> list[tuple[Batch, float]]:
    """Do all batches in the order given; a cell's first batch in a process costs extra."""
    seen: set[tuple[int, str]] = set()
    done: list[tuple[Batch, float]] = []
    while True:
        window = []
        for process in range(processes):
            batch = planner.next()
            if batch is not None:
                window.append((process, batch))
        if not window:
            assert not planner.unfinished
            return done
        for process, batch in window:
            fresh = (process, batch.cell.id) not in seen
            seen.add((process, batch.cell.id))
            seconds = batch.size * costs[batch.cell.id] + start_seconds * fresh
            planner.done(batch, seconds, fresh=fresh)
            done.append((batch, seconds))


def whole(cells: list[Cell]) -> list[Batch]:
    return [Batch(cell, 0, cell.repeats) for cell in cells]


def test_pilots_grow_then_batches_take_their_time() -> None:
    cells = make_cells(1, 2000)
    done = simulate(Planner(whole(cells), 0.5), {"q=0": 0.001})
    sizes = [batch.size for batch, _ in done]
    assert sizes[:3] == [1, 8, 64]
    assert all(0.3 <= seconds <= 0.5 for _, seconds in done[3:])
    assert max(sizes[3:]) - min(sizes[3:]) <= 1


@pytest.mark.parametrize("processes", [1, 2, 5])
def test_compiling_does_not_fool_the_pilots(processes: int) -> None:
    cells = make_cells(1, 20_000)
    done = simulate(
        Planner(whole(cells), 0.5), {"q=0": 0.001}, processes=processes, start_seconds=8.0
    )
    # 20 seconds of work are 40 batches; the rest are pilots and first batches in a process.
    assert len(done) < 50 + 6 * processes
    late = [seconds for _, seconds in done[-20:]]
    assert all(0.3 <= seconds <= 0.5 for seconds in late)


def test_slow_trials_go_one_by_one() -> None:
    cells = make_cells(1, 10)
    done = simulate(Planner(whole(cells), 0.5), {"q=0": 3.0}, processes=4)
    assert [batch.size for batch, _ in done] == [1] * 10


def test_slow_cells_first() -> None:
    cells = make_cells(3, 100)
    known = {cells[0].key: 0.01, cells[1].key: 2.0, cells[2].key: 0.1}
    done = simulate(Planner(whole(cells), 0.5, known), {"q=0": 0.01, "q=1": 2.0, "q=2": 0.1})
    assert {batch.cell.id for batch, _ in done[:100]} == {"q=1"}
    assert done[0][0].size == 1


def test_known_costs_need_no_pilot() -> None:
    cells = make_cells(1, 1000)
    planner = Planner(whole(cells), 0.5, {cells[0].key: 0.001})
    batch = planner.next()
    assert batch is not None
    assert batch.size == 500
    assert planner.remaining_seconds() == pytest.approx(0.5)


def test_only_reliable_measurements_count_as_remaining_work() -> None:
    cells = make_cells(2, 1000)
    planner = Planner(whole(cells), 0.5)
    first = planner.next()
    assert first is not None
    planner.done(first, 8.0, fresh=True)
    assert planner.remaining_seconds() == 0.0
    other = planner.next()
    assert other is not None
    assert other.cell is not first.cell
    second = planner.next()
    assert second is not None
    assert second.cell is first.cell
    planner.done(second, 0.04, fresh=False)
    assert planner.remaining_seconds() == 0.0
    third = planner.next()
    assert third is not None
    assert third.cell is first.cell
    planner.done(third, 0.01 * third.size, fresh=False)
    assert planner.remaining_seconds() == pytest.approx(
        0.01 * (1000 - 1 - second.size - third.size)
    )


def test_a_cell_not_begun_will_take_what_others_took_to_begin() -> None:
    # Such as searches: many cells of one long repeat, whose first call is all there is.
    planner = Planner(whole(make_cells(10, 1)), 0.5)
    for seconds, remaining in [(30.0, 0.0), (2.0, 0.0), (4.0, 7 * 4.0), (2.0, 6 * 2.0)]:
        batch = planner.next()
        assert batch is not None
        planner.done(batch, seconds, fresh=True)
        assert planner.remaining_seconds() == remaining


def test_one_pilot_of_a_cell_at_a_time() -> None:
    planner = Planner(whole(make_cells(2, 100)), 0.5)
    assert planner.next() is not None
    assert planner.next() is not None
    assert planner.next() is None
    assert planner.unfinished


def test_batch_put_back_is_handed_out_again() -> None:
    cells = make_cells(1, 3)
    planner = Planner(whole(cells), 0.5)
    batch = planner.next()
    assert batch == Batch(cells[0], 0, 1)
    planner.put_back(batch)
    assert planner.next() == batch


def test_batch_given_up_is_not() -> None:
    cells = make_cells(1, 5)
    planner = Planner(whole(cells), 0.5)
    batch = planner.next()
    assert batch is not None
    planner.drop(batch)
    assert planner.give_up(cells[0]) == [Batch(cells[0], 1, 5)]
    assert planner.next() is None
    assert not planner.unfinished


def test_halves_are_both_in_flight() -> None:
    cells = make_cells(1, 5)
    planner = Planner(whole(cells), 0.5, {cells[0].key: 0.1})
    batch = planner.next()
    assert batch == Batch(cells[0], 0, 5)
    assert planner.split(batch) == (Batch(cells[0], 0, 2), Batch(cells[0], 2, 5))
    planner.done(Batch(cells[0], 0, 2), 0.2, fresh=False)
    assert planner.unfinished
    planner.drop(Batch(cells[0], 2, 5))
    assert not planner.unfinished


@given(
    costs=st.lists(st.floats(0, 1.5), min_size=1, max_size=4),
    holes=st.lists(st.tuples(st.integers(0, 60), st.integers(1, 30)), max_size=4),
    processes=st.integers(1, 4),
    batch_seconds=st.floats(0.01, 2.0),
    start_seconds=st.sampled_from([0.0, 5.0]),
)
def test_every_missing_repeat_is_done_exactly_once(
    costs: list[float],
    holes: list[tuple[int, int]],
    processes: int,
    batch_seconds: float,
    start_seconds: float,
) -> None:
    cells = make_cells(len(costs), 100)
    stored = {repeat for start, size in holes for repeat in range(start, start + size)}
    wanted = [repeat for repeat in range(100) if repeat not in stored]
    missing = []
    for cell in cells:
        for repeat in wanted:
            if missing and missing[-1].cell is cell and missing[-1].stop == repeat:
                missing[-1] = Batch(cell, missing[-1].start, repeat + 1)
            else:
                missing.append(Batch(cell, repeat, repeat + 1))
    done = simulate(
        Planner(missing, batch_seconds),
        {cell.id: cost for cell, cost in zip(cells, costs, strict=True)},
        processes=processes,
        start_seconds=start_seconds,
    )
    counted = Counter((b.cell.id, r) for b, _ in done for r in range(b.start, b.stop))
    assert counted == Counter({(cell.id, r): 1 for cell in cells for r in wanted})
