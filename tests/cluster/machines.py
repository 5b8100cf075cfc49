"""What the tests of clusters start besides Dask: an SSH server, and how they look at processes."""

from __future__ import annotations

import getpass
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

ROOT = Path(__file__).resolve().parents[2]
PATH = f"{os.environ['PATH']}:/usr/sbin:/sbin"
SSHD = shutil.which("sshd", path=PATH)

needs_sshd = pytest.mark.skipif(SSHD is None, reason="needs sshd, of openssh-server")
needs_namespaces = pytest.mark.skipif(
    os.geteuid() != 0 or shutil.which("ip", path=PATH) is None,
    reason="needs root, and ip of iproute2",
)
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to mount a small disk")


def free_port() -> int:
    """A port of the loopback interface that nobody listens on."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port


def wait_for_port(port: int, host: str = "127.0.0.1", seconds: float = 30.0) -> None:
    end = time.monotonic() + seconds
    while True:
        try:
            socket.create_connection((host, port), timeout=1).close()
            return
        except OSError:
            assert time.monotonic() < end, f"nobody listens on {host}:{port}"
            time.sleep(0.05)


@dataclass(frozen=True)
class SSHServer:
    """An SSH server of the test's own, and how to reach it."""

    port: int
    key: Path
    known_hosts: Path
    process: subprocess.Popen[bytes]

    def profile(self) -> str:
        """A cluster profile of two workers over this server."""
        return (
            'kind = "ssh"\nworkers = 2\nmemory = "1 GiB"\nhosts = ["127.0.0.1"]\n'
            f'user = "{getpass.getuser()}"\nport = {self.port}\nkey = "{self.key}"\n'
            f'known_hosts = "{self.known_hosts}"\n'
        )


@contextmanager
def ssh_server(folder: Path) -> Iterator[SSHServer]:
    """Run an SSH server with its own configuration, keys and port, on the loopback interface."""
    assert SSHD is not None
    folder.mkdir()
    for name in ("host", "client"):
        command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / name)]
        subprocess.run(command, check=True, stdin=subprocess.DEVNULL)
    port = free_port()
    (folder / "authorized").write_text((folder / "client.pub").read_text())
    host_key = (folder / "host.pub").read_text()
    (folder / "known_hosts").write_text(f"[127.0.0.1]:{port} {host_key}")
    (folder / "config").write_text(
        f"Port {port}\nListenAddress 127.0.0.1\nHostKey {folder}/host\nPidFile none\n"
        f"AuthorizedKeysFile {folder}/authorized\nStrictModes no\nUsePAM no\n"
        "PasswordAuthentication no\nKbdInteractiveAuthentication no\nPermitRootLogin yes\n"
        f'SetEnv "PYTHONPATH={ROOT}:{ROOT / "tests" / "support"}"\n'
    )
    if os.geteuid() == 0:
        Path("/run/sshd").mkdir(exist_ok=True)
    with (folder / "log").open("wb") as log:
        command = [SSHD, "-D", "-e", "-f", str(folder / "config")]
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    try:
        wait_for_port(port)
        yield SSHServer(port, folder / "client", folder / "known_hosts", process)
    finally:
        process.terminate()
        process.wait()


def environment() -> dict[str, str]:
    """Variables for processes that have to find the package and the works of the tests."""
    return {**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'tests' / 'support'}"}


@contextmanager
def process(
    command: Sequence[str], log: Path, variables: Mapping[str, str] | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    """Run a program until the end of the context, then end it and its children."""
    with log.open("ab") as file:
        started = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=file,
            # With -m Python looks in the current folder first.
            cwd=log.parent,
            env={**environment(), **(variables or {})},
        )
    try:
        yield started
    finally:
        end(started)


def end(started: subprocess.Popen[bytes]) -> None:
    """End a process and its children, by force."""
    if started.poll() is None:
        children = psutil.Process(started.pid).children(recursive=True)
        for each in [started, *children]:
            with suppress(psutil.NoSuchProcess):
                each.kill()
        psutil.wait_procs(children, timeout=5)
    started.wait()


