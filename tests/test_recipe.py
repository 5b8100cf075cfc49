"""Recipes: reading, round trip, digest, and one clear line for whatever is wrong."""

from __future__ import annotations

import copy
import hashlib
import json
import pickle
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from small_recipe import CONFIG, TREES, changed, many, write_recipe

from ppdm_dask import datasets
from ppdm_dask.errors import CodebookError, DataError, InputError, RecipeError
from ppdm_dask.experiments.inputs import prepare_all
from ppdm_dask.experiments.sweep.plan import build_design, check_recipe
from ppdm_dask.experiments.sweep.recipe import Recipe


def read(config: dict[str, Any]) -> Recipe:
    return Recipe.from_config(config, source="my.toml")


def message(error: pytest.ExceptionInfo[InputError]) -> str:
    text = str(error.value)
    assert "\n" not in text
    return text


def test_the_recipe_of_the_paper_says_what_the_paper_says() -> None:
    recipe = Recipe.load("electronic-surveys")
    assert [entry.id for entry in recipe.data] == [
        "adult-midrange",
        "adult-median",
        "breast-cancer",
    ]
    assert recipe.sweep.grid == {"q": (0, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1)}
    assert (recipe.sweep.repeats, recipe.sweep.train) == (1000, 0.8)
    assert recipe.w_a == (0.1, 0.2, 0.3, 0.4, 0.5)
    assert [figure.kind for figure in recipe.figures] == [
        "mean",
        "mean",
        "variance",
        "variance",
        "privacy",
    ]
    check_recipe(recipe)


def test_the_redrawn_recipe_differs_in_the_split_alone() -> None:
    one, other = Recipe.load("electronic-surveys"), Recipe.load("electronic-surveys-redrawn")
    config = one.config()
    config["sweep"]["split"] = "redrawn"
    assert Recipe.from_config(config).digest == other.digest != one.digest


def test_the_multi_group_recipe_says_what_its_paper_says() -> None:
    recipe = Recipe.load("multi-group")
    assert [entry.id for entry in recipe.data] == ["adult", "breast-cancer", "votes"]
    assert [entry.records for entry in recipe.data] == [10_000, None, None]
    assert {entry.binarise for entry in recipe.data} == {"midrange"}
    assert list(recipe.sweep.grid) == ["groups", "theta"]
    assert recipe.sweep.grid["groups"] == (1, 2, 3)
    thetas = (0, 0.1, 0.2, 0.3, 0.4, 0.45, 0.51, 0.55, 0.6, 0.7, 0.8, 0.9, 1)
    assert recipe.sweep.grid["theta"] == thetas
    assert (recipe.sweep.repeats, recipe.sweep.train, recipe.sweep.split) == (1000, 0.8, "fixed")
    assert recipe.mine.config() == {"learner": "id3"}
    assert recipe.design_at(recipe.points()[-1]) == {
        "id": "multigroup",
        "split": "redrawn",
        "groups": 3,
        "theta": 1,
    }
    figures = {figure.id: figure for figure in recipe.figures}
    assert list(figures) == [f"figure-{n}" for n in ("3a", "3b", "4a", "4b", "5a", "5b", "6", "7")]
    assert {figure.x for figure in recipe.figures} == {"theta"}
    assert {figure.line_axis for figure in recipe.figures} == {"groups"}
    check_recipe(recipe)


def test_the_variants_of_the_multi_group_recipe_differ_as_they_say() -> None:
    recipe = Recipe.load("multi-group")
    fixed, full = Recipe.load("multi-group-fixed"), Recipe.load("multi-group-full")
    config = many(recipe.config(), {"design.split": "fixed"})
    assert Recipe.from_config(config).digest == fixed.digest != recipe.digest
    config = recipe.config()
    config["data"] = config["data"][:1]
    del config["data"][0]["records"]
    config["figure"] = [
        {**figure, "data": ["adult"]} for figure in config["figure"] if "adult" in figure["data"]
    ]
    assert Recipe.from_config(config).digest == full.digest != recipe.digest


