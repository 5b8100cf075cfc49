"""One strict reader: every command and recipe refuses the same files, or reads the same values."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import ppdm_dask as pp
from ppdm_dask.cli import main
from ppdm_dask.cluster.partitions import parquet_partitions
from ppdm_dask.designs.files import write_design
from ppdm_dask.errors import DataError
from ppdm_dask.experiments.inputs import prepare_all
from ppdm_dask.experiments.kinds import load_recipe
from ppdm_dask.files.reader import open_data
from ppdm_dask.survey.disguise import disguise_file
from ppdm_dask.survey.proposal import propose_codebook

Capture = pytest.CaptureFixture[str]

RECIPE = """\
[about]
title = "Own data"

[[data]]
id = "own"
file = "{file}"
codebook = "c.toml"
binarise = "midrange"

[design]
family = "unrelated"
w_y = 0.5

[mine]
learner = "naive-bayes"
floor = "1/n"

[sweep]
repeats = 2
seed = 1
train = 0.8
split = "fixed"

[sweep.grid]
q = [0.5]
"""


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def refused(capsys: Capture, *arguments: str) -> str:
    """The one line that a command ends in, with exit code 2."""
    capsys.readouterr()
    assert main(list(arguments)) == 2
    out, err = capsys.readouterr()
    assert out == "" or arguments[0] == "check"
    assert err.startswith("ppdm: error: ") and err.count("\n") == 1
    return err.removeprefix("ppdm: error: ").rstrip("\n")


def prepare_commands(columns: str = "smokes,age") -> None:
    """A codebook, a design and a recipe for files of two or three columns."""
    attributes = (
        pp.Attribute("smokes", ("no", "yes")),
        pp.Attribute("age", ("<= 30", "> 30", "?"), cuts=(30,), missing="?"),
    )
    pp.Codebook(attributes, target="smokes").to_toml("c.toml")
    write_design(pp.Warner("smokes", theta=0.8), "d.toml")


def by_every_command(capsys: Capture, file: str) -> set[str]:
    """What each command says of a file that none should read."""
    prepare_commands()
    Path("recipe.toml").write_text(RECIPE.format(file=file))
    disguise = ("disguise", file, "--codebook", "c.toml", "--design", "d.toml", "--drop", "age")
    perturb = ("perturb", file, "--method", "aibr", "--k", "2")
    lines = {
        refused(capsys, "codebook", file),
        refused(capsys, *disguise, "--out", "r.csv"),
        refused(capsys, *perturb, "--keep", "smokes", "--columns", "age", "--out", "p.csv"),
        refused(capsys, "check", "recipe.toml"),
        refused(capsys, "run", "recipe.toml", "--workers", "0"),
    }
    for left in ("r.csv", "p.csv", "runs"):
        assert not Path(left).exists()
    return {line.replace(f"{Path.cwd()}/", "") for line in lines}


@pytest.mark.parametrize(
    ("content", "line"),
    [
        ("smokes,age\nyes,20\nno\nyes,40\n", "line 3: 1 field; the header has 2"),
        ("smokes,age\nyes,20,\nno,30,\n", "line 2: 3 fields; the header has 2"),
        ("smokes,age\nyes,20\n\nno,30\n", "line 3: an empty line among records"),
        ("smokes,age,age\nyes,20,1\nno,30,2\n", "column 'age' occurs 2 times"),
        ("smokes,,age\nyes,1,20\nno,2,30\n", "column 2 of 3 has no name; name it or leave it out"),
        ('smokes,age\nyes,"20"x\nno,30\n', "line 2: this is not CSV: ',' expected after '\"'"),
        ('smokes,age\nyes,20\nno,"30\n', "line 3: this is not CSV: unexpected end of data"),
        ("smokes,age\nyes,20\nno\0,30\n", "line 3: there is a NUL, which is not text"),
        (
            "smokes,age\nyes,20\nnein, gr\u0105\u017c,30\n".encode("cp1250"),
            "line 3: this is not UTF-8 text, and none of Western Europe (cp1252); --encoding says "
            "what it is, or save the file as UTF-8",
        ),
        (
            b"\xff\xfes\x00m\x00o\x00k\x00e\x00s\x00,\x00a\x00\n\x00\x00\xd8a\x00,\x001\x00",
            "line 2: this is not text in utf-16; --encoding says what it is",
        ),
        (
            "smokes;age\nyes\nno\n",
            "line 1: a name contains ';', but records have another number of fields; give the "
            "separator as --delimiter, or put names that contain it in quotes",
        ),
        (
            "smokes;x,age\nyes;1,20\n",
            "line 1: names may be separated by ',' or by ';'; --delimiter says which",
        ),
        ("smokes;age\nyes;20\nno;30;1\n", "line 3: 3 fields; the header has 2"),
        ("sep=;\nsmokes;age\nyes;20\nno\n", "line 4: 1 field; the header has 2"),
        ("", "the file is empty; a header and records are needed"),
    ],
)
def test_every_command_refuses_a_bad_csv_with_the_same_line(
    capsys: Capture, content: str | bytes, line: str
) -> None:
    Path("s.csv").write_bytes(content if isinstance(content, bytes) else content.encode())
    assert by_every_command(capsys, "s.csv") == {f"s.csv: {line}"}


def test_a_surplus_comma_releases_no_salary(capsys: Capture) -> None:
    """With a looser reader the columns shift, and `--keep id` publishes what `salary` holds."""
    Path("s.csv").write_text("id,salary,age\n1,41000,33,\n2,52000,44,\n3,63000,55,\n")
    line = refused(
        capsys, "perturb", "s.csv", "--method", "aibr", "--k", "2", "--keep", "id",
        "--columns", "salary", "--out", "r.csv",
    )  # fmt: skip
    assert line == "s.csv: line 2: 4 fields; the header has 3"


def test_a_quoted_name_may_hold_a_separator() -> None:
    Path("s.csv").write_text('"Do you smoke; or not?"\nyes\nno\n')
    assert propose_codebook(Path("s.csv")).codebook.names == ("Do you smoke; or not?",)
    # The same columns as Parquet, where a whole record has become one text.
    pd.DataFrame({"smoke;age": ["yes;20", "no;30"], "b": ["x", "y"]}).to_parquet("s.parquet")
    found = propose_codebook(Path("s.parquet"))
    assert found.codebook.names == ("b",)
    assert found.columns[0].left_out == "looks like several columns that semicolons separate"


def table_of(path: str, content: bytes | None = None) -> dict[str, list[str | None]]:
    """Texts of a file by the reader, which are what a person would see."""
    file = open_data(Path(path), content)
    frame = file.read(file.columns).frame
    return {name: [None if v is None or v != v else str(v) for v in frame[name]] for name in frame}


# Names and labels of any language, with commas, quotes, line ends and marks that combine.
TEXT = st.text(
    st.one_of(
        st.sampled_from(",\"'; \n=|\t"),
        st.characters(codec="utf-8", exclude_categories=["Cs", "Cc"]),
        st.sampled_from("aé\u0301ß\u05d0\u0645\u4e2d\u0939\u093f\u200d"),
    ),
    max_size=6,
)
NAMES = st.lists(
    TEXT.filter(lambda name: bool(name.strip()) and not name.lower().startswith("sep=")),
    min_size=1,
    max_size=4,
    unique=True,
)


@st.composite
def tables(draw: st.DrawFn) -> pd.DataFrame:
    names = draw(NAMES)
    n = draw(st.integers(1, 5))
    values = {name: draw(st.lists(TEXT | st.none(), min_size=n, max_size=n)) for name in names}
    return pd.DataFrame(values, columns=names, dtype=object)


def as_csv(frame: pd.DataFrame) -> bytes:
    file = io.StringIO(newline="")
    writer = csv.writer(file, quoting=csv.QUOTE_ALL, lineterminator="\n")
    writer.writerow(frame.columns)
    writer.writerows(
        [["" if v is None else v for v in row] for row in frame.itertuples(index=False)]
    )
    return file.getvalue().encode()


def texts_of(column: pd.Series) -> list[str | None]:
    return [None if missing else text for text, missing in zip(column, column.isna(), strict=True)]


@settings(max_examples=50)
@given(tables())
def test_csv_and_parquet_hold_the_same_table(frame: pd.DataFrame) -> None:
    """Every reader gives the values that were written; an empty text is a missing value."""
    want = {name: [v or None for v in frame[name]] for name in frame}
    Path("t.csv").write_bytes(as_csv(frame))
    plain = pa.table({name: pa.array(frame[name], pa.string()) for name in frame})
    coded = pa.table(
        {name: pa.array(frame[name], pa.string()).dictionary_encode() for name in frame}
    )
    pq.write_table(plain, "t.parquet")
    pq.write_table(coded, "coded.parquet", row_group_size=2)
    for path in ("t.csv", "t.parquet", "coded.parquet"):
        assert table_of(path) == want
        assert table_of(path, Path(path).read_bytes()) == want
    parts = parquet_partitions("coded.parquet", list(want))
    whole = pd.concat([part.read() for part in parts], ignore_index=True)
    assert {name: texts_of(whole[name]) for name in want} == want
    # Codes of a codebook that declares the labels: from frames, Arrow and files alike.
    labels = {name: sorted({v for v in want[name] if v}) or ["x"] for name in want}
    book = pp.Codebook(
        tuple(pp.Attribute(name, ("(gap)", *labels[name]), missing="(gap)") for name in want)
    )
    assume(all("(gap)" not in each for each in labels.values()))
    codes = [[["(gap)", *labels[name]].index(v or "(gap)") for v in want[name]] for name in want]
    kept = frame.where(frame != "", None)
    for data in (kept, plain, coded, coded.to_batches()[0] if len(frame) <= 2 else plain):
        assert book.encode(data).codes.T.tolist() == codes


def damaged(content: bytes, how: str, at: int) -> bytes:
    lines = content.split(b"\n")
    row = 1 + at % max(len(lines) - 2, 1)
    if how == "drop":
        lines[row] = lines[row].rpartition(b",")[0]
    elif how == "add":
        lines[row] += b",x"
    elif how == "blank":
        lines.insert(row, b"")
    elif how == "quote":
        lines[row] = (
            lines[row][: at % (len(lines[row]) + 1)]
            + b'"'
            + lines[row][at % (len(lines[row]) + 1) :]
        )
    elif how == "nul":
        lines[row] += b"\0"
    else:
        flipped = bytearray(content)
        flipped[at % len(flipped)] ^= 1 << (at % 8)
        return bytes(flipped)
    return b"\n".join(lines)


def outcome(action: Callable[[], Any]) -> str | None:
    """The one line in which an action is refused; None where it is not."""
    try:
        action()
    except pp.errors.InputError as error:
        assert "\n" not in str(error)
        return str(error)
    return None


@settings(max_examples=40)
@given(
    st.sampled_from(["drop", "add", "blank", "quote", "nul", "flip"]),
    st.integers(0, 10_000),
    st.booleans(),
)
def test_damage_is_refused_by_all_commands_or_by_none(how: str, at: int, quoted: bool) -> None:
    """A damaged CSV is refused with one line, the same everywhere, or read as the same table."""
    prepare_commands()
    mark = '"' if quoted else ""
    rows = [f"{mark}{'yes' if i % 3 else 'no'}{mark},{20 + i}" for i in range(6)]
    content = damaged("\n".join(["smokes,age", *rows, ""]).encode(), how, at)
    path = Path("s.csv")
    path.write_bytes(content)
    file = outcome(lambda: table_of("s.csv"))
    if how in ("drop", "add", "blank", "nul"):
        assert file is not None
    book = pp.Codebook.from_toml("c.toml")
    design = pp.Warner("smokes", theta=0.8)
    Path("recipe.toml").write_text(RECIPE.format(file="s.csv"))
    stream = pp.Stream.from_seed(1)
    actions = (
        lambda: propose_codebook(path),
        lambda: disguise_file(path, book, design, stream, Path("r.csv"), drop=["age"]),
        lambda: prepare_all(load_recipe(Path("recipe.toml"))),
    )
    said = [outcome(action) for action in actions]
    if file is not None:
        lines = {line and line.replace(f"{Path.cwd()}/", "") for line in said}
        # Where names of columns were hit, a command may look for one of them first.
        named = content.startswith(b"smokes,age\n")
        assert lines == {file} if named else None not in lines
        return
    table = table_of("s.csv")
    assert table_of("s.csv", content) == table  # as recipes read it
    reader = csv.reader(io.StringIO(content.decode(), newline=""), strict=True)
    header, *records = [row for row in reader if row]
    assert table == {name: [row[j] or None for row in records] for j, name in enumerate(header)}


# -- Parquet -----------------------------------------------------------------------------------


def test_a_named_index_is_a_column(capsys: Capture) -> None:
    """For every command: pandas would hide it, and others would not."""
    prepare_commands()
    ages = [25, 26, 27, 28, 29, 30, 31, 35, 40, 45]
    frame = pd.DataFrame({"smokes": ["yes", "no"] * 5, "age": ages})
    frame.set_index("age").to_parquet("s.parquet")
    assert open_data(Path("s.parquet")).columns == ("smokes", "age")
    assert propose_codebook(Path("s.parquet")).codebook.names == ("smokes", "age")
    disguise = ["disguise", "s.parquet", "--codebook", "c.toml", "--design", "d.toml"]
    assert "column 'age'" in refused(capsys, *disguise, "--out", "r.parquet")
    assert main([*disguise, "--drop", "age", "--out", "r.parquet"]) == 0
    perturb = ["perturb", "s.parquet", "--method", "aibr", "--k", "3", "--keep", "smokes"]
    for out in ("p.csv", "parts"):
        assert main([*perturb, "--out", out]) == 0
    assert list(pd.read_csv("p.csv")) == ["smokes", "age"]
    assert pq.read_schema("parts/part-000000.parquet").names == ["smokes", "age"]
    Path("recipe.toml").write_text(RECIPE.format(file="s.parquet"))
    (prepared,) = prepare_all(load_recipe(Path("recipe.toml")))
    assert prepared.records.column("age").tolist() == [0] * 8 + [1] * 2  # (25 + 45) / 2 = 35


def test_a_named_range_without_values_is_refused(capsys: Capture) -> None:
    prepare_commands()
    frame = pd.DataFrame({"smokes": ["yes", "no"] * 5, "age": range(25, 35)})
    frame.index.name = "person"
    frame.to_parquet("s.parquet")
    assert "person" not in pq.read_schema("s.parquet").names
    line = refused(capsys, "codebook", "s.parquet", "--out", "o.toml")
    assert line.startswith("s.parquet: column 'person' is pandas' index, a range")
    frame.reset_index().to_parquet("s.parquet")
    assert open_data(Path("s.parquet")).columns == ("person", "smokes", "age")


def test_endings_in_capital_letters_work(capsys: Capture) -> None:
    prepare_commands()
    frame = pd.DataFrame({"smokes": ["yes", "no"] * 5, "age": range(25, 35)})
    frame.to_csv("OK.CSV", index=False)
    frame.to_parquet("OK.PARQUET")
    for file in ("OK.CSV", "OK.PARQUET"):
        assert main(["codebook", file, "--json"]) == 0
        both = ["--codebook", "c.toml", "--design", "d.toml"]
        reports = f"R{file[2:]}"
        assert main(["disguise", file, *both, "--drop", "age", "--out", reports]) == 0
        assert main(["count", reports, *both, "--out", "N.PARQUET", "--force"]) == 0
        assert (
            main(["estimate", "N.PARQUET", *both, "--over", "smokes", "--out", "E.CSV", "--force"])
            == 0
        )
        assert (
            main(
                [
                    "perturb",
                    file,
                    "--method",
                    "aibr",
                    "--k",
                    "2",
                    "--keep",
                    "smokes",
                    "--out",
                    f"P{file[2:]}",
                ]
            )
            == 0
        )
        Path("recipe.toml").write_text(RECIPE.format(file=file))
        assert main(["check", "recipe.toml"]) == 0


def test_a_column_that_is_not_read_hinders_no_other(capsys: Capture) -> None:
    """Nested columns and bytes are refused where they are asked for, and left out of proposals."""
    prepare_commands()
    table = pa.table(
        {
            "smokes": ["yes", "no"],
            "age": [20, None],
            "list": [[1], [2, 3]],
            "bytes": [b"yes", b"no"],
            "empty": ["", "x"],
        }
    )
    pq.write_table(table, "s.parquet")
    found = propose_codebook(Path("s.parquet"))
    assert found.codebook.names == ("smokes", "age", "empty")
    assert found.codebook["empty"].categories == ("(missing)", "x")
    left = {column.name: column.left_out for column in found.columns if column.left_out}
    assert left == {
        "list": "holds list<element: int64>; texts or numbers are needed",
        "bytes": "holds binary; save it as text",
    }
    disguise = ["disguise", "s.parquet", "--codebook", "c.toml", "--design", "d.toml"]
    drop = ["--drop", "age,list,bytes,empty"]
    assert main([*disguise, *drop, "--out", "r.parquet"]) == 0
    write_design(pp.Warner("bytes", theta=0.8), "bytes.toml")
    pp.Codebook((pp.Attribute("bytes", ("no", "yes")),)).to_toml("bytes-book.toml")
    line = refused(
        capsys, "disguise", "s.parquet", "--codebook", "bytes-book.toml", "--design", "bytes.toml",
        "--drop", "smokes,age,list,empty", "--out", "b.parquet",
    )  # fmt: skip
    assert line == "s.parquet: column 'bytes' holds binary; save it as text"
    line = refused(
        capsys, "perturb", "s.parquet", "--method", "aibr", "--k", "1", "--columns", "list",
        "--out", "p.csv",
    )  # fmt: skip
    assert line.startswith("s.parquet: column 'list' holds list")


def test_kept_columns_come_out_as_they_went_in(capsys: Capture) -> None:
    """Whole numbers with gaps stay whole, also beyond 2**53, and parts have one type."""
    ids = pa.array([None, 1, 9007199254740993, 4, 5, 6])
    table = pa.table(
        {
            "id": ids,
            "flag": [None, True, False, True, True, False],
            "single": pa.array([0.1, None, 2.5, 1, 1, 1], pa.float32()),
            "text": ["", "a", None, "b", "b", "b"],
            "age": [20.5, 30, 40, 50, 60, 70],
        }
    )
    pq.write_table(table, "s.parquet", row_group_size=3)
    keep = ["--keep", "id,flag", "--keep", "single", "--keep", "text"]
    perturb = ["perturb", "s.parquet", "--method", "aibr", "--k", "2", *keep]
    for out in ("p.csv", "p.parquet", "parts"):
        assert main([*perturb, "--out", out]) == 0
    lines = Path("p.csv").read_text().splitlines()
    assert [line.rpartition(",")[0] for line in lines] == [
        "id,flag,single,text",
        ",,0.1,",
        "1,True,,a",
        "9007199254740993,False,2.5,",
        "4,True,1.0,b",
        "5,True,1.0,b",
        "6,False,1.0,b",
    ]
    kept = ["id", "flag", "single", "text"]
    assert pq.read_table("p.parquet").select(kept).equals(table.select(kept))
    parts = [pq.read_table(part) for part in sorted(Path("parts").glob("*.parquet"))]
    assert len(parts) == 2 and parts[0].schema.equals(parts[1].schema)
    assert pa.concat_tables(parts).select(kept).equals(table.select(kept))
    # The same of a disguise.
    book = pp.Codebook((pp.Attribute("text", ("?", "a", "b"), missing="?"),))
    book.to_toml("c.toml")
    write_design(pp.KaryResponse("text", n=3, epsilon=1.0), "d.toml")
    disguise = ["disguise", "s.parquet", "--codebook", "c.toml", "--design", "d.toml"]
    disguise += ["--keep-undisguised", "id,flag,single", "--drop", "age"]
    for out in ("r.parquet", "r.csv"):
        assert main([*disguise, "--out", out]) == 0
    kept = ["id", "flag", "single"]
    assert pq.read_table("r.parquet").select(kept).equals(table.select(kept))
    texts = [line.partition(",")[2] for line in Path("r.csv").read_text().splitlines()]
    assert texts[1:4] == [",,0.1", "1,True,", "9007199254740993,False,2.5"]


def test_parts_of_a_data_set_have_one_type() -> None:
    pq.write_table(pa.table({"id": [1, 2]}), "a.parquet")
    pq.write_table(pa.table({"id": [1.5, 2]}), "b.parquet")
    pq.write_table(pa.table({"id": pa.array([None, None])}), "none.parquet")
    assert len(parquet_partitions(["a.parquet", "none.parquet"], ["id"])) == 2
    with pytest.raises(DataError) as caught:
        parquet_partitions(["a.parquet", "b.parquet"], ["id"])
    assert str(caught.value) == (
        "b.parquet: column 'id' holds double, and int64 in a.parquet; write all parts with one type"
    )


def test_odd_parquet_ends_in_one_line(capsys: Capture) -> None:
    """Texts that are no text, an unknown zone of times, a damaged schema, a damaged page."""
    bad = pa.Array.from_buffers(
        pa.string(), 1, [None, pa.py_buffer(np.array([0, 1], np.int32)), pa.py_buffer(b"\xff")]
    )
    pq.write_table(pa.table({"a": bad}), "text.parquet")
    times = pa.array([1, 2], pa.timestamp("us", tz="Nowhere/Atlantis"))
    pq.write_table(pa.table({"a": times}), "zone.parquet")
    for file in ("text.parquet", "zone.parquet"):
        line = refused(capsys, "codebook", file)
        assert line.startswith(f"{file}: cannot be read as Parquet: ")
    pq.write_table(pa.table({"a": ["x", "y"] * 500}), "good.parquet", write_page_checksum=True)
    content = Path("good.parquet").read_bytes()
    rng = np.random.default_rng(3)
    for _ in range(60):
        flipped = bytearray(content)
        flipped[rng.integers(len(flipped))] ^= 1 << int(rng.integers(8))
        found = outcome(lambda content=bytes(flipped): table_of("bad.parquet", content))
        assert found is None or found.startswith("bad.parquet: ")


# -- what is not a file ---------------------------------------------------------------------------


def test_what_is_no_file_is_refused_at_once(capsys: Capture) -> None:
    prepare_commands()
    os.mkfifo("pipe.csv")
    os.mkfifo("pipe.toml")
    os.symlink("/dev/zero", "zero.csv")
    os.symlink("/dev/zero", "zero.toml")
    os.mkdir("folder.csv")
    os.mkdir("folder.parquet")
    pipe = "cannot be read: it is a device or a pipe, and a file is needed"
    folder = "cannot be read: it is a folder, and a file is needed"
    for file, line in (
        ("pipe.csv", pipe),
        ("zero.csv", pipe),
        ("folder.csv", folder),
        ("folder.parquet", folder),
        ("gone.csv", "there is no such file"),
    ):
        assert refused(capsys, "codebook", file) == f"{file}: {line}"
        both = ("--codebook", "c.toml", "--design", "d.toml")
        # These two take folders, and this one is empty.
        empty = "there is no data file in this folder" if line == folder else line
        assert refused(capsys, "disguise", file, *both, "--out", "r.csv") == f"{file}: {empty}"
        assert refused(capsys, "estimate", file, *both, "--over", "smokes") == f"{file}: {empty}"
        perturb = ("perturb", file, "--method", "aibr", "--k", "2", "--out", "p.csv")
        assert refused(capsys, *perturb) == f"{file}: {line}"
    for file in ("pipe.toml", "zero.toml"):
        assert refused(capsys, "check", file) == f"{file}: {pipe}"
    Path("recipe.toml").write_text(RECIPE.format(file="pipe.csv"))
    assert refused(capsys, "check", "recipe.toml").endswith(f"pipe.csv: {pipe}")
    Path("recipe.toml").write_text(RECIPE.format(file="a\\u0000.csv"))
    assert "there is no file" in refused(capsys, "check", "recipe.toml")


def test_no_permission_is_one_line(fresh_python: Callable[[str], str], tmp_path: Path) -> None:
    path = tmp_path / "s.csv"
    path.write_text("a\nx\n")
    path.chmod(0)
    for folder in (tmp_path, *tmp_path.parents[:2]):  # which another user must get through
        folder.chmod(0o755)
    code = f"""
