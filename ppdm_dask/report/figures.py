"""Figures of a sweep: mean and variance of the accuracy, and privacy, against the grid's axis."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ppdm_dask.experiments.kinds import AnyRecipe
from ppdm_dask.experiments.perturbation.recipe import PerturbationRecipe
from ppdm_dask.experiments.recipe import Figure
from ppdm_dask.experiments.results import grid_axes
from ppdm_dask.report import style

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.axes import Axes

__all__ = ["draw_figures"]

NORMAL_95 = 1.959964
"""Half-width of a 95 % interval in standard errors."""

LABELS = 0.42
"""Room for labels at the left of the curves of privacy, in widths of the axis."""

# A ring around a dot: both parts show where they agree.
PARTS: dict[str, tuple[str, dict[str, Any]]] = {
    "accuracy": ("clean test part", {"linestyle": "-", "markersize": 4.5}),
    "disguised": (
        "disguised test part",
        {"linestyle": (0, (4, 2)), "linewidth": 1.2, "markersize": 8, "markerfacecolor": "none"},
    ),
}


@dataclass(frozen=True)
class _Series:
    """A data entry along the first axis, with one value of every other axis."""

    name: str
    colour: str
    marker: str
    axis: str
    cells: xr.Dataset

    @property
    def x(self) -> npt.NDArray[np.float64]:
        return np.asarray(self.cells[self.axis].to_numpy(), dtype=float)

    def column(self, name: str) -> npt.NDArray[np.float64]:
        return np.asarray(self.cells[name].to_numpy(), dtype=float)


def draw_figures(ds: xr.Dataset, recipe: AnyRecipe, folder: Path) -> list[Path]:
    """Draw the recipe's figures.

    Parameters
    ----------
    ds : xarray.Dataset
        The result of a run, whole or partial.
    recipe : Recipe or PerturbationRecipe
        Its ``[[figure]]`` tables say what to draw.
    folder : Path
        Where the files go: a PNG and an SVG of each figure's id.

    Returns
    -------
    list of Path
        The files, in the recipe's order.

    Raises
    ------
    RunFolderError
        If a file cannot be written.
    """
    if isinstance(recipe, PerturbationRecipe):
        from ppdm_dask.report.usability import draw_usability

        return draw_usability(ds, recipe, folder)
    draw = {"mean": _mean, "variance": _variance, "privacy": _privacy}
    written = []
    for figure in recipe.figures:
        with style.styled():
            written += draw[figure.kind](ds, figure, folder)
    return written


def _series(ds: xr.Dataset, figure: Figure) -> Iterator[_Series]:
    axis, *others = grid_axes(ds)
    known = [str(name) for name in ds["data"].to_numpy()]
    lines = [
        (entry, where)
        for entry in known
        for where in product(*(range(ds.sizes[other]) for other in others))
    ]
    for i, (entry, where) in enumerate(lines):
        if entry in figure.data:
            cells = ds.isel(dict(zip(others, where, strict=True))).isel(data=known.index(entry))
            name = ", ".join([entry, *(f"{other} = {cells[other].item()}" for other in others)])
            colour = style.COLOURS[i % len(style.COLOURS)]
            yield _Series(name, colour, style.MARKERS[i % len(style.MARKERS)], axis, cells)


def _mean(ds: xr.Dataset, figure: Figure, folder: Path) -> list[Path]:
    series = list(_series(ds, figure))
    below = f"{_repeats(series)}, with 95 % intervals of the mean"
    canvas, axes = style.new_figure(figure.title, below, right=0.79)
    shown: list[npt.NDArray[np.float64]] = []
    for line in series:
        for part in PARTS:
            mean, bar = line.column(f"{part}_mean"), line.column(f"{part}_mean_se") * NORMAL_95
            _draw(axes, line, part, mean, bar)
            # Bars of a disguised test part may be as long as the axis; they do not set its limits.
            bar = np.nan_to_num(bar) if part == "accuracy" else np.zeros_like(bar)
            shown += [mean - bar, mean + bar]
    references = _references(series)
    values = np.concatenate([*shown, [height for height, *_ in references]])
    _limits(axes, values[np.isfinite(values) & (values > -0.05) & (values < 1.05)])
    for height, _, colour, dashes in references:
        axes.axhline(height, color=colour, linewidth=1.1, linestyle=dashes, zorder=1)
    _finish(axes, series, "mean accuracy")
    labels = [(height, text, colour) for height, text, colour, _ in references]
    style.write_labels(axes, labels, x=1.015)
    return style.save(canvas, folder, figure.id)


def _references(series: list[_Series]) -> list[tuple[float, str, str, Any]]:
    """Return level lines: each entry's undisguised benchmark, and its majority class."""
    entries = {str(line.cells["data"].item()): line for line in reversed(series)}
    found = []
    levels: dict[str, tuple[float, str]] = {}
    for line in entries.values():
        benchmark, majority = float(line.cells["benchmark"]), float(line.cells["majority"])
        text = f"undisguised {benchmark:.3f}"
        found.append((benchmark, text, line.colour, (0, (6, 2, 1, 2))))
        text = f"majority class {majority:.3f}"
        # A level that two entries share is neither's colour.
        levels[text] = (majority, style.GREY if text in levels else line.colour)
    dots = (0, (1, 1.5))
    return [*found, *((height, text, colour, dots) for text, (height, colour) in levels.items())]