@pytest.mark.parametrize("config", [CONFIG, TREES])
def test_round_trip_and_pickle(config: dict[str, Any]) -> None:
    recipe = read(config)
    assert read(recipe.config()) == recipe
    assert read(json.loads(json.dumps(recipe.config()))) == recipe
    assert pickle.loads(pickle.dumps(recipe)) == recipe
    assert read(recipe.config()).digest == recipe.digest


def test_a_file_reads_as_its_tables(tmp_path: Path) -> None:
    recipe = Recipe.load(write_recipe(tmp_path / "small.toml"))
    assert recipe == read(CONFIG)
    assert recipe.name == "small"
    assert recipe.path("codebooks/x.toml") == tmp_path / "codebooks" / "x.toml"


def test_the_digest_is_that_of_the_canonical_json() -> None:
    recipe = read(CONFIG)
    content = copy.deepcopy(CONFIG)
    del content["about"]
    content["data"][0]["incomplete"] = "keep"
    content["figure"][0]["data"] = content["figure"][2]["data"] = ["cancer", "first-300"]
    content["axes"] = ["q"]
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    assert recipe.digest == hashlib.sha256(text.encode()).hexdigest()


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("about.title", "Another title"),
        ("about.notes", "A note"),
        ("sweep.grid.q", [0.0, 0.5, 1.0]),
        ("data[0].incomplete", "keep"),
        ("mine.floor", ...),
    ],
)
def test_the_digest_does_not_see(path: str, value: Any) -> None:
    assert read(changed(path, value)).digest == read(CONFIG).digest


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("sweep.seed", 8),
        ("sweep.repeats", 5),
        ("sweep.grid.q", [0, 0.5, 0.9]),
        ("sweep.split", "redrawn"),
        ("design.w_y", 0.4),
        ("mine.floor", 0.001),
        ("data[0].binarise", ...),
    ],
)
def test_the_digest_sees(path: str, value: Any) -> None:
    assert read(changed(path, value)).digest != read(CONFIG).digest


def test_points_and_their_designs() -> None:
    recipe = read(
        changed("sweep.grid", {"q": [0.5, 1], "w_y": [0.2, 0.4]})
        | {"design": {"family": "unrelated"}}
    )
    points = recipe.points()
    assert [point.index for point in points[:5]] == [
        (0, 0, 0),
        (0, 0, 1),
        (0, 1, 0),
        (0, 1, 1),
        (1, 0, 0),
    ]
    assert points[1].id == "cancer q=0.5 w_y=0.4"
    assert recipe.design_at(points[2]) == {"id": "unrelated", "q": 1, "w_y": 0.2}
    assert list(recipe.coordinates) == ["data", "q", "w_y"]


def test_with_changes() -> None:
    recipe = read(CONFIG).with_changes(repeats=9, seed=3)
    assert (recipe.sweep.repeats, recipe.sweep.seed) == (9, 3)
    assert recipe.source == "my.toml"
    with pytest.raises(RecipeError, match=r"sweep\.repeats: got 0; a whole number of 1 or more"):
        recipe.with_changes(repeats=0)


