"""Laws of event weights of designs: in closed form where a family has one, else from its matrix.

The least variance of an estimate that a design allows, and where it takes the place of another.

Given the true answer x a weight w(E, y) varies by the disguise, so that
``Var w >= E Var(w | x) >= min_x Var(w | x)``.  A sample variance that rests on a few reports can be
far below that, down to 0 for a category that nobody reported; it is then raised to it.

Also here: what a design says of the weight of an event, whatever the truth: ranges of its moments.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce, singledispatch
from typing import TYPE_CHECKING, Any

import numpy as np

from ppdm_dask.arrays import Bools, Floats
from ppdm_dask.designs.base import Design, inside_of
from ppdm_dask.designs.flip import Flip
from ppdm_dask.designs.mixture import Mixture
from ppdm_dask.designs.sets import MAX_SET, SetDesign
from ppdm_dask.designs.subset import SubsetSelection
from ppdm_dask.designs.unary import UnaryEncoding
from ppdm_dask.inference.tables import along_blocks, solve_blocks

if TYPE_CHECKING:
    from ppdm_dask.data.codebook import Codebook
    from ppdm_dask.inference.tables import ContingencyTable


Range = tuple[Floats, Floats]

NOTHING = 1e-12
"""Share of the square of a weight's range that counts as no variance."""


@dataclass(frozen=True)
class EventLaw:
    """Ranges over the truth of the second moment of some events' weights, and of the weights.

    Parameters
    ----------
    inside, outside : pairs of arrays
        Least and largest ``E[w^2 | x]`` of truths x in the event, and outside of it; (inf, -inf)
        where there are none.
    weights : pair of arrays
        Least and largest weight over the reports that can occur.
    """

    inside: Range
    outside: Range
    weights: Range

    @property
    def least(self) -> Floats:
        """``min_x Var(w | x)``; 0 where a report makes some truth certain."""
        least = np.minimum(self.inside[0] - 1, self.outside[0])
        return np.asarray(np.where(np.isfinite(least), np.maximum(least, 0), 0.0))

    @property
    def certain(self) -> Bools:
        """Whether the weight is one number whatever is reported: of everything, or of nothing."""
        low, high = self.weights
        return np.asarray(high - low <= NOTHING ** (1 / 2) * np.maximum(np.abs(high), 1))

    def farthest(self, value: Floats) -> Floats:
        """Largest squared distance of a weight from a mean, positive."""
        low, high = self.weights
        square = np.maximum(np.maximum(high - value, value - low), 0) ** 2
        return np.asarray(np.where(square > 0, square, 1.0))

    def told(self, estimand: str) -> Bools:
        """Whether a variance of 0 is right: for these records, where reports are the truth."""
        if estimand == "population":
            return np.zeros(self.inside[1].shape, bool)
        slack = 1e-9
        return np.asarray((self.inside[1] <= 1 + slack) & (self.outside[1] <= slack))

    def times(self, other: EventLaw) -> EventLaw:
        """Law of the weight of both of two events in independent blocks, for each pair of events.

        Shapes are joined: those of the first come first.
        """
        (a, A), (b, B) = self.inside, self.outside
        (c, C), (d, D) = other.inside, other.outside
        outer = np.multiply.outer
        with np.errstate(invalid="ignore"):
            # Outside is: outside of the first, the second, or both.
            low = [_product(b, c), _product(a, d), _product(b, d)]
            high = [_product(B, C), _product(A, D), _product(B, D)]
            ends = [outer(x, y) for x in self.weights for y in other.weights]
        return EventLaw(
            (_product(a, c), _product(A, C)),
            (reduce(np.minimum, low), reduce(np.maximum, high)),
            (reduce(np.minimum, ends), reduce(np.maximum, ends)),
        )

    def second_moments(self, value: Floats, square: Floats) -> tuple[Floats, Floats]:
        """``E[w^2]`` inside and outside of the event, as far as possible as the reports have it.

        Of all pairs within the ranges one with ``p inside + (1 - p) outside = square`` that is near
        their middles.  Where the ranges are points, as for a mixture, reports are not looked at.

        Parameters
        ----------
        value, square : arrays
            Mean weight and mean squared weight.
        """
        p = np.clip(value, 0, 1)
        with np.errstate(invalid="ignore"):
            middle = [
                np.where(lo <= hi, (lo + hi) / 2, 0.0) for lo, hi in (self.inside, self.outside)
            ]
        short = np.where(np.isfinite(square), square - p * middle[0] - (1 - p) * middle[1], 0.0)
        short = short / (p**2 + (1 - p) ** 2)
        found = [middle[0] + short * p, middle[1] + short * (1 - p)]
        ranges = (self.inside, self.outside)
        inside, outside = (
            np.where(lo <= hi, np.clip(x, lo, np.maximum(lo, hi)), 0.0)
            for x, (lo, hi) in zip(found, ranges, strict=True)
        )
        return inside, outside

    def reshaped(self, shape: Sequence[int], order: Sequence[int] | None = None) -> EventLaw:
        """With the events in another arrangement."""

        def moved(pair: Range) -> Range:
            low, high = (
                x.reshape(shape).transpose(order) if order is not None else x.reshape(shape)
                for x in pair
            )
            return low, high

        return EventLaw(moved(self.inside), moved(self.outside), moved(self.weights))


