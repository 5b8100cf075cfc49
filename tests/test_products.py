"""Certificates by products: checked against every ray, closed forms, and what is attained."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from search_priors import N_RECORDS, PRIORS, gamma, normal, random_matrices, uniform

from ppdm_dask import PPDMError
from ppdm_dask.search.bound import Designer, certify
from ppdm_dask.search.limit import Limit, Products, Relaxation, certify_products, levels
from ppdm_dask.search.problem import Problem, evaluate, meet_bound
from ppdm_dask.search.rays import list_rays

DELTAS = (1.0, 0.8, 0.6, 0.5, 0.4, 1 / 3)


def zipf(n: int) -> np.ndarray:
    p = 1 / np.arange(1, n + 1)
    return p / p.sum()


def random_weights(products: Products, rng: np.random.Generator) -> np.ndarray:
    """Weights that are mostly small beside mu, so that Q has a root, some of them 0."""
    low, high = products.limits()
    weights = rng.exponential(0.03, products.size) * rng.integers(0, 2, products.size)
    weights[: products.n] = rng.normal(0, 0.1, products.n)
    weights[-1] = 1.0
    return np.clip(weights, low, high)


def h_of(of, rays: np.ndarray) -> np.ndarray:
    """The form by its definition, (sum r) (nu r + mu) - r Q r."""
    square = np.einsum("ki,ij,kj->k", rays, of.Q, rays)
    return rays.sum(axis=1) * (rays @ of.nu + of.mu) - square


@pytest.mark.parametrize("delta", DELTAS)
def test_the_expansion_is_the_sum_of_the_products_on_every_subset(delta):
    products = Products(5, delta)
    rng = np.random.default_rng(1)
    x = np.array(list(itertools.product([0, 1], repeat=5)))[1:].astype(float)
    size = x.sum(axis=1)
    for _ in range(5):
        weights = random_weights(products, rng)
        of = products.expand(weights)
        _, g, s = weights[:15].reshape(3, 5)
        a, b, t = weights[15:-1].reshape(3, 5, 5)
        # alpha x x, beta x (1 - x), theta (1 - x) (1 - x), and the two with |x| - k.
        terms = np.einsum("ij,ki,kj->k", a, x, x) + np.einsum("ij,ki,kj->k", b, x, 1 - x)
        terms += np.einsum("ij,ki,kj->k", t, 1 - x, 1 - x)
        terms += (x @ g + (1 - x) @ s) * (size - products.k)
        np.testing.assert_allclose(h_of(of, x), terms - of.constant, atol=1e-12)


def test_the_form_on_fractional_rays():
    products = Products(4, 0.75)
    of = products.expand(random_weights(products, np.random.default_rng(2)))
    h = products.fractional(of.lin, of.pair, of.mu)
    for i, j in itertools.permutations(range(4), 2):
        ray = np.zeros((1, 4))
        ray[0, i], ray[0, j] = 1.0, 1 / 3
        assert h[i, j] == pytest.approx(h_of(of, ray)[0], abs=1e-12)


@pytest.mark.parametrize("delta", DELTAS)
def test_any_weights_certify_what_holds_on_every_ray(delta):
    """The proof by products never says more than a look at all rays does with the same Y."""
    problem = Problem([0.3, 0.25, 0.2, 0.15, 0.1], 100, delta)
    products = Products(5, delta)
    rays = list_rays(5, delta)
    rng = np.random.default_rng(3)
    for _ in range(40):
        weights = random_weights(products, rng)
        proved = certify_products(problem, weights)
        of = products.expand(weights)
        values, vectors = np.linalg.eigh(problem.prior[:, None] * of.Q * problem.prior)
        Y = (vectors * np.sqrt(np.maximum(values, 0))) @ vectors.T
        assert proved.square == pytest.approx(np.trace(Y) ** 2, rel=1e-9)
        # With the proof's own nu and mu, raised as it had to, no ray exceeds its allowance.
        raised = (proved.base - of.nu @ problem.prior, proved.slope - of.mu)
        assert min(raised) >= 0
        allowance = rays @ (of.nu + raised[0]) + proved.slope
        used = ((rays / problem.prior @ Y) ** 2).sum(axis=1) / rays.sum(axis=1)
        assert (used <= allowance + 1e-10).all()
        looked_at = certify(problem, Y, of.nu + raised[0], proved.slope, rays)
        assert proved.trace(0.6) <= looked_at.trace(0.6) * (1 + 1e-9)


def test_weights_that_certify_nothing_are_refused():
    problem = Problem([0.5, 0.3, 0.2], 100)
    with pytest.raises(PPDMError, match="certify nothing"):
        certify_products(problem, np.zeros(Products(3, 1.0).size))


@pytest.mark.parametrize("delta", [1.0, 0.8, 0.5])
def test_the_gradient_is_that_of_finite_differences(delta):
    relaxation = Relaxation(Problem(zipf(4), 100, delta))
    rng = np.random.default_rng(4)
    relaxation._rays = rng.random((4, 4))
    relaxation._constant = 0.1
    start = random_weights(relaxation.products, rng) / relaxation._unit
    _, slope = relaxation._value(start, 0.6)
    for _ in range(10):
        step = rng.normal(size=start.size) * 1e-6
        up, down = (relaxation._value(start + sign * step, 0.6)[0] for sign in (1, -1))
        assert (up - down) / 2 == pytest.approx(slope @ step, rel=1e-4, abs=1e-13)


# -- how near it comes -----------------------------------------------------------------------------


@pytest.mark.parametrize("prior", [normal(6), gamma(7), zipf(9)], ids=["normal", "gamma", "zipf"])
def test_without_a_bound_it_is_the_listed_limit(prior):
    problem = Problem(prior, 1_000)
    designer, relaxation = Designer(problem), Relaxation(problem)
    at = levels(problem)[[3, 18, 48, 88]]
    listed = [designer.solve(loss).certificate.trace(loss) for loss in at]
    proved = [relaxation.solve(loss).certificate.trace(loss) for loss in at[::-1]][::-1]
    np.testing.assert_allclose(problem.mse(np.array(proved)), problem.mse(np.array(listed)), 1e-5)


@pytest.mark.parametrize(
    ("name", "delta", "share"),
    [("normal", 0.75, 0.99), ("gamma", 0.75, 0.99), ("uniform", 0.75, 1 - 1e-6)],
)
def test_with_a_bound_it_is_nearly_so_and_never_above(name, delta, share):
    problem = Problem(PRIORS[name], 1_000, delta)
    designer, relaxation = Designer(problem), Relaxation(problem)
    at = levels(problem)[[8, 48]]
    listed = problem.mse(np.array([designer.solve(a).certificate.trace(a) for a in at]))
    found = [relaxation.solve(a).certificate.trace(a) for a in at[::-1]]
    ratio = problem.mse(np.array(found[::-1])) / listed
    assert (ratio <= 1 + 1e-6).all()
    assert (ratio >= share).all()


@pytest.mark.parametrize("n", [41, 120])
def test_many_categories_of_one_frequency_are_erasure(n):
    problem = Problem(uniform(n), N_RECORDS)
    relaxation = Relaxation(problem)
    for a in (0.9, 0.3):
        expected = (1 - 1 / n) ** 2 / (n * N_RECORDS * (a - 1 / n))
        found = problem.mse(relaxation.solve(a).certificate.trace(a))
        assert found == pytest.approx(expected, rel=1e-5)


@pytest.mark.slow
def test_nothing_is_below_the_limit_of_many_categories():
    problem = Problem(zipf(24), N_RECORDS, 0.75)
    limit = Limit.compute(problem)
    assert not limit.attained
    assert len(limit.solved) == 98
    np.testing.assert_array_equal(
        Limit.from_certificates(problem, limit.table).mse(limit.loss), limit.mse(limit.loss)
    )
    P = random_matrices(np.random.default_rng(5), 400, 24)
    shares = np.linspace(0.02, 1, 400)[:, None, None]
    P = (1 - shares) * P + shares * np.eye(24)
    meet_bound(problem, P)
    found = evaluate(problem, P)
    assert (found.mse / limit.mse(1 - found.privacy)).min() > 1
