"""``ppdm regress``, and the page on regressions."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from pages import blocks

import ppdm_dask as pp
from ppdm_dask.cli import main

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> dict[str, Any]:
    """Names after all blocks of the page, run as they stand in an empty folder."""
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    for block in blocks("docs/regression.md", "python", "sh"):
        if block.language == "python":
            exec(compile(block.text, block.place, "exec"), names)
            continue
        for line in block.text.splitlines():
            program, *arguments = shlex.split(line)
            assert program == "ppdm"
            assert main(arguments) == 0, line
    names["printed"] = capsys.readouterr().out
    return names


BOTH = ("--codebook", "codebook.toml", "--design", "design.toml")


def test_the_page_runs_and_the_command_is_what_python_does(
    page: dict[str, Any], capsys: Capture
) -> None:
    fit, reports, design = page["fit"], page["reports"], page["design"]
    # The law that the page draws by, six standard errors off at most.
    apart = fit.coef_ - np.array([-5, 0.25, 0.8, 0])
    assert (np.abs(apart) < 6 * fit.standard_errors_).all()
    assert "0.2500" in page["printed"]

    asked = ("regress", "reports.parquet", *BOTH, "--formula", "used ~ age + C(region)")
    survey = ("--clusters", "school", "--margins", "region,age", "--json", "--out", "t.csv")
    assert main([*asked, *survey]) == 0
    document = json.loads(capsys.readouterr().out)
    fit = pp.GLM(design, "used ~ age + C(region)").fit(reports, clusters="school")
    table = pd.read_csv("t.csv")
    expected = fit.to_frame().reset_index()
    pd.testing.assert_frame_equal(table, expected)
    assert [row["term"] for row in document["coefficients"]] == list(fit.terms_)
    kinds = {(part["of"], part["kind"]): part["rows"] for part in document["margins"]}
    rows = [row["value"] for row in kinds["region", "effects"]]
    np.testing.assert_allclose(rows, fit.effects("region").values)
    assert len(kinds["age", "prevalences"]) == 1

    for formula, said in (
        ("used ~ nobody", "column 'nobody' is absent"),
        ("used ~ (age", "`outcome ~ predictors` is needed"),
        ("used ~ age + I(2 * age)", "depend on one another"),
    ):
        assert main(["regress", "reports.parquet", *BOTH, "--formula", formula]) == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert said in line
