"""Adding up equal rows of codes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["merge_rows", "row_keys"]

Rows = npt.NDArray[Any]
Ints = npt.NDArray[np.int64]


def row_keys(codes: Rows, shape: Sequence[int]) -> Ints:
    """A number for each row, shape (n,): equal rows and no others have equal numbers.

    Parameters
    ----------
    codes : array, shape (n, attributes)
    shape : sequence of int
        Categories of each attribute.
    """
    if math.prod(shape) >= 1 << 62:
        _, keys = np.unique(codes, axis=0, return_inverse=True)
        return np.asarray(keys, np.int64).ravel()
    keys = np.zeros(len(codes), np.int64)
    for column, size in zip(codes.T, shape, strict=True):
        keys *= size
        keys += column
    return keys


def merge_rows(codes: Rows, weights: Rows, shape: Sequence[int]) -> tuple[Rows, Rows]:
    """Distinct rows with the sum of their weights; rows that sum to 0 are dropped.

    Integer weights are summed exactly.
    """
    _, first, which = np.unique(row_keys(codes, shape), return_index=True, return_inverse=True)
    totals = np.zeros(len(first), weights.dtype)
    np.add.at(totals, which, weights)
    kept = totals != 0
    return codes[first[kept]], totals[kept]
