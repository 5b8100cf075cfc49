"""A form of a survey in the file of every program: labels, order, missing codes, weights."""

from __future__ import annotations

import io
import sys
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import openpyxl
import pandas as pd
import pyarrow as pa
import pyarrow.feather as feather
import pyarrow.parquet as pq
import pyreadstat
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import ppdm_dask as pp
from ppdm_dask.cli import main
from ppdm_dask.errors import CodebookError, DataError, InputError
from ppdm_dask.files import statistical
from ppdm_dask.files.reader import Reading, open_data
from ppdm_dask.survey.disguise import disguise_file
from ppdm_dask.survey.proposal import propose_codebook

Capture = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


# In the order of the questionnaire, which is not that of the alphabet; nobody says "jamais".
SEX = {1.0: "männlich", 2.0: "weiblich", 3.0: "divers", 9.0: "keine Angabe"}
OFTEN = {0.0: "jamais", 1.0: "parfois", 2.0: "souvent (≥ 3 ×)", 3.0: "très souvent"}
AGE = {-99.0: "verweigert", -98.0: "weiß nicht"}
CODES = ["keine Angabe", "-99", "-98"]


def form(n: int = 240, seed: int = 5) -> pd.DataFrame:
    """Answers as their numbers."""
    rng = np.random.default_rng(seed)
    sex = rng.choice([1.0, 2.0, 3.0, 9.0, np.nan], n, p=[0.4, 0.4, 0.1, 0.05, 0.05])
    age = rng.integers(18, 90, n).astype(float)
    age[rng.random(n) < 0.1], age[rng.random(n) < 0.1] = -99, -98
    age[rng.random(n) < 0.1] = np.nan
    often = rng.choice([1.0, 2.0, 3.0], n)
    weight = rng.integers(20, 300, n) / 100
    area = [f"{i:03d}" for i in rng.integers(0, 12, n)]
    return pd.DataFrame(
        {"Geschlecht": sex, "Âge": age, "fréquence": often, "Gewicht": weight, "Kreis": area}
    )


def labelled(frame: pd.DataFrame) -> pd.DataFrame:
    """Answers as their labels, whole numbers whole."""
    return frame.assign(
        Geschlecht=frame["Geschlecht"].map(SEX),
        Âge=frame["Âge"].astype("Int64"),
        fréquence=frame["fréquence"].map(OFTEN),
    )


def ordered(frame: pd.DataFrame) -> pd.DataFrame:
    found = labelled(frame)
    for name, labels in {"Geschlecht": SEX, "fréquence": OFTEN}.items():
        found[name] = pd.Categorical(found[name], list(labels.values()), ordered=True)
    return found


def write_spss(frame: pd.DataFrame, path: str, **how: Any) -> None:
    pyreadstat.write_sav(
        frame,
        path,
        variable_value_labels={"Geschlecht": SEX, "fréquence": OFTEN, "Âge": AGE},
        missing_ranges={"Geschlecht": [9.0], "Âge": [-99.0, -98.0]},
        **how,
    )


def write_stata(frame: pd.DataFrame, path: str) -> None:
    # Stata's own missing values: .a and .b are refused and not known.
    letters = {-99.0: "a", -98.0: "b", 9.0: "c"}
    coded = frame.assign(
        Âge=frame["Âge"].map(lambda v: letters.get(v, v)).astype(object),
        Geschlecht=frame["Geschlecht"].map(lambda v: letters.get(v, v)).astype(object),
    )
    pyreadstat.write_dta(
        coded,
        path,
        version=15,
        variable_value_labels={
            "Geschlecht": {**{k: v for k, v in SEX.items() if k != 9}, "c": SEX[9]},
            "fréquence": OFTEN,
            "Âge": {"a": AGE[-99], "b": AGE[-98]},
        },
        missing_user_values={"Âge": ["a", "b"], "Geschlecht": ["c"]},
    )


def write_excel(frame: pd.DataFrame, path: str) -> None:
    labelled(frame).to_excel(path, index=False, sheet_name="Daten")


