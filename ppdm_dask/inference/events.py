"""Unbiased weights of events.

The weight ``w(E, y)`` of an event has expectation ``1_E(x)`` over the disguise, so its mean over
reports estimates P(E), and its sample variance over n that estimate's variance.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt

from ppdm_dask.arrays import Floats
from ppdm_dask.designs.matching import bound_to, require_design, require_whole
from ppdm_dask.errors import RecordsError
from ppdm_dask.shown import shown

if TYPE_CHECKING:
    from ppdm_dask.data.codebook import Codebook, Reports
    from ppdm_dask.designs.base import Design

__all__ = [
    "Symbols",
    "answers_of",
    "combined_masks",
    "event_weights",
    "mask_weights",
    "touched_part",
]


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
    """Unbiased weights w(E, y), one a report: their mean estimates P(E).

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

    Only the attributes that are touched where the block is lumpable to them: the others would
    multiply the joint domain for nothing.  Otherwise all of the block.

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
    """What a block's weights are taken of: columns of codes, or packed sets."""
    if block.kind == "set":
        sets = getattr(symbols, "sets", {})
        if names[0] not in sets:
            raise RecordsError(
                f"reports of {shown(names[0])} hold no sets; the design makes some", block
            )
        bits: npt.NDArray[Any] = sets[names[0]]
        return bits
    return symbols.codes[:, [symbols.codebook.index(name) for name in names]]
