"""Numbers as text: in tables, and in sentences for readers who cannot see a figure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ppdm_dask.arrays import Floats
from ppdm_dask.shown import printable

if TYPE_CHECKING:
    from rich.table import Table

__all__ = ["interval_text", "number_text", "plain_table"]


def course(axis: str, x: Floats, y: Floats, form: str) -> str:
    """The course of a line: its ends, and its extremes where they lie between."""
    there = np.isfinite(y)
    x, y = x[there], y[there]
    if not x.size:
        return "no numbers yet"
    text = f"{_told(y[0], form)} at {axis} = {x[0]:.3g}"
    for which, i in (("least", int(np.argmin(y))), ("most", int(np.argmax(y)))):
        # An extreme at an end is named with that end.
        if 0 < i < len(x) - 1 and y[i] not in (y[0], y[-1]):
            text += f", {which} {_told(y[i], form)} at {x[i]:.3g}"
    return text + (f", {_told(y[-1], form)} at {x[-1]:.3g}" if x.size > 1 else "")


def _told(value: float, form: str) -> str:
    """A number; plain 0 where it is 0, and no sign before digits that are all 0."""
    text = f"{value:{form}}"
    return text.removeprefix("-") if float(text) == 0 and value else text if value else "0"


def number_text(x: float) -> str:
    """A number of an estimate, to four decimals; a word where there is none."""
    return "undefined" if math.isnan(x) else "unbounded" if math.isinf(x) else f"{x:.4f}"


def interval_text(lower: float, upper: float) -> str:
    """An interval as text, or a text that there is none."""
    if math.isnan(lower) or math.isnan(upper):
        return number_text(math.nan)
    return f"{number_text(lower)} to {number_text(upper)}"


def span(values: Floats, form: str) -> str:
    """The least and the largest of the numbers that are known."""
    known = values[np.isfinite(values)]
    if not known.size:
        return "not known"
    return f"from {known.min():{form}} to {known.max():{form}}"


def plain_table(
    header: Sequence[str],
    rows: Sequence[Sequence[str]],
    right: Sequence[int] = (),
    widths: Sequence[int] | None = None,
) -> Table:
    """Make a table with a rule below its header.

    Columns in `right` are aligned right; each column is at least as wide as `widths` says.  If the
    first of two heading lines ends with a colon, it also applies to the following columns whose
    first line is empty.
    """
    # Text and no markup: labels come from data, and may hold brackets.
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, padding=(0, 1, 0, 0))
    for i, name in enumerate(header):
        number = i in right
        table.add_column(
            Text(printable(name, keep="\n")),
            justify="right" if number else "left",
            no_wrap=number,  # a number over two lines would be read as two
            min_width=widths[i] if widths else None,
        )
    for row in rows:
        table.add_row(*(Text(printable(cell, keep="\n")) for cell in row))
    return table


def plain_value(value: Any) -> Any:
    """Return a JSON value; None for a NaN."""
    plain = value.item() if hasattr(value, "item") else value
    return None if isinstance(plain, float) and math.isnan(plain) else plain


def brief(value: str | bool | int | float) -> str:
    """A value; of a number the significant digits only."""
    return f"{value:g}" if isinstance(value, float) else str(value)


def fixed(value: float | None, digits: int) -> str:
    """A number with so many digits; empty for None."""
    return "" if value is None else f"{value:.{digits}f}"


def small(value: float | None) -> str:
    """A number that is usually near 0, such as a variance; empty for None."""
    if value is None:
        return ""
    return f"{value:.2e}" if value else "0"


def estimate(mean: float | None, error: float | None) -> str:
    """A mean with its standard error; the larger the error, the fewer digits."""
    if mean is None or error is None:
        return fixed(mean, 4)
    digits = 4 if error < 0.1 else 2 if error < 10 else 0
    return f"{mean:.{digits}f} ± {error:.{digits}f}"
