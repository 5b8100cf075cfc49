"""The least MSE that any design can have at a level of privacy, with a certificate.

Over designs with any number of reported symbols the best one is made of extremal rays r_k (see
:mod:`~ppdm_dask.search.rays`) with weights ``w >= 0``.  With ``u_k = (r_k / p) / sqrt(sum r_k)`` it
minimises ``tr (sum_k w_k u_k u_k^T)^-1`` subject to ``sum_k w_k r_k = p`` and ``sum_k w_k <= a``,
where a is the adversary's success: a convex problem, A-optimal design.  Its dual is a second-order
cone program; rays are added to it as they are violated.

A certificate needs no solver: for any symmetric Y, any nu and ``mu >= 0`` with
``nu^T r_k + mu > 0`` on all rays and ``eta = max_k |Y u_k|^2 / (nu^T r_k + mu)``,

    tr J^-1 >= (tr Y)^2 / (eta (nu^T p + mu a))   at every level a.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ppdm_dask.arrays import Floats, Ints
from ppdm_dask.errors import PPDMError
from ppdm_dask.search.balanced import BalancedProgram
from ppdm_dask.search.objectives import evaluate
from ppdm_dask.search.problem import Problem
from ppdm_dask.search.rays import Certificate, list_rays, thinned

__all__ = ["Certificate", "Designer", "Level", "certify"]


VIOLATION = 1e-8
"""Relative violation of a ray's constraint below which no ray is added."""

UNUSED = 1e-7
"""Weight of a ray, relative to the largest, that is taken for the solver's noise."""

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
            If the solver gives nothing that can be certified.
        """
        before = self._active, self._scale
        try:
            with np.errstate(all="ignore"):
                level = self._solve(loss)
                if self._good(level):
                    return level
        except (PPDMError, np.linalg.LinAlgError):
            pass
        self._active, self._scale = before
        if self._balanced is None:
            self._balanced = BalancedProgram(self.problem, self.rays, self._spanning())
        weights, chosen, certificate = self._balanced.solve(loss)
        return Level(loss, weights, self.rays[chosen], certificate)

    def _good(self, level: Level) -> bool:
        """Whether a design keeps its bounds and comes as near to its certificate as it should."""
        problem = self.problem
        if not level.weights.size:
            return False
        P = level.matrix(problem.prior)
        if not np.isfinite(P).all():
            return False
        found = evaluate(problem, P)
        gap = float(found.mse[0] / problem.mse(level.certificate.trace(level.loss))) - 1.0
        return bool(
            -ROUNDING <= gap <= GAP
            and found.worst[0] <= problem.delta + ROUNDING
            and 1.0 - found.privacy[0] <= level.loss + ROUNDING
        )

    def _solve(self, loss: float) -> Level:
        """The program as it is; :meth:`_good` says whether it can be believed."""
        from ppdm_dask.search.cone import solve_dual

        if self._active is None:
            self._active = self._spanning()
        active = self._active
        problem = self.problem
        for _ in range(ROUNDS):
            found = solve_dual(self.u[active], self.rays[active], problem.prior, loss, self._scale)
            self._scale = found.trace
            used = ((self.u @ found.Y) ** 2).sum(axis=1)
            over = used - (self.rays @ found.nu + found.mu) * (1 + VIOLATION)
            over[active] = -np.inf
            worst = np.argsort(-over, kind="stable")[:ADDED]
            worst = worst[over[worst] > 0]
            if not worst.size:
                break
            active = np.sort(np.concatenate([active, worst]))
        slack = (self.rays[active] @ found.nu + found.mu) / used[active]
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
        for _ in range(60):
            residual = np.append(self.problem.prior, loss) - A @ weights
            if np.abs(residual).max() < 1e-15:
                break
            step = A.T @ np.linalg.lstsq((A * weights) @ A.T, residual, rcond=1e-12)[0]
            # Relative to its weight, so that no ray leaves the design.
            weights = weights * np.maximum(1.0 + step, 0.5)
        return weights

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
