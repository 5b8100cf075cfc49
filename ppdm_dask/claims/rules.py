"""The rules by which claims are judged, by the word in a claim's key ``rule``.

``within``, ``printed``, ``compare``, ``equal`` and ``defined`` look at cells one by one,
``monotone`` and ``extreme`` at lines of cells along an axis.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from ppdm_dask.claims.quantity import (
    Quantity,
    Unjudged,
    Values,
    matched,
    name_cell,
    plain,
    read_flag,
    read_number,
)
from ppdm_dask.claims.verdict import ROUNDING, Comparison, Row, Verdict, decide, number
from ppdm_dask.files.fields import Scalar, TomlTable
from ppdm_dask.files.values import Text

if TYPE_CHECKING:
    import xarray as xr


class Rule(ABC):
    """A way to judge a claim."""

    @classmethod
    @abstractmethod
    def read(cls, table: TomlTable) -> Self:
        """Read the rule's keys."""

    @abstractmethod
    def judge(self, ds: xr.Dataset) -> Verdict:
        """Judge a result; Unjudged where it cannot tell."""

    @property
    @abstractmethod
    def words(self) -> str:
        """The rule as a sentence."""


def read_than(table: TomlTable, quantity: Quantity) -> Quantity | float:
    """Read ``than``: a number, or a quantity whose keys are by default those of the other."""
    than = table.take("than")
    if isinstance(than, Mapping):
        inner = TomlTable(than, table.source, table.dotted("than"))
        other = Quantity.read(inner, Quantity(quantity.variable, quantity.at, each=quantity.each))
        inner.done()
        return other
    return read_number(TomlTable({"than": than}, table.source, table.path), "than")


def read_share(table: TomlTable) -> float:
    """Read ``share``, 1 by default."""
    share = read_number(table, "share", 1.0)
    if not 0 < share <= 1:
        raise table.error("share", share, "a share in (0, 1] is needed")
    return share


def pairs(
    ds: xr.Dataset, quantity: Quantity, than: Quantity | float
) -> Iterator[tuple[str, float, float, float, float]]:
    """Label, value and error of each cell, and value and error of what it is compared with."""
    import xarray as xr

    one = quantity.values(ds)
    if isinstance(than, Quantity):
        one, two = matched(one, than.values(ds), quantity, than)
        # Either may lack axes of the other, or have them in another order.
        arrays = xr.broadcast(one.value, one.error, two.value, two.error)
        dims = arrays[0].dims
        value, error, other, other_error = (array.transpose(*dims) for array in arrays)
        one, two = Values(value, error), Values(other, other_error)
    else:
        two = Values(one.value * 0 + than, one.error * 0)
    _, *others = two.flat()
    yield from zip(*one.flat(), *others, strict=True)


def words_of(than: Quantity | float, beside: Quantity) -> str:
    """What a quantity is compared with, as text."""
    return than.words(beside) if isinstance(than, Quantity) else f"{than:g}"


def name_numbers(one: Quantity, two: Quantity | float) -> tuple[str, str]:
    """What to write before one number and after the other, so that both have a name."""
    if not isinstance(two, Quantity):
        name = "ratio" if one.over else "difference" if one.minus else one.variable
        return f"{name} ", ""
    if one.variable == two.variable:
        return "", ""
    return f"{one.variable} ", f" ({two.words(Quantity(two.variable, two.at))})"


