"""Systems that lack something: places to write, semaphores, calls that only Linux has."""

from __future__ import annotations

import ast
import ctypes
import json
import multiprocessing
import os
import signal
import stat
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from small_recipe import CONFIG, changed, write_recipe

import ppdm_dask as pp
from ppdm_dask import system
from ppdm_dask.cli import main
from ppdm_dask.cluster.security import private_folder
from ppdm_dask.errors import RunFolderError
from ppdm_dask.files import lock, writing
from ppdm_dask.files.writing import remove_left_parts, write_text
from ppdm_dask.system import usable_cores

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
    monkeypatch.setattr(system, "fcntl", None)
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


def test_no_call_that_systems_lack_stands_unguarded() -> None:
    """Such a call is in one place, which knows what to do without."""
    package = Path(pp.__file__).parent
    lacking = (
        *("sched_getaffinity", "memfd_create", "fcntl", "/proc/", "/dev/shm", "os.fork", "getuid"),
        *("O_DIRECTORY", "O_NOFOLLOW", "O_NONBLOCK", "O_CLOEXEC", "SIGHUP", "SIGKILL", "pthread_"),
        *("os.pread", "os.pwrite", "os.killpg", "os.setsid", "kill(process"),
    )
    found = {
        (path.relative_to(package).as_posix(), what)
        for path in package.rglob("*.py")
        for what in lacking
        if what in (text := path.read_text(encoding="utf-8")) and what in code_of(text)
    }
    there = {(name, what) for name, what in found if name != "system.py"}
    assert there == {
        ("cluster/surroundings.py", "/dev/shm"),
        ("cluster/security.py", "memfd_create"),
        ("cluster/security.py", "/proc/"),
        ("cluster/jobs.py", "SIGHUP"),  # a helper of Slurm's, which is on Linux only
    }


def code_of(text: str) -> str:
    """A module without its comments and docstrings, whose words call nothing."""
    tree = ast.parse(text)
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            node.value.value = ""
    return ast.unparse(tree)


@pytest.fixture
def elsewhere(root: Path) -> dict[str, str]:
    """Environment of a system that lacks what Windows and macOS lack."""
    folders = (root / "tests" / "support" / "lacking", root)
    return {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, folders))}


def ppdm(where: Path, environment: dict[str, str], *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "ppdm_dask", *arguments],
        cwd=where,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize(
    ("name", "workers"),
    [
        pytest.param("small.toml", "0", id="here"),
        pytest.param("electronic-surveys", "0", id="main job", marks=pytest.mark.slow),
        pytest.param("electronic-surveys", "2", id="two", marks=pytest.mark.slow),
    ],
)
def test_a_sweep_has_its_digest_on_other_systems(
    tmp_path: Path, elsewhere: dict[str, str], name: str, workers: str
) -> None:
    """`make sweep REPEATS=20`, also by two workers, and a small one: as where nothing lacks."""
    small = write_recipe(tmp_path / "small.toml", changed("figure", CONFIG["figure"][:1]))
    recipe = str(small) if name == small.name else name
    expected = pp.run(recipe, repeats=20, workers=0, out=tmp_path / "here").digest
    run = ("run", recipe, "--repeats", "20", "--workers", workers, "--out", "runs")
    *_, said = ppdm(tmp_path, elsewhere, *run).splitlines()
    assert said == f"digest: {expected}"
    assert not [path for path in (tmp_path / "runs").iterdir() if path.name.startswith(".")]


@pytest.mark.slow
def test_a_survey_is_disguised_and_counted_on_other_systems(
    tmp_path: Path, elsewhere: dict[str, str]
) -> None:
    (tmp_path / "a.csv").write_text("used\n" + "yes\nno\nno\n" * 200)
    (tmp_path / "d.toml").write_text('id = "warner"\nattribute = "used"\ntheta = 0.8\n')
    ppdm(tmp_path, elsewhere, "codebook", "a.csv", "--out", "b.toml")
    both = ("--codebook", "b.toml", "--design", "d.toml")
    for out in ("r.parquet", "parts"):
        made = ppdm(
            tmp_path, elsewhere, "disguise", "a.csv", *both, "--simulate", "1", "--out", out
        )
        assert f"600 reports: {out}" in made
    found = json.loads(
        ppdm(tmp_path, elsewhere, "estimate", "parts", *both, "--over", "used", "--json")
    )
    # A third says yes; Warner's standard error at n = 600 is .033.
    value = next(c for c in found["cells"] if c["labels"]["used"] == "yes")["proportion"]
    assert abs(value - 1 / 3) < 6 * 0.033
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {"a.csv", "d.toml", "b.toml", "r.parquet", "parts"}


def test_parts_where_folders_are_not_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without locks a part that is left goes by its process and its age."""
    monkeypatch.setattr(writing, "open_folder", lambda *_, **__: None)
    with subprocess.Popen([sys.executable, "-c", ""]) as ended:
        ended.wait()
    old, young, ours = (
        tmp_path / f".r.{process}-{'0' * 11}{i}.part"
        for i, process in enumerate((ended.pid, ended.pid, os.getpid()))
    )
    for part in (old, young, ours):
        part.mkdir()
    for part in (old, ours):
        os.utime(part, (0, 0))
    assert remove_left_parts(tmp_path)
    assert sorted(tmp_path.iterdir()) == sorted([young, ours])
    write_text(tmp_path / "text", "content")
    assert (tmp_path / "text").read_text() == "content"


def test_signals_where_threads_are_sent_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(signal, "pthread_kill")
    monkeypatch.delattr(signal, "pthread_sigmask")
    come: list[int] = []
    before = signal.signal(signal.SIGTERM, lambda number, _: come.append(number))
    try:
        with system.blocked(signal.SIGTERM):
            system.send_to_thread(0, signal.SIGTERM)
            until = time.monotonic() + 5
            while not come and time.monotonic() < until:
                time.sleep(0.01)
    finally:
        signal.signal(signal.SIGTERM, before)
    assert come == [signal.SIGTERM]


class Kernel:
    """As much of Windows' kernel as asks about a process: 1 lives, 2 has ended, 3 is another's."""

    def OpenProcess(self, rights: int, inherited: bool, process: int) -> int:
        return process if process in (1, 2) else 0

    def GetLastError(self) -> int:
        return 5 if self.asked == 3 else 87

    def GetExitCodeProcess(self, handle: int, code: Any) -> int:
        code._obj.value = 259 if handle == 1 else 0
        return 1

    def CloseHandle(self, handle: int) -> int:
        return 1


def test_processes_of_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = Kernel()
    monkeypatch.setattr(ctypes, "windll", SimpleNamespace(kernel32=kernel), raising=False)
    found = {}
    for process in (1, 2, 3, 4):
        kernel.asked = process
        found[process] = system._lives_on_windows(process)
    assert found == {1: True, 2: False, 3: True, 4: False}


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


def test_a_user_without_a_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "getuid")
    monkeypatch.setenv("LOGNAME", "mia")
    mia = system.user()
    monkeypatch.setenv("LOGNAME", "tom")
    assert not system.has_owners() and mia != system.user()
