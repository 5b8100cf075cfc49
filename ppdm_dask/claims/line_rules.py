"""Rules on lines of cells along an axis: which way values go, and where the largest is."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Self

import numpy as np

from ppdm_dask.claims.quantity import Quantity, read_flag
from ppdm_dask.claims.rule import Rule, read_share
from ppdm_dask.claims.values import Unjudged, Values, name_cell, plain
from ppdm_dask.claims.verdict import Comparison, Verdict, decide, number
from ppdm_dask.experiments.fields import Scalar, Table

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["Extreme", "Monotone"]

Place = tuple[str, float, float]
"""Label of a place on a line, with its value and standard error."""


def lines(values: Values, along: str) -> Iterator[tuple[str, list[Place]]]:
    """The lines of cells along an axis: each with a name and its places, in the axis's order.

    Places without a number are left out.
    """
    if along not in values.value.dims:
        raise Unjudged(f"the result has no axis {along}", along)
    others = [dim for dim in values.value.dims if dim != along]
    value = values.value.transpose(*others, along)
    error = values.error.transpose(*others, along)
    at = value[along].to_numpy() if along in value.coords else np.arange(value.sizes[along])
    outer = Values(value.isel({along: 0}), error.isel({along: 0}))
    for index in np.ndindex(value.shape[:-1]):
        places = [
            (name_cell({along: plain(at[i])}), float(x), float(e))
            for i, (x, e) in enumerate(
                zip(value.to_numpy()[index], error.to_numpy()[index], strict=True)
            )
            if np.isfinite(x)
        ]
        yield outer.label(index), places


@dataclass(frozen=True)
class Monotone(Rule):
    """Along an axis values rise or fall.

    Parameters
    ----------
    quantity : Quantity
    along : str
        The axis.
    direction : {"rises", "falls"}
        In the order in which the claim names the axis's values.
    paths : tuple of tuple
        The values of the axis to walk along, in this order; several walks are allowed.
    share : float
        Share of the steps that must not go clearly the other way.
    mean : bool
        Whether the mean over all other axes is walked along in place of each line.
    """

    quantity: Quantity
    along: str
    direction: str
    paths: tuple[tuple[Scalar, ...], ...]
    share: float
    mean: bool

    @classmethod
    def read(cls, table: Table) -> Self:
        """Read ``along``, ``direction``, ``paths``, ``share`` and ``mean`` beside the quantity."""
        quantity = Quantity.read(table)
        along = table.text("along")
        direction = table.choice("direction", ("rises", "falls"), "a direction")
        given = table.take("paths")
        if not isinstance(given, list) or not given or not all(map(_is_path, given)):
            right = "a list of walks, lists of two or more values of the axis, is needed"
            raise table.error("paths", given, right)
        mean = read_flag(table, "mean")
        paths = tuple(tuple(path) for path in given)
        return cls(quantity, along, direction, paths, read_share(table), mean)

    def judge(self, ds: xr.Dataset) -> Verdict:
        sign = 1 if self.direction == "rises" else -1
        steps: list[Comparison] = []
        ends: list[Comparison] = []
        for path in self.paths:
            walked = replace(self.quantity, at={**self.quantity.at, self.along: path})
            values = walked.values(ds)
            if self.mean:
                values = _mean(values, self.along)
            for name, places in lines(values, self.along):
                if len(places) < 2:
                    raise Unjudged(f"too few cells along {self.along}", name)
                steps += [_step(sign, name, a, b) for a, b in pairwise(places)]
                ends.append(_step(sign, name, places[0], places[-1]))
        found = decide(steps, self.share, of="change")
        if found.status == "differs":
            return found
        weakest = min(ends, key=lambda each: each.margin)
        status = "reproduced" if all(each.clear for each in ends) else "undecided"
        many = f"; the least of {len(ends)} lines" if len(ends) > 1 else ""
        n = len(steps)
        others = f", {found.against} of {n} steps clearly the other way" if found.against else ""
        return Verdict(
            status,
            f"{weakest.told}{many}{others}",
            weakest.figure,
            weakest.error,
            n,
            found.against,
            of="change",
        )

    @property
    def words(self) -> str:
        walks = " and ".join(f"from {path[0]} to {path[-1]}" for path in self.paths)
        often = "" if self.share == 1 else f" in {100 * self.share:g} % of the steps"
        mean = "the mean of " if self.mean else ""
        return f"{mean}{self.quantity.words()} {self.direction} along {self.along} {walks}{often}"


@dataclass(frozen=True)
class Extreme(Rule):
    """Along an axis the largest or smallest value lies at a certain place.

    Parameters
    ----------
    quantity : Quantity
    along : str
    which : {"largest", "smallest"}
    place : tuple
        Values of the axis, one of which has the extreme.
    """

    quantity: Quantity
    along: str
    which: str
    place: tuple[Scalar, ...]

    @classmethod
    def read(cls, table: Table) -> Self:
        """Read ``along``, ``which`` and ``place`` beside the quantity."""
        quantity = Quantity.read(table)
        along = table.text("along")
        which = table.choice("which", ("largest", "smallest"), "an extreme")
        return cls(quantity, along, which, table.scalars("place", "a list of values is needed"))

    def judge(self, ds: xr.Dataset) -> Verdict:
        sign = 1 if self.which == "largest" else -1
        inside = {name_cell({self.along: _plain(place)}) for place in self.place}
        comparisons = []
        for name, places in lines(self.quantity.values(ds), self.along):
            own = [place for place in places if place[0] in inside]
            rest = [place for place in places if place[0] not in inside]
            if not own or not rest:
                raise Unjudged(f"there is no number at {', '.join(sorted(inside))}", name)
            best, other = (max(part, key=lambda p: sign * p[1]) for part in (own, rest))
            comparisons.append(_step(sign, name, other, best))
        return decide(comparisons, ties=True, of="change")

    @property
    def words(self) -> str:
        places = " or ".join(str(place) for place in self.place)
        return f"{self.quantity.words()} is {self.which} at {self.along} = {places}"


def _plain(place: Scalar) -> Scalar:
    return float(place) if isinstance(place, int | float) and not isinstance(place, bool) else place


def _is_path(path: object) -> bool:
    return isinstance(path, list) and len(path) > 1


def _step(sign: int, line: str, one: Place, two: Place) -> Comparison:
    (before, x, x_se), (after, y, y_se) = one, two
    label = f"{line}, " if line else ""
    text = f"from {number(x, x_se)} to {number(y, y_se)}"
    error = float(np.hypot(x_se, y_se))
    return Comparison(f"{label}{before} to {after}", sign * (y - x), error, text, y - x)


def _mean(values: Values, along: str) -> Values:
    others = [dim for dim in values.value.dims if dim != along]
    n = int(np.prod([values.value.sizes[dim] for dim in others]))
    error = np.sqrt((values.error**2).sum(others)) / n
    return Values.of(values.value.mean(others), error)
