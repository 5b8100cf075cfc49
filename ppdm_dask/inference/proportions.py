"""Proportions from reports, of one event or of all categories, whichever way they are added up."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from ppdm_dask.designs.matching import bound_to
from ppdm_dask.errors import RecordsError
from ppdm_dask.inference.events import event_weights
from ppdm_dask.inference.inversion import Estimate, invert
from ppdm_dask.inference.laws import law_of_event, lift
from ppdm_dask.inference.moments import Estimand, check_estimand, mean_variance, standard_error_of
from ppdm_dask.inference.sums import proportion_of, sum_event, sum_weights
from ppdm_dask.inference.tables import count
from ppdm_dask.inference.uncertainty import Proportion

if TYPE_CHECKING:
    from ppdm_dask.data.codebook import Reports
    from ppdm_dask.designs.base import Design

__all__ = ["estimate_proportions", "proportion"]


def proportion(
    reports: Reports,
    design: Design,
    event: Mapping[str, Any],
    *,
    where: Mapping[str, Any] | None = None,
    estimand: Estimand = "population",
) -> Proportion:
    """Estimate the proportion of an event from reports.

    With survey weights d it is ``sum d w / sum d``; strata enter the standard error.

    Parameters
    ----------
    reports, design, event
        As in :func:`event_weights`.
    where : mapping of attribute to label or iterable of labels, optional
        Condition: the proportion is that of the event within it.
    estimand : {"population", "file"}
    """
    check_estimand(estimand)
    if where or reports.weights is not None or reports.strata is not None:
        return proportion_of(sum_event(reports, design, event, where), estimand)
    design = bound_to(reports, design)
    weights = event_weights(reports, design, event)
    n = len(weights)
    if not n:
        raise RecordsError("there are no reports; at least one is needed", reports)

    mean, square = np.array(math.fsum(weights) / n), np.array(math.fsum(weights**2) / n)
    law = law_of_event(design, reports.codebook.masks(event), reports.codebook.names)
    variance = mean_variance(mean, square, n, estimand)
    variance, few = lift(variance, mean, law, n, law is not None and law.told(estimand))
    moments = None
    if law is not None:
        inside, outside = law.second_moments(mean, square)
        moments = float(inside), float(outside)
    error = float(standard_error_of(variance))
    return Proportion(float(mean), error, n, estimand, moments, few=bool(few))


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
    condition, their event weights are summed (:func:`ppdm_dask.inference.sum_weights`).

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
