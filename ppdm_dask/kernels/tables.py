"""Tables of weighted rows: one by each of several columns of symbols, in one pass over the rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from ppdm_dask.arrays import Floats, Ints
from ppdm_dask.kernels import kernel


@kernel
def add_tables(
    symbols: npt.NDArray[Any],
    columns: Ints,
    starts: Ints,
    rows: Ints,
    base: Ints,
    width: int,
    weights: Floats,
    out: Floats,
) -> None:
    """Add the weights of rows to the tables of their symbols.

    Parameters
    ----------
    symbols : unsigned array, shape (all rows, all columns)
    columns, starts : int64, shape (m,)
        Columns to make tables of, and the position in ``out`` where each table begins.
    rows, base : int64, shape (n,)
        Rows to add, and the position of each on the second axis of all tables.
    width : int
        Length of the second axis.
    weights : float64, shape (n,)
    out : float64
        Tables of shape (symbols of the column, width), one behind the other.
    """
    # Columns inside: rows alike would wait for one another's sums.  Unsigned: no index wraps.
    for i in range(rows.size):
        row, place, weight = symbols[rows[i]], np.uint64(base[i]), weights[i]
        for c in range(columns.size):
            cell = np.uint64(row[columns[c]]) * np.uint64(width) + place
            out[np.uint64(starts[c]) + cell] += weight


def add_tables_plain(
    symbols: npt.NDArray[Any],
    columns: Ints,
    starts: Ints,
    rows: Ints,
    base: Ints,
    width: int,
    weights: Floats,
    out: Floats,
) -> None:
    """Plain statement of :func:`add_tables`."""
    for column, start in zip(columns, starts, strict=True):
        places = start + symbols[rows, column].astype(np.int64) * width + base
        np.add.at(out, places, weights)
