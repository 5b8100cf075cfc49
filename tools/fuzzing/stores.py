"""Damage to stores: rows of SQLite, members of NumPy's archives, variables of netCDF."""

from __future__ import annotations

import io
import sqlite3
import struct
import tempfile
import tokenize
import zipfile
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from fuzzing.chance import Chance
from fuzzing.rawbytes import damage_bytes
from fuzzing.trees import INTEGERS, LARGE, TEXTS

__all__ = ["damage_netcdf", "damage_npz", "damage_sqlite"]


def damage_sqlite(content: bytes, chance: Chance) -> bytes:
    """Change rows, tables or settings of a SQLite file."""

    def change(path: Path) -> None:
        with closing(sqlite3.connect(path)) as connection:
            for _ in range(chance.pick((1, 1, 2, 4))):
                _change_store(connection, chance)
            connection.commit()
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    return _through_file(content, change, (sqlite3.Error, OverflowError, UnicodeError))


def _change_store(connection: sqlite3.Connection, chance: Chance) -> None:
    tables = [
        name
        for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        if not name.startswith("sqlite_")
    ]
    if not tables:
        return
    table = chance.pick(sorted(tables))
    columns = [row[1] for row in connection.execute(f'PRAGMA table_info("{table}")')]
    rowids = [row[0] for row in connection.execute(f'SELECT rowid FROM "{table}"')]
    act = chance.below(10)
    if act <= 5 and rowids:
        column, row = chance.pick(columns), chance.pick(rowids)
        query = f'SELECT "{column}" FROM "{table}" WHERE rowid = ?'
        (value,) = connection.execute(query, (row,)).fetchone()
        setting = f'UPDATE OR IGNORE "{table}" SET "{column}" = ? WHERE rowid = ?'
        connection.execute(setting, (_other(value, chance), row))
    elif act == 6 and rowids:
        connection.execute(f'DELETE FROM "{table}" WHERE rowid = ?', (chance.pick(rowids),))
    elif act == 7:
        connection.execute(f'DROP TABLE "{table}"')
    elif act == 8:
        pragma = chance.pick(("user_version", "application_id"))
        connection.execute(f"PRAGMA {pragma} = {chance.pick((0, 1, 2, 99, -1))}")
    else:
        connection.execute(f'ALTER TABLE "{table}" RENAME COLUMN "{chance.pick(columns)}" TO "x"')


def _other(value: Any, chance: Chance) -> Any:
    if isinstance(value, bytes) and chance.coin(0.7):
        return damage_bytes(value, chance)
    small = [number for number in (*INTEGERS, *LARGE) if -(2**63) <= number < 2**63]
    texts = [text for text in TEXTS if "\ud800" not in text]
    return chance.pick(
        (None, chance.pick(small), chance.pick(texts), b"", b"\xff" * 9, 0.5, float("inf"))
    )


