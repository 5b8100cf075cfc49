"""The lines of docs/survey.md, pasted into a shell in an empty folder as they stand."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pandas as pd

from ppdm_dask import datasets


def test_the_lines_of_the_page_run_in_an_empty_folder(root: Path, tmp_path: Path) -> None:
    page = (root / "docs" / "survey.md").read_text()
    blocks = re.findall(r"^```sh\n(.*?)^```", page, flags=re.DOTALL | re.MULTILINE)
    lines = "".join(blocks)
    for command in ("codebook", "check", "audit", "disguise", "count", "estimate"):
        assert f"\nppdm {command} " in f"\n{lines}"
    tools, folder = tmp_path / "tools", tmp_path / "empty"
    tools.mkdir()
    folder.mkdir()
    python = shlex.quote(sys.executable)
    for name, module in (("python", ""), ("ppdm", " -m ppdm_dask")):
        tool = tools / name
        tool.write_text(f'#!/bin/sh\nexec {python} -W error{module} "$@"\n')
        tool.chmod(0o755)
    paths = f"{root}{os.pathsep}{os.environ.get('PYTHONPATH', '')}".rstrip(os.pathsep)
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", lines],
        cwd=folder,
        env={**os.environ, "PATH": f"{tools}:{os.environ['PATH']}", "PYTHONPATH": paths},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert (done.returncode, done.stderr) == (0, "")
    # What the page shows is what the commands print, but for the numbers that are drawn.
    printed = {shape(line) for line in done.stdout.splitlines()}
    shown = [line for line in page.splitlines() if line.startswith("    ")]
    assert len(shown) > 12
    for line in shown:
        assert shape(line) in printed, line
    found = pd.read_csv(folder / "within.csv", index_col="education")
    rich = datasets.load("adult").query("income == '>50K'")
    truth = rich["education"].value_counts(normalize=True).reindex(found.index, fill_value=0)
    # Sixteen cells at six standard errors: one false alarm in some 10^7 runs.
    assert (abs(found["proportion"] - truth) < 6 * found["standard_error"]).all()


def shape(line: str) -> str:
    """A line without the numbers that a disguise draws, and without spaces."""
    return re.sub(r"-?\d+\.\d{2,}|about [\d.]+ times|\s+", "", line)
