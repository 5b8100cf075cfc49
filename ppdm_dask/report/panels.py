"""Figures of several panels: accuracy over two axes, and accuracy against what is disclosed."""

from __future__ import annotations

import textwrap
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ppdm_dask.experiments.results import grid_axes
from ppdm_dask.report import layout, style
from ppdm_dask.report.series import Series, repeats_of, series_of

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.axes import Axes

    from ppdm_dask.experiments.recipe import Figure

__all__ = ["draw_grid", "draw_tradeoff"]

ADVERSARIES = {
    "own": "own report,\nits distribution known",
    "product": "whole report,\nattributes held independent",
    "joint": "whole report,\njoint distribution known",
}
MEASURES = {
    "advantage": "how much more often a guess is right than without the report",
    "guess": "how often a guess is right",
    "posterior": "largest posterior probability of a value",
}

Floats = npt.NDArray[np.float64]


def draw_grid(ds: xr.Dataset, figure: Figure, folder: Path) -> list[Path]:
    """Draw mean accuracy over two axes in numbers, shaded by what is lost; a panel a data entry."""
    across = figure.x_axis(grid_axes(ds))
    down = str(figure.series)
    narrow = style.is_narrow()
    if narrow and ds.sizes[across] > ds.sizes[down]:
        across, down = down, across  # the longer axis runs down where there is no width for it
    others = {axis: 0 for axis in grid_axes(ds) if axis not in (across, down)}
    grid = ds.isel(others).transpose(..., down, across, "repeat", "split").sortby([down, across])
    entries = [grid.sel(data=name) for name in figure.data]
    means = [entry["accuracy_mean"].to_numpy() for entry in entries]
    losses = [float(entry["benchmark"]) - mean for entry, mean in zip(entries, means, strict=True)]
    known = np.concatenate([loss[np.isfinite(loss)] for loss in losses])
    top = max(float(known.max(initial=0.0)), 0.01)
    below = f"mean accuracy, {repeats_of(series_of(ds, figure))}; shade: lost by the disguise"
    rows, columns = means[0].shape
    heights = 0.33 * rows
    canvas, panels = layout.new_panels(
        figure.title,
        below,
        len(entries),
        1,
        height=heights,
        gap=(0.0, 0.8 if narrow else 0.62),
        left=0.95 if narrow else 0.85,
        right=0.75 if narrow else 0.8,
        head=1.05 if narrow else 0.92,
    )
    for (axes,), entry, mean, loss in zip(panels, entries, means, losses, strict=True):
        shades = axes.imshow(loss, cmap="Blues", vmin=0, vmax=1.25 * top, aspect="auto")
        for i, j in np.ndindex(rows, columns):
            there = np.isfinite(mean[i, j])
            text = f"{mean[i, j]:.3f}" if there else "undef."
            colour = "white" if there and loss[i, j] > 0.75 * top else "black"
            axes.text(j, i, text, ha="center", va="center_baseline", fontsize=8, color=colour)
        _label_grid(axes, entry, across, down)
    axes.set_xlabel(style.WORDS.get(across, across))
    scale = canvas.add_axes(layout.beside(panels))
    canvas.colorbar(shades, cax=scale)
    scale.set_ylim(0, top)
    scale.tick_params(labelsize=8.5)
    scale.set_ylabel("accuracy lost", fontsize=9.5)
    return style.save(canvas, folder, figure.id)


def _label_grid(axes: Axes, entry: xr.Dataset, across: str, down: str) -> None:
    benchmark, majority = float(entry["benchmark"]), float(entry["majority"])
    break_, majority_is = ("\n", "majority") if style.is_narrow() else (" ", "majority class")
    axes.set_title(
        f"{entry['data'].item()}:{break_}undisguised {benchmark:.3f}, {majority_is} {majority:.3f}",
        loc="left",
        fontsize=9.5,
        linespacing=1.15,
    )
    across_labels = [f"{value:g}" for value in entry[across].to_numpy()]
    down_labels = [style.word_value(down, value.item()) for value in entry[down].to_numpy()]
    axes.set_xticks(range(len(across_labels)), across_labels)
    axes.set_yticks(range(len(down_labels)), down_labels)
    axes.tick_params(length=0, labelsize=9)
    axes.grid(visible=False)
    axes.spines[:].set_visible(False)


