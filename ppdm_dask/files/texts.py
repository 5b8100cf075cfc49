"""The one text of a value, by which it is matched with labels and written to a file."""

from __future__ import annotations

import datetime
from typing import Any

import numpy as np

__all__ = ["canonical_text", "cell_text", "is_missing", "plain_text"]


def canonical_text(value: Any) -> str:
    """Return the one text of a value, by which it is matched with declared labels.

    Integral floats lose their point, because a missing value turns a whole column of integers
    into floats: ``3.0`` and ``3`` are both ``"3"``. Strings are taken as they are.
    """
    if isinstance(value, (float, np.floating)):
        number = float(value)
        if number.is_integer() and abs(number) < 2**53:
            return str(int(number))
    try:
        return str(value)
    except ValueError:  # Python writes no whole number of more than some thousand digits
        return hex(value)


def plain_text(value: Any) -> str:
    """Text of a cell of a spreadsheet or a statistical package, as it is displayed there.

    Examples
    --------
    >>> plain_text(34.0), plain_text(True), plain_text(datetime.datetime(2026, 11, 29))
    ('34', 'TRUE', '2026-11-29')
    """
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, datetime.datetime) and value.time() == datetime.time():
        return value.date().isoformat()
    return canonical_text(value)


def is_missing(value: Any) -> bool:
    """Whether a value says that there is none: None, not a number, not a time, pandas' NA."""
    if value is None:
        return True
    try:
        return bool(value != value)
    except (TypeError, ValueError):  # pandas' NA leaves open whether it differs from itself
        return type(value).__name__ == "NAType"


def cell_text(value: Any) -> str:
    """Text of a value in a file: an exact number, and nothing where it is missing."""
    return "" if is_missing(value) else str(value)
