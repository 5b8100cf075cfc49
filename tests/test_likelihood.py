"""Maximum likelihood, expectation-maximisation, their intervals, and resampling."""

from __future__ import annotations

import math

import checks
import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.stats import binom
from strategies import codebook_of, make_codebook, random_records

from ppdm_dask import (
    Identity,
    InputError,
    KaryResponse,
    NotInvertible,
    Product,
    RRMatrix,
    Stream,
    UnrelatedQuestion,
    Warner,
    count,
    invert,
)
from ppdm_dask.designs import Kuk, Mangat
from ppdm_dask.errors import RecordsError
from ppdm_dask.inference import (
    bootstrap,
    em,
    event_interval,
    feldman_cousins,
    mle,
    profile_deviance,
)
from ppdm_dask.inference.maximum import channel
from ppdm_dask.inference.tables import ContingencyTable


def table_of(design, counts):
    counts = np.asarray(counts, np.int64).reshape(design.reported_shape)
    return ContingencyTable(
        codebook_of(design), counts, None, design.digest, True, design.reported_shape
    )


def by_solver(P, observed):
    """Sequential quadratic programming on the same concave likelihood, to its last digits."""
    P, f = P[observed > 0], observed[observed > 0]
    p = np.full(P.shape[1], 1 / P.shape[1])
    for _ in range(3):
        p = minimize(
            lambda p: -f @ np.log(np.maximum(P @ p, 1e-300)),
            p,
            jac=lambda p: -P.T @ (f / np.maximum(P @ p, 1e-300)),
            bounds=[(0, 1)] * len(p),
            constraints=[{"type": "eq", "fun": lambda p: p.sum() - 1, "jac": np.ones_like}],
            method="SLSQP",
            options={"ftol": 1e-18, "maxiter": 1_000},
        ).x
    return p


def test_cases():
    warner = Warner("a", 0.8)
    assert mle(table_of(warner, [85, 15]), warner).values.tolist() == [1, 0]
    design = RRMatrix("a", [[0.8, 0.1, 0.1], [0.1, 0.8, 0.1], [0.1, 0.1, 0.8]])
    for estimate in (
        mle(table_of(design, [700, 250, 50]), design),
        mle(table_of(KaryResponse("a", 3, 0.8), [700, 250, 50]), KaryResponse("a", 3, 0.8)),
        em(table_of(design, [700, 250, 50]), design, tolerance=1e-12),
    ):
        np.testing.assert_allclose(estimate.values, [0.804511, 0.195489, 0.0], atol=5e-7)
        assert estimate.converged
        assert estimate.negative_share == 1 / 3


def random_case(rng, trial):
    k = int(rng.integers(2, 8))
    m = k + int(rng.integers(0, 5))
    P = rng.dirichlet(np.full(m, 0.7), size=k).T
    if trial % 2:
        P = 0.5 * P + 0.5 * np.eye(m)[:, :k]
    p = rng.dirichlet(np.full(k, 0.3))
    n = int(rng.choice([5, 30, 1_000, 100_000]))
    law = P @ p
    return RRMatrix("a", P), rng.multinomial(n, law / law.sum())


def test_the_maximum_is_a_convex_solvers():
    rng = np.random.default_rng(0)
    on_boundary = 0
    for trial in range(200):
        design, counts = random_case(rng, trial)
        if design.undefined:
            continue
        estimate = mle(table_of(design, counts), design)
        solved = by_solver(design.matrix(), counts / counts.sum())
        np.testing.assert_allclose(estimate.values, solved, atol=1e-7)
        assert estimate.gap < 1e-12
        on_boundary += (estimate.values == 0).any()
    assert on_boundary > 50


def test_inversion_is_the_maximum_inside_the_simplex_and_not_outside():
    """Theorem 1 of HuangDu, with the condition that it leaves out."""
    rng = np.random.default_rng(1)
    inside = outside = 0
    for _ in range(60):
        P = 0.5 * np.eye(4) + 0.5 * rng.dirichlet(np.ones(4), size=4).T
        design = RRMatrix("a", P)
        table = table_of(design, rng.multinomial(200, P @ rng.dirichlet(np.ones(4))))
        inverted = invert(table, design).values
        solved = by_solver(P, table.counts / 200)
        if (inverted >= 0).all():
            inside += 1
            np.testing.assert_allclose(inverted, solved, atol=1e-6)
            np.testing.assert_allclose(mle(table, design).values, inverted, atol=1e-12)
        else:
            outside += 1
            assert np.abs(inverted - solved).max() > 1e-4
    assert inside > 10
    assert outside > 10
    # The MLE of what is reported is the reported shares, whatever the truth.
    np.testing.assert_array_equal(
        mle(table_of(Identity("a", [3]), [3, 0, 1]), Identity("a", [3])).values, [0.75, 0, 0.25]
    )


