"""One column of a table: texts, numbers or other values, some of them missing.

What reads a column asks for its distinct texts or its numbers and does not look at its values one
by one.  Columns of Arrow and of frames of pandas, which answer the same questions, have modules of
their own; :mod:`ppdm_dask.files.any_column` makes a column of whatever is given.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ppdm_dask.arrays import Floats
from ppdm_dask.files.texts import canonical_text, cell_text, is_missing

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

__all__ = ["Column", "Numbers", "Objects", "Positions", "Rows", "Texts", "small"]

Positions = npt.NDArray[np.signedinteger[Any]]

Rows = slice | npt.NDArray[Any]


class Column(ABC):
    """Values of one column, shape (n,)."""

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def coded(self) -> tuple[Positions, list[str]]:
        """Texts, and for each value which of them it is, -1 for a missing one.

        Texts may be in any order, and some of them may not occur.
        """

    @abstractmethod
    def objects(self) -> list[Any]:
        """Values of Python; None where one is missing."""

    @abstractmethod
    def to_numpy(self) -> npt.NDArray[Any]:
        """Values as an array: numbers, or objects."""

    @abstractmethod
    def take(self, rows: Rows) -> Column:
        """Some of the values: a slice, a mask, or positions."""

    @abstractmethod
    def arrow(self, kind: pa.DataType | None = None) -> Any:
        """An Arrow array of a type, or of the column's own."""

    @abstractmethod
    def series(self) -> pd.Series:
        """The column as one of a frame."""

    def factorised(self) -> tuple[Positions, list[str]]:
        """As :meth:`coded`, with the texts that occur, in order of first appearance."""
        return _in_order(*self.coded())

    def numbers(self) -> Floats | None:
        """Numbers, NaN where one is missing; None where a column does not hold numbers as such."""
        return None

    @property
    def kind(self) -> np.dtype[Any]:
        """Floating type in which numbers are held: single or half precision, else double."""
        return np.dtype(np.float64)

    def value(self, row: int) -> Any:
        """One value, for messages."""
        return self.objects()[row]

    def cells(self) -> list[str]:
        """Texts as a file has them: exact numbers, and nothing where a value is missing."""
        return [cell_text(value) for value in self.objects()]


def _in_order(codes: Positions, texts: list[str]) -> tuple[Positions, list[str]]:
    """Codes in order of first appearance, without texts that do not occur."""
    first = np.full(len(texts) + 1, len(codes))
    first[codes[::-1]] = np.arange(len(codes))[::-1]  # the last to be written is the first
    there = np.flatnonzero(first[:-1] < len(codes))
    order = there[np.argsort(first[there])]
    if len(order) == len(texts) and (np.diff(order) > 0).all():
        return codes, texts
    place = np.full(len(texts) + 1, -1)
    place[order] = np.arange(len(order))
    return place[codes], [texts[i] for i in order]


def small(codes: npt.NDArray[Any], texts: int) -> Positions:
    """Codes in the smallest integers that hold them: what reads them depends on their size."""
    kind = next(k for k in (np.int8, np.int16, np.int32, np.int64) if texts <= np.iinfo(k).max)
    small: Positions = codes.astype(kind, copy=False)
    return small


@dataclass(frozen=True, eq=False)
class Texts(Column):
    """Texts, each distinct one once.

    Parameters
    ----------
    codes : array of int, shape (n,)
        Position in `texts`; -1 for a missing value.
    texts : list of str
        Distinct.
    categories : bool
        Whether they are categories in a frame, rather than objects.
    """

    codes: npt.NDArray[Any]
    texts: list[str]
    categories: bool = True

    @classmethod
    def of(cls, values: Sequence[str | None], *, categories: bool = False) -> Texts:
        """Column of texts, None where one is missing."""
        places: dict[str, int] = {}
        codes = [-1 if v is None else places.setdefault(v, len(places)) for v in values]
        return cls(small(np.array(codes, np.int64), len(places)), list(places), categories)

    def sorted(self) -> Texts:
        """The same with its texts in alphabetical order."""
        order = np.argsort(np.array(self.texts, object))
        place = np.full(len(order) + 1, -1)
        place[order] = np.arange(len(order))
        codes = small(place[self.codes], len(order))
        return replace(self, codes=codes, texts=[self.texts[i] for i in order])

    def __len__(self) -> int:
        return len(self.codes)

    def coded(self) -> tuple[Positions, list[str]]:
        if len(self.texts) > len(self.codes):
            return self.factorised()
        return self.codes, self.texts

    def factorised(self) -> tuple[Positions, list[str]]:
        return _in_order(self.codes, self.texts)

    def _array(self, missing: float | None) -> npt.NDArray[np.object_]:
        table = np.array([*self.texts, missing], object)
        found: npt.NDArray[np.object_] = table[self.codes]
        return found

    def objects(self) -> list[Any]:
        found: list[Any] = self._array(None).tolist()
        return found

    def to_numpy(self) -> npt.NDArray[Any]:
        return self._array(np.nan if self.categories else None)

    def take(self, rows: Rows) -> Texts:
        return replace(self, codes=self.codes[rows])

    def arrow(self, kind: pa.DataType | None = None) -> Any:
        import pyarrow as pa

        codes = pa.array(self.codes, mask=self.codes < 0)
        texts = pa.array(self.texts, pa.string())
        return pa.DictionaryArray.from_arrays(codes, texts).cast(kind or pa.string())

    def series(self) -> pd.Series:
        import pandas as pd

        if not self.categories:
            return pd.Series(self._array(None), dtype=object)
        kind = pd.CategoricalDtype(pd.Index(self.texts, dtype=object))
        return pd.Series(pd.Categorical.from_codes(self.codes, dtype=kind))


