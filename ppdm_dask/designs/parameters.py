"""Reading parameters: each complaint names the parameter, the value and what is right."""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Iterable, Mapping, Set
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from ppdm_dask.errors import DesignError
from ppdm_dask.shown import given, listed, quoted

__all__ = [
    "attribute_names",
    "check_keys",
    "distribution",
    "inverse_name",
    "labelled",
    "nonnegative",
    "noted_distribution",
    "numbers",
    "one_attribute",
    "probability",
    "ratio",
    "rescaled",
    "shape_of",
    "stated_once",
    "sums_to_one",
    "whole",
]

MOST_CATEGORIES = 1 << 20
"""Of an attribute."""

MOST_CELLS = 1 << 62
"""Joint categories of a block, whose positions have to be 64-bit integers."""


_RATIO = re.compile(r"\d{1,20} ?/ ?0*[1-9]\d{0,19}")

ROUNDING = 1e-9
"""How far a sum of probabilities may be from 1 without being touched."""

SINGLE = 1e-6
"""How far it may be, by the rounding of numbers in single precision, to be scaled to 1."""


def ratio(value: Any) -> Any:
    """A ratio as text, such as ``"3/4"``, as a Fraction; anything else as it is."""
    if isinstance(value, str) and _RATIO.fullmatch(value.strip()):
        return Fraction(value.replace(" ", ""))
    return value


def _unfold(values: Any) -> Any:
    """Nested sequences with the nearest numbers in place of ratios."""
    if isinstance(values, str | Fraction):
        found = ratio(values)
        return float(found) if isinstance(found, Fraction) else found
    if isinstance(values, Iterable) and not isinstance(values, np.ndarray | Mapping):
        return [_unfold(value) for value in values]
    return values


def numbers(name: str, values: Any) -> npt.NDArray[np.float64]:
    """A new array of floats from nested sequences of numbers, or ratios as text."""
    try:
        return np.array(values, dtype=float)
    except (TypeError, ValueError, OverflowError):
        pass
    try:
        return np.array(_unfold(values), dtype=float)
    except (TypeError, ValueError, OverflowError, RecursionError):
        raise DesignError(f"{name}: got {given(values)}; numbers are needed", values) from None


def probability(name: str, value: Any) -> float:
    """A number in [0, 1], or a ratio as text: then the nearest float."""
    value = ratio(value)
    number = isinstance(value, int | float | Fraction | np.floating | np.integer)
    if not number or isinstance(value, bool) or not 0 <= value <= 1:
        raise DesignError(f"{name}: got {given(value)}; a probability in [0, 1] is needed", value)
    return float(value)


def nonnegative(name: str, value: Any) -> float:
    """A finite number of 0 or more, or a ratio as text."""
    value = ratio(value)
    number = isinstance(value, int | float | Fraction | np.floating | np.integer)
    if not number or isinstance(value, bool) or not 0 <= value <= sys.float_info.max:
        raise DesignError(f"{name}: got {given(value)}; a number of 0 or more is needed", value)
    return float(value)


def whole(name: str, value: Any, least: int, most: int = MOST_CATEGORIES) -> int:
    """A whole number, neither below the least allowed nor above the most."""
    if not isinstance(value, int | np.integer) or isinstance(value, bool) or value < least:
        raise DesignError(
            f"{name}: got {given(value)}; a whole number of {least} or more is needed", value
        )
    if value > most:
        raise DesignError(f"{name}: got {given(value)}; at most {most:,} is possible", value)
    return int(value)


def sums_to_one(sums: npt.NDArray[np.float64]) -> npt.NDArray[np.bool_]:
    """Which sums of probabilities are 1 but for the rounding of single precision."""
    return np.abs(sums - 1) <= SINGLE


def rescaled(
    what: str, values: npt.NDArray[np.float64]
) -> tuple[npt.NDArray[np.float64], tuple[str, ...]]:
    """Probabilities along axis 0 whose sums are near 1, scaled to it where they are too far.

    Returns
    -------
    values, notes : array, tuple of str
        The note has the largest distance, where any was taken out.
    """
    sums = values.sum(axis=0)
    off = float(np.abs(sums - 1).max())
    if off <= ROUNDING:
        return values, ()
    said = f"{what}: sums were up to {off:.2g} off 1, as in single precision, and were scaled to 1"
    return values / sums, (said,)


