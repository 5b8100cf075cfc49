"""Models in files, the commands that make and use them, and the page that shows both."""

from __future__ import annotations

import datetime
import json
import re
import shlex
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pyreadstat
import pytest
from pages import blocks

import ppdm_dask as pp
from ppdm_dask.cli import main
from ppdm_dask.designs.files import write_design
from ppdm_dask.errors import DataError
from ppdm_dask.files.documents import seal
from ppdm_dask.files.reader import open_data
from ppdm_dask.mine.classifier import Classifier
from ppdm_dask.survey.mining import predict_file

Capture = pytest.CaptureFixture[str]
BOTH = ("--codebook", "c.toml", "--design", "d.toml")
NAMES = ["sex", "marital-status", "relationship", "income"]


@pytest.fixture(scope="module")
def people() -> pd.DataFrame:
    return pp.datasets.load("adult").sample(3_000, random_state=1)[NAMES].reset_index(drop=True)


@pytest.fixture(scope="module")
def book() -> pp.Codebook:
    found = pp.Codebook.from_toml(pp.resources.codebook_path("adult")).select(NAMES)
    return pp.Codebook(found.attributes, target="income")


@pytest.fixture(scope="module")
def design(book: pp.Codebook) -> pp.Design:
    return pp.Product([pp.KaryResponse(name, len(book[name]), p=0.8) for name in NAMES])


@pytest.fixture(autouse=True)
def _files(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    people: pd.DataFrame,
    book: pp.Codebook,
    design: pp.Design,
) -> None:
    monkeypatch.chdir(tmp_path)
    people.iloc[:2_000].assign(w=1.5).to_csv("a.csv", index=False)
    people.iloc[2_000:].assign(row=range(1_000)).to_csv("others.csv", index=False)
    book.to_toml("c.toml")
    write_design(design, Path("d.toml"))


def run(*arguments: str) -> int:
    return main(list(arguments))


def refused(capsys: Capture, *arguments: str) -> str:
    capsys.readouterr()
    assert run(*arguments) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    (line,) = shown.err.splitlines()
    return line


@pytest.fixture
def reports(_files: None, capsys: Capture) -> Path:
    kept = ("--keep-undisguised", "w", "--simulate", "1", "--out", "r.parquet")
    assert run("disguise", "a.csv", *BOTH, *kept) == 0
    capsys.readouterr()
    return Path("r.parquet")


LEARNERS = [
    lambda d: pp.NaiveBayes(d, "income"),
    lambda d: pp.TAN(d, "income"),
    lambda d: pp.ID3(d, "income", max_depth=2),
]


# -- documents -------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", LEARNERS)
def test_a_model_that_is_read_predicts_what_the_written_one_does(
    make: Any, people: pd.DataFrame, book: pp.Codebook, design: pp.Design
) -> None:
    clean = book.encode(people)
    model = make(design).fit(design.disguise(clean, pp.Stream.from_seed(3)))
    others = design.disguise(clean, pp.Stream.from_seed(4))
    pp.write_model("m.json", model, model.score_disguised(others))
    read = pp.read_model("m.json")
    np.testing.assert_array_equal(read.predict(clean), model.predict(clean))
    np.testing.assert_array_equal(read.predict_proba(clean), model.predict_proba(clean))
    assert read.score(clean) == model.score(clean)
    assert read.score_disguised(others).value == model.score_disguised(others).value
    assert read.get_params(deep=False) == model.get_params(deep=False)
    pp.write_model("again.json", read, read.score_disguised(others))
    assert Path("again.json").read_bytes() == Path("m.json").read_bytes()
    # It says how good it is, and no report stands in it: its size is that of the model.
    content = json.loads(Path("m.json").read_text())
    assert content["accuracy"]["value"] == model.score_disguised(others).value
    assert len(Path("m.json").read_bytes()) < 40_000


def edited(**changes: Any) -> str:
    content = json.loads(Path("m.json").read_text()) | changes
    Path("edited.json").write_text(json.dumps(seal(content)))
    return "edited.json"


def test_damaged_models_are_refused(
    people: pd.DataFrame, book: pp.Codebook, design: pp.Design
) -> None:
    made = design.disguise(book.encode(people), pp.Stream.from_seed(3))
    model = pp.ID3(design, "income", max_depth=1).fit(made)
    pp.write_model("m.json", model)
    text = Path("m.json").read_text()
    Path("cut.json").write_text(text[:-100])
    Path("changed.json").write_text(text.replace('"income"', '"outcome"'))
    fitted = json.loads(text)["fitted"]
    for path, words in {
        "absent.json": "there is no such file",
        "cut.json": "this is not a model",
        "changed.json": "its content does not match its checksum",
        edited(format=99): "written by a newer version",
    }.items():
        with pytest.raises(pp.InputError, match=words):
            pp.read_model(path)
    for changes, words in (
        ({"model": "forest"}, "this is not a model: model is not"),
        ({"features": "sex"}, "this is not a model: features is not"),
        ({"design_digest": "0" * 64}, "has another digest"),
        ({"fitted": fitted | {"label": [0]}}, r"fitted\.label: has another shape"),
        (
            {"fitted": fitted | {"first_child": [99] * len(fitted["label"])}},
            "leads out of the tree",
        ),
        ({"fitted": {}}, "parts of it do not fit"),
    ):
        with pytest.raises(pp.InputError, match=words):
            pp.read_model(edited(**changes))


