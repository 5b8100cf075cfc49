"""Class counts of a tree's nodes from rows of reports, where their true patterns are too many.

A row weighs in a node the product of its blocks' event weights.  Split by an attribute, the node
needs the rows' weights in all *other* blocks, summed by the reported symbols of the attribute's
block and of the class's; the left inverses of these two are applied to that small table.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ppdm_dask.arrays import Floats, Ints
from ppdm_dask.designs.base import row_major
from ppdm_dask.designs.identity import Identity
from ppdm_dask.mine.evidence import one_hot

if TYPE_CHECKING:
    from ppdm_dask.designs.base import Design
    from ppdm_dask.mine.evidence import Stratum

__all__ = ["Condition", "Conjunction", "NodeTables"]

Condition = tuple[int, int]
"""A column, and the code that it must have."""

Conjunction = tuple[Condition, ...]
"""Conditions of a node, from the root on."""

JOINT = 1 << 12
"""Symbols of a block of several attributes up to which all of it is looked at; of a larger one the
attributes that a node touches, which needs a design that is lumpable."""

TABLE = 1 << 22
"""Symbols of a unit up to which it has a table; above, weights are made row by row."""

KEPT = 1 << 10
"""Tables of the class's weights that are kept at once."""


@dataclass(frozen=True, eq=False)
class Unit:
    """What a table shows of a block: reported symbols, and the way back to the categories.

    Parameters
    ----------
    columns : tuple of int
    shape : tuple of int
        True categories of each column.
    size : int
        Reported symbols.
    symbols : unsigned array, shape (rows,)
    part : Design or None
        The design of these columns; None where they are undisguised.
    """

    columns: tuple[int, ...]
    shape: tuple[int, ...]
    size: int
    symbols: npt.NDArray[Any]
    part: Design | None

    def solve(self, table: Floats) -> Floats:
        """Apply B to a table, from shape (size, m) to (*shape, m)."""
        true = table if self.part is None else self.part.invert(table)
        return true.reshape(*self.shape, -1)

    def weights(self, events: npt.NDArray[Any]) -> Floats:
        """Weights of events by reported symbol: from shape (*shape, m) to (size, m)."""
        flat = events.reshape(-1, events.shape[-1]).astype(float)
        return flat if self.part is None else self.part.invert_transposed(flat)

    def events(self, column: int) -> npt.NDArray[np.bool_]:
        """The events "the column is v", shape (*shape, categories of the column)."""
        axis = self.columns.index(column)
        k = self.shape[axis]
        along = [1] * len(self.shape)
        along[axis] = k
        each = np.eye(k, dtype=bool).reshape(*along, k)
        return np.broadcast_to(each, (*self.shape, k))

    def condition(self, path: Iterable[Condition]) -> npt.NDArray[np.bool_]:
        """The joint categories that the conditions on these columns allow, shape `shape`."""
        allowed = np.ones(self.shape, bool)
        for column, code in path:
            if column in self.columns:
                axis = self.columns.index(column)
                along = [1] * len(self.shape)
                along[axis] = self.shape[axis]
                allowed &= one_hot(code, self.shape[axis]).reshape(along)
        return allowed


def _at(symbols: npt.NDArray[Any], rows: Ints) -> npt.NDArray[Any]:
    """Symbols of some rows, which ascend."""
    return symbols if len(rows) == len(symbols) else symbols[rows]