def distribution(name: str, values: Any, size: int | None = None) -> npt.NDArray[np.float64]:
    """A probability vector, read-only; see :func:`noted_distribution`."""
    return noted_distribution(name, values, size)[0]


def noted_distribution(
    name: str, values: Any, size: int | None = None
) -> tuple[npt.NDArray[np.float64], tuple[str, ...]]:
    """A probability vector, read-only, and a note where its sum missed 1 and it was scaled."""
    vector = numbers(name, values)
    if vector.ndim != 1 or not vector.size or (size is not None and vector.size != size):
        expected = "" if size is None else f" of length {size}"
        raise DesignError(f"{name}: shape {vector.shape}; a vector{expected} is needed", values)
    if not np.isfinite(vector).all() or (vector < 0).any():
        raise DesignError(f"{name}: got {given(vector.tolist())}; probabilities are needed", values)
    if not sums_to_one(vector.sum()):
        total = float(vector.sum())
        raise DesignError(
            f"{name}: got {given(vector.tolist())}, which sum to {total:.6g}, {abs(total - 1):.2g} "
            "off; probabilities that sum to 1 are needed",
            values,
        )
    vector, notes = rescaled(name, vector)
    vector.flags.writeable = False
    return vector, notes


def labelled(values: Any) -> tuple[Any, tuple[str, ...] | None]:
    """Values and their labels, where a table of label and value is given."""
    if isinstance(values, Mapping):
        return list(values.values()), tuple(values)
    return values, None


def stated_once(name: str, labels: tuple[str, ...] | None, categories: Any) -> Any:
    """Labels from a table or from ``categories``; DesignError where both say something else."""
    if labels is None:
        return categories
    if categories is not None and tuple(categories) != labels:
        raise DesignError(
            f"categories: got {given(categories)}; {name} names {quoted(labels)}: leave it out",
            categories,
        )
    return labels


def attribute_names(value: Any) -> tuple[str, ...]:
    """One name or several, distinct and not empty."""
    names: tuple[str, ...] = ()
    if isinstance(value, Iterable):
        names = (value,) if isinstance(value, str) else tuple(value)
    if not names or "" in names or any(not isinstance(name, str) for name in names):
        raise DesignError(f"attributes: got {given(value)}; one or more names are needed", value)
    if len(set(names)) < len(names):
        raise DesignError(f"attributes: got {given(value)}; distinct names are needed", value)
    return names


def inverse_name(value: Any) -> str:
    """Which of a family's left inverses estimates use."""
    if value not in ("weighted", "textbook"):
        raise DesignError(f"inverse: got {given(value)}; 'weighted' or 'textbook' is needed", value)
    return str(value)


def one_attribute(value: Any) -> tuple[str]:
    """The name of exactly one attribute."""
    names = attribute_names(value)
    if len(names) != 1:
        raise DesignError(f"attribute: got {given(value)}; exactly one is needed", value)
    return (names[0],)


def shape_of(value: Any, n_attributes: int) -> tuple[int, ...]:
    """Numbers of categories, one an attribute, each 1 or more."""
    sizes = tuple(value) if isinstance(value, Iterable) else ()
    integers = all(isinstance(k, int | np.integer) and not isinstance(k, bool) for k in sizes)
    if len(sizes) != n_attributes or not integers or min(sizes, default=1) < 1:
        raise DesignError(
            f"shape: got {given(value)}; {n_attributes} whole numbers of 1 or more are needed",
            value,
        )
    if max(sizes, default=1) > MOST_CATEGORIES or math.prod(map(int, sizes)) > MOST_CELLS:
        raise DesignError(
            f"shape: got {given(value)}; at most {MOST_CATEGORIES:,} categories and 2^62 "
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
            raise DesignError(
                f"{listed([key])}: not a parameter of {family!r}; it has: {known}", key
            )
    for key in sorted(required - set(parameters)):
        raise DesignError(f"{key}: missing; {family!r} needs it", key)
