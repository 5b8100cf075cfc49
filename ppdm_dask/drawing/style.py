"""Style and layout of figures, for a page of text and for a narrow screen."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ppdm_dask.errors import InputError, RunFolderError
from ppdm_dask.files.writing import replacing

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


DPI = 200
"""Of a PNG: letters stay sharp when a page of text is printed."""

# Okabe and Ito's palette, which the common kinds of colour blindness tell apart.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
MARKERS = ("o", "s", "D", "^", "v", "P")
GREY = "#5A5A5A"

NORMAL_95 = 1.959964
"""Half-width of a 95 % interval in standard errors."""

WORDS = {
    "k": "$k$",
    "groups": "number of groups",
    "q": "probability $q$ of the true record",
    "theta": "probability $\\theta$ of a truthful answer",
}
"""Labels of a grid's axes, with the paper's letter."""

_narrow: ContextVar[bool] = ContextVar("narrow", default=False)

_RC: Any = {
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],
    "font.size": 10,
    "axes.labelsize": 10.5,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": GREY,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#E3E3E3",
    "grid.linewidth": 0.7,
    "xtick.color": GREY,
    "ytick.color": GREY,
    "xtick.labelcolor": "black",
    "ytick.labelcolor": "black",
    "lines.linewidth": 1.7,
    "lines.markersize": 5,
    "errorbar.capsize": 2.5,
    "legend.framealpha": 1.0,
    "legend.edgecolor": "white",
    "legend.fancybox": False,
    "legend.fontsize": 9.5,
    "savefig.facecolor": "white",
    # The same figure is the same file: ids in an SVG come from this text.
    "svg.hashsalt": "ppdm_dask",
    # As outlines: a page's reader may not have the font.
    "svg.fonttype": "path",
}


@contextmanager
def styled(narrow: bool | None = None) -> Iterator[None]:
    """Draw and save under this style, whatever matplotlib's settings are outside.

    Parameters
    ----------
    narrow : bool, optional
        Whether figures are laid out for a narrow screen, and saved as SVG only; by default as in
        the enclosing context.
    """
    import matplotlib as mpl

    # A context variable, as the kinds' functions that draw do not hand the width on.
    token = _narrow.set(_narrow.get() if narrow is None else narrow)
    try:
        with mpl.rc_context():
            # A user's matplotlibrc must not change the files.
            mpl.rcdefaults()
            mpl.rcParams.update(_RC)
            yield
    finally:
        _narrow.reset(token)


def is_narrow() -> bool:
    """Whether figures are being drawn for a narrow screen."""
    return _narrow.get()


def word_value(axis: str, value: object) -> str:
    """A value of an axis with its name: ``2 groups`` or ``q = 0.4``."""
    if axis == "groups" and isinstance(value, int):
        return f"{value} group" if value == 1 else f"{value} groups"
    return f"{axis} = {value:g}" if isinstance(value, float) else f"{axis} = {value}"


def save(figure: Figure, folder: Path, name: str) -> list[Path]:
    """Write a figure as PNG and SVG, each atomically; a narrow one as SVG only.

    Raises
    ------
    RunFolderError
        If the folder or a file cannot be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RunFolderError(f"{folder}: cannot be made: {error.strerror}", folder) from None
    written = []
    kinds: dict[str, dict[str, None]] = {"png": {}, "svg": {"Date": None}}
    if is_narrow():
        del kinds["png"]
    for kind, metadata in kinds.items():
        path = folder / f"{name}.{kind}"
        # The date is left out of an SVG, so that drawing again changes no byte.
        with replacing(path) as temporary:
            figure.savefig(temporary, format=kind, dpi=DPI, metadata=metadata)
        written.append(path)
    return written


