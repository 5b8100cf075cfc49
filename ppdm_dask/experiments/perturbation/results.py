"""Results on perturbed data: variables, findings, tables, JSON and figures."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ppdm_dask.drawing import style
from ppdm_dask.drawing.texts import course, plain_table, plain_value
from ppdm_dask.experiments.variables import Variable

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.axes import Axes
    from rich.table import Table

    from ppdm_dask.experiments.perturbation.recipe import PerturbationRecipe, Plot, Setting


def draw(ds: xr.Dataset, recipe: PerturbationRecipe, figure: Plot, folder: Path) -> list[Path]:
    """Draw r of each classifier against the parameter of an entry."""
    settings = _settings_of(recipe, figure)
    part = ds.isel(data=settings[0].data).sel(setting=[s.label for s in settings])
    x = np.array([float(s.value) for s in settings])
    below = (
        f"{int(part['completed'].max()):,} splits, with 95 % intervals of the mean; "
        "dashed: classifiers that have no say in the choice"
    )
    canvas, axes = style.new_figure(figure.title, below)
    accept = float(ds.attrs["accept"])
    axes.axhline(accept, color=style.GREY, linewidth=1.1, linestyle=(0, (1, 1.5)), zorder=1)
    _draw_lines(axes, part, x, json.loads(ds.attrs["judges"]))
    for kind, height in (("chosen", 0.99), ("published", 0.8)):
        for at in x[part[kind].to_numpy() == 1]:
            _mark(axes, at, kind, height)
    axis = settings[0].spec.axis
    axes.set_xlabel(style.WORDS.get(axis, axis))
    axes.set_ylabel("$r$: relative loss of accuracy")
    style.legend(axes, axes.get_legend_handles_labels()[0], loc="upper right")
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


SETTING = ("data", "setting")
TRIAL = ("data", "setting", "repeat")
JUDGED = ("data", "setting", "classifier")

METRICS: dict[str, tuple[str, str]] = {
    "vd": ("1", "VD, relative distance of release and original in the Frobenius norm"),
    "rp": ("ranks", "RP, mean absolute change of a value's rank within its column"),
    "rk": ("1", "RK, share of values that keep their rank within their column"),
    "cp": ("ranks", "CP, mean absolute change of a column's rank among the column means"),
    "ck": ("1", "CK, share of columns that keep their rank among the column means"),
    "linkage": ("1", "linkage, share of released records whose nearest original is their own"),
    "interval": ("1", "interval disclosure, share of values released close to the original"),
}
"""Metrics of a release: units and meaning."""


def _mean(prefix: str, dims: tuple[str, ...], units: str, what: str) -> tuple[Variable, ...]:
    mean = f"Mean over the repeats of {what}; NaN where there are none."
    error = f"Standard error of the mean of {what}; NaN below two repeats."
    return (
        Variable(f"{prefix}_mean", dims, "float64", units, mean, "derived"),
        Variable(f"{prefix}_mean_se", dims, "float64", units, error, "derived"),
    )


PERTURBATION_REGISTRY: tuple[Variable, ...] = (
    Variable("n_train", ("data",), "int32", "records", "Records in the training part."),
    Variable("n_test", ("data",), "int32", "records", "Records in the test part."),
    Variable(
        "undefined",
        SETTING,
        "str",
        "",
        "Why there are no numbers for a setting on these data; empty where there are.",
    ),
    Variable(
        "entry", SETTING, "str", "", "Entry [[perturb]] of the recipe that the setting belongs to."
    ),
    Variable("parameter", SETTING, "str", "", "The parameter that its entry sweeps."),
    Variable("value", SETTING, "float64", "1", "Value of that parameter."),
    Variable(
        "published", SETTING, "int32", "1", "1 for the paper's setting, 0 for others, -1: none."
    ),
    Variable(
        "benchmark_correct",
        ("data", "classifier", "repeat"),
        "int32",
        "records",
        "Test records predicted correctly after training on the original; -1 where not computed.",
    ),
    Variable(
        "majority_correct",
        ("data", "repeat"),
        "int32",
        "records",
        "Test records of the class that is the most frequent in the training part.",
    ),
    Variable(
        "correct",
        (*JUDGED, "repeat"),
        "int32",
        "records",
        "Test records predicted correctly after training on the release; -1 where not computed.",
    ),
    *(
        Variable(
            name, TRIAL, "float64", units, f"{what[0].upper()}{what[1:]}, of the training part."
        )
        for name, (units, what) in METRICS.items()
    ),
    Variable("completed", SETTING, "int32", "repeats", "Repeats that are computed.", "derived"),
    *_mean("benchmark", ("data", "classifier"), "1", "the accuracy after training on the original"),
    *_mean("majority", ("data",), "1", "the accuracy of predicting the most frequent class"),
    *_mean("accuracy", JUDGED, "1", "the accuracy after training on the release"),
    *_mean("r", JUDGED, "1", "r = (R_o - R_p) / R_o, the relative loss of accuracy"),
    *_mean(
        "delta_r",
        JUDGED,
        "1",
        "Delta R = R_p - (1 - a) R_o, with a the recipe's `accept`; above 0 the use is acceptable",
    ),
    *(
        variable
        for name, (units, what) in METRICS.items()
        for variable in _mean(name, SETTING, units, what.partition(",")[0])
    ),
    Variable(
        "chosen",
        SETTING,
        "int32",
        "1",
        "1 for the most private setting of its entry where the mean of r is below the recipe's "
        "`accept` for every judge, 0 for others; -1 while not all of them are computed.",
        "derived",
    ),
)


def findings(ds: xr.Dataset) -> list[str]:
    """Sentences on the choice of each method's parameter, by data entry and ``[[perturb]]``."""
    found: list[str] = []
    for i, name in enumerate(ds["data"].to_numpy()):
        part = ds.isel(data=i)
        entries = [str(entry) for entry in part["entry"].to_numpy() if entry]
        for entry in dict.fromkeys(entries):
            rows = np.flatnonzero(part["entry"].to_numpy() == entry)
            found += _choice(part.isel(setting=rows), str(name), entry)
    return found


