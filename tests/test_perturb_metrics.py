"""Metrics of a release: known values, and plain statements that they must equal."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ppdm_dask.errors import DataError, InputError
from ppdm_dask.perturb import AIBR, disclosure, distortion
from ppdm_dask.perturb.metrics import within_interval

A = [[1, 10], [2, 30], [3, 20], [4, 40]]
MA = [[2, 10], [1, 20], [3, 30], [4, 50]]


def test_a_case_by_hand():
    found = distortion(A, MA)
    assert found.vd == pytest.approx(0.315706, abs=5e-7)
    assert (found.rp, found.rk, found.cp, found.ck) == (0.5, 0.5, 0, 1)


def plain_distortion(A, MA):
    """The definitions, a value at a time."""

    def rank(values, i):
        return sum(v < values[i] or (v == values[i] and j < i) for j, v in enumerate(values))

    n, m = len(A), len(A[0])
    columns = [([row[j] for row in A], [row[j] for row in MA]) for j in range(m)]
    moves = [abs(rank(x, i) - rank(y, i)) for x, y in columns for i in range(n)]
    means = [[math.fsum(c) / n for c in side] for side in zip(*columns, strict=True)]
    shifts = [abs(rank(means[0], j) - rank(means[1], j)) for j in range(m)]
    squares = [math.fsum((a - b) ** 2 for a, b in zip(x, y, strict=True)) for x, y in columns]
    whole = [math.fsum(a * a for a in x) for x, _ in columns]
    return (
        math.sqrt(math.fsum(squares) / math.fsum(whole)),
        sum(moves) / (n * m),
        moves.count(0) / (n * m),
        sum(shifts) / m,
        shifts.count(0) / m,
    )


TABLES = st.integers(1, 4).flatmap(
    lambda m: st.lists(
        st.tuples(*[st.tuples(st.integers(1, 9), st.integers(0, 9))] * m), min_size=2, max_size=20
    )
)


@given(TABLES)
def test_distortion_is_its_plain_statement(table):
    original = [[float(a) for a, _ in row] for row in table]
    released = [[float(b) for _, b in row] for row in table]
    found = distortion(original, released)
    assert tuple(found) == pytest.approx(plain_distortion(original, released), abs=1e-12)


def plain_linkage(A, MA):
    """The nearest original of each released record, by all distances; ties share the credit."""
    scale = np.where(A.std(axis=0) > 0, A.std(axis=0), 1)
    total = 0.0
    for i, row in enumerate(MA):
        distances = np.sqrt((((A - row) / scale) ** 2).sum(axis=1))
        nearest = np.flatnonzero(distances <= distances.min() * (1 + 1e-9))
        total += (i in nearest) / nearest.size
    return total / len(A)


def test_linkage_is_its_plain_statement():
    rng = np.random.default_rng(1)
    for original in (rng.normal(size=(80, 3)), rng.integers(0, 4, (80, 3)) * 1.0):
        for k in (1, 4, 20):
            released = AIBR(k, seed=k).fit_transform(original)
            found = disclosure(original, released)
            assert found.linkage == pytest.approx(plain_linkage(original, released), abs=1e-12)


def test_linkage_of_a_copy_counts_duplicates():
    original = np.array([[0.0, 0], [0, 0], [1, 5], [2, 7]])
    assert disclosure(original, original).linkage == (1 / 2 + 1 / 2 + 1 + 1) / 4
    apart = np.random.default_rng(2).normal(size=(50, 2))
    assert disclosure(apart, apart) == (1, 1)
    # The scale of a column is not a clue: seconds link as hours do.
    released = AIBR(5, seed=3).fit_transform(apart)
    scaled = disclosure(apart * [1, 3600], released * [1, 3600])
    assert scaled == pytest.approx(disclosure(apart, released))


def test_linkage_at_random_is_one_in_n():
    rng = np.random.default_rng(4)
    original = rng.normal(size=(40, 2))
    shares = [disclosure(original, rng.permutation(original)).linkage for _ in range(400)]
    assert np.mean(shares) == pytest.approx(1 / 40, abs=4 * np.std(shares) / 20)


def test_interval_disclosure_by_hand():
    original = np.array([[0.0], [50.0], [100.0]])
    released = np.array([[5.0], [44.9], [100.0]])
    assert disclosure(original, released, interval=0.05).interval == pytest.approx(2 / 3)
    assert disclosure(original, released, interval=0.06).interval == 1
    assert math.isnan(within_interval([]))
    # AIBR with k sub-intervals never leaves an interval of range / k.
    original = np.random.default_rng(5).normal(size=(50, 3))
    released = AIBR(10, seed=1).fit_transform(original)
    assert disclosure(original, released, interval=0.1).interval == 1


def test_missing_values_are_passed_over():
    gap = math.nan
    original = [[1, gap], [2, 5], [3, 9], [4, 1]]
    released = [[1, gap], [3, 9], [2, 5], [4, 1]]
    found = distortion(original, released)
    assert found.rp == (0 + 1 + 1 + 0 + 1 + 1 + 0) / 7
    assert found.rk == 3 / 7
    # Rows 2 and 3 changed places: each is nearest to the other.
    assert disclosure(original, released).linkage == 1 / 3
    assert disclosure(original, released).interval == 3 / 7
    empty = [[1, gap], [gap, 2]]
    assert math.isnan(disclosure(empty, empty).linkage)


def test_what_does_not_match_is_one_line():
    with pytest.raises(DataError, match=r"the original has shape \(4, 2\), the release \(3, 2\)"):
        distortion(A, MA[:3])
    with pytest.raises(DataError, match="column '1', row 2: missing in only one of original"):
        distortion(A, [[2, 10], [1, 20], [3, math.nan], [4, 50]])
    with pytest.raises(DataError, match="every value of the original is 0"):
        distortion([[0], [0]], [[1], [2]])
    with pytest.raises(DataError, match="no records to compare"):
        distortion(np.empty((0, 2)), np.empty((0, 2)))
    with pytest.raises(DataError, match="column 1: every value is missing"):
        distortion([[1, math.nan], [2, math.nan]], [[1, math.nan], [2, math.nan]])
    for interval in (0, 1, -0.5, math.nan):
        with pytest.raises(InputError, match=r"^interval: got .*; a share of the range"):
            disclosure(A, MA, interval)
