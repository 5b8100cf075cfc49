"""The collector: what it takes, what it refuses, what it keeps, and what it never lets out."""

from __future__ import annotations

import http.client
import json
import logging
import os
import pwd
import secrets
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import ppdm_dask as pp
from ppdm_dask.cli import main
from ppdm_dask.collect import Limits, Store, Survey, build_page, collector, export_reports
from ppdm_dask.collect.questionnaire import Questionnaire
from ppdm_dask.collect.rehearsal import report_of
from ppdm_dask.collect.survey import Submission
from ppdm_dask.collect.team import team
from ppdm_dask.designs import SubsetSelection, UnaryEncoding
from ppdm_dask.errors import DataError, InputError, MachineError
from ppdm_dask.files.fields import TomlTable

uvicorn = pytest.importorskip("uvicorn")

BOOK = pp.Codebook.from_config(
    {
        "attribute": [
            {"name": "used", "categories": ["no", "yes"]},
            {"name": "drug", "categories": ["a", "b", "c", "d"]},
            {"name": "games", "categories": ["p", "q", "r"]},
            {"name": "region", "categories": ["north", "south"]},
        ]
    }
)
DESIGN = pp.Product(
    [
        pp.Warner("used", 0.8),
        SubsetSelection("drug", 4, 2, epsilon=1.0),
        UnaryEncoding("games", 3, epsilon=2.0),
    ]
).bind(BOOK)


def built(**more: Any) -> Survey:
    asked = {"title": "t", "question": [{"attribute": n, "text": n} for n in BOOK.names], **more}
    questionnaire = Questionnaire.from_table(TomlTable(asked, "q", error=InputError))
    return Survey.of(build_page(questionnaire, BOOK, DESIGN), ())


SURVEY = built()


def report(**more: Any) -> dict[str, Any]:
    return {
        "survey": SURVEY.id,
        "design": DESIGN.digest,
        "id": secrets.token_hex(16),
        "report": [1, [0, 3], [], 1],
        **more,
    }


@contextmanager
def served(app: Any, port: int = 0) -> Iterator[int]:
    """A real server of an application, in a thread; its port."""
    listening = socket.socket()
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listening.bind(("127.0.0.1", port))
    listening.listen(128)
    config = uvicorn.Config(app, log_config=None, access_log=False, lifespan="on")
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
    thread.start()
    try:
        while not server.started:
            time.sleep(0.01)
        yield listening.getsockname()[1]
    finally:
        server.should_exit = True
        thread.join()
        listening.close()


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    made = Store(tmp_path / "reports.db", SURVEY.id, SURVEY.text())
    yield made
    made.close()


