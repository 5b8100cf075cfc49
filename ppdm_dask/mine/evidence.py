"""Reports as a tree needs them: distinct rows by stratum, event weights of nodes, signed cells.

Columns are counted from 0 in the order of the codebook.  A node of a tree is a conjunction of
*conditions*: columns, each with the code that its attribute must have.

*Signed cells* are true patterns with the weight that all reports together give to each.  The sum of
the weights of the cells inside an event is the estimated number of records in it, so that any
algorithm for counts runs on them.  A report of a multi-group design gives weight to its 2^g images;
dense blocks are inverted over the patterns that occur outside them.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ppdm_dask.arrays import Floats, Ints
from ppdm_dask.designs.flip import Flip, IntegerWeights
from ppdm_dask.designs.identity import Identity
from ppdm_dask.designs.kary import KaryResponse
from ppdm_dask.designs.matching import require_countable

if TYPE_CHECKING:
    from ppdm_dask.data.codebook import Codebook, Records
    from ppdm_dask.designs.base import Design
    from ppdm_dask.inference.tables import ContingencyTable

Rows = npt.NDArray[Any]


def row_keys(codes: Rows, shape: Sequence[int]) -> Ints:
    """A number for each row, shape (n,): equal rows and no others have equal numbers.

    Parameters
    ----------
    codes : array, shape (n, attributes)
    shape : sequence of int
        Categories of each attribute.
    """
    # Mixed radix; what would leave 64 bits is renumbered, by the keys that occur.
    keys = np.zeros(len(codes), np.int64)
    largest = 1
    for column, size in zip(codes.T, shape, strict=True):
        if largest * size >= 1 << 62:
            kept, keys = np.unique(keys, return_inverse=True)
            keys, largest = keys.ravel().astype(np.int64, copy=False), len(kept)
        keys *= size
        keys += column
        largest *= size
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
    factor : float
        What each of its reports counts for.
    """

    codes: npt.NDArray[Any]
    multiplicity: Ints
    design: Design
    codebook: Codebook
    factor: float = 1.0

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
        # Blocks that neither column touches weigh the same in every cell: once for all of them.
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
        return rows, self.factor * shared[rows, None, None] * weights


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
    def collect(
        cls,
        strata: Sequence[tuple[Records, Design]],
        target: str,
        weights: Sequence[float] | None = None,
    ) -> Evidence:
        """Gather the distinct rows of the reports of each stratum.

        Their order changes no digit of what is made of them.

        Parameters
        ----------
        strata : sequence of (Records, Design)
        target : str
        weights : sequence of float, optional
            What the reports of each stratum count for, up to a common factor: with it the sum of
            all is the number of reports.
        """
        factors = [1.0] * len(strata)
        if weights is not None and len(set(weights)) > 1:
            sizes = [len(records) for records, _ in strata]
            mean = math.fsum(map(math.prod, zip(weights, sizes, strict=True))) / sum(sizes)
            factors = [weight / mean for weight in weights]
        found = []
        for (records, design), factor in zip(strata, factors, strict=True):
            require_countable(records, design)
            ones = np.ones(len(records), np.int64)
            codes, multiplicity = merge_rows(records.codes, ones, records.sizes)
            found.append(Stratum(codes, multiplicity, design, records.codebook, factor))
        if len(found) > 1:
            found.sort(key=_order)
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


def _order(stratum: Stratum) -> tuple[Any, ...]:
    """What tells strata apart, whatever the order in which they came."""
    rows = hashlib.blake2b(np.ascontiguousarray(stratum.codes).tobytes())
    rows.update(stratum.multiplicity.tobytes())
    return stratum.design.digest, stratum.factor, stratum.n, rows.digest()


Flips = list[tuple[IntegerWeights, list[int]]]

MAX_CELLS = 1 << 21
"""Cells or images above which the weights of the reports are summed node by node instead."""

FEW = 1 << 10
"""Passes over as many rows as there may be cells that are sooner made than cells are."""

