"""Text files as programs write them: separators, encodings and decimal marks, told or found."""

from __future__ import annotations

import codecs
import gzip
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ppdm_dask as pp
from ppdm_dask.cli import main
from ppdm_dask.errors import DataError, InputError
from ppdm_dask.files import csv_file, dialect
from ppdm_dask.files.reader import DataFile, Reading, open_data
from ppdm_dask.survey.proposal import propose_codebook

Table = dict[str, list[str | None]]

# A form in German and French, with what is easily taken for something else.
TABLE: Table = {
    "Geschlecht": ["männlich", "weiblich", "divers", None],
    "Département": ["Côte-d’Or", "Hérault", "Nièvre", "Oise"],
    "Plz": ["01067", "10115", None, "80331"],
    "Gewicht": ["0.75", "1.5", "2", "-10.25"],
    "Medien": ["a,b", "1,2,3", "b", None],
    "Satz": ["Er sagte: ja", "größer", "naïf", "€ 5"],
}


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def written(table: Table, sign: str, *, comma: bool = False, quoted: bool = False) -> str:
    """The table as a program writes it, with quotes where they are needed, or around all texts."""

    def cell(name: str, text: str | None) -> str:
        text = text or ""
        if comma and name == "Gewicht":
            text = text.replace(".", ",")
        return f'"{text}"' if quoted or sign in text or '"' in text else text

    rows = [[cell("", name) for name in table]]
    columns = zip(*table.values(), strict=True)
    rows += [[cell(n, t) for n, t in zip(table, row, strict=True)] for row in columns]
    return "".join(sign.join(row) + "\r\n" for row in rows)


def read(file: DataFile, size: int = 3) -> Table:
    found: Table = {name: [] for name in file.columns}
    for block in file.blocks(file.columns, size):
        frame = block.frame  # made anew each time
        for name in found:
            gaps = frame[name].isna()
            found[name] += [None if g else str(v) for v, g in zip(frame[name], gaps)]  # noqa: B905
    return found


SIGNS = {
    ",": "",
    ";": "separated by semicolons",
    "\t": "separated by tabs",
    "|": "separated by bars",
}


@pytest.mark.parametrize("sign", SIGNS)
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "cp1252"])
@pytest.mark.parametrize("comma", [False, True])
@pytest.mark.parametrize("quoted", [False, True])
def test_a_form_is_read_as_it_was_written(
    sign: str, encoding: str, comma: bool, quoted: bool
) -> None:
    content = written(TABLE, sign, comma=comma, quoted=quoted).encode(encoding)
    file = open_data(
        Path("t.csv"), content, Reading(decimal=",") if sign == "," and comma else Reading()
    )
    assert read(file) == TABLE
    said = [SIGNS[sign]] if SIGNS[sign] else []
    if encoding in ("utf-16", "cp1252"):
        said.append(f"encoded in {encoding}")
    if comma and sign != ",":
        said.append("with decimal commas in Gewicht")
    assert file.note.partition(";")[0] == (f"read as {', '.join(said)}" if said else "")
    told = Reading(sign, "utf-8" if encoding == "utf-8-sig" else encoding, "," if comma else ".")
    again = open_data(Path("t.csv"), content, told)
    assert read(again, 1) == TABLE
    assert again.note == ""


@pytest.mark.parametrize("name", ["t.tsv", "T.CSV", "t.csv.gz", "t.tsv.GZ"])
def test_endings(name: str) -> None:
    content = written(TABLE, "\t" if ".tsv" in name else ",").encode()
    content = gzip.compress(content) if name.lower().endswith("gz") else content
    Path(name).write_bytes(content)
    for file in (open_data(Path(name)), open_data(Path(name), content)):
        assert (read(file), file.note) == (TABLE, "")


def test_a_note_on_the_separator_is_no_record() -> None:
    content = ("sep=;\r\n" + written(TABLE, ";", comma=True)).encode()
    file = open_data(Path("t.csv"), content)
    assert read(file) == TABLE
    assert list(file.read(["Plz"]).lines) == [3, 4, 5, 6]


@pytest.mark.parametrize(
    ("text", "encoding"),
    [
        ("zażółć gęślą jaźń", "cp1250"),
        ("часто, никогда", "cp1251"),
        ("ποτέ, συχνά", "cp1253"),
        ("männlich, größer", "cp850"),
        ("männlich, größer", "mac-roman"),
        ("hiçbir zaman, doğru, değil", "cp857"),
    ],
)
def test_other_encodings_are_not_taken_for_western(text: str, encoding: str) -> None:
    content = f"id;Antwort\n1;{text}\n2;x\n".encode(encoding)
    with pytest.raises(
        DataError, match=r"^t.csv: line 2: this is not UTF-8 text, and none of West"
    ):
        open_data(Path("t.csv"), content)
    file = open_data(Path("t.csv"), content, Reading(encoding=encoding))
    assert read(file)["Antwort"] == [text, "x"]


