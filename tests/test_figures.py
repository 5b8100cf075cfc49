"""Figures: what they show is in the result, and the same result is the same file."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.figure import Figure
from PIL import Image
from small_recipe import CONFIG

from ppdm_dask.errors import RunFolderError
from ppdm_dask.experiments.recipe import Recipe
from ppdm_dask.experiments.results import build_dataset, empty_arrays
from ppdm_dask.report import style
from ppdm_dask.report.figures import draw_figures

REPEATS = 50


def recipe() -> Recipe:
    return Recipe.from_config(CONFIG, source="small.toml")


def result(repeats: int = REPEATS, computed: int | None = None) -> Any:
    """A result of the small recipe with made-up numbers; q = 0 undefined, no variance at q = 1."""
    coordinates = {
        **recipe().coordinates,
        "column": ["cancer/one", "cancer/two", "first-300/one"],
        "w_a": recipe().w_a,
    }
    arrays = empty_arrays(coordinates, repeats)
    arrays["n_train"][:], arrays["n_test"][:] = 400, 100
    arrays["benchmark_correct"][:] = [[95], [90]]
    arrays["majority_correct"][:] = [[65], [65]]
    arrays["undefined"][:, 0] = "no inverse"
    done = slice(0, computed)
    for i, best in enumerate((95, 90)):
        arrays["correct"][i, 1, done] = (best - 10 + np.arange(repeats) % 5)[done]
        arrays["correct"][i, 2, done] = best
        arrays["accuracy_disguised"][i, 1:, done] = arrays["correct"][i, 1:, done] / 100
        arrays["accuracy_disguised"][i, 1, done] += 0.1 * (-1) ** np.arange(repeats)[done]
        arrays["floored"][i, 1:, done] = 0
    arrays["pse_attribute"][:] = [[0.5, 0.4, 0], [0.3, 0.2, 0], [0.1, 0.05, 0]]
    arrays["pse_curve"][:] = [[0.42, 0.33, 0], [0.5, 0.375, 0]]
    return build_dataset(arrays, coordinates)


@pytest.fixture
def drawn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Figure]:
    """The figures of the small recipe, as matplotlib holds them."""
    found: dict[str, Figure] = {}
    monkeypatch.setattr(style, "save", lambda figure, _, name: [found.setdefault(name, figure)])
    draw_figures(result(), recipe(), tmp_path)
    return found


def lines(figure: Figure, points: int) -> list[np.ndarray[Any, Any]]:
    """Heights of all lines with so many points."""
    return [
        np.asarray(line.get_ydata(), dtype=float)
        for line in figure.axes[0].get_lines()
        if len(line.get_xdata()) == points and line.get_linestyle() != "None"
    ]


def has(found: list[np.ndarray[Any, Any]], values: Any) -> bool:
    return any(np.array_equal(line, np.asarray(values), equal_nan=True) for line in found)


def texts(figure: Figure) -> list[str]:
    return [text.get_text() for text in [*figure.axes[0].texts, *figure.texts]]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    return draw_figures(result(), recipe(), tmp_path_factory.mktemp("run") / "figures")


def test_files(files: list[Path]) -> None:
    names = ["means.png", "means.svg", "variances.png", "variances.svg"]
    assert [file.name for file in files] == [*names, "privacy.png", "privacy.svg"]
    assert sorted(file.name for file in files[0].parent.iterdir()) == sorted(
        file.name for file in files
    )
    for file in files:
        if file.suffix == ".png":
            with Image.open(file) as image:
                assert image.width >= 1400
                assert image.info["dpi"][0] == pytest.approx(200, rel=0.01)
                assert len(image.convert("RGB").getcolors(1 << 24) or []) > 50
        else:
            assert ET.parse(file).getroot().tag.endswith("svg")


def test_the_same_result_is_the_same_file(files: list[Path], tmp_path: Path) -> None:
    for one, other in zip(files, draw_figures(result(), recipe(), tmp_path), strict=True):
        assert one.read_bytes() == other.read_bytes()
    assert "<dc:date>" not in files[1].read_text(encoding="utf-8")


def test_means_are_those_of_the_result(drawn: dict[str, Figure]) -> None:
    ds, figure = result(), drawn["means"]
    curves, levels = lines(figure, 3), lines(figure, 2)
    for entry in ("cancer", "first-300"):
        assert has(curves, ds["accuracy_mean"].sel(data=entry))
        assert has(curves, ds["disguised_mean"].sel(data=entry))
        assert has(levels, [ds["benchmark"].sel(data=entry).item()] * 2)
    assert has(levels, [0.65, 0.65])
    assert {"undisguised 0.950", "undisguised 0.900", "majority class 0.650"} <= set(texts(figure))
    # The two entries share a majority class: one label.
    assert texts(figure).count("majority class 0.650") == 1
    assert "undefined" in texts(figure)
    assert "50 repeats, with 95 % intervals of the mean" in texts(figure)
    assert figure.axes[0].get_xlabel() == "probability $q$ of the true record"
    low, high = figure.axes[0].get_xlim()
    assert low < 0 < 1 < high


def test_bars_are_95_percent_intervals(drawn: dict[str, Figure]) -> None:
    ds, axes = result(), drawn["means"].axes[0]
    mean = ds["accuracy_mean"].sel(data="cancer", q=0.5).item()
    half = 1.96 * ds["accuracy_mean_se"].sel(data="cancer", q=0.5).item()
    segments = [segment for bars in axes.collections for segment in bars.get_segments()]
    ends = [sorted(segment[:, 1]) for segment in segments if len(segment) == 2]
    assert any(np.allclose(pair, [mean - half, mean + half], atol=1e-6) for pair in ends)


def test_variances_are_those_of_the_result(drawn: dict[str, Figure]) -> None:
    ds, figure = result(), drawn["variances"]
    assert figure.axes[0].get_yscale() == "log"
    for name in ("accuracy_variance", "disguised_variance"):
        variance = ds[name].sel(data="cancer")
        # A logarithm shows no zero; the figure says so in words.
        assert has(lines(figure, 3), variance.where(variance > 0))
    assert not has(lines(figure, 3), ds["accuracy_variance"].sel(data="first-300"))
    assert texts(figure).count("zero") == 1


def test_privacy_is_that_of_the_result(drawn: dict[str, Figure]) -> None:
    ds, figure = result(), drawn["privacy"]
    for i in range(2):
        assert has(lines(figure, 3), ds["pse_curve"][i])
        assert has(lines(figure, 3), ds["pse"][i])
    assert {"$W_a$ = 0.3", "$W_a$ = 0.5", "cancer: two", "first-300: one"} <= set(texts(figure))


@pytest.mark.parametrize(("repeats", "computed"), [(1, 1), (4, 0)])
def test_little_or_nothing_computed_is_drawn_too(
    tmp_path: Path, repeats: int, computed: int
) -> None:
    files = draw_figures(result(repeats, computed), recipe(), tmp_path)
    assert all(file.stat().st_size > 5_000 for file in files)


def test_drawing_leaves_matplotlib_as_it_was(fresh_python: Callable[[str], str]) -> None:
    code = """
