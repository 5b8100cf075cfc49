"""The least MSE that any design can have at a level of privacy, with a certificate.

Over designs with any number of reported symbols the best one is made of extremal rays r_k (see
:mod:`~ppdm_dask.search.rays`) with weights ``w >= 0``.  With ``u_k = (r_k / p) / sqrt(sum r_k)`` it
minimises ``tr (sum_k w_k u_k u_k^T)^-1`` subject to ``sum_k w_k r_k = p`` and ``sum_k w_k <= a``,
where a is the adversary's success: a convex problem, A-optimal design.  Its dual is a second-order
cone program, solved by Clarabel; rays are added to it as they are violated.

A certificate needs no solver: for any symmetric Y, any nu and ``mu >= 0`` with
``nu^T r_k + mu > 0`` on all rays and ``eta = max_k |Y u_k|^2 / (nu^T r_k + mu)``,

    tr J^-1 >= (tr Y)^2 / (eta (nu^T p + mu a))   at every level a.

Rare categories, and levels near an end, need *balanced units*.  Every design has ``J p = 1``, so
that ``tr J^-1`` is ``|p|^2`` and a trace across that direction.  With ``D = diag(p)``, an
orthonormal basis B of the complement of ``p^(1/2)``, ``L = D^(1/2) B`` and
``e_k = B^T D^(1/2) u_k``,

    tr J^-1 - |p|^2 = tr L J2^-1 L^T   with   J2 = sum_k w_k e_k e_k^T,

which is n N times the MSE: nothing cancels, however rare a category is.  In the dual a category
with more than half of the level enters by what its posterior lacks of 1, every other one by itself,

    h_k = g + sum_(x frequent) nu_x (1 - r_k(x)) + sum_(x rare) nu_x r_k(x),

in units of ``a - p(x)`` and of ``p(x)``: no reports are so private that these would cancel.  A ray
enters in units of the largest weight that a design can give it.  As there, any Z, nu and g with
``h_k >= |A e_k|^2`` on all rays for ``A = L Z``, and with ``g + sum_(x frequent) nu_x >= 0``,
certify at every level

    tr J^-1 - |p|^2 >= tr(A^T L)^2 / (g a + sum_(x frequent) nu_x (a - p(x))
                                          + sum_(x rare) nu_x p(x)).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import astuple, dataclass
from itertools import product
from typing import NamedTuple, Self

import numpy as np
import numpy.typing as npt

from ppdm_dask.arrays import Floats, Ints
from ppdm_dask.errors import PPDMError
from ppdm_dask.search.problem import Problem, evaluate
from ppdm_dask.search.rays import Certificate, list_rays, thinned
from ppdm_dask.search.solved import Arrays, finite

ATTEMPTS = ((1.0, 1e-10), (1.7, 1e-10), (0.6, 1e-9), (3.0, 1e-8))
"""Unit of the problem and tolerance, tried in turn where the solver breaks down.  What comes out
is certified afterwards, whatever the solver says of it."""


class Dual(NamedTuple):
    """Solution for a set of rays."""

    Y: Floats
    nu: Floats
    mu: float
    weights: Floats
    trace: float


def solve_dual(u: Floats, rays: Floats, prior: Floats, loss: float, scale: float) -> Dual:
    """Maximise ``2 tr Y - nu^T p - mu a`` with ``|Y u_k|^2 <= nu^T r_k + mu`` for all k.

    The multipliers of the constraints are the weights of the rays in the design.

    Parameters
    ----------
    u, rays : arrays, shape (rays, n)
    prior : array, shape (n,)
    loss : float
        Level a.
    scale : float
        About tr J^-1; the problem is solved in this unit.

    Raises
    ------
    PPDMError
        If the solver does not end well.
    """
    for factor, tolerance in ATTEMPTS:
        found = _attempt(u, rays, prior, loss, scale * factor, tolerance)
        if found is not None:
            return found
    raise PPDMError(f"the cone solver gave up at level {loss:g}", loss)


def _attempt(
    u: Floats, rays: Floats, prior: Floats, loss: float, scale: float, tolerance: float
) -> Dual | None:
    m, n = rays.shape
    v = u * np.sqrt(scale)
    rows, cols = np.triu_indices(n)
    n_Y = len(rows)
    # Each cone: (h + 1, h - 1, 2 Y v) with h = nu^T r + mu, so that |Y v|^2 <= h.
    A = np.zeros((m, n + 2, n_Y + n + 1))
    A[:, :2, n_Y : n_Y + n] = -rays[:, None, :]
    A[:, :2, -1] = -1.0
    for j, (i, k) in enumerate(zip(rows, cols, strict=True)):
        A[:, 2 + i, j] = -2.0 * v[:, k]
        A[:, 2 + k, j] = -2.0 * v[:, i]
    b = np.zeros((m, n + 2))
    b[:, 0], b[:, 1] = 1.0, -1.0
    last = np.zeros((1, A.shape[2]))
    last[0, -1] = -1.0
    q = np.concatenate([np.where(rows == cols, -2.0, 0.0), prior, [loss]])
    found = run_solver(
        np.vstack([A.reshape(m * (n + 2), -1), last]),
        np.append(b.ravel(), 0.0),
        q,
        [n + 2] * m,
        tolerance,
    )
    if found is None:
        return None
    x = found.x
    Y = np.zeros((n, n))
    Y[rows, cols] = Y[cols, rows] = x[:n_Y]
    z = found.z[:-1].reshape(m, n + 2)
    weights = z[:, 0] + z[:, 1]
    # Back in the caller's unit: Y v = (sqrt(scale) Y) u, and all of it times sqrt(scale) again.
    return Dual(
        Y * scale,
        x[n_Y : n_Y + n] * scale,
        max(float(x[-1]), 0.0) * scale,
        np.maximum(weights, 0.0),
        -found.value * scale,
    )


class Solution(NamedTuple):
    """Variables, multipliers of the constraints, and the objective."""

    x: Floats
    z: Floats
    value: float


def run_solver(
    A: Floats,
    b: Floats,
    cost: Floats,
    cones: Sequence[int],
    tolerance: float,
    nonnegative: int = 1,
) -> Solution | None:
    """Minimise ``cost^T x`` with ``b - A x`` in cones; None where the solver does not end well.

    Parameters
    ----------
    A : array, shape (rows, variables)
    b : array, shape (rows,)
    cost : array, shape (variables,)
    cones : sequence of int
        Sizes of the second-order cones.
    tolerance : float
        Of the gap and of feasibility.
    nonnegative : int
        How many of the last rows are numbers of 0 or more.
    """
    import clarabel
    from scipy import sparse

    settings = clarabel.DefaultSettings()
    settings.verbose = False
    # One thread: sums in another order would give other bits from run to run.
    settings.max_threads = 1
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = tolerance
    found = clarabel.DefaultSolver(
        sparse.csc_matrix((len(cost), len(cost))),
        cost,
        sparse.csc_matrix(A),
        b,
        [*map(clarabel.SecondOrderConeT, cones), clarabel.NonnegativeConeT(nonnegative)],
        settings,
    ).solve()
    # What is almost solved will do: no status is believed, the certificate is checked by itself.
    if str(found.status) not in ("Solved", "AlmostSolved", "InsufficientProgress"):
        return None
    return Solution(np.array(found.x), np.array(found.z), float(found.obj_val))


def settled(A: Floats, right: Floats | float, weights: Floats, *, rcond: float) -> Floats:
    """Weights with ``A w = right`` to rounding, from some that are near: Newton's steps."""
    for _ in range(60):
        residual = right - A @ weights
        if np.abs(residual).max() < 1e-15:
            break
        step = A.T @ np.linalg.lstsq((A * weights) @ A.T, residual, rcond=rcond)[0]
        # Relative to its weight, and at most halved, so that no ray leaves the design.
        weights = weights * np.maximum(1.0 + step, 0.5)
    return weights


