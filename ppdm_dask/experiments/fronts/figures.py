"""Figures of fronts, drawn and told in words: MSE against privacy, with the certified limit."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ppdm_dask.drawing import layout, style
from ppdm_dask.drawing.words import course
from ppdm_dask.experiments.fronts.tables import is_attained, mean_line

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.axes import Axes

    from ppdm_dask.experiments.fronts.recipe import FrontFigure, FrontRecipe

__all__ = ["draw", "words"]


LOOKS: dict[str, dict[str, Any]] = {
    "warner": {"linestyle": (0, (1, 1.5)), "linewidth": 1.4},
    "spea2": {"linestyle": "-", "linewidth": 1.6},
    "memetic": {"linestyle": (0, (5, 1.5)), "linewidth": 1.2},
    "limit": {"linestyle": "-", "linewidth": 0.8},
}
NAMES = {
    "warner": "Warner's matrices",
    "spea2": "the paper's search",
    "memetic": "with gradient polish",
    "limit": "certified limit",
}
LOWER = "certified lower bound"
"""Name of a limit that no design need attain."""


def draw(ds: xr.Dataset, recipe: FrontRecipe, figure: FrontFigure, folder: Path) -> list[Path]:
    """Draw a figure of fronts."""
    iterative = figure.kind == "iterative"
    done = int(ds["completed"].max())
    estimator = "the iterative estimator" if iterative else "inversion"
    searches = "one search" if done == 1 else f"mean of {done} searches"
    below = f"by {estimator}; {searches}; logarithmic scale"
    canvas, axes = layout.new_figure(figure.title, below)
    axes.set_yscale("log")
    cases = [str(name) for name in ds["case"].to_numpy()]
    methods = [str(name) for name in ds["method"].to_numpy()]
    shown = set()
    attained = True
    for number, delta in enumerate(figure.delta):
        case = f"{figure.prior} delta={delta:g}"
        part = ds.isel(case=cases.index(case))
        if str(part["undefined"].item()):
            continue
        colour = style.COLOURS[number % len(style.COLOURS)]
        privacy = part["privacy"].to_numpy()
        for m, method in enumerate(methods):
            mean = mean_line(part, m, iterative=iterative)
            if mean is not None:
                axes.plot(privacy, mean, color=colour, **LOOKS[method])
                shown.add(method)
        if not iterative and not np.isnan(part["limit"].to_numpy()).all():
            axes.plot(privacy, part["limit"].to_numpy(), color="black", **LOOKS["limit"])
            shown.add("limit")
            attained &= is_attained(part)
    axes.set_xlabel("privacy: how often the best guess is wrong")
    axes.set_ylabel("mean squared error")
    names = NAMES if attained else {**NAMES, "limit": LOWER}
    _legend(axes, figure, {name: names[name] for name in LOOKS if name in shown})
    return style.save(canvas, folder, figure.id)


def _legend(axes: Axes, figure: FrontFigure, shown: dict[str, str]) -> None:
    from matplotlib.lines import Line2D

    handles = []
    if len(figure.delta) > 1:
        for number, delta in enumerate(figure.delta):
            colour = style.COLOURS[number % len(style.COLOURS)]
            handles.append(Line2D([], [], color=colour, label=f"$\\delta$ = {delta:g}"))
    grey = style.GREY if len(figure.delta) > 1 else style.COLOURS[0]
    for name, label in shown.items():
        colour = "black" if name == "limit" else grey
        handles.append(Line2D([], [], color=colour, label=label, **LOOKS[name]))
    if handles:
        layout.legend(axes, handles)


def words(ds: xr.Dataset, recipe: FrontRecipe, figure: FrontFigure) -> list[str]:
    """Say with numbers what a figure of fronts shows."""
    iterative = figure.kind == "iterative"
    estimator = "the iterative estimator" if iterative else "inversion"
    told = [f"Mean squared error by {estimator} against privacy, as lines."]
    cases = [str(name) for name in ds["case"].to_numpy()]
    for delta in figure.delta:
        case = f"{figure.prior} delta={delta:g}"
        part = ds.isel(case=cases.index(case))
        if reason := str(part["undefined"].item()):
            told.append(f"{case} is undefined: {reason}.")
            continue
        # From the least private level to the most private one.
        order = np.argsort(part["privacy"].to_numpy())
        x = part["privacy"].to_numpy()[order]
        for m, method in enumerate(part["method"].to_numpy()):
            line = mean_line(part, m, iterative=iterative)
            if line is not None:
                told.append(f"{case}, {method}: {course('privacy', x, line[order], '.2e')}.")
        if not iterative:
            limit = part["limit"].to_numpy()[order]
            name = NAMES["limit"] if is_attained(part) else LOWER
            told.append(f"{case}, {name}: {course('privacy', x, limit, '.2e')}.")
    return told