DECLARED: dict[str, Callable[[pd.DataFrame, str], Any]] = {
    "f.sav": write_spss,
    "f.zsav": lambda f, path: write_spss(f, path, compress=True),
    "F.SAV": lambda f, path: write_spss(f, path, row_compress=True),
    "f.dta": write_stata,
    "f.parquet": lambda f, path: ordered(f).to_parquet(path, row_group_size=70),
    "f.feather": lambda f, path: feather.write_feather(ordered(f), path),
}

TEXTS: dict[str, Callable[[pd.DataFrame, str], Any]] = {
    "f.xlsx": write_excel,
    "comma.csv": lambda f, path: labelled(f).to_csv(path, index=False),
    "bom.csv": lambda f, path: labelled(f).to_csv(path, index=False, encoding="utf-8-sig"),
    "excel.csv": lambda f, path: (
        labelled(f)
        .replace("souvent (≥ 3 ×)", "souvent")
        .to_csv(path, index=False, encoding="cp1252", sep=";", decimal=",")
    ),
    "unicode.csv": lambda f, path: labelled(f).to_csv(
        path, index=False, encoding="utf-16", sep="\t"
    ),
    "f.csv.gz": lambda f, path: labelled(f).to_csv(path, index=False, sep="|"),
    "f.tsv": lambda f, path: labelled(f).to_csv(path, index=False, sep="\t"),
}

BOOK = pp.Codebook(
    (
        pp.Attribute(
            "Geschlecht",
            ("(missing)", "männlich", "weiblich", "divers"),
            missing="(missing)",
            missing_codes=("keine Angabe",),
        ),
        pp.Attribute(
            "Âge",
            ("(missing)", "verweigert", "weiß nicht", "-39", "40-64", "65-"),
            cuts=(39, 64),
            missing="(missing)",
            missing_kinds=(("verweigert", -99, "verweigert"), ("weiß nicht", -98, "weiß nicht")),
        ),
        pp.Attribute(
            "fréquence",
            ("jamais", "parfois", "souvent", "très souvent"),
            groups=(("jamais",), ("parfois",), ("souvent", "souvent (≥ 3 ×)"), ("très souvent",)),
        ),
        pp.Attribute("Kreis", tuple(f"{i:03d}" for i in range(12))),
    )
)


NAMES = {"codebook": Path("c.toml"), "design": Path("d.toml")}


def by_hand(frame: pd.DataFrame) -> list[list[int]]:
    """Codes of BOOK, from the numbers."""
    rows = []
    for sex, age, often, area in zip(
        frame["Geschlecht"], frame["Âge"], frame["fréquence"], frame["Kreis"], strict=True
    ):
        bins = {-99.0: 1, -98.0: 2}.get(age, 3 + (age > 39) + (age > 64))
        rows.append(
            [
                int(sex) if sex in (1, 2, 3) else 0,
                0 if np.isnan(age) else bins,
                int(often),
                int(area),
            ]
        )
    return rows


@settings(
    max_examples=2, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.integers(1, 200), st.integers(0, 1000), st.sampled_from([1, 13, 1000]))
def test_a_form_has_the_same_codes_in_every_format(n: int, seed: int, size: int) -> None:
    frame = form(n, seed)
    frame.loc[0, ["Âge", "Geschlecht"]] = [30, 1]  # columns of nothing have no type in a workbook
    want = by_hand(frame)
    for path, write in {**DECLARED, **TEXTS}.items():
        write(frame, path)
        file = open_data(Path(path))
        assert file.columns == tuple(frame), path
        codes = [BOOK.encode(b.frame, b.offset).codes for b in file.blocks(BOOK.names, size)]
        assert np.concatenate(codes).tolist() == want, path
        weights = file.read(["Gewicht"], kept=["Gewicht"]).frame["Gewicht"].astype(str)
        np.testing.assert_array_equal(weights.astype(float), frame["Gewicht"])