def damage_npz(content: bytes, chance: Chance) -> bytes:
    """Change members of an archive of arrays."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    for _ in range(chance.pick((1, 1, 2))):
        name = chance.pick(sorted(members)) if members else "a.npy"
        act = chance.below(8)
        if act == 0:
            members.pop(name, None)
        elif act == 1 and name in members:
            members[chance.pick(("x.npy", "../x.npy", "", "a" * 300))] = members.pop(name)
        elif act == 2:
            members[name] = _header(chance)
        elif act == 3 and name in members:
            members[name] = damage_bytes(members[name], chance)
        elif name in members:
            members[name] = _array(members[name], chance)
    out = io.BytesIO()
    method = chance.pick((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED))
    with zipfile.ZipFile(out, "w", method) as archive:
        for name, member in members.items():
            archive.writestr(zipfile.ZipInfo(name or "empty"), member, method)
    return out.getvalue()


def _header(chance: Chance) -> bytes:
    """A member whose header promises more than there is, or something else."""
    header = chance.pick(
        (
            "{'descr': '<f8', 'fortran_order': False, 'shape': (8589934592,), }",
            "{'descr': '<f8', 'fortran_order': False, 'shape': (-1,), }",
            "{'descr': '<f8', 'fortran_order': False, 'shape': (2, 2), }",
            "{'descr': '|O', 'fortran_order': False, 'shape': (), }",
            "{'descr': '<U1000000000', 'fortran_order': False, 'shape': (1,), }",
            "{'descr': 'x', 'fortran_order': 3, 'shape': 'y', }",
            "[" * 3_000,
            "",
        )
    )
    text = header.ljust(117).encode() + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + b"\x00" * 64


def _array(member: bytes, chance: Chance) -> bytes:
    try:
        array = np.load(io.BytesIO(member), allow_pickle=False)
    except (ValueError, EOFError, SyntaxError, OSError, MemoryError, tokenize.TokenError):
        return member  # damaged already
    act = chance.below(8)
    if act == 0:
        array = array.astype(chance.pick(("f4", "i8", "U10", "c16", "?", "f8", "S4")))
    elif act == 1:
        array = array.ravel()[: chance.below(array.size)]
    elif act == 2:
        array = array[None]
    elif act == 3 and array.size and array.dtype.kind in "fiu":
        array = array.copy()
        flat = array.reshape(-1)
        value = chance.pick((-1, 0, 2, np.iinfo("i8").max, np.nan, np.inf, 1e300))
        with np.errstate(all="ignore"):
            flat[chance.below(flat.size)] = np.asarray(value).astype(array.dtype)
        array = flat.reshape(array.shape)
    elif act == 4:
        array = np.zeros(chance.pick(((0,), (0, 3), (1,), (70_000,))), array.dtype)
    elif act == 5:
        array = np.concatenate([array.reshape(-1)] * 3)
    elif act == 6 and array.dtype.kind in "US":
        array = np.array(chance.pick(("", "{}", "null", "[" * 5_000, '{"a": 1}')))
    else:
        array = (
            array[..., ::-1] if array.ndim else array + array if array.dtype.kind == "f" else array
        )
    out = io.BytesIO()
    np.save(out, array, allow_pickle=False)
    return out.getvalue()


def damage_netcdf(content: bytes, chance: Chance) -> bytes:
    """Change variables or attributes of a netCDF file."""

    def change(path: Path) -> None:
        with h5py.File(path, "r+") as file:
            for _ in range(chance.pick((1, 1, 2, 3))):
                _change_variable(file, chance)

    known = (OSError, KeyError, ValueError, TypeError, RuntimeError, UnicodeError)
    return _through_file(content, change, known)


def _change_variable(file: h5py.File, chance: Chance) -> None:
    names = sorted(file)
    if not names:
        return
    name = chance.pick(names)
    act = chance.below(9)
    variable = file[name]
    if act == 0:
        del file[name]
    elif act == 1:
        file.move(name, chance.pick(("x", "accuracy", "cell", "é")))
    elif act <= 3:
        holder = file if chance.coin(0.5) else variable
        keys = sorted(holder.attrs)
        if keys:
            key = chance.pick(keys)
            if chance.coin(0.3):
                del holder.attrs[key]
            else:
                holder.attrs[key] = chance.pick(("", "x", "{}", "[" * 3_000, 3, -1.5, "a" * 5_000))
    elif act <= 6 and variable.size:
        values = variable[()]
        flat = np.atleast_1d(np.asarray(values)).copy().reshape(-1)
        if flat.dtype.kind in "fiu":
            value = chance.pick((0, -1, 2, 1e300, np.nan, np.inf, -np.inf))
            with np.errstate(all="ignore"):
                flat[chance.below(flat.size)] = np.asarray(value).astype(flat.dtype)
        else:
            flat[chance.below(flat.size)] = chance.pick(("", "x", "a" * 1_000))
        variable[...] = flat.reshape(np.shape(values))
    else:
        data = np.asarray(variable[()])
        del file[name]
        file[name] = data[..., None] if chance.coin(0.5) else data.reshape(-1)[:1]


def _through_file(
    content: bytes, change: Callable[[Path], None], known: tuple[type[Exception], ...]
) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "file"
        path.write_bytes(content)
        # Some changes contradict each other; what was done before stays.
        with suppress(*known):
            change(path)
        return path.read_bytes()
