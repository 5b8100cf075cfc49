"""The extremal rays that an optimal design is made of.

A reported symbol is the ray ``r(x) = P[y, x] p(x)``.  Those whose largest entry is at most delta
times their sum form a cone, a piece for each place of the largest entry; splitting a symbol into
extremal rays of its piece keeps privacy, sum and delta, and never worsens the estimates.

A certificate is a lower bound as a function of the level of the adversary's success.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
import numpy.typing as npt

from ppdm_dask.arrays import Floats
from ppdm_dask.errors import InputError
from ppdm_dask.randomness import exact


def thinned(A: Floats, weights: Floats) -> Floats:
    """Weights of 0 or more with the same ``A w``, no more of them positive than A has rows.

    Parameters
    ----------
    A : array, shape (rows, rays)
        A column for each ray.
    weights : array, shape (rays,)
    """
    from scipy.optimize import nnls

    scale = np.abs(A).max(axis=1, keepdims=True)
    A = A / np.where(scale > 0, scale, 1.0)  # two categories may share no ray
    # An active-set method ends at a vertex, which has no more rays than rows.
    try:
        thin, _ = nnls(A, A @ weights, maxiter=50 * len(weights))
    except RuntimeError:  # older versions of SciPy may go round in circles
        thin = _fewer(A, weights)
    result: Floats = thin
    return result


def _fewer(A: Floats, weights: Floats) -> Floats:
    """As :func:`thinned`, by Caratheodory: along what changes no sum, until a weight is 0."""
    weights, rows = np.array(weights, dtype=float), len(A)
    while len(there := np.flatnonzero(weights > 0)) > rows:
        some = there[: rows + 1]
        # One column more than rows: the last direction is one that A does not see.
        direction = np.linalg.svd(A[:, some])[2][-1]
        if not (direction > 0).any():
            direction = -direction
        falling = direction > 0
        steps = weights[some][falling] / direction[falling]
        weights[some] = np.maximum(weights[some] - steps.min() * direction, 0.0)
        weights[some[falling][steps.argmin()]] = 0.0
    return weights


@dataclass(frozen=True)
class Certificate:
    """A lower bound on tr J^-1 at every level: ``known + square / (base + slope (a - at))``.

    Parameters
    ----------
    square, base, slope : float
    at : float
        A level: what is relative to it loses no digits near it.
    known : float
        Part of the trace that every design has: 0, or ``|p|^2``.
    """

    square: float
    base: float
    slope: float
    at: float = 0.0
    known: float = 0.0

    def trace(self, a: npt.ArrayLike) -> Any:
        """The bound at levels a of the adversary's success."""
        return self.known + self.beyond(a)

    def beyond(self, a: npt.ArrayLike) -> Any:
        """The bound on what is not known."""
        return self.square / (self.base + self.slope * (np.asarray(a, dtype=float) - self.at))

    def rate(self, a: float) -> float:
        """``-d log / d a`` of :meth:`beyond`: what a little more success is worth."""
        return self.slope / (self.base + self.slope * (a - self.at))


MOST_RAYS = 300_000
"""Rays beyond which they are not listed, and the limit is proved by products of bounds."""


def _shape(n: int, delta: float) -> tuple[int, int, float]:
    """Smallest size of a subset; ones of the rays with a fractional entry, and that entry."""
    # Of the decimal that was typed: the double 0.1 is a little more, and its inverse not whole.
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
    smallest = least_size(delta)
    codes = np.arange(1, 1 << n, dtype=np.int64)
    members = (codes[:, None] >> np.arange(n)) & 1
    subsets = members[members.sum(axis=1) >= smallest].astype(float)
    return np.concatenate([subsets, fractional_rays(n, delta)])


def least_size(delta: float) -> int:
    """Smallest size of a subset whose indicator is a ray."""
    return _shape(0, delta)[0]


def fractional_rays(n: int, delta: float) -> Floats:
    """The extremal rays with an entry between 0 and 1, shape (rays, n)."""
    _, m, rest = _shape(n, delta)
    partial = []
    if rest:
        for ones in combinations(range(n), m):
            for extra in sorted(set(range(n)) - set(ones)):
                ray = np.zeros(n)
                ray[list(ones)] = 1.0
                ray[extra] = rest
                partial.append(ray)
    return np.array(partial).reshape(-1, n)
