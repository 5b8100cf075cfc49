"""The best rays of two values: a walk over all subsets by Gray's code, one change a step."""

from __future__ import annotations

import numpy as np

from ppdm_dask.arrays import Floats, Ints
from ppdm_dask.kernels import kernel

AFRESH = 1 << 10
"""Steps after which sums are made again, so that rounding does not add up."""


@kernel
def most_lacking(
    Q: Floats,
    nu: Floats,
    once: float,
    low: Floats,
    high: Floats,
    prior: Floats,
    least: int,
    lack: Floats,
    codes: Ints,
) -> None:
    """Largest ``(t^T Q t / s - nu^T t - once) / s``, ``s = prior^T t``, for t of two values.

    ``t(x)`` is ``high[x]`` for the members of a subset and ``low[x]`` for the others; those
    with s = 0 are left out.

    Parameters
    ----------
    Q : array, shape (n, n)
        Symmetric.
    nu, low, high, prior : arrays, shape (n,)
    once : float
    least : int
        Smallest size of a subset.
    lack, codes : arrays, shape (2^k,)
        Set to the largest value, and the bits of its subset, among the subsets with the same
        k highest bits of their place in the walk.
    """
    n = low.shape[0]
    several = lack.shape[0]
    each = (1 << n) // several
    t = np.empty(n)
    Qt = np.empty(n)
    for part in range(several):
        best, best_code = -np.inf, 0
        square, linear, s, size, code = 0.0, 0.0, 0.0, 0, 0
        for step in range(part * each, (part + 1) * each):
            if step % AFRESH == 0 or step == part * each:
                code = step ^ (step >> 1)
                square, linear, s, size = 0.0, 0.0, 0.0, 0
                for x in range(n):
                    member = (code >> x) & 1
                    t[x] = high[x] if member else low[x]
                    size += member
                    linear += nu[x] * t[x]
                    s += prior[x] * t[x]
                for x in range(n):
                    Qt[x] = 0.0
                    for j in range(n):
                        Qt[x] += Q[x, j] * t[j]
                    square += t[x] * Qt[x]
            else:
                x = 0
                while not (step >> x) & 1:
                    x += 1
                code ^= 1 << x
                if (code >> x) & 1:
                    change = high[x] - low[x]
                    size += 1
                else:
                    change = low[x] - high[x]
                    size -= 1
                square += change * (2.0 * Qt[x] + change * Q[x, x])
                linear += change * nu[x]
                s += change * prior[x]
                for j in range(n):
                    Qt[j] += change * Q[x, j]
            if size >= least and s > 0.0:
                value = (square / s - linear - once) / s
                if value > best:
                    best, best_code = value, code
        lack[part], codes[part] = best, best_code
