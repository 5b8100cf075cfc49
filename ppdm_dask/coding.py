"""Columns of any pandas dtype, read as canonical texts or as numbers, a column at a time."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["canonical_text", "factorise", "look_up", "number_text", "read_number", "read_numbers"]

Floats = npt.NDArray[np.float64]
Positions = npt.NDArray[np.intp]


def canonical_text(value: Any) -> str:
    """Return the one text of a value, by which it is matched with declared labels.

    Integral floats lose their point, because a missing value turns a whole column of integers
    into floats: ``3.0`` and ``3`` are both ``"3"``. Strings are taken as they are.
    """
    if isinstance(value, (float, np.floating)):
        number = float(value)
        if number.is_integer() and abs(number) < 2**53:
            return str(int(number))
    return str(value)


def number_text(value: float) -> str:
    """Shortest text that reads back as the number, without the point of an integral one."""
    return str(int(value)) if value.is_integer() and abs(value) < 2**53 else repr(value)


def factorise(values: pd.Series) -> tuple[Positions, list[str]]:
    """Distinct texts of a column and, for each value, which of them it is.

    Returns
    -------
    positions : array of int, shape (n,)
        Position in `texts`; -1 for a missing value.
    texts : list of str
        In order of first appearance.
    """
    import pandas as pd

    if values.dtype == object and pd.api.types.infer_dtype(values, skipna=True) != "string":
        # Python holds 1, 1.0 and True for equal, so mixed columns are made text value by value.
        missing = values.isna().to_numpy()
        values = pd.Series(
            [None if m else canonical_text(v) for m, v in zip(missing, values, strict=True)],
            dtype=object,
        )
    positions, distinct = pd.factorize(values)
    # An array keeps single precision, in which 0.1 is "0.1", where pandas would hand out doubles.
    singles = np.asarray(distinct) if distinct.dtype.kind == "f" else distinct
    return positions, [canonical_text(value) for value in singles]


def look_up(
    positions: Positions, texts: list[str], codes: Mapping[str, int], missing: int
) -> Positions:
    """Codes of a factorised column; -1 where a text has none, `missing` where no value is."""
    table = np.array([*(codes.get(text, -1) for text in texts), missing], dtype=np.intp)
    return table[positions]


def read_number(text: str) -> float:
    """Return the number that a text spells, NaN if it spells none."""
    try:
        return float(text) if "_" not in text else math.nan
    except ValueError:
        return math.nan


def read_numbers(values: pd.Series, missing: str | None) -> tuple[Floats, npt.NDArray[np.bool_]]:
    """Read a column as numbers.

    Parameters
    ----------
    values : Series
        Numbers, booleans, or texts that spell numbers.
    missing : str or None
        A text that also stands for a missing value.

    Returns
    -------
    numbers : array of float, shape (n,)
        NaN where the value is missing or no number.
    wrong : array of bool, shape (n,)
        Where there is a value that is no finite number.
    """
    if values.dtype.kind in "iufb":
        numbers = values.to_numpy(dtype=np.float64, na_value=np.nan)
        return numbers, np.isinf(numbers)
    positions, texts = factorise(values)
    table = np.array([*map(read_number, texts), math.nan])
    wrong = ~np.isfinite(table) & np.array([*(text != missing for text in texts), False])
    return table[positions], wrong[positions]
