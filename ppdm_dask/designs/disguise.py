"""The client side: records go in, reports come out, keyed by logical blocks of records."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from ppdm_dask.errors import RecordsError
from ppdm_dask.randomness import LOGICAL_BLOCK
from ppdm_dask.records import Records, Reports, code_dtype

if TYPE_CHECKING:
    from ppdm_dask.designs.base import Design
    from ppdm_dask.randomness import Stream

__all__ = ["disguise"]


def disguise(design: Design, records: Records, stream: Stream) -> Reports:
    """Disguise by logical blocks: the result depends on positions, not on partitions."""
    if isinstance(records, Reports):
        raise RecordsError(
            "these are reports already; disguising a person again adds up, and no estimate knows",
            records,
        )
    design = design.bind(records.codebook, positions=stream.simulated)
    sizes = list(records.codebook.shape)
    sets: dict[str, npt.NDArray[np.uint8]] = {}
    for block in design.blocks:
        for name, size in zip(block.attributes, block.reported_shape, strict=True):
            sizes[records.codebook.index(name)] = 1 if block.kind == "set" else size
    codes = np.array(records.codes, code_dtype(max(sizes)), order="F")
    first, last = records.offset, records.offset + len(records)
    for block, key in _keyed(design):
        columns = [records.codebook.index(name) for name in block.attributes]
        parts = []
        for logical in range(first // LOGICAL_BLOCK, -(-last // LOGICAL_BLOCK)):
            low = max(first, logical * LOGICAL_BLOCK)
            high = min(last, (logical + 1) * LOGICAL_BLOCK)
            rows = slice(low - first, high - first)
            reports = block.sample(
                records.codes[rows][:, columns],
                stream.child(logical, *key),
                low - logical * LOGICAL_BLOCK,
            )
            if block.kind == "set":
                parts.append(reports)
            else:
                codes[rows, columns] = reports
        if block.kind == "set":
            n_bytes = -(-block.n_true // 8)
            sets[block.attributes[0]] = np.concatenate([np.zeros((0, n_bytes), np.uint8), *parts])
            codes[:, columns] = 0
    return Reports(
        codes,
        records.codebook,
        first,
        design.digest,
        stream.simulated,
        tuple(sizes),
        sets,
        weights=records.weights,
        strata=records.strata,
    )


def _keyed(design: Design) -> list[tuple[Design, tuple[int, ...]]]:
    """Designs to sample from, each with its key below a logical block's.

    A product without sets samples as one, which keeps its blocks' draws together.
    """
    if design.kind == "symbol" and all(block.kind == "symbol" for block in design.blocks):
        return [(design, ())]
    if len(design.blocks) == 1 and design.blocks[0] is design:
        return [(design, ())]
    return [(block, (j,)) for j, block in enumerate(design.blocks)]