def ask(
    port: int, body: Any, *, path: str = "/reports", method: str = "POST", **headers: str
) -> tuple[int, str, dict[str, str]]:
    """Status, text and headers of an answer."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    given = {"content-type": "application/json"} | {
        key.replace("_", "-"): value for key, value in headers.items()
    }
    # A server that is killed halfway through an answer leaves the connection to its client.
    with closing(connection):
        connection.request(method, path, content, given)
        answer = connection.getresponse()
        told = {key.lower(): value for key, value in answer.getheaders()}
        return answer.status, answer.read().decode(), told


# -- what it takes -------------------------------------------------------------------------------


def test_a_report_is_kept_once_however_often_it_is_sent(store: Store) -> None:
    with served(collector(SURVEY, store)) as port:
        sent = report()
        assert [ask(port, sent)[0] for _ in range(3)] == [201, 200, 200]
        assert ask(port, {**sent, "report": [0, [0, 3], [], 1]})[0] == 409
    assert store.counts() == {"[1,[0,3],[],1]": 1}


def test_many_at_once_are_each_kept_once(store: Store) -> None:
    app = collector(SURVEY, store, limits=Limits(rate=0))
    sent = [report() for _ in range(300)]
    with served(app) as port, ThreadPoolExecutor(16) as pool:
        found = list(pool.map(lambda body: ask(port, body)[0], [*sent, *sent]))
    assert sorted(found) == [200] * 300 + [201] * 300
    assert sum(store.counts().values()) == 300


def test_a_token_serves_one_report_and_its_repetition(store: Store) -> None:
    token, other = store.make_tokens(2)
    with served(collector(SURVEY, store, tokens=True)) as port:
        first = report(token=token)
        assert ask(port, report())[0] == 403
        assert ask(port, report(token="guess-0123456789"))[0] == 403
        assert ask(port, first)[0] == 201
        assert ask(port, first)[0] == 200
        assert ask(port, report(token=token))[0] == 403
        assert ask(port, report(token=other))[0] == 201
    assert store.tokens() == (2, 2)
    # Nothing in the file tells which token made which report, nor the tokens themselves.
    content = Path(store._db.execute("PRAGMA database_list").fetchone()[2]).read_bytes()
    assert token.encode() not in content
    columns = {
        table: [row[1] for row in store._db.execute(f"PRAGMA table_info({table})")]
        for table in ("reports", "tokens")
    }
    assert columns == {
        "reports": ["survey", "id", "report", "day", "export"],
        "tokens": ["survey", "hash", "used"],
    }
    # Without row ids, a table has no order but that of its keys, which are random.
    for table in columns:
        with pytest.raises(sqlite3.OperationalError, match="no such column: rowid"):
            store._db.execute(f"SELECT rowid FROM {table}")


def one_by_one(batches: list[list[Submission]], tokens: list[str] | None) -> list[list[str]]:
    """What becomes of submissions that come one after another: the rules, without a database."""
    kept: dict[str, str] = {}
    left = set(tokens or ())
    found = []
    for batch in batches:
        found.append(list[str]())
        for given in batch:
            if given.id in kept:
                found[-1].append("same" if kept[given.id] == given.report else "other")
            elif tokens is not None and given.token not in left:
                found[-1].append("token")
            else:
                left.discard(given.token or "")
                kept[given.id] = given.report
                found[-1].append("new")
    return found


def batches_of(seed: int, tokens: list[str] | None) -> list[list[Submission]]:
    """Batches in which few names, reports and tokens meet again and again."""
    draw = np.random.default_rng(seed)
    ids = [secrets.token_hex(16) for _ in range(6)]
    words = [None, "unknown-0123", *(tokens or [])]

    def one() -> Submission:
        word = words[draw.integers(len(words))]
        return Submission(ids[draw.integers(6)], f"[{draw.integers(2)}]", word)

    return [[one() for _ in range(draw.integers(1, 12))] for _ in range(4)]


@pytest.mark.parametrize("with_tokens", [False, True])
def test_a_batch_is_kept_as_if_each_came_alone(tmp_path: Path, with_tokens: bool) -> None:
    seen = set()
    for seed in range(25):
        store = Store(tmp_path / f"{seed}.db", SURVEY.id, SURVEY.text())
        tokens = store.make_tokens(4) if with_tokens else None
        batches = batches_of(seed, tokens)
        found = [store.add(batch, with_tokens) for batch in batches]
        assert found == one_by_one(batches, tokens)
        assert store.tokens()[1] == (sum(b.count("new") for b in found) if with_tokens else 0)
        seen |= {outcome for batch in found for outcome in batch}
        store.close()
    assert seen == {"new", "same", "other"} | ({"token"} if with_tokens else set())


# -- what it refuses -----------------------------------------------------------------------------

HTML = "<script>alert(1)</script>"
SQL = "'; DROP TABLE reports; --"

WRONG: list[tuple[Any, int]] = [
    (b"", 400),
    (b"{", 400),
    (b"[" * 4_000, 400),
    ([1], 422),
    ({}, 422),
    (report(answer="yes"), 422),
    (report(survey=SQL), 409),
    (report(design=HTML), 409),
    (report(id=SQL), 422),
    (report(id="0" * 31), 422),
    (report(id=None), 422),
    (report(report=HTML), 422),
    (report(report=[1, [0, 3], []]), 422),
    (report(report=[1, [0, 3], [], 1, 1]), 422),
    (report(report=[2, [0, 3], [], 1]), 422),
    (report(report=[-1, [0, 3], [], 1]), 422),
    (report(report=[True, [0, 3], [], 1]), 422),
    (report(report=[1.0, [0, 3], [], 1]), 422),
    (report(report=[SQL, [0, 3], [], 1]), 422),
    (report(report=[1, [0], [], 1]), 422),
    (report(report=[1, [3, 0], [], 1]), 422),
    (report(report=[1, [0, 0], [], 1]), 422),
    (report(report=[1, [0, 4], [], 1]), 422),
    (report(report=[1, 0, [], 1]), 422),
    (report(report=[1, [0, 3], [3], 1]), 422),
    (report(report=[[1], [0, 3], [], 1]), 422),
    (report(token=SQL), 403),
    (report(token=7), 403),
]


@pytest.fixture(scope="module")
def standing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[int, Store]]:
    made = Store(tmp_path_factory.mktemp("db") / "reports.db", SURVEY.id, SURVEY.text())
    app = collector(
        SURVEY,
        made,
        limits=Limits(rate=0, body=4_096, seconds=0.5),
        origins=("https://survey.example.org",),
    )
    with served(app) as port:
        yield port, made
    made.close()


@pytest.mark.parametrize(("body", "status"), WRONG)
def test_what_is_no_report_is_refused_without_a_word_of_it(
    standing: tuple[int, Store], caplog: pytest.LogCaptureFixture, body: Any, status: int
) -> None:
    port, kept = standing
    with caplog.at_level(logging.INFO):
        found, text, headers = ask(port, body)
    assert found == status
    assert text.count("\n") == 1
    assert headers["content-type"].startswith("text/plain")
    assert headers["x-content-type-options"] == "nosniff"
    # One line in our log, and neither it nor the answer holds anything that was sent.
    lines = [r.getMessage() for r in caplog.records if r.name.startswith("ppdm_dask")]
    assert len(lines) == 1
    assert lines[0].startswith(f"refused with {status}: ")
    for said in (text, lines[0]):
        assert HTML not in said and SQL not in said
    assert kept.counts() == {}


def test_large_slow_and_foreign_bodies_are_refused(standing: tuple[int, Store]) -> None:
    port, kept = standing
    assert ask(port, b" " * 5_000)[0] == 413
    assert ask(port, report(), content_type="text/plain")[0] == 415
    assert ask(port, report(), content_type="application/x-www-form-urlencoded")[0] == 415
    assert ask(port, report(), origin="https://evil.example.org")[0] == 403
    # A body in pieces does not say how long it is.
    with socket.create_connection(("127.0.0.1", port), timeout=30) as slow:
        slow.sendall(
            b"POST /reports HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n"
            b"transfer-encoding: chunked\r\n\r\n1\r\n{\r\n"
        )
        assert slow.recv(100).startswith(b"HTTP/1.1 408")
    with socket.create_connection(("127.0.0.1", port), timeout=30) as large:
        large.sendall(
            b"POST /reports HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n"
            b"transfer-encoding: chunked\r\n\r\n" + 5 * (b"400\r\n" + 1024 * b" " + b"\r\n")
        )
        assert large.recv(100).startswith(b"HTTP/1.1 413")
    assert kept.counts() == {}


@pytest.mark.parametrize(
    "path",
    ["/survey.json", "/../survey.json", "/..%2fsurvey.json", "/%2e%2e/etc/passwd", "/reports/1"],
)
def test_nothing_but_the_page_is_read(standing: tuple[int, Store], path: str) -> None:
    assert ask(standing[0], b"", path=path, method="GET")[0] == 404


def test_other_origins_send_only_if_they_are_named(standing: tuple[int, Store]) -> None:
    port, _ = standing
    named = "https://survey.example.org"
    status, _, headers = ask(port, b"", method="OPTIONS", origin=named)
    assert (status, headers["access-control-allow-origin"]) == (204, named)
    assert headers["access-control-allow-headers"] == "content-type"
    status, _, headers = ask(port, b"", method="OPTIONS", origin="https://evil.example.org")
    assert status == 403
    assert "access-control-allow-origin" not in headers
    assert ask(port, b"", method="GET")[0] == 405


def test_an_address_may_send_so_often(store: Store) -> None:
    app = collector(SURVEY, store, limits=Limits(rate=1, burst=3))
    with served(app) as port:
        found = [ask(port, report()) for _ in range(5)]
    assert [status for status, *_ in found] == [201, 201, 201, 429, 429]
    assert found[-1][2]["retry-after"] == "60"


# -- what it keeps -------------------------------------------------------------------------------


def simulated(n: int, stream: int) -> tuple[pp.Records, list[str]]:
    rng = np.random.default_rng(stream)
    codes = np.stack([rng.integers(k, size=n) for k in BOOK.shape], axis=1)
    records = pp.Records(codes, BOOK)
    made = DESIGN.disguise(records, pp.Stream.from_seed(stream))
    texts = [json.dumps(report_of(made, i), separators=(",", ":")) for i in range(n)]
    return records, texts


def test_exports_hold_each_report_once_and_estimate_as_the_reports_do(
    store: Store, tmp_path: Path
) -> None:
    _, texts = simulated(600, 3)
    ids = [secrets.token_hex(16) for _ in texts]
    store.add([Submission(i, t) for i, t in zip(ids[:400], texts[:400], strict=True)], False)
    out = tmp_path / "out"
    assert [n for _, n in export_reports(SURVEY, store, out)] == [400]
    store.add([Submission(i, t) for i, t in zip(ids[400:], texts[400:], strict=True)], False)
    assert [n for _, n in export_reports(SURVEY, store, out)] == [200]
    assert export_reports(SURVEY, store, out) == []
    # A file that was lost is written again, the same.
    before = (out / "reports-0001.parquet").read_bytes()
    (out / "reports-0001.parquet").unlink()
    assert [n for _, n in export_reports(SURVEY, store, out)] == [400]
    table = pd.read_parquet(out / "reports-0001.parquet")
    (tmp_path / "before.parquet").write_bytes(before)
    assert table.equals(pd.read_parquet(tmp_path / "before.parquet"))
    for over in ("used", "drug", "games", "region"):
        whole = pp.estimate(SURVEY.reports(texts), (over,), design=DESIGN)
        read = pp.estimate(str(out), (over,))
        assert read.values == pytest.approx(whole.values, abs=1e-12)
        assert read.variance == pytest.approx(whole.variance, rel=1e-9)


def test_a_survey_is_read_as_it_was_built_or_refused(tmp_path: Path) -> None:
    SURVEY.write(tmp_path)
    found = Survey.read(tmp_path)
    assert (found.id, found.design, found.codebook) == (SURVEY.id, SURVEY.design, BOOK)
    page = tmp_path / "index.html"
    page.write_text(page.read_text().replace("<main", "<main "))
    with pytest.raises(DataError, match=r"index\.html: is not the page that was built"):
        Survey.read(tmp_path)
    (tmp_path / "survey.json").write_text("{}")
    with pytest.raises(DataError, match="has no checksum"):
        Survey.read(tmp_path)
    with pytest.raises(DataError, match=r"there is no survey\.json"):
        Survey.read(tmp_path / "absent")


def test_a_database_has_one_survey_under_an_id(store: Store, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="another survey has the id"):
        Store(tmp_path / "reports.db", SURVEY.id, "{}")
    with pytest.raises(InputError, match="No such file or directory"):
        Store(tmp_path / "absent" / "reports.db", SURVEY.id, SURVEY.text())
    assert oct((tmp_path / "reports.db").stat().st_mode & 0o777) == "0o600"


def order_in(file: Path, known: list[str]) -> list[str]:
    """Names of reports by where they stand in the pages of a file, from the end of each."""
    content, size = file.read_bytes(), 4096
    places = {name: content.rfind(name.encode()) for name in known}
    assert min(places.values()) > 0
    return sorted(known, key=lambda name: (places[name] // size, -places[name]))


def test_a_file_that_is_tidied_shows_no_order_of_arrival(tmp_path: Path) -> None:
    store = Store(tmp_path / "reports.db", SURVEY.id, SURVEY.text())
    names = [secrets.token_hex(16) for _ in range(20)]
    for name in names:
        store.add([Submission(name, "[1,[0,3],[],1]")], False)
    store.tidy()
    assert (tmp_path / "reports.db-wal").stat().st_size == 0
    assert order_in(tmp_path / "reports.db", names) == sorted(names)
    other = Store(tmp_path / "reports.db", SURVEY.id, SURVEY.text())
    other._db.execute("BEGIN IMMEDIATE")
    store._db.execute("PRAGMA busy_timeout = 0")
    with pytest.raises(MachineError, match=r"reports\.db: database is locked"):
        store.tidy()
    other.close()
    store.close()


def test_an_export_never_takes_another_one_s_file_for_its_own(store: Store, tmp_path: Path) -> None:
    other = Store(tmp_path / "other.db", SURVEY.id, SURVEY.text())
    out = tmp_path / "out"
    for each in (store, other):
        each.add([Submission(secrets.token_hex(16), "[1,[0,3],[],1]")], False)
    export_reports(SURVEY, other, out)
    with pytest.raises(DataError, match=r"reports-0001\.parquet: holds reports of another survey"):
        export_reports(SURVEY, store, out)
    assert [n for _, n in export_reports(SURVEY, store, tmp_path / "own")] == [1]
    with pytest.raises(DataError, match="is a file; a folder is needed"):
        export_reports(SURVEY, store, out / "reports-0001.parquet")
    other.close()


@pytest.mark.parametrize(
    ("command", "said", "code"),
    [
        ("export PAGE --database none.db --out out", "none.db: No such file or directory", 2),
        ("export PAGE/index.html --database none.db --out out", "survey.json: cannot be read", 2),
        ("tokens PAGE --database PAGE/index.html -n 1 --out t", "file is not a database", 2),
        ("serve PAGE --database none.db --port PORT", "PORT: cannot listen there: Address", 2),
        ("serve PAGE --database none.db --origin https://x.org/", 'origin[0]: got "https://x', 2),
        ("serve PAGE --database none.db --certificate PAGE/index.html --key PAGE/index.html",
         "a certificate and its key are needed, in PEM", 2),
        ("rehearse PAGE rows.csv --to http://127.0.0.1:x/", "an address such as http://", 2),
        ("rehearse PAGE rows.csv --to http://127.0.0.1:PORT/", "is not a collector", 2),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_in_one_line_and_leaves_nothing(
    command: str,
    said: str,
    code: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    SURVEY.write("page")
    Path("rows.csv").write_text("used,drug,games,region\nyes,a,p,north\n")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        # Answers as no server of HTTP does.
        answering = threading.Thread(target=answer_oddly, args=(taken,), daemon=True)
        answering.start()
        port = str(taken.getsockname()[1])
        before = sorted(tmp_path.rglob("*"))
        words = command.replace("PAGE", "page").replace("PORT", port).split()
        assert main(["survey", *words]) == code
    found = capsys.readouterr()
    assert said.replace("PORT", port) in found.err and found.err.count("\n") == 1
    assert found.out == "" and sorted(tmp_path.rglob("*")) == before


def answer_oddly(taken: socket.socket) -> None:
    with suppress(OSError):
        connection, _ = taken.accept()
        with connection:
            connection.recv(65_536)
            connection.sendall(b"SSH-2.0-x\r\n")


def test_the_team_sees_estimates_and_never_a_report(store: Store) -> None:
    _, texts = simulated(4_000, 5)
    app = team(SURVEY, store, "secret", lambda: {201: 7})
    with served(app) as port:
        assert ask(port, b"", path="/", method="GET")[0] == 401
        assert ask(port, b"", path="/metrics", method="GET")[0] == 401
        assert ask(port, b"", path="/?token=wrong", method="GET")[0] == 401
        status, _, headers = ask(port, b"", path="/?token=secret", method="GET")
        assert status == 303 and "HttpOnly" in headers["set-cookie"]
        empty = ask(port, b"", path="/", method="GET", cookie="team=secret")[1]
        assert empty.count("cannot be known yet") == sum(BOOK.shape)
        store.add([Submission(secrets.token_hex(16), t) for t in texts], False)
        page = ask(port, b"", path="/", method="GET", cookie="team=secret")[1]
        metrics = ask(port, b"", path="/metrics", method="GET", authorization="Bearer secret")[1]
    made = pp.estimate(SURVEY.reports(texts), ("used",), design=DESIGN)
    lower, upper = made.ends(0.95)
    for value, low, high in zip(made.values, lower, upper, strict=True):
        assert f"{100 * value:.1f} %" in page
        assert f"{100 * low:.1f} to {100 * high:.1f} %" in page
    assert not any(text in page for text in texts)
    assert "ppdm_reports 4000\n" in metrics
    assert 'ppdm_answers_total{status="201"} 7\n' in metrics


# -- the program ---------------------------------------------------------------------------------


@contextmanager
def serving(folder: Path, database: str, *more: str) -> Iterator[tuple[Any, int]]:
    command = [sys.executable, "-m", "ppdm_dask", "survey", "serve", str(folder)]
    command += ["--database", database, "--port", "0", "--team-port", "0", "--rate", "0", *more]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        port = int(line.rsplit(":", 1)[1].strip("/\n"))
        ends = time.monotonic() + 60
        while True:
            try:
                assert ask(port, b"", path="/health", method="GET")[0] == 200
                break
            except OSError:
                assert time.monotonic() < ends and process.poll() is None
                time.sleep(0.05)
        yield process, port
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        for pipe in (process.stdout, process.stderr):
            if pipe is not None:
                pipe.close()


def send_until_it_ends(port: int, known: dict[str, str], gone: threading.Event) -> None:
    """Send reports, and remember those that were acknowledged."""
    while not gone.is_set():
        body = report(report=[int(secrets.randbelow(2)), [0, 3], [], 1])
        try:
            if ask(port, body)[0] == 201:
                known[body["id"]] = json.dumps(body["report"], separators=(",", ":"))
        except (OSError, http.client.HTTPException):
            return


@pytest.mark.cluster
def test_nothing_that_was_acknowledged_is_lost_whenever_it_is_killed(tmp_path: Path) -> None:
    SURVEY.write(tmp_path / "page")
    database = tmp_path / "reports.db"
    known: dict[str, str] = {}
    for round_ in range(8):
        gone = threading.Event()
        # A process that is killed alone is replaced; here all of them are.
        with serving(tmp_path / "page", str(database), "--workers", "1") as (process, port):
            senders = [
                threading.Thread(target=send_until_it_ends, args=(port, known, gone))
                for _ in range(4)
            ]
            for sender in senders:
                sender.start()
            time.sleep(0.02 + 0.04 * round_)
            os.killpg(process.pid, signal.SIGKILL)
            gone.set()
            for sender in senders:
                sender.join()
    kept = Store(database, SURVEY.id, SURVEY.text())
    rows = kept._db.execute("SELECT id, report FROM reports").fetchall()
    kept.close()
    assert len(known) > 100
    there = dict(rows)
    assert len(there) == len(rows)
    assert {id: there.get(id) for id in known} == known


@pytest.mark.cluster
def test_processes_share_a_database_are_replaced_and_end_in_order(tmp_path: Path) -> None:
    SURVEY.write(tmp_path / "page")
    database = str(tmp_path / "reports.db")
    with serving(tmp_path / "page", database, "--workers", "2") as (process, port):
        with ThreadPoolExecutor(8) as pool:
            found = list(pool.map(lambda _: ask(port, report())[0], range(200)))
        assert found == [201] * 200
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        os.kill(int(children[-1]), signal.SIGKILL)
        ends = time.monotonic() + 30
        while len(found) < 260:
            assert time.monotonic() < ends
            try:
                found.append(ask(port, report())[0])
            except (OSError, http.client.HTTPException):
                time.sleep(0.05)
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=30) == 0
    # Neither the log of writes nor anything else that was only needed meanwhile is left.
    assert not {*tmp_path.glob("reports.db-*")}
    kept = Store(database, SURVEY.id, SURVEY.text())
    assert sum(kept.counts().values()) >= found.count(201)
    kept.close()


@pytest.mark.cluster
def test_ctrl_c_ends_all_processes_quietly(tmp_path: Path) -> None:
    SURVEY.write(tmp_path / "page")
    with serving(tmp_path / "page", str(tmp_path / "reports.db")) as (process, port):
        assert ask(port, report())[0] == 201
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does
        assert process.wait(timeout=30) == 130
        assert process.stderr.read() == "ppdm: interrupted\n"
    assert not {*tmp_path.glob("reports.db-*")}


# -- PostgreSQL ----------------------------------------------------------------------------------

PROGRAMS = max(Path("/usr/lib/postgresql").glob("*/bin"), default=Path("/absent"))


@pytest.fixture(scope="module")
def postgres() -> Iterator[str]:
    """A server of the tests' own, on a socket in a folder of its own; its address."""
    folder = Path(tempfile.mkdtemp(prefix="pg-"))
    # It refuses to run as root, whose tests then start it as somebody else.
    nobody = pwd.getpwnam("nobody") if os.getuid() == 0 else None
    if nobody is not None:
        os.chown(folder, nobody.pw_uid, nobody.pw_gid)
    more: dict[str, Any] = {} if nobody is None else {"user": "nobody", "extra_groups": []}
    own: dict[str, Any] = {**more, "cwd": folder, "stdout": subprocess.DEVNULL}
    data = str(folder / "data")
    subprocess.run(
        [str(PROGRAMS / "initdb"), "-D", data, "-U", "ppdm", "-A", "trust", "-E", "UTF8"],
        check=True,
        **own,
    )
    server = subprocess.Popen(
        [str(PROGRAMS / "postgres"), "-D", data, "-k", str(folder), "-c", "listen_addresses="],
        stderr=subprocess.DEVNULL,
        **own,
    )
    address = f"postgresql:///postgres?host={folder}&user=ppdm"
    try:
        ends = time.monotonic() + 60
        ready = [str(PROGRAMS / "pg_isready"), "-h", str(folder), "-q"]
        while subprocess.run(ready, check=False).returncode:
            assert time.monotonic() < ends and server.poll() is None
            time.sleep(0.1)
        yield address
    finally:
        server.send_signal(signal.SIGINT)  # a fast shutdown
        server.wait(timeout=60)
        shutil.rmtree(folder, ignore_errors=True)


