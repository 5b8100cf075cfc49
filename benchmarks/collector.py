"""Submissions a second that a collector takes, beside one that commits each row by itself.

    python benchmarks/collector.py                        # SQLite, 10 s each, interleaved
    python benchmarks/collector.py --seconds 60 --postgres
    python benchmarks/collector.py --database postgresql://...

Both serve the same page by uvicorn, one process each; connections are kept open, as by a proxy in
front.  ``--postgres`` starts a server of PostgreSQL in a temporary folder, with its own defaults: a
commit waits for the disk.  CPU is that of the serving process while it is under load; the clients
and the database need the other cores.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import multiprocessing as mp
import os
import secrets
import shutil
import signal
import socket
import sqlite3
import statistics
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

import ppdm_dask as pp
from ppdm_dask.collect.questionnaire import Questionnaire
from ppdm_dask.files.fields import TomlTable

BOOK = {
    "attribute": [
        {"name": "used", "categories": ["no", "yes"]},
        {"name": "often", "categories": ["never", "seldom", "daily"]},
        {"name": "region", "categories": ["north", "south"]},
    ]
}


PROGRAMS = max(Path("/usr/lib/postgresql").glob("*/bin"), default=Path("/absent"))


@contextlib.contextmanager
def postgres() -> Iterator[str]:
    """A server of PostgreSQL on a socket in a temporary folder; its address."""
    folder = Path(tempfile.mkdtemp(prefix="pg-", dir=os.environ.get("TMPDIR")))
    how: dict[str, Any] = {"cwd": folder, "stdout": subprocess.DEVNULL}
    if os.getuid() == 0:  # as which it refuses to run
        shutil.chown(folder, "nobody")
        how |= {"user": "nobody", "extra_groups": []}
    data = str(folder / "data")
    made = [PROGRAMS / "initdb", "-D", data, "-U", "ppdm", "-A", "trust", "-E", "UTF8"]
    subprocess.run(made, check=True, **how)
    begun = [PROGRAMS / "postgres", "-D", data, "-k", folder, "-c", "listen_addresses="]
    server = subprocess.Popen(begun, stderr=subprocess.DEVNULL, **how)
    try:
        while subprocess.run([PROGRAMS / "pg_isready", "-h", folder, "-q"], check=False).returncode:
            time.sleep(0.1)
        yield f"postgresql:///postgres?host={folder}&user=ppdm"
    finally:
        server.send_signal(signal.SIGINT)  # a fast shutdown
        server.wait()
        shutil.rmtree(folder, ignore_errors=True)


def survey() -> pp.collect.Survey:
    book = pp.Codebook.from_config(BOOK)
    design = pp.Product([pp.Warner("used", 0.8), pp.KaryResponse("often", 3, 0.6)]).bind(book)
    asked = {"title": "t", "question": [{"attribute": n, "text": n} for n in book.names]}
    page = pp.collect.build_page(
        Questionnaire.from_table(TomlTable(asked, "questionnaire")), book, design
    )
    return pp.collect.Survey.of(page, ())


def ours(database: str, listening: socket.socket) -> None:
    made = survey()
    store = pp.collect.Store(database, made.id, made.text())
    limits = pp.collect.Limits(rate=0)
    _serve(pp.collect.collector(made, store, limits=limits), listening)


def naive(database: str, listening: socket.socket) -> None:
    """What one writes first: a row, a commit."""
    made = survey()
    if database.startswith("postgresql"):
        import psycopg

        db: Any = psycopg.connect(database)
        sql = "INSERT INTO naive VALUES (%s, %s)"
    else:
        db = sqlite3.connect(database)
        db.execute("PRAGMA synchronous = FULL")
        sql = "INSERT INTO naive VALUES (?, ?)"
    db.execute("CREATE TABLE IF NOT EXISTS naive (id TEXT PRIMARY KEY, report TEXT)")
    db.commit()

    async def reports(request: Request) -> Response:
        given = made.check(await request.body())
        db.execute(sql, (given.id, given.report))
        db.commit()
        return Response(status_code=201)

    _serve(Starlette(routes=[Route("/reports", reports, methods=["POST"])]), listening)


def _serve(app: Any, listening: socket.socket) -> None:
    config = uvicorn.Config(app, access_log=False, log_config=None, lifespan="on")
    asyncio.run(uvicorn.Server(config).serve(sockets=[listening]))


async def _client(
    port: int, body: dict[str, Any], ends: float, pause: float, times: list[float]
) -> int:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    done = 0
    while time.monotonic() < ends:
        content = json.dumps({**body, "id": secrets.token_hex(16)}).encode()
        head = (
            f"POST /reports HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\n"
            f"content-type: application/json\r\ncontent-length: {len(content)}\r\n\r\n"
        )
        began = time.perf_counter()
        writer.write(head.encode() + content)
        answer = await reader.readuntil(b"\r\n\r\n")
        times.append(time.perf_counter() - began)
        assert answer.startswith(b"HTTP/1.1 201"), answer
        done += 1
        if pause:
            await asyncio.sleep(max(pause - (time.perf_counter() - began), 0))
    writer.close()
    return done


async def _load(port: int, seconds: float, clients: int, rate: float) -> tuple[float, list[float]]:
    made = survey()
    body = {"survey": made.id, "design": made.design.digest, "report": [1, 2, 0]}
    ends, times = time.monotonic() + seconds, list[float]()
    pause = clients / rate if rate else 0.0
    done = await asyncio.gather(*(_client(port, body, ends, pause, times) for _ in range(clients)))
    return sum(done) / seconds, times


class Measured(NamedTuple):
    """Submissions a second, their median and 99th percentile in ms, CPU seconds a second."""

    rate: float
    median: float
    worst: float
    cpu: float

    def __str__(self) -> str:
        return (
            f"{self.rate:8,.0f} /s  median {self.median:6.1f} ms  p99 {self.worst:6.1f} ms  "
            f"CPU {self.cpu:4.2f}  {self.rate / self.cpu:8,.0f} /s a core"
        )


def measure(which: Any, database: str, seconds: float, clients: int, rate: float = 0.0) -> Measured:
    """Put a collector under load, all that it takes or `rate`."""
    listening = socket.socket()
    listening.bind(("127.0.0.1", 0))
    listening.listen(1024)
    context = mp.get_context("spawn")
    process = context.Process(target=which, args=(database, listening))
    process.start()
    port = listening.getsockname()[1]
    asyncio.run(_load(port, 1.0, 4, 0.0))
    before = _cpu(process.pid)
    found, times = asyncio.run(_load(port, seconds, clients, rate))
    spent = _cpu(process.pid) - before
    process.terminate()
    process.join()
    listening.close()
    ms = [1000 * t for t in times]
    return Measured(
        found, statistics.median(ms), statistics.quantiles(ms, n=100)[98], spent / seconds
    )


def _cpu(pid: int | None) -> float:
    """CPU seconds of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@contextlib.contextmanager
