"""Formats of data: the same table in any of them, what is refused, and files of one data set."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.feather as feather
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ppdm_dask as pp
from ppdm_dask.cli import main
from ppdm_dask.designs.files import write_design
from ppdm_dask.errors import CodebookError, DataError
from ppdm_dask.experiments.inputs import prepare_all
from ppdm_dask.experiments.kinds import load_recipe
from ppdm_dask.files import csv_file
from ppdm_dask.files.reader import FORMATS, Levels, expand, open_data
from ppdm_dask.survey.disguise import disguise_file
from ppdm_dask.survey.proposal import propose_codebook

Capture = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def answers(n: int = 1000) -> pa.Table:
    """Texts, a dictionary with gaps, whole numbers with gaps, and fractions."""
    rng = np.random.default_rng(3)
    gap = rng.random(n) < 0.1
    return pa.table(
        {
            "smokes": pa.array(rng.choice(["no", "yes"], n)),
            "region": pa.array(
                np.where(gap, None, rng.choice(["east", "west", "nørd"], n)), pa.string()
            ).dictionary_encode(),
            "age": pa.array(np.where(gap, None, rng.integers(18, 90, n)), pa.int16()),
            "income": pa.array(rng.integers(0, 10_000, n) / 4, pa.float64()),
        }
    )


BOOK = pp.Codebook(
    (
        pp.Attribute("smokes", ("no", "yes")),
        pp.Attribute("region", ("none", "east", "nørd", "west"), missing="none"),
        pp.Attribute("age", ("none", "-50", "51-"), cuts=(50,), missing="none"),
        pp.Attribute("income", ("low", "high"), cuts=(1000,)),
    ),
    target="smokes",
)


def write_arrow(
    path: str, table: pa.Table, batch: int = 300, compression: str | None = None
) -> None:
    options = pa.ipc.IpcWriteOptions(compression=compression, emit_dictionary_deltas=True)
    with pa.ipc.new_file(path, table.schema, options=options) as writer:
        writer.write_table(table, max_chunksize=batch)


WRITERS: dict[str, Callable[[pa.Table], None]] = {
    "t.csv": lambda t: t.to_pandas().astype({"age": "Int16"}).to_csv("t.csv", index=False),
    "t.parquet": lambda t: pq.write_table(t, "t.parquet", row_group_size=300),
    "t.arrow": lambda t: write_arrow("t.arrow", t),
    "t.ARROW": lambda t: write_arrow("t.ARROW", t, compression="zstd"),
    "t.feather": lambda t: feather.write_feather(t, "t.feather", compression="lz4", chunksize=99),
}


def codes(path: str, size: int) -> np.ndarray:
    parts = [BOOK.encode(b.frame, b.offset) for b in open_data(Path(path)).blocks(BOOK.names, size)]
    assert [part.offset for part in parts] == list(np.cumsum([0, *map(len, parts[:-1])]))
    return np.concatenate([part.codes for part in parts])


@pytest.mark.parametrize("name", list(WRITERS)[1:])
def test_a_table_is_the_same_in_every_format(name: str, capsys: Capture) -> None:
    table = answers(400)
    for file in ("t.csv", name):
        WRITERS[file](table)
    for size in (1, 128, 5000):
        np.testing.assert_array_equal(codes(name, size), codes("t.csv", 1000))
    assert propose_codebook(Path(name)).codebook == propose_codebook(Path("t.csv")).codebook

    design = pp.Product([pp.Warner("smokes", 0.8), pp.KaryResponse("region", 4, epsilon=1.0)])
    made = []
    for file in ("t.csv", name):
        disguise_file(
            Path(file),
            BOOK,
            design,
            pp.Stream.from_seed(1),
            Path("r.parquet"),
            drop=("age", "income"),
            block=77,
        )
        made.append(pq.read_table("r.parquet").to_pylist())
    assert made[0] == made[1]

    for file in ("t.csv", name):
        assert main(["perturb", file, "--method", "aibr", "--k", "3", "--columns", "income",
                     "--out", f"{file}.p.csv", "--simulate", "4"]) == 0  # fmt: skip
    assert Path(f"{name}.p.csv").read_text() == Path("t.csv.p.csv").read_text()


def test_a_recipe_reads_every_format() -> None:
    table = answers()
    BOOK.to_toml("c.toml")
    found = []
    for name, write in WRITERS.items():
        write(table)
        Path("own.toml").write_text(
            '[about]\ntitle = "Own data"\n\n[[data]]\nid = "own"\ncodebook = "c.toml"\n'
            f'file = "{name}"\n\n[design]\nfamily = "unrelated"\nw_y = 0.5\n\n'
            '[mine]\nlearner = "naive-bayes"\nfloor = "1/n"\n\n[sweep]\nrepeats = 2\nseed = 1\n'
            'train = 0.8\nsplit = "fixed"\n\n[sweep.grid]\nq = [0.5]\n'
        )
        (prepared,) = prepare_all(load_recipe(Path("own.toml")))
        found.append(prepared.records.codes)
    for each in found[1:]:
        np.testing.assert_array_equal(each, found[0])


@pytest.mark.parametrize("name", ["t.parquet", "t.arrow", "t.ARROW"])
def test_row_groups_are_the_file(name: str) -> None:
    table = answers()
    WRITERS[name](table)
    file = open_data(Path(name))
    assert file.row_groups() == [300, 300, 300, 100]
    whole = pd.concat([file.read_groups([i], ["age"], kept=["region"]) for i in range(4)])
    assert whole["age"].tolist() == file.read(["age"]).frame["age"].tolist()
    assert pa.array(whole["region"]).cast(pa.string()).to_pylist() == table["region"].to_pylist()
    assert file.levels("region") == Levels(tuple(table["region"].chunk(0).dictionary.to_pylist()))
    assert file.levels("smokes") is None


def test_blocks_of_a_parquet_file_do_not_hold_the_file() -> None:
    rng = np.random.default_rng(1)
    texts = pa.array([f"answer {i}" for i in range(200)]).take(
        pa.array(rng.integers(0, 200, 10**6))
    )
    pq.write_table(pa.table({"a": texts}), "long.parquet", row_group_size=10_000)
    file, held, read = open_data(Path("long.parquet")), [], []
    start = pa.total_allocated_bytes()
    for block in file.blocks(["a"], 5_000):
        read.append(pa.array(block.frame["a"]).cast(pa.string()))
        held.append(pa.total_allocated_bytes() - start - sum(part.nbytes for part in read))
    assert pa.concat_arrays(read).equals(texts)
    assert max(held) < Path("long.parquet").stat().st_size / 4


def test_a_csv_has_no_row_groups() -> None:
    WRITERS["t.csv"](answers())
    for ask in (lambda f: f.row_groups(), lambda f: f.blocks_of([0], ["age"])):
        with pytest.raises(DataError, match=r"^t.csv: a CSV file cannot be read from its middle"):
            ask(open_data(Path("t.csv")))


@pytest.mark.filterwarnings("ignore:Feather V1")
def test_what_is_no_arrow_file_is_told_in_one_line() -> None:
    table = answers()
    feather.write_feather(table.drop_columns(["region"]), "one.feather", version=1)
    with pa.ipc.new_stream("stream.arrow", table.schema) as writer:
        writer.write_table(table)
    Path("empty.arrow").touch()
    pq.write_table(table, "parquet.arrow")
    nested = pa.table({"age": pa.array([[1], [2]])})
    write_arrow("nested.arrow", nested)
    for name, line in {
        "one.feather": "is Feather of version 1; write it with version 2",
        "stream.arrow": "holds an Arrow stream, which may lack its end",
        "empty.arrow": "cannot be read as Arrow: File is too small",
        "parquet.arrow": "cannot be read as Arrow: Not an Arrow file",
        "missing.arrow": "there is no such file",
        "nested.arrow": "column 'age' holds list",
    }.items():
        with pytest.raises(DataError) as error:
            open_data(Path(name)).read(["age"])
        assert str(error.value).startswith(f"{name}: {line}")
        assert "\n" not in str(error.value)


def test_names_and_an_index_without_values_are_refused() -> None:
    twice = pa.table([[1], [2]], names=["a", "a"])
    write_arrow("twice.arrow", twice)
    with pytest.raises(DataError, match="column 'a' occurs 2 times"):
        open_data(Path("twice.arrow"))
    frame = pd.DataFrame({"a": [1, 2]}, index=pd.RangeIndex(2, name="person"))
    write_arrow("range.arrow", pa.Table.from_pandas(frame))
    with pytest.raises(DataError, match="column 'person' is pandas' index"):
        open_data(Path("range.arrow"))


@pytest.mark.parametrize("compression", [None, "lz4"])
def test_a_damaged_arrow_file_is_one_line_or_a_table(compression: str | None) -> None:
    table = answers(40)
    write_arrow("t.arrow", table, 25, compression)
    whole, rng = Path("t.arrow").read_bytes(), np.random.default_rng(8)
    refused = 0
    for case in range(300):
        damaged = bytearray(whole)
        if case % 3:
            for at in rng.integers(len(whole), size=case % 3):
                damaged[at] ^= int(rng.integers(1, 256))
        else:
            del damaged[int(rng.integers(len(whole))) :]
        try:
            file = open_data(Path("d.arrow"), bytes(damaged))
            for name in file.columns:
                file.levels(name)
            frame = file.read([n for n in file.columns if not file.refusal(n)]).frame
            for name in frame.columns:
                frame[name].astype(str).tolist()
        except DataError as error:
            refused += 1
            assert str(error).startswith("d.arrow: ")
            assert "\n" not in str(error)
    assert refused >= 100  # all of those that were cut, at least


def test_offsets_beyond_a_column_are_refused() -> None:
    """No checksum guards them: a text that ends after its column's bytes is damage."""
    sound = pa.array(["aa", "bb"])
    target = io.BytesIO()
    table = pa.table({"a": sound})
    with pa.ipc.new_file(target, table.schema) as writer:
        writer.write_table(table)
    content = target.getvalue().replace(
        np.array([0, 2, 4], np.int32).tobytes(), np.array([0, 2, 1 << 20], np.int32).tobytes()
    )
    assert content != target.getvalue()
    with pytest.raises(DataError, match=r"^b.arrow: cannot be read as Arrow: "):
        open_data(Path("b.arrow"), content).read(["a"])


