"""Contingency tables of reports: a monoid of integer counts, dense or sparse.

Also here: a design's operations along the axes of a table.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ppdm_dask.arrays import Floats
from ppdm_dask.data.partitioned import PartitionedReports, Paths, opened
from ppdm_dask.designs.matching import (
    bound_to,
    covering,
    require_design,
    require_order,
    require_whole,
)
from ppdm_dask.errors import InputError, RecordsError
from ppdm_dask.faces.face import Face, html_table, names_of
from ppdm_dask.faces.listing import Listing
from ppdm_dask.faces.plots import bars, grid
from ppdm_dask.shown import listed, shown

if TYPE_CHECKING:
    import pandas as pd
    from markupsafe import Markup
    from matplotlib.axes import Axes

    from ppdm_dask.data.codebook import Codebook, Records
    from ppdm_dask.designs.base import Design


def along_blocks(tensor: Floats, names: tuple[str, ...], design: Design, step: str) -> Floats:
    """Apply an operation of each block of a design along the axes that belong to it."""
    to_reports = step in ("apply", "invert_transposed")
    for block in design.blocks:
        kept = [name for name in block.attributes if name in names]
        if not kept:
            continue
        part = block.marginal(kept)
        assert part is not None
        axes = [names.index(name) for name in kept]
        front = np.moveaxis(tensor, axes, range(len(axes)))
        tail = front.shape[len(axes) :]
        size, shape = part.n_reported, part.shape
        if to_reports:
            size, shape = part.n_true, part.reported_shape
        result = getattr(part, step)(front.reshape(size, -1)).reshape(*shape, *tail)
        tensor = np.moveaxis(result, range(len(axes)), axes)
    return tensor


def solve_blocks(
    observed: Floats,
    names: Sequence[str],
    design: Design,
    over: Sequence[str],
    *,
    squared: bool = False,
) -> Floats:
    """Apply B (or B * B, which gives second moments) of each block along the axes it belongs to.

    Parameters
    ----------
    observed : array, one axis for each of `names`
        Observed proportions, whole blocks or lumpable parts of them.
    over : sequence of str
        Attributes to keep, as axes of the result; the others of a block are summed out.
    """
    order, tensor = list(names), observed
    for block in design.blocks:
        kept = [name for name in block.attributes if name in names]
        if not kept:
            continue
        wanted = [name for name in kept if name in over]
        front = np.moveaxis(tensor, [order.index(name) for name in kept], range(len(kept)))
        part = block.marginal(kept)
        assert part is not None
        sizes, rest = part.shape, front.shape[len(kept) :]
        flat = front.reshape(part.n_reported, -1)
        if wanted == kept:
            flat = part.invert_squared(flat) if squared else part.invert(flat)
        else:
            summed = tuple(i for i, name in enumerate(kept) if name not in wanted)
            rows = part.left_inverse().reshape(*sizes, -1).sum(axis=summed)
            sizes = rows.shape[:-1]
            rows = rows.reshape(-1, len(flat))
            flat = (rows**2 if squared else rows) @ flat
        tensor = flat.reshape(*sizes, *rest)
        order = [*wanted, *(name for name in order if name not in kept)]
    return tensor.transpose([order.index(name) for name in over])


def require_table(table: ContingencyTable, design: Design) -> None:
    """Raise RecordsError or DesignError if another design made the reports of a table."""
    require_order(table, design)
    if table.design_digest and table.design_digest != design.digest:
        raise RecordsError("the table holds reports made by another design", design)


def check_table(table: ContingencyTable, design: Design) -> ContingencyTable:
    """The table with every cell, if the design made it, cuts no block of it and it has records."""
    require_table(table, design)
    require_whole(design, table.attributes)
    table = table.dense()
    if not table.n:
        raise RecordsError("the table holds no records; at least one is needed", table)
    return table


DENSE_CELLS = 1 << 20
"""A table of more cells than this is counted sparsely: only the cells that occur."""

MAX_COUNT = (1 << 63) - 1
"""Records that a table can hold: counts have 64 bits."""

Counts = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False, repr=False)
class ContingencyTable(Face):
    """Counts of records in the joint categories of some attributes.

    Tables over the same attributes add; ``zero`` is the neutral element.  Sums of integers are
    exact, so partitions may be counted and added in any order.

    Parameters
    ----------
    codebook : Codebook
        The attributes of the table, in the order of its axes.
    counts : int64 array
        Shape ``sizes`` if dense; shape (cells that occur,) if sparse.
    cells : int64 array, optional
        Sparse only: ascending row-major indices of the cells that occur.
    design_digest : str
        Digest of the design behind the reports; empty for undisguised records.
    simulated : bool
        True if the reports were drawn from a seed.
    reported_sizes : tuple of int, optional
        Reported symbols along each axis, where they are not the categories of the codebook.
    design : Design, optional
        The design that made the reports, where it is at hand.

    Raises
    ------
    RecordsError
        For counts of another shape or type, counts below 0, or 2**63 or more records in total.
    """

    codebook: Codebook
    counts: Counts
    cells: Counts | None = None
    design_digest: str = ""
    simulated: bool = False
    reported_sizes: tuple[int, ...] | None = None
    design: Design | None = None

    @property
    def sizes(self) -> tuple[int, ...]:
        """Reported symbols along each axis: categories, where a design has no more of them."""
        return self.codebook.shape if self.reported_sizes is None else self.reported_sizes

    def __post_init__(self) -> None:
        expected = self.sizes if self.cells is None else self.cells.shape
        given: Any = self.counts
        if not isinstance(given, np.ndarray):
            kind = type(given).__name__
            raise RecordsError(f"counts: got {kind}; an array of int64 is needed", given)
        if given.dtype != np.int64 or given.shape != expected:
            raise RecordsError(
                f"counts are {given.dtype} {given.shape}; int64 {expected} is needed", given
            )
        if self.counts.size and int(self.counts.min()) < 0:
            raise RecordsError(
                f"counts: got {int(self.counts.min())}; 0 or more are needed", self.counts
            )
        if self.cells is not None and len(self.cells):
            # A cell that is there twice, or outside of the table, would be counted elsewhere.
            inside = int(self.cells[0]) >= 0 and int(self.cells[-1]) < _n_cells(self.sizes)
            if not inside or (np.diff(self.cells) <= 0).any():
                raise RecordsError("cells: ascending indices of cells are needed", self.cells)
        _require_total(self.n)

    @classmethod
    def zero(
        cls,
        codebook: Codebook,
        design_digest: str = "",
        reported_sizes: tuple[int, ...] | None = None,
    ) -> ContingencyTable:
        """The table without records."""
        sizes = codebook.shape if reported_sizes is None else reported_sizes
        counts, cells = np.zeros(0, np.int64), np.zeros(0, np.int64)
        if _n_cells(sizes) <= DENSE_CELLS:
            return cls(codebook, np.zeros(sizes, np.int64), None, design_digest, False, sizes)
        return cls(codebook, counts, cells, design_digest, False, sizes)

    @property
    def attributes(self) -> tuple[str, ...]:
        """Names of the axes."""
        return self.codebook.names

    def _symbols(self) -> list[tuple[str, ...]]:
        """What the positions along each axis are called: labels, or numbers of other symbols."""
        return [
            attribute.categories
            if size == len(attribute.categories)
            else tuple(str(i) for i in range(size))
            for attribute, size in zip(self.codebook.attributes, self.sizes, strict=True)
        ]

    def to_frame(self) -> pd.DataFrame:
        """A row for each cell: what was reported and how often; only cells that occur if sparse."""
        return self._listing().to_frame()

    def _listing(self) -> Listing:
        cells = np.arange(self.counts.size) if self.cells is None else self.cells
        places = np.unravel_index(cells, self.sizes)
        columns: dict[str, Any] = {
            name: np.array(symbols, object)[place]
            for name, symbols, place in zip(self.attributes, self._symbols(), places, strict=True)
        }
        last = "count"
        while last in columns:
            last += "_"
        return Listing.of({**columns, last: self.counts.ravel()})

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the counts of one attribute as bars, or those of two as a grid.

        Raises
        ------
        InputError
            For more attributes: take a marginal.
        """
        symbols = self._symbols()
        if len(symbols) > 2 or self.cells is not None:
            raise InputError(
                f"plot: a table of {len(symbols)} attributes; a marginal of one or two is needed",
                None,
            )
        what = "reports" if self.design_digest else "records"
        if len(symbols) == 1:
            return bars(ax, symbols[0], self.counts, x=what)
        rows, columns = self.attributes
        return grid(ax, self.counts, *symbols, x=columns, y=rows, form=",.0f")

    def _said(self) -> str:
        what = "reports" if self.design_digest else "records"
        sizes = " x ".join(map(str, self.sizes))
        return f"ContingencyTable of {names_of(self.attributes)} ({sizes}), {self.n:,} {what}"

    def _shown(self) -> Iterator[Markup]:
        # Of true answers, or of many attributes, a cell may be one person.
        if self.design_digest and self.cells is None and len(self.sizes) <= 2:
            yield html_table(self._listing())

    @cached_property
    def n(self) -> int:
        """Number of records counted."""
        counts = self.counts
        if counts.size * int(counts.max(initial=0)) <= MAX_COUNT:
            return int(counts.sum())
        # A sum in 64 bits could wrap.
        high, low = (counts >> 32).sum(), (counts & 0xFFFFFFFF).sum()
        return (int(high) << 32) + int(low)

    def __add__(self, other: ContingencyTable) -> ContingencyTable:
        if not isinstance(other, ContingencyTable):
            return NotImplemented
        return sum_tables([self, other])

    def sparse(self) -> ContingencyTable:
        """The same table as the cells that occur."""
        if self.cells is not None:
            return self
        flat = self.counts.ravel()
        cells = np.flatnonzero(flat).astype(np.int64)
        return replace(self, counts=flat[cells], cells=cells)

    def dense(self) -> ContingencyTable:
        """The same table with every cell.

        Raises
        ------
        RecordsError
            Above 2**20 cells; estimate events or count fewer attributes instead.
        """
        if self.cells is None:
            return self
        n_cells = _n_cells(self.sizes)
        if n_cells > DENSE_CELLS:
            raise RecordsError(
                f"a table over {listed(self.attributes)} has {n_cells} cells, more than "
                f"{DENSE_CELLS}; estimate events, or count fewer attributes",
                self,
            )
        flat = np.zeros(n_cells, np.int64)
        flat[self.cells] = self.counts
        return replace(self, counts=flat.reshape(self.sizes), cells=None)

    def symbols(self) -> npt.NDArray[np.int64]:
        """Codes of the cells that occur, shape (cells, attributes), in ascending order."""
        cells = self.sparse().cells
        assert cells is not None
        if not self.sizes:
            return np.zeros((len(cells), 0), np.int64)
        return np.stack(np.unravel_index(cells, self.sizes), axis=1)

    def marginal(self, attributes: Iterable[str]) -> ContingencyTable:
        """Sum over the attributes that are not named; axes in the order given."""
        names = tuple(attributes)
        book = self.codebook.select(names)
        kept = [self.codebook.index(name) for name in names]
        if self.cells is None:
            others = tuple(i for i in range(self.counts.ndim) if i not in kept)
            summed = self.counts.sum(axis=others)
            order = np.argsort(np.argsort(kept))
            counts = np.ascontiguousarray(summed.transpose(order))
            return replace(self, codebook=book, counts=counts, reported_sizes=counts.shape)
        sizes = tuple(self.sizes[i] for i in kept)
        symbols = self.symbols()[:, kept]
        return replace(
            self, codebook=book, reported_sizes=sizes, **_tally(symbols, sizes, self.counts)
        )

    def where(self, event: dict[str, Any]) -> ContingencyTable:
        """The part of the table inside an event; its attributes stay as axes.

        Parameters
        ----------
        event : mapping of attribute to label or labels
        """
        masks = self.codebook.masks(event)
        for name in masks:
            if self.sizes[self.codebook.index(name)] != len(self.codebook[name].categories):
                raise RecordsError(
                    f"reports of {shown(name)} have symbols that are no categories; "
                    "estimate the event instead",
                    event,
                )
        part = self.sparse()
        assert part.cells is not None
        symbols = part.symbols()
        inside = np.ones(len(symbols), bool)
        for name, mask in masks.items():
            inside &= mask[symbols[:, self.codebook.index(name)]]
        part = replace(part, counts=part.counts[inside], cells=part.cells[inside])
        return part.dense() if self.cells is None else part


