"""SPSS and Stata: numbers with labels, and with values that stand for missing ones.

A column with value labels is read as its labels where most of its different values have one, as
far as its first records show; else as its numbers. So a question is read as its answers, and an age
whose -99 is called "Refused" as ages.
"""

from __future__ import annotations

import datetime
import io
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from ppdm_dask.errors import DataError
from ppdm_dask.files.column import Column, Numbers, Objects, Texts
from ppdm_dask.files.datafile import AS_FOUND, Block, DataFile, Levels, Reading, needed_extra
from ppdm_dask.files.table import Table
from ppdm_dask.files.texts import plain_text

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["SpssFile", "StataFile"]

PROBE = 10_000
"""Records at the beginning of a file that show which columns are labels."""

CELLS = 1 << 20
"""Values that are read at a time: each reading passes over all that is before."""

LETTERS = frozenset(map(chr, range(ord("a"), ord("z") + 1)))

TIMES = ("DATE", "ADATE", "EDATE", "JDATE", "SDATE", "DATETIME", "TIME", "DTIME", "YMDHMS", "%t")
"""How formats of dates and times begin."""


@dataclass(frozen=True)
class Labels:
    """What a file says of the values of a column.

    Parameters
    ----------
    texts : dict of (str or float) to str
        Label of each value that has one, each a different text.
    shown : bool
        Whether the column is read as its labels.
    missing : tuple of str or float
        Values that stand for a missing one.
    limits : tuple of (float, float)
        Ranges of such numbers.
    letters : frozenset of str
        Missing values .a to .z of Stata's numbers, as its reader gives them.
    """

    texts: Mapping[str | float, str] = field(default_factory=dict)
    shown: bool = False
    missing: tuple[str | float, ...] = ()
    limits: tuple[tuple[float, float], ...] = ()
    letters: frozenset[str] = frozenset()

    def text(self, value: Any) -> str:
        """A value of a column that is read as its labels."""
        known = self.texts.get(value)
        if known is not None:
            return known
        text = f".{value}" if value in self.letters else plain_text(value)
        # A 2 without a label is not what is labelled "2".
        return f"{text} (no label)" if text in self.texts.values() else text

    def number(self, value: Any) -> Any:
        """A value of a column that is read as its numbers; a letter is a missing value."""
        return self.texts.get(value, f".{value}") if value in self.letters else value

    def code(self, value: Any) -> str | float:
        """A value that stands for a missing one, as the column has it."""
        found: str | float = self.text(value) if self.shown else self.number(value)
        return found

    def is_missing(self, value: Any) -> bool:
        """Whether a value stands for a missing one."""
        if value in self.missing or value in self.letters:
            return True
        return isinstance(value, float) and any(lo <= value <= hi for lo, hi in self.limits)


