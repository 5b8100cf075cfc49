"""Estimated proportions of events with what is known of their errors."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from ppdm_dask.inference.fit import Fit, fit_of_sums
from ppdm_dask.inference.moments import Estimand
from ppdm_dask.inference.score import IntervalMethod, intervals_of

__all__ = ["Proportion"]


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
            variance taken (:func:`ppdm_dask.inference.score.score_interval`); good for few
            reports and near 0 and 1.  *wald*: the estimate and its standard errors; good from about
            300 effective reports, away from 0 and 1.
        """
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
        inside, outside = (None, None) if self.moments is None else map(np.array, self.moments)
        size = float(self.n if self.size is None else self.size)
        variance = np.array(self.standard_error**2)
        return fit_of_sums(np.array(self.value), inside, outside, size, self.freedom, variance)
