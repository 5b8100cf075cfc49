"""Unbiased weights of events, and their sums over reports.

The weight ``w(E, y)`` of an event has expectation ``1_E(x)`` over the disguise, so its mean over
reports estimates P(E), and its sample variance over n that estimate's variance.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt

from ppdm_dask.arrays import Floats
from ppdm_dask.designs.base import row_major
from ppdm_dask.designs.matching import bound_to, covering, require_design, require_whole
from ppdm_dask.errors import RecordsError
from ppdm_dask.inference.tables import along_blocks
from ppdm_dask.shown import shown

if TYPE_CHECKING:
    from ppdm_dask.data.codebook import Codebook, Reports
    from ppdm_dask.designs.base import Design
    from ppdm_dask.designs.sets import SetDesign


Masks = Mapping[str, npt.NDArray[np.bool_]]


class Symbols(Protocol):
    """Rows of reported symbols: reports, or the different ones that a table counts."""

    @property
    def codebook(self) -> Codebook:
        """Declares the attributes, in the order of the columns."""
        ...  # pragma: no cover

    @property
    def codes(self) -> npt.NDArray[Any]:
        """Reported symbols, shape (rows, attributes)."""
        ...  # pragma: no cover

    @property
    def sizes(self) -> tuple[int, ...]:
        """Symbols that each column can hold."""
        ...  # pragma: no cover

    def column(self, name: str) -> npt.NDArray[Any]:
        """Symbols of one attribute, shape (rows,)."""
        ...  # pragma: no cover

    def slice(self, start: int, stop: int) -> Symbols:
        """Some consecutive rows."""
        ...  # pragma: no cover


def event_weights(reports: Reports, design: Design, event: Mapping[str, Any]) -> Floats:
    r"""Unbiased weights w(E, y), one per report: their mean estimates P(E).

    Over the blocks b of the design, with their left inverses B,

    .. math:: w(E, y) = \prod_b \sum_{x \in E_b} (B_b)_{x y_b}

    Parameters
    ----------
    reports : Reports
    design : Design
        The design that made them; attributes it does not cover count as undisguised.
    event : mapping of attribute to label or iterable of labels
        A conjunction over attributes.

    Returns
    -------
    array of float, shape (n,)

    Raises
    ------
    RecordsError
        If the reports were made by another design.
    NotLumpable
        If they lack a part of a block that the event needs.
    """
    design = bound_to(reports, design)
    require_design(reports, design)
    return mask_weights(reports, design, reports.codebook.masks(event))


def mask_weights(symbols: Symbols, design: Design, masks: Masks) -> Floats:
    """Weights of an event that is given by its categories, shape (n,); none of them is 0.

    Parameters
    ----------
    symbols : Symbols
    design : Design
        Bound to their codebook.
    masks : mapping of attribute to array of bool
        The categories of the event; without any the event is impossible.
    """
    weight = np.ones(len(symbols.codes))
    if not all(mask.any() for mask in masks.values()):
        weight[:] = 0.0
        return weight
    covered: set[str] = set()
    for block in design.blocks:
        covered.update(block.attributes)
        touched = [name for name in block.attributes if name in masks]
        if touched:
            there, part = touched_part(block, touched, symbols.codebook.names)
            weight *= part.weights(masks, answers_of(symbols, there, part))
    for name, mask in masks.items():
        if name not in covered:
            weight *= mask[symbols.column(name)]
    return weight


def combined_masks(
    codebook: Codebook, event: Mapping[str, Any], other: Mapping[str, Any]
) -> dict[str, npt.NDArray[np.bool_]]:
    """The categories of the conjunction of two events; none where they exclude one another."""
    masks = codebook.masks(event)
    for name, mask in codebook.masks(other).items():
        masks[name] = masks[name] & mask if name in masks else mask
    return masks


def touched_part(
    block: Design, touched: Sequence[str], there: Sequence[str]
) -> tuple[list[str], Design]:
    """The attributes of a block whose reports some of them need, and the design of these.

    If the block is lumpable to the attributes in use, only these: the others would enlarge the
    joint domain without need.  Otherwise all of the block.

    Raises
    ------
    NotLumpable
        If the reports lack a part of the block that is needed.
    """
    part = block.marginal(touched)
    if part is not None:
        return list(touched), part
    names = [name for name in block.attributes if name in there]
    require_whole(block, names)
    part = block.marginal(names)
    assert part is not None
    return names, part


def answers_of(symbols: Symbols, names: Sequence[str], block: Design) -> npt.NDArray[Any]:
    """Input for a block's weights: columns of codes, or packed sets."""
    if block.kind == "set":
        sets = getattr(symbols, "sets", {})
        if names[0] not in sets:
            raise RecordsError(
                f"reports of {shown(names[0])} hold no sets; the design makes some", block
            )
        bits: npt.NDArray[Any] = sets[names[0]]
        return bits
    return symbols.codes[:, [symbols.codebook.index(name) for name in names]]


