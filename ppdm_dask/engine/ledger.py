"""The ledger of a run: every finished batch of repeats, in one SQLite file, each counted once.

Arrays are stored as bytes that describe themselves: a JSON header, then raw little-endian values.
"""

from __future__ import annotations

import json
import sqlite3
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from itertools import groupby
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from ppdm_dask.engine.cells import Batch, Cell, Quarantined, contiguous, gaps
from ppdm_dask.errors import PPDMError, RunFolderError
from ppdm_dask.files.lock import RunLock
from ppdm_dask.shown import shown

__all__ = ["Ledger"]


# Booleans, integers, floats and complex numbers; objects would need pickle.
KINDS = "biufc"


def _little(dtype: np.dtype[Any]) -> np.dtype[Any]:
    return dtype.newbyteorder("<")


def layout(arrays: Mapping[str, npt.NDArray[Any]]) -> str:
    """Describe what all batches of a cell share: names, types, shapes behind the first axis.

    Raises
    ------
    TypeError
        If an array holds anything but plain numbers.
    """
    described = {}
    for name, array in arrays.items():
        if array.dtype.kind not in KINDS:
            raise TypeError(f"array {name!r} has type {array.dtype}; numbers are needed")
        described[name] = [_little(array.dtype).str, list(array.shape[1:])]
    return json.dumps(described, sort_keys=True, separators=(",", ":"))


def pack(arrays: Mapping[str, npt.NDArray[Any]]) -> bytes:
    """Arrays of plain numbers as bytes: header length (8 bytes, little-endian), header, values."""
    header = []
    chunks = []
    for name in sorted(arrays):
        array = arrays[name]
        dtype = _little(array.dtype)
        header.append({"name": name, "dtype": dtype.str, "shape": list(array.shape)})
        chunks.append(array.astype(dtype, copy=False).tobytes())
    text = json.dumps(header, separators=(",", ":")).encode()
    return b"".join([len(text).to_bytes(8, "little"), text, *chunks])


def unpack(payload: bytes) -> dict[str, npt.NDArray[Any]]:
    """Restore the arrays that :func:`pack` was given, as read-only views of ``payload``.

    Raises
    ------
    ValueError
        If the bytes do not hold what their header says.
    """
    end = 8 + int.from_bytes(payload[:8], "little")
    arrays = {}
    for entry in json.loads(payload[8:end]):
        dtype = np.dtype(entry["dtype"])
        shape = tuple(entry["shape"])
        count = int(np.prod(shape, dtype=np.int64))
        arrays[entry["name"]] = np.frombuffer(payload, dtype, count, offset=end).reshape(shape)
        end += count * dtype.itemsize
    if end != len(payload):
        raise ValueError(f"{len(payload)} bytes stored, {end} described")
    return arrays


APPLICATION_ID = 0x50504452
VERSION = 2

# A checksum is the CRC-32 of a payload, a mark that of the other columns of its row.
# Cell keys need 64 unsigned bits and SQLite's integers are signed, hence hexadecimal text.
SCHEMA = """
CREATE TABLE cells (
    key TEXT PRIMARY KEY,
    id TEXT NOT NULL,
    params TEXT NOT NULL,
    layout TEXT NOT NULL
) WITHOUT ROWID;
CREATE TABLE batches (
    cell TEXT NOT NULL REFERENCES cells (key),
    start INTEGER NOT NULL CHECK (start >= 0),
    stop INTEGER NOT NULL CHECK (stop > start),
    seconds REAL NOT NULL,
    checksum INTEGER NOT NULL,
    mark INTEGER NOT NULL,
    payload BLOB NOT NULL,
    PRIMARY KEY (cell, start)
);
"""
# Repeats that were given up, until they are stored after all.
QUARANTINE = """
CREATE TABLE IF NOT EXISTS quarantined (
    cell TEXT NOT NULL,
    start INTEGER NOT NULL,
    stop INTEGER NOT NULL,
    reason TEXT NOT NULL,
    mark INTEGER NOT NULL,
    PRIMARY KEY (cell, start, stop)
);
"""


