"""Intervals of means of event weights: score intervals as Wilson's, for reports, and Wald's.

Moments of means of event weights: what standard errors and normal intervals are made of.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from ppdm_dask.arrays import Bools, Floats
from ppdm_dask.distributions import normal_cdf, normal_point, t_cdf, t_point
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
    return normal_point(0.5 + level / 2)


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
    return t_point(0.5 + level / 2, max(freedom, 1.0))


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
    ``p inside + (1 - p) outside``, minus p^2 for the population behind the records and minus p for
    these records.  Undisguised (1 and 0) it is Wilson's interval, and for two-valued
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


HALVINGS = 50
"""Steps of the search for an end: to 1e-15 of the range."""


def bounded_interval(
    value: Floats,
    quadratic: tuple[Floats, Floats, Floats],
    level: float,
    freedom: float | None,
) -> tuple[Floats, Floats]:
    """All proportions in [0, 1] that a test ordered by likelihood ratio accepts.

    Where the proportion is p, the estimate is treated as ``p + s(p) T``, T of Student's law and
    ``s(p)^2 = A + B p + C p^2``.  With b the nearest possible proportion, estimates x are ordered
    by ``((x - p)^2 - (x - b)^2) / s(p)^2``, the likelihood ratio of b and p; p is accepted unless
    those that are no more extreme have more than the level.  Inside, that is the score interval;
    near 0 and 1 it stays within them and holds b, so it is never empty.

    Parameters
    ----------
    value : array
    quadratic : three arrays
        Coefficients A, B and C.
    level : float
    freedom : float or None

    References
    ----------
    [FeldmanCousins]_ for the order; for a ratio the same variance makes Fieller's interval.
    """
    q = quantile_of(level, freedom)
    shape = value.shape
    value, A, B, C = (
        np.broadcast_to(np.asarray(x, float), shape).ravel() for x in (value, *quadratic)
    )
    nearest = np.clip(value, 0, 1)
    # Far from 0 and 1 the ends are roots of (value - p)^2 = q^2 s(p)^2.
    a, b, c = 1 - q * q * C, value + q * q * B / 2, value**2 - q * q * A
    with np.errstate(divide="ignore", invalid="ignore"):
        root = np.sqrt(np.maximum(b * b - a * c, 0))
        roots = (b - root) / a, (b + root) / a
    open_ = ~(a > 0)
    ends = []
    for edge, end in zip((0.0, 1.0), roots, strict=True):
        s = np.abs(value - end) / q
        plain = ~open_ & (value == nearest) & (end >= q * s) & (1 - end >= q * s)
        # A condition that may well be empty leaves everything open.
        result = np.where(open_, edge, end)
        near = np.flatnonzero(~plain & ~open_ & np.isfinite(A + B + C + value))
        if near.size:
            rest = (x[near] for x in (value, A, B, C))
            result[near] = _searched(edge, *rest, level=level, freedom=freedom)
        ends.append(result.reshape(shape))
    return ends[0], ends[1]


def _searched(
    edge: float,
    value: Floats,
    A: Floats,
    B: Floats,
    C: Floats,
    *,
    level: float,
    freedom: float | None,
) -> Floats:
    """End between the nearest possible proportion and an edge, by halving."""
    nearest = np.clip(value, 0, 1)

    def law(u: Floats) -> Floats:
        return np.asarray(normal_cdf(u) if freedom is None else t_cdf(u, max(freedom, 1.0)))

    def accepted(p: Floats) -> Bools:
        s = np.sqrt(np.maximum(A + B * p + C * p * p, 1e-300))
        x, low, high = (value - p) / s, p / s, (1 - p) / s
        ratio = np.maximum(x * x - ((value - nearest) / s) ** 2, 0)
        # Estimates beyond 0, u standard errors below p, have u^2 - (u - low)^2 as their ratio.
        root = np.sqrt(ratio)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            below = np.where(root <= low, root, (ratio / low + low) / 2)
            above = np.where(root <= high, root, (ratio / high + high) / 2)
        # At 0 itself all estimates below are as good as 0.
        below, above = (np.where(np.isnan(z), np.inf, z) for z in (below, above))
        return np.asarray(law(above) - law(-below) <= level)

    good, bad = nearest.copy(), np.full(value.shape, edge)
    for _ in range(HALVINGS):
        middle = (good + bad) / 2
        inside = accepted(middle)
        good, bad = np.where(inside, middle, good), np.where(inside, bad, middle)
    return np.where(accepted(np.full(value.shape, edge)), edge, good)


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
    quadratic: tuple[Any, Any, Any] | None = None,
) -> tuple[Floats, Floats]:
    """Ends of the intervals of some proportions; not numbers where there is none.

    Parameters
    ----------
    value, variance : arrays
    moments : pair of arrays or None
        Second moments of the weights in and outside of the events; without them and `quadratic`
        score intervals are Wald's.
    size : float
        Effective reports.
    level : float
    freedom : float or None
    estimand : {"population", "file"}
    method : {"score", "wald"}
    surveyed : bool
        Whether variances are of weighted or conditional sums, or of clusters: then a score interval
        counts as many reports as would have this variance, and stays within [0, 1].
    few : bool or array of bool
        Where few reports carry the variance.  There counts are so discrete that a score interval
        by themselves may fall short; its ends reach at least as far as Wald's, or count
        no more reports than there are.
    quadratic : three arrays or None
        Variance as a function of the proportion, where the moments are not known.

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
    if surveyed and method == "score" and size >= 2 and (moments or quadratic):
        if moments is not None:
            quadratic = _of_moments(value, variance, moments, size, estimand, few)
        assert quadratic is not None
        return bounded_interval(value, _reaching(value, variance, quadratic), level, freedom)
    if method == "wald" or moments is None or size < 2:
        return value - half, value + half
    inside, outside = moments
    reports = np.full(value.shape, float(size))
    wider = np.asarray(few) & known
    lower, upper = score_interval(value, inside, outside, reports, quantile, estimand)
    return (
        np.where(wider, np.minimum(lower, value - half), lower),
        np.where(wider, np.maximum(upper, value + half), upper),
    )