def _choice(part: xr.Dataset, name: str, entry: str) -> Iterator[str]:
    chosen = part["chosen"].to_numpy()
    if (chosen < 0).any():
        return  # not all settings are computed
    accept, judges = part.attrs["accept"], json.loads(part.attrs["judges"])
    if (chosen == 1).any():
        label, worst = _worst(part, judges, int(np.argmax(chosen)))
        yield (
            f"{name}, {entry}: {label} is the most private setting with r < {accept:g} for "
            f"{', '.join(judges)}; the largest r is {worst}."
        )
    else:
        worst_r = part["r_mean"].sel(classifier=judges).max("classifier").to_numpy()
        label, worst = _worst(part, judges, int(np.argmin(worst_r)))
        yield (
            f"{name}, {entry}: no setting has r < {accept:g} for {', '.join(judges)}; "
            f"{label} comes closest, with r = {worst}."
        )
    published = part["published"].to_numpy() == 1
    if published.any() and not (published & (chosen == 1)).any():
        label, worst = _worst(part, judges, int(np.argmax(published)))
        yield f"{name}, {entry}: at the published setting, {label}, the largest r is {worst}."


def _worst(part: xr.Dataset, judges: list[str], s: int) -> tuple[str, str]:
    """Label of a setting, and the largest r of any judge as text."""
    row = part.isel(setting=s).sel(classifier=judges)
    c = int(np.argmax(row["r_mean"].to_numpy()))
    r, error = float(row["r_mean"][c]), float(row["r_mean_se"][c])
    return str(row["setting"].item()), f"{r:.4f} ± {error:.4f} ({judges[c]})"


# As many as a standard error of some hundred repeats leaves of use.
DIGITS = {"vd": 3, "rp": 2, "rk": 4, "cp": 2, "ck": 2, "linkage": 4, "interval": 3}


