"""What a reader of a sweep's result must know: reversals, each well beyond its standard error.

Beside it: what a grid of several axes shows on the whole: which way accuracy goes, and what it
loses.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from ppdm_dask.arrays import Bools
from ppdm_dask.experiments.grid import (
    ERRORS,
    FEWEST,
    MORE_DISGUISE,
    Line,
    grid_axes,
    lines_of,
    moments,
)
from ppdm_dask.experiments.sweep.variables import ADVERSARIES

if TYPE_CHECKING:
    import xarray as xr


__all__ = ["findings", "trends"]


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
    if len(grid_axes(ds)) < 2:
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


KEPT = 0.5
"""Share of an adversary's largest advantage that is worth a finding where no cell goes below."""

AGREEMENT_SD = 0.2
"""Standard deviation below which clean and disguised test parts are compared."""


def findings(ds: xr.Dataset) -> list[str]:
    """Sentences on what goes against expectation in a result.

    Along the grid's axes, from the most disguise to the least, the mean accuracy is expected to
    rise and its variance to fall.  A reversal counts where it exceeds ``ERRORS`` standard errors
    of the difference between its two ends; cells with fewer than ``FEWEST`` repeats are passed
    over.  For grids of several axes it is said besides how often things go as expected.

    Parameters
    ----------
    ds : xarray.Dataset
        A result as ``build_dataset`` makes it.

    Returns
    -------
    list of str
        In the order of the data entries; for one axis empty where all is as expected.
    """
    found: list[str] = []
    grid = grid_axes(ds)
    for i, name in enumerate(ds["data"].to_numpy()):
        benchmark, majority = float(ds["benchmark"][i]), float(ds["majority"][i])
        if benchmark < majority:
            found.append(
                f"{name}: on the test part the undisguised learner ({benchmark:.4f}) scores below "
                f"the majority class ({majority:.4f})."
            )
        found += [*_constant_attributes(ds, str(name)), *_disclosures(ds.isel(data=i), str(name))]
        for line in lines_of(ds.isel(data=i), str(name)):
            found += [*_above_the_end(line), *_falls(line), *_rises(line)]
            if line.axis == grid[0]:
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
    for i, flag in enumerate([*flags, False]):
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
        # A fall down to the end of the axis is told by `_above_the_end`.
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
