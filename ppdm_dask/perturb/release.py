"""A release as a frame and as a file that says what made it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ppdm_dask.arrays import Floats
from ppdm_dask.files.columns import cell_texts, spreadsheet_safe
from ppdm_dask.files.writing import replacing
from ppdm_dask.perturb.aibr import AIBR
from ppdm_dask.perturb.base import Perturbation

if TYPE_CHECKING:
    import pandas as pd

METADATA = b"ppdm_dask.release"
"""Key in a Parquet file's metadata: the method's configuration, and whether it was simulated."""


def released_frame(
    released: Floats, method: Perturbation, original: pd.DataFrame, keep: Sequence[str] = ()
) -> pd.DataFrame:
    """Released columns, and those kept as they are, in the order of the original.

    Columns of whole numbers that AIBR released as whole numbers are integers, with gaps where
    values are missing.
    """
    import pandas as pd

    names = method.summary_.names
    whole = isinstance(method, AIBR) and method.integers
    columns = {}
    for name in map(str, original.columns):
        if name in names:
            j = names.index(name)
            column: Any = pd.Series(released[:, j])
            if whole and method.summary_.whole[j]:
                gaps = bool(np.isnan(released[:, j]).any()) or bool(method.summary_.missing[j])
                column = column.astype("Int64" if gaps else "int64")
            columns[name] = column
        elif name in keep:
            columns[name] = original[name].reset_index(drop=True)
    return pd.DataFrame(columns)


def write_parquet(
    frame: pd.DataFrame,
    path: Path,
    method: Perturbation,
    simulated: bool,
    inputs: Iterable[Path] = (),
) -> None:
    """Write a release as Parquet atomically, for no more readers than the inputs.

    Raises
    ------
    RunFolderError
        If the file cannot be written.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    about = json.dumps({**method.config(), "simulated": simulated}, sort_keys=True)
    table = pa.Table.from_pandas(frame, preserve_index=False)
    table = table.replace_schema_metadata({**(table.schema.metadata or {}), METADATA: about})
    with replacing(path, inputs) as aside:
        pq.write_table(table, aside)


def write_csv(
    frame: pd.DataFrame, path: Path, inputs: Iterable[Path] = (), *, safe: bool = False
) -> None:
    """Write a release as CSV, atomically; a missing value is an empty cell.

    Parameters
    ----------
    frame : DataFrame
    path : Path
    inputs : iterable of Path
        Anyone who may not read all of them may not read the release.
    safe : bool
        Whether texts that a spreadsheet would take for formulas get an apostrophe.

    Raises
    ------
    RunFolderError
        If the file cannot be written.
    """
    import pandas as pd

    with replacing(path, inputs) as aside:
        texts = {
            i: cell_texts(frame.iloc[:, i])
            for i, kind in enumerate(frame.dtypes)
            if kind.kind == "O" or isinstance(kind, pd.ArrowDtype)
        }
        columns = [
            pd.Series(spreadsheet_safe(texts[i]) if safe else texts[i], dtype=object)
            if i in texts
            else frame.iloc[:, i]
            for i in range(frame.shape[1])
        ]
        names = spreadsheet_safe(frame.columns) if safe else frame.columns
        written = pd.DataFrame(dict(enumerate(columns)))
        written.to_csv(aside, index=False, header=list(names))
