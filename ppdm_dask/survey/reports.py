"""Files of reports: Parquet or CSV, written and read a block at a time."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ppdm_dask.errors import DataError
from ppdm_dask.experiments.files import replacing, write_text
from ppdm_dask.records import Reports
from ppdm_dask.survey.about import KEY, About
from ppdm_dask.survey.data import BLOCK, open_data, open_parquet

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

    from ppdm_dask.designs import Design

__all__ = [
    "ReportBlock",
    "about_file",
    "beside",
    "is_made",
    "read_reports",
    "reported_codes",
    "reported_labels",
    "reported_sizes",
    "writing",
]

Append = Callable[["Reports", "pd.DataFrame"], None]


def beside(path: Path) -> Path:
    """The file that says of a CSV of reports what made it, as Parquet says within."""
    return path.with_name(path.name + ".about.json")


def _set_sizes(design: Design) -> dict[str, int]:
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


@contextmanager
def writing(path: Path, about: About, kept: dict[str, Any]) -> Iterator[Append]:
    """Give a function that appends reports; the file is there whole, or not at all.

    Parameters
    ----------
    path : Path
        Ends in ``.parquet`` or ``.csv``; a CSV gets a file beside it that says what made it.
    about : About
    kept : dict of str to pyarrow.DataType
        Columns that are passed on as they are.
    """
    if path.suffix == ".parquet":
        with replacing(path) as aside, _parquet(aside, about, kept) as append:
            yield append
        return
    with replacing(path) as aside:
        with aside.open("w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow([*about.codebook.names, *kept])
            labels = reported_labels(about)
            total = 0

            def append_rows(reports: Reports, others: pd.DataFrame) -> None:
                nonlocal total
                total += len(reports)
                columns = [_texts(reports, name, labels[name]) for name in about.codebook.names]
                columns += [["" if v is None or v != v else v for v in others[n]] for n in kept]
                writer.writerows(zip(*columns, strict=True))

            yield append_rows
        # Before the reports: without it they cannot be told from others.
        write_text(beside(path), replace(about, n=total).text() + "\n")


def _texts(reports: Reports, name: str, labels: list[str] | None) -> Sequence[object]:
    if name in reports.sets:
        return [bytes(row).hex() for row in reports.sets[name]]
    codes = reports.column(name)
    texts: list[object] = codes.tolist() if labels is None else np.array(labels, object)[codes]
    return texts


@contextmanager
def _parquet(aside: Path, about: About, kept: dict[str, Any]) -> Iterator[Append]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    sets, labels = _set_sizes(about.design), reported_labels(about)
    fields = []
    for name in about.codebook.names:
        kind = pa.int32() if labels[name] is None else pa.dictionary(pa.int32(), pa.string())
        fields.append(pa.field(name, pa.binary(sets[name]) if name in sets else kind))
    fields += [pa.field(name, kind) for name, kind in kept.items()]
    schema = pa.schema(fields, metadata={KEY: about.text().encode()})
    with pq.ParquetWriter(aside, schema, write_page_checksum=True) as writer:

        def append(reports: Reports, others: pd.DataFrame) -> None:
            columns: list[pa.Array] = []
            for name in about.codebook.names:
                if name in sets:
                    rows = [bytes(row) for row in reports.sets[name]]
                    columns.append(pa.array(rows, pa.binary(sets[name])))
                    continue
                codes = pa.array(reports.column(name).astype(np.int32))
                if labels[name] is not None:
                    texts = pa.array(labels[name], pa.string())
                    codes = pa.DictionaryArray.from_arrays(codes, texts)
                columns.append(codes)
            columns += [
                pa.array(others[name], kind, from_pandas=True) for name, kind in kept.items()
            ]
            writer.write_table(pa.Table.from_arrays(columns, schema=schema))

        yield append


def about_file(path: Path) -> About:
    """What a file of reports or counts says of itself.

    Raises
    ------
    DataError
        If there is no such file, or it does not say.
    """
    if path.suffix == ".csv":
        open_data(path)
        about = beside(path)
        try:
            return About.read(about, about.read_text(encoding="utf-8"))
        except OSError:
            raise DataError(
                f"{path}: the file {about} that `ppdm disguise` wrote beside it is needed", path
            ) from None
        except UnicodeDecodeError:
            raise DataError(f"{about}: what it says of its design is damaged", about) from None
    if path.suffix != ".parquet":
        raise DataError(f"{path}: a file that ends in .csv or .parquet is needed", path)
    return About.read(path, (open_parquet(path).metadata or {}).get(KEY))


def is_made(path: Path) -> bool:
    """Whether a data file holds reports or counts already."""
    if path.suffix == ".csv":
        return beside(path).exists()
    return KEY in (open_parquet(path).metadata or {})


@dataclass(frozen=True, eq=False)
class ReportBlock:
    """Consecutive reports of a file, with the columns asked for that are no attributes."""

    reports: Reports
    others: pd.DataFrame


def read_reports(
    path: Path,
    about: About,
    names: Sequence[str],
    others: Sequence[str] = (),
    size: int = BLOCK,
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
        _set_sizes(about.design),
    )
    total = 0
    # A column may be both an attribute and the strata; it is read once.
    for block in file.blocks(list(dict.fromkeys([*names, *others])), size):
        n = len(block.frame)
        total += n
        codes = np.zeros((n, len(names)), np.int64, order="F")
        packed = {}
        for j, (name, symbols) in enumerate(zip(names, sizes, strict=True)):
            values = block.frame[name]
            if name in sets:
                packed[name] = _unpack(str(path), name, values, sets[name], block.offset)
            else:
                codes[:, j] = reported_codes(
                    str(path), name, values, labels[name], symbols, block.offset
                )
        reports = Reports(
            codes, book, block.offset, about.design.digest, about.simulated, sizes, packed
        )
        yield ReportBlock(reports, block.frame[list(others)])
    if about.n is not None and total != about.n:
        raise DataError(f"{path}: holds {total:,} reports; {about.n:,} were written", path)


def reported_codes(
    where: str, name: str, values: pd.Series, labels: list[str] | None, symbols: int, offset: int
) -> Any:
    """Codes of what is written in a column of reports or counts.

    Raises
    ------
    DataError
        If something is no report of the design; `where` begins the line, which names the row.
    """
    from ppdm_dask.coding import factorise, look_up

    texts = list(map(str, range(symbols))) if labels is None else labels
    positions, found = factorise(values)
    codes = look_up(positions, found, {text: code for code, text in enumerate(texts)}, -1)
    if codes.size and codes.min() < 0:
        row = int(np.argmax(codes < 0))
        value = None if positions[row] < 0 else found[positions[row]]
        raise _damaged(where, name, row + offset, value)
    return codes


def _unpack(where: str, name: str, values: pd.Series, n_bytes: int, offset: int) -> Any:
    rows = []
    for row, value in enumerate(values):
        try:
            packed = bytes.fromhex(value) if isinstance(value, str) else bytes(value)
        except (TypeError, ValueError):
            packed = b""
        if len(packed) != n_bytes:
            raise _damaged(where, name, row + offset, value)
        rows.append(packed)
    return np.frombuffer(b"".join(rows), np.uint8).reshape(-1, n_bytes)


def _damaged(where: str, name: str, row: int, value: object) -> DataError:
    what = "there is no value" if value is None else f"{value!r} is no report of the design"
    return DataError(f"{where}: column {name!r}, row {row}: {what}", value)