def _require_total(n: int) -> None:
    if n > MAX_COUNT:
        raise RecordsError(f"counts: {n} records in all; at most {MAX_COUNT} can be counted", n)


def _n_cells(sizes: tuple[int, ...]) -> int:
    n_cells = math.prod(sizes)
    if n_cells >= 1 << 62:
        raise RecordsError(
            f"a table over {len(sizes)} attributes has {n_cells} cells; count fewer", sizes
        )
    return n_cells


def _tally(
    symbols: npt.NDArray[Any], sizes: tuple[int, ...], multiplicity: Counts | None
) -> dict[str, Any]:
    """Fields ``counts`` and ``cells`` of the table of some coded rows."""
    n_cells = _n_cells(sizes)
    index = np.zeros(len(symbols), np.int64)
    for axis, size in enumerate(sizes):
        index *= size
        index += symbols[:, axis]
    if n_cells <= DENSE_CELLS:
        counts = np.zeros(n_cells, np.int64)
        if multiplicity is None:
            counts += np.bincount(index, minlength=n_cells)
        else:
            np.add.at(counts, index, multiplicity)
        return {"counts": counts.reshape(sizes), "cells": None}
    if multiplicity is None:
        index.sort()
        starts = _starts(index)
        return {"counts": np.diff(starts, append=len(index)), "cells": index[starts]}
    cells, counts = _merged([index], [multiplicity])
    return {"counts": counts, "cells": cells}


