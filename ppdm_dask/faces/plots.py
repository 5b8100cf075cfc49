"""Plots of results on axes of matplotlib, which is loaded when the first is drawn.

Each takes the axes of the user, or makes a figure, and returns the axes.  Labels are written as
they are: a dollar sign in them does not begin a formula.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ppdm_dask.drawing.style import COLOURS, GREY, MARKERS
from ppdm_dask.errors import InputError
from ppdm_dask.extras import named
from ppdm_dask.shown import cut, printable

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = [
    "axes_for",
    "bars",
    "grid",
    "grid_size",
    "height",
    "intervals",
    "label_of",
    "lines",
    "shares",
]

PLAIN: Any = {"parse_math": False}

LONGEST = 40
"""Characters of a label."""

MOST_LABELS = 200
"""Rows of a plot whose labels can be read."""

MOST_CELLS = 64
"""Rows or columns of a matrix that is drawn."""


def axes_for(ax: Axes | None, wide: float, high: float) -> Axes:
    """The axes that were given, or those of a new figure of a size in inches."""
    if ax is not None:
        return ax
    with named("plot"):
        import matplotlib.pyplot as plt

    _, made = plt.subplots(figsize=(wide, high), layout="constrained")
    return made


def label_of(text: object) -> str:
    """A label as plots write it: short, and without control characters."""
    return printable(cut(str(text), LONGEST))


def _rows(labels: Sequence[object]) -> list[str]:
    if len(labels) > MOST_LABELS:
        raise InputError(
            f"plot: {len(labels):,} rows; at most {MOST_LABELS} can be read: select fewer", None
        )
    return [label_of(label) for label in labels]


def _name_rows(ax: Axes, names: Sequence[str]) -> None:
    ax.set_yticks(np.arange(len(names)), names, **PLAIN)
    ax.set_ylim(len(names) - 0.5, -0.5)
    ax.grid(visible=False, axis="y")


def height(rows: int) -> float:
    """Inches of a plot of so many rows."""
    return 1 + 0.3 * max(rows, 1)


def intervals(
    ax: Axes | None,
    labels: Sequence[object],
    values: npt.ArrayLike,
    low: npt.ArrayLike,
    high: npt.ArrayLike,
    *,
    x: str,
    y: str = "",
    marks: Sequence[float] = (),
    always: Sequence[float] = (),
) -> Axes:
    """A point and a line for each estimate, from the top down.

    Parameters
    ----------
    marks : sequence of float
        Where a line is drawn if the axis reaches beyond.
    always : sequence of float
        Where a line is drawn in any case.
    """
    names = _rows(labels)
    ax = axes_for(ax, 6, height(len(names)))
    at = np.arange(len(names))
    # Lines and points apart: a maximum may lie outside of an interval of another method, and an
    # end may be infinite or unknown.
    start, stop = np.array(low, float), np.array(high, float)
    known = np.isfinite(start) & np.isfinite(stop)
    ax.hlines(at[known], start[known], stop[known], color=COLOURS[0], linewidth=1.5)
    ax.plot(np.array(values, float), at, "o", color=COLOURS[0])
    _name_rows(ax, names)
    ax.set_ylabel(label_of(y), **PLAIN)
    ax.set_xlabel(x, **PLAIN)
    left, right = ax.get_xlim()
    for mark in (*always, *(mark for mark in marks if left <= mark <= right)):
        ax.axvline(mark, color="0.7", linewidth=0.8, zorder=0)
    return ax


def bars(ax: Axes | None, labels: Sequence[object], values: npt.ArrayLike, *, x: str) -> Axes:
    """A bar for each number, from the top down; none where the number is not known."""
    names = _rows(labels)
    ax = axes_for(ax, 6, height(len(names)))
    numbers = np.array(values, float)
    shown = np.isfinite(numbers)
    ax.barh(np.arange(len(names))[shown], numbers[shown], 0.7, color=COLOURS[0])
    _name_rows(ax, names)
    ax.set_xlabel(x, **PLAIN)
    return ax


TURNED = 6
"""Characters of a column's label above which labels are turned."""


def _longest(labels: Sequence[object]) -> int:
    return max((len(label_of(each)) for each in labels), default=0)


