"""Fronts as an experiment: recipes, priors, results, and the same digest however it is run."""

from __future__ import annotations

import copy
import json
import os
import signal
import subprocess
import sys
import time
from typing import Any

import numpy as np
import pytest
from small_recipe import write_recipe

from ppdm_dask import datasets
from ppdm_dask.engine.cells import Checkpointed
from ppdm_dask.errors import RecipeError
from ppdm_dask.experiments.fronts import FRONT
from ppdm_dask.experiments.fronts.plan import FrontPlan, iterate, iterative_mse
from ppdm_dask.experiments.fronts.recipe import FrontRecipe
from ppdm_dask.experiments.kinds import load_recipe
from ppdm_dask.experiments.results import digest, read_netcdf
from ppdm_dask.experiments.run import run
from ppdm_dask.randomness import SimulationStream
from ppdm_dask.search import methods as checkpoints
from ppdm_dask.search.checkpoints import read_checkpoint
from ppdm_dask.search.limit import Limit
from ppdm_dask.search.methods import warner_matrices
from ppdm_dask.search.problem import Problem, evaluate
from ppdm_dask.search.spea2 import Evolution

CONFIG: dict[str, Any] = {
    "about": {"title": "Small fronts"},
    "prior": [
        {"id": "normal", "law": "normal", "reach": 3, "bins": 4, "delta": [0.8]},
        {
            "id": "adult",
            "set": "adult",
            "attributes": ["race", "relationship"],
            "delta": [0.75],
            "methods": ["spea2"],
        },
    ],
    "search": {
        "methods": ["spea2", "memetic"],
        "n_records": 1_000,
        "generations": 40,
        "memetic_generations": 50,
        "population": 20,
        "archive": 20,
        "simulations": 2,
    },
    "sweep": {"repeats": 2, "seed": 5},
    "figure": [
        {"id": "fronts", "kind": "front", "title": "Fronts", "prior": "normal"},
        {"id": "em", "kind": "iterative", "title": "EM", "prior": "adult/relationship"},
    ],
}


def recipe_of(**changes: Any) -> FrontRecipe:
    return FrontRecipe.from_config({**copy.deepcopy(CONFIG), **changes}, "fronts.toml", "fronts")


@pytest.fixture(scope="module")
def result(tmp_path_factory):
    return run(recipe_of(), workers=0, out=tmp_path_factory.mktemp("fronts"))


# -- recipes ---------------------------------------------------------------------------------------


def test_config_goes_round():
    recipe = recipe_of()
    assert FrontRecipe.from_config(recipe.config(), "fronts.toml", "fronts") == recipe
    assert recipe.points() == (
        "normal delta=0.8",
        "adult/race delta=0.75",
        "adult/relationship delta=0.75",
    )
    assert recipe.with_changes(repeats=7, seed=1).sweep.repeats == 7
    assert recipe.with_changes(seed=1).digest != recipe.digest


@pytest.mark.parametrize("name", ["optrr", "optrr-adult"])
def test_bundled_recipes_are_right(name):
    recipe = load_recipe(name)
    assert isinstance(recipe, FrontRecipe)
    plan = FrontPlan.make(recipe)
    assert recipe.search.generations == 20_000
    assert recipe.search.n_records == 10_000
    assert len({cell.key for cell, _ in plan.listed}) == len(plan.listed)
    undefined = {case.prior.name: case.undefined for case in plan.cases if case.undefined}
    if name == "optrr-adult":
        missing = {"race", "capital-gain", "capital-loss", "native-country"}
        assert {n.removeprefix("adult/") for n in undefined} == missing
        assert all("below the most frequent category" in reason for reason in undefined.values())
        assert len(plan.cases) == 14
    else:
        assert not undefined
        kinds = [figure.kind for figure in recipe.figures]
        assert kinds == ["front"] * 7 + ["iterative"]


