"""The best certificate by products, for numbers of categories whose subsets cannot be listed.

The bound is concave in the weights of :class:`~ppdm_dask.search.products.Products`: maximise
``2 tr (D Q D)^(1/2) - nu^T p - mu a``.  Most weights have simple limits; the few joint ones, on the
constant and on the rays with a fractional entry, enter by an augmented Lagrangian.  Whatever the
ascent reaches is certified afterwards.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ppdm_dask.search.bound import Level
from ppdm_dask.search.certificate import Certificate
from ppdm_dask.search.problem import Problem
from ppdm_dask.search.products import Products, certify_products

__all__ = ["Relaxation"]

Floats = npt.NDArray[np.float64]

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
                method="L-BFGS-B",
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
        # Below the floor the root goes on straight, so that it is concave and smooth everywhere.
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
