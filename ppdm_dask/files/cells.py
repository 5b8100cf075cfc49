"""Cells of a CSV that is written: values as they were, and labels that no spreadsheet runs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from ppdm_dask.files.columns import read_number

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["cell_texts", "spreadsheet_safe"]

FORMULAS = ("=", "+", "-", "@", "\t", "\r")
"""Signs at the beginning of a cell that spreadsheets take for that of a formula."""


def cell_texts(values: pd.Series) -> list[str]:
    """Texts of a column: exact numbers, and nothing where a value is missing."""
    import pandas as pd
    import pyarrow as pa

    if isinstance(values.dtype, pd.ArrowDtype) and pa.types.is_floating(values.dtype.pyarrow_dtype):
        # Single precision has its own shortest text: 0.1, where a double would have 17 digits.
        kind = values.dtype.pyarrow_dtype.to_pandas_dtype()
        return [_text(each) for each in values.to_numpy(kind, na_value=np.nan)]
    return [_text(each) for each in values]


def _text(value: Any) -> str:
    import pandas as pd

    missing = value is None or value is pd.NA or value is pd.NaT or value != value
    return "" if missing else str(value)


def spreadsheet_safe(cells: Iterable[Any]) -> list[Any]:
    """Cells with an apostrophe before a text that a spreadsheet would take for a formula.

    Numbers, and texts that spell one, stay as they are.

    Examples
    --------
    >>> spreadsheet_safe(["=1+1", "yes", -0.02, "-99"])
    ["'=1+1", 'yes', -0.02, '-99']
    """
    return [f"'{cell}" if _is_formula(cell) else cell for cell in cells]


def _is_formula(cell: object) -> bool:
    formula = isinstance(cell, str) and cell.startswith(FORMULAS)
    return formula and not np.isfinite(read_number(str(cell)))
