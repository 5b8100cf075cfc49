"""Results as tables of text, and as plain values for JSON."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import product
from typing import TYPE_CHECKING, Any

from ppdm_dask.experiments.results import grid_axes
from ppdm_dask.experiments.variables import DISCLOSURES
from ppdm_dask.shown import printable

if TYPE_CHECKING:
    import xarray as xr
    from rich.console import RenderableType
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
    "negative_share",
    "pse",
    *DISCLOSURES,
    "undefined",
)
ENTRY_VALUES = ("n_train", "n_test", "benchmark", "majority")


def as_json(ds: xr.Dataset) -> dict[str, Any]:
    """Return a result as JSON values: its data entries and its cells; null where no number is."""
    if ds.attrs.get("experiment") == "front":
        from ppdm_dask.experiments.fronts.tables import front_json

        return front_json(ds)
    if ds.attrs.get("experiment") == "perturbation":
        from ppdm_dask.experiments.perturbation.tables import perturbation_json

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


def entry_table(ds: xr.Dataset, i: int) -> RenderableType:
    """Make the table of a data entry, one row a cell, at most 80 columns wide as a rule.

    The rows are those of the grid's last axis; each combination of the others has its own table
    below their values.
    """
    from rich.console import Group
    from rich.text import Text

    *outer, axis = grid_axes(ds)
    partial = bool(((ds["completed"] < ds.sizes["repeat"]) & (ds["undefined"] == "")).any())
    trees = "negative_share" in ds
    header = [
        axis,
        "clean test:\naccuracy ± SE",
        "\nvariance",
        "disguised test:\naccuracy ± SE",
        "\nvariance",
        *(["least\nPSE"] if "pse" in ds else []),
        "repeats\ndone" if partial else "\nnegative" if trees else "\nfloored",
    ]
    parts: dict[str, list[list[str]]] = {}
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
        share = _fixed(row["negative_share"], 3) if trees else _fixed(row["floored_mean"], 1)
        last = str(row["completed"]) if partial else share
        cells = [_plain(row[axis]), *numbers, *privacy, "" if row["undefined"] else last]
        where = ", ".join(f"{name} = {_plain(row[name])}" for name in outer)
        parts.setdefault(where, []).append(cells)
    everything = [line.split("\n") for line in header]
    widths = [max(map(len, lines)) for lines in everything]
    for cells in (cells for rows in parts.values() for cells in rows):
        widths = [max(width, len(cell)) for width, cell in zip(widths, cells, strict=True)]
    tables: list[RenderableType] = []
    for where, rows in parts.items():
        if outer:
            tables.append(Text(f"{where}\n" if not tables else f"\n{where}\n"))
        tables.append(plain_table(header, rows, right=range(len(header)), widths=widths))
    return Group(*tables)


def undefined_notes(ds: xr.Dataset) -> list[str]:
    """Say why cells are undefined, each reason once."""
    axes = grid_axes(ds)
    notes: dict[str, dict[tuple[str, ...], None]] = {}  # the inner one as a set that keeps order
    for row in (row for i in range(ds.sizes["data"]) for row in _rows(ds, i)):
        if row["undefined"]:
            where = tuple(f"{axis} = {_plain(row[axis])}" for axis in axes)
            notes.setdefault(row["undefined"], {})[where] = None
    sizes = [ds.sizes[axis] for axis in axes]
    return [
        f"undefined at {'; '.join(_places(list(cells), sizes))}: {reason}"
        for reason, cells in notes.items()
    ]


def _places(cells: list[tuple[str, ...]], sizes: list[int]) -> list[str]:
    """Name cells by one axis, where it alone decides."""
    for axis, size in enumerate(sizes):
        values = list(dict.fromkeys(cell[axis] for cell in cells))
        if len(cells) * size == len(values) * math.prod(sizes):
            return values
    return [", ".join(cell) for cell in cells]


def plain_table(
    header: Sequence[str],
    rows: Sequence[Sequence[str]],
    right: Sequence[int] = (),
    widths: Sequence[int] | None = None,
) -> Table:
    """Make a table with a rule below its header.

    Columns in `right` are flush right; each is at least as wide as `widths` say.
    """
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, padding=(0, 0, 0, 1))
    for i, name in enumerate(header):
        number = i in right
        table.add_column(
            Text(printable(name, keep="\n")),
            justify="right" if number else "left",
            no_wrap=number,
            min_width=widths[i] if widths else None,
        )
    for row in rows:
        table.add_row(*(Text(printable(cell, keep="\n")) for cell in row))
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
    """A mean with its standard error, with no more digits than a large one leaves of use."""
    if mean is None or error is None:
        return _fixed(mean, 4)
    digits = 4 if error < 0.1 else 2 if error < 10 else 0
    return f"{mean:.{digits}f} ± {error:.{digits}f}"
