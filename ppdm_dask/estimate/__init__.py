"""Estimates from disguised counts: unbiased first; repairs, likelihood and intervals by name."""

from ppdm_dask.estimate.inversion import (
    Estimate,
    estimate_proportions,
    invert,
)
from ppdm_dask.estimate.repair import project_simplex
from ppdm_dask.estimate.sums import WeightSums, sum_event, sum_weights

__all__ = [
    "Estimate",
    "WeightSums",
    "estimate_proportions",
    "invert",
    "project_simplex",
    "sum_event",
    "sum_weights",
]
