"""A design's operations along the axes of a table."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from ppdm_dask.errors import RecordsError
from ppdm_dask.matching import require_whole

if TYPE_CHECKING:
    from ppdm_dask.designs.base import Design
    from ppdm_dask.tables import ContingencyTable

__all__ = ["along_blocks", "check_table", "table_weights"]

Floats = npt.NDArray[np.float64]


def table_weights(table: ContingencyTable, design: Design, names: tuple[str, ...]) -> Floats:
    """Weight of each reported cell of a table in each joint category of the named attributes.

    Shape (cells of the table, joint categories): the observed proportions times it are estimates.
    """
    codebook = table.codebook
    columns = [codebook.index(name) for name in names]
    sizes = [codebook.shape[i] for i in columns]
    codes = np.indices(codebook.shape).reshape(len(codebook.shape), -1)
    groups = np.ravel_multi_index(tuple(codes[columns]), sizes)
    inside = groups[:, None] == np.arange(math.prod(sizes))
    shaped = inside.astype(float).reshape(*codebook.shape, -1)
    weights = along_blocks(shaped, codebook.names, design, "invert_transposed")
    return weights.reshape(math.prod(table.sizes), -1)


def along_blocks(tensor: Floats, names: tuple[str, ...], design: Design, step: str) -> Floats:
    """Apply an operation of each block of a design along the axes that belong to it."""
    to_reports = step in ("apply", "invert_transposed")
    for block in design.blocks:
        kept = [name for name in block.attributes if name in names]
        if not kept:
            continue
        part = block.marginal(kept)
        assert part is not None
        axes = [names.index(name) for name in kept]
        front = np.moveaxis(tensor, axes, range(len(axes)))
        tail = front.shape[len(axes) :]
        size, shape = part.n_reported, part.shape
        if to_reports:
            size, shape = part.n_true, part.reported_shape
        result = getattr(part, step)(front.reshape(size, -1)).reshape(*shape, *tail)
        tensor = np.moveaxis(result, range(len(axes)), axes)
    return tensor


def check_table(table: ContingencyTable, design: Design) -> ContingencyTable:
    """The table with every cell, if the design made it, cuts no block of it and it has records."""
    if table.design_digest and table.design_digest != design.digest:
        raise RecordsError("the table holds reports made by another design", design)
    require_whole(design, table.attributes)
    table = table.dense()
    if not table.n:
        raise RecordsError("the table holds no records; at least one is needed", table)
    return table
