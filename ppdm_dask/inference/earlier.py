"""Estimates under the names of earlier versions; each says its new name when it is asked for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ppdm_dask.inference.proportions import estimate
from ppdm_dask.inference.result import Estimate

if TYPE_CHECKING:
    from ppdm_dask.data.codebook import Reports
    from ppdm_dask.designs.base import Design
    from ppdm_dask.inference.uncertainty import Estimand

Proportion = JointEstimate = LikelihoodEstimate = Bootstrap = Estimate


def proportion(
    reports: Reports,
    design: Design,
    event: Mapping[str, Any],
    *,
    where: Mapping[str, Any] | None = None,
    estimand: Estimand = "population",
) -> Estimate:
    """The proportion of an event: ``estimate(reports, event, design=design)``."""
    return estimate(reports, event, where=where, design=design, estimand=estimand)


def estimate_proportions(
    reports: Reports,
    design: Design,
    over: Iterable[str],
    *,
    where: Mapping[str, Any] | None = None,
    estimand: Estimand = "population",
) -> Estimate:
    """Joint proportions: ``estimate(reports, over, design=design)``."""
    return estimate(reports, tuple(over), where=where, design=design, estimand=estimand)


def estimate_joint(
    reports: Reports,
    design: Design,
    events: Sequence[Mapping[str, Any]],
    *,
    estimand: Estimand = "population",
) -> Estimate:
    """Several events: ``estimate(reports, events, design=design)``."""
    return estimate(reports, events, design=design, estimand=estimand)
