"""Unbiased weights of events, and the proportions that they estimate.

The weight ``w(E, y)`` of an event has expectation ``1_E(x)`` over the disguise, so its mean over
reports estimates P(E), and its sample variance over n that estimate's variance.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ppdm_dask.errors import RecordsError
from ppdm_dask.matching import bound_to, require_design, require_whole
from ppdm_dask.shown import shown
from ppdm_dask.uncertainty import (
    ROUNDING,
    Estimand,
    Proportion,
    check_estimand,
    mean_variance,
    normal_quantile,
    standard_error_of,
)

if TYPE_CHECKING:
    from ppdm_dask.codebook import Codebook
    from ppdm_dask.designs.base import Design
    from ppdm_dask.records import Records, Reports

__all__ = [
    "ROUNDING",
    "Estimand",
    "Proportion",
    "answers_of",
    "check_estimand",
    "combined_masks",
    "event_weights",
    "mask_weights",
    "mean_variance",
    "normal_quantile",
    "proportion",
    "standard_error_of",
    "touched_part",
]

Floats = npt.NDArray[np.float64]
Masks = Mapping[str, npt.NDArray[np.bool_]]


def event_weights(reports: Reports, design: Design, event: Mapping[str, Any]) -> Floats:
    """Unbiased weights w(E, y), one a report: their mean estimates P(E).

    Parameters
    ----------
    reports : Reports
    design : Design
        The design that made them; attributes it does not cover count as undisguised.
    event : mapping of attribute to label or iterable of labels
        A conjunction over attributes.

    Returns
    -------
    array of float, shape (n,)

    Raises
    ------
    RecordsError
        If the reports were made by another design.
    NotLumpable
        If they lack a part of a block that the event needs.
    """
    design = bound_to(reports, design)
    require_design(reports, design)
    return mask_weights(reports, design, reports.codebook.masks(event))


def mask_weights(reports: Reports, design: Design, masks: Masks) -> Floats:
    """Weights of an event that is given by its categories, shape (n,); none of them is 0.

    Parameters
    ----------
    reports, design
        As in :func:`event_weights`.
    masks : mapping of attribute to array of bool
        The categories of the event; without any the event is impossible.
    """
    weight = np.ones(len(reports))
    if not all(mask.any() for mask in masks.values()):
        weight[:] = 0.0
        return weight
    covered: set[str] = set()
    for block in design.blocks:
        covered.update(block.attributes)
        touched = [name for name in block.attributes if name in masks]
        if touched:
            there, part = touched_part(block, touched, reports.codebook.names)
            weight *= part.weights(masks, answers_of(reports, there, part))
    for name, mask in masks.items():
        if name not in covered:
            weight *= mask[reports.column(name)]
    return weight


def combined_masks(
    codebook: Codebook, event: Mapping[str, Any], other: Mapping[str, Any]
) -> dict[str, npt.NDArray[np.bool_]]:
    """The categories of the conjunction of two events; none where they exclude one another."""
    masks = codebook.masks(event)
    for name, mask in codebook.masks(other).items():
        masks[name] = masks[name] & mask if name in masks else mask
    return masks


def touched_part(
    block: Design, touched: Sequence[str], there: Sequence[str]
) -> tuple[list[str], Design]:
    """The attributes of a block whose reports some of them need, and the design of these.

    Only the attributes that are touched where the block is lumpable to them: the others would
    multiply the joint domain for nothing.  Otherwise all of the block.

    Raises
    ------
    NotLumpable
        If the reports lack a part of the block that is needed.
    """
    part = block.marginal(touched)
    if part is not None:
        return list(touched), part
    names = [name for name in block.attributes if name in there]
    require_whole(block, names)
    part = block.marginal(names)
    assert part is not None
    return names, part


def answers_of(reports: Records, names: Sequence[str], block: Design) -> npt.NDArray[Any]:
    """What a block's weights are taken of: columns of codes, or packed sets."""
    if block.kind == "set":
        sets = getattr(reports, "sets", {})
        if names[0] not in sets:
            raise RecordsError(
                f"reports of {shown(names[0])} hold no sets; the design makes some", block
            )
        bits: npt.NDArray[Any] = sets[names[0]]
        return bits
    return reports.codes[:, [reports.codebook.index(name) for name in names]]


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
        from ppdm_dask.estimate.sums import sum_event
        from ppdm_dask.estimate.surveyed import proportion_of

        return proportion_of(sum_event(reports, design, event, where), estimand)
    design = bound_to(reports, design)
    weights = event_weights(reports, design, event)
    n = len(weights)
    if not n:
        raise RecordsError("there are no reports; at least one is needed", reports)
    from ppdm_dask.estimate.floors import lift
    from ppdm_dask.estimate.laws import law_of_event

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
