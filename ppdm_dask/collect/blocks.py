"""What a client in another language draws a report by, and the names of what it draws."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ppdm_dask.designs.product import Product

if TYPE_CHECKING:
    from ppdm_dask.data.codebook import Codebook
    from ppdm_dask.designs.base import Design

__all__ = ["block_of", "client_blocks", "symbols_of"]


def client_blocks(design: Design, codebook: Codebook) -> list[dict[str, Any]]:
    """Blocks of a design as the page's ``draw.js`` takes them.

    Parameters
    ----------
    design : Design
        Bound to the codebook.
    codebook : Codebook

    Returns
    -------
    list of dict
        For each block ``places``, the positions of its attributes in the codebook; ``step``, see
        :meth:`ppdm_dask.Design.steps`; and ``key``, under which the sources of its draws stand, as
        they do when records are disguised here.

    Raises
    ------
    DesignError
        If a block has no steps that a client could follow.
    """
    blocks = design.blocks
    keyed = isinstance(design, Product)
    return [
        {
            "places": [codebook.index(name) for name in block.attributes],
            "key": [j] if keyed else [],
            "step": block.steps(),
        }
        for j, block in enumerate(blocks)
    ]


def block_of(design: Design, name: str) -> Design | None:
    """The block of a design that disguises an attribute, if one does."""
    return next((block for block in design.blocks if name in block.attributes), None)


def symbols_of(block: Design, name: str, codebook: Codebook) -> tuple[str, ...]:
    """Names of an attribute's reports: its categories, or numbers where reports are no answers."""
    size, categories = block.reported_shape[block.attributes.index(name)], codebook[name].categories
    return categories if size == len(categories) else tuple(map(str, range(size)))
