"""What a kind of experiment is: all that runs, commands and pages ask of it, in one object."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from ppdm_dask.drawing import style
from ppdm_dask.engine.cells import Cell, Work
from ppdm_dask.experiments.parts import RecipeBase
from ppdm_dask.experiments.variables import Variable

if TYPE_CHECKING:
    import xarray as xr
    from rich.console import RenderableType

    from ppdm_dask.experiments.inputs import Prepared

__all__ = ["Finished", "Kind", "Plan", "size_of_grid"]


class Finished(Protocol):
    """What a result needs of a ledger."""

    def finished(self, cell: Cell) -> npt.NDArray[np.int64]:
        """Numbers of the cell's finished repeats, increasing."""
        ...  # pragma: no cover

    def collect(self, cell: Cell) -> Mapping[str, npt.NDArray[Any]]:
        """Their results, in that order."""
        ...  # pragma: no cover


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


Recipe = TypeVar("Recipe", bound=RecipeBase)


def _nothing(_: Any) -> list[str]:
    return []


def size_of_grid(config: Mapping[str, Any]) -> int:
    """How many grid points there are of ``[sweep.grid]`` on each data entry."""
    lengths = [len(values) for values in config["sweep"].get("grid", {}).values()]
    return math.prod(lengths) * max(1, len(config.get("data", ())))


def _unchecked(_: Any) -> None:
    """Reading a recipe has checked it."""


@dataclass(frozen=True)
class Kind(Generic[Recipe]):
    """A kind of experiment.

    Parameters
    ----------
    name : str
        What ``recipe.kind`` says, and a result's attribute ``experiment``.
    tells : tuple of str
        Tables of a recipe, any of which tells that it is of this kind.
    axes : tuple of str
        Axes of its results in the order of the digest; ``GRID`` stands for those of the grid.
    variables : tuple of Variable, or callable
        What its results may hold, in the order of the digest; a function of the result where that
        depends on it.
    schema : callable
        JSON Schema of its recipes.
    size : callable
        How many grid points plain tables ask for that were checked before: counts, and reads no
        value.
    read : callable
        Makes a recipe of plain tables, the file as messages call it, and the recipe's name; raises
        RecipeError.
    plan : callable
        Reads a recipe's data, and lays out its cells.
    tables : callable
        Headings and tables of a result, for terminal and page.
    as_json : callable
        A result as JSON values; null where no number is.
    draw : callable
        Draws a figure of a recipe into a folder: a PNG and an SVG.
    words : callable
        Sentences with numbers on what a figure shows, for those who cannot see it; none where
        nothing is computed.
    check : callable
        Checks what only codebooks and methods can tell of a recipe, and reads no data.
    findings : callable
        Sentences that a reader of a result must know.
    undefined : callable
        Which cells of a result are undefined, and why.
    remarks : callable, optional
        Lines below the tables in a terminal; by default they say what is undefined.
    """

    name: str
    tells: tuple[str, ...]
    axes: tuple[str, ...]
    variables: tuple[Variable, ...] | Callable[[xr.Dataset], tuple[Variable, ...]]
    schema: Callable[[], dict[str, Any]]
    size: Callable[[Mapping[str, Any]], int]
    read: Callable[[Mapping[str, Any], str, str | None], Recipe]
    plan: Callable[[Recipe], Plan]
    tables: Callable[[xr.Dataset], Iterable[tuple[str, RenderableType]]]
    as_json: Callable[[xr.Dataset], dict[str, Any]]
    draw: Callable[[xr.Dataset, Recipe, Any, Path], list[Path]]
    words: Callable[[xr.Dataset, Recipe, Any], list[str]]
    check: Callable[[Recipe], None] = _unchecked
    findings: Callable[[xr.Dataset], list[str]] = _nothing
    undefined: Callable[[xr.Dataset], list[str]] = _nothing
    remarks: Callable[[xr.Dataset], list[str]] | None = None

    def variables_of(self, ds: xr.Dataset) -> tuple[Variable, ...]:
        """What a result may hold, in the order of the digest."""
        return self.variables(ds) if callable(self.variables) else self.variables

    def notes(self, ds: xr.Dataset) -> list[str]:
        """Lines that stand below the tables of a result in a terminal."""
        if self.remarks is not None:
            return self.remarks(ds)
        return [f"undefined {cells}" for cells in self.undefined(ds)]

    def draw_figures(self, ds: xr.Dataset, recipe: Recipe, folder: Path) -> list[Path]:
        """Draw the figures of a recipe.

        Parameters
        ----------
        ds : xarray.Dataset
            The result of a run, whole or partial.
        recipe : Recipe
            Its ``[[figure]]`` tables say what to draw.
        folder : Path
            Where the files go: a PNG and an SVG of each figure's id.

        Returns
        -------
        list of Path
            The files, in the recipe's order.

        Raises
        ------
        RunFolderError
            If a file cannot be written.
        """
        written: list[Path] = []
        for figure in recipe.figures:
            with style.styled():
                written += self.draw(ds, recipe, figure, folder)
        return written

    def describe(self, ds: xr.Dataset, recipe: Recipe, figure: Any) -> str:
        """Describe, with numbers, what a figure of a recipe shows."""
        found = self.words(ds, recipe, figure) or ["Nothing is computed yet."]
        return f"{figure.title}. " + " ".join(found)
