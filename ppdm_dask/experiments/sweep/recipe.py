"""Recipes: what an experiment is, read from TOML into frozen dataclasses.

Also here: the table ``[[figure]]`` of a recipe: what a figure shows, and against what.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Self

from ppdm_dask import designs
from ppdm_dask.designs.multigroup import MultiGroup, RandomGroups
from ppdm_dask.experiments.learners import LEARNERS
from ppdm_dask.experiments.parts import (
    VALUES,
    About,
    DataEntry,
    Grid,
    GridPoint,
    Id,
    RecipeBase,
    Repeats,
    Seed,
    Share,
    Some,
    grid_points,
)
from ppdm_dask.files.declared import By, Declared, Rest, schema_of, within
from ppdm_dask.files.fields import Scalar, read_toml
from ppdm_dask.files.values import (
    Choice,
    Many,
    Named,
    Number,
    Place,
    Schema,
    Text,
    When,
    is_number,
)
from ppdm_dask.resources import recipe_path
from ppdm_dask.shown import shown

__all__ = [
    "KINDS",
    "About",
    "DataEntry",
    "DesignSpec",
    "Figure",
    "MineSpec",
    "Recipe",
    "Sweep",
]


KINDS = ("mean", "variance", "privacy", "grid", "tradeoff")

TAKEN = ("data", "repeat", "split", "column", "w_a", "attributes", "shape", "id")
AXIS = Text(
    "an axis is called after a parameter of the design",
    f"(?!(?:{'|'.join(TAKEN)})$)[A-Za-z][A-Za-z0-9_]*",
)
AXES = Named(
    VALUES,
    AXIS,
    "a table [sweep.grid] with at least one axis, such as q = [0.5, 1], is needed",
)


@dataclass(frozen=True)
class Sweep(Declared):
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
        Whether the parts are drawn once per data entry or again in each repeat.
    grid : mapping of str to tuple
        Values of each swept parameter, by axis, in the order of the results' dimensions.
    """

    repeats: Repeats
    seed: Seed
    train: Share
    split: Annotated[str, Choice(("fixed", "redrawn"), "a kind of split")]
    grid: Annotated[Mapping[str, tuple[Scalar, ...]], AXES]


@dataclass(frozen=True)
class DesignSpec(Declared):
    """Family of the randomization design and the parameters that the grid does not sweep.

    Parameters
    ----------
    family : str
        Id of a design family.
    parameters : mapping
        By name.
    """

    family: Annotated[str, Choice(designs.families, "a design family")]
    parameters: Annotated[Mapping[str, Any], Rest()]

    def checked(self, at: Place) -> Self:
        for name in ("id", "attributes", "shape"):
            if name in self.parameters:
                raise at[name].wrong(
                    self.parameters[name], "leave it out: it follows from the data"
                )
        return self


@dataclass(frozen=True)
class MineSpec(Declared):
    """The learner and its parameters.

    Parameters
    ----------
    learner : str
    parameters : mapping
        By name.
    """

    learner: Annotated[str, Choice(LEARNERS, "a learner")]
    parameters: Annotated[Mapping[str, Any], By("learner", LEARNERS)]