@dataclass(frozen=True, eq=False)
class Numbers(Column):
    """Integers, floats or truth values.

    Parameters
    ----------
    values : array of int, float or bool, shape (n,)
    gone : array of bool, optional
        Where a value is missing; floats that are not numbers are missing too.
    gaps : bool
        Whether whole numbers and truth values may be missing, in a frame.
    """

    values: npt.NDArray[Any]
    gone: npt.NDArray[np.bool_] | None = None
    gaps: bool = False

    def __len__(self) -> int:
        return len(self.values)

    @property
    def kind(self) -> np.dtype[Any]:
        held = self.values.dtype
        return held if held.kind == "f" and held.itemsize < 8 else np.dtype(np.float64)

    def missing(self) -> npt.NDArray[np.bool_]:
        """Where a value is missing, shape (n,)."""
        if self.values.dtype.kind == "f":
            found: npt.NDArray[np.bool_] = np.isnan(self.values)
            return found if self.gone is None else found | self.gone
        gone: npt.NDArray[np.bool_] = np.zeros(len(self), bool)
        return gone if self.gone is None else self.gone

    def coded(self) -> tuple[Positions, list[str]]:
        import pyarrow as pa

        values, missing = self.values, self.missing()
        if values.dtype.kind == "f":
            values = values + values.dtype.type(0)  # there is one zero
        if values.dtype == np.float16:
            values = values.astype(np.float32)
        found = pa.array(values, mask=missing).dictionary_encode()
        codes = found.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.intp)
        distinct = found.dictionary.to_numpy(zero_copy_only=False)
        return codes, [canonical_text(value) for value in distinct]

    def factorised(self) -> tuple[Positions, list[str]]:
        return self.coded()  # which is in order of first appearance

    def numbers(self) -> Floats:
        found = self.values.astype(np.float64)
        if self.gone is not None:
            found[self.gone] = np.nan
        return found

    def value(self, row: int) -> Any:
        return None if self.missing()[row] else self.values[row]

    def objects(self) -> list[Any]:
        missing = self.missing()
        found: list[Any] = self.values.astype(object).tolist()
        if missing.any():
            found = [None if m else v for m, v in zip(missing, found, strict=True)]
        return found

    def to_numpy(self) -> npt.NDArray[Any]:
        if self.gone is None or not self.gone.any():
            return self.values
        return np.array(self.objects(), object) if self.values.dtype.kind == "b" else self.numbers()

    def take(self, rows: Rows) -> Numbers:
        return replace(
            self, values=self.values[rows], gone=None if self.gone is None else self.gone[rows]
        )

    def arrow(self, kind: pa.DataType | None = None) -> Any:
        import pyarrow as pa

        return pa.array(self.values, kind, mask=self.gone, from_pandas=True)

    def series(self) -> pd.Series:
        import pandas as pd

        held = self.values.dtype
        if held.kind == "f" or not self.gaps:
            return pd.Series(self.values if self.gone is None else self.to_numpy())
        gone = np.zeros(len(self), bool) if self.gone is None else self.gone.copy()
        masked: Any = pd.arrays.BooleanArray if held.kind == "b" else pd.arrays.IntegerArray
        return pd.Series(masked(self.values.copy(), gone))


@dataclass(frozen=True, eq=False)
class Objects(Column):
    """Values of Python of whatever types, which become texts one by one."""

    values: list[Any]

    def __len__(self) -> int:
        return len(self.values)

    def coded(self) -> tuple[Positions, list[str]]:
        # By text: Python holds 1, 1.0 and True for equal.
        texts = [None if is_missing(v) else canonical_text(v) for v in self.values]
        found = Texts.of(texts)
        return found.codes, found.texts

    def objects(self) -> list[Any]:
        return [None if is_missing(value) else value for value in self.values]

    def value(self, row: int) -> Any:
        return self.values[row]

    def to_numpy(self) -> npt.NDArray[Any]:
        found = np.empty(len(self), object)
        found[:] = self.values
        return found

    def take(self, rows: Rows) -> Objects:
        return Objects(self.to_numpy()[rows].tolist())

    def arrow(self, kind: pa.DataType | None = None) -> Any:
        import pyarrow as pa

        return pa.array(self.to_numpy(), kind, from_pandas=True)

    def series(self) -> pd.Series:
        import pandas as pd

        return pd.Series(self.to_numpy(), dtype=object)
