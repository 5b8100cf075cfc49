"""A design's operations along the axes of a table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from ppdm_dask.arrays import Floats
from ppdm_dask.designs.matching import require_order, require_whole
from ppdm_dask.errors import RecordsError

if TYPE_CHECKING:
    from ppdm_dask.designs.base import Design
    from ppdm_dask.inference.tables import ContingencyTable


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


def solve_blocks(
    observed: Floats,
    names: Sequence[str],
    design: Design,
    over: Sequence[str],
    *,
    squared: bool = False,
) -> Floats:
    """Apply B (or B * B, which gives second moments) of each block along the axes it belongs to.

    Parameters
    ----------
    observed : array, one axis for each of `names`
        Observed proportions, whole blocks or lumpable parts of them.
    over : sequence of str
        Attributes to keep, as axes of the result; the others of a block are summed out.
    """
    order, tensor = list(names), observed
    for block in design.blocks:
        kept = [name for name in block.attributes if name in names]
        if not kept:
            continue
        wanted = [name for name in kept if name in over]
        front = np.moveaxis(tensor, [order.index(name) for name in kept], range(len(kept)))
        part = block.marginal(kept)
        assert part is not None
        sizes, rest = part.shape, front.shape[len(kept) :]
        flat = front.reshape(part.n_reported, -1)
        if wanted == kept:
            flat = part.invert_squared(flat) if squared else part.invert(flat)
        else:
            summed = tuple(i for i, name in enumerate(kept) if name not in wanted)
            rows = part.left_inverse().reshape(*sizes, -1).sum(axis=summed)
            sizes = rows.shape[:-1]
            rows = rows.reshape(-1, len(flat))
            flat = (rows**2 if squared else rows) @ flat
        tensor = flat.reshape(*sizes, *rest)
        order = [*wanted, *(name for name in order if name not in kept)]
    return tensor.transpose([order.index(name) for name in over])


def require_table(table: ContingencyTable, design: Design) -> None:
    """Raise RecordsError or DesignError unless the design made the reports of a table."""
    require_order(table, design)
    if table.design_digest and table.design_digest != design.digest:
        raise RecordsError("the table holds reports made by another design", design)


def check_table(table: ContingencyTable, design: Design) -> ContingencyTable:
    """The table with every cell, if the design made it, cuts no block of it and it has records."""
    require_table(table, design)
    require_whole(design, table.attributes)
    table = table.dense()
    if not table.n:
        raise RecordsError("the table holds no records; at least one is needed", table)
    return table
