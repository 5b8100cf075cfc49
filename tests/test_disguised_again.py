"""What a disguise gives away beside its reports, and answers that are disguised again."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import ppdm_dask as pp
from ppdm_dask.cli import main
from ppdm_dask.designs import Flip
from ppdm_dask.designs.files import write_design
from ppdm_dask.survey.marker import NAME, state_folder

Capture = pytest.CaptureFixture[str]
LABELS = {"smokes": ("no", "yes"), "drinks": ("no", "yes"), "drug": ("never", "once", "often")}
BOOK = pp.Codebook(tuple(pp.Attribute(name, labels) for name, labels in LABELS.items()))
PLAIN = pp.Product([pp.Warner("smokes", 0.8), pp.KaryResponse("drug", 3, epsilon=1.0)])
FILES = ("--codebook", "c.toml", "--design", "d.toml")


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    Path("data").mkdir()
    rng = np.random.default_rng(4)
    codes = np.stack([rng.integers(0, len(labels), 300) for labels in LABELS.values()], axis=1)
    frame = BOOK.decode(pp.Records(codes, BOOK)).assign(name="Ann")
    frame.to_csv("data/s.csv", index=False)
    Path("c.toml").write_text(BOOK.as_toml())
    write_design(PLAIN, "d.toml")


def disguise(capsys: Capture, data: str, *more: str) -> dict[str, Any]:
    columns = pd.read_csv(data, nrows=1).columns if data.endswith(".csv") else ["name", "drinks"]
    drop = [text for name in columns if name not in PLAIN.attributes for text in ("--drop", name)]
    arguments = ["disguise", data, *FILES, "--out", "r.parquet", "--force", "--json", *drop, *more]
    assert main(arguments) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def test_the_same_answers_are_known_again(capsys: Capture) -> None:
    assert disguise(capsys, "data/s.csv")["again"] == []
    two = disguise(capsys, "data/s.csv")["again"]
    four, e = 2 * np.log(4), 2.0
    assert [(x["attributes"], x["times"]) for x in two] == [(["smokes"], 2), (["drug"], 2)]
    assert [x["epsilon"] for x in two] == pytest.approx([four, e])
    # Under another name, with other columns in another order, and as Parquet.
    frame = pd.read_csv("data/s.csv")
    frame[["drug", "name", "smokes"]].to_csv("data/t.csv", index=False)
    three = disguise(capsys, "data/t.csv")["again"]
    assert [x["times"] for x in three] == [3, 3]
    frame.to_parquet("data/s.parquet", index=False)
    assert [x["times"] for x in disguise(capsys, "data/s.parquet")["again"]] == [4, 4]
    # Other answers to one question are no repetition; nor is another folder, nor a simulation.
    other = frame.assign(drug=frame["drug"].to_numpy()[::-1])
    other.to_csv("data/u.csv", index=False)
    (five,) = disguise(capsys, "data/u.csv")["again"]
    assert (five["attributes"], five["times"]) == (["smokes"], 5)
    frame.to_csv("s.csv", index=False)
    assert disguise(capsys, "s.csv")["again"] == []
    before = Path("data", NAME).read_bytes()
    assert disguise(capsys, "data/s.csv", "--simulate", "1")["again"] == []
    assert Path("data", NAME).read_bytes() == before
    drop = ("--drop", "name", "--drop", "drinks")
    assert main(["disguise", "data/s.csv", *FILES, "--out", "q.csv", *drop]) == 0
    said = capsys.readouterr().out
    assert (
        "again: the answers to 'smokes' have now been disguised 6 times, with epsilon 8.318 in all"
    ) in said


def test_the_record_tells_nothing_and_stays_where_the_data_are(capsys: Capture) -> None:
    disguise(capsys, "data/s.csv")
    record = Path("data", NAME)
    key = state_folder() / "disguises.key"
    assert record.stat().st_mode & 0o777 == key.stat().st_mode & 0o777 == 0o600
    text = record.read_text()
    assert key.read_bytes().hex() not in text
    assert not any(word in text for word in ("smokes", "drug", "often", "s.csv"))
    # With another key the same answers have no hash in common.
    answers = set(json.loads(text)["answers"])
    record.unlink()
    key.unlink()
    disguise(capsys, "data/s.csv")
    assert not answers & set(json.loads(record.read_text())["answers"])
    for digest in answers:
        assert digest.encode() not in Path("r.parquet").read_bytes()


def test_columns_that_say_little_stand_for_nothing_alone(capsys: Capture) -> None:
    """Thirty pupils who all say no are no other thirty pupils who all say no."""
    rng = np.random.default_rng(1)
    for school in ("one", "two"):
        drug = rng.choice(LABELS["drug"], 300)
        pd.DataFrame({"smokes": "no", "drug": drug}).to_csv(f"data/{school}.csv", index=False)
        assert disguise(capsys, f"data/{school}.csv")["again"] == []
    again = disguise(capsys, "data/two.csv")["again"]
    assert sorted(name for each in again for name in each["attributes"]) == ["drug", "smokes"]


def test_a_record_that_cannot_be_kept_is_said(
    capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    import ppdm_dask.survey.marker as marker

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(marker, "replacing", full)
        problem = disguise(capsys, "data/s.csv")["problem"]
    assert problem == (
        "no record could be kept beside the data (No space left on device); another disguise of "
        "the same answers will not be noticed"
    )
    # Without a place for the key, the record keeps one.
    Path("file").write_text("")
    monkeypatch.setenv("XDG_STATE_HOME", os.path.abspath("file"))
    assert disguise(capsys, "data/s.csv")["again"] == []
    assert len(disguise(capsys, "data/s.csv")["again"]) == 2
    # A damaged record is begun again.
    Path("data", NAME).write_text("{")
    assert disguise(capsys, "data/s.csv")["again"] == []


def refused(capsys: Capture, *more: str) -> str:
    before = {path: path.read_bytes() for path in Path().rglob("*") if path.is_file()}
    assert main(["disguise", "data/s.csv", *FILES, "--out", "r.parquet", *more]) == 2
    assert {path: path.read_bytes() for path in Path().rglob("*") if path.is_file()} == before
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    return err.removeprefix("ppdm: error: ").rstrip("\n")


def test_what_is_given_away_must_be_accepted(capsys: Capture) -> None:
    Path("d.toml").write_text('id = "mangat"\nattribute = "smokes"\ntrait = "yes"\np = 0.7\n')
    rest = ("--drop", "name", "--drop", "drug", "--drop", "drinks")
    assert refused(capsys, *rest) == (
        "data/s.csv: the design gives answers away: a report 'no' makes 'no' certain (on "
        "'smokes'); take another design, or name 'smokes' in --accept-certain"
    )
    assert refused(capsys, *rest, "--accept-certain", "yes") == (
        "--accept-certain: 'yes' is not made certain by any report; there are: smokes"
    )
    for name in ("smokes", "no", "smokes=no"):
        arguments = ["disguise", "data/s.csv", *FILES, "--out", "r.parquet", "--force", *rest]
        assert main([*arguments, "--accept-certain", name]) == 0
        assert "a report 'no' makes 'no' certain (on 'smokes')\n" in capsys.readouterr().out
    # The trait is the other label: so is what becomes certain.
    Path("d.toml").write_text('id = "mangat"\nattribute = "smokes"\ntrait = "no"\np = 0.7\n')
    assert "a report 'yes' makes 'yes' certain" in refused(capsys, *rest, "--force")


@pytest.mark.parametrize(
    ("design", "words"),
    [
        (pp.designs.UnaryEncoding("drug", 3, 1.0, 0.0), "every report gives away the answer to"),
        (pp.designs.SubsetSelection("drug", 3, 1, 1.0), "every report gives away the answer to"),
        (
            pp.RRMatrix(
                ["smokes", "drinks"],
                np.eye(4)[[2, 0, 3, 1]],
                [2, 2],
                categories=[["no", "yes"], ["no", "yes"]],
            ),
            "every report gives away the answer to 'smokes' for certain; every report gives away",
        ),
        (Flip(["smokes", "drinks"], 0.8), "whether 'smokes' and 'drinks' are equal"),
    ],
    ids=["unary", "subset", "permutation", "equality"],
)
def test_designs_that_tell_the_truth_are_refused(
    capsys: Capture, design: pp.Design, words: str
) -> None:
    write_design(design, "d.toml")
    rest = [name for name in ("name", *LABELS) if name not in design.attributes]
    drop = [text for name in rest for text in ("--drop", name)]
    line = refused(capsys, *drop)
    assert words in line
    for name in design.attributes:
        assert repr(name) in line.partition("take another design, or name ")[2]
    accept = [text for name in design.attributes for text in ("--accept-certain", name)]
    assert main(["disguise", "data/s.csv", *FILES, "--out", "r.parquet", *drop, *accept]) == 0
    assert words.partition(";")[0] in capsys.readouterr().out
    assert main(["audit", "--design", "d.toml", "--codebook", "c.toml"]) == 0
    assert words.partition(";")[0] in capsys.readouterr().out
    assert main(["audit", "--design", "d.toml", "--codebook", "c.toml", "--json"]) == 0
    certain = json.loads(capsys.readouterr().out)["certain"]
    assert {name for each in certain for name in each["attributes"]} == set(design.attributes)
    assert {each["degree"] for each in certain} == {"certain"}
