"""Parquet: typed columns in row groups, each with checksums."""

from __future__ import annotations

import io
from collections.abc import Collection, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, ClassVar, Self

from ppdm_dask.files.arrow import ArrowColumns, column_types, is_texts, reading, require_values
from ppdm_dask.files.datafile import AS_FOUND, Reading

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

__all__ = ["ParquetFile", "reading_parquet"]


class ParquetFile(ArrowColumns):
    """A Parquet file, of one row group or several."""

    format: ClassVar[str] = "Parquet"
    endings: ClassVar[tuple[str, ...]] = (".parquet",)

    @classmethod
    def open(cls, path: Path, content: bytes | None = None, how: Reading = AS_FOUND) -> Self:
        import pyarrow.parquet as pq

        with reading_parquet(path), pq.ParquetFile(_source(path, content)) as file:
            schema, metadata = file.schema_arrow, dict(file.metadata.metadata or {})
            names, types = column_types(schema)
        require_values(path, schema)
        return cls(path, names, types, content, metadata)

    @contextmanager
    def _reading(self, coded: Collection[str] = ()) -> Iterator[_RowGroups]:
        import pyarrow.parquet as pq

        source = _source(self.path, self.content)
        # Pages hold texts as dictionaries already: unpacking them took most of the time.
        texts = [name for name in coded if is_texts(self.types[name])]
        with (
            reading_parquet(self.path),
            pq.ParquetFile(
                source,
                read_dictionary=texts,
                page_checksum_verification=True,
                # Else all bytes of the columns stay in memory until the last record is read.
                pre_buffer=False,
            ) as file,
        ):
            yield _RowGroups(file)


def _source(path: Path, content: bytes | None) -> Path | BinaryIO:
    """What pyarrow reads: the file itself, without Python between them, or its content."""
    return path if content is None else io.BytesIO(content)


def reading_parquet(path: Path) -> AbstractContextManager[None]:
    """Context in which what is wrong with a Parquet file becomes one line that names it."""
    return reading(path, ParquetFile.format)


@dataclass(frozen=True)
class _RowGroups:
    file: pq.ParquetFile

    @property
    def sizes(self) -> list[int]:
        metadata = self.file.metadata
        return [metadata.row_group(i).num_rows for i in range(metadata.num_row_groups)]

    def read(
        self, columns: Sequence[str], size: int, groups: Sequence[int] | None
    ) -> Iterator[pa.RecordBatch]:
        batches: Iterator[pa.RecordBatch] = self.file.iter_batches(
            size, row_groups=groups, columns=columns, use_threads=False
        )
        return batches
