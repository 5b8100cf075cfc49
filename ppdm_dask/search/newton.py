"""Optimal weights of rays, by a primal-dual Newton method; rays are added as they are violated.

The noise of :mod:`~ppdm_dask.search.program` is minimised over weights ``w >= 0`` with ``A w = b``:
the reports, and the levels with a slack each.  With g and H its derivatives, z what the weights'
conditions in the dual have to spare, and y the multipliers, a step solves

    H dw + A^T dy - dz = z - g - A^T y,   A dw = b - A w,   w dz + z dw = t - w z

for a target t that goes to 0.  The noise depends on K only, and there are many times more rays than
entries of K: ``H = V V^T`` with a column of V for each.  So ``s = V^T dw`` takes the place of dw,
which follows from s and dy, with r the right side of the first equation less ``z - t / w`` and
``W = diag(w / z)``:

    dw = W (r - V s - A^T dy),   V^T dw = s,   A dw = b - A w.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from ppdm_dask.arrays import Floats, Ints
from ppdm_dask.errors import PPDMError
from ppdm_dask.search.problem import one_thread
from ppdm_dask.search.program import Dual, Program, Rays
from ppdm_dask.search.rays import Certificate
from ppdm_dask.search.solved import finite

GAP = 1e-9
"""Relative gap at which the solver stops."""

COARSE, FINE = 1e-3, 1e-6
"""Tolerance of the first round, and where it begins from the weights of other levels."""

LEAST = 1e-3
"""Share of the tolerance below which the mean product of a weight and what it has to spare is not
brought: were it to vanish before the conditions hold, no step could be made."""

REFINED = 2
"""Times that a step is corrected by what it leaves."""

ITERATIONS, ROUNDS = 80, 60
PATIENCE = 15
"""Steps within which what is violated has to halve: beyond them, arithmetic ends."""

STALLED = 6
"""Rounds within which the gap has to halve, or the noise to fall."""

SLOW = 1e-6
"""By how much, relative."""

MOST_SPARE = 100
"""Rays that are kept beyond ``n (n + 1)``, those nearest to use."""

UNUSED = 1e-9
"""Weight of a ray, relative to the largest, that is noise."""

OFF = 1e-9
"""Relative residual of reports or a level beyond which weights are no design."""


@contextmanager
def arithmetic() -> Iterator[None]:
    """One thread, and no word of numbers that end: what comes out is certified afterwards."""
    # SciPy's own copy of the library is limited only where it is loaded.
    import scipy.linalg  # noqa: F401

    with np.errstate(all="ignore"), one_thread():
        yield


Pricing = Callable[[Dual], tuple[float, Rays]]
"""The largest lack of any ray, or a bound on it, and some rays that lack most."""


class _State(NamedTuple):
    w: Floats  # weights, and the slack of each level as a share of its room
    z: Floats  # what their constraints of the dual have to spare
    y: Floats  # nu, and mu times the room


class Start(NamedTuple):
    """Rays to begin with, of which some design has to be made, and where their weights begin."""

    rays: Rays
    state: _State | None = None
    """None for no weights in particular."""

    def arrays(self) -> dict[str, Floats]:
        """Its numbers by name, for :meth:`from_arrays`."""
        named = self.rays._asdict() | ({} if self.state is None else self.state._asdict())
        return {f"start_{name}": values for name, values in named.items()}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, npt.NDArray[Any]], n: int, levels: int) -> Self:
        """Inverse of :meth:`arrays`, for rays of n categories without parts.

        Raises
        ------
        KeyError, ValueError
            If the arrays are none of such a start.
        """
        rows = finite(arrays, "start_rows", (None, n))
        m = len(rows)
        spread = finite(arrays, "start_spread", (m, 0))
        rays = Rays(rows, spread, finite(arrays, "start_cost", (m, levels)))
        w, z = (finite(arrays, f"start_{name}", (m + levels,)) for name in "wz")
        if not (m and (w > 0).all() and (z > 0).all()):
            raise ValueError("start_w or start_z is not above 0")
        return cls(rays, _State(w, z, finite(arrays, "start_y", (n + levels,))))


class Best(NamedTuple):
    """A design that was found, and what is certain about all others."""

    rays: Rays
    weights: Floats
    noise: float
    bound: float
    certificate: Certificate
    dual: Dual
    """Of the certificate."""
    last: Start
    """Of the last round: where the same with other levels may begin."""

    @property
    def gap(self) -> float:
        """How far above the certificate the design is, relative."""
        return self.noise / self.bound - 1.0 if self.bound > 0 else math.inf


def improve(program: Program, start: Start, pricing: Pricing, *, gap: float = GAP) -> Best:
    """Optimal weights of rays, and of more rays as `pricing` offers them.

    Parameters
    ----------
    program : Program
    start : Start
    pricing : callable
    gap : float
        Relative gap at which to stop.

    Raises
    ------
    PPDMError
        If the solver finds no design.
    """
    best: Best | None = None
    bound, tolerance, (rays, state) = -1.0, COARSE, start
    if state is not None:
        tolerance, state = FINE, _elsewhere(program, rays, state)
    reached: list[tuple[float, float]] = []
    for _ in range(ROUNDS):
        state = _newton(program, rays, state, tolerance)
        m = len(rays.rows)
        dual = _dual(program, rays, state)
        kappa, more = pricing(dual)
        kappa = max(kappa, float(program.lack(rays, dual).max()))
        found = program.certify(dual, kappa)
        if program.bound(found) > bound:
            certificate, bound, of = found, program.bound(found), dual
        weights = settle(program, rays, state.w[:m])
        noise = program.noise(rays, weights)
        if best is None or noise <= best.noise:
            best = Best(rays, weights, noise, bound, certificate, of, start)
        best = best._replace(bound=bound, certificate=certificate, dual=of)
        if best.gap <= gap or (tolerance <= gap / 20 and not len(more.rows)):
            break
        reached.append((best.gap, best.noise))
        # Where scales are so far apart that arithmetic ends, more rounds gain nothing.
        if len(reached) > STALLED:
            gap_then, noise_then = reached[-1 - STALLED]
            if best.gap > gap_then / 2 and best.noise > noise_then * (1 - SLOW):
                break
        # Rays that a design does not use may still hold the dual in place: few are dropped.
        spare = np.where(state.w[:m] > 1e-7 * state.w[:m].max(), -1.0, state.z[:m])
        most = program.prior.size * (program.prior.size + 1) + MOST_SPARE
        keep = np.sort(np.argsort(spare, kind="stable")[: max(most, int((spare < 0).sum()))])
        rays = rays.take(keep)
        more = _absent(more, rays)
        # What rays are missing a finer solution does not find, and the next round begins worse.
        least = program.bound(found)
        now = noise / least - 1.0 if least > 0 else math.inf
        finer = tolerance if len(more.rows) else tolerance / 5
        tolerance = max(min(finer, now / 30), gap / 100)
        state = _warm(state, keep, m, len(more.rows), dual.value)
        rays = rays.join(more)
    assert best is not None
    assert state is not None
    return best._replace(last=Start(rays, state))


def _absent(more: Rays, rays: Rays) -> Rays:
    """Those that are not there yet: of a ray that is there twice no weight is determined."""
    seen = {row.tobytes() for row in _key(rays)}
    return more.take(
        np.array([i for i, k in enumerate(_key(more)) if k.tobytes() not in seen], int)
    )


def _key(rays: Rays) -> Floats:
    """Rows of parts differ by their spread too."""
    return np.asarray(np.round(np.column_stack([rays.rows, rays.spread]), 9) + 0.0, dtype=float)


def _warm(state: _State, keep: Ints, m: int, added: int, value: float) -> _State:
    """A start for other rays, moved off the ends."""
    w = np.r_[state.w[keep], np.zeros(added), state.w[m:]]
    z = np.r_[state.z[keep], np.zeros(added), state.z[m:]]
    return _off_ends(w, z, state.y, 1e-3, value)


def _elsewhere(program: Program, rays: Rays, state: _State) -> _State:
    """A start for other levels: the slacks are what the weights leave of them."""
    w, m = state.w.copy(), len(rays.rows)
    w[m:] = 1.0 - w[:m] @ ((rays.cost - program.even) / program.room)
    # What multiplies a condition whose right side is 1 is about what it is worth.
    return _off_ends(w, state.z, state.y, 1e-4, float(state.y[: program.prior.size].sum()))


def _off_ends(w: Floats, z: Floats, y: Floats, share: float, value: float) -> _State:
    """No weight, and nothing to spare, below a share of their mean, or of the noise."""
    return _State(np.maximum(w, share / len(w)), np.maximum(z, share * value), y)


def _dual(program: Program, rays: Rays, state: _State) -> Dual:
    m, n = len(rays.rows), program.prior.size
    w = state.w[:m]
    e = rays.rows @ program.basis
    A: Floats = np.asarray(np.linalg.solve((e.T * w) @ e, program.C.T).T, dtype=float)
    value = float((A * program.C).sum())
    within: Floats = np.zeros(0)
    if program.sizes.size:
        within = 1.0 / (w @ rays.spread)
        value += float((program.sizes * within).sum())
    mu = np.maximum(state.y[n:], 0.0) / program.room
    return Dual(A, within, state.y[:n], mu, value)


def _newton(program: Program, rays: Rays, state: _State | None, tolerance: float) -> _State:
    """Primal-dual Newton steps until the gap and what is violated are within a tolerance."""
    n, m = program.prior.size, len(rays.rows)
    e = rays.rows @ program.basis
    A, right = rays.rows.T, np.ones(n)
    if program.levels:
        several = len(program.levels)
        A = np.zeros((n + several, m + several))
        # The slacks too are shares of what a level allows.
        shares = (rays.cost - program.even) / program.room
        A[:n, :m], A[n:, :m], A[n:, m:] = rays.rows.T, shares.T, np.eye(several)
        right = np.r_[right, np.ones(several)]
    total = A.shape[1]
    # In units in which each condition is about 1.
    unit = 1.0 / np.sqrt((A**2).mean(axis=1))
    A, right = A * unit[:, None], right * unit
    if state is None:
        w = np.full(total, 1.0 / m)
        g = _slopes(program, rays, e, w)
        z = np.full(total, float(-g.mean()))
        state = _State(w, z, np.r_[program.prior * -g.mean(), np.zeros(len(right) - n)])
    w, z, y = state.w, state.z, state.y / unit
    g = _slopes(program, rays, e, w)
    least_off, waited = math.inf, 0
    for _ in range(ITERATIONS):
        value = -float(g @ w[:m])
        grad = np.r_[g, np.zeros(total - m)]
        dual, primal = grad + A.T @ y - z, A @ w - right
        scale = 1.0 / np.maximum(np.abs(grad), value)
        off = max(
            float(w @ z) / (tolerance * value),
            float(np.abs(dual * scale).max()) / tolerance,
            float(np.abs(primal).max()) / max(tolerance * 1e-2, 1e-13),
        )
        if off < least_off / 2:
            least_off, waited = off, 0
        waited += 1
        if off <= 1.0 or waited > PATIENCE:
            break
        V = _curvature(program, rays, e, w)
        least = LEAST * tolerance * value / total
        found = None if V is None else _step(V, A, w, z, dual, primal, least)
        if found is None:
            break
        dw, dz, dy = found
        first = _longest(w, dw)
        second = _longest(z, dz)
        # The objective is not a quadratic: a step that makes the trace explode is shortened.
        for _ in range(30):
            g = _slopes(program, rays, e, w + first * dw)
            new = -float(g @ (w + first * dw)[:m])
            if math.isfinite(new) and new < 5 * value + 1e-300:
                break
            first /= 2
        w, z, y = w + first * dw, z + second * dz, y + second * dy
    return _State(w, z, y * unit)


def _slopes(program: Program, rays: Rays, e: Floats, w: Floats) -> Floats:
    """Gradient of the noise by the weights."""
    w = w[: len(e)]
    try:
        need = e @ np.linalg.solve((e.T * w) @ e, program.C.T)
    except np.linalg.LinAlgError:
        return np.full(len(e), -math.inf)
    g: Floats = -(need**2).sum(axis=1)
    if program.sizes.size:
        g -= rays.spread @ (program.sizes / (w @ rays.spread) ** 2)
    return g


def _curvature(program: Program, rays: Rays, e: Floats, w: Floats) -> Floats | None:
    """V with ``V V^T`` the second derivatives of the noise, a column for each entry of K.

    With ``K^-1 = X X^T`` and ``K^-1 C^T C K^-1 = X diag(q) X^T`` and ``x = X^T e`` they are
    ``2 (x_k^T x_l) (x_k^T diag(q) x_l)``, the sum over i and j of the products of
    ``x_ki x_kj (q_i + q_j)^(1/2)`` for both rays.
    """
    w = w[: len(e)]
    K = (e.T * w) @ e
    try:
        L = np.linalg.cholesky(K)
        C = np.linalg.solve(L, program.C.T)
        q, U = np.linalg.eigh(C @ C.T)
        x = np.linalg.solve(L, e.T).T @ U
    except np.linalg.LinAlgError:
        return None
    q = np.maximum(q, 0.0)
    i, j = np.triu_indices(len(K))
    V: Floats = x[:, i] * x[:, j] * np.sqrt(np.where(i == j, 1.0, 2.0) * (q[i] + q[j]))
    if program.sizes.size:
        within = np.sqrt(2 * program.sizes / (w @ rays.spread) ** 3)
        V = np.hstack([V, rays.spread * within])
    return V


def _step(
    V: Floats, A: Floats, w: Floats, z: Floats, dual: Floats, primal: Floats, least: float
) -> tuple[Floats, Floats, Floats] | None:
    """Mehrotra's step dw, dz, dy: one towards the end tells how much to centre.

    Parameters
    ----------
    V : array, shape (rays, d)
    A : array, shape (conditions, weights)
        Rays, and a slack for each level.
    w, z : arrays, shape (weights,)
    dual, primal : arrays
        ``g + A^T y - z`` and ``A w - b``.
    least : float
        No target is below it.
    """
    from scipy.linalg.lapack import dpotrf, dpotrs

    m, d = V.shape
    both = np.zeros((len(w), d + len(A)))
    both[:m, :d], both[:, d:] = V, A.T
    inverse = w / z
    half = both * np.sqrt(inverse)[:, None]
    N = half.T @ half
    N[np.arange(d), np.arange(d)] += 1.0
    # Rows in units in which the diagonal is 1.
    unit = 1.0 / np.sqrt(np.diag(N))
    N *= unit[:, None] * unit
    N[np.arange(len(N)), np.arange(len(N))] += 1e-14
    factor, failed = dpotrf(N, lower=1, clean=0)
    if failed:
        return None

    def once(right: Floats, goal: Floats) -> tuple[Floats, Floats]:
        # both @ found + dw / inverse = right;  both^T dw - (s, 0) = goal.
        found = unit * dpotrs(factor, unit * ((inverse * right) @ both - goal), lower=1)[0]
        return inverse * (right - both @ found), found

    goal = np.r_[np.zeros(d), -primal]
    right = -z - dual
    dw, _ = once(right, goal)
    dz = -z - dw / inverse
    mean = float(w @ z) / len(w)
    after = float((w + _longest(w, dw) * dw) @ (z + _longest(z, dz) * dz)) / len(w)
    # Products that vanish before the conditions hold would end all steps.
    centre = max(min(1.0, max((after / mean) ** 3, 1e-3)) * mean, least)
    target = np.clip(centre - dw * dz, -10 * mean, max(10 * mean, least))
    right += target / w
    dw, found = once(right, goal)
    # Where z is small, dw is what large terms leave of each other: once more, for the rest.
    for _ in range(REFINED):
        left = goal - dw @ both
        left[:d] += found[:d]
        dw_more, more = once(right - both @ found - dw / inverse, left)
        dw, found = dw + dw_more, found + more
    dz = target / w - z - dw / inverse
    step = dw, dz, found[d:]
    return step if np.isfinite(np.concatenate(step)).all() else None


def _longest(x: Floats, step: Floats) -> float:
    """Length of a step that leaves all above 0."""
    ratio = np.where(step < 0, -step / x, 0.0).max()
    return min(1.0, 0.99 / ratio) if ratio > 0 else 1.0


def settle(program: Program, rays: Rays, weights: Floats) -> Floats:
    """Weights with exact reports, ``sum w l = 1``, and within the levels, from some that are near.

    Raises
    ------
    PPDMError
        If there are none near.
    """
    A, right = rays.rows.T, np.ones(program.prior.size)
    try:
        w = _settled(A, right, np.where(weights > UNUSED * weights.max(), weights, 0.0))
    except PPDMError:
        # A ray of little weight may be most of what is reported of a rare category.
        share = weights * rays.rows.max(axis=1)
        w = _settled(A, right, np.where(share > UNUSED * share.max(), weights, 0.0))
    # A level that is met may be missed once another one is put right.
    for _ in program.levels:
        over = w @ rays.cost > program.levels
        if not over.any():
            break
        A = np.vstack([A, rays.cost.T[over]])
        right = np.r_[right, np.array(program.levels)[over]]
        w = _settled(A, right, w)
    return w


def _settled(A: Floats, right: Floats, w: Floats) -> Floats:
    unit = 1.0 / np.sqrt((A**2).mean(axis=1))
    A, right = A * unit[:, None], right * unit
    for _ in range(60):
        residual = right - A @ w
        if (np.abs(residual) < 4e-16 * right).all():
            break
        step = A.T @ np.linalg.lstsq((A * w) @ A.T, residual, rcond=1e-14)[0]
        # Relative to its weight, and at most halved, so that no ray leaves the design.
        w = w * np.maximum(1.0 + step, 0.5)
    if not np.abs(A @ w / right - 1.0).max() < OFF:
        raise PPDMError("the solver found no design", w)
    result: Floats = w
    return result
