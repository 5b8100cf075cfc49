"""The shell lines of a page, pasted into an empty folder as they stand."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

__all__ = ["run_lines"]


def run_lines(lines: str, root: Path, tmp_path: Path) -> tuple[list[str], Path]:
    """What the lines print, with this Python and sources, and the folder that they ran in."""
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
    return done.stdout.splitlines(), folder
