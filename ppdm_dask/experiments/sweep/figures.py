"""Figures of a sweep, drawn and described.

Mean and variance of the accuracy, or PSE, the privacy of a single entry, against an axis of the
grid; accuracy over two axes, and against what is disclosed.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ppdm_dask.drawing import style
from ppdm_dask.drawing.texts import course, span
from ppdm_dask.experiments.grid import grid_axes
from ppdm_dask.experiments.sweep.recipe import Figure, Recipe

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.axes import Axes


@dataclass(frozen=True)
class Series:
    """Cells of one data entry along an axis, its values rising, and how they are drawn.

    The cells are the variables of a result that have this axis or none.
    """

    name: str
    colour: str
    marker: str
    axis: str
    cells: xr.Dataset

    @property
    def entry(self) -> str:
        """Id of the data entry."""
        return str(self.cells["data"].item())

    @property
    def x(self) -> npt.NDArray[np.float64]:
        """Values of the axis."""
        return np.asarray(self.cells[self.axis].to_numpy(), dtype=float)

    def column(self, name: str) -> npt.NDArray[np.float64]:
        """A variable along the line."""
        return np.asarray(self.cells[name].to_numpy(), dtype=float)


def series_of(ds: xr.Dataset, figure: Figure) -> list[Series]:
    """The lines that a figure draws.

    The axis that the figure names tells them apart: each of its data entries then has the same
    lines.  Otherwise there is a line for each data entry and each combination of other axes.
    """
    axes = grid_axes(ds)
    axis = figure.x_axis(axes)
    others = [other for other in axes if other != axis]
    known = [str(name) for name in ds["data"].to_numpy()]
    # What has other axes is in no line, and takes most of the time to select.
    ds = ds.drop_dims([str(dim) for dim in ds.dims if dim not in ("data", *axes)])
    # Numbered over all entries, so that a line looks alike in figures that show some of them.
    lines = [
        (entry, where)
        for entry in known
        for where in product(*(range(ds.sizes[other]) for other in others))
    ]
    found = []
    for i, (entry, where) in enumerate(lines):
        if entry not in figure.data:
            continue
        cells = ds.isel(dict(zip(others, where, strict=True))).isel(data=known.index(entry))
        if figure.line_axis is None:
            look, name = i, ", ".join([entry, *(_valued(cells, other) for other in others)])
        else:
            look = where[others.index(figure.line_axis)]
            name = _valued(cells, figure.line_axis)
        colour = style.COLOURS[look % len(style.COLOURS)]
        marker = style.MARKERS[look % len(style.MARKERS)]
        found.append(Series(name, colour, marker, axis, cells.sortby(axis)))
    return found


def _valued(cells: xr.Dataset, axis: str) -> str:
    value: Any = cells[axis].item()
    return style.word_value(axis, value)


def repeats_of(series: list[Series]) -> str:
    """The number of repeats of the cells, as text."""
    done = np.concatenate([line.column("completed") for line in series])
    done = done[done > 0]
    if not done.size:
        return "no repeats yet"
    low, high = int(done.min()), int(done.max())
    return f"{high:,} repeats" if low == high else f"{low:,} to {high:,} repeats"


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


def _draw_grid(ds: xr.Dataset, figure: Figure, folder: Path) -> list[Path]:
    """Draw mean accuracy over two axes in numbers, shaded by the loss; a panel per data entry."""
    across = figure.x_axis(grid_axes(ds))
    down = str(figure.series)
    narrow = style.is_narrow()
    if narrow and ds.sizes[across] > ds.sizes[down]:
        across, down = down, across  # the longer axis runs down where there is no width for it
    # The recipe's reader has seen to it that any other axis has one value.
    others = {axis: 0 for axis in grid_axes(ds) if axis not in (across, down)}
    grid = ds.isel(others).transpose(..., down, across, "repeat", "split").sortby([down, across])
    entries = [grid.sel(data=name) for name in figure.data]
    means = [entry["accuracy_mean"].to_numpy() for entry in entries]
    losses = [float(entry["benchmark"]) - mean for entry, mean in zip(entries, means, strict=True)]
    known = np.concatenate([loss[np.isfinite(loss)] for loss in losses])
    # One scale for all panels; a loss below 0 is chance and shaded like none.
    top = max(float(known.max(initial=0.0)), 0.01)
    below = f"mean accuracy, {repeats_of(series_of(ds, figure))}; shade: lost by the disguise"
    rows, columns = means[0].shape
    heights = 0.33 * rows
    canvas, panels = style.new_panels(
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
        # The darkest blues are left out, in which no number could be read.
        shades = axes.imshow(loss, cmap="Blues", vmin=0, vmax=1.25 * top, aspect="auto")
        for i, j in np.ndindex(rows, columns):
            there = np.isfinite(mean[i, j])
            text = f"{mean[i, j]:.3f}" if there else "undef."
            colour = "white" if there and loss[i, j] > 0.75 * top else "black"
            axes.text(j, i, text, ha="center", va="center_baseline", fontsize=8, color=colour)
        _label_grid(axes, entry, across, down)
    axes.set_xlabel(style.WORDS.get(across, across))
    scale = canvas.add_axes(style.beside(panels))
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


def _draw_tradeoffs(ds: xr.Dataset, figure: Figure, folder: Path) -> list[Path]:
    """Draw mean accuracy against what adversaries learn: rows of entries, a column for each."""
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
        limits = _limits_of_grid(series, measure)
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
        return style.new_panels(title, below, rows, n, head=1.05, **sizes)
    sizes = {"height": 1.7, "gap": (0.0, 0.72), "left": 0.62, "right": 0.14}
    canvas, column = style.new_panels(title, below, rows * n, 1, head=1.12, **sizes)
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


def _limits_of_grid(series: list[Series], measure: str) -> tuple[float, float]:
    """Limits for all adversaries, so that their panels can be compared."""
    values = [line.column(f"{measure}_{adversary}") for line in series for adversary in ADVERSARIES]
    known = np.concatenate([column[np.isfinite(column)] for column in values])
    low, high = (float(known.min()), float(known.max())) if known.size else (0.0, 1.0)
    margin = 0.05 * (high - low) or 0.05
    return low - margin, high + margin


LABELS = 0.42
"""Room for labels at the left of the curves, as a share of the axis's width."""


