"""Categories of equal proportion, which are exchangeable, as one.

By convexity some optimal design is unchanged when they change places, so that only the number of
members that a ray has at each value counts.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Self

import numpy as np

from ppdm_dask.arrays import Floats, Ints
from ppdm_dask.search.cones import Cone, Pairs
from ppdm_dask.search.program import Rays

EVEN = 1e-12
"""Relative difference of proportions below which categories are exchangeable."""


@dataclass(frozen=True, eq=False)
class Parts:
    """Categories of equal proportion, as one.

    Parameters
    ----------
    place : array of int, shape (n,)
        The part of each category.
    sizes : array of int, shape (parts,)
    share : array, shape (parts,)
        Proportion of each member.
    """

    place: Ints
    sizes: Ints
    share: Floats

    @classmethod
    def of(cls, prior: Floats) -> Self:
        """The parts of a prior, the most frequent first."""
        order = np.argsort(-prior, kind="stable")
        falls = np.r_[True, prior[order][1:] < prior[order][:-1] * (1 - EVEN)]
        place = np.empty(prior.size, dtype=np.int64)
        place[order] = np.cumsum(falls) - 1
        sizes = np.bincount(place)
        return cls(place, sizes, np.bincount(place, prior) / sizes)

    def count(self) -> int:
        """Numbers of members that a subset may have of each part."""
        return math.prod(int(size) + 1 for size in self.sizes)

    def some(self, most: int) -> Ints:
        """Places of some members of each part, up to a number."""
        order = np.argsort(self.place, kind="stable")
        starts = np.r_[0, np.cumsum(self.sizes)[:-1]]
        return np.sort(order[np.arange(self.place.size) - starts[self.place[order]] < most])

    def members(self) -> Ints:
        """All of these, shape (count, parts), without the empty subset."""
        several = np.indices([size + 1 for size in self.sizes]).reshape(len(self.sizes), -1).T
        return several[1:]


def orbits(parts: Parts, pairs: Pairs) -> Rays:
    """All rays of two values, by their numbers of members of each part."""
    first = np.unique(parts.place, return_index=True)[1]
    low, high = pairs.low[first], pairs.high[first]
    members = parts.members()
    members = members[members.sum(axis=1) >= pairs.least]
    share = members / parts.sizes
    means = low + (high - low) * share
    total = means @ (parts.share * parts.sizes)
    large = parts.sizes > 1
    size = parts.sizes[large]
    spread = (high - low)[large] ** 2 * (share * (1 - share))[:, large] * size / (size - 1)
    cost = np.array(pairs.costs) / total[:, None]
    return Rays(means / total[:, None], spread / total[:, None] ** 2, cost)


def collapsed(parts: Parts, cone: Cone, rows: Floats, prior: Floats) -> Rays:
    """Rays of categories as rays of parts, each once."""
    cost = cone.cost(rows, prior)
    means = np.zeros((len(rows), len(parts.sizes)))
    squares = np.zeros_like(means)
    for place in range(len(parts.sizes)):
        inside = rows[:, parts.place == place]
        means[:, place] = inside.mean(axis=1)
        squares[:, place] = ((inside - means[:, [place]]) ** 2).sum(axis=1)
    large = parts.sizes > 1
    spread = squares[:, large] / (parts.sizes[large] - 1)
    several = np.column_stack([means, spread])
    _, first = np.unique(np.round(several, 9), axis=0, return_index=True)
    return Rays(means[first], spread[first], cost[first])
