"""Undisguised arrays and frames for the learners, as scikit-learn hands them over."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import is_classifier
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d, validate_data

from ppdm_dask.data.attribute import Attribute
from ppdm_dask.data.codebook import Codebook, Records, code_dtype
from ppdm_dask.errors import RecordsError
from ppdm_dask.shown import given, shown

MOST = 1 << 16
"""Different values of a column that are still taken for categories."""


class Columns:
    """How the columns of a table, and y, become coded records.

    Parameters
    ----------
    estimator : estimator
        Learns the number and the names of its features.
    X : array or frame, shape (n_records, n_features)
        Texts, truth values or whole numbers; each different value is a category.
    y : array, shape (n_records,), optional
        Classes, for classifiers.
    target : str or None
        What y is called.

    Raises
    ------
    ValueError
        As scikit-learn raises it: for missing values, other lengths, continuous classes.
    RecordsError
        For fractions: bin them first.
    """

    def __init__(self, estimator: Any, X: Any, y: Any = None, target: str | None = None) -> None:
        if not is_classifier(estimator):
            table = validate_data(estimator, X, dtype=None, accept_sparse=False)
            self._read(estimator, table)
            return
        if y is None:
            raise RecordsError(
                f"{type(estimator).__name__} requires y to be passed, but the target y is None; "
                "only Records and Reports have their target inside",
                X,
            )
        table, labels = validate_data(estimator, X, y, dtype=None, accept_sparse=False)
        check_classification_targets(labels)
        labels = column_or_1d(labels, warn=True)
        self._read(estimator, table)
        self.target = target or "y"
        if self.target in self.names:
            raise RecordsError(
                f"target: got {given(self.target)}, which is a column of X too; another name is "
                "needed",
                self.target,
            )
        self.classes = np.unique(labels)

    target: str | None = None
    classes: npt.NDArray[Any]

    def _read(self, estimator: Any, table: Any) -> None:
        if not np.shape(table)[1]:
            raise RecordsError("0 feature(s): at least one is needed", table)
        named = getattr(estimator, "feature_names_in_", None)
        names = [f"x{i}" for i in range(table.shape[1])] if named is None else list(named)
        self.names = tuple(names)
        self.values = [
            _categories(name, column) for name, column in zip(names, table.T, strict=True)
        ]

    def records(self, estimator: Any, X: Any, y: Any = None) -> Records:
        """Coded records of such a table; without y a classifier's target is 0 throughout."""
        table = validate_data(estimator, X, reset=False, dtype=None, accept_sparse=False)
        codes = np.zeros((len(table), len(self.names) + 1), code_dtype(MOST), order="F")
        known = [*zip(self.names, self.values, strict=True)]
        for i, ((name, values), column) in enumerate(zip(known, table.T, strict=True)):
            codes[:, i] = _codes(f"column {shown(name)}", values, column)
        if y is not None:
            codes[:, -1] = _codes("y", self.classes, column_or_1d(y, warn=True))
        declared: list[tuple[str, npt.NDArray[Any]]] = list(known)
        if self.target is None:
            codes = codes[:, :-1]
        else:
            declared.append((self.target, self.classes))
        attributes = tuple(Attribute(name, tuple(map(str, values))) for name, values in declared)
        return Records(codes, Codebook(attributes, target=self.target))


def _categories(name: str, column: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Different values of a column, sorted."""
    column = np.asarray(column)
    if column.dtype.kind == "f" and (column != np.floor(column)).any():
        raise RecordsError(
            f"column {shown(name)} has fractions; categories are needed: whole numbers, texts or "
            "truth values (bin it first)",
            name,
        )
    if column.dtype.kind == "c":
        raise RecordsError(f"Complex data not supported (column {shown(name)})", name)
    try:
        values: npt.NDArray[Any] = np.unique(column)
    except TypeError:
        raise TypeError(
            f"column {shown(name)}: the argument must be all strings or all numbers"
        ) from None
    if len(values) > MOST:
        raise RecordsError(
            f"column {shown(name)} has {len(values):,} different values; at most {MOST:,} "
            "categories are taken",
            name,
        )
    return values


def _codes(what: str, values: npt.NDArray[Any], column: npt.NDArray[Any]) -> npt.NDArray[np.intp]:
    """Positions of a column's values among the known ones."""
    column = np.asarray(column)
    found = np.clip(np.searchsorted(values, column), 0, len(values) - 1)
    unknown = np.flatnonzero(values[found] != column)
    if unknown.size:
        row = int(unknown[0])
        raise RecordsError.at(
            row,
            f"{what}: {given(column[row])} is none of the categories that were fitted",
            column[row],
            told=f"{what}: a value is none of the categories that were fitted",
        )
    return found
