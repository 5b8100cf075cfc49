"""The deeper check of a recipe: its files, its codebooks, and the design at every grid point."""

from __future__ import annotations

import re
from typing import Any

from ppdm_dask.designs import Design
from ppdm_dask.designs.random_groups import scheme_from_config
from ppdm_dask.errors import DesignError, RecipeError
from ppdm_dask.experiments.fields import show
from ppdm_dask.experiments.inputs import declared_codebook
from ppdm_dask.experiments.privacy_of_cells import single_attribute
from ppdm_dask.experiments.recipe import GridPoint, Recipe

__all__ = ["check_recipe"]

# A design's message begins with its parameter: "q: ...", "theta[1]: ..." or "w_y of 'age': ...".
_PARAMETER = re.compile(r"(?P<name>\w+)(?:\[\d+\]| of '[^']*')?: (?P<rest>.*)", re.DOTALL)


def check_recipe(recipe: Recipe) -> None:
    """Check what only the codebooks and the design can tell; no data are read.

    Raises
    ------
    RecipeError
        One line: file, dotted path such as ``sweep.grid.q[3]``, value, and what would be right.
    CodebookError
        If a codebook is wrong.
    """
    shapes, books = {}, {}
    for entry in recipe.data:
        book = declared_codebook(recipe, entry)
        binary = entry.binarise is not None
        # Labels of binarised data are known when the data are read.
        books[entry.id] = None if binary else book
        shapes[entry.id] = (list(book.names), [2] * len(book.names) if binary else list(book.shape))
    for point in recipe.points():
        attributes, shape = shapes[point.entry.id]
        config = {**recipe.design_at(point), "attributes": attributes, "shape": shape}
        try:
            scheme = scheme_from_config(config)
            declared = books[point.entry.id]
            if declared is not None and isinstance(scheme, Design):
                scheme.bind(declared, positions=True)
        except DesignError as error:
            raise _located(recipe, point, error) from None
    for i, figure in enumerate(recipe.figures):
        for point in recipe.points() if figure.w_a else ():
            if single_attribute(recipe.design_at(point)) is None:
                raise RecipeError(
                    f"{recipe.source}: figure[{i}].w_a: got {show(list(figure.w_a))}; leave the "
                    "figure out: the design says more than what happens to a single attribute",
                    figure,
                )


def _located(recipe: Recipe, point: GridPoint, error: DesignError) -> RecipeError:
    """Return the same complaint, with the recipe's file and the dotted path of the parameter."""
    message = " ".join(str(error).split())
    match = _PARAMETER.fullmatch(message)
    name, rest = (match["name"], match["rest"]) if match else ("", message)
    path, value = _place(recipe, point, name)
    if path == "design":
        rest = message
    if not rest.startswith("got "):
        rest = f"got {show(value)}; {rest}" if value is not None else rest
    return RecipeError(f"{recipe.source}: {path}: {rest}", error.subject)


def _place(recipe: Recipe, point: GridPoint, name: str) -> tuple[str, Any]:
    axes = list(recipe.sweep.grid)
    if name in axes:
        position = point.index[1 + axes.index(name)]
        return f"sweep.grid.{name}[{position}]", point.values[name]
    if name in recipe.design.parameters:
        return f"design.{name}", recipe.design.parameters[name]
    return "design", None
