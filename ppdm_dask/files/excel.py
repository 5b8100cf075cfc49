"""Excel: a sheet with names in its first row, whose cells are texts as a person sees them."""

from __future__ import annotations

import io
import re
import warnings
import zipfile
from collections.abc import Collection, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar, Self

from ppdm_dask.errors import DataError, InputError
from ppdm_dask.files.column import Texts
from ppdm_dask.files.datafile import AS_FOUND, Block, DataFile, Reading, needed_extra, open_bytes
from ppdm_dask.files.table import Table
from ppdm_dask.files.texts import plain_text
from ppdm_dask.shown import listed, shown

__all__ = ["ExcelFile"]

MOST_TEXT = 1 << 28
"""Bytes of shared texts, which are held, from which they are compared with the file's size."""

MAX_RATIO = 100

NOT_AVAILABLE = "#N/A"
ERRORS = frozenset({"#NULL!", "#DIV/0!", "#VALUE!", "#REF!", "#NAME?", "#NUM!"})
"""What a formula may come to; not available is a missing value."""

Cells = tuple[Any, ...]

FORMULA = re.compile(rb"<f[ >/]")


@dataclass(frozen=True)
class ExcelFile(DataFile):
    """A sheet of an Excel file, read row by row.

    Its columns hold texts: whole numbers without a point, dates as 2026-11-29. A cell that is empty
    or not available is a missing value.

    Parameters
    ----------
    sheet : str
    formulas : bool
        Whether cells of the file are formulas, whose values a program may have left out.
    """

    format: ClassVar[str] = "Excel"
    endings: ClassVar[tuple[str, ...]] = (".xlsx", ".xlsm")
    options: ClassVar[frozenset[str]] = frozenset({"sheet"})

    sheet: str = field(default="", kw_only=True)
    formulas: bool = field(default=False, kw_only=True)

    @classmethod
    def open(cls, path: Path, content: bytes | None = None, how: Reading = AS_FOUND) -> Self:
        with _workbook(path, content) as book:
            sheet, note = _sheet(path, book, how.sheet)
            header = next(_rows(book, sheet), ())
            formulas = _has_formulas(path, content)
        while header and header[-1] is None:
            header = header[:-1]
        if not header:
            raise DataError(
                f"{path}: sheet {shown(sheet)}: the first row is empty; names of the columns are "
                "needed there",
                path,
            )
        names = tuple(_text(path, sheet, 1, i, cell) or "" for i, cell in enumerate(header))
        return cls(path, names, {}, content, note=note, sheet=sheet, formulas=formulas)

    def _blocks(self, columns: list[str], size: int, kept: Collection[str]) -> Iterator[Block]:
        places, offset = [self.columns.index(name) for name in columns], 0
        with self._rows() as rows:
            records = self._records(islice(rows, 1, None))
            while part := list(islice(records, size)):
                yield Block(self._table(part, columns, places), offset, [row for row, _ in part])
                offset += len(part)

    @contextmanager
    def _rows(self) -> Iterator[Iterator[Cells]]:
        """All rows of the sheet."""
        with ExitStack() as stack:
            book = stack.enter_context(_workbook(self.path, self.content))
            rows = _rows(book, self.sheet)
            if self.formulas:
                written = stack.enter_context(_workbook(self.path, self.content, values=False))
                rows = self._computed(rows, _rows(written, self.sheet))
            yield rows

    def _computed(self, rows: Iterator[Cells], written: Iterator[Cells]) -> Iterator[Cells]:
        """The rows, if each formula has a value."""
        for row, (cells, texts) in enumerate(zip(rows, written, strict=True), 1):
            for place, (cell, text) in enumerate(zip(cells, texts, strict=False)):
                if cell is None and text is not None:
                    where = _cell(row, place)
                    raise self._wrong(
                        f"cell {where} is a formula without a value; open the file in a "
                        "spreadsheet program and save it"
                    )
            yield cells

    def _records(self, rows: Iterator[Cells]) -> Iterator[tuple[int, Cells]]:
        """Row of the sheet and cells of each record."""
        blank, width = 0, len(self.columns)
        for row, cells in enumerate(rows, 2):
            if all(cell is None for cell in cells):  # allowed only below the last record
                blank = blank or row
                continue
            if blank:
                raise self._wrong(f"row {blank}: an empty row among records")
            if any(cell is not None for cell in cells[width:]):
                raise self._wrong(f"row {row}: there is a cell to the right of the named columns")
            yield row, cells + (None,) * (width - len(cells))

    def _wrong(self, what: str) -> DataError:
        return DataError(f"{self.path}: sheet {shown(self.sheet)}: {what}", self.path)

    def _table(
        self, part: Sequence[tuple[int, Cells]], columns: list[str], places: list[int]
    ) -> Table:
        values = [
            Texts.of(
                [_text(self.path, self.sheet, row, place, cells[place]) for row, cells in part]
            )
            for place in places
        ]
        return Table(columns, values, len(part))