MAX_INTEGER = 1 << 63
"""Whole numbers stay below; sums over the cells of any node are event weights times reports."""

ROUNDING = 1e-10
"""Share of the total absolute weight (n where nothing is disguised) below which a sum of weights
that are no integers counts as 0: rounding stays below 1e-12 of it, single records lie above."""


@dataclass(frozen=True, eq=False)
class SignedCells:
    """Distinct true patterns and their weights.

    Parameters
    ----------
    codes : array, shape (cells, attributes)
    weights : int64 or float64 array, shape (cells,)
        Estimated records of each pattern, times `scale`.
    scale : int
        1 unless the weights are integers.
    tolerance : int or float
        Sums of weights up to it count as 0; integers are exact, so theirs is 0.
    """

    codes: Rows
    weights: Rows
    scale: int
    tolerance: int | float


def signed_cells(evidence: Evidence, passes: float = math.inf) -> SignedCells | None:
    """The cells of all strata together; None where there would be more than ``MAX_CELLS``.

    Weights are integers where every block is a flip with a rational theta (or none) and no sum can
    leave 62 bits.

    Parameters
    ----------
    evidence : Evidence
    passes : float
        Passes over the rows that would do instead: where they are few and the cells may be too
        many, none are made.
    """
    rows = sum(len(stratum.codes) for stratum in evidence.strata)
    if passes * rows <= FEW * MAX_CELLS and _most_cells(evidence) > MAX_CELLS:
        return None
    # Codes of rows half way are reported symbols in some columns, categories in others.
    reported = [stratum.codes.max(axis=0, initial=0) + 1 for stratum in evidence.strata]
    shape = tuple(int(k) for k in np.max([evidence.codebook.shape, *reported], axis=0))
    weighted = any(stratum.factor != 1 for stratum in evidence.strata)
    exact = None if weighted else _common_scale(evidence.strata)
    found = []
    codes: Rows
    weights: Rows
    for stratum in evidence.strata:
        if exact is not None:
            flips, scale = _flips(stratum), exact
            assert flips is not None
            factor = scale // _scale(flips)
            codes, weights = stratum.codes, stratum.multiplicity * factor
            for flip, columns in flips:
                if 2 * len(codes) > MAX_CELLS:
                    return None
                codes, weights, _ = _reverse(codes, weights, columns, flip.truth, flip.opposite)
                codes, weights = merge_rows(codes, weights, shape)
        else:
            codes = stratum.codes
            weights = stratum.factor * stratum.multiplicity.astype(np.float64)
            for block, columns in stratum.blocks:
                step = _invert(codes, weights, block, columns, shape)
                if step is None:
                    return None
                codes, weights = step
        found.append((codes, weights))
    codes = np.concatenate([codes for codes, _ in found])
    weights = np.concatenate([weights for _, weights in found])
    codes, weights = merge_rows(codes, weights, shape)
    if exact is not None:
        return SignedCells(codes, weights, exact, 0)
    return SignedCells(codes, weights, 1, ROUNDING * float(np.abs(weights).sum()))


def _most_cells(evidence: Evidence) -> int:
    """A bound on the number of signed cells, from the blocks only."""
    most = 0
    for stratum in evidence.strata:
        found = len(stratum.codes)
        for block, _ in stratum.blocks:
            if not isinstance(block, Identity):
                found *= 2 if as_flip(block) is not None else block.n_true
        most += found
    return min(most, math.prod(evidence.codebook.shape))


Images = tuple[Rows, Ints, Ints, int]


