"""The ledger of a run: every finished batch of repeats, in one SQLite file, each counted once."""

from __future__ import annotations

import json
import sqlite3
import zlib
from collections.abc import Iterable, Mapping
from itertools import groupby
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from ppdm_dask.engine.batches import Batch, Quarantined, contiguous, gaps
from ppdm_dask.engine.cells import Cell
from ppdm_dask.engine.store import (
    close_store,
    layout,
    mark_of,
    open_store,
    pack,
    reported,
    transaction,
    unpack,
)
from ppdm_dask.errors import PPDMError, RunFolderError
from ppdm_dask.files.lock import RunLock
from ppdm_dask.shown import shown

__all__ = ["Ledger"]


class Ledger:
    """Finished batches of a run, stored so that a killed run goes on where it was.

    One process writes, under an exclusive lock; any number may read, with ``readonly=True``, also
    while a run is on. A committed batch survives the end of the process by any signal; the file
    has to lie on a local file system, since SQLite's write-ahead log needs shared memory.

    Parameters
    ----------
    path : path
        The SQLite file; made if it is not there.
    readonly : bool
        Open for reading alone, without the lock.

    Raises
    ------
    RunFolderError
        If the file is in use by another run, is no ledger, is damaged, or cannot be written.
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
            What the batch cost, in seconds of work.

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
        """Half-open ranges of the cell's repeats that are stored, one a batch, in order."""
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
                "the run anew",
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
                    "move the file away to begin the run anew",
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
        """Fewest seconds a repeat among the stored batches of a cell; None without any."""
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
