"""Programs beside the package take from it only what is there, also where they take it late."""

from __future__ import annotations

import ast
import importlib
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PROGRAMS = sorted([*ROOT.glob("benchmarks/*.py"), *ROOT.glob("tools/*.py")])


def taken(program: Path) -> list[tuple[str, str]]:
    """Modules of the package that a program names, and the names that it takes from them."""
    found = []
    for node in ast.walk(ast.parse(program.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found += [(alias.name, "") for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            found += [(node.module, alias.name) for alias in node.names]
    return [(module, name) for module, name in found if module.split(".")[0] == "ppdm_dask"]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda path: path.stem)
def test_what_is_taken_is_there(program: Path) -> None:
    for module, name in taken(program):
        loaded = importlib.import_module(module)
        there = not name or hasattr(loaded, name) or find_spec(f"{module}.{name}") is not None
        assert there, f"{program.name}: {module} has no {name}"


def test_programs_are_looked_at() -> None:
    assert len(PROGRAMS) >= 10
    assert ("ppdm_dask.drawing.style", "new_panels") in taken(
        ROOT / "benchmarks" / "scaling_figure.py"
    )
