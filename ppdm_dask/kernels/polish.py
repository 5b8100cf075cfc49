"""Gradient descent on stacks of matrices: Adam on the logits of the columns."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from ppdm_dask.kernels import kernel
from ppdm_dask.kernels.channels import SINGULAR

__all__ = ["descend", "slope"]

Floats = npt.NDArray[np.float64]

DECAY_1, DECAY_2 = 0.9, 0.99


@kernel
def invert_spd(A: Floats, C: Floats) -> bool:
    """Invert a symmetric positive definite matrix by elimination without pivots; A is destroyed."""
    n = A.shape[0]
    C[:] = 0.0
    for i in range(n):
        C[i, i] = 1.0
    for c in range(n):
        if not A[c, c] > SINGULAR:
            return False
        scale = 1.0 / A[c, c]
        for k in range(c + 1, n):
            A[c, k] *= scale
        for k in range(c + 1):
            C[c, k] *= scale
        for r in range(n):
            if r != c:
                factor = A[r, c]
                for k in range(c + 1, n):
                    A[r, k] -= factor * A[c, k]
                for k in range(c + 1):
                    C[r, k] -= factor * C[c, k]
    return True


@kernel
def slope(
    P: Floats,
    prior: Floats,
    delta: float,
    loss: float,
    force: float,
    A: Floats,
    C: Floats,
    G: Floats,
) -> Any:
    """Logarithm of tr J^-1 plus penalties, and its gradient G with respect to P.

    The gradient of tr J^-1 is ``b_y p_x - 2 (B^T J^-1)[y, x]`` with ``B = J^-1 P^T diag(1 / P p)``
    and ``b_y = |B e_y|^2``.  Penalties grow by ``force`` with the adversary's success above
    ``loss`` and with each ``P[y, x] p[x] - delta (P p)[y]`` above 0.  A and C are room for two
    square matrices.  Infinite, without a gradient, where J is singular.
    """
    K, n = P.shape
    A[:] = 0.0
    for y in range(K):
        s = 0.0
        for x in range(n):
            s += P[y, x] * prior[x]
        if s > 1e-14:
            for i in range(n):
                scaled = P[y, i] / s
                for j in range(n):
                    A[i, j] += scaled * P[y, j]
    if not invert_spd(A, C):
        return np.inf
    trace = 0.0
    for x in range(n):
        trace += C[x, x]
    if not trace > 0.0:
        return np.inf
    value = np.log(trace)
    b = np.empty(n)
    success = 0.0
    for y in range(K):
        s, largest, at = 0.0, -1.0, 0
        for x in range(n):
            r = P[y, x] * prior[x]
            s += r
            if r > largest:
                largest, at = r, x
        success += largest
        if s <= 1e-14:
            G[y] = 0.0
            continue
        square = 0.0
        for i in range(n):
            total = 0.0
            for j in range(n):
                total += C[i, j] * P[y, j]
            b[i] = total / s
            square += b[i] * b[i]
        for x in range(n):
            total = 0.0
            for j in range(n):
                total += C[x, j] * b[j]
            G[y, x] = (square * prior[x] - 2.0 * total) / trace
        over = largest - delta * s
        if over > 0.0:
            value += force * over
            for x in range(n):
                G[y, x] -= force * delta * prior[x]
            G[y, at] += force * prior[at]
    if success > loss:
        value += force * (success - loss)
        for y in range(K):
            largest, at = -1.0, 0
            for x in range(n):
                r = P[y, x] * prior[x]
                if r > largest:
                    largest, at = r, x
            G[y, at] += force * prior[at]
    return value


@kernel
def descend(
    P: Floats,
    prior: Floats,
    delta: float,
    loss: Floats,
    stiffness: Floats,
    force: Floats,
    rate: Floats,
) -> None:
    """Descend from each matrix of a stack in place, step by step.

    Parameters
    ----------
    P : array, shape (m, K, n)
    loss : array, shape (m,)
        Level that each matrix is to keep to.
    stiffness : array, shape (m,)
        Factor of the penalties, of the order of d log tr J^-1 / d loss.
    force, rate : arrays, shape (steps,)
        Weight of the penalties and size of each step.
    """
    m, K, n = P.shape
    A, C = np.empty((n, n)), np.empty((n, n))
    G, L = np.empty((K, n)), np.empty((K, n))
    first, second = np.empty((K, n)), np.empty((K, n))
    for i in range(m):
        Q = P[i]
        for y in range(K):
            for x in range(n):
                L[y, x] = np.log(max(Q[y, x], 1e-9))
        first[:] = 0.0
        second[:] = 0.0
        fade_1, fade_2 = 1.0, 1.0
        for t in range(rate.size):
            if not np.isfinite(slope(Q, prior, delta, loss[i], stiffness[i] * force[t], A, C, G)):
                break
            fade_1 *= DECAY_1
            fade_2 *= DECAY_2
            size = rate[t] / (1.0 - fade_1)
            grow = 1.0 / (1.0 - fade_2)
            for x in range(n):
                mean = 0.0
                for y in range(K):
                    mean += G[y, x] * Q[y, x]
                top = -np.inf
                for y in range(K):
                    g = Q[y, x] * (G[y, x] - mean)
                    first[y, x] = DECAY_1 * first[y, x] + (1.0 - DECAY_1) * g
                    second[y, x] = DECAY_2 * second[y, x] + (1.0 - DECAY_2) * g * g
                    L[y, x] -= size * first[y, x] / (np.sqrt(grow * second[y, x]) + 1e-10)
                    top = max(top, L[y, x])
                total = 0.0
                for y in range(K):
                    # Entries that have gone far below the rest could not come back.
                    L[y, x] = max(L[y, x] - top, -16.0)
                    Q[y, x] = np.exp(L[y, x])
                    total += Q[y, x]
                for y in range(K):
                    Q[y, x] /= total
