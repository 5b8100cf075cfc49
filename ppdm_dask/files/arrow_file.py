"""Arrow IPC files, which Feather files are from version 2 on: columns as they are in memory.

They carry no checksums, so each batch that is read is validated: a damaged one could otherwise
lead beyond the end of its memory.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Self

from ppdm_dask.errors import DataError
from ppdm_dask.files.arrow import ArrowColumns, column_types, reading, require_values
from ppdm_dask.files.datafile import AS_FOUND, Reading, open_bytes

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["ArrowFile"]

FEATHER_1 = b"FEA1"

STREAM = b"\xff\xff\xff\xff"


class ArrowFile(ArrowColumns):
    """An Arrow IPC file of one record batch or several, compressed or not."""

    format: ClassVar[str] = "Arrow"
    endings: ClassVar[tuple[str, ...]] = (".arrow", ".feather")

    @classmethod
    def open(cls, path: Path, content: bytes | None = None, how: Reading = AS_FOUND) -> Self:
        import pyarrow as pa

        with reading(path, cls.format), open_bytes(path, content) as source:
            begins = source.read(4)
            if begins == FEATHER_1:
                raise DataError(f"{path}: is Feather of version 1; write it with version 2", path)
            if begins == STREAM:
                raise DataError(
                    f"{path}: holds an Arrow stream, which may lack its end; write it as an Arrow "
                    "file (pyarrow.ipc.new_file)",
                    path,
                )
            source.seek(0)
            with pa.ipc.open_file(source) as file:
                schema = file.schema
            # Here, since names may be damaged too.
            names, types = column_types(schema)
        require_values(path, schema)
        return cls(path, names, types, content, dict(schema.metadata or {}))

    @contextmanager
    def _reading(self, coded: Collection[str] = ()) -> Iterator[_RecordBatches]:
        with reading(self.path, self.format):
            yield _RecordBatches(self)


class _RecordBatches:
    def __init__(self, file: ArrowFile) -> None:
        self._file = file

    @contextmanager
    def _open(self, columns: Sequence[str]) -> Iterator[pa.ipc.RecordBatchFileReader]:
        import pyarrow as pa

        # Without threads that would outlive the block, and without columns nobody asked for.
        fields = [self._file.columns.index(name) for name in columns]
        options = pa.ipc.IpcReadOptions(included_fields=fields, use_threads=False)
        content = self._file.content
        source = pa.OSFile(str(self._file.path)) if content is None else pa.BufferReader(content)
        with source, pa.ipc.open_file(source, options=options) as reader:
            yield reader

    @property
    def sizes(self) -> list[int]:
        with self._open(self._file.columns[:1]) as reader:
            return [reader.get_batch(i).num_rows for i in range(reader.num_record_batches)]

    def read(
        self, columns: Sequence[str], size: int, groups: Sequence[int] | None
    ) -> Iterator[pa.RecordBatch]:
        with self._open(columns) as reader:
            for i in range(reader.num_record_batches) if groups is None else groups:
                batch = reader.get_batch(i)
                batch.validate(full=True)
                for low in range(0, batch.num_rows, size):
                    yield batch.slice(low, size)
