"""The least noise of estimates within a privacy, by one solver and one certificate for every cone.

A design gives its rays l_k, scaled to ``l_k^T p = 1``, the probabilities w_k.  With
``D = diag(p)``, an orthonormal basis B of the complement of ``p^(1/2)`` and
``e_k = B^T D^(1/2) l_k``, the sum of the variances of one report's estimates of ``L pi`` is

    tr C K^-1 C^T   with   C = L D^(1/2) B,   K = sum_k w_k e_k e_k^T,

in which nothing cancels, however rare a category is; for L = 1 it is ``tr J^-1 - |p|^2``, n N times
the paper's MSE.  It is minimised subject to ``sum_k w_k l_k = 1`` and, where the privacy has
levels, ``sum_k w_k c_k <= a``: a convex problem in w, solved by a primal-dual Newton method in the
weights of some rays, to which rays are added as they are violated.

The certificate needs no solver.  For any A, nu and ``mu >= 0`` let kappa be the largest of
``|A e_k|^2 - nu^T l_k - mu^T c_k`` over *all* rays.  Since ``sum_k w_k = 1`` in every design,

    tr C K^-1 C^T >= tr(A^T C)^2 / (nu^T 1 + mu^T a + kappa).

Where L has fewer rows than categories the best K may be singular, as where a report tells one of
several attributes.  Then some rows more, `spare`, times a small factor, keep it regular; what a
design is certified by leaves their part of ``tr(A^T C)`` out.

Categories of equal proportion are exchangeable: by convexity some optimal design is unchanged when
they change places.  Then only the number of members that a ray has at each value counts.  With
m_k the means of a ray over the parts, everything above holds for the parts; within a part of size
n_i the variance of the entries, v_ki, adds ``(n_i - 1) / sum_k w_k v_ki``, and
``(n_i - 1) a_i^2 v_ki`` to what a ray needs in the certificate, for any a_i.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ppdm_dask.arrays import EPS, Floats, Ints
from ppdm_dask.errors import PPDMError
from ppdm_dask.search.rays import Certificate

GAP = 1e-9
"""Relative gap at which the solver stops."""

ITERATIONS, ROUNDS = 80, 60
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

ROUNDING = 1e-12
"""What arithmetic may take from a certificate, relative to what its sums are made of."""


class Rays(NamedTuple):
    """Rays of a program: of categories, or of parts of exchangeable ones."""

    rows: Floats
    """Shape (rays, n), with ``rows @ prior = 1``: entries, or their means over parts."""
    spread: Floats
    """Shape (rays, parts): variance of the entries within a part; (rays, 0) without parts."""
    cost: Floats
    """Shape (rays, levels): what each level bounds."""

    def take(self, places: Ints) -> Rays:
        """Some of them."""
        return Rays(self.rows[places], self.spread[places], self.cost[places])

    def join(self, more: Rays) -> Rays:
        """These and others."""
        return Rays(*map(np.concatenate, zip(self, more, strict=True)))


class Dual(NamedTuple):
    """What a certificate is made of."""

    A: Floats
    """Shape (q, n - 1)."""
    within: Floats
    """a_i, shape (parts,)."""
    nu: Floats
    """Shape (n,)."""
    mu: Floats
    """Shape (levels,)."""
    value: float
    """``tr(A^T C)`` and what is within parts."""


Pricing = Callable[[Dual], tuple[float, Rays]]
"""The largest lack of any ray, or a bound on it, and some rays that lack most."""


@dataclass(frozen=True, eq=False)
class Program:
    """A-optimal weights of rays for one prior.

    Parameters
    ----------
    prior : array, shape (n,)
        Proportions of the categories, or the sums of parts.
    contrasts : array, shape (q, n)
        L: what is estimated.
    sizes : array, shape (parts,)
        Numbers of exchangeable categories less 1, for each column of the spread.
    levels : tuple of float
        Bounds on the sums of costs.
    """

    prior: Floats
    contrasts: Floats
    sizes: Floats
    levels: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        p = self.prior
        root = np.sqrt(p / p.sum())
        # Householder's reflection that takes p^(1/2) to an axis: its other columns are B.
        axis = int(p.argmax())
        normal = root.copy()
        normal[axis] += 1.0  # the sign that cannot cancel: all entries of the root are above 0
        normal /= np.linalg.norm(normal)
        B = np.delete(np.eye(p.size) - 2 * np.outer(normal, normal), axis, axis=1)
        vars(self)["basis"] = root[:, None] * B
        vars(self)["C"] = self.contrasts @ vars(self)["basis"]

    @property
    def basis(self) -> Floats:
        """``D^(1/2) B``: ``e = rows @ basis``."""
        found: Floats = vars(self)["basis"]
        return found

    @property
    def C(self) -> Floats:
        """Shape (q, n - 1)."""
        found: Floats = vars(self)["C"]
        return found

    def noise(self, rays: Rays, weights: Floats) -> float:
        """Of the design with these weights; infinite where it cannot estimate."""
        e = rays.rows @ self.basis
        try:
            half = np.linalg.solve((e.T * weights) @ e, self.C.T)
        except np.linalg.LinAlgError:
            return math.inf
        total = float((self.C.T * half).sum())
        if self.sizes.size:
            total += float((self.sizes / (weights @ rays.spread)).sum())
        return total if total > 0 and math.isfinite(total) else math.inf

    def noise_of_matrix(self, P: Floats) -> float:
        """Of the design with this matrix, whose columns sum to 1."""
        reports = P @ self.prior
        P, reports = P[reports > 0], reports[reports > 0]
        none = np.zeros((len(P), 0))
        return self.noise(Rays(P / reports[:, None], none, none), reports)

    def lack(self, rays: Rays, dual: Dual) -> Floats:
        """``|A e|^2 - nu^T l - mu c`` of rays, raised by what rounding may have done to it."""
        half = self.basis @ dual.A.T
        needs = ((rays.rows @ half) ** 2).sum(axis=1)
        size = ((rays.rows @ np.abs(half)) ** 2).sum(axis=1)
        within = rays.spread @ (self.sizes * dual.within**2)
        cost = rays.cost @ dual.mu
        has = rays.rows @ dual.nu + cost
        off = rays.rows @ np.abs(dual.nu) + cost + within + np.sqrt(needs * size)
        lacking: Floats = needs + within - has + 4 * self.prior.size * EPS * off
        return lacking

    def certify(self, dual: Dual, kappa: float) -> Certificate:
        """Certificate of the least noise at every first level, given the largest lack of any ray.

        Its sums are widened by what rounding may have done to them.
        """
        base = float(dual.nu.sum()) + kappa
        base += ROUNDING * (float(np.abs(dual.nu).sum()) + dual.value)
        mu = dual.mu * (1 + ROUNDING)
        base += float(mu[1:] @ self.levels[1:])
        slope = float(mu[0]) if mu.size else 0.0
        known = math.fsum(self.prior**2)
        return Certificate(dual.value**2 * (1 - ROUNDING), base, slope, 0.0, known)

    def bound(self, certificate: Certificate) -> float:
        """The certified least noise at the program's levels; 0 where nothing is certified."""
        level = self.levels[0] if self.levels else 0.0
        if not certificate.base + certificate.slope * level > 0:
            return 0.0
        found = float(certificate.beyond(level))
        return found if math.isfinite(found) else 0.0


