"""The least noise of estimates at a privacy, certified, with the design that has it.

The noise is the sum over categories of the variance of one report's estimate, ``tr J^-1 - |p|^2``:
n times the number of categories times the paper's MSE.  Two privacies are known whole:

- no posterior of any category above delta: the program of :mod:`~ppdm_dask.search.bound` at its
  last level;
- a likelihood ratio of at most ``e^epsilon`` (local differential privacy): the same program with
  other extremal rays, those with ``r(x) / p(x)`` in ``{1, e^epsilon}``, and no bound on their sum.

For no posterior of *one* category of two above delta, the extremal rays are the report that has
that posterior and the one that rules the category out: they fix the design, which is Mangat's.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import product

import numpy as np
import numpy.typing as npt

from ppdm_dask.arrays import Floats
from ppdm_dask.designs import SubsetSelection
from ppdm_dask.search.bound import (
    ADDED,
    ROUNDS,
    UNUSED,
    VIOLATION,
    certify,
    settled,
    solve_dual,
)
from ppdm_dask.search.limit import Limit
from ppdm_dask.search.problem import Problem
from ppdm_dask.search.rays import thinned

__all__ = ["Cheapest", "cheapest_epsilon", "cheapest_posterior", "cheapest_trait"]

MOST_CATEGORIES = 10
"""Categories up to which the extremal rays of an epsilon are listed."""

EVEN = 1e-12
"""Difference of proportions below which they count as equal."""


@dataclass(frozen=True, eq=False)
class Cheapest:
    """A certified limit, and the design that attains it.

    Parameters
    ----------
    noise : float
        No design of that privacy has a smaller sum of variances.
    P : array, shape (symbols, categories), or None
        Columns sum to 1; None where the limit may lie lower than what is possible, or a known
        family attains it.
    """

    noise: float
    P: Floats | None


def cheapest_posterior(prior: npt.ArrayLike, most: float) -> Cheapest:
    """Where no posterior P(x | y) is above a bound, for any category x.

    Parameters
    ----------
    prior : array_like, shape (n,)
    most : float
        Above the largest proportion.

    Raises
    ------
    InputError
        For proportions or a bound that no search takes; see :class:`ppdm_dask.search.Problem`.
    """
    problem = Problem(prior, 1, most)
    limit = Limit.compute(problem, np.array([problem.delta]))
    noise = float(limit.certain_mse(problem.delta)) * problem.n
    return Cheapest(noise, limit.solved[0].matrix(problem.prior) if limit.attained else None)


def cheapest_trait(share: float, most: float) -> Cheapest:
    """Where no posterior of the second of two categories is above a bound; exact.

    Parameters
    ----------
    share : float
        Of the second category, in (0, 1).
    most : float
        In (share, 1].
    """
    # Reports of the trait have exactly that posterior, so they are share / most of all.
    a = share / most
    other = (a - share) / (1 - share)
    noise = 2 * a * (1 - a) / (1 - other) ** 2
    return Cheapest(noise, np.array([[1 - other, 0.0], [other, 1.0]]))


def cheapest_epsilon(prior: npt.ArrayLike, epsilon: float) -> Cheapest | None:
    """Where no report is more than ``e^epsilon`` times likelier for one category than for another.

    Parameters
    ----------
    prior : array_like, shape (n,)
        All positive.
    epsilon : float
        Above 0, finite.

    Returns
    -------
    Cheapest or None
        None above 10 categories, where the optimum is not known, unless all are equally likely:
        then it is the subset selection of the best size.

    Raises
    ------
    PPDMError
        If the solver gives nothing that can be certified.
    """
    p = Problem(prior, 1).prior
    n, high = p.size, math.exp(epsilon)
    if n > MOST_CATEGORIES:
        return Cheapest(_by_subsets(n, epsilon), None) if float(np.ptp(p)) < EVEN else None
    ratios = np.array([*product((1.0, high), repeat=n)][1:-1])
    # Scaled to sum 1, so that weights are probabilities of reports.
    rays = ratios * p / (ratios @ p)[:, None]
    u = rays / p / np.sqrt(rays.sum(axis=1, keepdims=True))
    large = (ratios > 1).sum(axis=1)
    active = np.flatnonzero((large == 1) | (large == 2))
    scale = 1.0
    for _ in range(ROUNDS):
        found = solve_dual(u[active], rays[active], p, 1.0, scale)
        scale = found.trace
        used = ((u @ found.Y) ** 2).sum(axis=1)
        over = used - (rays @ found.nu + found.mu) * (1 + VIOLATION)
        over[active] = -np.inf
        worst = np.argsort(-over, kind="stable")[:ADDED]
        worst = worst[over[worst] > 0]
        if not worst.size:
            break
        active = np.sort(np.concatenate([active, worst]))
    certificate = certify(Problem(p, 1), found.Y, found.nu, found.mu, rays)
    keep = found.weights > UNUSED * found.weights.max()
    chosen, weights = rays[active[keep]], found.weights[keep]
    if len(chosen) > n * (n + 1) // 2:
        # The same information from as many reports as it has entries (Caratheodory).
        upper = np.triu_indices(n)
        weights = thinned(np.array([np.outer(v, v)[upper] for v in u[active[keep]]]).T, weights)
        chosen, weights = chosen[weights > 0], weights[weights > 0]
    weights = settled(chosen.T, p, weights, rcond=1e-12)
    P = weights[:, None] * chosen / p
    return Cheapest(float(certificate.trace(1.0)) - math.fsum(p**2), P / P.sum(axis=0))


def _by_subsets(n: int, epsilon: float) -> float:
    """Of even categories: by symmetry and convexity one size of subsets makes the best reports."""
    even = np.full(n, 1 / n)
    designs = (SubsetSelection("x", n, size, epsilon=epsilon) for size in range(1, n))
    return min(math.fsum(design.variance(even)) for design in designs)
