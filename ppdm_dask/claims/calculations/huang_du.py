"""Calculations for the claims of [HuangDu]_."""

from __future__ import annotations

import itertools
import math

import numpy as np
import numpy.typing as npt

from ppdm_dask.designs.matrix import RRMatrix

__all__ = [
    "best_estimate",
    "combinations",
    "extreme_matrices",
    "inverse_as_mle",
    "least_posterior",
    "schemes",
    "theorem_6",
]

Floats = npt.NDArray[np.float64]


def _warner(n: int, p: float) -> Floats:
    matrix: Floats = p * np.eye(n) + (1 - p) / (n - 1) * (1 - np.eye(n))
    return matrix


def combinations() -> dict[str, float]:
    """Fact 1 for n = 10 and d = 100."""
    return {"count": float(math.comb(109, 100) ** 10)}


def schemes() -> dict[str, float]:
    """Least diagonal entries of the three schemes for n = 10, and where they agree."""
    n, q = 10, 0.35
    uniform = q * np.eye(n) + (1 - q) / n
    lam = uniform[0, 0] / uniform[0, 1]
    frapp = (lam * np.eye(n) + (1 - np.eye(n))) / (lam + n - 1)
    apart = max(
        float(np.abs(matrix - _warner(n, float(matrix[0, 0]))).max()) for matrix in (uniform, frapp)
    )
    return {"apart": apart, "warner_least": 0.0, "uniform_least": 1 / n}


def extreme_matrices() -> dict[str, float]:
    """Privacy of the identity and of the uniform matrix, and the rank of the latter."""
    prior = [0.5, 0.3, 0.2]
    uniform = np.full((3, 3), 1 / 3)
    return {
        "identity": float(RRMatrix("a", np.eye(3)).privacy(prior)),
        "uniform": float(RRMatrix("a", uniform).privacy(prior)),
        "largest_possible": 0.5,
        "rank": float(np.linalg.matrix_rank(uniform)),
    }


def _problems(count: int) -> list[tuple[Floats, Floats]]:
    rng = np.random.default_rng(2)
    return [(rng.dirichlet(np.ones(4), size=4).T, rng.dirichlet(np.ones(4))) for _ in range(count)]


def best_estimate() -> dict[str, float]:
    """By how much any estimate, a value for each report, is right more often than the MAP's."""
    best = -1.0
    for P, p in _problems(20):
        joint = P * p
        every = max(
            sum(joint[y, x] for y, x in enumerate(guess))
            for guess in itertools.product(range(4), repeat=4)
        )
        best = max(best, float(every - joint.max(axis=1).sum()))
    # Guesses that differ between records of one report are averages of these.
    return {"excess": best}


def least_posterior() -> dict[str, float]:
    """Least excess of the largest posterior over the largest prior, in 1,000 random matrices."""
    excess = []
    for P, p in _problems(1_000):
        joint = P * p
        excess.append(float((joint / joint.sum(axis=1, keepdims=True)).max() - p.max()))
    return {"excess": min(excess)}


def inverse_as_mle() -> dict[str, float]:
    """Least proportion that inversion gives where one category is reported less than by chance."""
    estimate = np.linalg.solve(_warner(3, 0.6), np.array([0.6, 0.3, 0.1]))
    return {"least": float(estimate.min())}


def theorem_6() -> dict[str, float]:
    """MSE of a category for Warner .8, p = (.3, .7), N = 1000: exact, and by the printed sum."""
    P, p, n = _warner(2, 0.8), np.array([0.3, 0.7]), 1_000
    B, reported = np.linalg.inv(P), P @ p
    # Enumerated: the variance of one record's weight for the first category.
    exact = float(reported @ B[0] ** 2 - p[0] ** 2) / n
    covariance = -np.outer(reported, reported) / n
    variance = reported * (1 - reported) / n
    printed = float(B[0] ** 2 @ variance)
    printed += sum(
        2 * B[0, i] * B[0, j] * covariance[i, j] for i in (0, 1) for j in (0, 1) if i != j
    )
    return {"exact": exact, "printed": printed}