def test_the_water_level_of_mixtures_is_the_interior_point():
    rng = np.random.default_rng(2)
    for _ in range(30):
        k = int(rng.integers(2, 9))
        design = UnrelatedQuestion("a", float(rng.uniform(0.1, 1)), [rng.dirichlet(np.ones(k))])
        counts = rng.multinomial(50, rng.dirichlet(np.full(k, 0.4)))
        estimate = mle(table_of(design, counts), design)
        same = RRMatrix("a", design.matrix())
        np.testing.assert_allclose(
            estimate.values, mle(table_of(same, counts), same).values, atol=1e-8
        )
    block = UnrelatedQuestion(["a", "b"], 0.4, [0.2, [0.1, 0.3, 0.6]])
    counts = rng.multinomial(60, np.full(6, 1 / 6))
    one = mle(table_of(block, counts), block).values
    same = RRMatrix(["a", "b"], block.matrix(), [2, 3])
    np.testing.assert_allclose(one, mle(table_of(same, counts), same).values, atol=1e-8)


def test_a_hundred_thousand_categories():
    k, n = 100_000, 300_000
    design = KaryResponse("a", k, epsilon=8.0)
    truth = np.minimum(np.random.default_rng(3).geometric(0.01, n) - 1, k - 1)
    records = random_records(make_codebook(["a"], [k]), 1, 0)
    records = type(records)(truth[:, None], records.codebook)
    table = count(design.disguise(records, Stream.from_seed(4)), design)
    estimate = mle(table, design)
    assert estimate.gap < 1e-9
    assert estimate.values.min() == 0
    few = em(table, design, max_steps=30)
    assert (few.steps, few.converged) == (30, False)
    assert few.gap > estimate.gap


def test_em_is_the_papers_step_and_climbs_to_the_maximum():
    design, counts = RRMatrix("a", checks.TALL), np.array([30, 10, 25, 20, 15])
    table = table_of(design, counts)
    P, observed = design.matrix(), counts / 100
    p = np.full(3, 1 / 3)
    for _ in range(3):
        p = np.array(
            [sum(observed[i] * P[i, j] * p[j] / (P[i] @ p) for i in range(5)) for j in range(3)]
        )
    three = em(table, design, max_steps=3)
    np.testing.assert_allclose(three.values, p, atol=1e-14)
    assert not three.converged
    far = em(table, design, tolerance=1e-13, max_steps=100_000)
    np.testing.assert_allclose(far.values, mle(table, design).values, atol=1e-6)
    assert far.gap < 1e-6 < three.gap


def test_products_of_blocks_and_undisguised_attributes():
    design = Product([RRMatrix("a", checks.TALL), Warner("b", 0.7)])
    book = make_codebook(["b", "u", "a"], [2, 2, 3])
    reports = design.disguise(random_records(book, 60, seed=5), Stream.from_seed(6))
    table = count(reports, design)
    P = channel(table, design)
    kron = np.kron(np.kron(Warner("b", 0.7).matrix(), np.eye(2)), checks.TALL)
    np.testing.assert_allclose(P, kron, atol=1e-15)
    solved = by_solver(kron, table.counts.ravel() / 60)
    np.testing.assert_allclose(mle(table, design).values.ravel(), solved, atol=1e-6)


