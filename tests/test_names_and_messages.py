"""Every name can be given; what is printed drives no terminal and tells one value at most."""

from __future__ import annotations

import csv
import io
import json
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ppdm_dask as pp
from ppdm_dask.cli import main
from ppdm_dask.cli.options import conditions, named
from ppdm_dask.designs.files import write_design
from ppdm_dask.errors import CodebookError, DataError, InputError, RecordsError
from ppdm_dask.shown import LONGEST, listed, printable, quoted, shown

Capture = pytest.CaptureFixture[str]
PPDM = [sys.executable, "-m", "ppdm_dask"]
QUESTION = "Q2. Have you, ever, used?"


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


# -- names -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given_texts", "found"),
    [
        ([QUESTION], [QUESTION]),
        ([f"age,{QUESTION}"], ["age", QUESTION]),
        ([f'"{QUESTION}",age'], [QUESTION, "age"]),
        ([QUESTION, "age"], [QUESTION, "age"]),
        (["yes "], ["yes "]),
        ([" yes , age"], ["yes", "age"]),
        (["Yes, often,yes"], ["Yes, often", "yes"]),
        (['a "b"'], ['a "b"']),
        (['"a ""b""",age'], ['a "b"', "age"]),
        (["nope, age ,,"], ["nope", "age"]),
        ([""], []),
        (None, []),
    ],
)
def test_names_by_hand(given_texts: Any, found: list[str]) -> None:
    known = [QUESTION, "age", "yes ", "yes", "Yes, often", 'a "b"']
    assert named(given_texts, known) == found


NAMES = st.lists(st.text(min_size=1, max_size=8), min_size=1, max_size=5, unique=True)


def as_csv(values: list[str]) -> str:
    file = io.StringIO()
    csv.writer(file, quoting=csv.QUOTE_ALL, lineterminator="").writerow(values)
    return file.getvalue()


@settings(max_examples=50)
@given(NAMES, st.data())
def test_every_name_can_be_given_alone_or_quoted(names: list[str], data: st.DataObject) -> None:
    assert named(names, names) == names
    chosen = data.draw(st.lists(st.sampled_from(names), min_size=2, max_size=4))
    if as_csv(chosen) not in names:
        assert named([as_csv(chosen)], names) == chosen


@settings(max_examples=50)
@given(st.dictionaries(st.text(min_size=1, max_size=5), NAMES, min_size=1, max_size=3), st.data())
def test_every_condition_can_be_given(known: dict[str, list[str]], data: st.DataObject) -> None:
    pairs = [(name, label) for name in known for label in known[name]]
    written = [f"{name}={label}" for name, label in pairs]
    name, label = data.draw(st.sampled_from(pairs))
    if written.count(f"{name}={label}") == 1:  # "a" = "b=c" and "a=b" = "c" are one text
        assert conditions([f"{name}={label}"], known) == {name: [label]}
        if as_csv([f"{name}={label}"]) not in written:
            assert conditions([as_csv([f"{name}={label}"])], known) == {name: [label]}


def test_conditions_by_hand() -> None:
    known = {"used": ["yes", "yes ", "Yes, often"], QUESTION: ["no", "Yes, often"], "a=b": ["=1"]}
    assert conditions([f"{QUESTION}=Yes, often,used=yes "], known) == {
        QUESTION: ["Yes, often"],
        "used": ["yes "],
    }
    assert conditions(["used= yes", "used=yes,a=b==1"], known) == {"used": ["yes"], "a=b": ["=1"]}
    assert conditions(["used=maybe"], known) == {"used": ["maybe"]}
    with pytest.raises(InputError, match="--where: got 'smokes=yes'; attribute=label is needed"):
        conditions(["smokes=yes"], known)


def survey(rows: int = 300) -> None:
    """Answers to a question with commas, in every format, with its codebook and design."""
    rng = np.random.default_rng(1)
    frame = pd.DataFrame(
        {
            QUESTION: rng.choice(["yes ", "Yes, often", "no"], rows),
            "a, b": rng.integers(18, 80, rows),
            'say "x"': rng.choice(["u", "v"], rows),
            " w": rng.integers(1, 4, rows),
        }
    )
    frame.to_csv("s.csv", index=False)
    pp.Codebook((pp.Attribute(QUESTION, ("no", "yes ", "Yes, often")),)).to_toml("c.toml")
    write_design(pp.KaryResponse(QUESTION, n=3, epsilon=2.0), "d.toml")


