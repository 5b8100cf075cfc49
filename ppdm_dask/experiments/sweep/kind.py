"""Sweeps over randomization designs: the kind of experiment."""

from __future__ import annotations

from ppdm_dask.experiments.kind import Kind, Plan
from ppdm_dask.experiments.sweep.figures import draw, words
from ppdm_dask.experiments.sweep.findings import findings
from ppdm_dask.experiments.sweep.recipe import Recipe
from ppdm_dask.experiments.sweep.tables import as_json, tables, undefined_cells
from ppdm_dask.experiments.sweep.variables import REGISTRY
from ppdm_dask.experiments.variables import GRID

__all__ = ["SWEEP"]


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
    variables=REGISTRY,
    schema=Recipe.schema,
    read=Recipe.from_config,
    check=_check,
    plan=_plan,
    findings=findings,
    tables=tables,
    as_json=as_json,
    undefined=undefined_cells,
    draw=draw,
    words=words,
)
