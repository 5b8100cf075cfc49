"""Measures, repair and variation of stacks of column-stochastic matrices P[y, x].

Sums run in one fixed order and no linear algebra library takes part, so that the bits do not
depend on the machine's.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from ppdm_dask.kernels import kernel

__all__ = ["inverse_trace", "measure", "mutate", "repair", "swap_columns"]

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

SINGULAR = 1e-11
"""Pivots below this, of matrices whose entries are about 1, count as zero."""


@kernel
def invert(A: Floats, B: Floats) -> bool:
    """Gauss and Jordan with row pivots: B = A^-1, A is destroyed; False where A is singular."""
    n = A.shape[0]
    B[:] = 0.0
    for i in range(n):
        B[i, i] = 1.0
    for c in range(n):
        best = c
        for r in range(c + 1, n):
            if abs(A[r, c]) > abs(A[best, c]):
                best = r
        if not abs(A[best, c]) > SINGULAR:
            return False
        if best != c:
            for k in range(n):
                A[c, k], A[best, k] = A[best, k], A[c, k]
                B[c, k], B[best, k] = B[best, k], B[c, k]
        scale = 1.0 / A[c, c]
        for k in range(n):
            A[c, k] *= scale
            B[c, k] *= scale
        for r in range(n):
            if r != c and A[r, c] != 0.0:
                factor = A[r, c]
                for k in range(n):
                    A[r, k] -= factor * A[c, k]
                    B[r, k] -= factor * B[c, k]
    return True


@kernel
def inverse_trace(P: Floats, prior: Floats, A: Floats, B: Floats) -> Any:
    """tr J^-1 of one matrix with J = P^T diag(1 / P p) P; infinite where J is singular.

    A square P is inverted itself, which squares no condition number.  A and B are room for two
    square matrices of the size of the prior.
    """
    K, n = P.shape
    if n == K:
        A[:] = P
        if not invert(A, B):
            return np.inf
        total = 0.0
        for y in range(K):
            s, square = 0.0, 0.0
            for x in range(n):
                s += P[y, x] * prior[x]
                square += B[x, y] * B[x, y]
            total += s * square
        return total
    A[:] = 0.0
    for y in range(K):
        s = 0.0
        for x in range(n):
            s += P[y, x] * prior[x]
        if s > 0.0:
            for i in range(n):
                for j in range(n):
                    A[i, j] += P[y, i] * P[y, j] / s
    if not invert(A, B):
        return np.inf
    total = 0.0
    for x in range(n):
        total += B[x, x]
    return total if total > 0.0 else np.inf


@kernel
def measure(P: Floats, prior: Floats, loss: Floats, worst: Floats, trace: Floats) -> None:
    """Adversary's success, worst posterior and tr J^-1 of each matrix of a stack (m, K, n)."""
    m, K, n = P.shape
    A, B = np.empty((n, n)), np.empty((n, n))
    for i in range(m):
        loss[i], worst[i] = 0.0, 0.0
        for y in range(K):
            total, largest = 0.0, 0.0
            for x in range(n):
                r = P[i, y, x] * prior[x]
                total += r
                largest = max(largest, r)
            loss[i] += largest
            if total > 0.0:
                worst[i] = max(worst[i], largest / total)
        trace[i] = inverse_trace(P[i], prior, A, B)


@kernel
def tidy(P: Floats) -> None:
    """Clip rounding outside [0, 1] and make the columns of a matrix sum to 1."""
    K, n = P.shape
    for x in range(n):
        total = 0.0
        for y in range(K):
            P[y, x] = min(max(P[y, x], 0.0), 1.0)
            total += P[y, x]
        for y in range(K):
            P[y, x] /= total


@kernel
def excess(P: Floats, prior: Floats, delta: float) -> Any:
    """Largest P(x | y) - delta of one matrix."""
    K, n = P.shape
    most = -1.0
    for y in range(K):
        total, largest = 0.0, 0.0
        for x in range(n):
            r = P[y, x] * prior[x]
            total += r
            largest = max(largest, r)
        if total > 0.0:
            most = max(most, largest / total - delta)
    return most


