"""Models from files of several owners: reports by their own designs, and clean files by name."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import ppdm_dask as pp
from ppdm_dask.cli import main
from ppdm_dask.designs.files import write_design

Capture = pytest.CaptureFixture[str]
NAMES = ["a", "b", "c", "y"]
BOOK = pp.Codebook(tuple(pp.Attribute(name, ("no", "yes")) for name in NAMES), target="y")
FLIPS = pp.MultiGroup([["a", "y"], ["b", "c"]], 0.8)
COINS = pp.Product([pp.Warner("y", 0.7), pp.KaryResponse("b", 2, 0.9)])


def answers(n: int, seed: int) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    codes = rng.integers(2, size=(n, 4))
    codes[:, 3] = np.where(rng.random(n) < 0.85, codes[:, 0] & codes[:, 1], codes[:, 2])
    return pd.DataFrame(np.array(["no", "yes"])[codes], columns=NAMES)


def run(*arguments: str) -> int:
    return main(list(arguments))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("owners")
    BOOK.to_toml(place / "c.toml")
    kept = {
        "a": [part for name in NAMES for part in ("--accept-certain", name)],
        "b": ("--keep-undisguised", "a", "--keep-undisguised", "c"),
    }
    for name, design, n in (("a", FLIPS, 600), ("b", COINS, 400)):
        answers(n, ord(name)).to_csv(place / f"{name}.csv", index=False)
        write_design(design, place / f"{name}.toml")
        given = [str(place / f"{name}.csv"), "--codebook", str(place / "c.toml")]
        given += ["--design", str(place / f"{name}.toml"), "--out", str(place / f"{name}.parquet")]
        assert run("disguise", *given, *kept[name], "--simulate", str(ord(name))) == 0
    answers(200, 1).to_csv(place / "own.csv", index=False)
    return place


@pytest.fixture(autouse=True)
def _there(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    for path in folder.iterdir():
        shutil.copy(path, tmp_path)
    monkeypatch.chdir(tmp_path)
    capsys.readouterr()


def owners(**options: Any) -> pp.Owners:
    reports = [
        pp.load_reports(f"{name}.parquet", BOOK, design)
        for name, design in (("a", FLIPS), ("b", COINS))
    ]
    return pp.Owners(*reports, BOOK.encode(answers(200, 1)), **options)


MINE = ("a.parquet", "b.parquet", "--clean", "own.csv", "--codebook", "c.toml")


@pytest.mark.parametrize("combine", ["sum", "precision"])
@pytest.mark.parametrize("learner", ["naive-bayes", "id3"])
def test_the_command_makes_the_model_of_the_owners(
    capsys: Capture, learner: str, combine: str
) -> None:
    options = ("--combine", combine, "--out", "m.json", "--json")
    assert run("mine", learner, *MINE, *options) == 0
    told = json.loads(capsys.readouterr().out)
    model = pp.NaiveBayes() if learner == "naive-bayes" else pp.ID3()
    model.fit(owners(weights=combine))
    found = pp.read_model("m.json")
    assert found.fitted_values() == model.fitted_values()
    assert (told["reports"], told["owners"], told["features"]) == (1200, [600, 400, 200], NAMES[:3])
    clean = BOOK.encode(answers(4_000, 5))
    error = told["accuracy"]["standard_error"]
    assert abs(told["accuracy"]["value"] - model.score(clean)) < 4 * error + 0.05
    assert run("predict", "m.json", "own.csv", "--out", "p.csv") == 0


def test_rules_rest_on_all_owners(capsys: Capture) -> None:
    assert run("mine", "rules", *MINE, "--min-confidence", "0.7", "--json") == 0
    told = json.loads(capsys.readouterr().out)
    found = pp.association_rules(owners(), min_confidence=0.7)
    assert told["reports"] == 1200
    assert [rule["confidence"] for rule in told["rules"]] == [rule.confidence for rule in found]


def test_a_design_that_is_left_out_is_that_of_the_files() -> None:
    both = ("mine", "id3", "a.parquet", "--codebook", "c.toml", "--folds", "0")
    assert run(*both, "--out", "m.json") == 0
    assert run(*both, "--design", "a.toml", "--out", "n.json") == 0
    assert Path("m.json").read_bytes() == Path("n.json").read_bytes()
    # Clean records beside the reports of one design that is given.
    assert run(*both, "--design", "a.toml", "--clean", "own.csv", "--out", "o.json") == 0
    reports = pp.load_reports("a.parquet", BOOK, FLIPS)
    model = pp.ID3().fit(pp.Owners(reports, BOOK.encode(answers(200, 1))))
    assert pp.read_model("o.json").fitted_values() == model.fitted_values()


def other_codebook() -> None:
    attributes = [*BOOK.attributes[:3], pp.Attribute("y", ("no", "maybe", "yes"))]
    pp.Codebook(tuple(attributes), target="y").to_toml("other.toml")


def damage(kind: str) -> None:
    table = answers(50, 2)
    table.loc[7, "c"] = "perhaps"
    table.to_csv("wrong.csv", index=False)
    table.drop(columns="c").to_csv("short.csv", index=False)
    table[:0].to_csv("empty.csv", index=False)
    shutil.copy("own.csv", "again.csv")
    other_codebook()


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ("a.parquet own.csv", "own.csv: the file own.csv.about.json that `ppdm disguise` wrote"),
        ("a.parquet --clean b.parquet", "b.parquet: holds reports, which are not true answers"),
        ("a.parquet a.parquet", "a.parquet: holds reports that a.parquet holds too"),
        ("a.parquet --clean own.csv --clean again.csv", "again.csv: holds the records of own.csv"),
        ("a.parquet b.parquet --design a.toml", "b.parquet: was made under another design than a"),
        ("a.parquet --clean wrong.csv", "wrong.csv: attribute 'c'"),
        (
            "a.parquet --clean short.csv --features c",
            "short.csv: column 'c' is absent",
        ),
        ("a.parquet --clean empty.csv", "empty.csv: "),
        ("a.parquet --clean absent.csv", "absent.csv"),
        ("a.parquet --codebook other.toml", "attribute.y.categories was"),
        ("a.parquet --clean own.csv --weights a", "take no weights"),
        ("a.parquet --clean own.csv --out own.csv --force", "own.csv"),
    ],
)
def test_what_is_refused(capsys: Capture, arguments: str, says: str) -> None:
    damage(says)
    before = sorted(Path().iterdir())
    given = arguments.split()
    given += [] if "--codebook" in given else ["--codebook", "c.toml"]
    given += [] if "--out" in given else ["--out", "m.json"]
    assert run("mine", "naive-bayes", *given) == 2
    shown = capsys.readouterr()
    (line,) = shown.err.splitlines()
    assert says in line
    assert shown.out == ""
    assert sorted(Path().iterdir()) == before
