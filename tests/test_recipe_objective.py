"""A recipe's own objective: named twice before it runs, part of the run's id, sent to workers."""

from __future__ import annotations

import pickle
from importlib.metadata import EntryPoint, EntryPoints
from pathlib import Path

import numpy as np
import pytest

import ppdm_dask as pp
from ppdm_dask.cli import main
from ppdm_dask.errors import InputError, RecipeError
from ppdm_dask.experiments.folder import run_id
from ppdm_dask.experiments.fronts import objective as own
from ppdm_dask.experiments.kinds import load_recipe, make_plan
from ppdm_dask.search.limit import SHARES
from ppdm_dask.search.methods import warner_matrices

RECIPE = """
[about]
title = "The first category only"

[[prior]]
id = "even"
law = "uniform"
bins = 3
delta = [0.8]

[search]
methods = ["spea2"]
objective = "first.py:first_category"
n_records = 500
generations = 5
population = 8
archive = 8
slots = 50

[sweep]
repeats = 2
seed = 3

[[figure]]
id = "front"
kind = "front"
title = "The first category"
prior = "even"
"""

CODE = """
import numpy as np


def first_category(P, prior, n_records):
    scores = []
    for matrix in P:
        success = (matrix * prior).max(axis=1).sum()
        error = np.inf
        if np.linalg.cond(matrix) < 1e6:
            row = np.linalg.inv(matrix)[0]
            error = (row**2 @ matrix @ prior - prior[0] ** 2) / n_records
        scores.append([1 - min(success, 1.0), error])
    return np.array(scores)
"""


@pytest.fixture
def recipe(tmp_path: Path) -> Path:
    path = tmp_path / "own.toml"
    path.write_text(RECIPE, encoding="utf-8")
    (tmp_path / "first.py").write_text(CODE, encoding="utf-8")
    return path


def edited(path: Path, before: str, after: str) -> None:
    text = path.read_text(encoding="utf-8")
    assert before in text
    path.write_text(text.replace(before, after), encoding="utf-8")


def test_a_recipe_runs_no_code_that_was_not_named(recipe, tmp_path, capsys):
    (tmp_path / "first.py").write_text("raise SystemExit('executed')", encoding="utf-8")
    out = tmp_path / "runs"
    assert main(["check", str(recipe)]) == 0
    assert main(["run", str(recipe), "--out", str(out), "--dry-run"]) == 0
    capsys.readouterr()
    other = tmp_path / "other.py"
    for options in ([], ["--code", str(other)]):
        assert main(["run", str(recipe), "--out", str(out), *options]) == 2
        told = capsys.readouterr().err
        assert told.count("\n") == 1
        assert "would execute" in told
        assert f"--code {tmp_path / 'first.py'}" in told
    assert not out.exists()


def test_a_run_measures_by_the_function(recipe, tmp_path, capsys):
    found = pp.run(recipe, code=tmp_path / "first.py", out=tmp_path / "runs", workers=0)
    ds = found.dataset
    assert {"mse", "limit", "hypervolume"}.isdisjoint(ds.data_vars)
    # Warner's matrices by hand: of those within delta the least error at each privacy.
    P = warner_matrices(3)
    joint = P / 3
    kept = (joint.max(axis=2) / joint.sum(axis=2)).max(axis=1) <= 0.8 + 1e-9
    kept &= np.abs(np.linalg.det(P)) > 1e-9
    B = np.linalg.inv(P[kept])
    errors = ((B[:, 0] ** 2).sum(axis=1) / 3 - 1 / 9) / 500
    success = joint[kept].max(axis=2).sum(axis=1)
    expected = [errors[success <= f + 1e-9].min(initial=np.inf) for f in SHARES]
    usable = np.array(expected) < 1e6
    np.testing.assert_allclose(
        ds["error"].sel({"method": "warner"}).isel(case=0, repeat=0).to_numpy()[usable],
        np.array(expected)[usable],
    )
    assert np.isfinite(ds["error"].sel({"method": "spea2"}).to_numpy()).any()
    assert ds.attrs["objective"] == "first.py:first_category"
    assert main(["show", str(found.folder)]) == 0
    assert "Error by the recipe's objective" in capsys.readouterr().out
    assert main(["figures", str(found.folder)]) == 0
    assert main(["report", str(found.folder)]) == 0
    again = pp.run(recipe, code=[tmp_path / "first.py"], out=tmp_path / "runs", workers=0)
    assert again.digest == found.digest


