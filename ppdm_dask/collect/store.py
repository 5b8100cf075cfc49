"""Where a collector keeps reports: SQLite, or PostgreSQL for several machines.

Of a submission, the report, its random name and the day are stored. The time of day, the sender and
the token are not.  Tables of SQLite are in the order of those names; within pages of its file, and
in its log of writes, the order of arrival can be seen until :meth:`Store.tidy` has rewritten them.
PostgreSQL keeps the order, and which writes came together, in columns of its own.
"""

from __future__ import annotations

import hmac
import os
import secrets
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from ppdm_dask.collect.survey import Submission
from ppdm_dask.errors import InputError, MachineError

__all__ = ["Outcome", "Store"]

Outcome = Literal["new", "same", "other", "token"]
"""Taken; had before; another report has this name; the token is absent, unknown or used."""

WAIT = 30.0
"""Seconds to wait for others who write to the same SQLite file."""

TABLES = (
    "surveys (survey TEXT PRIMARY KEY, salt TEXT NOT NULL, about TEXT NOT NULL)",
    "reports (survey TEXT NOT NULL, id TEXT NOT NULL, report TEXT NOT NULL, day TEXT NOT NULL, "
    "export INTEGER NOT NULL DEFAULT 0, PRIMARY KEY (survey, id))",
    "tokens (survey TEXT NOT NULL, hash TEXT NOT NULL, used INTEGER NOT NULL DEFAULT 0, "
    "PRIMARY KEY (survey, hash))",
    "exports (survey TEXT NOT NULL, number INTEGER NOT NULL, batch TEXT NOT NULL, "
    "PRIMARY KEY (survey, number))",
)