def _draw_privacy(ds: xr.Dataset, figure: Figure, folder: Path) -> list[Path]:
    """Draw the PSE of single binary attributes, and of each data entry's least private one."""
    import matplotlib as mpl
    from matplotlib.lines import Line2D

    below = (
        "grey: one binary attribute, 1 with probability $W_a$; "
        "colour: each data set's least private"
    )
    canvas, axes = style.new_figure(figure.title, below)
    labels: list[tuple[float, str, Any]] = []
    axis = figure.x_axis(grid_axes(ds))
    others = [other for other in grid_axes(ds) if other != axis]
    # Of other axes the first value stands for all: groups do not matter to a single attribute.
    first = ds.isel(dict.fromkeys(others, 0)).sortby(axis)
    x = np.asarray(first[axis].to_numpy(), dtype=float)
    ramp = mpl.colormaps["Greys"]
    for i, w_a in enumerate(figure.w_a):
        pse = first["pse_curve"].sel(w_a=w_a).to_numpy()
        colour = ramp(0.45 + 0.5 * (i + 1) / len(figure.w_a))
        axes.plot(x, pse, color=colour, linewidth=1.3)
        labels.append((float(np.max(pse)), f"$W_a$ = {w_a:g}", colour))
    markers = [""] * len(labels)
    drawn: list[tuple[str, list[float]]] = []
    for line in series_of(ds, figure) if "pse" in ds else []:
        pse = line.column("pse")
        # Another axis may make no difference: an attribute's own report says nothing of groups.
        if (line.entry, pse.tolist()) not in drawn:
            drawn.append((line.entry, pse.tolist()))
            axes.plot(line.x, pse, color=line.colour, marker=line.marker, markersize=4.5)
            markers.append(line.marker)
            labels.append((float(np.max(pse)), _least_private(ds, line), line.colour))
    axes.set_ylim(bottom=0)
    axes.set_xlabel(style.WORDS.get(axis, axis))
    axes.set_ylabel("PSE: chance that a guess from one answer is wrong")
    if style.is_narrow():
        style.legend(
            axes,
            [
                Line2D([], [], color=colour, label=text, marker=marker, markersize=4.5)
                for (_, text, colour), marker in zip(labels, markers, strict=True)
            ],
        )
        return style.save(canvas, folder, figure.id)
    # The curves meet at the right; they can be told apart at the left, where their labels are.
    width = float(np.ptp(x)) or 1.0
    inside = 1e-9 * width  # a tick may miss an end by rounding
    ticks = [t for t in axes.get_xticks() if x.min() - inside <= t <= x.max() + inside]
    axes.set_xlim(x.min() - LABELS * width, x.max() + 0.02 * width)
    axes.set_xticks(ticks)
    style.write_labels(axes, labels, x=(LABELS - 0.02) / (LABELS + 1.02), align="right")
    return style.save(canvas, folder, figure.id)


