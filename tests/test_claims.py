"""Claims: their files, the rules that judge them, and the page that lists them."""

from __future__ import annotations

import ast
import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr

from ppdm_dask import resources
from ppdm_dask.claims.calculations import CALCULATIONS
from ppdm_dask.claims.claim import Claim, Paper, load_papers, paper_from_config
from ppdm_dask.claims.judge import (
    claims_of,
    judge,
    papers_of,
    read_summary,
    reproduction_page,
    same_experiment,
)
from ppdm_dask.claims.rules import RULES
from ppdm_dask.claims.verdict import STATUSES, number
from ppdm_dask.errors import InputError, RecipeError
from ppdm_dask.experiments.kinds import load_recipe, recipe_from_config

ROOT = Path(__file__).resolve().parent.parent
CLAIMS = [claim for paper in load_papers() for claim in paper.claims]
TESTABLE = [claim for claim in CLAIMS if claim.untestable is None]
STORED = read_summary(ROOT / "docs" / "reproduction.json")
JUDGED_ON = {run["recipe"] for run in STORED["runs"]}

# -- the files -------------------------------------------------------------------------------------


def names(claims: list[Claim]) -> list[str]:
    return [claim.id for claim in claims]


def test_four_papers_published_surveys_and_at_least_thirty_testable_claims() -> None:
    keys = {paper.key for paper in load_papers()}
    assert keys == {"ZhanMatwin", "ZhanDu", "Guo", "HuangDu", "Published"}
    assert len(TESTABLE) >= 30
    assert len(set(names(CLAIMS))) == len(CLAIMS)


def functions(path: Path) -> set[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


@pytest.mark.parametrize("test", sorted({str(claim.test) for claim in TESTABLE}))
def test_the_test_that_holds_a_claim_is_there(test: str) -> None:
    path, _, name = test.partition("::")
    assert name.startswith("test_")
    assert name in functions(ROOT / path)


@pytest.mark.parametrize("claim", [c for c in TESTABLE if c.recipe], ids=lambda claim: claim.id)
def test_recipes_refer_to_the_paper_and_have_the_figures(claim: Claim) -> None:
    recipe = load_recipe(str(claim.recipe))
    assert claim.paper in recipe.about.references
    assert set(claim.figures) <= {figure.id for figure in recipe.figures}


def test_every_calculation_serves_a_claim() -> None:
    assert set(CALCULATIONS) == {claim.calculation for claim in TESTABLE} - {None}


def test_every_figure_of_a_paper_is_claimed_something_of() -> None:
    claimed = {(claim.recipe, figure) for claim in TESTABLE for figure in claim.figures}
    for name in ("electronic-surveys", "multi-group", "aibr", "optrr"):
        for figure in load_recipe(name).figures:
            assert (name, figure.id) in claimed


def test_the_page_of_keys_names_every_rule_and_status() -> None:
    text = (ROOT / "pipelines" / "claims" / "README.md").read_text(encoding="utf-8")
    for rule in RULES:
        assert f"| `{rule}` |" in text
    for status in STATUSES:
        assert f"*{status}*" in text


GOOD: dict[str, Any] = {
    "paper": "Mine",
    "title": "A paper",
    "authors": "Somebody",
    "claim": [
        {
            "id": "one",
            "where": "page 1",
            "says": "It rises.",
            "recipe": "my-recipe",
            "rule": "monotone",
            "variable": "height_mean",
            "at": {"data": ["a"]},
            "along": "x",
            "direction": "rises",
            "paths": [[1, 2, 3]],
            "test": "tests/test_claims.py::test_bad_claims_are_one_line",
        }
    ],
}


def changed(**changes: Any) -> dict[str, Any]:
    config = copy.deepcopy(GOOD)
    for key, value in changes.items():
        if value is ...:
            del config["claim"][0][key]
        else:
            config["claim"][0][key] = value
    return config


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"says": ...}, "claim[0].says: got nothing"),
        ({"rule": "monotonous"}, 'claim[0].rule: got "monotonous"; did you mean "monotone"?'),
        ({"recipe": ...}, "claim[0].recipe: got nothing; either a recipe or a calculation"),
        ({"calculation": "hint"}, "claim[0].recipe: got"),
        ({"calculation": "hunt", "recipe": ...}, 'got "hunt"; did you mean "hint"?'),
        ({"direction": "up"}, 'claim[0].direction: got "up"'),
        ({"paths": [[1]]}, "claim[0].paths: got [[1]]; a list of walks"),
        ({"paths": "x"}, 'claim[0].paths: got "x"'),
        ({"at": {"data": "a"}}, 'claim[0].at.data: got "a"'),
        ({"at": 3}, "claim[0].at: got 3"),
        ({"share": 0}, "claim[0].share: got 0"),
        ({"each": "yes"}, 'claim[0].each: got "yes"; true or false'),
        ({"test": ...}, "claim[0].test: got nothing"),
        ({"status": "reproduced"}, "claim[0].status: got"),  # a status is never typed in
        ({"untestable": "no reason"}, "claim[0].recipe: got"),
    ],
)
def test_bad_claims_are_one_line(changes: dict[str, Any], says: str) -> None:
    with pytest.raises(RecipeError) as caught:
        paper_from_config(changed(**changes), "mine.toml")
    message = str(caught.value)
    assert message.startswith("mine.toml: ")
    assert says in message
    assert "\n" not in message


