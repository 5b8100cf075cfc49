"""What a rule is, and what rules have in common: comparing one quantity with another."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, Self

from ppdm_dask.claims.quantity import Quantity, Values, matched, read_number
from ppdm_dask.claims.verdict import Verdict
from ppdm_dask.files.fields import Table

if TYPE_CHECKING:
    import xarray as xr

__all__ = [
    "Rule",
    "both_sides",
    "cells_of",
    "name_numbers",
    "numbers_of",
    "read_share",
    "read_than",
    "words_of",
]


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


def both_sides(ds: xr.Dataset, quantity: Quantity, than: Quantity | float) -> tuple[Values, Values]:
    """Values of a quantity and of what it is compared with, on the same cells."""
    import xarray as xr

    one = quantity.values(ds)
    if not isinstance(than, Quantity):
        return one, Values(one.value * 0 + than, one.error * 0)
    one, two = matched(one, than.values(ds), quantity, than)
    arrays = xr.broadcast(one.value, one.error, two.value, two.error)
    dims = arrays[0].dims
    value, error, other, other_error = (array.transpose(*dims) for array in arrays)
    return Values(value, error), Values(other, other_error)


def words_of(than: Quantity | float, beside: Quantity) -> str:
    """What a quantity is compared with, in words."""
    return than.words(beside) if isinstance(than, Quantity) else f"{than:g}"


def name_numbers(one: Quantity, two: Quantity | float) -> tuple[str, str]:
    """What to write before one number and after the other, so that both have a name."""
    if not isinstance(two, Quantity):
        name = "ratio" if one.over else "difference" if one.minus else one.variable
        return f"{name} ", ""
    if one.variable == two.variable:
        return "", ""
    return f"{one.variable} ", f" ({two.words(Quantity(two.variable, two.at))})"


def cells_of(values: Values) -> list[tuple[str, float, float]]:
    """Label, value and error of each cell."""
    return list(zip(*values.flat(), strict=True))


def numbers_of(values: Values) -> list[tuple[float, float]]:
    """Value and error of each cell."""
    _, value, error = values.flat()
    return list(zip(value, error, strict=True))
