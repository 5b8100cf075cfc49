"""Lines of cells through a result's grid, from the most disguised to the least.

Also here: statistics over repeats, with their standard errors; the order of the repeats is
void.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ppdm_dask.arrays import Floats
from ppdm_dask.drawing import style
from ppdm_dask.drawing.texts import brief

if TYPE_CHECKING:
    import xarray as xr


__all__ = [
    "ERRORS",
    "FEWEST",
    "MORE_DISGUISE",
    "Line",
    "Moments",
    "grid_axes",
    "lines_of",
    "moments",
    "summarise",
]


def grid_axes(ds: xr.Dataset) -> tuple[str, ...]:
    """Return the axes of the recipe's grid in a result, in their order."""
    return tuple(json.loads(ds.attrs["grid"]))


class Moments(NamedTuple):
    """Mean and sample variance of some numbers, with standard errors; NaN where too few."""

    mean: float
    mean_se: float
    variance: float
    variance_se: float


def moments(values: npt.ArrayLike, scale: int = 1) -> Moments:
    """Mean and variance of ``values / scale``.

    Parameters
    ----------
    values : array, shape (n,)
        Finite numbers; integers are summed as integers.
    scale : int
        Divisor of every value: for counts out of `scale`, the moments are those of shares.

    Returns
    -------
    Moments
        The variance is the sample variance (n - 1).  Its standard error is
        ``sqrt((m4 - (n - 3) / (n - 1) s^4) / n)``, with m4 the fourth central moment and s^2 the
        sample variance.

    Notes
    -----
    Sums are exact or correctly rounded (:func:`math.fsum`), so no order of summation shows.
    """
    x = np.asarray(values)
    n = x.size
    if n == 0:
        return Moments(math.nan, math.nan, math.nan, math.nan)
    total = int(x.sum(dtype=np.int64)) if x.dtype.kind in "iu" else math.fsum(x)
    mean = total / (n * scale)
    if n == 1:
        return Moments(mean, math.nan, math.nan, math.nan)
    # Rounding may put the mean of equal values beside them; their variance is 0.
    centre = min(max(total / n, float(x.min())), float(x.max()))
    squares = (x - centre) ** 2
    variance = math.fsum(squares) / (n - 1)
    fourth = math.fsum(squares * squares) / n
    # Never negative: m4 >= (n - 1)^2 / n^2 s^4 and (n - 3) n^2 < (n - 1)^3.  Rounding may differ.
    spread = max(0.0, fourth - (n - 3) / (n - 1) * variance**2)
    return Moments(
        mean,
        math.sqrt(variance / n) / scale,
        variance / scale**2,
        math.sqrt(spread / n) / scale**2,
    )


def summarise(values: Floats, how: str) -> tuple[float, float]:
    """A statistic of some numbers, and its standard error; NaN where there are too few.

    The error of a median is that of the order statistics that include it with 95 %, whatever the
    law, by the normal quantile.  That of a share is Agresti and Coull's, which is above 0.
    """
    n = values.size
    if how == "median" and n:
        ranked = np.sort(values)
        if n < 2:
            return float(ranked[0]), math.nan
        half = style.NORMAL_95 * math.sqrt(n) / 2
        low = max(math.floor(n / 2 - half), 0)
        high = min(math.ceil(n / 2 + half), n - 1)
        return float(np.median(ranked)), float(ranked[high] - ranked[low]) / (2 * style.NORMAL_95)
    mean, error, *_ = moments(values)
    if how == "share" and n > 1:
        more = n + style.NORMAL_95**2
        middle = (mean * n + style.NORMAL_95**2 / 2) / more
        error = math.sqrt(middle * (1 - middle) / more)
    return mean, error


ERRORS = 4.0
"""Standard errors of a difference beyond which it is a finding."""

FEWEST = 30
"""Repeats below which a standard error is itself too uncertain to base a finding on."""


# How much of the truth the reports tell, by axis: more at a larger number.
TOLD: dict[str, Callable[[float], float]] = {
    "groups": lambda g: -g,
    "theta": lambda theta: abs(2 * theta - 1),
}

MORE_DISGUISE = {"groups": "with more groups", "theta": "as theta nears 1/2"}
"""The way to more disguise, as text."""


@dataclass(frozen=True)
class Line:
    """One data entry along one axis, the other axes fixed.

    Parameters
    ----------
    name : str
        The data entry and the values of the other axes.
    axis : str
    at : list
        Values of the axis, those that disguise most first.
    cells : xarray.Dataset
        In the same order; only cells with ``FEWEST`` repeats or more.
    """

    name: str
    axis: str
    at: list[Any]
    cells: xr.Dataset

    def column(self, name: str) -> Floats:
        """A variable along the line."""
        return np.asarray(self.cells[name].to_numpy(), dtype=float)

    def where(self, i: int) -> str:
        """A position on the line, as text."""
        return f"{self.axis} = {self.at[i]:g}"


def lines_of(entry: xr.Dataset, name: str) -> Iterator[Line]:
    """The lines of a data entry.

    They run along the grid's first axis, whose largest value is taken to disguise least, and along
    every axis that is known; both ways from the middle of theta.

    Parameters
    ----------
    entry : xarray.Dataset
        A result at one data entry.
    name : str
        The entry's id.
    """
    axes = grid_axes(entry)
    for axis in axes:
        known = axis == axes[0] or axis in TOLD
        if known and entry[axis].dtype.kind in "iuf":
            others = [other for other in axes if other != axis]
            for where in product(*(range(entry.sizes[other]) for other in others)):
                cells = entry.isel(dict(zip(others, where, strict=True)))
                fixed = [f"{other} = {brief(cells[other].item())}" for other in others]
                yield from _sides(", ".join([name, *fixed]), axis, cells)


def _sides(name: str, axis: str, cells: xr.Dataset) -> Iterator[Line]:
    told = TOLD.get(axis, float)
    values = cells[axis].to_numpy()
    enough = cells["completed"].to_numpy() >= FEWEST
    sides = [values < 0.5, values >= 0.5] if axis == "theta" else [np.ones(len(values), bool)]
    for side in sides:
        places = sorted(np.flatnonzero(enough & side), key=lambda i: told(float(values[i])))
        if places:
            chosen = cells.isel({axis: places})
            yield Line(name, axis, chosen[axis].to_numpy().tolist(), chosen)
