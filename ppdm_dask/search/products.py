"""Certificates for any number of categories: what is a sum of products of bounds is not negative.

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

A delta below 1/2 that is no reciprocal of a whole number is relaxed to the next larger one.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ppdm_dask.errors import PPDMError
from ppdm_dask.randomness import exact
from ppdm_dask.search.certificate import Certificate
from ppdm_dask.search.problem import Problem

__all__ = ["Expansion", "Products", "certify_products"]

Floats = npt.NDArray[np.float64]


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
