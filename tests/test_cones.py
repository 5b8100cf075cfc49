"""The best design within any privacy: published figures, grids of all designs, known families."""

from __future__ import annotations

import math

import numpy as np
import pytest

from ppdm_dask import InputError, PPDMError, chosen_design, optimize
from ppdm_dask.designs import KaryResponse, SubsetSelection, UnaryEncoding
from ppdm_dask.kernels.rays import most_lacking
from ppdm_dask.search import optimum as module
from ppdm_dask.search.bound import solve_dual
from ppdm_dask.search.cones import (
    Amplification,
    Epsilon,
    EpsilonPosterior,
    Guess,
    Posterior,
    Trait,
    breach,
    starting_rows,
)
from ppdm_dask.search.optimum import optimum
from ppdm_dask.search.problem import Problem, evaluate
from ppdm_dask.search.rays import MOST_RAYS

SKEWED = [0.6, 0.2, 0.1, 0.05, 0.02, 0.015, 0.01, 0.005]
EVEN = [1 / 8] * 8
CONES = [
    Epsilon(0.5),
    Epsilon(3.0),
    Amplification(5.0),
    Posterior(0.7),
    Posterior(1.0),
    Guess(0.8, success=0.7),
    Trait(1, 0.5),
    EpsilonPosterior(2.0, 0.65),
]


def noise_of(P, prior):
    problem = Problem(prior, 1)
    return float(evaluate(problem, P).mse[0]) * problem.n


@pytest.mark.parametrize(
    ("prior", "noises"),
    [
        (EVEN, {0.5: 95.986, 1: 22.611, 2: 4.438, 3: 1.762}),
        (SKEWED, {0.5: 94.156, 1: 21.208, 2: 3.823, 3: 1.452}),
    ],
)
def test_known_optima_of_an_epsilon(prior, noises):
    front = optimize(prior, 1_000, epsilon=list(noises))
    for name in ("bound", "mse"):
        np.testing.assert_allclose(front[name] * 8_000, list(noises.values()), rtol=0, atol=5.1e-4)
    assert ((front["mse"] / front["bound"] - 1) < 1e-6).all()
    assert (front["bound"] <= front["mse"]).all()
    for epsilon, noise in noises.items():
        design = chosen_design(front, "a", epsilon=epsilon)
        assert design.epsilon() == pytest.approx(epsilon, rel=1e-12)
        assert math.fsum(design.variance(prior)) == pytest.approx(noise, rel=0, abs=5.1e-4)


@pytest.mark.parametrize("cone", CONES, ids=repr)
def test_designs_keep_their_privacy_and_attain_their_certificate(cone):
    prior = np.array(SKEWED)
    found = optimum(prior, cone)
    assert breach(cone, found.P, prior) < 1e-12
    np.testing.assert_allclose(found.P.sum(axis=0), 1.0, rtol=1e-15)
    assert noise_of(found.P, prior) == pytest.approx(found.noise, rel=1e-10)
    assert found.bound <= found.noise <= found.bound * (1 + 1e-8)
    assert len(found.P) <= 8 * 9 // 2 + 1
    # No row that is allowed lacks anything, extremal or not.
    assert (cone.excess(starting_rows(cone, prior), prior) < 1e-12).all()


def test_an_amplification_is_an_epsilon():
    assert optimum(SKEWED, Amplification(math.e)).noise == optimum(SKEWED, Epsilon(1.0)).noise


def test_a_bound_that_does_not_bind_changes_nothing():
    for prior in (EVEN, SKEWED):
        both = optimum(prior, EpsilonPosterior(1.0, 0.99)).noise
        assert both == pytest.approx(optimum(prior, Epsilon(1.0)).noise, rel=1e-8)
        both = optimum(prior, EpsilonPosterior(20.0, 0.7)).noise
        assert both == pytest.approx(optimum(prior, Posterior(0.7)).noise, rel=1e-6)