def test_reports_are_not_disguised_again_from_another_format(capsys: Capture) -> None:
    WRITERS["t.csv"](answers())
    design = pp.Warner("smokes", 0.8)
    drop = ("age", "income", "region")
    out = Path("r.parquet")
    disguise_file(Path("t.csv"), BOOK, design, pp.Stream.from_seed(1), out, drop=drop)
    table = pq.read_table("r.parquet")
    said = pq.read_metadata("r.parquet").metadata
    write_arrow("r.arrow", table.replace_schema_metadata(said))
    with pytest.raises(DataError, match=r"^r.arrow: holds reports, which are already"):
        disguise_file(Path("r.arrow"), BOOK, design, pp.Stream.from_seed(1), Path("s.parquet"))


def test_commands_take_an_arrow_file(capsys: Capture) -> None:
    WRITERS["t.feather"](answers())
    assert main(["codebook", "t.feather", "--out", "c.toml"]) == 0
    BOOK.to_toml("c.toml")
    write_design(pp.Warner("smokes", 0.8), "d.toml")
    both = ["--codebook", "c.toml", "--design", "d.toml"]
    drop = [f"--drop={name}" for name in ("age", "income", "region")]
    assert main(["disguise", "t.feather", *both, *drop, "--out", "r.parquet"]) == 0
    capsys.readouterr()
    assert main(["estimate", "r.parquet", *both, "--over", "smokes", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)


def test_no_two_formats_share_an_ending() -> None:
    all_endings = [each for form in FORMATS for each in form.endings]
    assert len(set(all_endings)) == len(all_endings)
    assert all(each == each.lower() and each.startswith(".") for each in all_endings)


# Files of a data set.


def touch(*names: str) -> list[Path]:
    for name in names:
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).touch()
    return [Path(name) for name in names]


