"""Goldens, grades, fingerprints and summaries: what is written, read, and refused."""

from __future__ import annotations

import json
import re
import socket
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from small_recipe import CONFIG, write_recipe

from ppdm_dask.errors import DataError, InputError
from ppdm_dask.experiments.kinds import load_recipe, recipe_from_config
from ppdm_dask.experiments.run import run
from ppdm_dask.reproduce.golden import Golden, differences, fingerprint, golden_path, short
from ppdm_dask.reproduce.reproduce import GRADES, default_folder, read_grade
from ppdm_dask.reproduce.summary import Figure, Summary, summarise
from ppdm_dask.resources import recipes

GOLDENS = Path(__file__).parent / "golden"

GOLDEN = Golden(
    recipe="surveys",
    grade="small",
    recipe_digest="12",
    digest="34",
    fingerprint={"numpy": "2.4.6", "numpy's processor features": ["X86_V2", "X86_V3"]},
    version="0.1.0",
    summaries={
        "correct": Summary(
            "correct",
            "records",
            "mean",
            "56",
            {
                "data=a b q=0.5": Figure(1.5, 0.25, 4),
                "data=a b q=1": Figure(2.0, None, 1),
                "data=c q=1": Figure(None, None, 3),
            },
        ),
        "limit": Summary("limit", "1", "value", "78", {"": Figure(float("inf")), "q=1": Figure(3)}),
        "undefined": Summary("undefined", "", "value", "90", {"q=0": Figure("at q = 0 “nothing”")}),
        "empty": Summary("empty", "1", "mean", "ab", {}),
    },
    history=(
        {"date": "2026-01-02", "digest": "99", "reason": "the first of them"},
        {"date": "2026-02-03", "digest": "34", "reason": "a better one"},
    ),
)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Result of the small recipe."""
    return run(recipe_from_config(CONFIG), workers=0, out=tmp_path_factory.mktemp("runs")).dataset


def test_a_golden_is_read_as_it_was_written(tmp_path):
    path = golden_path(tmp_path, "surveys", "small")
    GOLDEN.write(path)
    assert path == tmp_path / "surveys" / "small.json"
    assert Golden.read(path) == GOLDEN
    # JSON of the standard, not of Python: no infinities.
    json.loads(path.read_text(encoding="utf-8"), parse_constant=pytest.fail)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda d: d.update(schema="ppdm golden 0"), "schema: got 'ppdm golden 0'"),
        (lambda d: d.pop("digest"), "digest: this key of a golden is missing"),
        (lambda d: d.update(more=1), "more: this key of a golden is not known"),
        (lambda d: d["variables"]["limit"].pop("cells"), "this golden is damaged"),
        (
            lambda d: d["variables"]["limit"]["cells"].update(a={"b": {"c": 1}}),
            "this golden is damaged",
        ),
        (
            lambda d: d["variables"]["limit"]["cells"].update(a={"b": [0.5, 10**400, 3]}),
            "this golden is damaged",
        ),
        (lambda d: d.update(history=[{"date": "today"}]), "this golden is damaged"),
    ],
)
def test_damaged_goldens_are_refused(
    tmp_path: Path, change: Callable[[dict[str, Any]], Any], message: str
):
    path = golden_path(tmp_path, "surveys", "small")
    GOLDEN.write(path)
    found = json.loads(path.read_text())
    change(found)
    path.write_text(json.dumps(found))
    (tmp_path / "SHA256SUMS").unlink()  # which would tell of any change
    with pytest.raises(DataError, match=re.escape(f"{path}: {message}")) as error:
        Golden.read(path)
    assert "\n" not in str(error.value)


def test_files_that_are_no_goldens(tmp_path):
    with pytest.raises(DataError, match="there is no such golden; `ppdm reproduce --renew"):
        Golden.read(tmp_path / "none.json")
    for text in ("", "[]", "\xff"):
        (tmp_path / "some.json").write_text(text, encoding="latin-1")
        with pytest.raises(DataError, match=re.escape(f"{tmp_path / 'some.json'}: ")):
            Golden.read(tmp_path / "some.json")


def test_summaries_are_moments_over_the_repeats(finished):
    found = summarise(finished)
    values = finished["correct"].sel(data="cancer", q=0.5).to_numpy()
    cell = found["correct"].cells["data=cancer q=0.5"]
    assert cell.n == len(values) == 4
    assert cell.value == pytest.approx(values.mean(), rel=1e-9)
    assert cell.se == pytest.approx(values.std(ddof=1) / 2, rel=1e-4)
    assert "data=cancer q=0" not in found["correct"].cells
    assert found["undefined"].cells["data=cancer q=0"].value.startswith("at q = 0")
    # One split for all repeats is a value; the variance has a standard error of its own.
    assert found["benchmark_correct"].kind == "value"
    variance = found["accuracy_variance"].cells["data=cancer q=0.5"]
    share = values / int(finished["n_test"].sel(data="cancer"))
    assert variance.value == pytest.approx(share.var(ddof=1), rel=1e-9)
    assert variance.n == 4
    assert variance.se is not None


def test_summaries_restate_nothing(finished):
    names = set(summarise(finished))
    assert {"correct", "floored", "nodes"} & names == {"correct", "floored"}
    assert not {"accuracy_mean", "accuracy_mean_se", "floored_mean", "benchmark", "pse"} & names


def test_a_variables_digest_moves_with_any_of_its_bits(finished):
    other = finished.copy(deep=True)
    # Two repeats change places: neither mean nor standard error moves.
    values = other["correct"].to_numpy()
    values[0, 1] = values[0, 1][::-1]
    assert not np.array_equal(values, finished["correct"].to_numpy())
    ours, theirs = summarise(finished), summarise(other)
    assert ours["correct"].cells == theirs["correct"].cells
    assert [name for name in ours if ours[name].digest != theirs[name].digest] == ["correct"]


def test_fingerprints_tell_what_differs():
    golden = {
        "python": "3.11.7 CPython",
        "numpy": "2.4.6",
        "clarabel": "0.11.1",
        "numpy's processor features": ["X86_V2", "X86_V3", "X86_V4"],
    }
    own = {
        "python": "3.11.9 CPython",
        "numpy": "2.4.0",
        "numpy's processor features": ["X86_V2", "X86_V3", "NEW"],
        "C library": "glibc 2.41",
    }
    assert differences(golden, golden) == []
    assert differences(golden, own) == [
        "numpy: 2.4.6 in the golden, 2.4.0 here",
        "clarabel: 0.11.1 in the golden, none here",
        "numpy's processor features: without X86_V4 and with NEW",
        "C library: none in the golden, glibc 2.41 here",
    ]
    assert differences({"python": "3.11.7 CPython"}, {"python": "3.12.1 CPython"}) != []
    assert short(golden) != short(own)


def test_the_fingerprint_has_every_library_and_both_processors():
    found = fingerprint()
    assert {"python", "numpy", "scipy", "numba", "pandas", "scikit-learn"} <= set(found)
    assert found["numpy"] == np.__version__
    assert found["numba's processor"]
    assert found["numba's processor features"]
    assert found["linear algebra"]


GRADES_TOML = """
[small.first]
file = "first.toml"
sweep.repeats = 2
data.cancer.records = 200