def _text(path: Path, sheet: str, row: int, place: int, value: Any) -> str | None:
    """Text of a cell; None if it is empty."""
    if value is None or isinstance(value, str):
        if value not in ERRORS:
            return None if value in ("", NOT_AVAILABLE) else value
        cell = _cell(row, place)
        raise DataError(f"{path}: sheet {shown(sheet)}: cell {cell} holds the error {value}", value)
    return plain_text(value)


def _cell(row: int, place: int) -> str:
    from openpyxl.utils import get_column_letter

    return f"{get_column_letter(place + 1)}{row}"


def _sheet(path: Path, book: Any, told: str | None) -> tuple[str, str]:
    """Name of the sheet to read, and a line where it was chosen."""
    sheets = {sheet.title: sheet.sheet_state == "visible" for sheet in book.worksheets}
    if told is not None:
        if told not in sheets:
            raise InputError(
                f"--sheet: {path} has no sheet {shown(told)}; there are {listed(sheets)}", told
            )
        return told, ""
    names = [name for name, visible in sheets.items() if visible]
    if not names:
        raise DataError(f"{path}: there is no sheet with cells", path)
    full = [name for name in names if any(any(c is not None for c in r) for r in _rows(book, name))]
    if len(full) > 1:
        raise DataError(
            f"{path}: there are sheets {listed(full)}; --sheet says which holds the records", path
        )
    sheet = (full or names)[0]
    others = len(names) > 1
    return sheet, f"read sheet {shown(sheet)}, the only one with cells" if others else ""


def _rows(book: Any, sheet: str) -> Iterator[Cells]:
    """Values of the cells of each row, in a file that was opened to be read."""
    worksheet = book[sheet]
    # What a file says of its size may be wrong, and would cut rows or columns off.
    worksheet.reset_dimensions()
    yield from worksheet.iter_rows(values_only=True)


@contextmanager
def _workbook(path: Path, content: bytes | None, *, values: bool = True) -> Iterator[Any]:
    """An open file, with values of formulas or their texts.

    What is wrong with it becomes one line that names it.
    """
    with needed_extra(path, ExcelFile.format):
        import openpyxl
    try:
        with open_bytes(path, content) as source, warnings.catch_warnings():
            # Of styles and validations, which concern no value.
            warnings.filterwarnings("ignore", module="openpyxl")
            _require_sizes(path, source)
            book = openpyxl.load_workbook(source, read_only=True, data_only=values)
            with closing(book):
                yield book
    except (InputError, MemoryError, RecursionError):
        raise
    except Exception as error:  # whatever a damaged archive leads its parser to
        what = (str(error).splitlines() or [type(error).__name__])[0][:120]
        raise DataError(f"{path}: cannot be read as Excel: {what}", path) from None


def _has_formulas(path: Path, content: bytes | None) -> bool:
    """Whether a cell of any sheet is a formula, which is asked of the file's own text."""
    with open_bytes(path, content) as source, zipfile.ZipFile(source) as archive:
        for entry in archive.infolist():
            if entry.filename.startswith("xl/worksheets/"):
                with archive.open(entry) as sheet:
                    before = b""
                    while piece := sheet.read(1 << 20):
                        if FORMULA.search(before + piece):
                            return True
                        before = piece[-2:]
    return False


def _require_sizes(path: Path, source: Any) -> None:
    """Raise DataError for a small file whose texts would unpack to more than memory should hold."""
    with zipfile.ZipFile(source) as archive:
        for entry in archive.infolist():
            held = entry.filename.lower().endswith("sharedstrings.xml")
            if held and entry.file_size > max(MOST_TEXT, MAX_RATIO * entry.compress_size):
                raise DataError(
                    f"{path}: is damaged: texts would unpack to {entry.file_size:,} bytes", path
                )
    source.seek(0, io.SEEK_SET)