Found = tuple[float, Floats, Ints, Certificate]  # gap, weights, which rays, certificate

TOLERANCES = (1e-11, 1e-10, 1e-9, 1e-8)
"""Of the solver, tried in turn; what comes out is certified whatever the solver says of it."""

FACTORS = (1.0, 3.0, 0.3, 10.0, 0.1)
"""Of the unit of the trace, tried in turn where the solver comes to no good end in one of them."""

BEST_GAP, GOOD_GAP = 1e-8, 1e-6
"""Relative distances of a design from its certificate at which no other tolerance is tried, and no
other factor."""

WORST_GAP = 1e-4  # beyond it nothing was solved
BALANCED_VIOLATION = (
    1e-10  # of a ray's constraint, in units of the whole, below which no ray is added
)
AT_END = 1e-7  # of the way from max p to delta: what is nearer to delta counts as it
BALANCED_UNUSED = 1e-9  # weight of a ray, relative to its largest, that is the solver's noise
LISTED = 600  # rays that are all given to the solver at once
BALANCED_ADDED, BALANCED_ROUNDS = 60, 40
EPSILON = float(np.finfo(float).eps)


class BalancedProgram:
    """Optimal designs of one problem, from all its rays, at any levels.

    `spanning` are some of the rays, of which a design can be made at every level.
    """

    def __init__(self, problem: Problem, rays: Floats, spanning: Ints) -> None:
        p = problem.prior
        self.problem, self.rays, self.spanning = problem, rays, spanning
        self.sums = rays.sum(axis=1)
        root = np.sqrt(p)
        # Householder's reflection that takes p^(1/2) to an axis: its other columns are B.
        axis = int(p.argmax())
        normal = root / np.linalg.norm(root)
        normal[axis] += 1.0  # the sign that cannot cancel: all entries of the root are above 0
        normal /= np.linalg.norm(normal)
        B = np.delete(np.eye(len(p)) - 2 * np.outer(normal, normal), axis, axis=1)
        self.L = root[:, None] * B
        scaled = root * np.sqrt(self.sums)[:, None]
        self.e = ((rays - self.sums[:, None] * p) / scaled) @ B
        # What rounding may have made of e, in units of EPSILON.
        self._e_error = ((rays + self.sums[:, None] * p) / scaled) @ np.abs(B) * 2 * len(p)
        self._most = np.where(rays > 0, p / np.where(rays > 0, rays, 1.0), np.inf).min(axis=1)

    def solve(self, loss: float) -> tuple[Floats, Ints, Certificate]:
        """Weights of rays, which rays, and the certificate, at a level of at most delta.

        Where the level is next to delta, the design's success is delta.

        Raises
        ------
        PPDMError
            If no design comes near its certificate.
        """
        best: Found | None = None
        level = _Level(self, loss)
        for factor, tolerance in product(FACTORS, TOLERANCES):
            found = level.solve(tolerance, factor)
            if found is not None and (best is None or found[0] < best[0]):
                best = found
            if best is not None and best[0] <= (BEST_GAP if factor == 1.0 else GOOD_GAP):
                break
        if best is None or not best[0] <= WORST_GAP:
            raise PPDMError(f"the cone solver gave up at level {loss:g}", loss)
        return best[1:]


