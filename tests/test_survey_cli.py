"""The commands of a survey: what they print, and one line for each mistake with nothing written."""

from __future__ import annotations

import io
import json
import math
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import ppdm_dask as pp
from ppdm_dask.cli import main
from ppdm_dask.cli.options import conditions
from ppdm_dask.designs.files import write_design

Capture = pytest.CaptureFixture[str]
BOTH = ("--codebook", "c.toml", "--design", "d.toml")
OUT = ("--out", "r.parquet")

CODEBOOK = """
[[attribute]]
name = "smokes"
categories = ["no", "yes"]

[[attribute]]
name = "drug"
categories = ["(none given)", "never", "once", "often"]
missing = "(none given)"
"""

DESIGN = """
id = "product"

[[blocks]]
id = "warner"
attribute = "smokes"
theta = 0.8

[[blocks]]
id = "kary"
attribute = "drug"
n = 4
epsilon = 1.5
"""

SURVEY = "name,smokes,drug\n" + "Ann,no,never\nBob,yes,often\nCem,no,\nDan,no,once\n" * 100


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("c.toml").write_text(CODEBOOK)
    Path("d.toml").write_text(DESIGN)
    Path("s.csv").write_text(SURVEY)


def done(capsys: Capture, *arguments: str) -> str:
    code = main(list(arguments))
    out, err = capsys.readouterr()
    assert (code, err) == (0, "")
    return out


def refused(capsys: Capture, *arguments: str) -> str:
    """The one line with which a command is refused; no file is new, gone or another one."""
    before = {path: path.read_bytes() for path in Path().rglob("*") if path.is_file()}
    assert main(list(arguments)) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("ppdm: error: ")
    assert err.count("\n") == 1
    assert {path: path.read_bytes() for path in Path().rglob("*") if path.is_file()} == before
    return err.removeprefix("ppdm: error: ").rstrip("\n")


def disguise(data: str, *more: str) -> tuple[str, ...]:
    return ("disguise", data, *BOTH, *OUT, *more)


def test_a_survey_from_its_file_to_proportions(capsys: Capture) -> None:
    said = done(capsys, *disguise("s.csv", "--drop", "name", "--simulate", "1"))
    assert "smokes: warner, epsilon 1.386: a report is at most 4 times likelier" in said
    assert "left out: name" in said
    assert "simulated: anyone who knows the seed can undo the disguise" in said
    assert said.endswith("400 reports: r.parquet\n")
    said = done(capsys, "estimate", "r.parquet", *BOTH, "--over", "drug", "--out", "e.csv")
    assert "estimated: proportions in the population behind 400 reports" in said
    assert "intervals: 95 %, score; may leave 0 and 1 where estimates do" in said
    assert "cannot be known: anyone's own answer" in said
    assert "simulated: a seed drew the disguise" in said
    table = pd.read_csv("e.csv", index_col="drug")
    assert list(table.index) == ["(none given)", "never", "once", "often"]
    assert table["proportion"].sum() == pytest.approx(1, abs=1e-12)
    assert (abs(table["proportion"] - 0.25) < 4 * table["standard_error"]).all()
    half = 1.959963984540054 * table["standard_error"].to_numpy()
    assert (table["upper"] - table["lower"]).to_numpy() == pytest.approx(2 * half, rel=0.02)
    by_name = ("--over", "drug", "--interval", "wald", "--out", "w.csv")
    said = done(capsys, "estimate", "r.parquet", *BOTH, *by_name)
    assert "intervals: 95 %, Wald; good from about 300 effective reports" in said
    table = pd.read_csv("w.csv", index_col="drug")
    assert (table["upper"] - table["proportion"]).to_numpy() == pytest.approx(half)
    found = json.loads(
        done(
            capsys, "estimate", "r.parquet", *BOTH, "--over", "smokes", "--method", "mle", "--json"
        )
    )
    assert (found["n"], found["estimand"], found["simulated"]) == (400, "population", True)
    assert found["intervals"] == "likelihood-ratio ordering"
    assert [cell["labels"]["smokes"] for cell in found["cells"]] == ["no", "yes"]


def test_an_option_of_columns_may_be_given_again(capsys: Capture) -> None:
    # What is named first must not be forgotten: it would be released, or refused, unasked.
    pd.read_csv("s.csv", keep_default_na=False).assign(city="Rome").to_csv("s2.csv", index=False)
    common = disguise("s2.csv", "--simulate", "1")
    together = done(capsys, *common, "--drop", "name,city")
    one_by_one = done(capsys, *common, "--force", "--drop", "name", "--drop", "city")
    assert one_by_one == together
    assert "left out: name, city" in together
    said = done(capsys, "estimate", "r.parquet", *BOTH, "--over", "smokes", "--over", "drug")
    assert said.splitlines()[0].split()[:2] == ["smokes", "drug"]


