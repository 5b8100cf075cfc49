"""CSV: UTF-8 texts with commas between them and names in the first line, read strictly.

Beside it: rows of a CSV file with the line on which each begins, or one line on what is wrong with
it.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, ClassVar, Self

from ppdm_dask.errors import DataError
from ppdm_dask.files.datafile import Block, DataFile, open_bytes

if TYPE_CHECKING:
    import pandas as pd


__all__ = ["SEPARATORS", "CsvFile", "csv_rows", "read_header"]


class CsvFile(DataFile):
    """A CSV file; its columns hold texts, and an empty cell is a missing value."""

    format: ClassVar[str] = "CSV"
    endings: ClassVar[tuple[str, ...]] = (".csv",)

    @classmethod
    def open(cls, path: Path, content: bytes | None = None) -> Self:
        return cls(path, read_header(path, open_bytes(path, content)), {}, content)

    def _blocks(self, columns: list[str], size: int, kept: Collection[str]) -> Iterator[Block]:
        places = [self.columns.index(name) for name in columns]
        records = csv_rows(self.path, open_bytes(self.path, self.content), len(self.columns))
        offset = 0
        while part := list(islice(records, size)):
            lines = [line for line, _ in part]
            yield Block(_frame([row for _, row in part], columns, places), offset, lines)
            offset += len(part)


def _frame(rows: list[list[str]], columns: list[str], places: list[int]) -> pd.DataFrame:
    """Texts as they are; an empty cell is a missing value."""
    import pandas as pd

    values = {
        name: pd.Series([row[place] or None for row in rows], dtype=object)
        for name, place in zip(columns, places, strict=True)
    }
    return pd.DataFrame(values, index=range(len(rows)), columns=columns)


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
