"""Intervals by likelihood-ratio ordering: exact ends, coverage of no less than the level."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom

from ppdm_dask.inference import feldman_cousins

CHANCES = st.sampled_from([0.0, 0.05, 0.1, 0.2, 0.25, 1 / 3, 0.5, 0.7, 0.8, 0.9, 1.0])


def by_definition(n, a, b, pis):
    """Law of the count at each proportion, and the logarithm of its likelihood ratio."""
    x, share = np.arange(n + 1), (a + (b - a) * pis)[:, None]
    best = np.clip(x / n, min(a, b), max(a, b))
    law = binom.pmf(x, n, share)
    with np.errstate(divide="ignore"):
        return law, binom.logpmf(x, n, share) - binom.logpmf(x, n, best)


@st.composite
def cases(draw):
    a = draw(CHANCES)
    b = draw(CHANCES.filter(lambda b: b != a))
    return draw(st.integers(1, 30)), a, b, draw(st.sampled_from([0.5, 0.8, 0.9, 0.95, 0.99]))


@settings(max_examples=50, deadline=None)
@given(cases())
def test_every_accepted_proportion_is_inside_and_coverage_is_at_least_the_level(case):
    n, a, b, level = case
    ends = [feldman_cousins(yes, n, a, b, level) for yes in range(n + 1)]
    # Where coverage can change: between all ends, just beyond them, and on a grid.
    edges = np.unique(np.ravel(ends))
    beside = np.concatenate([edges - 1e-9, edges, edges + 1e-9])
    pis = np.unique(np.clip(np.concatenate([beside, np.linspace(0, 1, 401)]), 0, 1))
    law, ratio = by_definition(n, a, b, pis)
    covered = np.zeros(len(pis))
    for yes, (low, high) in enumerate(ends):
        assert 0 <= low <= high <= 1
        inside = (low <= pis) & (pis <= high)
        tail = np.where(ratio <= ratio[:, [yes]] + 1e-11, law, 0).sum(axis=1)
        accepted = tail > 1 - level + 1e-12
        near = (low - 1e-10 <= pis) & (pis <= high + 1e-10)
        assert not (accepted & ~near).any()
        # No wider than what is accepted: just inside of an end there are accepted proportions.
        assert accepted.any()
        assert pis[accepted].min() - low < 2.6e-3
        assert high - pis[accepted].max() < 2.6e-3
        covered += law[:, yes] * inside
    assert covered.min() >= level - 1e-9


@settings(max_examples=30, deadline=None)
@given(cases())
def test_swapping_yes_and_no_or_inside_and_outside_swaps_the_interval(case):
    n, a, b, level = case
    for yes in {0, n // 3, n}:
        low, high = feldman_cousins(yes, n, a, b, level)
        assert feldman_cousins(n - yes, n, 1 - a, 1 - b, level) == pytest.approx((low, high), 1e-7)
        assert feldman_cousins(yes, n, b, a, level) == pytest.approx((1 - high, 1 - low), abs=1e-7)


def test_an_island_that_a_grid_misses():
    """Accepted proportions beyond a gap of rejected ones belong to the interval."""
    gaps = 0
    pis = np.linspace(0, 1, 20_001)
    for n in (7, 12, 20):
        law, ratio = by_definition(n, 0.2, 0.8, pis)
        for yes in range(n + 1):
            tail = np.where(ratio <= ratio[:, [yes]] + 1e-11, law, 0).sum(axis=1)
            accepted = np.flatnonzero(tail > 0.05 + 1e-12)
            gaps += (np.diff(accepted) > 1).any()
            low, high = feldman_cousins(yes, n, 0.2, 0.8)
            assert low == pytest.approx(pis[accepted[0]], abs=1e-4)
            assert high == pytest.approx(pis[accepted[-1]], abs=1e-4)
    assert gaps


def test_a_hundred_million_reports():
    n = 100_000_000
    low, high = feldman_cousins(38_000_000, n, 0.2, 0.8)
    error = (0.38 * 0.62 / n) ** 0.5 / 0.6
    assert low == pytest.approx(0.3 - 1.959964 * error, abs=1e-3 * error)
    assert high == pytest.approx(0.3 + 1.959964 * error, abs=1e-3 * error)
