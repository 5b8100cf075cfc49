"""Searches for randomization matrices: the kind of experiment."""

from __future__ import annotations

from ppdm_dask.experiments.fronts.figures import draw, words
from ppdm_dask.experiments.fronts.recipe import FrontRecipe
from ppdm_dask.experiments.fronts.tables import (
    as_json,
    findings,
    notes,
    tables,
    undefined_cases,
)
from ppdm_dask.experiments.fronts.variables import FRONT_REGISTRY
from ppdm_dask.experiments.kind import Kind, Plan
from ppdm_dask.experiments.variables import GRID

__all__ = ["FRONT"]


def _plan(recipe: FrontRecipe) -> Plan:
    # Not at the top: the search brings its compiled loops with it.
    from ppdm_dask.experiments.fronts.plan import FrontPlan

    return FrontPlan.make(recipe)


FRONT = Kind(
    name="front",
    tells=("search", "prior"),
    axes=("case", GRID, "level"),
    variables=FRONT_REGISTRY,
    schema=FrontRecipe.schema,
    read=FrontRecipe.from_config,
    plan=_plan,
    findings=findings,
    tables=tables,
    as_json=as_json,
    undefined=undefined_cases,
    remarks=notes,
    draw=draw,
    words=words,
)
