"""The extremal rays that an optimal design is made of.

A reported symbol is the ray ``r(x) = P[y, x] p(x)``.  Those whose largest entry is at most delta
times their sum form a cone, a piece for each place of the largest entry; splitting a symbol into
extremal rays of its piece keeps privacy, sum and delta, and never worsens the estimates.
"""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np
import numpy.typing as npt

from ppdm_dask.errors import InputError
from ppdm_dask.randomness import exact

__all__ = ["MOST_RAYS", "count_rays", "list_rays", "listable"]

Floats = npt.NDArray[np.float64]

MOST_RAYS = 300_000
"""Rays beyond which they are not listed, and the limit is proved by products of bounds."""


def _shape(n: int, delta: float) -> tuple[int, int, float]:
    """Smallest size of a subset; ones of the rays with a fractional entry, and that entry."""
    inverse = 1 / exact(delta)
    m = math.floor(inverse)
    return math.ceil(inverse), m, float(inverse - m)


def count_rays(n: int, delta: float) -> int:
    """Number of extremal rays for n categories."""
    smallest, m, rest = _shape(n, delta)
    subsets = sum(math.comb(n, size) for size in range(smallest, n + 1))
    return subsets + (math.comb(n, m) * (n - m) if rest else 0)


def listable(n: int, delta: float) -> bool:
    """Whether the rays are few enough to be listed, so that designs attain the limit."""
    return count_rays(n, delta) <= MOST_RAYS


def list_rays(n: int, delta: float) -> Floats:
    """All extremal rays, scaled to the largest entry 1; shape (rays, n).

    They are the indicators of subsets with at least 1 / delta members and, where 1 / delta is no
    whole number, vectors of ``m = floor(1 / delta)`` ones and one entry ``1 / delta - m``.

    Raises
    ------
    InputError
        If there are more than ``MOST_RAYS``.
    """
    if not listable(n, delta):
        raise InputError(
            f"prior: got {n} categories; all subsets of them can be listed for up to 18",
            n,
        )
    smallest, m, rest = _shape(n, delta)
    codes = np.arange(1, 1 << n, dtype=np.int64)
    members = (codes[:, None] >> np.arange(n)) & 1
    rays = [members[members.sum(axis=1) >= smallest].astype(float)]
    if rest:
        partial = []
        for ones in combinations(range(n), m):
            for extra in sorted(set(range(n)) - set(ones)):
                ray = np.zeros(n)
                ray[list(ones)] = 1.0
                ray[extra] = rest
                partial.append(ray)
        rays.append(np.array(partial).reshape(-1, n))
    return np.concatenate(rays)
