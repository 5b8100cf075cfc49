"""The certified limit: closed forms, the certificate by other means, and its designs."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from search_priors import N_RECORDS, PRIORS, random_matrices

from ppdm_dask import InputError, PPDMError
from ppdm_dask.randomness import SimulationStream
from ppdm_dask.search.bound import Designer, certify
from ppdm_dask.search.limit import Limit, least_mse, levels
from ppdm_dask.search.methods import optimal_designs, refine, settings_for
from ppdm_dask.search.problem import Problem, evaluate, meet_bound
from ppdm_dask.search.rays import count_rays, list_rays, thinned

CASES = [(name, delta) for name in PRIORS for delta in (0.4, 0.6, 0.7, 0.75, 0.8, 0.9, 1.0)]
CASES = [(name, delta) for name, delta in CASES if delta > 0.4 or name == "uniform"]


def test_rays_of_the_paper_s_size():
    assert count_rays(10, 1.0) == 2**10 - 1
    assert count_rays(10, 0.75) == 1_103
    for n, delta in itertools.product((2, 3, 5), (0.4, 0.5, 0.75, 1 / 3, 0.9, 1.0)):
        if delta * n > 1:
            rays = list_rays(n, delta)
            assert len(rays) == count_rays(n, delta)
            assert (rays.max(axis=1) == 1).all() and rays.min() >= 0
            assert (rays.max(axis=1) <= delta * rays.sum(axis=1) + 1e-12).all()
            assert len(np.unique(rays, axis=0)) == len(rays)


@pytest.mark.parametrize("gives_up", [False, True])
def test_fewer_rays_have_the_same_sums(monkeypatch: pytest.MonkeyPatch, gives_up: bool) -> None:
    """No more of them than rows, with SciPy's solver and where that gives up."""

    def nnls(*_: object, **__: object) -> None:
        raise RuntimeError("Maximum number of iterations reached.")

    if gives_up:
        monkeypatch.setattr("scipy.optimize.nnls", nnls)
    rng = np.random.default_rng(4)
    for rows, rays in ((2, 3), (4, 40), (7, 7), (9, 200)):
        A, weights = rng.random((rows, rays)), rng.random(rays) * (rng.random(rays) < 0.9)
        thin = thinned(A, weights)
        assert thin.min() >= 0
        assert np.count_nonzero(thin) <= rows
        np.testing.assert_allclose(A @ thin, A @ weights, rtol=1e-9)


def test_every_ray_of_the_cone_is_a_sum_of_listed_rays():
    from scipy.optimize import nnls

    rng = np.random.default_rng(3)
    rays = list_rays(5, 0.4)
    for _ in range(50):
        P = random_matrices(rng, 1, 5)
        problem = Problem(np.full(5, 0.2), 100, 0.4)
        meet_bound(problem, P)
        r = P[0, 0] * problem.prior
        top = int(r.argmax())
        # Splitting within the piece of the largest entry keeps sum and largest entry.
        piece = rays[rays[:, top] == 1]
        weights, residual = nnls(piece.T, r)
        assert residual < 1e-9
        assert weights.sum() == pytest.approx(r.max(), rel=1e-7)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "delta"), CASES[::3])
def test_gap_at_all_levels(limit_of, name, delta):
    limit = limit_of(name, delta)
    problem = limit.problem
    found = [evaluate(problem, level.matrix(problem.prior)) for level in limit.solved]
    mse = np.array([f.mse[0] for f in found])
    loss = np.array([1 - f.privacy[0] for f in found])
    gap = mse / problem.mse(np.array([s.certificate.trace(s.loss) for s in limit.solved])) - 1
    assert len(gap) == 98
    assert gap.max() <= 1e-6
    assert (loss <= limit.loss + 1e-10).all()
    np.testing.assert_allclose(loss, limit.loss, atol=1e-6)
    assert max(f.worst[0] for f in found) <= delta + 1e-10
    assert max(len(level.weights) for level in limit.solved) <= 56


@pytest.mark.parametrize("n", [2, 3, 6])
def test_uniform_prior_without_a_bound_is_erasure(n):
    problem = Problem(np.full(n, 1 / n), 1_000)
    at = levels(problem)[::7]
    limit = Limit.compute(problem, at)
    expected = (1 - 1 / n) ** 2 / (n * 1_000 * (at - 1 / n))
    np.testing.assert_allclose(limit.mse(at), expected, rtol=1e-6)
    # n + 1 symbols attain it: the truth with some probability, else nothing.
    for a, mse in zip(at, expected, strict=True):
        told = (a - 1 / n) / (1 - 1 / n)
        erasure = np.concatenate([told * np.eye(n), np.full((1, n), 1 - told)])
        found = evaluate(problem, erasure)
        assert found.mse[0] == pytest.approx(mse, rel=1e-9)
        assert 1 - found.privacy[0] == pytest.approx(a, rel=1e-12)


