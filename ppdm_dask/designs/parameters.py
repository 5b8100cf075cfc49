"""Reading parameters: each complaint names the parameter, the value and what is right."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Mapping, Set
from typing import Any

import numpy as np
import numpy.typing as npt

from ppdm_dask.errors import DesignError

__all__ = [
    "attribute_names",
    "check_keys",
    "distribution",
    "inverse_name",
    "nonnegative",
    "numbers",
    "one_attribute",
    "probability",
    "shape_of",
    "whole",
]

MOST_CATEGORIES = 1 << 20
"""Of an attribute."""

MOST_CELLS = 1 << 62
"""Joint categories of a block, whose positions have to be 64-bit integers."""

LONGEST = 60  # of a value in a message


def numbers(name: str, values: Any) -> npt.NDArray[np.float64]:
    """A new array of floats from nested sequences of numbers."""
    try:
        return np.array(values, dtype=float)
    except (TypeError, ValueError, OverflowError):
        raise DesignError(f"{name}: got {shown(values)}; numbers are needed", values) from None


def probability(name: str, value: Any) -> float:
    """A number in [0, 1]."""
    number = isinstance(value, int | float | np.floating | np.integer)
    if not number or isinstance(value, bool) or not 0 <= value <= 1:
        raise DesignError(f"{name}: got {shown(value)}; a probability in [0, 1] is needed", value)
    return float(value)


def nonnegative(name: str, value: Any) -> float:
    """A finite number of 0 or more."""
    number = isinstance(value, int | float | np.floating | np.integer)
    if not number or isinstance(value, bool) or not 0 <= value <= sys.float_info.max:
        raise DesignError(f"{name}: got {shown(value)}; a number of 0 or more is needed", value)
    return float(value)


def whole(name: str, value: Any, least: int, most: int = MOST_CATEGORIES) -> int:
    """A whole number, neither below the least allowed nor above the most."""
    if not isinstance(value, int | np.integer) or isinstance(value, bool) or value < least:
        raise DesignError(
            f"{name}: got {shown(value)}; a whole number of {least} or more is needed", value
        )
    if value > most:
        raise DesignError(f"{name}: got {shown(value)}; at most {most:,} is possible", value)
    return int(value)


def shown(value: Any) -> str:
    """A value for a message, cut where it is long."""
    if isinstance(value, int) and abs(value) >= 10**20:
        return f"{'-' if value < 0 else ''}10^{int(value.bit_length() * math.log10(2))} or more"
    text = repr(value)
    return text if len(text) <= LONGEST else text[: LONGEST - 3] + "..."


def distribution(name: str, values: Any, size: int | None = None) -> npt.NDArray[np.float64]:
    """A probability vector, read-only; its sum may miss 1 by rounding (1e-9) alone."""
    vector = numbers(name, values)
    if vector.ndim != 1 or not vector.size or (size is not None and vector.size != size):
        expected = "" if size is None else f" of length {size}"
        raise DesignError(f"{name}: shape {vector.shape}; a vector{expected} is needed", values)
    if not np.isfinite(vector).all() or (vector < 0).any() or abs(vector.sum() - 1) > 1e-9:
        raise DesignError(
            f"{name}: got {vector.tolist()}; probabilities that sum to 1 are needed", values
        )
    vector.flags.writeable = False
    return vector


def attribute_names(value: Any) -> tuple[str, ...]:
    """One name or several, distinct and not empty."""
    names: tuple[str, ...] = ()
    if isinstance(value, Iterable):
        names = (value,) if isinstance(value, str) else tuple(value)
    if not names or "" in names or any(not isinstance(name, str) for name in names):
        raise DesignError(f"attributes: got {value!r}; one or more names are needed", value)
    if len(set(names)) < len(names):
        raise DesignError(f"attributes: {', '.join(names)} repeats a name", value)
    return names


def inverse_name(value: Any) -> str:
    """Which of a family's left inverses estimates use."""
    if value not in ("weighted", "textbook"):
        raise DesignError(f"inverse: got {value!r}; 'weighted' or 'textbook' is needed", value)
    return str(value)


def one_attribute(value: Any) -> tuple[str]:
    """The name of exactly one attribute."""
    names = attribute_names(value)
    if len(names) != 1:
        raise DesignError(f"attribute: got {value!r}; exactly one is needed", value)
    return (names[0],)


def shape_of(value: Any, n_attributes: int) -> tuple[int, ...]:
    """Numbers of categories, one an attribute, each 1 or more."""
    sizes = tuple(value) if isinstance(value, Iterable) else ()
    integers = all(isinstance(k, int | np.integer) and not isinstance(k, bool) for k in sizes)
    if len(sizes) != n_attributes or not integers or min(sizes, default=1) < 1:
        raise DesignError(
            f"shape: got {shown(value)}; {n_attributes} whole numbers of 1 or more are needed",
            value,
        )
    if max(sizes, default=1) > MOST_CATEGORIES or math.prod(map(int, sizes)) > MOST_CELLS:
        raise DesignError(
            f"shape: got {shown(value)}; at most {MOST_CATEGORIES:,} categories and 2^62 "
            "combinations of them are possible",
            value,
        )
    return tuple(int(k) for k in sizes)


def check_keys(
    family: str,
    parameters: Mapping[str, Any],
    required: Set[str],
    optional: Set[str] = frozenset(),
) -> None:
    """Raise DesignError for a parameter that is unknown or missing."""
    for key in parameters:
        if key not in required | optional:
            known = ", ".join(sorted(required | optional))
            raise DesignError(f"{key}: not a parameter of {family!r}; it has: {known}", key)
    for key in sorted(required - set(parameters)):
        raise DesignError(f"{key}: missing; {family!r} needs it", key)