def _starts(cells: Counts) -> Counts:
    """Where each of some ascending cells stands first."""
    first = np.ones(len(cells), bool)
    np.not_equal(cells[1:], cells[:-1], out=first[1:])
    return np.flatnonzero(first).astype(np.int64, copy=False)


def _merged(cells: Sequence[Counts], counts: Sequence[Counts]) -> tuple[Counts, Counts]:
    """Cells of several tables, ascending and each once, and the sums of their counts."""
    every = np.concatenate(cells)
    # Timsort: cells of each table are in order, and are merged in a binary tree.
    order = np.argsort(every, kind="stable")
    every = every[order]
    starts = _starts(every)
    if not len(starts):
        return every, np.zeros(0, np.int64)
    return every[starts], np.add.reduceat(np.concatenate(counts)[order], starts)


def sum_tables(tables: Sequence[ContingencyTable]) -> ContingencyTable:
    """The sum of one or more tables over the same attributes, at once.

    Raises
    ------
    RecordsError
        If they are over different attributes, of different designs, or too large together.
    """
    first, *others = tables
    for other in others:
        if other.codebook.digest != first.codebook.digest:
            raise RecordsError("tables over different attributes or categories do not add", other)
        if other.design_digest != first.design_digest or other.sizes != first.sizes:
            raise RecordsError("tables of reports made by different designs do not add", other)
    if not others:
        return first
    _require_total(sum(table.n for table in tables))
    simulated = any(table.simulated for table in tables)
    if all(table.cells is None for table in tables):
        counts = first.counts.copy()
        for other in others:
            counts += other.counts
        return replace(first, counts=counts, simulated=simulated)
    sparse = [table.sparse() for table in tables]
    cells, counts = _merged(
        [table.cells for table in sparse if table.cells is not None],
        [table.counts for table in sparse],
    )
    return replace(sparse[0], counts=counts, cells=cells, simulated=simulated)


