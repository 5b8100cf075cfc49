"""Result variables: each is declared once, in the registry of its kind of experiment."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    import xarray as xr


GRID = "*"
"""Stands for the axes of the recipe's grid, in their order."""


@dataclass(frozen=True)
class Variable:
    """A result variable.

    Parameters
    ----------
    name : str
    dims : tuple of str
        ``GRID`` stands for the axes of the recipe's grid.
    dtype : {"int32", "float64", "str"}
    units : str
        What is counted; "1" for shares and proportions.
    doc : str
        What the numbers are, and what stands where there is none.
    kind : {"measured", "optional", "derived"}
        Whether the trials give it, may give it, or it is computed from the measured ones.
    """

    name: str
    dims: tuple[str, ...]
    dtype: Literal["int32", "float64", "str"]
    units: str
    doc: str
    kind: Literal["measured", "optional", "derived"] = "measured"

    def dimensions(self, grid: Iterable[str]) -> tuple[str, ...]:
        """Return the dimensions, with the axes of a grid in their place."""
        grid = tuple(grid)
        return tuple(d for dim in self.dims for d in (grid if dim == GRID else (dim,)))

    def empty(self, shape: tuple[int, ...]) -> npt.NDArray[Any]:
        """Return an array filled with what stands for a missing number."""
        if self.dtype == "str":
            return np.full(shape, "", dtype=object)
        # Integers have no NaN; all that is counted here is 0 or more.
        return np.full(shape, -1 if self.dtype == "int32" else np.nan, dtype=self.dtype)


def assemble(
    registry: Iterable[Variable],
    arrays: Mapping[str, npt.NDArray[Any]],
    coordinates: Mapping[str, Sequence[Any] | npt.NDArray[Any]],
    grid: Sequence[str],
    attributes: Mapping[str, Any],
) -> xr.Dataset:
    """Make the dataset of a result.

    Parameters
    ----------
    registry : iterable of Variable
    arrays : mapping of str to array
        Values of the variables that are there, shaped as they are declared.
    coordinates : mapping of str to sequence
        Values along the axes that have any.
    grid : sequence of str
        Axes of the recipe's grid, in their order.
    attributes : mapping
        Further attributes of the dataset.

    Returns
    -------
    xarray.Dataset
        The variables in registry order, each with its units and a description.
    """
    import xarray as xr

    variables = {
        declared.name: (
            declared.dimensions(grid),
            arrays[declared.name],
            {"long_name": declared.doc, "units": declared.units},
        )
        for declared in registry
        if declared.name in arrays
    }
    axes = {name: _axis(name, values) for name, values in coordinates.items()}
    return xr.Dataset(variables, axes, {**attributes, "grid": json.dumps(list(grid))})


def _axis(name: str, values: Sequence[Any] | npt.NDArray[Any]) -> tuple[str, npt.NDArray[Any]]:
    array = np.asarray(values)
    # As objects, which is how netCDF's texts come back: a result equals the one that is read.
    return name, array.astype(object) if array.dtype.kind == "U" else array