def test_standard_errors_inside_and_none_on_the_boundary():
    design = RRMatrix("a", checks.SKEWED)
    table = table_of(design, [400, 350, 250])
    estimate, inverted = mle(table, design), invert(table, design)
    # The observed information of a square P gives the inversion's variance, over n for n - 1.
    np.testing.assert_allclose(estimate.variance, inverted.variance * 999 / 1000, rtol=1e-9)
    np.testing.assert_allclose(em(table, design).variance, estimate.variance, rtol=1e-4)
    edge = mle(table_of(design, [800, 200, 0]), design)
    with pytest.raises(InputError, match=r"on the boundary \(\d of 3 cells are 0\)"):
        edge.standard_error  # noqa: B018
    with pytest.raises(InputError, match="standard errors of this file are inversion's"):
        mle(table, design, estimand="file").interval()
    large = KaryResponse("a", 2_500, 0.9)
    counts = np.full(2_500, 40)
    whole = mle(table_of(large, counts), large)
    np.testing.assert_allclose(
        whole.variance, invert(table_of(large, counts), large).variance, rtol=1e-4
    )
    # A tall P: less variance than the inversion weighted for another truth.
    tall = RRMatrix("a", checks.TALL)
    law = np.rint(checks.TALL @ [0.8, 0.1, 0.1] * 10**6)
    efficient, plain = mle(table_of(tall, law), tall), invert(table_of(tall, law), tall)
    assert (efficient.variance < plain.variance).all()


def test_what_has_no_maximum_or_cannot_be_made():
    half = Warner("a", 0.5)
    for fit in (mle, em):
        with pytest.raises(NotInvertible, match="condition number"):
            fit(table_of(half, [3, 4]), half)
        with pytest.raises(RecordsError, match="no records"):
            fit(table_of(Warner("a", 0.8), [0, 0]), Warner("a", 0.8))
    mangat = RRMatrix("a", [[0.5, 0.2], [0.5, 0.8], [0, 0]])
    for fit in (mle, em):
        with pytest.raises(RecordsError, match="reports that the design cannot make"):
            fit(table_of(mangat, [1, 1, 1]), mangat)
    one = mle(table_of(Warner("a", 0.8), [0, 1]), Warner("a", 0.8))
    assert one.values.tolist() == [0, 1]
    with pytest.raises(InputError, match=r"too many for the exact maximum .*em needs no matrix"):
        design = Product([KaryResponse("a", 60, 0.9), KaryResponse("b", 60, 0.9)])
        counts = np.zeros(3_600)
        counts[:50] = 1
        mle(table_of(design, counts), design)


# -- intervals -------------------------------------------------------------------------------------


def test_feldman_cousins_against_its_definition():
    """All proportions whose acceptance region, built count by count, holds the observed count."""
    level, n, a, b = 0.9, 12, 0.2, 0.8
    for yes in (0, 2, 6, 12):
        low, high = feldman_cousins(yes, n, a, b, level)
        accepted = []
        for pi in np.linspace(0, 1, 401):
            share = a + (b - a) * pi
            x = np.arange(n + 1)
            best = np.clip(x / n, a, b)
            ratio = binom.pmf(x, n, share) / binom.pmf(x, n, best)
            # Counts enter by falling ratio, equal ones together, until the level is reached.
            region, total = set(), 0.0
            for r in sorted(set(np.round(ratio, 12)), reverse=True):
                if total >= level:
                    break
                ties = np.flatnonzero(np.round(ratio, 12) == r)
                region.update(ties.tolist())
                total += binom.pmf(ties, n, share).sum()
            if yes in region:
                accepted.append(pi)
        assert abs(min(accepted) - low) < 0.003
        assert abs(max(accepted) - high) < 0.003
    # Fewer yes than if no one were: the interval starts at 0, and is not empty.
    assert feldman_cousins(0, 30, 0.2, 0.8)[0] == 0
    assert 0 < feldman_cousins(0, 30, 0.2, 0.8)[1] < 0.1
    assert feldman_cousins(30, 30, 0.2, 0.8)[1] == 1


def test_two_valued_reports_are_found_in_any_design():
    def method(design, counts, event):
        return event_interval(table_of(design, counts), design, event).method

    exact, profile = "likelihood-ratio ordering", "profile likelihood"
    assert method(Warner("a", 0.8), [60, 40], {"a": "1"}) == exact
    assert method(Mangat("a", 0.6), [30, 70], {"a": "1"}) == exact
    assert method(KaryResponse("a", 4, 0.7), [10, 20, 30, 40], {"a": ["1", "3"]}) == exact
    assert method(RRMatrix("a", checks.SKEWED), [10, 20, 30], {"a": "1"}) == profile
    assert method(Kuk("a", 0.7, 0.2, 3), [10, 20, 30, 5], {"a": "1"}) == profile
    # The count of reports in the event is binomial with these two chances.
    design = UnrelatedQuestion("a", 0.6, [[0.5, 0.2, 0.3]])
    interval = event_interval(table_of(design, [50, 20, 30]), design, {"a": ["1", "2"]})
    ends = feldman_cousins(50, 100, 0.2, 0.8)
    assert (interval.lower, interval.upper) == pytest.approx(ends, abs=1e-9)
    sure = event_interval(table_of(design, [50, 20, 30]), design, {"a": ["0", "1", "2"]})
    assert (sure.lower, sure.upper) == (1, 1)


