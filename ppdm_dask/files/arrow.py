"""Arrow columns as tables, by the same rules as those of a CSV, and files that hold them.

Also here: tables that are in memory already, of pandas or of whatever hands out Arrow columns.
"""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Collection, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt

from ppdm_dask.errors import CodebookError, DataError
from ppdm_dask.files.arrow_column import ArrowValues, column_of_arrow
from ppdm_dask.files.column import Column, Objects, Texts, small
from ppdm_dask.files.datafile import Block, DataFile, Levels, block_size
from ppdm_dask.files.table import Table, is_frame
from ppdm_dask.files.texts import canonical_text
from ppdm_dask.shown import shown

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

__all__ = [
    "ArrowColumns",
    "Batches",
    "arrow_table",
    "as_table",
    "column_types",
    "is_texts",
    "plain_type",
    "reading",
    "require_values",
    "together",
    "unreadable",
]


def as_table(data: Any, columns: Collection[str]) -> Table:
    """A table by the rules of files; of Arrow's only some columns, as of a Parquet file.

    Parameters
    ----------
    data : Table, DataFrame of pandas, or what gives an Arrow stream: pyarrow's, polars'
    columns : collection of str
        Columns that are wanted; one that is absent is left out.

    Raises
    ------
    CodebookError
        One line, without data, for anything else, and for a column whose values are not read.
    """
    if isinstance(data, Table):
        return data
    if is_frame(data):
        return Table.of_frame(data)
    if not hasattr(data, "__arrow_c_stream__"):
        raise CodebookError(
            f"got a {type(data).__name__}; a DataFrame of pandas or polars, or an Arrow table, is "
            "needed (collect a lazy one)"
        )
    import pyarrow as pa

    try:
        table = pa.table(data)
        places = [i for i, name in enumerate(table.schema.names) if name in columns]
        for i in places:
            column = table.schema.field(i)
            if why := unreadable(column.type):
                raise CodebookError(f"column {shown(column.name)} {why}", column.name)
        return arrow_table(table.select(places))
    except (pa.ArrowException, TypeError, ValueError) as error:
        if isinstance(error, CodebookError):
            raise
        raise CodebookError(f"got a {type(data).__name__} that is not a table") from None


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


def arrow_table(batch: pa.RecordBatch | pa.Table, kept: Collection[str] = ()) -> Table:
    """Table of Arrow columns; an empty text is a missing value, and whole numbers stay whole.

    Parameters
    ----------
    batch : RecordBatch or Table
    kept : sequence of str
        Columns that keep their very values and Arrow type, to be written as they are.
    """
    names = batch.schema.names
    pairs = zip(names, batch.columns, strict=True)
    return Table(names, [_column(c, as_it_is=name in kept) for name, c in pairs], batch.num_rows)


def _column(column: Any, *, as_it_is: bool = False) -> Column:
    """One of the columns; see :func:`arrow_table`."""
    import pyarrow as pa

    chunks = column if isinstance(column, pa.ChunkedArray) else pa.chunked_array([column])
    if as_it_is:
        return ArrowValues(chunks, kept=True)
    if is_texts(column.type):
        return _categories(column)
    while column.type != plain_type(column.type):
        if isinstance(column.type, pa.BaseExtensionType):
            column = column.cast(column.type.storage_type)
        elif pa.types.is_dictionary(column.type):
            column = column.cast(column.type.value_type)
        else:
            column = column.cast(pa.string())
    if pa.types.is_null(column.type):
        return Objects([None] * len(column))
    whole = column if isinstance(column, pa.ChunkedArray) else pa.chunked_array([column])
    made = column_of_arrow(whole)
    if pa.types.is_temporal(column.type):
        made.coded()  # here, since a zone of times may be damaged
    return made


def is_texts(kind: pa.DataType) -> bool:
    """Whether values of a type, or of a dictionary or an extension of it, are texts."""
    import pyarrow as pa

    return bool(pa.types.is_string(plain_type(kind)))


def _categories(column: Any) -> Texts:
    """Texts as categories, so that what reads them looks at each distinct one once."""
    import pyarrow as pa

    while not pa.types.is_dictionary(column.type):
        extended = isinstance(column.type, pa.BaseExtensionType)
        column = column.cast(column.type.storage_type) if extended else column.dictionary_encode()
    chunks = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
    # Distinct ones; an empty text, and one that a dictionary lacks, are missing values.
    places: dict[str, int] = {}
    codes: list[npt.NDArray[Any]] = [np.zeros(0, np.int8)]
    for chunk in chunks:
        indices = chunk.indices
        if pa.types.is_unsigned_integer(indices.type):
            indices = indices.cast(pa.int64())
        given = indices.fill_null(-1).to_numpy(zero_copy_only=False)
        texts = chunk.dictionary.to_pylist()
        table = [places.setdefault(text, len(places)) if text else -1 for text in texts]
        # Most often a dictionary is that of the categories itself.
        same = table == list(range(len(table)))
        codes.append(given if same else np.array([*table, -1])[given])
    joined = codes[-1] if len(codes) == 2 else np.concatenate(codes)
    return Texts(small(joined, len(places)), list(places))


