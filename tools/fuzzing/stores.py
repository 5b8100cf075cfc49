"""Damage to stores: rows of SQLite, checkpoints of searches, variables of netCDF."""

from __future__ import annotations

import hashlib
import json
import sqlite3
import tempfile
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from fuzzing.chance import Chance
from fuzzing.rawbytes import damage_bytes
from fuzzing.trees import INTEGERS, LARGE, TEXTS, damage_tree

__all__ = ["damage_checkpoint", "damage_netcdf", "damage_sqlite"]


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


def damage_checkpoint(content: bytes, chance: Chance) -> bytes:
    """Change the header or the numbers of a search's checkpoint; mostly its checksum fits."""
    magic, digest, rest = content.split(b"\n", 2)
    end = 8 + int.from_bytes(rest[:8], "little")
    header, values = json.loads(rest[8:end]), rest[end:]
    if chance.coin(0.6):
        header = damage_tree(header, chance)
    else:
        values = damage_bytes(values, chance)
    text = json.dumps(header).encode("utf-8", "surrogatepass")
    length = chance.pick((1 << 62, 0, len(text) - 1)) if chance.coin(0.05) else len(text)
    rest = length.to_bytes(8, "little") + text + values
    if chance.coin(0.8):
        digest = hashlib.sha256(rest).hexdigest().encode()
    return b"\n".join([magic, digest, rest])


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
