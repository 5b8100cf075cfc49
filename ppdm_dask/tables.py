"""Contingency tables of reports: a monoid of integer counts, dense or sparse."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ppdm_dask.errors import NotLumpable, RecordsError

if TYPE_CHECKING:
    from ppdm_dask.codebook import Codebook
    from ppdm_dask.designs.base import Design
    from ppdm_dask.records import Records

__all__ = ["ContingencyTable", "count", "covering"]

DENSE_CELLS = 1 << 20
"""A table of more cells than this is counted sparsely: only the cells that occur."""

Counts = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class ContingencyTable:
    """Counts of records in the joint categories of some attributes.

    Tables over the same attributes add; ``zero`` is the neutral element.  Sums of integers are
    exact, so partitions may be counted and added in any order.

    Parameters
    ----------
    codebook : Codebook
        The attributes of the table, in the order of its axes.
    counts : int64 array
        Shape ``shape`` if dense; shape (cells that occur,) if sparse.
    cells : int64 array, optional
        Sparse only: ascending row-major indices of the cells that occur.
    design_digest : str
        Digest of the design behind the reports; empty for undisguised records.
    simulated : bool
        True if the reports were drawn from a seed.
    reported : tuple of int
        Reported symbols of each attribute; empty where there are as many as categories.
    """

    codebook: Codebook
    counts: Counts
    cells: Counts | None = None
    design_digest: str = ""
    simulated: bool = False
    reported: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        expected = self.shape if self.cells is None else self.cells.shape
        if self.counts.dtype != np.int64 or self.counts.shape != expected:
            raise RecordsError(
                f"counts are {self.counts.dtype} {self.counts.shape}; int64 {expected} is needed",
                self.counts,
            )

    @classmethod
    def zero(cls, codebook: Codebook, design_digest: str = "") -> ContingencyTable:
        """The table without records."""
        if _n_cells(codebook.shape) <= DENSE_CELLS:
            return cls(codebook, np.zeros(codebook.shape, np.int64), None, design_digest)
        nothing = np.zeros(0, np.int64)
        return cls(codebook, nothing, nothing, design_digest)

    @property
    def shape(self) -> tuple[int, ...]:
        """Lengths of the axes: reported symbols of each attribute."""
        return self.reported or self.codebook.shape

    @property
    def attributes(self) -> tuple[str, ...]:
        """Names of the axes."""
        return self.codebook.names

    @cached_property
    def n(self) -> int:
        """Number of records counted."""
        return int(self.counts.sum())

    def __add__(self, other: ContingencyTable) -> ContingencyTable:
        if not isinstance(other, ContingencyTable):
            return NotImplemented
        if other.codebook.digest != self.codebook.digest or other.reported != self.reported:
            raise RecordsError("tables over different attributes or categories do not add", other)
        if other.design_digest != self.design_digest:
            raise RecordsError("tables of reports made by different designs do not add", other)
        simulated = self.simulated or other.simulated
        if self.cells is None and other.cells is None:
            return replace(self, counts=self.counts + other.counts, simulated=simulated)
        one, two = self.sparse(), other.sparse()
        assert one.cells is not None and two.cells is not None
        cells, where = np.unique(np.concatenate([one.cells, two.cells]), return_inverse=True)
        counts = np.zeros(len(cells), np.int64)
        np.add.at(counts, where, np.concatenate([one.counts, two.counts]))
        return replace(one, counts=counts, cells=cells, simulated=simulated)

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
        n_cells = _n_cells(self.shape)
        if n_cells > DENSE_CELLS:
            raise RecordsError(
                f"a table over {', '.join(self.attributes)} has {n_cells} cells, more than "
                f"{DENSE_CELLS}; estimate events, or count fewer attributes",
                self,
            )
        flat = np.zeros(n_cells, np.int64)
        flat[self.cells] = self.counts
        return replace(self, counts=flat.reshape(self.shape), cells=None)

    def symbols(self) -> npt.NDArray[np.int64]:
        """Codes of the cells that occur, shape (cells, attributes), in ascending order."""
        cells = self.sparse().cells
        assert cells is not None
        if not self.shape:
            return np.zeros((len(cells), 0), np.int64)
        return np.stack(np.unravel_index(cells, self.shape), axis=1)

    def marginal(self, attributes: Iterable[str]) -> ContingencyTable:
        """Sum over the attributes that are not named; axes in the order given."""
        names = tuple(attributes)
        book = self.codebook.select(names)
        kept = [self.codebook.index(name) for name in names]
        reported = tuple(self.reported[i] for i in kept) if self.reported else ()
        if self.cells is None:
            others = tuple(i for i in range(self.counts.ndim) if i not in kept)
            summed = self.counts.sum(axis=others)
            order = np.argsort(np.argsort(kept))
            counts = np.ascontiguousarray(summed.transpose(order))
            return replace(self, codebook=book, counts=counts, reported=reported)
        return replace(self, **_tally(self.symbols()[:, kept], book, self.counts, reported))

    def where(self, event: dict[str, Any]) -> ContingencyTable:
        """The part of the table inside an event; its attributes stay as axes.

        Parameters
        ----------
        event : mapping of attribute to label or labels
        """
        masks = self.codebook.masks(event)
        part = self.sparse()
        assert part.cells is not None
        symbols = part.symbols()
        inside = np.ones(len(symbols), bool)
        for name, mask in masks.items():
            inside &= mask[symbols[:, self.codebook.index(name)]]
        part = replace(part, counts=part.counts[inside], cells=part.cells[inside])
        return part.dense() if self.cells is None else part


def _n_cells(shape: tuple[int, ...]) -> int:
    n_cells = math.prod(shape)
    if n_cells >= 1 << 62:
        raise RecordsError(
            f"a table over {len(shape)} attributes has {n_cells} cells; count fewer", shape
        )
    return n_cells


def _tally(
    symbols: npt.NDArray[Any],
    codebook: Codebook,
    multiplicity: Counts | None,
    reported: tuple[int, ...] = (),
) -> dict[str, Any]:
    """Fields ``codebook``, ``counts``, ``cells`` and ``reported`` of a table of coded rows."""
    shape = reported or codebook.shape
    n_cells = _n_cells(shape)
    same = {"codebook": codebook, "reported": reported}
    index = np.zeros(len(symbols), np.int64)
    for axis, size in enumerate(shape):
        index *= size
        index += symbols[:, axis]
    if n_cells <= DENSE_CELLS:
        counts = np.zeros(n_cells, np.int64)
        if multiplicity is None:
            counts += np.bincount(index, minlength=n_cells)
        else:
            np.add.at(counts, index, multiplicity)
        return {**same, "counts": counts.reshape(shape), "cells": None}
    cells, where = np.unique(index, return_inverse=True)
    counts = np.zeros(len(cells), np.int64)
    np.add.at(counts, where, 1 if multiplicity is None else multiplicity)
    return {**same, "counts": counts, "cells": cells}


def covering(design: Design, over: Iterable[str]) -> tuple[str, ...]:
    """Attributes to count for an estimate over some: blocks that are not lumpable, whole."""
    names = list(over)
    for block in design.blocks:
        kept = [name for name in block.attributes if name in names]
        if kept and block.marginal(kept) is None:
            names += [name for name in block.attributes if name not in names]
    return tuple(names)


def count(records: Records, design: Design, over: Iterable[str] | None = None) -> ContingencyTable:
    """Count reports over some attributes.

    Where a block of the design is not lumpable to the attributes asked for, the whole block is
    counted: cutting it would lose what its inverse needs.

    Parameters
    ----------
    records : Reports, or Records for the undisguised truth under a design that covers nothing of it
    design : Design
        The design that made the reports.
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
    digest, simulated = require_design(records, design)
    names = covering(design, records.codebook.names if over is None else over)
    chosen = records.select(names)
    reported = chosen.symbols if chosen.symbols != chosen.codebook.shape else ()
    return ContingencyTable(
        **_tally(chosen.codes, chosen.codebook, None, reported),
        design_digest=digest,
        simulated=simulated,
    )


