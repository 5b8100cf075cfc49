"""How values of others appear in a message: one of them, short, and without control characters."""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Iterable, Sized
from typing import Any

LONGEST = 60
"""Characters of a value that a message shows."""

LONGEST_PATH = 200
"""Characters of a path."""

MOST_NAMES = 12
"""Names that a message lists."""

_ESCAPED = frozenset({"Cc", "Cf", "Cs", "Cn", "Zl", "Zp"})
# Joiners belong to words of Persian, of Indian languages and to signs made of several.
_JOINERS = "\u200c\u200d"


def printable(text: str, keep: str = "") -> str:
    r"""Text with its control, formatting and unassigned characters written as escapes.

    Parameters
    ----------
    text : str
    keep : str
        Characters that are left as they are, such as a line's end.

    Examples
    --------
    >>> printable("yes\x1b[2J")
    'yes\\x1b[2J'
    """
    if text.isprintable():
        return text
    return "".join(
        _escape(sign)
        if unicodedata.category(sign) in _ESCAPED and sign not in keep and sign not in _JOINERS
        else sign
        for sign in text
    )


def _escape(sign: str) -> str:
    return sign.encode("unicode_escape").decode("ascii")


def shown(value: object) -> str:
    """Return one value for a message: quoted if a text, at most 60 characters.

    Of tables, arrays and other collections of data only the type and size are told, so that no
    message holds more than the one value it is about.

    Examples
    --------
    >>> shown("maybe"), shown(2.5), shown([1, 2])
    ("'maybe'", '2.5', 'a list of 2 values')
    """
    if isinstance(value, str):
        return repr(cut(value))  # which escapes whatever cannot be printed
    if isinstance(value, int) and abs(value) >> 200:
        return f"a whole number of {value.bit_length()} bits"
    if isinstance(value, bytes | bytearray | memoryview):
        return f"{len(value)} bytes"
    if isinstance(value, Sized) or getattr(value, "ndim", False):
        size = len(value) if isinstance(value, Sized) else 0
        return f"a {type(value).__name__} of {size:,} {'value' if size == 1 else 'values'}"
    return printable(cut(str(value)))


def given(parameter: object) -> str:
    """Return a parameter that a person typed, as Python writes it, at most 60 characters.

    Unlike :func:`shown` it has the values of a list: parameters are no data.

    Examples
    --------
    >>> given([0.5, 0.4])
    '[0.5, 0.4]'
    """
    if isinstance(parameter, int | str):
        return shown(parameter)
    try:
        text = repr(parameter)
    except (ValueError, RecursionError):  # a number of too many digits, or deep nesting
        return shown(parameter)
    return printable(cut(text))


def cut(text: str, most: int = LONGEST) -> str:
    """Return the beginning of a text that is too long to show."""
    return text if len(text) <= most else f"{text[: most - 3]}..."


def located(path: object) -> str:
    """A path that a file names, for a message; a system takes none of more than 4,096 bytes."""
    return printable(cut(str(path), LONGEST_PATH))


def listed(names: Iterable[Any], most: int = MOST_NAMES) -> str:
    """Names for a message, the first few of many, each of them short."""
    texts = list(names)
    return ", ".join(printable(cut(str(name))) for name in texts[:most]) + _more(texts, most)


def quoted(names: Iterable[Any], most: int = MOST_NAMES) -> str:
    """Names for a message, each as :func:`shown` writes it, the first few of many."""
    texts = list(names)
    return ", ".join(map(shown, texts[:most])) + _more(texts, most)


def _more(texts: list[Any], most: int) -> str:
    return f" and {len(texts) - most} more" if len(texts) > most else ""


def amount(number: int) -> str:
    """A number of categories or symbols; beyond 18 digits only its size.

    Examples
    --------
    >>> amount(2**20), amount(2**100)
    ('1,048,576', 'about 10^30')
    """
    if number.bit_length() <= 60:
        return f"{number:,}"
    return f"about 10^{int((number.bit_length() - 1) * math.log10(2)):,}"