class NodeTables:
    """Weights and class counts of the nodes of a tree among the reports of a stratum.

    Parameters
    ----------
    stratum : Stratum
    target : int
        Column of the class.
    """

    def __init__(self, stratum: Stratum, target: int) -> None:
        self._stratum, self._target = stratum, target
        self._shape = stratum.codebook.shape
        self._n_classes = self._shape[target]
        self._block_of: dict[int, tuple[Design, tuple[int, ...]]] = {}
        for block, columns in stratum.blocks:
            if not isinstance(block, Identity):
                self._block_of |= dict.fromkeys(columns, (block, tuple(columns)))
        self._times = stratum.multiplicity.astype(float)
        self._single = bool((stratum.multiplicity == 1).all())
        self._units: dict[tuple[int, ...], Unit] = {}
        self._weights: dict[Conjunction, tuple[Ints, Floats]] = {}
        self._of_class: dict[Conjunction, Floats] = {}
        self._with_target = frozenset(self._whole(target))
        # Units as they are while no condition touches their block, side by side for the kernel.
        lone = [self._unit([c]) for c in range(len(self._shape)) if c not in self._with_target]
        self._lone = list({unit.columns: unit for unit in lone}.values())
        self._place = {c: i for i, unit in enumerate(self._lone) for c in unit.columns}
        dtype = np.result_type(np.uint16, *(unit.symbols.dtype for unit in self._lone))
        self._symbols = np.empty((len(self._times), len(self._lone)), dtype)
        for i, unit in enumerate(self._lone):
            self._symbols[:, i] = unit.symbols

    def _whole(self, column: int) -> tuple[int, ...]:
        """All columns that are disguised together with one."""
        return self._block_of[column][1] if column in self._block_of else (column,)

    def _part(self, touched: Iterable[int]) -> tuple[tuple[int, ...], Design | None, int]:
        """Columns to show where some of a block are touched, their design, and its symbols."""
        columns = tuple(sorted(touched))
        if columns[0] not in self._block_of:  # undisguised
            return columns, None, self._shape[columns[0]]
        block, whole = self._block_of[columns[0]]
        if block.n_reported > JOINT and len(columns) < len(whole):
            inside = tuple(c for c in whole if c in columns)
            part = block.marginal([self._stratum.codebook.names[c] for c in inside])
            if part is not None:
                return inside, part, part.n_reported
        return whole, block, block.n_reported

    def _unit(self, touched: Iterable[int]) -> Unit:
        columns, part, size = self._part(touched)
        if columns not in self._units:
            shape = tuple(self._shape[c] for c in columns)
            reported = shape if part is None else part.reported_shape
            symbols = row_major(self._stratum.codes[:, list(columns)], reported)
            dtype = np.uint16 if size <= 1 << 16 else np.uint32 if size <= 1 << 32 else np.int64
            unit = Unit(columns, shape, size, symbols.astype(dtype), part)
            if 1 < len(columns) < len(self._whole(columns[0])):
                return unit  # another node touches other columns
            self._units[columns] = unit
        return self._units[columns]

    def _fits(self, touched: Iterable[int]) -> bool:
        """Whether a table of a unit's symbols is no larger than the rows are many."""
        return self._part(touched)[-1] <= max(TABLE, len(self._times))

    def _classes(self, path: Conjunction) -> tuple[npt.NDArray[Any], Floats]:
        """A symbol of each row, and by symbol the weights of the classes in the class's block.

        Arrays of shape (rows,) and (symbols, classes).
        """
        within = tuple((c, code) for c, code in path if c in self._with_target)
        touched = [*(c for c, _ in within), self._target]
        if not self._fits(touched):
            masks = [self._masks((*within, (self._target, c))) for c in range(self._n_classes)]
            weights = np.stack([self._stratum.weights(mask) for mask in masks], axis=1)
            return np.arange(len(weights)), weights
        unit = self._unit(touched)
        if within not in self._of_class:
            if len(self._of_class) > KEPT:
                self._of_class.clear()
            events = unit.condition(within)[..., None] & unit.events(self._target)
            self._of_class[within] = unit.weights(events)
        return unit.symbols, self._of_class[within]

    def _masks(self, path: Conjunction) -> dict[int, npt.NDArray[np.bool_]]:
        return {column: one_hot(code, self._shape[column]) for column, code in path}

    def _scaled(
        self, found: tuple[Ints, Floats], path: Conjunction, block: frozenset[int]
    ) -> tuple[Ints, Floats]:
        """Rows and weights, times the weight of the conditions on a block."""
        rows, weights = found
        within = tuple((c, code) for c, code in path if c in block)
        touched = [c for c, _ in within]
        if len(within) > 1 and not self._fits(touched):
            weights = weights * self._stratum.weights(self._masks(within), rows)
        else:
            unit = self._unit(touched)
            factor = unit.weights(unit.condition(within)[..., None])[:, 0]
            weights = weights * factor[_at(unit.symbols, rows)]
            if factor.all():
                return rows, weights
        inside = np.flatnonzero(weights)
        if 2 * len(inside) < len(rows):
            return rows[inside], weights[inside]
        return rows, weights

    def _product(self, path: Conjunction, apart: frozenset[int]) -> tuple[Ints, Floats]:
        """Rows with their weights in all blocks but those of some columns."""
        found = np.arange(len(self._times)), np.full(len(self._times), self._stratum.factor)
        for block in {frozenset(self._whole(c)): None for c, _ in path}:
            if not block & apart:
                found = self._scaled(found, path, block)
        return found

    def _weight(self, path: Conjunction) -> tuple[Ints, Floats]:
        """Rows with their weights in a node, the class's block aside; rows left out weigh 0."""
        if path not in self._weights:
            if not path:
                found = self._product((), self._with_target)
            else:
                block = frozenset(self._whole(path[-1][0]))
                if block & self._with_target:
                    found = self._weight(path[:-1])
                elif any(column in block for column, _ in path[:-1]):
                    found = self._product(path, self._with_target)
                else:
                    found = self._scaled(self._weight(path[:-1]), path, block)
            # Nodes come in the order of their paths: what is kept is one way down.
            self._weights = {p: w for p, w in self._weights.items() if path[: len(p)] == p}
            self._weights[path] = found
        return self._weights[path]

    def _counted(self, rows: Ints, weights: Floats) -> Floats:
        return weights if self._single else weights * self._times[rows]

    def moments(self, path: Conjunction) -> tuple[Floats, Floats]:
        """Sums over reports of the weights of "the node, and the class is c", and of their squares.

        Two arrays of shape (classes,).
        """
        symbols, events = self._classes(path)
        rows, weights = self._weight(path)
        once = self._counted(rows, weights)
        total = np.bincount(_at(symbols, rows), once, len(events)) @ events
        square = np.bincount(_at(symbols, rows), once * weights, len(events)) @ events**2
        return total, square

    def moments_below(self, path: Conjunction, column: int) -> tuple[Floats, Floats]:
        """:meth:`moments` of all children of a node, two arrays of shape (categories, classes)."""
        if not self._tabled(path, column):
            children = ((*path, (column, code)) for code in range(self._shape[column]))
            found = np.array([self.moments(child) for child in children])
            return found[:, 0], found[:, 1]
        by_child, events, first, second = self._pairs(path, column)
        return by_child.T @ first @ events, by_child.T**2 @ second @ events**2

    def _tabled(self, path: Conjunction, column: int) -> bool:
        """Whether a column stands alone and has a table with the class of a fair size."""
        if not self._alone(path, column):
            return False
        size = self._unit([column]).size
        return size * max(size, len(self._classes(path)[1])) <= max(JOINT, len(self._times))

    def _pairs(self, path: Conjunction, column: int) -> tuple[Floats, Floats, Floats, Floats]:
        """A node by the symbols of a column and of the class.

        Weights of categories by the column's symbols, and of classes by theirs; then, by both, the
        sums of the reports' weights in all other blocks, and of the squares.
        """
        (symbols, events), unit = self._classes(path), self._unit([column])
        rows, weights = self._weight(path)
        once = self._counted(rows, weights)
        joint = _at(unit.symbols, rows).astype(np.int64) * len(events) + _at(symbols, rows)
        first, second = (
            np.bincount(joint, x, unit.size * len(events)).astype(float).reshape(unit.size, -1)
            for x in (once, once * weights)
        )
        return unit.weights(unit.events(column)), events, first, second

    def label_weights(self, path: Conjunction, column: int, labels: Ints) -> tuple[Ints, Floats]:
        """Rows with the sum of their weights in some children of a node, each with one class.

        Parameters
        ----------
        labels : int array, shape (categories of the column,)
            The class that counts in each child; -1 for none.
        """
        children = np.flatnonzero(labels >= 0)
        if not self._tabled(path, column):
            total = np.zeros(len(self._times))
            for code in children:
                below = (*path, (column, int(code)))
                rows, weights = self.label_weight(below, int(labels[code]))
                total[rows] += weights
            return np.arange(len(total)), total
        symbols, events = self._classes(path)
        rows, weights = self._weight(path)
        unit = self._unit([column])
        by_child = unit.weights(unit.events(column)[..., children])
        table = by_child @ events[:, labels[children]].T
        return rows, weights * table[_at(unit.symbols, rows), _at(symbols, rows)]

    def label_weight(self, path: Conjunction, label: int) -> tuple[Ints, Floats]:
        """Rows with their weights of "the node, and the class is the label"."""
        symbols, events = self._classes(path)
        rows, weights = self._weight(path)
        return rows, weights * events[_at(symbols, rows), label]

    def _alone(self, path: Conjunction, column: int) -> bool:
        """Whether a column's block is neither the class's nor touched by a condition."""
        block = self._whole(column)
        return self._target not in block and not any(c in block for c, _ in path)

    def split(
        self, path: Conjunction, last: int | None, codes: Sequence[int], free: Sequence[int]
    ) -> list[Floats]:
        """Counts by category and class of the children of a node, were each split.

        Parameters
        ----------
        path : tuple of conditions
        last, codes : int or None, sequence of int
            What tells the children apart, and their categories; None for the node itself.
        free : sequence of int
            Columns that would split them.

        Returns
        -------
        list of arrays, shape (children, categories of the column, classes), one a free column
        """
        children = [path] if last is None else [(*path, (last, code)) for code in codes]
        lone = {self._place[c]: None for c in free if self._alone(children[0], c)}
        found: dict[int, Floats] = {}
        if lone:
            # One pass serves all children where the table by their symbols too is small.
            together = last is not None and len(codes) > 1 and self._alone(path, last)
            if together:
                assert last is not None
                cells = sum(self._lone[i].size for i in lone) * self._n_classes + len(codes)
                cells *= self._unit([last]).size
                together = cells <= max(TABLE >> 10, len(self._weight(path)[0]) * len(lone) // 2)
            if together:
                found |= self._tables(path, last, codes, list(lone))
            else:
                parts = [self._tables(child, None, (), list(lone)) for child in children]
                found |= {c: np.concatenate([part[c] for part in parts]) for c in parts[0]}
        for column in free:
            if column not in found:
                found[column] = np.stack([self._near(child, column) for child in children])
        return [found[column] for column in free]

    def split_moments(self, path: Conjunction, column: int) -> tuple[Floats, Floats, Floats]:
        """Weights of "the node, and the column is v, and the class is c" by symbol of the reports.

        Returns
        -------
        weights : array, shape (m, categories, classes)
            Of each symbol, up to a factor by which reports of one symbol differ.
        first, second : arrays, shape (m,)
            Sums over the reports of that factor, and of its square.
        """
        if not self._tabled(path, column):
            rows, weights = self._stratum.split_weights(dict(path), column, self._target)
            return weights, self._times[rows], self._times[rows]
        values, events, first, second = self._pairs(path, column)
        weights = values[:, None, :, None] * events[None, :, None, :]
        return weights.reshape(first.size, *weights.shape[2:]), first.ravel(), second.ravel()

    def _tables(
        self, path: Conjunction, last: int | None, codes: Sequence[int], lone: list[int]
    ) -> dict[int, Floats]:
        """Tables of units that stand alone: of a node, or of its children by one more column."""
        symbols, events = self._classes(path)
        rows, weights = self._weight(path)
        once = self._counted(rows, weights)
        base, width, by_child = np.zeros(len(rows), np.int64), 1, np.ones((1, 1))
        if last is not None:
            unit = self._unit([last])
            base, width = _at(unit.symbols, rows).astype(np.int64), unit.size
            by_child = unit.weights(unit.events(last)[..., list(codes)])
        if len(events) <= 8 * self._n_classes:
            base = base * len(events) + _at(symbols, rows)
            tables = self._added(lone, rows, base, width * len(events), once)
            tables = [t.reshape(-1, width, len(events)) @ events for t in tables]
        else:
            parts = [
                self._added(lone, rows, base, width, once * of_class[_at(symbols, rows)])
                for of_class in events.T
            ]
            tables = [np.stack(part, axis=-1) for part in zip(*parts, strict=True)]
        found = {}
        for i, table in zip(lone, tables, strict=True):
            unit = self._lone[i]
            children = np.tensordot(table, by_child, axes=(1, 0))
            true = unit.solve(children.reshape(unit.size, -1))
            for axis, column in enumerate(unit.columns):
                others = tuple(a for a in range(len(unit.shape)) if a != axis)
                counts = true.sum(axis=others).reshape(unit.shape[axis], *children.shape[1:])
                found[column] = counts.transpose(2, 0, 1)
        return found

    def _added(
        self, lone: list[int], rows: Ints, base: Ints, width: int, weights: Floats
    ) -> list[Floats]:
        """Tables of the rows' weights, shape (symbols of each unit, width)."""
        from ppdm_dask.kernels.tables import add_tables

        sizes = np.array([self._lone[i].size * width for i in lone], np.int64)
        ends: Ints = np.cumsum(sizes)
        out = np.zeros(ends[-1])
        add_tables(self._symbols, np.array(lone), ends - sizes, rows, base, width, weights, out)
        return [part.reshape(-1, width) for part in np.split(out, ends[:-1])]

    def _near(self, path: Conjunction, column: int) -> Floats:
        """Counts of a node by a column whose block is the class's, or has conditions."""
        block = frozenset(self._whole(column))
        within = [c for c, _ in path if c in block]
        touched = [*within, column, *([self._target] if self._target in block else [])]
        if not self._fits(touched):
            rows, weights = self._stratum.split_weights(dict(path), column, self._target)
            return np.tensordot(self._times[rows], weights, axes=1)
        unit = self._unit(touched)
        axis = unit.columns.index(column)
        inside = unit.condition(path)[..., None]
        if self._target in block:
            rows, weights = self._weight(path)
            once = self._counted(rows, weights)
            table: Floats = np.bincount(_at(unit.symbols, rows), once, unit.size).astype(float)
            true = np.where(inside, unit.solve(table[:, None]), 0)[..., 0]
            true = np.moveaxis(true, [axis, unit.columns.index(self._target)], [0, 1])
            by_both: Floats = true.sum(axis=tuple(range(2, true.ndim)))
            return by_both
        symbols, events = self._classes(path)
        rows, weights = self._product(path, self._with_target | block)
        once = self._counted(rows, weights)
        columns = [
            np.bincount(_at(unit.symbols, rows), once * of_class[_at(symbols, rows)], unit.size)
            for of_class in events.T
        ]
        true = np.where(inside, unit.solve(np.stack(columns, axis=1)), 0)
        true = np.moveaxis(true, axis, 0)
        counts: Floats = true.sum(axis=tuple(range(1, true.ndim - 1)))
        return counts
