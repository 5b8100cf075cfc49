"""Arguments in their range, or one line that says which range it is."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from ppdm_dask.errors import InputError
from ppdm_dask.shown import given


def real(
    name: str,
    value: Any,
    least: float = -math.inf,
    most: float = math.inf,
    *,
    open_ends: bool = False,
    infinite: bool = False,
) -> float:
    """A number between two ends, which belong to the range unless it is open.

    Parameters
    ----------
    name : str
        What the message calls the argument.
    value : any
        Checked; booleans, texts and what is not a number are refused.
    least, most : float
    open_ends : bool
        Whether the ends are left out.
    infinite : bool
        Whether an end that is infinite belongs to the range.

    Raises
    ------
    InputError
        One line with name, value and range.
    """
    number = isinstance(value, int | float | np.floating | np.integer)
    if number and not isinstance(value, bool):
        inside = least < value < most if open_ends else least <= value <= most
        if inside and (infinite or math.isfinite(value)):
            return float(value)
    if math.isfinite(least) and math.isfinite(most):
        ends = ("between", "and") if open_ends else ("from", "to")
        what = f"a number {ends[0]} {least:g} {ends[1]} {most:g}"
    elif math.isfinite(least):
        what = f"a number above {least:g}" if open_ends else f"a number of {least:g} or more"
    else:
        what = "a finite number"
    raise InputError(f"{name}: got {given(value)}; {what} is needed", value)


def whole(name: str, value: Any, least: int, most: int | None = None) -> int:
    """A whole number from `least` to `most`; booleans are none.

    Raises
    ------
    InputError
        One line with name, value and range.
    """
    number = isinstance(value, int | np.integer) and not isinstance(value, bool)
    if number and value >= least and (most is None or value <= most):
        return int(value)
    span = f"of {least} or more" if most is None else f"from {least} to {most}"
    raise InputError(f"{name}: got {given(value)}; a whole number {span} is needed", value)


def reals(
    name: str,
    values: Any,
    least: float = -math.inf,
    most: float = math.inf,
    ndim: int | None = None,
) -> npt.NDArray[np.float64]:
    """An array of finite numbers between two ends, which belong to the range.

    Parameters
    ----------
    name : str
    values : array_like
    least, most : float
    ndim : int, optional
        Axes that it must have.

    Raises
    ------
    InputError
        One line with name and range, and the first value outside of it.
    """
    try:
        seen = np.asarray(values)
        array = seen.astype(float)
    except (TypeError, ValueError):
        raise InputError(f"{name}: got {given(values)}; numbers are needed", values) from None
    if seen.dtype.kind not in "iuf" and not (seen.dtype.kind == "O" and seen.size):
        raise InputError(f"{name}: got {given(values)}; numbers are needed", values)
    if ndim is not None and array.ndim != ndim:
        raise InputError(f"{name}: shape {array.shape}; {ndim} axes are needed", values)
    wrong = ~(np.isfinite(array) & (array >= least) & (array <= most))
    if wrong.any():
        first = float(array[wrong][0])
        span = "finite numbers"
        if math.isfinite(least):
            span = f"numbers of {least:g} or more"
        if math.isfinite(least) and math.isfinite(most):
            span = f"numbers from {least:g} to {most:g}"
        raise InputError(f"{name}: got {first:g}; {span} are needed", values)
    return array