def _least_private(ds: xr.Dataset, line: Series) -> str:
    """Name a line after its data entry and the attribute with the smallest PSE."""
    entry = f"{line.entry}/"
    columns = ds["column"].to_numpy()
    own = [i for i, column in enumerate(columns) if str(column).startswith(entry)]
    pse = ds["pse_attribute"].isel(column=own)
    by_attribute = pse.mean([dim for dim in pse.dims if dim != "column"]).to_numpy()
    least = int(np.argmin(by_attribute))
    return f"{line.name}: {str(columns[own[least]]).removeprefix(entry)}"


# A ring around a dot: both parts show where they agree.
PARTS: dict[str, tuple[str, dict[str, Any]]] = {
    "accuracy": ("clean test part", {"linestyle": "-", "markersize": 4.5}),
    "disguised": (
        "disguised test part",
        {"linestyle": (0, (4, 2)), "linewidth": 1.2, "markersize": 8, "markerfacecolor": "none"},
    ),
}


def draw(ds: xr.Dataset, recipe: Recipe, figure: Figure, folder: Path) -> list[Path]:
    """Draw a figure of a sweep."""
    return FIGURES[figure.kind][0](ds, figure, folder)


def words(ds: xr.Dataset, recipe: Recipe, figure: Figure) -> list[str]:
    """Say with numbers what a figure of a sweep shows."""
    return FIGURES[figure.kind][1](ds, figure)


def _draw_mean(ds: xr.Dataset, figure: Figure, folder: Path) -> list[Path]:
    series = series_of(ds, figure)
    below = f"{_what(series, figure)}, with 95 % intervals of the mean"
    canvas, axes = style.new_figure(figure.title, below, right=0.79)
    shown: list[npt.NDArray[np.float64]] = []
    for line in series:
        for part in figure.parts:
            mean, bar = (
                line.column(f"{part}_mean"),
                line.column(f"{part}_mean_se") * style.NORMAL_95,
            )
            _draw(axes, line, part, mean, bar)
            # Bars of a disguised test part may be as long as the axis; they do not set its limits.
            bar = np.nan_to_num(bar) if part == "accuracy" else np.zeros_like(bar)
            shown += [mean - bar, mean + bar]
    references = _references(series, figure)
    values = np.concatenate([*shown, [height for height, *_ in references]])
    # Estimates from a disguised test part may leave [0, 1] far; they must not flatten the rest.
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
    """The test part and the number of repeats; of both parts, a legend tells them apart."""
    part = f"{PARTS[figure.parts[0]][0]}, " if len(figure.parts) == 1 else ""
    return f"{part}{repeats_of(series)}"


def _references(series: list[Series], figure: Figure) -> list[tuple[float, str, str, Any]]:
    """Return level lines: each entry's undisguised benchmark, and its majority class."""
    # An entry may have several lines; the first one's colour stands for it.
    entries = {line.entry: line for line in reversed(series)}
    found = []
    levels: dict[str, tuple[float, str]] = {}
    for line in entries.values():
        benchmark, majority = float(line.cells["benchmark"]), float(line.cells["majority"])
        # Where an axis has the colours, the entry has none.
        colour = line.colour if figure.line_axis is None else style.GREY
        found.append((benchmark, f"undisguised {benchmark:.3f}", colour, (0, (6, 2, 1, 2))))
        text = f"majority class {majority:.3f}"
        # A level that two entries share is neither's colour.
        levels[text] = (majority, style.GREY if text in levels else colour)
    dots = (0, (1, 1.5))
    return [*found, *((height, text, colour, dots) for text, (height, colour) in levels.items())]


def _draw_variance(ds: xr.Dataset, figure: Figure, folder: Path) -> list[Path]:
    series = series_of(ds, figure)
    below = f"{_what(series, figure)}, with 95 % intervals of the variance; logarithmic scale"
    canvas, axes = style.new_figure(figure.title, below)
    axes.set_yscale("log", nonpositive="mask")
    zero: set[float] = set()
    for line in series:
        for part in figure.parts:
            variance = line.column(f"{part}_variance")
            bar = line.column(f"{part}_variance_se") * style.NORMAL_95
            zero |= set(line.x[variance == 0])
            positive = np.where(variance > 0, variance, np.nan)
            # On a logarithmic scale a bar cannot reach zero.
            _draw(axes, line, part, positive, np.stack([np.minimum(bar, 0.9 * positive), bar]))
    _finish(axes, series, figure, "variance of the accuracy")
    for x in sorted(zero):  # which a logarithmic scale does not have
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
        style.legend(axes, handles)
    for x in _undefined(series):
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