def test_ids_differ() -> None:
    config = copy.deepcopy(GOOD)
    config["claim"] *= 2
    with pytest.raises(RecipeError, match=r"mine.toml: claim\[1\].id: got \"one\"; another"):
        paper_from_config(config, "mine.toml")


# -- the rules, on small results with known answers -----------------------------------------------

HEIGHTS = {"rising": [1.0, 2.0, 3.0], "level": [2.0, 2.05, 2.1], "dip": [1.0, 0.0, 3.0]}


def result(
    error: float = 0.1, repeats: int = 100, missing: int = 0, kind: type = object
) -> xr.Dataset:
    """Three entries along x = 1, 2, 3, all numbers with one standard error."""
    shape = (3, 3)
    return xr.Dataset(
        {
            "height_mean": (("data", "x"), np.array(list(HEIGHTS.values()))),
            "height_mean_se": (("data", "x"), np.full(shape, error)),
            "exact": (("data", "x"), np.array([[1, 2, 3], [5, 5, 5], [np.nan, 1, 0]], float)),
            "undefined": (("data", "x"), np.array([[""] * 3, [""] * 3, ["no x", "", ""]], object)),
            "completed": (("data", "x"), np.full(shape, repeats - missing)),
            "trial": (("data", "repeat"), np.arange(3.0 * repeats).reshape(3, repeats)),
        },
        {"data": np.array(list(HEIGHTS), kind), "x": [1.0, 2.0, 3.0]},
    )


def judged(ds: xr.Dataset, **keys: Any) -> Any:
    config = copy.deepcopy(GOOD)
    own = {key: config["claim"][0][key] for key in ("id", "where", "says", "recipe", "test")}
    config["claim"] = [own | keys]
    (claim,) = paper_from_config(config, "mine.toml").claims
    return judge(claim, {"my-recipe": ds})


def monotone(data: str, ds: xr.Dataset, **keys: Any) -> Any:
    given: dict[str, Any] = {
        "rule": "monotone",
        "variable": "height_mean",
        "at": {"data": [data]},
        "along": "x",
        "direction": "rises",
        "paths": [[1, 2, 3]],
    }
    return judged(ds, **(given | keys))


