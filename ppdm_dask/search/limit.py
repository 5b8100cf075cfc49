"""The certified front: the limit at many levels, and how near to it a set of matrices comes.

Up to 18 categories designs attain it.  Beyond, it is proved by products of bounds, which no design
need attain: it is as certain, but may lie lower than what is possible.

The limit of :mod:`~ppdm_dask.search.bound` asks of dual variables Y, nu, mu that

    h(r) = (1^T r) (nu^T r + mu) - r^T Q r >= 0   with   Q = D^-1 Y^2 D^-1,  D = diag(p)

on every ray r, scaled to the largest entry 1.  There it is looked up ray by ray; here it is proved.
On the indicator x of a subset h is ``sum_i lin_i x_i + sum_{i<j} pair_ij x_i x_j`` with
``lin_i = nu_i + mu - Q_ii`` and ``pair_ij = nu_i + nu_j - 2 Q_ij``.  All subsets have
``|x| >= k`` for ``k = ceil(1 / delta)``, so each of

    x_i x_j,  x_i (1 - x_j),  (1 - x_i) (1 - x_j),  x_i (|x| - k),  (1 - x_i) (|x| - k)

is 0 or more, and so is every sum of them with weights alpha, beta, theta, gamma, sigma of 0 or
more.  Their constant ``sum theta - k sum sigma`` must not exceed 0, for h has none.  Where
1 / delta is between 1 and 2, the rays with a fractional entry rho are only n (n - 1), and are
looked at:

    h(e_i + rho e_j) = lin_i + rho pair_ij + rho^2 lin_j + rho (1 - rho) mu.

A delta below 1/2 that is not a reciprocal of a whole number is relaxed to the next larger one.

The bound is concave in the weights of :class:`~ppdm_dask.search.limit.Products`: maximise
``2 tr (D Q D)^(1/2) - nu^T p - mu a``.  Most weights have simple limits; the few joint ones, on the
constant and on the rays with a fractional entry, enter by an augmented Lagrangian.  Whatever the
ascent reaches is certified afterwards.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import astuple, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, Protocol, Self

import numpy as np
import numpy.typing as npt

from ppdm_dask.arrays import Floats
from ppdm_dask.errors import InputError, PPDMError
from ppdm_dask.randomness import exact
from ppdm_dask.search.bound import ROUNDING, Level
from ppdm_dask.search.guess import Guesses
from ppdm_dask.search.problem import NEAREST, Problem
from ppdm_dask.search.rays import Certificate, listable
from ppdm_dask.search.solved import Solved, most_bytes


class Expansion(NamedTuple):
    """Coefficients of h that a vector of weights gives."""

    nu: Floats
    mu: float
    lin: Floats
    """Shape (n,)."""
    pair: Floats
    """Shape (n, n), symmetric; 0 on the diagonal."""
    constant: float
    """Of the products; at most 0 in a certificate."""

    @property
    def Q(self) -> Floats:
        """The matrix of which h is made, shape (n, n)."""
        Q = (self.nu[:, None] + self.nu - self.pair) / 2
        np.fill_diagonal(Q, self.nu + self.mu - self.lin)
        return Q


class Products:
    """The products for one number of categories and one bound on the posterior.

    A vector of weights is nu, gamma, sigma (n each), alpha, beta, theta (n by n each), mu; all but
    nu are 0 or more, and the diagonals are 0.

    Parameters
    ----------
    n : int
    delta : float

    Attributes
    ----------
    size : int
        Length of a vector of weights.
    k : int
        Least size of a subset.
    rho : float
        Fractional entry of the rays that have one; 0 where there are none.
    """

    def __init__(self, n: int, delta: float) -> None:
        inverse = 1 / exact(delta)
        whole = math.floor(inverse)
        self.n = n
        self.rho = float(inverse - whole) if whole == 1 else 0.0
        self.k = math.ceil(inverse) if whole == 1 else whole
        self.size = 3 * n + 3 * n * n + 1

    def limits(self) -> tuple[Floats, Floats]:
        """Least and largest values of the weights."""
        n = self.n
        low, high = np.zeros(self.size), np.full(self.size, np.inf)
        low[:n] = -np.inf
        high[3 * n : -1].reshape(3, n, n)[:, np.arange(n), np.arange(n)] = 0.0
        return low, high

    def expand(self, weights: Floats) -> Expansion:
        """Multiply the products out."""
        n, k = self.n, self.k
        nu, gamma, sigma = weights[: 3 * n].reshape(3, n)
        alpha, beta, theta = weights[3 * n : -1].reshape(3, n, n)
        half = alpha - beta + theta + (gamma - sigma)[:, None]
        pair = half + half.T
        np.fill_diagonal(pair, 0.0)
        lin = beta.sum(axis=1) - theta.sum(axis=1) - theta.sum(axis=0)
        lin += sigma.sum() + (k - 1) * (sigma - gamma)
        return Expansion(nu, float(weights[-1]), lin, pair, float(theta.sum() - k * sigma.sum()))

    def slope(self, lin: Floats, pair: Floats, constant: float) -> Floats:
        """Gradient with respect to gamma, sigma, alpha, beta, theta from that of the expansion."""
        H = pair + pair.T
        rows, k = H.sum(axis=1), self.k
        gamma = rows - (k - 1) * lin
        sigma = lin.sum() + (k - 1) * lin - rows - k * constant
        beta = lin[:, None] - H
        theta = H - lin[:, None] - lin + constant
        return np.concatenate([gamma, sigma, H.ravel(), beta.ravel(), theta.ravel()])

    def fractional(self, lin: Floats, pair: Floats, mu: float) -> Floats:
        """h on the rays ``e_i + rho e_j``, shape (n, n); infinite on the diagonal."""
        rho = self.rho
        h = lin[:, None] + rho * pair + rho * rho * lin + rho * (1 - rho) * mu
        np.fill_diagonal(h, np.inf)
        return h


def certify_products(problem: Problem, weights: Floats) -> Certificate:
    """Check dual variables without looking at the subsets.

    What the weights lack, by rounding or because a search stopped early, is made up for by larger
    nu and mu.  Raising nu_i by 1 raises h by ``r_i sum(r)``, which costs least for rare categories.

    Parameters
    ----------
    problem : Problem
    weights : array
        As of :class:`Products`.

    Raises
    ------
    PPDMError
        If they certify nothing.
    """
    products = Products(problem.n, problem.delta)
    low, high = products.limits()
    p, given = problem.prior, products.expand(np.clip(weights, low, high))
    # D Q D has to be a square; what the weights give is brought to the nearest one that is.
    values, vectors = np.linalg.eigh(p[:, None] * given.Q * p)
    Y = (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T
    root = (Y + Y.T) / 2 / p[:, None]
    Q = root @ root.T
    lin = given.nu + given.mu - np.diag(Q)
    pair = given.nu[:, None] + given.nu - 2 * Q
    np.fill_diagonal(pair, 0.0)
    # On a subset sum(r) counts each of its members and each of its pairs twice.
    lacking = given.pair - pair
    raised = np.maximum(given.lin - lin, _by_the_rarer(lacking, p).max(axis=1))
    if products.rho:
        # What is raised above serves these rays too, but for a second time it costs little.
        h, rho = products.fractional(lin, pair, given.mu), products.rho
        short = np.maximum(-h, 0.0) / (1.0 + rho)
        first = p[:, None] <= p / rho
        raised = np.maximum(raised, 0.0) + np.where(first, short, 0.0).max(axis=1)
        raised += np.where(first, 0.0, short / rho).max(axis=0)
    raised = np.maximum(raised, 0.0)
    base = float((given.nu + raised) @ p)
    slope = given.mu + max(0.0, given.constant) / products.k
    square = float(np.trace(Y)) ** 2
    if not (np.isfinite(square) and square > 0 and base + slope * problem.p_max > 0):
        raise PPDMError("the weights certify nothing", weights)
    return Certificate(square, base, slope)


def _by_the_rarer(lacking: Floats, p: Floats) -> Floats:
    """What pairs lack, each in the row of its rarer category; 0 elsewhere."""
    order = np.argsort(np.argsort(p, kind="stable"), kind="stable")
    rarer: Floats = np.where(order[:, None] < order, lacking, 0.0)
    return rarer


GAP = 1e-6
"""Relative distance of a certificate from the best one by products at which the ascent stops."""

SLOW = 1e-5
"""Relative gain over three ascents below which more of them are not worth their time."""

STEPS = 300  # of an ascent between two changes of the multipliers
EVALUATIONS = 3_000  # a level
MEMORY = 20
STIFFER, STIFFEST = 3.0, 1e3


class Relaxation:
    """Certificates of one problem, level by level; each ascent begins where the last one ended.

    Parameters
    ----------
    problem : Problem
    """

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.products = Products(problem.n, problem.delta)
        p, n = problem.prior, problem.n
        # J is at most D^-1, so at the optimum no eigenvalue of D Q D is below min p^2.
        self._floor = float(p.min()) ** 2 / 2
        # Curvature of the trace in an entry of Q: the unit of each weight is its root.
        curvature = p[:, None] * p / (p[:, None] + p)
        rows = curvature.sum(axis=1)
        several = np.tile(curvature.ravel(), 3)
        units = np.concatenate([rows, rows, np.full(n, 0.5), several, [0.25]])
        self._unit = 1.0 / np.sqrt(units)
        low, high = self.products.limits()
        self._limits = np.column_stack([low, high]) / self._unit[:, None]
        self._weights: Floats | None = None
        self._rays = np.zeros((n, n))  # multipliers of the fractional rays
        self._constant = 0.0  # multiplier of the constant
        self._stiffness = 1.0
        self._moved = 0.0

    def solve(self, loss: float) -> Level:
        """Find a certificate at a level of the adversary's success; the level has no design.

        Parameters
        ----------
        loss : float
            Above max p.
        """
        from scipy.optimize import minimize

        if self._weights is None:
            self._weights = np.zeros(self.products.size)
            self._weights[-1] = 1.0 / loss**2
        best: Certificate | None = None
        reached: list[float] = []
        spent, self._stiffness, self._moved = 0, 1.0, 0.0
        while spent < EVALUATIONS:
            found = minimize(
                self._value,
                self._weights / self._unit,
                args=(loss,),
                jac=True,
                method="L-BFGS-B",  # thousands of weights, and only bounds on each
                bounds=self._limits,
                options={"maxiter": STEPS, "maxcor": MEMORY, "ftol": 1e-14, "gtol": 1e-10},
            )
            spent += found.nfev
            self._weights = found.x * self._unit
            certificate = certify_products(self.problem, self._weights)
            if best is None or certificate.trace(loss) > best.trace(loss):
                best = certificate
            # Once the ascent has converged, what is maximised is above every certificate.
            reached.append(float(best.trace(loss)))
            if found.success and abs(reached[-1] + found.fun) <= GAP * reached[-1]:
                break
            # Whatever was reached is certified: to stop early costs tightness, not truth.
            if len(reached) > 5 and reached[-1] < reached[-4] * (1 + SLOW):
                break
            if found.status == 2:  # the line search failed: too stiff
                self._stiffness = max(self._stiffness / STIFFER**2, 1.0)
            self._update()
        assert best is not None
        none = np.zeros((0, self.problem.n))
        return Level(loss, none[:, 0], none, best)

    def _update(self) -> None:
        """Move the multipliers by what is violated, and the penalty up where that is too slow."""
        assert self._weights is not None
        of = self.products.expand(self._weights)
        before = np.append(self._rays, self._constant)
        self._constant = max(0.0, self._constant + self._stiffness * of.constant)
        if self.products.rho:
            h = self.products.fractional(of.lin, of.pair, of.mu)
            self._rays = np.maximum(0.0, self._rays - self._stiffness * h)
        # By how much a condition is violated, or met although its multiplier is above 0.
        moved = np.abs(np.append(self._rays, self._constant) - before).max() / self._stiffness
        if moved > self._moved / 4:
            self._stiffness = min(STIFFER * self._stiffness, STIFFEST)
        self._moved = float(moved)

    def _value(self, scaled: Floats, loss: float) -> tuple[float, Floats]:
        """What is minimised, and its gradient."""
        p, rho, stiffness = self.problem.prior, self.products.rho, self._stiffness
        of = self.products.expand(scaled * self._unit)
        values, vectors = np.linalg.eigh(p[:, None] * of.Q * p)
        # Below the floor the root continues straight, so that it is concave and smooth everywhere.
        root = np.sqrt(np.maximum(values, self._floor))
        trace = (root + np.minimum(values - self._floor, 0.0) / (2 * root)).sum()
        G = p[:, None] * ((vectors / root) @ vectors.T) * p  # gradient of 2 tr with respect to Q
        value = float(of.nu @ p + of.mu * loss - 2 * trace)
        nu, mu = p - G.sum(axis=1), loss - np.trace(G)
        lin, pair = np.diag(G).copy(), G / 2
        np.fill_diagonal(pair, 0.0)
        if rho:
            # h is infinite on the diagonal, where there is no ray.
            h = self.products.fractional(of.lin, of.pair, of.mu)
            push = np.maximum(0.0, self._rays - stiffness * h)
            value += float((push**2).sum() - (self._rays**2).sum()) / (2 * stiffness)
            lin -= push.sum(axis=1) + rho * rho * push.sum(axis=0)
            pair -= rho * push
            mu -= rho * (1 - rho) * float(push.sum())
        push_constant = max(0.0, self._constant + stiffness * of.constant)
        value += (push_constant**2 - self._constant**2) / (2 * stiffness)
        slope = np.concatenate([nu, self.products.slope(lin, pair, push_constant), [mu]])
        return value, slope * self._unit


class LevelSolver(Protocol):
    """Solves one level after the other."""

    def solve(self, loss: float) -> Level:
        """The optimal design at a level, with its certificate."""
        ...  # pragma: no cover


Solver = Callable[[Problem], LevelSolver]


SHARES: Floats = np.round(np.arange(2, 100) / 100, 2)
"""f: levels lie at ``a = p_max + f (delta - p_max)``; 98 of them."""

EPSILON = float(np.finfo(float).eps)

AT_LEVEL = 1e-12
"""By how much rounding may leave a matrix above the level that it was made for."""

MARKS = (0.02, 0.03, 0.05, 0.07, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.99)
"""Shares f near which certificates by products are sought; each of them holds at every level."""


def levels(problem: Problem) -> Floats:
    """The 98 levels of the adversary's success at which fronts are compared."""
    return problem.p_max + SHARES * (problem.delta - problem.p_max)