def require_design(records: Records, design: Design) -> tuple[str, bool]:
    """Digest of the reports' design and whether they are simulated, as a table keeps them.

    Raises
    ------
    RecordsError
        If the reports were made by another design, or are undisguised records of attributes that
        the design disguises.
    """
    from ppdm_dask.designs.identity import Identity
    from ppdm_dask.records import Reports

    if not isinstance(records, Reports):
        for block in design.blocks:
            names = [name for name in block.attributes if name in records.codebook.names]
            if names and not isinstance(block, Identity):
                raise RecordsError(
                    f"got undisguised records; reports of {', '.join(names)} made by the "
                    f"{block.id!r} design are needed",
                    records,
                )
        return "", False
    digest = records.design_digest
    if digest and digest != design.digest:
        raise RecordsError(
            f"these reports were made by another design ({digest[:12]}, not {design.digest[:12]})",
            design,
        )
    return digest, records.simulated


def require_whole(design: Design, attributes: Iterable[str]) -> None:
    """Raise NotLumpable if the attributes cut through a block that does not marginalise."""
    names = tuple(attributes)
    for block in design.blocks:
        kept = [name for name in block.attributes if name in names]
        if kept and block.marginal(kept) is None:
            missing = [name for name in block.attributes if name not in names]
            raise NotLumpable(
                f"the table cuts a block of {block.id!r} that is not lumpable: "
                f"it lacks {', '.join(missing)}",
                block,
            )