def test_a_form_has_the_same_counts_from_every_format() -> None:
    frame = form()
    design = pp.Product(
        [
            pp.KaryResponse("Geschlecht", 4, p=0.7),
            pp.KaryResponse("Âge", 6, p=0.6),
            pp.KaryResponse("fréquence", 4, p=0.8),
        ]
    )
    made = []
    for path, write in {**DECLARED, **TEXTS}.items():
        write(frame, path)
        out = Path(f"{path}.parquet")
        stream = pp.Stream.from_seed(3)
        disguise_file(Path(path), BOOK, design, stream, out, keep=["Kreis", "Gewicht"], block=50)
        table = pq.read_table(out)
        sources = pp.survey.open_sources([out], BOOK, design, NAMES)
        counted = pp.survey.count_files(sources, BOOK, design, ["fréquence", "Âge"]).counts
        weights = np.array(table["Gewicht"].cast(pa.float64()))
        made.append(
            (counted.tolist(), weights.tolist(), table.drop_columns(["Gewicht"]).to_pylist())
        )
    assert all(each == made[0] for each in made[1:])


def test_a_form_has_the_same_codebook_from_every_format() -> None:
    frame = form()
    books = {}
    for path, write in {**DECLARED, **TEXTS}.items():
        write(frame, path)
        codes = [] if path.lower().endswith(("sav", "dta")) else CODES
        books[path] = propose_codebook(Path(path), missing_codes=codes).codebook
    first = books["f.sav"]
    assert first["Geschlecht"] == BOOK["Geschlecht"]
    assert first["fréquence"].categories == tuple(OFTEN.values())
    assert first["Âge"].missing_codes == (-99, -98)
    assert first["Âge"].categories[0] == first["Âge"].missing == "(missing)"
    assert first["Kreis"].categories == BOOK["Kreis"].categories
    # Quartiles of the ages that are known, as NumPy has them.
    known = frame["Âge"][frame["Âge"] > 0]
    cuts = np.quantile(known, [0.25, 0.5, 0.75], method="inverted_cdf")
    assert first["Âge"].cuts == tuple(cuts)
    for path in DECLARED:
        expected = first
        if path == "f.dta":  # whose missing values are none of its numbers
            letters = replace(first["Âge"], missing_codes=("verweigert", "weiß nicht"))
            expected = pp.Codebook(
                tuple(letters if a.name == "Âge" else a for a in first.attributes)
            )
        assert books[path] == expected, path
    for path in TEXTS:  # which declare no order, and nothing that nobody said
        for attribute in books[path].attributes:
            found = {each.replace("souvent (≥ 3 ×)", "souvent") for each in attribute.categories}
            said = {
                e.replace("souvent (≥ 3 ×)", "souvent") for e in first[attribute.name].categories
            }
            assert said - found <= {"jamais"} and found <= said
            assert (attribute.cuts, attribute.missing_codes) == (
                first[attribute.name].cuts,
                first[attribute.name].missing_codes,
            )


def test_kinds_of_missing_values_stay_apart(capsys: Capture) -> None:
    frame = form()
    for path in ("f.sav", "f.dta"):
        DECLARED[path](frame, path)
        book = propose_codebook(Path(path), apart=True).codebook
        bins = propose_codebook(Path(path)).codebook["Âge"].categories[1:]
        assert book["Âge"].categories == ("(missing)", "verweigert", "weiß nicht", *bins)
        assert book["Geschlecht"].categories == (
            "(missing)", "keine Angabe", "männlich", "weiblich", "divers",
        )  # fmt: skip
        codes = book.encode(open_data(Path(path)).read(book.names).frame).codes
        ages = codes[:, book.index("Âge")]
        assert [int((ages == i).sum()) for i in range(3)] == [
            int(frame["Âge"].isna().sum()),
            int((frame["Âge"] == -99).sum()),
            int((frame["Âge"] == -98).sum()),
        ]
    TEXTS["comma.csv"](frame, "comma.csv")
    told = [f"--missing-code={code}" for code in CODES]
    assert main(["codebook", "comma.csv", *told, "--distinct-missing", "--out", "c.toml"]) == 0
    read = pp.Codebook.from_toml("c.toml")
    assert read["Âge"].missing_kinds == (("-99", -99), ("-98", -98))
    assert read["Âge"].categories[:3] == ("(missing)", "-99", "-98")
    assert read["Gewicht"].missing is None