class Store:
    """The reports of one survey in a database that may hold several.

    Parameters
    ----------
    address : str or Path
        A file of SQLite, or an address that begins with ``postgresql://``.
    survey : str
        Id of the survey.
    about : str
        What ``survey.json`` says; it is kept with the reports.
    make : bool
        Whether a file of SQLite is made where there is none.

    Raises
    ------
    InputError
        If the database cannot be opened, or has another survey under this id.
    """

    def __init__(self, address: str | Path, survey: str, about: str, *, make: bool = True) -> None:
        self.survey = survey
        self._named = _bare(address)
        self._db: Any = None
        self.postgres = str(address).startswith(("postgresql://", "postgres://"))
        self._errors: tuple[type[Exception], ...] = (sqlite3.Error,)
        try:
            self._open(str(address), make)
            there = self._prepared(about)
        except (*self._errors, OSError) as error:
            self.close()
            raise InputError(f"{self._named}: {_line(error)}", address) from None
        except MachineError as error:
            self.close()
            raise InputError(str(error), address) from None
        if there != about:
            self.close()
            raise InputError(f"{self._named}: another survey has the id {survey}", address)

    def _prepared(self, about: str) -> str:
        """Make the tables that are not there, and enter the survey; what is kept of it."""
        with self._transaction():
            for table in TABLES:
                rowless = "" if self.postgres else " WITHOUT ROWID"
                self._run(f"CREATE TABLE IF NOT EXISTS {table}{rowless}")
            self._run(
                "INSERT INTO surveys VALUES (?, ?, ?) ON CONFLICT DO NOTHING",
                (self.survey, secrets.token_hex(16), about),
            )
            rows = self._run("SELECT salt, about FROM surveys WHERE survey = ?", (self.survey,))
            self._salt, there = rows.fetchone()
        return str(there)

    def _open(self, address: str, make: bool) -> None:
        if not self.postgres:
            # 0600: who may read the reports decides the one who starts the collector.
            os.close(os.open(address, os.O_RDWR | (os.O_CREAT if make else 0), 0o600))
            self._db = sqlite3.connect(
                address, timeout=WAIT, isolation_level=None, check_same_thread=False
            )
            self._db.execute("PRAGMA journal_mode = WAL")
            # An acknowledged report outlives a crash of the machine, not only of the program.
            self._db.execute("PRAGMA synchronous = FULL")
            return
        try:
            import psycopg
        except ImportError:
            raise InputError(
                'PostgreSQL needs psycopg: pip install "ppdm-dask[postgres]"', address
            ) from None
        self._errors = (psycopg.Error,)
        self._db = psycopg.connect(address, autocommit=True)

    def _run(self, sql: str, values: Sequence[Any] = ()) -> Any:
        try:
            return self._db.execute(sql.replace("?", "%s") if self.postgres else sql, values)
        except self._errors as error:
            raise MachineError(f"{self._named}: {_line(error)}") from None

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self._run("BEGIN" if self.postgres else "BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            with suppress(MachineError):  # what went wrong may have ended it already
                self._run("ROLLBACK")
            raise
        self._run("COMMIT")

    def close(self) -> None:
        """Close the database."""
        if self._db is not None:
            self._db.close()

    def tidy(self) -> None:
        """Rewrite a file of SQLite in the order of its tables, and empty its log of writes.

        Raises
        ------
        MachineError
            If it cannot be rewritten, as when another collector holds it.
        """
        if self.postgres:
            return
        self._run("VACUUM")
        busy, *_ = self._run("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        if busy:
            raise MachineError(f"{self._named}: others are reading it")

    # -- what collectors do ----------------------------------------------------------------------

    def add(self, batch: Sequence[Submission], tokens: bool) -> list[Outcome]:
        """Keep reports, all in one transaction; once it returns, none is lost.

        Parameters
        ----------
        batch : sequence of Submission
        tokens : bool
            Whether each needs a token that was not used.

        Raises
        ------
        MachineError
            If the database does not take them; then none is kept.
        """
        day = datetime.now(UTC).date().isoformat()
        try:
            with self._transaction():
                return self._add(batch, day, tokens)
        except MachineError as error:
            raise MachineError(f"reports cannot be stored: {error}") from None

    def _add(self, batch: Sequence[Submission], day: str, tokens: bool) -> list[Outcome]:
        """Decide on a batch in its order, with one statement of each kind for all of it."""
        known: dict[str, str] = {}
        hashes: dict[str, str] = {}
        unused: set[str] = set()
        if tokens:
            # A report that is here already is acknowledged again, whatever became of its token.
            known = self._known({given.id for given in batch})
            asking = {given.token for given in batch if given.token and given.id not in known}
            hashes = {token: self._hash(token) for token in asking}
            unused = self._unused(set(hashes.values()))
        fresh: dict[str, int] = {}
        spent: list[str] = []
        found: list[Outcome] = []
        for i, given in enumerate(batch):
            if given.id in fresh or given.id in known:
                found.append("same")  # unless another report is there; see below
                continue
            if tokens:
                token = hashes.get(given.token or "")
                if token not in unused:
                    found.append("token")
                    continue
                unused.discard(token)
                spent.append(token)
            fresh[given.id] = i
            found.append("new")
        self._spend(spent)
        rows = {id: batch[i].report for id, i in fresh.items()}
        kept = self._insert(rows, day)
        known |= {id: rows[id] for id in kept} | self._known(rows.keys() - kept)
        for i, given in enumerate(batch):
            if found[i] == "token" or (found[i] == "new" and given.id in kept):
                continue
            found[i] = "same" if known[given.id] == given.report else "other"
        return found

    def _of_each(self, sql: str, keys: Iterable[str]) -> list[Any]:
        """Rows of a statement on keys; in an order that is the same for all who write.

        Else two machines could wait for each other. PostgreSQL gets all keys at once, for its
        answers are far; SQLite is in this process.
        """
        given = sorted(keys)
        if not given:
            return []
        if self.postgres:
            return list(self._run(sql.replace("= $", "= ANY(?)"), (self.survey, given)))
        sql = sql.replace("= $", "= ?").replace(" FOR UPDATE", "")
        return [row for key in given for row in self._run(sql, (self.survey, key)).fetchall()]

    def _known(self, ids: Iterable[str]) -> dict[str, str]:
        rows = self._of_each("SELECT id, report FROM reports WHERE survey = ? AND id = $", ids)
        return {str(id): str(report) for id, report in rows}

    def _unused(self, hashes: Iterable[str]) -> set[str]:
        """Those of some tokens that are there and not used; nobody else uses them meanwhile."""
        rows = self._of_each(
            "SELECT hash FROM tokens WHERE survey = ? AND hash = $ AND used = 0 "
            "ORDER BY hash FOR UPDATE",
            hashes,
        )
        return {str(row[0]) for row in rows}

    def _spend(self, hashes: Iterable[str]) -> None:
        self._of_each(
            "UPDATE tokens SET used = 1 WHERE survey = ? AND hash = $ RETURNING hash", hashes
        )

    def _insert(self, rows: Mapping[str, str], day: str) -> set[str]:
        """Keep reports by their names; those that were not there."""
        ids = sorted(rows)
        if self.postgres:
            made = self._run(
                "INSERT INTO reports (survey, id, report, day) "
                "SELECT ?, given.id, given.report, ? "
                "FROM unnest(?::text[], ?::text[]) AS given (id, report) "
                "ON CONFLICT DO NOTHING RETURNING id",
                (self.survey, day, ids, [rows[id] for id in ids]),
            )
            return {str(row[0]) for row in made}
        sql = (
            "INSERT INTO reports (survey, id, report, day) VALUES (?, ?, ?, ?) "
            "ON CONFLICT DO NOTHING"
        )
        return {id for id in ids if self._run(sql, (self.survey, id, rows[id], day)).rowcount}

    def _hash(self, token: str) -> str:
        return hmac.digest(bytes.fromhex(self._salt), token.encode(), "sha256").hex()

    def make_tokens(self, n: int) -> list[str]:
        """New single-use tokens, of 128 random bits; only their salted hashes are kept."""
        made = [secrets.token_urlsafe(16) for _ in range(n)]
        with self._transaction():
            for token in made:
                self._run(
                    "INSERT INTO tokens (survey, hash) VALUES (?, ?)",
                    (self.survey, self._hash(token)),
                )
        return made

    # -- what the team asks ----------------------------------------------------------------------

    def days(self) -> Mapping[str, int]:
        """Reports by day."""
        rows = self._run(
            "SELECT day, count(*) FROM reports WHERE survey = ? GROUP BY day ORDER BY day",
            (self.survey,),
        )
        return {str(day): int(n) for day, n in rows.fetchall()}

    def counts(self) -> Mapping[str, int]:
        """How often each report was made."""
        rows = self._run(
            "SELECT report, count(*) FROM reports WHERE survey = ? GROUP BY report ORDER BY report",
            (self.survey,),
        )
        return {str(report): int(n) for report, n in rows.fetchall()}

    def tokens(self) -> tuple[int, int]:
        """Tokens, and how many of them were used."""
        row = self._run(
            "SELECT count(*), coalesce(sum(used), 0) FROM tokens WHERE survey = ?", (self.survey,)
        ).fetchone()
        return int(row[0]), int(row[1])

    # -- exports ---------------------------------------------------------------------------------

    def exports(self) -> list[tuple[int, str]]:
        """Exports so far: their numbers and the names of their batches."""
        rows = self._run(
            "SELECT number, batch FROM exports WHERE survey = ? ORDER BY number", (self.survey,)
        )
        return [(int(number), str(batch)) for number, batch in rows.fetchall()]

    def assign(self) -> int:
        """Give the reports that no export has yet to a new one; its number, 0 if there are none."""
        with self._transaction():
            last = self._run(
                "SELECT coalesce(max(number), 0) FROM exports WHERE survey = ?", (self.survey,)
            ).fetchone()[0]
            made = self._run(
                "UPDATE reports SET export = ? WHERE survey = ? AND export = 0",
                (int(last) + 1, self.survey),
            )
            if not made.rowcount:
                return 0
            self._run(
                "INSERT INTO exports VALUES (?, ?, ?)",
                (self.survey, int(last) + 1, secrets.token_hex(16)),
            )
        return int(last) + 1

    def of_export(self, number: int, block: int) -> Iterable[list[str]]:
        """The reports of an export, in the order of their random names."""
        last = ""
        while True:
            rows = self._run(
                "SELECT id, report FROM reports WHERE survey = ? AND export = ? AND id > ? "
                f"ORDER BY id LIMIT {int(block)}",
                (self.survey, number, last),
            ).fetchall()
            if not rows:
                return
            yield [str(report) for _, report in rows]
            last = str(rows[-1][0])


def _line(error: Exception) -> str:
    said = (isinstance(error, OSError) and error.strerror) or str(error)
    return " ".join(said.split()) or type(error).__name__


def _bare(address: str | Path) -> str:
    """An address without its password."""
    text = str(address)
    head, at, tail = text.rpartition("@")
    return f"{head.split('//')[0]}//{tail}" if at and "//" in head else text
