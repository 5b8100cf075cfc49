"""All matrices of multiples of 1/m, column by column, and the best that keeps a privacy."""

from __future__ import annotations

from typing import Any

import numpy as np

from ppdm_dask.arrays import Floats, Ints
from ppdm_dask.kernels import kernel
from ppdm_dask.kernels.channels import inverse_trace


@kernel
def keeps(N: Ints, prior: Floats, ratio: float, delta: float) -> bool:
    """Whether no row has a likelihood ratio above `ratio`, or a posterior above delta.

    Rows of zeros, which are symbols that nobody reports, keep everything.
    """
    K, n = N.shape
    for y in range(K):
        least, most, total, largest = N[y, 0], N[y, 0], 0.0, 0.0
        for x in range(n):
            least, most = min(least, N[y, x]), max(most, N[y, x])
            r = N[y, x] * prior[x]
            total += r
            largest = max(largest, r)
        if most > 0 and (most > ratio * least or largest > delta * total):
            return False
    return True


@kernel
def best_on_lattice(
    columns: Ints, prior: Floats, ratio: float, delta: float, most: int, best: Ints
) -> Any:
    """Look at all matrices, up to the order of their rows.

    Parameters
    ----------
    columns : array, shape (columns, K)
        All compositions of m into K parts of 0 or more.
    prior : array, shape (n,)
    ratio, delta : float
        Largest likelihood ratio and posterior; the ratio may be infinite.
    most : int
        Matrices, and beginnings of some, after which to stop.
    best : array, shape (K, n)
        Where the best one is written.

    Returns
    -------
    float, int
        Its tr J^-1, infinite where there is none, and how many were looked at; more than `most`
        means that not all were.
    """
    L, K = columns.shape
    n = len(prior)
    at = np.full(n, -1, np.int64)
    N = np.zeros((K, n), np.int64)
    P, A, B = np.empty((K, n)), np.empty((n, n)), np.empty((n, n))
    total = columns[0].sum()
    least, seen, depth = np.inf, 0, 0
    while depth >= 0:
        at[depth] += 1
        if at[depth] == L:
            at[depth] = -1
            depth -= 1
            continue
        column = columns[at[depth]]
        fits = True
        for y in range(K):
            # Any order of the rows makes as good a matrix: the first column falls.
            if depth == 0 and y > 0 and column[y] > column[y - 1]:
                fits = False
                break
            N[y, depth] = column[y]
            low, high = column[y], column[y]
            for x in range(depth):
                low, high = min(low, N[y, x]), max(high, N[y, x])
            if high > 0 and high > ratio * low:
                fits = False
                break
        if not fits:
            continue
        seen += 1
        if seen > most:
            break
        if depth < n - 1:
            depth += 1
            continue
        if keeps(N, prior, ratio, delta):
            for y in range(K):
                for x in range(n):
                    P[y, x] = N[y, x] / total
            trace = inverse_trace(P, prior, A, B)
            # Of equal ones the first, whatever rounding says.
            if trace < least * (1 - 1e-12) or (trace < np.inf and least == np.inf):
                least = trace
                best[:] = N
    return least, seen
