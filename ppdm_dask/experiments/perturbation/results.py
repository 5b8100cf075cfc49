"""The result of a perturbation experiment as an xarray dataset."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ppdm_dask.experiments.moments import moments
from ppdm_dask.experiments.perturbation.recipe import PerturbationRecipe
from ppdm_dask.experiments.perturbation.variables import METRICS, PERTURBATION_REGISTRY

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["build_dataset", "empty_arrays"]

Arrays = dict[str, npt.NDArray[Any]]
Coordinates = Mapping[str, Sequence[str]]


def _empty(coordinates: Coordinates, repeats: int, derived: bool) -> Arrays:
    sizes = {name: len(values) for name, values in coordinates.items()} | {"repeat": repeats}
    return {
        v.name: v.empty(tuple(sizes[dim] for dim in v.dims))
        for v in PERTURBATION_REGISTRY
        if (v.kind == "derived") == derived
    }


def empty_arrays(coordinates: Coordinates, repeats: int) -> Arrays:
    """Arrays of all measured variables that say everywhere that there is no number.

    Parameters
    ----------
    coordinates : mapping of str to sequence
        Axes ``data``, ``setting`` and ``classifier``.
    repeats : int
        Length of the axis ``repeat``.
    """
    return _empty(coordinates, repeats, derived=False)


def build_dataset(
    measured: Arrays, coordinates: Coordinates, recipe: PerturbationRecipe
) -> xr.Dataset:
    """Assemble the result, and derive its statistics.

    Parameters
    ----------
    measured : dict of str to array
        As :func:`empty_arrays` makes them, filled.
    coordinates : mapping of str to sequence
    recipe : PerturbationRecipe

    Returns
    -------
    xarray.Dataset
        All variables in registry order, each with its units and a description.
    """
    import xarray as xr

    arrays = {**measured, **_derive(measured, coordinates, recipe)}
    variables = {
        v.name: (v.dims, arrays[v.name], {"long_name": v.doc, "units": v.units})
        for v in PERTURBATION_REGISTRY
    }
    axes = {name: (name, np.array(list(names), object)) for name, names in coordinates.items()}
    attributes = {
        "title": recipe.about.title,
        "recipe": recipe.name,
        "experiment": "perturbation",
        "grid": json.dumps(["setting"]),
        "accept": recipe.usability.accept,
        "judges": json.dumps(list(recipe.usability.judges)),
        "interval": recipe.metrics.interval,
    }
    return xr.Dataset(variables, axes, attributes)


def _derive(arrays: Arrays, coordinates: Coordinates, recipe: PerturbationRecipe) -> Arrays:
    repeats = arrays["correct"].shape[-1]
    found = _empty(coordinates, repeats, derived=True)

    def put(name: str, index: Any, values: npt.ArrayLike, scale: int = 1) -> None:
        mean, error, *_ = moments(values, scale)
        found[f"{name}_mean"][index], found[f"{name}_mean_se"][index] = mean, error

    accept = recipe.usability.accept
    sizes = [int(n) for n in arrays["n_test"]]
    for i, n in enumerate(sizes):
        put("majority", i, arrays["majority_correct"][i], n)
        for c, row in enumerate(arrays["benchmark_correct"][i]):
            put("benchmark", (i, c), row[row >= 0], n)
    for i, s in np.ndindex(arrays["undefined"].shape):
        done = arrays["correct"][i, s, 0] >= 0
        found["completed"][i, s] = np.count_nonzero(done)
        for name in METRICS:
            values = arrays[name][i, s]
            put(name, (i, s), values[done & ~np.isnan(values)])
        for c, correct in enumerate(arrays["correct"][i, s]):
            before = arrays["benchmark_correct"][i, c]
            both = done & (before > 0)
            put("accuracy", (i, s, c), correct[done], sizes[i])
            put("r", (i, s, c), (before[both] - correct[both]) / before[both])
            put("delta_r", (i, s, c), (correct[both] - (1 - accept) * before[both]) / sizes[i])
    found["chosen"] = _choose(found, coordinates, recipe)
    return found


def _choose(found: Arrays, coordinates: Coordinates, recipe: PerturbationRecipe) -> Any:
    """Mark the most private acceptable setting of each entry on each data entry."""
    chosen = found["chosen"]
    labels, classifiers = list(coordinates["setting"]), list(coordinates["classifier"])
    judges = [classifiers.index(name) for name in recipe.usability.judges]
    for i, entry in enumerate(recipe.data):
        for spec in recipe.perturb:
            if entry.id not in spec.data:
                continue
            order = [labels.index(spec.label(spec.values[v])) for v in spec.by_privacy]
            if not (found["completed"][i, order] > 0).all():
                continue
            chosen[i, order] = 0
            for s in order:
                if (found["r_mean"][i, s, judges] < recipe.usability.accept).all():
                    chosen[i, s] = 1
                    break
    return chosen
