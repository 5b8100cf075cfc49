"""The examples in docstrings and in the README run as they stand."""

from __future__ import annotations

import doctest
import importlib
import pkgutil
import re
from pathlib import Path

import numpy as np
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


def run_blocks(page: str, number: int) -> dict[str, object]:
    """Names after all Python blocks of a page, in one interpreter as a reader would type them."""
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(), flags=re.DOTALL)
    assert len(blocks) == number
    names: dict[str, object] = {}
    for block in blocks:
        exec(compile(block, page, "exec"), names)
    return names


def test_readme_examples(capsys):
    names = run_blocks("README.md", 2)
    printed = capsys.readouterr().out
    assert "education" in printed
    model = names["model"]
    assert 0.79 < model.score(names["test"]) < 0.82  # type: ignore[attr-defined]


def test_search_examples(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = run_blocks("docs/search.md", 7)
    front, design, score = names["front"], names["design"], names["rare_categories"]
    assert score(design.matrix()[None])[0, 0] >= 0.3  # type: ignore[operator, attr-defined]
    np.testing.assert_array_equal(
        score(front["matrix"].to_numpy())[:, 1],  # type: ignore[operator, index]
        front["error"],  # type: ignore[index]
    )
    assert names["population"].away is False  # type: ignore[attr-defined]
    assert names["same"].identical(front)  # type: ignore[attr-defined]


def test_survey_example_in_python(tmp_path, monkeypatch):
    import matplotlib as mpl
    import matplotlib.pyplot as plt

    mpl.use("agg")
    monkeypatch.chdir(tmp_path)
    names = run_blocks("docs/survey.md", 1)
    plt.close("all")
    table, ds = names["table"], names["ds"]
    np.testing.assert_array_equal(ds["value"].to_numpy().ravel(), table["proportion"])  # type: ignore[index]
    assert ds.attrs["design_digest"] == names["reports"].design_digest  # type: ignore[attr-defined]
