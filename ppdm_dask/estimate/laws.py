"""Laws of event weights of designs: in closed form where a family has one, else from its matrix."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import singledispatch
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ppdm_dask.designs.base import Design
from ppdm_dask.designs.flip import Flip
from ppdm_dask.designs.mixture import Mixture
from ppdm_dask.designs.sets import MAX_SET, SetDesign
from ppdm_dask.designs.subset import SubsetSelection
from ppdm_dask.designs.unary import UnaryEncoding
from ppdm_dask.estimate.event_law import EventLaw

if TYPE_CHECKING:
    from ppdm_dask.codebook import Codebook

__all__ = ["EventLaw", "law_of_cells", "law_of_event"]

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]

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
    k, p = block.shape[0], block.p
    within, without = (float(w[0]) for w in block.pair_weights(np.array([block.size])))
    other = (block.size - p) / (k - 1)
    return _law(
        p * within**2 + (1 - p) * without**2,
        other * within**2 + (1 - other) * without**2,
        min(within, without),
        max(within, without),
        k,
    )


@_law_of_block.register
def _(block: UnaryEncoding) -> EventLaw:
    from scipy.stats import binom

    k, p, q = block.shape[0], block.p, block.q
    size = np.arange(k + 1)
    within, without = (w**2 for w in block.pair_weights(size))
    law = binom.pmf(np.arange(k), k - 1, q)
    inside = float(law @ (p * within[1:] + (1 - p) * without[:-1]))
    # Of another truth: its own bit, and those of the k - 2 others.
    rest = binom.pmf(np.arange(k - 1), k - 2, q)
    outside = 0.0
    for own, chance in ((1, p), (0, 1 - p)):
        here = q * within[own + 1 : own + k] + (1 - q) * without[own : own + k - 1]
        outside += chance * float(rest @ here)
    low, high = block.pair_weights(size)
    both = np.concatenate([low[1:], high[:-1]])
    return _law(inside, outside, both.min(), both.max(), k)


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
    inside = np.ones(part.shape, bool)
    for axis, name in enumerate(part.attributes):
        if name in masks:
            along = [1] * len(part.shape)
            along[axis] = part.shape[axis]
            inside = inside & masks[name].reshape(along)
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
