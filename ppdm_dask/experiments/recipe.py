"""Recipes: what an experiment is, read from TOML into frozen dataclasses."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path
from typing import Any, Self

from ppdm_dask.experiments.fields import Scalar, Table, read_toml
from ppdm_dask.experiments.figure_spec import Figure
from ppdm_dask.experiments.parts import About, DataEntry, DesignSpec, MineSpec, Sweep

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
class Recipe:
    """An experiment: what is computed, on which data; never where or how fast.

    Parameters
    ----------
    about, data, design, mine, sweep, figures
        The recipe's tables.
    name : str
        Name of the recipe's file without its ending.
    source : str
        The file as messages call it.
    base : Path
        Folder that relative paths start from.
    """

    about: About
    data: tuple[DataEntry, ...]
    design: DesignSpec
    mine: MineSpec
    sweep: Sweep
    figures: tuple[Figure, ...] = ()
    name: str = field(default="recipe", compare=False)
    source: str = field(default="recipe", compare=False)
    base: Path = field(default=Path(), compare=False)

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
        entries = [(table, DataEntry.read(table)) for table in root.tables("data", need)]
        if not entries:
            raise root.error("data", None, need)
        ids = _distinct((table, entry.id) for table, entry in entries)
        sweep = Sweep.read(root.table("sweep", "a table [sweep] is needed"))
        need = "a table [design] with a family is needed"
        design = DesignSpec.read(root.table("design", need), sweep.grid)
        mine = MineSpec.read(root.table("mine", "a table [mine] with a learner is needed"))
        need = "figures are tables [[figure]]"
        tables = root.tables("figure", need)
        figures = [(table, Figure.read(table, ids, sweep.grid)) for table in tables]
        _distinct((table, figure.id) for table, figure in figures)
        root.done()
        return cls(
            about=about,
            data=tuple(entry for _, entry in entries),
            design=design,
            mine=mine,
            sweep=sweep,
            figures=tuple(figure for _, figure in figures),
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

    @property
    def digest(self) -> str:
        """SHA-256 of the recipe's canonical JSON without its title, references and notes."""
        content = {key: value for key, value in self.config().items() if key != "about"}
        # The order of the grid's axes is the order of the results' dimensions.
        content["axes"] = list(self.sweep.grid)
        text = json.dumps(content, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()

    def with_changes(self, *, repeats: int | None = None, seed: int | None = None) -> Self:
        """Return the same recipe with another number of repeats or another seed.

        Raises
        ------
        RecipeError
            If `repeats` is below 1 or `seed` below 0.
        """
        config = self.config()
        changes = {"repeats": repeats, "seed": seed}
        config["sweep"] |= {key: value for key, value in changes.items() if value is not None}
        changed = self.from_config(config, self.source, self.name)
        return replace(changed, base=self.base)

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

    def path(self, name: str) -> Path:
        """Return a file that the recipe names."""
        return self.base / name


def _distinct(named: Iterable[tuple[Table, str]]) -> tuple[str, ...]:
    """Return the ids, which must differ."""
    found: list[str] = []
    for table, name in named:
        if name in found:
            raise table.error("id", name, "another entry has this id; ids must differ")
        found.append(name)
    return tuple(found)
