"""CSV: texts with commas or other signs between them and names in the first line, read strictly.

Beside it: rows of a CSV file with the line on which each begins, or one line on what is wrong with
it.
"""

from __future__ import annotations

import codecs
import csv
import io
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, ClassVar, Self

import numpy as np

from ppdm_dask.errors import DataError
from ppdm_dask.files.arrow import arrow_frame
from ppdm_dask.files.datafile import AS_FOUND, Block, DataFile, Reading
from ppdm_dask.files.dialect import Dialect, find_dialect, is_packed

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa


CHUNK = 1 << 22
"""Bytes that are parsed at a time where lines are plain."""

LONGEST = csv.field_size_limit()
"""Bytes of a line from which on a field may be too long for Python's parser, which says so."""

LONGEST_LINE = 1 << 26
"""Characters of a line of a compressed file, which may be a thousand times as large as it looks."""

__all__ = ["CsvFile", "csv_rows", "read_header"]

PLAIN = Dialect()
"""UTF-8 and commas."""


@dataclass(frozen=True)
class CsvFile(DataFile):
    """A CSV file; its columns hold texts, and an empty cell is a missing value.

    Parameters
    ----------
    dialect : Dialect
        How it is written.
    """

    format: ClassVar[str] = "CSV"
    endings: ClassVar[tuple[str, ...]] = (".csv", ".tsv", ".csv.gz", ".tsv.gz")
    options: ClassVar[frozenset[str]] = frozenset({"delimiter", "encoding", "decimal"})

    dialect: Dialect = field(default=PLAIN, kw_only=True)

    @classmethod
    def open(cls, path: Path, content: bytes | None = None, how: Reading = AS_FOUND) -> Self:
        dialect, note = find_dialect(path, content, how)
        names = read_header(path, dialect.open(path, content), dialect)
        return cls(path, names, {}, content, note=note, dialect=dialect)

    def _blocks(self, columns: list[str], size: int, kept: Collection[str]) -> Iterator[Block]:
        """Plain lines by Arrow, then, from the first chunk that is not plain, all by Python."""
        offset, places = 0, [self.columns.index(name) for name in columns]
        dialect = self.dialect
        with dialect.open(self.path, self.content) as file:
            plain = _PlainLines(file, len(self.columns), dialect)
            try:
                for table in _cut(plain.tables(places), size):
                    frame = arrow_frame(table.rename_columns(columns))
                    for name in kept:
                        frame[name] = frame[name].astype(object).where(frame[name].notna(), None)
                    # The header has a line, and each record one.
                    first = offset + dialect.begins + 1
                    lines = range(first, first + len(frame))
                    yield Block(dialect.numbers(self.path, frame), offset, lines)
                    offset += len(frame)
                file.seek(plain.read)
            except OSError as error:
                raise DataError(
                    f"{self.path}: cannot be read: {error.strerror}", self.path
                ) from None
            records = csv_rows(self.path, file, len(self.columns), plain.line, dialect)
            while part := list(islice(records, size)):
                known = [line for line, _ in part]
                frame = _frame([row for _, row in part], columns, places)
                yield Block(dialect.numbers(self.path, frame), offset, known)
                offset += len(part)


class _PlainLines:
    """Lines of a file that hold neither quotes nor anything that is refused.

    Of these both parsers say the same, and Arrow's is ten times as fast. Whatever is not plain is
    left to the strict one, which knows what is wrong with it, and in which line.

    Parameters
    ----------
    file : binary file
    width : int
        Fields of a line.
    dialect : Dialect
    """

    def __init__(self, file: BinaryIO, width: int, dialect: Dialect) -> None:
        self._file, self._width, self._dialect = file, width, dialect
        self.read = 0
        """Bytes of lines that were given out."""
        self.line = 1
        """Line that comes next."""

    def tables(self, places: list[int]) -> Iterator[pa.Table]:
        """Some fields of each record as texts, a chunk of the file at a time."""
        # An empty line of a single column would be a record.
        if self._width < 2 or not places:
            return
        begins = self._dialect.begins
        header = b"".join(self._file.readline(LONGEST) for _ in range(begins))
        if not _is_plain(header.removeprefix(codecs.BOM_UTF8)) or not header.endswith(b"\n"):
            return
        self.read, self.line = len(header), 1 + begins
        for chunk in _chunks(self._file):
            table = self._parsed(chunk, places)
            if table is None:
                return
            self.read += len(chunk)
            self.line += len(table)
            yield table

    def _parsed(self, chunk: bytes, places: list[int]) -> pa.Table | None:
        import pyarrow as pa
        from pyarrow import csv as arrow_csv

        if not _is_plain(chunk):
            return None
        names = [str(place) for place in range(self._width)]
        wanted = [names[place] for place in places]
        texts = pa.dictionary(pa.int32(), pa.string())
        try:
            table = arrow_csv.read_csv(
                pa.BufferReader(chunk),
                arrow_csv.ReadOptions(
                    use_threads=False, block_size=len(chunk) + 1, column_names=names
                ),
                arrow_csv.ParseOptions(
                    delimiter=self._dialect.delimiter, quote_char=False, ignore_empty_lines=False
                ),
                arrow_csv.ConvertOptions(
                    column_types=dict.fromkeys(wanted, texts), include_columns=wanted
                ),
            )
        except pa.ArrowException:
            return None
        lines = chunk.count(b"\n") + (not chunk.endswith(b"\n"))
        return table if len(table) == lines else None