def test_every_option_takes_every_name(capsys: Capture) -> None:
    survey()
    both = ["--codebook", "c.toml", "--design", "d.toml"]
    disguise = ["disguise", "s.csv", *both, "--keep-undisguised", '" w","say ""x"""']
    assert main([*disguise, "--drop", "a, b", "--out", "r.parquet"]) == 0
    assert main(["count", "r.parquet", *both, "--over", QUESTION, "--out", "n.parquet"]) == 0
    estimate = ["estimate", "r.parquet", *both, "--over", QUESTION, "--weights", " w"]
    capsys.readouterr()
    assert main([*estimate, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["weights"] == " w"
    perturb = ["perturb", "s.csv", "--method", "aibr", "--k", "3", "--columns", "a, b"]
    assert main([*perturb, "--keep", QUESTION, "--keep", 'say "x"', "--out", "p.csv"]) == 0
    assert list(pd.read_csv("p.csv")) == [QUESTION, "a, b", 'say "x"']


# -- what is printed ---------------------------------------------------------------------------

EVIL = "yes\x1b[2J\x1b]0;x\x07\x9b31m\u202e"


def test_labels_never_drive_the_terminal(capsys: Capture) -> None:
    """In proposals, tables, sentences, JSON and errors; the labels stay what they are."""
    frame = pd.DataFrame({"a": [EVIL, "no"] * 100, EVIL: ["x", "y"] * 100})
    frame.to_parquet("s.parquet")
    printed = []

    def run(*arguments: str, code: int = 0) -> str:
        assert main(list(arguments)) == code
        out, err = capsys.readouterr()
        printed.append(out + err)
        return out

    run("codebook", "s.parquet")
    run("codebook", "s.parquet", "--json")
    run("codebook", "s.parquet", "--out", "c.toml")
    printed.append(Path("c.toml").read_text())
    book = pp.Codebook.from_toml("c.toml")
    assert set(book["a"].categories) == {EVIL, "no"} and EVIL in book.names
    write_design(pp.Product([pp.Warner("a", theta=0.8), pp.Warner(EVIL, theta=0.8)]), "d.toml")
    both = ("--codebook", "c.toml", "--design", "d.toml")
    run("check", "c.toml", "d.toml")
    run("audit", "--design", "d.toml", "--codebook", "c.toml")
    run("disguise", "s.parquet", *both, "--out", "r.parquet")
    run("count", "r.parquet", *both, "--out", "n.parquet")
    run("estimate", "n.parquet", *both, "--over", "a", "--where", f"{EVIL}=x")
    out = run("estimate", "n.parquet", *both, "--over", EVIL, "--over", "a", "--json")
    assert json.loads(out)["over"] == [EVIL, "a"]
    run("estimate", "n.parquet", *both, "--over", f"{EVIL}?", code=2)
    frame.replace(EVIL, EVIL + "!").to_parquet("t.parquet")
    run("disguise", "t.parquet", *both, "--out", "t2.parquet", code=2)
    for text in printed:
        assert all(sign.isprintable() or sign == "\n" for sign in text)
    assert any("\\x1b[2J" in text for text in printed)


def test_cells_that_spreadsheets_run_are_quoted_on_request() -> None:
    labels = ("=1+1", "@sum", "-x", "-99", "+4", "plain")
    frame = pd.DataFrame({"=a": list(labels) * 50, "n": range(300)})
    frame.to_csv("s.csv", index=False)
    pp.Codebook((pp.Attribute("=a", labels),)).to_toml("c.toml")
    write_design(pp.KaryResponse("=a", n=6, epsilon=4.0), "d.toml")
    both = ["--codebook", "c.toml", "--design", "d.toml"]
    assert main(["disguise", "s.csv", *both, "--drop", "n", "--out", "r.csv"]) == 0
    estimate = ["estimate", "r.csv", *both, "--over", "=a"]
    assert main([*estimate, "--out", "plain.csv"]) == 0
    assert main([*estimate, "--out", "safe.csv", "--spreadsheet-safe"]) == 0
    plain, safe = (pd.read_csv(file, dtype=str) for file in ("plain.csv", "safe.csv"))
    assert plain["=a"].tolist() == list(labels)
    assert safe["'=a"].tolist() == ["'=1+1", "'@sum", "'-x", "-99", "+4", "plain"]
    pd.testing.assert_frame_equal(plain.iloc[:, 1:], safe.iloc[:, 1:])
    perturb = ["perturb", "s.csv", "--method", "aibr", "--k", "3", "--keep", "=a"]
    assert main([*perturb, "--out", "p.csv", "--spreadsheet-safe"]) == 0
    assert pd.read_csv("p.csv", dtype=str)["'=a"].tolist()[:6] == safe["'=a"].tolist()


# -- messages ----------------------------------------------------------------------------------


def test_arrow_tables_are_taken_and_others_refused_without_data() -> None:
    book = pp.Codebook((pp.Attribute("drug", ("no", "yes")),))
    table = pa.table({"drug": ["yes", "no", "yes"], "name": ["Ann", "Bob", "Cid"]})
    assert book.encode(table).codes.ravel().tolist() == [1, 0, 1]
    assert book.encode(table.to_batches()[0]).codes.ravel().tolist() == [1, 0, 1]
    reader = pa.RecordBatchReader.from_batches(table.schema, table.to_batches())
    assert book.encode(reader).codes.ravel().tolist() == [1, 0, 1]
    rows = table.to_pylist()
    for data in (rows, {"drug": ["yes"]}, table["drug"], np.array([["yes"], ["no"]]), "yes", None):
        with pytest.raises(CodebookError) as caught:
            book.encode(data)
        text = str(caught.value)
        assert text.startswith("got a ") and "\n" not in text
        assert not any(word in text for word in ("yes", "Ann", "Bob"))
        assert caught.value.subject is None
    with pytest.raises(CodebookError, match=r"column 'drug' is absent; the columns are name$"):
        book.encode(table.select(["name"]).to_pandas())


@settings(max_examples=50)
@given(
    st.one_of(st.text(), st.binary(), st.integers(), st.floats(), st.lists(st.text(), max_size=3))
)
def test_a_value_is_short_and_printable(value: Any) -> None:
    text = shown(value)
    # A sign that cannot be seen takes up to ten places as an escape.
    assert len(text) <= 10 * LONGEST + 2
    assert all(sign.isprintable() or sign in "\u200c\u200d" for sign in text)
    if isinstance(value, str) and len(value) > LONGEST:
        assert value[LONGEST:] not in text
    if isinstance(value, list) and value:
        assert text == f"a list of {len(value)} {'value' if len(value) == 1 else 'values'}"


def test_values_by_hand() -> None:
    assert shown("x" * 100) == f"'{'x' * 57}...'"
    assert shown(10**5000) == "a whole number of 16610 bits"
    assert shown(pd.DataFrame({"a": ["Ann"]})) == "a DataFrame of 1 value"
    assert shown(pa.table({"a": ["Ann", "Bob"]})) == "a Table of 2 values"
    assert listed(range(14)) == "0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11 and 2 more"
    assert quoted(["a\x07"]) == "'a\\x07'"
    assert printable("a\tb\x1b\u202e", keep="\t") == "a\tb\\x1b\\u202e"
    assert printable("\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645") == (
        "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645"
    )


@pytest.mark.parametrize("kind", [CodebookError, DataError, RecordsError])
def test_errors_of_data_carry_one_value_and_no_records(kind: type[InputError]) -> None:
    book = pp.Codebook((pp.Attribute("a", ("no", "yes")),))
    records = book.encode(pd.DataFrame({"a": ["yes", "no"]}))
    reports = pp.Warner("a", theta=0.8).disguise(records, pp.Stream.from_seed(1))
    table = pp.count(reports, pp.Warner("a", theta=0.8))
    frame = pd.DataFrame({"a": ["yes", "no"]})
    for subject in (records, reports, table, frame, frame["a"], records.codes, ["yes"], {"a": 1}):
        assert kind("wrong", subject).subject is None
    for single in ("yes", 3, 2.5, None, Path("s.csv"), np.float64(2)):
        assert kind("wrong", single).subject == single
    again = pickle.loads(pickle.dumps(kind("wrong", "yes")))
    assert (str(again), again.subject) == ("wrong", None)


def test_a_refusal_tells_no_second_value(capsys: Capture) -> None:
    """Each answer is a word of its own: at most one of them is ever in a message."""
    people = [f"person{i:03d}" for i in range(40)]
    frame = pd.DataFrame({"a": people, "b": people[::-1], "n": range(40)})
    frame.to_csv("s.csv", index=False)
    frame.to_parquet("s.parquet")
    frame.iloc[:1].to_csv("one.csv", index=False)
    lines = Path("s.csv").read_text().splitlines()
    Path("short.csv").write_text("\n".join([*lines[:5], "person100", *lines[5:]]))
    Path("headless.csv").write_text("\n".join(lines[1:]))
    pp.Codebook((pp.Attribute("a", ("x", "y")), pp.Attribute("b", ("x", "y")))).to_toml("c.toml")
    write_design(pp.Product([pp.Warner("a", theta=0.8), pp.Warner("b", theta=0.8)]), "d.toml")
    both = ("--codebook", "c.toml", "--design", "d.toml", "--drop", "n", "--out", "r.csv")
    perturb = ("--method", "aibr", "--k", "2", "--out", "p.csv")
    for file in ("s.csv", "s.parquet", "one.csv", "short.csv", "headless.csv"):
        for command in (("disguise", file, *both), ("perturb", file, *perturb)):
            if (file, command[0]) == ("headless.csv", "perturb"):
                continue  # which takes an answer for the name of its column
            assert main(list(command)) == 2
            err = capsys.readouterr().err
            assert err.count("person") <= 1 and err.count("\n") == 1
    Path("two.csv").write_text("a,b\nperson1,person2\n")
    assert main(["codebook", "two.csv"]) == 2
    assert capsys.readouterr().err.count("person") == 1
    # Undeclared values of any length are cut.
    Path("long.csv").write_text(f"a,b,n\n{'z' * 500},x,1\n")
    assert main(["disguise", "long.csv", *both]) == 2
    assert f"value '{'z' * 57}...' is not declared" in capsys.readouterr().err


# -- the machine -------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("command", [["codebook", "s.csv"], ["list"], ["--help"]])
def test_a_full_disk_is_one_line(command: list[str]) -> None:
    Path("s.csv").write_text("a\nx\ny\n")
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [*PPDM, *command], stdout=full, stderr=subprocess.PIPE, check=False, timeout=60
        )
    assert done.returncode == 3
    assert done.stderr == b"ppdm: error: a fault of this machine: No space left on device\n"


@pytest.mark.slow
def test_few_files_are_enough_or_one_line() -> None:
    Path("s.csv").write_text("a\nx\ny\n")
    for limit in (6, 12, 20):
        command = ["sh", "-c", f'ulimit -n {limit}; exec "$@"', "sh", *PPDM, "codebook", "s.csv"]
        done = subprocess.run(command, capture_output=True, check=False, timeout=60)
        if done.returncode == 0:
            assert b"[[attribute]]" in done.stdout
        elif b"ppdm" in done.stderr:  # else Python itself did not start
            assert done.returncode in (1, 2, 3) and b"Traceback" not in done.stderr[:200]
    assert done.returncode == 0


def test_a_column_unpacks_block_by_block() -> None:
    """A small file of many records is read without holding them."""
    n = 30_000_000
    column = pa.DictionaryArray.from_arrays(pa.array(np.zeros(n, np.int8)), ["yes"])
    pq.write_table(pa.table({"a": column}), "big.parquet")
    assert Path("big.parquet").stat().st_size < 1_000_000
    code = """
import resource
from pathlib import Path
from ppdm_dask.files.reader import open_data
file = open_data(Path("big.parquet"))
blocks = file.blocks(["a"], 65_536)
next(blocks)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
total = sum(len(next(blocks).frame) for _ in range(60))
print(total, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    total, grown = map(int, done.stdout.split())
    assert total == 60 * 65_536
    assert grown < 60_000  # kibibytes