def _product(x: Floats, y: Floats) -> Floats:
    """Outer product of bounds of second moments; a bound of no truths at all stays one."""
    z = np.multiply.outer(x, y)
    none = np.logical_or.outer(x == np.inf, y == np.inf)
    never = np.logical_or.outer(x == -np.inf, y == -np.inf)
    return np.where(none, np.inf, np.where(never, -np.inf, z))


CARRIERS = 10
"""Reports that must carry a sample variance; below, it is held against the least variance."""


def lift(
    variance: Floats,
    value: Floats,
    law: EventLaw | None,
    size: float,
    exact: Bools | bool = False,
) -> tuple[Floats, Bools]:
    """Variances of means of weights, none of which is 0 unless it is exact.

    Where fewer than ten reports' worth carry a variance (it, over the square of the farthest that
    a weight lies from the mean, times the reports), it is raised to the least that the design
    allows.  Where that is 0 too, the variance is not a number: the reports do not say it.

    Parameters
    ----------
    variance : array
        Unbiased variances; below 0 (this file's may be) they are left as they are.
    value : array
        The means.
    law : EventLaw or None
        Of the weights, in the same shape; None where it is not known.
    size : float
        Effective reports: ``(sum d)^2 / sum d^2`` with survey weights d.
    exact : bool or array of bool
        Where a variance of 0 is right.

    Returns
    -------
    variance, few : arrays
        The variances, and where few reports carry them, raised or not.
    """
    raw = np.asarray(variance, float)
    if law is None:
        scale = np.maximum(np.abs(value), 1) ** 2
        return undefined(raw, size, scale, exact)
    farthest = law.farthest(value)
    sure = np.asarray(exact) | law.certain
    return raised(raw, law.least / max(size, 1), farthest, size, sure)


def raised(
    raw: Floats, floor: Floats, farthest: Floats, size: float, exact: Bools | bool
) -> tuple[Floats, Bools]:
    """Variances as of :func:`lift`, from the floor and the farthest squared weights themselves."""
    # Rounding may leave a variance of 0 a little below it.
    zero = undefined(raw, size, farthest, exact)[1]
    few = zero | ((raw >= 0) & (raw * size**2 / farthest < CARRIERS) & ~np.asarray(exact))
    result = np.where(few, np.maximum(raw, floor), raw)
    return undefined(result, size, farthest, exact)[0], np.asarray(few)


def undefined(
    variance: Floats, size: float, scale: Floats | float, exact: Bools | bool = False
) -> tuple[Floats, Bools]:
    """Variances without those that are 0 but for rounding, and where these are.

    Parameters
    ----------
    variance : array
    size : float
        Effective reports.
    scale : array
        Square of the weights' size, to which rounding is compared.
    exact : bool or array of bool
    """
    none = (np.abs(variance) * max(size, 1) <= NOTHING * scale) & ~np.asarray(exact)
    return np.where(none, np.nan, variance), np.asarray(none)


