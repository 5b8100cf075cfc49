"""Recipes and the runs made of them."""

from ppdm_dask.experiments.recipe import Recipe
from ppdm_dask.experiments.run import RunResult, run

__all__ = ["Recipe", "RunResult", "run"]
