"""Unbiased joint proportions from disguised counts, by inverting the design; and named repairs.

Inverting a contingency table sums event weights (:mod:`ppdm_dask.inference.events`), grouped by
cell.

Beside it: repairs of estimates that leave the simplex; each is asked for by name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from ppdm_dask.arrays import Floats
from ppdm_dask.designs.matching import bound_to, covering
from ppdm_dask.errors import InputError
from ppdm_dask.inference.blocks import check_table, solve_blocks
from ppdm_dask.inference.fit import Fit, fit_of_table
from ppdm_dask.inference.laws import law_of_cells, lift, told_cells
from ppdm_dask.inference.moments import Estimand, check_estimand, mean_variance, standard_error_of
from ppdm_dask.inference.tables import ContingencyTable
from ppdm_dask.inference.uncertainty import IntervalMethod, intervals_of
from ppdm_dask.ranges import reals

if TYPE_CHECKING:
    import xarray as xr

    from ppdm_dask.data.codebook import Codebook
    from ppdm_dask.designs.base import Design

__all__ = ["Estimate", "invert", "project_simplex"]


def project_simplex(values: Floats) -> Floats:
    """Euclidean projection onto the simplex, exact by sorting; shape (k,), k of 1 or more.

    Raises
    ------
    InputError
        For another shape, or values that are not finite.
    """
    values = reals("values", values, ndim=1)
    if not values.size:
        raise InputError("values: got none; one or more are needed", values)
    descending = np.sort(values)[::-1]
    excess = (np.cumsum(descending) - 1) / np.arange(1, len(values) + 1)
    support = int(np.flatnonzero(descending > excess)[-1])
    result: Floats = np.maximum(values - excess[support], 0.0)
    return result


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
        Variance of each value: unbiased, unless fewer than ten reports carry it; then it is at
        least what the design makes it whatever the truth is, and not a number where that is 0 too.
        None after a repair, which has no formula for it.
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
    few : bool array of the same shape, optional
        Where fewer than ten reports carry the variance.
    unbiased : float array of the same shape, optional
        The unbiased variances, before any of them was raised.
    moments : pair of float arrays of the same shape, optional
        Second moments of the cells' weights, of records inside of the cell and outside.
    size : float, optional
        Effective reports, where survey weights or a condition make them fewer.
    freedom : float, optional
        Degrees of freedom of variances that are of weighted, stratified or conditional sums.
    tested : callable, optional
        Makes the test of fit.
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
    few: npt.NDArray[np.bool_] | None = None
    unbiased: Floats | None = None
    moments: tuple[Floats, Floats] | None = None
    size: float | None = None
    freedom: float | None = None
    tested: Callable[[], Fit] | None = None

    @property
    def effective_size(self) -> float:
        """Reports that would say as much: ``(sum d F)^2 / sum d^2 F^2``.

        d are survey weights and F the weight of the condition; all reports without either.
        """
        return float(self.n if self.size is None else self.size)

    @cached_property
    def fit(self) -> Fit:
        """Whether the reports contradict the design: see :class:`ppdm_dask.inference.Fit`."""
        if self.tested is None:
            return Fit(float("nan"), reason="this estimate does not keep the reports behind it")
        return self.tested()

    def _apart(self, name: str) -> str:
        """A name that no attribute has."""
        while name in self.codebook.names:
            name += "_"
        return name

    def _array(self, values: Floats, name: str) -> xr.DataArray:
        import xarray as xr

        names, name = self.codebook.names, self._apart(name)
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

    def interval(self, level: float = 0.95, method: IntervalMethod = "score") -> xr.DataArray:
        """Intervals, with a last dimension ``bound`` of lower and upper.

        Its name is followed by ``_`` where an attribute has it.

        Parameters
        ----------
        level : float in (0, 1)
        method : {"score", "wald"}
            As in :meth:`ppdm_dask.Proportion.interval`; a maximum likelihood estimate has
            Wald's by either name, and :func:`ppdm_dask.inference.event_interval` makes better ones.
        """
        both = np.stack(self.ends(level, method), axis=-1)
        array = self._array(self.values, "interval")
        bound = {self._apart("bound"): ["lower", "upper"]}
        return array.expand_dims(bound, axis=-1).copy(data=both)

    def ends(self, level: float = 0.95, method: IntervalMethod = "score") -> tuple[Floats, Floats]:
        """Lower and upper ends of :meth:`interval`, of the shape of the estimate."""
        return intervals_of(
            self.values,
            self._variance_or_refuse(),
            self.moments,
            self.effective_size,
            level=level,
            freedom=self.freedom,
            estimand=self.estimand,
            method=method,
            surveyed=self.freedom is not None,
            few=False if self.few is None else self.few,
        )

    @cached_property
    def covariance(self) -> Floats:
        """Covariance of the flattened proportions, shape (cells, cells); computed when asked for.

        It is unbiased throughout: its diagonal is the variance but for cells that `few` marks.

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
        return replace(
            self,
            values=values,
            variance=None,
            method="projection",
            source=None,
            few=None,
            unbiased=None,
        )


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
        codebook,
        values,
        variance,
        n,
        "inversion",
        estimand,
        float((values < 0).mean()),
        (table, design),
        few=few,
        unbiased=unbiased,
        moments=None if law is None else law.second_moments(values, square),
        tested=partial(fit_of_table, table, design),
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
