"""Where things stand in a figure: on a page of text, and on a narrow screen."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ppdm_dask.drawing.style import GREY, is_narrow

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["beside", "legend", "new_figure", "new_panels"]


SIZE = (7.2, 4.6)
"""Inches; at 100 dots an inch about the width of a page of text on a screen."""

NARROW = (3.9, 3.5)
"""Width of a figure on a telephone, and height of its axes with what is written at them."""

LINE, LETTERS = 0.17, 58
"""Height of a line below the title of a narrow figure in inches, and letters that it holds."""


def new_figure(title: str, below: str, right: float = 0.97) -> tuple[Figure, Axes]:
    """Make a figure with one pair of axes.

    On a narrow screen there is no title, for the page has it above, and the axes take all the
    width.

    Parameters
    ----------
    title, below : str
        The title and a line of explanation below it.
    right : float
        Right edge of the axes, as a share of the width; leaves room for labels beside them.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    if is_narrow():
        lines = textwrap.wrap(below, LETTERS)
        head = 0.12 + LINE * len(lines)
        wide, high = NARROW[0], NARROW[1] + head
        figure = Figure(figsize=(wide, high))
        FigureCanvasAgg(figure)
        left, foot = 0.72, 0.55
        place = (left / wide, foot / high, (wide - left - 0.12) / wide, (high - head - foot) / high)
        axes = figure.add_axes(place)
        _write_below(figure, lines, 0.08 / wide)
        return figure, axes
    figure = Figure(figsize=SIZE)
    FigureCanvasAgg(figure)
    left = 0.105
    axes = figure.add_axes((left, 0.125, right - left, 0.735))
    figure.text(left, 0.945, title, fontsize=12, fontweight="bold", va="center")
    figure.text(left, 0.895, below, fontsize=9.5, color=GREY, va="center")
    return figure, axes


def _write_below(figure: Figure, lines: Sequence[str], left: float) -> None:
    high = figure.get_size_inches()[1]
    for i, line in enumerate(lines):
        at = 1 - (0.06 + LINE * (i + 0.5)) / high
        figure.text(left, at, line, fontsize=8.5, color=GREY, va="center")


def legend(axes: Axes, handles: Sequence[Any], **look: Any) -> None:
    """Say which line is which: inside the axes or, on a narrow screen, below them.

    Parameters
    ----------
    axes : Axes
        The only ones of their figure, with a label below.
    handles : sequence of matplotlib artists
        Each with its label.
    **look
        Of the legend inside the axes.
    """
    if not is_narrow():
        axes.legend(handles=handles, **{"loc": "best", "handlelength": 3, **look})
        return
    figure = axes.get_figure(root=True)
    assert figure is not None
    columns = 2 if max(len(str(each.get_label())) for each in handles) <= 18 else 1
    room = 0.08 + 0.19 * -(-len(handles) // columns)
    wide, high = figure.get_size_inches()
    place = axes.get_position()
    # What is there moves up by the room that the legend takes, at its own size.
    figure.set_size_inches(wide, high + room)
    scale = high / (high + room)
    axes.set_position(
        (place.x0, (place.y0 * high + room) / (high + room), place.width, place.height * scale)
    )
    for text in figure.texts:
        x, y = text.get_position()
        text.set_position((x, 1 - (1 - y) * scale))
    figure.legend(
        handles=handles,
        loc="lower left",
        bbox_to_anchor=(0.08 / wide, 0.0),
        ncols=columns,
        fontsize=9,
        handlelength=2.6,
        borderaxespad=0.1,
    )


def new_panels(
    title: str,
    below: str,
    rows: int,
    columns: int,
    *,
    height: float,
    gap: tuple[float, float],
    left: float,
    right: float,
    head: float,
) -> tuple[Figure, list[list[Axes]]]:
    """Make a figure of equal panels, as wide as the others and as high as they need.

    Parameters
    ----------
    title, below : str
        The title and a line of explanation below it.
    rows, columns : int
    height : float
        Of a panel, in inches like all lengths.
    gap : tuple of float
        Between two columns and between two rows.
    left, right, head : float
        Room beside and above the panels.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    wide, foot = NARROW[0] if is_narrow() else SIZE[0], 0.6
    lines = textwrap.wrap(below, LETTERS) if is_narrow() else []
    if is_narrow():
        # In place of title and explanation, the wrapped explanation alone.
        head += LINE * len(lines) - 0.55
    high = foot + head + rows * height + (rows - 1) * gap[1]
    figure = Figure(figsize=(wide, high))
    FigureCanvasAgg(figure)
    width = (wide - left - right - (columns - 1) * gap[0]) / columns
    panels = []
    for i in range(rows):
        bottom = high - head - height - i * (height + gap[1])
        panels.append(
            [
                figure.add_axes(
                    (
                        (left + j * (width + gap[0])) / wide,
                        bottom / high,
                        width / wide,
                        height / high,
                    )
                )
                for j in range(columns)
            ]
        )
    if is_narrow():
        _write_below(figure, lines, 0.08 / wide)
    else:
        left_edge = left / wide
        figure.text(left_edge, 1 - 0.24 / high, title, fontsize=12, fontweight="bold", va="center")
        figure.text(left_edge, 1 - 0.47 / high, below, fontsize=9.5, color=GREY, va="center")
    return figure, panels


def beside(panels: list[list[Axes]]) -> tuple[float, float, float, float]:
    """A place for a narrow scale at the right of all panels."""
    first, last = panels[0][-1].get_position(), panels[-1][-1].get_position()
    return (first.x1 + 0.015, last.y0, 0.016, first.y1 - last.y0)