def test_two_categories_square_over_limit_is_3_minus_2a():
    problem = Problem([0.5, 0.5], 100)
    for a in (0.6, 0.75, 0.9):
        best_square = evaluate(problem, [[1, 2 - 2 * a], [0, 2 * a - 1]]).mse[0]
        limit = Limit.compute(problem, np.array([a]))
        assert best_square / limit.mse(a) == pytest.approx(3 - 2 * a, rel=1e-6)


def test_the_certificate_by_brute_force():
    """The bound holds for the solver's own design and for every mixture of rays, solver or not."""
    prior = np.array([0.45, 0.3, 0.15, 0.1])
    problem = Problem(prior, 100, 0.8)
    designer = Designer(problem)
    level = designer.solve(0.6)
    rng = np.random.default_rng(4)
    rays = list_rays(4, 0.8)
    best = math.inf
    for _ in range(3_000):
        weights = rng.exponential(size=len(rays)) ** rng.uniform(1, 8)
        P = weights[:, None] * rays / prior
        P /= P.sum(axis=0)
        P = P[None]
        meet_bound(problem, P)
        found = evaluate(problem, P)
        bound = problem.mse(level.certificate.trace(1 - found.privacy))
        assert found.mse[0] >= bound[0]
        best = min(best, found.mse[0] / bound[0])
    assert best < 2  # some come near
    assert problem.trace(evaluate(problem, level.matrix(prior)).mse[0]) == pytest.approx(
        float(level.certificate.trace(0.6)), rel=1e-7
    )


def test_any_dual_certifies_and_bad_ones_are_refused():
    problem = Problem([0.5, 0.3, 0.2], 100)
    rng = np.random.default_rng(6)
    best = Designer(problem).solve(0.7).certificate.trace(0.7)
    for _ in range(50):
        Y = rng.normal(size=(3, 3))
        certificate = certify(problem, Y, rng.random(3), rng.random())
        assert certificate.trace(0.7) <= best * (1 + 1e-9)
    with pytest.raises(PPDMError, match="certify nothing"):
        certify(problem, np.eye(3), [-1.0, 0.1, 0.1], 0.0)


def test_fewer_symbols_cost_more_and_never_less_than_the_limit():
    problem = Problem(PRIORS["normal"], N_RECORDS, 0.75)
    limit = Limit.compute(problem, levels(problem)[[3, 48]])
    last = np.ones(2)
    for symbols in (30, 15, 11):
        found = optimal_designs(limit, SimulationStream(2), symbols)
        assert found.P.shape[1] == symbols
        ratio = found.objectives.mse / limit.mse(1 - found.objectives.privacy)
        assert (ratio >= last - 2e-3).all()
        assert (found.objectives.worst <= 0.75 + 1e-12).all()
        np.testing.assert_allclose(1 - found.objectives.privacy, limit.loss, atol=2e-3)
        last = ratio
    with pytest.raises(InputError, match="at least 10 are needed"):
        optimal_designs(limit, SimulationStream(2), 9)


@pytest.mark.slow
def test_twenty_symbols_come_within_three_percent():
    """At f = .05, .2, .5 and .8, with the levels around them, whose matrices polish takes up."""
    problem = Problem(PRIORS["normal"], N_RECORDS, 0.75)
    wanted = [3, 18, 48, 78]
    around = sorted({i + step for i in wanted for step in range(-3, 4)})
    limit = Limit.compute(problem, levels(problem)[around])
    places = np.searchsorted(around, wanted)
    settings = settings_for("memetic", generations=500, symbols=20)
    only = Limit(problem, tuple(limit.solved[i] for i in places))
    for found in (
        optimal_designs(only, SimulationStream(0), 20),
        refine(problem, settings, SimulationStream(1), at=limit.loss, limit=limit),
    ):
        ratios = limit.ratios(1 - found.objectives.privacy, found.objectives.mse)[places]
        assert ratios.max() <= 1.03


def test_too_many_categories_are_refused_in_one_line():
    with pytest.raises(InputError, match=r"got 25 categories; all subsets .* up to 18"):
        list_rays(25, 1.0)


def test_least_mse_is_a_staircase():
    found = least_mse([0.3, 0.5, 0.4], [3.0, 1.0, 2.0], [0.2, 0.3, 0.45, 0.9])
    assert found.tolist() == [math.inf, 3.0, 2.0, 1.0]


def test_hypervolume_of_the_limit_itself_is_one():
    problem = Problem([0.5, 0.3, 0.2], 100, 0.9)
    limit = Limit.compute(problem)
    assert limit.hypervolume(limit.loss, limit.mse(limit.loss)) == pytest.approx(1, abs=1e-12)
    assert limit.hypervolume([0.95], [1.0]) == 0
    again = Limit.from_certificates(problem, limit.table)
    np.testing.assert_array_equal(again.mse(limit.loss), limit.mse(limit.loss))
