"""A codebook proposed from a data file, for a person to edit.

Also here: a column of a data file: what was seen of it, and the attribute that is proposed for it;
labels that look alike or hide signs, which a person should see before they are declared.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import inf, isnan
from pathlib import Path
from typing import Any, Literal

import numpy as np

from ppdm_dask.data.attribute import Attribute
from ppdm_dask.data.binning import fit_attribute
from ppdm_dask.data.codebook import Codebook, table_of
from ppdm_dask.data.partitioned import native
from ppdm_dask.errors import CodebookError, DataError
from ppdm_dask.faces.face import Face
from ppdm_dask.files.column import Column as Values
from ppdm_dask.files.columns import (
    MissingCodes,
    plain_number,
    read_number,
)
from ppdm_dask.files.reader import AS_FOUND, SEPARATORS, DataFile, Levels, Reading, open_data
from ppdm_dask.files.table import Table
from ppdm_dask.files.texts import canonical_text
from ppdm_dask.shown import printable, quoted, shown

__all__ = ["Column", "Proposal", "alike", "oddities", "propose_codebook"]


# Small Cyrillic and Greek letters, and capitals, that are drawn as a Latin one is.
_DRAWN_AS = str.maketrans(
    "асеорхуіјѕԁһԛԝьАВСЕНІЈКМОРЅТХУΑΒΕΖΗΙΚΜΝΟΡΤΥΧοανρυкмт",
    "aceopxyijsdhqwbABCEHIJKMOPSTXYABEZHIKMNOPTYXoavpukmt",
)

_SCRIPTS = frozenset({"LATIN", "CYRILLIC", "GREEK", "ARMENIAN", "CHEROKEE", "COPTIC"})


def skeleton(label: str) -> str:
    """What a label looks like: the same for those that a reader would take for one answer."""
    plain = unicodedata.normalize("NFKC", label)
    visible = "".join(sign for sign in plain if unicodedata.category(sign) not in ("Cf", "Cc"))
    return " ".join(visible.translate(_DRAWN_AS).casefold().split())


def alike(labels: Iterable[str]) -> list[list[str]]:
    """Groups of labels that differ by case, spaces, hidden signs or letters of another script."""
    groups: dict[str, list[str]] = {}
    for label in labels:
        groups.setdefault(skeleton(label), []).append(label)
    return [group for group in groups.values() if len(group) > 1]


def oddities(label: str) -> Iterator[str]:
    """What cannot be seen of a label: hidden signs, and letters of several scripts in a word."""
    hidden = dict.fromkeys(
        f"U+{ord(sign):04X}" for sign in label if unicodedata.category(sign) in ("Cf", "Cc", "Co")
    )
    if hidden:
        yield f"{shown(label)} holds signs that cannot be seen: {', '.join(hidden)}"
    for word in label.split():
        scripts = {unicodedata.name(letter, "").partition(" ")[0] for letter in word}
        if len(found := sorted(scripts & _SCRIPTS)) > 1:
            mixed = " and ".join(script.capitalize() for script in found)
            yield f"{shown(label)} mixes {mixed} letters in one word"
            return


MOST_LABELS = 10_000
"""Different texts of a column after which they are no longer told apart."""

MOST_NUMBERS = 1 << 20
"""Numbers of a column that are kept for quantiles; of more, every second, fourth, ..."""

MOST_TEXTS = 5
"""Different texts among numbers, such as "Refused", which may stand for missing values."""

RARE = 5
"""An answer given by fewer people than this is called rare."""

MISSING = "(missing)"

NO_LEVELS = Levels()

SUSPECTS = frozenset({"", "?", "-", "--", ".", "na", "n/a", "nan", "none", "null", "unknown"})
SUSPECT_NUMBERS: frozenset[float] = frozenset(
    {-1, -7, -8, -9, -97, -98, -99, -997, -998, -999, -9997, -9998, -9999}
    | {99, 998, 999, 9998, 9999}
)
_PADDED = re.compile(r"[+-]?0\d+", re.ASCII)


@dataclass
class Column:
    """What was seen of a column, and what is proposed for it.

    Parameters
    ----------
    name : str
    levels : Levels
        What the file declares of its values, also of those that nobody gave.
    codes : tuple of str or float
        Values that stand for a missing one in any column, as that was told.
    apart : bool
        Whether kinds of missing values stay apart.
    labels : dict of str to int, or None
        How often each text occurs, in order of appearance; None where there are too many.
    missing : int
    coded : dict of str to int
        How often each value occurs that stands for a missing one.
    attribute : Attribute or None
        The proposal.
    left_out : str
        Why there is none.
    remedy : str
        What to do about it.
    notes : list of str
        What a person should look at, with the lines to write, each on a line of its own.
    """

    name: str
    levels: Levels = NO_LEVELS
    codes: tuple[str | float, ...] = ()
    apart: bool = False
    labels: dict[str, int] | None = field(default_factory=dict)
    missing: int = 0
    coded: dict[str, int] = field(default_factory=dict)
    attribute: Attribute | None = None
    left_out: str = ""
    remedy: str = ""
    notes: list[str] = field(default_factory=list)
    _texts: dict[str, int] | None = field(default_factory=dict)  # those that are no numbers
    _padded: bool = False
    _numbers: list[Any] = field(default_factory=list)
    _stride: int = 1
    _seen: int = 0

    def add(self, values: Values) -> None:
        """Take in a block of values."""
        positions, texts = values.factorised()
        there = positions[positions >= 0]
        self.missing += len(positions) - len(there)
        counts = np.bincount(there, minlength=len(texts)).tolist()
        if any(stand := [self._stands_for_missing(text) for text in texts]):
            for text, times, stands in zip(texts, counts, stand, strict=True):
                if stands:
                    self.coded[text] = self.coded.get(text, 0) + times
            kept = np.flatnonzero(~np.array(stand))
            place = np.full(len(texts), -1)
            place[kept] = np.arange(len(kept))
            there = place[there][place[there] >= 0]
            texts, counts = [texts[i] for i in kept], [counts[i] for i in kept]
        if self.labels is not None:
            for text, times in zip(texts, counts, strict=True):
                self.labels[text] = self.labels.get(text, 0) + times
            if len(self.labels) > MOST_LABELS:
                self.labels = None
        table = np.array([read_number(text) for text in texts], float)
        self._padded = self._padded or any(map(_PADDED.fullmatch, texts))
        self._note_texts(texts, counts, np.isfinite(table))
        if not self.numeric:
            self._numbers = []
            return
        numbers = table[there]
        numbers = numbers[np.isfinite(numbers)]
        self._numbers.append(numbers[-self._seen % self._stride :: self._stride])
        self._seen += len(numbers)
        while sum(map(len, self._numbers)) > MOST_NUMBERS:
            self._numbers = [np.concatenate(self._numbers)[::2]]
            self._stride *= 2

    @cached_property
    def _held(self) -> MissingCodes:
        return MissingCodes.of((*self.codes, *self.levels.missing))

    def _stands_for_missing(self, text: str) -> bool:
        levels = self.levels
        if not (self.codes or levels.missing or levels.marks or levels.limits):
            return False
        if self._held.holds(text) or text in levels.marks:
            return True
        return any(low <= plain_number(text) <= high for low, high in levels.limits)

    @property
    def _missing_codes(self) -> list[str | float]:
        """Values that stand for a missing one: declared by the file, and others that occur."""
        found = list(self.levels.missing)
        known = MissingCodes.of(found)
        for code in (*map(canonical_text, self.codes), *self.coded):
            # Of those that were told, some occur in other columns only.
            if not known.holds(code) and MissingCodes.of([code]).any_of(self.coded):
                found.append(_code(code))
                known = MissingCodes.of(found)
        return found

    def _named(self, code: str | float) -> str:
        text = canonical_text(code)
        return self.levels.labels.get(text, text)

    def _note_texts(self, texts: list[str], counts: list[int], numbers: Any) -> None:
        if self._texts is None:
            return
        for text, times, number in zip(texts, counts, numbers, strict=True):
            if not number:
                self._texts[text] = self._texts.get(text, 0) + times
        if len(self._texts) > MOST_TEXTS:
            self._texts = None

    @property
    def numeric(self) -> bool:
        """Whether the values are numbers, but for a few texts; a zero in front makes a label."""
        return self._texts is not None and not self._padded

    def propose(self, most: int, bins: int, order: Literal["sorted", "appearance"]) -> None:
        """Find an attribute, or say why there is none."""
        codes = self._missing_codes
        gap = MISSING if self.missing or (codes and not self.apart) else None
        if self.labels is not None:
            for level in self.levels.texts:
                if not self._stands_for_missing(level):
                    self.labels.setdefault(level, 0)
            if self._refuse(self.labels, gap):
                return
            if len(self.labels) <= most:
                self._declare(self.labels, gap, order)
                return
        if self.numeric and self._seen:
            self._cut(bins, gap)
            return
        count = f"over {MOST_LABELS:,}" if self.labels is None else f"{len(self.labels):,}"
        what = "codes with leading zeros" if self._padded else "texts: free text"
        joint = ": " if self._padded else ", or "
        self.left_out = f"{count} different {what}{joint}an identifier?"
        self.remedy = "to ask for it nevertheless, unite the texts first, or --max-categories more"

    def _refuse(self, labels: dict[str, int], gap: str | None) -> bool:
        """Whether the labels are none to declare; then the column says why."""
        if len(labels) + bool(gap) + self.apart * len(self._missing_codes) < 2:
            label = next(iter(labels), None)
            self.left_out = "every value is " + ("missing" if label is None else shown(label))
            self.remedy = "to ask for it, declare what else can be answered: categories = [...]"
        elif "" in labels or gap in labels:
            self.left_out = f"holds the text {shown('' if '' in labels else gap)} as an answer"
            self.remedy = "name the answer otherwise, or leave it empty where it is missing"
        else:
            for sign, word in SEPARATORS.items():
                if sign in self.name and all(sign in label for label in labels):
                    self.left_out = f"looks like several columns that {word} separate"
                    self.remedy = "read the file it came from with this separator"
        return bool(self.left_out)

    def _declare(
        self, labels: dict[str, int], gap: str | None, order: Literal["sorted", "appearance"]
    ) -> None:
        names, levels = list(labels), self.levels
        if levels.numbers:
            place = dict(zip(levels.texts, levels.numbers, strict=True))
            names.sort(key=lambda text: _last(place.get(text, read_number(text))))
        elif levels.ordered:
            names = [each for each in levels.texts if each in labels]
            names += [each for each in labels if each not in names]
        elif order == "sorted":
            plain = self.numeric and not self._texts
            names.sort(key=(lambda text: (read_number(text), text)) if plain else str)
        codes = self._missing_codes
        apart = {canonical_text(code): self._named(code) for code in codes} if self.apart else {}
        texts = (*([gap] if gap else []), *apart, *names)
        categories = tuple(apart.get(text, text) for text in texts)
        self.attribute = Attribute(
            self.name,
            categories,
            missing=gap,
            groups=None if categories == texts else tuple((text,) for text in texts),
            missing_codes=None if self.apart or not codes else tuple(codes),
        )
        self._note_labels()
        self.notes += _doubts(names, gap)
        unseen = [name for name in names if not labels[name]]
        if unseen:
            self.notes.append(f"declared by the file, and nobody's answer: {quoted(unseen)}")
        if rare := [name for name in names if 0 < labels[name] < RARE]:
            said = ", ".join(f"{shown(name)} ({labels[name]})" for name in rare[:12])
            more = f" and {len(rare) - 12} more" if len(rare) > 12 else ""
            self.notes.append(
                f"rare, so that the label may point to a person: {said}{more}; unite them with "
                "others by `groups`, or take the categories from the questionnaire"
            )

    def _cut(self, bins: int, gap: str | None) -> None:
        numbers = np.concatenate(self._numbers)
        texts, codes = list(self._texts or ()), self._missing_codes
        gap = gap if self.apart or not texts else MISSING
        held = [*codes, *texts]
        self.attribute = self._fitted(numbers, bins, gap, held)
        if self.attribute is None:
            self.left_out = f"every number is {canonical_text(float(numbers[0]))}"
            self.remedy = "to ask for it, write cuts = [...] with the categories between them"
            return
        note = f"numbers, cut by {self.attribute.rule}: put cuts where the questionnaire has them"
        if (numbers == np.floor(numbers)).all():
            # Cut numbers of schools would be strata or clusters of many schools.
            note += "; numbers of schools, regions or clusters? then delete it, to keep them as is"
        self.notes.append(note)
        self._note_labels()
        if texts:
            said = ", ".join(f"{shown(text)} ({self._texts[text]})" for text in texts)  # type: ignore[index]
            where = "missing_kinds" if self.apart else "missing_codes"
            self.notes.append(f"no numbers, and taken for missing values by `{where}`: {said}")
        if self._stride > 1:
            self.notes.append(f"cuts are from one in {self._stride} of the values")
        if self.labels is not None and len(self.labels) == self._seen:
            self.notes.append("every value is a different one: an identifier? then delete it")
        elif odd := sorted(SUSPECT_NUMBERS.intersection(map(read_number, self.labels or ()))):
            self.notes.append(self._asked(numbers, odd, bins, held))

    def _fitted(
        self, numbers: Any, bins: int, gap: str | None, codes: Sequence[str | float]
    ) -> Attribute | None:
        kinds = [(self._named(code), code) for code in codes] if self.apart else []
        for rule in (f"quantiles({bins})", "midrange"):  # where most values are the largest one
            try:
                return fit_attribute(
                    self.name,
                    numbers,
                    rule,
                    missing=gap,
                    missing_codes=None if self.apart or not codes else codes,
                    missing_kinds=kinds,
                )
            except CodebookError:
                continue
        return None

    def _note_labels(self) -> None:
        """Say which numbers have a label in the file, but for those of missing values."""
        named = [
            f"{text} is {shown(label)}"
            for text, label in self.levels.labels.items()
            if not self._stands_for_missing(text)
        ]
        if named:
            more = f" and {len(named) - 12} more" if len(named) > 12 else ""
            self.notes.append(f"labelled in the file: {', '.join(named[:12])}{more}")

    def _asked(self, numbers: Any, odd: list[float], bins: int, texts: list[str | float]) -> str:
        """Question about numbers that may stand for a missing value, with the lines that say so."""
        said = ", ".join(map(canonical_text, odd))
        question = f"does {said} stand for a missing value?"
        rest = numbers[~np.isin(numbers, odd)]
        gap = None if self.apart and not self.missing else MISSING
        remedy = self._fitted(rest, bins, gap, [*texts, *odd]) if rest.size else None
        if remedy is None:
            return question
        config = remedy.config()
        keys = ("categories", "cuts", "missing", "missing_codes", "missing_kinds")
        lines = [f"{key} = {_toml(config[key])}" for key in keys if key in config]
        return "\n".join([f"{question} if so, write", *lines])


def _code(text: str) -> str | float:
    """A missing value as a codebook lists it: a number where the text is one."""
    number = plain_number(text)
    return text if isnan(number) else number


def _last(number: float) -> float:
    return inf if isnan(number) else number


def _toml(value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(_toml, value))}]"
    if isinstance(value, float):
        return canonical_text(value)
    return json.dumps(value, ensure_ascii=False)


def _doubts(labels: list[str], gap: str | None) -> Iterator[str]:
    """Labels that may be missing values, or that look like another or hide something."""
    for label in labels:
        if label.strip().lower() in SUSPECTS or read_number(label) in SUSPECT_NUMBERS:
            remedy = f"missing = {_toml(label)}"
            if gap is not None:
                remedy = f"take it out of the categories and write missing_codes = [{_toml(label)}]"
            yield f"does {shown(label)} stand for a missing value? if so, {remedy}"
    for group in alike(labels):
        names = " and ".join(map(shown, group))
        yield f"{names}: one answer? then `groups` unites them"
    for label in labels:
        yield from oddities(label)


@dataclass(frozen=True, repr=False)
class Proposal(Face):
    """A codebook for a person to edit, and what it leaves out."""

    source: str
    n: int
    columns: tuple[Column, ...]
    codebook: Codebook
    note: str = ""

    def _said(self) -> str:
        left = sum(bool(column.left_out) for column in self.columns)
        return f"Proposal from {self.n:,} records, {left} columns left out: {self.codebook._said()}"

    def text(self) -> str:
        """Codebook file with remarks at its head."""
        lines = [
            f"Proposed by `ppdm codebook` from the {self.n:,} records of {self.source!r}, for you",
            "to edit. It was read off true answers and goes wherever reports go: let categories",
            "and cuts be those of the questionnaire, also where nobody gave the answer. Delete",
            "these remarks before you pass it on.",
        ]
        left = [(c.name, f"{c.left_out}\n{c.remedy}") for c in self.columns if c.left_out]
        notes = [(c.name, note) for c in self.columns for note in c.notes]
        for heading, found in (("Left out:", left), ("To look at:", [*notes, *self._names()])):
            if found:
                lines += ["", heading]
            for name, what in found:
                first, *rest = what.rstrip().splitlines()
                lines += [f"  {shown(name)}: {first}", *(f"      {line}" for line in rest)]
        comment = "\n".join(f"# {printable(line)}".rstrip() for line in lines)
        return f"{comment}\n\n{self.codebook.as_toml()}"

    def _names(self) -> list[tuple[str, str]]:
        """Names of columns that look like another's or hide something, with what they do."""
        names = [column.name for column in self.columns]
        found = [(name, what) for name in names for what in oddities(name)]
        return found + [(group[0], f"looks like {quoted(group[1:])}") for group in alike(names)]


