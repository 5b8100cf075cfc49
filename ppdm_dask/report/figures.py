"""Figures of a sweep; here mean and variance of the accuracy against an axis of the grid."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ppdm_dask.experiments.kinds import AnyRecipe
from ppdm_dask.experiments.recipe import Figure, Recipe
from ppdm_dask.report import layout, style
from ppdm_dask.report.panels import draw_grid, draw_tradeoff
from ppdm_dask.report.privacy_curves import draw_privacy
from ppdm_dask.report.series import Series, repeats_of, series_of

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.axes import Axes


__all__ = ["draw_figures"]

NORMAL_95 = 1.959964
"""Half-width of a 95 % interval in standard errors."""

# A ring around a dot: both parts show where they agree.
PARTS: dict[str, tuple[str, dict[str, Any]]] = {
    "accuracy": ("clean test part", {"linestyle": "-", "markersize": 4.5}),
    "disguised": (
        "disguised test part",
        {"linestyle": (0, (4, 2)), "linewidth": 1.2, "markersize": 8, "markerfacecolor": "none"},
    ),
}


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
    if recipe.kind == "front":
        from ppdm_dask.report.front_figures import draw_fronts

        return draw_fronts(ds, recipe, folder)
    if not isinstance(recipe, Recipe):
        from ppdm_dask.report.usability import draw_usability

        return draw_usability(ds, recipe, folder)
    draw = {
        "mean": _mean,
        "variance": _variance,
        "privacy": draw_privacy,
        "grid": draw_grid,
        "tradeoff": draw_tradeoff,
    }
    written = []
    for figure in recipe.figures:
        with style.styled():
            written += draw[figure.kind](ds, figure, folder)
    return written


def _mean(ds: xr.Dataset, figure: Figure, folder: Path) -> list[Path]:
    series = series_of(ds, figure)
    below = f"{_what(series, figure)}, with 95 % intervals of the mean"
    canvas, axes = layout.new_figure(figure.title, below, right=0.79)
    shown: list[npt.NDArray[np.float64]] = []
    for line in series:
        for part in figure.parts:
            mean, bar = line.column(f"{part}_mean"), line.column(f"{part}_mean_se") * NORMAL_95
            _draw(axes, line, part, mean, bar)
            # Bars of a disguised test part may be as long as the axis; they do not set its limits.
            bar = np.nan_to_num(bar) if part == "accuracy" else np.zeros_like(bar)
            shown += [mean - bar, mean + bar]
    references = _references(series, figure)
    values = np.concatenate([*shown, [height for height, *_ in references]])
    _limits(axes, values[np.isfinite(values) & (values > -0.05) & (values < 1.05)])
    for height, _, colour, dashes in references:
        axes.axhline(height, color=colour, linewidth=1.1, linestyle=dashes, zorder=1)
    narrow = style.is_narrow()
    _finish(axes, series, figure, "mean accuracy", references if narrow else [])
    if not narrow:
        labels = [(height, text, colour) for height, text, colour, _ in references]
        style.write_labels(axes, labels, x=1.015)
    return style.save(canvas, folder, figure.id)


def _what(series: list[Series], figure: Figure) -> str:
    """How much is shown of what, in words; a legend says it where both test parts are."""
    part = f"{PARTS[figure.parts[0]][0]}, " if len(figure.parts) == 1 else ""
    return f"{part}{repeats_of(series)}"


def _references(series: list[Series], figure: Figure) -> list[tuple[float, str, str, Any]]:
    """Return level lines: each entry's undisguised benchmark, and its majority class."""
    entries = {line.entry: line for line in reversed(series)}
    found = []
    levels: dict[str, tuple[float, str]] = {}
    for line in entries.values():
        benchmark, majority = float(line.cells["benchmark"]), float(line.cells["majority"])
        # Where the lines are told apart by an axis, the entry has no colour of its own.
        colour = line.colour if figure.line_axis is None else style.GREY
        found.append((benchmark, f"undisguised {benchmark:.3f}", colour, (0, (6, 2, 1, 2))))
        text = f"majority class {majority:.3f}"
        # A level that two entries share is neither's colour.
        levels[text] = (majority, style.GREY if text in levels else colour)
    dots = (0, (1, 1.5))
    return [*found, *((height, text, colour, dots) for text, (height, colour) in levels.items())]


def _variance(ds: xr.Dataset, figure: Figure, folder: Path) -> list[Path]:
    series = series_of(ds, figure)
    below = f"{_what(series, figure)}, with 95 % intervals of the variance; logarithmic scale"
    canvas, axes = layout.new_figure(figure.title, below)
    axes.set_yscale("log", nonpositive="mask")
    zero: set[float] = set()
    for line in series:
        for part in figure.parts:
            variance = line.column(f"{part}_variance")
            bar = line.column(f"{part}_variance_se") * NORMAL_95
            zero |= set(line.x[variance == 0])
            positive = np.where(variance > 0, variance, np.nan)
            # On a logarithmic scale a bar cannot reach zero.
            _draw(axes, line, part, positive, np.stack([np.minimum(bar, 0.9 * positive), bar]))
    _finish(axes, series, figure, "variance of the accuracy")
    for x in sorted(zero):
        _note(axes, x, "zero")
    return style.save(canvas, folder, figure.id)


def _draw(axes: Axes, line: Series, part: str, y: Any, bar: Any) -> None:
    look: dict[str, Any] = {"color": line.colour, "marker": line.marker, **PARTS[part][1]}
    axes.errorbar(line.x, y, yerr=np.nan_to_num(bar), elinewidth=1.0, zorder=3, **look)


def _limits(axes: Axes, values: npt.NDArray[np.float64]) -> None:
    if values.size:
        low, high = float(values.min()), float(values.max())
        margin = max(0.07 * (high - low), 0.005)
        axes.set_ylim(low - margin, high + margin)


def _finish(
    axes: Axes,
    series: list[Series],
    figure: Figure,
    ylabel: str,
    levels: Sequence[tuple[float, str, str, Any]] = (),
) -> None:
    """Name the axes, say which line (and level) is which, and where nothing is defined."""
    from matplotlib.lines import Line2D

    axis = series[0].axis
    axes.set_xlabel(style.WORDS.get(axis, axis))
    axes.set_ylabel(ylabel)
    ends = np.concatenate([line.x for line in series])
    margin = 0.03 * (float(np.ptp(ends)) or 1.0)
    axes.set_xlim(ends.min() - margin, ends.max() + margin)
    many = len(series) > 1
    handles = [Line2D([], [], color=s.colour, marker=s.marker, label=s.name) for s in series]
    handles = handles if many else []
    if len(figure.parts) > 1:
        for text, look in PARTS.values():
            colour = style.GREY if many else series[0].colour
            marker = "o" if many else series[0].marker
            handles.append(Line2D([], [], color=colour, marker=marker, label=text, **look))
    for _, text, colour, dashes in levels:
        handles.append(Line2D([], [], color=colour, linewidth=1.1, linestyle=dashes, label=text))
    if handles:
        layout.legend(axes, handles)
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