def _is_plain(chunk: bytes) -> bool:
    """Whether lines are UTF-8 with ordinary ends, none of them empty, long, or quoted."""
    if b'"' in chunk or b"\0" in chunk or chunk.count(b"\r") != chunk.count(b"\r\n"):
        return False
    if not chunk.isascii():
        # A byte order mark is the reader's at the beginning of a file, and a sign elsewhere.
        if codecs.BOM_UTF8 in chunk:
            return False
        try:
            chunk.decode()
        except UnicodeDecodeError:
            return False
    if chunk.startswith((b"\n", b"\r\n")) or b"\n\n" in chunk or b"\n\r\n" in chunk:
        return False
    ends = np.flatnonzero(np.frombuffer(chunk, np.uint8) == ord("\n"))
    edges = np.concatenate([[-1], ends, [len(chunk)]])
    return int(np.diff(edges).max()) < LONGEST


def _chunks(file: BinaryIO) -> Iterator[bytes]:
    """Whole lines of a file; the last may lack its end."""
    rest = b""
    while piece := file.read(CHUNK):
        cut = piece.rfind(b"\n") + 1
        if cut:
            yield rest + piece[:cut]
            rest = piece[cut:]
        else:
            rest += piece
        if len(rest) > LONGEST:
            break
    if rest:
        yield rest


def _cut(tables: Iterator[pa.Table], size: int) -> Iterator[pa.Table]:
    """The same records, `size` at a time."""
    import pyarrow as pa

    held: list[pa.Table] = []
    for table in tables:
        held.append(table)
        while sum(map(len, held)) >= size:
            whole = pa.concat_tables(held)
            yield whole.slice(0, size)
            held = [whole.slice(size)]
    if sum(map(len, held)):
        yield pa.concat_tables(held)


def _frame(rows: list[list[str]], columns: list[str], places: list[int]) -> pd.DataFrame:
    """Texts as they are; an empty cell is a missing value."""
    import pandas as pd

    values = {
        name: pd.Series([row[place] or None for row in rows], dtype=object)
        for name, place in zip(columns, places, strict=True)
    }
    return pd.DataFrame(values, index=range(len(rows)), columns=columns)


def read_header(path: Path, open_file: BinaryIO, dialect: Dialect = PLAIN) -> tuple[str, ...]:
    """Names of the columns of a file that was just opened, which is closed.

    Raises
    ------
    DataError
        If there is no header.
    """
    with _texts(path, open_file) as lines:
        rows = _rows(path, lines, dialect)
        _, header = next(islice(rows, dialect.begins - 1, None), (1, []))
    if not header:
        raise DataError(f"{path}: the file is empty; a header and records are needed", path)
    return tuple(header)


def csv_rows(
    path: Path, open_file: BinaryIO, width: int, begins: int = 1, dialect: Dialect = PLAIN
) -> Iterator[tuple[int, list[str]]]:
    """Line and fields of each record below the header; the file is closed at the end.

    Parameters
    ----------
    path : Path
    open_file : binary file
    width : int
        Fields of a record.
    begins : int
        Line at which the file stands; at the first one is the header.
    dialect : Dialect

    Raises
    ------
    DataError
        For fields that are too many or too few, an empty line among records, a bad quote, a NUL,
        or what is no UTF-8 text; the message names the line.
    """
    blank = 0
    with _texts(path, open_file) as lines:
        rows = _rows(path, lines, dialect, begins)
        if begins == 1:
            next(islice(rows, dialect.begins - 1, None), None)
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


def _rows(
    path: Path, lines: io.TextIOWrapper, dialect: Dialect, begins: int = 1
) -> Iterator[tuple[int, list[str]]]:
    source = _bounded(path, lines) if is_packed(path) else lines
    reader, line = csv.reader(source, delimiter=dialect.delimiter, strict=True), begins
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
        line = reader.line_num + begins


def _bounded(path: Path, lines: io.TextIOWrapper) -> Iterator[str]:
    while line := lines.readline(LONGEST_LINE):
        if len(line) == LONGEST_LINE:
            raise DataError(f"{path}: a line has {LONGEST_LINE:,} characters or more", path)
        yield line


@contextmanager
def _texts(path: Path, open_file: BinaryIO) -> Iterator[io.TextIOWrapper]:
    """Lines of a UTF-8 file; a spreadsheet's mark at its beginning is no part of the first name."""
    encoding = "utf-8" if open_file.tell() else "utf-8-sig"
    with io.TextIOWrapper(open_file, encoding=encoding, newline="") as lines:
        try:
            yield lines
        except UnicodeDecodeError:
            raise DataError(
                f"{path}: line {_bad_line(open_file)}: this is no UTF-8 text; --encoding says "
                "what it is, or save the file as UTF-8",
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