def test_monotone() -> None:
    assert monotone("rising", result()).status == "reproduced"
    assert monotone("rising", result(), direction="falls").status == "differs"
    assert monotone("rising", result(), paths=[[3, 2, 1]], direction="falls").status == "reproduced"
    # A dip of 1 is 7 standard errors of a difference at .1, and 0.7 at 1.
    # Texts of an axis are objects in a result that was just made, and are not in one that was read.
    found = monotone("dip", result(kind=str))
    assert found == monotone("dip", result())
    assert (found.status, found.against, found.cells) == ("differs", 1, 2)
    assert "from 1.00 ± 0.10 to 0.00 ± 0.10" in found.measured
    assert "dip, x = 1 to x = 2" in found.measured
    assert monotone("dip", result(0.6)).status == "undecided"  # 2 against 4 * .85
    assert monotone("dip", result(0.4)).status == "undecided"
    assert monotone("dip", result(0.3)).status == "reproduced"  # 2 against 4 * .42; the dip is 2.4
    assert monotone("dip", result(), share=0.5).status == "reproduced"
    assert monotone("level", result()).status == "undecided"
    assert monotone("level", result(0.01)).status == "reproduced"
    mean = monotone("rising", result(), at={}, mean=True)
    assert mean.status == "reproduced"
    assert mean.figure == pytest.approx((3 + 2.1 + 3 - 1 - 2 - 1) / 3)
    assert mean.error == pytest.approx(np.hypot(0.1, 0.1) / np.sqrt(3))


def test_compare() -> None:
    keys: dict[str, Any] = {"rule": "compare", "variable": "height_mean", "relation": "above"}
    at = {"data": ["rising"]}
    assert judged(result(), **keys, at=at, than=0).status == "reproduced"
    assert judged(result(), **keys, at=at, than=2).status == "differs"
    assert judged(result(), **keys, at=at, than=1).status == "reproduced"  # one tie, two clear
    assert judged(result(), **keys, at={"data": ["level"]}, than=2).status == "undecided"
    assert judged(result(), **keys, at={"data": ["level"]}, than=2, ties=True).status == (
        "reproduced"
    )
    # Another place: rising less level is -1, -.05, .9.
    other = judged(result(), **keys, at=at, than={"at": {"data": ["level"]}})
    assert (other.status, other.against) == ("differs", 1)
    assert other.figure == pytest.approx(-1)
    assert other.error == pytest.approx(np.hypot(0.1, 0.1))
    assert judged(result(), **keys, at=at, than={"at": {"data": ["level"]}}, share=0.6).status == (
        "undecided"
    )
    # Several places against one: level and dip at x = 1 against rising there.
    places = {"data": ["rising"], "x": [1]}
    many = judged(
        result(), **keys, at=places, than={"at": {"data": ["level", "dip"]}, "plus": -1.5}
    )
    assert (many.status, many.cells) == ("reproduced", 2)
    # Arithmetic: (rising - exact) is 0 everywhere.
    none = judged(result(), **keys, at=at, minus={"variable": "exact"}, than=-1)
    assert none.status == "reproduced"
    assert judged(result(), **keys, at=at, over={"variable": "exact"}, than=0.5).status == (
        "reproduced"
    )
    # The ratio to another place: 1, 2, 3 over 1, 0, 3, of which the second is not a number. The
    # errors are .14 and .047, so that .5 is 3.5 of the first and 10.6 of the second.
    other = {"at": {"data": ["dip"]}, "variable": "height_mean"}
    ratio = judged(result(), **keys, at=at, over=other, than=1.5)
    assert (ratio.status, ratio.cells, ratio.against) == ("differs", 2, 1)
    assert (ratio.figure, ratio.error) == (pytest.approx(1), pytest.approx(np.sqrt(2) / 30))
    assert judged(result(), **keys, at=at, over=other, than=0.5).status == "reproduced"
    twice = judged(result(), **keys, at=at, times=2, plus=1, than=6)
    assert (twice.status, twice.against) == ("differs", 2)
    assert (twice.figure, twice.error) == (pytest.approx(3), pytest.approx(0.2))


