"""Files that are whole or not there, for no more eyes than what they are made of."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from ppdm_dask.cli import main
from ppdm_dask.errors import RunFolderError
from ppdm_dask.files.writing import PART, remove_left_parts, replacing, write_text

WRITER = """
import os, signal, sys, time
from pathlib import Path
signal.signal(signal.SIGHUP, signal.SIG_DFL)  # tests may run where it is ignored
from ppdm_dask.files.writing import replacing
os.umask(0o022)
with replacing(Path("out.csv")) as aside:
    aside.write_text("true answers")
    print("ready", flush=True)
    time.sleep(60)
"""

CODEBOOK = '[[attribute]]\nname = "smokes"\ncategories = ["no", "yes"]\n'
DESIGN = 'id = "warner"\nattribute = "smokes"\ntheta = 0.8\n'


def start(folder: Path) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", WRITER], cwd=folder, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def modes(folder: Path) -> set[int]:
    return {path.stat().st_mode & 0o777 for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_signal_leaves_nothing(tmp_path: Path, number: signal.Signals) -> None:
    with start(tmp_path) as process:
        (part,) = tmp_path.iterdir()
        assert PART.fullmatch(part.name)
        assert part.stat().st_mode & 0o777 == 0o700
        assert modes(part) == {0o600}
        process.send_signal(number)
        process.wait(30)
    assert process.returncode in (-number, 1)
    assert list(tmp_path.iterdir()) == []


def test_a_kill_is_cleaned_up_after_and_living_writers_are_let_alone(tmp_path: Path) -> None:
    with start(tmp_path) as killed:
        (left,) = tmp_path.iterdir()
        killed.kill()
    # Its number may belong to another process by now: to this one, say.
    again = left.with_name(left.name.replace(f".{killed.pid}-", f".{os.getpid()}-"))
    left.rename(again)
    with start(tmp_path) as living:
        try:
            (there,) = tmp_path.iterdir()
            assert f".{living.pid}-" in there.name
            mine = [tmp_path / name for name in (".out.2024.csv", ".x.123-abc.part", "notes")]
            for path in mine:
                path.write_text("mine")
            remove_left_parts(tmp_path)
            assert {*tmp_path.iterdir()} == {there, *mine}
        finally:
            living.terminate()


def test_only_left_folders_are_removed_without_following_links(tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    kept.mkdir()
    (kept / "f").write_text("x")
    link = tmp_path / ".out.1-0123456789ab.part"
    link.symlink_to(kept)
    remove_left_parts(tmp_path)
    assert (kept / "f").read_text() == "x"


@pytest.mark.parametrize(
    ("inputs", "before", "mode"),
    [
        ([], None, 0o644),
        ([0o600], None, 0o600),
        ([0o644, 0o640], None, 0o640),
        ([0o664, 0o604], None, 0o604),
        ([0o444], None, 0o444),
        ([0o644], 0o600, 0o600),
        ([0o777], None, 0o644),
    ],
)
def test_no_wider_than_what_it_is_made_of(
    tmp_path: Path, inputs: list[int], before: int | None, mode: int
) -> None:
    paths = []
    for i, given in enumerate(inputs):
        paths.append(tmp_path / f"in{i}")
        paths[-1].write_text("x")
        paths[-1].chmod(given)
    out = tmp_path / "out.csv"
    if before is not None:
        out.write_text("older")
        out.chmod(before)
    usual = os.umask(0o022)
    try:
        write_text(out, "new", paths)
    finally:
        os.umask(usual)
    assert out.stat().st_mode & 0o777 == mode
    assert out.read_text() == "new"


def test_a_failure_keeps_what_was_there(tmp_path: Path) -> None:
    out = tmp_path / "out.csv"
    out.write_text("older")
    with pytest.raises(ZeroDivisionError), replacing(out) as aside:
        aside.write_text("half")
        raise ZeroDivisionError
    with pytest.raises(RunFolderError, match="cannot be written"), replacing(out) as aside:
        raise OSError(28, "No space left on device")
    assert [path.name for path in tmp_path.iterdir()] == ["out.csv"]
    assert out.read_text() == "older"


def test_many_writers_of_one_name(tmp_path: Path) -> None:
    """Threads that write, and one that cleans up all the time: every write arrives."""
    done = threading.Event()
    failed: list[Exception] = []

    def write(i: int) -> None:
        try:
            for j in range(20):
                write_text(tmp_path / "out.txt", f"{i} {j}\n")
        except RunFolderError as error:
            failed.append(error)

    def clean() -> None:
        while not done.is_set():
            remove_left_parts(tmp_path)

    cleaner = threading.Thread(target=clean)
    writers = [threading.Thread(target=write, args=(i,)) for i in range(4)]
    for thread in (cleaner, *writers):
        thread.start()
    for thread in writers:
        thread.join()
    done.set()
    cleaner.join()
    assert failed == []
    assert [path.name for path in tmp_path.iterdir()] == ["out.txt"]
    assert (tmp_path / "out.txt").read_text().endswith(" 19\n")


@pytest.mark.parametrize(
    ("out", "number"), [("r.parquet", signal.SIGKILL), ("r.csv", signal.SIGTERM)]
)
def test_a_disguise_that_is_ended_leaves_no_true_column(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, out: str, number: signal.Signals
) -> None:
    (tmp_path / "c.toml").write_text(CODEBOOK)
    (tmp_path / "d.toml").write_text(DESIGN)
    (tmp_path / "s.csv").write_text("smokes,name\n" + "yes,Zebulon\n" * 400_000)
    (tmp_path / "s.csv").chmod(0o600)
    arguments = ["disguise", "s.csv", "--out", out, "--codebook", "c.toml", "--design", "d.toml"]
    arguments += ["--keep-undisguised", "name"]
    command = [sys.executable, "-m", "ppdm_dask", *arguments, "--block", "200"]
    with subprocess.Popen(command, cwd=tmp_path) as process:
        deadline = time.monotonic() + 60
        while not (parts := list(tmp_path.glob(".r.*.part"))) and time.monotonic() < deadline:
            time.sleep(0.01)
        assert parts[0].stat().st_mode & 0o077 == 0
        assert modes(parts[0]) <= {0o600}
        process.send_signal(number)
        process.wait(60)
    assert process.returncode == -number
    assert bool(list(tmp_path.glob(".r.*"))) == (number == signal.SIGKILL)
    (tmp_path / "s.csv").write_text("smokes,name\nyes,Ann\n")
    monkeypatch.chdir(tmp_path)
    assert main(arguments) == 0
    made = [path for path in tmp_path.iterdir() if path.name.startswith(("r.", ".r."))]
    assert {path.name for path in made} - {"r.csv.about.json"} == {out}
    for path in made:
        assert path.stat().st_mode & 0o777 == 0o600
        assert b"Zebulon" not in path.read_bytes()


def test_a_folder_that_cannot_be_listed_or_is_gone(tmp_path: Path) -> None:
    remove_left_parts(tmp_path / "gone")
    with pytest.raises(RunFolderError, match="No such file"):
        write_text(tmp_path / "gone" / "x.txt", "x")
    shutil.rmtree(tmp_path)
