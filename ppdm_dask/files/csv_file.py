"""CSV: texts with commas or other signs between them and names in the first line, read strictly.

Also here: rows of a CSV file with the line on which each begins, or one line on what is wrong with
it.
"""

from __future__ import annotations

import codecs
import csv
import io
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, ClassVar, Self

import numpy as np
import numpy.typing as npt

from ppdm_dask.errors import DataError
from ppdm_dask.files.arrow import arrow_table
from ppdm_dask.files.column import Column, Texts
from ppdm_dask.files.datafile import AS_FOUND, BLOCK, Block, DataFile, Reading
from ppdm_dask.files.dialect import Dialect, find_dialect, is_packed
from ppdm_dask.files.table import Table

if TYPE_CHECKING:
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
                    lines = _lines(table.column(len(places)))
                    read = arrow_table(table.select(range(len(places))).rename_columns(columns))
                    read = read.replaced({name: _plain(read[name]) for name in kept})
                    yield Block(dialect.numbers(self.path, read), offset, lines)
                    offset += len(read)
                file.seek(plain.read)
            except OSError as error:
                raise DataError(
                    f"{self.path}: cannot be read: {error.strerror}", self.path
                ) from None
            records = csv_rows(self.path, file, len(self.columns), plain.line, dialect)
            # Rows of Python's texts take much memory.
            while part := list(islice(records, min(size, BLOCK))):
                known = [line for line, _ in part]
                read = _table([row for _, row in part], columns, places)
                yield Block(dialect.numbers(self.path, read), offset, known)
                offset += len(part)