@dataclass(frozen=True)
class Within(Rule):
    """Values are within a tolerance of printed ones.

    Parameters
    ----------
    quantities : tuple of Quantity
    printed, tolerances : tuple of float
        One for each quantity, which may have several cells.
    """

    quantities: tuple[Quantity, ...]
    printed: tuple[float, ...]
    tolerances: tuple[float, ...]

    @classmethod
    def read(cls, table: TomlTable) -> Self:
        """Read ``expected``, a number or a table by variable, and ``tolerance`` alike."""
        expected, tolerance = table.take("expected"), table.take("tolerance")
        if not isinstance(expected, Mapping):
            quantity = Quantity.read(table)
            both = TomlTable({"e": expected, "t": tolerance}, table.source, table.path)
            return cls((quantity,), (read_number(both, "e"),), (read_number(both, "t"),))
        if not isinstance(tolerance, Mapping) or set(tolerance) != set(expected):
            raise table.error("tolerance", tolerance, "a table with the keys of expected is needed")
        first = Quantity.read(TomlTable({**_rest(table), "variable": next(iter(expected))}, "", ""))
        printed = TomlTable(expected, table.source, table.dotted("expected"))
        allowed = TomlTable(tolerance, table.source, table.dotted("tolerance"))
        return cls(
            tuple(Quantity(name, first.at, each=first.each) for name in expected),
            tuple(read_number(printed, name) for name in expected),
            tuple(read_number(allowed, name) for name in expected),
        )

    def judge(self, ds: xr.Dataset) -> Verdict:
        # Each with the error in the value's own unit, which the verdict gives.
        comparisons: list[tuple[Comparison, float]] = []
        rows = []
        many = len(self.quantities) > 1
        for quantity, printed, tolerance in zip(
            self.quantities, self.printed, self.tolerances, strict=True
        ):
            name = quantity.variable
            if many and name.endswith("_mean"):
                name = name.removesuffix("_mean").upper()
            # In units of the tolerance, so that unlike variables compare.
            unit = tolerance or 1.0
            for label, value, error in zip(*quantity.values(ds).flat(), strict=True):
                if not np.isfinite(value):
                    raise Unjudged(f"there is no {quantity.variable} at {label}", label)
                place = label if label and not many else name
                rows.append(Row(place, printed, value, error, tolerance))
                text = f"{name} {number(value, error)}, printed {number(printed)}"
                margin = (tolerance - abs(value - printed)) / unit + ROUNDING
                comparisons.append((Comparison(label, margin, error / unit, text, value), error))
        worst, error = min(comparisons, key=lambda pair: pair[0].margin)
        against = sum(each.against for each, _ in comparisons)
        # An error of more than half the tolerance could have missed a value outside of it.
        held = all(each.margin >= 0 and 2 * each.error <= 1 for each, _ in comparisons)
        status = "differs" if against else "reproduced" if held else "undecided"
        n = len(comparisons)
        text = _furthest(worst, n)
        return Verdict(status, text, worst.figure, error, n, against, tuple(rows))

    @property
    def words(self) -> str:
        parts = [
            f"{quantity.variable} within {tolerance:g} of {printed:g}"
            for quantity, printed, tolerance in zip(
                self.quantities, self.printed, self.tolerances, strict=True
            )
        ]
        at = self.quantities[0].words().partition(" (")[2]
        return ", ".join(parts) + (f" ({at}" if at else "")


DECIMAL = r"[+-]?\d*\.?\d+|[+-]?\d+\."


@dataclass(frozen=True)
class Printed(Within):
    """Values are the printed ones, to half a unit of the last printed digit."""

    @classmethod
    def read(cls, table: TomlTable) -> Self:
        """Read ``expected``: by variable, a text with the digits as they are printed."""
        expected = table.table("expected", "a table of printed numbers by variable is needed")
        names = expected.remaining()
        if not names:
            raise table.error("expected", {}, "a table of printed numbers by variable is needed")
        digits = Text('digits as they are printed, such as "0.250", are needed', DECIMAL)
        texts = [str(expected.get(name, digits)) for name in names]
        places = [len(text.partition(".")[2]) for text in texts]
        return cls(
            tuple(Quantity(name) for name in names),
            tuple(float(text) for text in texts),
            tuple(0.5 * 10.0**-n for n in places),
        )


def _furthest(worst: Comparison, n: int) -> str:
    """Name the comparison, one of n, that supports the claim least."""
    return worst.told + (f"; the furthest of {n}" if n > 1 else "")


def _rest(table: TomlTable) -> dict[str, Any]:
    """The keys of a quantity that a table still has."""
    return {key: table.take(key) for key in ("at", "each") if key in table.remaining()}


@dataclass(frozen=True)
class Compare(Rule):
    """A quantity lies above or below a number or another quantity, in every cell that has both.

    Parameters
    ----------
    quantity : Quantity
    relation : {"above", "below"}
    than : Quantity or float
    share : float
        Share of the cells in which this must not be clearly otherwise.
    ties : bool
        Whether equal values are as claimed.
    """

    quantity: Quantity
    relation: str
    than: Quantity | float
    share: float
    ties: bool

    @classmethod
    def read(cls, table: TomlTable) -> Self:
        """Read ``relation``, ``than``, ``share`` and ``ties`` beside the quantity."""
        quantity = Quantity.read(table)
        relation = table.choice("relation", ("above", "below"), "a relation")
        than = read_than(table, quantity)
        return cls(quantity, relation, than, read_share(table), read_flag(table, "ties"))

    def judge(self, ds: xr.Dataset) -> Verdict:
        sign = 1 if self.relation == "above" else -1
        before, after = name_numbers(self.quantity, self.than)
        comparisons = []
        for label, x, x_se, y, y_se in pairs(ds, self.quantity, self.than):
            if np.isfinite(x) and np.isfinite(y):  # a cell may be undefined for one of them
                text = f"{before}{number(x, x_se)} against {number(y, y_se)}{after}"
                error = float(np.hypot(x_se, y_se))
                figure = x - y if isinstance(self.than, Quantity) else x
                comparisons.append(Comparison(label, sign * (x - y), error, text, figure))
        if not comparisons:
            raise Unjudged("no cell has both numbers", None)
        return decide(comparisons, self.share, self.ties, _of(self.than))

    @property
    def words(self) -> str:
        other = words_of(self.than, self.quantity)
        often = "" if self.share == 1 else f" in {100 * self.share:g} % of the cells"
        relation = self.relation
        if self.ties:  # at least is said as not below
            relation = "not below" if relation == "above" else "not above"
        return f"{self.quantity.words()} is {relation} {other}{often}"