def columns_on_a_grid(symbols, steps):
    """All columns whose entries are multiples of 1 / steps."""
    grid = np.indices([steps + 1] * (symbols - 1)).reshape(symbols - 1, -1)
    grid = grid[:, grid.sum(axis=0) <= steps]
    return np.vstack([grid, steps - grid.sum(axis=0)]).T / steps


def test_two_categories_by_a_grid_of_all_matrices():
    """Three symbols are as many as the optimum of two categories needs, and four with a level."""
    prior, steps = np.array([0.3, 0.7]), 48
    columns = columns_on_a_grid(3, steps)
    a, b = (columns[i.ravel()] for i in np.meshgrid(*[np.arange(len(columns))] * 2, indexing="ij"))
    reports = a * prior[0] + b * prior[1]
    with np.errstate(all="ignore"):
        # With two categories the noise is twice the variance of one; J^-1 by hand.
        J = [np.where(reports > 0, x * y / reports, 0).sum(1) for x, y in ((a, a), (a, b), (b, b))]
        noise = (J[0] + J[2]) / (J[0] * J[2] - J[1] ** 2) - (prior**2).sum()
        largest = np.maximum(a * prior[0], b * prior[1])
        worst = np.where(reports > 0, largest / reports, 0).max(axis=1)
        ratio = np.where(reports > 0, np.maximum(a / b, b / a), 1).max(axis=1)
    noise[~np.isfinite(noise) | (noise < 0)] = np.inf
    success = largest.sum(axis=1)
    for cone, allowed in (
        (Epsilon(math.log(3)), ratio <= 3 + 1e-9),
        (Epsilon(math.log(5)), ratio <= 5 + 1e-9),
        (Posterior(0.875), worst <= 0.875 + 1e-9),
        (Guess(1.0, success=0.8), success <= 0.8 + 1e-9),
        (Guess(0.9, success=0.8), (worst <= 0.9 + 1e-9) & (success <= 0.8 + 1e-9)),
        (
            EpsilonPosterior(math.log(5), 0.875),
            (ratio <= 5 + 1e-9) & (worst <= 0.875 + 1e-9),
        ),
    ):
        best = noise[allowed].min()
        found = optimum(prior, cone)
        assert found.bound * (1 - 1e-9) <= best <= found.bound * (1 + 4 / steps), cone


@pytest.mark.parametrize(
    ("cone", "prior"),
    [
        (Epsilon(math.log(3)), [0.5, 0.3, 0.2]),
        (Posterior(0.6), [0.5, 0.3, 0.2]),
        (Posterior(0.4), [0.35, 0.35, 0.3]),
        (Guess(1.0, success=0.6), [0.5, 0.3, 0.2]),
        (Guess(0.7, success=0.55), [0.5, 0.3, 0.2]),
        (Trait(2, 0.4), [0.5, 0.3, 0.2]),
        (EpsilonPosterior(math.log(3), 0.6), [0.5, 0.3, 0.2]),
    ],
    ids=repr,
)
def test_three_categories_by_a_grid_of_all_reports(cone, prior):
    """Any rows, extremal or not, on a grid; weights by a cone solver, which knows no rays."""
    prior, steps = np.array(prior), 30
    grid = columns_on_a_grid(3, steps)
    # Rows on a grid, and posteriors on a grid.
    joint = np.concatenate([grid, grid * prior])
    with np.errstate(all="ignore"):
        joint = joint[cone.excess(joint / prior, prior) <= 1e-9]
    # What a guess succeeds at is linear in rows scaled to a largest entry of 1.
    level = cone.levels[0] if cone.levels else 1.0
    unit = joint.max(axis=1) if cone.levels else joint.sum(axis=1)
    rays = joint / unit[:, None]
    u = rays / prior / np.sqrt(rays.sum(axis=1, keepdims=True))
    least = solve_dual(u, rays, prior, level, 1.0).trace - (prior**2).sum()
    found = optimum(prior, cone)
    assert found.bound * (1 - 1e-5) <= least <= found.bound * (1 + 2 / steps)


