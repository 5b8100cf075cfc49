"""The design with the smallest worst-case loss over a set of priors, and its certificate."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ppdm_dask.arrays import Floats, Ints
from ppdm_dask.designs import RRMatrix
from ppdm_dask.errors import InputError
from ppdm_dask.faces.face import Face
from ppdm_dask.ranges import real
from ppdm_dask.search.bound import settled
from ppdm_dask.search.minimax import certify, limits_of, rays_of_epsilon, rays_of_posterior, solve
from ppdm_dask.search.problem import LEAST_ROOM
from ppdm_dask.search.rays import thinned
from ppdm_dask.search.regret import LARGEST_EPSILON, Privacy, Regret, regret
from ppdm_dask.search.scenarios import check_scenarios

if TYPE_CHECKING:
    from markupsafe import Markup
    from matplotlib.axes import Axes

__all__ = ["Robust", "arranged_design", "robust_design"]

UNUSED = 1e-6
"""Weight of a ray, relative to the largest, that is the solver's noise."""

NEAR = 1e-4
"""Relative distance from the worst prior within which thinning keeps the variance at another."""


@dataclass(frozen=True, eq=False, repr=False)
class Robust(Face):
    """A design of least regret over a set of priors.

    Parameters
    ----------
    design : RRMatrix
    regret : Regret
        Of the design over the set.
    limit : float
        Certified: no design with this privacy and any fixed left inverse has a smaller worst regret
        over the set.
    mixture : array, shape (priors,)
        Weights of the priors in the least favourable one; their sum is 1.
    prior : array, shape (n,)
        The least favourable prior, at which the design is optimal.
    """

    design: RRMatrix
    regret: Regret
    limit: float
    mixture: Floats
    prior: Floats

    @property
    def gap(self) -> float:
        """Relative distance of the worst regret from its certificate."""
        return self.regret.worst / self.limit - 1

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the design's matrix on axes of matplotlib; ``regret.plot`` draws the regret."""
        return self.design.plot(ax)

    def _said(self) -> str:
        return (
            f"Robust design over {len(self.mixture):,} priors: worst regret "
            f"{self.regret.worst:.6g}, certified limit {self.limit:.6g}"
        )

    def _shown(self) -> Iterator[Markup]:
        yield from self.regret._shown()
        yield from self.design._shown()


def robust_design(
    priors: Any,
    *,
    epsilon: float | None = None,
    max_posterior: float | None = None,
    attribute: str = "answer",
    categories: Sequence[str] | None = None,
) -> Robust:
    r"""The design whose worst-case ratio to the best possible variance is smallest.

    With the sum of the variances and its certified limit L at each prior of the set,

    .. math:: \min_P \max_p \frac{\sum_x V_x(p)}{L(p)}

    Parameters
    ----------
    priors : array_like, shape (priors, n), or sequence of mappings of label to proportion
        The set, such as :func:`ppdm_dask.search.prior_ball` makes it; the first is the guess.  No
        proportion below 1e-6.
    epsilon : float, optional
        Largest log likelihood ratio of two answers: up to 10 categories.
    max_posterior : float, optional
        Largest posterior of any category at *every* prior of the set, above the largest proportion
        of each of them by 1e-4 or more: up to 6 categories.  One of the two is needed.
    attribute : str
        Name of the attribute that the design is for.
    categories : sequence of str, optional
        Labels in the order of the priors; the keys of mappings by default.

    Returns
    -------
    Robust

    Raises
    ------
    InputError
        One line: parameter, value, and what would be right.
    PPDMError
        If no result of the solver can be certified.

    Examples
    --------
    >>> import ppdm_dask as pp
    >>> priors = [[0.7, 0.1, 0.1, 0.05, 0.05], [0.05, 0.05, 0.1, 0.2, 0.6]]
    >>> found = pp.robust_design(priors, epsilon=1.0)
    >>> f"{found.regret.worst:.4f} {found.limit:.4f}"
    '1.0354 1.0354'
    """
    p, labels = check_scenarios(priors, categories)
    n = p.shape[1]
    if epsilon is not None and max_posterior is None:
        epsilon = real("epsilon", epsilon, 0, LARGEST_EPSILON, open_ends=True)
        rays = rays_of_epsilon(n, epsilon)
        limits = limits_of(rays, p)
    elif max_posterior is not None and epsilon is None:
        max_posterior = real("max_posterior", max_posterior, float(p.max()) + LEAST_ROOM, 1)
        rays = rays_of_posterior(p, max_posterior)
        limits = np.concatenate(
            [limits_of(rays_of_posterior(q[None], max_posterior), q[None]) for q in p]
        )
    else:
        raise InputError("epsilon, max_posterior: give one of them", (epsilon, max_posterior))
    dual = solve(rays, p, limits)
    # Of a single prior the regret is 1.
    bound = max(1.0, certify(rays, p, limits, dual.Y, dual.nu, dual.pi))
    q = dual.pi @ (p / limits[:, None])
    prior = q / q.sum()
    P = _matrix(rays, dual.weights, p, limits, prior)
    design = arranged_design(P, prior, attribute, labels)
    privacy: Privacy = "epsilon" if max_posterior is None else "posterior"
    found = regret(design, p, privacy=privacy, categories=labels, limits=limits)
    return Robust(design, found, bound, dual.pi, prior)