def test_true_answers_stay_in_their_file(capsys: Capture) -> None:
    """A column that is left out, and one that is disguised to nothing, leave no trace."""
    Path("d.toml").write_text('id = "kary"\nattribute = "drug"\nn = 4\np = 0.25\n')
    Path("secret.csv").write_text("name,drug\n" + "Zebulon,often\n" * 200)
    for out in ("r.parquet", "r.csv"):
        done(capsys, "disguise", "secret.csv", *BOTH, "--out", out, "--drop", "name")
    for path in (*Path().glob("r.*"), *Path().glob(".r*")):
        assert b"Zebulon" not in path.read_bytes()
    counts = pd.read_csv("r.csv")["drug"].value_counts()
    assert len(counts) == 4
    assert counts.max() < 100  # fifty each, on average


def test_surprising_columns_are_refused(capsys: Capture) -> None:
    line = refused(capsys, *disguise("s.csv"))
    assert line.startswith("s.csv: column 'name': not disguised by the design;")
    assert "--keep-undisguised" in line
    assert "--drop" in line
    line = refused(capsys, *disguise("s.csv", "--drop", "nmae"))
    assert line == "s.csv: --drop: column 'nmae' is absent; the columns are name, smokes, drug"
    line = refused(capsys, *disguise("s.csv", "--drop", "name", "--keep-undisguised", "name"))
    assert line == "column 'name': either keep it or drop it, not both"
    line = refused(capsys, *disguise("s.csv", "--drop", "name", "--keep-undisguised", "drug"))
    assert line == "column 'drug': the design disguises it, so it cannot be told to keep"
    said = done(capsys, *disguise("s.csv", "--keep-undisguised", "name"))
    assert "name: undisguised, as it is; the file of reports holds the truth" in said
    assert pd.read_parquet("r.parquet")["name"].tolist() == ["Ann", "Bob", "Cem", "Dan"] * 100


def test_a_block_that_hides_nothing_must_be_meant(capsys: Capture) -> None:
    Path("d.toml").write_text(DESIGN.replace("0.8", "1.0"))
    line = refused(capsys, *disguise("s.csv", "--drop", "name"))
    assert line.startswith("s.csv: column 'smokes': the design does not disguise it; name it in")
    said = done(capsys, *disguise("s.csv", "--drop", "name", "--keep-undisguised", "smokes"))
    assert "smokes: undisguised" in said
    assert "epsilon infinite" in said


VALUES = [
    (SURVEY.replace("yes", "Yes", 1), "attribute 'smokes', row 1: value 'Yes' is not declared", 3),
    (SURVEY.replace("yes", "ｙｅｓ", 1), "attribute 'smokes', row 1: value 'ｙｅｓ' is not", 3),
    (SURVEY.replace("Dan,no", 'Dan," no"', 1), "row 3: value ' no' is not declared", 5),
    (SURVEY.replace("Dan,no", "Dan,", 1), "row 3: the value is missing, and the codebook", 5),
    ('name,smokes,drug\n"A\nnn",no,never\nBob,1.0,once\n', "row 1: value '1.0' is not", 4),
]


@pytest.mark.parametrize(("text", "words", "line"), VALUES)
def test_undeclared_values_name_file_column_value_and_row(
    capsys: Capture, text: str, words: str, line: int
) -> None:
    Path("s.csv").write_text(text)
    said = refused(capsys, *disguise("s.csv", "--drop", "name"))
    assert said.startswith("s.csv: attribute 'smokes', row")
    assert words in said
    assert said.endswith(f"(line {line} of the file)")


def test_the_first_wrong_row_is_counted_over_all_blocks(capsys: Capture) -> None:
    Path("s.csv").write_text(SURVEY + "Eve,maybe,once\n" + SURVEY.partition("\n")[2])
    line = refused(capsys, *disguise("s.csv", "--drop", "name", "--block", "64"))
    assert "attribute 'smokes', row 400: value 'maybe'" in line
    assert line.endswith("(line 402 of the file)")
    pd.read_csv("s.csv").to_parquet("s.parquet")
    line = refused(capsys, *disguise("s.parquet", "--drop", "name", "--block", "64"))
    assert line == (
        "s.parquet: attribute 'smokes', row 400: value 'maybe' is not declared; there are 'no', "
        "'yes'"
    )


FILES = [
    (b"", "s.csv: the file is empty; a header and records are needed"),
    (b"name,smokes,drug\n", "s.csv: there are no records; at least one is needed"),
    (b"name,drug\nAnn,once\n", "s.csv: the design's column 'smokes' is absent; the columns are na"),
    (b"name;smokes;drug\nA,no,once\n", "give the separator as --delimiter"),
    (b"name,smokes,drug\nAnn,no\n", "s.csv: line 2: 2 fields; the header has 3"),
    (b"name,smokes,drug\nAnn,no,once,often\n", "s.csv: line 2: 4 fields; the header has 3"),
    (b"name,smokes,drug\n\nAnn,no,once\n", "s.csv: line 2: an empty line among records"),
    (b'name,smokes,drug\nAnn,"no,once\n', "s.csv: line 2: this is not CSV: unexpected end of data"),
    (b"name,smokes,smokes\nAnn,no,no\n", "s.csv: column 'smokes' occurs 2 times"),
    (b",smokes,drug\n0,no,once\n", "s.csv: column 1 of 3 has no name; name it or leave it out"),
    (b"name,smokes,drug\nJos\x81,no,once\n", "this is not UTF-8 text, and none of Western Europe"),
    ("name,smokes,drug\nA,no,once\n".encode("utf-16")[:-1], "this is not text in utf-16"),
]


