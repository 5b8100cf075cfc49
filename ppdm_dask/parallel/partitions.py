"""Record data in partitions: disguise and count in one task each, then a tree of sums.

Raw records stay inside the task that reads them, which plays the respondents' side; what leaves it
is a table of counts of reports.  Draws are keyed by a record's position in the whole data set and
counts are integers, so the tables are the same for any partitioning and any scheduler.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import accumulate, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ppdm_dask.codebook import Codebook
from ppdm_dask.designs.base import Design
from ppdm_dask.errors import InputError
from ppdm_dask.estimate.sums import WeightSums, sum_weights
from ppdm_dask.files.parts import require_same_types
from ppdm_dask.files.reader import open_parquet_data
from ppdm_dask.parallel.tree import reduce_tree
from ppdm_dask.randomness import Stream
from ppdm_dask.tables import ContingencyTable, count

if TYPE_CHECKING:
    import pandas as pd
    from distributed import Client

    from ppdm_dask.records import Reports

__all__ = [
    "Partition",
    "disguise_and_count",
    "disguise_and_sum",
    "frame_partitions",
    "parquet_partitions",
]


@dataclass(frozen=True)
class Partition:
    """Consecutive records, read where they are counted.

    Parameters
    ----------
    offset : int
        Position of the first record in the whole data set.
    read : callable
        Returns the records as a frame; runs in the task.
    """

    offset: int
    read: Callable[[], pd.DataFrame]

    @property
    def carries_records(self) -> bool:
        """Whether the records are in here, rather than in a file."""
        return isinstance(self.read, _Slice)

    def narrowed(self, names: Collection[str]) -> Partition:
        """The same without columns of other names, where it carries its records."""
        if not isinstance(self.read, _Slice):
            return self
        return replace(self, read=self.read.narrowed(names))


@dataclass(frozen=True)
class _Slice:
    frame: pd.DataFrame = field(repr=False)

    def __call__(self) -> pd.DataFrame:
        return self.frame

    def narrowed(self, names: Collection[str]) -> _Slice:
        """The same records without other columns, and without the index."""
        frame = self.frame.loc[:, [name in names for name in self.frame.columns]]
        return _Slice(frame.reset_index(drop=True))


@dataclass(frozen=True)
class _RowGroup:
    path: str
    group: int
    columns: tuple[str, ...]
    kept: tuple[str, ...]

    def __call__(self) -> pd.DataFrame:
        return open_parquet_data(Path(self.path)).row_group(
            self.group, self.columns, kept=self.kept
        )


def frame_partitions(frame: pd.DataFrame, n: int) -> list[Partition]:
    """Cut a frame into n partitions of nearly equal size.

    Raises
    ------
    InputError
        Unless n is at least 1.
    """
    if n < 1:
        raise InputError(f"partitions: got {n}; 1 or more is needed", n)
    edges = [len(frame) * i // n for i in range(n + 1)]
    return [Partition(low, _Slice(frame.iloc[low:high])) for low, high in pairwise(edges)]


def parquet_partitions(
    paths: str | Path | Iterable[str | Path],
    columns: Codebook | Sequence[str],
    *,
    kept: Sequence[str] = (),
) -> list[Partition]:
    """The row groups of one or more Parquet files, in order; memory is bounded by the largest.

    Parameters
    ----------
    paths : path or iterable of paths
    columns : Codebook or sequence of str
        Columns to read, or a codebook that names them.
    kept : sequence of str
        Further columns, which keep their Arrow types to be written as they are.

    Raises
    ------
    DataError
        If a file is missing, no Parquet, lacks one of the columns or has it with another type.
    """
    if isinstance(paths, str | Path):
        paths = [paths]
    names = tuple(columns.names if isinstance(columns, Codebook) else columns)
    files = [open_parquet_data(Path(path)) for path in paths]
    groups: list[tuple[_RowGroup, int]] = []
    for file in files:
        file.require((*names, *kept))
        groups += [
            (_RowGroup(str(file.path), i, names, tuple(kept)), rows)
            for i, rows in enumerate(file.row_groups())
        ]
    require_same_types(files, (*names, *kept))
    offsets = accumulate((rows for _, rows in groups), initial=0)
    return [Partition(offset, read) for (read, _), offset in zip(groups, offsets, strict=False)]


def _summarise(
    _: int,
    partition: Partition,
    stream: Stream,
    *,
    codebook: Codebook,
    design: Design,
    overs: Sequence[Sequence[str]],
    summary: Callable[[Reports, Design, Sequence[str]], Any],
) -> list[Any]:
    """One task: read, encode, disguise, count or sum.  Raw records go no further."""
    records = codebook.encode(partition.read(), partition.offset)
    reports = design.disguise(records, stream)
    return [summary(reports, design, over) for over in overs]


def _add(parts: Sequence[Sequence[Any]]) -> list[Any]:
    totals = list(parts[0])
    for part in parts[1:]:
        totals = [total + table for total, table in zip(totals, part, strict=True)]
    return totals


def disguise_and_count(
    partitions: Iterable[Partition],
    codebook: Codebook,
    design: Design,
    stream: Stream,
    overs: Iterable[Iterable[str]],
    *,
    client: Client | None = None,
) -> list[ContingencyTable]:
    """Contingency tables of the reports of partitioned records.

    Parameters
    ----------
    partitions : iterable of Partition
        As :func:`frame_partitions` or :func:`parquet_partitions` give them.
    codebook : Codebook
    design : Design
    stream : Stream
        ``Stream.from_entropy()`` for a real disguise, ``Stream.from_seed(seed)`` to simulate.
    overs : iterable of iterables of str
        Attributes of each table; see :func:`ppdm_dask.count`.
    client : distributed.Client, optional
        Cluster that does the work; by default the threads of this process.

    Returns
    -------
    list of ContingencyTable
        One for each entry of ``overs``.

    Raises
    ------
    InputError
        Without any partition, or for records that the codebook or the design refuses.
    """
    design = design.bind(codebook, positions=stream.simulated)
    return _reduce(count, partitions, (codebook, design, stream), overs, client)


def disguise_and_sum(
    partitions: Iterable[Partition],
    codebook: Codebook,
    design: Design,
    stream: Stream,
    overs: Iterable[Iterable[str]],
    *,
    client: Client | None = None,
) -> list[WeightSums]:
    """Sums of event weights of the reports of partitioned records: for reports that are sets.

    Parameters as of :func:`disguise_and_count`.  Reports are the same for any partitioning; sums of
    floating-point weights agree but for their last bits.

    Returns
    -------
    list of WeightSums
        One for each entry of ``overs``; :meth:`WeightSums.estimate` gives proportions.
    """
    design = design.bind(codebook, positions=stream.simulated)
    return _reduce(sum_weights, partitions, (codebook, design, stream), overs, client)


def _reduce(
    summary: Callable[..., Any],
    partitions: Iterable[Partition],
    common: tuple[Codebook, Design, Stream],
    overs: Iterable[Iterable[str]],
    client: Client | None,
) -> list[Any]:
    """Summarise each partition in a task, and add the results up in a tree."""
    codebook, design, stream = common
    lists = [tuple(over) for over in overs]
    parts = list(partitions)
    if not parts:
        raise InputError("partitions: there are none; at least one is needed", parts)
    work = partial(_summarise, codebook=codebook, design=design, overs=lists, summary=summary)
    totals: list[Any] = reduce_tree(work, parts, stream, _add, codebook.names, client)
    return totals
