"""The lines of a figure: cells of a result along one axis, each line with its name and look."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ppdm_dask.experiments.results import grid_axes
from ppdm_dask.report import style

if TYPE_CHECKING:
    import xarray as xr

    from ppdm_dask.experiments.recipe import Figure

__all__ = ["Series", "repeats_of", "series_of"]


@dataclass(frozen=True)
class Series:
    """Cells of one data entry along an axis, its values rising.

    Parameters
    ----------
    name, colour, marker : str
        How the line is called and drawn.
    axis : str
    cells : xarray.Dataset
        A result with this axis alone (and that of the repeats).
    """

    name: str
    colour: str
    marker: str
    axis: str
    cells: xr.Dataset

    @property
    def entry(self) -> str:
        """Id of the data entry."""
        return str(self.cells["data"].item())

    @property
    def x(self) -> npt.NDArray[np.float64]:
        """Values of the axis."""
        return np.asarray(self.cells[self.axis].to_numpy(), dtype=float)

    def column(self, name: str) -> npt.NDArray[np.float64]:
        """A variable along the line."""
        return np.asarray(self.cells[name].to_numpy(), dtype=float)


def series_of(ds: xr.Dataset, figure: Figure) -> list[Series]:
    """The lines that a figure draws.

    They are told apart by the axis that the figure names: each of its data entries then has the
    same lines.  Otherwise there is a line for each data entry and each combination of other axes.
    """
    axes = grid_axes(ds)
    axis = figure.x_axis(axes)
    others = [other for other in axes if other != axis]
    known = [str(name) for name in ds["data"].to_numpy()]
    lines = [
        (entry, where)
        for entry in known
        for where in product(*(range(ds.sizes[other]) for other in others))
    ]
    found = []
    for i, (entry, where) in enumerate(lines):
        if entry not in figure.data:
            continue
        cells = ds.isel(dict(zip(others, where, strict=True))).isel(data=known.index(entry))
        if figure.line_axis is None:
            look, name = i, ", ".join([entry, *(_valued(cells, other) for other in others)])
        else:
            look = where[others.index(figure.line_axis)]
            name = _valued(cells, figure.line_axis)
        colour = style.COLOURS[look % len(style.COLOURS)]
        marker = style.MARKERS[look % len(style.MARKERS)]
        found.append(Series(name, colour, marker, axis, cells.sortby(axis)))
    return found


def _valued(cells: xr.Dataset, axis: str) -> str:
    value: Any = cells[axis].item()
    return style.word_value(axis, value)


def repeats_of(series: list[Series]) -> str:
    """How many repeats the cells have, in words."""
    done = np.concatenate([line.column("completed") for line in series])
    done = done[done > 0]
    if not done.size:
        return "no repeats yet"
    low, high = int(done.min()), int(done.max())
    return f"{high:,} repeats" if low == high else f"{low:,} to {high:,} repeats"
