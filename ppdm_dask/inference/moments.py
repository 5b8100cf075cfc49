"""Moments of means of event weights: what standard errors and normal intervals are made of."""

from __future__ import annotations

from typing import Literal

import numpy as np

from ppdm_dask.arrays import Floats
from ppdm_dask.errors import InputError
from ppdm_dask.ranges import real
from ppdm_dask.shown import given

__all__ = [
    "ROUNDING",
    "Estimand",
    "check_estimand",
    "mean_variance",
    "normal_quantile",
    "standard_error_of",
]


Estimand = Literal["population", "file"]

ROUNDING = 1e-14


def mean_variance(mean: Floats, square: Floats, n: int, estimand: Estimand) -> Floats:
    """Variance of a mean of weights, from the mean weight and the mean squared weight.

    For the *population* behind the records: (mean w^2 - p^2) / (n - 1).  For *this file*, where
    E[w | x] = 1_E(x) and only the disguise is random: (mean w^2 - mean w) / n.  Both are unbiased;
    the second falls below 0 where most weights lie between 0 and 1, and then says nothing.
    """
    if n < 2:
        return np.full(np.shape(mean), np.nan)
    spread = square - (mean**2 if estimand == "population" else mean)
    # Rounding can leave -1e-18 where the variance is zero (an undisguised certainty).
    spread = np.where(np.abs(spread) <= ROUNDING * square, 0.0, spread)
    return np.asarray(spread / (n - 1 if estimand == "population" else n))


def standard_error_of(variance: Floats) -> Floats:
    """Standard error; not a number where the variance is none or below 0."""
    return np.sqrt(np.where(variance >= 0, variance, np.nan))


def check_estimand(estimand: str) -> None:
    """Raise InputError unless it is "population" or "file"."""
    if estimand not in ("population", "file"):
        raise InputError(
            f"estimand: got {given(estimand)}; 'population' or 'file' is needed", estimand
        )


def normal_quantile(level: float) -> float:
    """Half width of a two-sided normal interval of a level in (0, 1), in standard errors."""
    level = real("level", level, 0, 1, open_ends=True)
    from scipy.special import ndtri

    return float(ndtri(0.5 + level / 2))
