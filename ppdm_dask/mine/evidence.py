"""Reports as a tree needs them: distinct rows by stratum, and event weights of its nodes.

Columns are counted from 0 in the order of the codebook.  A node of a tree is a conjunction of
*conditions*: columns, each with the code that its attribute must have.

Beside it: adding up equal rows of codes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ppdm_dask.arrays import Floats, Ints
from ppdm_dask.designs.matching import require_countable

if TYPE_CHECKING:
    from ppdm_dask.data.codebook import Codebook, Records
    from ppdm_dask.designs.base import Design
    from ppdm_dask.inference.tables import ContingencyTable

__all__ = ["Evidence", "Stratum", "merge_rows", "one_hot", "row_keys"]


Rows = npt.NDArray[Any]


def row_keys(codes: Rows, shape: Sequence[int]) -> Ints:
    """A number for each row, shape (n,): equal rows and no others have equal numbers.

    Parameters
    ----------
    codes : array, shape (n, attributes)
    shape : sequence of int
        Categories of each attribute.
    """
    if math.prod(shape) >= 1 << 62:
        _, keys = np.unique(codes, axis=0, return_inverse=True)
        return np.asarray(keys, np.int64).ravel()
    keys = np.zeros(len(codes), np.int64)
    for column, size in zip(codes.T, shape, strict=True):
        keys *= size
        keys += column
    return keys


def merge_rows(codes: Rows, weights: Rows, shape: Sequence[int]) -> tuple[Rows, Rows]:
    """Distinct rows with the sum of their weights; rows that sum to 0 are dropped.

    Integer weights are summed exactly.
    """
    _, first, which = np.unique(row_keys(codes, shape), return_index=True, return_inverse=True)
    totals = np.zeros(len(first), weights.dtype)
    np.add.at(totals, which, weights)
    kept = totals != 0
    return codes[first[kept]], totals[kept]


Conditions = Mapping[int, int]
Masks = Mapping[int, npt.NDArray[np.bool_]]


def one_hot(code: int, size: int) -> npt.NDArray[np.bool_]:
    """Mask of one category."""
    mask = np.zeros(size, dtype=bool)
    mask[code] = True
    return mask


@dataclass(frozen=True, eq=False)
class Stratum:
    """Distinct rows of the reports that one design made.

    Parameters
    ----------
    codes : array, shape (rows, attributes)
    multiplicity : int64 array, shape (rows,)
        Reports like each row.
    design : Design
    codebook : Codebook
    """

    codes: npt.NDArray[Any]
    multiplicity: Ints
    design: Design
    codebook: Codebook

    @cached_property
    def n(self) -> int:
        """Number of reports."""
        return int(self.multiplicity.sum())

    @cached_property
    def blocks(self) -> list[tuple[Design, list[int]]]:
        """The design's blocks with their columns."""
        index = self.codebook.index
        return [(b, [index(name) for name in b.attributes]) for b in self.design.blocks]

    @cached_property
    def _block_of(self) -> dict[int, int]:
        return {column: b for b, (_, columns) in enumerate(self.blocks) for column in columns}

    def unit(self, column: int) -> int:
        """The block of a column; a negative number of its own where it is undisguised."""
        return self._block_of.get(column, -1 - column)

    def weights(self, masks: Masks, rows: Ints | None = None) -> Floats:
        """Event weight of each row, or of some; a mask by column says what is in the event."""
        codes = self.codes if rows is None else self.codes[rows]
        names = self.codebook.names
        weight = np.ones(len(codes))
        for unit in sorted({self.unit(column) for column in masks}):
            if unit < 0:
                column = -1 - unit
                weight *= masks[column][codes[:, column]]
            else:
                block, columns = self.blocks[unit]
                event = {names[c]: masks[c] for c in columns if c in masks}
                weight *= block.weights(event, codes[:, columns])
        return weight

    def split_weights(
        self, conditions: Conditions, column: int, target: int
    ) -> tuple[Ints, Floats]:
        """Weights of the events "conditions, and the column is v, and the class is c".

        Returns
        -------
        rows, weights : arrays, shapes (m,) and (m, categories, classes)
            Rows that are left out weigh 0 in all of these events.
        """
        shape = self.codebook.shape
        near: dict[int, dict[int, npt.NDArray[np.bool_]]] = {
            self.unit(column): {},
            self.unit(target): {},
        }
        far: dict[int, npt.NDArray[np.bool_]] = {}
        for c, code in conditions.items():
            near.get(self.unit(c), far)[c] = one_hot(code, shape[c])
        shared = self.weights(far)
        rows = np.flatnonzero(shared)
        values = [{column: one_hot(v, shape[column])} for v in range(shape[column])]
        classes = [{target: one_hot(c, shape[target])} for c in range(shape[target])]
        with_column, with_target = near[self.unit(column)], near[self.unit(target)]
        if len(near) == 1:
            joint = [
                [self.weights({**with_column, **v, **c}, rows) for c in classes] for v in values
            ]
            weights = np.array(joint).transpose(2, 0, 1)
        else:
            by_value = np.array([self.weights({**with_column, **v}, rows) for v in values])
            by_class = np.array([self.weights({**with_target, **c}, rows) for c in classes])
            weights = by_value.T[:, :, None] * by_class.T[:, None, :]
        return rows, shared[rows, None, None] * weights


