"""SPEA2 on any number of objectives, all minimised: all pairs, and sorted lists of neighbours."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from ppdm_dask.kernels import kernel
from ppdm_dask.kernels.spea2 import squared_distance

__all__ = ["assign_any", "select_any"]

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


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
    chosen = raw == 0
    dominated = np.flatnonzero(raw > 0)
    fitness = raw[dominated] + 1.0 / (sigma[dominated] + 2.0)
    best = dominated[np.argsort(fitness, kind="mergesort")]
    for i in best[: keep - free.size]:
        chosen[i] = True
    return np.flatnonzero(chosen)
