"""Sweeps over randomization designs, the experiments of [ZhanMatwin]_ and [ZhanDu]_."""

from __future__ import annotations

from ppdm_dask.experiments.kind import Kind, Plan, size_of_grid
from ppdm_dask.experiments.sweep import figures, results, tables
from ppdm_dask.experiments.sweep.recipe import Recipe
from ppdm_dask.experiments.variables import GRID


def _check(recipe: Recipe) -> None:
    # Not at the top, here and below: designs, miners and compiled loops.
    from ppdm_dask.experiments.sweep.plan import check_recipe

    check_recipe(recipe)


def _plan(recipe: Recipe) -> Plan:
    from ppdm_dask.experiments.sweep.plan import SweepPlan

    return SweepPlan.make(recipe)


SWEEP = Kind(
    name="sweep",
    tells=("design", "mine"),
    axes=("data", GRID, "column", "w_a"),
    variables=results.REGISTRY,
    schema=Recipe.schema,
    size=size_of_grid,
    read=Recipe.from_config,
    check=_check,
    plan=_plan,
    findings=tables.findings,
    tables=tables.tables,
    as_json=tables.as_json,
    undefined=tables.undefined_cells,
    draw=figures.draw,
    words=figures.words,
)
