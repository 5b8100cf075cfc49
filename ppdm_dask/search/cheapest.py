"""The certified smallest noise of estimates at a privacy, with the design that attains it.

The noise is the sum over categories of the variance of one report's estimate, ``tr J^-1 - |p|^2``:
n times the number of categories times the paper's MSE.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce

import numpy as np
import numpy.typing as npt

from ppdm_dask.arrays import Floats
from ppdm_dask.designs import Design
from ppdm_dask.errors import InputError, PPDMError
from ppdm_dask.faces.face import Face
from ppdm_dask.search.cones import (
    LEAST,
    MOST,
    Cone,
    Epsilon,
    EpsilonPosterior,
    Posterior,
    Trait,
)
from ppdm_dask.search.limit import Limit
from ppdm_dask.search.optimum import optimum
from ppdm_dask.search.problem import LEAST_ROOM, Problem

__all__ = [
    "Cheapest",
    "Distance",
    "cheapest_both",
    "cheapest_epsilon",
    "cheapest_posterior",
    "cheapest_trait",
    "distances",
]


ATTAINED = 1e-6
"""Relative gap from the certificate up to which a design counts as the optimum."""


@dataclass(frozen=True, eq=False, repr=False)
class Cheapest(Face):
    """A certified limit, and the design that attains it.

    Parameters
    ----------
    noise : float
        No design of that privacy has a smaller sum of variances.
    P : array, shape (symbols, categories), or None
        Columns sum to 1; None if the limit may be lower than possible, or if a known family attains
        it.
    """

    noise: float
    P: Floats | None

    def _said(self) -> str:
        size = "no matrix" if self.P is None else f"a matrix of {self.P.shape[0]} symbols"
        return f"Cheapest: noise {self.noise:.6g}, with {size}"


def cheapest_posterior(prior: npt.ArrayLike, most: float) -> Cheapest:
    """Designs for which no posterior P(x | y) exceeds a bound, for any category x.

    Parameters
    ----------
    prior : array_like, shape (n,)
    most : float
        Above the largest proportion.

    Raises
    ------
    InputError
        For proportions or a bound that a search refuses; see :class:`ppdm_dask.search.Problem`.
    """
    problem = Problem(prior, 1, most)
    try:
        found = optimum(problem.prior, Posterior(problem.delta))
        if found.gap < ATTAINED:
            return Cheapest(found.bound, found.P)
    except PPDMError:
        pass
    # Of more categories a limit is proved by products of bounds.
    limit = Limit.compute(problem, np.array([problem.delta]))
    noise = float(limit.certain_mse(problem.delta)) * problem.n
    return Cheapest(noise, limit.solved[0].matrix(problem.prior) if limit.attained else None)


def cheapest_trait(share: float, most: float) -> Cheapest:
    """Designs for which no posterior of the second of two categories exceeds a bound; exact.

    Parameters
    ----------
    share : float
        Of the second category, in (0, 1).
    most : float
        In (share, 1].
    """
    found = optimum([1.0 - share, share], Trait(1, most))
    return Cheapest(found.bound, found.P)


def cheapest_epsilon(prior: npt.ArrayLike, epsilon: float) -> Cheapest | None:
    """Designs with likelihood ratios of at most ``e^epsilon`` between two categories.

    Parameters
    ----------
    prior : array_like, shape (n,)
        All positive.
    epsilon : float
        Above 0, finite.

    Returns
    -------
    Cheapest or None
        None where the optimum is not known: above 22 different proportions.

    Raises
    ------
    PPDMError
        If no result of the solver can be certified.
    """
    return _known(prior, Epsilon(epsilon))


def cheapest_both(prior: npt.ArrayLike, epsilon: float, most: float) -> Cheapest | None:
    """Within a bound on epsilon and one on every posterior; None above 11 categories.

    Parameters
    ----------
    prior : array_like, shape (n,)
    epsilon, most : float
    """
    return _known(prior, EpsilonPosterior(epsilon, most))


def _known(prior: npt.ArrayLike, cone: Cone) -> Cheapest | None:
    try:
        p = Problem(prior, 1).prior
        found = optimum(p, cone)
    except InputError:  # too many categories, or a bound that no search takes
        return None
    return Cheapest(found.bound, found.P)


MOST_CELLS = 1_000
"""Categories of a block, or combinations of them, up to which the best design is looked for."""

MOST_ENTRIES = 2_000_000
"""Entries of a joint block's matrix up to which its noise is computed."""


@dataclass(frozen=True)
class Distance:
    """How many more reports a block needs than the best possible at the same privacy.

    Parameters
    ----------
    attributes : tuple of str
    privacy : str
        What both have in common.
    times : float or None
        Reports over those of the best design, for equal sums of variances of the estimated
        proportions; None where the best is not known.
    sentence : str
    """

    attributes: tuple[str, ...]
    privacy: str
    times: float | None
    sentence: str


def distances(block: Design, priors: Mapping[str, npt.ArrayLike]) -> list[Distance]:
    """How far a block is from the best possible, at its epsilon and at its worst posterior.

    Parameters
    ----------
    block : Design
    priors : mapping
        Proportions of each attribute's categories, equal where none are given; attributes of a
        block are assumed to be independent.
    """
    names = ", ".join(block.attributes)
    noise, cones = None, []
    if block.n_true <= MOST_CELLS and not block.undefined:
        sizes = zip(block.attributes, block.shape, strict=True)
        laws = [np.asarray(priors.get(name, np.full(n, 1 / n))) for name, n in sizes]
        p = reduce(np.multiply.outer, laws).ravel()
        noise = _noise_of(block, p)
        cones = [] if noise is None else _privacies(block, p)
    found = []
    for cone in cones:
        least = _known(p, cone)
        if least is None or noise is None:
            continue
        times = max(noise / least.noise, 1.0)
        found.append(
            Distance(
                block.attributes,
                cone.text,
                times,
                f"{names}: {times:.3g} times as many reports as the best design within "
                f"{'an' if cone.text[0] in 'aeiou' else 'a'} {cone.text}; no design needs fewer "
                "than that one, which is certified",
            )
        )
    if not found:
        what = "how far it is from the best possible design is not known"
        found = [Distance(block.attributes, "", None, f"{names}: {what}")]
    return found


def _noise_of(block: Design, p: Floats) -> float | None:
    """Sum of the variances of one report's estimates; None where it cannot be had."""
    if len(block.attributes) == 1:
        return math.fsum(block.variance(p))
    try:
        P = block.matrix()
    except (PPDMError, MemoryError):
        return None
    if P.size > MOST_ENTRIES or P.shape[1] != p.size:
        return None
    reports = P @ p
    used = reports > 0
    J = (P[used].T / reports[used]) @ P[used]
    trace = float(np.trace(np.linalg.pinv(J)))
    return trace - math.fsum(p**2) if np.linalg.matrix_rank(J) == p.size else None


def _privacies(block: Design, p: Floats) -> list[Cone]:
    epsilon = block.epsilon()
    cones: list[Cone] = []
    if LEAST <= epsilon <= MOST:
        cones.append(Epsilon(epsilon))
    if len(block.attributes) == 1:
        worst = float(block.max_posterior(p))
        if p.max() + LEAST_ROOM <= worst < 1:
            cones.append(Posterior(worst))
    return cones
