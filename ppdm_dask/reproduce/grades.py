"""Grades: which recipes a reproduction runs, and at what size; read from ``grades.toml``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from copy import deepcopy
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ppdm_dask.errors import InputError, RecipeError
from ppdm_dask.experiments.kinds import AnyRecipe, check_recipe, load_recipe
from ppdm_dask.files.fields import Table, read_toml

__all__ = ["FILE", "GRADES", "Grade", "default_folder", "read_grade"]


FILE = "grades.toml"
GRADES = ("small", "full")
LEFT_OUT = "left_out"


@dataclass(frozen=True)
class Grade:
    """What a reproduction runs.

    Parameters
    ----------
    name : {"small", "full"}
    folder : Path
        Where the goldens are.
    recipes : tuple of recipes
        Each with the changes of the grade.
    left_out : mapping of str to str
        Recipes that the grade leaves out, and why.
    """

    name: str
    folder: Path
    recipes: tuple[AnyRecipe, ...]
    left_out: Mapping[str, str]


def default_folder() -> Path:
    """Folder of the goldens in a checkout.

    Raises
    ------
    InputError
        In an installed package, which has none.
    """
    import ppdm_dask

    folder = Path(ppdm_dask.__file__).resolve().parent.parent / "tests" / "golden"
    if not (folder / FILE).is_file():
        raise InputError(
            "--against: got nothing; an installed package has no goldens: give the folder of a "
            f"checkout's tests/golden, or one of your own with a {FILE}",
            None,
        )
    return folder


def read_grade(folder: Path, name: str, only: Iterable[str] = ()) -> Grade:
    """Read a grade of a folder of goldens, and load its recipes.

    Parameters
    ----------
    folder : Path
        It holds ``grades.toml``: a table a grade, in it a table a recipe with the values that the
        grade changes, or with ``left_out`` and the reason.
    name : str
        The grade.
    only : iterable of str
        Recipes to take of it; by default all that are not left out.

    Raises
    ------
    InputError
        One line: file, dotted path, value, and what would be right.
    """
    path = folder / FILE
    root = Table(read_toml(path), str(path))
    table = root.table(name, f"a table [{name}] with the recipes of that grade is needed")
    recipes, left_out = {}, {}
    for key in table.remaining():
        entry = table.table(key, "a table with the values that the grade changes is needed")
        reason = entry.optional_text(LEFT_OUT, "the reason is needed, as a text")
        if reason is not None:
            entry.done()
            left_out[key] = reason
        else:
            recipes[key] = _recipe(key, entry, folder)
    chosen = list(only) or list(recipes)
    for each in chosen:
        if each not in recipes:
            why = f"it is left out: {left_out[each]}" if each in left_out else "it has no such"
            known = f"; there are: {', '.join(recipes)}" if each not in left_out else ""
            raise InputError(f"{path}: {name}: got recipe {each!r}; {why}{known}", each)
    return Grade(name, folder, tuple(recipes[each] for each in dict.fromkeys(chosen)), left_out)


def _recipe(key: str, entry: Table, folder: Path) -> AnyRecipe:
    file = entry.optional_text("file", "the path of a recipe's file is needed")
    try:
        recipe = load_recipe(folder / file if file else key)
    except RecipeError as error:
        if file:
            raise
        raise RecipeError(f"{entry.source}: {entry.path}: {error}", error.subject) from None
    config = deepcopy(recipe.config())
    _change(config, entry.rest(), entry)
    source = f"{entry.source}: {entry.path} of {recipe.source}"
    changed = type(recipe).from_config(config, source, key)
    changed = replace(changed, base=recipe.base)
    check_recipe(changed)
    return changed


def _change(config: Any, changes: Mapping[str, Any], at: Table, path: str = "") -> None:
    """Put values in the place of a recipe's own; lists of tables go by the tables' ids.

    What is no key of a recipe is left to the recipe's own reading to refuse.
    """
    for key, value in changes.items():
        inner = config.get(key)
        dotted = f"{path}.{key}" if path else key
        if isinstance(value, Mapping) and isinstance(inner, list):
            inner = {each["id"]: each for each in inner if isinstance(each, dict) and "id" in each}
            for name in value:
                if name not in inner:
                    right = f"the recipe has no table of that id, known: {', '.join(inner)}"
                    raise at.error(f"{dotted}.{name}", value[name], right)
        if isinstance(value, Mapping) and isinstance(inner, dict):
            _change(inner, value, at, dotted)
        else:
            config[key] = value
