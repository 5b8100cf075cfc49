"""Errors of surveys from the command line: clusters, strata, weights, replicates, comparisons."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from ppdm_dask import Attribute, Codebook, Reports, Warner
from ppdm_dask.cli import main
from ppdm_dask.files.table import Table
from ppdm_dask.survey.about import About
from ppdm_dask.survey.disguise import writing

Capture = pytest.CaptureFixture[str]

CODEBOOK = """
[[attribute]]
name = "used"
categories = ["nein", "ja"]

[[attribute]]
name = "region"
categories = ["north", "south", "west"]
"""
DESIGN = 'id = "warner"\nattribute = "used"\ntheta = 0.8\n'
BOTH = ("--codebook", "c.toml", "--design", "d.toml")
BOOK = Codebook(
    (Attribute("used", ("nein", "ja")), Attribute("region", ("north", "south", "west")))
)


@cache
def answers() -> pd.DataFrame:
    """2,400 answers by Warner's device, .8, in 60 schools of 3 regions, with weights."""
    return pd.read_csv(Path(__file__).parent / "data" / "field-clusters.csv")


def write(path: str, frame: pd.DataFrame, batch: int = 0) -> None:
    """Reports as a file of them, with further columns that are kept."""
    design = Warner("used", 0.8).bind(BOOK, positions=True)
    others = {n: pa.float64() if frame[n].dtype.kind in "if" else pa.string() for n in frame}
    kept = {n: kind for n, kind in others.items() if n not in BOOK.names}
    codes = [pd.Categorical(frame[n], BOOK[n].categories).codes for n in BOOK.names]
    reports = Reports(np.stack(codes, 1).astype(int), BOOK, 0, design.digest, False)
    about = About("reports", BOOK, design, False, ("region", *kept), (f"{batch:032x}",))
    with writing(Path(path), about, kept) as append:
        append(reports, Table.of_frame(frame))


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("c.toml").write_text(CODEBOOK)
    Path("d.toml").write_text(DESIGN)


def said(capsys: Capture, *arguments: str) -> str:
    code = main(["estimate", *arguments[:1], *BOTH, *arguments[1:]])
    out, err = capsys.readouterr()
    assert err == "", arguments
    assert code == 0
    return out


