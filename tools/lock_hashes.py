"""Write hashes.txt: the files that pip takes for the releases in constraints.txt, and their hashes.

    .venv/bin/python tools/lock_hashes.py

pip says what it would install, for each Python of `PYTHONS` on a machine like this one; nothing is
installed. Only what pip knows as an index is asked, so no host is named here or in the file. What
other machines added for releases that are still in constraints.txt stays.
"""

from __future__ import annotations

import json
import platform
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from urllib.parse import unquote

ROOT = Path(__file__).resolve().parents[1]
PYTHONS = ("3.11", "3.12", "3.13")
MACHINE = f"{platform.system()} {platform.machine()}"


def would_install(python: str, names: list[str]) -> dict[str, str]:
    """Hash by name of the file, of all that pip would install."""
    command = [
        *(sys.executable, "-m", "pip", "install", "-qqq", "--dry-run", "--ignore-installed"),
        *("--no-deps", "--python-version", python, "--report", "-"),
        *("--target", tempfile.gettempdir()),
        *names,
    ]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    found = {}
    for each in json.loads(done.stdout)["install"]:
        about = each["download_info"]
        found[unquote(about["url"].rpartition("/")[2])] = about["archive_info"]["hashes"]["sha256"]
    return found


def release(file: str) -> str:
    """``name==version`` of a wheel or an archive of sources, as in constraints.txt."""
    name, version = file.removesuffix(".tar.gz").split("-")[:2]
    if file.endswith(".tar.gz"):
        name, _, version = file.removesuffix(".tar.gz").rpartition("-")
    return f"{re.sub('[-_.]+', '-', name).lower()}=={version}"


def main() -> None:
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    names = [line for line in lines if line and not line.startswith("#")]
    target = ROOT / "hashes.txt"
    before = target.read_text().splitlines() if target.exists() else []
    machines = {line.removeprefix("# on ") for line in before if line.startswith("# on ")}
    rows = (line.split("  ") for line in before if not line.startswith("#"))
    found = {file: digest for digest, file in rows if release(file) in names}
    for python in PYTHONS:
        print(f"Python {python}", file=sys.stderr)
        found |= would_install(python, names)
    head = [
        "# SHA-256 of files of the releases in constraints.txt, written by tools/lock_hashes.py;",
        f"# for Python {', '.join(PYTHONS)}",
        *(f"# on {machine}" for machine in sorted(machines | {MACHINE})),
    ]
    body = [f"{found[file]}  {file}" for file in sorted(found, key=str.lower)]
    target.write_text("\n".join([*head, *body]) + "\n")


if __name__ == "__main__":
    main()