def propose_codebook(
    data: Path,
    *,
    most: int = 20,
    bins: int = 4,
    order: Literal["sorted", "appearance"] = "sorted",
    how: Reading = AS_FOUND,
    missing_codes: Sequence[str | float] = (),
    apart: bool = False,
) -> Proposal:
    """Propose categories and cuts from all records of a file.

    Parameters
    ----------
    data : Path
        A data file of any format.
    most : int
        Labels of an attribute; of more, numbers are cut and texts left out, with the reason.
    bins : int
        Bins of numbers, 2 or more.
    order : {"sorted", "appearance"}
        Of labels; numbers are sorted as numbers. If the file declares an order, that order is used.
    how : Reading
        How to read the file, as far as is known.
    missing_codes : sequence of str or float
        Values that stand for a missing one wherever they occur, beside those declared by the file.
    apart : bool
        Give each kind of missing values a category of its own, in place of one for all.

    Raises
    ------
    DataError
        If the file has no records, or nothing can be proposed for any column.
    """
    return _proposed(open_data(data, how=how), data, (most, bins, order), missing_codes, apart)


def propose_for_frame(
    frame: Any,
    *,
    most: int = 20,
    bins: int = 4,
    order: Literal["sorted", "appearance"] = "sorted",
    missing_codes: Sequence[str | float] = (),
    apart: bool = False,
) -> Proposal:
    """The same of a table in memory: what :func:`ppdm_dask.Codebook.propose` rests on.

    Parameters
    ----------
    frame : DataFrame of pandas or polars, table of Arrow, or mapping of columns
        Declared orders of categories are kept, those that nobody gave included.
    most, bins, order, missing_codes, apart
        As of :func:`propose_codebook`.

    Raises
    ------
    DataError
        As of :func:`propose_codebook`, or if the table cannot be written as Parquet.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    where = Path("the table.parquet")
    try:
        table = table_of(native(frame))
        whole = table.to_arrow() if isinstance(table, Table) else pa.table(table)
        content = pa.BufferOutputStream()
        pq.write_table(whole, content)
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise DataError(
            f"the table: {type(error).__name__}: it cannot be written as Parquet"
        ) from None
    file = open_data(where, content.getvalue().to_pybytes())
    return _proposed(file, "the table", (most, bins, order), missing_codes, apart)


def _proposed(
    file: DataFile,
    data: str | Path,
    rules: tuple[int, int, Literal["sorted", "appearance"]],
    missing_codes: Sequence[str | float],
    apart: bool,
) -> Proposal:
    columns = tuple(_column(file, name, tuple(missing_codes), apart) for name in file.columns)
    readable = [column for column in columns if not column.left_out]
    n = 0
    for block in file.blocks([column.name for column in readable]):
        for column in readable:
            column.add(block.table[column.name])
        n += len(block.table)
    if not n:
        raise DataError(f"{data}: there are no records; at least one is needed", data)
    for column in readable:
        column.propose(*rules)
    attributes = tuple(c.attribute for c in columns if c.attribute is not None)
    if not attributes:
        raise DataError(f"{data}: nothing can be proposed for any column: {_why(columns)}", data)
    return Proposal(str(data), n, columns, Codebook(attributes), file.note)


def _column(file: DataFile, name: str, codes: tuple[str | float, ...], apart: bool) -> Column:
    """A column before its values are read; left out where they are not read at all."""
    if why := file.refusal(name):
        return Column(name, left_out=why, remedy="all other columns are read")
    return Column(name, file.levels(name) or NO_LEVELS, codes, apart)


def _why(columns: Sequence[Column], most: int = 12) -> str:
    """Why no column is proposed, with one value of the file at most: several make a record."""
    constant = [column for column in columns if column.labels and len(column.labels) == 1]
    reasons = [
        f"{shown(column.name)}: " + ("has one value" if column in constant[1:] else column.left_out)
        for column in columns[:most]
    ]
    more = f"; and {len(columns) - most} more columns" if len(columns) > most else ""
    return "; ".join(reasons) + more
