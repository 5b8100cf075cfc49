"""Results of a sweep as tables of text, and as plain values for JSON."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import product
from typing import TYPE_CHECKING, Any

from ppdm_dask.drawing.tables import brief, estimate, fixed, plain_table, plain_value, small
from ppdm_dask.experiments.grid import grid_axes
from ppdm_dask.experiments.sweep.variables import DISCLOSURES

if TYPE_CHECKING:
    import xarray as xr
    from rich.console import RenderableType

__all__ = ["as_json", "tables", "undefined_cells"]


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
    return {
        "data": [
            {"id": name, **{key: plain_value(ds[key][i].item()) for key in ENTRY_VALUES}}
            for i, name in enumerate(_names(ds))
        ],
        "cells": [row for i in range(ds.sizes["data"]) for row in _rows(ds, i)],
    }


def tables(ds: xr.Dataset) -> Iterator[tuple[str, RenderableType]]:
    """Headings and tables, one each for a data entry."""
    for i in range(ds.sizes["data"]):
        yield _heading(ds, i), _table(ds, i)


def _heading(ds: xr.Dataset, i: int) -> str:
    """Name a data entry, its parts, and the accuracies to compare with."""
    entry = ds.isel(data=i)
    return (
        f"{entry['data'].item()}: {int(entry['n_train']):,} training and "
        f"{int(entry['n_test']):,} test records\n"
        f"undisguised accuracy {float(entry['benchmark']):.4f}, "
        f"majority class {float(entry['majority']):.4f}"
    )


def _table(ds: xr.Dataset, i: int) -> RenderableType:
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
                    estimate(row[f"{part}_mean"], row[f"{part}_mean_se"]),
                    small(row[f"{part}_variance"]),
                )
            ]
        privacy = [fixed(row["pse"], 4)] if "pse" in ds else []
        share = fixed(row["negative_share"], 3) if trees else fixed(row["floored_mean"], 1)
        last = str(row["completed"]) if partial else share
        cells = [brief(row[axis]), *numbers, *privacy, "" if row["undefined"] else last]
        where = ", ".join(f"{name} = {brief(row[name])}" for name in outer)
        parts.setdefault(where, []).append(cells)
    everything = [line.split("\n") for line in header]
    widths = [max(map(len, lines)) for lines in everything]
    for cells in (cells for rows in parts.values() for cells in rows):
        widths = [max(width, len(cell)) for width, cell in zip(widths, cells, strict=True)]
    found: list[RenderableType] = []
    for where, rows in parts.items():
        if outer:
            found.append(Text(f"{where}\n" if not found else f"\n{where}\n"))
        found.append(plain_table(header, rows, right=range(len(header)), widths=widths))
    return Group(*found)


def undefined_cells(ds: xr.Dataset) -> list[str]:
    """Where cells are undefined, and why, each reason once."""
    axes = grid_axes(ds)
    notes: dict[str, dict[tuple[str, ...], None]] = {}  # the inner one as a set that keeps order
    for row in (row for i in range(ds.sizes["data"]) for row in _rows(ds, i)):
        if row["undefined"]:
            where = tuple(f"{axis} = {brief(row[axis])}" for axis in axes)
            notes.setdefault(row["undefined"], {})[where] = None
    sizes = [ds.sizes[axis] for axis in axes]
    return [
        f"at {'; '.join(_places(list(cells), sizes))}: {reason}" for reason, cells in notes.items()
    ]


def _places(cells: list[tuple[str, ...]], sizes: list[int]) -> list[str]:
    """Name cells by one axis, where it alone decides."""
    for axis, size in enumerate(sizes):
        values = list(dict.fromkeys(cell[axis] for cell in cells))
        if len(cells) * size == len(values) * math.prod(sizes):
            return values
    return [", ".join(cell) for cell in cells]


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
