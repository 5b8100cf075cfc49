"""What a grid of several axes shows on the whole: which way accuracy goes, and what it loses."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from ppdm_dask.experiments.lines import ERRORS, FEWEST, MORE_DISGUISE, Line, lines_of

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["trends"]

Bools = npt.NDArray[np.bool_]


def trends(ds: xr.Dataset) -> list[str]:
    """Sentences on the axes of a grid, two or more, and on the data entries.

    Parameters
    ----------
    ds : xarray.Dataset
        A result as ``build_dataset`` makes it.

    Returns
    -------
    list of str
        For each data entry and axis, in how many steps towards more disguise the mean accuracy
        falls and its variance grows; at last what each data entry loses of its undisguised
        accuracy.  Empty for a grid of one axis.
    """
    if len(json.loads(ds.attrs["grid"])) < 2:
        return []
    found: list[str] = []
    names = [str(name) for name in ds["data"].to_numpy()]
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