[small.second]
left_out = "it is slow"

[full.first]
file = "first.toml"
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "grades.toml").write_text(GRADES_TOML)
    write_recipe(tmp_path / "first.toml")
    return tmp_path


def test_a_grade_changes_values_of_recipes(folder):
    grade = read_grade(folder, "small")
    (recipe,) = grade.recipes
    plain = load_recipe(folder / "first.toml")
    wanted = deepcopy(plain.config())
    wanted["sweep"]["repeats"] = 2
    wanted["data"][0]["records"] = 200
    assert recipe.config() == wanted
    assert (recipe.name, recipe.base) == ("first", plain.base)
    assert grade.left_out == {"second": "it is slow"}
    assert read_grade(folder, "full").recipes[0].digest == plain.digest


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("sweep.repeats", "sweep.repeat", "sweep.repeats: got nothing|sweep.repeat: got 2"),
        ("repeats = 2", "repeats = 0", "small.first of .*sweep.repeats: got 0"),
        ("data.cancer", "data.tumour", "small.first.data.tumour: got .*known: cancer, first-300"),
        ('"it is slow"', '""', 'small.second.left_out: got ""; the reason is needed'),
        ('left_out = "it is slow"', "", "no recipe is called 'second'"),
        ('"it is slow"', '"it is slow"\nsweep.repeats = 2', "small.second.sweep: .* no such key"),
        (
            '"first.toml"',
            '"/dev/zero"',
            r"grades\.toml: small\.first\.file: /dev/zero: .* a device",
        ),
        (
            '"first.toml"',
            '"none.toml"',
            r"grades\.toml: small\.first\.file: .*none\.toml: there is",
        ),
        ("small.first", 'small."a\\u0000"', "got .*; the name of a recipe"),
        ("small.first", 'small.".."', r"small\.\.\.: got .*; the name of a recipe"),
        ("small.first", 'small."../first"', r"small\.\.\./first: got .*; the name of a recipe"),
        (
            "small.first",
            f"small.{'a' * 3_000}",
            r"small\.a{57}\.\.\.: got .*; the name of a recipe",
        ),
        ("[small.", "[tiny.", r"small: got nothing; a table \[small\]"),
    ],
)
def test_wrong_grades_are_refused_in_one_line(folder, old, new, message):
    path = folder / "grades.toml"
    path.write_text(path.read_text().replace(old, new))
    with pytest.raises(InputError, match=message) as error:
        read_grade(folder, "small")
    assert "\n" not in str(error.value)