def _of_moments(
    value: Floats,
    variance: Floats,
    moments: tuple[Any, Any],
    size: float,
    estimand: Estimand,
    few: Any,
) -> tuple[Floats, Floats, Floats]:
    """Variance as a function of the proportion, from moments and as many reports as have it.

    Where few reports carry a variance, it is that of the effective reports, or of as many as the
    median of the other proportions has.
    """
    inside, outside = moments
    middle = np.clip(value, 0, 1)
    spread = middle * inside + (1 - middle) * outside
    spread = spread - (middle**2 if estimand == "population" else middle)
    usable = (variance > 0) & (spread > 0) & ~np.asarray(few)
    reports = np.where(usable, spread / np.where(usable, variance, 1.0), size)
    if usable.any():
        reports = np.where(usable, reports, min(float(np.median(reports[usable])), size))
    A, B = outside / reports, (inside - outside) / reports
    if estimand == "population":
        return A, B, -1 / reports
    return A, B - 1 / reports, np.zeros(value.shape)


def _reaching(
    value: Floats, variance: Floats, quadratic: tuple[Floats, Floats, Floats]
) -> tuple[Floats, Floats, Floats]:
    """The same, and at the nearest proportion to an estimate no less than its variance."""
    A, B, C = quadratic
    middle = np.clip(value, 0, 1)
    here = A + B * middle + C * middle**2
    short = np.where(variance > here, variance - np.maximum(here, 0), 0.0)
    # By a factor, so that a proportion of 0 or 1 stays as certain as the design has it.
    factor = 1 + np.divide(short, here, out=np.zeros(value.shape), where=here > 0.01 * variance)
    return A * factor + np.where(here > 0.01 * variance, 0.0, short), B * factor, C * factor