def draw_tradeoff(ds: xr.Dataset, figure: Figure, folder: Path) -> list[Path]:
    """Draw mean accuracy against what adversaries learn; a row a data entry, a column for each."""
    measure = figure.measure or "advantage"
    rows = [list(figure.data)] if figure.line_axis is None else [[name] for name in figure.data]
    lines = [series_of(ds, replace(figure, data=tuple(names))) for names in rows]
    what = "panels" if style.is_narrow() else "columns"
    below = (
        f"{repeats_of([line for row in lines for line in row])}; "
        f"the {what} say what an adversary sees, and knows of the data"
    )
    canvas, panels = _panels(figure.title, below, len(rows))
    for names, row, series in zip(rows, panels, lines, strict=True):
        limits = _limits(series, measure)
        for axes, (adversary, words) in zip(row, ADVERSARIES.items(), strict=True):
            _draw_tradeoff(axes, series, f"{measure}_{adversary}")
            axes.set_xlim(*limits)
            axes.sharey(row[0])
            heading = f"{names[0]}\n" if len(names) == 1 and figure.line_axis else ""
            if style.is_narrow():
                axes.set_title(heading + words.replace("\n", " "), fontsize=9, linespacing=1.15)
                axes.tick_params(labelsize=8.5)
                axes.set_ylabel("mean accuracy", fontsize=9)
                continue
            axes.tick_params(labelsize=8.5, labelleft=axes is row[0])
            if row is panels[0]:
                axes.set_title(words, fontsize=9.5, linespacing=1.15)
            if axes is row[0]:
                axes.set_ylabel(f"{heading}mean accuracy", fontsize=9.5)
    last = panels[-1][2 if style.is_narrow() else 1]
    last.set_xlabel(_wrapped(MEASURES[measure]), fontsize=9.5)
    panels[0][0].legend(
        handles=_legend(lines[0]), loc="lower right", fontsize=8.5, handlelength=1.6
    )
    return style.save(canvas, folder, figure.id)


def _panels(title: str, below: str, rows: int) -> tuple[Any, list[list[Axes]]]:
    """Panels, a row for each of `rows`: beside one another, or all below one another."""
    n = len(ADVERSARIES)
    if not style.is_narrow():
        sizes: dict[str, Any] = {"height": 1.75, "gap": (0.18, 0.38), "left": 0.9, "right": 0.14}
        return layout.new_panels(title, below, rows, n, head=1.05, **sizes)
    sizes = {"height": 1.7, "gap": (0.0, 0.72), "left": 0.62, "right": 0.14}
    canvas, column = layout.new_panels(title, below, rows * n, 1, head=1.12, **sizes)
    panels = [axes for (axes,) in column]
    return canvas, [panels[i * n : (i + 1) * n] for i in range(rows)]


def _wrapped(text: str) -> str:
    """Text in lines that a narrow figure has room for."""
    return "\n".join(textwrap.wrap(text, 44)) if style.is_narrow() else text


def _legend(series: list[Series]) -> list[Any]:
    from matplotlib.lines import Line2D

    sizes: dict[str, Any] = {"markersize": 4, "linewidth": 1.3}
    lines = [
        Line2D([], [], color=line.colour, marker=line.marker, label=line.name, **sizes)
        for line in series
    ]
    if series[0].axis == "theta" and (series[0].x < 0.5).any():
        look: dict[str, Any] = {"marker": "o", "linestyle": "", "markerfacecolor": "none"}
        lines.append(Line2D([], [], color=style.GREY, label="$\\theta$ < 1/2", **look, **sizes))
    return lines


def _draw_tradeoff(axes: Axes, series: list[Series], name: str) -> None:
    known = False
    for line in series:
        x, y = line.column(name), line.column("accuracy_mean")
        there = np.isfinite(x) & np.isfinite(y)
        known = known or bool(there.any())
        # theta and 1 - theta tell alike: a line from one side to the other would lead back.
        low = there & ((line.x < 0.5) if line.axis == "theta" else False)
        look: dict[str, Any] = {"color": line.colour, "marker": line.marker, "markersize": 4}
        axes.plot(x[low], y[low], linestyle="", markerfacecolor="none", **look)
        axes.plot(x[there & ~low], y[there & ~low], linewidth=1.3, **look)
    if not known:
        where = axes.transAxes
        axes.text(0.5, 0.5, "not known", transform=where, ha="center", color=style.GREY)


def _limits(series: list[Series], measure: str) -> tuple[float, float]:
    """Limits that serve all adversaries, so that their panels compare."""
    values = [line.column(f"{measure}_{adversary}") for line in series for adversary in ADVERSARIES]
    known = np.concatenate([column[np.isfinite(column)] for column in values])
    low, high = (float(known.min()), float(known.max())) if known.size else (0.0, 1.0)
    margin = 0.05 * (high - low) or 0.05
    return low - margin, high + margin
