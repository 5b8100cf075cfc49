"""The reader of all data files: formats by the ends of file names, and data sets of several files.

Whatever asks for records reads them here, so that what is wrong with a file is wrong for every
command and recipe alike, and no two of them see different values.
"""

from __future__ import annotations

import glob
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ppdm_dask.errors import DataError, InputError
from ppdm_dask.files.arrow import plain_type
from ppdm_dask.files.arrow_file import ArrowFile
from ppdm_dask.files.csv_file import CsvFile
from ppdm_dask.files.datafile import AS_FOUND, BLOCK, Block, DataFile, Levels, Reading
from ppdm_dask.files.dialect import SEPARATORS
from ppdm_dask.files.excel import ExcelFile
from ppdm_dask.files.parquet import ParquetFile
from ppdm_dask.files.regular import ending, require_file
from ppdm_dask.files.splitting import split
from ppdm_dask.files.statistical import SpssFile, StataFile
from ppdm_dask.shown import located, shown

if TYPE_CHECKING:
    import pyarrow as pa


__all__ = [
    "AS_FOUND",
    "BLOCK",
    "FORMATS",
    "SEPARATORS",
    "Block",
    "DataFile",
    "Levels",
    "Reading",
    "endings",
    "expand",
    "format_of",
    "open_data",
    "open_parquet_data",
    "require_same_types",
]


FORMATS: tuple[type[DataFile], ...] = (
    CsvFile,
    ParquetFile,
    ArrowFile,
    ExcelFile,
    SpssFile,
    StataFile,
)
"""Formats of data; the first that knows how a name ends reads the file."""


def endings() -> str:
    """How names of data files end, for messages: the usual ending of each format."""
    *most, last = (form.endings[0] for form in FORMATS)
    return f"{', '.join(most)} or {last}"


def format_of(path: Path) -> type[DataFile] | None:
    """Format of a file by the end of its name, in lower or upper case; None if it has none."""
    kind = ending(path)
    return next((form for form in FORMATS if kind in form.endings), None)


def open_data(path: Path, content: bytes | None = None, how: Reading = AS_FOUND) -> DataFile:
    """Read the names of the columns.

    Parameters
    ----------
    path : Path
        Ends as a format's files do, in small or capital letters.
    content : bytes, optional
        What the file holds, where it was read already.
    how : Reading
        How to read the file, if known.

    Raises
    ------
    DataError
        If there is no such file, its format is unknown, or a column has no name or not a unique
        one.
    InputError
        If an option is given that files of its format do not have.
    """
    form = format_of(path)
    if form is None:
        raise DataError(f"{path}: a file that ends in {endings()} is needed", path)
    for name in how.told():
        if name not in form.options:
            raise InputError(f"--{name}: {path} is of {form.format}, and its files have none", path)
    if content is None:
        require_file(path)
    file = _named(form.open(path, content, how))
    return split(file, how) if how.split else file


def open_parquet_data(path: Path) -> DataFile:
    """Open a Parquet file, however it is called; see :func:`open_data`."""
    require_file(path)
    return _named(ParquetFile.open(path))


def _named(file: DataFile) -> DataFile:
    """The file, if each column has a name of its own."""
    for i, name in enumerate(file.columns, 1):
        if not name.strip():
            what = f"column {i} of {len(file.columns)} has no name; name it or leave it out"
            raise DataError(f"{file.path}: {what}", file.path)
    name, times = Counter(file.columns).most_common(1)[0] if file.columns else ("", 0)
    if times != 1:
        what = f"column {shown(name)} occurs {times} times" if times else "there are no columns"
        raise DataError(f"{file.path}: {what}", name)
    return file


WILD = ("*", "?", "[")
"""Signs that make a path a pattern, where no file is called so."""

UNSEEN = (".", "_")
"""How names begin that data sets pass over: hidden files, and those that a writer has not finished
or keeps for itself, such as ``_SUCCESS``."""


def expand(paths: str | Path | Iterable[str | Path]) -> list[Path]:
    """Files of a data set, sorted by path, however they are named.

    Parameters
    ----------
    paths : path or iterable of paths
        Files; folders, whose files are taken; patterns such as ``answers/*.parquet``. Of folders
        and patterns, names that begin with ``.`` or ``_`` are passed over, and so are files that
        stand beside another and have its name before theirs (``a.csv.about.json``).

    Raises
    ------
    DataError
        If there is no file of a name, a folder or a pattern has none, a folder holds folders or
        files of no format, a file is there twice, or the formats differ.
    """
    given = [paths] if isinstance(paths, str | Path) else list(paths)
    found = [file for path in given for file in _matching(Path(path))]
    if not found:
        raise DataError("data: there are no files; at least one is needed", given)
    at: dict[Path, Path] = {}
    for file in found:
        if (before := at.setdefault(file.resolve(), file)) is not file:
            twice = "" if before == file else f" as {located(before)}"
            raise DataError(f"{located(file)}: is named twice{twice}; its records count once", file)
    found.sort(key=lambda path: path.parts)
    for file in found[1:]:
        if format_of(file) is not format_of(found[0]):
            raise DataError(
                f"{located(file)}: is not a {_format(found[0])} file as {located(found[0])} is; "
                "the parts of a data set have one format",
                file,
            )
    return found


def _format(path: Path) -> str:
    form = format_of(path)
    assert form is not None
    return form.format


def _matching(path: Path) -> list[Path]:
    """Files that one argument names."""
    text = str(path)
    if any(sign in text for sign in WILD) and not path.exists():
        fixed = next(i for i, part in enumerate(path.parts) if any(sign in part for sign in WILD))
        matches = [Path(each) for each in glob.glob(text, recursive=True)]
        files = [each for each in _seen(matches, fixed) if not each.is_dir()]
        if not files:
            raise DataError(f"{located(path)}: there is no file of this pattern", path)
    elif path.is_dir():
        try:
            files = _seen(path.iterdir())
        except OSError as error:
            raise DataError(f"{located(path)}: cannot be read: {error.strerror}", path) from None
        if not files:
            raise DataError(f"{located(path)}: there is no data file in this folder", path)
        if inner := [each for each in files if each.is_dir()]:
            raise DataError(
                f"{located(inner[0])}: is a folder within a folder, whose files are not taken; "
                "name it, or give a pattern",
                inner[0],
            )
    else:
        files = [path]
    for file in files:
        require_file(file)
        if format_of(file) is None:
            raise DataError(
                f"{located(file)}: is not a data file: a name that ends in {endings()} is needed",
                file,
            )
    return files


def _seen(paths: Iterable[Path], fixed: int = -1) -> list[Path]:
    """Paths without hidden, unfinished and accompanying ones, from a part of the path on."""
    there = [path for path in paths if not any(p.startswith(UNSEEN) for p in path.parts[fixed:])]
    data = {(path.parent, path.name) for path in there if format_of(path) is not None}
    return [path for path in there if not _accompanies(path, data)]


def _accompanies(path: Path, data: set[tuple[Path, str]]) -> bool:
    if format_of(path) is not None:
        return False
    pieces = path.name.split(".")
    return any((path.parent, ".".join(pieces[:i])) in data for i in range(1, len(pieces)))


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
