"""A person's own data file, CSV or Parquet, read a block of records at a time."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ppdm_dask.errors import DataError

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

__all__ = ["BLOCK", "Block", "DataFile", "open_data", "open_parquet", "reading_parquet"]

BLOCK = 65_536
"""Records that are held at a time."""


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
    """

    path: Path
    columns: tuple[str, ...]
    types: dict[str, pa.DataType] = field(default_factory=dict)

    def require(self, names: Sequence[str], what: str = "column") -> None:
        """Raise DataError unless all the columns are there."""
        for name in names:
            if name not in self.columns:
                raise DataError(
                    f"{self.path}: {what} {name!r} is absent; the columns are "
                    f"{', '.join(self.columns)}{self._hint()}",
                    name,
                )

    def _hint(self) -> str:
        for sign, word in ((";", "semicolons"), ("\t", "tabs"), ("|", "bars")):
            if len(self.columns) == 1 and sign in self.columns[0]:
                return f" (separated by {word}? commas are needed)"
        return ""

    def blocks(self, columns: Sequence[str], size: int = BLOCK) -> Iterator[Block]:
        """Read some columns, `size` records at a time; nothing of the file's order changes."""
        if size < 1:
            raise DataError(f"block: got {size}; 1 or more records are needed", size)
        self.require(columns)
        if self.path.suffix == ".parquet":
            return _parquet_blocks(self.path, list(columns), size)
        return _csv_blocks(self, list(columns), size)


def open_data(path: Path) -> DataFile:
    """Read the names of the columns.

    Raises
    ------
    DataError
        If there is no such file, it is neither CSV nor Parquet, or a column has no name or that of
        another.
    """
    if path.suffix == ".parquet":
        schema = open_parquet(path)
        types = {f.name: f.type for f in schema}
        file = DataFile(path, tuple(schema.names), types)
    elif path.suffix == ".csv":
        with _Reading(path) as reader:
            header = next(reader, None)
        if not header:
            raise DataError(f"{path}: the file is empty; a header and records are needed", path)
        file = DataFile(path, tuple(header))
    else:
        raise DataError(f"{path}: a file that ends in .csv or .parquet is needed", path)
    for i, name in enumerate(file.columns, 1):
        if not name.strip():
            raise DataError(
                f"{path}: column {i} of {len(file.columns)} has no name; name it or leave it out",
                path,
            )
        if file.columns.count(name) > 1:
            raise DataError(
                f"{path}: column {name!r} occurs {file.columns.count(name)} times", name
            )
    return file


def open_parquet(path: Path) -> pa.Schema:
    """The schema of a Parquet file; DataError where it is none."""
    import pyarrow.parquet as pq

    with reading_parquet(path):
        return pq.read_schema(path)


@contextmanager
def reading_parquet(path: Path) -> Iterator[None]:
    """Context in which what is wrong with a Parquet file becomes one line that names it."""
    import pyarrow as pa

    try:
        yield
    except FileNotFoundError:
        raise DataError(f"{path}: there is no such file", path) from None
    except (OSError, pa.ArrowException) as error:
        what = str(error).splitlines()[0]
        raise DataError(f"{path}: cannot be read as Parquet: {what}", path) from None


def _parquet_blocks(path: Path, columns: list[str], size: int) -> Iterator[Block]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    offset = 0
    with reading_parquet(path), pq.ParquetFile(path, page_checksum_verification=True) as file:
        for name in columns:
            kind = file.schema_arrow.field(name).type
            if pa.types.is_nested(kind):
                raise DataError(
                    f"{path}: column {name!r} holds {kind}; texts or numbers are needed", name
                )
        for batch in file.iter_batches(size, columns=columns, use_threads=False):
            # Integers with gaps stay integers, in whatever block the gaps are.
            frame = batch.to_pandas(integer_object_nulls=True, ignore_metadata=True)
            yield Block(frame[columns], offset, [])
            offset += len(frame)


class _Reading:
    """Rows of a CSV file; whatever is wrong with it ends in one line that names file and line."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __enter__(self) -> Any:
        try:
            # Spreadsheets begin UTF-8 files with a mark, which is no part of the first name.
            self.file = self.path.open(encoding="utf-8-sig", newline="")
        except FileNotFoundError:
            raise DataError(f"{self.path}: there is no such file", self.path) from None
        except OSError as error:
            what = f"cannot be read: {error.strerror}"
            raise DataError(f"{self.path}: {what}", self.path) from None
        self.reader = csv.reader(self.file, strict=True)
        return self.reader

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        self.file.close()
        line = self.reader.line_num
        if isinstance(error, UnicodeDecodeError):
            raise DataError(
                f"{self.path}: after line {line}: this is no UTF-8 text; save the file as UTF-8",
                self.path,
            ) from None
        if isinstance(error, csv.Error):
            raise DataError(f"{self.path}: line {line}: this is no CSV: {error}", error) from None
        if isinstance(error, OSError):
            what = f"cannot be read: {error.strerror}"
            raise DataError(f"{self.path}: {what}", self.path) from None


def _csv_blocks(file: DataFile, columns: list[str], size: int) -> Iterator[Block]:
    width = len(file.columns)
    places = [file.columns.index(name) for name in columns]
    rows: list[list[str]] = []
    lines: list[int] = []
    offset, blank, line = 0, 0, 1
    with _Reading(file.path) as reader:
        next(reader)
        line = reader.line_num + 1
        for row in reader:
            if not row:  # allowed at the end of the file alone
                blank = blank or line
            elif blank or len(row) != width:
                got = f"{len(row)} fields" if len(row) != 1 else "1 field"
                what = f"line {line}: {got}; the header has {width}"
                if blank:
                    what = f"line {blank}: an empty line among records"
                raise DataError(f"{file.path}: {what}", row)
            else:
                rows.append(row)
                lines.append(line)
            line = reader.line_num + 1
            if len(rows) == size:
                yield Block(_frame(rows, columns, places), offset, lines)
                offset += len(rows)
                rows, lines = [], []
    if rows:
        yield Block(_frame(rows, columns, places), offset, lines)


def _frame(rows: list[list[str]], columns: list[str], places: list[int]) -> pd.DataFrame:
    """Texts as they are; an empty cell is a missing value."""
    import pandas as pd

    values = {
        name: pd.Series([row[place] or None for row in rows], dtype=object)
        for name, place in zip(columns, places, strict=True)
    }
    return pd.DataFrame(values, index=range(len(rows)), columns=columns)
