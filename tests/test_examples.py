"""The examples in docstrings and in the README run as they stand."""

from __future__ import annotations

import doctest
import importlib
import re
from pathlib import Path

import numpy as np
import pytest
from pages import INDENTED, Block, blocks

ROOT = Path(__file__).resolve().parent.parent
# Those alone: to look for examples in all takes doctest some seconds.
MODULES = sorted(
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
    for path in (ROOT / "ppdm_dask").rglob("*.py")
    if ">>> " in path.read_text()
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


def run_blocks(parts: list[Block], names: dict[str, object] | None = None) -> dict[str, object]:
    """Names after some blocks, in one interpreter as a reader would type them."""
    names = {} if names is None else names
    for part in parts:
        exec(compile(part.text, part.place, "exec"), names)
    return names


def test_readme_examples(tmp_path, monkeypatch, capsys):
    first, second, third = blocks("README.md", "python")
    run_blocks([first])
    printed = re.sub(r"\d\.\d+", "x", capsys.readouterr().out).split()
    (shown,) = [each for each in blocks("README.md", INDENTED) if "inversion" in each.text]
    assert re.sub(r"\d\.\d+", "x", shown.text).split() == printed
    names = run_blocks([second])
    assert "education" in capsys.readouterr().out
    monkeypatch.chdir(tmp_path)
    (tmp_path / "answers").mkdir()
    names["frame"].iloc[:2_000].to_parquet("answers/part.parquet")  # type: ignore[attr-defined]
    (lazy,) = [each for each in blocks("README.md", INDENTED) if "dd.read" in each.text]
    run_blocks([lazy], {**names, "dd": importlib.import_module("dask.dataframe")})
    assert "Bachelors" in capsys.readouterr().out
    model = run_blocks([third], names)["model"]
    assert 0.79 < model.score(names["test"]) < 0.82  # type: ignore[attr-defined]


def test_search_examples(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = run_blocks(blocks("docs/search.md", "python"))
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
    names = run_blocks(blocks("docs/survey.md", "python"))
    plt.close("all")
    table, ds = names["table"], names["ds"]
    np.testing.assert_array_equal(ds["value"].to_numpy().ravel(), table["proportion"])  # type: ignore[index]
    assert ds.attrs["design_digest"] == names["reports"].design_digest  # type: ignore[attr-defined]


def test_first_page_of_the_site(capsys):
    run_blocks(blocks("docs/index.md", "python"))
    assert "Female" in capsys.readouterr().out


def test_users_of_r(capsys):
    """Estimates are the closed formulas of RRuni; 420 of 1,000 said yes."""
    names = run_blocks(blocks("docs/r-users.md", "python"))
    warner = names["warner"]
    assert warner.proportions.sel(used="yes").item() == pytest.approx((0.42 - 0.3) / 0.4)  # type: ignore[attr-defined]
    assert names["shares"] == pytest.approx(
        {
            "UQTknown": (0.42 - 0.3 * 0.25) / 0.7,
            "FR": (0.42 - 1 / 6) / 0.75,
            "Crosswise": (0.42 - 0.75) / (0.25 - 0.75),
            "Triangular": (0.42 - 0.25) / 0.75,
            "Mangat": (0.42 - 0.3) / 0.7,
            "Kuk": (0.42 - 0.2) / 0.6,
        }
    )
    slope = names["fit"].to_frame().loc["age"]  # type: ignore[attr-defined]
    assert abs(slope["estimate"] - 0.3) < 4 * slope["standard_error"]
    # Fox and Tracy: r of the reports over what two devices of .8 leave of it.
    codes = names["pair"].codes  # type: ignore[attr-defined]
    a, b, r = names["a"], names["b"], names["r"]
    seen = np.cov(codes[:, 0], codes[:, 1], ddof=0)[0, 1] / 0.6**2
    assert r == pytest.approx(seen / (a * (1 - a) * b * (1 - b)) ** 0.5)  # type: ignore[operator]
    assert abs(r - 0.5) < 0.1  # type: ignore[operator]


def test_users_of_frequency_oracles(capsys):
    names = run_blocks(blocks("docs/ldp-users.md", "python"))
    e = np.e
    p, q = e / (e + 3), 1 / (e + 3)
    counts = np.array([2986, 2596, 2406, 2012]) / 10_000
    np.testing.assert_allclose(names["found"].proportions, (counts - q) / (p - q))  # type: ignore[attr-defined]
    printed = [0.4117, 0.2819, 0.2187, 0.0876]
    np.testing.assert_allclose(names["found"].proportions, printed, atol=5e-5)  # type: ignore[attr-defined]
    # Wang et al.: (count / n - q) / (p - q) with p = 1/2, q = 1 / (e + 1).
    f, q = np.array([0.4, 0.3, 0.2, 0.1]), 1 / (e + 1)
    said = f / 2 + (1 - f) * q
    expected = (said * (1 - said) / (0.5 - q) ** 2).mean() / 10_000
    assert names["errors"]["OUE"] == pytest.approx(expected)  # type: ignore[index]
