"""Expressions of Dask for reports of partitions.

Dask sends expressions to the scheduler, which makes the tasks there; so 100,000 partitions are a
small message.  A partition is read within the task that disguises it, whatever the optimiser does:
the expression of the source is inside of that task, so that raw records are no task's result, which
Dask could spill or send.

Sources are DataFrames of Dask, delayed frames and files.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import Any, NamedTuple, cast
from uuid import uuid4

import dask.dataframe as dd
import numpy as np
import numpy.typing as npt
import pandas as pd
from dask._task_spec import List, Task, TaskRef
from dask.base import tokenize
from dask.dataframe.dask_expr._expr import Blockwise, Expr
from dask.dataframe.dask_expr._merge import Merge
from dask.dataframe.dask_expr._shuffle import BaseSetIndexSortValues, ShuffleBase
from dask.dataframe.dask_expr.io import FromGraph
from dask.delayed import Delayed
from dask.tokenize import TokenizationError
from dask.utils import key_split

from ppdm_dask.cluster.partitions import FAN_IN, parquet_partitions
from ppdm_dask.cluster.tasks import (
    File,
    Plan,
    Unread,
    disguise_parts,
    final,
    joined,
    labels,
    length,
    lengths,
    numbered,
    offsets_of,
    summarise,
    total,
    value_of,
)
from ppdm_dask.data.codebook import Codebook
from ppdm_dask.errors import CodebookError, DataError, InputError
from ppdm_dask.files.reader import expand, open_data
from ppdm_dask.files.regular import ending
from ppdm_dask.shown import listed, shown

_WITHOUT_ORDER = (ShuffleBase, BaseSetIndexSortValues, Merge)
"""Expressions whose partitions have the same rows each time, and not the same order."""


class Source(NamedTuple):
    """Expression of answers, whether they have an order, offsets where known, and their files."""

    expr: Expr
    ordered: bool = True
    offsets: npt.NDArray[np.int64] | None = None
    files: tuple[Path, ...] = ()


def source_of(answers: Any, codebook: Codebook, keep: Sequence[str]) -> Source:
    """Where answers come from.

    It is optimised here, once: partitions are numbered as they are from now on.
    """
    names = [*codebook.names, *keep]
    empty = pd.DataFrame({name: pd.Series(dtype=object) for name in names})
    if isinstance(answers, dd.Series):
        answers = answers.to_frame()
    if isinstance(answers, dd.DataFrame):
        if answers.index.name in keep and answers.index.name not in answers.columns:
            answers = answers.reset_index()
        there = list(answers.columns)
        for name in names:
            if there.count(name) != 1:
                how = "is absent" if name not in there else "occurs several times"
                raise CodebookError(
                    f"column {shown(name)} {how}; the columns are {listed(there)}", name
                )
        ordered = not any(isinstance(each, _WITHOUT_ORDER) for each in answers.expr.walk())
        return Source(answers[names].optimize().expr, ordered)
    several = list(answers) if isinstance(answers, list | tuple) else [answers]
    if all(isinstance(each, Delayed) or type(each).__name__ == "Future" for each in several):
        frame = dd.from_delayed(several, meta=empty, verify_meta=False)
        return Source(frame.optimize().expr)
    if not several or not all(isinstance(each, str | Path) for each in several):
        raise InputError(
            f"got a {type(answers).__name__} of Dask; a DataFrame, a list of delayed frames, or "
            "paths of files are needed"
        )
    files = [each.resolve() for each in expand(several)]
    parts, known = _partitions(files, names)
    states = [each.stat() for each in files]
    # Files that changed are other answers; the name of the expression says so.
    stamps = tuple((each.st_mtime_ns, each.st_size) for each in states)
    frame = dd.from_map(partial(_itself, stamps=stamps), parts, meta=empty)
    return Source(frame.optimize().expr, True, known, tuple(files))


def _itself(part: Any, stamps: tuple[tuple[int, int], ...]) -> Any:
    return part


def _partitions(
    files: list[Path], names: list[str]
) -> tuple[list[Any], npt.NDArray[np.int64] | None]:
    """Partitions of files, and where each begins if that is known: of Parquet only."""
    if ending(files[0]) == ".parquet":
        groups = parquet_partitions(files, names)
        if not groups:
            raise DataError(f"{files[0]}: there are no records; at least one is needed", files[0])
        return groups, np.array([group.offset for group in groups], np.int64)
    for file in files:
        open_data(file).require(names)
    return [File(str(file)) for file in files], None


MOST_TASKS = 4_096
"""Partitions of a source above which several are disguised in one task, one after the other."""


class Inside:
    """An expression whose tasks are computed inside of others; Dask does not look in here."""

    def __init__(self, expr: Expr) -> None:
        self.inner = expr

    def __dask_tokenize__(self) -> object:
        return ("inside", self.inner._name)

    def __repr__(self) -> str:
        return str(key_split(self.inner._name))


class _OfSource(Blockwise):
    """A task of each partition of the source, which is read within it; of several if they are many.

    Their number is what a scheduler's time goes by.
    """

    @property
    def _source(self) -> Expr:
        source = self.operand("source")
        return cast(Expr, source.inner if isinstance(source, Inside) else source)

    def _divisions(self) -> Any:
        n = -(-self._source.npartitions // self.operand("at_once"))
        return (None,) * (n + 1)

    def _broadcast_dep(self, dep: Expr) -> bool:
        return dep is not self.operand("source")

    def _work(self, name: Any, parts: Any, first: int) -> Task:
        """Task of partitions of the source from the first on."""
        raise NotImplementedError  # pragma: no cover

    def _task(self, name: Any, index: int) -> Task:
        source, at_once = self._source, self.operand("at_once")
        first = index * at_once
        if not isinstance(self.operand("source"), Inside):
            return self._work(name, TaskRef((source._name, index)), first)
        numbers = range(first, min(first + at_once, source.npartitions))
        tasks = tuple(source._task((source._name, i), i) for i in numbers)
        return self._work(name, Unread(tasks), first)


class Disguise(_OfSource):
    """Reports of each partition."""

    _parameters = ["source", "at_once", "plan", "offsets"]

    @property
    def _meta(self) -> Any:
        return self.operand("plan")._meta

    def _work(self, name: Any, parts: Any, first: int) -> Task:
        offsets = self.operand("offsets")
        where = None if offsets is None else TaskRef((offsets._name, 0))
        plan = TaskRef((self.operand("plan")._name, 0))
        return Task(name, disguise_parts, parts, plan, first, where)

    def finalize_compute(self) -> Expr:
        return Join(self)


class Length(_OfSource):
    """Records of each partition."""

    _parameters = ["source", "at_once"]

    @property
    def _meta(self) -> Any:
        return self._source._meta

    def _work(self, name: Any, parts: Any, first: int) -> Task:
        return Task(name, length, parts)


class Named:
    """A function, alone or with arguments, named by what it is, or else at random."""

    def __init__(self, value: Any) -> None:
        self.value = value
        try:
            self.token = tokenize(value, ensure_deterministic=True)
        except TokenizationError:
            self.token = uuid4().hex

    def __dask_tokenize__(self) -> object:
        return self.token


class _Single(Expr):
    """An expression of one partition."""

    _meta: Any = None

    def _divisions(self) -> Any:
        return (None, None)

    def finalize_compute(self) -> Expr:
        return self


class Given(_Single):
    """What the tasks have in common, as the result of a task."""

    _parameters = ["value", "meta"]

    @property
    def _meta(self) -> Any:
        return self.operand("meta")

    def _task(self, name: Any, index: int) -> Any:
        value = self.operand("value")
        # Who holds the key is not a matter of tasks, which Dask keeps for a while.
        told = value.told() if isinstance(value, Plan) else value
        return Task(name, value_of, told if isinstance(told, Named) else Named(told))


class _Tree(_Single):
    """A tree over the partitions of `frame`, with `FAN_IN` branches to a task."""

    def _branch(self, key: Any, keys: list[TaskRef], *, last: bool) -> Task:
        raise NotImplementedError  # pragma: no cover

    def _layer(self) -> dict[Any, Any]:
        frame = self.operand("frame")
        level = [TaskRef((frame._name, i)) for i in range(frame.npartitions)]
        tasks: dict[Any, Any] = {}
        depth = 0
        while len(level) > FAN_IN:
            above = []
            for i in range(0, len(level), FAN_IN):
                key = (f"{self._name}-{depth}", i // FAN_IN)
                tasks[key] = self._branch(key, level[i : i + FAN_IN], last=False)
                above.append(TaskRef(key))
            level, depth = above, depth + 1
        key = (self._name, 0)
        tasks[key] = self._branch(key, level, last=True)
        return tasks


class Offsets(_Tree):
    """Position of the first record of each partition."""

    _parameters = ["frame"]

    def _branch(self, key: Any, keys: list[TaskRef], *, last: bool) -> Task:
        return Task(key, offsets_of if last else lengths, List(*keys))


class Summary(Blockwise):
    """What a function makes of the reports of each partition, in the task that disguises."""

    _parameters = ["frame", "part", "label", "numbers"]
    _defaults = {"numbers": False}

    @cached_property
    def _name(self) -> str:
        return f"{self.operand('label')}-{self.deterministic_token}"

    @property
    def _meta(self) -> Any:
        return self.operand("frame")._meta

    def _task(self, name: Any, index: int) -> Task:
        frame = TaskRef((self.operand("frame")._name, index))
        how = TaskRef((self.operand("part")._name, 0))
        if self.operand("numbers"):
            return Task(name, numbered, frame, how, index)
        return Task(name, summarise, frame, how)

    def _broadcast_dep(self, dep: Expr) -> bool:
        return dep is self.operand("part")


class Sum(_Tree):
    """Sum of what is known of the partitions."""

    _parameters = ["frame", "add"]

    def _branch(self, key: Any, keys: list[TaskRef], *, last: bool) -> Task:
        return Task(key, final if last else total, List(*keys), self.operand("add").value)


class Join(_Single):
    """Reports of all partitions as one."""

    _parameters = ["frame"]

    def _task(self, name: Any, index: int) -> Task:
        frame = self.operand("frame")
        parts = [TaskRef((frame._name, i)) for i in range(frame.npartitions)]
        return Task(name, joined, List(*parts))


class Labels(Expr):
    """Frames of labels.  A task apart: it may raise, since its argument is disguised."""

    _parameters = ["frame", "index"]

    @property
    def _meta(self) -> Any:
        meta, index = self.operand("frame")._meta, self.operand("index")
        return meta if index is None else meta.set_index(index)

    def _divisions(self) -> Any:
        return (None,) * (self.operand("frame").npartitions + 1)

    def _task(self, name: Any, index: int) -> Task:
        reports = TaskRef((self.operand("frame")._name, index))
        return Task(name, labels, reports, self.operand("index"))


class _Persisted(FromGraph):
    """Results of tasks that are computed, or being computed."""


class PersistedReports(_Persisted):
    """Reports of each partition, in memory."""

    def finalize_compute(self) -> Expr:
        return Join(self)


class PersistedSum(_Persisted):
    """A sum in memory."""

    def finalize_compute(self) -> Expr:
        return cast(Expr, self)
