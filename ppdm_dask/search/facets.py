"""Extremal rays of a cone that is stated by inequalities, by the double description method.

[FukudaProdon]_.  The inequalities are taken one at a time.  A ray is kept where it fulfils the next
one; where of two adjacent rays one does and the other does not, the ray between them that is tight
is new.  Two rays are adjacent if no third one is tight wherever both are.
"""

from __future__ import annotations

import numpy as np

from ppdm_dask.arrays import Floats, Words
from ppdm_dask.errors import InputError
from ppdm_dask.kernels.facets import adjacent

__all__ = ["MOST_FACETS", "extremal_rays"]

MOST_FACETS = 64
"""Inequalities that fit into a word."""

TIGHT = 1e-9
"""Largest value of an inequality, of a ray of largest entry 1, that counts as 0."""


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
    """Rows that span all of them, each as far from those before as any is."""
    left = facets / np.maximum(np.linalg.norm(facets, axis=1, keepdims=True), TIGHT)
    chosen: list[int] = []
    while len(chosen) < facets.shape[1]:
        size = np.linalg.norm(left, axis=1)
        i = int(size.argmax())
        if size[i] <= TIGHT:
            break
        chosen.append(i)
        axis = left[i] / size[i]
        left = left - np.outer(left @ axis, axis)
    return chosen


def _cut(
    rays: Floats, tight: Words, values: Floats, bit: np.uint64, dim: int
) -> tuple[Floats, Words]:
    """The rays on one side of an inequality, and those on it."""
    inside, outside = np.flatnonzero(values > TIGHT), np.flatnonzero(values < -TIGHT)
    tight = np.where(np.abs(values) <= TIGHT, tight | bit, tight)
    kept = values >= -TIGHT
    pairs = np.empty((len(inside) + len(outside), 2), dtype=np.int64)
    # A walk without room enough tells how much is needed.
    while (several := adjacent(tight, inside, outside, dim - 2, pairs)) > len(pairs):
        pairs = np.empty((several, 2), dtype=np.int64)
    i, j = pairs[:several].T
    between = values[i, None] * rays[j] - values[j, None] * rays[i]
    between /= np.abs(between).max(axis=1, keepdims=True)
    return (
        np.concatenate([rays[kept], between]),
        np.concatenate([tight[kept], (tight[i] & tight[j]) | bit]),
    )
