"""Groups compared: differences and ratios of proportions, and a test that groups are alike."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ppdm_dask.arrays import Floats
from ppdm_dask.distributions import f_tail
from ppdm_dask.errors import InputError
from ppdm_dask.faces.dataset import dataset_of
from ppdm_dask.faces.face import Face, html_table, names_of, sparks
from ppdm_dask.faces.listing import Listing
from ppdm_dask.faces.plots import intervals
from ppdm_dask.inference.uncertainty import Estimand, quantile_of, standard_error_of
from ppdm_dask.shown import given, listed

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr
    from markupsafe import Markup
    from matplotlib.axes import Axes

    from ppdm_dask.inference.clusters import Replicates

COMPARED = (
    "difference",
    "standard_error",
    "lower",
    "upper",
    "ratio",
    "ratio_lower",
    "ratio_upper",
)
"""Columns of :meth:`Comparison.to_frame`, after those of the labels."""


@dataclass(frozen=True)
class GroupTest:
    """A test that proportions are the same in all groups.

    Parameters
    ----------
    statistic : float
        F, of Pearson's statistic over its mean under the sample's design; not a number where there
        is not a test.
    freedom : pair of float
        Of the numerator and the denominator.
    p_value : float
    reason : str
        Why there is no test, where there is none.

    References
    ----------
    [RaoScott]_, second order.
    """

    statistic: float
    freedom: tuple[float, float]
    p_value: float
    reason: str = ""


@dataclass(frozen=True, repr=False)
class Comparison(Face):
    """What groups differ by from one of them.

    Parameters
    ----------
    labels : mapping of axis to labels
        Attributes that make the groups, and those of the proportions.
    reference : tuple of str
        The group that the others are compared with.
    rows : list of tuples
        For each other group and proportion its labels, then the numbers of `COMPARED`: the
        difference with its standard error and interval, the ratio with its interval, whose upper
        end is infinite where the reference may be 0.
    level : float
    test : GroupTest
    """

    labels: dict[str, tuple[str, ...]]
    reference: tuple[str, ...]
    rows: list[tuple[Any, ...]]
    level: float
    test: GroupTest

    def to_frame(self) -> pd.DataFrame:
        """Table with a row for each other group and proportion."""
        return self._listing().to_frame()

    def _listing(self) -> Listing:
        names = []
        for name in COMPARED:
            while name in self.labels:
                name += "_"
            names.append(name)
        heads = [*self.labels, *names]
        return Listing.of({head: [row[i] for row in self.rows] for i, head in enumerate(heads)})

    def _columns(self) -> tuple[list[str], list[list[float]]]:
        """Text and numbers of each row."""
        k = len(self.labels)
        texts = [", ".join(map(str, row[:k])) for row in self.rows]
        return texts, [[row[k + i] for row in self.rows] for i in range(len(COMPARED))]

    def to_dataset(self) -> xr.Dataset:
        """Differences with errors and intervals, along ``row``; the ratio and its interval too."""
        texts, columns = self._columns()
        k = len(self.labels)
        found = dataset_of(
            {"row": texts},
            columns[:4],
            units="difference of proportions",
            level=self.level,
            interval="Wald",
            further=dict(zip(COMPARED[4:], columns[4:], strict=True)),
            reference=", ".join(self.reference),
        )
        # Two attributes may have the name of a variable.
        beside = {name: [str(row[i]) for row in self.rows] for i, name in enumerate(self.labels)}
        free = {name: ("row", of) for name, of in beside.items() if name not in found.variables}
        return found.assign_coords(free) if k else found

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw each difference with its interval, on axes of matplotlib."""
        texts, (values, _, low, high, *_) = self._columns()
        return intervals(
            ax,
            texts,
            values,
            low,
            high,
            x=f"difference from {', '.join(self.reference)}, {100 * self.level:.4g} % interval",
            y=", ".join(self.labels),
            always=(0,),
        )

    def _said(self) -> str:
        test = self.test
        p = test.reason if math.isnan(test.p_value) else f"p = {test.p_value:.4g}"
        return (
            f"Comparison of {names_of(self.labels, 40)} with {names_of(self.reference, 20)}: "
            f"{len(self.rows):,} differences; all alike: {p}"
        )

    def _shown(self) -> Iterator[Markup]:
        _, (values, _, low, high, *_) = self._columns()
        shown = self._listing().columns[:-2]  # but for the ends of the ratio's interval
        yield html_table(Listing(shown), drawn=sparks(values, low, high, marks=(0,)))