def as_json(ds: xr.Dataset) -> dict[str, Any]:
    """Return a result as JSON values: data entries and settings; null where no number is."""
    classifiers = [str(name) for name in ds["classifier"].to_numpy()]
    measures = [f"{name}_{part}" for name in METRICS for part in ("mean", "mean_se")]
    judged = [f"{n}_{part}" for n in ("accuracy", "r", "delta_r") for part in ("mean", "mean_se")]
    plain = ("entry", "parameter", "value", "published", "chosen", "completed")
    data, cells = [], []
    for i, name in enumerate(ds["data"].to_numpy()):
        part = ds.isel(data=i)
        row: dict[str, Any] = {"id": str(name)}
        row |= {
            key: plain_value(part[key].item()) for key in ("n_train", "n_test", "majority_mean")
        }
        row["benchmark"] = _by_classifier(
            part, classifiers, ("benchmark_mean", "benchmark_mean_se")
        )
        data.append(row)
        for s in _asked(part):
            cell = part.isel(setting=s)
            found = {"data": str(name), "setting": str(cell["setting"].item())}
            found |= {key: plain_value(cell[key].item()) for key in (*plain, *measures)}
            cells.append({**found, "classifiers": _by_classifier(cell, classifiers, tuple(judged))})
    return {"data": data, "cells": cells}


def _by_classifier(
    part: xr.Dataset, classifiers: list[str], keys: tuple[str, ...]
) -> dict[str, dict[str, Any]]:
    return {
        name: {key: plain_value(part[key].to_numpy()[c]) for key in keys}
        for c, name in enumerate(classifiers)
    }


def tables(ds: xr.Dataset) -> Iterator[tuple[str, Table]]:
    """Headings and tables, three a data entry: metrics, disclosure, and loss of accuracy."""
    for i, name in enumerate(ds["data"].to_numpy()):
        part = ds.isel(data=i)
        marked = [s for s in _asked(part) if part["published"][s] == 1 or part["chosen"][s] == 1]
        about = (
            f"{name}: {int(part['n_train']):,} training and {int(part['n_test']):,} test records"
        )
        yield f"{about}\n{_level(part)}\nmetrics (± SE) of {_MARKED}", _metrics(part, marked, 0, 5)
        width = f"{100 * ds.attrs['interval']:g} %"
        yield (
            f"{name}: share (± SE) of records linked, and of values within {width} of the range",
            _metrics(part, marked, 5, 7),
        )
        accept = ds.attrs["accept"]
        yield (
            f"{name}: r (± SE) in %: relative loss of accuracy; accepted below {100 * accept:g} %",
            _losses(part),
        )


_MARKED = "published (*) and chosen (+) settings"


def _asked(part: xr.Dataset) -> list[int]:
    """Positions of the settings that the recipe asks for on a data entry."""
    return [int(s) for s in np.flatnonzero(part["undefined"].to_numpy() == "")]


def _level(part: xr.Dataset) -> str:
    levels = [
        f"{name} {mean:.3f}"
        for name, mean in zip(
            part["classifier"].to_numpy(), part["benchmark_mean"].to_numpy(), strict=True
        )
    ]
    levels.append(f"majority {float(part['majority_mean']):.3f}")
    return textwrap.fill(f"accuracy on the original: {', '.join(levels)}", 80)


def _label(part: xr.Dataset, s: int) -> str:
    marks = "*" if part["published"][s] == 1 else ""
    marks += "+" if part["chosen"][s] == 1 else ""
    return f"{part['setting'].to_numpy()[s]} {marks}".rstrip()


def _estimate(mean: float, error: float, digits: int) -> str:
    if np.isnan(mean):
        return ""
    return f"{mean:.{digits}f}" + ("" if np.isnan(error) else f"±{error:.{digits}f}")


def _metrics(part: xr.Dataset, rows: list[int], first: int, last: int) -> Table:
    names = list(METRICS)[first:last]
    header = ["setting", *(name.upper() if first == 0 else name for name in names)]
    texts = [
        [
            _label(part, s),
            *(
                _estimate(
                    float(part[f"{name}_mean"][s]), float(part[f"{name}_mean_se"][s]), DIGITS[name]
                )
                for name in names
            ),
        ]
        for s in rows
    ]
    return _table(header, texts)


def _losses(part: xr.Dataset) -> Table:
    header = ["setting", *(str(name) for name in part["classifier"].to_numpy())]
    r, error = 100 * part["r_mean"].to_numpy(), 100 * part["r_mean_se"].to_numpy()
    rows = [
        [
            _label(part, s),
            *(_estimate(r[s, c], error[s, c], 1) for c in range(r.shape[1])),
        ]
        for s in _asked(part)
    ]
    return _table(header, rows)


def _table(header: list[str], rows: list[list[str]]) -> Table:
    table = plain_table(header, rows, right=range(1, len(header)))
    table.columns[0].no_wrap = True  # a setting's name is what one looks a row up by
    return table
