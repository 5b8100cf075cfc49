"""Four data sets of the UCI repository, bundled, with original labels and a checksum each.

Also here: reads the comma-separated text files in which the UCI repository distributed the data
sets.
"""

from __future__ import annotations

import csv
import hashlib
import io
import math
import os
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ppdm_dask.errors import DataError
from ppdm_dask.extras import named
from ppdm_dask.shown import shown

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa


__all__ = ["DatasetInfo", "describe", "load", "names", "read_text", "table"]


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


_FOLDER = Path(__file__).resolve().parent


@dataclass(frozen=True)
class DatasetInfo:
    """What a bundled data set is and whose it is.

    Parameters
    ----------
    name, title : str
        Short name, as `load` takes it, and a line on the contents.
    file, sha256 : str
        Bundled file and its SHA-256 (hex).
    n_records : int
        Number of records.
    target : str
        Column of the class.
    classes : tuple of str
        Labels of the target.
    columns : tuple of str
        All columns in order, the target last.
    licence, citation, source : str
        Terms, whom to cite, and where the bytes came from.
    """

    name: str
    title: str
    file: str
    sha256: str
    n_records: int
    target: str
    classes: tuple[str, ...]
    columns: tuple[str, ...]
    licence: str
    citation: str
    source: str

    @property
    def n_attributes(self) -> int:
        """Number of attributes without the target."""
        return len(self.columns) - 1

    @property
    def path(self) -> Path:
        """Where the bundled file is."""
        return _FOLDER / self.file


@cache
def _sources() -> Mapping[str, Any]:
    sources: dict[str, Any] = tomllib.loads((_FOLDER / "sources.toml").read_text(encoding="utf-8"))
    return sources


def names() -> tuple[str, ...]:
    """Names of the bundled data sets."""
    return tuple(_sources())


def describe(name: str) -> DatasetInfo:
    """Describe a bundled data set.

    Raises
    ------
    DataError
        If there is none of that name.
    """
    if name not in _sources():
        raise DataError(
            f"no data set is called {shown(name)}; there are {', '.join(names())}", name
        )
    entry = {"name": name, **_sources()[name]}
    values = {field.name: entry[field.name] for field in fields(DatasetInfo)}
    for key in ("classes", "columns"):
        values[key] = tuple(values[key])
    return DatasetInfo(**values)


def load(
    name: str, file: str | os.PathLike[str] | Sequence[str | os.PathLike[str]] | None = None
) -> pd.DataFrame:
    """Load a data set with its original labels; missing values are missing, never a label.

    Parameters
    ----------
    name : str
        One of `names`.
    file : path or sequence of paths, optional
        Copies of your own to read instead, one after the other: the text files that the UCI
        repository distributed (``adult.data`` then ``adult.test``), or Parquet files with the
        columns of the bundled one. They are not compared with a checksum.

    Returns
    -------
    DataFrame
        Columns as ``describe(name).columns`` has them, records in the original order; numbers are
        integers or floats, labels are strings.

    Raises
    ------
    DataError
        If no data set has that name, or a file is absent, damaged or not of that data set.

    Examples
    --------
    >>> load("votes")["party"].value_counts().to_dict()
    {'democrat': 267, 'republican': 168}
    """
    with named("datasets.load"):
        import pandas as pd

    return pd.concat([_to_pandas(each) for each in _tables(name, file)], ignore_index=True)


def table(
    name: str, file: str | os.PathLike[str] | Sequence[str | os.PathLike[str]] | None = None
) -> pa.Table:
    """Load a data set as an Arrow table, for which pandas is not needed.

    Parameters
    ----------
    name, file
        As of :func:`load`.

    Raises
    ------
    DataError
        As of :func:`load`.

    Examples
    --------
    >>> table("votes").num_rows
    435
    """
    import pyarrow as pa

    return pa.concat_tables(_tables(name, file), promote_options="permissive")


def _tables(
    name: str, file: str | os.PathLike[str] | Sequence[str | os.PathLike[str]] | None
) -> list[pa.Table]:
    """Tables of the bundled file, or of each of some others."""
    info = describe(name)
    if file is None:
        content = _read_bytes(info.path)
        found = hashlib.sha256(content).hexdigest()
        if found != info.sha256:
            raise DataError(
                f"{info.path}: damaged: its SHA-256 is {found}, expected is {info.sha256}",
                info.path,
            )
        return [_from_parquet(content, info, info.path)]
    files = [file] if isinstance(file, (str, os.PathLike)) else list(file)
    if not files:
        raise DataError(f"no file is given to read {shown(name)} from", files)
    return [_from_file(Path(path), info) for path in files]


def _read_bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror}", path) from None


def _from_file(path: Path, info: DatasetInfo) -> pa.Table:
    content = _read_bytes(path)
    if content[:4] == b"PAR1":
        return _from_parquet(content, info, path)
    return read_text(content, path, info, _sources()[info.name])


def _from_parquet(content: bytes, info: DatasetInfo, path: Path) -> pa.Table:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        found = pq.read_table(io.BytesIO(content), use_threads=False)
    except (pa.ArrowException, OSError) as error:
        reason = str(error).splitlines()[0]
        raise DataError(f"{path}: cannot be read as Parquet: {reason}", path) from None
    if tuple(found.column_names) != info.columns:
        raise DataError(
            f"{path}: its columns are {', '.join(found.column_names)}; "
            f"{info.name} has {', '.join(info.columns)}",
            found.column_names,
        )
    return found


def _to_pandas(table: pa.Table) -> pd.DataFrame:
    import pandas as pd
    import pyarrow as pa

    # Integers with gaps would become floats; pandas' own nullable integers keep them as they are.
    columns = {
        name: column.to_pandas(
            types_mapper={pa.int64(): pd.Int64Dtype()}.get if column.null_count else None
        )
        for name, column in zip(table.column_names, table.columns, strict=True)
    }
    return pd.DataFrame(columns)
