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
from small_recipe import CONFIG, TREES, many

from ppdm_dask.drawing import style
from ppdm_dask.errors import RunFolderError
from ppdm_dask.experiments.sweep import SWEEP
from ppdm_dask.experiments.sweep.recipe import Recipe
from ppdm_dask.experiments.sweep.results import (
    ADVERSARIES,
    DISCLOSURES,
    build_dataset,
    empty_arrays,
)

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


def trees(**figure: Any) -> Recipe:
    """The recipe of small trees; with arguments its first figure alone, changed by them."""
    if not figure:
        return Recipe.from_config(TREES, source="trees.toml")
    return Recipe.from_config({**TREES, "figure": [{**TREES["figure"][0], **figure}]})


def grid_result(computed: int | None = None) -> Any:
    """A result of small trees; theta = 1/2 undefined, and what adversaries learn made up."""
    coordinates = {**trees().coordinates, "column": ["cancer/one", "cancer/two"], "w_a": [0.5]}
    arrays = empty_arrays(coordinates, REPEATS, 1, ["nodes", *DISCLOSURES])
    arrays["n_train"][:], arrays["n_test"][:] = 400, 100
    arrays["benchmark_correct"][:], arrays["majority_correct"][:] = 95, 65
    arrays["undefined"][:, :, 1] = "no inverse"
    done = slice(0, computed)
    for j, best in enumerate((90, 80)):
        arrays["correct"][0, j, 2, done] = (best + np.arange(REPEATS) % 5)[done]
        arrays["correct"][0, j, ::3, done] = 95
        arrays["accuracy_disguised"][0, j, :, done] = arrays["correct"][0, j, :, done] / 100
        arrays["accuracy_disguised"][0, j, 1] = np.nan
    arrays["floored"][:, :, [0, 2, 3]], arrays["nodes"][:, :, [0, 2, 3]] = 2, 8
    arrays["pse_attribute"][:] = [[0, 0.5, 0.3, 0], [0, 0.4, 0.2, 0]]
    arrays["pse_curve"][:] = [0, 0.5, 0.32, 0]
    for k, adversary in enumerate(ADVERSARIES):
        arrays[f"advantage_{adversary}"][0] = [[0.4, 0.1 * k, 0.3, 0.4], [0.4, 0.05 * k, 0.2, 0.4]]
        arrays[f"guess_{adversary}"][:] = arrays[f"advantage_{adversary}"] + 0.6
    return build_dataset(arrays, coordinates)


Draw = Callable[..., dict[str, Figure]]


@pytest.fixture
def draw(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Draw:
    """Draw a recipe's figures; what matplotlib holds of them, by id."""

    def drawing(ds: Any, recipe: Recipe) -> dict[str, Figure]:
        found: dict[str, Figure] = {}
        monkeypatch.setattr(style, "save", lambda figure, _, name: [found.setdefault(name, figure)])
        SWEEP.draw_figures(ds, recipe, tmp_path)
        return found

    return drawing


@pytest.fixture
def drawn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Figure]:
    """The figures of the small recipe, as matplotlib holds them."""
    found: dict[str, Figure] = {}
    monkeypatch.setattr(style, "save", lambda figure, _, name: [found.setdefault(name, figure)])
    SWEEP.draw_figures(result(), recipe(), tmp_path)
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
    return SWEEP.draw_figures(result(), recipe(), tmp_path_factory.mktemp("run") / "figures")


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
    for one, other in zip(files, SWEEP.draw_figures(result(), recipe(), tmp_path), strict=True):
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


# -- a grid of two axes ------------------------------------------------------------------------


def words(figure: Figure) -> list[str]:
    """Everything that a figure says, legends among it."""
    found = [text.get_text() for text in figure.texts]
    for axes in figure.axes:
        legend = axes.get_legend()
        found += [text.get_text() for text in [*axes.texts, *(legend.texts if legend else [])]]
        found += [axes.get_xlabel(), axes.get_ylabel(), axes.get_title(), axes.get_title("left")]
    return found