class _PlainLines:
    """Records of a file that hold nothing that is refused, and quotes only around whole fields.

    Of these both parsers say the same, and Arrow's makes no Python object of a field. Whatever is
    not plain is left to the strict one, which knows what is wrong with it, and in which line.

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
        """Bytes of records that were given out, and of the header before them."""
        self.line = 1
        """Line that comes next."""

    def tables(self, places: list[int]) -> Iterator[pa.Table]:
        """Some fields of each record as texts, then its line, a chunk of the file at a time."""
        # An empty line of a single column would be a record.
        if self._width < 2 or not places:
            return
        for chunk in _chunks(self._file):
            content = chunk if self.read else chunk.removeprefix(codecs.BOM_UTF8)
            ends = _plain_ends(content, self._dialect.delimiter)
            begins = 0 if self.read else self._dialect.begins
            if ends is None or len(ends) < begins:
                return
            lines = self.line + _lines_before(content, ends)
            if begins:
                end = int(ends[begins - 1])
                self.read, self.line = len(chunk) - len(content) + end, int(lines[begins])
                content, ends, lines = content[end:], ends[begins:], lines[begins:]
            if len(ends):
                table = self._parsed(content, places, lines[:-1])
                if table is None:
                    return
                self.read, self.line = self.read + len(content), int(lines[-1])
                yield table

    def _parsed(
        self, chunk: bytes, places: list[int], lines: npt.NDArray[np.intp]
    ) -> pa.Table | None:
        import pyarrow as pa
        from pyarrow import csv as arrow_csv

        names = [str(place) for place in range(self._width)]
        wanted = [names[place] for place in places]
        texts = pa.dictionary(pa.int32(), pa.string())
        quoted = b'"' in chunk
        try:
            table = arrow_csv.read_csv(
                pa.BufferReader(chunk),
                arrow_csv.ReadOptions(
                    use_threads=False, block_size=len(chunk) + 1, column_names=names
                ),
                arrow_csv.ParseOptions(
                    delimiter=self._dialect.delimiter,
                    quote_char='"' if quoted else False,
                    newlines_in_values=quoted,
                    ignore_empty_lines=False,
                ),
                arrow_csv.ConvertOptions(
                    column_types=dict.fromkeys(wanted, texts), include_columns=wanted
                ),
            )
        except pa.ArrowException:
            return None
        return table.append_column("", pa.array(lines)) if len(table) == len(lines) else None


NEWLINE, QUOTE, RETURN = b'\n"\r'


def _plain_ends(chunk: bytes, delimiter: str = ",") -> npt.NDArray[np.intp] | None:
    """Where each record ends, behind its newline; the last may lack it.

    None unless records are UTF-8 with ordinary ends, none of them empty or long, and each quote
    opens a field, closes it, or is one of two within it.
    """
    if not chunk or b"\0" in chunk:
        return None
    if b"\r" in chunk and chunk.count(b"\r") != chunk.count(b"\r\n"):
        return None
    if not chunk.isascii():
        # A byte order mark is the reader's at the beginning of a file, and a sign elsewhere.
        if codecs.BOM_UTF8 in chunk:
            return None
        try:
            chunk.decode()
        except UnicodeDecodeError:
            return None
    signs = np.frombuffer(chunk, np.uint8)
    newlines = np.flatnonzero(signs == NEWLINE)
    if b'"' in chunk:
        quotes = np.flatnonzero(signs == QUOTE)
        if not _are_around_fields(signs, quotes, ord(delimiter)):
            return None
        newlines = newlines[np.searchsorted(quotes, newlines) % 2 == 0]
    ends = newlines + 1
    if not chunk.endswith(b"\n"):
        ends = np.append(ends, len(chunk))
    lengths = np.diff(ends, prepend=0)
    # An empty line may be one of "\r\n".
    short = signs[ends[lengths <= 2] - 2]
    if lengths.min() < 2 or (short == RETURN).any() or lengths.max() >= LONGEST:
        return None
    return ends


def _are_around_fields(
    signs: npt.NDArray[np.uint8], quotes: npt.NDArray[np.intp], delimiter: int
) -> bool:
    """Whether each quote opens a field, closes it, or is one of two within it."""
    if len(quotes) % 2:
        return False
    opening, closing = quotes[0::2], quotes[1::2]
    # Two within a field close it and open it again.
    again = np.zeros(len(opening) + 1, bool)
    again[1:-1] = opening[1:] == closing[:-1] + 1
    before = signs[np.maximum(opening, 1) - 1]
    after = signs[np.minimum(closing + 1, len(signs) - 1)]
    begins = again[:-1] | (before == delimiter) | (before == NEWLINE) | (opening == 0)
    ends = again[1:] | (after == delimiter) | (after == NEWLINE) | (after == RETURN)
    ends |= closing == len(signs) - 1
    return bool(begins.all() and ends.all())


def _lines_before(chunk: bytes, ends: npt.NDArray[np.intp]) -> npt.NDArray[np.intp]:
    """Lines before each record, and before what comes after all of them."""
    newlines = np.flatnonzero(np.frombuffer(chunk, np.uint8) == NEWLINE)
    if len(newlines) == len(ends) - (not chunk.endswith(b"\n")):
        return np.arange(len(ends) + 1)
    return np.searchsorted(newlines, np.concatenate([[0], ends]))


def _lines(column: pa.ChunkedArray) -> Sequence[int]:
    """Lines of records; most often one line each."""
    numbers = column.to_numpy()
    first, last = int(numbers[0]), int(numbers[-1])
    whole = range(first, last + 1)
    return whole if len(whole) == len(numbers) else numbers.tolist()


def _chunks(file: BinaryIO) -> Iterator[bytes]:
    """Whole records of a file, where quotes come in pairs; the last may lack its end."""
    rest = b""
    while piece := file.read(CHUNK):
        rest += piece
        if cut := _last_end(rest):
            yield rest[:cut]
            rest = rest[cut:]
        if len(rest) > LONGEST:
            break
    if rest:
        yield rest


def _last_end(content: bytes) -> int:
    """Where the last whole record ends; 0 if there is none."""
    cut = content.rfind(b"\n") + 1
    odd = np.count_nonzero(np.frombuffer(content, np.uint8, cut) == QUOTE) % 2
    while odd and cut:
        before = content.rfind(b"\n", 0, cut - 1) + 1
        odd ^= content.count(b'"', before, cut) % 2
        cut = before
    return cut


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


def _plain(column: Column) -> Column:
    """A column of texts that is written as it is, rather than looked up."""
    assert isinstance(column, Texts)
    return replace(column, categories=False)


def _table(rows: list[list[str]], columns: list[str], places: list[int]) -> Table:
    """Texts as they are; an empty cell is a missing value."""
    values = [Texts.of([row[place] or None for row in rows]) for place in places]
    return Table(columns, values, len(rows))


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
        or what is not UTF-8 text; the message names the line.
    """
    blank = 0
    with _texts(path, open_file) as lines:
        rows = _rows(path, lines, dialect, begins)
        if begins == 1:
            next(islice(rows, dialect.begins - 1, None), None)
        for line, row in rows:
            if not row:  # allowed only at the end of the file
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
            raise DataError(f"{path}: line {line}: this is not CSV: {what}", path) from None
        if any("\0" in text for text in row):
            raise DataError(f"{path}: line {line}: there is a NUL, which is not text", path)
        yield line, row
        line = reader.line_num + begins


def _bounded(path: Path, lines: io.TextIOWrapper) -> Iterator[str]:
    while line := lines.readline(LONGEST_LINE):
        if len(line) == LONGEST_LINE:
            raise DataError(f"{path}: a line has {LONGEST_LINE:,} characters or more", path)
        yield line


@contextmanager
def _texts(path: Path, open_file: BinaryIO) -> Iterator[io.TextIOWrapper]:
    """Lines of a UTF-8 file; a spreadsheet's mark at the start is not part of the first name."""
    encoding = "utf-8" if open_file.tell() else "utf-8-sig"
    with io.TextIOWrapper(open_file, encoding=encoding, newline="") as lines:
        try:
            yield lines
        except UnicodeDecodeError:
            raise DataError(
                f"{path}: line {_bad_line(open_file)}: this is not UTF-8 text; --encoding says "
                "what it is, or save the file as UTF-8",
                path,
            ) from None
        except OSError as error:
            raise DataError(f"{path}: cannot be read: {error.strerror}", path) from None


def _bad_line(file: BinaryIO) -> int:
    """First line that is not UTF-8: the decoder reads ahead of the rows."""
    file.seek(0)
    line = 0
    for line, content in enumerate(file, 1):
        try:
            content.decode()
        except UnicodeDecodeError:
            return line
    return line