class Best(NamedTuple):
    """A design that was found, and what is certain about all others."""

    rays: Rays
    weights: Floats
    noise: float
    bound: float
    certificate: Certificate
    dual: Dual
    """Of the certificate."""

    @property
    def gap(self) -> float:
        """How far above the certificate the design is, relative."""
        return self.noise / self.bound - 1.0 if self.bound > 0 else math.inf


class _State(NamedTuple):
    w: Floats  # weights, and the slack of each level
    z: Floats  # what their constraints of the dual have to spare
    y: Floats  # nu and mu


def improve(program: Program, rays: Rays, pricing: Pricing, *, gap: float = GAP) -> Best:
    """Optimal weights of rays, and of more rays as `pricing` offers them.

    Parameters
    ----------
    program : Program
    rays : Rays
        To begin with; some design has to be made of them.
    pricing : callable
    gap : float
        Relative gap at which to stop.

    Raises
    ------
    PPDMError
        If the solver finds no design.
    """
    best: Best | None = None
    bound, tolerance, state = -1.0, 1e-3, None
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
            best = Best(rays, weights, noise, bound, certificate, of)
        best = best._replace(bound=bound, certificate=certificate, dual=of)
        if best.gap <= gap or (tolerance <= gap / 20 and not len(more.rows)):
            break
        reached.append((best.gap, best.noise))
        # Where scales are so far apart that arithmetic ends, more rounds gain nothing.
        if len(reached) > STALLED:
            gap_then, noise_then = reached[-1 - STALLED]
            if best.gap > gap_then / 2 and best.noise > noise_then * (1 - SLOW):
                break
        lacking = kappa / max(dual.value, 1e-300)
        tolerance = max(min(tolerance / 5, lacking / 5), gap / 100)
        # Rays that a design does not use may still hold the dual in place: few are dropped.
        spare = np.where(state.w[:m] > 1e-7 * state.w[:m].max(), -1.0, state.z[:m])
        most = program.prior.size * (program.prior.size + 1) + MOST_SPARE
        keep = np.sort(np.argsort(spare, kind="stable")[: max(most, int((spare < 0).sum()))])
        rays = rays.take(keep)
        more = _absent(more, rays)
        state = _warm(state, keep, m, len(more.rows), dual.value)
        rays = rays.join(more)
    assert best is not None
    return best


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
    return _State(np.maximum(w, 1e-3 / len(w)), np.maximum(z, 1e-3 * value), state.y)


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
    mu = np.maximum(state.y[n:], 0.0)
    return Dual(A, within, state.y[:n], mu, value)