BAD = [
    ("prior", [], r"fronts.toml: prior: got \[\]; at least one table"),
    ("search", {"methods": ["spea"], "n_records": 1}, r"search.methods\[0\]: got \"spea\""),
    ("search", {"methods": ["spea2"], "n_records": 0}, "search.n_records: got 0; a whole number"),
    ("search", {"methods": ["spea2"], "n_records": 1, "rate": 2}, "search.rate: got 2"),
    ("search", {"methods": ["spea2"], "n_records": 1, "rate": {"a": 1}}, "search.rate: got {"),
    ("search", {"methods": ["spea2"], "n_records": 1, "scale": [1]}, r"search.scale: got \[1\]"),
    ("search", {"methods": ["spea2"], "n_records": 1, "scale": 10**400}, "search.scale: got 1000"),
    ("search", {"methods": ["spea2"], "n_records": 1, "slot": 2}, "search.slot: got 2; .*slots"),
    ("sweep", {"repeats": 0, "seed": 1}, "sweep.repeats: got 0"),
]


@pytest.mark.parametrize(("key", "value", "says"), BAD)
def test_bad_tables_are_one_line_with_the_path(key, value, says):
    with pytest.raises(RecipeError, match=says):
        recipe_of(**{key: value})


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"delta": [1.5]}, r"prior\[0\].delta\[0\]: got 1.5; a number in \(0, 1\]"),
        ({"law": "cauchy"}, r"prior\[0\].law: got \"cauchy\""),
        ({"set": "adult"}, r"prior\[0\].set: got \"adult\"; either"),
        ({"reach": [1]}, r"prior\[0\].reach: got \[1\]; a number above 0"),
        ({"law": "gamma", "shape": 2, "scale": 1, "upper": "a"}, 'upper: got "a"; a proportion'),
        ({"law": "gamma", "shape": 2, "scale": 1, "upper": {}}, "upper: got {}; a proportion"),
        ({"reach": -1}, r"prior\[0\].reach: got -1; a number above 0"),
        ({"bins": 1}, r"prior\[0\].bins: got 1"),
        ({"methods": ["bound"]}, r"prior\[0\].methods\[0\]: got \"bound\""),
        ({"id": "a b"}, r"prior\[0\].id: got \"a b\""),
        ({"colour": 1}, r"prior\[0\].colour: got 1; there is no such key"),
    ],
)
def test_bad_priors_are_one_line_with_the_path(change, says):
    first = {**CONFIG["prior"][0], **change}
    with pytest.raises(RecipeError, match=says):
        recipe_of(prior=[first, CONFIG["prior"][1]])


def test_bad_attributes_and_figures():
    second = {**CONFIG["prior"][1], "attributes": ["colour"]}
    with pytest.raises(RecipeError, match=r"prior\[1\].attributes\[0\]: got \"colour\"; an attri"):
        recipe_of(prior=[CONFIG["prior"][0], second])
    figure = {"id": "a", "kind": "front", "title": "A", "prior": "gamma"}
    with pytest.raises(RecipeError, match=r"figure\[0\].prior: got \"gamma\""):
        recipe_of(figure=[figure])
    figure = {"id": "a", "kind": "front", "title": "A", "prior": "normal", "delta": [0.9]}
    with pytest.raises(RecipeError, match=r"figure\[0\].delta\[0\]: got 0.9"):
        recipe_of(figure=[figure])


# -- priors ----------------------------------------------------------------------------------------


def test_priors_of_data_count_what_occurs():
    plan = FrontPlan.make(recipe_of())
    shares = datasets.load("adult")["relationship"].value_counts(normalize=True).sort_index()
    np.testing.assert_allclose(plan.cases[2].prior.proportions, shares.to_numpy())
    assert "0.855" in plan.cases[1].undefined
    gains = FrontRecipe.from_config(
        {
            **CONFIG,
            "prior": [
                {"id": "adult", "set": "adult", "attributes": ["capital-gain"], "delta": [1.0]}
            ],
            "figure": [],
        }
    )
    (case,) = FrontPlan.make(gains).cases
    assert case.prior.dropped > 0
    assert (case.prior.proportions > 0).all()
    assert case.prior.proportions.sum() == pytest.approx(1)


