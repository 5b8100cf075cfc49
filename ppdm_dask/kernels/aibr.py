"""AIBR on one column: find each value's sub-interval, draw a new value in it."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from ppdm_dask.arrays import Floats
from ppdm_dask.kernels import kernel


@kernel
def perturb_column(
    values: Floats,
    edges: Floats,
    words: npt.NDArray[np.uint64],
    whole: bool,
    out: Floats,
    before: npt.NDArray[np.int64],
) -> int:
    """Draw a value in the sub-interval of each value; the first row outside the edges, or -1.

    Parameters
    ----------
    values : array of float, shape (n,)
        NaN where missing.
    edges : array of float, shape (k + 1,)
        Rising; sub-intervals are closed below and open above, the last one is closed.
    words : array of uint64, shape (n,)
        A uniform word a record.
    whole : bool
        Whether to draw among the whole numbers of the sub-interval.
    out : array of float, shape (n,)
        Takes the released values.
    before : array of int, shape (k,)
        Is added the number of values in each sub-interval.
    """
    k = edges.size - 1
    low, high = edges[0], edges[k]
    scale = k / (high - low) if high > low else 0.0
    for i in range(values.size):
        x = values[i]
        if math.isnan(x):
            out[i] = x
            continue
        if x < low or x > high:
            return i
        # A guess, then the edges themselves: only they say where a value lies.
        j = min(max(int((x - low) * scale), 0), k - 1)
        while j > 0 and x < edges[j]:
            j -= 1
        while j < k - 1 and x >= edges[j + 1]:
            j += 1
        before[j] += 1
        u = np.float64(words[i] >> np.uint64(11)) * 2.0**-53
        a, b = edges[j], edges[j + 1]
        if whole:
            first = math.ceil(a)
            count = (math.floor(b) if j == k - 1 else math.ceil(b) - 1) - first + 1
            out[i] = first + min(math.floor(u * count), count - 1)
        else:
            y = a + u * (b - a)
            if j < k - 1 and y >= b:
                y = np.nextafter(b, a)
            out[i] = min(y, b)
    return -1


def locate_plain(values: Floats, edges: Floats) -> npt.NDArray[np.intp]:
    """Sub-interval of each value that is not missing."""
    inside: npt.NDArray[np.intp] = np.searchsorted(edges[1:-1], values, side="right")
    return inside


def perturb_column_plain(
    values: Floats, edges: Floats, words: npt.NDArray[np.uint64], whole: bool
) -> Floats:
    """Plain statement of :func:`perturb_column`, for values within the edges."""
    j = locate_plain(values, edges)
    a, b, last = edges[j], edges[j + 1], j == edges.size - 2
    u = (words >> np.uint64(11)) * 2.0**-53
    if whole:
        first = np.ceil(a)
        count = np.where(last, np.floor(b), np.ceil(b) - 1) - first + 1
        drawn = first + np.minimum(np.floor(u * count), count - 1)
    else:
        y = a + u * (b - a)
        drawn = np.minimum(np.where(~last & (y >= b), np.nextafter(b, a), y), b)
    return np.where(np.isnan(values), np.nan, drawn)
