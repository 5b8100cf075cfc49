"""A folder of goldens of its own, with two recipes that run in a moment."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from small_recipe import CONFIG, TREES, many, write_recipe

from ppdm_dask.cli import main

REPEATS = 12

GRADES = """
[small.surveys]
file = "surveys.toml"

[small.trees]
file = "trees.toml"
"""

MOVED = """
import sys
from ppdm_dask.designs import unrelated
from ppdm_dask.experiments import rundir
version = rundir.code_version()
rundir.code_version = lambda: version[:32] + "{shift}"
law = unrelated._law
number = lambda entry: entry + {shift} if isinstance(entry, float) else entry
unrelated._law = lambda name, entry: law(name, number(entry))
from ppdm_dask.cli import main
sys.exit(main())
"""
"""The command, with w_y of the unrelated question moved, and a code version that tells it."""


class Site:
    """A folder with recipes, grades, goldens and the runs of reproductions."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.golden = folder / "golden"
        self.out = folder / "out"
        self.golden.mkdir()
        (self.golden / "grades.toml").write_text(GRADES)
        wanted = {"sweep.repeats": REPEATS, "sweep.grid": {"q": [0, 0.5, 1]}}
        write_recipe(self.golden / "surveys.toml", many(CONFIG, wanted))
        write_recipe(self.golden / "trees.toml", TREES)

    def arguments(self, *more: str) -> list[str]:
        common = ["--against", str(self.golden), "--out", str(self.out), "--workers", "0"]
        return ["reproduce", *common, *more]

    def reproduce(self, *more: str) -> int:
        """Exit code of the command, in this process."""
        return main(self.arguments(*more))

    def elsewhere(
        self, *more: str, code: str | None = None, **environment: str
    ) -> subprocess.CompletedProcess[str]:
        """The command in a process of its own, which may be another program or environment."""
        start = ["-c", code] if code else ["-m", "ppdm_dask"]
        return subprocess.run(
            [sys.executable, "-W", "error", *start, *self.arguments(*more)],
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
