"""One column of a table: texts, numbers or other values, some of them missing.

What reads a column asks for its distinct texts or its numbers and does not look at its values one
by one.  A column of a frame of pandas answers the same questions; pandas itself is imported only
where there is such a frame, or one is asked for.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ppdm_dask.arrays import Floats
from ppdm_dask.files.texts import canonical_text, cell_text, is_missing

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

__all__ = [
    "ArrowValues",
    "Column",
    "FrameColumn",
    "Numbers",
    "Objects",
    "Positions",
    "Rows",
    "Texts",
    "as_column",
    "column_of",
    "column_of_arrow",
    "joined",
    "numbers_of",
    "one_array",
    "small",
]

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

    def _missing(self) -> npt.NDArray[np.bool_]:
        if self.values.dtype.kind == "f":
            found: npt.NDArray[np.bool_] = np.isnan(self.values)
            return found if self.gone is None else found | self.gone
        gone: npt.NDArray[np.bool_] = np.zeros(len(self), bool)
        return gone if self.gone is None else self.gone

    def coded(self) -> tuple[Positions, list[str]]:
        import pyarrow as pa

        values, missing = self.values, self._missing()
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
        return None if self._missing()[row] else self.values[row]

    def objects(self) -> list[Any]:
        missing = self._missing()
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


@dataclass(frozen=True, eq=False)
class ArrowValues(Column):
    """Values as Arrow holds them: times, decimals, or whatever is passed on as it is.

    Parameters
    ----------
    column : pyarrow.ChunkedArray
    kept : bool
        Whether a frame keeps the very type too.
    """

    column: Any
    kept: bool = False

    def __len__(self) -> int:
        return len(self.column)

    def _array(self) -> Any:
        """One array, of the values that an extension type stores."""
        import pyarrow as pa

        found = one_array(self.column)
        while isinstance(found.type, pa.BaseExtensionType):
            found = found.storage
        return found

    def _held(self) -> Numbers | None:
        """The column as numbers, where it holds such."""
        return numbers_of(self._array())

    @property
    def kind(self) -> np.dtype[Any]:
        held = self._held()
        return super().kind if held is None else held.kind

    def numbers(self) -> Floats | None:
        held = self._held()
        return None if held is None else held.numbers()

    def coded(self) -> tuple[Positions, list[str]]:
        return self._coded

    @cached_property
    def _coded(self) -> tuple[Positions, list[str]]:
        import pyarrow as pa

        if (held := self._held()) is not None:
            return held.coded()
        found = self._array()
        if not pa.types.is_dictionary(found.type):
            try:
                found = found.dictionary_encode()
            except pa.ArrowException:  # of nested values Arrow knows no distinct ones
                return Objects(self.objects()).coded()
        indices = found.indices
        if pa.types.is_unsigned_integer(indices.type):
            indices = indices.cast(pa.int64())
        codes = indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.intp)
        texts = [None if v is None else canonical_text(v) for v in plain_values(found.dictionary)]
        # A dictionary may hold a text twice, or none.
        distinct = Texts.of(texts)
        return np.append(distinct.codes, np.int8(-1))[codes].astype(np.intp), distinct.texts

    def objects(self) -> list[Any]:
        return plain_values(self._array())

    def cells(self) -> list[str]:
        held = self._held()
        if held is not None and held.values.dtype.kind == "f":
            # Single precision has its own shortest text: 0.1, where a double would have 17 digits.
            return [cell_text(value) for value in held.to_numpy()]
        return super().cells()

    def to_numpy(self) -> npt.NDArray[Any]:
        import pyarrow as pa

        if (held := self._held()) is not None:
            return held.to_numpy()
        found = self._array()
        zone = pa.types.is_timestamp(found.type) and found.type.tz is not None
        if (pa.types.is_timestamp(found.type) or pa.types.is_duration(found.type)) and not zone:
            plain: npt.NDArray[Any] = found.to_numpy(zero_copy_only=False)
            return plain
        return Objects(self.objects()).to_numpy()

    def take(self, rows: Rows) -> ArrowValues:
        if isinstance(rows, slice) and rows.step in (None, 1):
            start, stop, _ = rows.indices(len(self))
            return replace(self, column=self.column.slice(start, max(stop - start, 0)))
        return replace(self, column=self.column.take(np.arange(len(self))[rows]))

    def arrow(self, kind: pa.DataType | None = None) -> Any:
        return self.column if kind in (None, self.column.type) else self.column.cast(kind)

    def series(self) -> pd.Series:
        import pandas as pd
        import pyarrow as pa

        if self.kept:
            return pd.Series(pd.arrays.ArrowExtensionArray(pa.chunked_array(self.column)))
        series: pd.Series = self.column.to_pandas()
        return series


def column_of_arrow(column: Any) -> Column:
    """Column of a chunked array of Arrow: numbers as such, and other values as Arrow has them."""
    numbers = numbers_of(one_array(column))
    return ArrowValues(column) if numbers is None else numbers


def one_array(column: Any) -> Any:
    """One array of a chunked one."""
    import pyarrow as pa

    found = column.combine_chunks()
    return pa.concat_arrays(found.chunks) if isinstance(found, pa.ChunkedArray) else found


UNITS = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
"""Parts of a second in which Arrow counts times."""


def plain_values(array: Any) -> list[Any]:
    """Values of an Arrow array; moments and durations as pandas writes them, to the nanosecond.

    Arrow has them from pandas where it is installed, and has none of nanoseconds where it is not.
    """
    import pyarrow as pa

    kind = array.type
    if pa.types.is_dictionary(kind):
        array = array.cast(kind.value_type)
        kind = array.type
    if not (pa.types.is_timestamp(kind) or pa.types.is_duration(kind)):
        found: list[Any] = array.to_pylist()
        return found
    parts = UNITS[kind.unit]
    counts = array.cast(pa.int64()).to_pylist()
    if pa.types.is_duration(kind):
        return [None if n is None else _duration(n * (10**9 // parts)) for n in counts]
    seconds = [None if n is None else n // parts for n in counts]
    whole = pa.array(seconds, pa.int64()).cast(pa.timestamp("s", kind.tz)).to_pylist()
    return [
        None if n is None else _moment(str(at), n % parts * (10**9 // parts))
        for n, at in zip(counts, whole, strict=True)
    ]


def _fraction(nanoseconds: int) -> str:
    if not nanoseconds:
        return ""
    return f".{nanoseconds // 1000:06d}" if nanoseconds % 1000 == 0 else f".{nanoseconds:09d}"


def _moment(text: str, nanoseconds: int) -> str:
    """A moment, from its text to the second: 2026-11-29 14:05:30.25+01:00."""
    seconds = len("2026-11-29 14:05:30")
    return text[:seconds] + _fraction(nanoseconds) + text[seconds:]


def _duration(nanoseconds: int) -> str:
    days, rest = divmod(nanoseconds, 86_400 * 10**9)
    seconds, rest = divmod(rest, 10**9)
    sign = "+" if days < 0 else ""
    clock = f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
    return f"{days} days {sign}{clock}{_fraction(rest)}"


def numbers_of(array: Any) -> Numbers | None:
    """Integers, floats or truth values of an Arrow array; None for another type."""
    import pyarrow as pa

    kind = array.type
    if pa.types.is_boolean(kind):
        array = array.cast(pa.uint8())
    elif not (pa.types.is_integer(kind) or pa.types.is_floating(kind)):
        return None
    gone = None
    if array.null_count:
        gone = array.is_null().to_numpy(zero_copy_only=False)
        if pa.types.is_float16(kind):
            array = array.cast(pa.float32()).fill_null(0).cast(kind)
        else:
            array = array.fill_null(0)
    values = array.to_numpy(zero_copy_only=False)
    if pa.types.is_floating(kind) and gone is not None:
        # A float that is not there is not a number, in an array and in a frame.
        values = np.where(gone, values.dtype.type(np.nan), values)
        gone = None
    return Numbers(values.astype(bool) if pa.types.is_boolean(kind) else values, gone, True)


@dataclass(frozen=True, eq=False)
class FrameColumn(Column):
    """A column of a frame of pandas, of any dtype."""

    values: pd.Series

    def __len__(self) -> int:
        return len(self.values)

    @property
    def kind(self) -> np.dtype[Any]:
        kind = getattr(self.values.dtype, "numpy_dtype", self.values.dtype)
        if isinstance(kind, np.dtype) and kind.kind == "f" and kind.itemsize < 8:
            return kind
        return super().kind

    def numbers(self) -> Floats | None:
        if self.values.dtype.kind not in "iufb":
            return None
        found: Floats = self.values.to_numpy(dtype=np.float64, na_value=np.nan)
        return found

    def factorised(self) -> tuple[Positions, list[str]]:
        import pandas as pd

        values = self.values
        if values.dtype == object and pd.api.types.infer_dtype(values, skipna=True) != "string":
            # Python holds 1, 1.0 and True for equal, so mixed columns are made text by value.
            missing = values.isna().to_numpy()
            values = pd.Series(
                [None if m else canonical_text(v) for m, v in zip(missing, values, strict=True)],
                dtype=object,
            )
        positions, distinct = pd.factorize(values)
        # An array keeps single precision, in which 0.1 is "0.1", where pandas would hand out
        # doubles.
        singles = np.asarray(distinct) if distinct.dtype.kind == "f" else distinct
        return positions, [canonical_text(value) for value in singles]

    def coded(self) -> tuple[Positions, list[str]]:
        import pandas as pd

        kind = self.values.dtype
        if not isinstance(kind, pd.CategoricalDtype) or len(kind.categories) > len(self):
            return self.factorised()
        each = pd.Categorical.from_codes(np.arange(len(kind.categories)), dtype=kind)
        return self.values.array.codes, [canonical_text(value) for value in each]

    def value(self, row: int) -> Any:
        return self.values.iloc[row]

    def objects(self) -> list[Any]:
        return list(self.values.astype(object).where(self.values.notna(), None))

    def cells(self) -> list[str]:
        import pandas as pd
        import pyarrow as pa

        dtype = self.values.dtype
        if isinstance(dtype, pd.ArrowDtype) and pa.types.is_floating(dtype.pyarrow_dtype):
            kind = dtype.pyarrow_dtype.to_pandas_dtype()
            return [cell_text(each) for each in self.values.to_numpy(kind, na_value=np.nan)]
        return [cell_text(each) for each in self.values]

    def to_numpy(self) -> npt.NDArray[Any]:
        return self.values.to_numpy()

    def take(self, rows: Rows) -> FrameColumn:
        return FrameColumn(self.values.iloc[rows])

    def arrow(self, kind: pa.DataType | None = None) -> Any:
        import pyarrow as pa

        return pa.array(self.values, kind, from_pandas=True)

    def series(self) -> pd.Series:
        return self.values


def as_column(values: Any) -> Column:
    """A column as such: one of a frame, an array or a list becomes one."""
    if isinstance(values, Column):
        return values
    if isinstance(values, np.ndarray | list | tuple):
        return column_of(values)
    return FrameColumn(values)


def column_of(values: npt.NDArray[Any] | Sequence[Any]) -> Column:
    """Column of an array or a list, with the types that a frame of it would have."""
    if isinstance(values, np.ndarray):
        kind = values.dtype.kind
        if kind in "iufb" and values.dtype.itemsize <= 8:
            return Numbers(values)
        if kind in "mM":
            import pyarrow as pa

            return ArrowValues(pa.chunked_array([pa.array(values)]))
        held: list[Any] = values.tolist()
        return _texts_or_objects(held)
    values = list(values)
    kinds = set(map(type, values))
    if kinds == {bool}:
        return Numbers(np.array(values))
    kinds.discard(type(None))
    number = (int, float, np.integer, np.floating)
    if kinds and bool not in kinds and all(issubclass(each, number) for each in kinds):
        return _numbers(values)
    return _texts_or_objects(values)


def _numbers(values: list[Any]) -> Column:
    try:
        found = np.array([np.nan if value is None else value for value in values])
    except (OverflowError, ValueError):
        return Objects(values)
    return Numbers(found) if found.dtype.kind in "iuf" else Objects(values)


def _texts_or_objects(values: list[Any]) -> Column:
    """Column of a list of texts, None where one is missing, or of whatever else is among them."""
    import pyarrow as pa

    if not values or not set(map(type, values)) <= {str, type(None)}:
        return Objects(values)
    try:
        found = pa.array(values, pa.string()).dictionary_encode()
    except UnicodeEncodeError:  # half a sign, which only Python takes for a text
        return Texts.of(values)
    codes = found.indices.fill_null(-1).to_numpy(zero_copy_only=False)
    texts = found.dictionary.to_pylist()
    return Texts(small(codes, len(texts)), texts, categories=False)


def joined(columns: Sequence[Column]) -> Column:
    """The values of several columns, one behind the other."""
    import pyarrow as pa

    first = columns[0]
    if len(columns) == 1:
        return first
    if all(isinstance(each, Texts) for each in columns):
        return _joined_texts([each for each in columns if isinstance(each, Texts)])
    if isinstance(first, Numbers):
        numbers = [each for each in columns if isinstance(each, Numbers)]
        same = {(each.values.dtype, each.gaps) for each in numbers}
        if len(numbers) == len(columns) and len(same) == 1:
            gaps = any(each.gone is not None for each in numbers)
            gone = np.concatenate([each._missing() for each in numbers]) if gaps else None
            return Numbers(np.concatenate([each.values for each in numbers]), gone, first.gaps)
    if isinstance(first, ArrowValues):
        arrows = [each for each in columns if isinstance(each, ArrowValues)]
        if len(arrows) == len(columns) and len({each.column.type for each in arrows}) == 1:
            pieces = [pa.chunked_array(each.column).chunks for each in arrows]
            whole = pa.chunked_array(list(chain.from_iterable(pieces)), first.column.type)
            return ArrowValues(whole, first.kept)
    return Objects(list(chain.from_iterable(each.to_numpy().tolist() for each in columns)))


def _joined_texts(columns: Sequence[Texts]) -> Texts:
    first = columns[0]
    if all(each.texts == first.texts and each.categories for each in columns):
        return replace(first, codes=np.concatenate([each.codes for each in columns]))
    places: dict[str, int] = {}
    codes = []
    for each in columns:
        table = [places.setdefault(text, len(places)) for text in each.texts]
        codes.append(np.array([*table, -1])[each.codes])
    return Texts(small(np.concatenate(codes), len(places)), list(places), categories=False)