def told_cells(table: ContingencyTable, design: Design, names: tuple[str, ...]) -> Bools:
    """Cells of which these reports say for certain who of the file is in them.

    It is so where the weight does not vary with the report of any truth that may be behind one.
    """
    over = table.attributes
    truths = along_blocks((table.counts > 0).astype(float), over, design, "apply_transposed")
    behind = (truths > 1e-12).astype(float)
    law = along_blocks(behind, over, design, "apply")
    inside = behind.sum(axis=tuple(i for i, name in enumerate(over) if name not in names))
    kept = [name for name in over if name in names]
    inside = inside.transpose([kept.index(name) for name in names])
    total = solve_blocks(law, over, design, names, squared=True)
    return np.asarray(np.abs(total - inside) <= 1e-9 * np.maximum(np.abs(total), 1))


DENSE = 4_096
"""Categories of a block up to which laws of its cells are computed from a dense matrix."""

CHUNK = 256


def _law(inside: Any, outside: Any, low: Any, high: Any, size: int) -> EventLaw:
    """Of single categories whose second moments are one number inside and one outside."""
    full = [np.broadcast_to(np.asarray(x, float), (size,)) for x in (inside, outside, low, high)]
    a, b, lo, hi = full
    if size == 1:
        return EventLaw((a, a), (np.full(1, np.inf), np.full(1, -np.inf)), (hi, hi))
    return EventLaw((a, a), (b, b), (lo, hi))


def _from_moments(inside: Bools, square: Floats, low: Floats, high: Floats) -> EventLaw:
    """From ``E[w^2 | x]``, shape (truths, events), by whether x is in the event."""
    a = np.where(inside, square, np.inf).min(axis=0), np.where(inside, square, -np.inf).max(axis=0)
    b = np.where(inside, np.inf, square).min(axis=0), np.where(inside, -np.inf, square).max(axis=0)
    return EventLaw(a, b, (low, high))


@singledispatch
def _law_of_block(block: Design) -> EventLaw | None:
    """Law of the weights of a block's single joint categories; None for too many of them."""
    if max(block.n_true, block.n_reported) > DENSE:
        return None
    return _law_of_masks(block, np.eye(block.n_true, dtype=bool))


@_law_of_block.register
def _(block: Mixture) -> EventLaw:
    q, r = block.mixing, block.unrelated
    base = -(1 - q) / q * r
    inside, outside = (base + 1 / q) ** 2, base**2
    told, other = q + (1 - q) * r, (1 - q) * r
    return _law(
        told * inside + (1 - told) * outside,
        other * inside + (1 - other) * outside,
        np.minimum(base, base + 1 / q),
        np.maximum(base, base + 1 / q),
        block.n_true,
    )


@_law_of_block.register
def _(block: Flip) -> EventLaw:
    w = block.integer_weights
    a, b = w.truth / w.scale, w.opposite / w.scale
    truth, k = block.theta, block.n_true
    reverse = (1 - truth) * a**2 + truth * b**2
    law = _law(truth * a**2 + (1 - truth) * b**2, reverse, min(a, b), max(a, b), k)
    if k == 2:
        return law
    # Truths that are neither the category nor its opposite have weight 0.
    least = np.zeros(k)
    return EventLaw(
        law.inside, (least, law.outside[1]), (np.minimum(law.weights[0], 0), law.weights[1])
    )


@_law_of_block.register
def _(block: SubsetSelection) -> EventLaw:
    weights = [float(w[0]) for w in block.pair_weights(np.array([block.size]))]
    return _law(*block.category_moments(), min(weights), max(weights), block.shape[0])


@_law_of_block.register
def _(block: UnaryEncoding) -> EventLaw:
    k = block.shape[0]
    low, high = block.pair_weights(np.arange(k + 1))
    both = np.concatenate([low[1:], high[:-1]])
    return _law(*block.category_moments(), both.min(), both.max(), k)


def _law_of_masks(block: Design, inside: Bools) -> EventLaw:
    """Law of the weights of some events, from what the block does to vectors.

    Parameters
    ----------
    inside : bool array, shape (truths, events)
    """
    events = inside.shape[1]
    square = np.empty(inside.shape)
    low, high = np.empty(events), np.empty(events)
    possible = block.apply(np.full(block.n_true, 1 / block.n_true)) > 0
    for start in range(0, events, CHUNK):
        part = slice(start, start + CHUNK)
        weights = block.invert_transposed(inside[:, part].astype(float))
        square[:, part] = block.apply_transposed(weights**2)
        low[part], high[part] = weights[possible].min(axis=0), weights[possible].max(axis=0)
    return _from_moments(inside, np.maximum(square, 0), low, high)