def levels_with(problem: Problem, privacy: float | None) -> Floats:
    """The levels of a front, and one more for a wanted privacy.

    No report is more private than none, ``1 - p_max``; and since ``max_x P[y, x] p[x]`` is at most
    delta times the probability of y, its sum over y is at most delta, and no privacy is below
    ``1 - delta``.

    Raises
    ------
    InputError
        If no matrix within delta has that privacy.
    """
    at = levels(problem)
    if privacy is None:
        return at
    loss = 1.0 - privacy
    least, most = 1.0 - problem.delta, 1.0 - problem.p_max
    if not problem.p_max + NEAREST <= loss <= problem.delta + AT_LEVEL:
        raise InputError(
            f"privacy: got {privacy:g}; from {least:.6g} (1 - delta) to below {most:.6g} "
            "(without any report) is possible",
            privacy,
        )
    return np.union1d(at, [min(loss, problem.delta)])


def least_mse(loss: npt.ArrayLike, mse: npt.ArrayLike, at: npt.ArrayLike) -> Floats:
    """Least MSE among matrices whose adversary's success is at most each level; inf for none.

    Parameters
    ----------
    loss, mse : array_like, shape (m,)
    at : array_like, shape (levels,)
    """
    loss, mse = np.asarray(loss, dtype=float), np.asarray(mse, dtype=float)
    order = np.argsort(loss, kind="stable")
    best = np.r_[np.inf, np.minimum.accumulate(mse[order])]
    found: Floats = best[np.searchsorted(loss[order], np.asarray(at) + AT_LEVEL, "right")]
    return found


