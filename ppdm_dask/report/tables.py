"""Results as tables of text, and as plain values for JSON."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import product
from typing import TYPE_CHECKING, Any

from ppdm_dask.experiments.results import grid_axes

if TYPE_CHECKING:
    import xarray as xr
    from rich.table import Table

__all__ = [
    "as_json",
    "entry_heading",
    "entry_table",
    "plain_table",
    "plain_value",
    "undefined_notes",
]

CELL_VALUES = (
    "completed",
    "accuracy_mean",
    "accuracy_mean_se",
    "accuracy_variance",
    "accuracy_variance_se",
    "disguised_mean",
    "disguised_mean_se",
    "disguised_variance",
    "disguised_variance_se",
    "floored_mean",
    "pse",
    "undefined",
)
ENTRY_VALUES = ("n_train", "n_test", "benchmark", "majority")


def as_json(ds: xr.Dataset) -> dict[str, Any]:
    """Return a result as JSON values: its data entries and its cells; null where no number is."""
    if ds.attrs.get("experiment") == "perturbation":
        from ppdm_dask.report.perturbation import perturbation_json

        return perturbation_json(ds)
    return {
        "data": [
            {"id": name, **{key: plain_value(ds[key][i].item()) for key in ENTRY_VALUES}}
            for i, name in enumerate(_names(ds))
        ],
        "cells": [row for i in range(ds.sizes["data"]) for row in _rows(ds, i)],
    }


def entry_heading(ds: xr.Dataset, i: int) -> str:
    """Name a data entry, its parts, and the accuracies to compare with."""
    entry = ds.isel(data=i)
    return (
        f"{entry['data'].item()}: {int(entry['n_train']):,} training and "
        f"{int(entry['n_test']):,} test records\n"
        f"undisguised accuracy {float(entry['benchmark']):.4f}, "
        f"majority class {float(entry['majority']):.4f}"
    )


def entry_table(ds: xr.Dataset, i: int) -> Table:
    """Make the table of a data entry, one row a cell; 80 columns hold it with one grid axis."""
    axes = grid_axes(ds)
    partial = bool(((ds["completed"] < ds.sizes["repeat"]) & (ds["undefined"] == "")).any())
    header = [
        *axes,
        "clean test:\naccuracy ± SE",
        "\nvariance",
        "disguised test:\naccuracy ± SE",
        "\nvariance",
        *(["\nPSE"] if "pse" in ds else []),
        "repeats\ndone" if partial else "\nfloored",
    ]
    rows = []
    for row in _rows(ds, i):
        if row["undefined"]:
            numbers = ["undefined", "", "undefined", ""]
        else:
            numbers = [
                text
                for part in ("accuracy", "disguised")
                for text in (
                    _estimate(row[f"{part}_mean"], row[f"{part}_mean_se"]),
                    _small(row[f"{part}_variance"]),
                )
            ]
        privacy = [_fixed(row["pse"], 4)] if "pse" in ds else []
        last = str(row["completed"]) if partial else _fixed(row["floored_mean"], 1)
        where = [_plain(row[axis]) for axis in axes]
        rows.append([*where, *numbers, *privacy, "" if row["undefined"] else last])
    return plain_table(header, rows, right=range(len(header)))


def undefined_notes(ds: xr.Dataset) -> list[str]:
    """Say why cells are undefined, each reason once."""
    axes = grid_axes(ds)
    notes: dict[str, dict[str, None]] = {}  # the inner one as a set that keeps its order
    for row in (row for i in range(ds.sizes["data"]) for row in _rows(ds, i)):
        if row["undefined"]:
            where = ", ".join(f"{axis} = {_plain(row[axis])}" for axis in axes)
            notes.setdefault(row["undefined"], {})[where] = None
    return [f"undefined at {'; '.join(where)}: {reason}" for reason, where in notes.items()]


def plain_table(
    header: Sequence[str], rows: Sequence[Sequence[str]], right: Sequence[int] = ()
) -> Table:
    """Make a table with a rule below its header; columns in `right` are flush right."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, padding=(0, 0, 0, 1))
    for i, name in enumerate(header):
        number = i in right
        table.add_column(
            Text(name),
            justify="right" if number else "left",
            no_wrap=number,
        )
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    return table


def _names(ds: xr.Dataset) -> list[str]:
    return [str(name) for name in ds["data"].to_numpy()]


def _rows(ds: xr.Dataset, i: int) -> list[dict[str, Any]]:
    """Return the cells of a data entry as plain values, the last axis running fastest."""
    axes = grid_axes(ds)
    entry = ds.isel(data=i)
    columns = {key: entry[key].to_numpy() for key in CELL_VALUES if key in entry}
    rows = []
    for index in product(*(range(ds.sizes[axis]) for axis in axes)):
        row: dict[str, Any] = {"data": _names(ds)[i]}
        for axis, k in zip(axes, index, strict=True):
            row[axis] = plain_value(ds[axis].to_numpy()[k])
        rows.append(row | {key: plain_value(column[index]) for key, column in columns.items()})
    return rows


def plain_value(value: Any) -> Any:
    """Return a JSON value; None for a NaN."""
    plain = value.item() if hasattr(value, "item") else value
    return None if isinstance(plain, float) and math.isnan(plain) else plain


def _plain(value: str | bool | int | float) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _fixed(value: float | None, digits: int) -> str:
    return "" if value is None else f"{value:.{digits}f}"


def _small(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:.2e}" if value else "0"


def _estimate(mean: float | None, error: float | None) -> str:
    return _fixed(mean, 4) if error is None else f"{mean:.4f} ± {error:.4f}"
