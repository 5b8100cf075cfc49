"""Kinds of experiments: the tables of a recipe determine its kind."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ppdm_dask.experiments.fronts import FRONT
from ppdm_dask.experiments.kind import Kind, Plan
from ppdm_dask.experiments.parts import RecipeBase
from ppdm_dask.experiments.perturbation import PERTURBATION
from ppdm_dask.experiments.sweep import SWEEP
from ppdm_dask.experiments.trials import TRIAL
from ppdm_dask.files.declared import document
from ppdm_dask.files.fields import read_toml
from ppdm_dask.resources import recipe_path

if TYPE_CHECKING:
    import xarray as xr

__all__ = [
    "AnyRecipe",
    "check_recipe",
    "is_recipe",
    "kind_of",
    "kind_of_result",
    "load_recipe",
    "make_plan",
    "outline",
    "recipe_schema",
    "telling_tables",
]

AnyRecipe = RecipeBase
"""A recipe of any kind."""

KINDS: dict[str, Kind[Any]] = {
    kind.name: kind
    for kind in (
        PERTURBATION,
        FRONT,
        TRIAL,
        SWEEP,
    )
}
"""The kinds by name; the first of which a recipe has a table is the recipe's kind."""


def kind_of(recipe: AnyRecipe) -> Kind[Any]:
    """The kind of a recipe."""
    return KINDS[recipe.kind]


def kind_of_result(ds: xr.Dataset) -> Kind[Any]:
    """The kind of experiment that a result is of."""
    # Those of sweeps do not say it: they were there before the other kinds.
    return KINDS[ds.attrs.get("experiment", SWEEP.name)]


def telling_tables() -> list[str]:
    """Tables by which the kind of a recipe is recognised: ``[design] and [mine]``."""
    return [" and ".join(f"[{name}]" for name in kind.tells) for kind in KINDS.values()]


def is_recipe(config: Mapping[str, Any]) -> bool:
    """Whether plain tables are those of a recipe of any kind."""
    known = {"data", "sweep"}.union(*(kind.tells for kind in KINDS.values()))
    return not known.isdisjoint(config)


def recipe_from_config(
    config: Mapping[str, Any], source: str = "recipe", name: str | None = None
) -> AnyRecipe:
    """Build a recipe of any kind from plain tables.

    Raises
    ------
    RecipeError
        One line: `source`, dotted path, value, and what would be right.
    """
    found: AnyRecipe = _told(config).read(config, source, name)
    return found


def _told(config: Mapping[str, Any]) -> Kind[Any]:
    # A recipe that lacks all of these tables is read as a sweep, whose reader says what is missing.
    told = (kind for kind in KINDS.values() if not config.keys().isdisjoint(kind.tells))
    return next(told, SWEEP)


class Outline(NamedTuple):
    """What a list says of a recipe: its title, grid points and repeats of each."""

    title: str
    cells: int
    repeats: int


def outline(name: str) -> Outline:
    """Outline a recipe of the package, which tests have checked, without reading its values.

    The methods that perturbations and trials name load scikit-learn, numba and DEAP.
    """
    config = read_toml(recipe_path(name))
    return Outline(config["about"]["title"], _told(config).size(config), config["sweep"]["repeats"])


def load_recipe(recipe: str | Path) -> AnyRecipe:
    """Read a recipe of any kind from a file, or by the name of one of the package.

    Raises
    ------
    RecipeError
        One line: file, dotted path, value, and what would be right.
    """
    path = recipe_path(recipe)
    loaded = recipe_from_config(read_toml(path), source=str(path), name=path.stem)
    return loaded.placed(path.parent)


def recipe_schema() -> dict[str, Any]:
    """JSON Schema of a recipe of any kind."""
    *others, last = KINDS.values()
    chosen: dict[str, Any] = {"$ref": f"#/$defs/{last.name}"}
    for kind in reversed(others):
        told = {"anyOf": [{"required": [table]} for table in kind.tells]}
        chosen = {"if": told, "then": {"$ref": f"#/$defs/{kind.name}"}, "else": chosen}
    kinds = {kind.name: kind.schema() for kind in KINDS.values()}
    return document("A recipe of ppdm_dask", {"type": "object", **chosen, "$defs": kinds})


def check_recipe(recipe: AnyRecipe) -> None:
    """Check what needs only codebooks and methods; no data are read."""
    kind_of(recipe).check(recipe)


def make_plan(recipe: AnyRecipe) -> Plan:
    """Read the data of a recipe, and plan its cells."""
    return kind_of(recipe).plan(recipe)
