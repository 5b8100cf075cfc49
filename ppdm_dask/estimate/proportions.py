"""Joint proportions from reports, whichever way they have to be added up."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from ppdm_dask.estimate.inversion import Estimate, invert
from ppdm_dask.estimate.sums import sum_weights
from ppdm_dask.events import Estimand
from ppdm_dask.tables import count

if TYPE_CHECKING:
    from ppdm_dask.designs.base import Design
    from ppdm_dask.records import Reports

__all__ = ["estimate_proportions"]


def estimate_proportions(
    reports: Reports,
    design: Design,
    over: Iterable[str],
    *,
    where: Mapping[str, Any] | None = None,
    estimand: Estimand = "population",
) -> Estimate:
    """Unbiased joint proportions of some attributes, whatever the blocks of the design.

    Reports are counted and inverted; where they are sets, or have survey weights, strata or a
    condition, their event weights are summed (:func:`ppdm_dask.estimate.sum_weights`).

    Parameters
    ----------
    reports : Reports
    design : Design
        The design that made them.
    over : iterable of str
        Attributes.
    where : mapping of attribute to label or labels, optional
        Condition: proportions are within it, ratios of two estimates.
    estimand : {"population", "file"}
    """
    names = tuple(over)
    sets = any(b.kind == "set" and b.attributes[0] in names for b in design.blocks)
    surveyed = reports.weights is not None or reports.strata is not None
    if sets or surveyed or where:
        return sum_weights(reports, design, names, where).estimate(estimand)
    return invert(count(reports, design, names), design, estimand=estimand).marginal(names)
