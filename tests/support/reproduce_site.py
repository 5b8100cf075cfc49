"""A folder of goldens of its own, with two recipes that run in a moment."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from small_recipe import CONFIG, TREES, many, write_recipe

from ppdm_dask.cli import main
from ppdm_dask.designs import unrelated
from ppdm_dask.experiments import folder as rundir

REPEATS = 12

GRADES = """
[small.surveys]
file = "surveys.toml"

[small.trees]
file = "trees.toml"
"""


@contextmanager
def moved(shift: float) -> Iterator[None]:
    """Context in which the constant w_y of the unrelated question is another one.

    The code version is another one too, as it would be if somebody had changed the source.
    """
    law, version = unrelated._law, rundir.code_version()

    def other(name: str, entry: Any, labels: Any) -> Any:
        return law(name, entry + shift if isinstance(entry, float) else entry, labels)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(unrelated, "_law", other)
        patch.setattr(rundir, "code_version", lambda: f"{version[:32]}{shift}")
        yield


class Site:
    """A folder with recipes, grades, goldens and the runs of reproductions."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.golden = folder / "golden"
        self.out = folder / "out"
        self.golden.mkdir()
        (self.golden / "grades.toml").write_text(GRADES)
        # One figure each: drawing takes longer than these runs.
        wanted = {"sweep.repeats": REPEATS, "figure": CONFIG["figure"][:1]}
        write_recipe(self.golden / "surveys.toml", many(CONFIG, wanted))
        trees = many(TREES, {"figure": TREES["figure"][:1]})
        write_recipe(self.golden / "trees.toml", trees)

    def arguments(self, *more: str) -> list[str]:
        common = ["--against", str(self.golden), "--out", str(self.out), "--workers", "0"]
        page = [] if "--page" in more or "--renew" in more else ["--no-page"]
        return ["reproduce", *common, *page, *more]

    def reproduce(self, *more: str) -> int:
        """Exit code of the command, in this process."""
        return main(self.arguments(*more))

    def elsewhere(self, *more: str, **environment: str) -> subprocess.CompletedProcess[str]:
        """The command in a process of its own, in another environment."""
        return subprocess.run(
            [sys.executable, "-W", "error", "-m", "ppdm_dask", *self.arguments(*more)],
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
            env={**os.environ, **environment},
        )

    def read(self, name: str) -> Any:
        return json.loads((self.out / name).read_text(encoding="utf-8"))

    def files(self) -> dict[str, bytes]:
        """Everything in the folder of goldens."""
        return {
            str(path.relative_to(self.golden)): path.read_bytes()
            for path in self.golden.rglob("*")
            if path.is_file()
        }
