"""Figures of a perturbation experiment: loss of accuracy against a method's parameter."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ppdm_dask.drawing import layout, style
from ppdm_dask.experiments.perturbation.recipe import PerturbationRecipe, Plot, Setting

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.axes import Axes

__all__ = ["draw_usability", "settings_of"]


NORMAL_95 = 1.959964
"""Half-width of a 95 % interval in standard errors."""


def draw_usability(ds: xr.Dataset, recipe: PerturbationRecipe, folder: Path) -> list[Path]:
    """Draw r of each classifier against the parameter of an entry, as the recipe's figures say.

    Returns
    -------
    list of Path
        A PNG and an SVG of each figure, in the recipe's order.

    Raises
    ------
    RunFolderError
        If a file cannot be written.
    """
    written: list[Path] = []
    for figure in recipe.figures:
        with style.styled():
            settings = settings_of(recipe, figure)
            written += _usability(ds, settings, figure.title, folder, figure.id)
    return written


def settings_of(recipe: PerturbationRecipe, figure: Plot) -> list[Setting]:
    """The settings that a figure shows, by their parameter."""
    settings = [
        setting
        for setting in recipe.settings
        if setting.spec.id == figure.perturb and recipe.data[setting.data].id == figure.data
    ]
    return sorted(settings, key=lambda setting: float(setting.value))


def _usability(
    ds: xr.Dataset, settings: list[Setting], title: str, folder: Path, name: str
) -> list[Path]:
    part = ds.isel(data=settings[0].data).sel(setting=[s.label for s in settings])
    x = np.array([float(s.value) for s in settings])
    below = (
        f"{int(part['completed'].max()):,} splits, with 95 % intervals of the mean; "
        "dashed: classifiers that have no say in the choice"
    )
    canvas, axes = layout.new_figure(title, below)
    accept = float(ds.attrs["accept"])
    axes.axhline(accept, color=style.GREY, linewidth=1.1, linestyle=(0, (1, 1.5)), zorder=1)
    _draw_lines(axes, part, x, json.loads(ds.attrs["judges"]))
    for kind, height in (("chosen", 0.99), ("published", 0.8)):
        for at in x[part[kind].to_numpy() == 1]:
            _mark(axes, at, kind, height)
    axis = settings[0].spec.axis
    axes.set_xlabel(style.WORDS.get(axis, axis))
    axes.set_ylabel("$r$: relative loss of accuracy")
    layout.legend(axes, axes.get_legend_handles_labels()[0], loc="upper right")
    return style.save(canvas, folder, name)


def _draw_lines(axes: Axes, part: xr.Dataset, x: Any, judges: list[str]) -> None:
    names = [str(name) for name in part["classifier"].to_numpy()]
    step = float(np.diff(x).min()) if x.size > 1 else 1.0
    for c, name in enumerate(names):
        look: dict[str, Any] = {
            "color": style.COLOURS[c % len(style.COLOURS)],
            "marker": style.MARKERS[c % len(style.MARKERS)],
            "markersize": 4.5,
            "linestyle": "-" if name in judges else (0, (4, 2)),
        }
        # A little apart, so that bars do not hide one another.
        shifted = x + (c - (len(names) - 1) / 2) * 0.04 * step
        bar = np.nan_to_num(part["r_mean_se"].to_numpy()[:, c]) * NORMAL_95
        r = part["r_mean"].to_numpy()[:, c]
        axes.errorbar(shifted, r, yerr=bar, elinewidth=1.0, label=name, **look)


def _mark(axes: Axes, x: float, text: str, height: float) -> None:
    """Draw a line at a setting, with a word beside it."""
    axes.axvline(x, color=style.GREY, linewidth=0.8, linestyle=(0, (3, 3)), zorder=0)
    axes.annotate(
        text,
        (x, height),
        xycoords=axes.get_xaxis_transform(),
        rotation=90,
        fontsize=8.5,
        color=style.GREY,
        ha="right",
        va="top",
    )
