"""Symbols drawn from a probability vector by comparing integers, and draws as plain values."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from ppdm_dask.randomness import binary_digits, exact

__all__ = [
    "Steps",
    "Thresholds",
    "all_thresholds",
    "coin_of",
    "draw_signed",
    "drawn",
    "thresholds",
]

Thresholds = tuple[npt.NDArray[np.uint64], npt.NDArray[np.int64]]

Steps = dict[str, Any]
"""What :meth:`ppdm_dask.designs.base.Design.steps` gives: values that JSON can hold."""


def coin_of(probability: float, *at: int) -> Steps:
    """A coin among steps: the key of its source, and digits of its probability."""
    chance = exact(probability)
    digits = "one" if chance == 1 else "".join(map(str, binary_digits(chance)))
    return {"at": list(at), "digits": digits}


UNITS = 62
"""Binary digits of the uniform numbers that symbols are drawn by."""


def _units(laws: npt.NDArray[np.float64]) -> npt.NDArray[np.int64]:
    """Probabilities along axis 0 in units of 2**-62, with that sum; the largest one gives way."""
    units = np.rint(laws * 2.0**UNITS).astype(np.int64)
    largest = np.expand_dims(laws.argmax(axis=0), 0)
    rest = (1 << UNITS) - units.sum(axis=0, keepdims=True)
    np.put_along_axis(units, largest, np.take_along_axis(units, largest, 0) + rest, 0)
    return units


def drawn(laws: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """The laws along axis 0 that symbols are drawn by: a probability below 2**-63 is never met."""
    return np.asarray(_units(laws) / 2.0**UNITS)


def thresholds(law: npt.NDArray[np.float64]) -> tuple[npt.NDArray[np.uint64], int]:
    """Cumulative probabilities in units of 2**-62, and the last symbol that can occur.

    A 62-bit uniform u draws the symbol ``min(#{cuts <= u}, last)``: probabilities are met to
    2**-62, and a symbol of probability zero is never drawn; :func:`drawn` has the law that is.
    """
    units = _units(law)
    return np.cumsum(units).astype(np.uint64), int(np.flatnonzero(units)[-1])


def all_thresholds(laws: npt.NDArray[np.float64]) -> Thresholds:
    """:func:`thresholds` of each column of laws: cuts (columns, symbols), last (columns,)."""
    cuts = np.empty(laws.shape[::-1], np.uint64)
    last = np.empty(laws.shape[1], np.int64)
    # Columns are read where they lie together: one by one each entry would be fetched by itself.
    for low in range(0, laws.shape[1], 64):
        for x, law in enumerate(np.ascontiguousarray(laws[:, low : low + 64].T), low):
            cuts[x], last[x] = thresholds(law)
    cuts.flags.writeable = last.flags.writeable = False
    return cuts, last


def draw_signed(
    matrix: npt.NDArray[np.float64], columns: npt.NDArray[np.int64], words: npt.NDArray[np.uint64]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
    """Draw rows in proportion to the absolute entries of a column, with signed factors.

    Parameters
    ----------
    matrix : float64, shape (rows, columns)
    columns : int64, shape (n,)
        Column of each draw.
    words : uint64, shape (n,)
        One uniform word a draw.

    Returns
    -------
    rows, factors : arrays, shape (n,)
        ``E[factor * f(row)]`` is the sum of ``matrix[row, column] * f(row)`` over the rows.
    """
    rows = np.empty(len(columns), dtype=np.int64)
    for column in np.unique(columns):
        here = columns == column
        law = np.abs(matrix[:, column])
        cuts, last = thresholds(law / law.sum())
        drawn = np.searchsorted(cuts, words[here] >> np.uint64(2), "right")
        rows[here] = np.minimum(drawn, last)
    factors = np.sign(matrix[rows, columns]) * np.abs(matrix).sum(axis=0)[columns]
    return rows, factors
