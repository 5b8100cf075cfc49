"""Named columns of a result: what its frame, its text and its table in a notebook are made of."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt

from ppdm_dask.extras import named

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Listing"]

Values = Sequence[Any] | npt.NDArray[Any]

DIGITS = 6
"""Of a number in a text, as pandas prints it."""

_DECIMAL = re.compile(r"\s*[+-]?\d+\.\d*")
_ESCAPES = str.maketrans({"\t": r"\t", "\r": r"\r", "\n": r"\n"})


@dataclass(frozen=True)
class Listing:
    """Columns of equal length with their names, and perhaps one that names the rows.

    Parameters
    ----------
    columns : tuple of (str, values)
        Values are a sequence or an array, shape (n,).
    index : tuple of (str or None, values), optional
        What names the rows, with a name of its own or without.
    """

    columns: tuple[tuple[str, Values], ...]
    index: tuple[str | None, Values] | None = None

    @classmethod
    def of(
        cls, columns: Mapping[str, Values], index: tuple[str | None, Values] | None = None
    ) -> Self:
        """Listing of a mapping of columns."""
        return cls(tuple(columns.items()), index)

    def __len__(self) -> int:
        return len(self.columns[0][1]) if self.columns else 0

    def __getitem__(self, name: str) -> Values:
        """Values of a column."""
        return dict(self.columns)[name]

    def lists(self) -> list[tuple[str, list[Any]]]:
        """All columns as lists of Python's values, the one that names the rows first."""
        first = [] if self.index is None else [(self.index[0] or "", self.index[1])]
        return [(str(name), _plain(values)) for name, values in (*first, *self.columns)]

    def to_frame(self) -> pd.DataFrame:
        """The listing as a frame of pandas.

        Raises
        ------
        MissingExtra
            One line, if pandas is not installed.
        """
        with named("to_frame"):
            import pandas as pd
        index = None
        if self.index is not None:
            name, labels = self.index
            index = pd.Index(list(labels), name=name)
        columns = [v if isinstance(v, np.ndarray) else list(v) for _, v in self.columns]
        frame = pd.DataFrame(dict(enumerate(columns)), index=index)
        frame.columns = pd.Index([name for name, _ in self.columns])
        return frame

    def to_string(self, form: Callable[[float], str] | None = None, most: int | None = None) -> str:
        """Text of the columns, the one that names the rows first, as pandas prints a frame.

        Parameters
        ----------
        form : callable, optional
            Text of a number; by default six decimals, without zeros that all of a column have at
            the end.
        most : int, optional
            Rows; of a longer table the first and the last ones.
        """
        n = len(self)
        half = None if most is None or n <= most else most // 2
        places = range(n) if half is None else [*range(half), *range(n - half, n)]
        spaced = self.index is not None
        texts: list[list[str]] = []
        if self.index is not None:
            name, labels = self.index
            rows = ["", name or "", *(_label(labels[i]) for i in places)]
            width = max(map(len, rows))
            texts.append([row.ljust(width) for row in rows])
        for name, values in self.columns:
            part = [values[i] for i in places]
            numbers = all(isinstance(x, float | np.floating) for x in part)
            cells = _numbers(part, form, spaced) if numbers else [_label(x) for x in part]
            head = f" {name}" if numbers else name
            if spaced and not numbers:
                cells = [f" {cell}" for cell in cells]
            rows = [head, *([""] if spaced else []), *cells]
            width = max(map(len, rows))
            texts.append([row.rjust(width) for row in rows])
        if half is not None:
            for i, column in enumerate(texts):
                width = len(column[-1])
                dots = "..." if width > 3 else ".."
                left = spaced and i == 0
                dots = dots.ljust(width) if left else dots.rjust(width)
                column.insert(half + 1 + spaced, dots)
                texts[i] = [text.ljust(len(dots)) for text in column]
        return "\n".join(" ".join(row) for row in zip(*texts, strict=True))


def _plain(values: Values) -> list[Any]:
    if isinstance(values, np.ndarray):
        found: list[Any] = values.tolist()
        return found
    return [x.item() if isinstance(x, np.generic) else x for x in values]


def _label(value: Any) -> str:
    return str(value).translate(_ESCAPES)


def _numbers(
    values: Sequence[float], form: Callable[[float], str] | None, spaced: bool
) -> list[str]:
    """Texts of numbers: all with as many decimals as one of them needs, six at most."""
    if form is not None:
        return ["NaN" if math.isnan(x) else form(x) for x in values]
    sign = " " if spaced else ""
    texts = _trimmed(values, f"{{:{sign}.{DIGITS}f}}")
    sizes = [abs(x) for x in values if not math.isnan(x)]
    long = any(len(text) > DIGITS + 6 for text in texts)
    small = any(0 < x < 10**-DIGITS for x in sizes)
    if small or (long and any(x > 1e6 for x in sizes)):
        return _trimmed(values, f"{{:{sign}.{DIGITS}e}}")
    return texts


def _trimmed(values: Sequence[float], form: str) -> list[str]:
    texts = ["NaN" if math.isnan(x) else form.format(x) for x in values]
    decimal = [_DECIMAL.fullmatch(text) is not None for text in texts]
    while any(decimal) and all(
        t.endswith("0") for t, number in zip(texts, decimal, strict=True) if number
    ):
        texts = [t[:-1] if number else t for t, number in zip(texts, decimal, strict=True)]
    return [
        f"{t}0" if number and t.endswith(".") else t
        for t, number in zip(texts, decimal, strict=True)
    ]
