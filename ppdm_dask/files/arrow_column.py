"""Columns as Arrow holds them, and what their values are in Python."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ppdm_dask.arrays import Floats
from ppdm_dask.files.column import Column, Numbers, Objects, Positions, Rows, Texts
from ppdm_dask.files.texts import canonical_text, cell_text

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

__all__ = ["ArrowValues", "column_of_arrow"]


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

        found = _one_array(self.column)
        while isinstance(found.type, pa.BaseExtensionType):
            found = found.storage
        return found

    @cached_property
    def _held(self) -> Numbers | None:
        """The column as numbers, where it holds such; converted once, whatever is asked of them."""
        return _numbers_of(self._array())

    @property
    def kind(self) -> np.dtype[Any]:
        held = self._held
        return super().kind if held is None else held.kind

    def numbers(self) -> Floats | None:
        held = self._held
        return None if held is None else held.numbers()

    def coded(self) -> tuple[Positions, list[str]]:
        return self._coded

    @cached_property
    def _coded(self) -> tuple[Positions, list[str]]:
        import pyarrow as pa

        if (held := self._held) is not None:
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
        texts = [None if v is None else canonical_text(v) for v in _plain_values(found.dictionary)]
        # A dictionary may hold a text twice, or none.
        distinct = Texts.of(texts)
        return np.append(distinct.codes, np.int8(-1))[codes].astype(np.intp), distinct.texts

    def objects(self) -> list[Any]:
        return _plain_values(self._array())

    def cells(self) -> list[str]:
        held = self._held
        if held is not None and held.values.dtype.kind == "f":
            # Single precision has its own shortest text: 0.1, where a double would have 17 digits.
            return [cell_text(value) for value in held.to_numpy()]
        return super().cells()

    def to_numpy(self) -> npt.NDArray[Any]:
        import pyarrow as pa

        if (held := self._held) is not None:
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
    numbers = _numbers_of(_one_array(column))
    return ArrowValues(column) if numbers is None else numbers


def _one_array(column: Any) -> Any:
    """One array of a chunked one."""
    import pyarrow as pa

    found = column.combine_chunks()
    return pa.concat_arrays(found.chunks) if isinstance(found, pa.ChunkedArray) else found


_UNITS = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
"""Parts of a second in which Arrow counts times."""


def _plain_values(array: Any) -> list[Any]:
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
    parts = _UNITS[kind.unit]
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


def _numbers_of(array: Any) -> Numbers | None:
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