def test_lines_told_apart_by_an_axis(draw: Draw) -> None:
    ds = grid_result()
    figure = draw(ds, trees(test="clean"))["means"]
    for groups in (1, 2):
        assert has(lines(figure, 4), ds["accuracy_mean"].sel(data="cancer", groups=groups))
    # One benchmark and one majority for all lines, and the clean test part alone.
    assert len(lines(figure, 4)) == 2
    assert len(lines(figure, 2)) == 2
    found = words(figure)
    assert {"1 group", "2 groups", "undisguised 0.950", "majority class 0.650"} <= set(found)
    assert "clean test part, 50 repeats, with 95 % intervals of the mean" in found
    assert "disguised test part" not in found
    assert figure.axes[0].get_xlabel() == "probability $\\theta$ of a truthful answer"


@pytest.mark.parametrize(("test", "parts"), [("disguised", ["disguised"]), ("both", [])])
def test_test_parts_that_are_asked_for(draw: Draw, test: str, parts: list[str]) -> None:
    ds = grid_result()
    figure = draw(ds, trees(test=test, kind="variance"))["means"]
    for part in parts or ["accuracy", "disguised"]:
        variance = ds[f"{part}_variance"].sel(data="cancer", groups=1)
        assert has(lines(figure, 4), variance.where(variance > 0))
    assert len(lines(figure, 4)) == (2 if parts else 4)


def test_the_other_axis_across(draw: Draw) -> None:
    ds = grid_result()
    figure = draw(ds, trees(x="groups", series="theta"))["means"]
    assert has(lines(figure, 2), ds["accuracy_mean"].sel(data="cancer", theta=0.8))
    assert {"theta = 0", "theta = 0.8"} <= set(words(figure))
    assert figure.axes[0].get_xlabel() == "number of groups"


def test_points_stand_in_the_order_of_their_axis(draw: Draw) -> None:
    ds = grid_result()
    shuffled = ds.isel(theta=[2, 0, 3, 1])
    for name, figure in draw(shuffled, trees()).items():
        for axes, other in zip(figure.axes, draw(ds, trees())[name].axes, strict=True):
            for one, two in zip(axes.get_lines(), other.get_lines(), strict=True):
                np.testing.assert_array_equal(one.get_xydata(), two.get_xydata())


def test_the_grid_says_its_numbers(draw: Draw) -> None:
    ds = grid_result()
    figure = draw(ds, trees())["grid"]
    numbers = [text.get_text() for text in figure.axes[0].texts]
    assert numbers == ["0.950", "undef.", "0.920", "0.950", "0.950", "undef.", "0.820", "0.950"]
    (image,) = figure.axes[0].get_images()
    lost = np.ma.filled(image.get_array(), np.nan)
    np.testing.assert_allclose(lost, 0.95 - ds["accuracy_mean"][0], atol=1e-12)
    assert [label.get_text() for label in figure.axes[0].get_yticklabels()] == [
        "1 group",
        "2 groups",
    ]
    ticks = [label.get_text() for label in figure.axes[0].get_xticklabels()]
    assert ticks == ["0", "0.5", "0.8", "1"]
    assert "cancer: undisguised 0.950, majority class 0.650" in words(figure)
    # One panel, and the scale of its shades.
    assert len(figure.axes) == 2


def test_a_panel_a_data_entry(draw: Draw) -> None:
    config = many(TREES, {"data": [*TREES["data"], {**TREES["data"][0], "id": "again"}]})
    config["figure"] = config["figure"][2:]
    one = grid_result()
    two = one.isel(data=[0, 0]).assign_coords(data=["cancer", "again"])
    two["majority"] = ("data", [0.65, 0.5])
    both = draw(two, Recipe.from_config(config))
    assert "again: undisguised 0.950, majority class 0.500" in words(both["grid"])
    assert len(both["grid"].axes) == 2 + 1
    assert len(both["tradeoff"].axes) == 2 * len(ADVERSARIES)
    assert "again\nmean accuracy" in words(both["tradeoff"])


