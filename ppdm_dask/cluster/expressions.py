"""Expressions of Dask for reports of partitions.

Dask sends expressions to the scheduler, which makes the tasks there; so 100,000 partitions are a
small message.  A partition is read within the task that disguises it, whatever the optimiser does:
the expression of the source is inside of that task, so that raw records are no task's result, which
Dask could spill or send.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any, cast
from uuid import uuid4

from dask._task_spec import DataNode, List, Task, TaskRef
from dask.base import tokenize
from dask.dataframe.dask_expr._expr import Blockwise, Expr
from dask.dataframe.dask_expr.io import FromGraph
from dask.tokenize import TokenizationError
from dask.utils import key_split

from ppdm_dask.cluster.partitions import FAN_IN
from ppdm_dask.cluster.tasks import (
    Plan,
    Unread,
    disguise_parts,
    final,
    joined,
    labels,
    length,
    lengths,
    offsets_of,
    summarise,
    total,
)

__all__ = [
    "MOST_TASKS",
    "Disguise",
    "Given",
    "Inside",
    "Labels",
    "Length",
    "Named",
    "Offsets",
    "PersistedReports",
    "PersistedSum",
    "Sum",
    "Summary",
]


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
        if isinstance(value, Plan):
            # Who holds the key is no matter of tasks, which Dask keeps for a while.
            value = value.told()
        return DataNode(name, value.value if isinstance(value, Named) else value)


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


class Summary(Blockwise):
    """What a function makes of the reports of each partition, in the task that disguises."""

    _parameters = ["frame", "part", "label"]

    @cached_property
    def _name(self) -> str:
        return f"{self.operand('label')}-{self.deterministic_token}"

    @property
    def _meta(self) -> Any:
        return self.operand("frame")._meta

    def _task(self, name: Any, index: int) -> Task:
        frame = TaskRef((self.operand("frame")._name, index))
        return Task(name, summarise, frame, TaskRef((self.operand("part")._name, 0)))

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

    _parameters = ["frame"]

    @property
    def _meta(self) -> Any:
        return self.operand("frame")._meta

    def _divisions(self) -> Any:
        return (None,) * (self.operand("frame").npartitions + 1)

    def _task(self, name: Any, index: int) -> Task:
        return Task(name, labels, TaskRef((self.operand("frame")._name, index)))


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
