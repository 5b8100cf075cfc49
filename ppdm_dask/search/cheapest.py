"""The least noise of estimates at a privacy, certified, with the design that has it.

The noise is the sum over categories of the variance of one report's estimate, ``tr J^-1 - |p|^2``:
n times the number of categories times the paper's MSE.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ppdm_dask.arrays import Floats
from ppdm_dask.errors import InputError
from ppdm_dask.search.cones import Cone, Epsilon, Trait
from ppdm_dask.search.limit import Limit
from ppdm_dask.search.optimum import optimum
from ppdm_dask.search.problem import Problem

__all__ = ["Cheapest", "cheapest_epsilon", "cheapest_posterior", "cheapest_trait"]


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
    found = optimum([1.0 - share, share], Trait(1, most))
    return Cheapest(found.bound, found.P)


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
        None where the optimum is not known: above 22 different proportions.

    Raises
    ------
    PPDMError
        If the solver gives nothing that can be certified.
    """
    return _known(prior, Epsilon(epsilon))


def _known(prior: npt.ArrayLike, cone: Cone) -> Cheapest | None:
    p = Problem(prior, 1).prior
    try:
        found = optimum(p, cone)
    except InputError:
        return None
    return Cheapest(found.bound, found.P)
