"""The summary of a result: of each variable and cell a mean with its standard error, or a value."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from ppdm_dask.experiments.grid import moments
from ppdm_dask.experiments.kinds import kind_of_result
from ppdm_dask.experiments.results import canonical

if TYPE_CHECKING:
    import xarray as xr

    from ppdm_dask.experiments.variables import Variable


Value = float | int | str | None

REPEATS = ("repeat", "split")
"""Axes over which trials are repeated."""

RESTATED = ("accuracy", "disguised", "benchmark", "majority", "delta_r")
"""Whose means say the same as those of ``correct``, ``accuracy_disguised`` and so on, or of r."""

DIGITS, ERROR_DIGITS = 10, 5
"""Significant digits of a figure and of its standard error."""

EVERY_LEVEL = 7
"""One level of a front in seven is kept; the digest covers all of them."""


@dataclass(frozen=True)
class Figure:
    """What is known of a cell.

    Parameters
    ----------
    value : float, int, str or None
        A mean over repeats, an estimate, or a value that no draw enters; None where undefined.
    se : float, optional
        Its standard error; None where it has none.
    n : int
        Repeats behind it; 0 for a value that is not a mean.
    """

    value: Value
    se: float | None = None
    n: int = 0


@dataclass(frozen=True)
class Summary:
    """The summary of one variable.

    Parameters
    ----------
    name, units : str
    kind : {"mean", "value"}
        Whether the figures are means or estimates with standard errors, or plain values.
    digest : str
        First 16 hexadecimal digits of SHA-256 over all that the run's digest takes of it.
    cells : mapping of str to Figure
        By labels such as ``data=votes theta=0.8``; the empty label stands for the whole.
    """

    name: str
    units: str
    kind: Literal["mean", "value"]
    digest: str
    cells: Mapping[str, Figure]


def summarise(ds: xr.Dataset) -> dict[str, Summary]:
    """Summaries of a result's variables, by name, in registry order.

    Measured variables over repeats give means with standard errors. Derived ones are kept where
    they have a standard error and restate no measured one, or run over repeats themselves. Numbers
    are rounded to ten digits and standard errors to five: the digests say whether bits differ.
    Cells without a number are left out.
    """
    found = {}
    for declared in kind_of_result(ds).variables_of(ds):
        if declared.name in ds.data_vars and _is_kept(declared, ds):
            found[declared.name] = _summary(declared, ds)
    return found


def _is_kept(declared: Variable, ds: xr.Dataset) -> bool:
    if declared.kind != "derived" or declared.name == "completed":
        return True
    # What the measured variables say already would count a drift twice.
    if "repeat" in ds[declared.name].dims:
        return True
    restated = {*ds.data_vars, *RESTATED}
    base = declared.name.removesuffix("_mean")
    return f"{declared.name}_se" in ds.data_vars and (base == declared.name or base not in restated)


def _summary(declared: Variable, ds: xr.Dataset) -> Summary:
    name = declared.name
    array = _thinned(ds[name])  # the digest below takes all of it
    over = [dim for dim in array.dims if dim in REPEATS]
    # One split for all repeats has no spread.
    drawn = any(array.sizes[dim] > 1 or dim == "repeat" for dim in over)
    rest = [str(dim) for dim in array.dims if dim not in REPEATS]
    values = array.transpose(*rest, *over).to_numpy()
    labels = list(_labels(array, rest))
    digest = hashlib.sha256(canonical(ds[name])).hexdigest()[:16]
    rows = values.reshape(len(labels), -1)
    if drawn:
        cells = {label: _mean(row) for label, row in zip(labels, rows, strict=True)}
    elif f"{name}_se" in ds.data_vars:
        errors = _thinned(ds[f"{name}_se"]).to_numpy().ravel()
        n = int(ds.sizes["repeat"])
        cells = {
            label: _estimate(row[0], error, n)
            for label, row, error in zip(labels, rows, errors, strict=True)
        }
    else:
        plain = {label: _plain(row[0]) for label, row in zip(labels, rows, strict=True)}
        cells = {label: Figure(value) for label, value in plain.items() if value not in (None, "")}
        return Summary(name, declared.units, "value", digest, cells)
    cells = {
        label: figure for label, figure in cells.items() if figure.value is not None or figure.n
    }
    return Summary(name, declared.units, "mean", digest, cells)


def _thinned(array: xr.DataArray) -> xr.DataArray:
    return array.isel(level=slice(None, None, EVERY_LEVEL)) if "level" in array.dims else array


def _labels(array: xr.DataArray, dims: Sequence[str]) -> Iterator[str]:
    names = [[_label(value) for value in array[dim].to_numpy()] for dim in dims]
    for index in np.ndindex(*map(len, names)):
        yield " ".join(
            f"{dim}={names[i][at]}" for i, (dim, at) in enumerate(zip(dims, index, strict=True))
        )


def _label(value: Any) -> str:
    plain = value.item() if isinstance(value, np.generic) else value
    return f"{plain:.12g}" if isinstance(plain, float) else str(plain)


def _mean(values: npt.NDArray[Any]) -> Figure:
    """Mean of what is there; of a front's level that not all repeats reach, there is none."""
    # As registries declare: -1 or NaN stand for a missing number.
    there = values[values >= 0] if values.dtype.kind == "i" else values[~np.isnan(values)]
    if not there.size:
        return Figure(None)
    if not np.isfinite(there).all():
        return Figure(None if np.isfinite(there).any() else math.inf, None, int(there.size))
    found = moments(there)
    return Figure(_number(found.mean), _number(found.mean_se, ERROR_DIGITS), int(there.size))


def _estimate(value: float, se: float, n: int) -> Figure:
    if math.isnan(value):
        return Figure(None)
    return Figure(_number(value), _number(se, ERROR_DIGITS), n)


# Rounded, so that a golden's text does not change with the last bit of another machine.
def _number(value: float, digits: int = DIGITS) -> float | None:
    return None if math.isnan(value) else float(f"{value:.{digits}g}")


def _plain(value: Any) -> Value:
    plain = value.item() if isinstance(value, np.generic) else value
    if isinstance(plain, float):
        return _number(plain)
    return plain if isinstance(plain, int) else str(plain)