@pytest.mark.parametrize(
    "text",
    ["Ärger, Öl, Übung", "« Où ? » – ça", "L’été", "œuvre", "“quoted”", "m²", "½", "¿Qué?", "50 €",
     "FÜR", "smørrebrød", "geht´s", "Köln…", "n° 5", "ÄÖ"],
)  # fmt: skip
def test_western_texts_are_taken(text: str) -> None:
    content = f"id;Antwort\n1;{text}\n2;x\n".encode("cp1252")
    assert read(open_data(Path("t.csv"), content))["Antwort"] == [text, "x"]


REFUSED = {
    "mixed marks": (
        "a;b\n1,5;2.5\n",
        "column 'a' holds numbers with a comma, and column 'b' numbers with a point; --decimal",
    ),
    "a point among commas": (
        "a;b\n1,5;x\n" + "2,5;x\n" * 2_000 + "3.5;x\n",
        "column 'a': '3.5' has a point, where a comma is the decimal mark",
    ),
    "thousands without decimals": (
        "a;b\n1,5;x\n" + "2,5;x\n" * 2_000 + "3.500;x\n",
        "column 'a': '3.500' has a point, where a comma is the decimal mark",
    ),
    "a comma below the sample": (
        "a;b\n1;x\n" + "2;x\n" * 2_000 + "3,5;x\n",
        "column 'a': '3,5' has a comma, but no value at the beginning of the file has one",
    ),
    "thousands or decimals": (
        "a;b\n1,234;x\n12,500;x\n-3;x\n",
        "column 'a': '1,234' may be a number of thousands or have decimals, as far as the file",
    ),
    "thousands or decimals, with points": (
        "a;b\n1.234;x\n12.500;x\n-3;x\n",
        "column 'a': '1.234' may be a number of thousands or have decimals, as far as the file",
    ),
    "two separators": ("a,b;c\n1,2;3\n", "line 1: names may be separated by ',' or by ';'"),
    "text below the sample": (
        "a;b\n" + f"2;{'x' * 400}\n" * 3_000 + "3;ä\n",
        "line 3002: this is not UTF-8 text; --encoding says what it is",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_left_open_is_refused_with_the_option(case: str) -> None:
    text, line = REFUSED[case]
    content = text.encode("cp1252")
    with pytest.raises(DataError) as error:
        read(open_data(Path("t.csv"), content), 100_000)
    assert str(error.value).startswith(f"t.csv: {line}")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("sure", ["0,834", "1,5", "1234,500", "1.234,500"])
def test_one_sure_number_tells_the_mark_of_all(sure: str) -> None:
    content = f"a;b\n1,234;{sure}\n12,500;{sure}\n".encode()
    assert read(open_data(Path("t.csv"), content))["a"] == ["1.234", "12.500"]


def test_decimals_of_a_told_comma() -> None:
    text = "a;b;c\n1.234,5;12.30;1,5\n0,25;x;7\n-1.000.000,75;;1,50\n"
    file = open_data(Path("t.csv"), text.encode(), Reading(decimal=","))
    assert read(file) == {
        "a": ["1234.5", "0.25", "-1000000.75"],
        "b": ["12.30", "x", None],
        "c": ["1.5", "7", "1.50"],
    }
    point = open_data(Path("t.csv"), text.encode(), Reading(decimal="."))
    assert read(point)["a"][0] == "1.234,5"
    thousands = open_data(Path("t.csv"), b"a;b\n1,5;2.000\n", Reading(decimal=","))
    with pytest.raises(DataError, match=r"column 'b': '2.000' has a point"):
        read(thousands)


@pytest.mark.parametrize(
    ("how", "line"),
    [
        ({"delimiter": "ab"}, "--delimiter: got 'ab'; one ASCII sign"),
        ({"delimiter": '"'}, "--delimiter: got"),
        ({"delimiter": "¦"}, "--delimiter: got '¦'; one ASCII sign"),
        ({"encoding": "klingon"}, "--encoding: got 'klingon'; a name such as utf-8"),
        ({"encoding": "rot13"}, "--encoding: got 'rot13'"),
        ({"encoding": "hex"}, "--encoding: got 'hex'"),
        ({"decimal": "'"}, '--decimal: got "\'"; . or , is needed'),
        ({"sheet": "A"}, "--sheet: t.csv is of CSV, and its files have none"),
    ],
)
def test_options_that_can_be_none_are_refused(how: dict[str, str], line: str) -> None:
    with pytest.raises(InputError) as error:
        open_data(Path("t.csv"), b"a,b\n1,2\n", Reading(**how))  # type: ignore[arg-type]
    assert str(error.value).startswith(line)


def test_a_mark_that_contradicts_the_encoding_is_refused() -> None:
    content = codecs.BOM_UTF8 + b"a,b\n1,2\n"
    with pytest.raises(DataError, match="begins with the byte order mark of utf-8, and --encoding"):
        open_data(Path("t.csv"), content, Reading(encoding="cp1252"))


def test_damaged_and_endless_archives_are_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = gzip.compress(b"a,b\n" + b"1,2\n" * 5_000)
    flipped = bytearray(whole)
    flipped[len(whole) // 2] ^= 255
    for content in (whole[:-9], b"no archive", bytes(flipped)):
        with pytest.raises(DataError, match=r"^t.csv.gz: "):
            read(open_data(Path("t.csv.gz"), content), 10_000)
    monkeypatch.setattr(csv_file, "LONGEST_LINE", 1_000)
    line = gzip.compress(b"a,b\n" + b"x" * 5_000)
    with pytest.raises(DataError, match=r"^t.csv.gz: a line has 1,000 characters or more"):
        read(open_data(Path("t.csv.gz"), line))


LABELS = st.text(st.sampled_from("abzäöüßéèçœ€ -ABÉ"), min_size=1, max_size=6).map(str.strip)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(LABELS.filter(bool), LABELS), min_size=2, max_size=12),
    st.sampled_from(list(SIGNS)),
    st.sampled_from(["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "cp1252", "iso8859-15"]),
    st.sampled_from([7, 64, 1 << 20]),
    st.booleans(),
    st.sampled_from([1, 5, 100]),
)
def test_any_text_in_any_dialect(
    rows: list[tuple[str, str]], sign: str, encoding: str, chunk: int, packed: bool, size: int
) -> None:
    """Told how it is written, a file is the table, by whatever blocks and chunks it is read."""
    table: Table = {"x": [a for a, _ in rows], "y": [b or None for _, b in rows]}
    content = written(table, sign).encode(encoding)
    name = "t.csv.gz" if packed else "t.csv"
    how = Reading(sign, encoding, ".")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(csv_file, "CHUNK", chunk)
        patch.setattr(dialect, "SAMPLE", max(chunk, 20))
        file = open_data(Path(name), gzip.compress(content) if packed else content, how)
        assert read(file, size) == table


def test_commands_say_how_a_file_was_read(capsys: pytest.CaptureFixture[str]) -> None:
    text = "smokes;Gewicht\n" + "ja;1,5\nnein;0,5\nweiß nicht;1,0\n" * 5
    Path("t.csv").write_bytes(text.encode("cp1252"))
    note = (
        "ppdm: t.csv: read as separated by semicolons, encoded in cp1252, with decimal commas in "
        "Gewicht; --delimiter, --encoding, --decimal say otherwise\n"
    )
    assert main(["codebook", "t.csv", "--out", "c.toml"]) == 0
    assert capsys.readouterr().err == note
    book = pp.Codebook.from_toml("c.toml")
    assert book["smokes"].categories == ("ja", "nein", "weiß nicht")
    assert book["Gewicht"].categories == ("0.5", "1.0", "1.5")
    Path("d.toml").write_text('id = "kary"\nattribute = "smokes"\nn = 3\np = 0.7\n')
    both = ["--codebook", "c.toml", "--design", "d.toml"]
    out = ["--keep-undisguised", "Gewicht", "--simulate", "1", "--out", "r.parquet"]
    assert main(["disguise", "t.csv", *both, *out]) == 0
    assert capsys.readouterr().err == note
    told = ["--delimiter", "semicolon", "--encoding", "cp1252", "--decimal", ","]
    assert main(["disguise", "t.csv", *both, *out[:-1], "s.parquet", *told]) == 0
    assert capsys.readouterr().err == ""
    assert main(["perturb", "t.csv", "--method", "aibr", "--k", "2", "--columns", "Gewicht",
                 "--out", "p.csv", "--simulate", "1"]) == 0  # fmt: skip
    assert capsys.readouterr().err == note
    assert main(["codebook", "t.csv", "--encoding", "utf-8"]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1 and "line 4: this is not UTF-8 text" in error


def test_codes_with_zeros_in_front_stay_labels() -> None:
    Path("t.csv").write_text(
        "kreis;x\n" + "".join(f"000{i % 9};a\n000{i % 9};b\n" for i in range(30))
    )
    found = propose_codebook(Path("t.csv")).codebook["kreis"]
    assert found.categories == tuple(f"000{i}" for i in range(9))
    assert not found.numeric
