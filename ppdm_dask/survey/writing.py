"""Files of reports, written a block at a time."""

from __future__ import annotations

import csv
import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ppdm_dask.files.atomic import replacing, write_text
from ppdm_dask.files.cells import cell_texts
from ppdm_dask.files.regular import ending
from ppdm_dask.survey.about import KEY, About
from ppdm_dask.survey.checksums import EMPTY, PLACE, file_checksum, seal
from ppdm_dask.survey.reports import beside, reported_labels, set_sizes

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

    from ppdm_dask.records import Reports

__all__ = ["writing"]

Append = Callable[["Reports", "pd.DataFrame"], None]


@contextmanager
def writing(
    path: Path, about: About, kept: dict[str, Any], inputs: Iterable[Path] = ()
) -> Iterator[Append]:
    """Give a function that appends reports; the file is there whole, or not at all.

    Parameters
    ----------
    path : Path
        Ends in ``.parquet`` or ``.csv``; a CSV gets a file beside it that says what made it.
    about : About
    kept : dict of str to pyarrow.DataType
        Columns that are passed on as they are.
    inputs : iterable of Path
        Files of answers: whoever may not read all of them may not read the reports.
    """
    summary, given = _Summary(about), tuple(inputs)
    with replacing(path, given) as aside:
        if ending(path) == ".parquet":
            with _parquet(aside, about, kept, summary) as append:
                yield append
            seal(aside)
            return
        with aside.open("w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow([*about.codebook.names, *kept])
            labels = reported_labels(about)

            def append_rows(reports: Reports, others: pd.DataFrame) -> None:
                summary.add(reports, others)
                columns = [_texts(reports, name, labels[name]) for name in about.codebook.names]
                columns += [cell_texts(others[name]) for name in kept]
                writer.writerows(zip(*columns, strict=True))

            yield append_rows
        # Before the reports: without it they cannot be told from others.
        made = replace(summary.about(), data=file_checksum(aside))
        write_text(beside(path), made.text() + "\n", given)


class _Summary:
    """How many reports are written, and a digest of each column of truth among them."""

    def __init__(self, about: About) -> None:
        self._about = about
        self._n = 0
        self._digests = {name: hashlib.sha256() for name in about.undisguised}

    def add(self, reports: Reports, others: pd.DataFrame) -> None:
        self._n += len(reports)
        for name, digest in self._digests.items():
            if name in self._about.codebook.names:
                labels = np.array(self._about.codebook[name].categories, object)
                values = labels[reports.column(name)].tolist()
            else:
                values = cell_texts(others[name])
            for value in values:
                text = value.encode()
                digest.update(len(text).to_bytes(8, "little") + text)

    def about(self) -> About:
        kept = {name: digest.hexdigest() for name, digest in self._digests.items()}
        return replace(self._about, n=self._n, kept=kept)


def _texts(reports: Reports, name: str, labels: list[str] | None) -> Sequence[object]:
    if name in reports.sets:
        return [bytes(row).hex() for row in reports.sets[name]]
    codes = reports.column(name)
    texts: list[object] = codes.tolist() if labels is None else np.array(labels, object)[codes]
    return texts


@contextmanager
def _parquet(
    aside: Path, about: About, kept: dict[str, Any], summary: _Summary
) -> Iterator[Append]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    sets, labels = set_sizes(about.design), reported_labels(about)
    fields = []
    for name in about.codebook.names:
        kind = pa.int32() if labels[name] is None else pa.dictionary(pa.int32(), pa.string())
        fields.append(pa.field(name, pa.binary(sets[name]) if name in sets else kind))
    fields += [pa.field(name, kind) for name, kind in kept.items()]
    schema = pa.schema(fields)
    with pq.ParquetWriter(aside, schema, write_page_checksum=True) as writer:

        def append(reports: Reports, others: pd.DataFrame) -> None:
            summary.add(reports, others)
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
        writer.add_key_value_metadata({KEY: summary.about().text().encode(), PLACE: EMPTY})
