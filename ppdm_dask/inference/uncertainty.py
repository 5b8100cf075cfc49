"""Intervals of means of event weights: score intervals as Wilson's, for reports, and Wald's.

Moments of means of event weights: what standard errors and normal intervals are made of.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from ppdm_dask.arrays import Floats
from ppdm_dask.errors import InputError
from ppdm_dask.ranges import real
from ppdm_dask.shown import given

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


IntervalMethod = Literal["score", "wald"]

METHODS = ("score", "wald")


def quantile_of(level: float, freedom: float | None) -> float:
    """Half width of a two-sided interval in standard errors: Student's t, or the normal's.

    Parameters
    ----------
    level : float in (0, 1)
    freedom : float or None
        Degrees of freedom of the standard error, 1 or more; None for a normal quantile.
    """
    half = normal_quantile(level)
    if freedom is None:
        return half
    from scipy.stats import t

    return float(t.ppf(0.5 + level / 2, max(freedom, 1.0)))


def score_interval(
    value: Floats,
    inside: Floats,
    outside: Floats,
    size: Floats,
    quantile: float,
    estimand: Estimand,
) -> tuple[Floats, Floats]:
    """All proportions p with ``|value - p| <= quantile sqrt(V(p) / size)``.

    V is the variance that a weight has where the proportion is p: its second moment is
    ``p inside + (1 - p) outside``, from which p^2 is taken for the population behind the records
    and p for these records.  Undisguised (1 and 0) it is Wilson's interval, and for two-valued
    reports Wilson's, mapped.  It may leave [0, 1], as the estimate may, and holds the estimate.

    Parameters
    ----------
    value : array
        Mean weights.
    inside, outside : arrays
        Second moments of the weight in and outside of the event.
    size : array
        Effective numbers of reports.
    quantile : float

    References
    ----------
    [Wilson]_
    """
    c = quantile**2 / size
    quadratic, linear = np.ones_like(c), inside - outside - 1
    if estimand == "population":
        quadratic, linear = 1 + c, inside - outside
    middle = value + c * linear / 2
    root = np.sqrt(np.maximum(middle**2 - quadratic * (value**2 - c * outside), 0))
    # An end beyond the estimate is rounding.
    lower = np.minimum((middle - root) / quadratic, value)
    upper = np.maximum((middle + root) / quadratic, value)
    return lower, upper


def intervals_of(
    value: Any,
    variance: Any,
    moments: tuple[Any, Any] | None,
    size: float,
    *,
    level: float,
    freedom: float | None,
    estimand: Estimand,
    method: str,
    surveyed: bool,
    few: Any = False,
) -> tuple[Floats, Floats]:
    """Ends of the intervals of some proportions; not numbers where there is none.

    Parameters
    ----------
    value, variance : arrays
    moments : pair of arrays or None
        Second moments of the weights in and outside of the events; without them score intervals
        are Wald's.
    size : float
        Effective reports.
    level : float
    freedom : float or None
    estimand : {"population", "file"}
    method : {"score", "wald"}
    surveyed : bool
        Whether variances are of weighted or conditional sums: then a score interval counts as many
        reports as would have this variance, as for other designs of surveys.

    few : bool or array of bool
        Where few reports carry the variance.  There counts are so discrete that a score interval
        alone may fall short; its ends reach at least as far as Wald's.

    References
    ----------
    [KornGraubard]_
    """
    if method not in METHODS:
        raise InputError(f"method: got {given(method)}; 'score' or 'wald' is needed", method)
    quantile = quantile_of(level, freedom)
    value, variance = np.asarray(value, float), np.asarray(variance, float)
    known = variance >= 0
    half = quantile * np.sqrt(np.where(known, variance, np.nan))
    if method == "wald" or moments is None or size < 2:
        return value - half, value + half
    inside, outside = moments
    reports = np.full(value.shape, float(size))
    wider = np.asarray(few) & known
    if surveyed:
        taken = value**2 if estimand == "population" else value
        spread = value * inside + (1 - value) * outside - taken
        usable = known & (variance > 0) & (spread > 0) & ~np.asarray(few)
        reports = np.where(usable, spread / np.where(usable, variance, 1.0), reports)
        # Within a disguised condition a ratio may leave 0 and 1 where the event itself is not
        # disguised.  No count of reports of that event has this variance.
        wider = wider | (known & (spread <= 0))
    lower, upper = score_interval(value, inside, outside, reports, quantile, estimand)
    return (
        np.where(wider, np.minimum(lower, value - half), lower),
        np.where(wider, np.maximum(upper, value + half), upper),
    )