def test_refused_blank_and_codes_among_ages() -> None:
    """Texts, numbers and gaps in one column: ages that work."""
    ages = ["34", "Refused", "-99", "-98", "", "51", "70", "19"] * 4
    Path("a.csv").write_text("age,x\n" + "".join(f"{a},{i % 2}\n" for i, a in enumerate(ages)))
    found = propose_codebook(Path("a.csv"), missing_codes=["-99", "-98", "Refused", ""], most=3)
    age = found.codebook["age"]
    assert age.missing_codes == (-99, -98, "Refused")
    assert age.numeric
    assert age.cuts == (19, 34, 51)
    apart = propose_codebook(
        Path("a.csv"), missing_codes=[-99, -98, "Refused"], most=3, apart=True
    ).codebook["age"]
    values = open_data(Path("a.csv")).read(["age"]).frame["age"]
    want = {"34": 5, "Refused": 3, "-99": 1, "-98": 2, "": 0, "51": 6, "70": 7, "19": 4}
    assert apart.encode(values).tolist() == [want[a] for a in ages]
    assert apart.decode(np.arange(4)).tolist()[1:] == ["-99", "-98", "Refused"]


AGES = {
    "texts": pd.Series(["20", "-99", None, "-98", "R", "60"], dtype=object),
    "categories": pd.Series(["20", "-99.0", None, "-98", "R", "60"]).astype("category"),
    "mixed": pd.Series([20, -99.0, None, "-98", "R", 60], dtype=object),
}


@pytest.mark.parametrize("values", AGES.values(), ids=AGES)
@pytest.mark.parametrize("place", [0, 1, 2, 3])
def test_kinds_have_their_own_codes_wherever_they_stand(values: pd.Series, place: int) -> None:
    categories = ["young", "old", "refused", "unknown"]
    categories.insert(place, "(missing)")
    kinds = (("refused", -99, "R"), ("unknown", -98))
    age = pp.Attribute("age", tuple(categories), (30,), missing="(missing)", missing_kinds=kinds)
    want = ["young", "refused", "(missing)", "unknown", "refused", "old"]
    assert [age.categories[code] for code in age.encode(values)] == want
    numbers = pd.Series([20, -99, np.nan, -98, -99, 60], dtype="float32")
    assert [age.categories[code] for code in age.encode(numbers)] == want
    pp.Codebook((age,)).to_toml("c.toml")
    assert pp.Codebook.from_toml("c.toml")["age"] == age
    half = pp.Codebook((age,)).binarise(pd.DataFrame({"age": values}), "midrange")["age"]
    assert half.encode(values).tolist() == [0, 0, 0, 0, 0, 1]
    bare = pp.Attribute("age", ("a", "b", "refused", "unknown"), (30,), missing_kinds=kinds)
    assert bare.encode(values.drop(2)).tolist() == [0, 2, 3, 2, 1]
    with pytest.raises(CodebookError, match="row 2: the value is missing"):
        bare.encode(values)


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"missing_kinds": (("c", -1),), "cuts": None}, "it is for numeric attributes"),
        ({"missing_kinds": (("d", -1),)}, "one of the categories is needed, each once"),
        ({"missing_kinds": (("c", -1), ("c", -2))}, "one of the categories is needed, each once"),
        ({"missing_kinds": (("c", -1, "-1.0"),), "missing_codes": (-1,)}, "a missing code already"),
        ({"missing_kinds": (("c", ""),)}, "an empty cell is not a kind"),
        ({"missing_kinds": (("c",),)}, "a list of a category and the values"),
        ({"missing_kinds": (("a", -1), ("b", -2), ("c", -3))}, "need 5, or 6 with one for missing"),
    ],
)
def test_kinds_that_cannot_be_are_refused(changes: dict[str, Any], line: str) -> None:
    base = {"name": "age", "categories": ("a", "b", "c", "m"), "cuts": (30,), "missing": "m"}
    with pytest.raises(CodebookError, match=line):
        pp.Attribute(**{**base, **changes})


