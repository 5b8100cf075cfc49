"""The rules by which claims are judged: a small set, each declared in a claim's keys."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from ppdm_dask.claims.quantity import Quantity, Unjudged, Values, name_cell, read_number
from ppdm_dask.claims.verdict import ROUNDING, Comparison, Row, Verdict, decide, number
from ppdm_dask.experiments.fields import Table

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["RULES", "Compare", "Defined", "Equal", "Rule", "Within"]


class Rule(ABC):
    """A way to judge a claim."""

    @classmethod
    @abstractmethod
    def read(cls, table: Table) -> Self:
        """Read the rule's keys."""

    @abstractmethod
    def judge(self, ds: xr.Dataset) -> Verdict:
        """Judge a result; Unjudged where it cannot tell."""

    @property
    @abstractmethod
    def words(self) -> str:
        """The rule in words."""


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
    def read(cls, table: Table) -> Self:
        """Read ``expected``, a number or a table by variable, and ``tolerance`` alike."""
        expected, tolerance = table.take("expected"), table.take("tolerance")
        if not isinstance(expected, Mapping):
            quantity = Quantity.read(table)
            both = Table({"e": expected, "t": tolerance}, table.source, table.path)
            return cls((quantity,), (read_number(both, "e"),), (read_number(both, "t"),))
        if not isinstance(tolerance, Mapping) or set(tolerance) != set(expected):
            raise table.error("tolerance", tolerance, "a table with the keys of expected is needed")
        first = Quantity.read(Table({**_rest(table), "variable": next(iter(expected))}, "", ""))
        printed = Table(expected, table.source, table.dotted("expected"))
        allowed = Table(tolerance, table.source, table.dotted("tolerance"))
        return cls(
            tuple(Quantity(name, first.at, each=first.each) for name in expected),
            tuple(read_number(printed, name) for name in expected),
            tuple(read_number(allowed, name) for name in expected),
        )

    def judge(self, ds: xr.Dataset) -> Verdict:
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
            for label, value, error in _cells(quantity.values(ds)):
                if not np.isfinite(value):
                    raise Unjudged(f"there is no {quantity.variable} at {label}", label)
                rows.append(Row(name if many else label, printed, value, error, tolerance))
                text = f"{name} {number(value, error)}, printed {number(printed)}"
                margin = (tolerance - abs(value - printed)) / unit + ROUNDING
                comparisons.append((Comparison(label, margin, error / unit, text, value), error))
        worst, error = min(comparisons, key=lambda pair: pair[0].margin)
        against = sum(each.against for each, _ in comparisons)
        held = all(each.margin >= 0 and 2 * each.error <= 1 for each, _ in comparisons)
        status = "differs" if against else "reproduced" if held else "undecided"
        n = len(comparisons)
        where = f" at {worst.label}" if worst.label else ""
        rest = f"; the furthest of {n}" if n > 1 else ""
        verdict = Verdict(status, f"{worst.text}{where}{rest}", worst.figure, error, n, against)
        return verdict.with_rows(rows)

    @property
    def words(self) -> str:
        parts = [
            f"{quantity.variable} within {tolerance:g} of {printed:g}"
            for quantity, printed, tolerance in zip(
                self.quantities, self.printed, self.tolerances, strict=True
            )
        ]
        at = self.quantities[0].words.partition(" (")[2]
        return ", ".join(parts) + (f" ({at}" if at else "")


def _rest(table: Table) -> dict[str, Any]:
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
    def read(cls, table: Table) -> Self:
        """Read ``relation``, ``than``, ``share`` and ``ties`` beside the quantity."""
        quantity = Quantity.read(table)
        relation = table.choice("relation", ("above", "below"), "a relation")
        than = read_than(table, quantity)
        return cls(quantity, relation, than, read_share(table), bool(table.take("ties")))

    def judge(self, ds: xr.Dataset) -> Verdict:
        one, two = both_sides(ds, self.quantity, self.than)
        sign = 1 if self.relation == "above" else -1
        comparisons = []
        for (label, x, x_se), (y, y_se) in zip(_cells(one), _numbers(two), strict=True):
            if np.isfinite(x) and np.isfinite(y):
                text = f"{number(x, x_se)} against {number(y, y_se)}"
                error = float(np.hypot(x_se, y_se))
                comparisons.append(Comparison(label, sign * (x - y), error, text, x - y))
        if not comparisons:
            raise Unjudged("no cell has both numbers", None)
        return decide(comparisons, self.share, self.ties)

    @property
    def words(self) -> str:
        other = self.than.words if isinstance(self.than, Quantity) else f"{self.than:g}"
        often = "" if self.share == 1 else f" in {100 * self.share:g} % of the cells"
        level = "not " if self.ties else ""
        relation = {"above": "below", "below": "above"}[self.relation] if level else self.relation
        return f"{self.quantity.words} is {level}{relation} {other}{often}"


