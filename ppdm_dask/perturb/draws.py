"""Draws for columns of numbers, keyed by a record's position and its column."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from ppdm_dask.randomness import LOGICAL_BLOCK

if TYPE_CHECKING:
    from ppdm_dask.randomness import Stream

__all__ = ["choose_one", "column_words", "uniforms"]

UNIT = 2.0**-53


def column_words(
    stream: Stream, column: int, n: int, offset: int
) -> Iterator[tuple[slice, npt.NDArray[np.uint64]]]:
    """One 64-bit word a record, block by block; a record's word depends on its position alone.

    Yields
    ------
    rows : slice
        The records, counted from `offset`.
    words : array of uint64
    """
    last = offset + n
    for block in range(offset // LOGICAL_BLOCK, -(-last // LOGICAL_BLOCK)):
        start = block * LOGICAL_BLOCK
        low, high = max(offset, start), min(last, start + LOGICAL_BLOCK)
        words = stream.source(block, column).words(high - start)[low - start :]
        yield slice(low - offset, high - offset), words


def uniforms(stream: Stream, columns: int, n: int, offset: int) -> npt.NDArray[np.float64]:
    """Uniform numbers in [0, 1), multiples of 2**-53, shape (n, columns)."""
    drawn = np.empty((n, columns), order="F")
    for j in range(columns):
        for rows, words in column_words(stream, j, n, offset):
            drawn[rows, j] = (words >> np.uint64(11)) * UNIT
    return drawn


def choose_one(word: int, n: int) -> int:
    """One of ``0 .. n - 1`` from a uniform 64-bit word (bias under n / 2**64)."""
    return word * n >> 64