@kernel
def repair(P: Floats, prior: Floats, delta: float, sweeps: int, tolerance: float) -> None:
    """Bring the worst posterior of each matrix down to delta.  Section V-G of [HuangDu]_, iterated.

    A sweep goes through the columns: entries whose posterior is too large are lowered to where it
    is delta, and what they lose goes to the column's other entries in proportion to their room
    below delta.  Lowering an entry raises the other posteriors of its row, so sweeps are repeated.
    What the last of them leaves is removed by mixing with the matrix whose columns are all equal to
    the reports' distribution, which the posteriors of a row follow linearly.
    """
    m, K, n = P.shape
    s, room = np.empty(K), np.empty(K)
    for i in range(m):
        tidy(P[i])
        for _ in range(sweeps):
            if excess(P[i], prior, delta) <= tolerance:
                break
            for y in range(K):
                s[y] = 0.0
                for x in range(n):
                    s[y] += P[i, y, x] * prior[x]
            for x in range(n):
                over, free = 0.0, 0.0
                for y in range(K):
                    others = s[y] - P[i, y, x] * prior[x]
                    room[y] = delta * others / ((1.0 - delta) * prior[x]) - P[i, y, x]
                    if room[y] < 0.0:
                        over -= room[y]
                    else:
                        room[y] = min(room[y], 1.0 - P[i, y, x])
                        free += room[y]
                if over == 0.0 or free == 0.0:
                    continue
                share = min(over / free, 1.0)
                lowered = share * free / over
                for y in range(K):
                    step = share * room[y] if room[y] > 0.0 else lowered * room[y]
                    P[i, y, x] += step
                    s[y] += step * prior[x]
            tidy(P[i])
        if excess(P[i], prior, delta) > tolerance:
            mix = 0.0
            largest_prior = prior.max()
            for y in range(K):
                total, largest = 0.0, 0.0
                for x in range(n):
                    r = P[i, y, x] * prior[x]
                    total += r
                    largest = max(largest, r)
                over = largest - delta * total
                if over > 0.0:
                    mix = max(mix, over / (over + (delta - largest_prior) * total))
                s[y] = total
            mix = min(mix * (1.0 + 1e-12), 1.0)
            for y in range(K):
                for x in range(n):
                    P[i, y, x] = (1.0 - mix) * P[i, y, x] + mix * s[y]
            tidy(P[i])


@kernel
def swap_columns(P: Floats, pairs: Ints, cuts: Ints) -> None:
    """Swap the columns from a cut on between the two matrices of each pair.  Section V-E."""
    for pair in range(pairs.shape[0]):
        i, j = pairs[pair, 0], pairs[pair, 1]
        for y in range(P.shape[1]):
            for x in range(cuts[pair], P.shape[2]):
                P[i, y, x], P[j, y, x] = P[j, y, x], P[i, y, x]


@kernel
def mutate(P: Floats, column: Ints, row: Ints, step: Floats) -> None:
    """Add a step to one entry of each matrix; the rest of its column makes up.  Section V-F.

    Where the step is positive the others lose in proportion to their values, where it is negative
    they gain in proportion to 1 minus their values.  A step of 0 changes nothing.
    """
    K = P.shape[1]
    for i in range(P.shape[0]):
        x, own = column[i], row[i]
        value = P[i, own, x]
        change = min(step[i], 1.0 - value) if step[i] > 0.0 else max(step[i], -value)
        rest = 0.0
        for y in range(K):
            if y != own:
                rest += P[i, y, x] if change > 0.0 else 1.0 - P[i, y, x]
        if change == 0.0 or rest == 0.0:
            continue
        for y in range(K):
            if y != own:
                P[i, y, x] -= change * (P[i, y, x] if change > 0.0 else 1.0 - P[i, y, x]) / rest
        P[i, own, x] = value + change
        tidy(P[i])
