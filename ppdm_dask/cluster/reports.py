"""Reports of a Dask collection: lazy, and the same however often they are computed.

A real disguise draws by a key of its own for each partition (:mod:`ppdm_dask.cluster.keys`).  The
partitioning is fixed when ``disguise`` is called, so a partition that is computed again has the
same records and draws.  A simulated disguise draws by positions in the whole, so that it is the
same for any partitioning; where positions are not known, lengths of partitions are counted in a
first pass of the same graph, which reads the source twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dask.dataframe as dd
import numpy as np
import pandas as pd
from dask.base import DaskMethodsMixin
from dask.dataframe.dask_expr._expr import Blockwise, Expr
from dask.threaded import get as threads
from dask.utils import funcname, key_split

from ppdm_dask.cluster.expressions import (
    MOST_TASKS,
    Disguise,
    Given,
    Inside,
    Labels,
    Length,
    Named,
    Offsets,
    PersistedReports,
    PersistedSum,
    Sum,
    Summary,
    source_of,
)
from ppdm_dask.cluster.keys import HeldKey, KeyNumber
from ppdm_dask.cluster.tasks import Plan, joined, labels
from ppdm_dask.data.codebook import Codebook, Records, Reports
from ppdm_dask.data.partitioned import notice
from ppdm_dask.data.plugins import plugin
from ppdm_dask.designs.base import Design
from ppdm_dask.errors import InputError
from ppdm_dask.faces.face import Face, html_table, names_of
from ppdm_dask.inference.tables import count
from ppdm_dask.randomness import KeyedStream, Stream
from ppdm_dask.shown import listed, shown

if TYPE_CHECKING:
    from distributed import Client
    from markupsafe import Markup

__all__ = ["LazyReports", "LazySum", "disguise"]


class _Collection(DaskMethodsMixin):
    """What Dask asks of a collection; the graph is made by the expression."""

    __dask_scheduler__ = staticmethod(threads)
    __dask_optimize__ = None

    def __init__(self, expr: Expr) -> None:
        self._expr = expr

    @property
    def expr(self) -> Expr:
        """The expression of Dask."""
        return self._expr

    def __dask_graph__(self) -> Any:
        return self._expr.lower_completely().__dask_graph__()

    def __dask_keys__(self) -> Any:
        return self._expr.lower_completely().__dask_keys__()

    def __dask_tokenize__(self) -> object:
        return type(self).__name__, self._expr._name

    def __reduce__(self) -> tuple[Any, ...]:
        raise InputError(
            "lazy reports hold a key in memory, which must not be written or copied; write the "
            "reports (to_frame().to_parquet()), or pass the collection itself to Dask",
            self,
        )

    def _outputs(self) -> list[Any]:
        """Keys of the results, in order; a graph that Dask has optimised has other tasks too."""
        return list(self._expr.optimize().__dask_keys__())

    def _computed(self, client: Client | None, options: dict[str, Any]) -> Any:
        if client is None:
            return super().compute(**options)
        return client.compute(self, **options).result()


class LazySum(_Collection):
    """What is added up over the partitions of reports, not computed yet."""

    def compute(self, *, client: Client | None = None, **options: Any) -> Any:
        """The sum; parameters as of :meth:`LazyReports.compute`."""
        return self._computed(client, options)

    def __repr__(self) -> str:
        return f"LazySum({key_split(self._expr._name)})"

    def __dask_postcompute__(self) -> Any:
        return _only, ()

    def __dask_postpersist__(self) -> Any:
        return _persisted_sum, (self._outputs(),)


def _only(results: Sequence[Any]) -> Any:
    return results[0]


def _persisted_sum(tasks: dict[Any, Any], keys: list[Any]) -> LazySum:
    return LazySum(PersistedSum(tasks, None, (None, None), _found(tasks, keys), "sum"))


def _found(tasks: dict[Any, Any], keys: list[Any]) -> list[Any]:
    """Keys of results among tasks: by name, which may be another where collections are many."""
    if all(key in tasks for key in keys):
        return keys
    kind = key_split(keys[0])
    needed = {each for task in tasks.values() for each in getattr(task, "dependencies", ())}
    return sorted(
        (key for key in tasks if key_split(key) == kind and key not in needed),
        key=lambda key: key[1],
    )


class LazyReports(Face, _Collection):
    """Reports of a collection of Dask, made when they are computed; the same ones each time.

    What ``design.disguise`` returns for a collection of Dask, or for files.  It is a collection
    itself: ``dask.compute``, ``persist`` and ``visualize`` take it, and so do ``count`` and
    ``estimate``, which sum up partitions where they are made.  Work goes to the active Client of
    Dask, to one that is passed, or else to threads of this process.

    A real disguise holds a key in the memory of this process and of the cluster that computes it,
    as long as this object, or a frame made of it, exists.  Therefore it cannot be pickled.
    """

    def __init__(self, expr: Expr, plan: Plan) -> None:
        super().__init__(expr)
        self._plan = plan

    @property
    def codebook(self) -> Codebook:
        """Declares the attributes and categories of the truth."""
        return self._plan.codebook

    @property
    def design(self) -> Design:
        """The design that disguises, bound to the codebook."""
        return self._plan.design

    @property
    def simulated(self) -> bool:
        """Whether draws come from a seed."""
        return self._plan.simulated

    @property
    def npartitions(self) -> int:
        """How many partitions there are."""
        return int(self._expr.npartitions)

    def _said(self) -> str:
        kind = "simulated, " if self.simulated else ""
        names = names_of(self.codebook.names, 90)
        return f"LazyReports({kind}{names}, npartitions={self.npartitions})"

    def _shown(self) -> Iterator[Markup]:
        yield html_table(self.codebook._listing())

    def compute(self, *, client: Client | None = None, **options: Any) -> Reports:
        """Reports of all partitions, in order.

        Parameters
        ----------
        client : distributed.Client, optional
            By default the active one, or threads of this process.
        **options
            Of ``dask.compute``, or of ``client.compute``.

        Raises
        ------
        InputError
            For records that the codebook or the design refuses; from a cluster without the value.
        """
        found: Reports = self._computed(client, options)
        return found

    def summed(
        self,
        part: Callable[[Reports], Any],
        add: Callable[[list[Any]], Any] | None = None,
        *,
        label: str | None = None,
    ) -> LazySum:
        """What :meth:`reduce` returns, not computed yet; tasks are called by the label."""
        return self._summed(part, add, funcname(part) if label is None else label)

    def _summed(self, part: Any, add: Any, label: str, *, numbers: bool = False) -> LazySum:
        how = Given(Named((part, (*self.codebook.names, *self._plan.keep))), None)
        return LazySum(Sum(Summary(self._expr, how, label, numbers), Named(add)))

    def reduce(
        self,
        part: Callable[[Reports], Any],
        add: Callable[[list[Any]], Any] | None = None,
        *,
        client: Client | None = None,
    ) -> Any:
        """Apply a function to the reports of each partition where they are made, and add up.

        Parameters
        ----------
        part : callable
            Can be pickled; returns what has a ``+``, which is small beside the reports.
        add : callable, optional
            Adds up a list of results, in order; by default their ``+``.
        client : distributed.Client, optional
            By default the active one, or threads of this process.

        Raises
        ------
        PPDMError
            What `part` or the disguise raises; from a cluster without the value at fault.
        """
        return self.summed(part, add).compute(client=client)

    def count(self, over: Iterable[str] | None = None) -> LazySum:
        """The table of :func:`ppdm_dask.count` over some attributes, not computed yet."""
        names = None if over is None else tuple(over)
        return self.summed(partial(count, design=self.design, over=names), label="count")

    def to_frame(self, index: str | None = None) -> dd.DataFrame:
        """A DataFrame of Dask with what `ppdm disguise` writes into files.

        Labels are categoricals; symbols that are no categories are numbers, and sets are bytes.

        Parameters
        ----------
        index : str, optional
            A kept column that becomes the index, such as the index of the source, by which other
            columns of it can be joined.  By default the index counts down from -1 within a
            partition: that of the source could tell an answer, and no row of the source has the
            same.  What is assigned or joined to such a frame by its index is missing in all rows.

        Raises
        ------
        InputError
            If no column of the name is kept.
        """
        if index is not None and index not in self._plan.keep:
            kept = listed(self._plan.keep) or "none"
            raise InputError(
                f"index: got {shown(index)}; a column that is kept is needed, there are: {kept}",
                index,
            )
        return dd.DataFrame(Labels(self._expr, index))

    def to_parquet(
        self, folder: str | Path, *, overwrite: bool = False, client: Client | None = None
    ) -> None:
        """Write the reports as a folder of parts, each in the task that makes them.

        The folder is what ``ppdm disguise --out`` writes, and ``ppdm count``, ``ppdm estimate``,
        ``pp.count(folder)`` and ``pp.estimate(folder, ...)`` take it.  It comes to its place when
        it is whole, with a manifest that names all parts; what is killed before leaves nothing
        that they take.  The same lazy reports, written twice, are not counted twice.

        Parameters
        ----------
        folder : path
            Not there yet, beside others that all workers see.
        overwrite : bool
            Replace a folder of parts of reports.
        client : distributed.Client, optional
            By default the active one, or threads of this process.

        Raises
        ------
        InputError
            If the folder is there, or cannot be; if a kept column has several types; for records
            that the codebook or the design refuses.
        DataError
            If there are no reports.
        """
        plan = self._plan

        def summed(part: Callable[..., Any], add: Callable[..., Any]) -> Any:
            return self._summed(part, add, "write", numbers=True).compute(client=client)

        plugin("parts")(
            self,
            summed,
            Path(folder),
            name=plan.name,
            kept=plan.keep,
            inputs=plan.inputs,
            overwrite=overwrite,
        )

    def __dask_postcompute__(self) -> Any:
        return joined, ()

    def __dask_postpersist__(self) -> Any:
        return _persisted_reports, (self._outputs(), self._expr._meta, self._plan)


def _persisted_reports(
    tasks: dict[Any, Any], keys: list[Any], meta: pd.DataFrame, plan: Plan
) -> LazyReports:
    divisions = (None,) * (len(keys) + 1)
    found = _found(tasks, keys)
    return LazyReports(PersistedReports(tasks, meta, divisions, found, "reports"), plan)


def disguise(
    design: Design, answers: Any, stream: Stream, codebook: Codebook, keep: Sequence[str] = ()
) -> LazyReports:
    """Lazy reports of a collection of Dask, or of files; see :meth:`Design.disguise`.

    Parameters
    ----------
    design : Design
    answers : DataFrame of Dask, list of delayed frames, path or list of paths
    stream : Stream
        A real one makes a key of its own, unless it is a keyed one.
    codebook : Codebook
        Of the answers.
    keep : sequence of str
        Further columns that stay as they are; the name of the index of a DataFrame too.

    Raises
    ------
    InputError
        For answers of another kind, without partitions, or that lack a column.
    """
    bound = design.bind(codebook, positions=stream.simulated)
    nobody = Records(np.zeros((0, len(codebook.names)), np.uint8), codebook)
    expr, ordered, known, files = source_of(answers, codebook, keep)
    draws: KeyNumber | Stream = stream
    offsets: Expr | None = None
    # Types of kept columns are the source's, where it says them.
    none = {name: np.asarray(expr._meta[name]) for name in keep}
    meta = labels(bound.disguise(replace(nobody, kept=none), Stream.from_seed(0)))
    inside = isinstance(expr, Blockwise) and not expr.dependencies()
    source = Inside(expr) if inside else expr
    at_once = -(-expr.npartitions // MOST_TASKS) if inside else 1
    if not stream.simulated:
        notice(("dask", expr._name), design.attributes)
        draws = HeldKey(stream if isinstance(stream, KeyedStream) else None)
    elif known is not None:
        offsets = Given(known, None)
    else:
        offsets = Offsets(Length(source, at_once))
    plan = Plan(bound, codebook, draws, ordered, tuple(keep), files)
    return LazyReports(Disguise(source, at_once, Given(plan, meta), offsets), plan)