# SPSS and Stata.


def labels_of(frame: pd.DataFrame, labels: dict[str, Any], **how: Any) -> list[Any]:
    pyreadstat.write_sav(frame, "t.sav", variable_value_labels=labels, **how)
    values = open_data(Path("t.sav")).read(["q"]).frame["q"]
    return [None if gap else v for v, gap in zip(values.tolist(), values.isna(), strict=True)]


@pytest.mark.parametrize(
    ("values", "labels", "want"),
    [
        # All are labelled; one is not; country codes; the ends of a scale; zero alone.
        ([1, 2, 1], {1: "yes", 2: "no"}, ["yes", "no", "yes"]),
        ([1, 2, 4], {1: "yes", 2: "no"}, ["yes", "no", "4"]),
        ([276, 250], {276: "Germany", 250: "France"}, ["Germany", "France"]),
        ([0, 3, 7, 10], {0: "never", 10: "always"}, [0.0, 3.0, 7.0, 10.0]),
        ([0, 12.5, 40], {0: "nothing"}, [0.0, 12.5, 40.0]),
        ([1, 5, 5], {1: "other", 5: "other"}, ["other (1)", "other (5)", "other (5)"]),
        ([1, 2], {1: "yes", 2: ""}, [1.0, 2.0]),
        ([1, 3, 2], {1: "2", 3: "x"}, ["2", "x", "2 (no label)"]),
    ],
)
def test_columns_are_labels_where_most_values_have_one(
    values: list[float], labels: dict[float, str], want: list[Any]
) -> None:
    assert labels_of(pd.DataFrame({"q": np.array(values, float)}), {"q": labels}) == want


def test_labels_of_a_scale_are_told_and_dates_are_read_as_dates() -> None:
    frame = pd.DataFrame(
        {
            "q": np.arange(60.0),
            "s": ["a", "b", "X"] * 20,
            "d": [pd.Timestamp("2026-11-29").date()] * 60,
        }
    )
    pyreadstat.write_sav(
        frame,
        "t.sav",
        variable_value_labels={"q": {0: "never", 59: "always"}, "s": {"a": "Alpha", "b": "Beta"}},
        missing_ranges={"q": [{"lo": 50, "hi": 58}], "s": ["X"]},
    )
    found = propose_codebook(Path("t.sav"))
    notes = {column.name: column.notes for column in found.columns}
    assert "labelled in the file: 0 is 'never', 59 is 'always'" in notes["q"]
    assert found.codebook["q"].missing_codes == tuple(range(50, 59))
    assert found.codebook["s"].categories == ("(missing)", "Alpha", "Beta")
    assert found.codebook["s"].missing_codes == ("X",)
    assert found.columns[2].left_out == "every value is '2026-11-29'"


def test_letters_of_texts_are_no_missing_values_of_stata() -> None:
    frame = pd.DataFrame({"s": ["a", "b", "", "z"], "q": [1.0, "a", 3.0, np.nan]})
    pyreadstat.write_dta(frame, "t.dta", missing_user_values={"q": ["a"]})
    read = open_data(Path("t.dta")).read(["s", "q"]).frame
    assert read["s"].astype(object).where(read["s"].notna(), None).tolist() == ["a", "b", None, "z"]
    assert read["q"].tolist()[:3] == [1.0, ".a", 3.0]
    assert propose_codebook(Path("t.dta")).codebook["q"].missing_codes == (".a",)


def test_a_file_is_read_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    DECLARED["f.sav"](form(), "f.sav")
    whole = open_data(Path("f.sav")).read(["Âge", "Kreis"]).frame
    monkeypatch.setattr(statistical, "CELLS", 60)
    for size in (7, 30, 240):
        blocks = list(open_data(Path("f.sav")).blocks(["Âge", "Kreis"], size))
        assert [b.offset for b in blocks] == list(range(0, 240, size))
        pd.testing.assert_frame_equal(
            pd.concat([b.frame.astype(object) for b in blocks], ignore_index=True),
            whole.astype(object),
        )