@pytest.mark.parametrize(("content", "words"), FILES)
def test_damaged_csv_files(capsys: Capture, content: bytes, words: str) -> None:
    Path("s.csv").write_bytes(content)
    assert words in refused(capsys, *disguise("s.csv", "--drop", "name"))


def test_what_spreadsheets_write_is_read(capsys: Capture) -> None:
    """A mark at the beginning, quotes, lines that end in CR LF, line breaks in a cell."""
    rows = ['"Ann, B.","no","never"', '"Bo\r\nb",yes,"often"', '"C ""x""",no,""', "D,no,once"] * 50
    text = "\r\n".join(['"name","smokes","drug"', *rows, "", ""])
    Path("s.csv").write_bytes(b"\xef\xbb\xbf" + text.encode())
    done(capsys, *disguise("s.csv", "--drop", "name", "--simulate", "2"))
    records = pp.Codebook.from_toml("c.toml").encode(pd.read_csv("s.csv", encoding="utf-8-sig"))
    from ppdm_dask.designs.files import read_design

    expected = read_design("d.toml").disguise(records, pp.Stream.from_seed(2))
    assert len(expected) == 200
    frame = records.codebook.decode(expected).fillna("(none given)")  # type: ignore[arg-type]
    assert pd.read_parquet("r.parquet").astype(object).equals(frame.astype(object))


def test_every_dtype_of_a_parquet_file(capsys: Capture) -> None:
    """Floats with gaps, nullable integers, categoricals, booleans, in one codebook."""
    Path("c.toml").write_text(
        "".join(
            f'[[attribute]]\nname = "{name}"\ncategories = {categories}\n'
            for name, categories in (
                ("a", '["?", "1", "2"]\nmissing = "?"'),
                ("b", '["?", "1", "2"]\nmissing = "?"'),
                ("c", '["x", "ｙ"]'),
                ("d", '["?", "False", "True"]\nmissing = "?"'),
            )
        )
    )
    sizes = {"a": 3, "b": 3, "c": 2, "d": 3}
    design = pp.Product([pp.KaryResponse(name, n, p=0.999) for name, n in sizes.items()])
    write_design(design, "d.toml")
    frame = pd.DataFrame(
        {
            "a": [1.0, math.nan, 2.0],
            "b": pd.array([1, None, 2], dtype="Int64"),
            "c": pd.Categorical(["x", "ｙ", "x"]),
            "d": pd.array([True, None, False], dtype="boolean"),
        }
    )
    pd.concat([frame] * 20).to_parquet("s.parquet", index=False)
    accept = [text for name in sizes for text in ("--accept-certain", name)]
    done(capsys, *disguise("s.parquet", "--simulate", "0", "--block", "7", *accept))
    expected = design.disguise(
        pp.Codebook.from_toml("c.toml").encode(pd.concat([frame] * 20)), pp.Stream.from_seed(0)
    )
    found = pd.read_parquet("r.parquet")
    for name, categories in (("a", "?12"), ("b", "?12"), ("c", "xｙ")):
        assert [categories.index(v) for v in found[name]] == expected.column(name).tolist()


def test_other_bad_input(capsys: Capture) -> None:
    rest = ("--drop", "name")
    line = refused(capsys, *disguise("gone.csv"))
    assert line == "gone.csv: there is no such file"
    assert refused(capsys, *disguise("gone.parquet")) == "gone.parquet: there is no such file"
    Path("s.parquet").write_bytes(b"PAR1 and then nothing of the kind PAR1")
    assert refused(capsys, *disguise("s.parquet")).startswith("s.parquet: cannot be read as Parq")
    Path("s.txt").write_text(SURVEY)
    assert refused(capsys, *disguise("s.txt")) == (
        "s.txt: is not a data file: a name that ends in .csv, .parquet, .arrow, .xlsx, .sav or "
        ".dta is needed"
    )
    nested = pa.table({"smokes": [["no"]], "drug": ["once"]})
    pq.write_table(nested, "n.parquet")
    assert "column 'smokes' holds list<" in refused(capsys, *disguise("n.parquet"))
    line = refused(capsys, "disguise", "s.csv", *BOTH, "--out", "r.xlsx", *rest)
    assert line == "r.xlsx: a name that ends in .parquet or .csv is needed"
    line = refused(capsys, "disguise", "s.csv", *BOTH, "--out", "no/r.csv", *rest)
    assert line == "--out: there is no folder 'no'"
    Path("d.toml").write_text(DESIGN.replace("n = 4", "n = 3"))
    line = refused(capsys, *disguise("s.csv", *rest))
    assert line == (
        "d.toml: does not fit c.toml: attribute 'drug' has 4 categories; the design expects 3; "
        "'(none given)' stands for missing answers: if the device does not offer it, delete it "
        "from the codebook (ppdm import has --nonresponse)"
    )
    Path("d.toml").write_text(DESIGN)
    done(capsys, *disguise("s.csv", *rest))
    line = refused(capsys, *disguise("s.csv", *rest))
    assert line == "--out: r.parquet already exists; --force replaces it"
    before = Path("r.parquet").read_bytes()
    done(capsys, *disguise("s.csv", *rest, "--force"))
    assert Path("r.parquet").read_bytes() != before
    line = refused(capsys, "disguise", "s.csv", *BOTH, "--out", "s.csv", *rest, "--force")
    assert line == "--out: s.csv is read by this command, and would be lost"
    Path("q.csv.about.json").write_text("{}")
    line = refused(capsys, "disguise", "s.csv", *BOTH, "--out", "q.csv", *rest)
    assert line == "--out: q.csv.about.json already exists; --force replaces it"