def test_equal_and_within() -> None:
    keys: dict[str, Any] = {"rule": "equal", "variable": "height_mean", "at": {"data": ["rising"]}}
    assert judged(result(), **keys, than={"variable": "exact"}).status == "reproduced"
    assert judged(result(), **keys, than=1.3).status == "differs"  # 3 is 17 errors away
    exact: dict[str, Any] = {"rule": "equal", "variable": "exact", "at": {"data": ["level"]}}
    assert judged(result(), **exact, than=5).status == "reproduced"
    assert judged(result(), **exact, than=5.001).status == "differs"
    assert judged(result(), **exact, than=5.001, tolerance=0.01).status == "reproduced"
    within: dict[str, Any] = {
        "rule": "within",
        "variable": "height_mean",
        "at": {"data": ["rising"], "x": [2]},
    }
    assert judged(result(), **within, expected=2.1, tolerance=0.2).status == "reproduced"
    assert judged(result(), **within, expected=2.5, tolerance=0.2).status == "undecided"
    assert judged(result(), **within, expected=2.7, tolerance=0.2).status == "differs"
    assert judged(result(0.15), **within, expected=2.1, tolerance=0.2).status == "undecided"
    several = judged(
        result(0.01),
        rule="within",
        at={"data": ["level"], "x": [3]},
        expected={"height_mean": 2.0, "exact": 5},
        tolerance={"height_mean": 0.2, "exact": 0},
    )
    assert several.status == "reproduced"
    assert [(row.label, row.printed, row.ours) for row in several.rows] == [
        ("HEIGHT", 2.0, 2.1),
        ("exact", 5.0, 5.0),
    ]


def test_extreme_and_defined() -> None:
    keys: dict[str, Any] = {"rule": "extreme", "variable": "height_mean", "along": "x"}
    at = {"data": ["rising"]}
    assert judged(result(), **keys, at=at, which="largest", place=[3]).status == "reproduced"
    assert judged(result(), **keys, at=at, which="largest", place=[1, 2]).status == "differs"
    assert judged(result(), **keys, which="smallest", place=[1, 2]).status == "reproduced"
    defined: dict[str, Any] = {"rule": "defined", "variable": "exact"}
    assert judged(result(), **defined, at={"x": [2, 3]}).status == "reproduced"
    found = judged(result(), **defined, at={"x": [1]})
    assert found.status == "differs"
    assert found.measured == "undefined at dip, x = 1: no x"


def test_repeats_count_as_one_mean_or_each() -> None:
    keys: dict[str, Any] = {"rule": "compare", "variable": "trial", "relation": "above"}
    at = {"data": ["level"]}  # 100, ..., 199: mean 149.5, error 2.9
    mean = judged(result(), **keys, at=at, than=100)
    assert mean.status == "reproduced"
    assert mean.figure == pytest.approx(149.5)
    assert mean.error == pytest.approx(np.std(np.arange(100), ddof=1) / 10)
    each = judged(result(), **keys, at=at, than=100.5, each=True)
    assert (each.status, each.cells, each.against) == ("differs", 100, 1)


def test_what_cannot_be_judged() -> None:
    def reason(ds: xr.Dataset, **keys: Any) -> str:
        found = monotone("rising", ds, **keys)
        assert found.status == "not judged"
        return str(found.measured)

    assert reason(result(missing=1)) == "not all repeats are computed yet"
    assert reason(result(repeats=29)) == "fewer than 30 repeats"
    assert reason(result(), at={"data": ["other"]}) == "the result has no other"
    assert reason(result(), paths=[[1, 4]]) == "the result has no x = 4"
    assert reason(result(), variable="width") == "the result has no width"
    assert reason(result(), along="y", paths=[[1, 2]]) == "the result has no axis y"
    # An undefined cell is not a missing one.
    ds = result()
    ds["completed"][2, 0] = 0
    assert monotone("dip", ds, variable="exact", direction="falls", paths=[[2, 3]]).status == (
        "reproduced"
    )
    (claim,) = paper_from_config(GOOD, "mine.toml").claims
    assert judge(claim, {}).measured == "no run of my-recipe is at hand"


