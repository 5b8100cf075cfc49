"""Counts of reports over many sets of attributes in one pass, in memory or over partitions."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import numpy as np

from ppdm_dask.arrays import Ints, Words
from ppdm_dask.data.codebook import Records
from ppdm_dask.designs.base import row_major
from ppdm_dask.designs.matching import bound_to, covering, require_design
from ppdm_dask.errors import InputError
from ppdm_dask.inference.tables import ContingencyTable, require_table
from ppdm_dask.shown import shown

if TYPE_CHECKING:
    from ppdm_dask.data.codebook import Codebook
    from ppdm_dask.data.partitioned import PartitionedReports
    from ppdm_dask.designs.base import Design

__all__ = ["tables_of"]

Names = tuple[str, ...]

ROWS = 1 << 18
"""Rows whose bit planes are held at once: 32 KiB for each symbol."""

BY_BITS = 64
"""Joint symbols up to which rows are counted by bits: a word has 64 rows, a cell one pass."""

AT_ONCE = 1 << 22
"""Cells of all tables that one pass over the reports counts: 32 MiB of counts."""


def tables_of(
    reports: Records | PartitionedReports | ContingencyTable, design: Design, sets: Iterable[Names]
) -> Iterator[tuple[Names, ContingencyTable]]:
    """Count reports over each set of attributes; blocks that cannot be cut are counted whole.

    Partitions are passed once for all sets, or once for each 2^22 cells of their tables.  What
    leaves a partition is one vector of counts, so that all partitionings give the same tables.

    Parameters
    ----------
    reports : Records, PartitionedReports or ContingencyTable
    design : Design
        The design that made them.
    sets : iterable of tuple of str

    Yields
    ------
    tuple of str, ContingencyTable

    Raises
    ------
    InputError
        Of reports with survey weights, strata or clusters, or that are sets of categories.
    RecordsError
        If another design made them.
    """
    if isinstance(reports, ContingencyTable):
        design = bound_to(reports, design)
        require_table(reports, design)
        for names in sets:
            yield names, reports.marginal(covering(design, names)).dense()
        return
    book = reports.codebook
    design = bound_to(reports, design)
    partitioned = not isinstance(reports, Records)
    for chosen in _passes(design, book, sets):
        part = partial(_counted, layout=chosen)
        counts: Ints = part(reports) if isinstance(reports, Records) else reports.reduce(part)
        digest = getattr(reports, "design_digest", design.digest if partitioned else "")
        simulated = bool(getattr(reports, "simulated", False))
        for i, (names, over) in enumerate(zip(chosen.sets, chosen.over, strict=True)):
            cells = counts[chosen.starts[i] : chosen.starts[i + 1]]
            shape = chosen.shapes[i]
            yield (
                names,
                ContingencyTable(
                    book.select(over),
                    cells.reshape(shape),
                    design_digest=digest,
                    simulated=simulated,
                    reported_sizes=shape,
                    design=design,
                ),
            )


@dataclass(frozen=True, eq=False)
class _Layout:
    """What one pass counts.

    Parameters
    ----------
    design : Design
    sets, over : tuples of tuples of str
        What is asked for, and the attributes that are counted for it.
    shapes : tuple of tuple of int
        Reported symbols of these.
    """

    design: Design
    sets: tuple[Names, ...]
    over: tuple[Names, ...]
    shapes: tuple[tuple[int, ...], ...]

    @cached_property
    def starts(self) -> Ints:
        """Where the table of each set begins, and the end."""
        return np.cumsum([0, *map(math.prod, self.shapes)])


def _passes(design: Design, book: Codebook, sets: Iterable[Names]) -> Iterator[_Layout]:
    """The sets of each pass."""
    sizes = {name: len(book[name]) for name in book.names}
    for block in design.blocks:
        if block.kind == "symbol":
            sizes |= dict(zip(block.attributes, block.reported_shape, strict=True))
    asked: list[tuple[Names, Names, tuple[int, ...]]] = []
    cells = 0
    for names in sets:
        over = covering(design, names)
        shape = tuple(sizes[name] for name in over)
        if asked and cells + math.prod(shape) > AT_ONCE:
            yield _Layout(design, *zip(*asked, strict=True))
            asked, cells = [], 0
        asked.append((names, over, shape))
        cells += math.prod(shape)
    if asked:
        yield _Layout(design, *zip(*asked, strict=True))


def _counted(reports: Records, *, layout: _Layout) -> Ints:
    """Counts of all tables of a layout, one behind the other."""
    design = bound_to(reports, layout.design)
    require_design(reports, design)
    _require_symbols(reports, design, layout)
    counts = np.zeros(layout.starts[-1], np.int64)
    column = reports.codebook.index
    small = [i for i, shape in enumerate(layout.shapes) if math.prod(shape) <= BY_BITS]
    for low in range(0, len(reports), ROWS):
        codes = reports.codes[low : low + ROWS]
        _add_by_bits(codes, layout, small, column, counts)
    for i in sorted({*range(len(layout.shapes))} - {*small}):
        shape, low, high = layout.shapes[i], layout.starts[i], layout.starts[i + 1]
        joint = row_major(reports.codes[:, [column(name) for name in layout.over[i]]], shape)
        counts[low:high] += np.bincount(joint, minlength=high - low)
    return counts


def _add_by_bits(codes: Any, layout: _Layout, sets: Sequence[int], column: Any, out: Ints) -> None:
    """Add the counts of some of the sets, by their numbers, of a block of rows."""
    from ppdm_dask.kernels.itemsets import count_joint

    if not sets:
        return
    sizes = {
        name: size
        for i in sets
        for name, size in zip(layout.over[i], layout.shapes[i], strict=True)
    }
    planes, first = _planes(codes, {column(name): size for name, size in sizes.items()})
    over = [[column(name) for name in layout.over[i]] for i in sets]
    shapes = [layout.shapes[i] for i in sets]
    bounds = np.cumsum([0, *map(len, over)])
    found = np.zeros(sum(map(math.prod, shapes)), np.int64)
    count_joint(
        planes,
        np.array([first[c] for columns in over for c in columns], np.int64),
        np.array([size for shape in shapes for size in shape], np.int64),
        bounds,
        found,
    )
    places = [np.arange(layout.starts[i], layout.starts[i + 1]) for i in sets]
    out[np.concatenate(places)] += found


def _planes(codes: Any, sizes: dict[int, int]) -> tuple[Words, dict[int, int]]:
    """A plane for each symbol of each column, and the number of each column's first."""
    words = -(-len(codes) // 64)
    planes = np.zeros((sum(sizes.values()), words), np.uint64)
    into, first, number = planes.view(np.uint8), {}, 0
    for c, size in sizes.items():
        first[c] = number
        symbols = np.ascontiguousarray(codes[:, c])
        for symbol in range(size):
            packed = np.packbits(symbols == symbol, bitorder="little")
            into[number, : len(packed)] = packed
            number += 1
    return planes, first


def _require_symbols(reports: Records, design: Design, layout: _Layout) -> None:
    if reports.survey:
        what = " or ".join(reports.survey)
        raise InputError(f"reports with survey {what}: rules are found of plain reports only")
    for block in design.blocks:
        name = block.attributes[0]
        if block.kind == "set" and any(name in over for over in layout.over):
            raise InputError(
                f"attributes: reports of {shown(name)} are sets of categories, of which no rules "
                "are found; name the others",
                name,
            )