@contextmanager
def reported(path: Path) -> Iterator[None]:
    """Turn what SQLite says of a file into one line that names it.

    Raises
    ------
    RunFolderError
        In place of any error of SQLite.
    """
    try:
        yield
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode == sqlite3.SQLITE_FULL:
            raise RunFolderError(
                f"{path}: the disk is full; what is stored is kept: make room there, then give "
                "the same command again",
                path,
            ) from error
        raise RunFolderError(f"{path}: this ledger cannot be used ({error})", path) from error
    except sqlite3.DatabaseError as error:
        raise RunFolderError(
            f"{path}: not a ledger, or damaged ({error}); move it away to begin the run again", path
        ) from error
    except (MemoryError, OverflowError, UnicodeDecodeError) as error:
        # Of a length that damage made, or a text; the error's own text may hold such a one.
        raise RunFolderError(
            f"{path}: this ledger is damaged; move it away to begin the run again", path
        ) from error


def mark_of(*values: object) -> int:
    """CRC-32 of the columns of a row: damage between the pages' structure is seen by it."""
    # repr writes floats in full, so that the mark of what is read is that of what was written.
    return zlib.crc32(repr(values).encode())


@contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """All of the statements inside, or none of them."""
    # IMMEDIATE takes the writer's lock now; later it could be refused in mid-transaction.
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def open_store(path: Path, *, readonly: bool) -> sqlite3.Connection:
    """Connect to a ledger's file and check it; a writer makes the tables where there are none.

    Raises
    ------
    RunFolderError
        If the file is another program's, or of another version.
    sqlite3.Error
        If SQLite cannot read it.
    """
    connection = _connect(path, readonly=readonly)
    try:
        empty = _recognise(connection, path)
        if not readonly:
            _prepare(connection, empty)
    except BaseException:
        connection.close()
        raise
    return connection


def close_store(connection: sqlite3.Connection, *, readonly: bool) -> None:
    """Close, leaving a single file that can be copied and read from anywhere."""
    if not readonly:
        # Refused while somebody reads; then the next writer does it.
        with suppress(sqlite3.Error):
            connection.execute("PRAGMA busy_timeout = 0")
            connection.execute("PRAGMA journal_mode = DELETE")
    connection.close()


def _connect(path: Path, *, readonly: bool) -> sqlite3.Connection:
    if path.exists() and not path.is_file() and not path.is_dir():
        # A pipe would be waited for; a folder SQLite refuses by itself.
        raise RunFolderError(f"{path}: this is a device or a pipe, not a ledger", path)
    address = path.absolute().as_uri() + ("?mode=ro" if readonly else "")
    # Statements commit by themselves unless a transaction is opened by name.
    return sqlite3.connect(address, uri=True, timeout=10.0, isolation_level=None)


def _recognise(connection: sqlite3.Connection, path: Path) -> bool:
    """Whether the file is still empty; an error if it is anything but a ledger."""
    application = connection.execute("PRAGMA application_id").fetchone()[0]
    empty: bool = connection.execute("PRAGMA schema_version").fetchone()[0] == 0
    if application != (0 if empty else APPLICATION_ID):
        raise RunFolderError(f"{path}: this SQLite file is not a ledger of a run", path)
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    if not empty and version != VERSION:
        raise RunFolderError(
            f"{path}: a ledger of version {version}; this program reads version {VERSION}", path
        )
    return empty


def _prepare(connection: sqlite3.Connection, empty: bool) -> None:
    damage = connection.execute("PRAGMA quick_check(1)").fetchone()[0]
    if damage != "ok":
        raise sqlite3.DatabaseError(str(damage).splitlines()[-1])
    connection.execute("PRAGMA journal_mode = WAL")
    # NORMAL survives the end of the process at any point. A power cut may take the last batches
    # with it, never tear one; they are then computed again.
    connection.execute("PRAGMA synchronous = NORMAL")
    if empty:
        connection.executescript(
            f"BEGIN; {SCHEMA} PRAGMA application_id = {APPLICATION_ID};"
            f"PRAGMA user_version = {VERSION}; COMMIT;"
        )
    connection.execute(QUARANTINE)


