"""Files of reports: Parquet or CSV, read a block at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ppdm_dask.data.codebook import Reports
from ppdm_dask.errors import DataError
from ppdm_dask.files.columns import look_up
from ppdm_dask.files.parquet import reading_parquet
from ppdm_dask.files.reader import DataFile, open_data
from ppdm_dask.files.regular import ending, read_bounded, require_file
from ppdm_dask.shown import listed, shown
from ppdm_dask.survey.about import KEY, About, file_checksum, sealed

if TYPE_CHECKING:
    from ppdm_dask.designs import Design
    from ppdm_dask.files.column import Column
    from ppdm_dask.files.table import Table

__all__ = [
    "ReportBlock",
    "about_file",
    "all_reports",
    "beside",
    "is_made",
    "parquet_metadata",
    "read_reports",
    "reported_codes",
    "reported_labels",
    "reported_sizes",
    "require_attributes",
    "set_sizes",
]


MAX_UNPACKED = 1 << 28
"""Bytes of a column, within a row group, from which its size is compared with the file's."""

MAX_RATIO = 100


def beside(path: Path) -> Path:
    """The file that describes a CSV of reports; a Parquet file contains its description."""
    return path.with_name(path.name + ".about.json")


def set_sizes(design: Design) -> dict[str, int]:
    """Bytes of a report of each attribute whose reports are sets."""
    return {b.attributes[0]: -(-b.n_true // 8) for b in design.blocks if b.kind == "set"}


def reported_sizes(design: Design, about: About) -> tuple[int, ...]:
    """Reported symbols of each coded column; 1 where reports are sets."""
    sizes = dict(zip(about.codebook.names, about.codebook.shape, strict=True))
    for block in design.blocks:
        for name, size in zip(block.attributes, block.reported_shape, strict=True):
            if name in sizes:
                sizes[name] = 1 if block.kind == "set" else size
    return tuple(sizes.values())


def reported_labels(about: About) -> dict[str, list[str] | None]:
    """What codes are written as: categories, or numbers where there are other symbols."""
    sizes = reported_sizes(about.design, about)
    return {
        a.name: list(a.categories) if size == len(a) else None
        for a, size in zip(about.codebook.attributes, sizes, strict=True)
    }


def about_file(path: Path) -> About:
    """What a file of reports or counts says of itself, once its checksum is found to be right.

    Raises
    ------
    DataError
        If there is no such file, it has no description, or it was changed.
    """
    require_file(path)
    if ending(path) == ".csv":
        open_data(path)
        about = beside(path)
        try:
            said = About.read(about, read_bounded(about).decode())
        except FileNotFoundError:
            raise DataError(
                f"{path}: the file {about} that `ppdm disguise` wrote beside it is needed", path
            ) from None
        except OSError as error:
            raise DataError(f"{about}: cannot be read: {error.strerror}", about) from None
        except UnicodeDecodeError:
            raise DataError(f"{about}: its description of the design is damaged", about) from None
        if said.format > 1 and said.data != file_checksum(path):
            raise DataError(
                f"{path}: is damaged or was changed: its checksum is not that of {about}; ask for "
                "the files again",
                path,
            )
        return said
    if ending(path) != ".parquet":
        raise DataError(f"{path}: a file that ends in .csv or .parquet is needed", path)
    whole = sealed(path)
    _check_sizes(path)
    said = About.read(path, parquet_metadata(path).get(KEY))
    if said.format > 1 and not whole:
        raise DataError(f"{path}: is damaged: its checksum is gone; ask for the file again", path)
    return said


def _check_sizes(path: Path) -> None:
    """Raise DataError for a small file that would unpack to a large one, before it is unpacked."""
    import pyarrow.parquet as pq

    with reading_parquet(path):
        there = pq.read_metadata(path)
        groups = [there.row_group(i) for i in range(there.num_row_groups)]
        sizes = [g.column(j).total_uncompressed_size for g in groups for j in range(g.num_columns)]
    largest = max(sizes, default=0)
    if largest > MAX_UNPACKED and largest > MAX_RATIO * path.stat().st_size:
        raise DataError(
            f"{path}: is damaged: a column would unpack to {largest:,} bytes, more than "
            f"{MAX_RATIO} times the file",
            path,
        )


def parquet_metadata(path: Path) -> dict[bytes, bytes]:
    """Keys and values that a Parquet file keeps beside its columns."""
    import pyarrow.parquet as pq

    require_file(path)
    with reading_parquet(path):
        return dict(pq.read_metadata(path).metadata or {})


def is_made(file: DataFile) -> bool:
    """Whether a data file holds reports or counts already."""
    if ending(file.path) == ".csv":
        return beside(file.path).exists()
    return KEY in file.metadata


@dataclass(frozen=True, eq=False)
class ReportBlock:
    """Consecutive reports of a file, with the columns asked for that are no attributes."""

    reports: Reports
    others: Table


def read_reports(
    path: Path,
    about: About,
    names: Sequence[str],
    others: Sequence[str] = (),
    size: int | None = None,
) -> Iterator[ReportBlock]:
    """Read some attributes of reports, a block at a time.

    Raises
    ------
    DataError
        If a column is absent or holds what the design cannot report, which names column and row; or
        if reports are missing from a CSV.
    """
    names = list(names)
    file = open_data(path)
    file.require(names)
    file.require(others)
    book = about.codebook.select(names)
    part = About(about.kind, book, about.design, about.simulated)
    sizes, labels, sets = (
        reported_sizes(about.design, part),
        reported_labels(part),
        set_sizes(about.design),
    )
    total = 0
    # A column may be both an attribute and the strata; it is read once.
    for block in file.blocks(list(dict.fromkeys([*names, *others])), size, sets=sets):
        n = len(block.table)
        total += n
        codes = np.zeros((n, len(names)), np.int64, order="F")
        packed = {}
        for j, (name, symbols) in enumerate(zip(names, sizes, strict=True)):
            values = block.table[name]
            if name in sets:
                packed[name] = _unpack(str(path), name, values, sets[name], block.offset)
            else:
                codes[:, j] = reported_codes(
                    str(path), name, values, labels[name], symbols, block.offset
                )
        reports = Reports(
            codes, book, block.offset, about.design.digest, about.simulated, sizes, packed
        )
        yield ReportBlock(reports, block.table.select(others))
    if about.n is not None and total != about.n:
        raise DataError(f"{path}: holds {total:,} reports; {about.n:,} were written", path)


def require_attributes(path: Path, about: About, names: Sequence[str]) -> None:
    """Raise DataError unless a file holds reports of all these attributes."""
    if about.kind != "reports":
        raise DataError(f"{path}: holds {about.kind}; files of reports are needed", path)
    for name in names:
        if name not in about.codebook.names:
            there = listed(about.codebook.names)
            raise DataError(f"{path}: holds no attribute {shown(name)}; there are {there}", name)


def all_reports(
    sources: Sequence[tuple[Path, About]], names: Sequence[str], others: Sequence[str] = ()
) -> Reports:
    """All reports of the files together, in memory: one or two bytes per answer.

    Parameters
    ----------
    sources : list of (Path, About)
        Files of reports of one design, as :func:`ppdm_dask.survey.open_sources` gives them.
    names : sequence of str
        Attributes.
    others : sequence of str
        Columns to keep beside them.

    Raises
    ------
    DataError
        If a file holds counts, lacks an attribute or column, or is not as it was written.
    """
    blocks = []
    for path, about in sources:
        require_attributes(path, about, names)
        blocks += [each for each in read_reports(path, about, names, others) if len(each.reports)]
    if not blocks:
        raise DataError(f"{sources[0][0]}: there are no reports; at least one is needed", sources)
    first, design = blocks[0].reports, sources[0][1].design
    return Reports(
        np.concatenate([each.reports.codes for each in blocks]),
        first.codebook,
        0,
        design.digest,
        any(each.reports.simulated for each in blocks),
        first.sizes,
        {n: np.concatenate([each.reports.sets[n] for each in blocks]) for n in first.sets},
        design=design,
        kept={n: np.concatenate([each.others[n].to_numpy() for each in blocks]) for n in others},
    )


def reported_codes(
    where: str, name: str, values: Column, labels: list[str] | None, symbols: int, offset: int
) -> Any:
    """Codes of what is written in a column of reports or counts.

    Raises
    ------
    DataError
        If something is not a report of the design; `where` begins the line, which names the row.
    """
    texts = list(map(str, range(symbols))) if labels is None else labels
    positions, found = values.coded()
    codes = look_up(positions, found, {text: code for code, text in enumerate(texts)}, -1)
    if codes.size and codes.min() < 0:
        row = int(np.argmax(codes < 0))
        value = None if positions[row] < 0 else found[positions[row]]
        raise _damaged(where, name, row + offset, value)
    return codes


def _unpack(where: str, name: str, values: Column, n_bytes: int, offset: int) -> Any:
    rows = []
    for row, value in enumerate(values.objects()):
        try:
            packed = bytes.fromhex(value) if isinstance(value, str) else bytes(value)
        except (TypeError, ValueError):
            packed = b""
        if len(packed) != n_bytes:
            raise _damaged(where, name, row + offset, value)
        rows.append(packed)
    return np.frombuffer(b"".join(rows), np.uint8).reshape(-1, n_bytes)


def _damaged(where: str, name: str, row: int, value: object) -> DataError:
    what = "there is no value" if value is None else f"{shown(value)} is not a report of the design"
    return DataError(f"{where}: column {shown(name)}, row {row}: {what}", value)