def test_the_source_is_part_of_the_recipe(recipe, tmp_path):
    before = load_recipe(recipe)
    stated = before.config()["search"]["objective_sha256"]
    edited(tmp_path / "first.py", "min(success, 1.0)", "min(success, 1)")
    after = load_recipe(recipe)
    assert after.digest != before.digest
    assert run_id(after) != run_id(before)
    edited(recipe, "n_records", f'objective_sha256 = "{stated}"\nn_records')
    with pytest.raises(RecipeError, match=r"search\.objective_sha256: got"):
        load_recipe(recipe)


def test_the_work_needs_no_file(recipe, tmp_path):
    plan = make_plan(load_recipe(recipe))
    assert [cell.id for cell in plan.cells] == ["even delta=0.8 warner", "even delta=0.8 spea2"]
    sent = pickle.dumps(plan.work)
    (tmp_path / "first.py").unlink()
    own._function.cache_clear()
    here, there = plan.work, pickle.loads(sent)
    first, second = (work.trials(plan.cells[1], 0, 1) for work in (here, there))
    assert all(np.array_equal(first[name], second[name]) for name in first)


def test_an_entry_point_is_trusted_as_it_is_installed(recipe, tmp_path, monkeypatch):
    package = tmp_path / "installed"
    package.mkdir()
    (package / "measures_of_mine.py").write_text(CODE, encoding="utf-8")
    monkeypatch.syspath_prepend(package)
    entry = EntryPoint("first", "measures_of_mine:first_category", own.GROUP)
    monkeypatch.setattr(own, "entry_points", lambda group: EntryPoints([entry]))
    edited(recipe, "first.py:first_category", "first")
    loaded = load_recipe(recipe)
    assert loaded.code is None
    ds = pp.run(recipe, out=tmp_path / "runs", workers=0, repeats=1).dataset
    assert np.isfinite(ds["error"].to_numpy()).any()
    edited(recipe, '"first"', '"second"')
    with pytest.raises(RecipeError, match="of which there are: first"):
        load_recipe(recipe)


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ('["spea2"]', '["memetic"]', "search.methods: got .*memetic.*; only .*spea2"),
        ("n_records", "simulations = 2\nn_records", "search.simulations: got 2; 0 is needed"),
        ('kind = "front"', 'kind = "iterative"', "figure.*kind: got .iterative"),
        ("first.py:", "absent.py:", "search.objective: .*absent.py: cannot be read"),
        ("first.py:", "../first.py:", "a file beside the recipe is needed"),
        ("first.py:first_category", "nobody", "nobody.*; FILE.py:FUNCTION of a file"),
    ],
)
def test_what_is_refused(recipe, before, after, message):
    edited(recipe, before, after)
    with pytest.raises(InputError, match=message):
        load_recipe(recipe)


@pytest.mark.parametrize(
    ("code", "message"),
    [("x = 1", "first.py: has no function 'first_category'"), ("1 +", "first.py: SyntaxError")],
)
def test_code_that_cannot_serve(recipe, tmp_path, code, message, capsys):
    path = tmp_path / "first.py"
    path.write_text(code, encoding="utf-8")
    options = ["--out", str(tmp_path / "runs"), "--workers", "0", "--code", str(path)]
    assert main(["run", str(recipe), *options]) != 0
    assert message in capsys.readouterr().err


def test_recipes_without_one_say_nothing_of_it():
    assert not {"objective", "objective_sha256"} & load_recipe("optrr").config()["search"].keys()