@pytest.mark.parametrize(
    ("path", "value", "expected"),
    [
        ("sweep.repeets", 3, 'sweep.repeets: got 3; there is no such key, did you mean "repeats"?'),
        ("mine.flor", 1, 'mine.flor: got 1; there is no such key, did you mean "floor"?'),
        ("wher", {}, "wher: got {}; there is no such key, known: "),
        ("about.title", ..., "about.title: got nothing; a text is needed"),
        ("about.title", 3, "about.title: got 3; a text is needed"),
        ("about.references", "ZhanMatwin", 'about.references: got "ZhanMatwin"; a list of texts'),
        ("data", [], "data: got []; at least one table [[data]] is needed"),
        ("data", {"id": "a"}, "data: got "),
        ("data[1].id", "cancer", 'data[1].id: got "cancer"; another entry has this id'),
        ("data[0].id", "a/b", 'data[0].id: got "a/b"; an id of letters'),
        ("data[0].set", "brest-cancer", 'data[0].set: got "brest-cancer"; did you mean "breast-c'),
        ("data[0].set", ..., "data[0].file: got nothing; either `set` or `file` is needed"),
        ("data[0].file", "x.csv", 'data[0].file: got "x.csv"; either `set` or `file` is needed'),
        ("data[0].codebook", ..., "data[0].codebook: got nothing; a path relative to the recipe"),
        ("data[0].binarise", "mean", 'data[0].binarise: got "mean"; did you mean "median"?'),
        ("data[0].records", 1, "data[0].records: got 1; a whole number of 2 or more"),
        ("data[0].incomplete", "mend", 'data[0].incomplete: got "mend"; a way is needed: "keep"'),
        ("design.family", "unrelatd", 'design.family: got "unrelatd"; did you mean "unrelated"?'),
        ("design.q", 0.5, "design.q: got 0.5; sweep.grid.q gives the values; leave one"),
        ("design.attributes", ["a"], 'design.attributes: got ["a"]; leave it out'),
        ("design.w_y", float("nan"), "design.w_y: got NaN; a text, a finite number or a list"),
        ("mine.learner", "id4", 'mine.learner: got "id4"; did you mean "id3"? a learner is needed'),
        ("mine.learner", "id3", 'mine.floor: got "1/n"; there is no such key'),
        ("mine.floor", 0, 'mine.floor: got 0; the text "1/n" or a proportion between 0 and 1'),
        ("sweep.repeats", 0, "sweep.repeats: got 0; a whole number of 1 or more is needed"),
        ("sweep.repeats", 10.0, "sweep.repeats: got 10.0; a whole number of 1 or more"),
        ("sweep.repeats", True, "sweep.repeats: got true; a whole number of 1 or more"),
        ("sweep.seed", -1, "sweep.seed: got -1; a whole number of 0 or more"),
        ("sweep.train", 1.0, "sweep.train: got 1.0; a share between 0 and 1, both excluded"),
        ("sweep.train", 0, "sweep.train: got 0; a share between 0 and 1, both excluded"),
        ("sweep.split", "fresh", 'sweep.split: got "fresh"; a kind of split is needed: "fixed"'),
        ("sweep.grid", ..., "sweep.grid: got nothing; a table [sweep.grid]"),
        ("sweep.grid", {}, "sweep.grid: got {}; a table [sweep.grid] with at least one axis"),
        ("sweep.grid.q", [], "sweep.grid.q: got []; a list of at least one value"),
        ("sweep.grid.q", 0.5, "sweep.grid.q: got 0.5; a list of at least one value"),
        ("sweep.grid.q", [0.5, 0.5], "sweep.grid.q[1]: got 0.5; the values of a list must differ"),
        ("sweep.grid.q", [1, 1.0], "sweep.grid.q[1]: got 1.0; the values of a list must differ"),
        (
            "sweep.grid.q",
            [float("inf")],
            "sweep.grid.q[0]: got Infinity; a text or a finite number",
        ),
        ("sweep.grid.repeat", [1], "sweep.grid.repeat: got [1]; an axis is called after a param"),
        ("figure[0].kind", "median", 'figure[0].kind: got "median"; did you mean "mean"?'),
        ("figure[1].id", "means", 'figure[1].id: got "means"; another entry has this id'),
        ("figure[1].data", ["cancr"], 'figure[1].data[0]: got "cancr"; did you mean "cancer"?'),
        ("figure[2].w_a", ..., "figure[2].w_a: got nothing; a list of proportions"),
        ("figure[2].w_a", [0.5, 1], "figure[2].w_a[1]: got 1; a proportion between 0 and 1"),
        ("figure[0].w_a", [0.5], "figure[0].w_a: got [0.5]; there is no such key"),
    ],
)
def test_one_line_with_file_path_value_and_what_is_right(
    path: str, value: Any, expected: str
) -> None:
    with pytest.raises(RecipeError) as error:
        read(changed(path, value))
    assert message(error).startswith(f"my.toml: {expected}")


