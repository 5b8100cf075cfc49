"""What a reader of a sweep's result must know: reversals, each well beyond its standard error."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from ppdm_dask.experiments.lines import ERRORS, FEWEST, Line, lines_of
from ppdm_dask.experiments.moments import moments
from ppdm_dask.experiments.trends import trends
from ppdm_dask.experiments.variables import ADVERSARIES

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["ERRORS", "FEWEST", "findings"]

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
    grid = json.loads(ds.attrs["grid"])
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