# Excel.


def workbook(sheets: dict[str, list[list[Any]]], hidden: str = "") -> None:
    book = openpyxl.Workbook()
    book.remove(book.active)
    for name, rows in sheets.items():
        sheet = book.create_sheet(name)
        for row in rows:
            sheet.append(row)
        sheet.sheet_state = "hidden" if name == hidden else "visible"
    book.save("t.xlsx")


def test_cells_are_texts_as_a_person_sees_them() -> None:
    rows = [
        ["a", "b", "c", "d", 2026, None],
        [34.0, "x", pd.Timestamp("2026-11-29"), True, 0.1],
        [2**53, "", pd.Timestamp("2026-11-29 10:05"), False, "#N/A"],
        [-0.5, " 007", None, None, 1e-7],
        [None, None],
    ]
    workbook({"Codes": [], "Daten": rows, "Liste": [["x"]]}, hidden="Liste")
    file = open_data(Path("t.xlsx"))
    assert file.note == "read sheet 'Daten', the only one with cells"
    frame = file.read(file.columns).frame
    assert frame.columns.tolist() == ["a", "b", "c", "d", "2026"]
    assert frame.where(frame.notna(), None).to_numpy().tolist() == [
        ["34", "x", "2026-11-29", "TRUE", "0.1"],
        ["9007199254740992", None, "2026-11-29 10:05:00", "FALSE", None],
        ["-0.5", " 007", None, None, "1e-07"],
    ]


@pytest.mark.parametrize(
    ("rows", "line"),
    [
        ([["a", "b"], [1, 2], [], [3, 4]], "sheet 'S': row 3: an empty row among records"),
        ([["a", "b"], [1, 2, 3]], "sheet 'S': row 2: there is a cell to the right of the named"),
        ([["a", "b"], [1, "#DIV/0!"]], "sheet 'S': cell B2 holds the error #DIV/0!"),
        ([["a", "b"], [1, "=A2+1"]], "sheet 'S': cell B2 is a formula without a value; open"),
        ([["a", None, "b"], [1, 2, 3]], "column 2 of 3 has no name"),
        ([["a", "a"], [1, 2]], "column 'a' occurs 2 times"),
        ([[], ["a"]], "sheet 'S': the first row is empty; names of the columns are needed there"),
        ([], "sheet 'S': the first row is empty"),
    ],
)
def test_what_is_no_table_is_refused(rows: list[list[Any]], line: str) -> None:
    workbook({"S": rows})
    with pytest.raises(DataError) as error:
        file = open_data(Path("t.xlsx"))
        file.read(file.columns)
    assert str(error.value).startswith(f"t.xlsx: {line}")


def test_a_sheet_is_told_where_there_are_several(capsys: Capture) -> None:
    answers = [["smokes"], *[["ja"], ["nein"]] * 6]
    workbook({"2025": [["smokes"], ["x"], ["y"]], "2026": answers})
    assert main(["codebook", "t.xlsx"]) == 2
    assert capsys.readouterr().err == (
        "ppdm: error: t.xlsx: there are sheets 2025, 2026; --sheet says which holds the records\n"
    )
    assert main(["codebook", "t.xlsx", "--sheet", "2026", "--out", "c.toml"]) == 0
    Path("d.toml").write_text('id = "warner"\nattribute = "smokes"\ntheta = 0.8\n')
    both = ["--codebook", "c.toml", "--design", "d.toml"]
    assert main(["disguise", "t.xlsx", *both, "--sheet", "2026", "--out", "r.csv"]) == 0
    assert main(["count", "r.csv", *both, "--out", "n.parquet"]) == 0
    assert capsys.readouterr().err == ""
    with pytest.raises(InputError, match=r"--sheet: t.xlsx has no sheet '2027'"):
        open_data(Path("t.xlsx"), how=Reading(sheet="2027"))