def test_reports_of_another_design_or_codebook(capsys: Capture) -> None:
    done(capsys, *disguise("s.csv", "--drop", "name"))
    done(capsys, "disguise", "s.csv", *BOTH, "--out", "r.csv", "--drop", "name")
    asked = ("--over", "drug")
    for command in ("count", "estimate"):
        out = ("--out", "n.parquet") if command == "count" else ("--out", "n.json")
        Path("other.toml").write_text(DESIGN.replace("0.8", "0.7"))
        other = ("--codebook", "c.toml", "--design", "other.toml")
        line = refused(capsys, command, "r.parquet", *other, *asked, *out)
        assert line.startswith("r.parquet: was made under another design than other.toml: ")
        assert '"theta": 0.8} there' in line
        assert '"theta": 0.7} here' in line
        Path("words.toml").write_text(CODEBOOK.replace("often", "daily"))
        words = ("--codebook", "words.toml", "--design", "d.toml")
        line = refused(capsys, command, "r.csv", *words, *asked, *out)
        assert line.startswith("r.csv: was made under another codebook than words.toml: attribute.")
        assert line.endswith('not ["(none given)", "never", "once", "daily"]')
        line = refused(capsys, command, "s.csv", *BOTH, *asked, *out)
        assert (
            line
            == "s.csv: the file s.csv.about.json that `ppdm disguise` wrote beside it is needed"
        )
        line = refused(capsys, command, "r.parquet", "r.parquet", *BOTH, *asked, *out)
        assert line == ("r.parquet: holds reports that r.parquet holds too; they would count twice")
        line = refused(capsys, command, "r.parquet", *BOTH, "--over", "name", *out)
        assert line == "there is no attribute 'name'; there are smokes, drug"
    pd.read_csv("s.csv").to_parquet("s.parquet")
    line = refused(capsys, "estimate", "s.parquet", *BOTH, *asked)
    assert line.startswith(
        "s.parquet: does not say which program made it; reports of `ppdm disguise`"
    )


def make_older(about: Path) -> None:
    """Turn what a CSV says of itself into what it said before there were checksums."""
    config = json.loads(about.read_text())
    for key in ("checksum", "data_checksum", "kept"):
        del config[key]
    about.write_text(json.dumps({**config, "format": 1}))


