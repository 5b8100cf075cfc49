"""Results of trials: variables, statistics over repeats, tables and JSON."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ppdm_dask.drawing.texts import brief, estimate, number_text, plain_table, plain_value
from ppdm_dask.errors import RunFolderError
from ppdm_dask.experiments.grid import grid_axes, summarise
from ppdm_dask.experiments.trials.recipe import APART, TrialRecipe
from ppdm_dask.experiments.trials.trial import TRIALS, Measure, Trial, find_trial
from ppdm_dask.experiments.variables import GRID, Variable, assemble
from ppdm_dask.files.values import listed, show

if TYPE_CHECKING:
    import xarray as xr
    from rich.table import Table

Arrays = dict[str, npt.NDArray[Any]]
Done = Mapping[tuple[int, ...], tuple[npt.NDArray[np.int64], Mapping[str, npt.NDArray[Any]]]]
"""By position of a grid point: numbers of its finished repeats, and what they gave."""

WIDTH = 80
"""Letters of a terminal's line."""


def trial_of(ds: xr.Dataset) -> type[Trial]:
    """The class of the trial that a result is of; RunFolderError where it is unknown."""
    name = str(ds.attrs.get("trial"))
    if name not in TRIALS:
        raise RunFolderError(f"trial: got {show(name)}; one of {listed(TRIALS)} is needed", name)
    return find_trial(name)


def variables(ds: xr.Dataset) -> tuple[Variable, ...]:
    """What a result holds, in the order of the digest."""
    return registry(trial_of(ds))


def registry(trial: type[Trial]) -> tuple[Variable, ...]:
    """The variables of a trial's results."""
    cell = (*(("data",) if trial.uses_data else ()), GRID)
    each = (*cell, *(("variant",) if trial.variants else ()))
    found = [
        Variable("undefined", cell, "str", "", "Why a cell has no numbers; empty where it has."),
        Variable("completed", cell, "int32", "repeats", "Repeats that are computed.", "derived"),
    ]
    for measure in trial.measures:
        found += _variables(measure, each)
    return tuple(found)


def _variables(measure: Measure, dims: tuple[str, ...]) -> Iterator[Variable]:
    name, units, doc = measure.name, measure.units, measure.title
    if measure.summary == "exact":
        yield Variable(name, dims, "float64", units, f"{doc}; the same in each repeat.")
        return
    what = "Median" if measure.summary == "median" else "Mean"
    yield Variable(name, (*dims, "repeat"), "float64", units, f"{doc}; NaN where there is none.")
    of = f"{what} over the repeats: {measure.doc}."
    yield Variable(measure.variable, dims, "float64", units, of, "derived")
    error = f"Standard error of {measure.variable}; NaN below two repeats."
    yield Variable(f"{measure.variable}_se", dims, "float64", units, error, "derived")
    counted = f"Repeats in which {name} is a number."
    yield Variable(f"{name}_n", dims, "int32", "repeats", counted, "derived")


def build_dataset(
    recipe: TrialRecipe, done: Done, undefined: Mapping[tuple[int, ...], str]
) -> xr.Dataset:
    """Assemble the result from the finished repeats of the defined cells."""
    trial, repeats = recipe.of, recipe.sweep.repeats
    coordinates = recipe.coordinates
    sizes = {axis: len(values) for axis, values in coordinates.items()} | {"repeat": repeats}
    declared = registry(trial)
    arrays = {
        each.name: each.empty(tuple(sizes[d] for d in each.dimensions(recipe.sweep.grid)))
        for each in declared
    }
    for index, reason in undefined.items():
        at = index if trial.uses_data else index[1:]
        arrays["undefined"][at] = reason
        if reason:
            continue
        numbers, found = done[index]
        arrays["completed"][at] = numbers.size
        for measure in trial.measures if numbers.size else ():
            _fill(arrays, at, measure, numbers, found[measure.name])
    attributes = {
        "title": recipe.about.title,
        "recipe": recipe.name,
        "experiment": recipe.kind,
        "trial": recipe.trial.name,
    }
    return assemble(declared, arrays, coordinates, list(recipe.sweep.grid), attributes)


def _fill(
    arrays: Arrays, at: tuple[int, ...], measure: Measure, numbers: Any, found: npt.NDArray[Any]
) -> None:
    """Put what the repeats of a cell gave, shape (repeats,) or (repeats, variants), in place."""
    name = measure.name
    if measure.summary == "exact":
        arrays[name][at] = found[0]
        return
    # The repeats stand last in the result.
    arrays[name][at][..., numbers] = np.moveaxis(found, 0, -1)
    for variant in np.ndindex(found.shape[1:]):
        values = found[(slice(None), *variant)]
        values = values[~np.isnan(values)]
        place = (*at, *variant)
        value, error = summarise(values, measure.summary)
        arrays[measure.variable][place], arrays[f"{measure.variable}_se"][place] = value, error
        arrays[f"{name}_n"][place] = values.size


