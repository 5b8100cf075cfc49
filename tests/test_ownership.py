"""Two commands that write one file: one of them ends with one line, and nothing is lost."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from ppdm_dask.cli import main
from ppdm_dask.cli.options import require_new
from ppdm_dask.errors import InputError, RunFolderError
from ppdm_dask.files.lock import own, release_all

BOOK = '[[attribute]]\nname = "a"\ncategories = ["x", "y"]\n'
DESIGN = 'id = "warner"\nattribute = "a"\ntheta = 0.75\n'
HOLD = """
import sys, time
from pathlib import Path
from ppdm_dask.files.lock import own
own(Path(sys.argv[1]))
print("held", flush=True)
sys.stdin.read()
"""


@pytest.fixture(autouse=True)
def nothing_is_held_afterwards():
    yield
    release_all()


class Holder:
    """Another process that is writing a file."""

    def __init__(self, out: Path) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", HOLD, str(out)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == "held\n"

    def __enter__(self) -> subprocess.Popen[str]:
        return self.process

    def __exit__(self, *_: object) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.communicate()


@pytest.fixture
def survey(tmp_path: Path) -> Path:
    (tmp_path / "codebook.toml").write_text(BOOK)
    (tmp_path / "design.toml").write_text(DESIGN)
    (tmp_path / "answers.csv").write_text("a\n" + "x\ny\ny\n" * 40)
    (tmp_path / "prior.toml").write_text('attribute = "a"\n[prior]\nx = 0.4\ny = 0.6\n')
    both = ["--codebook", "codebook.toml", "--design", "design.toml"]
    cwd = Path.cwd()
    os.chdir(tmp_path)
    try:
        assert main(["disguise", "answers.csv", *both, "--simulate", "1", "--out", "r.csv"]) == 0
    finally:
        os.chdir(cwd)
    return tmp_path


BOTH = ["--codebook", "codebook.toml", "--design", "design.toml"]
COMMANDS = {
    "count": (["count", "r.csv", *BOTH, "--out", "c.parquet"], "c.parquet"),
    "disguise": (["disguise", "answers.csv", *BOTH, "--out", "q.csv"], "q.csv"),
    "estimate": (["estimate", "r.csv", *BOTH, "--over", "a", "--out", "e.json"], "e.json"),
    "codebook": (["codebook", "answers.csv", "--out", "b.toml"], "b.toml"),
    "optimize": (
        ["optimize", "--prior", "prior.toml", "--n", "100", "--method", "bound", "--out", "o"],
        "o",
    ),
}


@pytest.mark.parametrize("name", COMMANDS)
def test_what_another_command_is_writing_is_refused(
    name: str, survey: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(survey)
    arguments, out = COMMANDS[name]
    capsys.readouterr()
    before = sorted(survey.iterdir())
    with Holder(Path(out)) as holder:
        assert main(arguments) == 2
        printed, error = capsys.readouterr()
        assert printed == ""
        assert error == (
            f"ppdm: error: {out}: in use by process {holder.pid}; wait for it to end, or stop it\n"
        )
        assert not Path(out).exists()
    # A killed one frees it at once.
    assert main(arguments) == 0
    made = {path.name for path in survey.iterdir()} - {path.name for path in before}
    assert out in made and not [name for name in made if name.endswith(".lock")]


def test_of_two_at_once_one_writes_and_one_says_so(survey: Path) -> None:
    arguments, out = COMMANDS["count"]
    processes = [
        subprocess.Popen(
            [sys.executable, "-m", "ppdm_dask", *arguments],
            cwd=survey,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(2)
    ]
    ends = [(process.communicate()[1], process.returncode) for process in processes]
    assert sorted(code for _, code in ends) == [0, 2]
    (refused,) = [error for error, code in ends if code == 2]
    assert refused.count("\n") == 1
    assert "in use by process" in refused or "already exists" in refused
    assert (survey / out).stat().st_size > 0
    assert not list(survey.glob(".*lock"))


def test_looking_and_writing_is_one_step(tmp_path: Path) -> None:
    out = tmp_path / "out.json"
    with Holder(out), pytest.raises(RunFolderError, match="in use by process"):
        require_new(out, force=True)
    require_new(out, force=False)
    out.write_text("written")
    release_all()
    with pytest.raises(InputError, match="already exists; --force replaces it"):
        require_new(out, force=False)


def test_names_that_mean_one_file_are_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "folder")
    monkeypatch.chdir(tmp_path)
    with Holder(tmp_path / "folder" / "out"):
        for name in ("folder/out", "link/out", "folder/../link/out"):
            with pytest.raises(RunFolderError, match=f"^{name}: in use by process"):
                own(Path(name))
        own(Path("folder/other"))
    with Holder(tmp_path / "new" / "out"), pytest.raises(RunFolderError, match="in use by"):
        own(Path("new/out"))
    own(Path("folder") / ("long" * 60))
    own(Path("folder/other"))  # once more by the same command
    release_all()
    # A killed process leaves its files; the next one that takes them removes them.
    left = {path.name for path in tmp_path.rglob("*.lock")}
    assert left == {".out.lock", ".new-out.lock"}
    own(tmp_path / "folder" / "out")
    own(tmp_path / "new" / "out")
    release_all()
    assert not list(tmp_path.rglob("*.lock"))
