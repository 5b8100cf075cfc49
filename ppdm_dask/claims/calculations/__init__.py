"""Numbers for claims that need no run: formulas, enumerations, sizes of data sets.

A calculation is a function without arguments that returns numbers by name.  A claim's file names
the calculation and the number, and the same rules judge it as judge results.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import TYPE_CHECKING

from ppdm_dask.claims.calculations import guo, huang_du, zhan_du, zhan_matwin

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["CALCULATIONS", "calculate"]

CALCULATIONS: Mapping[str, Callable[[], dict[str, float]]] = {
    function.__name__.replace("_", "-"): function
    for module in (zhan_matwin, zhan_du, guo, huang_du)
    for function in (getattr(module, name) for name in module.__all__)
}
"""Calculations by name."""


@cache
def calculate(name: str) -> xr.Dataset:
    """The numbers of a calculation, as a result without axes."""
    import xarray as xr

    return xr.Dataset({key: ((), value) for key, value in CALCULATIONS[name]().items()})