def test_the_tradeoff_is_that_of_the_result(draw: Draw) -> None:
    ds = grid_result()
    figure = draw(ds, trees())["tradeoff"]
    assert len(figure.axes) == len(ADVERSARIES)
    for axes, adversary in zip(figure.axes, ADVERSARIES, strict=True):
        points = [line.get_xydata().tolist() for line in axes.get_lines()]
        for groups in (1, 2):
            cells = ds.sel(data="cancer", groups=groups)
            told, mean = cells[f"advantage_{adversary}"], cells["accuracy_mean"]
            # theta = 0 stands apart; theta = 1/2 has no accuracy.
            assert [[told[0].item(), mean[0].item()]] in points
            assert [[told[i].item(), mean[i].item()] for i in (2, 3)] in points
    limits = {axes.get_xlim() for axes in figure.axes}
    assert len(limits) == 1
    assert {"1 group", "2 groups", "$\\theta$ < 1/2"} <= set(words(figure))
    heads = [axes.get_title() for axes in figure.axes]
    assert heads[0].startswith("own report")
    assert heads[1].endswith("attributes held independent")
    assert heads[2].endswith("joint distribution known")


def test_the_tradeoff_with_another_measure(draw: Draw) -> None:
    ds = grid_result()
    recipe = trees(kind="tradeoff", measure="guess")
    first = draw(ds, recipe)["means"].axes[0].get_lines()[0]
    assert first.get_xdata().tolist() == [pytest.approx(1.0)]
    # The posteriors are all NaN here, as where there are too many reports.
    unknown = draw(ds, trees(kind="tradeoff", measure="posterior"))["means"]
    assert words(unknown).count("not known") == 3


def test_the_tradeoff_of_data_entries(draw: Draw) -> None:
    config = many(CONFIG, {"figure": [{"id": "t", "kind": "tradeoff", "title": "T"}]})
    ds = result()
    for name in DISCLOSURES:
        ds[name] = ds["pse"] / 2
    figure = draw(ds, Recipe.from_config(config))["t"]
    assert len(figure.axes) == len(ADVERSARIES)
    points = [line.get_xydata().tolist() for line in figure.axes[0].get_lines()]
    for entry in ("cancer", "first-300"):
        cells = ds.sel(data=entry)
        expected = [[cells["pse"][i].item() / 2, cells["accuracy_mean"][i].item()] for i in (1, 2)]
        assert expected in points
    assert {"cancer", "first-300"} <= set(words(figure))


def test_equal_curves_of_privacy_are_drawn_once(draw: Draw) -> None:
    ds = grid_result()
    figure = draw(ds, trees())["privacy"]
    curves = lines(figure, 4)
    assert sum(np.array_equal(curve, ds["pse"][0, 0]) for curve in curves) == 1
    assert has(curves, ds["pse_curve"][0, 0])


@pytest.mark.parametrize("computed", [0, 1])
def test_a_grid_with_little_computed_is_drawn_too(tmp_path: Path, computed: int) -> None:
    files = SWEEP.draw_figures(grid_result(computed), trees(), tmp_path)
    assert len(files) == 8
    assert all(file.stat().st_size > 5_000 for file in files)


@pytest.mark.parametrize(("repeats", "computed"), [(1, 1), (4, 0)])
def test_little_or_nothing_computed_is_drawn_too(
    tmp_path: Path, repeats: int, computed: int
) -> None:
    files = SWEEP.draw_figures(result(repeats, computed), recipe(), tmp_path)
    assert all(file.stat().st_size > 5_000 for file in files)


def test_drawing_leaves_matplotlib_as_it_was(fresh_python: Callable[[str], str]) -> None:
    code = """
import sys, matplotlib, pathlib
matplotlib.rcParams["font.size"] = 31
from ppdm_dask.drawing import style
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
        SWEEP.draw_figures(result(), recipe(), tmp_path / "file" / "figures")


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
