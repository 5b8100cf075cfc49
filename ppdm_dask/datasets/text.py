"""Reads the comma-separated text files in which the UCI repository distributed the data sets."""

from __future__ import annotations

import csv
import math
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ppdm_dask.errors import DataError
from ppdm_dask.shown import shown

if TYPE_CHECKING:
    import pyarrow as pa

    from ppdm_dask.datasets import DatasetInfo

__all__ = ["read_text"]


def read_text(content: bytes, path: Path, info: DatasetInfo, source: Mapping[str, Any]) -> pa.Table:
    """Read an original text file.

    Parameters
    ----------
    content : bytes
        The file. Blanks around a value are dropped, "?" is a missing value, empty lines and lines
        that begin with "|" are passed over.
    path : Path
        Its name, for messages.
    info : DatasetInfo
        The data set that it should hold.
    source : mapping
        Its entry of ``sources.toml``: columns of the text and how their values are read.

    Returns
    -------
    pyarrow.Table
        With the columns of the bundled file.

    Raises
    ------
    DataError
        On a line with another number of values, or a value that is not what its column holds;
        names the file, the line and the value.
    """
    import pyarrow as pa

    text = source["text"]
    columns: list[str] = text.get("columns", source["columns"])
    values: dict[str, list[Any]] = {name: [] for name in columns}
    readers = {name: _reader(name, source, text["recode"]) for name in columns}
    for number, row in _rows(content, path):
        if len(row) != len(columns):
            raise DataError(
                f"{path}, line {number}: {len(row)} values; {info.name} has {len(columns)}", row
            )
        for name, value in zip(columns, row, strict=True):
            try:
                values[name].append(None if value == "?" else readers[name](value))
            except (KeyError, ValueError):
                raise DataError(
                    f"{path}, line {number}: {name} is {shown(value)}, which {info.name} "
                    "does not have",
                    value,
                ) from None
    types = {
        **dict.fromkeys(source["integers"], pa.int64()),
        **dict.fromkeys(source.get("decimals", []), pa.float64()),
    }
    return pa.table(
        {name: pa.array(values[name], types.get(name, pa.string())) for name in info.columns}
    )


def _rows(content: bytes, path: Path) -> Iterator[tuple[int, list[str]]]:
    try:
        lines = content.decode("utf-8").splitlines()
    except UnicodeDecodeError:
        raise DataError(f"{path}: is neither text nor Parquet", path) from None
    for number, line in enumerate(lines, start=1):
        if line.strip() and not line.startswith("|"):
            yield number, [value.strip() for value in next(csv.reader([line]))]


def _reader(
    name: str, source: Mapping[str, Any], recode: Mapping[str, str]
) -> Callable[[str], object]:
    if name in source["integers"]:
        return int
    if name in source.get("decimals", []):
        return _finite
    if name == source["target"]:
        known = {label: label for label in source["classes"]}
        return {**known, **recode}.__getitem__
    return str


def _finite(value: str) -> float:
    number = float(value)
    if not math.isfinite(number):
        raise ValueError(value)
    return number