def test_a_folder_a_pattern_and_a_list_are_one_data_set() -> None:
    files = touch("d/a.csv", "d/b.CSV", "d/c.csv")
    touch("d/.hidden.csv", "d/_unfinished.csv", "d/_SUCCESS", "d/.tmp/x.csv", "d/a.csv.about.json")
    for named in ("d", Path("d"), ["d"], "d/*.[cC][sS][vV]", "**/?.*", files[::-1]):
        assert expand(named) == files
    assert expand(["d/_unfinished.csv"]) == [Path("d/_unfinished.csv")]  # who names it means it
    touch("d/[x].csv")
    assert expand("d/[x].csv") == [Path("d/[x].csv")]  # a name goes before a pattern


@pytest.mark.parametrize(
    ("given", "line"),
    [
        ([], "data: there are no files"),
        ("none", "none: there is no such file"),
        ("none/*.csv", "none/*.csv: there is no file of this pattern"),
        ("empty", "empty: there is no data file in this folder"),
        ("mixed", "mixed/b.parquet: is not a CSV file as mixed/a.csv is; the parts"),
        (["d/a.csv", "mixed/b.parquet"], "mixed/b.parquet: is not a CSV file as d/a.csv is"),
        ("deep", "deep/in: is a folder within a folder"),
        ("odd", "odd/b.csv.zip: is not a data file: a name that ends in .csv, .parquet"),
        (["d", "d/a.csv"], "d/a.csv: is named twice; its records count once"),
        (["d", "link"], "link/a.csv: is named twice as d/a.csv"),
    ],
)
def test_what_is_no_data_set_is_refused(given: str | list[str], line: str) -> None:
    touch("d/a.csv", "mixed/a.csv", "mixed/b.parquet", "deep/a.csv", "deep/in/b.csv")
    touch("odd/a.csv", "odd/b.csv.zip", "empty/.hidden.csv")
    Path("link").symlink_to("d")
    with pytest.raises(DataError) as error:
        expand(given)
    assert str(error.value).startswith(line)


