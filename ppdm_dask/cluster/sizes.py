"""Amounts of memory as people write them."""

from __future__ import annotations

import re

UNITS = {
    "kB": 1000,
    "MB": 1000**2,
    "GB": 1000**3,
    "TB": 1000**4,
    "KiB": 1024,
    "MiB": 1024**2,
    "GiB": 1024**3,
    "TiB": 1024**4,
}


def parse_size(text: str) -> int | None:
    """Bytes of a text such as ``"4 GiB"``; None where it is no amount of memory."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?) *([A-Za-z]+)", text)
    if match is None or match[2] not in UNITS:
        return None
    return int(float(match[1]) * UNITS[match[2]])


def show_size(size: int) -> str:
    """An amount of memory in three digits.

    Examples
    --------
    >>> show_size(4 * 2**30), show_size(600 * 2**20)
    ('4 GiB', '600 MiB')
    """
    unit = "GiB" if size >= UNITS["GiB"] else "MiB"
    return f"{size / UNITS[unit]:.3g} {unit}"
