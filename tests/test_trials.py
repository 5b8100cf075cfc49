"""Trials: one class and one line in the registry make an experiment over a grid."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import numpy as np
import pytest

from ppdm_dask.cli import main
from ppdm_dask.experiments.results import digest, read_netcdf
from ppdm_dask.experiments.run import run
from ppdm_dask.experiments.trials.trial import TRIALS

Capture = pytest.CaptureFixture[str]

PAGE = (Path(__file__).resolve().parent.parent / "CONTRIBUTING.md").read_text(encoding="utf-8")
SECTION = PAGE.partition("## Add a trial")[2].partition("\n## ")[0]
(CODE,) = re.findall(r"```python\n(.*?)```", SECTION, re.DOTALL)
(RECIPE,) = re.findall(r"```toml\n(.*?)```", SECTION, re.DOTALL)


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
