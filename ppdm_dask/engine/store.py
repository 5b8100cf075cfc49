"""The SQLite file under a ledger: opening and checking it, and telling its faults in one line.

Beside it: arrays as bytes that describe themselves: a JSON header, then raw little-endian values.
"""

from __future__ import annotations

import json
import sqlite3
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ppdm_dask.errors import RunFolderError

__all__ = [
    "close_store",
    "layout",
    "mark_of",
    "open_store",
    "pack",
    "reported",
    "transaction",
    "unpack",
]


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
            f"{path}: not a ledger, or damaged ({error}); move it away to begin the run anew", path
        ) from error
    except (MemoryError, OverflowError, UnicodeDecodeError) as error:
        # Of a length that damage made, or a text; the error's own text may hold such a one.
        raise RunFolderError(
            f"{path}: this ledger is damaged; move it away to begin the run anew", path
        ) from error


def mark_of(*values: object) -> int:
    """CRC-32 of the columns of a row: damage between the pages' structure is seen by it."""
    return zlib.crc32(repr(values).encode())


@contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """All of the statements inside, or none of them."""
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
        raise RunFolderError(f"{path}: a device or a pipe, no ledger", path)
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
