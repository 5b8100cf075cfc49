"""Intervals of a binomial proportion by likelihood-ratio ordering, with exact ends."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from ppdm_dask.errors import InputError
from ppdm_dask.estimate.moments import normal_quantile

__all__ = ["feldman_cousins"]

Floats = npt.NDArray[np.float64]

ROUNDING = 1e-12
"""Relative error that a breakpoint of the ordering may have; ends move outwards by it."""


def feldman_cousins(
    yes: int, n: int, if_false: float, if_true: float, level: float = 0.95
) -> tuple[float, float]:
    """Interval of a proportion pi from a binomial count, by likelihood-ratio ordering.

    Reports are yes with probability ``a + (b - a) pi``.  A pi is accepted unless the counts whose
    likelihood ratio ``L(pi) / max L`` is no greater than the observed one's have a probability
    under pi of 1 - level or less.  Accepted proportions may leave gaps; the interval reaches from
    the least to the largest of them.  So it is never empty, and coverage is at least the level;
    with few reports it can be well above, for counts are discrete.

    Parameters
    ----------
    yes, n : int
    if_false, if_true : float
        a and b, probabilities of a yes from a record outside and inside the event; different.
    level : float in (0, 1)

    References
    ----------
    G. J. Feldman, R. D. Cousins, "Unified approach to the classical statistical analysis of small
    signals", Physical Review D 57, 1998.
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
    from scipy.special import bdtr, bdtrc

    best = min(max(yes / n, a), b)
    if yes == n or best >= b:
        return b

    def tail(share: Floats, first: npt.NDArray[np.int64]) -> Floats:
        """Probability of counts up to the observed one, and from `first` on."""
        return np.asarray(
            bdtr(yes, n, share) + np.where(first > n, 0.0, bdtrc(first - 1, n, share))
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
    from scipy.special import expit, xlog1py, xlogy

    here, there = min(max(yes / n, a), b), np.clip(x / n, a, b)
    if 0 < here < 1:
        # Differences of h by what the shares differ: h itself is large and would lose digits.
        change = there - here
        rise = xlog1py(x, change / here) + xlog1py(n - x, -change / (1 - here))
        slope = rise / (x - yes) + math.log(here / (1 - here))
    else:
        slope = (xlogy(x, there) + xlog1py(n - x, -there)) / (x - yes)
    return np.asarray(expit(slope))


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
