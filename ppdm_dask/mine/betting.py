"""p-values of association rules that hold for any number of reports, however rare some weights are.

Where few reports carry an error, no normal law holds.  What is tested is that a known function u of
a report has a mean of at most 0, and reports are counted by cell:

- u has one positive value, one negative and 0: given how many are not 0, the positive ones are
  binomial, with a chance of at most -lo / (hi - lo).  Of undisguised answers, independence is
  tested given both margins [Fisher, Statistical Methods for Research Workers, 1934].
- else by betting: anyone who stakes a share of his capital on each report, 0 < s <= 1 / -lo, has
  ``prod (1 + s u)`` in the end, which is expected to be at most 1 under the hypothesis.  So is the
  mean over stakes that are fixed beforehand, and one over it is a p-value by Markov's inequality
  [Waudby-Smith and Ramdas, Estimating means of bounded random variables by betting, JRSS B 86,
  2024, section 4; Wald, Sequential tests of statistical hypotheses, 1945].

By betting p is larger than a p-value of the right law, by a factor of 10 to 50 for p near .001: the
price of a bound that needs no law.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import numpy as np

from ppdm_dask.arrays import Bools, Floats, Ints

__all__ = ["By", "independence_p", "mean_p"]

By: TypeAlias = Literal["normal", "binomial", "hypergeometric", "betting"]

STAKES = 32
"""Shares that are staked, in a geometric series."""

ENTRIES = 1 << 21
"""Logarithms that are held at once."""

EQUAL = 1e-9
"""Relative difference of weights that is rounding."""

STEPS = np.linspace(-8, 8, 65)
"""Standard errors around the estimated share at which independence is looked at."""


def mean_p(u: Floats, counts: Ints) -> tuple[Floats, list[By]]:
    """p-values of hypotheses that a function of a report has a mean of at most 0.

    Parameters
    ----------
    u : array, shape (hypotheses, cells)
        Its value for each reported cell that can occur.
    counts : int array, shape (cells,)
        Reports.

    Returns
    -------
    p : array, shape (hypotheses,)
        ``P(p <= a) <= a`` for each a in [0, 1], whatever law the hypothesis allows.
    by : list of {"binomial", "betting"}
    """
    from scipy.stats import binom

    u = np.where(np.abs(u) <= EQUAL * np.abs(u).max(axis=1, keepdims=True), 0.0, u)
    low, high = u.min(axis=1, keepdims=True), u.max(axis=1, keepdims=True)
    width = EQUAL * (high - low)
    at_low, at_high = u <= low + width, u >= high - width
    simple = ((u == 0) | at_low | at_high).all(axis=1)
    low, high = low[:, 0], high[:, 0]
    gains, losses = (np.where(at & (u != 0), counts, 0).sum(axis=1) for at in (at_high, at_low))
    with np.errstate(invalid="ignore", divide="ignore"):
        chance = np.clip(-low / (high - low), 0, 1)
    p = np.asarray(binom.sf(gains - 1, gains + losses, chance), float)
    some = ~simple & (high > 0) & (low < 0)
    if some.any():
        stakes = _stakes(-low[some], high[some], counts.sum())
        step = max(ENTRIES // (STAKES * u.shape[1]), 1)
        places = np.flatnonzero(some)
        for at in range(0, len(places), step):
            rows = slice(at, at + step)
            p[places[rows]] = _markov(_log_mean(_wealth(u[places[rows]], counts, stakes[rows])))
    p[high <= 0] = 1.0
    return p, ["binomial" if each else "betting" for each in ~some]


def independence_p(both: Floats, first: Floats, second: Floats, counts: Ints) -> tuple[float, By]:
    """p-value of the hypothesis that P(both) is at most P(first) P(second).

    By betting: were q = P(second) known, the mean of ``both - q first`` would be tested; and a bet
    that the mean of ``second`` is not q refutes a wrong q.  Half of the capital is staked on each.
    Its least amount over all q is what can be relied on.  For one stake the logarithm is concave in
    q, so that between two q it is at least as large as at one of them.

    Parameters
    ----------
    both, first, second : array, shape (cells,)
        Weights of the events for each reported cell that can occur.
    counts : int array, shape (cells,)
    """
    n = int(counts.sum())
    if all(_is_zero_or_one(w) for w in (both, first, second)):
        from scipy.stats import hypergeom

        a, b, c = (int(counts[w > 0.5].sum()) for w in (both, first, second))
        return float(hypergeom.sf(a - 1, n, b, c)), "hypergeometric"
    share = float(counts @ second) / n
    error = float(np.sqrt(counts @ (second - share) ** 2)) / n
    q = np.unique(np.clip([0.0, *(share + error * STEPS), 1.0], 0, 1))[:, None]
    u = both - q * first
    ends = np.stack([both, both - first])
    log_of_rule = _log_mean(_between(u, counts, ends.min(), ends.max(), n))
    away = second - q
    ups = _between(away, counts, second.min() - 1, second.max(), n)
    downs = _between(-away, counts, -second.max(), 1 - second.min(), n)
    log_of_share = _log_mean(np.concatenate([ups, downs], axis=1))
    least = float(np.min(np.logaddexp(log_of_rule, log_of_share))) - np.log(2)
    return float(_markov(np.array([least]))[0]), "betting"


def _between(u: Floats, counts: Ints, low: float, high: float, n: int) -> Floats:
    """Least logarithm of the wealth between neighbouring rows of u, by stake."""
    if not low < 0 < high:
        return np.zeros((len(u) - 1, 1))
    stakes = _stakes(np.array([-low]), np.array([high]), n)
    wealth = _wealth(u, counts, np.broadcast_to(stakes, (len(u), STAKES)))
    return np.minimum(wealth[:-1], wealth[1:])


def _stakes(loss: Floats, gain: Floats, n: int) -> Floats:
    """Stakes from the largest down to what finds the smallest effect, shape (hypotheses, STAKES).

    A variance of u is at most loss * gain where its mean is 0, and the best stake for an effect of
    z standard errors is z / sqrt(variance n).
    """
    largest = 1 / loss
    least = np.minimum(1 / np.sqrt(loss * gain * max(n, 1)), largest)
    return np.asarray(np.geomspace(largest, least, STAKES, axis=1))


def _wealth(u: Floats, counts: Ints, stakes: Floats) -> Floats:
    """Logarithm of the wealth in the end, shape (hypotheses, stakes)."""
    seen = counts > 0
    with np.errstate(divide="ignore"):
        logs = np.log1p(np.maximum(stakes[:, :, None] * u[:, None, seen], -1.0))
    return np.asarray(logs @ counts[seen].astype(float))


def _log_mean(logs: Floats) -> Floats:
    return np.asarray(np.logaddexp.reduce(logs, axis=1) - np.log(logs.shape[1]))


def _markov(log_wealth: Floats) -> Floats:
    return np.exp(-np.maximum(log_wealth, 0.0))


def _is_zero_or_one(w: Floats) -> bool:
    near: Bools = np.minimum(np.abs(w), np.abs(w - 1)) <= EQUAL
    return bool(near.all())
