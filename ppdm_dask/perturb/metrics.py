"""How far a release is from its original: the five metrics of [Guo]_, section 3."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ppdm_dask.errors import DataError
from ppdm_dask.perturb.columns import Floats, read_matrix

__all__ = ["Distortion", "distortion", "expected_rp", "ordinal_ranks", "read_pair"]


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
            f"column {names[j]!r}, row {row}: missing in one of original and release alone", names
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
    >>> distortion(A, MA)._asdict()
    {'vd': 0.3157..., 'rp': 0.5, 'rk': 0.5, 'cp': 0.0, 'ck': 1.0}
    """
    A, MA, _ = read_pair(original, released)
    whole = float(np.sqrt(np.nansum(A * A)))
    if whole == 0:
        raise DataError("every value of the original is 0, so VD has no scale", original)
    moved = kept = cells = 0
    for x, y in zip(A.T, MA.T, strict=True):
        there = ~np.isnan(x)
        change = np.abs(ordinal_ranks(x[there]) - ordinal_ranks(y[there]))
        moved, kept = moved + int(change.sum()), kept + int((change == 0).sum())
        cells += change.size
    columns = np.abs(ordinal_ranks(_means(A)) - ordinal_ranks(_means(MA)))
    return Distortion(
        float(np.sqrt(np.nansum((A - MA) ** 2))) / whole,
        moved / cells,
        kept / cells,
        float(columns.mean()),
        float((columns == 0).mean()),
    )


def _means(values: Floats) -> Floats:
    return np.array([column[~np.isnan(column)].mean() for column in values.T])


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
    """
    table = np.atleast_2d(np.asarray(counts, dtype=np.int64))
    squares = np.where(table > 0, table * table - 1, 0).sum(axis=1)
    return float((squares / (3 * table.sum(axis=1))).mean())