@dataclass(frozen=True)
class Figure(Declared):
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
        Axis of the grid, with numbers, on the horizontal axis or, for ``tradeoff``, along the
        lines; the first one by default.
    series : str, optional
        What each line, or each row of a ``grid``, stands for: "data", the default, or another axis.
    test : {"both", "clean", "disguised"}, optional
        Test parts whose accuracy ``mean`` and ``variance`` show; both by default.
    measure : {"advantage", "guess", "posterior"}, optional
        What ``tradeoff`` uses as the adversary's knowledge; the advantage by default.
    """

    id: Id
    kind: Annotated[str, Choice(KINDS, "a kind of figure")]
    title: str
    data: Some = ()
    w_a: Annotated[
        tuple[float, ...],
        Many(
            Number("a proportion between 0 and 1, both excluded, is needed", above=0, below=1),
            "a list of proportions is needed",
            1,
            distinct=True,
        ),
        When("kind", ("privacy",)),
    ] = ()
    x: str | None = None
    series: Annotated[
        str | None, Text(), When("kind", ("mean", "variance", "grid", "tradeoff"), needed=False)
    ] = None
    test: Annotated[
        str | None,
        Choice(("both", "clean", "disguised"), "a test part"),
        When("kind", ("mean", "variance"), needed=False),
    ] = None
    measure: Annotated[
        str | None,
        Choice(("advantage", "guess", "posterior"), "a measure"),
        When("kind", ("tradeoff",), needed=False),
    ] = None

    def of(self, at: Place, known: tuple[str, ...], grid: Grid) -> Self:
        """Return the figure with what it leaves to the recipe filled in.

        Parameters
        ----------
        at : Place
            Of the figure.
        known : tuple of str
            Ids of the data entries.
        grid : mapping of str to tuple
            Values of the grid's axes.
        """
        Many(Choice(known, "the id of a data entry")).read(self.data, at["data"])
        if self.x is not None:
            Choice(grid, "an axis of the grid").read(self.x, at["x"])
        x = self.x or next(iter(grid))
        if not all(map(is_number, grid[x])):
            raise at["x"].wrong(self.x, f"an axis of numbers is needed, and {x} has others")
        series = self.series if self.kind == "privacy" else self._down(at, x, grid)
        figure = replace(self, data=self.data or known, series=series)
        if self.kind in ("mean", "variance") and figure.line_axis and len(figure.data) > 1:
            right = f"one data entry is needed where the lines are {shown(series)}"
            raise at["data"].wrong(list(figure.data), right)
        return figure

    def _down(self, at: Place, x: str, grid: Grid) -> str | None:
        """What tells the lines apart."""
        others = [axis for axis in grid if axis != x]
        grids = self.kind == "grid"
        if grids and not others:
            raise at["kind"].wrong(self.kind, "a grid with two axes is needed for this kind")
        known = others if grids else ["data", *others]
        if self.series is not None:
            Choice(known, "what tells the lines apart").read(self.series, at["series"])
        down = self.series or known[0]
        if down == "data" and self.kind != "tradeoff":
            return self.series  # a line for each combination of the other axes
        for axis in others:
            if axis != down and len(grid[axis]) > 1:
                right = f"the axis {axis} is left over, with {len(grid[axis])} values"
                raise at["series"].wrong(self.series, right)
        return down if grids else self.series

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


def _family_rule(name: str) -> Schema:
    """What the family of a recipe's design means for its parameters and for the grid's axes."""
    inner = {"type": "object", "required": ["id"]}  # a design of a block, which its family reads
    known = within(schema_of(designs.families()[name])["properties"], inner)
    if name == MultiGroup.id:  # or groups that are still to be dealt
        dealt = schema_of(RandomGroups)["properties"]
        known = {**known, **dealt, "groups": {"anyOf": [known["groups"], dealt["groups"]]}}
    stated = {key: value for key, value in known.items() if key not in ("attributes", "shape")}
    axes = {"propertyNames": {"enum": list(stated)}}
    design = {"properties": stated, "propertyNames": {"enum": ["family", *stated]}}
    return {
        "if": {"properties": {"design": When("family", (name,)).schema()}},
        "then": {"properties": {"design": design, "sweep": {"properties": {"grid": axes}}}},
    }


@dataclass(frozen=True, kw_only=True, repr=False)
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
    def schema(cls) -> Schema:
        return {**super().schema(), "allOf": [_family_rule(name) for name in designs.families()]}

    def checked(self, at: Place) -> Self:
        grid = self.sweep.grid
        for axis in grid:
            if axis in self.design.parameters:
                right = f"sweep.grid.{axis} gives the values; leave one of the two out"
                raise at["design"][axis].wrong(self.design.parameters[axis], right)
        ids = tuple(entry.id for entry in self.data)
        drawn = enumerate(self.figures)
        return replace(
            self, figures=tuple(each.of(at["figure"][i], ids, grid) for i, each in drawn)
        )

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

    def points(self) -> tuple[GridPoint[DataEntry], ...]:
        """All grid points; the last axis changes fastest."""
        return grid_points(self.data, self.sweep.grid)

    def design_at(self, point: GridPoint[DataEntry]) -> dict[str, Any]:
        """Return configuration of the design at a grid point, without attributes and shape."""
        return {"id": self.design.family, **self.design.parameters, **point.values}
