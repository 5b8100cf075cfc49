"""Columns of numbers: read from any frame, and summed up in a way that partitions add.

Beside it: draws for columns of numbers, keyed by a record's position and its column.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt

from ppdm_dask.arrays import Floats
from ppdm_dask.errors import DataError
from ppdm_dask.files.columns import canonical_text, read_numbers
from ppdm_dask.randomness import LOGICAL_BLOCK
from ppdm_dask.shown import listed, shown

if TYPE_CHECKING:
    from ppdm_dask.randomness import Stream

__all__ = ["ColumnSummary", "choose_one", "column_words", "read_matrix", "uniforms"]


UNIT = 2.0**-53


def column_words(
    stream: Stream, column: int, n: int, offset: int
) -> Iterator[tuple[slice, npt.NDArray[np.uint64]]]:
    """One 64-bit word a record, block by block; a record's word depends on its position alone.

    Yields
    ------
    rows : slice
        The records, counted from `offset`.
    words : array of uint64
    """
    last = offset + n
    for block in range(offset // LOGICAL_BLOCK, -(-last // LOGICAL_BLOCK)):
        start = block * LOGICAL_BLOCK
        low, high = max(offset, start), min(last, start + LOGICAL_BLOCK)
        words = stream.source(block, column).words(high - start)[low - start :]
        yield slice(low - offset, high - offset), words


def uniforms(stream: Stream, columns: int, n: int, offset: int) -> npt.NDArray[np.float64]:
    """Uniform numbers in [0, 1), multiples of 2**-53, shape (n, columns)."""
    drawn = np.empty((n, columns), order="F")
    for j in range(columns):
        for rows, words in column_words(stream, j, n, offset):
            drawn[rows, j] = (words >> np.uint64(11)) * UNIT
    return drawn


def choose_one(word: int, n: int) -> int:
    """One of ``0 .. n - 1`` from a uniform 64-bit word (bias under n / 2**64)."""
    return word * n >> 64


def read_matrix(X: Any, offset: int = 0) -> tuple[Floats, tuple[str, ...]]:
    """Numbers of a frame or an array, a column at a time.

    Parameters
    ----------
    X : DataFrame or array, shape (n, m)
        Columns of any dtype that hold numbers, texts that spell numbers included.
    offset : int
        Position of the first record in the whole data set, for messages.

    Returns
    -------
    values : array of float, shape (n, m)
        NaN where a value is missing; columns are contiguous.
    names : tuple of str
        The frame's columns, or ``"0"``, ``"1"``, ... for an array.

    Raises
    ------
    DataError
        If a value is no finite number, a name occurs twice, or there is no column.
    """
    if isinstance(X, np.ndarray) and X.ndim == 2 and X.dtype == np.float64 and X.shape[1]:
        if np.isinf(X).any():
            row, j = (int(i) for i in np.argwhere(np.isinf(X))[0])
            raise _no_number(str(j), row + offset, X[row, j])
        return np.asfortranarray(X), tuple(map(str, range(X.shape[1])))
    import pandas as pd

    frame = X if isinstance(X, pd.DataFrame) else _frame(X)
    names = tuple(map(str, frame.columns))
    if not names:
        raise DataError("there are no columns; at least one column of numbers is needed")
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise DataError(f"column {shown(twice)} occurs {names.count(twice)} times", twice)
    values = np.empty((len(frame), len(names)), order="F")
    for j, name in enumerate(names):
        values[:, j] = _numbers(frame.iloc[:, j], name, offset)
    return values, names


def _frame(X: Any) -> Any:
    import pandas as pd

    array = np.asarray(X)
    if array.ndim != 2:
        raise DataError(f"the data have shape {array.shape}; records by columns are needed")
    return pd.DataFrame(array)


def _numbers(column: Any, name: str, offset: int) -> Floats:
    if column.dtype.kind in "bmM":
        raise DataError(
            f"column {shown(name)} holds {column.dtype}; numbers are needed, leave the column out",
            name,
        )
    numbers, wrong = read_numbers(column)
    if wrong.any():
        row = int(np.argmax(wrong))
        raise _no_number(name, row + offset, column.iloc[row])
    return numbers


def _no_number(name: str, row: int, value: object) -> DataError:
    text = canonical_text(value)
    where, right = (
        f"column {shown(name)}, row {row}",
        "numbers are needed, leave a column of texts out",
    )
    return DataError.at(
        row,
        f"{where}: {shown(text)} is no finite number; {right}",
        text,
        told=f"{where}: the value is no finite number; {right}",
    )


@dataclass(frozen=True, eq=False)
class ColumnSummary:
    """What is known of some columns as a whole; summaries of partitions add up to the whole's.

    Parameters
    ----------
    names : tuple of str
    n : int
        Records.
    missing : array of int, shape (m,)
        Missing values.
    low, high : array of float, shape (m,)
        Smallest and largest value; infinite, the wrong way round, where there is none.
    whole : array of bool, shape (m,)
        Whether every value is a whole number.
    """

    names: tuple[str, ...]
    n: int
    missing: npt.NDArray[np.int64]
    low: Floats
    high: Floats
    whole: npt.NDArray[np.bool_]

    @classmethod
    def of(cls, values: Floats, names: tuple[str, ...]) -> Self:
        """Sum up the records of an array, shape (n, m), NaN where missing."""
        m = len(names)
        missing = np.zeros(m, np.int64)
        low, high = np.full(m, np.inf), np.full(m, -np.inf)
        whole = np.ones(m, bool)
        for j, column in enumerate(values.T):
            there = column[~np.isnan(column)]
            missing[j] = column.size - there.size
            if there.size:
                low[j], high[j] = there.min(), there.max()
                whole[j] = bool((there == np.floor(there)).all())
        return cls(names, len(values), missing, low, high, whole)

    def __add__(self, other: ColumnSummary) -> ColumnSummary:
        if self.names != other.names:
            raise DataError(
                f"partitions differ in their columns: {listed(self.names)} "
                f"and {listed(other.names)}",
                other.names,
            )
        return ColumnSummary(
            self.names,
            self.n + other.n,
            self.missing + other.missing,
            np.minimum(self.low, other.low),
            np.maximum(self.high, other.high),
            self.whole & other.whole,
        )

    def check_varied(self, constant: str) -> None:
        """Refuse what no method can perturb: too few records, or a column without two values.

        Parameters
        ----------
        constant : {"refuse", "keep"}
            What to do with a column of one value, which would be released as it is.

        Raises
        ------
        DataError
            One line that names the column.
        """
        if self.n < 2:
            raise DataError(
                f"there {'is 1 record' if self.n else 'are 0 records'}; 2 or more are needed, "
                "since a single one would be released as it is",
                self.n,
            )
        for name, missing, low, high in zip(
            self.names, self.missing, self.low, self.high, strict=True
        ):
            if missing == self.n:
                raise DataError(
                    f"column {shown(name)}: every value is missing; leave the column out", name
                )
            if low == high and constant == "refuse":
                raise DataError(
                    f"column {shown(name)}: every value is {low:g}, which would be released as "
                    "it is; leave the column out, or say constant = 'keep'",
                    name,
                )
            if not math.isfinite(float(high) - float(low)):  # plain floats overflow silently
                raise DataError(
                    f"column {shown(name)}: the range from {low:g} to {high:g} is too wide to "
                    "compute with; rescale the column",
                    name,
                )

    def check_complete(self, method: str) -> None:
        """Refuse missing values, for a method that works on whole records."""
        for name, missing in zip(self.names, self.missing, strict=True):
            if missing:
                raise DataError(
                    f"column {shown(name)}: {missing} of {self.n} values are missing; {method} "
                    "needs complete records, drop the others first",
                    name,
                )
