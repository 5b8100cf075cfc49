"""The least variance of an estimate that a design allows, and where it takes the place of another.

Given the true answer x a weight w(E, y) varies by the disguise, so that
``Var w >= E Var(w | x) >= min_x Var(w | x)``.  A sample variance that rests on a few reports can be
far below that, down to 0 for a category that nobody reported; it is then raised to it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from ppdm_dask.estimate.blocks import along_blocks, solve_blocks
from ppdm_dask.estimate.event_law import NOTHING

if TYPE_CHECKING:
    from ppdm_dask.designs.base import Design
    from ppdm_dask.estimate.event_law import EventLaw
    from ppdm_dask.tables import ContingencyTable

__all__ = ["CARRIERS", "lift", "raised", "told_cells", "undefined"]

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]

CARRIERS = 10
"""Reports that must carry a sample variance; below, it is held against the least variance."""


def lift(
    variance: Floats,
    value: Floats,
    law: EventLaw | None,
    size: float,
    exact: Bools | bool = False,
) -> tuple[Floats, Bools]:
    """Variances of means of weights, none of which is 0 unless it is exact.

    Where fewer than ten reports' worth carry a variance (it, over the square of the farthest that
    a weight lies from the mean, times the reports), it is raised to the least that the design
    allows.  Where that is 0 too, the variance is not a number: the reports do not say it.

    Parameters
    ----------
    variance : array
        Unbiased variances; below 0 (this file's may be) they are left as they are.
    value : array
        The means.
    law : EventLaw or None
        Of the weights, in the same shape; None where it is not known.
    size : float
        Effective reports: ``(sum d)^2 / sum d^2`` with survey weights d.
    exact : bool or array of bool
        Where a variance of 0 is right.

    Returns
    -------
    variance, few : arrays
        The variances, and where few reports carry them, raised or not.
    """
    raw = np.asarray(variance, float)
    if law is None:
        scale = np.maximum(np.abs(value), 1) ** 2
        return undefined(raw, size, scale, exact)
    farthest = law.farthest(value)
    sure = np.asarray(exact) | law.certain
    return raised(raw, law.least / max(size, 1), farthest, size, sure)


def raised(
    raw: Floats, floor: Floats, farthest: Floats, size: float, exact: Bools | bool
) -> tuple[Floats, Bools]:
    """Variances as of :func:`lift`, from the floor and the farthest squared weights themselves."""
    few = (raw >= 0) & (raw * size**2 / farthest < CARRIERS) & ~np.asarray(exact)
    result = np.where(few, np.maximum(raw, floor), raw)
    return undefined(result, size, farthest, exact)[0], np.asarray(few)


def undefined(
    variance: Floats, size: float, scale: Floats | float, exact: Bools | bool = False
) -> tuple[Floats, Bools]:
    """Variances without those that are 0 but for rounding, and where these are.

    Parameters
    ----------
    variance : array
    size : float
        Effective reports.
    scale : array
        Square of the weights' size, to which rounding is compared.
    exact : bool or array of bool
    """
    none = (np.abs(variance) * max(size, 1) <= NOTHING * scale) & ~np.asarray(exact)
    return np.where(none, np.nan, variance), np.asarray(none)


def told_cells(table: ContingencyTable, design: Design, names: tuple[str, ...]) -> Bools:
    """Cells of which these reports say for certain who of the file is in them.

    It is so where the weight does not vary with the report of any truth that may be behind one.
    """
    over = table.attributes
    truths = along_blocks((table.counts > 0).astype(float), over, design, "apply_transposed")
    behind = (truths > 1e-12).astype(float)
    law = along_blocks(behind, over, design, "apply")
    inside = behind.sum(axis=tuple(i for i, name in enumerate(over) if name not in names))
    kept = [name for name in over if name in names]
    inside = inside.transpose([kept.index(name) for name in names])
    total = solve_blocks(law, over, design, names, squared=True)
    return np.asarray(np.abs(total - inside) <= 1e-9 * np.maximum(np.abs(total), 1))