def _newton(program: Program, rays: Rays, state: _State | None, tolerance: float) -> _State:
    """Primal-dual Newton steps until the gap and what is violated are within a tolerance."""
    n, m = program.prior.size, len(rays.rows)
    e = rays.rows @ program.basis
    A, right = rays.rows.T, np.ones(n)
    if program.levels:
        several = len(program.levels)
        A = np.zeros((n + several, m + several))
        A[:n, :m], A[n:, :m], A[n:, m:] = rays.rows.T, rays.cost.T, np.eye(several)
        right = np.r_[right, program.levels]
    total = A.shape[1]
    # In units in which each condition is about 1.
    unit = 1.0 / np.sqrt((A**2).mean(axis=1))
    A, right = A * unit[:, None], right * unit
    if state is None:
        w = np.full(total, 1.0 / m)
        g, _ = _slopes(program, rays, e, w, second=False)
        z = np.full(total, float(-g.mean()))
        state = _State(w, z, np.r_[program.prior * -g.mean(), np.zeros(len(right) - n)])
    w, z, y = state.w, state.z, state.y / unit
    for _ in range(ITERATIONS):
        g, H = _slopes(program, rays, e, w[:m])
        value = -float(g @ w[:m])
        grad = np.r_[g, np.zeros(total - m)]
        dual, primal = grad + A.T @ y - z, A @ w - right
        gap = float(w @ z)
        scale = 1.0 / np.maximum(np.abs(grad), value)
        if (
            gap <= tolerance * value
            and np.abs(dual * scale).max() <= tolerance
            and np.abs(primal).max() <= max(tolerance * 1e-2, 1e-13)
        ):
            break
        found = _step(H, A, w, z, dual, primal, gap / total)
        if found is None:
            break
        dw, dz, dy = found
        first = _longest(w, dw)
        second = _longest(z, dz)
        # The objective is not a quadratic: a step that makes the trace explode is shortened.
        for _ in range(30):
            g_new, _ = _slopes(program, rays, e, (w + first * dw)[:m], second=False)
            new = -float(g_new @ (w + first * dw)[:m])
            if math.isfinite(new) and new < 5 * value + 1e-300:
                break
            first /= 2
        w, z, y = w + first * dw, z + second * dz, y + second * dy
    return _State(w, z, y * unit)


def _slopes(
    program: Program, rays: Rays, e: Floats, w: Floats, *, second: bool = True
) -> tuple[Floats, Floats]:
    """Gradient of the noise by the weights, and its second derivatives."""
    w = w[: len(e)]
    try:
        inverse = np.linalg.inv((e.T * w) @ e)
    except np.linalg.LinAlgError:
        return np.full(len(e), -math.inf), np.zeros((0, 0))
    half = e @ inverse
    need = half @ program.C.T
    g = -(need**2).sum(axis=1)
    within = None
    if program.sizes.size:
        within = 1.0 / (w @ rays.spread)
        g -= rays.spread @ (program.sizes * within**2)
    if not second:
        return g, np.zeros((0, 0))
    H = 2 * (half @ e.T) * (need @ need.T)
    if within is not None:
        H += 2 * (rays.spread * (program.sizes * within**3)) @ rays.spread.T
    return g, H


def _step(
    H: Floats, A: Floats, w: Floats, z: Floats, dual: Floats, primal: Floats, mean: float
) -> tuple[Floats, Floats, Floats] | None:
    """Mehrotra's step: one towards the end tells how much to centre."""
    from scipy.linalg import LinAlgError, cho_factor, cho_solve

    m, total = len(H), len(w)
    # In units of the weights the matrix is well scaled: W H W + W Z.
    M = np.zeros((total, total))
    M[:m, :m] = w[:m, None] * H * w[:m]
    M[np.arange(total), np.arange(total)] += w * z
    scaled = A * w
    try:
        factor = cho_factor(M, lower=True, check_finite=False)
        solved = cho_solve(factor, scaled.T, check_finite=False)
        S = scaled @ solved
        S[np.arange(len(S)), np.arange(len(S))] *= 1 + 1e-14
        outer = cho_factor(S, lower=True, check_finite=False)
    except LinAlgError:
        return None

    def solve(target: Floats) -> tuple[Floats, Floats, Floats]:
        # w dz + z dw = target - w z;  H dw + A^T dy - dz = -dual;  A dw = -primal.
        right = w * (-dual) + target - w * z
        half = cho_solve(factor, right, check_finite=False)
        dy = cho_solve(outer, scaled @ half + primal, check_finite=False)
        du = half - solved @ dy
        dw = w * du
        dz = (target - w * z) / w - z * du
        return dw, dz, dy

    dw, dz, _ = solve(np.zeros(total))
    after = float((w + _longest(w, dw) * dw) @ (z + _longest(z, dz) * dz)) / total
    centre = min(1.0, max((after / mean) ** 3, 1e-3))
    found = solve(np.clip(centre * mean - dw * dz, -10 * mean, 10 * mean))
    return found if all(np.isfinite(each).all() for each in found) else None


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