class _Level:
    """The program at one level, in its units."""

    def __init__(self, program: BalancedProgram, loss: float) -> None:
        problem = program.problem
        p, R = problem.prior, program.rays
        self.program, self.problem = program, problem
        # So near to the end the program is that of the end itself.
        self.at_end = loss >= problem.delta - AT_END * (problem.delta - problem.p_max)
        self.loss = problem.delta if self.at_end else loss
        # The categories' rooms, without the cancellation of a level that is near p_max.
        room = (problem.p_max - p) + (self.loss - problem.p_max)
        self.frequent = p > room
        self.unit = np.where(self.frequent, room, p)
        self.share = np.where(self.frequent, 1.0 - R, R)
        lacking = np.where(R < 1, room / np.where(R < 1, 1.0 - R, 1.0), np.inf).min(axis=1)
        self.most = np.minimum(program._most, lacking)
        if self.at_end:
            # Only rays with the least sum can make delta a design's loss; all that do, have it.
            tight = program.sums <= program.sums.min() * (1 + 1e-9)
            self.allowed = np.flatnonzero(tight)
        else:
            self.allowed = np.arange(len(R))

    def solve(self, tolerance: float, factor: float) -> Found | None:
        """The best that was found; None where the solver finds nothing."""
        active = self.allowed
        if len(active) > LISTED:
            first = self.program.spanning
            active = np.intersect1d(first, active) if self.at_end else first
            if len(active) < self.problem.n:
                active = self.allowed
        p_max, delta = self.problem.p_max, self.problem.delta
        scale = (1.0 - float((self.problem.prior**2).sum())) * (delta - p_max)
        scale /= self.loss - p_max
        # Where delta allows little, a report is worth up to the square of that less.
        allowed = (delta - p_max) / (1.0 - p_max)
        for guess in (scale, scale / allowed, scale / allowed**2):
            found = self._from_scale(active, guess, tolerance, factor)
            if found is not None:
                return found
        return None

    def _from_scale(
        self, active: Ints, scale: float, tolerance: float, factor: float
    ) -> Found | None:
        """The same, from a guess of the trace; with more rays as they are violated."""
        best: Found | None = None
        for _ in range(BALANCED_ROUNDS):
            found = self._attempt(active, scale, tolerance)
            if found is None:
                return best
            Z, nu, g, weights, value = found
            certificate, short = self._certified(Z, nu, g, scale)
            chosen, exact = self._exact(weights, active)
            gap = self._gap(exact, chosen, certificate)
            if best is None or gap < best[0]:
                best = gap, exact, chosen, certificate
            more = np.argsort(-short, kind="stable")[:BALANCED_ADDED]
            more = np.setdiff1d(more[short[more] > BALANCED_VIOLATION], active)
            # The unit counts too: it was a guess, and the trace that came out is a better one.
            if not more.size and abs(math.log(value * factor / scale)) < 1.0:
                return best
            active = np.union1d(active, more)
            scale = value * factor
        return best

    def _attempt(
        self, active: Ints, scale: float, tolerance: float
    ) -> tuple[Floats, Floats, float, Floats, float] | None:
        """Z, nu and g in the unit `scale`, weights of the active rays, and the trace."""
        program, L = self.program, self.program.L
        n, m = self.problem.n, len(active)
        rows, cols = np.triu_indices(n - 1)
        n_Z = len(rows)
        most = self.most[active]
        e = program.e[active] * np.sqrt(most * scale)[:, None]
        gram = L.T @ L
        unit = 1.0 / np.sqrt(gram[rows, rows] * gram[cols, cols])
        # As above, each cone: (h + 1, h - 1, 2 L Z e), so that |L Z e|^2 <= h.
        A = np.zeros((m, n + 2, n_Z + n + 1))
        A[:, :2, n_Z:-1] = -(self.share[active] * most[:, None] / self.unit)[:, None, :]
        A[:, :2, -1] = -(most / self.loss)[:, None]
        for j, (i, k) in enumerate(zip(rows, cols, strict=True)):
            column = e[:, k, None] * L[:, i]
            if i != k:
                column = column + e[:, i, None] * L[:, k]
            A[:, 2:, j] = -2.0 * unit[j] * column
        b = np.zeros((m, n + 2))
        b[:, 0], b[:, 1] = 1.0, -1.0
        last = np.zeros((1, A.shape[2]))
        last[0, n_Z:-1] = np.where(self.frequent, -1.0 / self.unit, 0.0)
        last[0, -1] = -1.0 / self.loss
        last /= np.abs(last).max()
        cost = np.where(rows == cols, -2.0, -4.0) * gram[rows, cols] * unit
        found = run_solver(
            np.vstack([A.reshape(m * (n + 2), -1), last]),
            np.append(b.ravel(), 0.0),
            np.concatenate([cost, np.ones(n + 1)]),
            [n + 2] * m,
            tolerance,
        )
        if found is None or not found.value < 0:
            return None
        Z = np.zeros((n - 1, n - 1))
        Z[rows, cols] = Z[cols, rows] = found.x[:n_Z] * unit
        nu = found.x[n_Z:-1] / self.unit
        z = found.z[:-1].reshape(m, n + 2)
        weights = np.maximum(z[:, 0] + z[:, 1], 0.0)
        return Z, nu, float(found.x[-1]) / self.loss, weights, -found.value * scale

    def _certified(
        self, Z: Floats, nu: Floats, g: float, scale: float
    ) -> tuple[Certificate, Floats]:
        """The certificate, and what each ray lacked, in units of the whole.

        What a ray lacks, by the solver's tolerance or because rounding might have hidden it, is
        made up for by the variable that serves it at the least cost.
        """
        program, problem = self.program, self.problem
        n, p = problem.n, problem.prior
        A = program.L @ Z
        needs = np.abs(program.e @ A.T)
        needs += EPSILON * ((program._e_error + n * np.abs(program.e)) @ np.abs(A.T))
        needs = (needs**2).sum(axis=1) * scale
        has = g + self.share @ nu
        # Floats round to nearest only; so every sum is lowered by a bound on what it may be off.
        has = has - 2 * n * EPSILON * (abs(g) + self.share @ np.abs(nu))
        short = needs - has
        serves = np.column_stack([self.share / self.unit, np.full(len(short), 1.0 / self.loss)])
        best = serves.argmax(axis=1)
        raised = np.zeros(n + 1)
        np.maximum.at(raised, best, short / serves[np.arange(len(best)), best])
        nu = nu + raised[:-1] / self.unit
        g += float(raised[-1]) / self.loss
        g += max(0.0, -(g + float(nu[self.frequent].sum())))
        slope = max(0.0, g + float(nu[self.frequent].sum()))
        base = g * self.loss + float(nu @ self.unit)
        base += 4 * n * EPSILON * (abs(g) * self.loss + float(np.abs(nu) @ self.unit))
        square = float((A * program.L).sum()) ** 2 * scale * (1 - 8 * n * n * EPSILON)
        known = math.fsum(p**2)
        return Certificate(square, base, slope, self.loss, known), short * self.most

    def _exact(self, weights: Floats, active: Ints) -> tuple[Ints, Floats]:
        """Rays in use and their weights, with ``R^T w = p`` and ``sum w = a`` to rounding."""
        keep = weights > BALANCED_UNUSED
        chosen, x = self._thinned(active[keep], weights[keep])
        R, most = self.program.rays[chosen], self.most[chosen]
        A = (self.share[chosen] * most[:, None] / self.unit).T
        if self.at_end:
            # The loss is delta by itself; of frequent categories too only the proportions count.
            A = (R * most[:, None] / self.problem.prior).T
        else:
            A = np.vstack([A, most / self.loss])
        return chosen, settled(A, 1.0, x, rcond=1e-13) * most

    def _thinned(self, chosen: Ints, x: Floats) -> tuple[Ints, Floats]:
        """The same J, reports and loss from at most n (n + 1) / 2 + 1 rays (Caratheodory)."""
        n = self.problem.n
        if len(chosen) <= n * (n + 1) // 2 + 1:
            return chosen, x
        most = self.most[chosen]
        u = self.program.rays[chosen] / np.sqrt(self.problem.prior)
        root = u * np.sqrt(most / self.program.sums[chosen])[:, None]
        upper = np.triu_indices(n)
        columns = [
            np.r_[np.outer(v, v)[upper], w / self.loss] for v, w in zip(root, most, strict=True)
        ]
        thin = thinned(np.array(columns).T, x)
        keep = thin > BALANCED_UNUSED
        return chosen[keep], thin[keep]

    def _gap(self, weights: Floats, chosen: Ints, certificate: Certificate) -> float:
        """Of the design from its certificate, relative; infinite where it is not a design."""
        e, L = self.program.e[chosen], self.program.L
        p, R = self.problem.prior, self.program.rays[chosen]
        off = np.abs(R.T @ weights / p - 1.0).max(initial=0.0)
        over = weights.sum() - self.loss
        if off > 1e-9 or over > 1e-13 + 1e-9 * (self.loss - self.problem.p_max):
            return math.inf
        try:
            trace = float(np.trace(L @ np.linalg.solve((e.T * weights) @ e, L.T)))
        except np.linalg.LinAlgError:
            return math.inf
        gap = trace / float(certificate.trace(self.loss) - certificate.known) - 1.0
        # Below its own certificate only rounding can put a design: such a one is believed less.
        return gap if gap >= 0 else abs(gap) * 10


