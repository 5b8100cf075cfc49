"""Tolerances between figures that were computed with other libraries, and what they let through."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from ppdm_dask.reproduce.compare import (
    FALSE_ALARM,
    FEW,
    Spread,
    bound,
    compare,
    is_close,
    pools,
    standard_error,
)
from ppdm_dask.reproduce.golden import Golden
from ppdm_dask.reproduce.summary import Figure, Summary

HERE, THERE = {"numpy": "2.4.6"}, {"numpy": "2.4.0"}


def summary(cells: dict[str, Figure], kind: str = "mean", digest: str = "0") -> dict[str, Summary]:
    return {"accuracy": Summary("accuracy", "1", kind, digest, cells)}  # type: ignore[arg-type]


def against(expected: dict[str, Summary], found: dict[str, Summary], *, same: bool = False):
    """Comparison of two results whose digests differ."""
    golden = Golden("surveys", "small", "recipe", "a", dict(HERE), "0.1.0", expected, ())
    return compare(golden, "recipe", "b", found, dict(HERE if same else THERE))


def test_bound_is_that_of_bonferroni():
    many = Figure(0.5, 0.1, 10**6), Figure(0.5, 0.1, 10**6)
    # For many repeats Student's t is the normal; its tail by the complementary error function.
    for cells in (1, 100, 5_000):
        t = bound(cells, *many, Spread())
        assert math.erfc(t / math.sqrt(2)) == pytest.approx(FALSE_ALARM / cells, rel=1e-3)


def test_bound_has_welchs_degrees_of_freedom():
    # Equal spreads and repeats: 2 (n - 1). No spread on one side: n - 1 of the other.
    p = FALSE_ALARM / 2
    equal = bound(1, Figure(1.0, 0.2, 12), Figure(1.0, 0.2, 12), Spread())
    assert equal == pytest.approx(stats.t.isf(p, 22))
    lone = bound(1, Figure(1.0, 0.0, 50), Figure(1.0, 0.2, 12), Spread())
    assert lone == pytest.approx(stats.t.isf(p, 11))


@pytest.mark.parametrize(
    ("expected", "found", "close"),
    [
        (1, 1, True),
        (1, 2, False),
        ("a", "b", False),
        (None, None, True),
        (None, 0.1, False),
        (0.5, 0.5 + 4e-7, True),
        (0.5, 0.5 + 6e-7, False),
        (0.0, 1e-13, True),
        (0.0, 1e-11, False),
        (math.inf, math.inf, True),
        (math.inf, 1.0, False),
        ("0.5", 0.5, False),
    ],
)
def test_values_without_a_standard_error(expected, found, close):
    assert is_close(expected, found) == close


def test_other_draws_of_the_same_law_are_no_drift_and_a_shift_is():
    cells, n, shift = 400, 30, 2.0
    draw = np.random.default_rng(5).normal(size=(2, cells, n))
    means, errors = draw.mean(axis=2), draw.std(axis=2, ddof=1) / math.sqrt(n)

    def figures(i: int, moved: set[int]) -> dict[str, Summary]:
        values = [m + shift * (j in moved) for j, m in enumerate(means[i])]
        named = zip(values, errors[i], strict=True)
        return summary({f"q={j}": Figure(v, se, n) for j, (v, se) in enumerate(named)})

    assert against(figures(0, set()), figures(1, set())).status == "within tolerance"
    found = against(figures(0, set()), figures(1, {7, 300}))
    assert found.status == "drifted"
    assert [drift.cell for drift in found.drifts] == ["q=7", "q=300"]
    first = found.drifts[0]
    z = (means[1, 7] + shift - means[0, 7]) / math.hypot(errors[0, 7], errors[1, 7])
    assert first.z == pytest.approx(z)
    assert first.bound is not None
    assert first.z > first.bound


def test_false_alarms_are_as_rare_as_declared_where_repeats_are_few():
    # Student's t is exact for equal spreads: at an alarm rate of 5 % the share must be near it.
    rng = np.random.default_rng(6)
    trials, n = 20_000, 12
    draw = rng.normal(size=(2, trials, n))
    means, errors = draw.mean(axis=2), draw.std(axis=2, ddof=1) / math.sqrt(n)
    z = np.abs(means[1] - means[0]) / np.hypot(*errors)
    limit = bound(1, Figure(0.0, 1.0, n), Figure(0.0, 1.0, n), Spread())
    share = 0.05
    scaled = limit * stats.t.isf(share / 2, 2 * n - 2) / stats.t.isf(FALSE_ALARM / 2, 2 * n - 2)
    alarms = int((z > scaled).sum())
    assert stats.binomtest(alarms, trials, share).pvalue > 1e-3


def test_few_repeats_share_their_relative_spread_within_a_method():
    few = FEW - 6
    cells = {
        "case=a method=x level=0.1": Figure(10.0, 1.0, few),  # 10 %
        "case=a method=x level=0.2": Figure(20.0, 0.0, few),
        "case=b method=x level=0.1": Figure(10.0, 2.0, few),  # 20 %
        "case=a method=y level=0.1": Figure(10.0, 0.1, few),  # 1 %
    }
    own = summary(cells)["accuracy"]
    pooled = pools(own, own)
    x, y = pooled["method=x"], pooled["method=y"]
    assert x.relative == pytest.approx(math.sqrt((0.1**2 + 0.0**2 + 0.2**2) / 3))
    assert y.relative == pytest.approx(0.01)
    # Two sides of two cases, whatever their levels.
    assert (x.freedom, y.freedom) == (4 * (few - 1), 2 * (few - 1))
    raised = standard_error(cells["case=a method=x level=0.2"], pooled, "case=a method=x level=0.2")
    assert raised == pytest.approx(20.0 * x.relative)
    kept = standard_error(cells["case=b method=x level=0.1"], pooled, "case=b method=x level=0.1")
    assert kept == 2.0
    plenty = summary({"case=a": Figure(10.0, 1.0, FEW)})["accuracy"]
    assert pools(plenty, plenty) == {}


def test_means_without_spread_have_to_agree():
    expected, found = Figure(7.0, 0.0, 50), Figure(7.5, 0.0, 50)
    drifted = against(summary({"q=1": expected}), summary({"q=1": found}))
    assert [(d.cell, d.z, d.bound) for d in drifted.drifts] == [("q=1", None, None)]
    # One repeat in fifty gave another number: a standard error off, and no drift.
    assert (
        against(summary({"q=1": expected}), summary({"q=1": Figure(7.02, 0.02, 50)})).drifts == ()
    )


def test_a_cell_that_appears_or_vanishes_is_drift():
    one, two = Figure(0.5, 0.1, 50), Figure(0.6, 0.1, 50)
    found = against(summary({"q=0": one, "q=1": two}), summary({"q=1": two, "q=2": one}))
    assert [(d.cell, d.expected, d.found) for d in found.drifts] == [
        ("q=0", one, None),
        ("q=2", None, one),
    ]


def test_levels_that_only_some_searches_reach_are_left_open():
    some, all_, none = Figure(None, None, 4), Figure(2.0, 0.1, 4), Figure(math.inf, None, 4)
    assert against(summary({"level=1": some}), summary({"level=1": all_})).drifts == ()
    assert against(summary({"level=1": none}), summary({"level=1": none})).drifts == ()
    assert len(against(summary({"level=1": none}), summary({"level=1": all_})).drifts) == 1
    # The same where a level without a number has no cell at all.
    other, one = {"level=2": all_}, Figure(2.0, None, 1)
    assert against(summary(other), summary({**other, "level=1": one})).drifts == ()
    assert against(summary({**other, "level=1": one}), summary(other)).drifts == ()
    assert len(against(summary(other), summary({**other, "level=1": all_})).drifts) == 1


def test_the_same_environment_is_compared_to_the_bit():
    expected = summary({"q=0": Figure(0.5, 0.1, 50), "q=1": Figure(0.25, 0.1, 50)})
    nudged = summary({"q=0": Figure(0.5, 0.1, 50), "q=1": Figure(0.2500000001, 0.1, 50)})
    tolerant = against(expected, nudged)
    assert (tolerant.kind, tolerant.status) == ("tolerance", "within tolerance")
    assert tolerant.reasons == ("numpy: 2.4.6 in the golden, 2.4.0 here",)
    exact = against(expected, nudged, same=True)
    assert (exact.kind, exact.status, exact.reasons) == ("exact", "drifted", ())
    assert [d.cell for d in exact.drifts] == ["q=1"]


def test_a_difference_that_no_summary_shows_names_the_variable():
    cells = {"q=0": Figure(0.5, 0.1, 50)}
    found = against(summary(cells, digest="aa"), summary(cells, digest="bb"), same=True)
    (drift,) = found.drifts
    assert (drift.variable, drift.cell, drift.units) == ("accuracy", "", "digest")
    assert drift.expected == Figure("aa")
    assert drift.found == Figure("bb")


def test_an_equal_digest_is_said_but_hides_no_other_environment():
    cells = summary({"q=0": Figure(0.5, 0.1, 50)})
    golden = Golden("surveys", "small", "recipe", "a", dict(HERE), "0.1.0", cells, ())
    same = compare(golden, "recipe", "a", cells, dict(HERE))
    assert (same.kind, same.status, same.reasons) == ("exact", "same", ())
    other = compare(golden, "recipe", "a", cells, dict(THERE))
    assert (other.kind, other.status) == ("tolerance", "within tolerance")
    assert other.reasons[-1] == "the digest is the same"
    # Another recipe is said too, and does not make the comparison a tolerant one.
    changed = compare(golden, "another", "a", cells, dict(HERE))
    assert changed.kind == "exact"
    assert changed.reasons == ("the recipe is another one than the golden's",)
