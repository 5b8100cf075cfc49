"""What a claim is about: a variable of a result at some cells, with standard errors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt

from ppdm_dask.arrays import Floats
from ppdm_dask.errors import PPDMError
from ppdm_dask.experiments.grid import FEWEST
from ppdm_dask.files.fields import Scalar, TomlTable

if TYPE_CHECKING:
    import xarray as xr


BARE = ("data", "case", "setting", "method", "classifier", "variant")
"""Axes whose values speak for themselves in a label."""


class Unjudged(PPDMError):
    """A result that cannot tell: cells are missing, or not computed yet."""


@dataclass(frozen=True)
class Values:
    """Numbers with standard errors, 0 where a number is exact.

    Parameters
    ----------
    value, error : xarray.DataArray
        With the same dimensions and coordinates.
    """

    value: xr.DataArray
    error: xr.DataArray

    @classmethod
    def of(cls, value: xr.DataArray, error: Any) -> Self:
        """Values with errors that may lack some of their axes, or have them in another order."""
        import xarray as xr

        first, second = xr.broadcast(value, error)
        return cls(first, second.transpose(*first.dims))

    def flat(self) -> tuple[list[str], Floats, Floats]:
        """Labels, values and errors of all cells, the last axis running fastest."""
        labels = [self.label(index) for index in np.ndindex(self.value.shape)]
        return labels, self.value.to_numpy().ravel(), self.error.to_numpy().ravel()

    def label(self, index: tuple[int, ...]) -> str:
        """Name of the cell at a position."""
        return name_cell(
            {
                str(dim): plain(self.value[dim].to_numpy()[i]) if dim in self.value.coords else i
                for dim, i in zip(self.value.dims, index, strict=True)
            }
        )


def plain(value: Any) -> Any:
    """Return a value of an axis as Python's own."""
    return value.item() if hasattr(value, "item") else value


def name_cell(where: Mapping[str, Any]) -> str:
    """Name a cell by its values on the axes: ``adult, q = 0.4``."""
    parts = []
    for axis, value in where.items():
        text = f"{value:g}" if isinstance(value, float) else str(value)
        parts.append(text if axis in BARE else f"{axis} = {text}")
    return ", ".join(parts)


At = Mapping[str, tuple[Scalar, ...]]