VIOLATION = 1e-8
"""Relative violation of a ray's constraint below which no ray is added."""

UNUSED = 1e-7
"""Weight of a ray, relative to the largest, that is treated as the solver's noise."""

GAP = 1e-6
"""Largest relative distance of a design from its certificate."""

ROUNDING = 1e-10
"""What arithmetic may take from a certificate, relative, and add to a level or a posterior."""

ROUNDS = 60
ADDED = 24  # rays a round


@dataclass(frozen=True, eq=False)
class Level:
    """The optimal design at one level.

    Parameters
    ----------
    loss : float
        Level a of the adversary's success, ``1 - privacy``.
    weights : array
        w of the rays in use, all positive.
    rays : array, shape (rays in use, n)
    certificate : Certificate
    """

    loss: float
    weights: Floats
    rays: Floats
    certificate: Certificate

    def arrays(self) -> dict[str, Floats]:
        """All but the level, by name, for :meth:`from_arrays`."""
        certificate = np.array(astuple(self.certificate))
        return {"weights": self.weights, "rays": self.rays, "certificate": certificate}

    @classmethod
    def from_arrays(cls, problem: Problem, loss: float, arrays: Arrays) -> Self:
        """Inverse of :meth:`arrays`.

        Raises
        ------
        KeyError, ValueError
            If the arrays are none of a design at this level, with its certificate.
        """
        rays = finite(arrays, "rays", (None, problem.n))
        weights = finite(arrays, "weights", (len(rays),))
        certificate = Certificate(*map(float, finite(arrays, "certificate", (5,))))
        level = cls(loss, weights, rays, certificate)
        with np.errstate(all="ignore"):  # of a matrix that is none
            if not level.keeps(problem, math.inf):
                raise ValueError(f"its design at the level {loss:g} is none")
        return level

    def keeps(self, problem: Problem, gap: float = GAP) -> bool:
        """Whether the design keeps its bounds and comes as near to its certificate as it should.

        Parameters
        ----------
        problem : Problem
        gap : float
            Largest relative distance from the certificate.
        """
        if not self.weights.size:
            return False
        P = self.matrix(problem.prior)
        if not np.isfinite(P).all() or P.min() < 0:
            return False
        found = evaluate(problem, P)
        beyond = float(found.mse[0] / problem.mse(self.certificate.trace(self.loss))) - 1.0
        return bool(
            -ROUNDING <= beyond <= gap
            and found.worst[0] <= problem.delta + ROUNDING
            and 1.0 - found.privacy[0] <= self.loss + ROUNDING
        )

    def matrix(self, prior: Floats) -> Floats:
        """P of the design, shape (rays in use, n); columns sum to 1."""
        P = self.weights[:, None] * self.rays / prior
        result: Floats = P / P.sum(axis=0)
        return result