def arranged_design(
    P: Floats,
    prior: Floats,
    attributes: str | Sequence[str],
    categories: Sequence[Any] | None,
    shape: Sequence[int] | None = None,
) -> RRMatrix:
    """The design of a matrix that was found: what is best at a prior is estimated for it.

    A square matrix gets the likeliest report of each category in its place; of one with more
    reports than categories, the left inverse is the one of least variance at the prior.
    """
    from scipy.optimize import linear_sum_assignment

    if len(P) > P.shape[1]:
        return RRMatrix(attributes, P, shape, p0=prior, categories=categories)
    _, rows = linear_sum_assignment(-P.T)
    return RRMatrix(attributes, P[rows], shape, categories=categories)


def _matrix(rays: Floats, weights: Floats, p: Floats, limits: Floats, prior: Floats) -> Floats:
    """P of the design, with no more reported symbols than its variances need."""
    chosen = np.flatnonzero(weights > UNUSED * weights.max())
    n, G = rays.shape[1], rays[chosen]
    w = _exact(G, weights[chosen])
    law = G @ prior
    root = G / np.sqrt(law)[:, None]
    b = np.linalg.solve((root.T * w) @ root, G.T).T / law[:, None]
    # What each report adds to the second moment of the weights, at each prior.
    second = (G @ p.T) * (b**2).sum(axis=1)[:, None]
    ratio = (w @ second - (p**2).sum(axis=1)) / limits
    near: Ints = np.flatnonzero(ratio >= ratio.max() * (1 - NEAR))
    upper = np.triu_indices(n)
    for kept in (near, np.arange(len(p))):
        if len(G) <= len(upper[0]) + len(kept):
            break
        # The same information at the least favourable prior, and the same variances (Caratheodory).
        columns = [
            np.r_[np.outer(v, v)[upper], each[kept]] for v, each in zip(root, second, strict=True)
        ]
        thin = thinned(np.array(columns).T, w)
        after = (thin @ second - (p**2).sum(axis=1)) / limits
        if after.max() <= ratio.max() * (1 + 1e-9):
            left = thin > UNUSED * thin.max()
            G, w = G[left], thin[left]
            break
    P = _exact(G, w)[:, None] * G
    result: Floats = P / P.sum(axis=0)
    return result


def _exact(rays: Floats, weights: Floats) -> Floats:
    """Weights near to some with which the rays, of mean 1, add up to 1 for every category."""
    # What rays have beyond 1 is little for a small epsilon, and has to cancel all the same.
    beyond = rays.T - 1.0
    A = np.vstack([np.ones(len(rays)), beyond / np.abs(beyond).max()])
    return settled(A, np.r_[1.0, np.zeros(len(beyond))], weights, rcond=1e-13)