def test_errors_of_the_file(tmp_path: Path) -> None:
    with pytest.raises(RecipeError) as error:
        Recipe.load(tmp_path / "none.toml")
    assert message(error) == f"{tmp_path / 'none.toml'}: there is no such file"
    bad = tmp_path / "bad.toml"
    bad.write_text('[about]\ntitle = "x"\nseed 3\n')
    with pytest.raises(RecipeError) as error:
        Recipe.load(bad)
    assert message(error).startswith(f"{bad}: line 3, column 6: this is not TOML: ")
    bad.write_bytes(b'[about]\ntitle = "\xff"\n')
    with pytest.raises(RecipeError) as error:
        Recipe.load(bad)
    assert message(error) == f"{bad}: line 2: this is not UTF-8 text"
    with pytest.raises(RecipeError) as error:
        Recipe.load(tmp_path)
    assert "cannot be read" in message(error)
    with pytest.raises(RecipeError, match="no recipe is called 'electronic-survey'"):
        Recipe.load("electronic-survey")


@pytest.mark.parametrize(
    ("path", "value", "expected"),
    [
        ("sweep.grid.q", [0.5, 1.5], "sweep.grid.q[1]: got 1.5; a probability in [0, 1] is needed"),
        ("design.w_y", -1, "design.w_y: got -1; a probability in [0, 1] is needed"),
        ("design.w_y", [0.5], "design.w_y: got 1 entries; one for each of 10 attributes"),
        ("design.w_z", 1, "design.w_z: got 1; not a parameter of 'unrelated'"),
        ("sweep.grid.p", [1], "sweep.grid.p[0]: got 1; not a parameter of 'unrelated'"),
        ("data[0].codebook", "none.toml", "data[0].codebook: got 'none.toml'; there is no file"),
        ("data[0].binarise", ..., "design.w_y: got 0.5; gives [2, 2,"),
    ],
)
def test_the_deeper_check(path: str, value: Any, expected: str) -> None:
    with pytest.raises(RecipeError) as error:
        check_recipe(read(changed(path, value)))
    assert message(error).startswith(f"my.toml: {expected}")


def test_a_missing_parameter_of_the_design() -> None:
    config = copy.deepcopy(CONFIG)
    config["design"] = {"family": "unrelated"}
    config["sweep"]["grid"] = {"w_y": [0.5]}
    with pytest.raises(RecipeError) as error:
        check_recipe(read(config))
    assert message(error).startswith("my.toml: design: q: missing")


def test_a_value_without_inverse_is_allowed() -> None:
    check_recipe(read(changed("sweep.grid.q", [0])))


def test_a_codebook_without_target(tmp_path: Path) -> None:
    book = tmp_path / "book.toml"
    book.write_text('[[attribute]]\nname = "a"\ncategories = ["0", "1"]\n')
    with pytest.raises(
        RecipeError, match="a codebook with a target, the class to learn, is needed"
    ):
        check_recipe(read(changed("data[0].codebook", str(book))))


def test_records_and_incomplete() -> None:
    cancer, first = prepare_all(read(CONFIG))
    assert len(cancer.records) == 699
    assert len(first.records) == 300
    complete = datasets.load("breast-cancer").dropna().iloc[:300]
    assert complete.index[-1] > 299
    assert (first.codebook.encode(complete).codes == first.records.codes).all()
    assert first.codebook.shape == (2,) * 10
    assert cancer.sha256 == first.sha256
    assert cancer.codebook.digest != first.codebook.digest
    with pytest.raises(RecipeError, match=r"data\[1\]\.records: got 684; the data have 683"):
        prepare_all(read(changed("data[1].records", 684)))


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"mine.max_depth": -1}, "mine.max_depth: got -1; a whole number of 0 or more"),
        ({"mine.max_depth": 2.5}, "mine.max_depth: got 2.5; a whole number of 0 or more"),
        ({"mine.min_weight": -0.5}, "mine.min_weight: got -0.5; a number of 0 or more"),
        ({"mine.min_z": True}, "mine.min_z: got true; a number of 0 or more"),
        ({"mine.min_z": float("inf")}, "mine.min_z: got Infinity; a number of 0 or more"),
        ({"mine.floor": 0.1}, "mine.floor: got 0.1; there is no such key"),
        ({"figure[0].x": "q"}, 'figure[0].x: got "q"; an axis of the grid is needed: "groups"'),
        ({"figure[0].series": "theta"}, 'figure[0].series: got "theta"; what tells the lines'),
        ({"figure[0].test": "dirty"}, 'figure[0].test: got "dirty"; a test part is needed: "both"'),
        ({"figure[1].series": "groups"}, 'figure[1].series: got "groups"; there is no such key'),
        ({"figure[2].series": "data"}, 'figure[2].series: got "data"; what tells the lines apart'),
        ({"figure[2].test": "clean"}, 'figure[2].test: got "clean"; there is no such key'),
        ({"figure[3].measure": "pse"}, 'figure[3].measure: got "pse"; a measure is needed'),
        ({"figure[3].series": ...}, "figure[3].series: got nothing; the axis groups is left over"),
    ],
)
def test_one_line_on_trees_and_their_figures(changes: dict[str, Any], expected: str) -> None:
    with pytest.raises(RecipeError) as error:
        read(many(TREES, changes))
    assert message(error).startswith(f"my.toml: {expected}")


