"""Measures, repair and variation of stacks of column-stochastic matrices P[y, x].

Sums run in one fixed order and no linear algebra library takes part, so that the bits do not
depend on the machine's.

Gradient descent is Adam on the logits of the columns, so that they stay columns of probabilities.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ppdm_dask.arrays import Floats, Ints
from ppdm_dask.kernels import kernel

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
        # Not "<=": a NaN counts as singular too.
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
                # Where there is too little room, entries are lowered by as much as fits.
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
            mix = min(mix * (1.0 + 1e-12), 1.0)  # a hair more, so that rounding ends below delta
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


# The second one is shorter than the usual 0.999, as the penalties grow along the way.
DECAY_1, DECAY_2 = 0.9, 0.99


@kernel
def invert_spd(A: Floats, C: Floats) -> bool:
    """Invert a symmetric positive definite matrix by elimination without pivots; A is destroyed."""
    # Half the work of the inverse above, and no branch on pivots: this is the descent's inner loop.
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
                L[y, x] = np.log(max(Q[y, x], 1e-9))  # an entry of 0 has no logit
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
                    # The softmax's derivative takes the slope from P to the logits.
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