import os
from pathlib import Path
from ppdm_dask.errors import DataError
from ppdm_dask.files.reader import open_data
if os.geteuid() == 0:
    os.seteuid(65534)
try:
    open({str(path)!r})
except PermissionError:
    try:
        open_data(Path({str(path)!r}))
    except DataError as error:
        print(error)
else:
    print("unhindered")
"""
    assert fresh_python(code).strip() == f"{path}: cannot be read: Permission denied"


TOML = 'x = {}\n[[attribute]]\nname = "a"\ncategories = ["x", "y"]\n'


@pytest.mark.parametrize(
    ("value", "line"),
    [
        ("9" * 5000, "holds a whole number of more than 64 bits"),
        ("1" + "0" * 400, "x: a whole number of more than 64 bits"),
        ("[" * 100_000, "its values are nested too deeply"),
        ("1\n" + "a." * 100_000 + "b = 1", "has a key of more than 100 levels"),
    ],
)
def test_toml_of_any_content_is_one_line(capsys: Capture, value: str, line: str) -> None:
    prepare_commands()
    Path("odd.toml").write_text(TOML.format(value))
    assert refused(capsys, "check", "odd.toml") == f"odd.toml: {line}"
    Path("s.csv").write_text("smokes\nyes\n")
    both = ("--codebook", "odd.toml", "--design", "d.toml")
    assert refused(capsys, "disguise", "s.csv", *both, "--out", "r.csv") == f"odd.toml: {line}"
    both = ("--codebook", "c.toml", "--design", "odd.toml")
    assert refused(capsys, "disguise", "s.csv", *both, "--out", "r.csv") == f"odd.toml: {line}"


def test_huge_numbers_in_data_are_values_like_others(capsys: Capture) -> None:
    prepare_commands()
    Path("s.csv").write_text(f"smokes,age\nyes,{'9' * 5000}\nno,1e400\n")
    line = refused(
        capsys, "perturb", "s.csv", "--method", "aibr", "--k", "1", "--keep", "smokes",
        "--out", "p.csv",
    )  # fmt: skip
    assert line.startswith("s.csv: column 'age', row 0: '9999")
    assert "(line 2 of the file)" in line and len(line) < 250
    assert main(["codebook", "s.csv"]) == 0
    assert main(["codebook", "s.csv", "--bins", "1000000000"]) == 0
