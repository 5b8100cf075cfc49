"""Figures of trials: measures against a parameter, and their descriptions."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ppdm_dask.arrays import Floats
from ppdm_dask.drawing import style
from ppdm_dask.drawing.texts import brief, course
from ppdm_dask.experiments.trials.recipe import APART, TrialFigure, TrialRecipe
from ppdm_dask.experiments.trials.results import trial_of
from ppdm_dask.experiments.trials.trial import Measure
from ppdm_dask.files.declared import described

if TYPE_CHECKING:
    import xarray as xr

LINES: tuple[Any, ...] = ("-", (0, (4, 2)), (0, (1, 1.5)), (0, (5, 1.5, 1, 1.5)))
"""Kinds of line, by measure."""

MOST_TICKS = 7
"""Values of a logarithmic axis that are named one by one."""


def draw(ds: xr.Dataset, recipe: TrialRecipe, figure: TrialFigure, folder: Path) -> list[Path]:
    """Draw measures against an axis of the grid, with 95 % intervals over the repeats."""
    shown = _shown(ds, figure)
    canvas, axes = style.new_figure(figure.title, _below(shown, figure))
    lines = list(_lines(shown, figure))
    for i, (label, measure, j, x, y, error) in enumerate(lines):
        look: dict[str, Any] = {
            "color": style.COLOURS[j % len(style.COLOURS)],
            "marker": style.MARKERS[j % len(style.MARKERS)],
            "markersize": 4.5,
            "linestyle": LINES[figure.measures.index(measure.name) % len(LINES)],
            "label": label,
            "zorder": 3 + i,
        }
        axes.errorbar(x, y, yerr=np.nan_to_num(error) * style.NORMAL_95, elinewidth=1.0, **look)
    if "x" in figure.log:
        axes.set_xscale("log")
        at = np.unique(shown[str(figure.x)].to_numpy())
        if at.size <= MOST_TICKS:
            axes.set_xticks(at, [f"{value:,g}" for value in at])
            axes.minorticks_off()
    if "y" in figure.log:
        axes.set_yscale("log")
    x_axis = str(figure.x)
    meaning = described(recipe.of)[1].get(x_axis, "").partition(";")[0].rstrip(".")
    known = f"{x_axis}: {meaning[:1].lower()}{meaning[1:]}" if meaning else x_axis
    axes.set_xlabel(style.WORDS.get(x_axis, known))
    measures = _measures(shown, figure)
    axes.set_ylabel(measures[0].title if len(measures) == 1 else ", ".join(map(_name, measures)))
    if len(lines) > 1:
        style.legend(axes, axes.get_legend_handles_labels()[0])
    return style.save(canvas, folder, figure.id)


def words(ds: xr.Dataset, recipe: TrialRecipe, figure: TrialFigure) -> list[str]:
    """Say with numbers what a figure shows."""
    shown, told = _shown(ds, figure), []
    for measure in _measures(shown, figure):
        told.append(f"{_name(measure)}: {measure.doc}.")
    for label, _, _, x, y, _ in _lines(shown, figure):
        if np.isfinite(y).any():
            told.append(f"{label}: {course(str(figure.x), x, y, '.4g')}.")
    return told if len(told) > len(figure.measures) else []


def _measures(ds: xr.Dataset, figure: TrialFigure) -> list[Measure]:
    known = {each.name: each for each in trial_of(ds).measures}
    return [known[name] for name in figure.measures]


def _name(named: Measure | str) -> str:
    name = named if isinstance(named, str) else named.name
    return name.replace("_", " ")


def _shown(ds: xr.Dataset, figure: TrialFigure) -> xr.Dataset:
    """The cells of a figure: only x and what tells the lines apart are axes."""
    for axis, values in (figure.at or {}).items():
        known = ds[axis].to_numpy().tolist()
        ds = ds.isel({axis: [known.index(value) for value in values]})
    kept = (figure.x, figure.series, "repeat")
    return ds.isel({axis: 0 for axis in ds.dims if axis not in kept})


def _below(shown: xr.Dataset, figure: TrialFigure) -> str:
    """What lies below the title: repeats, and the values that the lines share."""
    repeats = int(shown["completed"].max())
    parts = [f"{repeats:,} repeats, with 95 % intervals"]
    for axis, value in shown.coords.items():
        if not value.dims:
            told = brief(value.item())
            parts.append(told if axis in APART else f"{axis} = {told}")
    return "; ".join(parts)


def _lines(
    shown: xr.Dataset, figure: TrialFigure
) -> Iterator[tuple[str, Measure, int, Floats, Floats, Floats]]:
    """Label, measure, colour's number, x, y and standard errors of each line."""
    series, measures = figure.series, _measures(shown, figure)
    for j in range(shown.sizes[series] if series else 1):
        part = shown.isel({series: j}) if series else shown
        part = part.sortby(str(figure.x))
        own = ""
        if series:
            value = part[series].item()
            own = _name(str(value)) if series in APART else style.word_value(series, value)
        for measure in measures:
            name = _name(measure) if len(measures) > 1 or not own else ""
            label = ", ".join(filter(None, [own, name]))
            y = part[measure.variable].to_numpy().astype(float)
            error = part.get(f"{measure.variable}_se")
            errors = np.zeros_like(y) if error is None else error.to_numpy().astype(float)
            yield label, measure, j, part[str(figure.x)].to_numpy().astype(float), y, errors
