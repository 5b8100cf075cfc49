"""Recipes: what an experiment is, read from TOML into frozen dataclasses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any, Self

from ppdm_dask.experiments.fields import Scalar, Table, read_toml
from ppdm_dask.experiments.figure_spec import Figure
from ppdm_dask.experiments.parts import About, DataEntry, DesignSpec, MineSpec, Sweep
from ppdm_dask.experiments.recipe_base import RecipeBase, read_each

__all__ = [
    "About",
    "DataEntry",
    "DesignSpec",
    "Figure",
    "GridPoint",
    "MineSpec",
    "Recipe",
    "Sweep",
]


@dataclass(frozen=True)
class GridPoint:
    """A data entry with one value of each grid axis.

    Parameters
    ----------
    index : tuple of int
        Position along the axes ``data`` and the grid's, in order.
    entry : DataEntry
    values : mapping of str to scalar
        The grid's parameters at this point.
    """

    index: tuple[int, ...]
    entry: DataEntry
    values: Mapping[str, Scalar]

    @property
    def id(self) -> str:
        """Readable name, unique within the recipe, such as ``adult-midrange q=0.4``."""
        return " ".join([self.entry.id, *(f"{axis}={v}" for axis, v in self.values.items())])


@dataclass(frozen=True)
class Recipe(RecipeBase):
    """An experiment: what is computed, on which data; never where or how fast.

    Parameters
    ----------
    about, data, design, mine, sweep, figures
        The recipe's tables.
    name, source, base
        As of :class:`~ppdm_dask.experiments.recipe_base.RecipeBase`.
    """

    kind = "sweep"

    about: About
    data: tuple[DataEntry, ...]
    design: DesignSpec
    mine: MineSpec
    sweep: Sweep
    figures: tuple[Figure, ...] = ()

    @classmethod
    def load(cls, recipe: str | Path) -> Self:
        """Read a recipe from a TOML file, or by the name of one that comes with the package.

        Raises
        ------
        RecipeError
            One line: file, dotted path, value, and what would be right.
        """
        from ppdm_dask.resources import recipe_path

        path = recipe_path(recipe)
        loaded = cls.from_config(read_toml(path), source=str(path), name=path.stem)
        return replace(loaded, base=path.parent)

    @classmethod
    def from_config(
        cls, config: Mapping[str, Any], source: str = "recipe", name: str | None = None
    ) -> Self:
        """Build a recipe from plain tables, as :meth:`config` gives them.

        Raises
        ------
        RecipeError
            One line: `source`, dotted path, value, and what would be right.
        """
        root = Table(config, source)
        about = About.read(root.table("about", "a table [about] with a title is needed"))
        need = "at least one table [[data]] is needed"
        data = read_each(root, "data", need, DataEntry.read, least=1)
        ids = tuple(entry.id for entry in data)
        sweep = Sweep.read(root.table("sweep", "a table [sweep] is needed"))
        need = "a table [design] with a family is needed"
        design = DesignSpec.read(root.table("design", need), sweep.grid)
        mine = MineSpec.read(root.table("mine", "a table [mine] with a learner is needed"))
        need = "figures are tables [[figure]]"
        figures = read_each(root, "figure", need, lambda t: Figure.read(t, ids, sweep.grid))
        root.done()
        return cls(
            about=about,
            data=data,
            design=design,
            mine=mine,
            sweep=sweep,
            figures=figures,
            name=name or Path(source).stem,
            source=source,
        )

    def config(self) -> dict[str, Any]:
        """Return the recipe as plain tables, defaults filled in, for :meth:`from_config`."""
        return {
            "about": self.about.config(),
            "data": [entry.config() for entry in self.data],
            "design": self.design.config(),
            "mine": self.mine.config(),
            "sweep": self.sweep.config(),
            "figure": [figure.config() for figure in self.figures],
        }

    def _content(self) -> dict[str, Any]:
        # The order of the grid's axes is the order of the results' dimensions.
        return {**super()._content(), "axes": list(self.sweep.grid)}

    @property
    def coordinates(self) -> dict[str, tuple[Scalar, ...]]:
        """The results' axes ``data`` and the grid's, in order, with their values."""
        return {"data": tuple(entry.id for entry in self.data), **self.sweep.grid}

    @property
    def w_a(self) -> tuple[float, ...]:
        """Proportions for which any figure draws the PSE, rising."""
        return tuple(sorted({w for figure in self.figures for w in figure.w_a}))

    def points(self) -> tuple[GridPoint, ...]:
        """All grid points, the last axis running fastest."""
        grid = self.sweep.grid
        ranges = [range(len(self.data)), *(range(len(values)) for values in grid.values())]
        points = []
        for index in product(*ranges):
            values = {axis: grid[axis][i] for axis, i in zip(grid, index[1:], strict=True)}
            points.append(GridPoint(index, self.data[index[0]], values))
        return tuple(points)

    def design_at(self, point: GridPoint) -> dict[str, Any]:
        """Return configuration of the design at a grid point, without attributes and shape."""
        return {"id": self.design.family, **self.design.parameters, **point.values}