# Plain lines of a CSV are parsed by Arrow; Python's strict parser says what they are.


def said_of(content: bytes, size: int) -> tuple[str, list[object]]:
    """What the reader says of a file: values and lines, or the line on what is wrong."""
    found: list[object] = []
    try:
        file = open_data(Path("t.csv"), content)
        for block in file.blocks(file.columns[::-1], size, kept=file.columns[:1]):
            assert len(block.frame) <= size
            assert block.offset == len(found)
            gaps = block.frame.isna()
            for row, line in enumerate(block.lines):
                values = zip(block.frame.iloc[row], gaps.iloc[row], strict=True)
                found.append((line, [None if gap else value for value, gap in values]))
    except DataError as error:
        return str(error), []
    return "", found


PIECES = ["a", "b", "1.50", " ", ",", ",", ",", "\n", "\n", "\r\n", "\r", '"', "\0", "é", "\ufeff"]
QUOTED = ['"a",b\n', 'a,"b"\r\n', '"a,""b""\n\n","é\r\n"\n', '"",""""\n', '" a"," "\n']
CONTENTS = st.one_of(
    st.lists(st.sampled_from(PIECES), max_size=40).map(lambda p: "x,y\n" + "".join(p)),
    # Mostly records of two fields, with one odd piece among them.
    st.tuples(
        st.sampled_from(["x,y\n", "\ufeffx,y\r\n", '"x",y\n', '\ufeff"x","y\n"\n', "x,y"]),
        st.lists(st.sampled_from(["a,b\n", ",\n", "é,1\n", "a b,\r\n", *QUOTED]), max_size=12),
        st.sampled_from(["", "", *PIECES, "\n\n"]),
        st.lists(st.sampled_from(["a,b\n", "c,d\r\n"]), max_size=5),
        st.sampled_from(["", "a,b"]),
    ).map(lambda t: t[0] + "".join(t[1]) + t[2] + "".join(t[3]) + t[4]),
)