def test_damaged_reports_and_counts(capsys: Capture) -> None:
    done(capsys, "disguise", "s.csv", *BOTH, "--out", "r.csv", "--drop", "name")
    text, about_text = Path("r.csv").read_text(), Path("r.csv.about.json").read_text()
    other = text.replace("yes,", "no,", 1)
    assert other != text
    for damaged in (other, text + "no,once\n", text.replace("smokes,", "smoked,"), text[:-9], ""):
        Path("r.csv").write_text(damaged)
        line = refused(capsys, "estimate", "r.csv", *BOTH, "--over", "drug")
        assert line.startswith("r.csv: ")
        assert ("is damaged or was changed: its checksum is not that of" in line) == bool(damaged)
    Path("r.csv").write_text(text)
    make_older(Path("r.csv.about.json"))
    said = done(capsys, "estimate", "r.csv", *BOTH, "--over", "drug")
    assert "older file: r.csv has no checksum, so that damage to it would not be seen" in said
    Path("r.csv").write_text(text + "no,twice\n")
    line = refused(capsys, "estimate", "r.csv", *BOTH, "--over", "drug")
    assert line == "r.csv: column 'drug', row 400: 'twice' is not a report of the design"
    Path("r.csv").write_text(text.replace("smokes,", "smoked,"))
    line = refused(capsys, "estimate", "r.csv", *BOTH, "--over", "smokes")
    assert line == "r.csv: column 'smokes' is absent; the columns are smoked, drug"
    Path("r.csv").write_text("smokes,drug\n")
    line = refused(capsys, "estimate", "r.csv", *BOTH, "--over", "smokes")
    assert line == "r.csv: holds 0 reports; 400 were written"
    Path("r.csv").write_text("".join(text.splitlines(keepends=True)[:-7]))
    line = refused(capsys, "count", "r.csv", *BOTH, "--out", "n.parquet")
    assert line == "r.csv: holds 393 reports; 400 were written"
    Path("r.csv").write_text(text)
    Path("r.csv.about.json").write_text(about_text)
    done(capsys, "count", "r.csv", *BOTH, "--out", "n.parquet")
    table = pq.read_table("n.parquet")
    damaged = table.set_column(2, "count", pa.array(-table["count"].to_numpy()))
    pq.write_table(damaged, "n.parquet")
    line = refused(capsys, "estimate", "n.parquet", *BOTH, "--over", "smokes")
    assert line.startswith("n.parquet: is damaged or was changed: ")
    about = json.loads(Path("r.csv.about.json").read_text())
    about["design"]["blocks"][0]["theta"] = 0.9
    Path("r.csv.about.json").write_text(json.dumps(about))
    line = refused(capsys, "estimate", "r.csv", *BOTH, "--over", "smokes")
    assert line.startswith(
        "r.csv.about.json: its description of the design is damaged; ask for the"
    )
    done(capsys, *disguise("s.csv", "--drop", "name"))
    whole = Path("r.parquet").read_bytes()
    Path("r.parquet").write_bytes(whole[:-30])
    line = refused(capsys, "estimate", "r.parquet", *BOTH, "--over", "smokes")
    assert line.startswith("r.parquet: cannot be read as Parquet: ")
    start = pq.ParquetFile(io.BytesIO(whole)).metadata.row_group(0).column(0).data_page_offset
    turned = bytearray(whole)
    for place in range(start + 40, start + 44):  # within the page of answers
        turned[place] ^= 0xFF
    Path("r.parquet").write_bytes(turned)
    line = refused(capsys, "estimate", "r.parquet", *BOTH, "--over", "smokes")
    assert line.startswith("r.parquet: is damaged or was changed: its checksum differs than")


def test_reports_are_not_disguised_again(capsys: Capture) -> None:
    for out in ("r.parquet", "r.csv"):
        done(capsys, "disguise", "s.csv", *BOTH, "--out", out, "--drop", "name")
        line = refused(capsys, "disguise", out, *BOTH, "--out", "again.parquet")
        assert line.startswith(f"{out}: holds reports, which are already disguised;")


QUESTIONS = [
    (["--over", "smokes,smokes"], "--over: got 'smokes, smokes'; distinct names are needed"),
    (["--over", ""], "--over: got ''; distinct names are needed"),
    (["--over", "drug", "--level", "95"], "level: got 95.0; a number between 0 and 1 is needed"),
    (["--over", "drug", "--where", "smoke=yes"], "--where: got 'smoke=yes'; attribute=label is ne"),
    (["--over", "drug", "--where", "smokes=si"], "--where: attribute 'smokes': 'si' is not"),
    (["--over", "drug", "--where", "drug=once"], "--where: 'drug' is in --over too"),
    (["--over", "drug", "--weights", "w"], "r.csv: column 'w' was not kept undisguised"),
    (["--over", "drug", "--strata", "smokes"], "r.csv: column 'smokes' was not kept undisguised"),
    (
        ["--over", "drug", "--weights", "name"],
        "r.csv: column 'name', row 0: 'Ann'; survey weights are numbers of 0 or more",
    ),
    (
        ["--over", "drug", "--method", "mle", "--where", "smokes=yes"],
        "--method mle: takes plain counts, no --where; use invert",
    ),
    (["--over", "drug", "--method", "em", "--estimand", "file"], "--method em: is about the popul"),
    (["--over", "drug", "--out", "e.xlsx"], "--out: got 'e.xlsx'; a name that ends in .csv or .js"),
]


@pytest.mark.parametrize(("options", "words"), QUESTIONS)
def test_questions_that_cannot_be_answered(capsys: Capture, options: list[str], words: str) -> None:
    keep = ("--keep-undisguised", "name")
    done(capsys, "disguise", "s.csv", *BOTH, "--out", "r.csv", *keep)
    assert refused(capsys, "estimate", "r.csv", *BOTH, *options).startswith(words)


def test_a_design_without_an_inverse_is_undefined_with_its_reason(capsys: Capture) -> None:
    Path("d.toml").write_text(DESIGN.replace("0.8", "0.5"))
    done(capsys, *disguise("s.csv", "--drop", "name"))
    line = refused(capsys, "estimate", "r.parquet", *BOTH, "--over", "smokes")
    assert line.startswith("d.toml: warner on smokes is not invertible: ")
    said = done(capsys, "estimate", "r.parquet", *BOTH, "--over", "drug")
    assert "estimated: proportions" in said