def test_exact_intervals_of_large_samples_near_walds():
    n, yes = 1_000_000, 380_000
    low, high = feldman_cousins(yes, n, 0.2, 0.8)
    error = math.sqrt(0.38 * 0.62 / n) / 0.6
    assert abs(low - (0.3 - 1.96 * error)) < 0.01 * error
    assert abs(high - (0.3 + 1.96 * error)) < 0.01 * error


def test_profile_likelihood_ends():
    design = Kuk("a", 0.7, 0.2, 3)
    counts = np.array([10, 25, 30, 20])
    table = table_of(design, counts)
    interval = event_interval(table, design, {"a": "1"})
    # One free proportion: the deviance by hand.
    grid = np.linspace(0, 1, 100_001)
    law = design.matrix() @ np.stack([1 - grid, grid])
    value = counts @ np.log(law)
    kept = grid[2 * (value.max() - value) <= 1.959964**2]
    assert interval.lower == pytest.approx(kept.min(), abs=2e-5)
    assert interval.upper == pytest.approx(kept.max(), abs=2e-5)
    deviance, best = profile_deviance(table, design, {"a": "1"})
    assert best == pytest.approx(grid[value.argmax()], abs=1e-5)
    assert deviance(0.2) == pytest.approx(2 * (value.max() - value[20_000]), abs=1e-6)
    # Two-valued reports: both intervals are near one another.
    warner = Warner("a", 0.8)
    one = event_interval(table_of(warner, [620, 380]), warner, {"a": "1"})
    other = event_interval(table_of(warner, [620, 380]), warner, {"a": "1"}, method="profile")
    assert abs(one.lower - other.lower) < 0.002
    assert abs(one.upper - other.upper) < 0.002


def test_profile_of_one_category_among_three():
    """Held at a proportion the rest is maximised: against the solver with that constraint."""
    design = RRMatrix("a", checks.SKEWED)
    counts = np.array([20, 50, 30])
    deviance, best = profile_deviance(table_of(design, counts), design, {"a": "1"})
    P = design.matrix()
    top = counts @ np.log(P @ by_solver(P, counts / 100))
    for pi in (0.0, 0.2, best, 0.8, 1.0):
        free = np.linspace(0, 1 - pi, 20_001)
        law = P @ np.stack([free, np.full_like(free, pi), 1 - pi - free])
        plain = 2 * (top - (counts @ np.log(law)).max())
        assert deviance(pi) == pytest.approx(plain, abs=1e-5)


# -- resampling ------------------------------------------------------------------------------------


def test_the_bootstrap_of_an_inversion_has_its_standard_error():
    design = RRMatrix("a", checks.SKEWED)
    table = table_of(design, [400, 350, 250])
    result = bootstrap(table, design, invert, repeats=4_000, seed=1)
    estimate = invert(table, design)
    np.testing.assert_allclose(result.standard_error, estimate.standard_error, rtol=0.05)
    np.testing.assert_allclose(result.covariance, estimate.covariance, atol=1.5e-4)
    lower, upper = result.ends()
    np.testing.assert_allclose(np.stack([lower, upper], -1), estimate.interval().values, atol=0.01)
    again = bootstrap(table, design, invert, repeats=4_000, seed=1)
    np.testing.assert_array_equal(again.replicates, result.replicates)
    one_by_one = bootstrap(table, design, lambda t, d: invert(t, d), repeats=50, seed=1)
    np.testing.assert_allclose(
        one_by_one.replicates,
        bootstrap(table, design, invert, repeats=50, seed=1).replicates,
        atol=1e-13,
    )
    repaired = bootstrap(table, design, mle, repeats=20, seed=2)
    assert repaired.replicates.min() >= 0
    with pytest.raises(InputError, match="repeats: got 1; a whole number of 2 or more"):
        bootstrap(table, design, invert, repeats=1)
