"""Pages and notebooks of the site, as far as they can be judged without building it."""

from __future__ import annotations

import importlib.util
import inspect
import json
import re
from pathlib import Path

import pytest

import ppdm_dask

TUTORIALS = ("dask", "dice-survey", "model-selection", "optimal-designs", "own-file")


@pytest.mark.parametrize("name", TUTORIALS)
def test_notebooks_are_committed_without_outputs(root: Path, name: str) -> None:
    cells = json.loads((root / "docs/tutorials" / f"{name}.ipynb").read_text())["cells"]
    code = [cell for cell in cells if cell["cell_type"] == "code"]
    assert len(code) >= 5
    assert all(cell["outputs"] == [] and cell["execution_count"] is None for cell in code)


def test_notebooks_are_all_on_the_first_page(root: Path) -> None:
    there = {path.stem for path in (root / "docs/tutorials").glob("*.ipynb")}
    page = (root / "docs/index.md").read_text()
    assert there == set(TUTORIALS) == set(re.findall(r"^tutorials/([a-z-]+)$", page, re.MULTILINE))


def listed(root: Path) -> dict[str, list[str]]:
    """Names by module of the reference; no name stands for all of a module."""
    found: dict[str, list[str]] = {}
    for path in (root / "docs/api").glob("*.rst"):
        for module, names in re.findall(
            r"^\.\. names:: (\S+)\n((?:\n|   \w+\n)*)", path.read_text() + "\n", re.MULTILINE
        ):
            found.setdefault(module, []).extend(names.split())
    return found


def test_every_public_name_is_in_the_reference(root: Path) -> None:
    found = listed(root)
    main = found.pop("ppdm_dask")
    names = [x for x in ppdm_dask.__all__ if not inspect.ismodule(getattr(ppdm_dask, x))]
    assert sorted(main) == sorted(names)
    rooms = {x for x in ppdm_dask.__all__ if inspect.ismodule(getattr(ppdm_dask, x))}
    stubs = {path.parent.name for path in (root / "ppdm_dask").glob("*/__init__.pyi")}
    assert {f"ppdm_dask.{room}" for room in rooms | stubs} <= found.keys()
    assert not any(found.values())


def test_every_public_name_is_described(root: Path) -> None:
    for module in listed(root):
        room = importlib.import_module(module)
        for name in room.__all__:
            each = getattr(room, name)
            if inspect.isclass(each) or inspect.isroutine(each):
                assert inspect.getdoc(each), f"{module}.{name}"


def test_dead_links_are_found(root: Path, tmp_path: Path) -> None:
    spec = importlib.util.spec_from_file_location("check_site", root / "tools/check_site.py")
    assert spec is not None and spec.loader is not None
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    (tmp_path / "a.html").write_text(
        '<p id="here"><a href="b.html#there">b</a><a href="#here">a</a><a href="//x.org">x</a></p>'
    )
    (tmp_path / "b.html").write_text('<a id="there" href="a.html">a</a>')
    assert tool.faults(tmp_path) == []
    (tmp_path / "b.html").write_text(
        '<a href="c.html">c</a><a href="a.html#gone">a</a><script src="https://x.org/x.js"></script>'
    )
    assert tool.faults(tmp_path) == [
        "a.html: b.html#there leads to no place on its page",
        "b.html: c.html leads to no file",
        "b.html: a.html#gone leads to no place on its page",
        "b.html: loads https://x.org/x.js",
    ]