@dataclass(frozen=True)
class Quantity:
    """A variable at cells, perhaps less or over another.

    Parameters
    ----------
    variable : str
        Variable of the result. Its standard error is the variable with ``_se`` added to the name;
        if it has repeats, that of their mean; otherwise 0.
    at : mapping of str to tuple
        Values on the axes to use; for axes that are not named, all values.
    minus, over : Quantity, optional
        What is subtracted, and what the difference is divided by.
    plus : float
        A number that is added at the end.
    times : float
        A factor, applied before `plus`.
    each : bool
        Whether each repeat is a separate cell; otherwise their mean is used.
    """

    variable: str
    at: At = field(default_factory=dict)
    minus: Quantity | None = None
    over: Quantity | None = None
    plus: float = 0.0
    times: float = 1.0
    each: bool = False

    @classmethod
    def read(cls, table: TomlTable, outer: Quantity | None = None) -> Self:
        """Read the keys of a quantity; those left out are the `outer` one's."""
        variable = table.optional_text("variable")
        if variable is None:
            if outer is None:
                raise table.error("variable", None, "the name of a result variable is needed")
            variable = outer.variable
        at = dict(outer.at) if outer else {}
        places = table.take("at")
        if places is not None:
            if not isinstance(places, Mapping):
                raise table.error("at", places, "a table of axes with lists of values is needed")
            inner = TomlTable(places, table.source, table.dotted("at"))
            for axis in places:
                at[axis] = inner.scalars(axis, "a list of values on the axis is needed")
        found = cls(
            variable,
            at,
            plus=read_number(table, "plus", 0.0),
            times=read_number(table, "times", 1.0),
            each=read_flag(table, "each", outer.each if outer else False),
        )
        parts: dict[str, Quantity | None] = {"minus": None, "over": None}
        for key in parts:
            if key in table.remaining():
                inner = table.table(key, "a table with a variable is needed")
                parts[key] = cls.read(inner, found)
                inner.done()
        return replace(found, minus=parts["minus"], over=parts["over"])

    def values(self, ds: xr.Dataset) -> Values:
        """Look up the values in a result.

        Raises
        ------
        Unjudged
            If the result lacks them.
        """
        found = self._own(ds)
        if self.minus is not None:
            found, other = matched(found, self.minus.values(ds), self, self.minus)
            # Taken for independent. Cells of a sweep share splits, which makes this too wide, if
            # anything: a verdict then waits for more repeats.
            error = np.sqrt(found.error**2 + other.error**2)
            found = Values.of(found.value - other.value, error)
        if self.over is not None:
            found, other = matched(found, self.over.values(ds), self, self.over)
            ratio = found.value / other.value
            # The first-order error of a quotient.
            parts = (found.error / other.value) ** 2 + (ratio * other.error / other.value) ** 2
            found = Values.of(ratio, np.sqrt(parts))
        return Values.of(found.value * self.times + self.plus, found.error * abs(self.times))

    def _own(self, ds: xr.Dataset) -> Values:
        if self.variable not in ds:
            raise Unjudged(f"the result has no {self.variable}", self.variable)
        value = self.select(ds, ds[self.variable])
        self._check_done(ds)
        value = value.astype(float)
        if f"{self.variable}_se" in ds:
            error = self.select(ds, ds[f"{self.variable}_se"])
            # Exact numbers, such as those of one split, need no repeats.
            if ds.sizes["repeat"] < FEWEST and not bool((error == 0).all()):
                raise Unjudged(f"fewer than {FEWEST} repeats", self.variable)
            return Values.of(value, error)
        if "repeat" in value.dims and not self.each:
            # A search has few repeats by design, so no least number is asked for here.
            n = value.sizes["repeat"]
            spread = value.std("repeat", ddof=1) if n > 1 else value.mean("repeat") * np.nan
            return Values(value.mean("repeat"), spread / np.sqrt(n))
        return Values(value, value * 0.0)

    def _check_done(self, ds: xr.Dataset) -> None:
        """Complain about cells whose repeats are not all there."""
        if "completed" not in ds or "repeat" not in ds.sizes:
            return
        missing = ds["completed"] < ds.sizes["repeat"]
        if "undefined" in ds:
            missing = missing & (ds["undefined"] == "")
        # The cells that the claim looks at have to be whole; others may still be computed.
        own = {axis: places for axis, places in self.at.items() if axis in missing.dims}
        chosen = Quantity(self.variable, own).select(ds, missing)
        if bool(chosen.any()):
            raise Unjudged("not all repeats are computed yet", self.variable)

    def select(self, ds: xr.Dataset, array: xr.DataArray) -> xr.DataArray:
        """The quantity's places of an array of a result; axes that it lacks are passed over.

        Raises
        ------
        Unjudged
            If the result lacks a place.
        """
        for axis, places in self.at.items():
            if axis not in array.dims:
                continue
            known = ds[axis].to_numpy()
            where = [_find(known, place) for place in places]
            if None in where:
                place = places[where.index(None)]
                raise Unjudged(f"the result has no {name_cell({axis: place})}", place)
            array = array.isel({axis: where})
        return array

    def words(self, beside: Quantity | None = None) -> str:
        """The quantity as text; places that `beside` has as well are left out."""
        known = beside.at if beside else {}
        at = {axis: places for axis, places in self.at.items() if places != known.get(axis)}
        text = self.variable
        if at:
            text += f" ({'; '.join(f'{axis} {_listed(places)}' for axis, places in at.items())})"
        if self.minus is not None:
            text += f" less {self.minus.words(self)}"
        if self.over is not None:
            text += f" over {self.over.words(self)}"
        if self.times != 1:
            text += f" times {self.times:g}"
        if self.plus:
            text += f" {'plus' if self.plus > 0 else 'less'} {abs(self.plus):g}"
        return text


def matched(one: Values, two: Values, first: Quantity, second: Quantity) -> tuple[Values, Values]:
    """Values of two quantities, so that cells at different places of an axis match.

    Each place of one is matched with each of the other's: one of them has a single place there.
    """
    for axis, places in second.at.items():
        if places != first.at.get(axis):
            one, two = _without(one, axis), _without(two, axis)
    return one, two


def _without(values: Values, axis: str) -> Values:
    """Values without an axis on which they have a single place."""
    if values.value.sizes.get(axis) != 1:
        return values
    return Values(values.value.squeeze(axis, drop=True), values.error.squeeze(axis, drop=True))


def read_number(table: TomlTable, key: str, default: float | None = None) -> float:
    """Return a finite number; `default` where the key is absent, if there is one."""
    value = table.take(key)
    if value is None and default is not None:
        return default
    if isinstance(value, bool) or not isinstance(value, int | float) or not np.isfinite(value):
        raise table.error(key, value, "a finite number is needed")
    return float(value)


def read_flag(table: TomlTable, key: str, default: bool = False) -> bool:
    """Return a truth value; `default` where the key is absent."""
    value = table.take(key)
    if value is None:
        return default
    if not isinstance(value, bool):
        raise table.error(key, value, "true or false is needed")
    return value


def _find(known: npt.NDArray[Any], place: Scalar) -> int | None:
    """Position of a value on an axis."""
    # A claim's file says 0.3 where the axis has a float that was computed.
    if isinstance(place, str):
        same = known.astype(str) == place
    elif known.dtype.kind in "iuf":
        same = np.isclose(known.astype(float), float(place), rtol=0, atol=1e-9)
    else:
        return None
    return int(np.argmax(same)) if same.any() else None


SHOWN = 4
"""Places that are named one by one; of more, the first and the last."""


def _listed(places: tuple[Scalar, ...]) -> str:
    texts = [f"{place:g}" if isinstance(place, float) else str(place) for place in places]
    if len(texts) > SHOWN:
        texts = [texts[0], "...", texts[-1]]
        return " ".join(texts)
    return ", ".join(texts)