@settings(max_examples=150, deadline=None)
@given(CONTENTS, st.sampled_from([1, 3, 100]), st.sampled_from([5, 17, 1 << 20]), st.booleans())
def test_plain_lines_are_what_the_strict_parser_says(
    text: str, size: int, chunk: int, broken: bool
) -> None:
    content = text.encode()
    if broken:  # no UTF-8 any more, if there is an accent
        content = content.replace("é".encode(), b"\xe9")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(csv_file, "CHUNK", chunk)
        fast = said_of(content, size)
        patch.setattr(csv_file, "_plain_ends", lambda *_: None)
        assert fast == said_of(content, size)


def test_long_fields_are_refused_as_ever() -> None:
    head = b"x,y\n" + b"a,b\n" * 10
    limit = csv.field_size_limit()
    assert said_of(head + b"a," + b"b" * (limit - 3) + b"\n", 100)[0] == ""
    for end in (b"\n", b"\nc,d\n", b""):
        line, _ = said_of(head + b"a," + b"b" * (limit + 1) + end, 100)
        assert line.startswith("t.csv: line 12: this is not CSV: field larger than field limit")


def test_lines_of_a_large_file_are_parsed_by_arrow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else it would be ten times as slow, and no value would say so."""
    monkeypatch.setattr(csv_file, "csv_rows", lambda path, file, *_: iter(file.read(1)))
    content = b'"x",y\n' + b'a,b\n"c\n,""",\xc3\xa9\r\n' * 300_000
    file = open_data(Path("t.csv"), content)
    lines = [line for block in file.blocks(["y"]) for line in block.lines]
    # A record of one line and one of two take turns below the header.
    assert lines == [2 + row // 2 * 3 + row % 2 for row in range(600_000)]


def test_odd_dictionaries_are_the_texts_that_they_stand_for() -> None:
    """Each chunk has its own, with a gap or an empty text in it, or a text that is twice."""
    one = pa.DictionaryArray.from_arrays(
        pa.array([0, 1, None, 2], pa.int8()), pa.array(["west", "", "east"])
    )
    two = pa.DictionaryArray.from_arrays(
        pa.array([2, 1, 0, None], pa.uint8()), pa.array(["east", None, "nørd"])
    )
    twice = pa.DictionaryArray.from_arrays(
        pa.array([0, 2, 1, 1], pa.int16()), pa.array(["west", "east", "west"])
    )
    view = pa.array(["east", None, "", "west"], pa.string_view())
    book = BOOK.select(["region"])
    for chunks in (
        [one],
        [two],
        [one, one.slice(1)],
        [two, two],
        [twice],
        [view],
        [view.slice(1, 2), view],
    ):
        column = pa.chunked_array(chunks)
        texts = [v for chunk in chunks for v in chunk.to_pylist()]
        plain = pd.DataFrame({"region": [v or None for v in texts]})
        want = book.encode(plain).codes.tolist()
        assert book.encode(pa.table({"region": column})).codes.tolist() == want
    none = pa.table({"region": pa.chunked_array([], pa.dictionary(pa.int8(), pa.string()))})
    assert len(book.encode(none)) == 0


@pytest.mark.parametrize("k", [100, 126, 127, 128, 129, 255, 40_000])
def test_codes_of_columns_with_many_texts(k: int) -> None:
    """Codes of one byte are translated by a table of 256; more of them are looked up."""
    labels = [f"t{v}" for v in range(k)]
    rng = np.random.default_rng(k)
    codes = rng.integers(k, size=2 * k)
    attribute = pp.Attribute("a", ("none", *labels), missing="none")
    values = pd.Series(pd.Categorical.from_codes(np.where(codes % 7, codes, -1), labels[::-1]))
    want = np.where(codes % 7, k - codes, 0)
    np.testing.assert_array_equal(attribute.encode(values), want)
    # A text that nobody declared is named with its row, whatever else the categories hold.
    known = pp.Attribute("a", tuple(labels[:-1]))
    assert known.encode(pd.Series(["t0"] * k, dtype=values.dtype)).tolist() == [0] * k
    with pytest.raises(CodebookError, match=rf"row {k + 5}: value 't{k - 1}' is not declared"):
        known.encode(pd.Series(["t0"] * k + [f"t{k - 1}"], dtype=values.dtype), offset=5)
