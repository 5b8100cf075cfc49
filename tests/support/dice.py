"""A kind of experiment in one file: the throws of dice, whose mean is known."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np

from ppdm_dask.drawing import style
from ppdm_dask.drawing.texts import course, fixed, plain_table
from ppdm_dask.engine.cells import Cell
from ppdm_dask.experiments.inputs import Prepared
from ppdm_dask.experiments.kind import Finished, Kind
from ppdm_dask.experiments.parts import Id, RecipeBase, Repeats, Seed
from ppdm_dask.experiments.variables import GRID, Variable, assemble
from ppdm_dask.files.declared import Declared
from ppdm_dask.files.values import Many, Whole
from ppdm_dask.randomness import SimulationStream

if TYPE_CHECKING:
    import xarray as xr
    from rich.table import Table as Printed

VARIABLES = (
    Variable("undefined", (GRID,), "str", "", "Why a die cannot be thrown."),
    Variable("throw", (GRID, "repeat"), "int32", "1", "The face on top; -1 where not thrown yet."),
    Variable("mean", (GRID,), "float64", "1", "Mean of the throws.", "derived"),
)


@dataclass(frozen=True)
class Throws(Declared):
    """Throws of each die.

    Parameters
    ----------
    repeats : int
        How many.
    seed : int
        Of all of them.
    """

    repeats: Repeats
    seed: Seed


@dataclass(frozen=True)
class Picture(Declared):
    """A picture of the means.

    Parameters
    ----------
    id : str
        Name of its files.
    title : str
        Above it.
    """

    id: Id
    title: str


@dataclass(frozen=True)
class Dice(Declared):
    """Which dice are thrown.

    Parameters
    ----------
    faces : tuple of int
        How many each has.
    """

    faces: Annotated[tuple[int, ...], Many(Whole(0), "numbers of faces are needed", 1)]


@dataclass(frozen=True, kw_only=True)
class DiceRecipe(RecipeBase):
    """Dice that are thrown.

    Parameters
    ----------
    dice, sweep, figures
        Tables.
    """

    kind = "dice"

    dice: Dice
    sweep: Throws
    figures: tuple[Picture, ...] = ()

    @property
    def faces(self) -> tuple[int, ...]:
        return self.dice.faces

    def points(self) -> tuple[int, ...]:
        return self.faces


@dataclass(frozen=True)
class DiceWork:
    seed: int

    def trials(self, cell: Cell, start: int, stop: int) -> dict[str, Any]:
        streams = (SimulationStream(self.seed, (cell.key, repeat)) for repeat in range(start, stop))
        faces = [1 + int(stream.source().below(cell.params["faces"], 1)[0]) for stream in streams]
        return {"throw": np.array(faces, dtype=np.int32)}


@dataclass(frozen=True)
class DicePlan:
    recipe: DiceRecipe
    prepared: Sequence[Prepared] = ()

    @property
    def inputs(self) -> dict[str, dict[str, str]]:
        return {}

    @property
    def listed(self) -> list[tuple[Cell, str]]:
        repeats = self.recipe.sweep.repeats
        return [
            (Cell(f"faces={n}", {"faces": n}, repeats), "" if n else "no face")
            for n in self.recipe.faces
        ]

    @property
    def cells(self) -> list[Cell]:
        return [cell for cell, reason in self.listed if not reason]

    @property
    def work(self) -> DiceWork:
        return DiceWork(self.recipe.sweep.seed)

    def collect(self, ledger: Finished) -> xr.Dataset:
        recipe = self.recipe
        n = len(recipe.faces)
        shapes = {"throw": (n, recipe.sweep.repeats)}
        arrays = {v.name: v.empty(shapes.get(v.name, (n,))) for v in VARIABLES}
        for i, (cell, reason) in enumerate(self.listed):
            arrays["undefined"][i] = reason
            if not reason and (done := ledger.finished(cell)).size:
                arrays["throw"][i, done] = ledger.collect(cell)["throw"]
                arrays["mean"][i] = arrays["throw"][i, done].mean()
        attributes = {"title": recipe.about.title, "experiment": recipe.kind}
        return assemble(VARIABLES, arrays, {"faces": recipe.faces}, ["faces"], attributes)


def tables(ds: xr.Dataset) -> Iterator[tuple[str, Printed]]:
    rows = [
        [str(n), fixed(float(mean), 2)]
        for n, mean in zip(ds["faces"].to_numpy(), ds["mean"].to_numpy(), strict=True)
        if np.isfinite(mean)
    ]
    yield "dice", plain_table(["faces", "mean throw"], rows, right=(0, 1))


def as_json(ds: xr.Dataset) -> dict[str, Any]:
    return {"throws": ds["throw"].to_numpy().tolist()}


def findings(ds: xr.Dataset) -> list[str]:
    return [
        f"{n} faces: a die with one face does not vary." for n in ds["faces"].to_numpy() if n == 1
    ]


def undefined(ds: xr.Dataset) -> list[str]:
    cells = zip(ds["faces"].to_numpy(), ds["undefined"].to_numpy(), strict=True)
    return [f"at faces = {n}: {reason}" for n, reason in cells if reason]


def draw(ds: xr.Dataset, recipe: DiceRecipe, figure: Picture, folder: Path) -> list[Path]:
    canvas, axes = style.new_figure(figure.title, "throws of dice")
    axes.plot(ds["faces"].to_numpy(), ds["mean"].to_numpy())
    return style.save(canvas, folder, figure.id)


def words(ds: xr.Dataset, recipe: DiceRecipe, figure: Picture) -> list[str]:
    faces = ds["faces"].to_numpy().astype(float)
    return [f"Mean throw: {course('faces', faces, ds['mean'].to_numpy(), '.2f')}."]


DICE = Kind(
    name="dice",
    tells=("dice",),
    axes=(GRID,),
    variables=VARIABLES,
    schema=DiceRecipe.schema,
    size=lambda config: len(config["dice"]["faces"]),
    read=DiceRecipe.from_config,
    plan=DicePlan,
    findings=findings,
    tables=tables,
    as_json=as_json,
    undefined=undefined,
    draw=draw,
    words=words,
)
