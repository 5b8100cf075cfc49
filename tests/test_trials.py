"""Trials: one class and one line in the registry make an experiment over a grid."""

from __future__ import annotations

import json
import pickle
import re
import sys
import tomllib
from itertools import permutations, product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pages import blocks

from ppdm_dask.cli import main
from ppdm_dask.errors import RecipeError, RunFolderError
from ppdm_dask.experiments.grid import summarise
from ppdm_dask.experiments.kinds import check_recipe, make_plan, recipe_from_config
from ppdm_dask.experiments.results import digest, read_netcdf
from ppdm_dask.experiments.run import run
from ppdm_dask.experiments.trials.results import registry
from ppdm_dask.experiments.trials.trial import TRIALS, find_trial
from ppdm_dask.files.declared import described, fields_of
from ppdm_dask.resources import pipelines_dir

Capture = pytest.CaptureFixture[str]

CODE, RECIPE = (
    block.text
    for block in blocks("CONTRIBUTING.md", "python", "toml")
    if block.section == "Add a trial"
)


@pytest.fixture(autouse=True)
def _warner(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    """The page's file, and the one line."""
    folder = tmp_path_factory.mktemp("trial")
    (folder / "warner_of_the_page.py").write_text(CODE, encoding="utf-8")
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.delitem(sys.modules, "warner_of_the_page", raising=False)
    monkeypatch.setitem(TRIALS, "warner", "warner_of_the_page:Warner")


@pytest.fixture
def recipe(tmp_path: Path) -> Path:
    path = tmp_path / "warner.toml"
    path.write_text(RECIPE, encoding="utf-8")
    return path


def output(capsys: Capture, *arguments: str | Path) -> str:
    assert main([str(argument) for argument in arguments]) == 0
    return capsys.readouterr().out


def test_a_trial_gives_what_its_formula_says(recipe: Path, tmp_path: Path) -> None:
    result = run(recipe, workers=0, out=tmp_path / "runs")
    ds = result.dataset
    defined = ds.sel(theta=[0.7, 0.9])
    error, se = defined["squared_error_mean"], defined["squared_error_mean_se"]
    # Warner (1965): p (1 - p) / n + theta (1 - theta) / (n (2 theta - 1)^2).
    theta, n = defined["theta"], defined["n"]
    known = 0.25 * 0.75 / n + theta * (1 - theta) / (n * (2 * theta - 1) ** 2)
    known = known.transpose("theta", "n")
    warner = error.sel(variant="warner")
    assert (abs(warner - known) < 5 * se.sel(variant="warner")).all()
    assert np.allclose(defined["variance"].sel(variant="warner"), known)
    assert (error.sel(variant="plain") < warner).all()
    assert (ds["undefined"].sel(theta=0.5) == "answers say nothing at theta = 1/2").all()
    assert (ds["completed"] == [[-1, -1], [400, 400], [400, 400]]).all()
    assert result.digest == digest(read_netcdf(result.folder / "result.nc"))


def test_commands_and_pages_serve_trials(recipe: Path, tmp_path: Path, capsys: Capture) -> None:
    assert output(capsys, "check", recipe) == f"{recipe}: recipe, 6 cells of 400 repeats\n"
    planned = json.loads(output(capsys, "run", recipe, "--dry-run", "--json"))
    assert [cell["cell"] for cell in planned[0]["cells"]][:3] == [
        "theta=0.5 n=50",
        "theta=0.5 n=200",
        "theta=0.7 n=50",
    ]
    out = tmp_path / "runs"
    told = output(capsys, "run", recipe, "--repeats", "40", "--workers", "0", "--out", out)
    (folder,) = out.iterdir()
    assert "undefined at theta = 0.5, n = 50; theta = 0.5, n = 200: answers say nothing" in told
    assert output(capsys, "show", folder) == told
    shown = json.loads(output(capsys, "show", folder, "--json"))
    assert len(shown["cells"]) == 12
    assert shown["cells"][4]["variant"] == "warner"
    assert shown["cells"][4]["completed"] == 40
    assert output(capsys, "figures", folder).split() == [
        str(folder / "figures" / name) for name in ("errors.png", "errors.svg")
    ]
    output(capsys, "report", folder)
    page = (folder / "report.html").read_text(encoding="utf-8")
    assert "Errors of Warner&#39;s question" in page
    # For those who cannot see the figure: both measures of both variants, where they are defined.
    for line in ("warner, squared error", "plain, squared error", "warner, variance"):
        assert re.search(rf"{line}: [\d.e-]+ at theta = 0\.7, [\d.e-]+ at 0\.9", page)


def with_changes(**changes: Any) -> dict[str, Any]:
    """Plain tables of the page's recipe, with values at dotted paths replaced or, if None, gone."""
    config: dict[str, Any] = tomllib.loads(RECIPE)
    for path, value in changes.items():
        *tables, key = path.split("__")
        table: Any = config
        for name in tables:
            table = table[0] if isinstance(table, list) else table
            table = table[name]
        table = table[0] if isinstance(table, list) else table
        if value is None:
            del table[key]
        else:
            table[key] = value
    return config


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"trial__name": "warnr"}, 'trial.name: got "warnr"; did you mean "warner"? a trial is'),
        ({"trial__share": 2}, "trial.share: got 2; a share from 0 to 1 is needed"),
        ({"trial__shar": 1}, 'trial.shar: got 1; there is no such key, did you mean "share"?'),
        ({"trial__n": 7}, "trial.n: got 7; sweep.grid.n gives the values; leave one of the two"),
        ({"sweep__grid__n": None}, "trial.n: got nothing; a whole number of 1 or more is needed"),
        ({"sweep__grid__n": [5, 0]}, "sweep.grid.n[1]: got 0; a whole number of 1 or more"),
        ({"sweep__grid__n": [5, "x"]}, 'sweep.grid.n[1]: got "x"; a whole number of 1 or more'),
        ({"sweep__grid__m": [5]}, 'sweep.grid: got "m"; a parameter of the trial is needed: '),
        ({"sweep__grid__theta": []}, "sweep.grid.theta: got []; a list of at least one value"),
        ({"sweep__grid__theta": [1, 1.0]}, "sweep.grid.theta[1]: got 1.0; the values of a list"),
        ({"sweep__grid": None}, "sweep.grid: got nothing; a table [sweep.grid] with at least one"),
        ({"sweep__repeats": 0}, "sweep.repeats: got 0; a whole number of 1 or more is needed"),
        ({"data": [{"id": "a", "set": "votes", "codebook": "c"}]}, 'data: got ["a"]; leave it out'),
        ({"figure__measures": ["error"]}, 'figure[0].measures[0]: got "error"; a measure of the'),
        ({"figure__measures": []}, "figure[0].measures: got []; a list of measures is needed"),
        ({"figure__x": "share"}, 'figure[0].x: got "share"; an axis of the grid with numbers is'),
        ({"figure__series": "theta"}, 'figure[0].series: got "theta"; what tells the lines apart'),
        ({"figure__at": {"n": 60}}, "figure[0].at.n: got 60; one of the values of n is needed: 50"),
        ({"figure__at": {"m": 60}}, 'figure[0].at: got "m"; an axis is needed: "theta", "n", "var'),
        ({"figure__at": None}, "figure[0].at.n: got nothing; one value of n is needed: 50, 200"),
        ({"figure__log": ["z"]}, 'figure[0].log[0]: got "z"; an axis is needed: "x", "y"'),
    ],
)
def test_a_wrong_recipe_is_refused_in_one_line(changes: dict[str, Any], says: str) -> None:
    with pytest.raises(RecipeError) as refused:
        recipe_from_config(with_changes(**changes), "my.toml")
    assert str(refused.value).startswith(f"my.toml: {says}")
    assert "\n" not in str(refused.value)


