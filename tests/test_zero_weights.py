"""Reports of survey weight 0 are left out: their answers cannot be disguised again."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from ppdm_dask.cli import main

BOOK = 'attribute = [{name = "used", categories = ["no", "yes"]}]\n'
DESIGN = 'id = "warner"\nattribute = "used"\ntheta = 0.8\n'


def test_reports_of_no_weight_are_left_out_and_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Estimate and standard error of the others, by the textbook's formulas for strata."""
    monkeypatch.chdir(tmp_path)
    random = np.random.default_rng(0)
    n = 600
    answers = pd.DataFrame(
        {
            "used": random.choice(["no", "yes"], n),
            "w": random.choice([0, 0.5, 1, 2.25], n),
            "school": random.integers(1, 5, n),
        }
    )
    answers.to_csv("a.csv", index=False)
    Path("c.toml").write_text(BOOK)
    Path("d.toml").write_text(DESIGN)
    files = ["--codebook", "c.toml", "--design", "d.toml"]
    kept = ["--keep-undisguised", "w,school", "--simulate", "1"]
    assert main(["disguise", "a.csv", *files, *kept, "--out", "r.csv"]) == 0
    capsys.readouterr()
    survey = ["--over", "used", "--weights", "w", "--strata", "school", "--json"]
    assert main(["estimate", "r.csv", *files, *survey]) == 0
    found = json.loads(capsys.readouterr().out)

    reports = pd.read_csv("r.csv")
    zero = int((reports["w"] == 0).sum())
    reports = reports[reports["w"] > 0]
    weights = reports["w"].to_numpy()
    y = ((reports["used"] == "yes").to_numpy() - 0.2) / 0.6
    mean = (weights * y).sum() / weights.sum()
    residual = pd.Series(weights * (y - mean)).groupby(reports["school"].to_numpy())
    error = np.sqrt((residual.size() * residual.var()).sum()) / weights.sum()
    yes = found["cells"][1]
    assert found["n"] == len(reports) == n - zero < n
    assert yes["proportion"] == pytest.approx(mean)
    assert yes["standard_error"] == pytest.approx(error)
    assert f"no weight: {zero} reports of weight 0 left out" in found["statements"]
