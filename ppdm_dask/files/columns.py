"""Columns as texts: read as canonical texts or numbers, written so that none runs as a formula."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from ppdm_dask.arrays import Floats
from ppdm_dask.files.any_column import as_column
from ppdm_dask.files.column import Positions
from ppdm_dask.files.texts import canonical_text

_PLAIN = re.compile(r"-?(0|[1-9]\d{0,300})(\.\d{1,300})?", re.ASCII)


def factorise(values: Any) -> tuple[Positions, list[str]]:
    """Distinct texts of a column and, for each value, which of them it is.

    Parameters
    ----------
    values : Column, or a Series of pandas

    Returns
    -------
    positions : array of int, shape (n,)
        Position in `texts`; -1 for a missing value.
    texts : list of str
        In order of first appearance.
    """
    return as_column(values).factorised()


def coded(values: Any) -> tuple[Positions, list[str]]:
    """As :func:`factorise`, where texts may be in any order and some of them may not occur.

    So a column that is stored as categories is not looked at value by value.
    """
    return as_column(values).coded()


def look_up(
    positions: Positions, texts: list[str], codes: Mapping[str, int], missing: int
) -> Positions:
    """Codes of a factorised column; -1 where a text has none, `missing` where no value is.

    In the smallest integers that hold them: a large column costs what its bytes cost.
    """
    found = [*(codes.get(text, -1) for text in texts), missing]
    kind = next(k for k in (np.int8, np.int16, np.int64) if max(found) <= np.iinfo(k).max)
    table: Positions = np.array(found, dtype=kind)
    if positions.dtype != np.int8 or kind is not np.int8:
        return table[positions]
    # One byte for another: several times faster than an index.
    bytewise = np.full(256, -1, np.int8)
    bytewise[: len(found) - 1], bytewise[255] = table[:-1], missing
    small: Positions = np.frombuffer(positions.tobytes().translate(bytewise.tobytes()), np.int8)
    return small


def float_kind(values: Any) -> np.dtype[Any]:
    """Floating type in which a column holds numbers: single or half precision, else double."""
    return as_column(values).kind


def at_most(limit: float, kind: np.dtype[Any]) -> float:
    """Largest double up to which values of a floating type stand for numbers of at most `limit`.

    A value in single precision means its shortest decimal as well as itself: a 2.7 that
    was stored in single precision, which is 2.7000000477 in double precision, is at most 2.7.
    """
    nearest, shortest = _nearest(limit, kind)
    equal = shortest <= limit or nearest <= limit
    return nearest if equal else float(np.nextafter(nearest, -np.inf))


def at_least(limit: float, kind: np.dtype[Any]) -> float:
    """Smallest double that represents a number of at least `limit`; see `at_most`."""
    nearest, shortest = _nearest(limit, kind)
    equal = shortest >= limit or nearest >= limit
    return nearest if equal else float(np.nextafter(nearest, np.inf))


def _nearest(number: float, kind: np.dtype[Any]) -> tuple[float, float]:
    """Nearest value of a floating type, and the double that its shortest decimal spells."""
    if kind == np.float64:
        return number, number
    with np.errstate(over="ignore", under="ignore"):
        nearest = kind.type(number)
    return float(nearest), float(str(nearest))


@dataclass(frozen=True)
class MissingCodes:
    """Values that mean a missing value, in any type in which they may be stored.

    Parameters
    ----------
    texts : frozenset of str
    numbers : frozenset of float
        999, 999.0 and the text ``"999"`` are one code.
    """

    texts: frozenset[str]
    numbers: frozenset[float]

    @classmethod
    def of(cls, codes: Iterable[str | float]) -> Self:
        """Codes as a codebook lists them."""
        texts = frozenset(canonical_text(code) for code in codes)
        numbers = (plain_number(text) for text in texts)
        return cls(texts, frozenset(number for number in numbers if not math.isnan(number)))

    def holds(self, text: str) -> bool:
        """Whether a text is one of the codes, or spells one of the numbers among them."""
        return text in self.texts or plain_number(text) in self.numbers

    def any_of(self, texts: Iterable[str]) -> bool:
        """Whether one of some texts is a code."""
        return any(map(self.holds, texts))

    def united(self, other: MissingCodes) -> MissingCodes:
        """Codes of both."""
        return MissingCodes(self.texts | other.texts, self.numbers | other.numbers)

    def among(self, values: Any) -> npt.NDArray[np.bool_]:
        """Which values of a column are codes, shape (n,)."""
        column = as_column(values)
        if (numbers := column.numbers()) is not None:
            return np.isin(numbers, self.numbers_in(column))
        positions, texts = column.factorised()
        held = np.array([*map(self.holds, texts), False])
        found: npt.NDArray[np.bool_] = held[positions]
        return found

    def numbers_in(self, values: Any) -> list[float]:
        """Codes as a column of numbers holds them, which may be in single precision."""
        kind, found = float_kind(values), []
        for code in self.numbers:
            nearest, shortest = _nearest(code, kind)
            if code in (nearest, shortest):
                found.append(nearest)
        return found


def plain_number(text: str) -> float:
    """Return the number that a text spells in plain decimals, otherwise NaN.

    "007" is a label, and so is "1e2".

    Examples
    --------
    >>> plain_number("-99.0"), plain_number("0099")
    (-99.0, nan)
    """
    return float(text) if _PLAIN.fullmatch(text) else math.nan


def read_number(text: str) -> float:
    """Return the number that a text spells, NaN if it spells none."""
    try:
        return float(text) if "_" not in text else math.nan
    except ValueError:
        return math.nan


def read_numbers(
    values: Any, missing: MissingCodes | None = None
) -> tuple[Floats, npt.NDArray[np.bool_]]:
    """Read a column as numbers.

    Parameters
    ----------
    values : Column, or a Series of pandas
        Numbers, booleans, or texts that spell numbers.
    missing : MissingCodes, optional
        Values that stand for a missing one.

    Returns
    -------
    numbers : array of float, shape (n,)
        NaN where the value is missing or no number.
    wrong : array of bool, shape (n,)
        Where there is a value that is not a finite number.
    """
    column = as_column(values)
    if (numbers := column.numbers()) is not None:
        if missing is not None and (codes := missing.numbers_in(column)):
            numbers = np.where(np.isin(numbers, codes), np.nan, numbers)
        return numbers, np.isinf(numbers)
    positions, texts = column.factorised()
    table = np.array([*map(read_number, texts), math.nan])
    coded = np.zeros(len(table), bool)
    if missing is not None:
        coded[:-1] = [text in missing.texts for text in texts]
        coded |= np.isin(table, list(missing.numbers))
    table[coded] = np.nan
    return table[positions], (~np.isfinite(table) & ~coded)[positions] & (positions >= 0)


FORMULAS = ("=", "+", "-", "@", "\t", "\r")
"""Signs at the beginning of a cell that spreadsheets take for that of a formula."""


def cell_texts(values: Any) -> list[str]:
    """Texts of a column: exact numbers, and nothing where a value is missing."""
    return as_column(values).cells()


def spreadsheet_safe(cells: Iterable[Any]) -> list[Any]:
    """Cells with an apostrophe before a text that a spreadsheet would take for a formula.

    Numbers, and texts that spell one, stay as they are.

    Examples
    --------
    >>> spreadsheet_safe(["=1+1", "yes", -0.02, "-99"])
    ["'=1+1", 'yes', -0.02, '-99']
    """
    return [f"'{cell}" if _is_formula(cell) else cell for cell in cells]


def _is_formula(cell: object) -> bool:
    formula = isinstance(cell, str) and cell.startswith(FORMULAS)
    return formula and not np.isfinite(read_number(str(cell)))
