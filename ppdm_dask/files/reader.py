"""The one reader of data files, CSV or Parquet, a block of records at a time.

Whatever asks for records reads them here, so that what is wrong with a file is wrong for every
command and recipe alike, and no two of them see different values.

Beside it: rows of a CSV file with the line on which each begins, or one line on what is wrong with
it.
"""

from __future__ import annotations

import csv
import io
import json
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from ppdm_dask.errors import DataError
from ppdm_dask.files.columns import read_number
from ppdm_dask.files.parquet import (
    arrow_batches,
    arrow_frame,
    open_parquet,
    plain_type,
    reading_parquet,
    unreadable,
)
from ppdm_dask.files.regular import ending, require_file
from ppdm_dask.shown import listed, shown

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa


__all__ = [
    "BLOCK",
    "SEPARATORS",
    "Block",
    "DataFile",
    "csv_rows",
    "open_data",
    "open_parquet_data",
    "read_header",
]


SEPARATORS = {";": "semicolons", "\t": "tabs", "|": "bars"}
"""Signs that are no commas, and what they are called."""


def read_header(path: Path, open_file: BinaryIO) -> tuple[str, ...]:
    """Names of the columns of a file that was just opened, which is closed.

    Raises
    ------
    DataError
        If there is no header, or commas do not separate its names.
    """
    with _texts(path, open_file) as lines:
        first = lines.readline()
        lines.seek(0)
        if first.lower().startswith("sep=") and len(first.strip()) <= 5:
            raise DataError(
                f"{path}: line 1: this is a spreadsheet's note on its separator; delete the line, "
                "and save the file with commas",
                path,
            )
        rows = _rows(path, lines)
        _, header = next(rows, (1, []))
    if not header:
        raise DataError(f"{path}: the file is empty; a header and records are needed", path)
    if len(header) == 1 and not first.startswith('"'):
        for sign, word in SEPARATORS.items():
            if sign in header[0]:
                raise DataError(
                    f"{path}: line 1: there is one name, with {sign!r} in it (separated by {word}? "
                    "commas are needed); a name that holds the sign stands in quotes",
                    path,
                )
    return tuple(header)


def csv_rows(path: Path, open_file: BinaryIO, width: int) -> Iterator[tuple[int, list[str]]]:
    """Line and fields of each record below the header; the file is closed at the end.

    Raises
    ------
    DataError
        For fields that are too many or too few, an empty line among records, a bad quote, a NUL,
        or what is no UTF-8 text; the message names the line.
    """
    blank = 0
    with _texts(path, open_file) as lines:
        rows = _rows(path, lines)
        next(rows, None)
        for line, row in rows:
            if not row:  # allowed at the end of the file alone
                blank = blank or line
                continue
            if blank:
                raise DataError(f"{path}: line {blank}: an empty line among records", path)
            if len(row) != width:
                got = f"{len(row)} fields" if len(row) != 1 else "1 field"
                raise DataError(f"{path}: line {line}: {got}; the header has {width}", path)
            yield line, row


def _rows(path: Path, lines: io.TextIOWrapper) -> Iterator[tuple[int, list[str]]]:
    reader, line = csv.reader(lines, strict=True), 1
    while True:
        try:
            row = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            what = str(error).partition(" (")[0]
            raise DataError(f"{path}: line {line}: this is no CSV: {what}", path) from None
        if any("\0" in text for text in row):
            raise DataError(f"{path}: line {line}: there is a NUL, which is no text", path)
        yield line, row
        line = reader.line_num + 1


@contextmanager
def _texts(path: Path, open_file: BinaryIO) -> Iterator[io.TextIOWrapper]:
    """Lines of a UTF-8 file; a spreadsheet's mark at its beginning is no part of the first name."""
    with io.TextIOWrapper(open_file, encoding="utf-8-sig", newline="") as lines:
        try:
            yield lines
        except UnicodeDecodeError:
            raise DataError(
                f"{path}: line {_bad_line(open_file)}: this is no UTF-8 text; save the file as "
                "UTF-8",
                path,
            ) from None
        except OSError as error:
            raise DataError(f"{path}: cannot be read: {error.strerror}", path) from None


def _bad_line(file: BinaryIO) -> int:
    """First line that is no UTF-8: the decoder reads ahead of the rows."""
    file.seek(0)
    line = 0
    for line, content in enumerate(file, 1):
        try:
            content.decode()
        except UnicodeDecodeError:
            return line
    return line


BLOCK = 65_536
"""Records that are held at a time."""

LARGEST_BLOCK = 1 << 24


