"""Signed cells: true patterns with the weight that all reports together give to each.

The sum of the weights of the cells inside an event is the estimated number of records in it, so
that any algorithm for counts runs on them.  A report of a multi-group design gives weight to its
2^g images; dense blocks are inverted over the patterns that occur outside them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ppdm_dask.arrays import Floats, Ints
from ppdm_dask.designs.flip import Flip, IntegerWeights
from ppdm_dask.designs.identity import Identity
from ppdm_dask.designs.kary import KaryResponse
from ppdm_dask.mine.evidence import merge_rows, row_keys

if TYPE_CHECKING:
    from ppdm_dask.designs.base import Design
    from ppdm_dask.mine.evidence import Evidence, Stratum

__all__ = ["MAX_CELLS", "SignedCells", "images", "signed_cells"]

Rows = npt.NDArray[Any]
Flips = list[tuple[IntegerWeights, list[int]]]

MAX_CELLS = 1 << 21
"""Cells or images above which event weights are summed node by node instead."""

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


def signed_cells(evidence: Evidence) -> SignedCells | None:
    """The cells of all strata together; None where there would be more than ``MAX_CELLS``.

    Weights are integers where every block is a flip with a rational theta (or none) and no sum can
    leave 62 bits.
    """
    # Codes of rows half way are reported symbols in some columns, categories in others.
    reported = [stratum.codes.max(axis=0, initial=0) + 1 for stratum in evidence.strata]
    shape = tuple(int(k) for k in np.max([evidence.codebook.shape, *reported], axis=0))
    exact = _common_scale(evidence.strata)
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
            codes, weights = stratum.codes, stratum.multiplicity.astype(float)
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


def images(stratum: Stratum) -> tuple[Rows, Ints, Ints, int] | None:
    """The 2^g true patterns that each row of a stratum may stem from.

    Returns
    -------
    codes, rows, weights, scale : arrays of shapes (m, attributes), (m,), (m,), and int
        Pattern, row, and weight times scale, which are integers.  None where a block is no flip,
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