def test_what_no_file_can_hold_is_refused(book: pp.Codebook, people: pd.DataFrame) -> None:
    records = book.encode(people)
    with pytest.raises(pp.InputError, match=r"ends in \.json"):
        pp.write_model("m.pickle", pp.NaiveBayes().fit(records))
    table = people.drop(columns="income")
    with pytest.raises(pp.InputError, match="fitted to arrays"):
        pp.write_model("m.json", pp.NaiveBayes().fit(table, people["income"]))


# -- commands --------------------------------------------------------------------------------------


def test_mine_and_predict_are_what_python_does(
    reports: Path, capsys: Capture, people: pd.DataFrame, book: pp.Codebook, design: pp.Design
) -> None:
    clean = book.encode(people.iloc[:2_000])
    model = pp.NaiveBayes(design, "income").fit(design.disguise(clean, pp.Stream.from_seed(1)))
    out = ("--out", "m.json", "--picture", "m.svg", "--json")
    assert run("mine", "naive-bayes", str(reports), *BOTH, *out) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["reports"], told["features"], told["simulated"]) == (2_000, NAMES[:3], True)
    assert Path("m.svg").read_text().startswith("<?xml")
    # On data of its own the score is the accuracy of such models on the truth.
    gap = told["accuracy"]["value"] - model.score(book.encode(people.iloc[2_000:]))
    assert abs(gap) < 4 * told["accuracy"]["standard_error"]

    arguments = ("--keep", "row", "--probabilities", "--out", "p.csv", *BOTH[:2])
    assert run("predict", "m.json", "others.csv", *arguments) == 0
    found = pd.read_csv("p.csv")
    others = book.encode(people.iloc[2_000:])
    assert found["predicted"].tolist() == model.predict(others).tolist()
    assert found["row"].tolist() == list(range(1_000))
    columns = [f"P({label})" for label in model.classes_]
    np.testing.assert_allclose(found[columns], model.predict_proba(others), rtol=1e-12)
    assert run("predict", "m.json", "others.csv", "--out", "p.parquet") == 0
    assert pd.read_parquet("p.parquet")["predicted"].tolist() == found["predicted"].tolist()


def of_each_type() -> pa.Table:
    """Eight records with a column of each type that a model predicts from, or passes on."""
    moment = datetime.datetime(2026, 11, 29, 14, 5, 30, 250_000)
    given = {
        "sex": pa.array(["Male", "Female"] * 4),
        "text": pa.array(["b", None, "=a", 'say "a"', "3.0", "-99", "a,b", "b"]),
        "dictionary": pa.array(["b", None, "a", "b"] * 2).dictionary_encode(),
        "whole": pa.array([5, 2**60 + 1, None, -3] * 2),
        "small": pa.array([1, 2, -3, 1] * 2, pa.int8()),
        "truth": pa.array([True, None, False, True] * 2),
        "double": pa.array([0.1, None, 3.0, float("nan"), float("inf"), -0.0, 1e300, 2.5]),
        "single": pa.array([0.1, None, 2.7, 16_777_217.0] * 2, pa.float32()),
        "date": pa.array([datetime.date(2026, 11, 29), None] * 4),
        "moment": pa.array([moment, None] * 4, pa.timestamp("us")),
        "zone": pa.array([moment, None] * 4, pa.timestamp("ms", "Europe/Berlin")),
        "none": pa.nulls(8),
    }
    return pa.table(given)


@pytest.fixture
def by_sex(people: pd.DataFrame, book: pp.Codebook) -> Classifier:
    husbands = people["relationship"] == "Husband"  # most of the men, and none of the women
    table = people.assign(income=np.where(husbands, ">50K", "<=50K"))
    return pp.NaiveBayes().fit(book.select(["sex", "income"]).encode(table))


