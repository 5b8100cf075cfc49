"""Kinds of experiments: a recipe's tables tell which it is, and the rest follows from that."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from ppdm_dask.engine.cells import Cell, Work
from ppdm_dask.experiments.sweep.recipe import Recipe
from ppdm_dask.files.fields import read_toml

if TYPE_CHECKING:
    import xarray as xr

    from ppdm_dask.experiments.fronts.recipe import FrontRecipe
    from ppdm_dask.experiments.inputs import Prepared
    from ppdm_dask.experiments.perturbation.recipe import PerturbationRecipe
    from ppdm_dask.experiments.sweep.plan import Finished

__all__ = [
    "AnyRecipe",
    "Plan",
    "check_recipe",
    "findings",
    "load_recipe",
    "make_plan",
    "recipe_from_config",
]

AnyRecipe: TypeAlias = "Recipe | PerturbationRecipe | FrontRecipe"


class Plan(Protocol):
    """What a run needs of an experiment."""

    @property
    def prepared(self) -> Sequence[Prepared]:
        """The data entries, in the recipe's order."""
        ...  # pragma: no cover

    @property
    def inputs(self) -> Mapping[str, Mapping[str, str]]:
        """Digests of each data entry's file and codebook, for the manifest."""
        ...  # pragma: no cover

    @property
    def cells(self) -> Sequence[Cell]:
        """Everything to compute."""
        ...  # pragma: no cover

    @property
    def listed(self) -> Sequence[tuple[Cell, str]]:
        """All cells, each with why it is undefined; an empty text where it is not."""
        ...  # pragma: no cover

    @property
    def work(self) -> Work:
        """The computation behind the cells."""
        ...  # pragma: no cover

    def collect(self, ledger: Finished) -> xr.Dataset:
        """The result from the finished repeats of all cells."""
        ...  # pragma: no cover


def recipe_from_config(
    config: Mapping[str, Any], source: str = "recipe", name: str | None = None
) -> AnyRecipe:
    """Build a recipe of any kind from plain tables.

    Raises
    ------
    RecipeError
        One line: `source`, dotted path, value, and what would be right.
    """
    if "perturb" in config:
        # Not at the top: the methods bring scikit-learn with them.
        from ppdm_dask.experiments.perturbation.recipe import PerturbationRecipe

        return PerturbationRecipe.from_config(config, source, name)
    if "search" in config or "prior" in config:
        from ppdm_dask.experiments.fronts.recipe import FrontRecipe

        return FrontRecipe.from_config(config, source, name)
    return Recipe.from_config(config, source, name)


def load_recipe(recipe: str | Path) -> AnyRecipe:
    """Read a recipe of any kind from a file, or by the name of one of the package.

    Raises
    ------
    RecipeError
        One line: file, dotted path, value, and what would be right.
    """
    from ppdm_dask.resources import recipe_path

    path = recipe_path(recipe)
    loaded = recipe_from_config(read_toml(path), source=str(path), name=path.stem)
    return replace(loaded, base=path.parent)


def check_recipe(recipe: AnyRecipe) -> None:
    """Check what only the codebooks and the methods can tell; no data are read."""
    if isinstance(recipe, Recipe):
        from ppdm_dask.experiments.sweep import plan as check

        check.check_recipe(recipe)
    elif recipe.kind == "perturbation":
        from ppdm_dask.experiments.perturbation.plan import check_perturbation

        check_perturbation(recipe)


def make_plan(recipe: AnyRecipe) -> Plan:
    """Read the data of a recipe, and lay out its cells."""
    if recipe.kind == "front":
        from ppdm_dask.experiments.fronts.plan import FrontPlan

        return FrontPlan.make(recipe)
    if recipe.kind == "perturbation":
        from ppdm_dask.experiments.perturbation.plan import PerturbationPlan

        return PerturbationPlan.make(recipe)
    assert isinstance(recipe, Recipe)
    from ppdm_dask.experiments.inputs import prepare_all
    from ppdm_dask.experiments.sweep.plan import SweepPlan

    return SweepPlan(recipe, prepare_all(recipe))


def findings(ds: xr.Dataset) -> list[str]:
    """Sentences that a reader of a result must know."""
    if ds.attrs.get("experiment") == "perturbation":
        from ppdm_dask.experiments.perturbation.tables import perturbation_findings

        return perturbation_findings(ds)
    if ds.attrs.get("experiment") == "front":
        from ppdm_dask.experiments.fronts.tables import front_findings

        return front_findings(ds)
    from ppdm_dask.experiments import results

    return results.findings(ds)
