"""Bootstrap over the counts of reports."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ppdm_dask.arrays import Floats
from ppdm_dask.designs.matching import bound_to
from ppdm_dask.inference.blocks import along_blocks, check_table
from ppdm_dask.inference.inversion import invert
from ppdm_dask.inference.moments import normal_quantile
from ppdm_dask.ranges import whole

if TYPE_CHECKING:
    from ppdm_dask.designs.base import Design
    from ppdm_dask.inference.inversion import Estimate
    from ppdm_dask.inference.tables import ContingencyTable

__all__ = ["Bootstrap", "bootstrap"]


@dataclass(frozen=True, eq=False)
class Bootstrap:
    """Estimates from resampled reports, for the population behind the records.

    After a maximum likelihood or a projection that ends on the boundary of the simplex they are no
    guide to its errors: there the bootstrap fails.  Nor does it see what nobody reported: where no
    resample differs there are no errors, and where an interval has no width there is none.

    Parameters
    ----------
    estimate : Estimate
        From the reports themselves.
    values : array, shape (repeats, ...)
        From each resample.
    """

    estimate: Estimate
    values: Floats

    @property
    def standard_error(self) -> Floats:
        """Standard deviation over resamples, shape of the estimate; not a number where it is 0."""
        spread = self.values.std(axis=0, ddof=1)
        return np.asarray(np.where(self._same(*self._range), np.nan, spread))

    @property
    def _range(self) -> tuple[Floats, Floats]:
        return self.values.min(axis=0), self.values.max(axis=0)

    def _same(self, lower: Floats, upper: Floats) -> npt.NDArray[np.bool_]:
        """Where two ends differ by rounding at most; a single category is 1 for certain."""
        scale = 1e-12 * np.maximum(np.abs(lower), 1)
        return np.asarray((upper - lower <= scale) & (self.estimate.values.size > 1))

    @property
    def covariance(self) -> Floats:
        """Covariance of the flattened values, shape (cells, cells)."""
        return np.cov(self.values.reshape(len(self.values), -1), rowvar=False).reshape(
            self.estimate.values.size, -1
        )

    def interval(self, level: float = 0.95) -> tuple[Floats, Floats]:
        """Percentile intervals: lower and upper ends, of the shape of the estimate.

        Not numbers where both ends are one.
        """
        normal_quantile(level)
        ends = [(1 - level) / 2, (1 + level) / 2]
        lower, upper = np.quantile(self.values, ends, axis=0)
        none = self._same(lower, upper)
        return np.where(none, np.nan, lower), np.where(none, np.nan, upper)


def bootstrap(
    table: ContingencyTable,
    design: Design,
    fit: Callable[..., Any],
    *,
    repeats: int = 1_000,
    seed: int = 0,
) -> Bootstrap:
    """Resample the reports with replacement, and estimate from each resample.

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
    return Bootstrap(first, values)
