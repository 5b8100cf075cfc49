"""Files of counts, which can be added; and how reports and counts become one table.

It also finds problems that can be seen only for several files together, such as reports given
twice.
"""

from __future__ import annotations

import hashlib
import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial, reduce
from operator import add
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ppdm_dask.cluster.spread import summed
from ppdm_dask.data.codebook import Codebook
from ppdm_dask.designs.matching import covering
from ppdm_dask.errors import DataError, InputError, NotLumpable, RecordsError
from ppdm_dask.files.arrow import arrow_table
from ppdm_dask.files.parquet import reading_parquet
from ppdm_dask.files.reader import BLOCK
from ppdm_dask.files.writing import replacing
from ppdm_dask.inference.tables import ContingencyTable, RunningTable, count, sum_tables
from ppdm_dask.shown import listed, shown
from ppdm_dask.survey.about import EMPTY, KEY, PLACE, About, seal
from ppdm_dask.survey.parts import Found, Sources, checked, report_files, require_whole, seal_of
from ppdm_dask.survey.reports import (
    about_file,
    read_reports,
    reported_codes,
    reported_labels,
    reported_sizes,
)

if TYPE_CHECKING:
    from ppdm_dask.cluster.spread import Client
    from ppdm_dask.data.words import Imported
    from ppdm_dask.designs import Design

__all__ = [
    "Source",
    "Sources",
    "count_files",
    "counted_about",
    "imported_of",
    "not_counted",
    "open_sources",
    "read_counts",
    "remarks",
    "total_of",
    "write_counts",
]


MAX_CELLS = 1 << 24
"""Different reports in a file of counts."""

MAX_REPORTS = (1 << 63) - 1
"""Reports in all files: counts are integers of 64 bits."""


def open_sources(
    paths: Sequence[Path | Found], codebook: Codebook, design: Design, names: Mapping[str, Path]
) -> Sources:
    """What files of reports or counts say of themselves, checked against a design and codebook.

    Parameters
    ----------
    paths : sequence of Path, or of (Path, About or None)
        Files, folders of files or of parts, and patterns; or what
        :func:`ppdm_dask.survey.parts.report_files` found there.
    codebook, design
        Codebook and design of all the files.
    names : mapping of "codebook" and "design" to Path
        Their files, for messages.

    Raises
    ------
    DataError
        One line that names a file made with another design or codebook, or whose reports are also
        in another file.
    """
    if not paths:
        raise InputError("no file is given; reports or counts are needed", paths)
    design = design.bind(codebook, positions=True)
    found: Sources = []
    seen: dict[str, Path] = {}
    required: set[tuple[int, int]] = set()
    kept_alive: list[About] = []  # so that no other object gets the same id
    whole: dict[Path, frozenset[str]] = {}
    files = (
        each
        for path in paths
        for each in ([path] if isinstance(path, tuple) else report_files([path]))
    )
    for path, said in files:
        about = about_file(path) if said is None else said
        require_whole(path, about, whole)
        # Parts of a manifest share what they say, and are many.
        if (same := (id(about.codebook), id(about.design))) not in required:
            about.require(path, codebook, design, names)
            required.add(same)
        for batch in about.batches:
            if batch in seen:
                raise DataError(
                    f"{path}: holds reports that {seen[batch]} holds too; they would count twice",
                    path,
                )
            seen[batch] = path
        kept_alive.append(about)
        # With labels, also where the file is of before designs carried them.
        found.append((path, replace(about, design=design)))
    return found