@dataclass(frozen=True, eq=False)
class Limit:
    """Certified lower bound on the MSE at every level, and the designs that attain it.

    Parameters
    ----------
    problem : Problem
    solved : tuple of Level
        At rising levels.
    """

    problem: Problem
    solved: tuple[Level, ...]

    @classmethod
    def compute(
        cls,
        problem: Problem,
        at: Floats | None = None,
        hook: Callable[[int], None] | None = None,
        *,
        solver: Solver | None = None,
        checkpoint: Path | None = None,
    ) -> Self:
        """Solve at some levels (the 98 by default), which must rise.

        Parameters
        ----------
        problem : Problem
        at : array, optional
        hook : callable, optional
            Called with the number of levels solved after each one.
        solver : callable, optional
            Makes of a problem what solves a level; by default
            :class:`~ppdm_dask.search.guess.Guesses`.
        checkpoint : Path, optional
            A file to resume from, where rays can be listed; by the default solver to the same
            bits.

        Raises
        ------
        DamagedCheckpoint
            One line, if the file is not one of these levels.
        """
        at = levels(problem) if at is None else np.asarray(at, dtype=float)
        if not listable(problem.n, problem.delta):
            return cls(problem, _relaxed(problem, at, hook))
        designer = (solver or Guesses)(problem)
        going_on = designer if isinstance(designer, Guesses) else None
        identity = {"prior": problem.prior.tolist(), "delta": problem.delta, "levels": at.tolist()}
        # What the next level begins from takes as much as some levels.
        solved = Solved(checkpoint, identity, most_bytes(len(at) + 20, problem.n))
        read = partial(Level.from_arrays, problem)
        return cls(problem, tuple(solved.each(at.tolist(), designer.solve, read, hook, going_on)))

    @classmethod
    def from_certificates(cls, problem: Problem, table: Floats) -> Self:
        """A limit from the rows of :attr:`table`, without the designs."""
        none = np.zeros((0, problem.n))
        rows = [
            Level(float(loss), none[:, 0], none, Certificate(*map(float, rest)))
            for loss, *rest in table
        ]
        return cls(problem, tuple(rows))

    @property
    def attained(self) -> bool:
        """Whether designs attain it; otherwise it may lie lower than what is possible."""
        return listable(self.problem.n, self.problem.delta)

    @property
    def table(self) -> Floats:
        """Rows ``loss, square, base, slope``, and ``at, known`` where a certificate has them.

        Shape (levels, 4) or (levels, 6).
        """
        rows = np.array([(s.loss, *astuple(s.certificate)) for s in self.solved])
        return rows if rows[:, 4:].any() else rows[:, :4]

    @property
    def loss(self) -> Floats:
        """The levels."""
        return np.array([level.loss for level in self.solved])

    def mse(self, loss: npt.ArrayLike) -> Floats:
        """No design has less at these levels of the adversary's success: the best certificate's."""
        known = math.fsum(self.problem.prior**2)
        # All but |p|^2 of the trace, without its cancellation where a certificate can do without.
        beyond = [
            level.certificate.beyond(loss) + (level.certificate.known - known)
            for level in self.solved
        ]
        result: Floats = np.max(beyond, axis=0) / (self.problem.n * self.problem.n_records)
        return result

    def certain_mse(self, loss: npt.ArrayLike) -> Floats:
        """:meth:`mse`, lowered by what rounding may have done to it, and to a matrix.

        A matrix meets its level and delta to rounding, and next to ``p_max`` that little is a
        larger share of what delta allows.  The MSE of a matrix itself is known to about as much.
        """
        later = np.asarray(loss, dtype=float) + 4 * EPSILON
        found = self.mse(later)
        slack = ROUNDING + 16 * EPSILON * self.problem.trace(found)
        if self.problem.delta < 1:
            slack += AT_LEVEL / (self.problem.delta - self.problem.p_max)
        result: Floats = found * np.maximum(1.0 - slack, 0.0)
        return result

    def ratios(self, loss: npt.ArrayLike, mse: npt.ArrayLike) -> Floats:
        """MSE of a set of matrices over the limit, at each level; inf where it has no matrix."""
        return least_mse(loss, mse, self.loss) / self.mse(self.loss)

    def hypervolume(self, loss: npt.ArrayLike, mse: npt.ArrayLike) -> float:
        """Share of the limit's area under the front that a set of matrices covers.

        The area is that between the front and the limit at the first level, in (level, log10 MSE),
        by the trapezoidal rule on the levels.
        """
        at, best = self.loss, self.mse(self.loss)
        least = least_mse(loss, mse, at)
        # Where there is no matrix there is no area.
        height = np.log10(best[0] / np.where(np.isfinite(least), least, best[0]))
        whole = np.trapezoid(np.log10(best[0] / best), at)
        return float(np.trapezoid(np.maximum(height, 0.0), at) / whole)

    def summary(self, loss: npt.ArrayLike, mse: npt.ArrayLike) -> dict[str, Any]:
        """Hypervolume ratio and median of MSE / limit over the levels."""
        ratios = self.ratios(loss, mse)
        return {"hypervolume": self.hypervolume(loss, mse), "median": float(np.median(ratios))}


def _relaxed(problem: Problem, at: Floats, hook: Callable[[int], None] | None) -> tuple[Level, ...]:
    """Certificates near some marks, from the least private level on; the best for each level."""
    marks = problem.p_max + np.array(MARKS) * (problem.delta - problem.p_max)
    near = np.unique(np.abs(at[:, None] - marks).argmin(axis=0))
    relaxation = Relaxation(problem)
    found = []
    # Each ascent starts from the weights of the level before.
    for i, place in enumerate(near[::-1]):
        found.append(relaxation.solve(float(at[place])))
        if hook is not None:
            hook(i + 1)
    best = np.argmax([level.certificate.trace(at) for level in found], axis=0)
    return tuple(replace(found[k], loss=float(loss)) for k, loss in zip(best, at, strict=True))
