"""Do reports contradict the design?  Tests of whether any true proportions could have made them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from ppdm_dask.arrays import Floats
from ppdm_dask.distributions import binomial_cdf, binomial_tail, chi2_tail, normal_tail, t_tail
from ppdm_dask.errors import RecordsError
from ppdm_dask.inference.maximum import MAX_DENSE, maximum, whole_mixture
from ppdm_dask.inference.tables import along_blocks, check_table

if TYPE_CHECKING:
    from ppdm_dask.designs.base import Design
    from ppdm_dask.inference.tables import ContingencyTable


ALARM = 0.01
"""p-value below which reports are said to contradict the design or the answers."""

EXPECTED = 5
"""Least expected reports of a symbol for which a likelihood ratio is near its limit law."""

FEW = 30
"""Effective reports below which weighted sums are not taken for normal."""

MAX_CATEGORIES = 256
"""True categories up to which the maximum of the likelihood is looked for without a closed form."""

BOUNDARY = 1e-9
"""Proportion up to which a category is on the boundary of the simplex."""


@dataclass(frozen=True)
class Fit:
    """Whether some true proportions, with the design, make reports such as these likely.

    Where they do not, the reports were made by another design or read with another codebook, or
    people did not answer as the design has them answer.

    Parameters
    ----------
    p_value : float
        No smaller than the probability of a fit that is as bad, by chance alone; not a number where
        there is no test.
    statistic : float
        Twice the loss of log likelihood, or the number of standard errors; not a number where
        binomial tails were added up.
    freedom : int
        Degrees of freedom of the likelihood ratio: symbols beyond categories, and categories that
        are at 0 in the best fit; 0 where the fit is perfect, and for other tests.
    method : str
        ``likelihood ratio``, ``binomial tails``, ``standard errors`` or, with neither, empty.
    reason : str
        Why there is no test, where there is none.

    References
    ----------
    [Susko]_: counting the constraints that hold at the maximum keeps the level, whatever the true
    proportions are.
    """

    p_value: float
    statistic: float = math.nan
    freedom: int = 0
    method: str = ""
    reason: str = ""

    @property
    def contradicts(self) -> bool:
        """Whether the p-value is below 1 %."""
        return self.p_value < ALARM


def fit_of_table(table: ContingencyTable, design: Design) -> Fit:
    """Test counts of reports against the design.

    The likelihood ratio of any law of the reports against the best law ``P p`` with p in the
    simplex.  Where a symbol is expected fewer than five times, or there are too many categories,
    exact binomial tails instead: whatever the truth is, symbol y has a probability between the
    least and the largest P[y, x].  They see less, and p is multiplied by the number of symbols.

    Parameters
    ----------
    table : ContingencyTable
    design : Design
    """
    table = check_table(table, design)
    names, shape, n = table.attributes, table.codebook.shape, table.n
    square = table.sizes == shape
    if square and (along_blocks(table.counts / n, names, design, "invert") >= 0).all():
        # Inside of the simplex the inversion is the truth that makes these very shares.
        return Fit(1.0, 0.0, 0, "likelihood ratio")
    best = _best(table, design)
    if best is not None:
        expected = n * along_blocks(best, names, design, "apply").ravel()
        observed = table.counts.ravel()
        possible = expected > n * 1e-12
        if expected[possible].min() >= EXPECTED:
            seen = observed > 0
            ratio = observed[seen] / expected[seen]
            statistic = max(2 * math.fsum(observed[seen] * np.log(ratio)), 0.0)
            zeros = int((best <= BOUNDARY).sum())
            freedom = int(possible.sum()) - best.size + zeros
            p = float(chi2_tail(statistic, freedom)) if freedom > 0 else 1.0
            return Fit(p, statistic, max(freedom, 0), "likelihood ratio")
    return _by_tails(table, design)


def _best(table: ContingencyTable, design: Design) -> Floats | None:
    """The most likely proportions, where they are to be had quickly."""
    few = math.prod(table.codebook.shape) <= MAX_CATEGORIES and table.counts.size <= MAX_DENSE
    if not few and whole_mixture(design, table.attributes) is None:
        return None
    try:
        return maximum(table, design)[0]
    except RecordsError:
        return None  # reports that no truth makes: the tails say so


def _by_tails(table: ContingencyTable, design: Design) -> Fit:
    low, high = _chances(table, design)
    counts, n = table.counts.ravel(), table.n
    below = binomial_cdf(counts, n, np.clip(low, 0, 1))
    above = binomial_tail(counts - 1, n, np.clip(high, 0, 1))
    p = min(float(np.minimum(below, above).min()) * 2 * counts.size, 1.0)
    return Fit(p, method="binomial tails")


def _chances(table: ContingencyTable, design: Design) -> tuple[Floats, Floats]:
    """Least and largest probability of each reported symbol, over all truths."""
    names = table.attributes
    low, high, order = np.ones(()), np.ones(()), list[str]()
    for block in design.blocks:
        kept = [name for name in block.attributes if name in names]
        if not kept:
            continue
        part = block.marginal(kept)
        assert part is not None
        least, most = part.likelihood_range()
        low = np.multiply.outer(low, least.reshape(part.reported_shape))
        high = np.multiply.outer(high, most.reshape(part.reported_shape))
        order += part.attributes
    for name, size in zip(names, table.sizes, strict=True):
        if name not in order:
            low = np.multiply.outer(low, np.full(size, float(size == 1)))
            high = np.multiply.outer(high, np.ones(size))
            order.append(name)
    axes = [order.index(name) for name in names]
    return low.transpose(axes).ravel(), high.transpose(axes).ravel()


def fit_of_sums(
    value: Floats,
    inside: Floats | None,
    outside: Floats | None,
    size: float,
    freedom: float | None,
    variance: Floats | None = None,
) -> Fit:
    """Test whether estimated proportions are outside of [0, 1] by more than chance.

    For sums of weights, of sets or with survey weights, which no likelihood is of.  The number of
    standard errors that an estimate is beyond 0 or 1, by the variance that its weights have there;
    p is multiplied by the number of estimates.

    Parameters
    ----------
    value : array
    inside, outside : arrays or None
        Second moments of the weights in and outside of the events.
    size : float
        Effective reports.
    freedom : float or None
        Degrees of freedom of the standard errors; None for normal ones.
    variance : array, optional
        Variances of the estimates. Those of ratios hold the error of a disguised condition, which
        the moments of an event that is not disguised know nothing of; the larger one is taken.
    """
    if inside is None or outside is None:
        return Fit(math.nan, reason="the variance of weights at 0 and 1 is not known")
    beyond = np.maximum(np.maximum(-value, value - 1), 0)
    spread = np.where(value < 0, outside, np.maximum(inside - 1, 0))
    out = beyond > 1e-9
    if not out.any():
        return Fit(1.0, 0.0, 0, "standard errors")
    if size < FEW:
        return Fit(math.nan, reason=f"there are fewer than {FEW} effective reports")
    with np.errstate(divide="ignore"):
        known = np.nan if variance is None else variance
        error = np.asarray(np.sqrt(np.fmax(spread / size, known)))
        z = float((beyond[out] / error[out]).max())
    tail = float(normal_tail(z) if freedom is None else t_tail(z, max(freedom, 1)))
    return Fit(min(tail * value.size, 1.0), z, 0, "standard errors")


def fit_of_parts(fits: Sequence[Fit]) -> Fit:
    """The worst fit of independent estimates, its p-value times their number."""
    known = [fit for fit in fits if not math.isnan(fit.p_value)]
    if not known:
        return fits[0]
    worst = min(known, key=lambda fit: fit.p_value)
    return replace(worst, p_value=min(worst.p_value * len(known), 1.0))