@dataclass(frozen=True, eq=False)
class Evidence:
    """All reports behind a tree.

    Parameters
    ----------
    strata : tuple of Stratum
    target : int
        Column of the class.
    """

    strata: tuple[Stratum, ...]
    target: int

    @classmethod
    def collect(cls, strata: Sequence[tuple[Records, Design]], target: str) -> Evidence:
        """Gather the distinct rows of the reports of each stratum."""
        found = []
        for records, design in strata:
            require_countable(records, design)
            ones = np.ones(len(records), np.int64)
            codes, multiplicity = merge_rows(records.codes, ones, records.sizes)
            found.append(Stratum(codes, multiplicity, design, records.codebook))
        return cls(tuple(found), strata[0][0].codebook.index(target))

    @classmethod
    def from_table(cls, table: ContingencyTable, design: Design, target: str) -> Evidence:
        """The evidence of a table of reports over all attributes."""
        table = table.sparse()
        stratum = Stratum(table.symbols(), table.counts, design, table.codebook)
        return cls((stratum,), table.codebook.index(target))

    @property
    def codebook(self) -> Codebook:
        """Attributes of the reports."""
        return self.strata[0].codebook

    @cached_property
    def n(self) -> int:
        """Number of reports."""
        return sum(stratum.n for stratum in self.strata)

    @cached_property
    def features(self) -> list[int]:
        """Columns of the features."""
        return [c for c in range(len(self.codebook.names)) if c != self.target]

    @property
    def n_classes(self) -> int:
        """Categories of the class."""
        return self.codebook.shape[self.target]

    def event(self, conditions: Conditions, label: int) -> Masks:
        """Masks of a node together with a class."""
        shape, codes = self.codebook.shape, {**conditions, self.target: label}
        return {c: one_hot(code, shape[c]) for c, code in codes.items()}

    def class_counts(self, conditions: Conditions) -> Floats:
        """Estimated records of each class in a node, shape (classes,)."""
        counts = np.zeros(self.n_classes)
        for stratum in self.strata:
            for c in range(len(counts)):
                weights = stratum.weights(self.event(conditions, c))
                counts[c] += float(stratum.multiplicity @ weights)
        return counts

    def split_counts(self, conditions: Conditions, column: int) -> Floats:
        """Estimated records by category and class in a node, shape (categories, classes)."""
        counts = np.zeros((self.codebook.shape[column], self.n_classes))
        for stratum in self.strata:
            rows, weights = stratum.split_weights(conditions, column, self.target)
            counts += np.tensordot(stratum.multiplicity[rows].astype(float), weights, axes=1)
        return counts
