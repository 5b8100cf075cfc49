"""Trials: a simulation in one class, repeated over a grid of its parameters."""

from __future__ import annotations

from ppdm_dask.experiments.kind import Kind, size_of_grid
from ppdm_dask.experiments.trials import figures, results
from ppdm_dask.experiments.trials.plan import TrialPlan, check_trial
from ppdm_dask.experiments.trials.recipe import TrialRecipe
from ppdm_dask.experiments.variables import GRID

TRIAL = Kind(
    name="trial",
    tells=("trial",),
    axes=("data", GRID, "variant"),
    variables=results.variables,
    schema=TrialRecipe.schema,
    size=size_of_grid,
    read=TrialRecipe.from_config,
    check=check_trial,
    plan=TrialPlan.make,
    findings=results.findings,
    tables=results.tables,
    as_json=results.as_json,
    undefined=results.undefined,
    draw=figures.draw,
    words=figures.words,
)