Names = tuple[str, ...]
Sums = tuple[Floats, Floats, Floats, Floats]
Times = tuple[Floats, Floats]

ROWS = 1 << 22
"""Entries of the matrix of weights, reports by cells, that is held at once."""

MAX_ENTRIES = 1 << 34
"""Entries of that matrix in all, above which a pass is refused."""

CHUNK = 1 << 16

MAX_TABLE = 1 << 12
"""Joint categories of a block up to which its weights are always looked up in a table, symbols by
cells; dense designs have no more.  Larger blocks have one only where there are as many reports."""


def cell_sums(
    symbols: Symbols,
    design: Design,
    names: Names,
    where: Mapping[str, Any],
    times: Times,
    F: Floats,
) -> Sums:
    """Sums over reports of d W, d^2 W, d^2 W F and d^2 W^2, each of shape (cells,).

    Parameters
    ----------
    times : pair of arrays, shape (symbols,)
        Sums of d and d^2 over the reports of each row, of which many may be equal.
    F : array, shape (symbols,)
        Weights of the condition.

    Structured designs take O(reports + cells): by tables of reports if all attributes have symbols,
    by bits for one attribute with set reports.  Otherwise weights are made cell by cell.
    """
    shared = {n for block in design.blocks for n in block.attributes if n in names} | set(names)
    apart = not any(
        name in shared
        or any(name in b.attributes and shared & {*b.attributes} for b in design.blocks)
        for name in where
    )
    if apart:
        # The condition belongs to other blocks, which are disguised independently: its weight is a
        # factor of the cell's, so it scales each report.
        d, dd = times
        scales = np.stack([d * F, dd * F, dd * F**2], axis=1)
        blocks = [b for b in design.blocks if any(name in names for name in b.attributes)]
        if len(names) == 1 and len(blocks) == 1 and blocks[0].kind == "set":
            return _by_bits(symbols, blocks[0], scales)  # type: ignore[arg-type]
        plain = all(block.kind == "symbol" for block in blocks)
        if plain and set(covering(design, names)) == set(names):
            return _by_table(symbols, design, names, scales)
    return _by_rows(symbols, design, names, where, times, F)


def _by_bits(symbols: Symbols, block: SetDesign, scales: Floats) -> Sums:
    bits = answers_of(symbols, block.attributes, block)
    # Without weights and condition one column stands for all three, a third of the work.
    same = bool((scales == 1).all())
    single, square = np.zeros((1 if same else 3, block.n_true)), np.zeros((1, block.n_true))
    for low in range(0, len(bits), CHUNK):
        part, rows = scales[low : low + CHUNK], bits[low : low + CHUNK]
        sums, squares = block.sum_weights(rows, part[:, :1] if same else part, part[:, 2:])
        single, square = single + sums, square + squares
    return single[0], single[-2 if not same else 0], single[-1], square[0]


def _by_table(symbols: Symbols, design: Design, names: Names, scales: Floats) -> Sums:
    columns = [symbols.codebook.index(name) for name in names]
    sizes = tuple(symbols.sizes[i] for i in columns)
    joint = row_major(symbols.codes[:, columns], sizes)
    n_cells = math.prod(sizes)
    # Inversion is linear: summed by symbol first, it is done once and not for each report.
    tables: list[Floats] = [
        np.bincount(joint, scale, n_cells).astype(float).reshape(sizes) for scale in scales.T
    ]
    steps = [(0, "invert"), (1, "invert"), (2, "invert"), (2, "invert_squared")]
    w, ddw, ddwf, ddww = (along_blocks(tables[i], names, design, s).ravel() for i, s in steps)
    return w, ddw, ddwf, ddww


