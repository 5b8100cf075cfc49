"""What reports are called in the field: words for labels, and the word near a wrong one."""

from __future__ import annotations

import difflib
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence

from ppdm_dask.errors import DesignError
from ppdm_dask.shown import quoted, shown

__all__ = ["near", "word_codes"]

CLOSE = 0.6
"""Likeness from which a word counts as near another."""

LONGEST = 200
"""Characters of a word that are compared."""


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
        If a word is no report, or a report has no word.
    """
    texts = map(str, range(size)) if labels is None else labels
    symbols = {text: code for code, text in enumerate(texts)}
    if words is None:
        return symbols
    for word, meant in words.items():
        if meant not in symbols and not (empty and not meant):
            raise DesignError(
                f"symbols of {shown(name)}: {shown(word)} is {shown(meant)}, which is no report "
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
