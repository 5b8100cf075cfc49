"""What every estimate returns: labelled proportions, and what is known of their errors."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ppdm_dask.arrays import EPS, Bools, Floats
from ppdm_dask.errors import CodebookError, InputError
from ppdm_dask.faces.dataset import dataset_of
from ppdm_dask.faces.face import Face, html_table, names_of, sparks
from ppdm_dask.faces.listing import Listing
from ppdm_dask.faces.plots import intervals
from ppdm_dask.inference.fit import Fit, fit_of_parts, fit_of_sums
from ppdm_dask.inference.uncertainty import (
    Estimand,
    IntervalMethod,
    intervals_of,
    normal_quantile,
    standard_error_of,
)
from ppdm_dask.ranges import reals
from ppdm_dask.shown import listed, shown

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr
    from markupsafe import Markup
    from matplotlib.axes import Axes

    from ppdm_dask.data.codebook import Codebook
    from ppdm_dask.inference.contrasts import Comparison


NUMBERS = ("proportion", "standard_error", "lower", "upper")
"""Columns of :meth:`Estimate.to_frame`, after those of the labels."""


@dataclass(frozen=True, repr=False)
class Interval(Face):
    """Confidence interval of one proportion.

    Parameters
    ----------
    lower, upper : float
        Not numbers where there is no interval.
    level : float
    method : str
        ``score``, ``Wald``, ``percentile``, ``likelihood-ratio ordering`` or
        ``profile likelihood``; the last two stay within [0, 1].
    value, standard_error : float
        The estimate that it belongs to; not numbers where that is not known.
    labels : tuple of str
        Categories of the proportion, in the order of the estimate's axes.
    few : bool
        Whether fewer than ten reports carry the standard error.
    """

    lower: float
    upper: float
    level: float
    method: str
    value: float = math.nan
    standard_error: float = math.nan
    labels: tuple[str, ...] = ()
    few: bool = False

    def _said(self) -> str:
        of = f" of {names_of(self.labels)}" if self.labels else ""
        ends = f"{self.lower:.4g} to {self.upper:.4g}"
        level = f"{100 * self.level:.4g} %, {self.method}"
        return f"Interval{of}: {self.value:.4g}, {ends} ({level})"


def labels_of(codebook: Codebook) -> dict[str, tuple[str, ...]]:
    """Axes of an estimate over all attributes of a codebook."""
    return {attribute.name: attribute.categories for attribute in codebook.attributes}


@dataclass(frozen=True, eq=False, repr=False)
class Estimate(Face):
    """Estimated proportions: of all categories of some attributes, of some events, or of one.

    An estimate of one event has no axes: its :attr:`value`, :attr:`standard_error` and
    :meth:`interval` are numbers, and otherwise arrays with labels.

    Parameters
    ----------
    labels : mapping of axis to labels
        Attributes with their categories, groups first; ``event`` for a list of events.
    values : float array
        Estimated proportions.  By inversion they are unbiased, and may leave [0, 1]; a condition
        or survey weights make them ratios.
    variance : float array of the same shape, or None
        Variance of each value: unbiased, unless fewer than ten reports carry it; then it is at
        least what the design makes it whatever the truth is, and not a number where that is 0 too.
        None where there is no formula for it.
    n : int
        Reports behind the estimate.
    method : str
        ``inversion``, ``projection``, ``maximum likelihood``, ``em`` or ``bootstrap``.
    estimand : {"population", "file"}
    negative_share : float
        Share of cells whose inverted estimate is negative, kept through repairs.
    why : str
        Why there is no variance.
    few : bool array of the same shape, optional
        Where fewer than ten reports carry the variance.
    unbiased : float array of the same shape, optional
        The unbiased variances, before any of them was raised.
    moments : pair of float arrays of the same shape, optional
        Second moments of the cells' weights, of records inside of the cell and outside: what a
        score interval is made of.
    quadratic : triple of float arrays of the same shape, optional
        A, B and C, where the second moments are not known: the variance is ``A + B p + C p^2`` if
        the proportion is p.
    size : float, optional
        Effective reports, where survey weights or a condition make them fewer.
    share : float
        Estimated share of the reports that are within the condition.
    freedom : float, optional
        Degrees of freedom of variances that are of weighted, stratified or conditional sums.
    steps : int
        Iterations of a maximisation; 0 where it has a closed form.
    converged : bool
    gap : float
        No proportions have a log likelihood, per report, greater by more than this.
    replicates : array, shape (repeats, ...), optional
        Estimates from resampled reports.
    tested : callable, optional
        Makes the test of fit.
    inversion : callable, optional
        Makes the inversion of the reports, where this is a maximum of their likelihood.
    covariances : callable, optional
        Makes the covariance.
    compared : callable, optional
        Compares groups.
    marginals : callable, optional
        Estimates fewer attributes from the same evidence.
    parts : tuple of Estimate
        Of each index along the first axis, where these are estimates by themselves.
    design_digest : str
        Of the design that made the reports, where it is known.
    """

    labels: Mapping[str, tuple[str, ...]]
    values: Floats
    variance: Floats | None
    n: int
    method: str = "inversion"
    estimand: Estimand = "population"
    negative_share: float = 0.0
    why: str = ""
    few: Bools | None = None
    unbiased: Floats | None = None
    moments: tuple[Floats, Floats] | None = None
    quadratic: tuple[Floats, Floats, Floats] | None = None
    size: float | None = None
    share: float = 1.0
    freedom: float | None = None
    steps: int = 0
    converged: bool = True
    gap: float = 0.0
    replicates: Floats | None = None
    tested: Callable[[], Fit] | None = field(default=None)
    inversion: Callable[[], Estimate] | None = field(default=None)
    covariances: Callable[[], Floats] | None = field(default=None)
    compared: Callable[..., Comparison] | None = field(default=None)
    marginals: Callable[[tuple[str, ...]], Estimate] | None = field(default=None)
    parts: tuple[Estimate, ...] = ()
    design_digest: str = ""

    @classmethod
    def single(
        cls, value: float, standard_error: float, n: int, estimand: Estimand = "population"
    ) -> Estimate:
        """One proportion, accuracy or combination, of which only the standard error is known."""
        return cls(
            {}, np.array(value), np.array(standard_error * standard_error), n, estimand=estimand
        )

    @property
    def value(self) -> float:
        """The proportion of a single event.

        Raises
        ------
        InputError
            For an estimate of several proportions.
        """
        if self.values.ndim:
            raise InputError(
                f"value: there are {self.values.size} proportions; use proportions or to_frame()",
                self,
            )
        return float(self.values)

    @property
    def effective_size(self) -> float:
        """Reports that would say as much: ``(sum d F)^2 / sum d^2 F^2``.

        d are survey weights and F the weight of the condition; all reports without either.
        """
        return float(self.n if self.size is None else self.size)

    @property
    def reason(self) -> str:
        """Why there is no standard error; empty where there is one."""
        if self.why or self.values.ndim or self.variance is None or self.variance >= 0:
            return self.why
        if self.n < 2:
            return "there are fewer than two reports"
        return "the reports vary too little to say, or a stratum has one of them only"

    @cached_property
    def fit(self) -> Fit:
        """Whether the reports contradict the design: see :class:`ppdm_dask.inference.Fit`."""
        if self.parts:
            return fit_of_parts([part.fit for part in self.parts])
        if self.tested is not None:
            return self.tested()
        if self.values.ndim or self.variance is None:
            return Fit(math.nan, reason="this estimate does not keep the reports behind it")
        inside, outside = (None, None) if self.moments is None else self.moments
        return fit_of_sums(
            self.values, inside, outside, self.effective_size, self.freedom, self.variance
        )

    # -- labelled arrays ---------------------------------------------------------------------------

    def _apart(self, name: str) -> str:
        """A name that no axis has."""
        while name in self.labels:
            name += "_"
        return name

    def _array(self, values: Floats, name: str) -> xr.DataArray:
        import xarray as xr

        coords = {axis: list(labels) for axis, labels in self.labels.items()}
        attrs = {"n": self.n, "method": self.method, "estimand": self.estimand}
        return xr.DataArray(
            values, dims=tuple(coords), coords=coords, name=self._apart(name), attrs=attrs
        )

    @property
    def proportions(self) -> xr.DataArray:
        """Estimated proportions; dimensions are the axes, coordinates their labels."""
        return self._array(self.values, "proportions")

    @property
    def standard_error(self) -> Any:
        """Standard error of each proportion, for the stated estimand.

        Not a number with fewer than two reports, where an unbiased variance is below 0, or where
        the reports do not vary and yet say nothing for certain.

        Returns
        -------
        DataArray, or float for a single event
        """
        errors = standard_error_of(self._variance_or_refuse())
        return self._array(errors, "standard_error") if self.values.ndim else float(errors)

    def _variance_or_refuse(self) -> Floats:
        if self.variance is None:
            reason = self.why or f"a {self.method} has none by formula; use the inversion's"
            raise InputError(f"standard error: {reason}", self)
        return self.variance

    def interval(self, level: float = 0.95, method: IntervalMethod = "score") -> Any:
        """Confidence intervals.

        Parameters
        ----------
        level : float in (0, 1)
        method : {"score", "wald"}
            *score*: the proportions under which an estimate as far away is not rare, their own
            variance taken (:func:`ppdm_dask.inference.uncertainty.score_interval`); good for few
            reports and near 0 and 1.  *wald*: the estimate and its standard errors; good from about
            300 effective reports, away from 0 and 1.  Score intervals stay within [0, 1] where
            weights, strata, clusters or a condition enter, and for a maximum likelihood: there they
            are ordered by likelihood ratio
            (:func:`ppdm_dask.inference.uncertainty.bounded_interval`).  Both are Wald's where the
            moments of the weights are not known (a learner's accuracy, combinations); estimates
            from resamples have percentile intervals by either name.

        Returns
        -------
        DataArray, or a pair of floats for a single event
            Its last dimension is ``bound``, followed by ``_`` where an axis has that name.
        """
        lower, upper = self.ends(level, method)
        if not self.values.ndim:
            return float(lower), float(upper)
        array = self._array(self.values, "interval")
        bound = {self._apart("bound"): ["lower", "upper"]}
        return array.expand_dims(bound, axis=-1).copy(data=np.stack([lower, upper], axis=-1))

    def ends(self, level: float = 0.95, method: IntervalMethod = "score") -> tuple[Floats, Floats]:
        """Lower and upper ends of :meth:`interval`, of the shape of the estimate."""
        if self.parts:
            both = [part.ends(level, method) for part in self.parts]
            return np.stack([low for low, _ in both]), np.stack([high for _, high in both])
        if self.replicates is not None:
            return self._percentiles(level)
        if method == "score" and self.inversion is not None:
            lower, upper = self.inversion()._ends(level, method, bounded=True)
            # The maximum of several proportions may lie beyond, as others are at 0.
            return np.fmin(lower, self.values), np.fmax(upper, self.values)
        return self._ends(level, method)

    def _ends(
        self, level: float, method: IntervalMethod, bounded: bool = False
    ) -> tuple[Floats, Floats]:
        return intervals_of(
            self.values,
            self._variance_or_refuse(),
            self.moments,
            self.effective_size,
            quadratic=self.quadratic,
            level=level,
            freedom=self.freedom,
            estimand=self.estimand,
            method=method,
            surveyed=bounded or self.freedom is not None,
            few=False if self.few is None else self.few,
        )

    def _percentiles(self, level: float) -> tuple[Floats, Floats]:
        """Percentiles of the replicates; not numbers where both are one."""
        normal_quantile(level)
        ends = [(1 - level) / 2, (1 + level) / 2]
        assert self.replicates is not None
        lower, upper = np.quantile(self.replicates, ends, axis=0)
        none = same_ends(lower, upper) & (self.values.size > 1)
        return np.where(none, np.nan, lower), np.where(none, np.nan, upper)

    def kind_of_interval(self, method: IntervalMethod = "score") -> str:
        """How :meth:`interval` makes its ends: ``score``, ``Wald`` or ``percentile``."""
        if self.replicates is not None:
            return "percentile"
        known = all(
            part.moments is not None or part.quadratic is not None or part.inversion is not None
            for part in self.parts or (self,)
        )
        return "score" if method == "score" and known else "Wald"

    @property
    def bounded(self) -> bool:
        """Whether score intervals stay within [0, 1]."""
        return self.inversion is not None or any(
            part.freedom is not None for part in self.parts or (self,)
        )

    @property
    def design_effect(self) -> Floats:
        """Variance over that of as many reports of a simple random sample, of each proportion.

        The disguise is the same in both.  Not a number where either is not known.
        """
        if self.parts:
            return np.stack([part.design_effect for part in self.parts])
        if self.variance is None or self.moments is None:
            return np.full(self.values.shape, np.nan)
        p = np.clip(self.values, 0, 1)
        inside, outside = self.moments
        spread = p * inside + (1 - p) * outside - (p**2 if self.estimand == "population" else p)
        simple = spread / max(self.n * self.share, 1)
        ratio = np.divide(self.variance, simple, out=np.full(p.shape, np.nan), where=simple > 0)
        return np.asarray(ratio)

    def rows(self, level: float = 0.95, method: IntervalMethod = "score") -> list[Interval]:
        """Each proportion with its labels, standard error and interval; the last axis runs fastest.

        Where there is no variance, errors and ends are not numbers.
        """
        errors = lower = upper = np.full(self.values.shape, np.nan)
        if self.variance is not None:
            errors = standard_error_of(self.variance)
        if self.variance is not None or (method == "score" and self.inversion is not None):
            lower, upper = self.ends(level, method)
        few = np.zeros(self.values.shape, bool) if self.few is None else self.few
        columns = [np.asarray(x).ravel().tolist() for x in (lower, upper, self.values, errors, few)]
        name = self.kind_of_interval(method)
        return [
            Interval(low, high, level, name, value, error, labels, is_few)
            for labels, low, high, value, error, is_few in zip(
                product(*self.labels.values()), *columns, strict=True
            )
        ]

    def to_frame(self, level: float = 0.95, method: IntervalMethod = "score") -> pd.DataFrame:
        """Table with a row for each proportion: labels, proportion, standard error and interval."""
        return self._listing(level, method).to_frame()

    def _listing(self, level: float = 0.95, method: IntervalMethod = "score") -> Listing:
        rows = self.rows(level, method)
        columns: dict[str, Any] = {
            axis: [row.labels[i] for row in rows] for i, axis in enumerate(self.labels)
        }
        for name, of in zip(NUMBERS, ("value", *NUMBERS[1:]), strict=True):
            columns[self._apart(name)] = [getattr(row, of) for row in rows]
        return Listing.of(columns)

    def plot(
        self, ax: Axes | None = None, *, level: float = 0.95, method: IntervalMethod = "score"
    ) -> Axes:
        """Draw each proportion with its interval, on axes of matplotlib.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            By default the axes of a new figure.
        level, method
            As of :meth:`interval`.
        """
        rows = self.rows(level, method)
        # Estimates may leave 0 and 1, and then it should be seen.
        return intervals(
            ax,
            [", ".join(row.labels) for row in rows],
            [row.value for row in rows],
            [row.lower for row in rows],
            [row.upper for row in rows],
            x=f"proportion, {100 * level:.4g} % interval",
            y=", ".join(self.labels),
            marks=(1,),
            always=(0,),
        )

    def to_dataset(self, level: float = 0.95, method: IntervalMethod = "score") -> xr.Dataset:
        """The numbers of :meth:`to_frame` with labelled axes.

        Parameters
        ----------
        level, method
            As of :meth:`interval`.

        Returns
        -------
        Dataset
            ``value``, ``error`` (standard error), ``low`` and ``high``; its attributes say units,
            level, the interval's method, the estimate's method, n, estimand, and the digest of the
            design.
        """
        rows = self.rows(level, method)
        columns = [
            [getattr(row, name) for row in rows]
            for name in ("value", "standard_error", "lower", "upper")
        ]
        return dataset_of(
            self.labels,
            columns,
            units="proportion",
            level=level,
            interval=self.kind_of_interval(method),
            method=self.method,
            n=self.n,
            estimand=self.estimand,
            design_digest=self.design_digest,
        )

    def __str__(self) -> str:
        return f"{self._title()}\n{self._listing().to_string(most=60)}"

    def _said(self) -> str:
        about = "the population" if self.estimand == "population" else "these records"
        head = f"{self.method} from {self.n:,} reports, about {about}"
        if self.values.ndim:
            return f"Estimate of {names_of(self.labels)} ({self.values.size:,} proportions): {head}"
        (row,) = self.rows()
        found = f"{row.value:.4f}"
        if math.isfinite(row.lower) and math.isfinite(row.upper):
            found += f", 95 % interval {row.lower:.4f} to {row.upper:.4f}"
        return f"Estimate: {found}; {head}"

    def _shown(self) -> Iterator[Markup]:
        found = self._listing()
        values, _, low, high = (of for _, of in found.columns[-4:])
        yield html_table(found, drawn=sparks(values, low, high, marks=(0, 1)))

    def _title(self) -> str:
        about = "the population" if self.estimand == "population" else "these records"
        return f"{self.method} from {self.n:,} reports, about {about}; 95 % intervals"

    # -- from estimates to estimates ---------------------------------------------------------------

    def __getitem__(self, index: int | tuple[int, ...]) -> Estimate:
        """The estimate at one position of the first axes; an axis less for each index."""
        where = index if isinstance(index, tuple) else (index,)
        if self.parts:
            part = self.parts[where[0]]
            return part if len(where) == 1 else part[where[1:]]
        if len(where) > self.values.ndim:
            raise IndexError(f"{len(where)} indices; there are {self.values.ndim} axes")

        def at(array: Any) -> Any:
            return None if array is None else np.asarray(array[where])

        rest = dict(list(self.labels.items())[len(where) :])
        moments = None if self.moments is None else (at(self.moments[0]), at(self.moments[1]))
        rows: Any = (slice(None), *where)
        return replace(
            self,
            labels=rest,
            values=at(self.values),
            variance=at(self.variance),
            few=at(self.few),
            unbiased=at(self.unbiased),
            moments=moments,
            quadratic=None if self.quadratic is None else tuple(map(at, self.quadratic)),
            replicates=None if self.replicates is None else self.replicates[rows],
            inversion=None if self.inversion is None else partial(_at, self.inversion, where),
            covariances=None,
            compared=None,
            marginals=None,
        )

    def compare(
        self, reference: str | Sequence[str] | None = None, level: float = 0.95
    ) -> Comparison:
        """Differences and ratios of groups, and a test that they are all alike.

        Parameters
        ----------
        reference : str or sequence of str, optional
            Label of the group that the others are compared with, one for each attribute of `by`;
            the first group by default.
        level : float in (0, 1)

        Raises
        ------
        InputError
            Where there are no groups, no such group, or more than 128 proportions in all.
        """
        if self.compared is None:
            raise InputError(
                "compare: there are no groups (by) of attributes' proportions, or more than 128 "
                "proportions in all",
                self,
            )
        return self.compared((reference,) if isinstance(reference, str) else reference, level=level)

    @cached_property
    def covariance(self) -> Floats:
        """Covariance of the flattened proportions, shape (cells, cells); computed when asked for.

        It is unbiased throughout: its diagonal is the variance but for cells that `few` marks.

        Raises
        ------
        InputError
            Where it is not known: after a repair, of sums over strata, and above 4,096 cells.
        """
        if self.replicates is not None:
            flat = self.replicates.reshape(len(self.replicates), -1)
            return np.cov(flat, rowvar=False).reshape(self.values.size, -1)
        self._variance_or_refuse()
        if self.covariances is None:
            raise InputError(
                "covariance: this estimate was repaired or is a sum over reports, so it does not "
                "store the counts; estimate a list of events, whose covariance is known",
                self,
            )
        return self.covariances()

    def combine(self, coefficients: npt.ArrayLike) -> Estimate:
        """A linear combination of the proportions, a difference say, with its standard error.

        Parameters
        ----------
        coefficients : array of the estimate's shape
        """
        c = reals("coefficients", coefficients)
        if c.shape != self.values.shape:
            raise InputError(f"coefficients: {c.shape}; {self.values.shape} is needed", c)
        c, values = c.ravel(), self.values.ravel()
        terms = np.outer(c, c) * self.covariance
        # Rounding of the covariances, sums of n terms, and of this sum: a certainty has no error.
        noise = EPS * (self.n + terms.size) * float(np.abs(terms).sum())
        variance = float(terms.sum())
        if abs(variance) <= noise:
            variance = 0.0
        if self.variance is not None and self.unbiased is not None:
            # What does not enter may have no variance.
            used = np.flatnonzero(c)
            raised = (self.variance - self.unbiased).ravel()
            variance += float(c[used] ** 2 @ raised[used])
        error = float(standard_error_of(np.array(variance)))
        made = Estimate.single(float(c @ values), error, self.n, self.estimand)
        return replace(made, design_digest=self.design_digest)

    def marginal(self, attributes: Iterable[str]) -> Estimate:
        """The estimate over fewer attributes: inverted again from the summed counts.

        Where that would cut a block that is not lumpable, the whole block is inverted and summed.
        """
        if self.marginals is None:
            raise InputError(
                "marginal: this estimate was repaired or is a sum over reports, so it does not "
                "store the counts; estimate these attributes from the evidence",
                self,
            )
        names = tuple(attributes)
        for name in names:
            if name not in self.labels:
                raise CodebookError(
                    f"there is no attribute {shown(name)}; there are {listed(self.labels)}", name
                )
        return self.marginals(names)

    def project(self) -> Estimate:
        """The nearest point of the simplex: negative estimates are repaired, and said to be."""
        # A projection is not linear in the reports: no variance, covariance or marginal follows.
        values = project_simplex(self.values.ravel()).reshape(self.values.shape)
        return Estimate(
            self.labels,
            values,
            None,
            self.n,
            "projection",
            self.estimand,
            self.negative_share,
            size=self.size,
            tested=self.tested,
            design_digest=self.design_digest,
        )


def _at(inversion: Callable[[], Estimate], where: tuple[int, ...]) -> Estimate:
    return inversion()[where]


def stacked(axis: str, labels: Sequence[str], parts: Sequence[Estimate]) -> Estimate:
    """Estimates of equal shape from the same reports, along a new first axis.

    Parameters
    ----------
    axis : str
        Followed by ``_`` where the parts have an axis of that name.
    labels : sequence of str
        One for each part.
    """
    first = parts[0]

    def together(name: str) -> Any:
        arrays = [getattr(part, name) for part in parts]
        return None if any(array is None for array in arrays) else np.stack(arrays)

    return Estimate(
        {first._apart(axis): tuple(labels), **first.labels},
        together("values"),
        together("variance"),
        first.n,
        first.method,
        first.estimand,
        float(np.mean([part.negative_share for part in parts])),
        few=together("few"),
        unbiased=together("unbiased"),
        parts=tuple(parts),
        design_digest=parts[0].design_digest,
    )


def same_ends(lower: Floats, upper: Floats) -> Bools:
    """Where two ends differ by rounding at most."""
    return np.asarray(upper - lower <= 1e-12 * np.maximum(np.abs(lower), 1))


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