class Ledger:
    """Finished batches of a run, stored so that a killed run resumes where it was.

    One process writes, under an exclusive lock; any number may read, with ``readonly=True``, also
    during a run. A committed batch survives the end of the process by any signal; the file has to
    lie on a local file system, since SQLite's write-ahead log needs shared memory.

    Parameters
    ----------
    path : path
        The SQLite file; made if it is not there.
    readonly : bool
        Open only for reading, without the lock.

    Raises
    ------
    RunFolderError
        If the file is in use by another run, is not a ledger, is damaged, or cannot be written.
    """

    def __init__(self, path: str | Path, *, readonly: bool = False) -> None:
        self.path = Path(path)
        self.readonly = readonly
        self._lock: RunLock | None = None
        self._connection: sqlite3.Connection | None = None
        if readonly and not self.path.is_file():
            raise RunFolderError(f"{self.path}: there is no such ledger", self.path)
        if not readonly:
            self._lock = RunLock(self.path.with_name(self.path.name + ".lock"), self.path)
        try:
            with reported(self.path):
                self._connection = open_store(self.path, readonly=readonly)
        except BaseException:
            self.close()
            raise

    @property
    def _open(self) -> sqlite3.Connection:
        if self._connection is None:
            raise ValueError(f"{self.path}: this ledger is closed")
        return self._connection

    def commit(
        self,
        cell: Cell,
        start: int,
        stop: int,
        arrays: Mapping[str, npt.NDArray[Any]],
        seconds: float,
    ) -> None:
        """Store one batch, all of it or nothing.

        Parameters
        ----------
        cell : Cell
            The grid point.
        start, stop : int
            Half-open range of repeats.
        arrays : mapping of str to array
            Results, plain numbers; each array's first axis has length ``stop - start``.
        seconds : float
            Seconds of work on the batch.

        Raises
        ------
        PPDMError
            If a repeat of the range is stored already, or the arrays do not fit the range or what
            is stored of the cell. Nothing is then stored.
        RunFolderError
            If the file cannot be written.
        """
        batch = Batch(cell, start, stop)
        if not 0 <= start < stop:
            raise PPDMError(f"{batch}: the range of repeats is empty or negative", batch)
        for name, array in arrays.items():
            if array.shape[:1] != (stop - start,):
                raise PPDMError(
                    f"{batch}: array {shown(name)} has shape {array.shape}; "
                    f"its first axis must be {stop - start} repeats",
                    batch,
                )
        try:
            form = layout(arrays)
        except TypeError as error:
            raise PPDMError(f"{batch}: {error}", batch) from None
        payload = pack(arrays)
        key = _text(cell)
        connection = self._open
        with reported(self.path), transaction(connection):
            clash = connection.execute(
                "SELECT start, stop FROM batches WHERE cell = ? AND start < ? AND stop > ?",
                (key, stop, start),
            ).fetchone()
            if clash is not None:
                raise PPDMError(
                    f"{batch}: repeats {clash[0]} to {clash[1] - 1} are stored already", batch
                )
            params = json.dumps(dict(cell.params), sort_keys=True)
            connection.execute(
                "INSERT OR IGNORE INTO cells VALUES (?, ?, ?, ?)", (key, cell.id, params, form)
            )
            known = connection.execute("SELECT layout FROM cells WHERE key = ?", (key,)).fetchone()
            if known[0] != form:
                raise PPDMError(
                    f"{batch}: results of form {form}; earlier batches have {known[0]}", batch
                )
            row = key, int(start), int(stop), float(seconds), zlib.crc32(payload)
            connection.execute(
                "INSERT INTO batches VALUES (?, ?, ?, ?, ?, ?, ?)", (*row, mark_of(*row), payload)
            )

    def stored(self, cell: Cell) -> list[tuple[int, int]]:
        """Half-open ranges of the cell's stored repeats, one per batch, in order."""
        columns = "cell, start, stop, seconds, checksum, mark"
        with reported(self.path):
            rows = self._open.execute(
                f"SELECT {columns} FROM batches WHERE cell = ? ORDER BY start", (_text(cell),)
            ).fetchall()
        for row in rows:
            self._check(row, cell)
        return [(start, stop) for _, start, stop, *_ in rows]

    def _check(self, row: tuple[Any, ...], cell: Cell) -> None:
        """Raise RunFolderError unless the last column is the mark of the others."""
        *values, mark = row
        if mark != mark_of(*values):
            raise RunFolderError(
                f"{self.path}: an entry of cell {cell.id} is damaged; move the file away to begin "
                "the run again",
                self.path,
            )

    def missing(self, cells: Iterable[Cell]) -> list[Batch]:
        """Contiguous gaps in what is stored, in the order of the cells, then of the repeats."""
        return [
            Batch(cell, start, stop)
            for cell in cells
            for start, stop in gaps(self.stored(cell), cell.repeats)
        ]

    def quarantine(self, entry: Quarantined) -> None:
        """Remember that repeats were given up.

        Raises
        ------
        RunFolderError
            If the file cannot be written.
        """
        batch = entry.batch
        row = _text(batch.cell), int(batch.start), int(batch.stop), entry.reason
        with reported(self.path), transaction(self._open):
            self._open.execute(
                "INSERT OR REPLACE INTO quarantined VALUES (?, ?, ?, ?, ?)", (*row, mark_of(*row))
            )

    def quarantined(self, cells: Iterable[Cell]) -> list[Quarantined]:
        """Repeats that were given up and are missing still, in the order of the cells."""
        found = []
        for cell in cells:
            with reported(self.path):
                rows = self._open.execute(
                    "SELECT cell, start, stop, reason, mark FROM quarantined WHERE cell = ? "
                    "ORDER BY rowid",
                    (_text(cell),),
                ).fetchall()
            for row in rows:
                self._check(row, cell)
            # Of a repeat that was given up twice the later reason counts.
            reasons: dict[int, str] = {}
            for _, start, stop, reason, _ in rows:
                reasons |= dict.fromkeys(range(start, stop), reason)
            for gap in self.missing([cell]) if rows else ():
                given_up = sorted(r for r in reasons if gap.start <= r < gap.stop)
                for reason, run in groupby(given_up, key=reasons.__getitem__):
                    found += [Quarantined(part, reason) for part in contiguous(cell, run)]
        return found

    def finished(self, cell: Cell) -> npt.NDArray[np.int64]:
        """Numbers of the cell's repeats that are stored, increasing; the order of `collect`."""
        ranges = [
            np.arange(start, min(stop, cell.repeats), dtype=np.int64)
            for start, stop in self.stored(cell)
        ]
        return np.concatenate([np.empty(0, np.int64), *ranges])

    def collect(self, cell: Cell) -> dict[str, npt.NDArray[Any]]:
        """Results of all stored repeats of a cell below ``cell.repeats``, in order.

        In a partial run :meth:`finished` says which repeats they are. Without any, the dictionary
        is empty.

        Raises
        ------
        RunFolderError
            If a stored batch is damaged.
        """
        with reported(self.path):
            rows = self._open.execute(
                "SELECT cell, start, stop, seconds, checksum, mark, payload FROM batches "
                "WHERE cell = ? AND start < ? ORDER BY start",
                (_text(cell), cell.repeats),
            ).fetchall()
        parts: dict[str, list[npt.NDArray[Any]]] = {}
        for *row, payload in rows:
            self._check(tuple(row), cell)
            _, start, stop, _, checksum, _ = row
            if not isinstance(payload, bytes) or zlib.crc32(payload) != checksum:
                raise RunFolderError(
                    f"{self.path}: the results of {Batch(cell, start, stop)} are damaged; "
                    "move the file away to begin the run again",
                    self.path,
                )
            for name, array in unpack(payload).items():
                parts.setdefault(name, []).append(array[: cell.repeats - start])
        return {name: np.concatenate(arrays) for name, arrays in parts.items()}

    def cost(self, cell: Cell) -> tuple[float, int]:
        """Seconds of work spent on the stored repeats of a cell, and how many these are."""
        with reported(self.path):
            seconds, repeats = self._open.execute(
                "SELECT total(seconds), total(stop - start) FROM batches WHERE cell = ?",
                (_text(cell),),
            ).fetchone()
        return float(seconds), int(repeats)

    def work(self) -> tuple[float, int, int]:
        """Seconds of work on all stored batches, their repeats, and how many batches there are."""
        with reported(self.path):
            seconds, repeats, batches = self._open.execute(
                "SELECT total(seconds), total(stop - start), count(*) FROM batches"
            ).fetchone()
        return float(seconds), int(repeats), int(batches)

    def cheapest(self, cell: Cell) -> float | None:
        """Smallest time per repeat, in seconds, of the stored batches; None without any."""
        with reported(self.path):
            row = self._open.execute(
                "SELECT min(seconds / (stop - start)) FROM batches WHERE cell = ?", (_text(cell),)
            ).fetchone()
        return None if row[0] is None else float(row[0])

    def close(self) -> None:
        """Close the file and free the lock; a second call does nothing."""
        if self._connection is not None:
            close_store(self._connection, readonly=self.readonly)
            self._connection = None
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


def _text(cell: Cell) -> str:
    return f"{cell.key:016x}"
