"""How far a release is from its original: the five metrics of [Guo]_, section 3."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ppdm_dask.errors import DataError, InputError
from ppdm_dask.perturb.columns import Floats, read_matrix
from ppdm_dask.ranges import reals
from ppdm_dask.shown import shown

__all__ = [
    "Distortion",
    "distortion",
    "distortion_of_columns",
    "expected_rp",
    "ordinal_ranks",
    "read_pair",
]


class Distortion(NamedTuple):
    """The metrics VD, RP, RK, CP and CK; larger VD, RP, CP and smaller RK, CK are more private."""

    vd: float
    """|A - MA| / |A| in the Frobenius norm."""
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
            f"column {shown(names[j])}, row {row}: missing in one of original and release alone",
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
    """The value times a power of two; infinite where that is no double."""
    try:
        return math.ldexp(value, exponent)
    except OverflowError:
        return math.inf


def expected_rp(counts: npt.ArrayLike) -> float:
    """Expected RP of AIBR from the numbers of values in its sub-intervals.

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
