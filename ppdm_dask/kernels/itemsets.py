"""Joint counts of many small sets of columns, from bit planes: a plane for each symbol of each."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np

from ppdm_dask.arrays import Ints, Words
from ppdm_dask.kernels import kernel
from ppdm_dask.kernels.planes import popcount

CHUNK = 512
"""Words of a plane at a time: those of a few planes stay in the first cache."""


@kernel
def count_joint(planes: Words, first: Ints, sizes: Ints, bounds: Ints, out: Ints) -> None:
    """Add the rows in each joint symbol of some sets of columns to their counts.

    Parameters
    ----------
    planes : uint64, shape (planes, words)
        Bit i of plane p is 1 where row i has the symbol that the plane is of; spare bits are 0.
    first, sizes : int64
        Of the columns of each set, one set behind the other: the plane of the first symbol, and how
        many symbols there are.
    bounds : int64, shape (sets + 1,)
        Where in these two the sets begin.
    out : int64
        Row-major tables of counts, one behind the other.
    """
    words = planes.shape[1]
    held = np.empty(CHUNK, np.uint64)
    for low in range(0, words, CHUNK):
        width = min(CHUNK, words - low)
        start = 0
        for s in range(bounds.size - 1):
            begin, end = bounds[s], bounds[s + 1]
            cells = 1
            for j in range(begin, end):
                cells *= sizes[j]
            for cell in range(cells):
                rest = cell
                for j in range(end - 1, begin - 1, -1):
                    plane = first[j] + rest % sizes[j]
                    rest //= sizes[j]
                    if j == end - 1:
                        for w in range(width):
                            held[w] = planes[plane, low + w]
                    else:
                        for w in range(width):
                            held[w] &= planes[plane, low + w]
                total = np.uint64(0)
                for w in range(width):
                    total += popcount(held[w])
                out[start + cell] += np.int64(total)
            start += cells


def count_joint_plain(planes: Words, first: Ints, sizes: Ints, bounds: Ints, out: Ints) -> None:
    """Plain statement of :func:`count_joint`."""
    bits = np.unpackbits(np.ascontiguousarray(planes).view(np.uint8), axis=1, bitorder="little")
    start = 0
    for begin, end in pairwise(bounds):
        shape = tuple(map(int, sizes[begin:end]))
        for cell in np.ndindex(*shape):
            rows = np.logical_and.reduce(
                [bits[f + v] for f, v in zip(first[begin:end], cell, strict=True)]
            )
            out[start + int(np.ravel_multi_index(cell, shape))] += int(rows.sum())
        start += math.prod(shape)
