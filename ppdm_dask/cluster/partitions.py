"""Record data in partitions: disguise and count in one task each, then a tree of sums.

Raw records stay inside the task that reads them, which plays the respondents' side; what leaves it
is a table of counts of reports.  Draws are keyed by a record's position in the whole data set and
counts are integers, so the tables are the same for any partitioning and any scheduler.

What a task on raw records may say when it fails: attribute and position, never a value.

Dask logs the exception of a task, with the task's arguments, on the worker and on the scheduler,
and sends it with its traceback.  So these tasks raise nothing: they return a :class:`Refusal`.

Also here: work on partitions in tasks, of a cluster or in threads, and a tree of sums of its
results.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial, reduce
from itertools import pairwise
from operator import add
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any

from dask.base import compute
from dask.delayed import delayed

from ppdm_dask.data.codebook import Codebook
from ppdm_dask.designs.base import Design
from ppdm_dask.errors import InputError, PPDMError
from ppdm_dask.files.arrow import together
from ppdm_dask.files.datafile import RECORDS, Block
from ppdm_dask.files.reader import open_parquet_data, require_same_types
from ppdm_dask.inference.evidence import sum_weights
from ppdm_dask.inference.sums import WeightSums
from ppdm_dask.inference.tables import ContingencyTable, count, sum_tables
from ppdm_dask.randomness import KeyedStream, SealedStream, Stream

if TYPE_CHECKING:
    import pandas as pd
    from distributed import Client

    from ppdm_dask.data.codebook import Reports

__all__ = [
    "FAN_IN",
    "Partition",
    "Refusal",
    "disguise_and_count",
    "disguise_and_sum",
    "frame_partitions",
    "guarded",
    "opened",
    "parquet_partitions",
    "reduce_tree",
]


@dataclass(frozen=True)
class Refusal:
    """Why a task gave no result.

    Parameters
    ----------
    error : PPDMError
        Without any value of the data, and without a traceback.
    """

    error: PPDMError

    @classmethod
    def of(cls, error: Exception, names: Collection[str]) -> Refusal:
        """Keep of an exception what holds no data.

        Parameters
        ----------
        names : collection of str
            Columns and attributes that may be named.
        """
        if isinstance(error, PPDMError) and (
            error.told is not None
            or (error.subject is None and not error.withheld)
            or isinstance(error.subject, PurePath)
            or (isinstance(error.subject, str) and error.subject in names)
        ):
            return cls(error.without_data())
        if isinstance(error, OSError) and error.strerror:
            where = f"{error.filename}: " if error.filename else ""
            return cls(PPDMError(f"{where}{error.strerror}"))
        last = traceback.extract_tb(error.__traceback__)[-1]
        kind = type(error) if isinstance(error, PPDMError) else PPDMError
        return cls(
            kind(
                f"a task on records failed: {type(error).__name__} in {Path(last.filename).name}, "
                f"line {last.lineno}; its message may hold data and stays there, without workers "
                "it is shown"
            )
        )


def guarded(function: Callable[..., Any], names: Collection[str], *arguments: Any) -> Any:
    """What a function returns, or a :class:`Refusal` in place of what it raises.

    An argument that is a refusal itself, or a list that has one, is passed on.
    """
    for argument in arguments:
        for each in argument if isinstance(argument, list) else [argument]:
            if isinstance(each, Refusal):
                return each
    try:
        return function(*arguments)
    except Exception as error:
        return Refusal.of(error, names)


def opened(answer: Any) -> Any:
    """A task's result; raises the error of a refusal."""
    if isinstance(answer, Refusal):
        raise answer.error
    return answer


FAN_IN = 16
"""Tables that one task of the tree of sums adds up."""

MOST_LOSSES = 4  # of workers with frames that only they had


def reduce_tree(
    work: Callable[[int, Partition, Stream], Any],
    parts: Sequence[Partition],
    stream: Stream,
    add: Callable[[Sequence[Any]], Any],
    names: Collection[str],
    client: Client | None,
) -> Any:
    """Do the work on each partition in a task of its own, and add the results up in a tree.

    Parameters
    ----------
    work : callable
        Of the partition's number, the partition and the stream of its draws.
    parts : sequence of Partition
    stream : Stream
    add : callable
        Adds up a list of results.
    names : collection of str
        Columns that the work reads: a cluster gets no others of a frame.
    client : distributed.Client, optional
        Cluster to compute on; by default the threads of this process.

    Raises
    ------
    PPDMError
        What the work raises; from a cluster without the wrong value.
    """
    keys = _keys(stream, len(parts))
    if client is None:
        (found,) = compute(_tree(work, parts, keys, add, None), scheduler="threads")
        return found
    # Loading these takes half a second, which work in threads need not spend.
    from distributed import KilledWorker
    from distributed.client import FutureCancelledError

    for _ in range(MOST_LOSSES):
        root = _tree(work, _shipped(parts, names, client), keys, add, tuple(names))
        try:
            return opened(client.compute(root).result())
        except FutureCancelledError:
            # A frame was lost with the only worker that had it. The keys are the same again.
            continue
        except KilledWorker as error:
            what = f"a partition ended its worker {error.allowed_failures + 1} times"
            raise PPDMError(f"{what}; smaller partitions need less memory") from None
    raise PPDMError(f"workers were lost {MOST_LOSSES} times with the partitions that they held")


