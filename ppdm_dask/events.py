"""Unbiased weights of events, and the proportions that they estimate.

The weight ``w(E, y)`` of an event has expectation ``1_E(x)`` over the disguise, so its mean over
reports estimates P(E), and its sample variance over n that estimate's variance.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from ppdm_dask.errors import InputError, RecordsError
from ppdm_dask.tables import require_design, require_whole

if TYPE_CHECKING:
    from ppdm_dask.designs.base import Design
    from ppdm_dask.estimate.fit import Fit
    from ppdm_dask.estimate.score import IntervalMethod
    from ppdm_dask.records import Records, Reports

__all__ = [
    "Estimand",
    "Proportion",
    "answers_of",
    "check_estimand",
    "event_weights",
    "mean_variance",
    "normal_quantile",
    "proportion",
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
        raise InputError(f"estimand: got {estimand!r}; 'population' or 'file' is needed", estimand)


def normal_quantile(level: float) -> float:
    """Half width of a two-sided normal interval of a level in (0, 1), in standard errors."""
    if not 0 < level < 1:
        raise InputError(f"level: got {level!r}; a number between 0 and 1 is needed", level)
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
        return fit_of_sums(np.array(self.value), inside, outside, size, self.freedom)


def event_weights(reports: Reports, design: Design, event: Mapping[str, Any]) -> Floats:
    """Unbiased weights w(E, y), one a report: their mean estimates P(E).

    Parameters
    ----------
    reports : Reports
    design : Design
        The design that made them; attributes it does not cover count as undisguised.
    event : mapping of attribute to label or iterable of labels
        A conjunction over attributes.

    Returns
    -------
    array of float, shape (n,)

    Raises
    ------
    RecordsError
        If the reports were made by another design.
    NotLumpable
        If they lack a part of a block that the event needs.
    """
    require_design(reports, design)
    masks = reports.codebook.masks(event)
    weight = np.ones(len(reports))
    covered: set[str] = set()
    for block in design.blocks:
        covered.update(block.attributes)
        if any(name in masks for name in block.attributes):
            there = [name for name in block.attributes if name in reports.codebook.names]
            require_whole(block, there)
            part = block.marginal(there)
            assert part is not None
            weight *= part.weights(masks, answers_of(reports, there, part))
    for name, mask in masks.items():
        if name not in covered:
            weight *= mask[reports.column(name)]
    return weight


def answers_of(reports: Records, names: Sequence[str], block: Design) -> npt.NDArray[Any]:
    """What a block's weights are taken of: columns of codes, or packed sets."""
    if block.kind == "set":
        sets = getattr(reports, "sets", {})
        if names[0] not in sets:
            raise RecordsError(
                f"reports of {names[0]!r} hold no sets; the design makes some", block
            )
        bits: npt.NDArray[Any] = sets[names[0]]
        return bits
    return reports.codes[:, [reports.codebook.index(name) for name in names]]


def proportion(
    reports: Reports,
    design: Design,
    event: Mapping[str, Any],
    *,
    where: Mapping[str, Any] | None = None,
    estimand: Estimand = "population",
) -> Proportion:
    """Estimate the proportion of an event from reports.

    With survey weights d it is ``sum d w / sum d``; strata enter the standard error.

    Parameters
    ----------
    reports, design, event
        As in :func:`event_weights`.
    where : mapping of attribute to label or iterable of labels, optional
        Condition: the proportion is that of the event within it.
    estimand : {"population", "file"}
    """
    check_estimand(estimand)
    if where or reports.weights is not None or reports.strata is not None:
        from ppdm_dask.estimate.sums import sum_event

        return sum_event(reports, design, event, where).proportion(estimand)
    weights = event_weights(reports, design, event)
    n = len(weights)
    if not n:
        raise RecordsError("there are no reports; at least one is needed", reports)
    from ppdm_dask.estimate.floors import law_of_event, lift

    mean, square = np.array(math.fsum(weights) / n), np.array(math.fsum(weights**2) / n)
    law = law_of_event(design, reports.codebook.masks(event), reports.codebook.names)
    variance = mean_variance(mean, square, n, estimand)
    variance, few = lift(variance, mean, law, n, law is not None and law.told(estimand))
    moments = None
    if law is not None:
        inside, outside = law.second_moments(mean, square)
        moments = float(inside), float(outside)
    error = float(standard_error_of(variance))
    return Proportion(float(mean), error, n, estimand, moments, few=bool(few))
