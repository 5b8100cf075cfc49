"""Continuous data in partitions: AIBR's edges from a tree, then one task per partition.

Edges come from the smallest and largest value of all partitions, and draws are keyed by a record's
position, so the release is the same for any partitioning.  A task reads a partition, writes its
release and returns counts; no driver ever holds the data.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial, reduce
from operator import add
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ppdm_dask.cluster.partitions import Partition, parquet_partitions, reduce_tree
from ppdm_dask.engine.interrupt import Interruption
from ppdm_dask.errors import DataError, InputError
from ppdm_dask.files.writing import remove_left_parts
from ppdm_dask.perturb.aibr import AIBR
from ppdm_dask.perturb.base import ColumnSummary, read_matrix
from ppdm_dask.perturb.release import released_frame, write_parquet
from ppdm_dask.randomness import Stream
from ppdm_dask.system import hanging_up

if TYPE_CHECKING:
    import pandas as pd
    from distributed import Client

__all__ = ["ReleasedParts", "perturb_file_in_parts", "perturb_partitions", "summarise_partitions"]


ENDING_SECONDS = 5.0
"""How long is waited for workers to end, after which what they write is left to a later start."""


@dataclass(frozen=True)
class ReleasedParts:
    """A release in a folder.

    Parameters
    ----------
    method : AIBR
        The fitted method.
    files : tuple of Path
        One for each partition, in the order of the records.
    counts : array of int, shape (m, k)
        Originals in each sub-interval of each column.
    """

    method: AIBR
    files: tuple[Path, ...]
    counts: npt.NDArray[np.int64]


def _add(parts: Sequence[Any]) -> Any:
    return reduce(add, parts)


def summarise_partitions(
    partitions: Sequence[Partition], columns: Sequence[str], *, client: Client | None = None
) -> ColumnSummary:
    """Sum up some columns of partitioned records.

    Parameters
    ----------
    partitions : sequence of Partition
    columns : sequence of str
    client : distributed.Client, optional
        Cluster to compute on; by default the threads of this process.

    Raises
    ------
    DataError
        If a value is not a finite number; the row counts over the whole data set.
    """
    if not partitions:
        raise InputError("partitions: there are none; at least one is needed", partitions)
    work = partial(_summarise, columns=tuple(columns))
    # Nothing is drawn.
    summary: ColumnSummary = reduce_tree(
        work, partitions, Stream.from_seed(0), _add, columns, client
    )
    return summary


def _summarise(
    _: int, partition: Partition, __: Stream, *, columns: tuple[str, ...]
) -> ColumnSummary:
    values, names = _read(partition.read(), columns, partition.offset)
    return ColumnSummary.of(values, names)


def _read(
    frame: pd.DataFrame, columns: tuple[str, ...], offset: int
) -> tuple[npt.NDArray[np.float64], tuple[str, ...]]:
    return read_matrix(frame[list(columns)], offset)


def perturb_partitions(
    method: AIBR,
    partitions: Sequence[Partition],
    columns: Sequence[str],
    stream: Stream,
    folder: str | Path,
    *,
    keep: Sequence[str] = (),
    client: Client | None = None,
    inputs: Sequence[Path] = (),
) -> ReleasedParts:
    """Perturb partitioned records by AIBR, and write a Parquet file for each partition.

    Parameters
    ----------
    method : AIBR
        Is fitted here, to the partitions as a whole.
    partitions : sequence of Partition
        As ``frame_partitions`` or ``parquet_partitions`` give them.
    columns : sequence of str
        Columns to perturb.
    stream : Stream
        ``Stream.from_entropy()`` for a real release, ``Stream.from_seed(seed)`` to simulate.
    folder : path
        Where the files go; it must be empty or not there.  All workers must see it.
    keep : sequence of str
        Further columns that are released as they are.
    client : distributed.Client, optional
        Cluster to compute on; by default the threads of this process.
    inputs : sequence of Path
        Files of the records: people who may not read all of them may not read the release.

    Returns
    -------
    ReleasedParts

    Raises
    ------
    InputError
        For an impossible parameter, data that cannot be perturbed, or a folder that is not empty.
    """
    folder = Path(folder)
    remove_left_parts(folder)
    if folder.is_dir() and any(folder.iterdir()):
        raise DataError(f"{folder}: the folder is not empty; name another one", folder)
    method.fit_summary(summarise_partitions(partitions, columns, client=client))
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DataError(f"{folder}: cannot be made: {error.strerror}", folder) from None
    work = partial(
        _perturb,
        method=method,
        columns=tuple(columns),
        keep=tuple(keep),
        folder=str(folder.resolve()),
        inputs=tuple(inputs),
    )
    counts: npt.NDArray[np.int64] = reduce_tree(
        work, partitions, stream, _add, [*columns, *keep], client
    )
    files = tuple(folder / _name(i) for i in range(len(partitions)))
    return ReleasedParts(method, files, counts)


def _name(i: int) -> str:
    return f"part-{i:06d}.parquet"


def _perturb(
    i: int,
    partition: Partition,
    stream: Stream,
    *,
    method: AIBR,
    columns: tuple[str, ...],
    keep: tuple[str, ...],
    folder: str,
    inputs: tuple[Path, ...],
) -> npt.NDArray[np.int64]:
    """One task: read, perturb, write.  Originals go no further."""
    frame = partition.read()
    values, _ = _read(frame, columns, partition.offset)
    released, counts = method.perturb_and_count(values, stream, partition.offset)
    table = released_frame(released, method, frame, keep)
    write_parquet(table, Path(folder) / _name(i), method, stream.simulated, inputs)
    return counts


def perturb_file_in_parts(
    method: AIBR,
    data: Path,
    columns: Sequence[str],
    stream: Stream,
    folder: Path,
    keep: Sequence[str] = (),
    workers: int | None = None,
) -> ReleasedParts:
    """Perturb the row groups of a Parquet file; see :func:`perturb_partitions`.

    Parameters
    ----------
    workers : int, optional
        Worker processes; 0, the default, takes the threads of this process.
    """
    # Each row group is a file of the release.
    partitions = parquet_partitions(data, columns, kept=keep, records=1)
    if not workers:
        return perturb_partitions(
            method, partitions, columns, stream, folder, keep=keep, inputs=[data]
        )
    from ppdm_dask.cluster.client import local_pool

    log = folder.with_name(folder.name + ".workers.log")
    try:
        # An exception, so that workers end before what they were writing is removed.
        with (
            Interruption() as signals,
            hanging_up(),
            # Not at once while workers are started or ended, which a signal would leave half done.
            local_pool(workers, log) as pool,
            signals.at_once(),
        ):
            return perturb_partitions(
                method,
                partitions,
                columns,
                stream,
                folder,
                keep=keep,
                client=pool.client,
                inputs=[data.resolve()],
            )
    finally:
        # Workers that were killed end a moment later, and their locks with them.
        until = time.monotonic() + ENDING_SECONDS
        while remove_left_parts(folder) and time.monotonic() < until:
            time.sleep(0.05)
