"""docs/designs.md is what the package computes, for every design that there is."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from ppdm_dask.designs import families

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def drawing():
    spec = importlib.util.spec_from_file_location("draw_designs", ROOT / "tools/draw_designs.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_is_as_drawn(drawing):
    written = (ROOT / "docs" / "designs.md").read_text()
    assert written == drawing.page(), "run python tools/draw_designs.py"
    for name in families():
        assert f"| `{name}` |" in written


def test_the_page_compares_at_the_posterior_that_it_says(drawing):
    for _, make, low, high in drawing.BINARY.values():
        assert (
            drawing.worst_of_yes(make(low)) < drawing.POSTERIOR < drawing.worst_of_yes(make(high))
        )


def test_a_family_without_a_formula_is_an_error(drawing, monkeypatch):
    monkeypatch.delitem(drawing.FORMULAS, "kuk")
    with pytest.raises(SystemExit, match="no formula for kuk"):
        drawing.formulas()