import sys, matplotlib, pathlib
matplotlib.rcParams["font.size"] = 31
from ppdm_dask.report import style
with style.styled():
    figure, axes = style.new_figure("title", "below")
    style.save(figure, pathlib.Path("figures"), "one")
assert matplotlib.rcParams["font.size"] == 31
assert matplotlib.rcParams["svg.hashsalt"] is None
print("matplotlib.pyplot" in sys.modules)
"""
    assert fresh_python(code).strip() == "False"


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(RunFolderError, match="figures: cannot be made: Not a directory"):
        draw_figures(result(), recipe(), tmp_path / "file" / "figures")


heights = st.lists(st.floats(0, 1), min_size=1, max_size=8)


@given(heights)
def test_labels_keep_clear_and_in_order(positions: list[float]) -> None:
    moved = style.spread(positions, gap=0.05, low=0.0, high=1.0)
    order = np.argsort(positions, kind="stable")
    gaps = np.diff(np.array(moved)[order])
    assert (gaps >= 0.05 - 1e-9).all()
    assert min(moved) >= -1e-9
    assert max(moved) <= 1 + 1e-9


def test_labels_that_are_clear_stay() -> None:
    assert style.spread([0.9, 0.1, 0.5], gap=0.05, low=0.0, high=1.0) == [0.9, 0.1, 0.5]
    assert style.spread([0.5, 0.5], gap=0.1, low=0.0, high=1.0) == pytest.approx([0.45, 0.55])
    assert style.spread([0.0, 0.0], gap=0.1, low=0.0, high=1.0) == pytest.approx([0.0, 0.1])
