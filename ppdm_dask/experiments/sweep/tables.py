"""Results of a sweep as findings, tables of text, and plain values for JSON.

Findings are what goes against expectation, each well beyond its standard error, and how a grid of
several axes behaves as a whole.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import pairwise, product
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ppdm_dask.arrays import Bools
from ppdm_dask.drawing.texts import brief, estimate, fixed, plain_table, plain_value, small
from ppdm_dask.experiments.grid import (
    ERRORS,
    FEWEST,
    MORE_DISGUISE,
    Line,
    grid_axes,
    lines_of,
    moments,
)
from ppdm_dask.experiments.sweep.results import ADVERSARIES, DISCLOSURES

if TYPE_CHECKING:
    import xarray as xr
    from rich.console import RenderableType


def trends(ds: xr.Dataset) -> list[str]:
    """Sentences on the axes of a grid, two or more, and on the data entries.

    For each data entry and axis, in how many steps towards more disguise the mean accuracy falls
    and its variance grows; then what each data entry loses of its undisguised accuracy.
    """
    if len(grid_axes(ds)) < 2:
        return []
    found: list[str] = []
    names = _names(ds)
    for i, name in enumerate(names):
        lines = list(lines_of(ds.isel(data=i), name))
        for axis, way in MORE_DISGUISE.items():
            found += _steps(name, way, [line for line in lines if line.axis == axis])
    if found and len(names) > 1:
        found += _losses(ds, names)
    return found


def _steps(name: str, way: str, lines: list[Line]) -> Iterator[str]:
    """In how many steps towards more disguise things go as expected, and against it."""
    n = falls = clear_falls = clear_rises = grows = clear_grows = clear_shrinks = 0
    for line in lines:
        mean, spread = _differences(line, "mean"), _differences(line, "variance")
        # Cells may be equal to the bit, such as theta = 1 with any number of groups: no step.
        differ = (mean[0] != 0) | (spread[0] != 0)
        n += int(differ.sum())
        falls += int((mean[0] > 0).sum())
        clear_falls += int(mean[1].sum())
        clear_rises += int(mean[2].sum())
        grows += int((spread[0] < 0).sum())
        clear_grows += int(spread[2].sum())
        clear_shrinks += int(spread[1].sum())
    if n:
        yield (
            f"{name}: {way}, mean accuracy falls in {falls} of {n} steps (by more than "
            f"{ERRORS:g} standard errors in {clear_falls}; it rises by more in {clear_rises}), "
            f"and its variance grows in {grows} (by more in {clear_grows}; it shrinks by more in "
            f"{clear_shrinks})."
        )


def _differences(line: Line, moment: str) -> tuple[npt.NDArray[np.float64], Bools, Bools]:
    """By how much each value exceeds the one before, and whether it is clearly more or less."""
    values, se = line.column(f"accuracy_{moment}"), line.column(f"accuracy_{moment}_se")
    difference, error = np.diff(values), np.hypot(se[1:], se[:-1])
    return difference, difference > ERRORS * error, -difference > ERRORS * error


def _losses(ds: xr.Dataset, names: list[str]) -> Iterator[str]:
    """What each data entry loses, over the cells that all of them have."""
    enough = (ds["completed"] >= FEWEST).all("data").to_numpy()
    n = int(enough.sum())
    if not n:
        return
    losses = []
    for i, name in enumerate(names):
        mean = ds["accuracy_mean"][i].to_numpy()[enough]
        se = ds["accuracy_mean_se"][i].to_numpy()[enough]
        loss = float(ds["benchmark"][i]) - math.fsum(mean) / n
        losses.append((loss, math.sqrt(math.fsum(se**2)) / n, name))
    told = ", ".join(
        f"{name} {loss:.4f} ± {error:.4f}"
        for loss, error, name in sorted(losses, key=lambda each: -each[0])
    )
    yield f"Accuracy lost against the undisguised learner, mean of {n} cells: {told}."


KEPT = 0.5
"""Share of an adversary's largest advantage that is worth a finding where no cell goes below."""

AGREEMENT_SD = 0.2
"""Standard deviation below which clean and disguised test parts are compared."""


def findings(ds: xr.Dataset) -> list[str]:
    """Sentences on what goes against expectation in a result, by data entry.

    Along the grid's axes, from the most disguise to the least, the mean accuracy is expected to
    rise and its variance to fall.  A reversal counts where it exceeds ``ERRORS`` standard errors
    of the difference between its two ends; cells with fewer than ``FEWEST`` repeats are passed
    over.  For grids of several axes, how often things go as expected is said too.
    """
    found: list[str] = []
    grid = grid_axes(ds)
    for i, name in enumerate(_names(ds)):
        benchmark, majority = float(ds["benchmark"][i]), float(ds["majority"][i])
        # Then no disguise is to blame for a poor accuracy.
        if benchmark < majority:
            found.append(
                f"{name}: on the test part the undisguised learner ({benchmark:.4f}) scores below "
                f"the majority class ({majority:.4f})."
            )
        found += [*_constant_attributes(ds, name), *_disclosures(ds.isel(data=i), name)]
        for line in lines_of(ds.isel(data=i), name):
            found += [*_above_the_end(line), *_falls(line), *_rises(line)]
            if line.axis == grid[0]:  # lines along other axes have the same cells
                found += _disagreements(line)
    return [*trends(ds), *found]


