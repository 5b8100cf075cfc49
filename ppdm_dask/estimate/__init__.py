"""Estimates from disguised counts: unbiased first; repairs, likelihood and intervals by name."""

from ppdm_dask.estimate.association import Association, association_test, independence_test
from ppdm_dask.estimate.fit import Fit
from ppdm_dask.estimate.intervals import Interval, event_interval, profile_deviance
from ppdm_dask.estimate.inversion import Estimate, invert
from ppdm_dask.estimate.joint import JointEstimate, estimate_joint
from ppdm_dask.estimate.likelihood import LikelihoodEstimate, em, mle
from ppdm_dask.estimate.ordering import feldman_cousins
from ppdm_dask.estimate.proportions import estimate_proportions
from ppdm_dask.estimate.repair import project_simplex
from ppdm_dask.estimate.resampling import Bootstrap, bootstrap
from ppdm_dask.estimate.sums import WeightSums, sum_event, sum_weights

__all__ = [
    "Association",
    "Bootstrap",
    "Estimate",
    "Fit",
    "Interval",
    "JointEstimate",
    "LikelihoodEstimate",
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
