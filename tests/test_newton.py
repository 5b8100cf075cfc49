"""The Newton method of optimal weights: its derivatives, its steps, and where it begins."""

import numpy as np
import pytest

from ppdm_dask.search.bound import Designer
from ppdm_dask.search.cones import Epsilon, Posterior
from ppdm_dask.search.guess import Guesses
from ppdm_dask.search.limit import Limit, levels
from ppdm_dask.search.newton import _curvature, _slopes, _step
from ppdm_dask.search.optimum import rays_of
from ppdm_dask.search.parts import Parts, orbits
from ppdm_dask.search.problem import Problem, evaluate
from ppdm_dask.search.program import Program, Rays

PRIOR = np.array([0.4, 0.3, 0.2, 0.1 - 1e-4, 1e-4])


def all_categories() -> tuple[Program, Rays]:
    """A rare category, a contrast beside the proportions, every subset."""
    cone = Posterior(0.7)
    L = np.vstack([np.eye(5), [[1, -1, 0, 0, 0]]])
    return Program(PRIOR, L, np.zeros(0)), rays_of(cone, cone.rows(PRIOR), PRIOR)


def exchangeable() -> tuple[Program, Rays]:
    """Two parts of equal proportions: noise within them counts too."""
    prior = np.array([0.3, 0.3, 0.1, 0.1, 0.1, 0.1])
    parts = Parts.of(prior)
    sizes = parts.sizes
    program = Program(
        parts.share * sizes, np.diag(1 / np.sqrt(sizes)), (sizes[sizes > 1] - 1).astype(float)
    )
    return program, orbits(parts, Epsilon(1.0).pairs(prior))


@pytest.fixture(params=[all_categories, exchangeable])
def case(request: pytest.FixtureRequest) -> tuple[Program, Rays]:
    """A program with all of its rays."""
    made: tuple[Program, Rays] = request.param()
    return made


def weights(rays: Rays, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).uniform(0.05, 0.4, len(rays.rows))


def test_derivatives_are_those_of_the_noise(case: tuple[Program, Rays]) -> None:
    program, rays = case
    w, step = weights(rays), 1e-5
    e = rays.rows @ program.basis
    g = _slopes(program, rays, e, w)
    V = _curvature(program, rays, e, w)
    assert V is not None
    H = V @ V.T
    for k in range(0, len(w), 3):
        there, back = w.copy(), w.copy()
        there[k] += step * w[k]
        back[k] -= step * w[k]
        first = (program.noise(rays, there) - program.noise(rays, back)) / (2 * step * w[k])
        assert first == pytest.approx(g[k], rel=1e-5)
        ahead, behind = (_slopes(program, rays, e, x) for x in (there, back))
        column = (ahead - behind) / (2 * step * w[k])
        np.testing.assert_allclose(H[k], column, rtol=1e-5, atol=1e-6 * np.abs(H[k]).max())


@pytest.mark.parametrize("spare", [1.0, 1e-6])
def test_a_step_solves_the_equations_of_all_weights(
    case: tuple[Program, Rays], spare: float
) -> None:
    program, rays = case
    rng = np.random.default_rng(1)
    m, n = rays.rows.shape
    e = rays.rows @ program.basis
    # One level, with its slack; half of the rays are hardly used, the others have little to spare.
    A = np.zeros((n + 1, m + 1))
    A[:n, :m], A[n, :m], A[n, m] = rays.rows.T, rays.rows.max(axis=1), 1.0
    w, z = np.append(weights(rays), 0.1), rng.uniform(0.5, 2.0, m + 1)
    w[::2] *= spare
    z[1::2] *= spare
    g = np.append(_slopes(program, rays, e, w), 0.0)
    V = _curvature(program, rays, e, w)
    assert V is not None
    dual = g + A.T @ rng.uniform(0, 1, n + 1) - z
    primal = A @ w - 1.0
    found = _step(V, A, w, z, dual, primal, 0.0)
    assert found is not None
    dw, dz, dy = found
    H = np.zeros((m + 1, m + 1))
    H[:m, :m] = V @ V.T
    target = w * z + w * dz + z * dw
    whole = np.block(
        [[H + np.diag(z / w), A.T], [A, np.zeros((n + 1, n + 1))]],
    )
    right = np.r_[-dual - z + target / w, -primal]
    # The plain way: all weights and multipliers at once.
    unit = np.r_[w, np.ones(n + 1)]
    plain = unit * np.linalg.solve(unit[:, None] * whole * unit, unit * right)
    relative = dw / w
    most = np.abs(relative).max()
    np.testing.assert_allclose(relative, plain[: m + 1] / w, rtol=1e-5, atol=1e-6 * most)
    np.testing.assert_allclose(dy, plain[m + 1 :], rtol=1e-5, atol=1e-6 * np.abs(dy).max())
    np.testing.assert_allclose(A @ dw, -primal, atol=1e-9 * np.abs(primal).max())


def test_products_do_not_vanish_before_the_conditions_hold() -> None:
    program, rays = all_categories()
    e = rays.rows @ program.basis
    w = weights(rays)
    z = np.full(len(w), 1e-12)
    V = _curvature(program, rays, e, w)
    assert V is not None
    g = _slopes(program, rays, e, w)
    found = _step(V, rays.rows.T, w, z, g - z, rays.rows.T @ w - 1, 1e-3)
    assert found is not None
    dw, dz, _ = found
    assert (w * z + w * dz + z * dw).max() >= 1e-3


@pytest.mark.parametrize("delta", [0.75, 1.0])
@pytest.mark.parametrize("n", [3, 6])
def test_each_level_begins_where_the_last_one_ended(n: int, delta: float) -> None:
    p = 1.0 / np.arange(1, n + 1)
    problem = Problem(p / p.sum(), 1000, delta)
    at = levels(problem)[::7]
    warm = Limit.compute(problem, at)
    cone_solver = Designer(problem)
    for loss, level in zip(at, warm.solved, strict=True):
        # Alone, and by another solver: the same noise.
        alone = Guesses(problem).solve(float(loss))
        other = cone_solver.solve(float(loss))
        traces = [float(x.certificate.trace(loss)) for x in (level, alone, other)]
        np.testing.assert_allclose(traces, traces[0], rtol=2e-6)
        mse = evaluate(problem, level.matrix(problem.prior)).mse[0]
        assert mse == pytest.approx(float(problem.mse(traces[0])), rel=1e-8)


def test_levels_may_fall() -> None:
    problem = Problem([0.4, 0.3, 0.2, 0.1], 1000, 0.8)
    rising = Limit.compute(problem, levels(problem)[::9])
    solver = Guesses(problem)
    for level in reversed(rising.solved):
        again = solver.solve(level.loss)
        assert float(again.certificate.trace(level.loss)) == pytest.approx(
            float(level.certificate.trace(level.loss)), rel=1e-8
        )