def test_numbers_have_the_digits_that_their_error_leaves() -> None:
    assert number(0.123456, 0.0123) == "0.123 ± 0.012"
    assert number(0.123456) == "0.12346"
    assert number(48842.0) == "48,842"
    assert number(1e-17) == "0"
    assert number(1.5e-5, 2e-6) == "1.50e-05 ± 2.0e-06"
    assert number(float("nan")) == "none"


# -- which claims a run shows ----------------------------------------------------------------------


def test_claims_are_shown_with_the_package_s_recipes_only() -> None:
    recipe = load_recipe("electronic-surveys")
    shown = names(list(claims_of(recipe)))
    assert {"zm-q1", "zm-half", "zm-curves"} <= set(shown)
    assert not any(name.startswith("zd-") for name in shown)
    assert names(list(claims_of(recipe.with_changes(repeats=5, seed=3)))) == shown
    config = recipe.config()
    config["sweep"]["grid"]["q"] = [0.5, 1]
    own = recipe_from_config(config, name="electronic-surveys")
    assert not same_experiment(own)
    assert claims_of(own) == ()
    assert [paper.key for paper in papers_of(own)] == ["ZhanMatwin"]
    assert claims_of(load_recipe("electronic-surveys-redrawn")) == ()


# -- what is stored, and the page ------------------------------------------------------------------


def test_the_stored_summary_is_of_the_registry() -> None:
    assert list(STORED["claims"]) == names(CLAIMS)
    assert {each["status"] for each in STORED["claims"].values()} <= set(STATUSES)
    assert {"aibr", "electronic-surveys", "multi-group", "optrr"} <= JUDGED_ON
    assert {claim.recipe for claim in TESTABLE} >= JUDGED_ON


def test_the_page_is_what_the_command_writes_from_the_summary() -> None:
    page = (ROOT / "docs" / "reproduction.md").read_text(encoding="utf-8")
    assert page == reproduction_page(STORED)
    for claim in TESTABLE:
        assert f"| `{claim.id}`<br>" in page


@pytest.mark.parametrize("claim", TESTABLE, ids=lambda claim: claim.id)
def test_an_explanation_stands_where_results_differ_and_nowhere_else(claim: Claim) -> None:
    status = STORED["claims"][claim.id]["status"]
    if claim.recipe is not None and claim.recipe not in JUDGED_ON:
        assert status == "not judged"
        return
    assert status in ("reproduced", "differs", "undecided")
    if status != "undecided":
        assert (claim.differs is not None) == (status == "differs")


@pytest.mark.parametrize(
    "claim", [claim for claim in TESTABLE if claim.recipe is None], ids=lambda claim: claim.id
)
def test_calculations_and_surveys_say_today_what_is_stored(claim: Claim) -> None:
    found, stored = judge(claim, {}), STORED["claims"][claim.id]
    assert found.status == stored["status"]
    if found.figure is not None:
        assert found.figure == pytest.approx(stored["figure"], rel=1e-6, abs=1e-9)


def test_bad_summaries_are_one_line(tmp_path: Path) -> None:
    path = tmp_path / "it.json"
    with pytest.raises(InputError, match=r"it\.json: cannot be read: No such file"):
        read_summary(path)
    path.write_text("{")
    with pytest.raises(InputError, match=r"it\.json: this is not JSON"):
        read_summary(path)
    path.write_text("{}")
    with pytest.raises(InputError, match=r"it\.json: this is not a summary of claims"):
        read_summary(path)


def test_claims_ship_beside_the_recipes() -> None:
    folder = resources.pipelines_dir() / "claims"
    assert {path.stem for path in folder.glob("*.toml")} == {
        "guo",
        "huang-du",
        "published",
        "zhan-du",
        "zhan-matwin",
    }
    # They are no recipes.
    assert not {"guo", "claims"} & set(resources.recipes())


def test_papers_have_claims() -> None:
    assert all(isinstance(paper, Paper) for paper in load_papers())
    assert all(
        len(paper.claims) >= (10 if paper.key == "Published" else 20) for paper in load_papers()
    )
