"""Fitness assignment and environmental selection of SPEA2, for any number of objectives."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ppdm_dask.kernels.spea2 import assign_two, select_two

__all__ = ["Fitness", "assign_fitness", "select"]

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


class Fitness(NamedTuple):
    """SPEA2's quality of n points; the lower the better."""

    strength: Ints
    """How many points each one dominates."""
    raw: Ints
    """Sum of the strengths of those that dominate it; 0 for what is not dominated."""
    sigma: Floats
    """Distance to the k-th nearest point."""

    @property
    def total(self) -> Floats:
        """Raw fitness plus density 1 / (sigma + 2).  Eq. (11) of [HuangDu]_."""
        return self.raw + 1.0 / (self.sigma + 2.0)


def assign_fitness(F: Floats, k: int = 1) -> Fitness:
    """Fitness of points all of whose objectives are minimised.  Section V-B of [HuangDu]_.

    Parameters
    ----------
    F : array, shape (n, objectives)
        Finite.
    k : int
        The density looks at the k-th nearest point: 1 in the paper, ``floor(sqrt(n))`` in SPEA2
        itself.  Of fewer than k others the farthest counts; a lone point has density 0.
    """
    F = np.ascontiguousarray(F, dtype=float)
    n = len(F)
    found = Fitness(np.zeros(n, np.int64), np.zeros(n, np.int64), np.full(n, np.inf))
    if n:
        if F.shape[1] == 2:
            assign = assign_two
        else:
            from ppdm_dask.kernels.spea2_general import assign_any as assign
        assign(F, max(1, min(k, n - 1)), *found)
    return found


def select(F: Floats, fitness: Fitness, size: int) -> Ints:
    """Indices of the new archive, increasing; fewer than `size` if there are fewer points.

    All points that are not dominated; the best of the others where those are too few, and where
    they are too many, without the one that is nearest to its neighbours, again and again.
    Section V-C of [HuangDu]_.  Ties go against the earlier point in the removal, and for the
    earlier one in the filling.
    """
    F = np.ascontiguousarray(F, dtype=float)
    if F.shape[1] == 2:
        chosen = select_two
    else:
        from ppdm_dask.kernels.spea2_general import select_any as chosen
    result: Ints = chosen(F, fitness.raw, fitness.sigma, size)
    return result
