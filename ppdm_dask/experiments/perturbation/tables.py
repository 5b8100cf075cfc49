"""Results of a perturbation experiment as tables of text, and as plain values for JSON.

Beside it: what a reader of a perturbation's result must know: which settings are of use, and which
not.
"""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from ppdm_dask.drawing.tables import plain_table, plain_value
from ppdm_dask.experiments.perturbation.variables import METRICS

if TYPE_CHECKING:
    import xarray as xr
    from rich.table import Table

__all__ = ["as_json", "findings", "tables"]


def findings(ds: xr.Dataset) -> list[str]:
    """Sentences on the choice of each method's parameter.

    Parameters
    ----------
    ds : xarray.Dataset
        A result as ``build_dataset`` makes it.

    Returns
    -------
    list of str
        In the order of the data entries and the recipe's ``[[perturb]]``.
    """
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
        return
    accept, judges = part.attrs["accept"], json.loads(part.attrs["judges"])
    if (chosen == 1).any():
        label, worst = _worst(part, judges, int(np.argmax(chosen)))
        yield (
            f"{name}, {entry}: {label} is the most private setting with r < {accept:g} for "
            f"{', '.join(judges)}; the largest r is {worst}."
        )
    else:
        label, worst = min((_worst(part, judges, s) for s in range(len(chosen))), key=_r)
        yield (
            f"{name}, {entry}: no setting has r < {accept:g} for {', '.join(judges)}; "
            f"{label} comes closest, with r = {worst}."
        )
    published = part["published"].to_numpy() == 1
    if published.any() and not (published & (chosen == 1)).any():
        label, worst = _worst(part, judges, int(np.argmax(published)))
        yield f"{name}, {entry}: at the published setting, {label}, the largest r is {worst}."


def _worst(part: xr.Dataset, judges: list[str], s: int) -> tuple[str, str]:
    """Label of a setting, and the largest r of any judge in words."""
    row = part.isel(setting=s).sel(classifier=judges)
    c = int(np.argmax(row["r_mean"].to_numpy()))
    r, error = float(row["r_mean"][c]), float(row["r_mean_se"][c])
    return str(row["setting"].item()), f"{r:.4f} ± {error:.4f} ({judges[c]})"


def _r(choice: tuple[str, str]) -> float:
    return float(choice[1].split(" ", 1)[0])


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
    table.columns[0].no_wrap = True
    return table
