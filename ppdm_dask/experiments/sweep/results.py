"""The result of a sweep as an xarray dataset: assembled from what is measured, and derived."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ppdm_dask.experiments.grid import moments
from ppdm_dask.experiments.sweep.variables import DIMENSIONS, REGISTRY, variable
from ppdm_dask.experiments.variables import Variable, assemble

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["build_dataset", "empty_arrays"]

Arrays = Mapping[str, npt.ArrayLike]
Coordinates = Mapping[str, Sequence[Any]]


def empty_arrays(
    coordinates: Coordinates, repeats: int, splits: int = 1, optional: Collection[str] = ()
) -> dict[str, npt.NDArray[Any]]:
    """Arrays of measured variables that say everywhere that there is no number.

    Parameters
    ----------
    coordinates : mapping of str to sequence
        Axis ``data``, the grid's axes in order and, for the variables on them, ``column`` (texts
        ``data/attribute``) and ``w_a``.
    repeats : int
        Length of the axis ``repeat``.
    splits : int
        1 for one split of the data, or as many as repeats.
    optional : collection of str
        Which optional variables are wanted besides those on ``column`` and ``w_a``, which are
        there where their axis is.

    Returns
    -------
    dict of str to array
        To be filled, and given to :func:`build_dataset`.
    """
    sizes = {name: len(values) for name, values in coordinates.items()}
    sizes |= {"repeat": repeats, "split": splits}
    arrays = {}
    for declared in REGISTRY:
        dims = declared.dimensions(_grid(coordinates))
        wanted = declared.kind == "measured" or declared.name in optional
        if declared.kind == "optional" and not {"column", "w_a"}.isdisjoint(dims):
            wanted = set(dims) <= set(sizes)
        if wanted:
            arrays[declared.name] = declared.empty(tuple(sizes[dim] for dim in dims))
    return arrays


def build_dataset(
    measured: Arrays, coordinates: Coordinates, attributes: Mapping[str, str | int] | None = None
) -> xr.Dataset:
    """Assemble a sweep's result, and derive its statistics.

    Parameters
    ----------
    measured : mapping of str to array
        The measured variables of the registry, shaped as it declares them.
    coordinates : mapping of str to sequence
        As for :func:`empty_arrays`; the grid's axes are those that the registry does not know.
    attributes : mapping, optional
        Further attributes of the dataset (title, recipe).

    Returns
    -------
    xarray.Dataset
        All variables in registry order, each with its units and a description.

    Raises
    ------
    ValueError
        For an unknown or missing variable, a wrong shape, or values that its type cannot hold.
    """
    grid = _grid(coordinates)
    names = {v.name for v in REGISTRY if v.kind != "derived"}
    needed = {v.name for v in REGISTRY if v.kind == "measured"}
    if unknown := sorted(set(measured) - names):
        raise ValueError(f"no measured variable is called {unknown[0]!r}")
    if missing := sorted(needed - set(measured)):
        raise ValueError(f"the measured variable {missing[0]!r} is missing")
    arrays = {name: _cast(variable(name), values) for name, values in measured.items()}
    arrays |= _derive(arrays, coordinates)
    return assemble(REGISTRY, arrays, coordinates, grid, attributes or {})


def _grid(coordinates: Coordinates) -> tuple[str, ...]:
    return tuple(name for name in coordinates if name not in DIMENSIONS)


def _cast(declared: Variable, values: npt.ArrayLike) -> npt.NDArray[Any]:
    """Return the values in the declared type, unchanged."""
    array = np.asarray(values)
    cast = array.astype(object if declared.dtype == "str" else declared.dtype)
    if declared.dtype == "int32" and not np.array_equal(cast, array):
        raise ValueError(f"{declared.name} does not fit into {declared.dtype}")
    return cast


def _derive(arrays: Mapping[str, npt.NDArray[Any]], axes: Coordinates) -> dict[str, Any]:
    """Return the statistics of the measured variables."""
    shape = arrays["correct"].shape[:-1]
    names = {v.name for v in REGISTRY if v.kind == "derived"} - {"pse"}
    if "nodes" not in arrays:
        names.remove("negative_share")
    found = {name: variable(name).empty(shape) for name in names}
    for name in ("benchmark", "majority"):
        counts = arrays[f"{name}_correct"]
        found[name] = np.array(
            [moments(row[row >= 0], n).mean for row, n in zip(counts, _sizes(arrays), strict=True)]
        )
    for index in np.ndindex(shape):
        there = arrays["correct"][index] >= 0
        found["completed"][index] = np.count_nonzero(there)
        clean = moments(arrays["correct"][index][there], _sizes(arrays)[index[0]])
        disguised = moments(arrays["accuracy_disguised"][index][there])
        for key, value in clean._asdict().items():
            found[f"accuracy_{key}"][index] = value
        for key, value in disguised._asdict().items():
            found[f"disguised_{key}"][index] = value
        floored = arrays["floored"][index][there]
        found["floored_mean"][index] = moments(floored).mean
        if "nodes" in arrays:
            share = moments(floored / arrays["nodes"][index][there]).mean
            found["negative_share"][index] = share
    if "pse_attribute" in arrays:
        found["pse"] = _least(arrays["pse_attribute"], axes)
    return found


def _sizes(arrays: Mapping[str, npt.NDArray[Any]]) -> list[int]:
    return [int(n) for n in arrays["n_test"]]


def _least(pse: npt.NDArray[np.float64], axes: Coordinates) -> npt.NDArray[np.float64]:
    """Minimum over the columns of each data entry."""
    owner = np.array([str(column).partition("/")[0] for column in axes["column"]])
    return np.stack([pse[owner == entry].min(axis=0) for entry in axes["data"]])
