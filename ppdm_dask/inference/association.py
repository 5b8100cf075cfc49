"""Are two attributes independent?  Tests on disguised reports."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ppdm_dask.arrays import sum_rounding
from ppdm_dask.designs.matching import bound_to, covering
from ppdm_dask.distributions import chi2_tail
from ppdm_dask.errors import InputError
from ppdm_dask.inference.inversion import invert
from ppdm_dask.inference.tables import check_table, solve_blocks
from ppdm_dask.shown import given, shown

if TYPE_CHECKING:
    from ppdm_dask.designs.base import Design
    from ppdm_dask.inference.result import Estimate
    from ppdm_dask.inference.tables import ContingencyTable


DEGENERATE = 1e-12
"""Directions whose variance is a smaller share of the largest do not vary."""


@dataclass(frozen=True)
class Association:
    """A chi-square test that two attributes are independent.

    Parameters
    ----------
    statistic : float
    freedom : int
        Degrees of freedom; 0 where an attribute has one category, and then the statistic is 0.
    p_value : float
    method : str
    cramers_v : float
        Of the estimated true proportions, raw: for few reports noise raises it.  Not a number where
        an attribute has one category, or an estimated margin is not positive.
    reason : str
        Why Cramer's V is not a number; empty where it is one.
    """

    statistic: float
    freedom: int
    p_value: float
    method: str
    cramers_v: float
    reason: str = ""


def _pair(table: ContingencyTable, design: Design, first: str, second: str) -> ContingencyTable:
    if first == second:
        raise InputError(f"two different attributes are needed; got {given(first)} twice", first)
    table.codebook.select([first, second])
    table = check_table(table, design)
    return table.marginal(covering(design, (first, second)))


def _cramers_v(estimate: Estimate, table: ContingencyTable, design: Design) -> tuple[float, str]:
    """Cramer's V of estimated proportions; or not a number, with the reason."""
    joint, (first, second) = estimate.values, tuple(estimate.labels)
    smaller = min(joint.shape) - 1
    if not smaller:
        alone = first if joint.shape[0] == 1 else second
        return math.nan, f"{shown(alone)} has a single category"
    margins, observed = [joint.sum(axis=1), joint.sum(axis=0)], table.counts / table.n
    squares = solve_blocks(observed, table.attributes, design, (first, second), squared=True)
    for name, margin, axis in zip((first, second), margins, (1, 0), strict=True):
        # (sum of m weights)^2 <= m sum weights^2, so this bounds what rounding leaves of a 0.
        noise = sum_rounding(joint.shape[axis] * squares.sum(axis=axis), joint.size)
        least = int(margin.argmin())
        if margin[least] <= noise[least]:
            value = margin[least] if margin[least] < -noise[least] else 0.0
            label = estimate.labels[name][least]
            return (
                math.nan,
                f"the estimated proportion of {shown(name)} = {shown(label)} is {value:.4g}",
            )
    expected = np.outer(*margins)
    return float(np.sqrt(((joint - expected) ** 2 / expected).sum() / smaller)), ""


def _result(
    statistic: float,
    freedom: int,
    method: str,
    estimate: Estimate,
    table: ContingencyTable,
    design: Design,
) -> Association:
    p_value = float(chi2_tail(statistic, freedom)) if freedom else 1.0
    return Association(statistic, freedom, p_value, method, *_cramers_v(estimate, table, design))


def independence_test(
    table: ContingencyTable, design: Design, first: str, second: str
) -> Association:
    """Pearson's chi-square on the reports themselves.

    Reports of attributes in different blocks are disguised independently, so they are independent
    if the truth is.  Symbols that were never reported are left out.

    Raises
    ------
    InputError
        If one block disguises both: then reports may depend where the truth does not.
    """
    for block in design.blocks:
        if first in block.attributes and second in block.attributes:
            raise InputError(
                f"{shown(first)} and {shown(second)} are disguised together by {block.id!r}: "
                "their reports "
                "may depend on one another for that reason; use association_test",
                block,
            )
    design = bound_to(table, design)
    pair = _pair(table, design, first, second)
    estimate = invert(pair, design).marginal([first, second])
    counts = pair.marginal([first, second]).counts.astype(float)
    if pair.attributes != (first, second) and set(pair.attributes) != {first, second}:
        raise InputError(
            f"a block of {shown(first)} or {shown(second)} is not lumpable; use association_test",
            design,
        )
    counts = counts[counts.sum(axis=1) > 0][:, counts.sum(axis=0) > 0]
    expected = np.outer(counts.sum(axis=1), counts.sum(axis=0)) / counts.sum()
    statistic = float(((counts - expected) ** 2 / expected).sum())
    freedom = (counts.shape[0] - 1) * (counts.shape[1] - 1)
    return _result(statistic, freedom, "chi-square of the reports", estimate, pair, design)


def association_test(
    table: ContingencyTable, design: Design, first: str, second: str
) -> Association:
    r"""Wald's chi-square of the estimated true proportions, whatever the blocks.

    Over all but the last category of each attribute, with V by the delta method from the covariance
    of the inversion,

    .. math:: X^2 = h^T V^{-1} h, \qquad h_{ij} = \hat p_{ij} - \hat p_i \hat p_j

    It needs enough reports for the estimates to be near normal.
    """
    design = bound_to(table, design)
    pair = _pair(table, design, first, second)
    estimate = invert(pair, design).marginal([first, second])
    joint = estimate.values
    r, c = joint.shape
    freedom = (r - 1) * (c - 1)
    if not freedom:
        return _result(0.0, 0, "Wald", estimate, pair, design)
    # Asked for first: it refuses as many cells as would make the slopes too large.
    covariance = estimate.covariance
    rows, columns = joint.sum(axis=1), joint.sum(axis=0)
    # d (p_ij - p_i. p_.j) / d p_kl = [ij = kl] - [i = k] p_.j - [j = l] p_i.
    i, j = (x.ravel()[:, None] for x in np.indices((r, c))[:, :-1, :-1])
    k, m = (x.ravel()[None, :] for x in np.indices((r, c)))
    same_i, same_j = (i == k).astype(float), (j == m).astype(float)
    slope = same_i * same_j - same_i * columns[j] - same_j * rows[i]
    h = (joint - np.outer(rows, columns))[:-1, :-1].ravel()
    V = slope @ covariance @ slope.T
    spread, directions = np.linalg.eigh(V)
    # Directions without variance are empty categories, whose contrasts are rounding errors.
    varies = spread > DEGENERATE * spread.max(initial=0.0)
    freedom = int(varies.sum())
    statistic = float(((h @ directions[:, varies]) ** 2 / spread[varies]).sum())
    return _result(statistic, freedom, "Wald", estimate, pair, design)
