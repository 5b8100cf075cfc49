"""Which statement serves a block: a closed form, or a look through its matrix."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from ppdm_dask.certainty.dense import of_matrix
from ppdm_dask.certainty.sentences import NEGLIGIBLE, Certainty, Labels, Words
from ppdm_dask.certainty.structured import of_flip, of_mixture, of_sets
from ppdm_dask.designs.flip import Flip
from ppdm_dask.designs.matrix import RRMatrix
from ppdm_dask.designs.mixture import Mixture
from ppdm_dask.designs.sets import SetDesign
from ppdm_dask.designs.subset import SubsetSelection
from ppdm_dask.designs.unary import UnaryEncoding

if TYPE_CHECKING:
    from ppdm_dask.designs.base import Design

__all__ = ["bare_attributes", "certainties"]

MAX_ENTRIES = 1 << 22
"""Entries of a matrix that is made to be looked through."""

ORDER = ("certain", "nearly", "likely", "ruled out")


def certainties(design: Design, labels: Labels | None = None) -> list[Certainty]:
    """What reports make certain of the answers behind them.

    Parameters
    ----------
    design : Design
    labels : mapping of attribute to labels, optional
        In the order of the design's categories; those that the design states by default, else
        numbers.

    Returns
    -------
    list of Certainty
        Block by block: what is certain, nearly so, likely, and ruled out.  A block of a family
        without a closed form that is too large to look through counts as nearly certain.
    """
    found: list[Certainty] = []
    for block in design.blocks:
        if block.n_true > 1:
            each = _of_block(Words(block, labels or {}), block)
            found += sorted(each, key=lambda one: ORDER.index(one.degree))
    return found


def _of_block(words: Words, block: Design) -> Iterator[Certainty]:
    several = len(block.attributes) > 1
    if isinstance(block, SubsetSelection | UnaryEncoding):
        return of_sets(words, block)
    if isinstance(block, Mixture) and not (several and _is_small(block)):
        return of_mixture(words, block)
    if isinstance(block, Flip) and len(block.attributes) > 2:
        return of_flip(words, block)
    if _is_small(block):
        return of_matrix(words, block.matrix())
    why = f"{words.names()}: the block is too large to tell what is certain"
    return iter([Certainty("nearly", block.attributes, (), why)])


def _is_small(block: Design) -> bool:
    if isinstance(block, RRMatrix):  # it is there already
        return True
    if isinstance(block, SetDesign) and block.n_true > 20:
        return False
    return block.n_true * block.n_reported <= MAX_ENTRIES


def bare_attributes(design: Design) -> tuple[str, ...]:
    """Attributes whose reported column is the truth, but for a probability of `NEGLIGIBLE`.

    The design hides nothing of them.  A column that tells the truth in another code is none of
    them, as it may not be passed on for the truth.
    """
    return tuple(
        name
        for block in design.blocks
        for axis, name in enumerate(block.attributes)
        if block.shape[axis] > 1 and _is_bare(block, axis)
    )


def _is_bare(block: Design, axis: int) -> bool:
    size = block.shape[axis]
    if block.kind == "set" or block.reported_shape[axis] != size:
        return False
    if isinstance(block, Mixture):
        return 1 - block.mixing <= NEGLIGIBLE
    if isinstance(block, Flip):
        return 1 - block.theta <= NEGLIGIBLE
    if not _is_small(block):
        return False
    P = block.matrix()
    reported, true = (
        np.arange(math.prod(shape)) // math.prod(shape[axis + 1 :]) % size
        for shape in (block.reported_shape, block.shape)
    )
    wrong = np.where(reported[:, None] == true, 0.0, P).sum(axis=0)
    return bool(wrong.max() <= NEGLIGIBLE)