def test_no_matrix_of_a_grid_is_below_the_certificate():
    """All square matrices of three categories with entries of multiples of 1/9."""
    prior = np.array([0.5, 0.3, 0.2])
    columns = columns_on_a_grid(3, 9)
    place = np.indices([len(columns)] * 3).reshape(3, -1)
    P = columns[place].transpose(1, 2, 0)
    found = evaluate(Problem(prior, 1), P)
    noise = 3 * found.mse
    with np.errstate(all="ignore"):
        rows = np.where(P.any(axis=2, keepdims=True), P, 1.0)
        ratio = (rows.max(axis=2) / rows.min(axis=2)).max(axis=1)
    for cone, allowed in (
        (Epsilon(math.log(4)), ratio <= 4 + 1e-9),
        (Posterior(0.75), found.worst <= 0.75 + 1e-9),
        (Guess(1.0, success=0.7), found.privacy >= 0.3 - 1e-9),
    ):
        assert allowed.sum() > 100
        assert noise[allowed].min() >= optimum(prior, cone).bound * (1 - 1e-9)


def check_families(rng, times):
    for _ in range(times):
        n = int(rng.integers(2, 11))
        epsilon = float(rng.uniform(0.1, 5.0))
        prior = rng.dirichlet(np.full(n, rng.choice([0.3, 1.0, 10.0]))) + 1e-4
        prior /= prior.sum()
        found = optimum(prior, Epsilon(epsilon))
        families = [
            KaryResponse("x", n, epsilon=epsilon),
            UnaryEncoding("x", n, epsilon=epsilon),
        ]
        families += [SubsetSelection("x", n, size, epsilon=epsilon) for size in range(1, n)]
        # Of each the best linear unbiased estimates, not the textbook's.
        best = min(noise_of(design.matrix(), prior) for design in families)
        assert found.noise <= best * (1 + 1e-7)
        assert found.gap < 1e-6


def test_never_above_the_best_known_family():
    check_families(np.random.default_rng(1), 25)


@pytest.mark.slow
def test_never_above_the_best_known_family_many_times():
    check_families(np.random.default_rng(2), 150)


def test_a_walk_finds_what_a_list_finds():
    rng = np.random.default_rng(5)
    n = 9
    for _ in range(20):
        half, nu, prior = rng.normal(size=(n, n)), rng.normal(size=n), rng.dirichlet(np.ones(n))
        low, high = rng.uniform(0, 1, n), rng.uniform(1, 3, n)
        once, least = rng.uniform(), int(rng.integers(0, 4))
        members = (np.arange(2**n)[:, None] >> np.arange(n)) & 1
        t = np.where(members > 0, high, low)
        s = t @ prior
        plain = (((t @ half) ** 2).sum(axis=1) / s - t @ nu - once) / s
        plain[members.sum(axis=1) < least] = -np.inf
        for parts in (1, 8):
            lack, codes = np.empty(parts), np.empty(parts, dtype=np.int64)
            most_lacking(half @ half.T, nu, once, low, high, prior, least, lack, codes)
            assert lack.max() == pytest.approx(plain.max(), rel=1e-11)
            np.testing.assert_allclose(plain[codes], lack, rtol=1e-11)


@pytest.mark.parametrize("cone", [Epsilon(1.0), Guess(0.7, success=0.6), Posterior(0.45)], ids=repr)
def test_lists_walks_and_exchangeable_parts_agree(monkeypatch, cone):
    prior = np.array([0.25, 0.25, 0.1, 0.1, 0.1, 0.1, 0.1])
    listed = optimum(prior, cone)
    monkeypatch.setattr(module, "MOST_LISTED", 0)
    walked = optimum(prior, cone)
    monkeypatch.setattr(module, "MOST_WALKED", 0)
    by_parts = optimum(prior, cone)
    for found in (by_parts, walked):
        assert found.noise == pytest.approx(listed.noise, rel=1e-8)
        assert found.bound == pytest.approx(listed.bound, rel=1e-8)


