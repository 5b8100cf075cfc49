"""Files of counts, which add up; and how reports and counts become one table.

Beside it: what files of reports and counts have together, which one by one cannot be seen.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from ppdm_dask.data.codebook import Codebook
from ppdm_dask.designs.matching import covering
from ppdm_dask.errors import DataError, InputError, NotLumpable, RecordsError
from ppdm_dask.files.arrow import arrow_frame
from ppdm_dask.files.parquet import reading_parquet
from ppdm_dask.files.reader import BLOCK
from ppdm_dask.files.writing import replacing
from ppdm_dask.inference.tables import ContingencyTable, count
from ppdm_dask.shown import listed, shown
from ppdm_dask.survey.about import EMPTY, KEY, PLACE, About, seal
from ppdm_dask.survey.reports import (
    about_file,
    read_reports,
    reported_codes,
    reported_labels,
    reported_sizes,
)

if TYPE_CHECKING:
    from ppdm_dask.designs import Design

__all__ = [
    "count_files",
    "open_sources",
    "read_counts",
    "remarks",
    "write_counts",
]


Sources = list[tuple[Path, About]]

MAX_CELLS = 1 << 24
"""Different reports in a file of counts."""

MAX_REPORTS = (1 << 63) - 1
"""Reports in all files: counts are integers of 64 bits."""


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
                f"reports of {shown(name)} are sets of answers, which are not counted: estimate "
                "from the reports themselves, and name others in --over to count those",
                name,
            )
    total: ContingencyTable | None = None
    for path, about in sources:
        for name in names:
            if name not in about.codebook.names:
                there = listed(about.codebook.names)
                why = "" if name in over else ", which its block needs"
                raise DataError(
                    f"{path}: holds no attribute {shown(name)}{why}; there are {there}", name
                )
        try:
            for table in _tables(path, about, design, names):
                if total is not None and total.n + table.n > MAX_REPORTS:
                    raise DataError(
                        f"{path}: with it there are {total.n + table.n:,} reports; "
                        f"{MAX_REPORTS:,} are the most",
                        path,
                    )
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


def write_counts(
    path: Path, table: ContingencyTable, about: About, inputs: Iterable[Path] = ()
) -> None:
    """Write the cells that occur as Parquet: a column an attribute, the last one counts.

    Whoever may not read all of the inputs may not read it.

    Raises
    ------
    InputError
        If more cells occur than a file of counts may have.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = table.sparse()
    if len(table.counts) > MAX_CELLS:
        raise InputError(
            f"{path}: {len(table.counts):,} different reports; a file of counts has at most "
            f"{MAX_CELLS:,}, count fewer attributes (--over)",
            path,
        )
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
    about = replace(
        about, kind="counts", codebook=table.codebook, simulated=table.simulated, n=table.n, kept={}
    )
    columns.append(pa.array(table.counts, pa.int64()))
    written = pa.Table.from_arrays(columns, [*names, last])
    written = written.replace_schema_metadata({KEY: about.text().encode(), PLACE: EMPTY})
    with replacing(path, inputs) as aside:
        pq.write_table(written, aside, write_page_checksum=True)
        seal(aside)


def read_counts(path: Path, about: About) -> ContingencyTable:
    """Read a file of counts.

    Raises
    ------
    DataError
        If it is damaged: other columns, symbols that cannot be, counts below 0, or more cells or
        reports than there can be.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    names = about.codebook.names
    sizes = reported_sizes(about.design, about)
    labels = reported_labels(about)
    zero = ContingencyTable.zero(about.codebook, about.design.digest, sizes)
    cells, counts = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    where = f"{path}: is damaged"
    with reading_parquet(path), pq.ParquetFile(path, page_checksum_verification=True) as file:
        fields = file.schema_arrow
        if tuple(fields.names[:-1]) != names or not pa.types.is_int64(fields.types[-1]):
            raise DataError(f"{where}: a column for each attribute and counts are needed", path)
        # Before anything is unpacked: a small file can claim any number of rows.
        rows, most = file.metadata.num_rows, min(MAX_CELLS, math.prod(sizes))
        if rows > most:
            raise DataError(f"{where}: has {rows:,} cells; there can be {most:,}", path)
        offset = 0
        for batch in file.iter_batches(BLOCK, use_threads=False):
            frame = arrow_frame(batch)
            index = np.zeros(len(frame), np.int64)
            for name, size in zip(names, sizes, strict=True):
                codes = reported_codes(where, name, frame[name], labels[name], size, offset)
                index = index * size + codes
            if batch.column(batch.num_columns - 1).null_count:
                raise DataError(f"{where}: a count is missing", path)
            cells.append(index)
            counts.append(batch.column(batch.num_columns - 1).to_numpy())
            offset += len(frame)
    index, found = np.concatenate(cells), np.concatenate(counts)
    if (found < 0).any():
        raise DataError(f"{where}: a count is below 0", path)
    if len(np.unique(index)) < len(index):
        raise DataError(f"{where}: a cell occurs twice", path)
    total = exact_sum(found)
    if total > MAX_REPORTS or (about.n is not None and total != about.n):
        right = f"{MAX_REPORTS:,} are the most" if about.n is None else f"{about.n:,} were written"
        raise DataError(f"{where}: holds counts of {total:,} reports; {right}", path)
    order = np.argsort(index)
    sparse = replace(zero, counts=found[order], cells=index[order], simulated=about.simulated)
    return sparse if zero.cells is not None else sparse.dense()


def exact_sum(counts: npt.NDArray[np.int64]) -> int:
    """Sum of counts of 0 or more, beyond 64 bits too."""
    return (int((counts >> 32).sum()) << 32) + int((counts & 0xFFFFFFFF).sum())


def remarks(sources: Sources) -> list[str]:
    """Sentences on files that may be of the same people, and on files without a checksum.

    Reports of the same answers under two disguises look like those of different people.  Equally
    many reports, and the same columns of truth where some were kept, are all that points to them.
    """
    found: list[str] = []
    alike: dict[tuple[int, tuple[tuple[str, str], ...]], list[str]] = {}
    for path, about in sources:
        if about.format == 1:
            found.append(
                f"older file: {path} has no checksum, so that damage to it would not be seen"
            )
        if about.kind == "reports" and about.n is not None:
            key = about.n, tuple(sorted(about.kept.items()))
            alike.setdefault(key, []).append(str(path))
    for (n, kept), paths in alike.items():
        if len(paths) > 1:
            same = f" and the same {', '.join(name for name, _ in kept)}" if kept else ""
            found.append(
                f"the same people? {', '.join(paths)} have {n:,} reports each{same}; people who "
                "are in several count several times, which nothing else can show"
            )
    return found