@pytest.mark.cluster
@pytest.mark.skipif(not PROGRAMS.is_dir(), reason="there is no PostgreSQL; apt-get install it")
def test_postgresql_keeps_what_sqlite_keeps(postgres: str, tmp_path: Path) -> None:
    _, texts = simulated(400, 8)
    given = [Submission(secrets.token_hex(16), text) for text in texts]
    stores = [
        Store(postgres, SURVEY.id, SURVEY.text()),
        Store(tmp_path / "reports.db", SURVEY.id, SURVEY.text()),
    ]
    for made in stores:
        assert made.add(given[:250], False) == ["new"] * 250
        assert made.add(given[:1], False) == ["same"]
        assert made.add([Submission(given[0].id, "[]")], False) == ["other"]
        assert [n for _, n in export_reports(SURVEY, made, tmp_path / str(made.postgres))] == [250]
        assert made.add(given[250:], False) == ["new"] * 150
        assert [n for _, n in export_reports(SURVEY, made, tmp_path / str(made.postgres))] == [150]
        (token,) = made.make_tokens(1)
        sent = Submission(secrets.token_hex(16), texts[0], token)
        again = Submission(secrets.token_hex(16), texts[0], token)
        assert made.add([sent, sent, again], True) == ["new", "same", "token"]
        assert made.tokens() == (1, 1)
    assert stores[0].counts() == stores[1].counts()
    assert stores[0].days() == stores[1].days()
    read = [pp.estimate(str(tmp_path / name), ("drug",)).values for name in ("True", "False")]
    assert read[0] == pytest.approx(read[1], abs=1e-12)
    for made in stores:
        made.close()