def cells(ds: xr.Dataset) -> Iterator[tuple[dict[str, Any], xr.Dataset]]:
    """Each cell: its values on the axes but for the variants, and the result there."""
    axes = [axis for axis in ("data", *grid_axes(ds)) if axis in ds.dims]
    for index in np.ndindex(*(ds.sizes[axis] for axis in axes)):
        where = dict(zip(axes, index, strict=True))
        cell = ds.isel(where)
        yield {axis: plain_value(cell[axis].to_numpy()) for axis in axes}, cell


def place_of(where: Mapping[str, Any]) -> str:
    """A cell by its values on the axes, as text."""
    return ", ".join(
        str(value) if axis in APART else f"{axis} = {brief(value)}" for axis, value in where.items()
    )


def as_json(ds: xr.Dataset) -> dict[str, Any]:
    """Return a result as JSON values, a row for each cell and variant; null where no number is."""
    trial = trial_of(ds)
    names = [v.name for v in registry(trial) if "repeat" not in v.dims]
    rows = []
    for where, cell in cells(ds):
        for i in range(max(len(trial.variants), 1)):
            own = {"variant": trial.variants[i]} if trial.variants else {}
            found = {
                name: plain_value(cell[name].to_numpy()[(i,) if cell[name].ndim else ()])
                for name in names
            }
            rows.append({**where, **own, **found})
    return {"trial": ds.attrs["trial"], "variants": list(trial.variants), "cells": rows}


def tables(ds: xr.Dataset) -> Iterator[tuple[str, Table]]:
    """Headings and tables of each data entry: a measure with its variants, or all measures."""
    trial = trial_of(ds)
    groups = [[each] for each in trial.measures] if trial.variants else [list(trial.measures)]
    for i in range(ds.sizes.get("data", 1)):
        part = ds.isel(data=[i]) if trial.uses_data else ds
        name = f"{part['data'].item(0)}: " if trial.uses_data else ""
        for group in groups:
            about = "; ".join(f"{each.name}, {_about(each)}" for each in group)
            for table in _tables(part, group, list(trial.variants)):
                yield name + about, table


def _tables(ds: xr.Dataset, group: list[Measure], variants: list[str]) -> Iterator[Table]:
    """A table, or several where its columns have no room beside one another."""
    axes = grid_axes(ds)
    columns = variants or [each.name for each in group]
    rows = []
    for where, cell in cells(ds):
        if not cell["undefined"].item() and cell["completed"] > 0:
            texts = [text for each in group for text in _texts(cell, each)]
            rows.append(([brief(where[axis]) for axis in axes], texts))
    lead = sum(
        max(map(len, [axis, *(row[j] for row, _ in rows)])) + 1 for j, axis in enumerate(axes)
    )
    wide = max(len(text) + 1 for text in [*columns, *(t for _, ts in rows for t in ts)])
    step = max((WIDTH - lead) // wide, 1)
    for first in range(0, len(columns), step):
        there = slice(first, first + step)
        header = [*axes, *columns[there]]
        lines = [[*at, *found[there]] for at, found in rows]
        yield plain_table(header, lines, right=range(len(header)))


def _about(measure: Measure) -> str:
    ends = {"median": ", median ± SE", "exact": ""}
    units = "" if measure.units == "1" else f" [{measure.units}]"
    return measure.doc + units + ends.get(measure.summary, " ± SE")


def _texts(cell: xr.Dataset, measure: Measure) -> Iterator[str]:
    values = np.atleast_1d(cell[measure.variable].to_numpy())
    if measure.summary == "exact":
        yield from (number_text(float(value)) for value in values)
        return
    errors = np.atleast_1d(cell[f"{measure.variable}_se"].to_numpy())
    for value, error in zip(values, errors, strict=True):
        yield "" if math.isnan(value) else estimate(value, None if math.isnan(error) else error)


def findings(ds: xr.Dataset) -> list[str]:
    """What the trial says of its result, and where repeats lack a figure."""
    trial = trial_of(ds)
    found = trial.findings(ds)
    for measure in trial.measures:
        if measure.summary != "exact":
            lack = ds["completed"] - ds[f"{measure.name}_n"]
            if (most := int(lack.where(ds["completed"] > 0, 0).max())) > 0:
                found.append(
                    f"{measure.name}: up to {most:,} repeats of a cell have no such figure, and "
                    "its summary leaves them out."
                )
    return found


def undefined(ds: xr.Dataset) -> list[str]:
    """Where cells are undefined, and why, each reason once."""
    notes: dict[str, list[str]] = {}
    for where, cell in cells(ds):
        if reason := str(cell["undefined"].item()):
            notes.setdefault(reason, []).append(place_of(where))
    return [f"at {'; '.join(places)}: {reason}" for reason, places in notes.items()]