def _tree(
    work: Callable[[int, Partition, Stream], Any],
    inputs: Sequence[Any],
    keys: Sequence[Stream | SealedStream],
    add: Callable[[Sequence[Any]], Any],
    told: tuple[str, ...] | None,
) -> Any:
    do, total = delayed(_do, pure=False), delayed(_total, pure=False)
    level = [
        do(work, i, part, key, told) for i, (part, key) in enumerate(zip(inputs, keys, strict=True))
    ]
    while len(level) > 1:
        level = [total(add, level[i : i + FAN_IN], told) for i in range(0, len(level), FAN_IN)]
    return level[0]


def _do(
    work: Callable[[int, Partition, Stream], Any],
    i: int,
    part: Partition,
    key: Stream | SealedStream,
    told: tuple[str, ...] | None,
) -> Any:
    stream = key.open() if isinstance(key, SealedStream) else key
    return work(i, part, stream) if told is None else guarded(work, told, i, part, stream)


def _total(
    add: Callable[[Sequence[Any]], Any], results: list[Any], told: tuple[str, ...] | None
) -> Any:
    return add(results) if told is None else guarded(add, told, results)


def _shipped(parts: Sequence[Partition], names: Collection[str], client: Client) -> Sequence[Any]:
    """Partitions as arguments of a cluster's tasks.

    Frames travel once, ahead of the graph; row groups are read by the task itself.
    """
    if not any(part.carries_records for part in parts):
        return parts
    # A name made of the content would tell it to anyone who sees names of tasks.
    futures: Sequence[Any] = client.scatter([part.narrowed(names) for part in parts], hash=False)
    return futures


def _keys(stream: Stream, n: int) -> list[Stream | SealedStream]:
    """Streams of n tasks: in a real disguise each has draws of its own, the same when it is redone.

    Tasks are run again when a worker dies or is slow; a person whose answer were disguised again
    each time would give it away.
    """
    if stream.simulated:
        return [stream] * n
    secret = KeyedStream()
    return [secret.child(i).sealed() for i in range(n)]


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

    def blocks(self) -> Iterator[tuple[pd.DataFrame, int]]:
        """Frames of the records, one at least, and where each begins in the whole data set.

        Of a file they are as large as blocks of files are, however large its row groups may be.
        """
        some = False
        for block in self.read.blocks() if isinstance(self.read, _RowGroups) else ():
            yield block.frame, self.offset + block.offset
            some = True
        if not some:
            yield self.read(), self.offset

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
class _RowGroups:
    path: str
    groups: tuple[int, ...]
    columns: tuple[str, ...]
    kept: tuple[str, ...]

    def blocks(self) -> Iterator[Block]:
        file = open_parquet_data(Path(self.path))
        return file.blocks_of(self.groups, self.columns, kept=self.kept)

    def __call__(self) -> pd.DataFrame:
        file = open_parquet_data(Path(self.path))
        return file.read_groups(self.groups, self.columns, kept=self.kept)


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
    records: int = RECORDS,
) -> list[Partition]:
    """The row groups of one or more Parquet files, in order, several small ones in a partition.

    Parameters
    ----------
    paths : path or iterable of paths
    columns : Codebook or sequence of str
        Columns to read, or a codebook that names them.
    kept : sequence of str
        Further columns, which keep their Arrow types to be written as they are.
    records : int
        Records that row groups of a partition have together at most; a larger one is a partition
        of its own.

    Raises
    ------
    DataError
        If a file is missing, no Parquet, lacks one of the columns or has it with another type.
    """
    if isinstance(paths, str | Path):
        paths = [paths]
    names = tuple(columns.names if isinstance(columns, Codebook) else columns)
    files = [open_parquet_data(Path(path)) for path in paths]
    parts: list[Partition] = []
    start = 0
    for file in files:
        file.require((*names, *kept))
        sizes = file.row_groups()
        for groups, first, _ in together(sizes, records):
            if groups:
                read = _RowGroups(str(file.path), groups, names, tuple(kept))
                parts.append(Partition(start + first, read))
        start += sum(sizes)
    require_same_types(files, (*names, *kept))
    return parts


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
    parts = []
    for frame, offset in partition.blocks():
        reports = design.disguise(codebook.encode(frame, offset), stream)
        parts.append([summary(reports, design, over) for over in overs])
    return _add(parts)


def _add(parts: Sequence[Sequence[Any]]) -> list[Any]:
    return [_sum(each) for each in zip(*parts, strict=True)]


def _sum(evidence: Sequence[Any]) -> Any:
    if isinstance(evidence[0], ContingencyTable):
        return sum_tables(evidence)
    return reduce(add, evidence)


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
        Cluster to compute on; by default the threads of this process.

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
