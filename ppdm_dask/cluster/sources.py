"""What is disguised in partitions: DataFrames of Dask, delayed frames, files."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from glob import glob
from pathlib import Path
from typing import Any

import dask.dataframe as dd
import numpy as np
import numpy.typing as npt
import pandas as pd
from dask.dataframe.dask_expr._expr import Expr
from dask.dataframe.dask_expr._merge import Merge
from dask.dataframe.dask_expr._shuffle import BaseSetIndexSortValues, ShuffleBase
from dask.delayed import Delayed
from dask.utils import natural_sort_key

from ppdm_dask.cluster.partitions import parquet_partitions
from ppdm_dask.cluster.tasks import File
from ppdm_dask.data.codebook import Codebook
from ppdm_dask.errors import CodebookError, DataError, InputError
from ppdm_dask.files.reader import open_data
from ppdm_dask.files.regular import ending, require_file
from ppdm_dask.shown import listed, shown

__all__ = ["source_of"]

_WITHOUT_ORDER = (ShuffleBase, BaseSetIndexSortValues, Merge)
"""Expressions whose partitions have the same rows each time, and not the same order."""


def source_of(answers: Any, codebook: Codebook) -> tuple[Expr, bool, npt.NDArray[np.int64] | None]:
    """Expression of the answers, whether they have an order, and offsets where they are known.

    It is optimised here, once: partitions are numbered as they are from now on.
    """
    names = list(codebook.names)
    empty = pd.DataFrame({name: pd.Series(dtype=object) for name in names})
    if isinstance(answers, dd.Series):
        answers = answers.to_frame()
    if isinstance(answers, dd.DataFrame):
        there = list(answers.columns)
        for name in names:
            if there.count(name) != 1:
                how = "is absent" if name not in there else "occurs several times"
                raise CodebookError(
                    f"column {shown(name)} {how}; the columns are {listed(there)}", name
                )
        ordered = not any(isinstance(each, _WITHOUT_ORDER) for each in answers.expr.walk())
        return answers[names].optimize().expr, ordered, None
    several = list(answers) if isinstance(answers, list | tuple) else [answers]
    if all(isinstance(each, Delayed) or type(each).__name__ == "Future" for each in several):
        frame = dd.from_delayed(several, meta=empty, verify_meta=False)
        return frame.optimize().expr, True, None
    if not several or not all(isinstance(each, str | Path) for each in several):
        raise InputError(
            f"got a {type(answers).__name__} of Dask; a DataFrame, a list of delayed frames, or "
            "paths of files are needed"
        )
    files = [each.resolve() for each in _expanded([Path(each) for each in several])]
    parts, known = _partitions(files, codebook)
    states = [each.stat() for each in files]
    # Files that changed are other answers; the name of the expression says so.
    stamps = tuple((each.st_mtime_ns, each.st_size) for each in states)
    frame = dd.from_map(partial(_itself, stamps=stamps), parts, meta=empty)
    return frame.optimize().expr, True, known


def _itself(part: Any, stamps: tuple[tuple[int, int], ...]) -> Any:
    return part


def _partitions(
    files: list[Path], codebook: Codebook
) -> tuple[list[Any], npt.NDArray[np.int64] | None]:
    """Partitions of files, and where each begins if that is known: of Parquet only."""
    if all(ending(each) == ".parquet" for each in files):
        groups = parquet_partitions(files, codebook)
        if not groups:
            raise DataError(f"{files[0]}: there are no records; at least one is needed", files[0])
        return groups, np.array([group.offset for group in groups], np.int64)
    for file in files:
        open_data(file).require(codebook.names)
    return [File(str(file)) for file in files], None


def _expanded(paths: Iterable[Path]) -> list[Path]:
    """Files of paths, folders and globs, in the order of Dask: part 2 comes before part 10."""
    found: list[Path] = []
    for path in paths:
        if path.is_dir():
            inside = [each for each in path.iterdir() if ending(each) in (".csv", ".parquet")]
        elif any(sign in str(path) for sign in "*?[") and not path.exists():
            inside = [Path(each) for each in glob(str(path), recursive=True)]
        else:
            require_file(path)
            inside = [path]
        if not inside:
            raise DataError(f"{path}: there are no files of .csv or .parquet", path)
        found += sorted(inside, key=lambda each: natural_sort_key(str(each)))
    return found
