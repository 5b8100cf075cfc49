"""What the tasks of a lazy disguise do: read, encode, disguise, summarise; then add up.

Workers log the exceptions of tasks and send them with their traceback; so tasks on records raise
nothing there, but return a refusal, which is raised by a task that has seen reports only.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from operator import add as plus
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np
import numpy.typing as npt
import pandas as pd
from dask.sizeof import sizeof

from ppdm_dask.cluster.active import on_a_worker
from ppdm_dask.cluster.keys import HeldKey, KeyNumber
from ppdm_dask.cluster.partitions import Partition, Refusal, guarded, opened
from ppdm_dask.data.codebook import Codebook, Records, Reports
from ppdm_dask.designs.base import Design
from ppdm_dask.errors import PPDMError
from ppdm_dask.files.reader import open_data
from ppdm_dask.randomness import Stream
from ppdm_dask.shown import listed

__all__ = [
    "File",
    "Plan",
    "Unread",
    "disguise_parts",
    "final",
    "joined",
    "labels",
    "length",
    "lengths",
    "numbered",
    "offsets_of",
    "summarise",
    "total",
    "value_of",
]

Offsets = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Plan:
    """What all tasks of a disguise have in common; a task of its own, so that it is sent once.

    Beside it, for files of the reports: the files that the answers are read from, and a random name
    of the disguise, by which the same reports are not counted twice.
    """

    design: Design
    codebook: Codebook
    draws: KeyNumber | Stream
    ordered: bool
    keep: tuple[str, ...] = ()
    inputs: tuple[Path, ...] = ()
    name: str = field(default_factory=lambda: uuid4().hex)

    def __dask_tokenize__(self) -> object:
        if isinstance(self.draws, KeyNumber):
            return self.draws.__dask_tokenize__()
        simulated: Any = self.draws
        key = (simulated.entropy, simulated.key)
        return (self.design.config(), self.codebook.digest, self.keep, *key)

    def __repr__(self) -> str:
        return f"{self.design.id} on {listed(self.design.attributes)}"

    @property
    def simulated(self) -> bool:
        return not isinstance(self.draws, KeyNumber)

    def told(self) -> Plan:
        """The plan as tasks have it: with the number of the key."""
        draws = KeyNumber(self.draws.number) if isinstance(self.draws, HeldKey) else self.draws
        return replace(self, draws=draws, inputs=(), name="")

    def disguise(self, records: Records, i: int) -> Reports:
        """Reports of partition i."""
        if not isinstance(self.draws, KeyNumber):
            return self.design.disguise(records, self.draws)
        key = self.draws.stream()
        if not self.ordered:
            records = _in_an_order(records, key.child(1, i))
        return self.design.disguise(records, key.child(0, i))


def _in_an_order(records: Records, key: Stream) -> Records:
    """Records in an order that depends on the key and on which there are, not on how they come.

    Computed again, a shuffle brings the same records in another order; drawn for by position, each
    person would have two reports.
    """
    keys = [*map(_sortable, records.kept.values()), *records.codes.T]
    same = records.take(np.lexsort(keys))
    return same.take(np.argsort(key.source().words(len(same))))


def _sortable(column: npt.NDArray[Any]) -> npt.NDArray[Any]:
    return column.astype(str) if column.dtype == object else column


def sheltered(names: Collection[str], function: Callable[..., Any], *arguments: Any) -> Any:
    """What a function returns; on a worker, a refusal in place of what it raises.

    Workers log the exceptions of tasks and send them; the threads of this process do neither.
    """
    if on_a_worker():
        return guarded(function, names, *arguments)
    return function(*arguments)


@dataclass(frozen=True)
class Unread:
    """Partitions of a source, each read when it is its turn; what reading raises is sheltered."""

    tasks: tuple[Any, ...] = field(repr=False)

    def __iter__(self) -> Iterator[Any]:
        return (task() for task in self.tasks)


def disguise_parts(parts: Any, plan: Plan, first: int, offsets: Offsets | None) -> Any:
    """One task: read, encode and disguise, from one partition on.  Raw records go no further."""
    return sheltered(plan.codebook.names, _disguised_parts, parts, plan, first, offsets)


def _disguised_parts(parts: Any, plan: Plan, first: int, offsets: Offsets | None) -> Reports:
    parts = parts if isinstance(parts, Unread) else [parts]
    return joined([_disguised(part, plan, i, offsets) for i, part in enumerate(parts, first)])


def _disguised(frame: Any, plan: Plan, i: int, offsets: Offsets | None) -> Reports:
    blocks, start = [], 0 if offsets is None else int(offsets[i])
    for block, row, place in _blocks(frame, (*plan.codebook.names, *plan.keep), i):
        try:
            blocks.append(plan.codebook.encode(block, row, plan.keep))
        except PPDMError as error:
            if error.row is None or error.told is None:
                raise
            raise type(error).at(
                error.row, place + str(error), error.subject, told=place + error.told
            ) from None
    codes = np.concatenate([block.codes for block in blocks])
    kept = _kept(blocks)
    return plan.disguise(Records(codes, plan.codebook, start, kept=kept), i)


def _kept(parts: Sequence[Records]) -> dict[str, npt.NDArray[Any]]:
    return {name: np.concatenate([part.kept[name] for part in parts]) for name in parts[0].kept}


def _blocks(frame: Any, names: Sequence[str], i: int) -> Iterator[tuple[Any, int, str]]:
    """Tables of partition i, the row that each begins with, and of what, for messages.

    Files are read here, and not by a task before, where an error is kept from logs.
    """
    if isinstance(frame, Partition):
        for block, row in frame.blocks():
            yield block, row, ""
    elif isinstance(frame, File):
        for block, row in frame.blocks(names):
            yield block, row, f"{frame.path}: "
    else:
        yield frame, 0, f"partition {i}: "


@dataclass(frozen=True)
class File:
    """A file that is read from its beginning, a partition by itself."""

    path: str

    def blocks(self, names: Sequence[str]) -> Iterator[tuple[pd.DataFrame, int]]:
        """Records in blocks, so that only codes of the whole file are in memory."""
        for block in open_data(Path(self.path)).blocks(list(names)):
            yield block.frame, block.offset


def summarise(reports: Any, how: tuple[Callable[[Reports], Any], Collection[str]]) -> Any:
    """What a function makes of the reports of a partition; and which names it may say."""
    function, names = how
    return reports if isinstance(reports, Refusal) else sheltered(names, function, reports)


def numbered(reports: Any, how: tuple[Callable[..., Any], Collection[str]], i: int) -> Any:
    """As :func:`summarise`, by a function that knows which partition it is."""
    function, names = how
    return reports if isinstance(reports, Refusal) else sheltered(names, function, i, reports)


def total(results: list[Any], add: Callable[[list[Any]], Any] | None) -> Any:
    """The sum of some results, or a refusal that is among them."""
    for each in results:
        if isinstance(each, Refusal):
            return each
    return sheltered((), _sum if add is None else add, results)


def _sum(results: list[Any]) -> Any:
    return reduce(plus, results)


def joined(parts: list[Any]) -> Reports:
    """Reports of all partitions as one; raises what a task could not."""
    found: list[Reports] = [opened(part) for part in parts]
    first = found[0]
    if len(found) == 1:
        return first
    return replace(
        first,
        codes=np.concatenate([part.codes for part in found]),
        sets={name: np.concatenate([part.sets[name] for part in found]) for name in first.sets},
        kept=_kept(found),
    )


def labels(reports: Any, index: str | None = None) -> pd.DataFrame:
    """Reports as they are written to files: labels, numbers of other symbols, packed sets.

    Parameters
    ----------
    reports : Reports or Refusal
    index : str, optional
        Kept column that becomes the index.
    """
    reports = opened(reports)
    columns: dict[str, Any] = {}
    # From -1 downwards, which frames of answers do not have: whatever aligns both by their index
    # finds no pair, where counting upwards would pair each person with another one's report.
    down = pd.RangeIndex(-1, -len(reports) - 1, -1)
    sizes = zip(reports.codebook.attributes, reports.sizes, strict=True)
    for attribute, size in sizes:
        name = attribute.name
        if name in reports.sets:
            rows = [bytes(row) for row in reports.sets[name]]
            columns[name] = pd.Series(rows, down, dtype=object)
        elif size != len(attribute):
            columns[name] = reports.column(name).astype(np.int32)
        else:
            codes = reports.column(name).astype(np.int32)
            columns[name] = pd.Categorical.from_codes(codes, pd.Index(attribute.categories))
    frame = pd.DataFrame(columns | dict(reports.kept), index=down)
    return frame if index is None else frame.set_index(index)


def length(parts: Any) -> Any:
    """Records of each partition of a task."""
    return sheltered((), _counted, parts)


def _counted(parts: Any) -> list[int]:
    parts = parts if isinstance(parts, Unread) else [parts]
    return [sum(len(block) for block, *_ in _blocks(part, (), 0)) for part in parts]


def lengths(parts: list[Any]) -> list[int]:
    """Lists of lengths as one."""
    return [n for part in parts for n in opened(part)]


def offsets_of(parts: list[Any]) -> Offsets:
    """Position of the first record of each partition, from lengths of all."""
    known = np.array(lengths(parts), np.int64)
    return np.cumsum(known) - known


@sizeof.register(Reports)  # type: ignore[untyped-decorator]
def _size(reports: Reports) -> int:
    return reports.codes.nbytes + sum(bits.nbytes for bits in reports.sets.values()) + 1_000


def value_of(named: Any) -> Any:
    """What a named value holds; the task that the others have it from."""
    return named.value


def final(results: list[Any], add: Callable[[list[Any]], Any] | None) -> Any:
    """The last sum, which raises what tasks on records did not."""
    return opened(total(results, add))
