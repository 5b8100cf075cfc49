"""Unbiased joint proportions from disguised counts, by inverting the design.

Inverting a contingency table sums event weights (:mod:`ppdm_dask.inference.weights`), grouped by
cell.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from ppdm_dask.arrays import Floats
from ppdm_dask.designs.matching import bound_to, covering
from ppdm_dask.errors import InputError
from ppdm_dask.inference.evidence import evidence_of
from ppdm_dask.inference.fit import fit_of_table
from ppdm_dask.inference.laws import law_of_cells, lift, told_cells
from ppdm_dask.inference.result import Estimate, labels_of
from ppdm_dask.inference.tables import ContingencyTable, check_table, solve_blocks
from ppdm_dask.inference.uncertainty import Estimand, check_estimand, mean_variance

if TYPE_CHECKING:
    from ppdm_dask.data.codebook import Records
    from ppdm_dask.designs.base import Design


MAX_COVARIANCE = 4_096


def _covariance(
    table: ContingencyTable,
    design: Design,
    names: tuple[str, ...],
    values: Floats,
    estimand: Estimand,
) -> Floats:
    """Covariance of inverted proportions: B diag(observed) B^T, less what is not noise."""
    cells, n, flat = table.counts.size, table.n, values.ravel()
    if cells > MAX_COVARIANCE:
        raise InputError(f"covariance of {cells} cells; at most {MAX_COVARIANCE} are made", table)
    if n < 2:
        return np.full((flat.size, flat.size), np.nan)
    # The second axis goes by a name that no attribute has.
    axes, over = (*table.attributes, ""), (*names, "")
    second = np.diag(table.counts.ravel() / n)
    for _ in range(2):
        second = second.reshape(*table.counts.shape, -1)
        second = solve_blocks(second, axes, design, over).reshape(flat.size, -1).T
    if estimand == "population":
        result: Floats = (second - np.outer(flat, flat)) / (n - 1)
    else:
        result = (second - np.diag(flat)) / n
    return result


def _marginal(
    table: ContingencyTable, design: Design, estimand: Estimand, names: tuple[str, ...]
) -> Estimate:
    # The table may hold more than the estimate: the rest of blocks that it cuts.
    table = table.marginal(covering(design, table.codebook.select(names).names))
    return _invert(table.dense(), design, names, estimand)


def _invert(
    table: ContingencyTable, design: Design, names: tuple[str, ...], estimand: Estimand
) -> Estimate:
    """Estimate over some attributes of a table that cuts no block it may not cut."""
    n = table.n
    observed = table.counts / n
    values = solve_blocks(observed, table.attributes, design, names)
    square = solve_blocks(observed, table.attributes, design, names, squared=True)
    codebook = table.codebook.select(names)
    law = law_of_cells(design, codebook, table.attributes)
    exact = estimand == "file" and told_cells(table, design, names)
    unbiased = mean_variance(values, square, n, estimand)
    variance, few = lift(unbiased, values, law, n, exact)
    return Estimate(
        labels_of(codebook),
        values,
        variance,
        n,
        "inversion",
        estimand,
        float((values < 0).mean()),
        few=few,
        unbiased=unbiased,
        moments=None if law is None else law.second_moments(values, square),
        tested=partial(fit_of_table, table, design),
        covariances=partial(_covariance, table, design, names, values, estimand),
        marginals=partial(_marginal, table, design, estimand),
        design_digest=table.design_digest,
    )


def invert(
    table: ContingencyTable, design: Design, *, estimand: Estimand = "population"
) -> Estimate:
    r"""Unbiased proportions from disguised counts: B applied to the observed proportions.

    Their covariance is estimated without bias, as for a sample of a population and for this file:

    .. math:: \hat p = B \hat P^*, \qquad S = B \operatorname{diag}(\hat P^*) B^T, \qquad
        C = \frac{S - \hat p \hat p^T}{n - 1} \quad \text{or} \quad
        \frac{S - \operatorname{diag}(\hat p)}{n}

    Parameters
    ----------
    table : ContingencyTable
        Counts of reports.
    design : Design
        The design that made them; attributes it does not cover count as undisguised.
    estimand : {"population", "file"}
        What the standard errors are about: the population behind the records, or these records.

    Raises
    ------
    NotInvertible
        Where a block of the design has no inverse.
    NotLumpable
        Where the table cuts a block that does not marginalise.
    RecordsError
        For a table without records, with too many cells, or of another design.

    References
    ----------
    Section III-B of [HuangDu]_; Eq. (1) of [ZhanMatwin]_ solved for P(A).
    """
    check_estimand(estimand)
    design = bound_to(table, design)
    table = check_table(table, design)
    return _invert(table, design, table.attributes, estimand)


def unbiased(
    reports: Records | ContingencyTable,
    design: Design,
    over: Iterable[str] | Mapping[str, Any],
    by: Iterable[str] = (),
    where: Mapping[str, Any] | None = None,
    *,
    estimand: Estimand = "population",
) -> Estimate:
    """Estimate by whichever evidence the question takes: inverted counts, or sums of weights.

    Parameters as of :func:`ppdm_dask.inference.evidence_of`.
    """
    evidence = evidence_of(reports, design, over, by, where)
    if isinstance(evidence, ContingencyTable):
        return invert(evidence, design, estimand=estimand).marginal(tuple(over))
    return evidence.estimate(estimand)
