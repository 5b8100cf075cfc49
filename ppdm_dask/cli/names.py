"""Names and conditions of the command line, found among those that a file has.

A name may hold commas, quotes and spaces, so a list is not just cut at its commas: what is given
as a whole is a name where there is such a name; else pieces between commas are, several of them if
that makes a name; and a piece in double quotes is one name, written as in a CSV file.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence

from ppdm_dask.errors import InputError
from ppdm_dask.shown import listed, shown

__all__ = ["conditions", "named"]

_PIECE = re.compile(r'\s*"((?:[^"]|"")*)"\s*(?:,|$)|([^,]*)(?:,|$)')

LONGEST_NAME = 64
"""Pieces between commas that are tried as one name."""


def named(given: Sequence[str] | None, known: Collection[str]) -> list[str]:
    """Names that an option gives, which may be given several times.

    Parameters
    ----------
    given : sequence of str or None
        Each a name, or names between commas.
    known : collection of str
        The names there are.

    Returns
    -------
    list of str
        In the order given, with what is no known name, for whoever looks it up to refuse.

    Examples
    --------
    >>> named(["age,Have you, ever?", '"old, name", sex'], ["age", "Have you, ever?", "sex"])
    ['age', 'Have you, ever?', 'old, name', 'sex']
    """
    there = frozenset(known)
    return [name for text in given or () for name in _split(text, there)]


def _split(text: str, known: frozenset[str]) -> Iterator[str]:
    if text in known:
        yield text
        return
    pieces = list(_pieces(text))
    at = 0
    while at < len(pieces):
        length, name = _longest(pieces[at : at + LONGEST_NAME], known)
        at += length
        if name:
            yield name


def _longest(pieces: list[tuple[str, bool]], known: frozenset[str]) -> tuple[int, str]:
    """How many of the first pieces make the longest known name, and the name."""
    first, quoted = pieces[0]
    if quoted:
        return 1, first
    plain = next((i for i, (_, quotes) in enumerate(pieces) if quotes), len(pieces))
    for length in range(plain, 0, -1):
        joined = ",".join(piece for piece, _ in pieces[:length])
        for name in (joined, joined.strip()):
            if name in known:
                return length, name
    return 1, first.strip()


def _pieces(text: str) -> Iterator[tuple[str, bool]]:
    """Texts between commas, and whether they stood in quotes."""
    at = 0
    while at <= len(text):
        found = _PIECE.match(text, at)
        assert found is not None  # the second alternative matches anything
        quoted = found[1] is not None
        yield (found[1].replace('""', '"') if quoted else found[2]), quoted
        if not found[0].endswith(","):
            return
        at = found.end()


def conditions(
    given: Sequence[str], known: Mapping[str, Collection[str]], option: str = "--where"
) -> dict[str, list[str]]:
    """Labels by attribute of conditions such as ``sex=Male,race=Black``.

    Parameters
    ----------
    given : sequence of str
        Each ``attribute=label``, or several between commas; one of them may stand in quotes.
    known : mapping of attribute to labels
        Those there are.
    option : str
        For messages.

    Returns
    -------
    dict of str to list of str
        An attribute that is named twice may have either label. A label that is not known is
        returned too, for whoever looks it up to refuse.

    Raises
    ------
    InputError
        If a condition names no attribute.
    """
    pairs = {f"{name}={label}": (name, label) for name in known for label in known[name]}
    found: dict[str, list[str]] = {}
    for text in given:
        for piece in _split(text, frozenset(pairs)):
            for name, label in _parsed(piece, text, pairs, known, option):
                labels = found.setdefault(name, [])
                if label not in labels:
                    labels.append(label)
    return found


def _parsed(
    piece: str,
    text: str,
    pairs: Mapping[str, tuple[str, str]],
    known: Mapping[str, Collection[str]],
    option: str,
) -> Iterator[tuple[str, str]]:
    if piece in pairs:
        yield pairs[piece]
        return
    # The longest name first: a name may hold an equals sign.
    for name in sorted(known, key=len, reverse=True):
        key = next((k for k in (f"{name}=", f"{name} =") if piece.startswith(k)), "")
        if key:
            label = piece[len(key) :]
            yield name, label if label in known[name] else label.strip()
            return
    raise InputError(
        f"{option}: got {shown(text)}; attribute=label is needed, with one of {listed(known)}", text
    )
