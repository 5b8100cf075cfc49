"""The examples in docstrings and in the README run as they stand."""

from __future__ import annotations

import doctest
import importlib
import pkgutil
import re
from pathlib import Path

import pytest

import ppdm_dask

ROOT = Path(__file__).resolve().parent.parent
MODULES = sorted(
    module.name
    for module in pkgutil.walk_packages(ppdm_dask.__path__, "ppdm_dask.")
    if not module.name.endswith("__main__")
)


@pytest.mark.parametrize("name", MODULES)
def test_docstring_examples(name):
    module = importlib.import_module(name)
    failed, _ = doctest.testmod(module, optionflags=doctest.NORMALIZE_WHITESPACE)
    assert not failed


def test_some_modules_have_examples():
    finder = doctest.DocTestFinder(exclude_empty=True)
    found = [test for name in MODULES for test in finder.find(importlib.import_module(name))]
    assert sum(bool(test.examples) for test in found) >= 8


def test_readme_examples(capsys):
    """Both Python blocks, in one interpreter as a reader would type them."""
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), flags=re.DOTALL)
    assert len(blocks) == 2
    names: dict[str, object] = {}
    for block in blocks:
        exec(compile(block, "README.md", "exec"), names)
    printed = capsys.readouterr().out
    assert "education" in printed
    model = names["model"]
    assert 0.79 < model.score(names["test"]) < 0.82  # type: ignore[attr-defined]
