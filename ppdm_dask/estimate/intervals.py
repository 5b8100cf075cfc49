"""Intervals from the likelihood: exact ones for two-valued reports, profiles for all others.

Unlike Wald's they stay within [0, 1], and they are good near its ends and for few reports.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from ppdm_dask.errors import InputError
from ppdm_dask.estimate.blocks import along_blocks, check_table
from ppdm_dask.estimate.interior import MAX_DENSE, channel, log_likelihood, maximise
from ppdm_dask.estimate.likelihood import mle
from ppdm_dask.estimate.moments import normal_quantile
from ppdm_dask.estimate.ordering import feldman_cousins
from ppdm_dask.matching import bound_to

if TYPE_CHECKING:
    from ppdm_dask.designs.base import Design
    from ppdm_dask.tables import ContingencyTable

__all__ = ["Interval", "event_interval", "profile_deviance"]

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Interval:
    """Confidence interval of one proportion, within [0, 1].

    Parameters
    ----------
    lower, upper : float
    level : float
    method : {"likelihood-ratio ordering", "profile likelihood"}
    """

    lower: float
    upper: float
    level: float
    method: str


def event_interval(
    table: ContingencyTable,
    design: Design,
    event: Mapping[str, Any],
    *,
    level: float = 0.95,
    method: Literal["auto", "profile"] = "auto",
) -> Interval:
    """Confidence interval of an event's proportion in the population behind the records.

    Where the event's weight takes two values over all possible reports, their count is binomial and
    the interval is by likelihood-ratio ordering (:func:`feldman_cousins`); so it is for every event
    on one attribute of a k-ary or unrelated-question design.  Else it is the profile likelihood's,
    which holds the maximum likelihood estimate; the count of one event does not know that other
    categories are at 0, and its interval need not hold it.

    Parameters
    ----------
    table : ContingencyTable
        Over the event's attributes at least, as ``count(reports, design, event)`` makes it.
    design : Design
        The design that made the reports.
    event : mapping of attribute to label or labels
    level : float in (0, 1)
    method : {"auto", "profile"}
        The profile likelihood even for two-valued reports.
    """
    normal_quantile(level)
    design = bound_to(table, design)
    table = check_table(table, design)
    inside = _indicator(table, event)
    weights = along_blocks(inside, table.attributes, design, "invert_transposed").ravel()
    uniform = np.full(table.codebook.shape, 1 / inside.size)
    possible = along_blocks(uniform, table.attributes, design, "apply").ravel() > 0
    counts = table.counts.ravel()
    low, high = float(weights[possible].min()), float(weights[possible].max())
    is_high = weights > (low + high) / 2
    nearest = np.where(is_high, high, low)
    two = bool((np.abs(weights - nearest)[possible] <= 1e-9 * max(high - low, 1)).all())
    if method == "auto" and two and high > low:
        # E[w | x] is 1 in the event and 0 outside, which gives both probabilities of a high weight.
        a, b = -low / (high - low), (1 - low) / (high - low)
        yes = int(counts[is_high].sum())
        ends = feldman_cousins(yes, table.n, max(a, 0.0), min(b, 1.0), level)
        return Interval(*ends, level, "likelihood-ratio ordering")
    if not 0 < inside.sum() < inside.size:
        sure = float(inside.any())
        return Interval(sure, sure, level, "profile likelihood")
    critical = normal_quantile(level) ** 2
    deviance, best = profile_deviance(table, design, event)

    def accepted(pi: float) -> bool:
        return deviance(pi) <= critical

    lower, upper = (_root(accepted, best, end) for end in (0.0, 1.0))
    return Interval(lower, upper, level, "profile likelihood")


def _indicator(table: ContingencyTable, event: Mapping[str, Any]) -> Floats:
    inside = np.ones(table.codebook.shape)
    for name, mask in table.codebook.masks(event).items():
        shape = [1] * inside.ndim
        shape[table.codebook.index(name)] = len(mask)
        inside = inside * mask.reshape(shape)
    return inside


def _root(accepted: Callable[[float], bool], best: float, end: float) -> float:
    """Where a deviance that is convex in the proportion passes the critical value, to 1e-8."""
    if accepted(end):
        return end
    low, high = end, best
    while abs(high - low) > 1e-8:
        middle = (low + high) / 2
        low, high = (low, middle) if accepted(middle) else (middle, high)
    return high


def profile_deviance(
    table: ContingencyTable, design: Design, event: Mapping[str, Any]
) -> tuple[Callable[[float], float], float]:
    """Twice the loss of log likelihood where the event is held at a proportion, and its MLE.

    Raises
    ------
    InputError
        Above 2,048 cells; count over fewer attributes.
    """
    design = bound_to(table, design)
    table = check_table(table, design)
    inside = _indicator(table, event).ravel() > 0
    if max(inside.size, table.counts.size) > MAX_DENSE:
        raise InputError(
            f"{table.counts.size} reported cells are too many for a profile (at most {MAX_DENSE})",
            table,
        )
    P, observed = channel(table, design), table.counts.ravel() / table.n
    best = mle(table, design).values.ravel()
    top = log_likelihood(P, observed, best)

    def deviance(pi: float) -> float:
        keep = np.ones(inside.size, bool)
        if pi <= 0 or pi >= 1:
            keep = inside if pi >= 1 else ~inside
        start = np.where(inside, pi / inside.sum(), (1 - pi) / (~inside).sum())[keep]
        parts = np.stack([inside, ~inside]).astype(float)[:, keep]
        A = parts[parts.any(axis=1)]
        if log_likelihood(P[:, keep], observed, start) == -np.inf:
            return math.inf
        p, _ = maximise(P[:, keep], observed, A, start)
        return max(2 * table.n * (top - log_likelihood(P[:, keep], observed, p)), 0.0)

    return deviance, float(best[inside].sum())
