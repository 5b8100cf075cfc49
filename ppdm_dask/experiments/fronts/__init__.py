"""Searches for randomization matrices, the experiments of [HuangDu]_."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ppdm_dask.experiments.fronts import results
from ppdm_dask.experiments.fronts.recipe import FrontRecipe
from ppdm_dask.experiments.kind import Kind, Plan
from ppdm_dask.experiments.variables import GRID


def _size(config: Mapping[str, Any]) -> int:
    return sum(len(p["delta"]) * len(p.get("attributes", "1")) for p in config["prior"])


def _plan(recipe: FrontRecipe) -> Plan:
    # Not at the top: the search brings its compiled loops with it.
    from ppdm_dask.experiments.fronts.plan import FrontPlan

    return FrontPlan.make(recipe)


FRONT = Kind(
    name="front",
    tells=("search", "prior"),
    axes=("case", GRID, "level"),
    variables=results.FRONT_REGISTRY,
    schema=FrontRecipe.schema,
    size=_size,
    read=FrontRecipe.from_config,
    plan=_plan,
    findings=results.findings,
    tables=results.tables,
    as_json=results.as_json,
    undefined=results.undefined_cases,
    remarks=results.notes,
    draw=results.draw,
    words=results.words,
)