RULES: dict[str, Any] = {
    "about": {"title": "Rules"},
    "data": [
        {
            "id": "votes",
            "set": "votes",
            "codebook": str(pipelines_dir() / "codebooks" / "votes.toml"),
            "binarise": "midrange",
        }
    ],
    "trial": {"name": "rules", "attributes": ["physician-fee-freeze", "crime", "party"]},
    "sweep": {"repeats": 5, "seed": 1, "grid": {"theta": [0.5, 0.8, 1], "n": [300]}},
}


@pytest.mark.parametrize(
    ("key", "value", "says"),
    [
        ("attributes", ["party"], 'trial.attributes: got ["party"]; as many as groups, and 2 or'),
        ("attributes", ["party", "x"], "trial.attributes: got x; there are handicapped-infants,"),
        ("attributes", [], "trial.attributes: got 17; at most 12 are needed"),
        ("max_length", 1, "trial.max_length: got 1; a whole number of 2 or more is needed"),
        ("min_support", 0, "trial.min_support: got 0; a share above 0 and up to 1 is needed"),
    ],
)
def test_what_data_cannot_serve_is_refused_in_one_line(key: str, value: Any, says: str) -> None:
    with pytest.raises(RecipeError) as refused:
        check_recipe(recipe_from_config({**RULES, "trial": {**RULES["trial"], key: value}}, "r"))
    assert str(refused.value).startswith(f"r: {says}")