def _tell_lines(series: list[Series], figure: Figure, moment: str, form: str) -> list[str]:
    return [
        f"{line.name}, {PARTS[part][0]}: "
        f"{course(line.axis, line.x, line.column(f'{part}_{moment}'), form)}."
        for line in series
        for part in figure.parts
    ]


def _tell_mean(ds: xr.Dataset, figure: Figure) -> list[str]:
    series = series_of(ds, figure)
    levels = [
        f"{name}: undisguised {float(cells['benchmark']):.3f}, "
        f"majority class {float(cells['majority']):.3f}."
        for name, cells in {line.entry: line.cells for line in series}.items()
    ]
    told = _tell_lines(series, figure, "mean", ".3f")
    return ["Mean accuracy as lines.", *told, *levels, *_tell_undefined(series)]


def _tell_variance(ds: xr.Dataset, figure: Figure) -> list[str]:
    series = series_of(ds, figure)
    told = _tell_lines(series, figure, "variance", ".1e")
    return ["Variance of the accuracy as lines.", *told, *_tell_undefined(series)]


def _tell_undefined(series: list[Series]) -> list[str]:
    at = sorted({f"{x:g}" for x in _undefined(series)})
    return [f"Undefined at {series[0].axis} = {', '.join(at)}."] if at else []


def _undefined(series: list[Series]) -> list[float]:
    """Places at which a line is undefined, rising."""
    return sorted(
        {float(x) for line in series for x in line.x[line.cells["undefined"].to_numpy() != ""]}
    )


def _tell_privacy(ds: xr.Dataset, figure: Figure) -> list[str]:
    axes = grid_axes(ds)
    axis = figure.x_axis(axes)
    first = ds.isel({other: 0 for other in axes if other != axis}).sortby(axis)
    x = np.asarray(first[axis].to_numpy(), dtype=float)
    told = ["Privacy of a single entry, PSE, whose reader sees its own report only, as lines."]
    for w_a in figure.w_a:
        curve = first["pse_curve"].sel(w_a=w_a).to_numpy()
        told.append(f"An attribute with W_a = {w_a:g}: {course(axis, x, curve, '.3f')}.")
    seen = set()
    for line in series_of(ds, figure) if "pse" in ds else []:
        text = f"{line.entry}, its least private attribute: "
        text += f"{course(axis, line.x, line.column('pse'), '.4f')}."
        if text not in seen:
            told.append(text)
        seen.add(text)
    return told


def _tell_grid(ds: xr.Dataset, figure: Figure) -> list[str]:
    told = ["Mean accuracy as a table of shades."]
    for name in figure.data:
        entry = ds.sel(data=name)
        mean = entry["accuracy_mean"].transpose(*grid_axes(ds)).to_numpy()
        if not np.isfinite(mean).any():
            continue
        ends = []
        for which, find in (("highest", np.nanargmax), ("lowest", np.nanargmin)):
            index = np.unravel_index(int(find(mean)), mean.shape)
            at = ", ".join(
                f"{axis} = {entry[axis].to_numpy()[i]:g}"
                for axis, i in zip(grid_axes(ds), index, strict=True)
            )
            ends.append(f"{which} {mean[index]:.3f} at {at}")
        told.append(f"{name}: {'; '.join(ends)}; undisguised {float(entry['benchmark']):.3f}.")
    return told


def _tell_tradeoff(ds: xr.Dataset, figure: Figure) -> list[str]:
    measure = figure.measure or "advantage"
    told = [f"Mean accuracy against the {measure} of three adversaries, as lines."]
    for name in figure.data:
        series = series_of(ds, replace(figure, data=(name,)))
        for adversary, words in ADVERSARIES.items():
            ranges = [
                f"{line.name} {span(line.column(f'{measure}_{adversary}'), '.3f')}"
                for line in series
            ]
            told.append(f"{name}, {' '.join(words.split())}: {measure} {'; '.join(ranges)}.")
        means = [f"{line.name} {span(line.column('accuracy_mean'), '.3f')}" for line in series]
        told.append(f"{name}: mean accuracy {'; '.join(means)}.")
    return told


FIGURES: dict[str, tuple[Callable[..., list[Path]], Callable[..., list[str]]]] = {
    "mean": (_draw_mean, _tell_mean),
    "variance": (_draw_variance, _tell_variance),
    "privacy": (_draw_privacy, _tell_privacy),
    "grid": (_draw_grid, _tell_grid),
    "tradeoff": (_draw_tradeoffs, _tell_tradeoff),
}
"""What draws a kind of figure, and what describes it."""
