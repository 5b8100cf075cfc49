"""Estimates from disguised counts: unbiased first; repairs, likelihood and intervals by name."""

from ppdm_dask.estimate.inversion import (
    Estimate,
    estimate_proportions,
    invert,
    project_simplex,
)

__all__ = ["Estimate", "estimate_proportions", "invert", "project_simplex"]