def test_numbers_depend_on_no_batch() -> None:
    plan = make_plan(recipe_from_config(RULES))
    cell = plan.cells[0]
    whole = plan.work.trials(cell, 0, 5)
    again = pickle.loads(pickle.dumps(plan.work))
    parts = [again.trials(cell, 3, 5), plan.work.trials(cell, 0, 1), again.trials(cell, 1, 3)]
    for name, values in whole.items():
        joined = np.concatenate([parts[i][name] for i in (1, 2, 0)])
        np.testing.assert_array_equal(joined, values)
        assert values.shape == (5, 2)


def test_a_parameter_at_its_default_moves_no_number() -> None:
    stated = with_changes(trial__share=0.3)
    del stated["trial"]["share"]
    ids = {
        each: [c.key for c in make_plan(recipe_from_config(each_config)).cells]
        for each, each_config in (("left", stated), ("said", with_changes(trial__share=0.3)))
    }
    assert ids["left"] == ids["said"]
    other = make_plan(recipe_from_config(with_changes(sweep__grid__n=[50, 100, 200])))
    assert set(ids["left"]).isdisjoint(c.key for c in other.cells)  # share = 0.25


def test_a_trial_that_gives_something_else_is_named() -> None:
    work = make_plan(recipe_from_config(with_changes())).work
    trial, _ = next(iter(work.settings.values()))  # type: ignore[attr-defined]

    class Short(type(trial)):  # type: ignore[misc]
        def batch(self, streams: Any, ready: Any) -> Any:
            return {"squared_error": np.zeros((len(streams), 1))}

    cell = make_plan(recipe_from_config(with_changes())).cells[0]
    work.settings = {cell.key: (Short(0.7, 50), 0)}  # type: ignore[attr-defined]
    with pytest.raises(ValueError, match=r"Short gave .*\(3, 1\).* of shape \(3, 2\) are due"):
        work.trials(cell, 0, 3)


@pytest.mark.parametrize("how", ["mean", "median", "share"])
def test_standard_errors_are_those_of_the_statistic(how: str) -> None:
    draw = np.random.default_rng(5)
    values = draw.random((2000, 100))
    values = (values < 0.2).astype(float) if how == "share" else values
    found = np.array([summarise(row, how) for row in values])
    # The spread of the statistic itself over 2,000 samples.
    assert np.sqrt((found[:, 1] ** 2).mean()) == pytest.approx(found[:, 0].std(), rel=0.12)
    assert np.isnan(summarise(values[0, :1], how)[1])
    assert np.isnan(summarise(values[0, :0], how)).all()


def test_a_share_of_none_has_an_error() -> None:
    mean, error = summarise(np.zeros(50), "share")
    assert mean == 0
    # Agresti and Coull (1998): z^2 / 2 successes of n + z^2.
    z2 = 1.959964**2
    p = z2 / 2 / (50 + z2)
    assert error == pytest.approx(np.sqrt(p * (1 - p) / (50 + z2)))


def test_results_of_an_unknown_trial_are_refused(recipe: Path, tmp_path: Path) -> None:
    ds = make_plan(recipe_from_config(with_changes())).collect(Nothing())
    with pytest.raises(RunFolderError, match=r'trial: got "dice"; one of .*"rules"'):
        digest(ds.assign_attrs(trial="dice"))


class Nothing:
    """A ledger without repeats."""

    def finished(self, cell: Any) -> Any:
        return np.arange(0)

    def collect(self, cell: Any) -> Any:
        return {}


@pytest.mark.parametrize("name", sorted(TRIALS))
def test_registered_trials_say_what_they_are(name: str) -> None:
    trial = find_trial(name)
    _, texts = described(trial)
    keys = {each.key for each in fields_of(trial)}
    assert keys == set(texts)
    assert keys.isdisjoint({"data", "variant", "repeat", "name", "undefined", "completed"})
    variables = [each.name for each in registry(trial)]
    assert len(set(variables)) == len(variables)
    assert all(measure.doc[0].islower() for measure in trial.measures)