def answer(capsys: Capture, *arguments: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(said(capsys, *arguments, "--json"))
    return found


def refused(capsys: Capture, *arguments: str) -> str:
    assert main(["estimate", *arguments[:1], *BOTH, *arguments[1:]]) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.count("\n") == 1
    return err.removeprefix("ppdm: error: ").rstrip("\n")


@pytest.mark.parametrize("parts", [1, 3])
def test_the_four_standard_errors_of_a_sample_of_schools(capsys: Capture, parts: int) -> None:
    """A school may be in several files: sums of schools add up."""
    rows = np.random.default_rng(1).integers(0, parts, len(answers()))
    for i in range(parts):
        write(f"r{i}.parquet", answers()[rows == i], i)
    for options, value, error in (
        ((), 0.204861, 0.015911),
        (("--clusters", "school"), 0.204861, 0.028623),
        (("--clusters", "school", "--strata", "region"), 0.204861, 0.028550),
        (("--clusters", "school", "--strata", "region", "--weights", "w"), 0.215538, 0.029411),
    ):
        found = answer(capsys, "r*.parquet", "--over", "used", *options)
        yes = found["cells"][1]
        assert yes["labels"] == {"used": "ja"}
        assert (yes["proportion"], yes["standard_error"]) == pytest.approx((value, error), abs=1e-6)
        assert 0 <= yes["lower"] < yes["proportion"] < yes["upper"] <= 1
    assert found["degrees_of_freedom"] == 60 - 3
    words = {text.partition(":")[0]: text for text in found["statements"]}
    assert (
        words["survey"] == "survey: weights from 'w', strata from 'region', clusters from 'school'"
    )
    # The variance with schools over that of 2,400 reports of Warner's device.
    p = yes["proportion"]
    simple = (p * (1 - p) + 0.8 * 0.2 / 0.6**2) / 2_400
    assert f"design effect: {0.029411**2 / simple:.2f}; 2,400 reports say" in words["design effect"]


def test_valid_per_cent_and_intervals_that_a_condition_leaves_possible(capsys: Capture) -> None:
    book = Codebook((Attribute("used", ("no", "yes", "no answer")),))
    Path("c.toml").write_text(
        '[[attribute]]\nname = "used"\ncategories = ["no", "yes", "no answer"]\n'
    )
    Path("d.toml").write_text('id = "kary"\nattribute = "used"\nn = 3\nq = 0.7\n')
    from ppdm_dask import KaryResponse

    design = KaryResponse("used", 3, q=0.7).bind(book, positions=True)
    counts = np.array([600, 190, 210])
    reports = Reports(np.repeat([0, 1, 2], counts)[:, None], book, 0, design.digest, False)
    about = About("reports", book, design, False, (), ("0" * 32,))
    with writing(Path("r.parquet"), about, {}) as append:
        append(reports, Table.of({}, 1_000))
    found = answer(capsys, "r.parquet", "--over", "used", "--where", "used=yes,used=no")
    assert [cell["labels"]["used"] for cell in found["cells"]] == ["no", "yes"]
    # p = (share - .1) / .7, and a ratio of two such; its error by the delta method of the counts.
    shares = (counts / 1_000 - 0.1) / 0.7
    ratio = shares[1] / shares[:2].sum()
    slope = np.array([-ratio, 1 - ratio, 0]) / shares[:2].sum() / 0.7
    cov = (np.diag(counts / 1_000) - np.outer(counts, counts) / 1e6) / 999
    yes = found["cells"][1]
    expected = (ratio, np.sqrt(slope @ cov @ slope))
    assert (yes["proportion"], yes["standard_error"]) == pytest.approx(expected, rel=1e-9)
    assert found["intervals"] == "score"
    line = refused(capsys, "r.parquet", "--over", "used", "--where", "used=yes")
    assert line.startswith("--where: 'used' is in --over too; give two or more of its labels")


def test_groups_are_compared(capsys: Capture) -> None:
    write("r.parquet", answers())
    by = ("r.parquet", "--over", "used", "--by", "region")
    found = answer(capsys, *by, "--reference", "region=west")
    yes = {c["labels"]["region"]: c for c in found["cells"] if c["labels"]["used"] == "ja"}
    made = found["comparison"]
    assert made["reference"] == {"region": "west"}
    assert len(made["rows"]) == 4
    for row in made["rows"]:
        if row["labels"]["used"] == "nein":
            continue
        # Groups are undisguised, and their reports independent.
        one, two = yes[row["labels"]["region"]], yes["west"]
        assert row["difference"] == pytest.approx(one["proportion"] - two["proportion"])
        assert row["ratio"] == pytest.approx(one["proportion"] / two["proportion"])
        error = np.hypot(one["standard_error"], two["standard_error"])
        assert row["standard_error"] == pytest.approx(error, rel=2e-3)
        assert row["lower"] < row["difference"] < row["upper"]
        assert row["ratio_lower"] < row["ratio"] < row["ratio_upper"]
    # With schools the regions cannot be told apart; without them they seem to differ.
    assert made["test"]["p_value"] < 0.05
    text = said(capsys, *by, "--clusters", "school", "--weights", "w", "--chart")
    assert "groups: proportions cannot be told to differ between categories of region" in text
    assert "compared with north:" in text
    assert text.count("●") == 6 and text.count("├") == 6
    line = refused(capsys, *by, "--reference", "region=east")
    assert "'east'" in line and "region" in line


def test_what_is_written(capsys: Capture) -> None:
    write("r.parquet", answers())
    options = ("r.parquet", "--over", "used,region", "--each", "--clusters", "school")
    for name in ("e.csv", "e.parquet"):
        said(capsys, *options, "--out", name)
    tables = [pd.read_csv("e.csv"), pd.read_parquet("e.parquet")]
    pd.testing.assert_frame_equal(*tables)
    heads = ["attribute", "label", "proportion", "standard_error", "lower", "upper"]
    assert list(tables[0].columns) == heads
    assert tables[0]["attribute"].tolist() == ["used"] * 2 + ["region"] * 3
    assert tables[0]["label"].tolist() == ["nein", "ja", "north", "south", "west"]
    found = answer(capsys, *options)
    assert [each["over"] for each in found["answers"]] == [["used"], ["region"]]
    assert found["answers"][0]["cells"][1]["proportion"] == tables[0]["proportion"][1]


def jackknife(frame: pd.DataFrame) -> pd.DataFrame:
    """Weights of a jackknife that leaves out one school at a time, by strata of regions."""
    schools = frame.groupby("region")["school"].unique()
    made = {}
    for region, there in schools.items():
        m = len(there)
        for school in there:
            inside = frame["region"] == region
            factor = np.where(frame["school"] == school, 0, np.where(inside, m / (m - 1), 1))
            made[f"rep_{school}"] = factor * frame["w"]
    return pd.DataFrame(made)


def test_replicate_weights(capsys: Capture) -> None:
    frame = answers()[["used", "region", "school", "w"]].reset_index(drop=True)
    weights = jackknife(frame)
    write("r.parquet", pd.concat([frame, weights], axis=1))
    p = (frame["used"] == "ja").to_numpy()
    estimates = [(p @ d / d.sum() - 0.2) / 0.6 for d in weights.to_numpy().T]
    whole = (p @ frame["w"] / frame["w"].sum() - 0.2) / 0.6
    sizes = frame.groupby("region")["school"].nunique()
    m = np.array(
        [sizes[frame.loc[frame["school"] == int(n[4:]), "region"].iloc[0]] for n in weights]
    )
    error = np.sqrt(((m - 1) / m * (np.array(estimates) - whole) ** 2).sum())
    listed = ",".join(repr(x) for x in ((m - 1) / m).tolist())
    given = ("r.parquet", "--over", "used", "--weights", "w", "--replicates", "rep_*")
    found = answer(capsys, *given, "--replicate-method", "JKn", "--rscales", listed)
    yes = found["cells"][1]
    expected = (whole, error)
    assert (yes["proportion"], yes["standard_error"]) == pytest.approx(expected, rel=1e-9)
    # As many as clusters less strata, by the rank of the weights.
    assert found["degrees_of_freedom"] == 57
    assert "60 replicate weights (JKn)" in " ".join(found["statements"])
    # Near the linearised error of the same sample.
    assert error == pytest.approx(0.029411, rel=0.02)
    assert refused(capsys, *given).startswith("--replicate-method: none is given; one of JK1")
    line = refused(capsys, *given, "--replicate-method", "JKn")
    assert line.startswith("rscales: JKn needs one for each replicate")
    line = refused(capsys, *given, "--replicate-method", "JKn", "--rscales", ".9,.8")
    assert line == "rscales: 2 numbers; one, or 60, are needed"
    line = refused(capsys, *given, "--replicate-method", "Fay")
    assert line.startswith("rho: Fay's method needs it")


def test_lone_clusters_and_missing_ones(capsys: Capture) -> None:
    frame = answers()
    frame = frame[(frame["region"] != "west") | (frame["school"] == frame["school"].max())]
    frame = frame.assign(N=np.where(frame["region"] == "north", 0.25, 200.0))
    write("r.parquet", frame.assign(gap=frame["school"].where(frame["school"] != 3)))
    given = ("r.parquet", "--over", "used", "--strata", "region", "--clusters", "school")
    line = refused(capsys, *given)
    assert line.startswith("lone: 1 stratum has a single cluster")
    errors = {
        lone: answer(capsys, *given, "--lone", lone)["cells"][1]["standard_error"]
        for lone in ("certainty", "adjust", "average")
    }
    # Certainty adds nothing, the average what two strata add on average.
    assert errors["certainty"] == pytest.approx(errors["average"] * np.sqrt(2 / 3))
    assert errors["certainty"] < errors["adjust"]
    found = answer(capsys, *given, "--lone", "certainty", "--fpc", "N")
    assert found["cells"][1]["standard_error"] < errors["certainty"]
    line = refused(capsys, *given[:-1], "gap")
    assert "column 'gap', row" in line and line.endswith("no cluster is given")
    line = refused(capsys, *given, "--estimand", "file")
    assert line.startswith("--clusters: for these records only the disguise causes errors")
    line = refused(capsys, *given[:3], "--clusters", "street")
    assert "column 'street' was not kept undisguised; columns that were: region, school" in line
