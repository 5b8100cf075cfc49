"""What figures show, in words with numbers, for whoever cannot see them."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ppdm_dask.arrays import Floats
from ppdm_dask.experiments.fronts.figures import LOWER, NAMES
from ppdm_dask.experiments.fronts.tables import is_attained, mean_line
from ppdm_dask.experiments.perturbation.figures import settings_of
from ppdm_dask.experiments.results import grid_axes
from ppdm_dask.experiments.sweep.figures import ADVERSARIES, PARTS, Series, series_of

if TYPE_CHECKING:
    import xarray as xr

    from ppdm_dask.experiments.fronts.recipe import FrontFigure
    from ppdm_dask.experiments.kinds import AnyRecipe
    from ppdm_dask.experiments.sweep.recipe import Figure

__all__ = ["describe"]


def describe(ds: xr.Dataset, recipe: AnyRecipe, figure: Any) -> str:
    """Say in words, with numbers, what a figure of a recipe shows."""
    if recipe.kind == "front":
        found = _front(ds, figure)
    elif recipe.kind == "perturbation":
        found = _usability(ds, recipe, figure)
    else:
        tell = {
            "mean": _mean,
            "variance": _variance,
            "privacy": _privacy,
            "grid": _grid,
            "tradeoff": _tradeoff,
        }
        found = tell[figure.kind](ds, figure)
    return f"{figure.title}. " + " ".join(found or ["Nothing is computed yet."])


def _course(axis: str, x: Floats, y: Floats, form: str) -> str:
    """The course of a line: its ends, and its extremes where they lie between."""
    there = np.isfinite(y)
    x, y = x[there], y[there]
    if not x.size:
        return "no numbers yet"
    text = f"{_told(y[0], form)} at {axis} = {x[0]:.3g}"
    for which, i in (("least", int(np.argmin(y))), ("most", int(np.argmax(y)))):
        if 0 < i < len(x) - 1 and y[i] not in (y[0], y[-1]):
            text += f", {which} {_told(y[i], form)} at {x[i]:.3g}"
    return text + (f", {_told(y[-1], form)} at {x[-1]:.3g}" if x.size > 1 else "")


def _told(value: float, form: str) -> str:
    """A number; 0 where it is one, and no 0 with a sign."""
    text = f"{value:{form}}"
    return text.removeprefix("-") if float(text) == 0 and value else text if value else "0"


def _lines(series: list[Series], figure: Figure, moment: str, form: str) -> list[str]:
    return [
        f"{line.name}, {PARTS[part][0]}: "
        f"{_course(line.axis, line.x, line.column(f'{part}_{moment}'), form)}."
        for line in series
        for part in figure.parts
    ]


def _mean(ds: xr.Dataset, figure: Figure) -> list[str]:
    series = series_of(ds, figure)
    levels = [
        f"{name}: undisguised {float(cells['benchmark']):.3f}, "
        f"majority class {float(cells['majority']):.3f}."
        for name, cells in {line.entry: line.cells for line in series}.items()
    ]
    told = _lines(series, figure, "mean", ".3f")
    return ["Mean accuracy as lines.", *told, *levels, *_undefined(series)]


def _variance(ds: xr.Dataset, figure: Figure) -> list[str]:
    series = series_of(ds, figure)
    told = _lines(series, figure, "variance", ".1e")
    return ["Variance of the accuracy as lines.", *told, *_undefined(series)]


def _undefined(series: list[Series]) -> list[str]:
    at = {
        f"{float(x):g}"
        for line in series
        for x, why in zip(line.x, line.cells["undefined"].to_numpy(), strict=True)
        if why
    }
    return [f"Undefined at {series[0].axis} = {', '.join(sorted(at))}."] if at else []


def _privacy(ds: xr.Dataset, figure: Figure) -> list[str]:
    axes = grid_axes(ds)
    axis = figure.x_axis(axes)
    first = ds.isel({other: 0 for other in axes if other != axis}).sortby(axis)
    x = np.asarray(first[axis].to_numpy(), dtype=float)
    told = ["Privacy of a single entry, PSE, whose reader sees its own report only, as lines."]
    for w_a in figure.w_a:
        curve = first["pse_curve"].sel(w_a=w_a).to_numpy()
        told.append(f"An attribute with W_a = {w_a:g}: {_course(axis, x, curve, '.3f')}.")
    seen = set()
    for line in series_of(ds, figure) if "pse" in ds else []:
        text = f"{line.entry}, its least private attribute: "
        text += f"{_course(axis, line.x, line.column('pse'), '.4f')}."
        if text not in seen:
            told.append(text)
        seen.add(text)
    return told


def _grid(ds: xr.Dataset, figure: Figure) -> list[str]:
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


def _tradeoff(ds: xr.Dataset, figure: Figure) -> list[str]:
    measure = figure.measure or "advantage"
    told = [f"Mean accuracy against the {measure} of three adversaries, as lines."]
    for name in figure.data:
        series = series_of(ds, replace(figure, data=(name,)))
        for adversary, words in ADVERSARIES.items():
            ranges = [
                f"{line.name} {_range(line.column(f'{measure}_{adversary}'), '.3f')}"
                for line in series
            ]
            told.append(f"{name}, {' '.join(words.split())}: {measure} {'; '.join(ranges)}.")
        means = [f"{line.name} {_range(line.column('accuracy_mean'), '.3f')}" for line in series]
        told.append(f"{name}: mean accuracy {'; '.join(means)}.")
    return told


def _range(values: Floats, form: str) -> str:
    known = values[np.isfinite(values)]
    if not known.size:
        return "not known"
    return f"from {known.min():{form}} to {known.max():{form}}"


def _usability(ds: xr.Dataset, recipe: Any, figure: Any) -> list[str]:
    settings = settings_of(recipe, figure)
    part = ds.isel(data=settings[0].data).sel(setting=[setting.label for setting in settings])
    x = np.array([float(setting.value) for setting in settings])
    axis, judges = settings[0].spec.axis, json.loads(ds.attrs["judges"])
    told = [f"r, the relative loss of accuracy, as lines; accepted below {ds.attrs['accept']:g}."]
    for c, name in enumerate(part["classifier"].to_numpy()):
        r = part["r_mean"].to_numpy()[:, c]
        say = "" if name in judges else ", no judge"
        told.append(f"{name}{say}: {_course(axis, x, r, '.3f')}.")
    for kind in ("published", "chosen"):
        for s in np.flatnonzero(part[kind].to_numpy() == 1):
            r = part["r_mean"].to_numpy()[s]
            values = ", ".join(
                f"{name} {value:.3f}"
                for name, value in zip(part["classifier"].to_numpy(), r, strict=True)
            )
            told.append(f"At the {kind} {axis} = {x[s]:g}: {values}.")
    return told


def _front(ds: xr.Dataset, figure: FrontFigure) -> list[str]:
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
                told.append(f"{case}, {method}: {_course('privacy', x, line[order], '.2e')}.")
        if not iterative:
            limit = part["limit"].to_numpy()[order]
            name = NAMES["limit"] if is_attained(part) else LOWER
            told.append(f"{case}, {name}: {_course('privacy', x, limit, '.2e')}.")
    return told
