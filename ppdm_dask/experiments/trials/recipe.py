"""Recipes of trials: the table ``[trial]``, the grid of its parameters, and figures."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Self

from ppdm_dask.errors import InputError
from ppdm_dask.experiments.parts import (
    VALUES,
    DataEntry,
    Grid,
    GridPoint,
    Id,
    RecipeBase,
    Repeats,
    Seed,
    grid_points,
)
from ppdm_dask.experiments.trials.trial import TRIALS, Trial, find_trial
from ppdm_dask.files.declared import Declared, Rest, fields_of, schema_of
from ppdm_dask.files.fields import TomlTable
from ppdm_dask.files.values import (
    Choice,
    Either,
    Many,
    Named,
    Place,
    Plain,
    Scalar,
    Schema,
    Text,
    When,
    is_number,
    scalar,
)

__all__ = ["TrialFigure", "TrialRecipe", "TrialSpec", "TrialSweep"]

AXIS = Text("the name of an axis is needed", r"\w+")


@dataclass(frozen=True)
class TrialSpec(Declared):
    """Which trial, and the parameters that the grid does not sweep.

    Parameters
    ----------
    name : str
        Of a registered trial.
    parameters : mapping
        By name.
    """

    name: Annotated[str, Choice(TRIALS, "a trial")]
    parameters: Annotated[Mapping[str, Any], Rest()] = field(default_factory=dict)


@dataclass(frozen=True)
class TrialSweep(Declared):
    """Repeats over a grid of the trial's parameters.

    Parameters
    ----------
    repeats : int
        Repeats of each cell, 1 or more.
    seed : int
        Entropy of all random streams, 0 or more.
    grid : mapping of str to tuple
        Values of each swept parameter, by axis, in the order of the results' dimensions.
    """

    repeats: Repeats
    seed: Seed
    grid: Annotated[
        Mapping[str, tuple[Scalar, ...]],
        Named(VALUES, AXIS, "a table [sweep.grid] with at least one parameter is needed"),
    ]


@dataclass(frozen=True)
class TrialFigure(Declared):
    """A figure of measures against a parameter, with 95 % intervals over the repeats.

    Parameters
    ----------
    id : str
        Name of its files.
    title : str
        Above it.
    measures : tuple of str
        Measures on the vertical axis; each has its own line style.
    x : str, optional
        Axis of the grid, with numbers, on the horizontal axis; the first one by default.
    series : str, optional
        What each line stands for: "variant", "data" or another axis of the grid; by default the
        first of these that has several values.
    at : mapping, optional
        Values of other axes to draw, one or a list; an axis that is not named must have one value.
    log : tuple of {"x", "y"}
        Axes with a logarithmic scale.
    """

    id: Id
    title: str
    measures: Annotated[
        tuple[str, ...], Many(Text(), "a list of measures is needed", 1, distinct=True)
    ]
    x: str | None = None
    series: str | None = None
    at: Annotated[
        Mapping[str, Any] | None,
        Named(
            Either("a value or a list of values is needed", (Plain(), VALUES)),
            AXIS,
            "a table of values by axis is needed",
        ),
    ] = None
    log: Annotated[tuple[str, ...], Many(Choice(("x", "y"), "an axis"), distinct=True)] = ()

    def of(self, at: Place, trial: type[Trial], axes: Grid) -> Self:
        """Return the figure with what it leaves to the recipe filled in.

        Parameters
        ----------
        at : Place
            Of the figure.
        trial : type
        axes : mapping of str to tuple
            Values of all axes of the results, those of the grid after "data" and before "variant".
        """
        known = [each.name for each in trial.measures]
        Many(Choice(known, "a measure of the trial")).read(self.measures, at["measures"])
        numeric = [a for a in axes if a not in APART and all(map(is_number, axes[a]))]
        Choice(numeric, "an axis of the grid with numbers").read(
            self.x or next(iter(numeric), None), at["x"]
        )
        x = self.x or numeric[0]
        chosen: dict[str, tuple[Scalar, ...]] = {}
        for axis, value in (self.at or {}).items():
            Choice(axes, "an axis").read(axis, at["at"])
            values = value if isinstance(value, tuple) else (value,)
            for each in values:
                if each not in axes[axis]:
                    right = f"one of the values of {axis} is needed: {_said(axes[axis])}"
                    raise at["at"][axis].wrong(each, right)
            chosen[axis] = values
        left = {axis: chosen.get(axis, values) for axis, values in axes.items() if axis != x}
        order = [axis for axis in ("variant", "data", *left) if axis in left]
        series = self.series
        if series is None:
            series = next((axis for axis in order if len(left[axis]) > 1), None)
        else:
            Choice(order, "what tells the lines apart").read(series, at["series"])
        for axis, values in left.items():
            if axis != series and len(values) > 1:
                right = f"one value of {axis} is needed: {_said(values)}"
                raise at["at"][axis].wrong(None, right)
        return replace(self, x=x, series=series, at=chosen or None)


APART = ("data", "variant")
"""Axes of the results beside those of the grid."""


def _said(values: tuple[Scalar, ...]) -> str:
    return ", ".join(map(str, values))


@dataclass(frozen=True)
class _Stated(Place):
    """The table ``[trial]``, some of whose keys stand in the grid."""

    swept: Mapping[str, Place] = field(default_factory=dict)

    def __getitem__(self, inner: int | str) -> Place:
        return self.swept.get(str(inner)) or super().__getitem__(inner)


@dataclass(frozen=True, kw_only=True, repr=False)
class TrialRecipe(RecipeBase):
    """A trial over a grid; see ``pipelines/README.md`` for the tables.

    Parameters
    ----------
    about, data, trial, sweep, figures
        The recipe's tables.
    name, source, base
        As of :class:`~ppdm_dask.experiments.parts.RecipeBase`.
    """

    kind = "trial"

    trial: TrialSpec
    sweep: TrialSweep
    data: tuple[DataEntry, ...] = ()
    figures: tuple[TrialFigure, ...] = ()

    @classmethod
    def schema(cls) -> Schema:
        return {**super().schema(), "allOf": [_rule(name) for name in TRIALS]}

    def checked(self, at: Place) -> Self:
        trial = self.of
        if trial.uses_data and not self.data:
            raise at["data"].wrong(None, "at least one table [[data]] is needed")
        if self.data and not trial.uses_data:
            right = f"leave it out: the trial {self.trial.name} uses no data"
            raise at["data"].wrong([entry.id for entry in self.data], right)
        recipe = replace(self, sweep=replace(self.sweep, grid=self._grid(at)))
        recipe = replace(recipe, source=at.source)
        for point in recipe.points():
            recipe.setting(point)
        drawn = enumerate(self.figures)
        axes = recipe.coordinates
        return replace(
            recipe, figures=tuple(each.of(at["figure"][i], trial, axes) for i, each in drawn)
        )

    def _grid(self, at: Place) -> Grid:
        """The grid, its values in the form that the trial declares."""
        known = {each.key: each.value for each in fields_of(self.of)}
        place, found = at["sweep"]["grid"], {}
        for axis, values in self.sweep.grid.items():
            Choice(known, "a parameter of the trial").read(axis, place)
            if axis in self.trial.parameters:
                right = f"sweep.grid.{axis} gives the values; leave one of the two out"
                raise at["trial"][axis].wrong(self.trial.parameters[axis], right)
            found[axis] = Many(known[axis], distinct=True).read(values, place[axis])
            if any(scalar(value) is None for value in found[axis]):
                raise place[axis].wrong(list(values), "a list has no place in a grid")
        return found

    def _content(self) -> dict[str, Any]:
        # The order of the grid's axes is the order of the results' dimensions.
        return {**super()._content(), "axes": list(self.sweep.grid)}

    @property
    def of(self) -> type[Trial]:
        """The class of the trial."""
        return find_trial(self.trial.name)

    @property
    def coordinates(self) -> dict[str, tuple[Scalar, ...]]:
        """The results' axes with their values, in order."""
        data = {"data": tuple(entry.id for entry in self.data)} if self.data else {}
        variant = {"variant": self.of.variants} if self.of.variants else {}
        return {**data, **self.sweep.grid, **variant}

    def points(self) -> tuple[GridPoint[DataEntry | None], ...]:
        """All grid points; the last axis changes fastest."""
        return grid_points(self.data or (None,), self.sweep.grid)

    def setting(self, point: GridPoint[Any]) -> Trial:
        """The trial at a grid point.

        Raises
        ------
        RecipeError
            One line: file, dotted path, value, and what would be right.
        """
        trial, swept = self.of, {}
        for axis, i in zip(self.sweep.grid, point.index[1:], strict=True):
            swept[axis] = Place(f"sweep.grid.{axis}[{i}]", self.source)
        table = TomlTable({**self.trial.parameters, **point.values}, self.source, "trial")
        found = trial.take(table)
        table.done()
        return trial(**found).checked(_Stated("trial", self.source, swept=swept))

    def place(self, point: GridPoint[Any], error: InputError) -> InputError:
        """Put a complaint ``PARAMETER: what is wrong`` where the recipe has the parameter."""
        name, _, right = str(error).partition(": ")
        if name not in {each.key for each in fields_of(self.of)}:
            return Place("trial", self.source).told(str(error), error.subject)
        if name not in self.sweep.grid:
            return Place(f"trial.{name}", self.source).told(right, error.subject)
        i = point.index[1 + list(self.sweep.grid).index(name)]
        return Place(f"sweep.grid.{name}[{i}]", self.source).told(right, error.subject)


def _rule(name: str) -> Schema:
    """What the name of a trial means for the other tables of a recipe."""
    trial = find_trial(name)
    stated = schema_of(trial)["properties"]
    spec = {"properties": stated, "propertyNames": {"enum": ["name", *stated]}}
    axes = {
        "properties": {key: {"items": value} for key, value in stated.items()},
        "propertyNames": {"enum": list(stated)},
    }
    measures = {"items": {"enum": [each.name for each in trial.measures]}}
    then: Schema = {
        "properties": {
            "trial": spec,
            "sweep": {"properties": {"grid": axes}},
            "figure": {"items": {"properties": {"measures": measures}}},
        }
    }
    if trial.uses_data:
        then["required"] = ["data"]
    else:
        then["properties"]["data"] = {"maxItems": 0}
    return {"if": {"properties": {"trial": When("name", (name,)).schema()}}, "then": then}
