"""What the tests of clusters start besides Dask: an SSH server, and how they look at processes."""

from __future__ import annotations

import getpass
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SSHD = shutil.which("sshd", path=f"{os.environ['PATH']}:/usr/sbin")


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

    def profile(self, workers: int = 2, memory: str = "1 GiB") -> str:
        """A cluster profile of workers over this server."""
        return (
            f'kind = "ssh"\nworkers = {workers}\nmemory = "{memory}"\nhosts = ["127.0.0.1"]\n'
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
        f'SetEnv "PYTHONPATH={ROOT}:{ROOT / "tests"}"\n'
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
