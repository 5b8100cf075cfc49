"""Systems that lack something: places to write, semaphores, calls that only Linux has."""

from __future__ import annotations

import multiprocessing
import os
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from ppdm_dask.cli import main
from ppdm_dask.cluster import surroundings
from ppdm_dask.cluster.security import private_folder
from ppdm_dask.cluster.surroundings import usable_cores
from ppdm_dask.errors import RunFolderError
from ppdm_dask.files import lock
from ppdm_dask.files.writing import write_text

READ_ONLY = """
import os, pathlib
made = pathlib.Path.mkdir
def mkdir(self, *arguments, **options):
    if "kernels-" in self.name or ".cache" in self.parts:
        raise OSError(30, "Read-only file system", str(self))
    made(self, *arguments, **options)
pathlib.Path.mkdir = mkdir
access = os.access
os.access = lambda path, mode: not mode & os.W_OK and access(path, mode)
import numpy as np
import ppdm_dask.kernels
from ppdm_dask.kernels import {name}
import ppdm_dask.kernels.id3
print("imported")
"""


def test_kernels_without_a_folder_for_their_code(tmp_path: Path) -> None:
    """Numba finds "no locator" where package and home are read-only; nothing is cached then."""
    code = READ_ONLY.format(name="__name__")
    environment = {**os.environ, "HOME": str(tmp_path / "none")}
    for name in ("NUMBA_CACHE_DIR", "XDG_CACHE_HOME"):
        environment.pop(name, None)
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True
    )
    assert done.stdout == "imported\n", done.stderr
    assert done.stderr == (
        "ppdm: no folder for compiled code can be written, so that each process compiles for "
        "itself; NUMBA_CACHE_DIR may name one\n"
    )


def test_cores_where_the_system_does_not_say_which(monkeypatch: pytest.MonkeyPatch) -> None:
    assert usable_cores() == len(os.sched_getaffinity(0))
    monkeypatch.delattr(os, "sched_getaffinity")
    assert usable_cores() == os.cpu_count()
    monkeypatch.setattr(os, "cpu_count", lambda: None)
    assert usable_cores() == 1


def test_a_lock_without_flock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lock, "fcntl", None)
    path = tmp_path / "lock"
    held = lock.RunLock(path, tmp_path)
    with pytest.raises(RunFolderError, match=f"in use by process {os.getpid()};"):
        lock.RunLock(path, tmp_path)
    held.release()
    assert not path.exists()
    with subprocess.Popen([sys.executable, "-c", ""]) as ended:
        ended.wait()
    path.write_text(f"{ended.pid}\n")
    lock.RunLock(path, tmp_path).release()


def test_files_where_folders_are_not_synced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sync = os.fsync

    def fsync(descriptor: int) -> None:
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            raise OSError(22, "Invalid argument")
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    write_text(tmp_path / "text", "content")
    assert (tmp_path / "text").read_text() == "content"


def test_no_call_that_macos_lacks_stands_unguarded() -> None:
    """Such a call is in one place, which knows what to do without."""
    package = Path(surroundings.__file__).parents[1]
    lacking = ("sched_getaffinity", "memfd_create", "fcntl", "/proc/", "/dev/shm")
    found = {
        (path.name, what)
        for path in package.rglob("*.py")
        for what in lacking
        if what in path.read_text()
    }
    known = {
        ("surroundings.py", "sched_getaffinity"),
        ("surroundings.py", "/dev/shm"),
        ("security.py", "memfd_create"),
        ("security.py", "/proc/"),
        ("lock.py", "fcntl"),
        ("writing.py", "fcntl"),
    }
    assert found <= known, found - known


class NoSemaphores:
    """Python's way to start processes on a machine whose /dev/shm is full."""

    @staticmethod
    def Lock() -> None:
        raise OSError(28, "No space left on device")


def test_a_full_shared_memory_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(multiprocessing, "get_context", lambda *_: NoSemaphores)
    assert main(["cluster", "check", "local"]) == 3
    assert capsys.readouterr().err == (
        "ppdm: error: no worker can be started: the system has no semaphores for it "
        "(No space left on device); make room in /dev/shm, or stay in one process\n"
    )
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "text",
    [
        'kind = "scheduler"\nworkers = 1\nmemory = "1 GiB"\naddress = "tcp://127.0.0.1:9"\n',
        'kind = "ssh"\nworkers = 1\nmemory = "1 GiB"\nhosts = ["127.0.0.1"]\n',
    ],
)
def test_a_check_that_fails_leaves_nothing(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    text: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SSH_AUTH_SOCK", "")
    monkeypatch.setattr("ppdm_dask.cluster.client.CONNECT_SECONDS", 0.5)
    profile = tmp_path / "profile.toml"
    profile.write_text(text)
    assert main(["cluster", "check", str(profile)]) == 2
    assert [path.name for path in tmp_path.iterdir()] == ["profile.toml"]
    (line,) = capsys.readouterr().err.splitlines()
    assert "ppdm-cluster-" not in line


def test_a_temporary_folder_is_the_users_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    find = private_folder.__wrapped__
    name = tmp_path / f"ppdm-{os.getuid()}"
    assert find() == find() == name
    assert stat.S_IMODE(name.stat().st_mode) == 0o700
    # Another user's trap: a folder that others can write, or a link to one of theirs.
    name.chmod(0o777)
    assert find() != name
    name.rmdir()
    (tmp_path / "theirs").mkdir()
    name.symlink_to(tmp_path / "theirs")
    found = find()
    assert found != name and stat.S_IMODE(found.stat().st_mode) == 0o700