@dataclass(frozen=True)
class DaskProcesses:
    """Commands of Dask as ``cluster/scheduler.md`` has them, with certificates from a folder.

    Parameters
    ----------
    folder : Path
        For logs; certificates are in its folder ``certificates``.
    port : int
        The scheduler's.
    host : str
        Address at which the scheduler listens.
    """

    folder: Path
    port: int
    host: str = "127.0.0.1"

    @property
    def address(self) -> str:
        return f"tls://{self.host}:{self.port}"

    def profile(self, workers: int = 2) -> Path:
        """Write a cluster profile of this scheduler."""
        path = self.folder / "scheduler.toml"
        path.write_text(
            f'kind = "scheduler"\nworkers = {workers}\nmemory = "1 GiB"\n'
            f'address = "{self.address}"\nsecurity = "certificates"\n'
        )
        return path

    @contextmanager
    def scheduler(self) -> Iterator[subprocess.Popen[bytes]]:
        command = [sys.executable, "-m", "distributed.cli.dask_scheduler", "--protocol", "tls"]
        command += ["--host", self.host, "--port", str(self.port), *self._common("scheduler")]
        with process(command, self.folder / "scheduler.log") as started:
            wait_for_port(self.port, self.host)
            yield started

    @contextmanager
    def workers(
        self,
        number: int = 1,
        *,
        host: str = "127.0.0.1",
        within: Sequence[str] = (),
        variables: Mapping[str, str] | None = None,
    ) -> Iterator[subprocess.Popen[bytes]]:
        """Workers at an address; ``within`` is what comes before their command."""
        command = [*within, sys.executable, "-m", "distributed.cli.dask_worker", self.address]
        command += ["--host", host, "--nworkers", str(number), "--nthreads", "1"]
        command += ["--memory-limit", "1GiB", *self._common("worker")]
        given = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", **(variables or {})}
        with process(command, self.folder / "workers.log", given) as started:
            yield started

    def _common(self, role: str) -> list[str]:
        keys = self.folder / "certificates"
        return [
            *("--tls-ca-file", str(keys / "ca.pem"), "--tls-cert", str(keys / f"{role}.pem")),
            *("--tls-key", str(keys / f"{role}-key.pem"), "--dashboard-address", "127.0.0.1:0"),
        ]


@contextmanager
def network_namespaces(number: int) -> Iterator[list[tuple[str, str, str]]]:
    """Namespaces, each with a cable to this one; name, address there, and address here of each.

    Their names hold the process id, so that two test runs do not meet.
    """
    made = []
    try:
        for i in range(1, number + 1):
            name = f"pp{os.getpid() % 10**6}x{i}"
            here, there = f"10.213.{i}.1", f"10.213.{i}.2"
            made.append((name, there, here))
            ip("netns", "add", name)
            ip("link", "add", name, "type", "veth", "peer", "name", "eth0", "netns", name)
            ip("addr", "add", f"{here}/24", "dev", name)
            ip("link", "set", name, "up")
            ip("-n", name, "addr", "add", f"{there}/24", "dev", "eth0")
            ip("-n", name, "link", "set", "eth0", "up")
            ip("-n", name, "link", "set", "lo", "up")
            ip("-n", name, "route", "add", "default", "via", here)
        yield made
    finally:
        for name, _, _ in made:
            with suppress(subprocess.CalledProcessError):
                ip("link", "del", name)
            ip("netns", "del", name)


def ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True)


def listening(pids: Iterable[int]) -> set[str]:
    """Addresses at which processes listen, by the kernel's own tables."""
    found = set()
    for pid in pids:
        inodes = set()
        with suppress(OSError):
            for entry in Path(f"/proc/{pid}/fd").iterdir():
                with suppress(OSError):
                    target = os.readlink(entry)
                    if target.startswith("socket:["):
                        inodes.add(target[8:-1])
        for table, family in (("tcp", socket.AF_INET), ("tcp6", socket.AF_INET6)):
            with suppress(OSError):
                for line in Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]:
                    words = line.split()
                    if words[3] == "0A" and words[9] in inodes:
                        found.add(_address(words[1].partition(":")[0], family))
    return found


def _address(digits: str, family: int) -> str:
    # Groups of four bytes, each in the machine's order.
    words = [bytes.fromhex(digits[i : i + 8])[::-1] for i in range(0, len(digits), 8)]
    return socket.inet_ntop(family, b"".join(words))