def _by_rows(
    symbols: Symbols,
    design: Design,
    names: Names,
    where: Mapping[str, Any],
    times: Times,
    F: Floats,
) -> Sums:
    cells = math.prod(symbols.codebook.select(names).shape)
    if cells * len(symbols.codes) > MAX_ENTRIES:
        raise RecordsError(
            f"{cells} cells by {len(symbols.codes)} reports are too many for one pass; estimate "
            "fewer attributes at once, or events",
            cells,
        )
    totals = np.zeros((4, cells))
    step = max(ROWS // max(cells, 1), 1)
    for low in range(0, len(symbols.codes), step):
        rows = slice(low, low + step)
        W = cell_weights(symbols.slice(low, low + step), design, names, where)
        d, dd, f = times[0][rows], times[1][rows], F[rows]
        totals += np.stack([d @ W, dd @ W, (dd * f) @ W, dd @ W**2])
    return totals[0], totals[1], totals[2], totals[3]


def cell_weights(
    symbols: Symbols, design: Design, names: Names, where: Mapping[str, Any]
) -> Floats:
    """Weights of "each cell, within the condition", shape (n, joint categories of the names)."""
    book = symbols.codebook
    masks = book.masks(where)
    shape = book.select(names).shape
    weights = np.ones((len(symbols.codes), *(1,) * len(names)))
    covered: set[str] = set()
    for block in design.blocks:
        covered.update(block.attributes)
        touched = [n for n in block.attributes if n in names or n in masks]
        if not touched:
            continue
        there, part = touched_part(block, touched, book.names)
        own = [n for n in there if n in names]
        matrix = _block_weights(part, answers_of(symbols, there, part), own, masks)
        weights = weights * _aligned(matrix, own, names, shape)
    for name in (*names, *masks):
        if name in covered:
            continue
        covered.add(name)
        codes = symbols.column(name)
        allowed = masks.get(name, np.ones(len(book[name].categories), bool))
        if name in names:
            one = (codes[:, None] == np.arange(len(allowed))) & allowed
            weights = weights * _aligned(one.astype(float), [name], names, shape)
        else:
            weights = weights * allowed[codes].reshape(-1, *(1,) * len(names))
    return np.broadcast_to(weights, (len(symbols.codes), *shape)).reshape(len(symbols.codes), -1)


def _aligned(matrix: Floats, own: list[str], names: Names, shape: tuple[int, ...]) -> Floats:
    """A matrix over some attributes' joint categories, with its axes among those of all names."""
    sizes = [shape[names.index(name)] for name in own]
    order = sorted(range(len(own)), key=lambda i: names.index(own[i]))
    tensor = matrix.reshape(-1, *sizes).transpose(0, *(1 + i for i in order))
    return tensor.reshape(-1, *(k if n in own else 1 for n, k in zip(names, shape, strict=True)))


def _block_weights(
    block: Design, answers: Any, own: list[str], masks: Mapping[str, npt.NDArray[np.bool_]]
) -> Floats:
    """Weights of the joint categories of the named attributes of a block, within the condition."""
    if block.kind == "set" and own:
        matrix: Floats = block.weight_matrix(answers)  # type: ignore[attr-defined]
        allowed = masks.get(block.attributes[0])
        return matrix if allowed is None else matrix * allowed
    if not own:
        return block.weights(masks, answers)[:, None]
    shape = tuple(block.shape[block.attributes.index(name)] for name in own)
    if block.n_true > max(len(answers), MAX_TABLE):
        return _one_by_one(block, answers, own, masks, shape)
    codes = np.stack(np.unravel_index(np.arange(block.n_true), block.shape), axis=1)
    columns = [block.attributes.index(name) for name in own]
    sizes = tuple(block.shape[i] for i in columns)
    inside = row_major(codes[:, columns], sizes)[:, None] == np.arange(math.prod(sizes))
    for axis, name in enumerate(block.attributes):
        if name in masks:
            inside &= masks[name][codes[:, axis], None]
    result: Floats = block.invert_transposed(inside.astype(float))[block.joint(answers)]
    return result


def _one_by_one(
    block: Design,
    answers: Any,
    own: list[str],
    masks: Mapping[str, npt.NDArray[np.bool_]],
    shape: tuple[int, ...],
) -> Floats:
    """The same, an event at a time: structured designs need no joint domain for one."""
    columns = []
    for cell in np.ndindex(*shape):
        event = dict(masks)
        for name, code, size in zip(own, cell, shape, strict=True):
            mask = np.arange(size) == code
            event[name] = mask & masks[name] if name in masks else mask
        columns.append(block.weights(event, answers))
    return np.stack(columns, axis=1)
