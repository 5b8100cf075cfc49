"""Results of a perturbation experiment as tables of text, and as plain values for JSON."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from ppdm_dask.experiments.perturbation.variables import METRICS
from ppdm_dask.experiments.sweep.tables import plain_table, plain_value

if TYPE_CHECKING:
    import xarray as xr
    from rich.table import Table

__all__ = ["perturbation_json", "perturbation_tables"]


DIGITS = {"vd": 3, "rp": 2, "rk": 4, "cp": 2, "ck": 2, "linkage": 4, "interval": 3}


def perturbation_json(ds: xr.Dataset) -> dict[str, Any]:
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


def perturbation_tables(ds: xr.Dataset) -> Iterator[tuple[str, Table]]:
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
