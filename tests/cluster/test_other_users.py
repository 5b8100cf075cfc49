"""Another user of this machine attacks every command that starts workers, and gets nothing."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pandas as pd
import psutil
import pytest
from distributed import LocalCluster
from stranger import WAYS

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.skipif(os.geteuid() != 0, reason="root is needed to become another user"),
]

STRANGER = Path(__file__).with_name("stranger.py")
UID = 54_321
MARKER = "marker-4f1d9c"

PPDM = [sys.executable, "-m", "ppdm_dask"]
COMMANDS = {
    "run": [*PPDM, "run", "multi-group", "--workers", "1", "--out", "run"],
    "run on a profile": [*PPDM, "run", "optrr", "--cluster", "local", "--out", "profile"],
    "reproduce": [*PPDM, "reproduce", "multi-group", "--workers", "1", "--out", "reproduce"],
    "perturb": [
        *(*PPDM, "perturb", "data.parquet", "--method", "aibr", "--k", "7", "--columns", "x"),
        *("--workers", "1", "--out", "released"),
    ],
    "cluster check": [*PPDM, "cluster", "check", "local"],
    "search": [
        sys.executable,
        "-c",
        "import time, ppdm_dask as pp\n"
        "from ppdm_dask.cluster.population import population_map\n"
        "def objective(P):\n"
        "    time.sleep(0.1)\n"
        "    return [[1 - p[0, 0], 1 - p[1, 1]] for p in P]\n"
        "with population_map(workers=1, worth_seconds=0) as population:\n"
        "    pp.optimize([0.3, 0.7], 1000, method='spea2', generations=50, objective=objective,\n"
        "                map=population)\n",
    ],
}
# Scheduler, nanny and worker.
PARTS = 3
SECONDS = 90.0


class Stranger:
    """The other user's process, and what it has told so far by port."""

    def __init__(self, pids: list[int], folders: list[str], since: float = 0.0) -> None:
        given = {"pids": pids, "folders": folders, "marker": MARKER, "since": since}
        self.process = subprocess.Popen(
            [sys.executable, str(STRANGER), str(UID), json.dumps(given)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.sent: set[int] = set()

    def attack(self, ports: set[int]) -> None:
        assert self.process.stdin is not None
        for port in sorted(ports - self.sent):
            self.process.stdin.write(f"{port}\n")
            self.process.stdin.flush()
        self.sent |= ports

    def end(self) -> tuple[dict[int, dict[str, str]], list[str]]:
        """What came of each port, and what could be read."""
        output, _ = self.process.communicate(timeout=60)
        *answers, last = [json.loads(line) for line in output.splitlines()]
        assert last["uid"] == UID
        return {each["port"]: each["found"] for each in answers}, last["read"]

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate()


def tree(pid: int) -> list[psutil.Process]:
    try:
        process = psutil.Process(pid)
        return [process, *process.children(recursive=True)]
    except psutil.NoSuchProcess:
        return []


def listening(processes: list[psutil.Process]) -> set[int]:
    """TCP ports at which these processes listen; on the loopback interface, all of them."""
    found = set()
    for process in processes:
        try:
            connections = process.net_connections(kind="inet")
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            continue
        for each in connections:
            if each.status == psutil.CONN_LISTEN:
                assert each.laddr.ip == "127.0.0.1"
                found.add(each.laddr.port)
    return found


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that everybody can enter, unlike pytest's."""
    with tempfile.TemporaryDirectory(prefix="ppdm-test-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        yield folder


def test_nobody_but_the_user_gets_in(open_folder: Path) -> None:
    began = time.time() - 1.0  # a file's time is that of the kernel's last tick
    temporary = open_folder / "tmp"
    temporary.mkdir()
    temporary.chmod(0o1777)
    groups = 40
    frame = pd.DataFrame({"x": np.arange(50_000.0 * groups), "who": MARKER})
    frame.to_parquet(open_folder / "data.parquet", row_group_size=50_000)
    (open_folder / "data.parquet").chmod(0o600)
    environment = {**os.environ, "TMPDIR": str(temporary)}
    with ExitStack() as stack:
        commands: dict[str, subprocess.Popen[bytes]] = {}
        for name, command in COMMANDS.items():
            with (open_folder / f"{name}.log").open("wb") as log:
                commands[name] = subprocess.Popen(
                    command,
                    cwd=open_folder,
                    env=environment,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,
                )
            stack.callback(end_group, commands[name])
        ports: dict[str, set[int]] = {name: set() for name in COMMANDS}
        pids: dict[str, set[int]] = {name: set() for name in COMMANDS}
        attacker = Stranger([], [])
        stack.callback(attacker.close)
        reader: Stranger | None = None
        end = time.monotonic() + SECONDS
        while min(map(len, ports.values())) < PARTS:
            assert time.monotonic() < end, (ports, logs(open_folder))
            for name, process in commands.items():
                ended = process.poll() is not None
                assert not ended or len(ports[name]) >= PARTS, (name, logs(open_folder))
                members = tree(process.pid)
                found = listening(members)
                pids[name] |= {member.pid for member in members}
                ports[name] |= found
                attacker.attack(found)
            time.sleep(0.05)
        everything = sorted(set().union(*pids.values()))
        reader = Stranger(everything, [str(open_folder), "/dev/shm", tempfile.gettempdir()], began)
        stack.callback(reader.close)
        read = reader.end()[1]
        found_at, _ = attacker.end()
    assert read == []
    for name, numbers in ports.items():
        reached = 0
        for port in numbers:
            for way, came in found_at[port].items():
                assert came in ("refused", "gone"), (name, port, way, came)
            reached += set(found_at[port].values()) == {"refused"}
        # A port that closed before it was tried shows nothing.
        assert reached >= PARTS, (name, found_at)


def end_group(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def logs(folder: Path) -> dict[str, str]:
    return {path.stem: path.read_text()[-400:] for path in folder.glob("*.log")}


def test_a_plain_cluster_would_answer(open_folder: Path) -> None:
    """The attack is one: a pool as Dask makes it answers, and a key in a file is found."""
    (open_folder / "key.pem").write_text("-----BEGIN PRIVATE KEY-----\n")
    (open_folder / "hidden.pem").write_text("-----BEGIN PRIVATE KEY-----\n")
    (open_folder / "hidden.pem").chmod(0o600)
    child = subprocess.Popen([sys.executable, "-c", "input()", MARKER], stdin=subprocess.PIPE)
    stranger = None
    try:
        with LocalCluster(
            n_workers=1,
            threads_per_worker=1,
            host="127.0.0.1",
            dashboard_address="127.0.0.1:0",
            silence_logs=False,
        ):
            stranger = Stranger([child.pid], [str(open_folder)])
            stranger.attack(listening(tree(os.getpid())))
            found_at, read = stranger.end()
    finally:
        if stranger is not None:
            stranger.close()
        child.communicate()
    ways = [way for found in found_at.values() for way, came in found.items() if "answer" in came]
    assert ways.count("dask") >= PARTS
    assert ways.count("http") >= 2
    assert set(ways) >= {"plain", "dask", "http"}
    assert set(WAYS) == set(next(iter(found_at.values())))
    assert read == [f"/proc/{child.pid}/cmdline", str(open_folder / "key.pem")]