@dataclass(frozen=True)
class Equal(Rule):
    """A quantity equals a number or another quantity, up to rounding or standard errors."""

    quantity: Quantity
    than: Quantity | float
    tolerance: float

    @classmethod
    def read(cls, table: Table) -> Self:
        """Read ``than`` and ``tolerance`` beside the quantity."""
        quantity = Quantity.read(table)
        return cls(quantity, read_than(table, quantity), read_number(table, "tolerance", ROUNDING))

    def judge(self, ds: xr.Dataset) -> Verdict:
        one, two = both_sides(ds, self.quantity, self.than)
        comparisons = []
        for (label, x, x_se), (y, y_se) in zip(_cells(one), _numbers(two), strict=True):
            error = float(np.hypot(x_se, y_se))
            if not np.isfinite([x, y, error]).all():
                raise Unjudged(f"a number is missing at {label}", label)
            other = " and " if isinstance(self.than, Quantity) else ", claimed "
            text = f"{number(x, x_se)}{other}{number(y, y_se)}"
            distance = abs(x - y) - self.tolerance
            margin = -max(distance, 0.0)
            comparisons.append(Comparison(label, margin, error, text, x - y))
        against = sum(each.against for each in comparisons)
        worst = min(comparisons, key=lambda each: each.margin / (each.error + ROUNDING))
        n = len(comparisons)
        where = f" at {worst.label}" if worst.label else ""
        rest = f"; the furthest of {n}" if n > 1 else ""
        status = "differs" if against else "reproduced"
        text = f"{worst.text}{where}{rest}"
        return Verdict(status, text, worst.figure, worst.error, n, against)

    @property
    def words(self) -> str:
        other = self.than.words if isinstance(self.than, Quantity) else f"{self.than:g}"
        within = f" within {self.tolerance:g}" if self.tolerance > ROUNDING else ""
        return f"{self.quantity.words} equals {other}{within}"


@dataclass(frozen=True)
class Defined(Rule):
    """There is a number at all where the claim has one."""

    quantity: Quantity

    @classmethod
    def read(cls, table: Table) -> Self:
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
            at = self.quantity._select(ds, ds["undefined"]).to_numpy().ravel()
            reason = next((f": {text}" for text in at if text), "")
        text = f"undefined at {missing[0]}{reason}"
        return Verdict("differs", text, None, None, len(labels), len(missing))

    @property
    def words(self) -> str:
        return f"{self.quantity.words} is defined"


def read_than(table: Table, quantity: Quantity) -> Quantity | float:
    """Read ``than``: a number, or a quantity whose keys are by default those of the other."""
    than = table.take("than")
    if isinstance(than, Mapping):
        inner = Table(than, table.source, table.dotted("than"))
        other = Quantity.read(inner, Quantity(quantity.variable, quantity.at, each=quantity.each))
        inner.done()
        return other
    return read_number(Table({"than": than}, table.source, table.path), "than")


def read_share(table: Table) -> float:
    """Read ``share``, 1 by default."""
    share = read_number(table, "share", 1.0)
    if not 0 < share <= 1:
        raise table.error("share", share, "a share in (0, 1] is needed")
    return share


def both_sides(
    ds: xr.Dataset, quantity: Quantity, than: Quantity | float
) -> tuple[Values, Values]:
    """Values of a quantity and of what it is compared with, on the same cells."""
    import xarray as xr

    one = quantity.values(ds)
    if not isinstance(than, Quantity):
        return one, Values(one.value * 0 + than, one.error * 0)
    two = than.values(ds)
    # Where the two are at other places of an axis, each place of one is compared with each of the
    # other's: one of them has a single place there.
    for axis, places in than.at.items():
        if places != quantity.at.get(axis):
            one, two = _without(one, axis), _without(two, axis)
    arrays = xr.broadcast(one.value, one.error, two.value, two.error)
    dims = arrays[0].dims
    value, error, other, other_error = (array.transpose(*dims) for array in arrays)
    return Values(value, error), Values(other, other_error)


def _without(values: Values, axis: str) -> Values:
    """Values without an axis on which they have a single place."""
    if values.value.sizes.get(axis) != 1:
        return values
    return Values(values.value.squeeze(axis, drop=True), values.error.squeeze(axis, drop=True))


def _cells(values: Values) -> list[tuple[str, float, float]]:
    return list(zip(*values.flat(), strict=True))


def _numbers(values: Values) -> list[tuple[float, float]]:
    _, value, error = values.flat()
    return list(zip(value, error, strict=True))


RULES: dict[str, type[Rule]] = {
    "within": Within,
    "compare": Compare,
    "equal": Equal,
    "defined": Defined,
}
"""Rules by the word in a claim's key ``rule``; those of lines register themselves."""

__all__ += ["both_sides", "name_cell", "read_share", "read_than"]
