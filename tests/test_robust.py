"""Regret of designs over sets of priors, and the design of least regret, against brute force."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

import ppdm_dask as pp
from ppdm_dask.errors import InputError
from ppdm_dask.search import cheapest_epsilon, confidence_priors, plausible_prior, prior_ball
from ppdm_dask.search.minimax import certify, limits_of, rays_of_epsilon, rays_of_posterior

SKEWED = np.array([0.6, 0.25, 0.1, 0.05])


def best_noise(P, p):
    """Sums of variances of stacks of matrices, each with the best inverse at the prior."""
    J = np.einsum("...ky,...kx->...yx", P, P / (P @ p)[..., None])
    return np.trace(np.linalg.inv(J), axis1=-2, axis2=-1) - (p**2).sum()


def within(P, allowed):
    """Matrices mixed with their mean column until they keep a privacy, by bisection."""
    even = np.repeat(P.mean(axis=2, keepdims=True), P.shape[2], axis=2)
    low, high = np.zeros((len(P), 1, 1)), np.ones((len(P), 1, 1))
    for _ in range(40):
        middle = (low + high) / 2
        kept = allowed(middle * P + (1 - middle) * even)[:, None, None]
        low, high = np.where(kept, middle, low), np.where(kept, high, middle)
    return low * P + (1 - low) * even


def keeps_epsilon(epsilon):
    return lambda P: (P.max(axis=2) / P.min(axis=2)).max(axis=1) <= math.exp(epsilon)


def keeps_posterior(priors, delta):
    def kept(P):
        worst = [((P * p).max(axis=2) / (P @ p)).max(axis=1) for p in priors]
        return np.max(worst, axis=0) <= delta

    return kept


@pytest.mark.slow
@pytest.mark.parametrize("privacy", ["epsilon", "max_posterior"])
@pytest.mark.parametrize("n", [3, 4])
def test_no_random_design_has_a_smaller_worst_regret(privacy, n):
    priors = prior_ball(SKEWED[:n] / SKEWED[:n].sum(), worth=20, n_priors=12, seed=n)
    level = 1.0 if privacy == "epsilon" else float(priors.max()) + 0.02
    allowed = keeps_epsilon(level) if privacy == "epsilon" else keeps_posterior(priors, level)
    found = pp.robust_design(priors, **{privacy: level})
    own = found.design.matrix()
    assert allowed(own[None] * (1 - 1e-9) + 1e-9 / len(own)).all()
    rng = np.random.default_rng(n)
    # Even with an inverse that knows which of the priors is true.
    drawn = rng.dirichlet(np.full(n + 1, 0.3), (6000, n)).transpose(0, 2, 1)
    P = within(drawn, allowed)
    worst = np.max(
        [best_noise(P, p) / at for p, at in zip(priors, found.regret.limits, strict=True)], axis=0
    )
    assert found.regret.worst <= worst.min() * (1 + 1e-7)
    # Near to ours each has the inverse that is best for the mixture of the priors: any other
    # inverse that is fixed has a greater mean over the mixture, and a worst regret above it.
    near = own * rng.lognormal(0, rng.choice([1e-3, 0.02, 0.1], (4000, 1, 1)), (4000, *own.shape))
    P = within(near / near.sum(axis=1, keepdims=True), allowed)
    q = found.mixture @ (priors / found.regret.limits[:, None])
    known = found.mixture @ ((priors**2).sum(axis=1) / found.regret.limits)
    least = best_noise(P, q) + (q**2).sum() - known
    assert found.regret.worst <= least.min() * (1 + 1e-6)
    assert 1 <= found.limit <= found.regret.worst * (1 + 1e-9)
    assert found.gap < 1e-5


def test_a_design_at_the_guess_is_worse_at_the_worst_prior_and_best_at_the_guess():
    priors = prior_ball(SKEWED, worth=10, n_priors=40)
    robust = pp.robust_design(priors, epsilon=1.0)
    P = cheapest_epsilon(SKEWED, 1.0).P
    guessed = pp.regret(pp.RRMatrix("a", P, p0=SKEWED if len(P) > 4 else None), priors)
    assert guessed.at_guess == pytest.approx(1, abs=1e-6)
    assert robust.regret.worst < guessed.worst
    assert robust.mixture.sum() == pytest.approx(1)
    # The least favourable prior puts weight only on priors at which the regret is the worst.
    weighty = robust.mixture > 1e-3
    assert robust.regret.ratios[weighty] == pytest.approx(robust.regret.worst, rel=1e-5)


def test_of_two_categories_one_design_is_best_at_every_prior():
    found = pp.robust_design([[p, 1 - p] for p in (0.01, 0.3, 0.9)], epsilon=0.7)
    assert found.regret.worst == pytest.approx(1, abs=1e-8)
    likelier = 1 / (1 + math.exp(-0.7))
    assert sorted(found.design.matrix().ravel()) == pytest.approx(
        sorted([likelier, likelier, 1 - likelier, 1 - likelier])
    )


def test_two_categories_within_a_posterior_at_two_priors_by_hand():
    delta = 0.9
    found = pp.robust_design([[0.3, 0.7], [0.6, 0.4]], max_posterior=delta)
    # A report may favour the first category by delta / (1 - delta) over its greatest odds.
    high = delta / (1 - delta) / (0.6 / 0.4)
    low = 1 / (delta / (1 - delta) / (0.7 / 0.3))
    a = (1 - low) / (high - low)  # P of the first report given the second category
    expected = np.array([[a * high, a], [1 - a * high, 1 - a]])
    P = found.design.matrix()
    assert P[np.argsort(-P[:, 0])] == pytest.approx(expected[np.argsort(-expected[:, 0])])
    assert found.regret.max_posterior == pytest.approx(delta)


@pytest.mark.parametrize("epsilon", [0.3, 1.0, 3.0])
def test_limits_are_those_of_the_program_of_one_prior(epsilon):
    priors = prior_ball(SKEWED, worth=15, n_priors=4)
    known = [cheapest_epsilon(p, epsilon).noise for p in priors]
    assert limits_of(rays_of_epsilon(4, epsilon), priors) == pytest.approx(known, rel=1e-6)


def test_any_dual_variables_stay_below_the_least_regret():
    priors = prior_ball(SKEWED, worth=10, n_priors=6)
    found = pp.robust_design(priors, epsilon=1.0)
    rays = rays_of_epsilon(4, 1.0)
    rng = np.random.default_rng(0)
    for _ in range(200):
        root = rng.normal(size=(4, 4))
        nu, pi = rng.uniform(0.1, 1, 4), rng.dirichlet(np.ones(6))
        bound = certify(rays, priors, found.regret.limits, root + root.T, nu, pi)
        assert bound <= found.regret.worst


def test_rays_of_a_posterior_are_the_vertices_that_subsets_of_bounds_make():
    priors, delta = np.array([[0.5, 0.3, 0.2], [0.2, 0.2, 0.6]]), 0.8
    bounds = np.array([row for p in priors for row in np.diag(p) - delta * p] + [*-np.eye(3)])
    expected = set()
    for pair in itertools.combinations(bounds, 2):
        A = np.array([*pair, np.ones(3)])
        if abs(np.linalg.det(A)) > 1e-12:
            g = np.linalg.solve(A, [0, 0, 3])
            if (bounds @ g <= 1e-9).all():
                expected.add(tuple(np.round(g, 9) + 0.0))
    found = {tuple(np.round(g, 9) + 0.0) for g in rays_of_posterior(priors, delta)}
    assert found == expected
    assert len(found) > 3


def test_regret_is_the_variance_over_the_limit():
    design = pp.KaryResponse("a", 3, p=0.6)
    priors = [[0.2, 0.3, 0.5], [0.05, 0.05, 0.9]]
    found = pp.regret(design, priors)
    B = np.linalg.inv(design.matrix())
    for p, noise, limit in zip(np.array(priors), found.noise, found.limits, strict=True):
        moments = (B**2) @ design.matrix() @ p - p**2
        assert noise == pytest.approx(moments.sum())
        assert limit == pytest.approx(cheapest_epsilon(p, design.epsilon()).noise, rel=1e-6)
    assert found.ratios.min() >= 1 - 1e-7
    assert found.worst == found.ratios.max()
    assert found.max_posterior == max(design.max_posterior(p) for p in priors)
    frame = found.to_frame()
    assert list(frame.index) == ["guess", "mean", "worst", "least private"]
    assert frame.loc["worst", "ratio"] == found.worst


def test_regret_at_the_same_posterior():
    design = pp.RRMatrix("a", [[0.7, 0.1, 0.1], [0.3, 0.5, 0.2], [0.0, 0.4, 0.7]])
    found = pp.regret(design, [[0.4, 0.3, 0.3], [0.5, 0.3, 0.2]])
    assert found.privacy == "posterior"
    assert (found.ratios >= 1).all()


def test_labels_put_a_design_into_the_order_of_the_priors():
    shares = {"never": 0.7, "once": 0.2, "often": 0.1}
    others = {"often": 0.3, "once": 0.2, "never": 0.5}
    robust = pp.robust_design([shares, others], epsilon=1.0)
    assert robust.design.categories[0] == ("never", "once", "often")
    turned = [
        {label: each[label] for label in ("often", "never", "once")} for each in (shares, others)
    ]
    again = pp.regret(robust.design, turned)
    assert again.ratios == pytest.approx(robust.regret.ratios, rel=1e-7)


def test_a_ball_has_the_spread_of_its_worth():
    guess = np.array([0.5, 0.3, 0.2])
    ball = prior_ball(guess, worth=99, n_priors=4001, seed=3)
    assert ball[0] == pytest.approx(guess)
    assert ball.mean(axis=0) == pytest.approx(guess, abs=0.004)
    assert ball.std(axis=0) == pytest.approx(np.sqrt(guess * (1 - guess) / 100), rel=0.05)


def test_the_rim_of_a_confidence_region():
    from scipy.stats import chi2

    book = pp.Codebook((pp.Attribute("a", ("x", "y", "z")),))
    rng = np.random.default_rng(1)
    answers = pp.Records(rng.choice(3, (4000, 1), p=[0.5, 0.3, 0.2]), book)
    design = pp.KaryResponse("a", 3, p=0.7)
    estimate = pp.estimate(
        design.disguise(answers, stream=pp.Stream.from_seed(2)), ["a"], design=design
    )
    priors = confidence_priors(estimate, 0.9, n_priors=30)
    inverse = np.linalg.pinv(np.asarray(estimate.covariance))
    away = priors[1:] - priors[0]
    assert np.einsum("si,ij,sj->s", away, inverse, away) == pytest.approx(
        chi2.ppf(0.9, 2), rel=1e-6
    )
    assert priors[0] == pytest.approx(np.asarray(estimate.values), abs=1e-5)


@pytest.mark.parametrize(
    ("values", "least", "expected"),
    [([1.1, -0.1], 1e-6, [1 - 1e-6, 1e-6]), ([0.7, 0.4, -0.1], 0.01, [0.645, 0.345, 0.01])],
)
def test_the_nearest_proportions_of_an_estimate(values, least, expected):
    from ppdm_dask.inference import Estimate

    estimate = Estimate({"a": tuple("xyz"[: len(values)])}, np.array(values), None, 10)
    assert plausible_prior(estimate, least) == pytest.approx(expected, abs=3e-6)


@pytest.mark.parametrize(
    ("priors", "options", "message"),
    [
        ([[0.5, 0.5]], {}, "epsilon, max_posterior: give one of them"),
        ([[0.5, 0.5]], {"epsilon": -1.0}, "epsilon: got -1"),
        ([[0.5, 0.5], [1.0, 0.0]], {"epsilon": 1.0}, r"priors\[1\]: category 1 has proportion 0"),
        ([[0.5, 0.5], [0.2, 0.3, 0.5]], {"epsilon": 1.0}, r"priors\[1\]: got 3 categories; 2"),
        ([[0.5, 0.5], [0.8, 0.2]], {"max_posterior": 0.8}, "max_posterior: got 0.8"),
        (
            [np.full(11, 1 / 11)],
            {"epsilon": 1.0},
            "priors: got 11 categories; epsilon takes up to 10",
        ),
        ([], {"epsilon": 1.0}, "priors: got none"),
        ([{"a": 0.5, "b": 0.5}, {"a": 0.5, "c": 0.5}], {"epsilon": 1.0}, r"priors\[1\]: other"),
    ],
)
def test_what_is_refused(priors, options, message):
    with pytest.raises(InputError, match=message):
        pp.robust_design(priors, **options)


@pytest.mark.parametrize(
    ("design", "limits", "message"),
    [
        ("kary", None, "design: got 'kary'; a design is needed"),
        (pp.KaryResponse("a", 2, p=0.8), [0.0], "limits: got 0; numbers above 0 are needed"),
    ],
)
def test_a_regret_of_no_design_or_of_no_limit_is_refused(design, limits, message):
    with pytest.raises(InputError, match=message):
        pp.regret(design, [[0.5, 0.5]], limits=limits)
