"""Data sets of several files: one type for a column in all of them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ppdm_dask.errors import DataError
from ppdm_dask.files.parquet import plain_type
from ppdm_dask.shown import shown

if TYPE_CHECKING:
    import pyarrow as pa

    from ppdm_dask.files.reader import DataFile

__all__ = ["require_same_types"]


def require_same_types(files: Sequence[DataFile], columns: Sequence[str]) -> None:
    """Raise DataError unless a column has one type in all parts of a data set.

    A part whose values are all missing may have no type.
    """
    import pyarrow as pa

    for name in columns:
        first: tuple[pa.DataType, Path] | None = None
        for file in files:
            kind = plain_type(file.types.get(name, pa.string()))
            if pa.types.is_null(kind):
                continue
            if first is None:
                first = kind, file.path
            elif kind != first[0]:
                raise DataError(
                    f"{file.path}: column {shown(name)} holds {str(kind)[:60]}, and "
                    f"{str(first[0])[:60]} in {first[1]}; write all parts with one type",
                    name,
                )
