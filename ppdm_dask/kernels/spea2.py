"""SPEA2 on two objectives, both minimised: fitness by Fenwick trees, truncation on a linked list.

Points that do not dominate one another form a chain, sorted by one objective and the other way
round by the other.  Along it the distance from a point only grows, in floating point too, so
nearest neighbours are neighbours in the chain.

Any other number of objectives takes all pairs, and sorted lists of neighbours.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ppdm_dask.arrays import Floats, Ints
from ppdm_dask.kernels import kernel


@kernel
def squared_distance(F: Floats, i: int, j: int) -> Any:
    """Square of the Euclidean distance between two points, summed objective by objective."""
    total = 0.0
    for m in range(F.shape[1]):
        step = F[i, m] - F[j, m]
        total += step * step
    return total


@kernel
def nearest(F: Floats, order: Ints, at: int, k: int, best: Floats) -> Any:
    """Squared distance from the point at a place of the order to its k-th nearest one.

    ``order`` sorts the points by the first objective; the walk ends where that objective alone
    is farther away than the k-th nearest.  ``best`` is room for k numbers.
    """
    n = order.size
    i = order[at]
    best[:k] = np.inf
    left, right = at - 1, at + 1
    while left >= 0 or right < n:
        gap_left = F[i, 0] - F[order[left], 0] if left >= 0 else np.inf
        gap_right = F[order[right], 0] - F[i, 0] if right < n else np.inf
        if gap_left <= gap_right:
            gap, j = gap_left, order[left]
            left -= 1
        else:
            gap, j = gap_right, order[right]
            right += 1
        # From here on only the first objective keeps every point farther away.
        if gap * gap > best[k - 1]:
            break
        d = squared_distance(F, i, j)
        if d < best[k - 1]:
            m = k - 1
            while m > 0 and best[m - 1] > d:
                best[m] = best[m - 1]
                m -= 1
            best[m] = d
    return best[k - 1]


@kernel
def assign_two(F: Floats, k: int, strength: Ints, raw: Ints, sigma: Floats) -> None:
    """Strength and raw fitness of each point, and the distance to its k-th nearest.

    ``F`` has shape (n, 2); ``k`` is at most n - 1 (1 for a lone point, whose sigma is infinite).
    """
    n = F.shape[0]
    by_second = np.argsort(F[:, 1], kind="mergesort")
    # Ranks in place of values: a Fenwick tree needs small whole numbers.
    rank = np.empty(n, np.int64)
    ranks = 0
    for at in range(n):
        if at == 0 or F[by_second[at], 1] != F[by_second[at - 1], 1]:
            ranks += 1
        rank[by_second[at]] = ranks
    order = by_second[np.argsort(F[by_second, 0], kind="mergesort")]

    # Strength: how many lie at or beyond a point in both objectives, its equals taken out.
    tree = np.zeros(ranks + 1, np.int64)
    stop = n
    while stop > 0:
        start = stop - 1
        while start > 0 and F[order[start - 1], 0] == F[order[start], 0]:
            start -= 1
        for at in range(start, stop):
            r = rank[order[at]]
            while r > 0:
                tree[r] += 1
                r -= r & -r
        at = start
        while at < stop:
            r = rank[order[at]]
            equal = at
            while equal < stop and rank[order[equal]] == r:
                equal += 1
            total = 0
            while r <= ranks:
                total += tree[r]
                r += r & -r
            for same in range(at, equal):
                strength[order[same]] = total - (equal - at)
            at = equal
        stop = start

    # Raw fitness: the strengths of all that lie at or before a point, its equals taken out.
    tree[:] = 0
    start = 0
    while start < n:
        stop = start + 1
        while stop < n and F[order[stop], 0] == F[order[start], 0]:
            stop += 1
        for at in range(start, stop):
            r = rank[order[at]]
            while r <= ranks:
                tree[r] += strength[order[at]]
                r += r & -r
        at = start
        while at < stop:
            r = rank[order[at]]
            equal = at
            while equal < stop and rank[order[equal]] == r:
                equal += 1
            total = 0
            while r > 0:
                total += tree[r]
                r -= r & -r
            for same in range(at, equal):
                raw[order[same]] = total - (equal - at) * strength[order[same]]
            at = equal
        start = stop

    best = np.empty(k)
    for at in range(n):
        sigma[order[at]] = np.sqrt(nearest(F, order, at, k, best))


@kernel
def more_crowded(F: Floats, chain: Ints, before: Ints, after: Ints, a: int, b: int) -> bool:
    """Whether the neighbours of place ``a`` are nearer than those of ``b``, nearest first.

    Among points that are equally crowded the one with the lower index counts as more crowded.
    """
    left_a, right_a, left_b, right_b = before[a], after[a], before[b], after[b]
    i, j = chain[a], chain[b]
    while left_a >= 0 or right_a >= 0:
        d = np.inf
        if left_a >= 0:
            d = squared_distance(F, i, chain[left_a])
        go_right = right_a >= 0 and squared_distance(F, i, chain[right_a]) < d
        if go_right:
            d = squared_distance(F, i, chain[right_a])
            right_a = after[right_a]
        else:
            left_a = before[left_a]
        e = np.inf
        if left_b >= 0:
            e = squared_distance(F, j, chain[left_b])
        if right_b >= 0 and squared_distance(F, j, chain[right_b]) < e:
            e = squared_distance(F, j, chain[right_b])
            right_b = after[right_b]
        else:
            left_b = before[left_b]
        if d != e:
            return bool(d < e)
    return bool(i < j)


@kernel
def truncate_two(F: Floats, chain: Ints, keep: int) -> Any:
    """Remove the most crowded point until ``keep`` are left; which places of the chain stay."""
    n = chain.size
    before = np.arange(-1, n - 1)
    after = np.arange(1, n + 1)
    after[n - 1] = -1
    gap = np.full(n, np.inf)  # to the next in the chain
    for a in range(n - 1):
        gap[a] = squared_distance(F, chain[a], chain[a + 1])
    alive = np.ones(n, np.bool_)
    first = 0
    for _ in range(n - keep):
        least = np.inf
        a = first
        while a >= 0:
            least = min(least, gap[a])
            a = after[a]
        worst = -1
        a = first
        while a >= 0:
            # Only the two ends of a least gap can be most crowded, so few are compared in full.
            near = gap[a] == least or (before[a] >= 0 and gap[before[a]] == least)
            if near and (worst < 0 or more_crowded(F, chain, before, after, a, worst)):
                worst = a
            a = after[a]
        alive[worst] = False
        left, right = before[worst], after[worst]
        if left >= 0:
            after[left] = right
            gap[left] = squared_distance(F, chain[left], chain[right]) if right >= 0 else np.inf
        else:
            first = right
        if right >= 0:
            before[right] = left
    return alive


@kernel
def fill_up(raw: Ints, sigma: Floats, room: int) -> Any:
    """All points that are not dominated, and the best of the others for which there is room."""
    chosen = raw == 0
    dominated = np.flatnonzero(raw > 0)
    fitness = raw[dominated] + 1.0 / (sigma[dominated] + 2.0)
    # Mergesort is stable: of equal points the first one stays.
    best = dominated[np.argsort(fitness, kind="mergesort")]
    for i in best[:room]:
        chosen[i] = True
    return np.flatnonzero(chosen)


@kernel
def select_two(F: Floats, raw: Ints, sigma: Floats, keep: int) -> Any:
    """Environmental selection: indices of the new archive, increasing.  Eq. (12) of [HuangDu]_."""
    free = np.flatnonzero(raw == 0)
    if free.size > keep:
        chain = free[np.argsort(F[free, 1], kind="mergesort")]
        chain = chain[np.argsort(F[chain, 0], kind="mergesort")]
        return np.sort(chain[truncate_two(F, chain, keep)])
    return fill_up(raw, sigma, keep - free.size)


@kernel
def dominates(F: Floats, i: int, j: int) -> bool:
    """Whether point i is nowhere worse than j and somewhere better."""
    better = False
    for m in range(F.shape[1]):
        if F[i, m] > F[j, m]:
            return False
        better = better or F[i, m] < F[j, m]
    return better


@kernel
def assign_any(F: Floats, k: int, strength: Ints, raw: Ints, sigma: Floats) -> None:
    """As ``assign_two``, for points of shape (n, objectives)."""
    n = F.shape[0]
    strength[:] = 0
    raw[:] = 0
    for i in range(n):
        for j in range(n):
            strength[i] += dominates(F, i, j)
    for i in range(n):
        for j in range(n):
            if dominates(F, i, j):
                raw[j] += strength[i]
    row = np.empty(n)
    for i in range(n):
        for j in range(n):
            row[j] = squared_distance(F, i, j)
        row[i] = np.inf
        sigma[i] = np.sqrt(np.sort(row)[k - 1])


@kernel
def truncate_any(F: Floats, free: Ints, keep: int) -> Any:
    """Remove the most crowded point until ``keep`` are left; which of the points stay."""
    n = free.size
    distance = np.empty((n, n))
    neighbours = np.empty((n, n), np.int64)
    for a in range(n):
        for b in range(n):
            distance[a, b] = squared_distance(F, free[a], free[b])
        distance[a, a] = -1.0  # itself, always the first of the list
        neighbours[a] = np.argsort(distance[a], kind="mergesort")
    alive = np.ones(n, np.bool_)
    size = n
    while size > keep:
        worst = -1
        for a in range(n):
            if not alive[a]:
                continue
            if worst < 0:
                worst = a
                continue
            for m in range(1, size):
                d, e = distance[a, neighbours[a, m]], distance[worst, neighbours[worst, m]]
                if d != e:
                    if d < e:
                        worst = a
                    break
        alive[worst] = False
        for a in range(n):
            place = 0
            for m in range(size):
                if neighbours[a, m] != worst:
                    neighbours[a, place] = neighbours[a, m]
                    place += 1
        size -= 1
    return alive


@kernel
def select_any(F: Floats, raw: Ints, sigma: Floats, keep: int) -> Any:
    """As ``select_two``, for points of shape (n, objectives)."""
    free = np.flatnonzero(raw == 0)
    if free.size > keep:
        return free[truncate_any(F, free, keep)]
    return fill_up(raw, sigma, keep - free.size)