class RunningTable:
    """The sum of tables that come one by one, in a binary tree where they are sparse.

    A table waits until what has come after it is half as large: each cell is merged a logarithm of
    times, not once for each table that comes.
    """

    def __init__(self) -> None:
        self._waiting: list[ContingencyTable] = []

    def add(self, table: ContingencyTable) -> None:
        """Take the next table."""
        waiting = self._waiting
        waiting.append(table)
        while len(waiting) > 1 and (
            table.cells is None or len(waiting[-2].counts) <= 2 * len(waiting[-1].counts)
        ):
            waiting[-2:] = [sum_tables(waiting[-2:])]

    def total(self) -> ContingencyTable | None:
        """The sum of all; None if there are none."""
        return sum_tables(self._waiting) if self._waiting else None


def count(
    records: Records | PartitionedReports | Paths,
    design: Design | None = None,
    over: Iterable[str] | None = None,
) -> ContingencyTable:
    """Count reports over some attributes.

    Where a block of the design is not lumpable to the attributes asked for, the whole block is
    counted: cutting it would lose what its inverse needs.

    Parameters
    ----------
    records : Reports, or Records for the undisguised truth under a design that covers nothing of it
        Or reports in partitions, such as lazy reports, which are counted in the tasks that make
        them; or paths of files and folders of reports.
    design : Design, optional
        The design that made the reports; by default the one that they carry.
    over : iterable of str, optional
        Attributes; all by default.

    Raises
    ------
    RecordsError
        If the reports were made by another design, or are undisguised records of attributes that
        the design disguises.
    CodebookError
        If there is no attribute of a name.
    """
    there: Records | PartitionedReports = opened(records)
    if isinstance(there, PartitionedReports):
        names = None if over is None else tuple(over)
        table: ContingencyTable = there.reduce(partial(count, design=design, over=names))
        return table
    records = there
    design = getattr(records, "design", None) if design is None else design
    if design is None:
        raise RecordsError("design: got none; the design that made the reports is needed", records)
    design = bound_to(records, design)
    digest, simulated = require_design(records, design)
    if records.survey:
        what = " or ".join(records.survey)
        raise RecordsError(
            f"records with survey {what} are not counted; estimate from them directly",
            records,
        )
    names = covering(design, records.codebook.names if over is None else over)
    for block in design.blocks:
        if block.kind == "set" and block.attributes[0] in names:
            raise RecordsError(
                f"reports of {shown(block.attributes[0])} are sets and are not counted; "
                "sum their event weights (sum_weights, or estimate)",
                block,
            )
    chosen = records.select(names)
    return ContingencyTable(
        chosen.codebook,
        design_digest=digest,
        simulated=simulated,
        reported_sizes=chosen.sizes,
        design=design,
        **_tally(chosen.codes, chosen.sizes, None),
    )
