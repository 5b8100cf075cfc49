"""Compare what pip has installed with hashes.txt.

    python tools/check_hashes.py hashes.txt REPORT

REPORT is what ``pip install --report`` wrote. The exit code is 2, with a line for each file, where
a file has another hash, or is not listed though files for this machine and this Python are.
"""

from __future__ import annotations

import json
import platform
import sys
from pathlib import Path
from urllib.parse import unquote


def compare(lock: str, report: str, machine: str, python: str) -> tuple[list[str], list[str]]:
    """What is wrong, and files of a machine or Python that the list is not for.

    Parameters
    ----------
    lock : str
        Text of hashes.txt.
    report : str
        Text of pip's report.
    machine : str
        As in the list, such as "Linux x86_64".
    python : str
        Such as "3.12".
    """
    lines = lock.splitlines()
    rows = (line.split("  ") for line in lines if not line.startswith("#"))
    listed = {name: digest for digest, name in rows}
    covered = f"# on {machine}" in lines and any(
        line.startswith("# for Python") and python in line for line in lines
    )
    wrong, unknown = [], []
    for each in json.loads(report)["install"]:
        download = each["download_info"]
        if "archive_info" not in download:
            # The checkout itself.
            continue
        name = unquote(download["url"].rpartition("/")[2])
        found = download["archive_info"].get("hashes", {}).get("sha256", "no hash")
        if name not in listed:
            (wrong if covered else unknown).append(f"{name}: is not in the list of hashes")
        elif listed[name] != found:
            wrong.append(f"{name}: has the SHA-256 {found}; {listed[name]} is right")
    return wrong, unknown


def main(lock: str, report: str) -> int:
    machine = f"{platform.system()} {platform.machine()}"
    python = ".".join(platform.python_version_tuple()[:2])
    wrong, unknown = compare(Path(lock).read_text(), Path(report).read_text(), machine, python)
    for line in wrong:
        print(f"setup: {line}", file=sys.stderr)
    if unknown:
        what = f"{len(unknown)} files for {machine} and Python {python} are in no list of hashes"
        print(f"setup: {what}; they were not compared", file=sys.stderr)
    return 2 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