@pytest.mark.parametrize("size", [3, None])
def test_predictions_are_written_as_pandas_writes_them(
    by_sex: Classifier, size: int | None
) -> None:
    table = of_each_type()
    pq.write_table(table, "d.parquet")
    kept = table.column_names[1:]
    read = open_data(Path("d.parquet")).read(table.column_names).frame
    book = by_sex.codebook_.select(["sex"])
    chances = dict(zip(by_sex.classes_, by_sex.predict_proba(book.encode(read)).T, strict=True))
    labels = by_sex.predict(book.encode(read))
    expected = read[kept].assign(
        predicted=labels, **{f"P({label})": each for label, each in chances.items()}
    )
    assert len(set(labels)) == 2

    def write(name: str, *, safe: bool = False) -> Path:
        given = {} if size is None else {"size": size}
        path, known = Path(name), {"keep": kept, "probabilities": True, "safe": safe}
        assert predict_file(by_sex, Path("d.parquet"), path, **known, **given) == 8
        return path

    # In a CSV each value is as Python writes it: all digits of a number, and of a moment.
    cells = expected.astype(object).map(lambda value: "" if pd.isna(value) else str(value))
    text = cells.to_csv(index=False, lineterminator="\r\n")
    assert write("p.csv").read_bytes().decode() == text
    assert "\n'=a," in write("s.csv", safe=True).read_text()
    found = pq.read_table(write("p.parquet"))
    theirs = pa.Table.from_pandas(expected, preserve_index=False)
    wide = pa.dictionary(pa.int32(), pa.string())
    for name in found.column_names:
        assert found[name].to_pylist() == theirs[name].to_pylist(), name
        kind = theirs.schema.field(name).type
        if pa.types.is_string(kind):  # of releases of pandas before 3
            kind = pa.large_string()
        # pandas numbers the categories of a block by bytes.
        assert found.schema.field(name).type == (wide if pa.types.is_dictionary(kind) else kind)


def test_later_records_may_need_more_room_than_the_first(by_sex: Classifier) -> None:
    texts = ["a"] * 200 + [str(i) for i in range(200)]
    decimals = pa.array([Decimal("1.50")] * 200 + [Decimal("123.45")] * 200, pa.decimal128(6, 2))
    table = pa.table({"sex": ["Male"] * 400, "text": texts, "decimal": decimals})
    pq.write_table(table, "d.parquet")
    known = {"keep": ["text", "decimal"], "size": 200}
    assert predict_file(by_sex, Path("d.parquet"), Path("p.parquet"), **known) == 400
    found = pq.read_table("p.parquet")
    assert found["text"].to_pylist() == texts
    assert found["decimal"].to_pylist() == decimals.to_pylist()


@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_predictions_of_no_record_have_their_columns(by_sex: Classifier, form: str) -> None:
    Path("none.csv").write_text("sex,row\n")
    out = Path(f"p.{form}")
    assert predict_file(by_sex, Path("none.csv"), out, keep=["row"], probabilities=True) == 0
    found = pd.read_csv(out) if form == "csv" else pd.read_parquet(out)
    assert found.columns.tolist() == ["row", "predicted", "P(<=50K)", "P(>50K)"]
    assert len(found) == 0


def test_a_column_of_several_types_goes_to_a_csv(by_sex: Classifier) -> None:
    """Numbers of Stata, and a letter that says why one is missing."""
    frame = pd.DataFrame({"sex": ["Male", "Female"], "k": [1.5, "a"]})
    pyreadstat.write_dta(frame, "s.dta", missing_user_values={"k": ["a"]})
    line = (
        r"^s\.dta: column 'k' holds values of several types, which no column of Parquet does; "
        r"write the predictions to a \.csv file$"
    )
    with pytest.raises(DataError, match=line):
        predict_file(by_sex, Path("s.dta"), Path("p.parquet"), keep=["k"])
    assert not Path("p.parquet").exists()
    assert predict_file(by_sex, Path("s.dta"), Path("p.csv"), keep=["k"]) == 2
    assert pd.read_csv("p.csv")["k"].tolist() == ["1.5", ".a"]


def test_trees_and_weights(reports: Path, capsys: Capture) -> None:
    assert run("mine", "id3", str(reports), *BOTH, "--max-depth", "1", "--out", "t.json") == 0
    shown = capsys.readouterr().out
    assert shown.startswith("[<=50K ")
    assert re.search(
        r"accuracy on the truth, 5 folds: 0\.\d{4} \(standard error 0\.0\d{3}\)", shown
    )
    assert "simulated: some of the reports protect nobody" in shown
    bayes = ("mine", "naive-bayes", str(reports), *BOTH, "--folds", "0")
    assert run(*bayes, "--out", "plain.json") == 0
    assert run(*bayes, "--weights", "w", "--out", "weighted.json") == 0
    plain, weighted = (
        json.loads(Path(f"{n}.json").read_text())["fitted"] for n in ("plain", "weighted")
    )
    # Equal weights change nothing.
    np.testing.assert_allclose(plain["class_log_prior"], weighted["class_log_prior"], atol=1e-9)