@pytest.mark.cluster
@pytest.mark.skipif(not PROGRAMS.is_dir(), reason="there is no PostgreSQL; apt-get install it")
@pytest.mark.parametrize("with_tokens", [False, True])
def test_postgresql_keeps_a_batch_as_if_each_came_alone(postgres: str, with_tokens: bool) -> None:
    for seed in range(10):
        store = Store(postgres, secrets.token_hex(16), SURVEY.text())
        tokens = store.make_tokens(4) if with_tokens else None
        batches = batches_of(seed, tokens)
        assert [store.add(each, with_tokens) for each in batches] == one_by_one(batches, tokens)
        store.close()


@pytest.mark.cluster
@pytest.mark.skipif(not PROGRAMS.is_dir(), reason="there is no PostgreSQL; apt-get install it")
def test_a_token_is_used_once_by_two_machines(postgres: str) -> None:
    ours = [Store(postgres, SURVEY.id, SURVEY.text()) for _ in range(4)]
    tokens = ours[0].make_tokens(40)

    def use(made: Store) -> list[str]:
        sent = [Submission(secrets.token_hex(16), "[1,[0,3],[],1]", token) for token in tokens]
        return [made.add([each], True)[0] for each in sent]

    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(use, ours))
    for each in zip(*found, strict=True):
        assert sorted(each) == ["new", "token", "token", "token"]
    for made in ours:
        made.close()
