"""Missing codes come before cuts, ranges and labels; single precision meets its own decimals."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ppdm_dask as pp
from ppdm_dask.data.binning import binarise_attribute, fit_attribute
from ppdm_dask.errors import CodebookError
from ppdm_dask.files.columns import at_least, at_most
from ppdm_dask.survey.proposal import propose_codebook

MISSING = ("(missing)", "<= 30", "> 30")

VALUES: dict[str, Any] = {
    "texts": pd.Series(["20", "25", "999", "40", None, "999"], dtype=object),
    "texts of floats": pd.Series(["20.0", "25.0", "999.0", "40.0", None, "999.0"]),
    "floats": pd.Series([20, 25, 999, 40, np.nan, 999.0]),
    "single": pd.Series([20, 25, 999, 40, np.nan, 999], dtype="float32"),
    "integers": pd.Series([20, 25, 999, 40, None, 999], dtype="Int64"),
    "mixed": pd.Series([20, "25", 999, 40.0, None, "999"], dtype=object),
    "arrow": pd.Series([20, 25, 999, 40, None, 999], dtype=pd.ArrowDtype(pa.int64())),
    "categories": pd.Series([20, 25, 999, 40, None, 999]).astype("category"),
}


@pytest.mark.parametrize("values", VALUES.values(), ids=VALUES)
@pytest.mark.parametrize(
    "attribute",
    [
        pp.Attribute("age", ("<= 30", "> 30", "999"), cuts=(30,), missing="999"),
        pp.Attribute(
            "age",
            ("<= 30", "(missing)", "> 30"),
            cuts=(30,),
            missing="(missing)",
            missing_codes=(999,),
        ),
        pp.Attribute(
            "age",
            ("<= 30", "> 30", "(missing)"),
            cuts=(30,),
            missing="(missing)",
            missing_codes=("999", -99),
            range=(0, 120),
        ),
    ],
    ids=["named by its category", "listed", "listed as a text"],
)
def test_a_code_is_missing_however_it_is_stored(attribute: pp.Attribute, values: Any) -> None:
    codes = attribute.encode(values)
    counted = {label: int((codes == i).sum()) for i, label in enumerate(attribute.categories)}
    assert [counted["<= 30"], counted["> 30"], counted[attribute.missing or ""]] == [2, 1, 3]


@pytest.mark.parametrize("code", [-99, -99.0, "-99"])
def test_negative_codes_are_not_in_the_lowest_bin(code: Any) -> None:
    attribute = pp.Attribute(
        "age", MISSING, cuts=(30,), missing="(missing)", missing_codes=(code, "Refused")
    )
    values = pd.Series(["-99", "Refused", "20", None, "40", "-99.0"], dtype=object)
    assert attribute.encode(values).tolist() == [0, 0, 1, 0, 2, 0]
    with pytest.raises(CodebookError, match="value 'Declined' is not a finite number"):
        attribute.encode(pd.Series(["Declined"]))


def test_codes_of_labels() -> None:
    """Of a nominal attribute too; a label with zeros in front is not a number."""
    attribute = pp.Attribute(
        "zip", ("?", "0099", "100"), missing="?", missing_codes=(99, "Refused", "")
    )
    values = pd.Series(["0099", "99", "99.0", 99, "Refused", "", None, "100", 100.0], dtype=object)
    assert attribute.encode(values).tolist() == [1, 0, 0, 0, 0, 0, 0, 2, 2]


def test_the_key_is_there_only_where_it_is_given(tmp_path: Path) -> None:
    plain = pp.Attribute("age", MISSING, cuts=(30,), missing="(missing)")
    assert "missing_codes" not in plain.config()
    coded = pp.Attribute(
        "age", MISSING, cuts=(30,), missing="(missing)", missing_codes=(-99, 1.5, "Refused", "")
    )
    book = pp.Codebook((coded,))
    book.to_toml(tmp_path / "c.toml")
    assert 'missing_codes = [-99, 1.5, "Refused", ""]' in (tmp_path / "c.toml").read_text()
    again = pp.Codebook.from_toml(tmp_path / "c.toml")
    assert again == book and again.digest == book.digest
    assert book.digest != pp.Codebook((plain,)).digest
    # As it was before there were missing codes.
    assert pp.Codebook((plain,)).digest == (
        "3a1940d0cf11a446ab12cc50297d3eacf6884a392b48f8a28e5c57d8e9f5968d"
    )


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"missing_codes": "999"}, "attribute.a.missing_codes: got '999'; a list of texts"),
        ({"missing_codes": []}, "attribute.a.missing_codes: got []; a list of texts"),
        ({"missing_codes": [True]}, "attribute.a.missing_codes[0]: got True; a text or a finite"),
        ({"missing_codes": [math.inf]}, "attribute.a.missing_codes[0]: got inf; a text or a fin"),
        ({"missing_codes": [10**400]}, "a whole number of 1329 bits; a text or a finite"),
        (
            {"missing_codes": ["y"]},
            "attribute.a.missing_codes: got 'y'; it is a declared label too",
        ),
        ({"missing_codes": [9], "missing": None}, "`missing`, which says where"),
    ],
)
def test_codes_that_cannot_be(fields: Any, message: str) -> None:
    with pytest.raises(CodebookError) as caught:
        pp.Attribute("a", ("?", "y", "n"), **{"missing": "?", **fields})
    assert message in str(caught.value)


def test_rules_pass_over_codes() -> None:
    values = pd.Series([20, 30, 40, 999, -99, np.nan])
    fitted = fit_attribute("age", values, "midrange", missing="?", missing_codes=[999, -99])
    assert fitted.cuts == (30.0,)
    assert fitted.encode(values).tolist() == [1, 1, 2, 0, 0, 0]
    named = fit_attribute("age", pd.Series([20, 30, 40, 999]), "median", missing="999")
    assert named.cuts == (30.0,)
    for attribute in (fitted, named):
        binary = binarise_attribute(attribute, values.replace(-99, 999), "midrange")
        assert binary.cuts == (30.0,)
        # A code stays a code where its category is gone: it goes where missing values go.
        assert binary.encode(pd.Series([20.0, 40, 999, np.nan])).tolist() == [0, 1, 0, 0]
    texts = pd.Series(["x", "9", "y"])
    labels = fit_attribute("a", texts, "labels", missing="?", missing_codes=[9])
    assert labels.categories == ("?", "x", "y")


# -- single precision --------------------------------------------------------------------------


def test_single_precision_meets_the_cut_that_it_was_stored_from() -> None:
    """Under the identity .75 lie at or below 2.7; SE sqrt(.75 * .25 / 400) = .0217."""
    values = pd.Series([1.0] * 100 + [2.7] * 200 + [3.5] * 100, dtype="float32")
    attribute = pp.Attribute("x", ("low", "high"), cuts=(2.7,), range=(1.0, 3.5))
    for column in (values, values.astype("Float32"), values.astype(pd.ArrowDtype(pa.float32()))):
        book = pp.Codebook((attribute,))
        design = pp.Identity("x", [2])
        reports = design.disguise(book.encode(pd.DataFrame({"x": column})), pp.Stream.from_seed(1))
        found = pp.estimate(reports, ["x"], design=design)
        assert found.values.tolist() == pytest.approx([0.75, 0.25])
        assert float(found.standard_error.to_numpy()[0]) == pytest.approx(0.0217, abs=1e-4)
    exact = pp.Attribute("x", ("low", "high"), cuts=(2.0,), range=(1.1, 2.7))
    ends = pd.Series([1.1, 2.7], dtype="float32")
    assert exact.encode(ends).tolist() == [0, 1]
    for outside in (np.nextafter(np.float32(1.1), -np.inf), np.nextafter(np.float32(2.7), np.inf)):
        with pytest.raises(CodebookError, match=r"is outside the range 1\.1 to 2\.7"):
            exact.encode(pd.Series([outside], dtype="float32"))


@settings(max_examples=50)
@given(
    st.sampled_from(["float16", "float32", "float64"]),
    st.floats(-1000, 1000, allow_nan=False, width=16) | st.decimals(-99, 99, places=2),
    st.integers(-3, 3),
)
def test_single_precision_orders_like_its_decimals(kind: str, limit: Any, steps: int) -> None:
    """Held against exact decimals, for the values of a type around a limit."""
    limit, dtype = float(limit), np.dtype(kind)
    value = dtype.type(limit)
    for _ in range(abs(steps)):
        value = np.nextafter(value, dtype.type(np.copysign(np.inf, steps)))
    # A value stands for its shortest decimal as well as for itself.
    meant = {float(str(value)), float(value)}
    assert (float(value) <= at_most(limit, dtype)) == any(number <= limit for number in meant)
    assert (float(value) >= at_least(limit, dtype)) == any(number >= limit for number in meant)


def test_a_missing_code_in_single_precision() -> None:
    attribute = pp.Attribute(
        "x", ("?", "low", "high"), cuts=(0,), missing="?", missing_codes=(-9.9, 99.1)
    )
    values = pd.Series([-9.9, 99.1, 1.0, -1.0], dtype="float32")
    assert attribute.encode(values).tolist() == [0, 0, 2, 1]


# -- proposals ---------------------------------------------------------------------------------


def proposed(frame: pd.DataFrame, tmp_path: Path, **options: Any) -> Any:
    frame.to_parquet(tmp_path / "s.parquet", index=False)
    frame.to_csv(tmp_path / "s.csv", index=False)
    found = propose_codebook(tmp_path / "s.parquet", **options)
    return found, {column.name: column for column in found.columns}


def test_numbers_with_texts_and_codes_come_with_their_remedy(tmp_path: Path) -> None:
    rng = np.random.default_rng(4)
    ages = [str(age) for age in rng.integers(18, 80, 400)]
    ages[:40] = ["Refused"] * 10 + ["-99"] * 12 + ["-98"] * 8 + [None] * 10  # type: ignore[list-item]
    found, columns = proposed(pd.DataFrame({"age": pd.Series(ages, dtype=object)}), tmp_path)
    age = found.codebook["age"]
    assert (age.missing, age.missing_codes) == ("(missing)", ("Refused",))
    notes = columns["age"].notes
    assert "no numbers, and taken for missing values by `missing_codes`: 'Refused' (10)" in notes
    (question,) = (note for note in notes if note.startswith("does -99, -98 stand for"))
    # The lines that it gives are a codebook in which nobody is younger than 18.
    _, *lines = question.splitlines()
    path = tmp_path / "c.toml"
    path.write_text('[[attribute]]\nname = "age"\n' + "\n".join(lines) + "\n")
    remedied = pp.Codebook.from_toml(path)["age"]
    assert remedied.missing_codes == ("Refused", -99.0, -98.0)
    codes = remedied.encode(pd.Series(ages, dtype=object))
    assert int((codes == 0).sum()) == 40
    assert remedied.cuts is not None and min(remedied.cuts) >= 18
    # The remark of the proposal has them too.
    assert all(f"#       {line}" in found.text() for line in lines)


def test_labels_stay_labels_and_rare_ones_are_flagged(tmp_path: Path) -> None:
    n = 300
    frame = pd.DataFrame(
        {
            "zip": [f"{i % 30:04d}" for i in range(n)],
            "few": [f"{i % 3:02d}" for i in range(n)],
            "drug": ["yes", "no"] * (n // 2 - 2) + ["crack", "lsd", "lsd", "no"],
        }
    )
    found, columns = proposed(frame, tmp_path)
    assert found.codebook["few"].categories == ("00", "01", "02")
    assert columns["zip"].left_out.startswith("30 different codes with leading zeros")
    assert "--max-categories" in columns["zip"].remedy
    (rare,) = (note for note in columns["drug"].notes if note.startswith("rare"))
    assert "'crack' (1), 'lsd' (2);" in rare
    assert not any(note.startswith("rare") for note in columns["few"].notes)


def test_declared_order_and_unseen_levels_are_kept(tmp_path: Path) -> None:
    levels = ["none", "low", "mid", "high"]
    kind = pd.CategoricalDtype(levels, ordered=True)
    frame = pd.DataFrame({"pain": pd.Series(["high", "low", "mid"] * 20, dtype=kind)})
    found, columns = proposed(frame, tmp_path)
    assert found.codebook["pain"].categories == tuple(levels)
    assert "declared by the file, and nobody's answer: 'none'" in columns["pain"].notes
    loose = frame.astype({"pain": pd.CategoricalDtype(levels)})
    found, _ = proposed(loose, tmp_path)
    assert found.codebook["pain"].categories == ("high", "low", "mid", "none")


def test_look_alike_labels_are_remarked(tmp_path: Path) -> None:
    labels = ["yes", "y\u0435s", "no", "no\u200b", "cafe\u0301", "caf\u00e9", "a\u202eb"]
    frame = pd.DataFrame({"a": labels * 10, "\u0430": ["x", "y"] * 35})
    found, columns = proposed(frame, tmp_path)
    notes = "\n".join(columns["a"].notes)
    assert "'yes' and 'y\u0435s': one answer?" in notes
    assert "mixes Cyrillic and Latin letters in one word" in notes
    assert "'no' and 'no\\u200b': one answer?" in notes
    assert "holds signs that cannot be seen: U+200B" in notes
    assert "holds signs that cannot be seen: U+202E" in notes
    assert "'cafe\u0301' and 'caf\u00e9': one answer?" in notes
    text = found.text()
    assert "'a': looks like '\u0430'" in text
    assert "\u202e" not in text and "\u200b" not in text
    (tmp_path / "c.toml").write_text(text, encoding="utf-8")
    assert set(pp.Codebook.from_toml(tmp_path / "c.toml")["a"].categories) == set(labels)
