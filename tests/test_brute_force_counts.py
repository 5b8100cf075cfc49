"""Counts, weights and ledgers against plain statements; what tables have no room for is refused."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest
from strategies import make_codebook

from ppdm_dask import Reports, RRMatrix, Warner, count
from ppdm_dask.engine.cells import Batch, Cell, Quarantined
from ppdm_dask.engine.ledger import Ledger
from ppdm_dask.errors import RecordsError
from ppdm_dask.inference import tables
from ppdm_dask.inference.laws import NOTHING, EventLaw, lift, told_cells, undefined
from ppdm_dask.inference.proportions import estimate

WARNER = Warner("a", 0.8)
CODES = np.array([[0], [1], [1], [0], [1], [1]])
WEIGHTS = np.array([1.0, 2.0, 0.5, 4.0, 1.5, 3.0])
STRATA = np.array([0, 1, 0, 1, 0, 1])


def reports(weights: np.ndarray | None = None, strata: np.ndarray | None = None) -> Reports:
    book = make_codebook(["a"], [2])
    return Reports(CODES, book, 0, WARNER.digest, True, weights=weights, strata=strata)


@pytest.mark.parametrize(
    ("weights", "strata"), [(WEIGHTS, None), (None, STRATA), (WEIGHTS, STRATA)]
)
def test_reports_with_weights_or_strata_are_not_counted(weights, strata) -> None:
    with pytest.raises(RecordsError, match=r"survey (weights|strata).* are not counted"):
        count(reports(weights, strata), WARNER)


def test_a_weighted_proportion_is_the_weighted_mean_of_event_weights() -> None:
    # Of Warner's design a report of the event weighs p / (2p - 1), another one -(1 - p) / (2p - 1).
    each = np.where(CODES[:, 0] == 1, 0.8 / 0.6, -0.2 / 0.6)
    expected = (WEIGHTS * each).sum() / WEIGHTS.sum()
    for strata in (None, STRATA):
        found = estimate(reports(WEIGHTS, strata), {"a": "1"}, design=WARNER)
        assert found.value == pytest.approx(expected, rel=1e-12)
        assert found.n == len(CODES)
    unweighted = estimate(reports(None, STRATA), {"a": "1"}, design=WARNER)
    assert unweighted.value == pytest.approx(each.mean(), rel=1e-12)


def test_what_was_given_up_is_told_in_the_order_of_repeats(tmp_path: Path) -> None:
    cell = Cell("q=0.5", {"q": 0.5}, 10)
    with Ledger(tmp_path / "ledger.sqlite") as ledger:
        for start, stop in ((7, 8), (2, 4), (4, 5)):
            ledger.quarantine(Quarantined(Batch(cell, start, stop), "it is too large"))
        found = [(each.batch.start, each.batch.stop) for each in ledger.quarantined([cell])]
    assert found == [(2, 5), (7, 8)]


@pytest.mark.parametrize("limit", [1, 2, 3])
def test_a_table_is_dense_up_to_the_limit_and_not_beyond(limit, monkeypatch) -> None:
    monkeypatch.setattr(tables, "DENSE_CELLS", limit)
    fits = limit >= 2  # "a" has two cells
    counted = count(reports(), WARNER)
    zero = tables.ContingencyTable.zero(counted.codebook, WARNER.digest)
    assert (counted.cells is None, zero.cells is None) == (fits, fits)
    assert counted.counts.tolist() == [2, 4]
    assert zero.counts.tolist() == ([0, 0] if fits else [])
    if fits:
        assert counted.sparse().dense().counts.tolist() == [2, 4]
    else:
        with pytest.raises(RecordsError, match=f"has 2 cells, more than {limit};"):
            counted.dense()


@pytest.mark.parametrize("size", [1.0, 1.25, 4.0, 30.0])
def test_the_floor_of_a_variance_is_that_of_one_report_over_their_effective_number(size) -> None:
    # Warner's weights 4/3 and -1/3: E[w^2 | x] - E[w | x]^2 = .8 .2 / .6^2 for either truth.
    least = 0.8 * 0.2 / 0.6**2
    inside, outside = np.array(least + 1), np.array(least)
    law = EventLaw((inside, inside), (outside, outside), (np.array(-1 / 3), np.array(4 / 3)))
    assert law.least == pytest.approx(least)
    farthest = max(4 / 3 - 0.4, 0.4 + 1 / 3) ** 2
    # Rounding leaves some variances of 0 below it.
    for variance in (-1e-17, 1e-9, 9 * farthest / size**2, 11 * farthest / size**2):
        lifted, few = lift(np.array(variance), np.array(0.4), law, size)
        carried = variance * size**2 > 10 * farthest
        assert bool(few) is not carried
        expected = variance if carried else max(variance, least / size)
        assert float(lifted) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("times", [1.0, 8.0, 1024.0])
def test_what_is_rounding_does_not_depend_on_the_unit_of_weights(times: float) -> None:
    size = 50.0
    rounding = np.array([0.0, 0.5, 0.98, 1.02, 4.0, 1e6]) * NOTHING / size
    found, none = lift(rounding * times**2, np.full(6, -times), None, size)
    assert none.tolist() == np.isnan(found).tolist() == [True, True, True, False, False, False]
    assert found[3:].tolist() == (rounding[3:] * times**2).tolist()
    # No variance is none, even of weights without size.
    assert undefined(np.zeros(1), size, 0.0)[1].tolist() == [True]
    # What is exact is 0 for certain.
    exact, _ = lift(np.zeros(2), np.full(2, times), None, size, np.array([True, False]))
    assert (exact[0], np.isnan(exact[1])) == (0.0, True)


# Three columns, whose rows 2 and 3 say for certain what is not true.
SOME_HOLES = np.array([[0.9, 0.0, 0.3], [0.1, 0.6, 0.0], [0.0, 0.4, 0.7]])
APART = np.array([[1.0, 0.0, 0.0], [0.0, 0.75, 0.25], [0.0, 0.25, 0.75]])


# The inverse of a tall matrix leaves rounding where it should be 0.
TALL = np.array([[0.6, 0.0, 0.0], [0.4, 0.0, 0.0], [0.0, 0.7, 0.2], [0.0, 0.3, 0.8]])


@pytest.mark.parametrize("P", [SOME_HOLES, APART, np.eye(3), TALL])
def test_cells_are_told_where_no_truth_behind_the_reports_leaves_them_open(P: np.ndarray) -> None:
    design, book = RRMatrix("a", P), make_codebook(["a"], [3])
    B = design.left_inverse()
    assert pytest.approx(np.eye(3), abs=1e-12) == B @ P
    for counts in itertools.product((0, 1, 2), repeat=len(P)):
        table = tables.ContingencyTable(
            book, np.array(counts), None, design.digest, True, design.reported_shape
        )
        behind = [x for x in range(3) if any(n and P[y, x] > 0 for y, n in enumerate(counts))]
        # The variance of each cell's weight over the reports of each truth.
        spread = [[P[:, x] @ B[cell] ** 2 - (x == cell) for cell in range(3)] for x in behind]
        expected = [all(abs(each[cell]) < 1e-9 for each in spread) for cell in range(3)]
        assert told_cells(table, design, ("a",)).tolist() == expected
