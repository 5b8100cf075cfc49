"""Estimates from disguised counts: unbiased first; repairs, likelihood and intervals by name."""

from __future__ import annotations

from typing import Any

from ppdm_dask._moved import moved_attribute
from ppdm_dask.inference.association import Association, association_test, independence_test
from ppdm_dask.inference.clusters import Replicates, linearised
from ppdm_dask.inference.contrasts import COMPARED, Comparison, GroupTest
from ppdm_dask.inference.evidence import Evidence, evidence_of, sum_event, sum_weights
from ppdm_dask.inference.fit import Fit
from ppdm_dask.inference.intervals import event_interval, feldman_cousins, profile_deviance
from ppdm_dask.inference.inversion import invert
from ppdm_dask.inference.likelihood import em, mle
from ppdm_dask.inference.owners import Owners, precision_weights
from ppdm_dask.inference.proportions import estimate
from ppdm_dask.inference.resampling import bootstrap
from ppdm_dask.inference.result import Estimate, Interval, project_simplex
from ppdm_dask.inference.stratified import Stratified
from ppdm_dask.inference.sums import GroupedSums, WeightSums
from ppdm_dask.inference.two_sample import TwoSample
from ppdm_dask.inference.waves import estimate_waves, variance_of_waves

__all__ = [
    "COMPARED",
    "Association",
    "Comparison",
    "Estimate",
    "Evidence",
    "Fit",
    "GroupTest",
    "GroupedSums",
    "Interval",
    "Owners",
    "Replicates",
    "Stratified",
    "TwoSample",
    "WeightSums",
    "association_test",
    "bootstrap",
    "em",
    "estimate",
    "estimate_waves",
    "event_interval",
    "evidence_of",
    "feldman_cousins",
    "independence_test",
    "invert",
    "linearised",
    "mle",
    "precision_weights",
    "profile_deviance",
    "project_simplex",
    "sum_event",
    "sum_weights",
    "variance_of_waves",
]

_EARLIER = dict.fromkeys(
    ("Bootstrap", "JointEstimate", "LikelihoodEstimate", "estimate_joint", "estimate_proportions"),
    "inference.earlier",
)


def __getattr__(name: str) -> Any:
    return moved_attribute(__name__, _EARLIER, name)