def test_recipes_that_a_grade_lacks(folder):
    assert len(read_grade(folder, "small", ["first", "first"]).recipes) == 1
    with pytest.raises(InputError, match="got recipe 'second'; it is left out: it is slow"):
        read_grade(folder, "small", ["second"])
    with pytest.raises(InputError, match="got recipe 'third'; it has no such; there are: first"):
        read_grade(folder, "small", ["third"])
    with pytest.raises(InputError, match=r"grades\.toml: there is no such file"):
        read_grade(folder / "nowhere", "small")


def test_every_recipe_has_its_place_in_each_grade():
    assert default_folder() == GOLDENS
    for name in GRADES:
        grade = read_grade(GOLDENS, name)
        assert {*(recipe.name for recipe in grade.recipes), *grade.left_out} == set(recipes())
    full = {recipe.name for recipe in read_grade(GOLDENS, "full").recipes}
    assert {"electronic-surveys", "multi-group", "aibr", "optrr"} <= full


WANTED = [(grade, recipe) for grade in GRADES for recipe in read_grade(GOLDENS, grade).recipes]


@pytest.mark.parametrize(
    ("grade", "recipe"), WANTED, ids=[f"{grade}-{recipe.name}" for grade, recipe in WANTED]
)
def test_every_golden_is_of_its_recipe_as_it_is_now(grade, recipe):
    path = golden_path(GOLDENS, recipe.name, grade)
    golden = Golden.read(path)
    assert (golden.recipe, golden.grade) == (recipe.name, grade)
    assert golden.recipe_digest == recipe.digest
    assert golden.history[-1]["digest"] == golden.digest
    assert all(entry["reason"].strip() for entry in golden.history)


def test_there_are_no_other_goldens():
    wanted = {golden_path(GOLDENS, recipe.name, grade) for grade, recipe in WANTED}
    assert set(GOLDENS.rglob("*.json")) <= wanted


def test_goldens_name_no_machine():
    host = socket.gethostname()
    for path in GOLDENS.rglob("*.json"):
        text = path.read_text(encoding="utf-8")
        assert not re.search(r'"(/|~|[A-Z]:\\)', text), path
        assert len(host) < 4 or host not in text, path
