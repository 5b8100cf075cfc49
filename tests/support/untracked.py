"""A test run leaves no file in the checkout that Git does not know."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

__all__ = ["Untracked", "untracked"]


def untracked(root: Path) -> frozenset[str] | None:
    """Files of a checkout that are neither tracked nor ignored; None where it is not a checkout.

    Caches and results are ignored, so they do not count.
    """
    if not (root / ".git").exists():  # a file in a worktree
        return None
    # A hook that runs the tests has Git's variables set, which would name another checkout.
    environment = {k: v for k, v in os.environ.items() if not k.startswith("GIT_")}
    command = ["git", "--no-optional-locks", "status", "--porcelain", "-z", "--untracked-files=all"]
    try:
        done = subprocess.run(command, cwd=root, env=environment, capture_output=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    entries = done.stdout.decode(errors="surrogateescape").split("\0")
    return frozenset(entry[3:] for entry in entries if entry.startswith("?? "))


class Untracked:
    """Plugin that fails a session which leaves files, and names them.

    Parameters
    ----------
    root : Path
        Of the checkout.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self.before = untracked(root)
        self.left: list[str] = []

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        after = untracked(self.root)
        if self.before is None or after is None:
            return
        self.left = sorted(after - self.before)
        if self.left and session.exitstatus in (0, pytest.ExitCode.NO_TESTS_COLLECTED):
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if self.left:
            terminalreporter.section("files that the tests left in the checkout", red=True)
            for name in self.left:
                terminalreporter.write_line(name)