# All of them.


@pytest.mark.parametrize("path", ["f.sav", "f.dta", "f.xlsx"])
def test_damage_is_one_line(path: str) -> None:
    {**DECLARED, **TEXTS}[path](form(60), path)
    whole, rng = Path(path).read_bytes(), np.random.default_rng(2)
    refused = 0
    for case in range(60):
        damaged = bytearray(whole)
        if case % 3:
            for at in rng.integers(min(len(whole), 3_000), size=3):
                damaged[at] ^= int(rng.integers(1, 256))
        else:
            del damaged[int(rng.integers(len(whole))) :]
        try:
            file = open_data(Path(path), bytes(damaged))
            file.read(file.columns).frame.astype(str).to_numpy().tolist()
        except InputError as error:
            refused += 1
            assert str(error).startswith(f"{path}: ")
            assert "\n" not in str(error)
    assert refused >= 20


def test_texts_that_unpack_to_more_than_memory_are_refused() -> None:
    target = io.BytesIO()
    with (
        zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive,
        archive.open("xl/sharedStrings.xml", "w", force_zip64=True) as entry,
    ):
        for _ in range(300):
            entry.write(bytes(1 << 20))
    with pytest.raises(DataError, match=r"^t.xlsx: is damaged: texts would unpack to 314,572,800"):
        open_data(Path("t.xlsx"), target.getvalue())