def test_mistakes_are_one_line_each_and_write_nothing(
    reports: Path, capsys: Capture, people: pd.DataFrame
) -> None:
    mine = ("mine", "naive-bayes", str(reports), *BOTH)
    out = ("--out", "x.json")
    assert "attribute 'gender'" in refused(capsys, *mine, *out, "--target", "gender")
    assert "'sex', which is the target" in refused(
        capsys, *mine, *out, "--target", "sex", "--features", "sex"
    )
    assert "ends in .json" in refused(capsys, *mine, "--out", "x.pickle")
    assert "folds" in refused(capsys, *mine, *out, "--folds", "1")
    assert "column 'v' is absent" in refused(capsys, *mine, *out, "--weights", "v")
    assert run("count", str(reports), *BOTH, "--out", "n.parquet") == 0
    line = refused(capsys, "mine", "id3", "n.parquet", *BOTH, *out)
    assert "n.parquet: holds counts; files of reports are needed" in line
    assert not Path("x.json").exists()

    assert run(*mine, "--out", "m.json") == 0
    predict = ("predict", "m.json")
    people.assign(sex="?").to_csv("odd.csv", index=False)
    line = refused(capsys, *predict, "odd.csv", "--out", "p.csv")
    assert "odd.csv" in line
    assert "'sex'" in line
    assert "'?'" in line
    people[["sex"]].to_csv("few.csv", index=False)
    line = refused(capsys, *predict, "few.csv", "--out", "p.csv")
    assert "lacks marital-status, relationship; the model predicts from sex" in line
    other = pp.Codebook.from_toml("c.toml")
    sex = pp.Attribute("sex", ("Male", "Female"))
    pp.Codebook((sex, *other.attributes[1:]), target="income").to_toml("other.toml")
    line = refused(capsys, *predict, "others.csv", "--out", "p.csv", "--codebook", "other.toml")
    assert "is of another codebook than other.toml: attribute 'sex'" in line
    assert not Path("p.csv").exists()


def test_files_of_reports_are_loaded_together(
    reports: Path, book: pp.Codebook, design: pp.Design, people: pd.DataFrame
) -> None:
    people.iloc[2_000:].to_csv("b.csv", index=False)
    assert run("disguise", "b.csv", *BOTH, "--simulate", "2", "--out", "s.parquet") == 0
    files = [reports, "s.parquet"]
    found = pp.load_reports(files, book, design, ["income", "sex"])
    expected = [
        design.disguise(book.encode(part), pp.Stream.from_seed(seed)).select(["income", "sex"])
        for part, seed in ((people.iloc[:2_000], 1), (people.iloc[2_000:], 2))
    ]
    np.testing.assert_array_equal(found.codes, np.concatenate([each.codes for each in expected]))
    assert (found.design, found.codebook.target) == (design.bind(book), "income")
    assert pp.load_reports(reports, book, design, keep=["w"]).kept["w"].tolist() == ["1.5"] * 2_000
    with pytest.raises(DataError, match=r"s\.parquet"):
        pp.load_reports(files, book, design, keep=["w"])


def test_the_page_on_models_runs_as_it_stands(capsys: Capture) -> None:
    names: dict[str, Any] = {}
    for block in blocks("docs/models.md", "python", "sh"):
        if block.language == "python":
            exec(compile(block.text, block.place, "exec"), names)
            continue
        for line in block.text.splitlines():
            program, *arguments = shlex.split(line)
            assert program == "ppdm"
            assert run(*arguments) == 0, line
    assert len(names["scores"]) == 5
    assert names["best"].max_depth in (1, 2, 3)
    assert np.isfinite(names["compared"].cv_results_["mean_test_score"]).all()
    assert len(names["groups"].weights_) == 2
    assert {path.name for path in Path().glob("*.svg")} >= {"tree.svg", "tan.svg", "clusters.svg"}


def test_rules_of_files_are_those_of_python(
    reports: Path, capsys: Capture, book: pp.Codebook, design: pp.Design
) -> None:
    options = ("--over", "sex,income", "--min-support", "0.1", "--fdr", "0.1")
    assert run("mine", "rules", str(reports), *BOTH, *options, "--out", "x.csv", "--json") == 0
    told = json.loads(capsys.readouterr().out)
    made = pp.load_reports(reports, book, design, ["sex", "income"])
    found = pp.association_rules(made, min_support=0.1, fdr=0.1)
    assert len(found) > 0
    assert told["tested"] == found.tested
    assert [rule["confidence"] for rule in told["rules"]] == [rule.confidence for rule in found]
    frame = pd.read_csv("x.csv")
    assert (frame["antecedent"] + " -> " + frame["consequent"]).tolist() == list(map(str, found))
    mine = ("mine", "rules", str(reports), *BOTH)
    assert "--min-support: got 2.0" in refused(capsys, *mine, "--min-support", "2")
    assert "there are sex, marital-status" in refused(capsys, *mine, "--over", "x")
