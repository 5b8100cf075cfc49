"""How a text file is written: encoding, separator, decimal mark; told, or found and said.

A sample from the beginning of the file decides. What the sample leaves open is refused with the
option that settles it, and what contradicts it further down is refused too: a file is never read
in two ways.
"""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import re
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import BinaryIO, cast

import numpy as np

from ppdm_dask.errors import DataError
from ppdm_dask.files.column import Column, Texts, small
from ppdm_dask.files.datafile import Reading, open_bytes
from ppdm_dask.files.regular import ending
from ppdm_dask.files.table import Table
from ppdm_dask.shown import listed, shown

__all__ = ["SEPARATORS", "Dialect", "find_dialect"]

SEPARATORS = {";": "semicolons", "\t": "tabs", "|": "bars"}
"""Signs that are no commas, and what they are called."""

SAMPLE = 1 << 20
"""Bytes at the beginning of a file that are looked at."""

ROWS = 1_000
"""Records of the sample by which separators and decimal marks are told."""

MARKS = {
    codecs.BOM_UTF8: "utf-8",
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
"""Byte order marks; the longer ones first, since one begins with another."""

WESTERN = "cp1252"

# Of a text that is Western: no sign within a word but an apostrophe, no capital after a small
# letter, and at most two letters in a row that are not plain ones.
_STRANGE = re.compile(
    r"[^\W\d_](?![’´·ªº\xad])[\x80-\xbf×÷€‚„…†‡ˆ‰‹‘“”•–—˜™›][^\W\d_]"
    r"|[^\W\d_][¡¢£¤¥¦¨¬¯±¶¸¹¼½¾¿×÷]"
    r"|[a-zß-öø-ÿ][À-ÖØ-ÞŠŽŒŸ]|[À-ÖØ-öø-ÿŠšŽžŒœŸƒ]{3}"
)

_COMMA = re.compile(r"[+-]?\d+,\d+", re.ASCII)
_POINT = re.compile(r"[+-]?\d+\.\d+", re.ASCII)
_THOUSANDS = re.compile(r"[+-]?\d{1,3}(\.\d{3})+", re.ASCII)
_EITHER = re.compile(r"[+-]?[1-9]\d{0,2}[.,]\d{3}", re.ASCII)
_GROUPED = re.compile(r"[+-]?\d{1,3}(\.\d{3})+,\d+", re.ASCII)


NOTHING: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Dialect:
    """How a file is written.

    Parameters
    ----------
    delimiter : str
    encoding : str
    begins : int
        Line of the header: 2 where a spreadsheet's ``sep=;`` stands before it.
    commas : frozenset of str
        Columns with decimal commas in the sample; a number with a point is refused there.
    loose : frozenset of str
        Others in which a comma is the decimal mark, as that was told.
    unknown : frozenset of str
        Columns where nothing is known of the mark; a number with a comma is refused there.
    """

    delimiter: str = ","
    encoding: str = "utf-8"
    begins: int = 1
    commas: frozenset[str] = NOTHING
    loose: frozenset[str] = NOTHING
    unknown: frozenset[str] = NOTHING

    def open(self, path: Path, content: bytes | None) -> BinaryIO:
        """The file as UTF-8, unpacked."""
        file = open_bytes(path, content)
        packed = is_packed(path)
        if self.encoding == "utf-8" and not packed:
            return file
        encoding = None if self.encoding == "utf-8" else self.encoding
        unpacked = cast("BinaryIO", gzip.GzipFile(fileobj=file)) if packed else file
        return io.BufferedReader(_AsUtf8(path, unpacked, file, encoding), 1 << 18)

    def numbers(self, path: Path, table: Table) -> Table:
        """Write decimal commas of a block's texts as points.

        Raises
        ------
        DataError
            For a text that is a number in another notation than the rest of the file.
        """
        looked_at = self.commas | self.loose | self.unknown
        names = looked_at.intersection(table.columns) if looked_at else ()
        return table.replaced({name: self._column(path, name, table[name]) for name in names})

    def _column(self, path: Path, name: str, values: Column) -> Column:
        positions, given = values.coded()
        texts = [self._number(path, name, text) for text in given]
        if texts == given:
            return values
        places = {text: i for i, text in enumerate(dict.fromkeys(texts))}
        table = np.array([*(places[text] for text in texts), -1])
        categories = isinstance(values, Texts) and values.categories
        return Texts(small(table[positions], len(places)), list(places), categories)

    def _number(self, path: Path, name: str, text: str) -> str:
        if name in self.unknown:
            if _COMMA.fullmatch(text) or _GROUPED.fullmatch(text):
                raise DataError(
                    f"{path}: column {shown(name)}: {shown(text)} has a comma, but no value at "
                    "the beginning of the file has one; give --decimal , or --decimal .",
                    text,
                )
            return text
        if _COMMA.fullmatch(text):
            return text.replace(",", ".")
        if _GROUPED.fullmatch(text):
            return text.replace(".", "").replace(",", ".")
        strange = _POINT if name in self.commas else _THOUSANDS
        if strange.fullmatch(text):
            raise DataError(
                f"{path}: column {shown(name)}: {shown(text)} has a point, where a comma is the "
                "decimal mark; write it without separators of thousands, or give --decimal .",
                text,
            )
        return text


def is_packed(path: Path) -> bool:
    """Whether a file is compressed by gzip, by its name."""
    return ending(path).endswith(".gz")


def find_dialect(path: Path, content: bytes | None, how: Reading) -> tuple[Dialect, str]:
    """How a file is written, and what was found of that without being told, in a line.

    Raises
    ------
    DataError
        Where the beginning of the file leaves it open, with the option that settles it.
    """
    with Dialect().open(path, content) as file:
        try:
            raw = file.read(SAMPLE)
        except OSError as error:
            raise DataError(f"{path}: cannot be read: {error.strerror}", path) from None
    whole = len(raw) < SAMPLE
    encoding = _encoding(path, raw, how.encoding)
    text = (
        codecs.getincrementaldecoder(encoding)("replace").decode(raw, whole).removeprefix("\ufeff")
    )
    first = text.partition("\n")[0].rstrip("\r")
    noted = first[4:] if first.lower().startswith("sep=") and len(first) == 5 else ""
    usual = "\t" if ending(path).startswith(".tsv") else ""
    lines: list[str] = []
    # Most often there are commas only, and nothing has to be found out.
    if usual or noted or how.told() or any(sign in first for sign in SEPARATORS):
        lines = list(io.StringIO(text, newline=""))[1 if noted else 0 :]
        if not whole and len(lines) > 1:
            del lines[-1]
    delimiter = how.delimiter or usual or noted or _delimiter(path, lines)
    marks = _marks(path, lines, delimiter, how)
    dialect = Dialect(delimiter, encoding, 1 + bool(noted), *marks)
    said: list[tuple[str, str]] = []
    if delimiter != (how.delimiter or usual or ","):
        said.append((f"separated by {SEPARATORS.get(delimiter, shown(delimiter))}", "--delimiter"))
    if encoding not in ("utf-8", how.encoding):
        said.append((f"encoded in {encoding}", "--encoding"))
    if dialect.commas and how.decimal is None:
        said.append((f"with decimal commas in {listed(sorted(dialect.commas))}", "--decimal"))
    if not said:
        return dialect, ""
    options = ", ".join(option for _, option in said)
    verb = "says" if len(said) == 1 else "say"
    return dialect, f"read as {', '.join(what for what, _ in said)}; {options} {verb} otherwise"


def _encoding(path: Path, raw: bytes, told: str | None) -> str:
    mark = next((MARKS[each] for each in MARKS if raw.startswith(each)), None)
    if told is not None:
        if mark is not None and not told.startswith(mark):
            raise DataError(
                f"{path}: begins with the byte order mark of {mark}, and --encoding is {told}", path
            )
        return "utf-8" if told == "utf-8-sig" else told
    if mark is not None:
        return mark
    try:
        codecs.getincrementaldecoder("utf-8")().decode(raw)
        return "utf-8"
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
    try:
        text = codecs.getincrementaldecoder(WESTERN)().decode(raw)
    except UnicodeDecodeError:
        text = None
    if text is None or "\0" in text or _STRANGE.search(text):
        raise DataError(
            f"{path}: line {line}: this is not UTF-8 text, and none of Western Europe ({WESTERN}); "
            "--encoding says what it is, or save the file as UTF-8",
            path,
        )
    return WESTERN


def _rows(lines: Sequence[str], delimiter: str) -> list[list[str]]:
    """Header and records of the sample, without empty ones, as far as they can be parsed."""

    def parsed() -> Iterator[list[str]]:
        try:
            yield from csv.reader(lines, delimiter=delimiter, strict=True)
        except csv.Error:  # which the reader of records tells of, or the end of the sample
            return

    return [row for row in islice(parsed(), ROWS + 1) if row]


def _delimiter(path: Path, lines: Sequence[str]) -> str:
    """The sign by which all records have as many fields as the header, two or more."""
    there = [sign for sign in (",", *SEPARATORS) if lines and sign in lines[0]]
    if there in ([], [","]):
        return ","
    fit: dict[str, float] = {}
    for sign in there:
        header, *records = _rows(lines, sign) or [[]]
        if len(header) > 1:
            same = sum(len(row) == len(header) for row in records)
            fit[sign] = same / len(records) if records else 1.0
    if not fit:
        return ","
    found, share = max(fit.items(), key=lambda item: item[1])
    if share == 1.0 and (others := [s for s in fit if fit[s] == 1.0 and s != found]):
        raise DataError(
            f"{path}: line 1: names may be separated by {shown(found)} or by {shown(others[0])}; "
            "--delimiter says which",
            path,
        )
    if share < 0.5 and found != ",":
        raise DataError(
            f"{path}: line 1: a name contains {shown(found)}, but records have another number "
            "of fields; give the separator as --delimiter, or put names that contain it in quotes",
            path,
        )
    return found


def _marks(
    path: Path, lines: Sequence[str], delimiter: str, how: Reading
) -> tuple[frozenset[str], frozenset[str], frozenset[str]]:
    """Columns with decimal commas, those where they are told, and those whose mark is not known."""
    if how.decimal == "." or (how.decimal is None and delimiter == ","):
        return NOTHING, NOTHING, NOTHING
    header, *records = _rows(lines, delimiter) or [[]]
    commas: dict[str, str] = {}
    points: dict[str, str] = {}
    unknown: set[str] = set()
    sure = False
    for place, name in enumerate(header):
        if name in how.split:
            continue
        texts = {row[place] for row in records if len(row) == len(header)}
        with_comma = {text for text in texts if "," in text}
        numbers = {t for t in with_comma if _COMMA.fullmatch(t) or _GROUPED.fullmatch(t)}
        # A text with a comma that is not a number makes all of them texts: answers 1,2 and 1,2,3.
        if with_comma and with_comma == numbers:
            commas[name] = min(numbers)
        elif not with_comma:
            unknown.add(name)
        pointed = {text for text in texts if _POINT.fullmatch(text)}
        if pointed:
            points[name] = min(pointed)
        marked = pointed | (numbers if name in commas else set())
        sure = sure or not all(map(_EITHER.fullmatch, marked))
    found = frozenset(commas)
    if how.decimal == ",":
        return found, frozenset(header) - found - set(how.split), NOTHING
    if commas and points:
        (name, text), other = next(iter(commas.items())), next(iter(points))
        raise DataError(
            f"{path}: column {shown(name)} holds numbers with a comma, and column {shown(other)} "
            "numbers with a point; --decimal , or --decimal . says which is the decimal mark",
            text,
        )
    for name, text in {**commas, **points}.items() if not sure else ():
        raise DataError(
            f"{path}: column {shown(name)}: {shown(text)} may be a number of thousands or have "
            "decimals, as far as the file shows; --decimal , or --decimal . says which is the "
            "decimal mark",
            text,
        )
    return found, NOTHING, frozenset(unknown)


class _AsUtf8(io.RawIOBase):
    """A file in another encoding, or compressed, as the bytes of its text in UTF-8."""

    def __init__(self, path: Path, inner: BinaryIO, source: BinaryIO, encoding: str | None) -> None:
        self._path, self._inner, self._source, self._encoding = path, inner, source, encoding
        self._begin()

    def _begin(self) -> None:
        self._inner.seek(0)
        self._decoder = codecs.getincrementaldecoder(self._encoding)() if self._encoding else None
        self._rest, self._at, self._lines, self._ended = b"", 0, 0, False

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, at: int, whence: int = 0) -> int:
        target = at + (self._at if whence == 1 else 0)
        if target < self._at:
            self._begin()
        while self._at < target and self.read(min(target - self._at, 1 << 20)):
            pass
        return self._at

    def readinto(self, buffer: object) -> int:
        into = memoryview(cast("bytearray", buffer)).cast("B")
        while not self._rest and not self._ended:
            self._fill()
        n = min(len(into), len(self._rest))
        into[:n], self._rest = self._rest[:n], self._rest[n:]
        self._at += n
        return n

    def _fill(self) -> None:
        try:
            piece = self._inner.read(1 << 18)
        except (OSError, EOFError, zlib.error) as error:
            what = getattr(error, "strerror", None) or str(error)
            raise DataError(f"{self._path}: cannot be read: {what}", self._path) from None
        self._ended = not piece
        if self._decoder is None:
            self._rest = piece
            return
        try:
            text = self._decoder.decode(piece, not piece)
        except UnicodeError as error:
            good = error.object[: error.start] if isinstance(error, UnicodeDecodeError) else b""
            line = self._lines + good.decode(self._encoding or "", "replace").count("\n") + 1
            raise DataError(
                f"{self._path}: line {line}: this is not text in {self._encoding}; --encoding says "
                "what it is",
                self._path,
            ) from None
        self._lines += text.count("\n")
        self._rest = text.encode("utf-8", "surrogatepass")

    def close(self) -> None:
        if not self.closed:
            self._inner.close()
            self._source.close()
        super().close()