def test_laws_are_cut_as_the_notes_say():
    recipe = load_recipe("optrr")
    p = {case.prior.name: case.prior.proportions for case in FrontPlan.make(recipe).cases}
    assert p["normal"].max() == pytest.approx(0.22636, abs=1e-5)
    assert p["gamma"].max() == pytest.approx(0.37277, abs=1e-5)
    np.testing.assert_allclose(p["uniform"], 0.1)


# -- the iterative estimator -----------------------------------------------------------------------


def test_iteration_finds_the_maximum_of_the_likelihood():
    P = np.array([[[0.8, 0.3], [0.2, 0.7]]])
    inside = P[0] @ [0.4, 0.6]
    found = iterate(P, np.array([[inside, [0.9, 0.1]]]))
    np.testing.assert_allclose(found[0, 0], [0.4, 0.6], atol=1e-5)
    np.testing.assert_allclose(found[0, 1], [1, 0], atol=1e-3)  # inversion says (1.2, -0.2)


def test_iterative_error_is_that_of_inversion_inside_the_simplex():
    prior = np.array([0.3, 0.3, 0.4])
    P = warner_matrices(3, 10)[[8, 9]]
    error = iterative_mse(P, prior, 100_000, 400, SimulationStream(1))
    expected = evaluate(Problem(prior, 100_000), P).mse
    np.testing.assert_allclose(error, expected, rtol=0.25)


# -- results ---------------------------------------------------------------------------------------


def test_result_holds_fronts_limits_and_reasons(result):
    ds = result.dataset
    assert ds.sizes == {"case": 3, "method": 3, "level": 98, "repeat": 2}
    assert result.digest == digest(ds) == digest(read_netcdf(result.folder / "result.nc"))
    problem = Problem(FrontPlan.make(recipe_of()).cases[0].prior.proportions, 1_000, 0.8)
    limit = Limit.compute(problem)
    np.testing.assert_allclose(ds["limit"][0], limit.mse(limit.loss), rtol=1e-6)
    assert (ds["mse"][0] >= ds["limit"][0] * (1 - 1e-9)).all()
    assert ds["undefined"].to_numpy().tolist()[1].startswith("delta = 0.75 is below")
    assert np.isnan(ds["mse"][1]).all() and (ds["completed"][1] == 0).all()
    # The second prior asks for one method alone.
    assert ds["completed"].to_numpy().tolist() == [[2, 2, 2], [0, 0, 0], [2, 2, 0]]
    memetic, plain = ds["hypervolume"][0, 2], ds["hypervolume"][0, 1]
    assert (memetic > plain).all()
    there = np.isfinite(ds["mse"]) & (ds["completed"] > 0)
    assert bool((np.isfinite(ds["iterative_mse"]) == there).all())


def test_result_is_told_in_tables_notes_json_and_figures(result, tmp_path):
    headings = [heading for heading, _ in FRONT.tables(result.dataset)]
    assert len(headings) == 4 and "4 categories" in headings[0]
    (note,) = FRONT.notes(result.dataset)
    assert note.startswith("undefined: adult/race delta=0.75: delta = 0.75 is below")
    plain = json.loads(json.dumps(FRONT.as_json(result.dataset), allow_nan=False))
    assert [case["case"] for case in plain["cases"]] == list(recipe_of().points())
    files = FRONT.draw_figures(result.dataset, recipe_of(), tmp_path)
    assert [f.name for f in files] == ["fronts.png", "fronts.svg", "em.png", "em.svg"]


def test_a_limit_that_no_design_need_attain_is_called_a_lower_bound(result):
    """Not an undefined case: there is a front, and a bound that holds."""
    ds, recipe = result.dataset.copy(deep=True), recipe_of()
    figure = next(each for each in recipe.figures if each.kind == "front")
    assert "certified limit: " in FRONT.describe(ds, recipe, figure)
    ds["categories"][0] = 24
    assert any("with 24 categories" in note for note in FRONT.notes(ds))
    assert FRONT.undefined(ds) == FRONT.undefined(result.dataset)
    told = FRONT.describe(ds, recipe, figure)
    assert f"{ds['case'].to_numpy()[0]}, certified lower bound: " in told


