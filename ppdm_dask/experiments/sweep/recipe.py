"""Recipes: what an experiment is, read from TOML into frozen dataclasses.

Beside it: the table ``[[figure]]`` of a recipe: what a figure shows, and against what.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any, Self

from ppdm_dask import designs
from ppdm_dask.experiments.learners import LEARNERS
from ppdm_dask.experiments.parts import (
    About,
    DataEntry,
    Part,
    RecipeBase,
    read_each,
    read_id,
)
from ppdm_dask.files.fields import Scalar, Table, read_toml
from ppdm_dask.resources import recipe_path
from ppdm_dask.shown import listed, shown

__all__ = [
    "KINDS",
    "About",
    "DataEntry",
    "DesignSpec",
    "Figure",
    "GridPoint",
    "MineSpec",
    "Recipe",
    "Sweep",
]


KINDS = ("mean", "variance", "privacy", "grid", "tradeoff")
TESTS = ("both", "clean", "disguised")
MEASURES = ("advantage", "guess", "posterior")

Grid = Mapping[str, tuple[Scalar, ...]]

SPLITS = ("fixed", "redrawn")

_AXIS = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
_TAKEN = frozenset({"data", "repeat", "split", "column", "w_a", "attributes", "shape", "id"})


@dataclass(frozen=True)
class Sweep(Part):
    """Monte Carlo repeats over a grid.

    Parameters
    ----------
    repeats : int
        Repeats of each cell, 1 or more.
    seed : int
        Entropy of all random streams, 0 or more.
    train : float
        Share of the records in the training part, in (0, 1).
    split : {"fixed", "redrawn"}
        Whether the parts are drawn once a data entry or anew in each repeat.
    grid : mapping of str to tuple
        Values of each swept parameter, by axis, in the order of the results' dimensions.
    """

    repeats: int
    seed: int
    train: float
    split: str
    grid: Mapping[str, tuple[Scalar, ...]]

    @classmethod
    def read(cls, table: Table) -> Self:
        """Read the table ``[sweep]``."""
        repeats = table.integer("repeats", 1)
        seed = table.integer("seed", 0)
        train = table.take("train")
        if not isinstance(train, float) or not 0 < train < 1:
            raise table.error("train", train, "a share between 0 and 1, both excluded, is needed")
        split = table.choice("split", SPLITS, "a kind of split")
        axes = table.table("grid", "a table [sweep.grid] with the values of each axis is needed")
        grid = {}
        for axis in axes.remaining():
            if not _AXIS.fullmatch(axis) or axis in _TAKEN:
                values = axes.take(axis)
                raise axes.error(axis, values, "an axis is called after a parameter of the design")
            grid[axis] = axes.scalars(axis, "a list of at least one value is needed")
        if not grid:
            raise table.error("grid", {}, "at least one axis, such as q = [0.5, 1], is needed")
        table.done()
        return cls(repeats, seed, train, split, grid)

    def config(self) -> dict[str, Any]:
        """Return the table as plain values."""
        return super().config() | {"grid": {k: list(v) for k, v in self.grid.items()}}


@dataclass(frozen=True)
class DesignSpec:
    """Family of the randomization design and the parameters that the grid does not sweep."""

    family: str
    parameters: Mapping[str, Any]

    @classmethod
    def read(cls, table: Table, grid: Iterable[str]) -> Self:
        """Read the table ``[design]``; `grid` names the swept parameters."""
        family = table.choice("family", designs.families(), "a design family")
        parameters = table.rest()
        for name in ("id", "attributes", "shape"):
            if name in parameters:
                raise table.error(name, parameters[name], "leave it out: the data say this")
        for axis in grid:
            if axis in parameters:
                right = f"sweep.grid.{axis} gives the values; leave one of the two out"
                raise table.error(axis, parameters[axis], right)
        return cls(family, parameters)

    def config(self) -> dict[str, Any]:
        """Return the table as plain values."""
        return {"family": self.family, **self.parameters}


@dataclass(frozen=True)
class MineSpec:
    """The learner and its parameters."""

    learner: str
    parameters: Mapping[str, Any]

    @classmethod
    def read(cls, table: Table) -> Self:
        """Read the table ``[mine]``."""
        learner = table.choice("learner", LEARNERS, "a learner")
        parameters = LEARNERS[learner].read(table)
        table.done()
        return cls(learner, parameters)

    def config(self) -> dict[str, Any]:
        """Return the table as plain values."""
        return {"learner": self.learner, **self.parameters}


@dataclass(frozen=True)
class Figure(Part):
    """A figure to draw.

    Parameters
    ----------
    id : str
        Name of its files.
    kind : {"mean", "variance", "privacy", "grid", "tradeoff"}
        Mean accuracy or its variance against an axis of the grid; PSE against it; mean accuracy
        over two axes in numbers and shades; or mean accuracy against what adversaries learn.
    title : str
    data : tuple of str
        Ids of the data entries to draw; all of them unless the recipe names some.
    w_a : tuple of float
        Proportions in (0, 1) for which ``privacy`` draws the PSE.
    x : str, optional
        Axis of the grid, with numbers, that runs across or, for ``tradeoff``, along the lines; the
        first one by default.
    series : str, optional
        What tells the lines apart, or runs down a ``grid``: "data", the default, or another axis.
    test : {"both", "clean", "disguised"}, optional
        Test parts whose accuracy ``mean`` and ``variance`` show; both by default.
    measure : {"advantage", "guess", "posterior"}, optional
        What ``tradeoff`` takes for the adversary's knowledge; the advantage by default.
    """

    id: str
    kind: str
    title: str
    data: tuple[str, ...]
    w_a: tuple[float, ...] = ()
    x: str | None = None
    series: str | None = None
    test: str | None = None
    measure: str | None = None

    @classmethod
    def read(cls, table: Table, known: tuple[str, ...], grid: Grid) -> Self:
        """Read a table ``[[figure]]``.

        Parameters
        ----------
        table : Table
        known : tuple of str
            Ids of the data entries.
        grid : mapping of str to tuple
            Values of the grid's axes.
        """
        name = read_id(table)
        kind = table.choice("kind", KINDS, "a kind of figure")
        title = table.text("title")
        data = table.texts("data")
        for i, entry in enumerate(data):
            if entry not in known or entry in data[:i]:
                right = f"the id of a data entry is needed, each once: {listed(known)}"
                raise table.error(f"data[{i}]", entry, right)
        w_a = _read_proportions(table) if kind == "privacy" else ()
        x = _read_x(table, grid)
        series = test = measure = None
        if kind != "privacy":
            series = _read_series(table, kind, x or next(iter(grid)), grid)
        if kind in ("mean", "variance"):
            test = table.optional_choice("test", TESTS, "a test part")
        if kind == "tradeoff":
            measure = table.optional_choice("measure", MEASURES, "a measure")
        table.done()
        figure = cls(name, kind, title, data or known, w_a, x, series, test, measure)
        if kind in ("mean", "variance") and figure.line_axis and len(figure.data) > 1:
            right = f"one data entry is needed where the lines are {shown(series)}"
            raise table.error("data", list(figure.data), right)
        return figure

    def x_axis(self, axes: tuple[str, ...]) -> str:
        """Return the axis that runs across, from those of the grid."""
        return self.x or axes[0]

    @property
    def line_axis(self) -> str | None:
        """The axis that tells the lines apart; None where the data entries do."""
        return None if self.series == "data" else self.series

    @property
    def parts(self) -> tuple[str, ...]:
        """Prefixes of the variables to draw: of the clean test part, the disguised one or both."""
        return {"clean": ("accuracy",), "disguised": ("disguised",)}.get(
            self.test or "both", ("accuracy", "disguised")
        )


def _read_proportions(table: Table) -> tuple[float, ...]:
    found: list[float] = []
    for i, value in enumerate(table.scalars("w_a", "a list of proportions is needed")):
        if not isinstance(value, float) or not 0 < value < 1:
            right = "a proportion between 0 and 1, both excluded, is needed"
            raise table.error(f"w_a[{i}]", value, right)
        found.append(value)
    return tuple(found)


def _read_x(table: Table, grid: Grid) -> str | None:
    x = table.optional_choice("x", grid, "an axis of the grid")
    axis = x or next(iter(grid))
    if not all(isinstance(v, int | float) and not isinstance(v, bool) for v in grid[axis]):
        right = f"an axis of numbers is needed, and {axis} has others"
        raise table.error("x", x, right)
    return x


def _read_series(table: Table, kind: str, x: str, grid: Grid) -> str | None:
    others = [axis for axis in grid if axis != x]
    if kind == "grid":
        if not others:
            raise table.error("kind", kind, "a grid with two axes is needed for this kind")
        known = others
    else:
        known = ["data", *others]
    series = table.optional_choice("series", known, "what tells the lines apart")
    down = series or (others[0] if kind == "grid" else "data")
    if down == "data" and kind != "tradeoff":
        return series  # a line for each combination of the other axes
    for axis in others:
        if axis != down and len(grid[axis]) > 1:
            right = f"the axis {axis} is left over, with {len(grid[axis])} values"
            raise table.error("series", series, right)
    return down if kind == "grid" else series


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


@dataclass(frozen=True, kw_only=True)
class Recipe(RecipeBase):
    """An experiment: what is computed, on which data; never where or how fast.

    Parameters
    ----------
    about, data, design, mine, sweep, figures
        The recipe's tables.
    name, source, base
        As of :class:`~ppdm_dask.experiments.parts.RecipeBase`.
    """

    kind = "sweep"

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
        path = recipe_path(recipe)
        loaded = cls.from_config(read_toml(path), source=str(path), name=path.stem)
        return replace(loaded, base=path.parent)

    @classmethod
    def _read(cls, root: Table) -> dict[str, Any]:
        need = "at least one table [[data]] is needed"
        data = read_each(root, "data", need, DataEntry.read, least=1)
        ids = tuple(entry.id for entry in data)
        sweep = Sweep.read(root.table("sweep", "a table [sweep] is needed"))
        need = "a table [design] with a family is needed"
        design = DesignSpec.read(root.table("design", need), sweep.grid)
        mine = MineSpec.read(root.table("mine", "a table [mine] with a learner is needed"))
        need = "figures are tables [[figure]]"
        figures = read_each(root, "figure", need, lambda t: Figure.read(t, ids, sweep.grid))
        return {"data": data, "design": design, "mine": mine, "sweep": sweep, "figures": figures}

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