def database_of(given: argparse.Namespace) -> Iterator[str]:
    """The database of a run: the one that is named, a new PostgreSQL, or a new file."""
    if given.postgres:
        with postgres() as address:
            yield address
        return
    with tempfile.TemporaryDirectory(dir=os.environ.get("TMPDIR")) as folder:
        yield given.database or str(Path(folder) / "reports.db")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--database", default="")
    parser.add_argument("--postgres", action="store_true", help="start one in a temporary folder")
    given = parser.parse_args()
    rows: dict[str, list[Measured]] = {"ours": [], "naive": []}
    for _ in range(given.rounds):
        for name, which in (("ours", ours), ("naive", naive)):
            with database_of(given) as database:
                found = measure(which, database, given.seconds, given.clients)
            rows[name].append(found)
            print(f"{name:6} {found}  load {os.getloadavg()[0]:.1f}", flush=True)
    rates = {name: statistics.median(each.rate for each in found) for name, found in rows.items()}
    a_core = statistics.median(each.rate / each.cpu for each in rows["ours"])
    print(f"medians: ours {rates['ours']:,.0f} /s, {a_core:,.0f} /s a core", end="; ")
    print(f"naive {rates['naive']:,.0f} /s; ratio {rates['ours'] / rates['naive']:.2f}")
    with database_of(given) as database:
        found = measure(ours, database, given.seconds, given.clients, rate=rates["ours"] / 2)
    print(f"at half that load: {found}  load {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
