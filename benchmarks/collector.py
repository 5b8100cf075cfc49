"""Submissions a second that a collector takes, beside one that commits each row by itself.

    python benchmarks/collector.py                        # SQLite, 10 s each, interleaved
    python benchmarks/collector.py --seconds 60
    python benchmarks/collector.py --database postgresql://...

Both serve the same page by uvicorn, one process each; connections are kept open, as by a proxy in
front.  CPU is that of the serving process, its start included.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing as mp
import os
import resource
import secrets
import socket
import sqlite3
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

import ppdm_dask as pp
from ppdm_dask.collect.questionnaire import Questionnaire
from ppdm_dask.files.fields import Table

BOOK = {
    "attribute": [
        {"name": "used", "categories": ["no", "yes"]},
        {"name": "often", "categories": ["never", "seldom", "daily"]},
        {"name": "region", "categories": ["north", "south"]},
    ]
}


def survey() -> pp.collect.Survey:
    book = pp.Codebook.from_config(BOOK)
    design = pp.Product([pp.Warner("used", 0.8), pp.KaryResponse("often", 3, 0.6)]).bind(book)
    asked = {"title": "t", "question": [{"attribute": n, "text": n} for n in book.names]}
    page = pp.collect.build_page(
        Questionnaire.from_table(Table(asked, "questionnaire")), book, design
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


def measure(
    which: Any, database: str, seconds: float, clients: int, rate: float = 0.0
) -> tuple[float, float, float, float]:
    """Submissions a second, median and 99th percentile in ms, CPU seconds of the server."""
    listening = socket.socket()
    listening.bind(("127.0.0.1", 0))
    listening.listen(1024)
    context = mp.get_context("spawn")
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    process = context.Process(target=which, args=(database, listening))
    process.start()
    port = listening.getsockname()[1]
    asyncio.run(_load(port, 1.0, 4, 0.0))
    found, times = asyncio.run(_load(port, seconds, clients, rate))
    process.terminate()
    process.join()
    listening.close()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    ms = [1000 * t for t in times]
    return found, statistics.median(ms), statistics.quantiles(ms, n=100)[98], spent


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--database", default="")
    given = parser.parse_args()
    rows: dict[str, list[float]] = {"ours": [], "naive": []}
    for _ in range(given.rounds):
        for name, which in (("ours", ours), ("naive", naive)):
            with tempfile.TemporaryDirectory(dir=os.environ.get("TMPDIR")) as folder:
                database = given.database or str(Path(folder) / "reports.db")
                found, median, worst, cpu = measure(which, database, given.seconds, given.clients)
            rows[name].append(found)
            print(
                f"{name:6} {found:8,.0f} /s  median {median:6.1f} ms  p99 {worst:6.1f} ms  "
                f"CPU {cpu:5.1f} s",
                flush=True,
            )
    rate = statistics.median(rows["ours"])
    print(f"ours over naive: {rate / statistics.median(rows['naive']):.2f}")
    with tempfile.TemporaryDirectory() as folder:
        database = given.database or str(Path(folder) / "reports.db")
        found, median, worst, _ = measure(
            ours, database, given.seconds, given.clients, rate=rate / 2
        )
    print(f"at half that load: {found:,.0f} /s, median {median:.1f} ms, p99 {worst:.1f} ms")


if __name__ == "__main__":
    main()
