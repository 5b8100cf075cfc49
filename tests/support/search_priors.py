"""Priors of the paper's experiments, and what its matrices are compared with."""

from __future__ import annotations

import numpy as np
from scipy import stats

N_RECORDS = 10_000


def normal(bins: int = 10) -> np.ndarray:
    p = np.diff(stats.norm.cdf(np.linspace(-3, 3, bins + 1)))
    return p / p.sum()


def gamma(bins: int = 10) -> np.ndarray:
    law = stats.gamma(1, scale=2)
    p = np.diff(law.cdf(np.linspace(0, law.ppf(0.99), bins + 1)))
    return p / p.sum()


def uniform(bins: int = 10) -> np.ndarray:
    return np.full(bins, 1 / bins)


PRIORS = {"normal": normal(), "gamma": gamma(), "uniform": uniform()}


def random_matrices(rng: np.random.Generator, m: int, n: int, K: int | None = None) -> np.ndarray:
    """Columns between uniform on the simplex and concentrated."""
    weights = rng.exponential(size=(m, K or n, n)) ** rng.uniform(0.5, 12, (m, 1, 1))
    return np.ascontiguousarray(weights / weights.sum(axis=1, keepdims=True))
