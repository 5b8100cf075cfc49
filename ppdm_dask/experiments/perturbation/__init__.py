"""Perturbed continuous data, and what classifiers lose by it: the experiments of [Guo]_."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ppdm_dask.experiments.kind import Kind, Plan
from ppdm_dask.experiments.perturbation import results
from ppdm_dask.experiments.variables import GRID

if TYPE_CHECKING:
    from ppdm_dask.experiments.perturbation.recipe import PerturbationRecipe


def _schema() -> dict[str, Any]:
    from ppdm_dask.experiments.perturbation.recipe import PerturbationRecipe

    return PerturbationRecipe.schema()


def _size(config: Mapping[str, Any]) -> int:
    entries = config["data"]
    return sum(
        len(values) * len(spec.get("data", entries))
        for spec in config["perturb"]
        for values in spec["sweep"].values()
    )


def _read(config: Mapping[str, Any], source: str, name: str | None) -> PerturbationRecipe:
    # Not at the top, here and below: the methods bring scikit-learn with them.
    from ppdm_dask.experiments.perturbation.recipe import PerturbationRecipe

    return PerturbationRecipe.from_config(config, source, name)


def _check(recipe: PerturbationRecipe) -> None:
    from ppdm_dask.experiments.perturbation.plan import check_perturbation

    check_perturbation(recipe)


def _plan(recipe: PerturbationRecipe) -> Plan:
    from ppdm_dask.experiments.perturbation.plan import PerturbationPlan

    return PerturbationPlan.make(recipe)


PERTURBATION = Kind(
    name="perturbation",
    tells=("perturb",),
    axes=("data", GRID, "classifier"),
    variables=results.PERTURBATION_REGISTRY,
    schema=_schema,
    size=_size,
    read=_read,
    check=_check,
    plan=_plan,
    findings=results.findings,
    tables=results.tables,
    as_json=results.as_json,
    # Nothing is undefined: a setting that an entry does not ask for is not a cell.
    draw=results.draw,
    words=results.words,
)
