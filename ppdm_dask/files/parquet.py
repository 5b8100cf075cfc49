"""Columns of a Parquet file or of an Arrow table, as frames by the same rules as those of a CSV.

Beside it: tables that are in memory already, of pandas or of whatever hands out Arrow columns; data
sets of several files: one type for a column in all of them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from ppdm_dask.errors import CodebookError, DataError
from ppdm_dask.shown import shown

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa
    import pyarrow.parquet as pq

__all__ = [
    "arrow_batches",
    "arrow_frame",
    "arrow_series",
    "as_frame",
    "open_parquet",
    "plain_type",
    "reading_parquet",
    "unreadable",
]


def as_frame(data: Any, columns: Collection[str]) -> pd.DataFrame:
    """Frame of a table; of Arrow's only some columns, by the rules of a Parquet file.

    Parameters
    ----------
    data : DataFrame of pandas, or a table that gives an Arrow stream: pyarrow's, polars'
    columns : collection of str
        Columns that are wanted; one that is absent is left out.

    Raises
    ------
    CodebookError
        One line, without data, for anything else, and for a column whose values are not read.
    """
    import pandas as pd

    if isinstance(data, pd.DataFrame):
        return data
    if not hasattr(data, "__arrow_c_stream__"):
        raise CodebookError(
            f"got a {type(data).__name__}; a DataFrame of pandas or polars, or an Arrow table, is "
            "needed"
        )
    import pyarrow as pa

    try:
        table = pa.table(data)
        places = [i for i, name in enumerate(table.schema.names) if name in columns]
        for i in places:
            column = table.schema.field(i)
            if why := unreadable(column.type):
                raise CodebookError(f"column {shown(column.name)} {why}", column.name)
        return arrow_frame(table.select(places))
    except (pa.ArrowException, TypeError, ValueError) as error:
        if isinstance(error, CodebookError):
            raise
        raise CodebookError(f"got a {type(data).__name__} that is no table") from None


Source = Path | BinaryIO


def open_parquet(path: Path, source: Source | None = None) -> pa.Schema:
    """The schema of a Parquet file; DataError where it is none."""
    import pyarrow.parquet as pq

    with reading_parquet(path):
        return pq.read_schema(path if source is None else source)


@contextmanager
def reading_parquet(path: Path) -> Iterator[None]:
    """Context in which what is wrong with a Parquet file becomes one line that names it."""
    import pyarrow as pa

    try:
        yield
    except FileNotFoundError:
        raise DataError(f"{path}: there is no such file", path) from None
    except DataError:
        raise
    # Arrow's faults are OSError, ValueError and others; a damaged zone of times is a LookupError.
    except (OSError, ValueError, LookupError, OverflowError, pa.ArrowException) as error:
        what = (str(error).splitlines() or [type(error).__name__])[0][:120]
        raise DataError(f"{path}: cannot be read as Parquet: {what}", path) from None


def unreadable(kind: pa.DataType) -> str:
    """Why values of a type are not read: nested ones, and bytes that do not say they are text."""
    import pyarrow as pa

    kind = plain_type(kind)
    if pa.types.is_nested(kind):
        return f"holds {str(kind)[:60]}; texts or numbers are needed"
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return f"holds {kind}; save it as text"
    if pa.types.is_fixed_size_binary(kind):
        return f"holds {kind}; texts or numbers are needed"
    return ""


def plain_type(kind: pa.DataType) -> pa.DataType:
    """What is stored by a type: of a dictionary or an extension the type of its values."""
    import pyarrow as pa

    while True:
        if isinstance(kind, pa.BaseExtensionType):
            kind = kind.storage_type
        elif pa.types.is_dictionary(kind):
            kind = kind.value_type
        elif pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
            return pa.string()
        else:
            return kind


def arrow_batches(
    path: Path, file: pq.ParquetFile, columns: Sequence[str], size: int, groups: Any = None
) -> Iterator[pa.RecordBatch]:
    """Some columns of a file or of some of its row groups, `size` records at a time."""
    wanted = list(dict.fromkeys(columns))
    with reading_parquet(path):
        if not wanted:  # there are still records to count
            wanted = file.schema_arrow.names[:1]
        batches = file.iter_batches(size, row_groups=groups, columns=wanted, use_threads=False)
        for batch in batches:
            # A name with a point may have brought parts of nested columns along.
            yield batch.select(columns)


def arrow_frame(batch: pa.RecordBatch | pa.Table, kept: Collection[str] = ()) -> pd.DataFrame:
    """Frame of Arrow columns; an empty text is a missing value, and whole numbers stay whole.

    Parameters
    ----------
    batch : RecordBatch or Table
    kept : sequence of str
        Columns that keep their very values and Arrow type, to be written as they are.
    """
    import pandas as pd

    names = batch.schema.names
    columns = [
        arrow_series(c, as_it_is=name in kept) for name, c in zip(names, batch.columns, strict=True)
    ]
    frame = pd.DataFrame(dict(enumerate(columns)), index=range(batch.num_rows))
    frame.columns = pd.Index(names, dtype=object)  # which may occur twice in a table of others
    return frame


def arrow_series(column: Any, *, as_it_is: bool = False) -> pd.Series:
    """Column of a frame; see :func:`arrow_frame`."""
    import pandas as pd
    import pyarrow as pa
    import pyarrow.compute as pc

    if as_it_is:
        chunks = column if isinstance(column, pa.ChunkedArray) else pa.chunked_array([column])
        return pd.Series(pd.arrays.ArrowExtensionArray(chunks))
    while column.type != plain_type(column.type):
        if isinstance(column.type, pa.BaseExtensionType):
            column = column.cast(column.type.storage_type)
        elif pa.types.is_dictionary(column.type):
            column = column.cast(column.type.value_type)
        else:
            column = column.cast(pa.string())
    kind = column.type
    if pa.types.is_string(kind):
        empty = pc.equal(column, "")
        if pc.any(empty).as_py():
            column = pc.if_else(empty, pa.scalar(None, pa.string()), column)
        return pd.Series(column.to_numpy(zero_copy_only=False), dtype=object)
    if pa.types.is_null(kind):
        return pd.Series([None] * len(column), dtype=object)
    series: pd.Series = column.to_pandas(types_mapper=_nullable().get)
    return series


def _nullable() -> dict[pa.DataType, Any]:
    """Whole numbers and truth values with gaps, which NumPy would make floats or objects."""
    import pandas as pd
    import pyarrow as pa

    whole = {
        getattr(pa, name.lower())(): getattr(pd, f"{name}Dtype")()
        for name in ("Int8", "Int16", "Int32", "Int64", "UInt8", "UInt16", "UInt32", "UInt64")
    }
    return {**whole, pa.bool_(): pd.BooleanDtype()}