def count_files(
    sources: Sources,
    codebook: Codebook,
    design: Design,
    over: Sequence[str],
    *,
    client: Client | None = None,
    done: Callable[[int], None] | None = None,
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
    client : distributed.Client, optional
        Cluster that does the work; by default this process.
    done : callable, optional
        Called with the reports counted so far.
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
    for path, about in sources:
        for name in names:
            if name not in about.codebook.names:
                there = listed(about.codebook.names)
                why = "" if name in over else ", which its block needs"
                raise DataError(
                    f"{path}: holds no attribute {shown(name)}{why}; there are {there}", name
                )
    work = partial(_counted, design=design, names=names)
    table: ContingencyTable = total_of(work, sources, names, client, done)
    return table


def total_of(
    work: Callable[[Source], Iterator[tuple[Any, int]]],
    sources: Sources,
    names: Sequence[str],
    client: Client | None,
    done: Callable[[int], None] | None,
) -> Any:
    """Evidence of all sources, added up; an error names the file at fault.

    Parameters
    ----------
    work : callable
        Gives the evidence of a source, block by block.
    sources : list of (Path, About)
    names : sequence of str
        Columns that messages may name.
    client, done
        See :func:`count_files`.

    Raises
    ------
    DataError
        If there are no reports, or more than can be counted.
    """
    found = [
        Source(path.resolve() if client is not None else path, about, path)
        for path, about in sources
    ]
    _, total = summed(partial(_of_source, work), found, _plus, names, client=client, done=done)
    if total is None or not (total.n if isinstance(total, ContingencyTable) else _reports(total)):
        raise DataError(f"{sources[0][0]}: there are no reports; at least one is needed", sources)
    return total


@dataclass(frozen=True)
class Source:
    """A file of reports or counts: where it is, what it says, and what it is called."""

    place: Path
    about: About
    path: Path

    @property
    def records(self) -> int:
        """Reports, for progress."""
        return self.about.n or 0


def _of_source(
    work: Callable[[Source], Iterator[tuple[Any, int]]],
    _: int,
    source: Source,
    told: Callable[[int], None],
) -> Named:
    """Evidence of a file; None without reports."""
    about = checked(source.place, source.about)
    source = replace(source, about=about)
    table, total = RunningTable(), None
    try:
        for evidence, n in work(source):
            if isinstance(evidence, ContingencyTable):
                table.add(evidence)
            else:
                total = evidence if total is None else total + evidence
            told(n)
        return source.path, table.total() if total is None else total
    except (NotLumpable, RecordsError) as error:
        raise DataError(f"{source.path}: {error}", error.subject) from None


Named = tuple[Path, Any]
"""Evidence, or None, with the last file that it is of."""


def _plus(parts: Sequence[Named]) -> Named:
    """The sum of evidence."""
    there = [(path, part) for path, part in parts if part is not None]
    total: Any = None
    if all(isinstance(part, ContingencyTable) for _, part in there):
        n = 0
        for path, part in there:
            n += part.n
            if n > MAX_REPORTS:
                possible = f"at most {MAX_REPORTS:,} are possible"
                raise DataError(f"{path}: with it there are {n:,} reports; {possible}", path)
        total = sum_tables([part for _, part in there]) if there else None
    else:
        total = reduce(add, (part for _, part in there))
    return parts[-1][0], total


def _reports(sums: Any) -> float:
    """Reports in sums of event weights, in groups or not."""
    parts = getattr(sums, "sums", (sums,))
    return float(max(part.n.sum() for part in parts))


def _counted(
    source: Source, *, design: Design, names: tuple[str, ...]
) -> Iterator[tuple[ContingencyTable, int]]:
    path, about = source.place, source.about
    if about.kind == "counts":
        table = read_counts(path, about).marginal(names)
        yield table, table.n
        return
    for block in read_reports(path, about, names):
        yield count(block.reports, design, names), len(block.reports)


def write_counts(
    path: Path, table: ContingencyTable, about: About, inputs: Iterable[Path] = ()
) -> None:
    """Write the cells that occur as Parquet: one column per attribute, and a last column of counts.

    Anyone who may not read all of the inputs may not read it.

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
            table = arrow_table(batch)
            index = np.zeros(len(table), np.int64)
            for name, size in zip(names, sizes, strict=True):
                codes = reported_codes(where, name, table[name], labels[name], size, offset)
                index = index * size + codes
            if batch.column(batch.num_columns - 1).null_count:
                raise DataError(f"{where}: a count is missing", path)
            cells.append(index)
            counts.append(batch.column(batch.num_columns - 1).to_numpy())
            offset += len(table)
    index, found = np.concatenate(cells), np.concatenate(counts)
    if (found < 0).any():
        raise DataError(f"{where}: a count is below 0", path)
    if len(np.unique(index)) < len(index):
        raise DataError(f"{where}: a cell occurs twice", path)
    total = exact_sum(found)
    if total > MAX_REPORTS or (about.n is not None and total != about.n):
        right = (
            f"at most {MAX_REPORTS:,} are possible"
            if about.n is None
            else f"{about.n:,} were written"
        )
        raise DataError(f"{where}: holds counts of {total:,} reports; {right}", path)
    order = np.argsort(index)
    sparse = replace(zero, counts=found[order], cells=index[order], simulated=about.simulated)
    return sparse if zero.cells is not None else sparse.dense()


def exact_sum(counts: npt.NDArray[np.int64]) -> int:
    """Sum of counts of 0 or more, beyond 64 bits too."""
    return (int((counts >> 32).sum()) << 32) + int((counts & 0xFFFFFFFF).sum())


def counted_about(sources: Sources, table: ContingencyTable, design: Design) -> About:
    """The description in a file of counts, with the files that it has counted."""
    kept = {name for _, about in sources for name in about.undisguised}
    shown_names = tuple(name for name in table.attributes if name in kept)
    batches = tuple(batch for _, about in sources for batch in about.batches)
    counted: dict[str, tuple[str, str]] = {}
    for path, about in sources:
        if about.kind == "counts":
            counted |= about.counted
        elif about.format > 1:
            counted[about.batches[0]] = (about.seal or seal_of(path), _place(path))
    return About(
        "counts",
        table.codebook,
        design,
        table.simulated,
        shown_names,
        batches,
        counted=counted,
        imported=imported_of(sources),
    )


def imported_of(sources: Sources) -> Imported | None:
    """What files of reports from the field have together; None where there are none."""
    found = [about.imported for _, about in sources if about.imported is not None]
    return reduce(add, found) if found else None


def _place(path: Path) -> str:
    """Digest of where a file is: counts travel, and tell nobody how folders are called."""
    return hashlib.sha256(os.fsencode(path.resolve())).hexdigest()[:32]


def not_counted(paths: Sequence[Path], counts: Path) -> tuple[list[Found], int]:
    """Files of reports that are not in counts yet, and how many are.

    Raises
    ------
    DataError
        If a file changed since it was counted, or is of counts.
    """
    there = about_file(counts)
    if there.kind != "counts":
        raise DataError(f"{counts}: holds reports; a file of counts is needed for --add", counts)
    places = {place: batch for batch, (_, place) in there.counted.items()}
    new: list[Found] = []
    known = 0
    for path, said in report_files(paths):
        about = about_file(path) if said is None else said
        (batch, *_) = about.batches
        if about.kind != "reports":
            raise DataError(f"{path}: holds counts; --add counts files of reports", path)
        if batch not in there.batches:
            if (before := places.get(_place(path))) is not None and before != batch:
                raise _changed(path, counts)
            new.append((path, said))
            continue
        seal, _ = there.counted.get(batch, ("", ""))
        if seal and seal != (about.seal or seal_of(path)):
            raise _changed(path, counts)
        known += 1
    return new, known


def _changed(path: Path, counts: Path) -> DataError:
    return DataError(
        f"{path}: changed since {counts} counted it, so that its people would count twice; count "
        "all files again into a new file",
        path,
    )


def remarks(sources: Sources) -> list[str]:
    """Sentences on files that may be of the same people, and on files without a checksum.

    Two disguises of the same answers look like answers of different people.  Equally
    many reports, and the same columns of truth where some were kept, are all that points to them.
    """
    found: list[str] = []
    alike: dict[tuple[int, tuple[tuple[str, str], ...]], list[str]] = {}
    for path, about in sources:
        if about.format == 1:
            found.append(
                f"older file: {path} has no checksum, so that damage to it would not be seen"
            )
        # Parts of one disguise are of different people, and have equally many reports.
        if about.kind == "reports" and about.n is not None and not about.disguise:
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
