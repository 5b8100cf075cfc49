"""Extremal rays of a cone that is stated by inequalities, by the double description method.

[FukudaProdon]_.  The inequalities are taken one at a time.  A ray is kept where it fulfils the next
one; where of two adjacent rays one does and the other does not, the ray between them that is tight
is new.  Two rays are adjacent if no third one is tight wherever both are.
"""

from __future__ import annotations

import numpy as np

from ppdm_dask.arrays import Floats, Words
from ppdm_dask.errors import InputError

__all__ = ["MOST_FACETS", "extremal_rays"]

MOST_FACETS = 64
"""Inequalities that fit into a word."""

TIGHT = 1e-9
"""Largest value of an inequality, of a ray of largest entry 1, that counts as 0."""

AT_ONCE = 2_000
"""Pairs of rays that are compared with all others at once."""


def extremal_rays(facets: Floats) -> Floats:
    """All extremal rays of ``{v : facets @ v >= 0}``.

    Parameters
    ----------
    facets : array, shape (facets, dim)
        Of rank dim; up to 64.

    Returns
    -------
    array, shape (rays, dim)
        Each once, scaled to a largest entry of 1 by absolute value.

    Raises
    ------
    InputError
        If there are more facets, or the cone contains a line.
    """
    several, dim = facets.shape
    if several > MOST_FACETS:
        raise InputError(f"facets: got {several}; rays are found for up to {MOST_FACETS}", several)
    first = _independent(facets)
    if len(first) < dim:
        raise InputError(f"facets: rank {len(first)}; {dim} is needed", len(first))
    rays: Floats = np.asarray(np.linalg.inv(facets[first]).T, dtype=float)
    rays /= np.abs(rays).max(axis=1, keepdims=True)
    bit = np.uint64(1) << np.arange(several, dtype=np.uint64)
    tight = np.bitwise_or.reduce(bit[first]) ^ bit[first]
    rest = [i for i in range(several) if i not in set(first)]
    while rest:
        values = rays @ facets[rest].T
        # The one that makes the fewest pairs.
        pairs = (values > TIGHT).sum(axis=0) * (values < -TIGHT).sum(axis=0)
        place = int(pairs.argmin())
        facet = rest.pop(place)
        rays, tight = _cut(rays, tight, values[:, place], bit[facet], dim)
    return rays


def _independent(facets: Floats) -> list[int]:
    """The first rows that span all of them."""
    chosen: list[int] = []
    basis = np.zeros((0, facets.shape[1]))
    for i, row in enumerate(facets):
        left = row - (row @ basis.T) @ basis
        size = float(np.linalg.norm(left))
        if size > TIGHT * float(np.linalg.norm(row)):
            chosen.append(i)
            basis = np.vstack([basis, left / size])
    return chosen


def _cut(
    rays: Floats, tight: Words, values: Floats, bit: np.uint64, dim: int
) -> tuple[Floats, Words]:
    """The rays on one side of an inequality, and those on it."""
    inside, outside = np.flatnonzero(values > TIGHT), np.flatnonzero(values < -TIGHT)
    tight = np.where(np.abs(values) <= TIGHT, tight | bit, tight)
    kept = values >= -TIGHT
    new, new_tight = [rays[kept]], [tight[kept]]
    for ray in inside:
        common = tight[ray] & tight[outside]
        for some in np.split(
            near := np.flatnonzero(np.bitwise_count(common) >= dim - 2),
            range(AT_ONCE, len(near), AT_ONCE),
        ):
            here = common[some, None]
            adjacent = some[((tight & here) == here).sum(axis=1) == 2]
            ends = outside[adjacent]
            between = values[ray] * rays[ends] - values[ends, None] * rays[ray]
            new.append(between / np.abs(between).max(axis=1, keepdims=True))
            new_tight.append(common[adjacent] | bit)
    return np.concatenate(new), np.concatenate(new_tight)
