"""Unbiased joint proportions from disguised counts, by inverting the design; and named repairs.

Inverting a contingency table sums event weights (:mod:`ppdm_dask.events`), grouped by cell.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ppdm_dask.errors import InputError
from ppdm_dask.estimate.blocks import check_table, solve_blocks
from ppdm_dask.estimate.repair import project_simplex
from ppdm_dask.events import (
    Estimand,
    check_estimand,
    mean_variance,
    normal_quantile,
    standard_error_of,
)
from ppdm_dask.matching import bound_to
from ppdm_dask.tables import (
    ContingencyTable,
    count,
    covering,
)

if TYPE_CHECKING:
    import xarray as xr

    from ppdm_dask.codebook import Codebook
    from ppdm_dask.designs.base import Design
    from ppdm_dask.records import Reports

__all__ = ["Estimate", "estimate_proportions", "invert"]

Floats = npt.NDArray[np.float64]

MAX_COVARIANCE = 4_096


@dataclass(frozen=True, eq=False)
class Estimate:
    """Estimated joint proportions of some attributes.

    Parameters
    ----------
    codebook : Codebook
        The attributes, in the order of the axes.
    values : float array, shape ``codebook.shape``
        Estimated proportions; inversion may leave the simplex.
    variance : float array of the same shape, or None
        Unbiased variance of each value; None after a repair, which has no formula for it.
    n : int
        Reports behind the estimate.
    method : str
        ``inversion``, ``projection``, ``maximum likelihood`` or ``em``.
    estimand : {"population", "file"}
    negative_share : float
        Share of cells whose inverted estimate is negative, kept through repairs.
    source : table and design, or None
        What further marginals and the covariance are computed from.
    reason : str
        Why there is no variance, where there is none.
    """

    codebook: Codebook
    values: Floats
    variance: Floats | None
    n: int
    method: str
    estimand: Estimand
    negative_share: float
    source: tuple[ContingencyTable, Design] | None = None
    reason: str = ""

    def _array(self, values: Floats, name: str) -> xr.DataArray:
        import xarray as xr

        names = self.codebook.names
        coords = {name: list(self.codebook[name].categories) for name in names}
        attrs = {"n": self.n, "method": self.method, "estimand": self.estimand}
        return xr.DataArray(values, dims=names, coords=coords, name=name, attrs=attrs)

    @property
    def proportions(self) -> xr.DataArray:
        """Estimated proportions; dimensions are attribute names, coordinates category labels."""
        return self._array(self.values, "proportions")

    @property
    def standard_error(self) -> xr.DataArray:
        """Standard error of each proportion, for the stated estimand, as in `Proportion`."""
        return self._array(standard_error_of(self._variance_or_refuse()), "standard_error")

    def _variance_or_refuse(self) -> Floats:
        if self.variance is None:
            reason = self.reason or f"a {self.method} has none by formula; use the inversion's"
            raise InputError(f"standard error: {reason}", self)
        return self.variance

    def _source_or_refuse(self) -> tuple[ContingencyTable, Design]:
        if self.source is None:
            raise InputError(
                "this estimate does not keep the counts behind it, for it is a repair or a sum "
                "over strata; estimate the attributes anew (estimate_joint has covariances)",
                self,
            )
        return self.source

    def interval(self, level: float = 0.95) -> xr.DataArray:
        """Wald intervals, with a last dimension ``bound`` of lower and upper."""
        half = normal_quantile(level) * standard_error_of(self._variance_or_refuse())
        both = np.stack([self.values - half, self.values + half], axis=-1)
        array = self._array(self.values, "interval")
        return array.expand_dims(bound=["lower", "upper"], axis=-1).copy(data=both)

    @cached_property
    def covariance(self) -> Floats:
        """Covariance of the flattened proportions, shape (cells, cells); computed when asked for.

        Raises
        ------
        InputError
            After a repair, or above 4,096 cells.
        """
        self._variance_or_refuse()
        table, design = self._source_or_refuse()
        cells = table.counts.size
        if cells > MAX_COVARIANCE:
            raise InputError(
                f"covariance of {cells} cells; at most {MAX_COVARIANCE} are made", self
            )
        flat = self.values.ravel()
        if self.n < 2:
            return np.full((flat.size, flat.size), np.nan)
        # B diag(observed) B^T; the second axis goes by a name that no attribute has.
        names, over = (*table.attributes, ""), (*self.codebook.names, "")
        second = np.diag(table.counts.ravel() / self.n)
        for _ in range(2):
            second = second.reshape(*table.counts.shape, -1)
            second = solve_blocks(second, names, design, over).reshape(flat.size, -1).T
        if self.estimand == "population":
            result: Floats = (second - np.outer(flat, flat)) / (self.n - 1)
        else:
            result = (second - np.diag(flat)) / self.n
        return result

    def marginal(self, attributes: Iterable[str]) -> Estimate:
        """The estimate over fewer attributes: inverted anew from the summed counts.

        Where that would cut a block that is not lumpable, the whole block is inverted and summed.
        """
        names = tuple(attributes)
        table, design = self._source_or_refuse()
        # The table may hold more than the estimate: the rest of blocks that it cuts.
        table = table.marginal(covering(design, self.codebook.select(names).names))
        return _invert(table.dense(), design, names, self.estimand)

    def project(self) -> Estimate:
        """The nearest point of the simplex: negative estimates are repaired, and said to be."""
        values = project_simplex(self.values.ravel()).reshape(self.values.shape)
        return replace(self, values=values, variance=None, method="projection", source=None)


def _invert(
    table: ContingencyTable, design: Design, names: tuple[str, ...], estimand: Estimand
) -> Estimate:
    """Estimate over some attributes of a table that cuts no block it may not cut."""
    n = table.n
    observed = table.counts / n
    values = solve_blocks(observed, table.attributes, design, names)
    square = solve_blocks(observed, table.attributes, design, names, squared=True)
    return Estimate(
        table.codebook.select(names),
        values,
        mean_variance(values, square, n, estimand),
        n,
        "inversion",
        estimand,
        float((values < 0).mean()),
        (table, design),
    )


def invert(
    table: ContingencyTable, design: Design, *, estimand: Estimand = "population"
) -> Estimate:
    """Unbiased proportions from disguised counts: B applied to the observed proportions.

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


def estimate_proportions(
    reports: Reports,
    design: Design,
    over: Iterable[str],
    *,
    where: Mapping[str, Any] | None = None,
    estimand: Estimand = "population",
) -> Estimate:
    """Unbiased joint proportions of some attributes, whatever the blocks of the design.

    Reports are counted and inverted; where they are sets, or have survey weights, strata or a
    condition, their event weights are summed (:func:`ppdm_dask.estimate.sum_weights`).

    Parameters
    ----------
    reports : Reports
    design : Design
        The design that made them.
    over : iterable of str
        Attributes.
    where : mapping of attribute to label or labels, optional
        Condition: proportions are within it, ratios of two estimates.
    estimand : {"population", "file"}
    """
    names = tuple(over)
    sets = any(b.kind == "set" and b.attributes[0] in names for b in design.blocks)
    surveyed = reports.weights is not None or reports.strata is not None
    if sets or surveyed or where:
        from ppdm_dask.estimate.sums import sum_weights

        return sum_weights(reports, design, names, where).estimate(estimand)
    return invert(count(reports, design, names), design, estimand=estimand).marginal(names)