def save_as(figure: Figure, path: Path) -> None:
    """Write a figure as the kind that the name ends in: svg, png or pdf.

    Raises
    ------
    InputError
        For another ending.
    """
    if path.suffix.lower() not in (".svg", ".png", ".pdf"):
        raise InputError(
            f"{path}: a drawing's name ends in .svg, .png or .pdf; give it such a name", path
        )
    figure.savefig(path, dpi=DPI)


def spread(positions: Sequence[float], gap: float, low: float, high: float) -> list[float]:
    """Move positions apart to at least `gap`, keeping their order, between `low` and `high`."""

    def centre_of(block: list[int]) -> float:
        half = gap * (len(block) - 1) / 2
        mean = float(np.mean([positions[i] for i in block]))
        return min(max(mean, low + half), max(low + half, high - half))

    # Blocks of labels that touch: each is centred on the mean of what it holds.
    blocks: list[list[int]] = []
    centres: list[float] = []
    for i in np.argsort(np.asarray(positions), kind="stable"):
        blocks.append([int(i)])
        centres.append(centre_of(blocks[-1]))
        while len(blocks) > 1:
            reach = gap * (len(blocks[-2]) + len(blocks[-1])) / 2
            if centres[-1] - centres[-2] >= reach - 1e-12:
                break
            blocks[-2:] = [blocks[-2] + blocks[-1]]
            centres[-2:] = [centre_of(blocks[-1])]
    moved: dict[int, float] = {}
    for block, centre in zip(blocks, centres, strict=True):
        for place, i in enumerate(block):
            moved[i] = centre + gap * (place - (len(block) - 1) / 2)
    return [moved[i] for i in range(len(positions))]


def write_labels(
    axes: Axes, labels: Sequence[tuple[float, str, Any]], x: float, align: str = "left"
) -> None:
    """Write labels (height in data units, text, colour) one above the other, near their heights.

    The axes have their final limits.  `x` is where the labels begin or, with ``align="right"``,
    end: a share of the axes' width.
    """
    to_axes = axes.transData + axes.transAxes.inverted()
    # On a logarithmic axis, distances are those on the page.
    left = axes.get_xlim()[0]
    heights = [float(to_axes.transform((left, height))[1]) for height, _, _ in labels]
    places = spread(heights, gap=0.05, low=0.03, high=1.0)
    for y, (_, text, colour) in zip(places, labels, strict=True):
        axes.text(
            x,
            y,
            text,
            transform=axes.transAxes,
            color=colour,
            fontsize=9,
            horizontalalignment=align,
            verticalalignment="center",
        )


SIZE = (7.2, 4.6)
"""Inches; at 100 dots an inch about the width of a page of text on a screen."""

NARROW = (3.9, 3.5)
"""Width of a figure on a telephone, and height of its axes with what is written at them."""

LINE, LETTERS = 0.17, 58
"""Height of a line below the title of a narrow figure in inches, and letters that it holds."""


def new_figure(title: str, below: str, right: float = 0.97) -> tuple[Figure, Axes]:
    """Make a figure with one pair of axes, a title and a line of explanation below it.

    `right` is the right edge of the axes, as a share of the width.  On a narrow screen there is no
    title, for the page has it above, and the axes take all the width.
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
    # Not by pyplot, which keeps every figure alive and asks for a display.
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
    """Say which line is which: inside the only axes or, on a narrow screen, below them.

    The handles have labels; `look` is of the legend inside the axes.
    """
    if not is_narrow():
        axes.legend(handles=handles, **{"loc": "best", "handlelength": 3, **look})
        return
    figure = axes.get_figure(root=True)
    assert figure is not None
    # Two columns where their labels have room beside each other.
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

    Lengths are inches: the height of a panel, the gaps between columns and between rows, the room
    beside the panels and above them.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    wide, foot = NARROW[0] if is_narrow() else SIZE[0], 0.6
    lines = textwrap.wrap(below, LETTERS) if is_narrow() else []
    if is_narrow():
        # Only the wrapped explanation stands there: the page has the title.
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