@dataclass(frozen=True)
class _Statistical(DataFile):
    """A file of a statistical package, read by ReadStat."""

    options: ClassVar[frozenset[str]] = frozenset({"encoding"})

    encoding: str | None = field(default=None, kw_only=True)
    labels: Mapping[str, Labels] = field(default_factory=dict, kw_only=True, repr=False)

    @classmethod
    def open(cls, path: Path, content: bytes | None = None, how: Reading = AS_FOUND) -> Self:
        first, about = cls._read(path, content, how.encoding, row_limit=PROBE)
        names = tuple(about.column_names)
        labels = {name: _labels(about, name, first[name]) for name in names}
        types = {name: _type(about, name, labels[name].shown, first[name]) for name in names}
        return cls(path, names, types, content, encoding=how.encoding, labels=labels)

    @classmethod
    def _read(
        cls, path: Path, content: bytes | None, encoding: str | None, **how: Any
    ) -> tuple[dict[str, list[Any]], Any]:
        """Values of columns, and what the file says of them."""
        with needed_extra(path, cls.format):
            import pyreadstat
        read = getattr(pyreadstat, cls._reader)
        source = str(path) if content is None else io.BytesIO(content)
        if encoding is not None:
            how["encoding"] = encoding.upper()
        try:
            values, about = read(source, user_missing=True, output_format="dict", **how)
        except (MemoryError, RecursionError):
            raise
        except Exception as error:  # whatever a damaged file leads its parser to
            what = (str(error).splitlines() or [type(error).__name__])[0][:120]
            raise DataError(f"{path}: cannot be read as {cls.format}: {what}", path) from None
        return {name: _listed(column) for name, column in values.items()}, about

    _reader: ClassVar[str]

    def _blocks(self, columns: list[str], size: int, kept: Collection[str]) -> Iterator[Block]:
        wanted = list(dict.fromkeys(columns)) or list(self.columns[:1])
        step = max(1, CELLS // len(wanted) // size) * size
        offset = 0
        while True:
            values, _ = self._read(
                self.path,
                self.content,
                self.encoding,
                usecols=wanted,
                row_offset=offset,
                row_limit=step,
            )
            n = len(values[wanted[0]]) if wanted[0] in values else 0
            made = [self._column(name, values[name], name in kept) for name in columns if n]
            for low in range(0, n, size):
                rows = slice(low, low + size)
                part = Table(columns, [each.take(rows) for each in made], min(size, n - low))
                yield Block(part, offset + low, [])
            offset += n
            if n < step:
                return

    def _column(self, name: str, values: list[Any], as_it_is: bool) -> Column:
        import pyarrow as pa

        labels, kind = self.labels[name], self.types[name]
        if pa.types.is_string(kind):
            return _texts(values, labels, as_it_is)
        if as_it_is:  # numbers, without the kinds of missing ones
            values = [None if isinstance(value, str) else value for value in values]
        elif any(isinstance(value, str) for value in values):
            return Objects([labels.number(value) for value in values])
        whole = pa.types.is_integer(kind)
        gone = np.array([value is None for value in values], bool)
        given = [0 if value is None else value for value in values]
        if whole:
            return Numbers(np.array(given, np.int64), gone if gone.any() else None, gaps=True)
        return Numbers(np.where(gone, np.nan, np.array(given, np.float64)))

    def levels(self, name: str) -> Levels | None:
        labels = self.labels[name]
        missing = [v for v in labels.texts if labels.is_missing(v) and v not in labels.missing]
        codes = tuple(map(labels.code, (*labels.missing, *missing)))
        marks = frozenset(f".{letter}" for letter in labels.letters)
        if not labels.shown:
            named = {plain_text(labels.number(v)): text for v, text in labels.texts.items()}
            return Levels((), False, (), codes, labels.limits, marks, named)
        there = [each for each in labels.texts.items() if not labels.is_missing(each[0])]
        if all(isinstance(value, float) for value, _ in there):
            there.sort()
        texts = tuple(text for _, text in there)
        numbers = tuple(value for value, _ in there if isinstance(value, float))
        return Levels(texts, True, numbers, codes, labels.limits, marks)


def _labels(about: Any, name: str, first: list[Any]) -> Labels:
    """What a file says of a column; whether it is labels shows in its first values."""
    given = about.variable_value_labels.get(name) or {}
    texts = {_value(value): text for value, text in given.items() if text}
    times = Counter(texts.values())
    texts = {
        value: text if times[text] == 1 else f"{text} ({plain_text(value)})"
        for value, text in texts.items()
    }
    ranges = (getattr(about, "missing_ranges", None) or {}).get(name, ())
    numeric = not about.readstat_variable_types[name].startswith("string")
    letters = LETTERS if numeric and about.file_format == "dta" else frozenset()
    single = tuple(_value(each["lo"]) for each in ranges if each["lo"] == each["hi"])
    limits = tuple(
        (each["lo"], each["hi"]) for each in ranges if numeric and each["lo"] != each["hi"]
    )
    labels = Labels(texts, False, single, limits, letters)
    there = {_value(value) for value in first if value is not None and value != ""}
    answers = [value for value in there or texts if not labels.is_missing(value)]
    labelled = sum(value in texts for value in answers)
    return replace(labels, shown=2 * labelled > len(answers))


def _listed(column: Any) -> list[Any]:
    """Values of a column, None where one is missing; older versions of pyreadstat give arrays."""
    if isinstance(column, list):
        return column
    return [None if value != value else value for value in column.tolist()]


def _value(value: Any) -> Any:
    return float(value) if isinstance(value, int | float) else value


def _type(about: Any, name: str, shown: bool, first: list[Any]) -> pa.DataType:
    import pyarrow as pa

    stored, form = about.readstat_variable_types[name], about.original_variable_types[name] or ""
    times = any(isinstance(value, datetime.date | datetime.time) for value in first)
    if stored.startswith("string") or shown or times or form.startswith(TIMES):
        return pa.string()
    return pa.int64() if stored.startswith("int") else pa.float64()


def _texts(values: list[Any], labels: Labels, as_it_is: bool) -> Texts:
    """Texts of values; an empty one is missing."""
    known: dict[Any, str | None] = {None: None, "": None}
    for value in values:
        if value not in known:
            known[value] = labels.text(_value(value)) if labels.shown else plain_text(value)
    found = Texts.of([known[value] for value in values], categories=not as_it_is)
    return found if as_it_is else found.sorted()


class SpssFile(_Statistical):
    """A file of SPSS, compressed or not."""

    format: ClassVar[str] = "SPSS"
    endings: ClassVar[tuple[str, ...]] = (".sav", ".zsav")
    _reader: ClassVar[str] = "read_sav"


class StataFile(_Statistical):
    """A file of Stata."""

    format: ClassVar[str] = "Stata"
    endings: ClassVar[tuple[str, ...]] = (".dta",)
    _reader: ClassVar[str] = "read_dta"
