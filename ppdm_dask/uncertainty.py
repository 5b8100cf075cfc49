"""Estimated proportions of events with what is known of their errors."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
import numpy.typing as npt

from ppdm_dask.errors import InputError
from ppdm_dask.ranges import real
from ppdm_dask.shown import given

if TYPE_CHECKING:
    from ppdm_dask.estimate.fit import Fit
    from ppdm_dask.estimate.score import IntervalMethod

__all__ = [
    "ROUNDING",
    "Estimand",
    "Proportion",
    "check_estimand",
    "mean_variance",
    "normal_quantile",
    "standard_error_of",
]

Floats = npt.NDArray[np.float64]
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


@dataclass(frozen=True)
class Proportion:
    """Estimated proportion of one event.

    Parameters
    ----------
    value : float
        Unbiased, but for conditions and survey weights, which make it a ratio; may lie outside
        [0, 1].
    standard_error : float
        For the estimand; not a number with fewer than two records, where an unbiased variance
        is below 0, or where the reports do not vary and yet say nothing for certain.
    n : int
        Reports.
    estimand : {"population", "file"}
    moments : pair of float, optional
        Second moments of the event's weight, of records inside of the event and outside; what a
        score interval is made of.
    size : float, optional
        Effective reports, where survey weights or a condition make them fewer.
    freedom : float, optional
        Degrees of freedom of a standard error that is of weighted, stratified or conditional sums.
    few : bool
        Whether fewer than ten reports carry the standard error.
    """

    value: float
    standard_error: float
    n: int
    estimand: Estimand
    moments: tuple[float, float] | None = None
    size: float | None = None
    freedom: float | None = None
    few: bool = False

    def interval(
        self, level: float = 0.95, method: IntervalMethod = "score"
    ) -> tuple[float, float]:
        """Confidence interval.

        Parameters
        ----------
        level : float in (0, 1)
        method : {"score", "wald"}
            Where the moments of the weights are not known (a learner's accuracy, combinations),
            both are Wald's.

            *score*: the proportions under which an estimate as far away is not rare, their own
            variance taken (:func:`ppdm_dask.estimate.score.score_interval`); good for few
            reports and near 0 and 1.  *wald*: the estimate and its standard errors; good from about
            300 effective reports, away from 0 and 1.
        """
        from ppdm_dask.estimate.score import intervals_of

        lower, upper = intervals_of(
            self.value,
            self.standard_error**2,
            self.moments,
            self.n if self.size is None else self.size,
            level=level,
            freedom=self.freedom,
            estimand=self.estimand,
            method=method,
            surveyed=self.freedom is not None,
            few=self.few,
        )
        return float(lower), float(upper)

    @property
    def reason(self) -> str:
        """Why there is no standard error; empty where there is one."""
        if not math.isnan(self.standard_error):
            return ""
        if self.n < 2:
            return "there are fewer than two reports"
        return "the reports vary too little to say, or a stratum has one of them only"

    @property
    def fit(self) -> Fit:
        """Whether the value is outside of [0, 1] by more than chance: see :class:`Fit`."""
        from ppdm_dask.estimate.fit import fit_of_sums

        inside, outside = (None, None) if self.moments is None else map(np.array, self.moments)
        size = float(self.n if self.size is None else self.size)
        variance = np.array(self.standard_error**2)
        return fit_of_sums(np.array(self.value), inside, outside, size, self.freedom, variance)
