"""Named columns: the form of what is read from files and of tables in memory."""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ppdm_dask.errors import CodebookError
from ppdm_dask.extras import named
from ppdm_dask.files.any_column import column_of, joined
from ppdm_dask.files.arrow_column import column_of_arrow
from ppdm_dask.files.column import Column, Rows
from ppdm_dask.files.frame_column import FrameColumn

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

__all__ = ["Table", "is_frame"]


def is_frame(data: object) -> bool:
    """Whether something is a DataFrame of pandas, which is not imported to find out."""
    pandas = sys.modules.get("pandas")
    return pandas is not None and isinstance(data, pandas.DataFrame)


class _OfFrame(Sequence[Column]):
    """Columns of a frame, each made where it is asked for."""

    def __init__(self, frame: pd.DataFrame) -> None:
        self._frame = frame

    def __len__(self) -> int:
        return len(self._frame.columns)

    def __getitem__(self, place: Any) -> Any:
        return FrameColumn(self._frame.iloc[:, place])


@dataclass(frozen=True, eq=False)
class Table:
    """Columns of equal length.

    Parameters
    ----------
    columns : sequence of str
        Names, which may occur twice in a table that is not a file's.
    values : sequence of Column
    n : int
        Rows.
    """

    columns: Sequence[Any]
    values: Sequence[Column]
    n: int

    @classmethod
    def of_frame(cls, frame: pd.DataFrame) -> Table:
        """Table of a frame of pandas."""
        return cls(list(frame.columns), _OfFrame(frame), len(frame))

    @classmethod
    def of(cls, columns: Mapping[str, Column], n: int) -> Table:
        """Table of named columns."""
        return cls(list(columns), list(columns.values()), n)

    @classmethod
    def of_arrays(cls, arrays: Mapping[str, Any], n: int) -> Table:
        """Table of arrays and lists, each of n values."""
        return cls.of({name: column_of(array) for name, array in arrays.items()}, n)

    @classmethod
    def of_mapping(cls, columns: Mapping[str, Any]) -> Table:
        """Table of a mapping of columns: arrays, lists, or one value for all rows.

        Raises
        ------
        CodebookError
            If columns are not equally long.
        """
        wrong = CodebookError("got a mapping that is not a table of equally long columns")
        found: dict[str, Any] = {}
        for name, given in columns.items():
            if hasattr(given, "iloc") or isinstance(given, Mapping):  # matched by their labels
                return cls.of_frame(_frame_of(columns, wrong))
            found[name] = _listed(given)
        sizes = {len(values) for values in found.values() if values is not None}
        if len(sizes) > 1 or (found and not sizes):
            raise wrong
        n = sizes.pop() if sizes else 0
        made = {
            name: column_of([columns[name]] * n if values is None else values)
            if not isinstance(values, Column)
            else values
            for name, values in found.items()
        }
        return cls.of(made, n)

    def __len__(self) -> int:
        return self.n

    def __contains__(self, name: object) -> bool:
        return name in self.columns

    def __getitem__(self, name: str) -> Column:
        return self.values[list(self.columns).index(name)]

    def __iter__(self) -> Iterator[Any]:
        return iter(self.columns)

    def select(self, names: Iterable[str]) -> Table:
        """Some columns, in the order given."""
        names = list(names)
        return Table(names, [self[name] for name in names], self.n)

    def take(self, rows: Rows) -> Table:
        """Some rows: a slice, a mask, or positions."""
        n = len(np.arange(self.n)[rows])
        return Table(self.columns, [each.take(rows) for each in self.values], n)

    def replaced(self, columns: Mapping[str, Column]) -> Table:
        """The same with other values in some columns."""
        pairs = zip(self.columns, self.values, strict=True)
        return Table(self.columns, [columns.get(name, each) for name, each in pairs], self.n)

    def to_frame(self) -> pd.DataFrame:
        """The table as a DataFrame of pandas."""
        with named("to_frame"):
            import pandas as pd

        series = (each.series() for each in self.values)
        frame = pd.DataFrame(dict(enumerate(series)), index=range(self.n))
        frame.columns = pd.Index(self.columns, dtype=object)
        return frame

    def to_arrow(self) -> pa.Table:
        """The table as one of Arrow."""
        import pyarrow as pa

        return pa.table([each.arrow() for each in self.values], names=list(self.columns))

    @staticmethod
    def joined(tables: Sequence[Table]) -> Table:
        """Rows of tables of the same columns, one table at least, one behind the other."""
        first = tables[0]
        values = [joined([each.values[i] for each in tables]) for i in range(len(first.columns))]
        return Table(first.columns, values, sum(each.n for each in tables))


def _listed(given: Any) -> Any:
    """Values of a column as an array, a list or a column; None where they are one value."""
    if isinstance(given, np.ndarray):
        return given if given.ndim == 1 else list(given) if given.ndim else None
    if hasattr(given, "__arrow_c_stream__") or hasattr(given, "__arrow_c_array__"):
        return _of_arrow(given)
    if isinstance(given, str | bytes) or not isinstance(given, Iterable):
        return None
    if isinstance(given, Collection) and not isinstance(given, Sequence):
        raise CodebookError("got a mapping that is not a table of equally long columns")
    return list(given)


def _of_arrow(given: Any) -> Column:
    """Column of an array of Arrow's or polars'."""
    import pyarrow as pa

    chunked = hasattr(given, "__arrow_c_stream__")
    found = pa.chunked_array(given if chunked else [pa.array(given)])
    return column_of_arrow(found)


def _frame_of(columns: Mapping[str, Any], wrong: CodebookError) -> pd.DataFrame:
    with named("a mapping of columns with labels of their own"):
        import pandas as pd
    try:
        return pd.DataFrame(dict(columns))
    except (TypeError, ValueError):
        raise wrong from None
