"""Files of reports in which an attribute is the strata too: tables by it, and conditions on it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import ppdm_dask as pp
from ppdm_dask.cli import main
from ppdm_dask.designs.files import write_design

Capture = pytest.CaptureFixture[str]

BOOK = pp.Codebook((pp.Attribute("smokes", ("no", "yes")), pp.Attribute("region", ("N", "S"))))
DESIGN = pp.Product([pp.Warner("smokes", 0.8)])
BOTH = ("--codebook", "c.toml", "--design", "d.toml")


@pytest.fixture(autouse=True)
def _survey(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    monkeypatch.chdir(tmp_path)
    BOOK.to_toml("c.toml")
    write_design(DESIGN, "d.toml")
    Path("s.csv").write_text("smokes,region\n" + "yes,N\nno,N\nno,S\n" * 100)
    for out in ("r.parquet", "r.csv"):
        told = ("--keep-undisguised", "region", "--simulate", "1")
        assert main(["disguise", "s.csv", *BOTH, "--out", out, *told]) == 0
    capsys.readouterr()


def estimated(capsys: Capture, *options: str) -> list[dict[str, Any]]:
    code = main(["estimate", *options, *BOTH, "--strata", "region", "--json"])
    out, err = capsys.readouterr()
    assert (code, err) == (0, "")
    cells: list[dict[str, Any]] = json.loads(out)["cells"]
    return cells


def plain(event: dict[str, str], where: dict[str, str]) -> tuple[float, float]:
    """Ratio and linearised error over the two strata, from the reports themselves."""
    frame = pd.read_parquet("r.parquet").astype(str)
    w = np.ones(len(frame))
    f = np.ones(len(frame))
    for name, label in event.items():
        hit = (frame[name] == label).to_numpy(float)
        w *= (hit - 0.2) / 0.6 if name == "smokes" else hit
    for name, label in where.items():
        f *= (frame[name] == label).to_numpy(float)
    ratio = (w * f).sum() / f.sum()
    z = (w * f - ratio * f) / f.sum()
    total = 0.0
    for region in ("N", "S"):
        part = z[(frame["region"] == region).to_numpy()]
        total += len(part) * part.var(ddof=1)
    return ratio, float(np.sqrt(total))


@pytest.mark.parametrize("file", ["r.parquet", "r.csv"])
def test_a_table_by_the_strata_themselves(capsys: Capture, file: str) -> None:
    cells = {
        (cell["labels"]["smokes"], cell["labels"]["region"]): cell
        for cell in estimated(capsys, file, "--over", "smokes,region")
    }
    north, south = cells["yes", "N"], cells["yes", "S"]
    assert north["proportion"] == pytest.approx(0.283333, abs=5e-7)
    assert north["standard_error"] == pytest.approx(0.039222, abs=5e-7)
    assert south["proportion"] == pytest.approx(0.022222, abs=5e-7)
    assert south["standard_error"] == pytest.approx(0.023846, abs=5e-7)
    for (smokes, region), cell in cells.items():
        expected = plain({"smokes": smokes, "region": region}, {})
        assert (cell["proportion"], cell["standard_error"]) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("file", ["r.parquet", "r.csv"])
@pytest.mark.parametrize("region", ["N", "S"])
def test_a_domain_that_is_a_stratum(capsys: Capture, file: str, region: str) -> None:
    cells = estimated(capsys, file, "--over", "smokes", "--where", f"region={region}")
    for cell in cells:
        expected = plain(cell["labels"], {"region": region})
        assert (cell["proportion"], cell["standard_error"]) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("file", ["r.parquet", "r.csv"])
def test_the_shares_of_strata_are_known(capsys: Capture, file: str) -> None:
    cells = estimated(capsys, file, "--over", "region")
    assert [cell["proportion"] for cell in cells] == pytest.approx([2 / 3, 1 / 3], rel=1e-12)


def test_an_attribute_is_no_survey_weight(capsys: Capture) -> None:
    for over in ("smokes", "smokes,region"):
        assert main(["estimate", "r.csv", *BOTH, "--over", over, "--weights", "region"]) == 2
        line = capsys.readouterr().err
        assert "column 'region' holds categories of the codebook, not numbers" in line
        assert line.count("\n") == 1