class Joint(NamedTuple):
    """What is known of the joint cells of groups and proportions.

    Parameters
    ----------
    labels : mapping of axis to labels
        Attributes that make the groups, then those of the proportions.
    axes : int
        How many make the groups.
    n : float
        Reports.
    totals : array, shape (cells,)
        Weighted sums of the cells.
    covariance : array, shape (cells, cells)
        Of the totals; right for combinations that the totals themselves make 0.
    under : array, shape (replicates, cells), optional
        Totals under replicate weights.
    replicates : Replicates, optional
        What is made of these.
    raised : array, shape (groups, cells of a group)
        What is added to variances that few reports carry.
    freedom : float
        Degrees of freedom of all groups together.
    freedoms : array, shape (groups,), optional
        Of each group, where the reports of groups are independent.
    """

    labels: dict[str, tuple[str, ...]]
    axes: int
    n: float
    totals: Floats
    covariance: Floats
    under: Floats | None
    replicates: Replicates | None
    raised: Floats
    freedom: float
    freedoms: Floats | None


def compare(
    joint: Joint, estimand: Estimand, reference: Sequence[str] | None, level: float
) -> Comparison:
    """Compare groups by the sums of groups and cells together.

    The share of a cell c in a group g is ``T_gc / sum_c T_gc`` of the totals T, and its error
    follows from their covariance by the derivative, or from its values under replicate weights.

    Parameters
    ----------
    joint : Joint
    estimand : {"population", "file"}
    reference : sequence of str or None
        Group that the others are compared with; the first by default.
    level : float
    """
    names, categories = tuple(joint.labels), tuple(joint.labels.values())
    groups = list(product(*categories[: joint.axes]))
    cells = list(product(*categories[joint.axes :]))
    first = groups[0] if reference is None else tuple(reference)
    if first not in groups:
        raise InputError(
            f"reference: got {given(first)}; a category of each of {listed(names[: joint.axes])} "
            "is needed",
            reference,
        )
    shares, covariance = _shares(joint, (len(groups), len(cells)))
    at, rows = groups.index(first), []
    for g, group in enumerate(groups):
        if g == at:
            continue
        for c, cell in enumerate(cells):
            one, two = g * len(cells) + c, at * len(cells) + c
            pair = covariance[np.ix_([one, two], [one, two])]
            pair = pair + np.diag([joint.raised[g, c], joint.raised[at, c]])
            quantile = quantile_of(level, _freedom(joint, g, at, np.diag(pair)))
            numbers = _contrast(shares[g, c], shares[at, c], pair, quantile)
            rows.append((*group, *cell, *numbers))
    test = _untested("a test is about the population")
    if estimand == "population":
        test = _test(joint, shares, covariance)
    return Comparison(joint.labels, first, rows, level, test)


def _shares(joint: Joint, shape: tuple[int, int]) -> tuple[Floats, Floats]:
    """Shares of cells within groups, and the covariance of all of them."""
    total = joint.totals.reshape(shape)
    size = total.sum(axis=1)
    size = np.where(size > 0, size, np.nan)
    shares = total / size[:, None]
    if joint.under is not None and joint.replicates is not None:
        under = joint.under.reshape(-1, *shape)
        each = (under / under.sum(axis=2, keepdims=True)).reshape(len(under), -1)
        return shares, joint.replicates.covariance(each, shares.ravel())
    slope = np.zeros((*shape, *shape))
    for g in range(shape[0]):
        slope[g, :, g, :] = (np.eye(shape[1]) - shares[g][:, None]) / size[g]
    matrix = slope.reshape(total.size, total.size)
    # A group that nobody is in makes only its own entries unknown.
    known = np.isfinite(matrix).all(axis=1)
    result = np.full(joint.covariance.shape, np.nan)
    result[np.ix_(known, known)] = matrix[known] @ joint.covariance @ matrix[known].T
    return shares, result