def grid_size(rows: Sequence[object], columns: Sequence[object]) -> tuple[float, float]:
    """Inches of a matrix with such labels."""
    below = _longest(columns)
    foot = 0.07 * below if below > TURNED else 0.2
    return (
        max(0.9 + 0.09 * _longest(rows) + 0.55 * len(columns), 2.8) + 0.5 * foot,
        0.8 + foot + 0.4 * len(rows),
    )


def grid(
    ax: Axes | None,
    values: npt.NDArray[Any],
    rows: Sequence[object],
    columns: Sequence[object],
    *,
    x: str,
    y: str,
    form: str = ".2f",
) -> Axes:
    """A matrix as shades of one colour, with its numbers where there is room for them.

    Raises
    ------
    InputError
        Beyond 64 rows or columns.
    """
    values = np.asarray(values, float)
    if max(values.shape) > MOST_CELLS:
        raise InputError(
            f"plot: a matrix of {values.shape[0]} by {values.shape[1]}; up to {MOST_CELLS} rows "
            "and columns can be read",
            None,
        )
    ax = axes_for(ax, *grid_size(rows, columns))
    most = max(float(np.nanmax(np.abs(values), initial=0.0)), 1e-300)
    ax.imshow(values, cmap="Blues", vmin=0, vmax=most, aspect="auto")
    ax.grid(visible=False)
    ax.set_yticks(np.arange(len(rows)), [label_of(each) for each in rows], **PLAIN)
    turned = _longest(columns) > TURNED
    ax.set_xticks(
        np.arange(len(columns)),
        [label_of(each) for each in columns],
        rotation=45 if turned else 0,
        ha="right" if turned else "center",
        **PLAIN,
    )
    if values.size <= 150:
        for (i, j), value in np.ndenumerate(values):
            colour = "white" if value > 0.6 * most else "black"
            ax.text(j, i, f"{value:{form}}", ha="center", va="center", fontsize=8, color=colour)
    ax.set_xlabel(label_of(x), **PLAIN)
    ax.set_ylabel(label_of(y), **PLAIN)
    return ax


def lines(
    ax: Axes | None,
    curves: Sequence[tuple[str, Any, Any]],
    *,
    x: str,
    y: str,
    log: bool = False,
) -> Axes:
    """A line with markers for each (name, x, y)."""
    ax = axes_for(ax, 6, 4)
    for i, (name, across, up) in enumerate(curves):
        ax.plot(
            across,
            up,
            color=COLOURS[i % len(COLOURS)],
            marker=MARKERS[i % len(MARKERS)],
            markersize=4,
            label=label_of(name),
        )
    if log:
        ax.set_yscale("log")
    ax.set_xlabel(x, **PLAIN)
    ax.set_ylabel(y, **PLAIN)
    if len(curves) > 1:
        _legend(ax)
    return ax


def _legend(ax: Axes) -> None:
    _plain(ax.legend())


def _plain(legend: Any) -> None:
    for text in legend.get_texts():
        text.set_parse_math(False)


def shares(
    ax: Axes | None,
    panels: Sequence[tuple[str, Sequence[str], npt.NDArray[np.float64]]],
    series: Sequence[str],
    *,
    x: str,
) -> Axes:
    """Proportions of categories, a marker for each series: (attribute, categories, shares).

    Shares have the shape (categories, series).
    """
    names = [f"{name} = {label}" for name, labels, _ in panels for label in labels]
    rows = _rows(names)
    ax = axes_for(ax, 6, height(len(rows)))
    values = np.concatenate([law for _, _, law in panels])
    at = np.arange(len(rows))
    for c, name in enumerate(series):
        ax.plot(
            values[:, c],
            at,
            MARKERS[c % len(MARKERS)],
            color=COLOURS[c % len(COLOURS)],
            label=label_of(name),
        )
    _name_rows(ax, rows)
    edge = -0.5
    for _, labels, _ in panels[:-1]:
        edge += len(labels)
        ax.axhline(edge, color=GREY, linewidth=0.5)
    ax.set_xlim(0, max(1.0, math.nextafter(float(values.max(initial=0.0)), 2)))
    ax.set_xlabel(label_of(x), **PLAIN)
    # Above: markers may be anywhere within.
    _plain(ax.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=min(len(series), 3)))
    return ax