def test_what_cannot_be_known_is_said(capsys: Capture) -> None:
    """Nobody answers "once": estimates are negative or cannot be told from 0, and it says so."""
    Path("s.csv").write_text("smokes,drug\n" + "no,never\n" * 97 + "yes,never\n" * 3)
    seen = set()
    for seed in range(6):
        done(capsys, *disguise("s.csv", "--simulate", str(seed), "--force"))
        text = done(capsys, "estimate", "r.parquet", *BOTH, "--over", "drug", "--json")
        found = json.loads(text)
        negative = [c["labels"]["drug"] for c in found["cells"] if c["proportion"] < 0]
        zero = [c["labels"]["drug"] for c in found["cells"] if c["lower"] <= 0 <= c["upper"]]
        said = {text.partition(":")[0]: text for text in found["statements"]}
        assert ("negative" in said) == bool(negative)
        assert found["negative"] == len(negative)
        assert ("cannot be told from 0" in said) == bool(zero)
        for label in negative:
            assert f"drug = {label}" in said["negative"]
        for label in zero:
            assert f"drug = {label}" in said["cannot be told from 0"]
        assert "few reports" in said
        text = done(
            capsys, "estimate", "r.parquet", *BOTH, "--over", "drug", "--method", "mle", "--json"
        )
        likely = json.loads(text)
        assert min(cell["proportion"] for cell in likely["cells"]) >= 0
        assert likely["negative"] == len(negative)
        if negative:
            assert any(text.startswith("no standard errors: ") for text in likely["statements"])
        assert all(0 <= c["lower"] <= c["upper"] <= 1 for c in likely["cells"])
        seen.add(bool(negative))
    assert seen == {True} or seen == {True, False}


def test_labels_with_commas_in_conditions(capsys: Capture) -> None:
    labels = {"age": ("<= 3", "(3, 5]", "> 5"), "b": ("x", "y")}
    assert conditions(["age=(3, 5],b=x"], labels) == {"age": ["(3, 5]"], "b": ["x"]}
    assert conditions(["age=<= 3", "age=> 5"], labels) == {"age": ["<= 3", "> 5"]}


def test_a_codebook_is_proposed_that_fits_its_file(capsys: Capture) -> None:
    rng = np.random.default_rng(2)
    n = 300
    frame = pd.DataFrame(
        {
            "name": [f"person {i}" for i in range(n)],
            "always": "x",
            "never": pd.Series([None] * n, dtype=object),
            "score": pd.array(rng.choice([1, 2, 10, None], n), dtype="Int64"),
            "vote": rng.choice(["Yes", "yes ", "ＹＥＳ", "NA", 'say "no"'], n),
            "age": rng.integers(18, 90, n).astype(float),
            "flag": pd.array(rng.choice([True, False, None], n), dtype="boolean"),
        }
    )
    frame.to_parquet("m.parquet")
    frame.to_csv("m.csv", index=False)
    for file in ("m.parquet", "m.csv"):
        found = json.loads(done(capsys, "codebook", file, "--out", "m.toml", "--force", "--json"))
        columns = {column["name"]: column for column in found["columns"]}
        assert found["records"] == n
        assert list(columns) == list(frame)
        left = {name: c["left_out"] for name, c in columns.items() if c["left_out"]}
        assert left == {
            "name": "300 different texts: free text, or an identifier?",
            "always": "every value is 'x'",
            "never": "every value is missing",
        }
        text = Path("m.toml").read_text()
        assert all(f"#   {name!r}: {why}" in text for name, why in left.items())
        assert done(capsys, "check", "m.toml").startswith("m.toml: codebook, 4 attributes")
        book = pp.Codebook.from_toml("m.toml")
        assert book["score"].categories == ("(missing)", "1", "2", "10")
        assert book["flag"].categories == ("(missing)", "False", "True")
        assert book["age"].rule == "quantiles(4)"
        notes = " ".join(columns["vote"]["notes"])
        assert "'Yes' and 'yes ' and 'ＹＥＳ': one answer?" in notes
        assert "does 'NA' stand for a missing value?" in notes
        data = (
            pd.read_parquet(file)
            if file == "m.parquet"
            else pd.read_csv(file, dtype=str, keep_default_na=False, na_values=[""])
        )
        missing = book.encode(data).column("score") == 0
        assert missing.sum() == columns["score"]["missing"] == int(frame["score"].isna().sum())
    printed = done(capsys, "codebook", "m.csv", "--order", "appearance", "--bins", "3")
    Path("printed.toml").write_text(printed)
    book = pp.Codebook.from_toml("printed.toml")
    assert list(book["vote"].categories) == list(dict.fromkeys(frame["vote"]))
    assert len(book["age"]) == 3
    line = refused(capsys, "codebook", "m.csv", "--out", "m.toml")
    assert line == "--out: m.toml already exists; --force replaces it"
    Path("one.csv").write_text("a,b\nx,\nx,\n")
    line = refused(capsys, "codebook", "one.csv")
    assert line == (
        "one.csv: nothing can be proposed for any column: 'a': every value is 'x'; "
        "'b': every value is missing"
    )


