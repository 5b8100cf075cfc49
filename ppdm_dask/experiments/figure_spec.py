"""The table ``[[figure]]`` of a recipe: what a figure shows, and against what."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

from ppdm_dask.experiments.fields import Scalar, Table
from ppdm_dask.experiments.parts import Part, read_id
from ppdm_dask.shown import listed

__all__ = ["KINDS", "Figure"]

KINDS = ("mean", "variance", "privacy", "grid", "tradeoff")
TESTS = ("both", "clean", "disguised")
MEASURES = ("advantage", "guess", "posterior")

Grid = Mapping[str, tuple[Scalar, ...]]


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
            right = f"one data entry is needed where the lines are {series!r}"
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
