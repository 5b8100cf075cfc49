"""Figures of perturbed data, drawn and told in words: loss of accuracy against a parameter."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ppdm_dask.drawing import layout, style
from ppdm_dask.drawing.words import course

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.axes import Axes

    from ppdm_dask.experiments.perturbation.recipe import PerturbationRecipe, Plot, Setting

__all__ = ["draw", "words"]


def draw(ds: xr.Dataset, recipe: PerturbationRecipe, figure: Plot, folder: Path) -> list[Path]:
    """Draw r of each classifier against the parameter of an entry."""
    settings = _settings_of(recipe, figure)
    part = ds.isel(data=settings[0].data).sel(setting=[s.label for s in settings])
    x = np.array([float(s.value) for s in settings])
    below = (
        f"{int(part['completed'].max()):,} splits, with 95 % intervals of the mean; "
        "dashed: classifiers that have no say in the choice"
    )
    canvas, axes = layout.new_figure(figure.title, below)
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
    return style.save(canvas, folder, figure.id)


def _settings_of(recipe: PerturbationRecipe, figure: Plot) -> list[Setting]:
    """The settings that a figure shows, by their parameter."""
    settings = [
        setting
        for setting in recipe.settings
        if setting.spec.id == figure.perturb and recipe.data[setting.data].id == figure.data
    ]
    return sorted(settings, key=lambda setting: float(setting.value))


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
        bar = np.nan_to_num(part["r_mean_se"].to_numpy()[:, c]) * style.NORMAL_95
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


def words(ds: xr.Dataset, recipe: PerturbationRecipe, figure: Plot) -> list[str]:
    """Say with numbers what a figure of the loss of accuracy shows."""
    settings = _settings_of(recipe, figure)
    part = ds.isel(data=settings[0].data).sel(setting=[setting.label for setting in settings])
    x = np.array([float(setting.value) for setting in settings])
    axis, judges = settings[0].spec.axis, json.loads(ds.attrs["judges"])
    told = [f"r, the relative loss of accuracy, as lines; accepted below {ds.attrs['accept']:g}."]
    for c, name in enumerate(part["classifier"].to_numpy()):
        r = part["r_mean"].to_numpy()[:, c]
        say = "" if name in judges else ", no judge"
        told.append(f"{name}{say}: {course(axis, x, r, '.3f')}.")
    for kind in ("published", "chosen"):
        for s in np.flatnonzero(part[kind].to_numpy() == 1):
            r = part["r_mean"].to_numpy()[s]
            values = ", ".join(
                f"{name} {value:.3f}"
                for name, value in zip(part["classifier"].to_numpy(), r, strict=True)
            )
            told.append(f"At the {kind} {axis} = {x[s]:g}: {values}.")
    return told