def test_figures_and_the_axes_they_need() -> None:
    trees = many(TREES, {"sweep.grid": {"theta": [0.8]}, "design.groups": 2})
    for i, expected in ((2, 'kind: got "grid"; a grid with two axes'), (3, "series: got")):
        with pytest.raises(RecipeError) as error:
            read({**trees, "figure": [trees["figure"][i]]})
        assert message(error).startswith(f"my.toml: figure[0].{expected}")
    two = many(TREES, {"data": [*TREES["data"], {**TREES["data"][0], "id": "again"}]})
    with pytest.raises(RecipeError) as error:
        read(two)
    expected = 'figure[0].data: got ["cancer", "again"]; one data entry is needed'
    assert message(error).startswith(f"my.toml: {expected}")
    words = many(TREES, {"sweep.grid": {"split": ["redrawn"]}})
    with pytest.raises(RecipeError, match=r"sweep\.grid\.split: .*; an axis is called after"):
        read(words)
    words = changed("sweep.grid", {"rule": ["a", "b"], "q": [0.5]})
    with pytest.raises(RecipeError) as error:
        read(words)
    assert message(error).startswith("my.toml: figure[0].x: got nothing; an axis of numbers")


def test_what_leaves_a_tree_alone_is_no_parameter() -> None:
    trees = read(TREES)
    assert read(many(TREES, {"mine.min_weight": 0.0})).digest == trees.digest
    deeper = read(many(TREES, {"mine.max_depth": 3, "mine.min_weight": 2.0, "mine.min_z": 0}))
    assert deeper.mine.config() == {"learner": "id3", "max_depth": 3, "min_weight": 2, "min_z": 0}
    assert deeper.digest != trees.digest


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"sweep.grid.groups": [1, 11]}, "sweep.grid.groups[1]: got 11; a whole number from 1 to"),
        ({"sweep.grid.groups": [1, 0.5]}, "sweep.grid.groups[1]: got 0.5; a whole number from 1"),
        ({"sweep.grid.theta": [0.5, 2]}, "sweep.grid.theta[1]: got 2; a probability in [0, 1]"),
        ({"design.split": "sometimes"}, "design.split: got 'sometimes'; 'redrawn' or 'fixed'"),
        ({"design.q": 0.5}, "design.q: got 0.5; not a parameter of 'multigroup'"),
        ({"data[0].binarise": ...}, "sweep.grid.groups[0]: got 1; group 1 has attribute "),
    ],
)
def test_the_deeper_check_of_random_groups(changes: dict[str, Any], expected: str) -> None:
    with pytest.raises(RecipeError) as error:
        check_recipe(read(many(TREES, changes)))
    assert message(error).startswith(f"my.toml: {expected}")


def test_the_deeper_check_of_given_groups() -> None:
    def given(groups: Any, **design: Any) -> Recipe:
        config = many(TREES, {"sweep.grid": {"theta": [0.8]}, "figure": []})
        return read({**config, "design": {"family": "multigroup", "groups": groups, **design}})

    check_recipe(given([["class"], ["mitoses", "bare-nuclei"]]))
    for groups, expected in (
        ([["class"], ["mitosis"]], "group 2 has the unknown attribute 'mitosis'"),
        ([["class"], ["mitoses", "class"]], "attribute 'class' is in groups 1 and 2"),
        ([["class"], []], "group 2 is empty"),
    ):
        with pytest.raises(RecipeError) as error:
            check_recipe(given(groups))
        assert message(error).startswith("my.toml: design.groups: got ")
        assert expected in message(error)


