"""Tables that are in memory already, of pandas or of whatever hands out Arrow columns."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Any

from ppdm_dask.errors import CodebookError

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["as_frame"]


def as_frame(data: Any, columns: Collection[str]) -> pd.DataFrame:
    """Frame of a table; of Arrow's only some columns, by the rules of a Parquet file.

    Parameters
    ----------
    data : DataFrame of pandas, or a table that gives an Arrow stream: pyarrow's, polars'
    columns : collection of str
        Columns that are wanted; one that is absent is left out.

    Raises
    ------
    CodebookError
        One line, without data, for anything else, and for a column whose values are not read.
    """
    import pandas as pd

    if isinstance(data, pd.DataFrame):
        return data
    if not hasattr(data, "__arrow_c_stream__"):
        raise CodebookError(
            f"got a {type(data).__name__}; a DataFrame of pandas or polars, or an Arrow table, is "
            "needed"
        )
    import pyarrow as pa

    from ppdm_dask.files.parquet import arrow_frame, unreadable

    try:
        table = pa.table(data)
        places = [i for i, name in enumerate(table.schema.names) if name in columns]
        for i in places:
            column = table.schema.field(i)
            if why := unreadable(column.type):
                raise CodebookError(f"column {column.name!r} {why}", column.name)
        return arrow_frame(table.select(places))
    except (pa.ArrowException, TypeError, ValueError) as error:
        if isinstance(error, CodebookError):
            raise
        raise CodebookError(f"got a {type(data).__name__} that is no table") from None