def measures(capsys: Capture, *arguments: str) -> dict[tuple[str, str], Any]:
    found = json.loads(done(capsys, "audit", *arguments, "--json"))
    return {
        (subject["name"], finding["measure"]): finding["value"]
        for subject in found["subjects"]
        for finding in subject["findings"]
    }


def test_an_audit_has_every_measure(capsys: Capture) -> None:
    """Warner's design by hand, and the one-coin scheme that one known answer gives away."""
    found = measures(capsys, "--design", "d.toml")
    expected = {
        "epsilon": math.log(4),
        "gamma": 4,
        "MAP privacy": 0.2,
        "worst posterior": 0.8,
        "PSE": 0.32,
    }
    for measure, value in expected.items():
        assert found["smokes (warner)", measure] == pytest.approx(value)
    assert found["all answers together", "epsilon"] == pytest.approx(math.log(4) + 1.5)
    Path("p.toml").write_text("[prior.smokes]\nyes = 0.3\nno = 0.7\n")
    given = measures(capsys, "--design", "d.toml", "--prior", "p.toml", "--codebook", "c.toml")
    # No: .7 * .8 = .56 against .3 * .2; yes: .3 * .8 = .24 against .7 * .2.
    assert given["smokes (warner)", "worst posterior"] == pytest.approx(0.56 / 0.62)
    assert given["smokes (warner)", "MAP privacy"] == pytest.approx(1 - 0.56 - 0.24)
    Path("f.toml").write_text('id = "flip"\nattributes = ["a", "b"]\ntheta = 0.8\n')
    found = measures(capsys, "--design", "f.toml")
    assert found["a, b (flip)", "epsilon"] == found["a, b (flip)", "gamma"] == "infinite"
    assert found["a alone", "epsilon"] == pytest.approx(math.log(4))
    assert found["a alone", "hint attack"] == 0
    said = done(capsys, "audit", "--design", "f.toml")
    assert "infinite" in said
    assert "some report rules out an answer for certain" in " ".join(said.split())


def test_an_audit_says_for_which_priors_it_holds(capsys: Capture) -> None:
    priors = "epsilon and gamma hold for any prior; the others for the prior that is named"
    likely = '"likely" assumes that each answer was equally likely before'
    nothing = "the design as a whole allows no estimate: reports do not depend on the truth"
    for theta, ends in ((0.5, [priors, nothing]), (0.8, [priors]), (0.9999, [likely, priors])):
        Path("w.toml").write_text(f'id = "warner"\nattribute = "a"\ntheta = {theta}\n')
        said = done(capsys, "audit", "--design", "w.toml").splitlines()
        assert [line for line in said if line in (priors, likely, nothing)] == ends
        assert said[-1] == ends[-1]


def test_bad_priors(capsys: Capture) -> None:
    for text, words in (
        (
            "[prior.smokes]\nyes = 0.3\nno = 0.6\n",
            "p.toml: prior.smokes: proportions sum to 0.9; 1",
        ),
        (
            "[prior.smokes]\nyes = 0.3\nnope = 0.7\n",
            "p.toml: prior.smokes.nope: no category of the",
        ),
        ("[prior.smokes]\nyes = 1\n", "p.toml: prior.smokes.no: absent; all are needed, no others"),
        ("[prior.smokes]\nyes = -1\nno = 2\n", "p.toml: prior.smokes.yes: got -1; a proportion"),
        (
            "[prior]\nsmokes = 0.3\n",
            "p.toml: prior.smokes: got 0.3; a table of categories is needed",
        ),
        ("[priors]\n", 'p.toml: priors: got {}; there is no such key, did you mean "prior"?'),
    ):
        Path("p.toml").write_text(text)
        line = refused(
            capsys, "audit", "--design", "d.toml", "--prior", "p.toml", "--codebook", "c.toml"
        )
        assert line.startswith(words)
    Path("p.toml").write_text("[prior.sex]\nf = 1\n")
    line = refused(capsys, "audit", "--design", "d.toml", "--prior", "p.toml")
    assert line == "p.toml: prior.sex: the design has no such attribute; it has smokes, drug"


def test_weights_in_categories_are_told_apart(capsys: Capture) -> None:
    Path("c.toml").write_text(
        CODEBOOK + '[[attribute]]\nname = "w"\ncategories = ["low", "high"]\ncuts = [1]\n'
    )
    Path("s.csv").write_text("smokes,drug,w\n" + "no,once,0.5\nyes,once,1.5\n" * 20)
    said = done(capsys, *disguise("s.csv", "--keep-undisguised", "w"))
    assert "w: undisguised, in 2 categories that the codebook cuts its numbers into; to" in said
    line = refused(capsys, "estimate", "r.parquet", *BOTH, "--over", "drug", "--weights", "w")
    assert line.startswith("r.parquet: column 'w' holds categories of the codebook, not numbers;")
    said = done(capsys, "estimate", "r.parquet", *BOTH, "--over", "drug", "--strata", "w")
    assert "survey: strata from 'w'" in said


