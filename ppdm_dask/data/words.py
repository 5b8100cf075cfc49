"""Words of reports in the field, and what is done and counted where a row holds no report."""

from __future__ import annotations

import difflib
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

from ppdm_dask.errors import DesignError, InputError
from ppdm_dask.shown import given, quoted, shown

__all__ = [
    "NONRESPONSE",
    "UNWEIGHTED",
    "FieldRules",
    "Imported",
    "amount_of",
    "by_label",
    "near",
    "word_codes",
]

CLOSE = 0.6
"""Likeness from which a word counts as near another."""

LONGEST = 200
"""Characters of a word that are compared."""

NONRESPONSE = ("refuse", "drop", "category")
"""What becomes of a row with an answer missing: an error, nothing, or a report of that category."""

UNWEIGHTED = ("refuse", "drop")
"""What becomes of a row whose survey weight is 0 or missing."""


@dataclass(frozen=True)
class FieldRules:
    """What is done with rows that hold no whole report.

    Parameters
    ----------
    nonresponse : {"refuse", "drop", "category"}
        ``category`` takes a missing answer for a report of the category that the codebook's
        ``missing`` names, which the device must have offered.
    no_answer : sequence of str
        Words that stand for a missing answer, beside empty cells and the codebook's
        ``missing_codes``.
    unweighted : {"refuse", "drop"}
    separator : str
        Between the categories of a report that is a set of them.
    """

    nonresponse: str = "refuse"
    no_answer: tuple[str, ...] = ()
    unweighted: str = "refuse"
    separator: str = ";"

    def __post_init__(self) -> None:
        for name, choices in (("nonresponse", NONRESPONSE), ("unweighted", UNWEIGHTED)):
            if (chosen := getattr(self, name)) not in choices:
                raise InputError(
                    f"{name}: got {given(chosen)}; {' or '.join(choices)} is needed", chosen
                )
        if not self.separator:
            raise InputError("separator: got ''; a text that is not empty is needed", None)


@dataclass(frozen=True)
class Imported:
    """Where reports of the field come from: what was read, and what was left out.

    Parameters
    ----------
    rows : int
        Rows that were read.
    nonresponse : mapping of attribute to int
        Rows with a weight but without an answer to it.
    choice : str
        What became of them.
    dropped : int
        How many rows were left out for that.
    unweighted : int
        Rows left out whose survey weight was 0 or missing.
    symbols : mapping
        Words of reports, by attribute, as the design has them.
    """

    rows: int = 0
    nonresponse: Mapping[str, int] = field(default_factory=dict)
    choice: str = "refuse"
    dropped: int = 0
    unweighted: int = 0
    symbols: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    @property
    def reports(self) -> int:
        """Reports that are left."""
        return self.rows - self.dropped - self.unweighted

    def __add__(self, other: Self) -> Self:
        names = dict.fromkeys([*self.nonresponse, *other.nonresponse])
        return type(self)(
            self.rows + other.rows,
            {n: self.nonresponse.get(n, 0) + other.nonresponse.get(n, 0) for n in names},
            self.choice if self.choice == other.choice else "various",
            self.dropped + other.dropped,
            self.unweighted + other.unweighted,
            {**self.symbols, **other.symbols},
        )

    def config(self) -> dict[str, Any]:
        """JSON values; ``Imported(**config)`` is equal."""
        return {
            "rows": self.rows,
            "nonresponse": dict(self.nonresponse),
            "choice": self.choice,
            "dropped": self.dropped,
            "unweighted": self.unweighted,
            "symbols": {name: dict(words) for name, words in self.symbols.items()},
        }

    def sentences(self) -> list[str]:
        """Provenance and losses, as text."""
        what = f"field: {amount_of(self.reports, 'report')} randomised by the people themselves"
        said = [f"{what}, of {amount_of(self.rows, 'row')}; the device is as they used it"]
        missing = {name: n for name, n in self.nonresponse.items() if n}
        if missing:
            each = ", ".join(f"{name} in {amount_of(n, 'row')}" for name, n in missing.items())
            done = {
                "drop": f"{amount_of(self.dropped, 'row')} left out",
                "category": "taken for reports of the category of missing answers",
            }.get(
                self.choice, f"{amount_of(self.dropped, 'row')} left out, others taken as reports"
            )
            said.append(f"no answer: {each}; {done}")
        if self.unweighted:
            said.append(f"no weight: {amount_of(self.unweighted, 'row')} left out")
        return said


def amount_of(n: int, what: str) -> str:
    """A number of things, as text."""
    return f"{n:,} {what}" if n == 1 else f"{n:,} {what}s"


def by_label(words: Mapping[str, Any]) -> bool:
    """Whether words are by the category of another attribute: a table for each of them."""
    return all(isinstance(table, Mapping) for table in words.values())


def word_codes(
    name: str,
    labels: Sequence[str] | None,
    size: int,
    words: Mapping[str, str] | None,
    *,
    empty: bool = False,
) -> dict[str, int]:
    """Code of each word that a report on an attribute may be written by.

    Parameters
    ----------
    name : str
    labels : sequence of str or None
        Categories that are reported; None where symbols are numbers.
    size : int
        How many symbols there are.
    words : mapping of str to str, or None
        Word to label or number; without any, labels and numbers are the words.
    empty : bool
        Whether a word may be that of an empty set, whose label is "" and whose code is -1.

    Raises
    ------
    DesignError
        If a word is not a report, or a report has no word.
    """
    texts = map(str, range(size)) if labels is None else labels
    symbols = {text: code for code, text in enumerate(texts)}
    if words is None:
        return symbols
    for word, meant in words.items():
        if meant not in symbols and not (empty and not meant):
            raise DesignError(
                f"symbols of {shown(name)}: {shown(word)} is {shown(meant)}, which is not a report "
                f"of the design; there are {quoted(symbols)}",
                meant,
            )
    meanings = frozenset(words.values())
    if rest := [symbol for symbol in symbols if symbol not in meanings]:
        raise DesignError(f"symbols of {shown(name)}: no word is given for {quoted(rest)}", rest)
    return {word: symbols.get(meant, -1) for word, meant in words.items()}


def near(word: str, words: Iterable[str]) -> str:
    """Which of some words another one is like, for a message; empty where it is like none.

    Two that look alike on a screen may differ in what is not seen there, so that is said.

    Examples
    --------
    >>> near("Ja", ["ja", "nein"]), near("nien", ["ja", "nein"]), near("si", ["ja", "nein"])
    ("near it is 'ja', the same but for case", "near it is 'nein'", '')
    """
    plain = {_bare(each): each for each in words}
    if (same := plain.get(_bare(word))) is not None:
        what = next(what for what, bare in DIFFERENCES if bare(word) == bare(same))
        return f"near it is {shown(same)}, the same but for {what}"
    found = difflib.get_close_matches(_bare(word)[:LONGEST], list(plain), 1, CLOSE)
    return f"near it is {shown(plain[found[0]])}" if found else ""


def _bare(word: str) -> str:
    """Without case, width, accents and outer spaces."""
    parts = unicodedata.normalize("NFKD", word.strip().casefold())
    return "".join(sign for sign in parts if not unicodedata.combining(sign))


def _composed(word: str) -> str:
    return unicodedata.normalize("NFKC", word)


DIFFERENCES: tuple[tuple[str, Callable[[str], str]], ...] = (
    ("outer spaces", str.strip),
    ("case", str.casefold),
    ("how its signs are stored", _composed),
    ("spaces, case or accents", _bare),
)
"""What may be taken from two words so that they are equal, beginning with the smallest."""