@pytest.mark.parametrize("n", [12, 100, 1_000])
def test_even_categories_have_subset_selection(n):
    """By symmetry and convexity one size of subsets makes the best reports, or two next ones."""
    even = np.full(n, 1 / n)
    for epsilon in (0.5, 2.0):
        sizes = {1, *range(max(1, int(n / (1 + math.exp(epsilon))) - 1), n // 2 + 1)}
        designs = (SubsetSelection("x", n, size, epsilon=epsilon) for size in sorted(sizes)[:40])
        best = min(math.fsum(design.variance(even)) for design in designs)
        found = optimum(even, Epsilon(epsilon))
        assert found.noise <= best * (1 + 1e-8)
        assert found.noise >= best * (1 - 1 / n)


def test_refusals_are_one_line():
    for arguments, says in (
        ({"epsilon": 0.0}, "epsilon: got 0"),
        ({"epsilon": 50.0}, "epsilon: got 50"),
        ({"epsilon": 1.0, "method": "spea2"}, "epsilon: 'spea2' knows none"),
        ({"epsilon": 1.0, "privacy": 0.3}, "give epsilon or privacy"),
        ({"epsilon": 1.0, "delta": 0.3}, "delta: got 0.3"),
    ):
        with pytest.raises(InputError, match=says) as refused:
            optimize([0.5, 0.3, 0.2], 100, **arguments)
        assert str(refused.value).count("\n") == 0


def adversarial(rng):
    """A prior with proportions down to 1e-6, and a privacy near an end of its range."""
    n = int(rng.integers(2, 8))
    prior = 10.0 ** rng.uniform(-6, 0, n)
    prior = np.maximum(prior / prior.sum(), 1e-6)
    prior /= prior.sum()
    top = prior.max()
    delta = top + (1 - top) * 10.0 ** rng.uniform(-3, 0)
    success = top + (delta - top) * 10.0 ** rng.uniform(-3, 0)
    epsilon = 10.0 ** rng.uniform(-2.5, 1.2)
    cones = [Epsilon(epsilon), Posterior(delta), Guess(delta, success=success)]
    cones += [Trait(int(prior.argmax()), delta), EpsilonPosterior(epsilon, delta)]
    return prior, cones[rng.integers(len(cones))]


def check_adversarial(rng, times):
    solved = 0
    for _ in range(times):
        prior, cone = adversarial(rng)
        try:
            found = optimum(prior, cone)
        except PPDMError as error:
            assert str(error).count("\n") == 0
            continue
        solved += found.gap < 1e-6
        assert math.isfinite(found.noise) and 0 <= found.bound <= found.noise
        assert np.isfinite(found.P).all() and found.P.min() >= 0
        np.testing.assert_allclose(found.P.sum(axis=0), 1.0, rtol=1e-12)
        assert breach(cone, found.P, prior) < 1e-9
    return solved


def test_nothing_is_infinite_whatever_the_prior():
    assert check_adversarial(np.random.default_rng(3), 40) >= 32


@pytest.mark.slow
def test_nothing_is_infinite_whatever_the_prior_many_times():
    assert check_adversarial(np.random.default_rng(4), 250) >= 200


def test_both_limits_are_computed_for_as_many_categories_as_are_said() -> None:
    """Whose rows are listed: a smallest, a largest or a bounded entry for each category."""
    assert 3**11 <= MOST_RAYS < 3**12
    for prior in (np.full(12, 1 / 12), np.arange(1.0, 13.0) / 78):
        line = (
            r"^prior: got 12 categories; the best design within epsilon of 1 and a bound of 0\.6 on"
        )
        with pytest.raises(InputError, match=line + r" the posterior is computed for up to 11$"):
            optimum(prior, EpsilonPosterior(1.0, 0.6))


@pytest.mark.slow
def test_both_limits_are_computed_for_eleven_categories() -> None:
    """Where one limit says nothing, the optimum is that of the other."""
    prior = np.arange(1.0, 12.0) / 66
    both = optimum(prior, EpsilonPosterior(1.0, 0.99)).noise
    assert both == pytest.approx(optimum(prior, Epsilon(1.0)).noise, rel=1e-6)
