"""Intervals from the likelihood: exact ones for two-valued reports, profiles for all others.

Unlike Wald's they stay within [0, 1], and they are good near its ends and for few reports.

Also here: intervals of a binomial proportion by likelihood-ratio ordering, with exact ends.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from ppdm_dask.arrays import Floats
from ppdm_dask.designs.matching import bound_to
from ppdm_dask.distributions import binomial_cdf, binomial_tail, logistic, x_log1p_y, x_log_y
from ppdm_dask.errors import InputError
from ppdm_dask.inference.likelihood import mle
from ppdm_dask.inference.maximum import MAX_DENSE, channel, log_likelihood, maximise
from ppdm_dask.inference.result import Interval
from ppdm_dask.inference.tables import along_blocks, check_table
from ppdm_dask.inference.uncertainty import normal_quantile

if TYPE_CHECKING:
    from ppdm_dask.designs.base import Design
    from ppdm_dask.inference.tables import ContingencyTable


ROUNDING = 1e-12
"""Relative error that a breakpoint of the ordering may have; ends move outwards by it."""


def feldman_cousins(
    yes: int, n: int, if_false: float, if_true: float, level: float = 0.95
) -> tuple[float, float]:
    r"""Interval of a proportion pi from a binomial count, by likelihood-ratio ordering.

    Of x reports of yes among n, the likelihood ratio of a pi is

    .. math:: R(x; \pi) = \frac{L(x; \pi)}{\max_{\pi'} L(x; \pi')}, \qquad
        L(x; \pi) = \lambda^x (1 - \lambda)^{n - x}, \qquad \lambda = a + (b - a) \pi

    A pi is accepted unless the counts whose ratio is no greater than the observed one's have a
    probability under pi of 1 - level or less.  Accepted proportions may leave gaps; the interval
    reaches from the least to the largest of them.  So it is never empty, and coverage is at least
    the level; with few reports it can be well above, for counts are discrete.

    Parameters
    ----------
    yes, n : int
    if_false, if_true : float
        a and b, probabilities of a yes from a record outside and inside the event; different.
    level : float in (0, 1)

    References
    ----------
    [FeldmanCousins]_
    """
    normal_quantile(level)
    a, b = if_false, if_true
    if not (0 <= min(a, b) < max(a, b) <= 1) or not 0 <= yes <= n or n < 1:
        raise InputError(
            f"yes = {yes} of n = {n}, reported with {a} or {b}: 0 <= yes <= n, n of 1 or more and "
            "different probabilities are needed",
            (yes, n, a, b),
        )
    least, most = min(a, b), max(a, b)
    high = _part(_largest(yes, n, least, most, 1 - level), least, most)
    low = 1 - _part(_largest(n - yes, n, 1 - most, 1 - least, 1 - level), 1 - most, 1 - least)
    return (low, high) if a < b else (1 - high, 1 - low)


def _part(share: float, low: float, high: float) -> float:
    """How far a share lies between two others: 1 for the higher one, exactly."""
    return min(max((share - low) / (high - low), 0.0), 1.0)


def _largest(yes: int, n: int, a: float, b: float, alpha: float) -> float:
    """The largest share of yes in [a, b] that is accepted, at or above the most likely one.

    For a share s above that, the counts that are no likelier than the observed one are those up to
    it and those from some t on: count x is one of them as long as s is at most sigma(x), at which
    the ratios of x and of the observed count are equal.  That is where the line through their
    largest log likelihoods h has the slope logit(s); h is convex, so sigma rises with x.  Between
    two neighbouring sigma the tail is one minus the probability of a range of counts, which rises
    and then falls with s: the tail is largest at an end.  So ends and one root are all there is.
    """
    best = min(max(yes / n, a), b)
    if yes == n or best >= b:
        return b

    def tail(share: Floats, first: npt.NDArray[np.int64]) -> Floats:
        """Probability of counts up to the observed one, and from `first` on."""
        return np.asarray(
            binomial_cdf(yes, n, share)
            + np.where(first > n, 0.0, binomial_tail(first - 1, n, share))
        )

    far = _unlikely(yes, n, best, a, b, alpha / 2)
    last = _count_at(far, yes, n, a, b)
    counts = np.arange(yes + 1, last + 1)
    edges = np.minimum(_sigma(counts, yes, n, a, b) * (1 + ROUNDING), b)
    edges = np.maximum.accumulate(np.maximum(edges, best))
    # Pieces between edges: `counts[j]` is the first of the upper tail up to `edges[j]`.
    stops = np.append(edges, max(far, float(edges[-1]) if len(edges) else far))
    starts = np.concatenate([[best], edges])
    first = np.append(counts, last + 1)
    at_stop, at_start = tail(stops, first) > alpha, tail(starts, first) > alpha
    piece = int(np.flatnonzero(at_stop | at_start)[-1])
    if at_stop[piece]:
        return float(stops[piece])
    low, high = float(starts[piece]), float(stops[piece])
    here = first[piece : piece + 1]
    for _ in range(200):
        middle = (low + high) / 2
        if not low < middle < high:
            break
        low, high = (middle, high) if tail(np.array([middle]), here)[0] > alpha else (low, middle)
    return high


def _log_ratio(share: float, yes: int, best: float, n: int) -> float:
    """Log likelihood of a share less that of the most likely one."""
    up = 0.0 if not yes else yes * math.log(share / best)
    down = 0.0
    if yes < n:
        down = -math.inf if share >= 1 else (n - yes) * math.log1p((best - share) / (1 - best))
    return up + down


def _unlikely(yes: int, n: int, best: float, a: float, b: float, ratio: float) -> float:
    """A share above which the likelihood ratio is below `ratio`, and either tail too (Chernoff)."""
    bound = math.log(ratio)
    low, high = best, b
    if _log_ratio(b, yes, best, n) >= bound:
        return b
    for _ in range(100):
        middle = (low + high) / 2
        if not low < middle < high:
            break
        low, high = (middle, high) if _log_ratio(middle, yes, best, n) >= bound else (low, middle)
    return high


def _sigma(x: npt.NDArray[np.int64], yes: int, n: int, a: float, b: float) -> Floats:
    """Shares up to which counts x above the observed one have no greater ratio than it has."""
    here, there = min(max(yes / n, a), b), np.clip(x / n, a, b)
    if 0 < here < 1:
        # Differences of h by what the shares differ: h itself is large and would lose digits.
        change = there - here
        rise = x_log1p_y(x, change / here) + x_log1p_y(n - x, -change / (1 - here))
        slope = rise / (x - yes) + math.log(here / (1 - here))
    else:
        slope = (x_log_y(x, there) + x_log1p_y(n - x, -there)) / (x - yes)
    return np.asarray(logistic(slope))


def _count_at(share: float, yes: int, n: int, a: float, b: float) -> int:
    """The first count above the observed one with sigma of the share or more; n if none has."""
    low, high = yes, n
    while high - low > 1:
        middle = (low + high) // 2
        if _sigma(np.array([middle]), yes, n, a, b)[0] * (1 + ROUNDING) >= share:
            high = middle
        else:
            low = middle
    return high


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