@dataclass(frozen=True, eq=False)
class Block:
    """Consecutive records of a file.

    Parameters
    ----------
    frame : DataFrame
        The columns asked for.
    offset : int
        Position of the first record in the file.
    lines : list of int
        Line of the file on which each record begins; empty for Parquet.
    """

    frame: pd.DataFrame
    offset: int
    lines: list[int]

    def place(self, row: int | None) -> str:
        """Where a record, counted over the whole file from 0, is in a file of lines."""
        known = row is not None and 0 <= row - self.offset < len(self.lines)
        return f" (line {self.lines[row - self.offset]} of the file)" if known else ""  # type: ignore[operator]


@dataclass(frozen=True)
class DataFile:
    """A file of records whose columns are known.

    Parameters
    ----------
    path : Path
    columns : tuple of str
        Distinct names, none of them empty.
    types : dict of str to pyarrow.DataType
        For Parquet; a CSV file holds texts.
    content : bytes, optional
        What the file holds, where it was read already.
    """

    path: Path
    columns: tuple[str, ...]
    types: dict[str, pa.DataType] = field(default_factory=dict)
    content: bytes | None = field(default=None, repr=False)

    def require(self, names: Sequence[str], what: str = "column") -> None:
        """Raise DataError unless all the columns are there."""
        there = frozenset(self.columns)
        for name in names:
            if name not in there:
                # A file without a header has a record, not names, in its first line.
                known = (
                    "does the first line hold the names of the columns?"
                    if any(read_number(column) == read_number(column) for column in self.columns)
                    else f"the columns are {listed(self.columns)}"
                )
                raise DataError(f"{self.path}: {what} {shown(name)} is absent; {known}", name)

    def refusal(self, name: str) -> str:
        """Why the values of a column cannot be read; empty if they can."""
        return unreadable(self.types[name]) if name in self.types else ""

    def blocks(
        self,
        columns: Sequence[str],
        size: int = BLOCK,
        *,
        kept: Collection[str] = (),
        sets: Collection[str] = (),
    ) -> Iterator[Block]:
        """Read some columns, `size` records at a time; nothing of the file's order changes.

        Parameters
        ----------
        columns : sequence of str
        size : int
            Most records of a block.
        kept : collection of str
            Columns of whatever type that are passed on as they are; see :func:`arrow_frame`.
        sets : collection of str
            Columns of packed bits, which are read as bytes.

        Raises
        ------
        DataError
            If a column is absent or not to be read, or the file is damaged.
        """
        if size < 1:
            raise DataError(f"block: got {size}; 1 or more records are needed", size)
        self._check(columns, {*kept, *sets})
        size = min(size, LARGEST_BLOCK)
        if ending(self.path) == ".parquet":
            return self._parquet_blocks(list(columns), size, kept)
        return self._csv_blocks(list(columns), size)

    def read(self, columns: Sequence[str], *, kept: Collection[str] = ()) -> Block:
        """All records of some columns as one block; see :meth:`blocks`."""
        import pandas as pd

        frames, lines = [], []
        for block in self.blocks(columns, kept=kept):
            frames.append(block.frame)
            lines += block.lines
        empty = pd.DataFrame({name: pd.Series(dtype=object) for name in columns})
        frame = pd.concat(frames, ignore_index=True) if frames else empty
        return Block(frame, 0, lines)

    def row_groups(self) -> list[int]:
        """Records of each row group of a Parquet file."""
        with reading_parquet(self.path), self._parquet() as file:
            metadata = file.metadata
            return [metadata.row_group(i).num_rows for i in range(metadata.num_row_groups)]

    def row_group(
        self, group: int, columns: Sequence[str], *, kept: Collection[str] = ()
    ) -> pd.DataFrame:
        """Records of a row group: `columns` and those kept as they are, in the file's order."""
        import pyarrow as pa

        wanted = {*columns, *kept}
        self._check([*columns, *kept], kept)
        names = [name for name in self.columns if name in wanted]
        with reading_parquet(self.path), self._parquet() as file:
            batches = list(arrow_batches(self.path, file, names, BLOCK, [group]))
            schema = pa.schema([(name, self.types[name]) for name in names])
            table = pa.Table.from_batches(batches, schema if not batches else None)
            return arrow_frame(table, kept)

    def levels(self, name: str) -> tuple[tuple[str, ...], bool] | None:
        """Declared texts of a column and whether their order is declared; None if it has none."""
        import pyarrow as pa

        kind = self.types.get(name)
        if kind is None or not pa.types.is_dictionary(kind):
            return None
        if not pa.types.is_string(plain_type(kind)):
            return None
        found: dict[str, None] = {}
        with reading_parquet(self.path), self._parquet() as file:
            for group in range(file.num_row_groups):
                for batch in islice(arrow_batches(self.path, file, [name], 1, [group]), 1):
                    texts = batch.column(0).dictionary.to_pylist()
                    found |= dict.fromkeys(text for text in texts if text)
        return tuple(found), bool(kind.ordered)

    def _check(self, columns: Sequence[str], as_they_are: Collection[str]) -> None:
        """Refuse columns that are absent, or of a type whose values are not read."""
        self.require(columns)
        for name in columns:
            if name not in as_they_are and (why := self.refusal(name)):
                raise DataError(f"{self.path}: column {shown(name)} {why}", name)

    def _open(self) -> BinaryIO:
        if self.content is not None:
            return io.BytesIO(self.content)
        return _opened(self.path)

    def _parquet(self) -> pa.parquet.ParquetFile:
        import pyarrow.parquet as pq

        source = self.path if self.content is None else io.BytesIO(self.content)
        return pq.ParquetFile(source, page_checksum_verification=True)

    def _parquet_blocks(
        self, columns: list[str], size: int, kept: Collection[str]
    ) -> Iterator[Block]:
        offset = 0
        with reading_parquet(self.path), self._parquet() as file:
            for batch in arrow_batches(self.path, file, columns, size):
                yield Block(arrow_frame(batch, kept), offset, [])
                offset += batch.num_rows

    def _csv_blocks(self, columns: list[str], size: int) -> Iterator[Block]:
        places = [self.columns.index(name) for name in columns]
        records = csv_rows(self.path, self._open(), len(self.columns))
        offset = 0
        while part := list(islice(records, size)):
            lines = [line for line, _ in part]
            yield Block(_frame([row for _, row in part], columns, places), offset, lines)
            offset += len(part)