def _freedom(joint: Joint, one: int, two: int, variances: Floats) -> float:
    """Of the difference of two groups; of independent reports by Satterthwaite's rule."""
    if joint.freedoms is None or not variances.sum() > 0:
        return joint.freedom
    parts = variances**2 / joint.freedoms[[one, two]]
    return float(variances.sum() ** 2 / parts.sum())


def _contrast(one: float, two: float, pair: Floats, quantile: float) -> tuple[float, ...]:
    """Difference with error and interval, and ratio with Fieller's interval."""
    difference = float(one - two)
    variance = float(pair[0, 0] + pair[1, 1] - 2 * pair[0, 1])
    error = float(standard_error_of(np.array(variance)))
    lower, upper = difference - quantile * error, difference + quantile * error
    ratio, ends = math.nan, (math.nan, math.nan)
    if one >= 0 and two > 0:
        ratio, ends = float(one / two), _fieller(float(one), float(two), pair, quantile)
    return difference, error, max(lower, -1.0), min(upper, 1.0), ratio, *ends


def _fieller(one: float, two: float, pair: Floats, quantile: float) -> tuple[float, float]:
    """All ratios R of 0 or more with ``(one - R two)^2 <= quantile^2 Var(one - R two)``."""
    q = quantile**2
    a = two**2 - q * pair[1, 1]
    b = one * two - q * pair[0, 1]
    c = one**2 - q * pair[0, 0]
    if not math.isfinite(a + b + c):
        return math.nan, math.nan
    root = math.sqrt(max(b * b - a * c, 0.0))
    if a <= 0:
        # The reference may be 0: there is no largest ratio.  c > 0: the other group may not.
        return (max(c / (b + root), 0.0) if c > 0 and b + root > 0 else 0.0), math.inf
    return max((b - root) / a, 0.0), (b + root) / a


def _untested(reason: str) -> GroupTest:
    return GroupTest(math.nan, (math.nan, math.nan), math.nan, reason)


def _test(joint: Joint, shares: Floats, covariance: Floats) -> GroupTest:
    """Pearson's statistic of homogeneity with the correction of Rao and Scott.

    Its law is that of a sum of chi-squares times the eigenvalues of M V, M the weights of the
    quadratic form and V the covariance; mean and variance of it give the degrees of freedom.
    """
    there = np.flatnonzero(np.isfinite(shares).all(axis=1))
    if len(there) < 2:
        return _untested("fewer than two groups have an estimated share above 0")
    K = shares.shape[1]
    total, shares = joint.totals.reshape(-1, K)[there], shares[there]
    rows = (there[:, None] * K + np.arange(K)).ravel()
    V = covariance[np.ix_(rows, rows)]
    part = total.sum(axis=1) / total.sum()
    pooled = np.maximum(part @ shares, 1 / joint.n)
    # Rows of L r are the weighted deviations of the groups' shares from the pooled ones.
    centred = np.kron(np.eye(len(there)) - part, np.eye(K))
    scale = np.sqrt(joint.n * np.outer(part, 1 / pooled)).ravel()
    L = scale[:, None] * centred
    S = L @ V @ L.T
    mean, square = float(np.trace(S)), float((S * S).sum())
    if not mean > 0:
        return _untested("the variance of the differences is not known")
    numerator = mean**2 / square
    statistic = float(((L @ shares.ravel()) ** 2).sum()) / mean
    denominator = numerator * joint.freedom
    p = float(f_tail(statistic, numerator, denominator))
    return GroupTest(statistic, (numerator, denominator), p)