def test_curves_of_single_attributes_need_a_design_for_them() -> None:
    check_recipe(read(TREES))
    config = changed("design.w_y", [0.5] * 10)
    with pytest.raises(RecipeError) as error:
        check_recipe(read(config))
    assert message(error).startswith("my.toml: figure[2].w_a: got [0.3, 0.5]; leave the figure out")


BOOK = """target = "sick"
[[attribute]]
name = "smoker"
categories = ["no", "yes"]
[[attribute]]
name = "sick"
categories = ["0", "1", "?"]
missing = "?"
"""


def own_data(folder: Path, data: str, name: str = "my.csv") -> Recipe:
    (folder / "book.toml").write_text(BOOK)
    (folder / name).write_text(data)
    config = copy.deepcopy(CONFIG)
    config["data"] = [{"id": "mine", "file": name, "codebook": "book.toml"}]
    del config["figure"][1]["data"]
    return Recipe.load(write_recipe(folder / "own.toml", config))


def test_a_file_of_ones_own(tmp_path: Path) -> None:
    text = "smoker,sick,other\nyes,1,a\nno,0,b\nno,,c\n"
    recipe = own_data(tmp_path, text)
    (mine,) = prepare_all(recipe)
    assert mine.records.codes.tolist() == [[1, 1], [0, 0], [0, 2]]
    assert mine.sha256 == hashlib.sha256(text.encode()).hexdigest()


def test_data_that_do_not_fit(tmp_path: Path) -> None:
    recipe = own_data(tmp_path, "smoker,sick\nyes,1\nsometimes,0\n")
    with pytest.raises(CodebookError) as error:
        prepare_all(recipe)
    text = message(error)
    assert text.startswith(f"{tmp_path / 'book.toml'}: does not fit the data of 'mine': ")
    assert "'smoker', row 1: value 'sometimes' is not declared" in text


def test_a_file_that_is_absent_or_no_table(tmp_path: Path) -> None:
    recipe = own_data(tmp_path, "smoker,sick\nyes,1\n")
    (tmp_path / "my.csv").write_text('smoker,sick\nyes,1,2,"3\n')
    with pytest.raises(DataError) as error:
        prepare_all(recipe)
    assert message(error).startswith(f"{tmp_path / 'my.csv'}: line 2: this is not CSV: ")
    (tmp_path / "my.csv").unlink()
    with pytest.raises(RecipeError, match=r"data\[0\]\.file: got 'my\.csv'; there is no file"):
        prepare_all(recipe)
    with pytest.raises(RecipeError, match=r"ends in \.csv, \.parquet, \.arrow, "):
        own_data(tmp_path, "", "my.xls")


def test_a_recipe_may_name_labels(tmp_path: Path) -> None:
    """Laws by label are those of the codebook; a label that it lacks is refused with its place."""
    book = tmp_path / "book.toml"
    book.write_text(
        'target = "b"\n[[attribute]]\nname = "a"\ncategories = ["y", "n"]\n'
        '[[attribute]]\nname = "b"\ncategories = ["u", "v"]\n'
    )
    (tmp_path / "data.csv").write_text("a,b\n" + "y,u\nn,v\n" * 10)
    config = many(
        CONFIG,
        {
            "data": [{"id": "own", "file": "data.csv", "codebook": "book.toml"}],
            "design.w_y": {"a": {"n": "9/10", "y": "1/10"}, "b": {"u": 0.5, "v": 0.5}},
            "figure": [],
        },
    )
    recipe = replace(Recipe.from_config(config), base=tmp_path)
    check_recipe(recipe)
    (prepared,) = prepare_all(recipe)
    design = build_design(recipe.design_at(recipe.points()[1]), prepared.records)
    np.testing.assert_array_equal(design.w_y[0], [0.1, 0.9])
    config["design"]["w_y"]["a"] = {"nein": 0.9, "y": 0.1}
    recipe = replace(Recipe.from_config(config), base=tmp_path)
    with pytest.raises(RecipeError, match=r"design on 'a': the codebook has no category 'nein'"):
        check_recipe(recipe)
