"""Estimates from disguised counts: unbiased first; repairs, likelihood and intervals by name."""

from __future__ import annotations

from ppdm_dask.inference.association import Association, association_test, independence_test
from ppdm_dask.inference.fit import Fit
from ppdm_dask.inference.intervals import (
    Interval,
    event_interval,
    feldman_cousins,
    profile_deviance,
)
from ppdm_dask.inference.inversion import Estimate, invert, project_simplex
from ppdm_dask.inference.joint import JointEstimate, estimate_joint
from ppdm_dask.inference.likelihood import LikelihoodEstimate, em, mle
from ppdm_dask.inference.proportions import estimate_proportions
from ppdm_dask.inference.resampling import Bootstrap, bootstrap
from ppdm_dask.inference.stratified import Stratified
from ppdm_dask.inference.sums import WeightSums, sum_event, sum_weights
from ppdm_dask.inference.two_sample import TwoSample

__all__ = [
    "Association",
    "Bootstrap",
    "Estimate",
    "Fit",
    "Interval",
    "JointEstimate",
    "LikelihoodEstimate",
    "Stratified",
    "TwoSample",
    "WeightSums",
    "association_test",
    "bootstrap",
    "em",
    "estimate_joint",
    "estimate_proportions",
    "event_interval",
    "feldman_cousins",
    "independence_test",
    "invert",
    "mle",
    "profile_deviance",
    "project_simplex",
    "sum_event",
    "sum_weights",
]
