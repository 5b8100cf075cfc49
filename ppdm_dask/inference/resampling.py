"""Bootstrap over the counts of reports."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ppdm_dask.designs.matching import bound_to
from ppdm_dask.inference.inversion import invert
from ppdm_dask.inference.result import Estimate, same_ends
from ppdm_dask.inference.tables import along_blocks, check_table
from ppdm_dask.ranges import whole

if TYPE_CHECKING:
    from ppdm_dask.designs.base import Design
    from ppdm_dask.inference.tables import ContingencyTable


def bootstrap(
    table: ContingencyTable,
    design: Design,
    fit: Callable[..., Any],
    *,
    repeats: int = 1_000,
    seed: int = 0,
) -> Estimate:
    """Resample the reports with replacement, and estimate from each resample.

    The errors are about the population behind the records.  After a maximum likelihood or a
    projection that ends on the boundary of the simplex they are no guide: there the bootstrap
    fails.  Nor does it see what nobody reported: where no resample differs there is no error, and
    where an interval has no width there is none.

    Parameters
    ----------
    table, design
        As in :func:`ppdm_dask.invert`.
    fit : callable
        ``fit(table, design)`` returns an estimate: :func:`ppdm_dask.invert`, ``mle``, ``em``, or a
        repair of one.
    repeats : int
        2 or more.
    seed : int
        Of the resamples; one seed gives the same ones each time.

    Returns
    -------
    Estimate
        The estimate from the reports themselves; standard errors, covariance and percentile
        intervals are those of its ``replicates``, shape (repeats, ...).
    """
    whole("repeats", repeats, 2)
    whole("seed", seed, 0)
    design = bound_to(table, design)
    table = check_table(table, design)
    sequence = np.random.SeedSequence(seed)
    generator = np.random.Generator(np.random.SFC64(sequence))
    shares = table.counts.ravel() / table.n
    first: Estimate = fit(table, design)
    drawn = generator.multinomial(table.n, shares, size=repeats).astype(np.int64)
    drawn = drawn.reshape(repeats, *table.counts.shape)
    if fit is invert:
        # Linear: all resamples at once.
        stacked = np.moveaxis(drawn / table.n, 0, -1)
        values = np.moveaxis(along_blocks(stacked, table.attributes, design, "invert"), -1, 0)
    else:
        values = np.stack([fit(replace(table, counts=counts), design).values for counts in drawn])
    lower, upper = values.min(axis=0), values.max(axis=0)
    # A single category is 1 for certain.
    flat = same_ends(lower, upper) & (first.values.size > 1)
    variance = np.where(flat, np.nan, values.var(axis=0, ddof=1))
    return Estimate(
        first.labels,
        first.values,
        variance,
        table.n,
        "bootstrap",
        negative_share=first.negative_share,
        replicates=values,
        tested=first.tested,
        design_digest=first.design_digest,
    )
