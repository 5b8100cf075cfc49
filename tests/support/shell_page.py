"""The shell lines of a page, pasted into an empty folder as they stand."""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import signal
import socket
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
    process = subprocess.Popen(
        ["bash", "-euo", "pipefail", "-c", on_free_ports(lines)],
        cwd=folder,
        env={**os.environ, "PATH": f"{tools}:{os.environ['PATH']}", "PYTHONPATH": paths},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        out, said = process.communicate(timeout=300)
    finally:
        # A server in the background goes on if a line after it fails.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    assert (process.returncode, said) == (0, "")
    return out.splitlines(), folder


def on_free_ports(lines: str) -> str:
    """The lines with other ports than the page names, which may be taken here."""
    named = sorted(set(re.findall(r"--(?:team-)?port (\d+)", lines)))
    with contextlib.ExitStack() as stack:
        for port in named:
            held = stack.enter_context(socket.socket())
            held.bind(("127.0.0.1", 0))
            lines = re.sub(rf"\b{port}\b", str(held.getsockname()[1]), lines)
    return lines
