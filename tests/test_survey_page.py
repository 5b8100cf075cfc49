"""The lines of docs/survey.md and docs/field.md, pasted into a shell in an empty folder."""

from __future__ import annotations

import math
import re
import tomllib
from pathlib import Path

import pandas as pd
import pytest
from pages import blocks, shell_lines
from shell_page import run_lines

import ppdm_dask as pp
from ppdm_dask import datasets
from ppdm_dask.designs import Permanent
from ppdm_dask.inference import variance_of_waves


def test_the_lines_of_the_page_run_in_an_empty_folder(root: Path, tmp_path: Path) -> None:
    page = (root / "docs" / "survey.md").read_text()
    lines = shell_lines("docs/survey.md")
    for command in ("codebook", "check", "audit", "disguise", "count", "estimate"):
        assert f"\nppdm {command} " in f"\n{lines}"
    out, folder = run_lines(lines, root, tmp_path)
    # What the page shows is what the commands print, but for the numbers that are drawn.
    printed = {shape(line) for line in out}
    shown = [line for line in page.splitlines() if line.startswith("    ")]
    assert len(shown) > 12
    for line in shown:
        assert shape(line) in printed, line
    found = pd.read_csv(folder / "within.csv", index_col="education")
    rich = datasets.load("adult").query("income == '>50K'")
    truth = rich["education"].value_counts(normalize=True).reindex(found.index, fill_value=0)
    # Sixteen cells at six standard errors: one false alarm in some 10^7 runs.
    assert (abs(found["proportion"] - truth) < 6 * found["standard_error"]).all()


def shape(line: str) -> str:
    """A line without the numbers that a disguise draws, and without spaces."""
    return re.sub(r"-?\d+\.\d{2,}|about [\d.]+ times|\s+", "", line)


def test_dice_on_paper_become_prevalences_by_region(root: Path, tmp_path: Path) -> None:
    """pi = (l - 1/6) / (3/4) and its standard error, region by region."""
    page = (root / "docs" / "field.md").read_text()
    lines = shell_lines("docs/field.md")
    assert lines.count("\n") < 15
    out, _ = run_lines(lines, root, tmp_path)
    indented = [line[4:] for line in page.splitlines() if line.startswith("    ")]
    shown = [line for line in indented if not line.startswith("{")]
    assert len(shown) > 4
    assert shown == out[: len(shown)]
    for region, yes, n in (("North", 140, 400), ("South", 90, 350)):
        share = yes / n
        pi, error = (share - 1 / 6) / 0.75, math.sqrt(share * (1 - share) / (n - 1)) / 0.75
        # Differences between the regions follow below.
        row = next(cells for cells in map(str.split, out) if cells[:2] == [region, "yes"])
        assert float(row[2]) == pytest.approx(pi, abs=6e-5)
        assert float(row[3]) == pytest.approx(error, abs=6e-5)
    # The design files of the page are such.
    for block in blocks("docs/field.md", "toml"):
        assert pp.design_from_config(tomllib.loads(block.text)).symbols, block.place


@pytest.mark.slow
def test_an_electronic_survey_from_questionnaire_to_interval(root: Path, tmp_path: Path) -> None:
    pytest.importorskip("uvicorn")
    page = (root / "docs" / "web.md").read_text()
    out, folder = run_lines(shell_lines("docs/web.md"), root, tmp_path)
    text = re.sub(r"^```.*?^```", "", page, flags=re.DOTALL | re.MULTILINE)
    shown = [line[4:] for line in text.splitlines() if line.startswith("    ")]
    assert len(shown) == 7
    assert set(shown) <= set(out)
    said = (folder / "serve.log").read_text().splitlines()
    assert re.fullmatch(r"the page: http://127\.0\.0\.1:\d+/", said[0])
    cells, waves = (line.split() for line in out if line.split()[:1] == ["yes"])
    # Of the same people in two waves: half of the second stage's noise, and all of the rest.
    stages = Permanent(pp.Warner("used", 0.85), pp.Warner("used", 0.8))
    error = math.sqrt(variance_of_waves(stages, [0.7, 0.3], 2)[1] / 500)
    assert float(waves[2]) == pytest.approx(error, rel=0.1)
    assert abs(float(waves[1]) - 0.3) < 6 * float(waves[2])
    # Thirty per cent are true; Warner's standard error at n = 500 is .03: six of them.
    assert abs(float(cells[1]) - 0.3) < 6 * float(cells[2])
    assert float(cells[2]) == pytest.approx(0.0307, abs=0.002)
    # Three quarters are right: sqrt(.75 * .25 / 600 + .8 * .2 / (600 * .6^2)) by Warner.
    cells = next(line.split() for line in out if line.split()[:1] == ["right"])
    assert abs(float(cells[1]) - 0.75) < 6 * float(cells[2])
    assert float(cells[2]) == pytest.approx(0.0325, abs=0.002)


@pytest.mark.slow
def test_a_platform_s_file_becomes_reports(root: Path, tmp_path: Path) -> None:
    page = (root / "docs" / "embed.md").read_text()
    out, folder = run_lines(shell_lines("docs/embed.md"), root, tmp_path)
    shown = [line[4:] for line in page.splitlines() if line.startswith("    ")]
    expected = {"ppdmdesign: all reports are of this design", "left out: seconds"}
    assert expected | {"500 reports: reports.parquet"} <= set(shown) & set(out)
    assert (folder / "page" / "embed.html").is_file()
    cells = next(line.split() for line in out if line.split()[:2] == ["north", "yes"])
    # 90 of 290 have used it; six of Warner's standard errors at n = 290.
    assert abs(float(cells[2]) - 90 / 290) < 6 * float(cells[3])
