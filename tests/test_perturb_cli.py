"""``ppdm perturb``: release, metrics, report, and one line for a user's mistake."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pandas as pd
import pytest

from ppdm_dask import datasets
from ppdm_dask.cli import main
from ppdm_dask.cli.perturb import Method
from ppdm_dask.perturb import AIBR, disclosure, distortion, methods
from ppdm_dask.randomness import Stream

Capture = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    frame = datasets.load("pima")
    frame.to_csv("pima.csv", index=False)
    frame.to_parquet("pima.parquet", row_group_size=100)


def perturb(capsys: Capture, *arguments: str) -> dict[str, Any]:
    assert main(["perturb", *arguments, "--json"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    found: dict[str, Any] = json.loads(out)
    return found


def refused(capsys: Capture, *arguments: str) -> str:
    before = sorted(Path().rglob("*"))
    assert main(["perturb", *arguments]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    assert sorted(Path().rglob("*")) == before
    return err.removeprefix("ppdm: error: ").rstrip("\n")


AIBR_4 = ("--method", "aibr", "--k", "4", "--keep", "diabetes")


def test_the_command_knows_every_method() -> None:
    assert sorted(get_args(Method)) == list(methods())


def test_csv_parquet_and_parts_give_one_release(capsys: Capture) -> None:
    original = datasets.load("pima")
    columns = original.drop(columns="diabetes")
    simulated = (*AIBR_4, "--simulate", "3")
    found = perturb(capsys, "pima.csv", *simulated, "--out", "a.csv")
    perturb(capsys, "pima.parquet", *simulated, "--out", "b.parquet")
    parts = perturb(capsys, "pima.parquet", *simulated, "--out", "c")
    released = pd.read_csv("a.csv")
    expected = AIBR(4).fit(columns).perturb(columns, Stream.from_seed(3).child(1))
    np.testing.assert_allclose(released.iloc[:, :8], expected, rtol=1e-12)
    assert released["diabetes"].tolist() == original["diabetes"].tolist()
    np.testing.assert_array_equal(pd.read_parquet("b.parquet").iloc[:, :8], expected)
    whole = pd.concat([pd.read_parquet(file) for file in sorted(Path("c").iterdir())])
    np.testing.assert_array_equal(whole.iloc[:, :8], expected)
    measures = distortion(columns, expected)._asdict() | disclosure(columns, expected)._asdict()
    assert found["metrics"] == pytest.approx(measures)
    assert parts["metrics"] == pytest.approx(measures | {"linkage": None})
    assert (found["records"], found["simulated"]) == (768, True)
    assert found["columns"][1] == {"name": "glucose", "low": 0, "high": 199, "missing": 0}


def test_an_option_of_columns_may_be_given_again(capsys: Capture) -> None:
    original = datasets.load("pima")
    common = ("pima.csv", "--method", "aibr", "--k", "4", "--simulate", "3", "--out", "r.csv")
    perturb(capsys, *common, "--keep", "diabetes", "--keep", "age, mass")
    released = pd.read_csv("r.csv")
    kept = [name for name in original if (released[name] == original[name]).all()]
    assert sorted(kept) == ["age", "diabetes", "mass"]


@pytest.mark.cluster
def test_two_workers_write_the_same_parts(capsys: Capture) -> None:
    for out, workers in (("here", "0"), ("there", "2")):
        perturb(
            capsys, "pima.parquet", *AIBR_4, "--simulate", "5", "--workers", workers, "--out", out
        )
    files = sorted(file.name for file in Path("here").iterdir())
    assert len(files) == 8
    for file in files:
        assert (Path("here") / file).read_bytes() == (Path("there") / file).read_bytes()


def test_a_real_release_cannot_be_repeated(capsys: Capture) -> None:
    releases = []
    for out in ("a.csv", "b.csv"):
        found = perturb(capsys, "pima.csv", *AIBR_4, "--integers", "--out", out)
        assert found["simulated"] is False
        releases.append(pd.read_csv(out))
    assert (releases[0]["glucose"] != releases[1]["glucose"]).any()
    assert releases[0]["glucose"].dtype == np.int64
    assert releases[0]["mass"].dtype == np.float64


@pytest.mark.parametrize(
    "options",
    [
        ["bsvd", "--k", "6"],
        ["ssvd", "--k", "6", "--e", "0.15"],
        ["kcg", "--k", "5", "--simulate", "1"],
    ],
)
def test_other_methods(capsys: Capture, options: list[str]) -> None:
    method, *parameters = options
    found = perturb(
        capsys, "pima.csv", "--method", method, *parameters, "--keep", "diabetes", "--out", "r.csv"
    )
    assert found["method"]["id"] == method
    assert 0.01 < found["metrics"]["vd"] < 0.25
    assert found["caveat"].lower().startswith(method)
    assert len(pd.read_csv("r.csv")) == 768


def test_what_is_printed_and_the_report(capsys: Capture) -> None:
    assert main(["perturb", "pima.csv", *AIBR_4, "--simulate", "1", "--out", "r.csv"]) == 0
    out = capsys.readouterr().out
    assert "VD: distance of release and original" in out
    assert "not protected: AIBR does not hide roughly how large a value is" in out
    assert "simulated: anyone who knows the seed can repeat the draws" in out
    assert out.endswith("release: r.csv\nreport: r.csv.report.html\n")
    page = Path("r.csv.report.html").read_text()
    assert page.startswith("<!doctype html>")
    for text in ("What this does not protect", "glucose", "keep it with the original", "k = 4"):
        assert text in page
    assert not re.search(r"<script|https?://", page)


def test_only_named_columns_are_released(capsys: Capture) -> None:
    perturb(
        capsys,
        "pima.csv",
        "--method",
        "aibr",
        "--k",
        "3",
        "--columns",
        "age,mass",
        "--out",
        "r.csv",
    )
    assert list(pd.read_csv("r.csv")) == ["mass", "age"]


def test_mistakes_are_one_line(capsys: Capture) -> None:
    out = ("--out", "r.csv")
    frame = datasets.load("pima")
    aibr = ("--method", "aibr", *out)
    text = refused(capsys, "pima.csv", *aibr, "--k", "4")
    assert text.startswith("pima.csv: column 'diabetes', row 0: 'pos' is not a finite number")
    keep = ("--keep", "diabetes")
    for k, words in (("0", "k: got 0; a whole number of 1 or more"), ("769", "k: got 769; there")):
        assert words in refused(capsys, "pima.csv", *aibr, *keep, "--k", k)
    assert "e: missing" in refused(capsys, "pima.csv", "--method", "ssvd", *out, *keep, "--k", "3")
    stray = refused(capsys, "pima.csv", *aibr, *keep, "--k", "3", "--e", "0.5")
    assert stray.startswith("e: got 0.5; not a parameter of 'aibr'")
    line = refused(capsys, "pima.csv", *aibr, "--keep", "diabetis", "--k", "3")
    assert line.startswith("pima.csv: column 'diabetis' is absent; the columns are pregnant")
    both = refused(capsys, "pima.csv", *aibr, *keep, "--columns", "age,diabetes", "--k", "3")
    assert both == "column 'diabetes': either perturb it or keep it, not both"
    wide = refused(capsys, "pima.csv", *aibr, *keep, "--k", "3", "--interval", "1.5")
    assert wide.startswith("interval: got 1.5; a share of the range")
    gone = refused(capsys, "gone.csv", *aibr, "--k", "3")
    assert gone == "gone.csv: there is no such file"
    assert refused(capsys, "gone.parquet", "--method", "aibr", "--k", "3", "--out", "x") == (
        "gone.parquet: there is no such file"
    )
    assert "ends in .csv, .parquet, .arrow, .xlsx, .sav or .dta" in refused(
        capsys, "pima.txt", *aibr, "--k", "3"
    )
    parts = refused(capsys, "pima.csv", "--method", "aibr", *keep, "--k", "3", "--out", "x")
    assert parts.startswith("--out: got 'x'; a folder of parts is for a .parquet file")
    workers = refused(capsys, "pima.csv", *aibr, *keep, "--k", "3", "--workers", "2")
    assert workers.startswith("--workers: got 2; workers write a folder of parts")
    assert "Invalid value" in refused(capsys, "pima.csv", "--method", "noise", *out, "--k", "3")
    for name, changed, words in (
        ("one", frame.iloc[:1], "there is 1 record; 2 or more are needed"),
        ("constant", frame.assign(age=30), "column 'age': every value is 30"),
        ("empty", frame.assign(age=np.nan), "column 'age': every value is missing"),
    ):
        changed.to_csv(f"{name}.csv", index=False)
        line = refused(capsys, f"{name}.csv", *aibr, *keep, "--k", "1")
        assert line.startswith(f"{name}.csv: {words}")
    frame.assign(age=30).to_csv("constant.csv", index=False)
    perturb(capsys, "constant.csv", *aibr, *keep, "--k", "3", "--constant", "keep")
    assert set(pd.read_csv("r.csv")["age"]) == {30.0}