def images(stratum: Stratum) -> Images | None:
    """The 2^g true patterns that each row of a stratum may stem from.

    Returns
    -------
    codes, rows, weights, scale : arrays of shapes (m, attributes), (m,), (m,), and int
        Pattern, row, and weight times scale, which are integers.  None where a block is not a flip,
        there are more than ``MAX_CELLS``, or the weights do not fit.
    """
    flips = _flips(stratum)
    if flips is None or len(stratum.codes) << len(flips) > MAX_CELLS:
        return None
    # Sums over the leaves of a tree are no events: they stay below the sum of absolute weights.
    if math.prod(abs(f.truth) + abs(f.opposite) for f, _ in flips) * stratum.n >= MAX_INTEGER:
        return None
    codes, rows = stratum.codes, np.arange(len(stratum.codes))
    weights = np.ones(len(codes), np.int64)
    for flip, columns in flips:
        codes, weights, again = _reverse(codes, weights, columns, flip.truth, flip.opposite)
        rows = rows[again]
    return codes, rows, weights, _scale(flips)


def as_flip(block: Design) -> Flip | None:
    """A block as a flip, where it is one: Warner's design is a flip of one attribute."""
    if isinstance(block, Flip):
        return block
    if isinstance(block, KaryResponse) and block.shape == (2,):
        return Flip(block.attributes, block.p)
    return None


def _flips(stratum: Stratum) -> Flips | None:
    """Weights and columns of the blocks that disguise; None unless all of them are flips."""
    found: Flips = []
    for block, columns in stratum.blocks:
        if isinstance(block, Identity):
            continue
        flip = as_flip(block)
        if flip is None:
            return None
        found.append((flip.integer_weights, columns))
    return found


def _scale(flips: Flips) -> int:
    return math.prod(flip.scale for flip, _ in flips)


def _largest(flips: Flips) -> int:
    return math.prod(max(abs(flip.truth), abs(flip.opposite)) for flip, _ in flips)


def _common_scale(strata: Sequence[Stratum]) -> int | None:
    """The scale at which all weights are integers whose sums fit, or None."""
    found = [_flips(stratum) for stratum in strata]
    flips = [f for f in found if f is not None]
    if len(flips) < len(found):
        return None
    scale = math.lcm(*map(_scale, flips))
    largest = sum(
        stratum.n * _largest(f) * (scale // _scale(f))
        for stratum, f in zip(strata, flips, strict=True)
    )
    return scale if largest < MAX_INTEGER else None


def _reverse(
    codes: Rows, weights: Rows, columns: list[int], truth: float, opposite: float
) -> tuple[Rows, Rows, Ints]:
    """Each row as it is and with some columns reversed; those of weight 0 are dropped."""
    other = codes.copy()
    other[:, columns] = 1 - other[:, columns]
    both = np.concatenate([weights * truth, weights * opposite])
    origin = np.tile(np.arange(len(codes)), 2)
    kept = np.flatnonzero(both)
    return np.concatenate([codes, other])[kept], both[kept], origin[kept]


def _invert(
    codes: Rows, weights: Floats, block: Design, columns: list[int], shape: Sequence[int]
) -> tuple[Rows, Floats] | None:
    """Apply the left inverse of one block to a table of weights."""
    if isinstance(block, Identity):
        return codes, weights
    flip = as_flip(block)
    if flip is not None:
        if 2 * len(codes) > MAX_CELLS:
            return None
        truth, opposite, scale = flip.integer_weights
        codes, weights, _ = _reverse(codes, weights, columns, truth / scale, opposite / scale)
        return merge_rows(codes, weights, shape)
    others = [c for c in range(codes.shape[1]) if c not in columns]
    keys = row_keys(codes[:, others], [shape[c] for c in others])
    _, first, which = np.unique(keys, return_index=True, return_inverse=True)
    if max(block.n_true, block.n_reported) * len(first) > MAX_CELLS:
        return None
    table = np.zeros((block.n_reported, len(first)))
    np.add.at(table, (block.joint(codes[:, columns]), which), weights)
    table = block.invert(table)
    cells, places = np.nonzero(table)
    patterns = codes[first[places]]
    patterns[:, columns] = np.stack(np.unravel_index(cells, block.shape), axis=1)
    return patterns, table[cells, places]