def test_rules_of_enough_undisguised_people_are_the_true_ones() -> None:
    """Recall and precision near 1; at theta = 1/2 there is nothing to tell."""
    config = {**RULES, "sweep": {**RULES["sweep"], "grid": {"theta": [0.5, 1], "n": [200_000]}}}
    plan = make_plan(recipe_from_config(config))
    assert ["at theta = 1/2" in reason for _, reason in plan.listed] == [True, False]
    found = plan.work.trials(plan.cells[0], 0, 3)
    assert (found["recall"][:, 0] == 1).all() and (found["precision"][:, 0] == 1).all()


def test_true_rules_are_those_that_counting_finds() -> None:
    plan = make_plan(recipe_from_config(RULES))
    trial, data = plan.work.settings[plan.cells[0].key]  # type: ignore[attr-defined]
    records = plan.work.records[data]  # type: ignore[attr-defined]
    chosen = records.select(trial.attributes)
    book, codes = chosen.codebook, chosen.codes
    by_hand = set()
    for i, j in permutations(range(3), 2):
        for a, b in product(range(2), repeat=2):
            first = codes[:, i] == a
            both = first & (codes[:, j] == b)
            if both.mean() >= 0.1 and both.sum() >= 0.8 * first.sum():
                rule = [
                    ((book.names[k], book.attributes[k].categories[c]),)
                    for k, c in ((i, a), (j, b))
                ]
                by_hand.add(tuple(rule))
    assert trial.ready(records).true == by_hand
    assert by_hand


SELECTION: dict[str, Any] = {
    "about": {"title": "Depths"},
    "data": RULES["data"],
    "trial": {"name": "selection", "depths": [1, 2, 4], "folds": 3},
    "sweep": {"repeats": 3, "seed": 1, "grid": {"theta": [0.5, 0.7, 1]}},
}


def test_without_disguise_clean_scores_choose_what_disguised_ones_do() -> None:
    plan = make_plan(recipe_from_config(SELECTION))
    half, cell, plain = (cell for cell, _ in plan.listed)
    assert half not in plan.cells
    found = plan.work.trials(plain, 0, 3)
    for values in found.values():
        np.testing.assert_allclose(values[:, 0], values[:, 2], atol=1e-12)
    for values in (found, plan.work.trials(cell, 0, 3)):
        assert (values["regret"] >= 0).all()
        assert (values["depth"][:, 3] == 4).all()
        assert (values["depth"][:, 1] <= values["depth"][:, 0]).all()


def test_the_choice_is_that_of_the_scores() -> None:
    trial = find_trial("selection")(theta=0.7, depths=(1, 2, 4), folds=2)  # type: ignore[call-arg]
    # Means 0.70, 0.78 and 0.80 of the disguised scores, with an error of 0.05 / sqrt(2).
    disguised = [[0.6, 0.76, 0.82], [0.8, 0.8, 0.78]]
    clean = [[0.9, 0.7, 0.7], [0.9, 0.7, 0.7]]
    scores = np.array([disguised, np.full((2, 3), 0.05), clean])
    found = trial._compare(scores, np.array([0.75, 0.85, 0.7]))  # type: ignore[attr-defined]
    assert found["depth"] == {"largest": 4, "one_error": 2, "clean": 1, "deepest": 4}
    regret = {"largest": 0.15, "one_error": 0.0, "clean": 0.1, "deepest": 0.15}
    optimism = {"largest": 0.1, "one_error": -0.07, "clean": 0.15, "deepest": 0.1}
    assert found["regret"] == pytest.approx(regret)
    assert found["optimism"] == pytest.approx(optimism)


def test_more_reports_and_truer_ones_find_more_true_rules() -> None:
    sweep = {"repeats": 20, "seed": 1, "grid": {"theta": [0.6, 1], "n": [300, 3000]}}
    plan = make_plan(recipe_from_config({**RULES, "sweep": sweep}))
    few, many, few_true, many_true = (plan.work.trials(cell, 0, 20) for cell in plan.cells)
    for less, more in ((few, many), (few, few_true), (many, many_true)):
        assert (less["recall"].mean(axis=0) <= more["recall"].mean(axis=0)).all()
    assert (few["recall"].mean(axis=0) < many["recall"].mean(axis=0) - 0.05).all()
    assert np.nanmean(few["precision"][:, 0]) < np.nanmean(many["precision"][:, 0])
    # What is tested at 5 % has fewer false discoveries than that on average.
    assert all(found["false_discoveries"][:, 1].mean() < 0.05 for found in (few, many, few_true))
