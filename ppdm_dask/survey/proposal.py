"""A codebook proposed from a data file, for a person to edit."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from ppdm_dask.attribute import Attribute
from ppdm_dask.binning import fit_attribute
from ppdm_dask.codebook import Codebook
from ppdm_dask.coding import factorise, read_number
from ppdm_dask.errors import CodebookError, DataError
from ppdm_dask.files.reader import open_data

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Column", "Proposal", "propose_codebook"]

MOST_LABELS = 10_000
"""Different texts of a column after which they are no longer told apart."""

MOST_NUMBERS = 1 << 20
"""Numbers of a column that are kept for quantiles; of more, every second, fourth, ..."""

MISSING = "(missing)"

SUSPECTS = frozenset({"", "?", "-", "--", ".", "na", "n/a", "nan", "none", "null", "unknown"})
SUSPECT_NUMBERS = frozenset({"-1", "-9", "-99", "-999", "-9999", "99", "999", "9999"})


@dataclass
class Column:
    """What was seen of a column, and what is proposed for it.

    Parameters
    ----------
    name : str
    labels : dict of str to int, or None
        How often each text occurs, in order of appearance; None where there are too many.
    missing : int
    attribute : Attribute or None
        The proposal.
    left_out : str
        Why there is none.
    notes : list of str
        What a person should look at.
    """

    name: str
    labels: dict[str, int] | None = field(default_factory=dict)
    missing: int = 0
    attribute: Attribute | None = None
    left_out: str = ""
    notes: list[str] = field(default_factory=list)
    _numeric: bool = True
    _numbers: list[Any] = field(default_factory=list)
    _stride: int = 1
    _seen: int = 0

    def add(self, values: pd.Series) -> None:
        """Take in a block of values."""
        positions, texts = factorise(values)
        there = positions[positions >= 0]
        self.missing += len(positions) - len(there)
        if self.labels is not None:
            for text, times in zip(texts, np.bincount(there, minlength=len(texts)), strict=True):
                self.labels[text] = self.labels.get(text, 0) + int(times)
            if len(self.labels) > MOST_LABELS:
                self.labels = None
        table = np.array([read_number(text) for text in texts], float)
        self._numeric = self._numeric and bool(np.isfinite(table).all())
        if not self._numeric:
            self._numbers = []
            return
        numbers = table[there]
        self._numbers.append(numbers[-self._seen % self._stride :: self._stride])
        self._seen += len(numbers)
        while sum(map(len, self._numbers)) > MOST_NUMBERS:
            self._numbers = [np.concatenate(self._numbers)[::2]]
            self._stride *= 2

    def propose(self, most: int, bins: int, order: Literal["sorted", "appearance"]) -> None:
        """Find an attribute, or say why there is none."""
        gap = MISSING if self.missing else None
        if self.labels is not None:
            if len(self.labels) + bool(gap) < 2:
                label = next(iter(self.labels), None)
                self.left_out = "every value is " + ("missing" if label is None else repr(label))
                return
            if "" in self.labels or gap in self.labels:
                self.left_out = f"holds the text {'' if '' in self.labels else gap!r} as an answer"
                return
        if self.labels is not None and len(self.labels) <= most:
            labels = list(self.labels)
            if order == "sorted":
                labels.sort(key=(lambda text: (read_number(text), text)) if self._numeric else str)
            categories = (*([gap] if gap else []), *labels)
            self.attribute = Attribute(self.name, categories, missing=gap)
            self.notes += _doubts(labels)
        elif self._numeric:
            self._cut(bins, gap)
        else:
            count = f"over {MOST_LABELS:,}" if self.labels is None else f"{len(self.labels):,}"
            self.left_out = f"{count} different texts: free text, or an identifier?"

    def _cut(self, bins: int, gap: str | None) -> None:
        import pandas as pd

        values = pd.Series(np.concatenate(self._numbers))
        try:
            self.attribute = fit_attribute(self.name, values, f"quantiles({bins})", missing=gap)
        except CodebookError:  # most values are the largest one
            self.attribute = fit_attribute(self.name, values, "midrange", missing=gap)
        self.notes.append(
            f"numbers, cut by {self.attribute.rule}: put cuts where the questionnaire has them"
        )
        if self._stride > 1:
            self.notes.append(f"cuts are from one in {self._stride} of the values")
        if self.labels is not None and len(self.labels) == self._seen:
            self.notes.append("every value is a different one: an identifier?")
        elif odd := sorted(SUSPECT_NUMBERS & {*(self.labels or ())}):
            self.notes.append(f"does {', '.join(odd)} stand for a missing value?")


def _doubts(labels: list[str]) -> Iterator[str]:
    """Labels that may be missing values, or one answer spelt in two ways."""
    for label in labels:
        if label.strip().lower() in SUSPECTS or label in SUSPECT_NUMBERS:
            yield f"does {label!r} stand for a missing value? if so, missing = {label!r}"
    alike: dict[str, list[str]] = {}
    for label in labels:
        plain = " ".join(unicodedata.normalize("NFKC", label).casefold().split())
        alike.setdefault(plain, []).append(label)
    for group in alike.values():
        if len(group) > 1:
            yield f"{' and '.join(map(repr, group))}: one answer? then `groups` unites them"


@dataclass(frozen=True)
class Proposal:
    """A codebook for a person to edit, and what it leaves out."""

    source: str
    n: int
    columns: tuple[Column, ...]
    codebook: Codebook

    def text(self) -> str:
        """Codebook file with remarks at its head."""
        lines = [
            f"Proposed by `ppdm codebook` from the {self.n:,} records of {self.source!r}, for you",
            "to edit. It was read off true answers and goes wherever reports go: let categories",
            "and cuts be those of the questionnaire, also where nobody gave the answer.",
        ]
        for heading, found in (
            ("Left out:", [(c.name, c.left_out) for c in self.columns if c.left_out]),
            ("To look at:", [(c.name, note) for c in self.columns for note in c.notes]),
        ):
            if found:
                lines += ["", heading, *(f"  {name!r}: {what}" for name, what in found)]
        comment = "\n".join(f"# {line}".rstrip() for line in lines)
        return f"{comment}\n\n{self.codebook.as_toml()}"


def propose_codebook(
    data: Path,
    *,
    most: int = 20,
    bins: int = 4,
    order: Literal["sorted", "appearance"] = "sorted",
) -> Proposal:
    """Propose categories and cuts from all records of a file.

    Parameters
    ----------
    data : Path
        CSV or Parquet.
    most : int
        Labels of an attribute; of more, numbers are cut and texts left out, with the reason.
    bins : int
        Bins of numbers, 2 or more.
    order : {"sorted", "appearance"}
        Of labels; numbers are sorted as numbers.

    Raises
    ------
    DataError
        If the file has no records, or nothing can be proposed for any column.
    """
    file = open_data(data)
    columns = tuple(Column(name) for name in file.columns)
    n = 0
    for block in file.blocks(file.columns):
        for column in columns:
            column.add(block.frame[column.name])
        n += len(block.frame)
    if not n:
        raise DataError(f"{data}: there are no records; at least one is needed", data)
    for column in columns:
        column.propose(most, bins, order)
    attributes = tuple(c.attribute for c in columns if c.attribute is not None)
    if not attributes:
        why = "; ".join(f"{column.name!r}: {column.left_out}" for column in columns)
        raise DataError(f"{data}: nothing can be proposed for any column: {why}", data)
    return Proposal(str(data), n, columns, Codebook(attributes))
