"""Rules on cells one by one: within a tolerance, above or below, equal, defined."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from ppdm_dask.claims.quantity import Quantity, read_flag, read_number
from ppdm_dask.claims.rule import (
    Rule,
    both_sides,
    cells_of,
    name_numbers,
    numbers_of,
    read_share,
    read_than,
    words_of,
)
from ppdm_dask.claims.values import Unjudged
from ppdm_dask.claims.verdict import ROUNDING, Comparison, Row, Verdict, decide, number
from ppdm_dask.experiments.fields import Table

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["Compare", "Defined", "Equal", "Within"]


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
            for label, value, error in cells_of(quantity.values(ds)):
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
        verdict = Verdict(status, _furthest(worst, n), worst.figure, error, n, against)
        return verdict.with_rows(rows)

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


def _furthest(worst: Comparison, n: int) -> str:
    """The comparison that speaks least for a claim, one of n, in words."""
    return worst.told + (f"; the furthest of {n}" if n > 1 else "")


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
        return cls(quantity, relation, than, read_share(table), read_flag(table, "ties"))

    def judge(self, ds: xr.Dataset) -> Verdict:
        one, two = both_sides(ds, self.quantity, self.than)
        sign = 1 if self.relation == "above" else -1
        comparisons = []
        for (label, x, x_se), (y, y_se) in zip(cells_of(one), numbers_of(two), strict=True):
            if np.isfinite(x) and np.isfinite(y):
                before, after = name_numbers(self.quantity, self.than)
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
        level = "not " if self.ties else ""
        relation = {"above": "below", "below": "above"}[self.relation] if level else self.relation
        return f"{self.quantity.words()} is {level}{relation} {other}{often}"


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
        for (label, x, x_se), (y, y_se) in zip(cells_of(one), numbers_of(two), strict=True):
            error = float(np.hypot(x_se, y_se))
            if not np.isfinite([x, y, error]).all():
                raise Unjudged(f"a number is missing at {label}", label)
            before, after = name_numbers(self.quantity, self.than)
            other = " and " if isinstance(self.than, Quantity) else ", claimed "
            text = f"{before}{number(x, x_se)}{other}{number(y, y_se)}{after}"
            distance = abs(x - y) - self.tolerance
            margin = -max(distance, 0.0)
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
