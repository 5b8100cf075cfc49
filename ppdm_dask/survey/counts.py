"""Files of counts, which add up; and how reports and counts become one table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ppdm_dask.codebook import Codebook
from ppdm_dask.errors import DataError, InputError, NotLumpable, RecordsError
from ppdm_dask.experiments.files import replacing
from ppdm_dask.matching import covering
from ppdm_dask.records import Reports
from ppdm_dask.survey.about import KEY, About
from ppdm_dask.survey.data import BLOCK, reading_parquet
from ppdm_dask.survey.reports import (
    about_file,
    read_reports,
    reported_codes,
    reported_labels,
    reported_sizes,
)
from ppdm_dask.tables import ContingencyTable, count

if TYPE_CHECKING:
    from ppdm_dask.designs import Design

__all__ = ["count_files", "expand", "open_sources", "read_counts", "write_counts"]

Sources = list[tuple[Path, About]]


def open_sources(
    paths: Sequence[Path], codebook: Codebook, design: Design, names: Mapping[str, Path]
) -> Sources:
    """What files of reports or counts say of themselves, checked against a design and codebook.

    Raises
    ------
    DataError
        One line that names the file which does not belong, or whose reports are in another one too.
    """
    if not paths:
        raise InputError("no file is given; reports or counts are needed", paths)
    design = design.bind(codebook, positions=True)
    found: Sources = []
    seen: dict[str, Path] = {}
    for path in paths:
        about = about_file(path)
        about.require(path, codebook, design, names)
        for batch in about.batches:
            if batch in seen:
                raise DataError(
                    f"{path}: holds reports that {seen[batch]} holds too; they would count twice",
                    path,
                )
            seen[batch] = path
        # With labels, also where the file is of before designs carried them.
        found.append((path, replace(about, design=design)))
    return found


def count_files(
    sources: Sources, codebook: Codebook, design: Design, over: Sequence[str]
) -> ContingencyTable:
    """Add up the counts of some attributes over files of reports and of counts.

    Blocks of the design that are not lumpable are counted whole.

    Parameters
    ----------
    sources : list of (Path, About)
        As :func:`open_sources` gives them.
    codebook, design
        Those of all the files.
    over : sequence of str
        Attributes.
    """
    for name in over:
        codebook.index(name)
    names = covering(design, over)
    for block in design.blocks:
        if block.kind == "set" and block.attributes[0] in names:
            name = block.attributes[0]
            raise InputError(
                f"reports of {name!r} are sets of answers, which are not counted: estimate from "
                "the reports themselves, and name others in --over to count those",
                name,
            )
    total: ContingencyTable | None = None
    for path, about in sources:
        for name in names:
            if name not in about.codebook.names:
                there = ", ".join(about.codebook.names)
                why = "" if name in over else ", which its block needs"
                raise DataError(
                    f"{path}: holds no attribute {name!r}{why}; there are {there}", name
                )
        try:
            for table in _tables(path, about, design, names):
                total = table if total is None else total + table
        except (NotLumpable, RecordsError) as error:
            raise DataError(f"{path}: {error}", error.subject) from None
    if total is None or not total.n:
        raise DataError(f"{sources[0][0]}: there are no reports; at least one is needed", sources)
    return total


def _tables(
    path: Path, about: About, design: Design, names: tuple[str, ...]
) -> Iterator[ContingencyTable]:
    if about.kind == "counts":
        yield read_counts(path, about).marginal(names)
        return
    for block in read_reports(path, about, names):
        yield count(block.reports, design, names)


def write_counts(path: Path, table: ContingencyTable, about: About) -> None:
    """Write the cells that occur as Parquet: a column an attribute, the last one counts."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = table.sparse()
    symbols, columns, names = table.symbols(), [], list(table.attributes)
    for j, (attribute, size) in enumerate(zip(table.codebook.attributes, table.sizes, strict=True)):
        codes = symbols[:, j]
        if size == len(attribute):
            columns.append(pa.array(np.array(attribute.categories, object)[codes], pa.string()))
        else:
            columns.append(pa.array(codes, pa.int64()))
    last = "count"
    while last in names:
        last += "_"
    about = replace(about, kind="counts", codebook=table.codebook, simulated=table.simulated)
    columns.append(pa.array(table.counts, pa.int64()))
    written = pa.Table.from_arrays(columns, [*names, last])
    written = written.replace_schema_metadata({KEY: about.text().encode()})
    with replacing(path) as aside:
        pq.write_table(written, aside, write_page_checksum=True)


def read_counts(path: Path, about: About) -> ContingencyTable:
    """Read a file of counts.

    Raises
    ------
    DataError
        If it is damaged: other columns, symbols that cannot be, or counts below 0.
    """
    import pyarrow.parquet as pq

    with reading_parquet(path):
        frame = pq.read_table(path, page_checksum_verification=True).to_pandas(ignore_metadata=True)
    names = about.codebook.names
    counts: Any = frame.iloc[:, -1].to_numpy() if len(frame.columns) else np.zeros(0)
    if tuple(frame.columns[:-1]) != names or counts.dtype != np.int64 or (counts < 0).any():
        raise DataError(
            f"{path}: is damaged: a column for each attribute and counts are needed", path
        )
    sizes = reported_sizes(about.design, about)
    labels = reported_labels(about)
    index = np.zeros(len(frame), np.int64)
    for name, size in zip(names, sizes, strict=True):
        codes = reported_codes(f"{path}: is damaged", name, frame[name], labels[name], size, 0)
        index = index * size + codes
    if len(np.unique(index)) < len(index):
        raise DataError(f"{path}: is damaged: a cell occurs twice", path)
    zero = ContingencyTable.zero(about.codebook, about.design.digest, sizes)
    order = np.argsort(index)
    sparse = replace(zero, counts=counts[order], cells=index[order], simulated=about.simulated)
    return sparse if zero.cells is not None else sparse.dense()


def expand(table: ContingencyTable, size: int = BLOCK) -> Iterator[Reports]:
    """Reports that a table counts, for sums that are made report by report."""
    symbols, counts = table.symbols(), table.sparse().counts
    ends = np.cumsum(counts)
    for low in range(0, table.n, size):
        rows = np.searchsorted(ends, np.arange(low, min(low + size, table.n)), side="right")
        yield _reports(table, symbols[rows], low)


def _reports(table: ContingencyTable, symbols: Any, offset: int) -> Reports:
    return Reports(
        symbols, table.codebook, offset, table.design_digest, table.simulated, table.sizes
    )