def open_data(path: Path, content: bytes | None = None) -> DataFile:
    """Read the names of the columns.

    Parameters
    ----------
    path : Path
        Ends in ``.csv`` or ``.parquet``, in small or capital letters.
    content : bytes, optional
        What the file holds, where it was read already.

    Raises
    ------
    DataError
        If there is no such file, it is neither CSV nor Parquet, or a column has no name or that of
        another.
    """
    kind = ending(path)
    if kind not in (".csv", ".parquet"):
        raise DataError(f"{path}: a file that ends in .csv or .parquet is needed", path)
    if content is None:
        require_file(path)
    if kind == ".parquet":
        schema = open_parquet(path, None if content is None else io.BytesIO(content))
        _require_values(path, schema)
        types = {column.name: column.type for column in schema}
        return _named(DataFile(path, tuple(schema.names), types, content))
    opened = _opened(path) if content is None else io.BytesIO(content)
    return _named(DataFile(path, read_header(path, opened), {}, content))


def _named(file: DataFile) -> DataFile:
    """The file, if each column has a name of its own."""
    for i, name in enumerate(file.columns, 1):
        if not name.strip():
            what = f"column {i} of {len(file.columns)} has no name; name it or leave it out"
            raise DataError(f"{file.path}: {what}", file.path)
    name, times = Counter(file.columns).most_common(1)[0] if file.columns else ("", 0)
    if times != 1:
        what = f"column {shown(name)} occurs {times} times" if times else "there are no columns"
        raise DataError(f"{file.path}: {what}", name)
    return file


def open_parquet_data(path: Path) -> DataFile:
    """Open a Parquet file, however it is called; see :func:`open_data`."""
    require_file(path)
    schema = open_parquet(path)
    _require_values(path, schema)
    return _named(DataFile(path, tuple(schema.names), {f.name: f.type for f in schema}))


def _require_values(path: Path, schema: pa.Schema) -> None:
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


def _opened(path: Path) -> BinaryIO:
    try:
        return path.open("rb")
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror}", path) from None


def _frame(rows: list[list[str]], columns: list[str], places: list[int]) -> pd.DataFrame:
    """Texts as they are; an empty cell is a missing value."""
    import pandas as pd

    values = {
        name: pd.Series([row[place] or None for row in rows], dtype=object)
        for name, place in zip(columns, places, strict=True)
    }
    return pd.DataFrame(values, index=range(len(rows)), columns=columns)


def require_same_types(files: Sequence[DataFile], columns: Sequence[str]) -> None:
    """Raise DataError unless a column has one type in all parts of a data set.

    A part whose values are all missing may have no type.
    """
    import pyarrow as pa

    for name in columns:
        first: tuple[pa.DataType, Path] | None = None
        for file in files:
            kind = plain_type(file.types.get(name, pa.string()))
            if pa.types.is_null(kind):
                continue
            if first is None:
                first = kind, file.path
            elif kind != first[0]:
                raise DataError(
                    f"{file.path}: column {shown(name)} holds {str(kind)[:60]}, and "
                    f"{str(first[0])[:60]} in {first[1]}; write all parts with one type",
                    name,
                )
