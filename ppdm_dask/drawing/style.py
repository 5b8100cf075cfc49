"""Typography and colours of the figures, and labels that keep clear of one another."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ppdm_dask.errors import RunFolderError
from ppdm_dask.files.writing import replacing

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = [
    "COLOURS",
    "GREY",
    "MARKERS",
    "NORMAL_95",
    "WORDS",
    "is_narrow",
    "save",
    "spread",
    "styled",
    "word_value",
    "write_labels",
]


DPI = 200

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
"""Axes of a grid in words, with the paper's letter."""

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
    "svg.fonttype": "path",
}


@contextmanager
def styled(narrow: bool | None = None) -> Iterator[None]:
    """Draw and save under this style, whatever matplotlib's settings are outside.

    Parameters
    ----------
    narrow : bool, optional
        Whether figures are laid out for a narrow screen, and saved as SVG alone; by default as
        around this.
    """
    import matplotlib as mpl

    token = _narrow.set(_narrow.get() if narrow is None else narrow)
    try:
        with mpl.rc_context():
            mpl.rcdefaults()
            mpl.rcParams.update(_RC)
            yield
    finally:
        _narrow.reset(token)


def is_narrow() -> bool:
    """Whether figures are being drawn for a narrow screen."""
    return _narrow.get()


def word_value(axis: str, value: object) -> str:
    """A value of an axis in words: ``2 groups`` or ``q = 0.4``."""
    if axis == "groups" and isinstance(value, int):
        return f"{value} group" if value == 1 else f"{value} groups"
    return f"{axis} = {value:g}" if isinstance(value, float) else f"{axis} = {value}"


def save(figure: Figure, folder: Path, name: str) -> list[Path]:
    """Write a figure as PNG and SVG, each whole or not at all; a narrow one as SVG alone.

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
        with replacing(path) as temporary:
            figure.savefig(temporary, format=kind, dpi=DPI, metadata=metadata)
        written.append(path)
    return written


def spread(positions: Sequence[float], gap: float, low: float, high: float) -> list[float]:
    """Move positions apart to at least `gap`, in their order and as little as is simple.

    Parameters
    ----------
    positions : sequence of float
    gap : float
        Smallest distance between two labels.
    low, high : float
        Where labels may be.

    Returns
    -------
    list of float
        New positions, in the order given.
    """

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
    """Write labels one above the other, each at its height or close to it.

    Parameters
    ----------
    axes : Axes
        With final limits.
    labels : sequence of (height, text, colour)
        Heights in data units.
    x : float
        Where the labels begin or, with ``align="right"``, end: a share of the axes' width.
    align : {"left", "right"}
    """
    to_axes = axes.transData + axes.transAxes.inverted()
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
