"""The check that a test run leaves no file behind."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from untracked import untracked

CONFTEST = """
from pathlib import Path
from untracked import Untracked

def pytest_configure(config):
    config.pluginmanager.register(Untracked(Path(__file__).resolve().parent))
"""

Run = Callable[[str], tuple[int, str]]


def git(folder: Path, *arguments: str) -> None:
    identity = ["-c", "user.name=t", "-c", "user.email=t@example.org"]
    subprocess.run(["git", *identity, *arguments], cwd=folder, check=True, capture_output=True)


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A worktree, whose ``.git`` is a file."""
    folder = tmp_path / "checkout"
    folder.mkdir()
    git(folder, "init", "-q")
    (folder / ".gitignore").write_text("__pycache__/\n.pytest_cache/\n/runs/\n")
    (folder / "conftest.py").write_text(CONFTEST)
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", "one")
    git(folder, "worktree", "add", "-q", str(tmp_path / "worktree"))
    folder = tmp_path / "worktree"
    (folder / "notes").write_text("mine")  # there before
    return folder


@pytest.fixture
def run(checkout: Path) -> Run:
    def run_test(body: str) -> tuple[int, str]:
        (checkout / "test_it.py").write_text(f"def test_it():\n    {body}\n")
        command = [sys.executable, "-m", "pytest", "-q", "test_it.py"]
        done = subprocess.run(
            command,
            cwd=checkout,
            env={
                "PYTHONPATH": str(Path(__file__).parent / "support"),
                "PATH": "/usr/bin:/bin",
                "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
            },
            capture_output=True,
            text=True,
            check=False,
        )
        return done.returncode, done.stdout

    return run_test


def test_a_run_that_leaves_a_file_fails_and_names_it(checkout: Path, run: Run) -> None:
    code, out = run("open('x', 'w').close()")
    assert code == 1
    assert "1 passed" in out
    assert "files that the tests left in the checkout" in out and "\nx\n" in out
    assert "notes" not in out


def test_caches_results_and_files_elsewhere_are_no_matter(run: Run, tmp_path: Path) -> None:
    code, out = run(
        f"import os; os.mkdir('runs'); open('runs/a', 'w'); open({str(tmp_path / 'z')!r}, 'w')"
    )
    assert (code, "left in the checkout" in out) == (0, False)


def test_a_failure_stays_one(run: Run) -> None:
    code, out = run("open('x', 'w').close(); assert 0")
    assert code == 1 and "1 failed" in out and "\nx\n" in out


def test_a_folder_that_is_no_checkout_is_not_watched(tmp_path: Path) -> None:
    assert untracked(tmp_path) is None
    (tmp_path / ".git").write_text("gitdir: nowhere")
    assert untracked(tmp_path) is None
