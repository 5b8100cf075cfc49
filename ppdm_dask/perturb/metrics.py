"""How far a release is from its original: the five metrics of [Guo]_, section 3.

Rank and norm metrics say how much changed; linkage, and values known to an interval, say what an
attacker still finds.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ppdm_dask.arrays import Floats
from ppdm_dask.errors import DataError, InputError
from ppdm_dask.perturb.base import read_matrix
from ppdm_dask.ranges import real, reals
from ppdm_dask.shown import shown

__all__ = [
    "INTERVAL",
    "Disclosure",
    "Distortion",
    "check_interval",
    "disclosure",
    "distortion",
    "distortion_of_columns",
    "expected_rp",
    "ordinal_ranks",
    "read_pair",
    "within_interval",
]


class Distortion(NamedTuple):
    r"""The metrics VD, RP, RK, CP and CK; larger VD, RP, CP and smaller RK, CK are more private.

    With ranks R within the columns of the original A and of the release MA, of n records by m, and
    ranks M of the columns by their means, section 3 of [Guo]_:

    .. math:: \text{VD} = \frac{\lVert A - \text{MA} \rVert_F}{\lVert A \rVert_F}, \qquad
        \text{RP} = \frac{1}{nm} \sum_{ij} |R_{ij} - R'_{ij}|, \qquad
        \text{RK} = \frac{1}{nm} \sum_{ij} 1[R_{ij} = R'_{ij}]

    .. math:: \text{CP} = \frac1m \sum_j |M_j - M'_j|, \qquad
        \text{CK} = \frac1m \sum_j 1[M_j = M'_j]
    """

    vd: float
    """``|A - MA| / |A|`` in the Frobenius norm."""
    rp: float
    """Mean absolute change of a value's rank within its column."""
    rk: float
    """Share of values that keep their rank within their column."""
    cp: float
    """Mean absolute change of a column's rank among the column means."""
    ck: float
    """Share of columns that keep their rank among the column means."""


def ordinal_ranks(values: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    """Ranks 0 .. n - 1; equal values are ranked by position."""
    ranks = np.empty(len(values), np.int64)
    ranks[np.argsort(values, kind="stable")] = np.arange(len(values))
    return ranks


def read_pair(original: Any, released: Any) -> tuple[Floats, Floats, tuple[str, ...]]:
    """Both as numbers, with the names of their columns.

    Raises
    ------
    DataError
        If they differ in shape or in what is missing.
    """
    (A, names), (MA, _) = read_matrix(original), read_matrix(released)
    if A.shape != MA.shape:
        raise DataError(
            f"the original has shape {A.shape}, the release {MA.shape}; they must be equal", MA
        )
    if not len(A):
        raise DataError("there are no records to compare", A)
    unlike = np.isnan(A) != np.isnan(MA)
    if unlike.any():
        row, j = (int(i) for i in np.argwhere(unlike)[0])
        raise DataError(
            f"column {shown(names[j])}, row {row}: missing in only one of original and release",
            names,
        )
    return A, MA, names


def distortion(original: Any, released: Any) -> Distortion:
    """Compare a release with its original.

    Parameters
    ----------
    original, released : DataFrame or array, shape (n, m)
        Record by record; values that are missing in both are passed over.

    Returns
    -------
    Distortion

    Raises
    ------
    DataError
        If they differ in shape or in what is missing, or the original is all 0.

    Notes
    -----
    Ranks are ordinal: equal values are ranked by position.

    Examples
    --------
    >>> A = [[1, 10], [2, 30], [3, 20], [4, 40]]
    >>> MA = [[2, 10], [1, 20], [3, 30], [4, 50]]
    >>> found = distortion(A, MA)
    >>> round(found.vd, 6), found.rp, found.rk, found.cp, found.ck
    (0.315706, 0.5, 0.5, 0.0, 1.0)
    """
    A, MA, _ = read_pair(original, released)
    return distortion_of_columns(zip(A.T, MA.T, strict=True))


def distortion_of_columns(pairs: Iterable[tuple[Floats, Floats]]) -> Distortion:
    """Compare a release with its original, a column of each at a time.

    Parameters
    ----------
    pairs : iterable of (array, array), shape (n,) each
        Columns of original and release, NaN where a value is missing in both.

    Raises
    ------
    DataError
        If the original is all 0, or a column has no value.
    """
    moved = kept = cells = 0
    squares: list[tuple[float, int]] = []
    whole: list[tuple[float, int]] = []
    means: list[tuple[float, float]] = []
    for x, y in pairs:
        if x.shape != y.shape or x.ndim != 1:
            raise DataError(
                f"column {len(means)}: the original has shape {x.shape}, the release {y.shape}; "
                "they must be equal, with one axis",
                y,
            )
        there = ~np.isnan(x)
        if not there.any():
            raise DataError(f"column {len(means)}: every value is missing", x)
        if not there.all():
            x, y = x[there], y[there]
        change = np.abs(ordinal_ranks(x) - ordinal_ranks(y))
        moved, kept = moved + int(change.sum()), kept + int((change == 0).sum())
        cells += change.size
        means.append((float(x.mean()), float(y.mean())))
        squares.append(_squares(x, y))
        whole.append(_squares(x, np.zeros_like(x)))
    if not any(total for total, _ in whole):
        raise DataError("every value of the original is 0, so VD has no scale", whole)
    largest = max(exponent for total, exponent in whole if total)
    distance, size = (
        math.fsum(_power(total, 2 * (exponent - largest)) for total, exponent in sums)
        for sums in (squares, whole)
    )
    before, after = np.array(means).T
    columns = np.abs(ordinal_ranks(before) - ordinal_ranks(after))
    return Distortion(
        math.sqrt(distance / size),
        moved / cells,
        kept / cells,
        float(columns.mean()),
        float((columns == 0).mean()),
    )


def _squares(x: Floats, y: Floats) -> tuple[float, int]:
    """Sum of squared differences over 4 to a power, and that power.

    A power of two changes no digit; squares of 1e-170 or 1e155 would be no doubles.
    """
    exponent = math.frexp(float(max(np.abs(x).max(), np.abs(y).max())))[1]
    x, y = np.ldexp(x, -exponent), np.ldexp(y, -exponent)
    return float(((x - y) ** 2).sum()), exponent


def _power(value: float, exponent: int) -> float:
    """The value times a power of two; infinite where that is not a double."""
    try:
        return math.ldexp(value, exponent)
    except OverflowError:
        return math.inf


def expected_rp(counts: npt.ArrayLike) -> float:
    r"""Expected RP of AIBR from the numbers of values in its sub-intervals.

    .. math:: E[\text{RP}] = \sum_j \frac{N_j^2 - 1}{3 n}

    Parameters
    ----------
    counts : array of int, shape (k,) or (m, k)
        ``N_j``, of one column or of each.

    Returns
    -------
    float
        ``sum_j (N_j^2 - 1) / (3 n)`` over sub-intervals that are not empty, the mean over columns:
        within a sub-interval the released values are in an order that is uniform at random.

    Raises
    ------
    InputError
        For counts that are not whole, below 0, or all 0 in a column.
    """
    given = np.atleast_2d(reals("counts", counts, 0))
    whole = (given == np.rint(given)).all() and given.ndim == 2
    if not whole or not given.any(axis=1).all():
        raise InputError(
            f"counts: got shape {given.shape}; whole numbers of shape (k,) or (m, k), some above 0 "
            "in each column, are needed",
            counts,
        )
    table = given.astype(np.int64)
    squares = np.where(table > 0, table * table - 1, 0).sum(axis=1)
    return float((squares / (3 * table.sum(axis=1))).mean())


INTERVAL = 0.05
"""Default half-width of an interval, as a share of the column's range."""

TIE = 1e-9
"""Relative difference within which two distances tie."""


class Disclosure(NamedTuple):
    """What can be found out; smaller is more private."""

    linkage: float
    """Share of released records whose nearest original is their own; NaN without complete ones."""
    interval: float
    """Share of values that are released within an interval about the original."""


def disclosure(original: Any, released: Any, interval: float = INTERVAL) -> Disclosure:
    """What an attacker learns who compares a release with originals.

    Parameters
    ----------
    original, released : DataFrame or array, shape (n, m)
        Record by record; values that are missing in both are passed over.
    interval : float
        Half-width of the interval about an original value, as a share of its column's range, in
        (0, 1).

    Returns
    -------
    Disclosure

    Raises
    ------
    InputError
        If `interval` is out of its range.
    DataError
        If the two differ in shape or in what is missing.

    Notes
    -----
    *Linkage* is the attacker who has all originals and looks for the one nearest to a released
    record, in Euclidean distance on columns divided by their standard deviation in the original.
    Where several originals are equally near he picks one at random, so that the own one among t
    counts 1 / t; a release at random would score 1 / n.  Records with a missing value are left out.
    """
    A, MA, _ = read_pair(original, released)
    complete = ~np.isnan(A).any(axis=1)
    linked = _linkage(A[complete], MA[complete]) if complete.any() else math.nan
    return Disclosure(linked, within_interval(zip(A.T, MA.T, strict=True), interval))


def check_interval(interval: float) -> None:
    """Refuse a half-width that is not a share of a range; InputError of one line."""
    try:
        real("interval", interval, 0, 1, open_ends=True)
    except InputError as error:
        got = str(error).partition(";")[0]
        right = "a share of the range between 0 and 1, both excluded, is needed"
        raise InputError(f"{got}; {right}", interval) from None


def within_interval(pairs: Iterable[tuple[Floats, Floats]], interval: float = INTERVAL) -> float:
    """Share of values that are released within an interval about the original.

    Parameters
    ----------
    pairs : iterable of (array, array), shape (n,) each
        Columns of original and release, NaN where a value is missing in both.
    interval : float
        Half-width, as a share of the column's range, in (0, 1).

    Returns
    -------
    float
        NaN without values.

    Raises
    ------
    InputError
        If `interval` is out of its range.
    """
    check_interval(interval)
    near = there = 0
    for x, y in pairs:
        change = np.abs(x - y)[~np.isnan(x)]
        if change.size:
            width = interval * (np.nanmax(x) - np.nanmin(x))
            near, there = near + int((change <= width * (1 + TIE)).sum()), there + change.size
    return near / there if there else math.nan


def _linkage(A: Floats, MA: Floats) -> float:
    from scipy.spatial import cKDTree

    # Over powers of two, which change no digit, squares stay within a double.
    largest = np.frexp(np.maximum(np.abs(A), np.abs(MA)).max(axis=0))[1]
    A, MA = np.ldexp(A, -largest), np.ldexp(MA, -largest)
    # The deviation of a constant is rounding where its mean is rounded.
    scale = np.where(A.max(axis=0) > A.min(axis=0), A.std(axis=0), 1.0)
    known, seen = A / scale, MA / scale
    tree = cKDTree(known)
    reach = tree.query(seen)[0] * (1 + TIE)
    own = np.sqrt(((known - seen) ** 2).sum(axis=1)) <= reach
    ties = tree.query_ball_point(seen[own], reach[own], return_length=True)
    return math.fsum(1 / t for t in ties) / len(A)