class Batches(Protocol):
    """An open file of Arrow columns."""

    @property
    def sizes(self) -> list[int]:
        """Records of each row group."""

    def read(
        self, columns: Sequence[str], size: int, groups: Sequence[int] | None
    ) -> Iterator[pa.RecordBatch]:
        """Distinct columns, one at least, of all row groups or of some, `size` records at most."""


class ArrowColumns(DataFile):
    """A file of typed columns in row groups; a format says how they are read."""

    @abstractmethod
    def _reading(self, coded: Collection[str] = ()) -> AbstractContextManager[Batches]:
        """Open the file; what is wrong with it becomes a DataError of one line in the context.

        Parameters
        ----------
        coded : collection of str
            Columns whose texts may come as dictionaries, if the format has them at hand.
        """

    def refusal(self, name: str) -> str:
        return unreadable(self.types[name])

    def _batches(
        self,
        file: Batches,
        columns: Sequence[str],
        size: int,
        groups: Sequence[int] | None = None,
    ) -> Iterator[pa.RecordBatch]:
        # Without columns there are still records to count.
        wanted = list(dict.fromkeys(columns)) or list(self.columns[:1])
        for batch in file.read(wanted, size, groups):
            # A name with a point may have brought parts of nested columns along.
            yield batch.select(columns)

    def _blocks(
        self,
        columns: list[str],
        size: int,
        kept: Collection[str],
        groups: Sequence[int] | None = None,
    ) -> Iterator[Block]:
        offset = 0
        with self._reading(set(columns) - set(kept)) as file:
            for batch in self._batches(file, columns, size, groups):
                yield Block(arrow_table(batch, kept), offset, [])
                offset += batch.num_rows

    def blocks_of(
        self,
        groups: Sequence[int],
        columns: Sequence[str],
        size: int | None = None,
        *,
        kept: Collection[str] = (),
    ) -> Iterator[Block]:
        self._check([*columns, *kept], kept)
        names = self._in_order({*columns, *kept})
        return self._blocks(names, block_size(size, len(names)), kept, groups)

    def _in_order(self, names: Collection[str]) -> list[str]:
        return [name for name in self.columns if name in names]

    def row_groups(self) -> list[int]:
        with self._reading() as file:
            return file.sizes

    def read_groups(
        self, groups: Sequence[int], columns: Sequence[str], *, kept: Collection[str] = ()
    ) -> pd.DataFrame:
        import pyarrow as pa

        self._check([*columns, *kept], kept)
        names = self._in_order({*columns, *kept})
        with self._reading(set(names) - set(kept)) as file:
            most = max(1, sum(file.sizes[group] for group in groups))
            batches = list(self._batches(file, names, most, groups))
            schema = pa.schema([(name, self.types[name]) for name in names])
            table = pa.Table.from_batches(batches, schema if not batches else None)
            return arrow_table(table, kept).to_frame()

    def levels(self, name: str) -> Levels | None:
        import pyarrow as pa

        kind = self.types[name]
        if not pa.types.is_dictionary(kind) or self.refusal(name):
            return None
        found: dict[str, None] = {}
        with self._reading() as file:
            for group in range(len(file.sizes)):
                for batch in islice(self._batches(file, [name], 1, [group]), 1):
                    values = batch.column(0).dictionary.to_pylist()
                    found |= dict.fromkeys(canonical_text(v) for v in values if v not in (None, ""))
        return Levels(tuple(found), bool(kind.ordered))


def together(sizes: Sequence[int], records: int) -> Iterator[tuple[tuple[int, ...], int, int]]:
    """Row groups to be read in one task: as many as have so many records at most, or one.

    Parameters
    ----------
    sizes : sequence of int
        Records of each row group.
    records : int

    Yields
    ------
    groups : tuple of int
    first, last : int
        Position of the first record of them, and of the one behind them.
    """
    groups: list[int] = []
    first = row = 0
    for group, size in enumerate(sizes):
        if groups and row + size - first > records:
            yield tuple(groups), first, row
            groups, first = [], row
        groups.append(group)
        row += size
    yield tuple(groups), first, row


@contextmanager
def reading(path: Path, form: str) -> Iterator[None]:
    """Context in which what is wrong with a file of a format becomes one line that names it."""
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
        raise DataError(f"{path}: cannot be read as {form}: {what}", path) from None


def column_types(schema: pa.Schema) -> tuple[tuple[str, ...], dict[str, pa.DataType]]:
    """Names of the columns, and the type of each."""
    return tuple(schema.names), {column.name: column.type for column in schema}


def require_values(path: Path, schema: pa.Schema) -> None:
    """Raise DataError for an index with a name that pandas wrote as a range, without its values."""
    try:
        index = json.loads((schema.metadata or {}).get(b"pandas", b"{}"))["index_columns"]
    except (ValueError, RecursionError, KeyError, TypeError):
        return  # no table of pandas, or one whose description is of no use
    for each in index if isinstance(index, list) else []:
        name = each.get("name") if isinstance(each, dict) else None
        if name is not None and name not in schema.names:
            raise DataError(
                f"{path}: column {shown(name)} is pandas' index, a range that the file describes "
                "and does not hold; write it with reset_index(), or drop its name",
                name,
            )
