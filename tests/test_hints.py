"""Amplification, and adversaries who know other attributes of the block."""

from __future__ import annotations

import itertools
import math

import checks
import numpy as np
import pytest
from strategies import random_prior

from ppdm_dask import (
    KaryResponse,
    MultiGroup,
    Product,
    RRMatrix,
    UnrelatedQuestion,
    Warner,
    privacy,
)
from ppdm_dask.designs import Flip, Mangat, SubsetSelection, UnaryEncoding
from ppdm_dask.errors import DesignError, InputError
from ppdm_dask.privacy import hint_attack

BLOCK = RRMatrix(
    ["a", "b", "c"],
    np.kron(np.kron(checks.SKEWED, checks.HOLES), [[0.9, 0.3], [0.1, 0.7]]),
    [3, 3, 2],
)


def by_enumeration(design, prior, about, known):
    """Posterior of one attribute given the report and the hints, record by record."""
    P, p = design.matrix(), np.asarray(prior).ravel()
    places = [design.attributes.index(name) for name in (about, *known)]
    codes = list(itertools.product(*map(range, design.shape)))
    worst, right = 0.0, 0.0
    for y in range(design.n_reported):
        seen = {}
        for x, code in enumerate(codes):
            value, hint = code[places[0]], tuple(code[i] for i in places[1:])
            values = seen.setdefault(hint, {})
            values[value] = values.get(value, 0.0) + P[y, x] * p[x]
        for values in seen.values():
            total = sum(values.values())
            if total > 0:
                worst = max(worst, max(values.values()) / total)
            right += max(values.values())
    return worst, 1 - right


@pytest.mark.parametrize("known", [(), ("b",), ("c", "b")])
@pytest.mark.parametrize(
    "design",
    [BLOCK, Flip(["a", "b", "c"], 0.8), UnrelatedQuestion(["c", "a", "b"], 0.4, [0.2, 0.5, 0.7])],
    ids=lambda d: d.id,
)
def test_hints_by_enumeration(design, known):
    prior = random_prior(design.n_true, np.random.default_rng(1)).reshape(design.shape)
    attack = hint_attack(design, prior, "a", known)
    worst, wrong = by_enumeration(design, prior, "a", known)
    assert attack.worst_posterior == pytest.approx(worst, abs=1e-12)
    assert attack.privacy == pytest.approx(wrong, abs=1e-12)
    assert attack.without_hint == pytest.approx(
        by_enumeration(design, prior, "a", ())[1], abs=1e-12
    )
    assert attack.privacy <= attack.without_hint + 1e-12


def test_one_known_answer_undoes_the_one_group_scheme():
    names = ["a", "b", "c", "d"]
    prior = np.full((2,) * 4, 1 / 16)
    one_group = hint_attack(Flip(names, 0.8), prior, "a", ["d"])
    assert (one_group.worst_posterior, one_group.privacy) == (1, 0)
    assert one_group.without_hint == pytest.approx(0.2)
    # A group of its own keeps what it had.
    apart = hint_attack(MultiGroup.by_attribute(names, 0.8), prior, "a", ["b", "c", "d"])
    assert apart.worst_posterior == pytest.approx(0.8)
    assert apart.privacy == pytest.approx(apart.without_hint) == pytest.approx(0.2)


def test_hints_are_attributes_of_the_block():
    prior = np.full((2, 2), 0.25)
    block = Flip(["a", "b"], 0.8)
    with pytest.raises(DesignError, match="'z' is not in the block, which has: a, b"):
        hint_attack(block, prior, "a", ["z"])
    with pytest.raises(DesignError, match="known: a; distinct others than 'a'"):
        hint_attack(block, prior, "a", ["a"])
    with pytest.raises(DesignError, match="prior: 3 categories; 4 are needed"):
        hint_attack(block, [0.2, 0.3, 0.5], "a", ["b"])


def test_gamma_is_the_largest_likelihood_ratio():
    assert Warner("a", 0.8).gamma() == pytest.approx(4)
    assert KaryResponse("a", 5, lambda_=6.5).gamma() == pytest.approx(6.5)
    assert Product([Warner("a", 0.8), Warner("b", 0.75)]).gamma() == pytest.approx(12)
    assert Mangat("a", 0.6).gamma() == math.inf
    for design in (UnaryEncoding("a", 2_925, epsilon=2.0), SubsetSelection("a", 50, epsilon=2.0)):
        assert design.gamma() == pytest.approx(math.exp(2))
    assert Warner("a", 0.5).gamma() == 1


def test_no_prior_lets_a_property_rise_above_the_amplified_one():
    rng = np.random.default_rng(2)
    design = RRMatrix("a", checks.SKEWED)
    P, gamma = design.matrix(), design.gamma()
    closest = 0.0
    for _ in range(2_000):
        p = random_prior(3, rng)
        for inside in ([1, 0, 0], [0, 1, 0], [1, 0, 1]):
            before = float(p @ inside)
            after = (P * p @ inside / (P @ p)).max()
            bound = privacy.amplified(gamma, before)
            assert after <= bound + 1e-12
            closest = max(closest, after / bound)
    assert closest > 0.99
    assert privacy.amplified(math.inf, 0.01) == 1
    assert privacy.amplified(7.0, 0.0) == 0
    assert privacy.amplified(7.0, 1.0) == 1
    with pytest.raises(InputError, match=r"gamma: got 0\.5; a number of 1 or more"):
        privacy.amplified(0.5, 0.1)


def test_theorem_5_the_worst_posterior_is_at_least_the_largest_prior():
    rng = np.random.default_rng(3)
    for designs in checks.EXAMPLES.values():
        for design in designs:
            if design.n_true <= 64 and design.n_reported <= 4_096:
                prior = random_prior(design.n_true, rng)
                assert design.max_posterior(prior) >= prior.max() - 1e-12
                assert design.privacy(prior) <= 1 - prior.max() + 1e-12


def test_fact_1_the_number_of_matrices_on_a_grid():
    """binom(d + n - 1, d)^n: by listing for n = d = 2, and the paper's 1.98e126."""
    columns = [c for c in itertools.product(range(3), repeat=2) if sum(c) == 2]
    assert len(list(itertools.product(columns, repeat=2))) == math.comb(2 + 2 - 1, 2) ** 2
    assert math.comb(100 + 10 - 1, 100) ** 10 == pytest.approx(1.98e126, rel=0.005)


def test_theorem_6_without_counting_covariances_twice():
    """The printed sum over i != j has a factor 2 too many; the average has a closed form."""
    n = 1_000
    for P, p in (
        (np.array([[0.8, 0.2], [0.2, 0.8]]), np.array([0.3, 0.7])),
        (checks.SKEWED, np.array([0.5, 0.2, 0.3])),
    ):
        beta, law = np.linalg.inv(P), P @ p
        cov = (np.diag(law) - np.outer(law, law)) / n
        mse = np.array(
            [
                sum(b[i] * b[j] * cov[i, j] for i in range(len(p)) for j in range(len(p)))
                for b in beta
            ]
        )
        J = P.T @ np.diag(1 / law) @ P
        average = (np.trace(np.linalg.inv(J)) - p @ p) / (len(p) * n)
        assert mse.mean() == pytest.approx(average, rel=1e-12)
        printed = [
            sum(
                (1 if i == j else 2) * b[i] * b[j] * cov[i, j]
                for i in range(len(p))
                for j in range(len(p))
            )
            for b in beta
        ]
        assert np.abs(printed / mse - 1).min() > 0.01
    assert mse.shape == (3,)