def test_a_repeat_depends_on_its_number_alone(result):
    plan = FrontPlan.make(recipe_of())
    cell = plan.cells[2]
    whole = plan.work.trials(cell, 0, 2)
    second = plan.work.trials(cell, 1, 2)
    for name, values in whole.items():
        np.testing.assert_array_equal(values[1:], second[name])
    np.testing.assert_array_equal(result.dataset["mse"][0, 1], whole["mse"])


@pytest.mark.cluster
@pytest.mark.parametrize("workers", [1, 2])
def test_workers_do_not_change_the_digest(result, workers, tmp_path):
    assert run(recipe_of(), workers=workers, out=tmp_path).digest == result.digest


def test_a_repeat_goes_on_from_its_checkpoint_and_leaves_nothing(result, tmp_path, monkeypatch):
    plan = FrontPlan.make(recipe_of())
    work = plan.work.keeping(tmp_path)
    assert isinstance(work, Checkpointed)
    step, steps = Evolution.step, []

    def counted(self):
        if len(steps) == 60:
            raise KeyboardInterrupt
        steps.append(self.generation)
        step(self)

    monkeypatch.setattr(checkpoints, "GENERATIONS", 25)
    monkeypatch.setattr(Evolution, "step", counted)
    cell = next(cell for cell in plan.cells if cell.params["method"] == "spea2")
    with pytest.raises(KeyboardInterrupt):
        work.trials(cell, 0, 2)  # 40 generations a repeat: the second is stopped at its 20th
    assert [path.name for path in tmp_path.iterdir()] == [f"{cell.key:016x}-0.checkpoint"]
    steps.clear()
    rows = work.trials(cell, 0, 2)
    assert steps == list(range(40))
    np.testing.assert_array_equal(result.dataset["mse"][0, 1], rows["mse"])
    assert not list(tmp_path.iterdir())
    # A worker that does not see the folder does without.
    steps.clear()
    far = plan.work.keeping(tmp_path / "elsewhere").trials(cell, 0, 1)
    np.testing.assert_array_equal(far["mse"], rows["mse"][:1])


def test_a_finished_run_keeps_no_checkpoints(result):
    assert sorted(p.name for p in result.folder.iterdir()) == [
        "ledger.sqlite",
        "manifest.json",
        "result.nc",
    ]


@pytest.mark.cluster
def test_a_run_that_is_killed_in_mid_evolution_goes_on_to_the_same_digest(tmp_path):
    """Through the command, with every process killed at once while a search is half done."""
    search = {**CONFIG["search"], "generations": 3_000, "memetic_generations": 1_000}
    config = {
        "about": CONFIG["about"],
        "prior": CONFIG["prior"][:1],
        "search": search,
        "sweep": {"repeats": 1, "seed": 5},
    }
    file = write_recipe(tmp_path / "fronts.toml", config)

    def begin(folder: str, workers: int) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "ppdm_dask", "run", str(file), "--out"]
        return subprocess.Popen(
            [*command, str(tmp_path / folder), "--workers", str(workers)],
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def digest_of(process: subprocess.Popen[str]) -> str:
        printed, _ = process.communicate(timeout=300)
        assert process.returncode == 0
        return printed.splitlines()[-1]

    killed = begin("killed", 2)
    end = time.monotonic() + 120
    while not (kept := list(tmp_path.glob("killed/*/checkpoints/[!.]*.checkpoint"))):
        assert killed.poll() is None, "the run ended before it was killed"
        assert time.monotonic() < end
        time.sleep(0.01)
    os.killpg(killed.pid, signal.SIGKILL)
    killed.communicate(timeout=30)
    (folder,) = (tmp_path / "killed").iterdir()
    assert kept[0].is_file() and not (folder / "result.nc").exists()
    facts, _ = read_checkpoint(kept[0], 1 << 26)
    assert 0 < facts["generation"] < 3_000
    resumed = digest_of(begin("killed", 1))
    assert resumed == digest_of(begin("serial", 0)) and resumed.startswith("digest: ")
    assert not (folder / "checkpoints").exists()