@pytest.mark.parametrize(("path", "module"), [("f.sav", "pyreadstat"), ("f.xlsx", "openpyxl")])
def test_without_the_extra_one_line_names_it(
    path: str, module: str, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    {**DECLARED, **TEXTS}[path](form(20), path)
    monkeypatch.setitem(sys.modules, module, None)
    assert main(["codebook", path]) == 2
    form_name = "SPSS" if module == "pyreadstat" else "Excel"
    assert capsys.readouterr().err == (
        f'ppdm: error: {path}: reading {form_name} files needs pip install "ppdm-dask[formats]"\n'
    )


@pytest.mark.parametrize("path", ["t.csv", "t.xlsx", "t.sav", "t.parquet"])
def test_columns_of_several_answers_are_split(path: str, capsys: Capture) -> None:
    media = ["TV; Radio", "Radio", None, ";", "Zeitung ;TV;", "TV"]
    frame = pd.DataFrame({"id": [str(i) for i in range(6)], "Medien": media, "x": ["a", "b"] * 3})
    write: dict[str, Callable[[], Any]] = {
        "t.csv": lambda: frame.to_csv(path, index=False),
        "t.xlsx": lambda: frame.to_excel(path, index=False),
        "t.sav": lambda: pyreadstat.write_sav(frame.fillna(""), path),
        "t.parquet": lambda: frame.to_parquet(path),
    }
    write[path]()
    assert main(["codebook", path, "--split", "Medien", "--out", "c.toml"]) == 0
    book = pp.Codebook.from_toml("c.toml")
    names = ["Medien: Radio", "Medien: TV", "Medien: Zeitung"]
    assert book.names == ("id", *names, "x")
    for name in names:
        assert book[name].categories == ("(missing)", "no", "yes")
    codes = book.select(names).encode(
        open_data(Path(path), how=Reading(split=("Medien",))).read(names).frame
    )
    assert codes.codes.tolist() == [
        [2, 2, 1], [2, 1, 1], [0, 0, 0], [1, 1, 1], [1, 2, 2], [1, 2, 1],
    ]  # fmt: skip
    # An answer that nobody of this file gave is no; one that is not declared is refused.
    more = pp.Codebook(
        (*(book[n] for n in names), pp.Attribute("Medien: Web", ("(missing)", "no", "yes"),
                                                 missing="(missing)"))
    )  # fmt: skip
    more.to_toml("more.toml")
    Path("d.toml").write_text(
        'id = "product"\n'
        + "".join(
            f'[[blocks]]\nid = "kary"\nattribute = "{name}"\nn = 3\np = 0.7\n'
            for name in more.names
        )
    )
    both = ["--codebook", "more.toml", "--design", "d.toml", "--split", "Medien"]
    assert main(["disguise", path, *both, "--drop", "id", "--drop", "x", "--out", "r.csv"]) == 0
    assert main(["count", "r.csv", *both[:4], "--out", "n.parquet"]) == 0
    capsys.readouterr()
    assert main(["codebook", path, "--split", "Media"]) == 2
    assert "--split: column 'Media' is absent" in capsys.readouterr().err


def test_splitting_by_another_sign_and_names_that_are_there() -> None:
    Path("t.csv").write_text('q,q: a\n"a, b",1\nb,2\n')
    with pytest.raises(DataError, match="--split: column 'q: a' already exists"):
        open_data(Path("t.csv"), how=Reading(split=("q",), sign=","))
    Path("t.csv").write_text('q,r\n"a, b",1\nb,2\n')
    file = open_data(Path("t.csv"), how=Reading(split=("q",), sign=","))
    assert file.columns == ("q: a", "q: b", "r")
    assert file.read(["q: b", "r", "q: a"]).frame.astype(str).to_numpy().tolist() == [
        ["yes", "1", "yes"],
        ["yes", "2", "no"],
    ]


def test_a_recipe_says_how_its_data_were_read_or_is_told(capsys: Capture) -> None:
    BOOK.select(["Geschlecht", "fréquence"]).to_toml("c.toml")
    text = Path("c.toml").read_text()
    Path("c.toml").write_text('target = "fréquence"\n' + text)
    TEXTS["excel.csv"](form(), "excel.csv")
    workbook({"2025": [["x"], [1]], "2026": [["x"], [2]]})
    recipe = (
        '[about]\ntitle = "Own data"\n\n[[data]]\nid = "own"\ncodebook = "c.toml"\n{data}\n'
        'binarise = "midrange"\n\n[design]\nfamily = "unrelated"\nw_y = 0.5\n\n'
        '[mine]\nlearner = "naive-bayes"\nfloor = "1/n"\n\n[sweep]\nrepeats = 2\nseed = 1\n'
        'train = 0.8\nsplit = "fixed"\n\n[sweep.grid]\nq = [0.5]\n'
    )

    def check(data: str) -> tuple[int, str]:
        Path("own.toml").write_text(recipe.format(data=data))
        capsys.readouterr()
        code = main(["check", "own.toml"])
        out, err = capsys.readouterr()
        return code, out + err

    code, said = check('file = "excel.csv"')
    assert code == 0
    assert "; own: read as separated by semicolons, encoded in cp1252, with decimal commas" in said
    keys = 'file = "excel.csv"\ndelimiter = ";"\nencoding = "cp1252"\ndecimal = ","'
    code, said = check(keys)
    assert (code, "read as" in said) == (0, False)
    code, said = check('file = "t.xlsx"')
    assert code == 2 and "there are sheets 2025, 2026; --sheet says which" in said
    code, said = check('file = "t.xlsx"\nsheet = "2027"')
    assert code == 2 and said.count("\n") == 1
    assert "own.toml: data[0].sheet: " in said and "no sheet '2027'" in said


@pytest.mark.parametrize("path", ["p.parquet", "p.arrow"])
def test_a_declared_order_with_unseen_levels_is_proposed(path: str) -> None:
    given = ["high", "low", "mid", "low"] * 3
    levels = ["none", "low", "mid", "high"]
    column = pd.Categorical(given, levels, ordered=True)
    frame = pd.DataFrame(
        {"x": column, "n": pd.Categorical([3, 1, 2] * 4, [3, 1, 2, 7], ordered=True)}
    )
    table = pa.Table.from_pandas(frame)
    if path == "p.arrow":
        feather.write_feather(table, path)
    else:
        pq.write_table(table, path, row_group_size=5)
    book = propose_codebook(Path(path)).codebook
    assert book["x"].categories == tuple(levels)
    if path == "p.arrow":  # Parquet keeps no dictionary of numbers
        assert book["n"].categories == ("3", "1", "2", "7")