def _variance(ds: xr.Dataset, figure: Figure, folder: Path) -> list[Path]:
    series = list(_series(ds, figure))
    below = f"{_repeats(series)}, with 95 % intervals of the variance; logarithmic scale"
    canvas, axes = style.new_figure(figure.title, below)
    axes.set_yscale("log", nonpositive="mask")
    zero: set[float] = set()
    for line in series:
        for part in PARTS:
            variance = line.column(f"{part}_variance")
            bar = line.column(f"{part}_variance_se") * NORMAL_95
            zero |= set(line.x[variance == 0])
            positive = np.where(variance > 0, variance, np.nan)
            # On a logarithmic scale a bar cannot reach zero.
            _draw(axes, line, part, positive, np.stack([np.minimum(bar, 0.9 * positive), bar]))
    _finish(axes, series, "variance of the accuracy")
    for x in sorted(zero):
        _note(axes, x, "zero")
    return style.save(canvas, folder, figure.id)


def _privacy(ds: xr.Dataset, figure: Figure, folder: Path) -> list[Path]:
    import matplotlib as mpl

    below = (
        "grey: one binary attribute, 1 with probability $W_a$; "
        "colour: each data set's least private"
    )
    canvas, axes = style.new_figure(figure.title, below)
    labels: list[tuple[float, str, Any]] = []
    axis, *others = grid_axes(ds)
    first = ds.isel(dict.fromkeys(others, 0)).sortby(axis)
    x = np.asarray(first[axis].to_numpy(), dtype=float)
    ramp = mpl.colormaps["Greys"]
    for i, w_a in enumerate(figure.w_a):
        pse = first["pse_curve"].sel(w_a=w_a).to_numpy()
        colour = ramp(0.45 + 0.5 * (i + 1) / len(figure.w_a))
        axes.plot(x, pse, color=colour, linewidth=1.3)
        labels.append((float(pse[0]), f"$W_a$ = {w_a:g}", colour))
    for line in _series(ds, figure):
        if "pse" in line.cells:
            pse = line.column("pse")
            axes.plot(line.x, pse, color=line.colour, marker=line.marker, markersize=4.5)
            labels.append((float(pse[0]), _least_private(ds, line), line.colour))
    axes.set_ylim(bottom=0)
    axes.set_xlabel(style.WORDS.get(axis, axis))
    axes.set_ylabel("PSE: probability that a guess is wrong")
    # The curves meet at the right; they are told apart, and labelled, at the left.
    width = float(np.ptp(x)) or 1.0
    inside = 1e-9 * width
    ticks = [t for t in axes.get_xticks() if x.min() - inside <= t <= x.max() + inside]
    axes.set_xlim(x.min() - LABELS * width, x.max() + 0.02 * width)
    axes.set_xticks(ticks)
    style.write_labels(axes, labels, x=(LABELS - 0.02) / (LABELS + 1.02), align="right")
    return style.save(canvas, folder, figure.id)


def _least_private(ds: xr.Dataset, line: _Series) -> str:
    """Name a line after its data entry and the attribute with the smallest PSE."""
    entry = f"{line.cells['data'].item()}/"
    columns = ds["column"].to_numpy()
    own = [i for i, column in enumerate(columns) if str(column).startswith(entry)]
    pse = ds["pse_attribute"].isel(column=own)
    by_attribute = pse.mean([dim for dim in pse.dims if dim != "column"]).to_numpy()
    least = int(np.argmin(by_attribute))
    return f"{line.name}: {str(columns[own[least]]).removeprefix(entry)}"


def _repeats(series: list[_Series]) -> str:
    """Return how many repeats the cells have."""
    done = np.concatenate([line.column("completed") for line in series])
    done = done[done > 0]
    if not done.size:
        return "no repeats yet"
    low, high = int(done.min()), int(done.max())
    return f"{high:,} repeats" if low == high else f"{low:,} to {high:,} repeats"


def _draw(axes: Axes, line: _Series, part: str, y: Any, bar: Any) -> None:
    look: dict[str, Any] = {"color": line.colour, "marker": line.marker, **PARTS[part][1]}
    axes.errorbar(line.x, y, yerr=np.nan_to_num(bar), elinewidth=1.0, zorder=3, **look)


def _limits(axes: Axes, values: npt.NDArray[np.float64]) -> None:
    if values.size:
        low, high = float(values.min()), float(values.max())
        margin = max(0.07 * (high - low), 0.005)
        axes.set_ylim(low - margin, high + margin)


def _finish(axes: Axes, series: list[_Series], ylabel: str) -> None:
    """Name the axes, say which line is which, and where nothing is defined."""
    from matplotlib.lines import Line2D

    axis = series[0].axis
    axes.set_xlabel(style.WORDS.get(axis, axis))
    axes.set_ylabel(ylabel)
    ends = np.concatenate([line.x for line in series])
    margin = 0.03 * (float(np.ptp(ends)) or 1.0)
    axes.set_xlim(ends.min() - margin, ends.max() + margin)
    many = len(series) > 1
    handles = [Line2D([], [], color=s.colour, marker=s.marker, label=s.name) for s in series]
    for text, look in PARTS.values():
        colour = style.GREY if many else series[0].colour
        marker = "o" if many else series[0].marker
        handles.append(Line2D([], [], color=colour, marker=marker, label=text, **look))
    axes.legend(handles=handles if many else handles[1:], loc="best", handlelength=3)
    undefined = {
        float(x)
        for line in series
        for x, why in zip(line.x, line.cells["undefined"].to_numpy(), strict=True)
        if why
    }
    for x in sorted(undefined):
        _note(axes, x, "undefined")


def _note(axes: Axes, x: float, text: str) -> None:
    """Write a word at the foot of the axes where a line has no point."""
    axes.annotate(
        text,
        (x, 0.015),
        xycoords=axes.get_xaxis_transform(),
        rotation=90,
        fontsize=8.5,
        color=style.GREY,
        ha="center",
        va="bottom",
    )
