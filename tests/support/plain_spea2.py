"""SPEA2 as section V of the paper defines it, in plain Python: what the kernels must equal."""

from __future__ import annotations

import math
from collections.abc import Sequence

Points = Sequence[Sequence[float]]


def dominates(one: Sequence[float], other: Sequence[float]) -> bool:
    pairs = list(zip(one, other, strict=True))
    return all(a <= b for a, b in pairs) and any(a < b for a, b in pairs)


def squared(one: Sequence[float], other: Sequence[float]) -> float:
    total = 0.0
    for a, b in zip(one, other, strict=True):
        total += (a - b) * (a - b)
    return total


def fitness(points: Points, k: int) -> list[tuple[int, int, float]]:
    """Strength, raw fitness and distance to the k-th nearest of each point."""
    strength = [sum(dominates(p, q) for q in points) for p in points]
    found = []
    for i, p in enumerate(points):
        raw = sum(strength[j] for j, q in enumerate(points) if dominates(q, p))
        others = sorted(math.sqrt(squared(p, q)) for j, q in enumerate(points) if j != i)
        sigma = others[min(k, len(others)) - 1] if others else math.inf
        found.append((strength[i], raw, sigma))
    return found


def select(points: Points, k: int, size: int) -> list[int]:
    """Indices of the new archive."""
    found = fitness(points, k)
    kept = [i for i, (_, raw, _) in enumerate(found) if raw == 0]
    if len(kept) < size:
        rest = [i for i in range(len(points)) if i not in kept]
        rest.sort(key=lambda i: (found[i][1] + 1 / (found[i][2] + 2), i))
        return sorted(kept + rest[: size - len(kept)])
    while len(kept) > size:
        crowding = {i: sorted(squared(points[i], points[j]) for j in kept if j != i) for i in kept}
        kept.remove(min(kept, key=lambda i: (crowding[i], i)))
    return kept
