"""Numbers of a result with their standard errors, and names for their cells."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt

from ppdm_dask.errors import PPDMError

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["Unjudged", "Values", "name_cell", "plain"]

Floats = npt.NDArray[np.float64]

BARE = ("data", "case", "setting", "method", "classifier")
"""Axes whose values speak for themselves in a label."""


class Unjudged(PPDMError):
    """A result that cannot tell: cells are missing, or not computed yet."""


@dataclass(frozen=True)
class Values:
    """Numbers with standard errors, 0 where a number is exact.

    Parameters
    ----------
    value, error : xarray.DataArray
        With the same dimensions and coordinates.
    """

    value: xr.DataArray
    error: xr.DataArray

    @classmethod
    def of(cls, value: xr.DataArray, error: Any) -> Self:
        """Values with errors that may lack some of their axes, or have them in another order."""
        import xarray as xr

        first, second = xr.broadcast(value, error)
        return cls(first, second.transpose(*first.dims))

    def flat(self) -> tuple[list[str], Floats, Floats]:
        """Labels, values and errors of all cells, the last axis running fastest."""
        labels = [self.label(index) for index in np.ndindex(self.value.shape)]
        return labels, self.value.to_numpy().ravel(), self.error.to_numpy().ravel()

    def label(self, index: tuple[int, ...]) -> str:
        """The cell at a position in words."""
        return name_cell(
            {
                str(dim): plain(self.value[dim].to_numpy()[i]) if dim in self.value.coords else i
                for dim, i in zip(self.value.dims, index, strict=True)
            }
        )


def plain(value: Any) -> Any:
    """Return a value of an axis as Python's own."""
    return value.item() if hasattr(value, "item") else value


def name_cell(where: Mapping[str, Any]) -> str:
    """Name a cell by its values on the axes: ``adult, q = 0.4``."""
    parts = []
    for axis, value in where.items():
        text = f"{value:g}" if isinstance(value, float) else str(value)
        parts.append(text if axis in BARE else f"{axis} = {text}")
    return ", ".join(parts)