def _constant_attributes(ds: xr.Dataset, name: str) -> Iterator[str]:
    """Name the attributes that no design can hide, since they never vary."""
    if "pse_attribute" not in ds:
        return
    columns = [str(column) for column in ds["column"].to_numpy()]
    constant = [
        column.partition("/")[2]
        for column, pse in zip(columns, ds["pse_attribute"].to_numpy(), strict=True)
        if column.startswith(f"{name}/") and not pse.any()
    ]
    if constant:
        yield (
            f"{name}: only one category occurs of {', '.join(constant)}, "
            "so the least PSE of a reader of one answer is 0."
        )


def _disclosures(entry: xr.Dataset, name: str) -> Iterator[str]:
    """Adversaries who keep most of what they can learn however much is disguised."""
    for adversary, knows in ADVERSARIES.items():
        if f"advantage_{adversary}" not in entry:
            continue
        advantage = entry[f"advantage_{adversary}"].to_numpy()
        low, high = float(advantage.min()), float(advantage.max())
        if advantage.size > 1 and low > KEPT * high:
            yield (
                f"{name}: an adversary who {knows} guesses some attribute right at least "
                f"{low:.3f} more often than without a report, whatever the cell, and at most "
                f"{high:.3f}."
            )


def _runs(flags: list[bool]) -> Iterator[tuple[int, int]]:
    """First and last position of each run of true flags."""
    start = None
    for i, flag in enumerate([*flags, False]):  # the last one ends a run that is still open
        if flag and start is None:
            start = i
        elif not flag and start is not None:
            yield start, i - 1
            start = None


def _beyond(high: float, high_se: float, low: float, low_se: float) -> bool:
    return high - low > ERRORS * math.hypot(high_se, low_se)


def _above_the_end(line: Line) -> Iterator[str]:
    mean, se = line.column("accuracy_mean"), line.column("accuracy_mean_se")
    above = [_beyond(mean[i], se[i], mean[-1], se[-1]) for i in range(len(mean) - 1)]
    for first, last in _runs(above):
        top = first + int(np.argmax(mean[first : last + 1]))
        span = line.where(first) + (f" ... {line.at[last]:g}" if last > first else "")
        yield (
            f"{line.name}: mean accuracy at {span} lies above that at {line.where(-1)} "
            f"({mean[-1]:.4f}), most at {line.where(top)} ({mean[top]:.4f})."
        )


def _falls(line: Line) -> Iterator[str]:
    mean, se = line.column("accuracy_mean"), line.column("accuracy_mean_se")
    for first, last in _runs([after < before for before, after in pairwise(mean)]):
        end = last + 1
        # A fall down to the end of the axis is reported by `_above_the_end`.
        if end < len(mean) - 1 and _beyond(mean[first], se[first], mean[end], se[end]):
            yield (
                f"{line.name}: mean accuracy falls from {mean[first]:.4f} at {line.where(first)} "
                f"to {mean[end]:.4f} at {line.where(end)}, where it is expected to rise."
            )


def _rises(line: Line) -> Iterator[str]:
    variance, se = line.column("accuracy_variance"), line.column("accuracy_variance_se")
    for first, last in _runs([after > before for before, after in pairwise(variance)]):
        end = last + 1
        if _beyond(variance[end], se[end], variance[first], se[first]):
            yield (
                f"{line.name}: variance of accuracy rises from {variance[first]:.2e} at "
                f"{line.where(first)} to {variance[end]:.2e} at {line.where(end)}, "
                "where it is expected to fall."
            )


def _disagreements(line: Line) -> Iterator[str]:
    """Clean and disguised test parts score the same learner, so their difference is paired."""
    n_test = int(line.cells["n_test"])
    for i, disguised in enumerate(line.column("disguised_mean")):
        # Near theta = 1/2 an estimate says so little that its standard error is not a guide either.
        if math.sqrt(line.column("disguised_variance")[i]) >= AGREEMENT_SD:
            continue
        cell = line.cells.isel({line.axis: i})
        correct, estimate = cell["correct"].to_numpy(), cell["accuracy_disguised"].to_numpy()
        there = correct >= 0
        difference = moments(estimate[there] - correct[there] / n_test)
        if abs(difference.mean) > ERRORS * difference.mean_se + 1e-12:
            clean = line.column("accuracy_mean")[i]
            yield (
                f"{line.name}: at {line.where(i)} the disguised test part ({disguised:.4f}) and "
                f"the clean one ({clean:.4f}) disagree by more than {ERRORS:g} standard errors."
            )


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
    """Make the table of a data entry, one row per cell, usually at most 80 columns wide.

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
        # A blank and no empty line: it does not belong to the test parts before it.
        "repeats\ndone" if partial else " \nnegative" if trees else " \nfloored",
    ]
    # Rows by the values of the outer axes; a grid of one axis has a single part.
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
    # The same widths in all parts, so that columns stand below one another.
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
    """Name cells by one axis where the others make no difference."""
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