def certify(
    problem: Problem, Y: npt.ArrayLike, nu: npt.ArrayLike, mu: float, rays: Floats | None = None
) -> Certificate:
    """Check dual variables on every ray, by plain arithmetic.

    Parameters
    ----------
    problem : Problem
    Y : array_like, shape (n, n)
    nu : array_like, shape (n,)
    mu : float
    rays : array, optional
        All extremal rays, if the caller has listed them.

    Raises
    ------
    PPDMError
        If they certify nothing.
    """
    R = list_rays(problem.n, problem.delta) if rays is None else rays
    Y = np.asarray(Y, dtype=float)
    Y, nu, mu = (Y + Y.T) / 2, np.asarray(nu, dtype=float), max(float(mu), 0.0)
    allowance = R @ nu + mu
    if not allowance.min() > 0:
        raise PPDMError("the dual variables certify nothing: a ray has no positive allowance", nu)
    u = R / problem.prior / np.sqrt(R.sum(axis=1, keepdims=True))
    eta = float((((u @ Y) ** 2).sum(axis=1) / allowance).max())
    return Certificate(float(np.trace(Y)) ** 2, eta * float(nu @ problem.prior), eta * mu)


class Designer:
    """Optimal designs of one problem, at rising levels.

    Parameters
    ----------
    problem : Problem
    """

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.rays = list_rays(problem.n, problem.delta)
        self.u = self.rays / problem.prior / np.sqrt(self.rays.sum(axis=1, keepdims=True))
        self._spanned: Ints | None = None
        self._active: Ints | None = None
        self._scale = 1.0
        self._balanced: BalancedProgram | None = None

    def solve(self, loss: float) -> Level:
        """Solve for the design of least MSE with the adversary's success at most `loss`.

        Where the program is too badly scaled for the solver, it is solved in balanced units.

        Parameters
        ----------
        loss : float
            Above max p, at most delta.

        Raises
        ------
        PPDMError
            If no result of the solver can be certified.
        """
        before = self._active, self._scale
        try:
            with np.errstate(all="ignore"):
                level = self._solve(loss)
                if level.keeps(self.problem):
                    return level
        except (PPDMError, np.linalg.LinAlgError):
            pass
        self._active, self._scale = before
        if self._balanced is None:
            self._balanced = BalancedProgram(self.problem, self.rays, self._spanning())
        weights, chosen, certificate = self._balanced.solve(loss)
        return Level(loss, weights, self.rays[chosen], certificate)

    def _solve(self, loss: float) -> Level:
        """The program as it is; :meth:`Level.keeps` says whether it can be believed."""
        if self._active is None:
            self._active = self._spanning()
        active = self._active
        problem = self.problem
        for _ in range(ROUNDS):
            found = solve_dual(self.u[active], self.rays[active], problem.prior, loss, self._scale)
            self._scale = found.trace
            used = ((self.u @ found.Y) ** 2).sum(axis=1)
            over = used - (self.rays @ found.nu + found.mu) * (1 + VIOLATION)
            over[
                active
            ] = -np.inf  # violated by the solver's tolerance: asking again changes nothing
            worst = np.argsort(-over, kind="stable")[:ADDED]
            worst = worst[over[worst] > 0]
            if not worst.size:
                break
            active = np.sort(np.concatenate([active, worst]))
        slack = (self.rays[active] @ found.nu + found.mu) / used[active]
        # Rays that are nearly tight start the next level, whose design is much like this one.
        self._active = active[slack < 1.5]
        certificate = certify(problem, found.Y, found.nu, found.mu, self.rays)
        keep = found.weights > UNUSED * found.weights.max()
        weights, chosen = self._thinned(found.weights[keep], active[keep])
        weights = self._exact(weights, chosen, loss)
        return Level(loss, weights, self.rays[chosen], certificate)

    def _spanning(self) -> Ints:
        """Rays that some design with small loss uses, enough of them to span."""
        if self._spanned is None:
            self._spanned = self._seek_spanning()
        return self._spanned

    def _seek_spanning(self) -> Ints:
        from scipy.optimize import linprog

        R, p = self.rays, self.problem.prior
        used = np.zeros(len(R), dtype=bool)
        n = self.problem.n
        for i in range(8 * n):
            # From the least adversary's success towards rewarding one category after the other.
            cost = np.ones(len(R)) if i == 0 else -(R[:, i % n] ** (1 + i // n)) / R.sum(axis=1)
            found = linprog(cost, A_eq=R.T, b_eq=p, method="highs-ds")
            if found.status == 0:
                used |= found.x > 0
            if i >= n and np.linalg.matrix_rank(R[used]) == n:
                break
        return np.flatnonzero(used)

    def _exact(self, weights: Floats, chosen: Ints, loss: float) -> Floats:
        """Remove the solver's residual: ``R^T w = p`` and ``sum w = a`` to rounding."""
        A = np.column_stack([self.rays[chosen], np.ones(len(chosen))]).T
        return settled(A, np.append(self.problem.prior, loss), weights, rcond=1e-12)

    def _thinned(self, weights: Floats, chosen: Ints) -> tuple[Floats, Ints]:
        """The same J, reports and loss from at most n (n + 1) / 2 + 1 rays (Caratheodory)."""
        n = self.problem.n
        if len(chosen) <= n * (n + 1) // 2 + 1:
            return weights, chosen
        upper = np.triu_indices(n)
        columns = [np.r_[np.outer(u, u)[upper], 1.0] for u in self.u[chosen]]
        thin = thinned(np.array(columns).T, weights)
        keep = thin > UNUSED * thin.max()
        return thin[keep], chosen[keep]
