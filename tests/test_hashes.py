"""The list of hashes: it has what is pinned, and what is installed is held to it."""

from __future__ import annotations

import importlib.util
import json
import re
from pathlib import Path
from types import ModuleType

import pytest

GOOD, BAD = "a" * 64, "b" * 64
LOCK = f"# for Python 3.11, 3.12\n# on Linux x86_64\n{GOOD}  one-1.0-py3-none-any.whl\n"


def tool(root: Path, name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, root / "tools" / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def report(name: str, digest: str) -> str:
    archive = {"url": f"x:/files/{name}", "archive_info": {"hashes": {"sha256": digest}}}
    ours = {"url": "x:/checkout", "dir_info": {"editable": True}}
    return json.dumps({"install": [{"download_info": each} for each in (archive, ours)]})


def test_every_pinned_release_has_its_hashes(root: Path) -> None:
    lines = (root / "hashes.txt").read_text().splitlines()
    rows = [line for line in lines if not line.startswith("#")]
    assert all(re.fullmatch(r"[0-9a-f]{64}  [A-Za-z0-9_.!+-]+\.(whl|tar\.gz)", row) for row in rows)
    files = [row.split("  ")[1] for row in rows]
    assert files == sorted(set(files), key=str.lower)
    release = tool(root, "lock_hashes").release
    pins = (root / "constraints.txt").read_text().splitlines()
    assert {release(file) for file in files} == {pin for pin in pins if not pin.startswith("#")}
    assert "//" not in "".join(lines), "no host is named"


@pytest.mark.parametrize(
    ("name", "digest", "wrong"),
    [
        ("one-1.0-py3-none-any.whl", GOOD, ""),
        ("one-1.0-py3-none-any.whl", BAD, f"has the SHA-256 {BAD}; {GOOD} is right"),
        ("one-1.0-2-py3-none-any.whl", GOOD, "is not in the list of hashes"),
    ],
)
def test_what_is_installed_is_compared(root: Path, name: str, digest: str, wrong: str) -> None:
    compare = tool(root, "check_hashes").compare
    found, unknown = compare(LOCK, report(name, digest), "Linux x86_64", "3.12")
    assert found == ([f"{name}: {wrong}"] if wrong else [])
    assert unknown == []


def test_other_machines_are_told_that_nothing_is_known(root: Path) -> None:
    compare = tool(root, "check_hashes").compare
    for machine, python in (("Darwin arm64", "3.12"), ("Linux x86_64", "3.13")):
        wrong, unknown = compare(LOCK, report("one-1.0-cp3.whl", GOOD), machine, python)
        assert (wrong, len(unknown)) == ([], 1)
        # A file that is listed has one hash everywhere.
        wrong, _ = compare(LOCK, report("one-1.0-py3-none-any.whl", BAD), machine, python)
        assert len(wrong) == 1


def test_setup_compares_before_anything_runs(root: Path) -> None:
    text = (root / "tools" / "setup.sh").read_text()
    assert '--report "$venv/installed.json"' in text
    assert "tools/check_hashes.py hashes.txt" in text
    assert "hashes.txt" in (root / "Makefile").read_text().partition("cksum")[0]