def _undisguised(inside: Bools) -> EventLaw:
    """Of events of an attribute that is reported as it is; shape (categories, events)."""
    some, all_ = inside.any(axis=0), inside.all(axis=0)
    one, zero = np.ones(inside.shape[1]), np.zeros(inside.shape[1])
    return EventLaw(
        (np.where(some, 1.0, np.inf), np.where(some, 1.0, -np.inf)),
        (np.where(all_, np.inf, zero), np.where(all_, -np.inf, zero)),
        (np.where(all_, one, zero), np.where(some, one, zero)),
    )


def law_of_cells(design: Design, codebook: Codebook, there: Sequence[str]) -> EventLaw | None:
    """Law of the weights of all joint categories of some attributes, in the shape of a codebook.

    Parameters
    ----------
    design : Design
    codebook : Codebook
        The attributes of the cells.
    there : sequence of str
        Attributes that were reported: those of the cells, and the rest of blocks that they cut.

    Returns
    -------
    EventLaw or None
        None where a block has too many categories for a closed form.
    """
    total: EventLaw | None = None
    order: list[str] = []
    names = codebook.names
    for block in design.blocks:
        own = [name for name in block.attributes if name in names]
        if not own:
            continue
        kept = [name for name in block.attributes if name in there]
        part = block.marginal(own) or block.marginal(kept)
        if part is None:
            return None
        law = _law_of_block(part) if len(part.attributes) == len(own) else _cut(part, own)
        if law is None:
            return None
        total = law if total is None else total.times(law)
        order += [name for name in part.attributes if name in own]
    for name in names:
        if name not in order:
            law = _undisguised(np.eye(len(codebook[name]), dtype=bool))
            total = law if total is None else total.times(law)
            order.append(name)
    if total is None:
        return None
    sizes = [len(codebook[name]) for name in order]
    return total.reshaped(sizes, [order.index(name) for name in names])


def _cut(part: Design, own: Sequence[str]) -> EventLaw | None:
    """Of the joint categories of some attributes of a block that is reported whole."""
    if max(part.n_true, part.n_reported) > DENSE:
        return None
    axes = [part.attributes.index(name) for name in own]
    codes = np.unravel_index(np.arange(part.n_true), part.shape)
    sizes = [part.shape[axis] for axis in axes]
    cell = np.ravel_multi_index([codes[axis] for axis in axes], sizes)
    return _law_of_masks(part, cell[:, None] == np.arange(math.prod(sizes)))


def law_of_event(
    design: Design, masks: Mapping[str, Bools], there: Sequence[str]
) -> EventLaw | None:
    """Law of the weight of a single event, arrays of shape ().

    Parameters
    ----------
    design : Design
    masks : mapping of attribute to bool array
    there : sequence of str
        Attributes of the reports.
    """
    total = _undisguised(np.ones((1, 1), bool))
    covered: set[str] = set()
    for block in design.blocks:
        covered.update(block.attributes)
        touched = [name for name in block.attributes if name in masks]
        if not touched:
            continue
        kept = [name for name in block.attributes if name in there]
        part = block.marginal(touched) or block.marginal(kept)
        law = None if part is None else _law_of_one(part, masks)
        if law is None:
            return None
        total = total.times(law)
    for name, mask in masks.items():
        if name not in covered:
            total = total.times(_undisguised(mask[:, None]))
    return total.reshaped(())


def _law_of_one(part: Design, masks: Mapping[str, Bools]) -> EventLaw | None:
    inside = inside_of(part, masks)
    if isinstance(part, SetDesign) and part.n_true > MAX_SET:
        chosen = np.flatnonzero(inside)
        if len(chosen) != 1:
            return None
        law = _law_of_block(part)
        if law is None:
            return None
        pairs = (law.inside, law.outside, law.weights)
        a, b, w = ((low[chosen], high[chosen]) for low, high in pairs)
        return EventLaw(a, b, w)
    return _law_of_masks(part, inside.reshape(-1, 1))
