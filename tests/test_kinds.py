"""Kinds of experiments: one object each, and one line in the registry makes a further one."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from dice import DICE
from small_recipe import CONFIG

from ppdm_dask.cli import main
from ppdm_dask.errors import RecipeError, RunFolderError
from ppdm_dask.experiments import kinds
from ppdm_dask.experiments.kinds import (
    KINDS,
    kind_of,
    kind_of_result,
    load_recipe,
    outline,
    recipe_from_config,
)
from ppdm_dask.experiments.results import digest, read_netcdf, write_netcdf
from ppdm_dask.resources import recipes

Capture = pytest.CaptureFixture[str]

RECIPE = """
[about]
title = "Dice"

[dice]
faces = [0, 1, 6]

[sweep]
repeats = 200
seed = 7

[[figure]]
id = "means"
title = "Means of throws"
"""


@pytest.fixture
def _dice(monkeypatch: pytest.MonkeyPatch) -> None:
    """The one line."""
    monkeypatch.setitem(KINDS, DICE.name, DICE)


@pytest.fixture
def recipe(tmp_path: Path) -> Path:
    path = tmp_path / "dice.toml"
    path.write_text(RECIPE, encoding="utf-8")
    return path


def output(capsys: Capture, *arguments: str | Path) -> str:
    assert main([str(argument) for argument in arguments]) == 0
    return capsys.readouterr().out


@pytest.mark.usefixtures("_dice")
def test_commands_and_pages_serve_a_further_kind(
    recipe: Path, tmp_path: Path, capsys: Capture
) -> None:
    checked = output(capsys, "check", recipe)
    assert checked == f"{recipe}: recipe, 3 cells of 200 repeats\n"
    planned = json.loads(output(capsys, "run", recipe, "--dry-run", "--json"))
    assert [cell["undefined"] for cell in planned[0]["cells"]] == ["no face", "", ""]

    out = tmp_path / "runs"
    told = output(capsys, "run", recipe, "--workers", "0", "--out", out)
    (folder,) = out.iterdir()
    ds = read_netcdf(folder / "result.nc")
    throws = ds["throw"].to_numpy()
    assert (throws[0] == -1).all() and (throws[1] == 1).all()
    assert set(throws[2]) == {1, 2, 3, 4, 5, 6}
    # Mean 7 / 2 and variance 35 / 12 of a fair die; five standard errors.
    assert abs(throws[2].mean() - 3.5) < 5 * np.sqrt(35 / 12 / 200)
    mean = f"{throws[2].mean():.2f}"
    assert re.search(rf"^ *6 +{mean}$", told, re.MULTILINE)
    assert "\nundefined at faces = 0: no face\n" in told
    assert "\nfinding: 1 faces: a die with one face does not vary.\n" in told
    assert told.endswith(f"digest: {digest(ds)}\n")

    assert output(capsys, "show", folder) == told
    shown: dict[str, Any] = json.loads(output(capsys, "show", folder, "--json"))
    assert shown["throws"] == throws.tolist()
    assert output(capsys, "figures", folder).split() == [
        str(folder / "figures" / name) for name in ("means.png", "means.svg")
    ]

    output(capsys, "report", folder)
    page = (folder / "report.html").read_text(encoding="utf-8")
    assert f"Means of throws. Mean throw: 1.00 at faces = 1, {mean} at 6." in page
    assert f"<td>{mean}</td>" in re.sub(r"<td[^>]*>", "<td>", page)
    assert "at faces = 0: no face" in page


@pytest.mark.usefixtures("_dice")
def test_the_digest_covers_a_further_kind_s_own_variables(recipe: Path, tmp_path: Path) -> None:
    plan = kinds.make_plan(kinds.load_recipe(recipe))
    assert digest(plan.collect(_Empty())) != digest(plan.collect(_Empty(thrown=3)))


class _Empty:
    """A ledger with no repeat, or the first."""

    def __init__(self, thrown: int | None = None) -> None:
        self.thrown = thrown

    def finished(self, cell: Any) -> Any:
        return np.arange(0 if self.thrown is None else 1)

    def collect(self, cell: Any) -> dict[str, Any]:
        return {"throw": np.array([self.thrown])}


def test_without_its_line_a_kind_is_unknown(recipe: Path) -> None:
    with pytest.raises(
        RecipeError, match=r"data: got nothing; at least one table \[\[data\]\] is needed"
    ):
        kinds.load_recipe(recipe)


@pytest.mark.parametrize(
    ("tables", "kind"),
    [
        ({"perturb"}, "perturbation"),
        ({"prior"}, "front"),
        ({"search"}, "front"),
        ({"design"}, "sweep"),
        ({"mine", "data"}, "sweep"),
    ],
)
def test_a_table_tells_the_kind(
    tables: set[str], kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[str] = []

    def reader(name: str) -> Callable[..., None]:
        return lambda *_: read.append(name)

    for each in [*KINDS.values()]:
        monkeypatch.setitem(KINDS, each.name, replace(each, read=reader(each.name)))
    recipe_from_config({table: {} for table in tables})
    assert read == [kind]


def test_a_result_of_an_unknown_kind_is_refused(tmp_path: Path) -> None:
    xr = pytest.importorskip("xarray")
    ds = xr.Dataset({"mean": ("faces", [1.0])}, {"faces": [1]}, {"grid": '["faces"]'})
    path = tmp_path / "result.nc"
    write_netcdf(ds, path)
    assert kind_of_result(read_netcdf(path)).name == "sweep"
    write_netcdf(ds.assign_attrs(experiment="dice"), path)
    with pytest.raises(RunFolderError, match='experiment: got "dice"; one of perturbation, front'):
        read_netcdf(path)


def test_recipes_know_their_kind() -> None:
    assert kind_of(recipe_from_config(CONFIG)) is KINDS["sweep"]
    assert all(kind.name == name for name, kind in KINDS.items())


@pytest.mark.parametrize("name", recipes())
def test_an_outline_says_what_reading_the_recipe_says(name: str) -> None:
    recipe = load_recipe(name)
    assert outline(name) == (recipe.about.title, len(recipe.points()), recipe.sweep.repeats)