def test_a_block_of_many_attributes_is_no_matter_of_its_joint_categories(
    capsys: Capture,
) -> None:
    """Forty answers behind one coin: 2^40 joint categories, of which nothing is listed."""
    names = [f"a{i}" for i in range(40)]
    tables = [f'[[attribute]]\nname = "{name}"\ncategories = ["n", "y"]\n' for name in names]
    Path("c.toml").write_text("".join(tables))
    write_design(pp.UnrelatedQuestion(names, q=0.6), "d.toml")
    frame = pd.DataFrame(dict.fromkeys(names, ["y", "n", "n", "n"] * 100))
    frame.to_parquet("s.parquet")
    said = done(capsys, *disguise("s.parquet", "--simulate", "1"))
    epsilon = math.log((0.6 + 0.4 / 2**40) / (0.4 / 2**40))
    assert f"unrelated, epsilon {epsilon:.4g}" in said
    found = json.loads(done(capsys, "estimate", "r.parquet", *BOTH, "--over", "a7,a31", "--json"))
    truth = {("n", "n"): 0.75, ("y", "y"): 0.25}
    for cell in found["cells"]:
        error = abs(
            cell["proportion"] - truth.get((cell["labels"]["a7"], cell["labels"]["a31"]), 0)
        )
        assert error < 4 * cell["standard_error"]
    audited = measures(capsys, "--design", "d.toml")
    assert audited["a7 alone", "MAP privacy"] == pytest.approx(0.2)
    assert audited[f"{', '.join(names)} (unrelated)", "epsilon"] == pytest.approx(epsilon)


def test_sets_are_estimated_from_reports_and_not_counted(capsys: Capture) -> None:
    Path("d.toml").write_text('id = "unary"\nattribute = "drug"\nn = 4\nepsilon = 3.0\n')
    done(capsys, *disguise("s.csv", "--drop", "name", "--keep-undisguised", "smokes"))
    line = refused(capsys, "count", "r.parquet", *BOTH, "--out", "n.parquet")
    assert line.startswith("reports of 'drug' are sets of answers, which are not counted: estimate")
    done(capsys, "count", "r.parquet", *BOTH, "--over", "smokes", "--out", "n.parquet")
    for where in ([], ["--where", "smokes=no"]):
        said = done(capsys, "estimate", "r.parquet", *BOTH, "--over", "drug", *where, "--json")
        assert sum(cell["proportion"] for cell in json.loads(said)["cells"]) == pytest.approx(
            1, abs=0.5
        )
    said = done(capsys, "estimate", "n.parquet", *BOTH, "--over", "smokes", "--json")
    assert [cell["proportion"] for cell in json.loads(said)["cells"]] == [0.75, 0.25]


def test_kept_columns_keep_their_type(capsys: Capture) -> None:
    frame = pd.DataFrame(
        {
            "smokes": ["no", "yes"] * 4,
            "drug": "once",
            "a.b": pd.Categorical(["x", None, "y", "x"] * 2),
            "k": pd.array([1, None, 2**60 + 1, 3] * 2, dtype="Int64"),
            "t": pd.to_datetime(["2026-01-01", None] * 4),
        }
    )
    frame.to_parquet("s.parquet", index=False)
    keep = ("--keep-undisguised", "a.b,k,t", "--block", "3")
    for out in ("r.parquet", "r.csv"):
        done(capsys, "disguise", "s.parquet", *BOTH, "--out", out, *keep)
    found = pq.read_table("r.parquet").select(["a.b", "k", "t"])
    data = pq.read_table("s.parquet").select(["a.b", "k", "t"])
    assert [c.to_pylist() for c in found.columns] == [c.to_pylist() for c in data.columns]
    texts = pd.read_csv("r.csv", dtype=str, keep_default_na=False)
    assert texts["k"].tolist() == ["1", "", str(2**60 + 1), "3"] * 2
    assert texts["a.b"].tolist() == ["x", "", "y", "x"] * 2


def has_rows(path: Path) -> bool:
    """Whether something was written to a file that may be gone."""
    try:
        return path.stat().st_size > 1_000
    except FileNotFoundError:
        return False


def test_an_interrupt_leaves_nothing_half_written(capsys: Capture) -> None:
    """A long disguise that is stopped by a signal: what was there is there, and nothing else."""
    rows = SURVEY.partition("\n")[2] * 2_500
    Path("big.csv").write_text("name,smokes,drug\n" + rows)
    done(capsys, *disguise("s.csv", "--drop", "name"))
    before = {path.name: path.read_bytes() for path in Path().iterdir()}
    command = [sys.executable, "-W", "error", "-m", "ppdm_dask", *disguise("big.csv")]
    command += ["--drop", "name", "--force", "--block", "500"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        deadline = time.monotonic() + 60
        # In the midst of its work: imports of Python itself do not clean up where a signal comes.
        while not any(map(has_rows, Path().glob(".r.*.part/*"))) and time.monotonic() < deadline:
            time.sleep(0.01)
        assert process.poll() is None
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err) == (130, b"", b"ppdm: interrupted\n")
    assert {path.name: path.read_bytes() for path in Path().iterdir()} == before