@dataclass(frozen=True)
class Equal(Rule):
    """A quantity equals a number or another quantity, up to rounding or standard errors."""

    quantity: Quantity
    than: Quantity | float
    tolerance: float

    @classmethod
    def read(cls, table: TomlTable) -> Self:
        """Read ``than`` and ``tolerance`` beside the quantity."""
        quantity = Quantity.read(table)
        return cls(quantity, read_than(table, quantity), read_number(table, "tolerance", ROUNDING))

    def judge(self, ds: xr.Dataset) -> Verdict:
        before, after = name_numbers(self.quantity, self.than)
        comparisons = []
        for label, x, x_se, y, y_se in pairs(ds, self.quantity, self.than):
            error = float(np.hypot(x_se, y_se))
            if not np.isfinite([x, y, error]).all():
                raise Unjudged(f"a number is missing at {label}", label)
            other = " and " if isinstance(self.than, Quantity) else ", claimed "
            text = f"{before}{number(x, x_se)}{other}{number(y, y_se)}{after}"
            # Equality has no good side: a margin is 0 or below.
            margin = -max(abs(x - y) - self.tolerance, 0.0)
            figure = x - y if isinstance(self.than, Quantity) else x
            comparisons.append(Comparison(label, margin, error, text, figure))
        against = sum(each.against for each in comparisons)
        worst = min(comparisons, key=lambda each: each.margin / (each.error + ROUNDING))
        n = len(comparisons)
        status = "differs" if against else "reproduced"
        text = _furthest(worst, n)
        return Verdict(status, text, worst.figure, worst.error, n, against, of=_of(self.than))

    @property
    def words(self) -> str:
        other = words_of(self.than, self.quantity)
        within = f" within {self.tolerance:g}" if self.tolerance > ROUNDING else ""
        return f"{self.quantity.words()} equals {other}{within}"


@dataclass(frozen=True)
class Defined(Rule):
    """There is a number at all where the claim has one."""

    quantity: Quantity

    @classmethod
    def read(cls, table: TomlTable) -> Self:
        """Read the quantity."""
        return cls(Quantity.read(table))

    def judge(self, ds: xr.Dataset) -> Verdict:
        values = self.quantity.values(ds)
        labels, numbers, _ = values.flat()
        missing = [label for label, value in zip(labels, numbers, strict=True) if np.isnan(value)]
        if not missing:
            return Verdict("reproduced", "a number in every cell", None, None, len(labels), 0)
        reason = ""
        if "undefined" in ds:
            at = self.quantity.select(ds, ds["undefined"]).to_numpy().ravel()
            reason = next((f": {text}" for text in at if text), "")
        text = f"undefined at {missing[0]}{reason}"
        return Verdict("differs", text, None, None, len(labels), len(missing))

    @property
    def words(self) -> str:
        return f"{self.quantity.words()} is defined"


def _of(than: Quantity | float) -> str:
    """What the number that decides is."""
    return "difference" if isinstance(than, Quantity) else "value"


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
    def read(cls, table: TomlTable) -> Self:
        """Read ``along``, ``direction``, ``paths``, ``share`` and ``mean`` beside the quantity."""
        quantity = Quantity.read(table)
        along = table.text("along")
        direction = table.choice("direction", ("rises", "falls"), "a direction")
        given = table.take("paths")
        if not (
            isinstance(given, list)
            and given
            and all(isinstance(path, list) and len(path) > 1 for path in given)
        ):
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
        # Neighbours may be too close to differ clearly. No step may contradict the direction, and
        # the ends of each line have to show it.
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
    def read(cls, table: TomlTable) -> Self:
        """Read ``along``, ``which`` and ``place`` beside the quantity."""
        quantity = Quantity.read(table)
        along = table.text("along")
        which = table.choice("which", ("largest", "smallest"), "an extreme")
        return cls(quantity, along, which, table.scalars("place", "a list of values is needed"))

    def judge(self, ds: xr.Dataset) -> Verdict:
        sign = 1 if self.which == "largest" else -1
        # By names, since values of an axis may be numbers that were rounded, or texts.
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


def _step(sign: int, line: str, one: Place, two: Place) -> Comparison:
    (before, x, x_se), (after, y, y_se) = one, two
    label = f"{line}, " if line else ""
    text = f"from {number(x, x_se)} to {number(y, y_se)}"
    error = float(np.hypot(x_se, y_se))
    return Comparison(f"{label}{before} to {after}", sign * (y - x), error, text, y - x)


def _mean(values: Values, along: str) -> Values:
    others = [dim for dim in values.value.dims if dim != along]
    n = int(np.prod([values.value.sizes[dim] for dim in others]))
    # Taken for independent, as in differences of quantities.
    error = np.sqrt((values.error**2).sum(others)) / n
    return Values.of(values.value.mean(others), error)


RULES: Mapping[str, type[Rule]] = {
    "within": Within,
    "printed": Printed,
    "compare": Compare,
    "equal": Equal,
    "defined": Defined,
    "monotone": Monotone,
    "extreme": Extreme,
}
