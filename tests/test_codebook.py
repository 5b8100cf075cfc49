"""Codebooks: declared categories, codes, TOML, and what a wrong value says."""

from __future__ import annotations

import hashlib
import json
from dataclasses import FrozenInstanceError
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import ppdm_dask as pp
from ppdm_dask.data.attribute import Attribute
from ppdm_dask.data.binning import binarise_attribute, cut_labels, fit_attribute, group_labels
from ppdm_dask.data.codebook import Codebook, Records
from ppdm_dask.errors import CodebookError, DataError, InputError

AGE = Attribute("age", ("young", "middle", "old"), cuts=(30, 60), range=(0, 120))
VOTE = Attribute("vote", ("?", "n", "y"), missing="?")
BOOK = Codebook((AGE, VOTE), target="vote")

labels = st.text(min_size=1, max_size=8)
label_lists = st.lists(labels, min_size=1, max_size=8, unique=True)


@st.composite
def attributes(draw: st.DrawFn, name: str = "a") -> Attribute:
    """Any valid attribute: nominal, grouped or numeric, with or without missing values."""
    kind = draw(st.sampled_from(["nominal", "grouped", "numeric", "numeric with missing"]))
    if kind == "nominal":
        categories = draw(label_lists)
        missing = draw(st.none() | st.sampled_from(categories))
        return Attribute(name, tuple(categories), missing=missing)
    if kind == "grouped":
        originals = draw(label_lists)
        split = draw(st.integers(0, len(originals)))
        groups = (tuple(originals[:split]), tuple(originals[split:]))
        missing = draw(st.none() | st.sampled_from(originals))
        return Attribute(name, ("low", "high"), groups=groups, missing=missing, rule="median")
    finite = st.floats(allow_nan=False, allow_infinity=False)
    cuts = sorted(draw(st.sets(finite, min_size=1, max_size=5)))
    size = len(cuts) + 1 + (kind != "numeric")
    categories = draw(st.lists(labels, min_size=size, max_size=size, unique=True))
    missing = draw(st.sampled_from(categories)) if kind != "numeric" else None
    return Attribute(name, tuple(categories), cuts=tuple(cuts), missing=missing)


# Codes


def test_a_bin_is_the_number_of_cuts_strictly_below_the_value() -> None:
    values = pd.Series([0, 29.99, 30, 30.01, 60, 61, 120])
    assert AGE.encode(values).tolist() == [0, 0, 0, 1, 1, 2, 2]


@pytest.mark.parametrize("position", [0, 1, 2, 3])
def test_missing_numbers_have_their_own_category_wherever_it_is_declared(position: int) -> None:
    bins = ["young", "middle", "old"]
    bins.insert(position, "unknown")
    attribute = Attribute("age", tuple(bins), cuts=(30, 60), missing="unknown")
    codes = attribute.encode(pd.Series([10.0, np.nan, 40.0, 90.0]))
    assert [bins[code] for code in codes] == ["young", "unknown", "middle", "old"]
    assert pd.isna(attribute.decode(codes)[1])


def test_missing_numbers_may_share_a_bin() -> None:
    attribute = Attribute("age", ("low", "high"), cuts=(30,), missing="low")
    assert attribute.encode(pd.Series([np.nan, 31.0, 5.0])).tolist() == [0, 1, 0]
    assert attribute.decode(np.array([0, 1])).tolist() == ["low", "high"]


def test_groups_send_original_labels_to_their_category() -> None:
    attribute = Attribute("c", ("a", "b"), groups=(("x", "?"), ("y", "z")), missing="?")
    assert attribute.encode(pd.Series(["z", "x", None, "y"])).tolist() == [1, 0, 0, 1]
    assert attribute.decode(np.array([0, 1])).tolist() == ["a", "b"]
    with pytest.raises(CodebookError, match="'a' is not declared; there are 'x', '\\?', 'y', 'z'"):
        attribute.encode(pd.Series(["a"]))


def test_a_frame_becomes_records_in_the_order_of_the_codebook() -> None:
    frame = pd.DataFrame(
        {"vote": ["y", None, "n"], "other": 0, "age": [30, 31, 99]}, index=[7, 7, 7]
    )
    records = BOOK.encode(frame, offset=1000)
    assert isinstance(records, Records)
    assert records.codes.tolist() == [[0, 2], [1, 0], [2, 1]]
    assert records.offset == 1000
    assert records.codes.dtype == np.uint8
    decoded = BOOK.decode(records)
    assert decoded["age"].tolist() == ["young", "middle", "old"]
    assert decoded["vote"].isna().tolist() == [False, True, False]
    assert decoded.index.tolist() == [1000, 1001, 1002]


INTEGERS = [3, 1, 2, 3]


@pytest.mark.parametrize(
    "values",
    [
        pd.Series(INTEGERS, dtype="int64"),
        pd.Series(INTEGERS, dtype="uint8"),
        pd.Series(INTEGERS, dtype="float32"),
        pd.Series(INTEGERS, dtype="Int64"),
        pd.Series(INTEGERS, dtype="Float64"),
        pd.Series(INTEGERS, dtype="int64[pyarrow]"),
        pd.Series(INTEGERS, dtype="category"),
        pd.Series(INTEGERS, dtype=object),
        pd.Series(["3", "1", "2", "3"], dtype=object),
        pd.Series(["3", "1", "2", "3"], dtype="string"),
        pd.Series(["3", "1", "2", "3"], dtype="category"),
        pd.Series([3.0, "1", np.int8(2), "3"], dtype=object),
        pd.Series([Decimal(3), Decimal(1), Decimal(2), Decimal(3)], dtype=object),
    ],
    ids=lambda values: str(values.dtype),
)
def test_every_dtype_gives_the_same_codes(values: pd.Series) -> None:
    nominal = Attribute("n", ("1", "2", "3"))
    numeric = Attribute("n", ("1", "2", "3"), cuts=(1.5, 2.5))
    assert nominal.encode(values).tolist() == [2, 0, 1, 2]
    assert numeric.encode(values).tolist() == [2, 0, 1, 2]


@pytest.mark.parametrize(
    "values",
    [
        pd.Series([2, None], dtype="float64"),
        pd.Series([2, pd.NA], dtype="Int64"),
        pd.Series([2, None], dtype="int64[pyarrow]"),
        pd.Series([2, None], dtype=object),
        pd.Series([2, np.nan], dtype="category"),
        pd.Series(["2", pd.NA], dtype="string"),
        pd.Series(["2", None], dtype=object),
        pd.Series(["2", "?"], dtype=object),
    ],
    ids=lambda values: str(values.dtype),
)
def test_missing_values_of_every_dtype(values: pd.Series) -> None:
    nominal = Attribute("n", ("?", "1", "2"), missing="?")
    numeric = Attribute("n", ("?", "1", "2"), cuts=(1.5,), missing="?")
    assert nominal.encode(values).tolist() == [2, 0]
    assert numeric.encode(values).tolist() == [2, 0]


def test_booleans_and_the_numbers_python_holds_equal_to_them_stay_apart() -> None:
    attribute = Attribute("b", ("False", "True", "0", "1"))
    assert attribute.encode(pd.Series([True, False])).tolist() == [1, 0]
    assert attribute.encode(pd.Series([True, None], dtype="boolean").dropna()).tolist() == [1]
    mixed = pd.Series([True, 1, 1.0, 0, False, "True"], dtype=object)
    assert attribute.encode(mixed).tolist() == [1, 3, 3, 2, 0, 1]


def test_numbers_that_are_not_integral_keep_their_point() -> None:
    attribute = Attribute("x", ("0.1", "2", "9007199254740993"))
    assert attribute.encode(pd.Series([0.1, 2.0])).tolist() == [0, 1]
    assert attribute.encode(pd.Series([0.1, 2.0], dtype="float32")).tolist() == [0, 1]
    assert attribute.encode(pd.Series([2**53 + 1])).tolist() == [2]


def test_codes_do_not_depend_on_what_occurs_in_a_partition() -> None:
    rng = np.random.default_rng(3)
    frame = pd.DataFrame({"age": rng.integers(0, 121, 300), "vote": rng.choice(["n", "y"], 300)})
    frame.loc[250:, "vote"] = "y"  # the last partitions hold neither "n" nor "?"
    whole = BOOK.encode(frame).codes
    parts = [BOOK.encode(frame[i : i + 17], offset=i) for i in range(0, 300, 17)]
    assert np.array_equal(np.concatenate([part.codes for part in parts]), whole)
    assert {part.codebook.shape for part in parts} == {(3, 3)}
    assert set(parts[-1].column("vote").tolist()) == {2}


def test_an_empty_frame_gives_no_records() -> None:
    frame = pd.DataFrame({"age": pd.Series(dtype=float), "vote": pd.Series(dtype=object)})
    assert BOOK.encode(frame).codes.shape == (0, 2)


def test_thousands_of_categories() -> None:
    names = tuple(f"c{i}" for i in range(100_000))
    book = Codebook((Attribute("big", names),))
    records = book.encode(pd.DataFrame({"big": ["c99999", "c0", "c256"]}))
    assert records.codes[:, 0].tolist() == [99_999, 0, 256]


@given(st.data())
def test_decode_gives_back_what_encode_took(data: st.DataObject) -> None:
    categories = data.draw(label_lists)
    missing = data.draw(st.none() | st.sampled_from(categories))
    answers: list[Any] = [label for label in categories if label != missing]
    if missing is not None:
        answers.append(None)
    drawn = data.draw(st.lists(st.sampled_from(answers), max_size=20)) if answers else []
    frame = pd.DataFrame({"a": pd.Series(drawn, dtype=object)})
    book = Codebook((Attribute("a", tuple(categories), missing=missing),))
    back = book.decode(book.encode(frame))["a"]
    assert [None if pd.isna(value) else value for value in back] == drawn


def test_records_of_another_codebook_are_not_decoded() -> None:
    other = Codebook((AGE, Attribute("vote", ("?", "y", "n"), missing="?")), target="vote")
    records = BOOK.encode(pd.DataFrame({"age": [1], "vote": ["y"]}))
    with pytest.raises(CodebookError, match="another codebook"):
        other.decode(records)


# What a wrong value says


@pytest.mark.parametrize(
    ("age", "vote", "message"),
    [
        (
            5,
            "maybe",
            "attribute 'vote', row 101: value 'maybe' is not declared; there are '?', 'n'",
        ),
        (121, "y", "attribute 'age', row 101: value '121' is outside the range 0 to 120"),
        (-0.5, "y", "attribute 'age', row 101: value '-0.5' is outside the range 0 to 120"),
        (np.inf, "y", "attribute 'age', row 101: value 'inf' is not a finite number"),
        ("old", "y", "attribute 'age', row 101: value 'old' is not a finite number"),
        ("1_0", "y", "attribute 'age', row 101: value '1_0' is not a finite number"),
        ("nan", "y", "attribute 'age', row 101: value 'nan' is not a finite number"),
        (pd.Timestamp(2004, 1, 1), "y", "value '2004-01-01 00:00:00' is not a finite number"),
        (None, "y", "attribute 'age', row 101: the value is missing, and the codebook declares"),
    ],
)
def test_a_wrong_value_is_named_with_its_attribute_and_row(
    age: Any, vote: str, message: str
) -> None:
    frame = pd.DataFrame({"age": [5, age, 5], "vote": ["n", vote, "n"]})
    with pytest.raises(CodebookError) as caught:
        BOOK.encode(frame, offset=100)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_missing_label_is_an_error_where_none_is_declared() -> None:
    attribute = Attribute("sex", ("Female", "Male"))
    with pytest.raises(CodebookError, match="attribute 'sex', row 1: the value is missing"):
        attribute.encode(pd.Series(["Male", None]))


def test_a_long_list_of_declared_labels_is_cut_short() -> None:
    attribute = Attribute("big", tuple(f"c{i}" for i in range(2925)))
    with pytest.raises(CodebookError) as caught:
        attribute.encode(pd.Series(["nope"]))
    assert "and 2913 more" in str(caught.value)
    assert len(str(caught.value)) < 300


def test_an_absent_or_doubled_column_names_the_columns_there_are() -> None:
    with pytest.raises(CodebookError, match="column 'age' is absent; the columns are Age, vote"):
        BOOK.encode(pd.DataFrame({"Age": [1], "vote": ["y"]}))
    doubled = pd.DataFrame([[1, 2, "y"]], columns=["age", "age", "vote"])
    with pytest.raises(CodebookError, match="column 'age' occurs 2 times"):
        BOOK.encode(doubled)


def test_errors_are_input_errors_and_carry_the_value() -> None:
    with pytest.raises(InputError) as caught:
        BOOK.encode(pd.DataFrame({"age": [1], "vote": ["maybe"]}))
    assert caught.value.subject == "maybe"


# Declarations


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"categories": ()}, "attribute.a.categories: got (); a list of at least one label"),
        ({"categories": "yn"}, "attribute.a.categories: got 'yn'; a list of at least one"),
        ({"categories": ("y", 1)}, "attribute.a.categories[1]: got 1; a text that is"),
        ({"categories": ("y", "")}, "attribute.a.categories[1]: got ''; a text that is not empty"),
        (
            {"categories": ("y", "n", "y")},
            "attribute.a.categories[2]: got 'y'; the values of a list must",
        ),
        (
            {"categories": ("y",), "missing": "?"},
            "attribute.a.missing: got '?'; one of the declared",
        ),
        (
            {"categories": ("y",), "missing": 1},
            "attribute.a.missing: got 1; a text that is not empty",
        ),
        (
            {"categories": ("y",), "range": (0, 1)},
            "attribute.a.range: got (0.0, 1.0); it is for numeric",
        ),
        ({"categories": ("y",), "groups": (("a",), ("b",))}, "attribute.a.groups:"),
        (
            {"categories": ("y", "n"), "groups": (("a",), ("a",))},
            "groups[1]: got 'a'; the values of a list must",
        ),
        ({"categories": ("y", "n"), "cuts": (1, 2)}, "2 labels; 2 cuts need 3, or 4 with one"),
        ({"categories": ("y", "n", "m"), "cuts": (1,)}, "attribute.a.missing: got nothing; one of"),
        (
            {"categories": ("y", "n", "m"), "cuts": (2, 1)},
            "attribute.a.cuts: got (2.0, 1.0); numbers",
        ),
        ({"categories": ("y", "n", "m"), "cuts": (1, 1)}, "rise strictly"),
        ({"categories": ("y",), "cuts": ()}, "attribute.a.cuts: got (); a list of numbers"),
        ({"categories": ("y", "n"), "cuts": (np.nan,)}, "attribute.a.cuts[0]: got nan; a finite"),
        ({"categories": ("y", "n"), "cuts": ("1",)}, "attribute.a.cuts[0]: got '1'; a finite"),
        ({"categories": ("y", "n"), "cuts": 1}, "attribute.a.cuts: got 1; a list of numbers"),
        ({"categories": ("y", "n"), "cuts": (True,)}, "attribute.a.cuts[0]: got True; a finite"),
        (
            {"categories": ("y", "n"), "cuts": (1,), "range": (2, 0)},
            "attribute.a.range: got (2.0, 0.0); [smallest",
        ),
        (
            {"categories": ("y", "n"), "cuts": (1,), "groups": ()},
            "attribute.a.groups: got (); it is for nominal",
        ),
    ],
)
def test_contradictions_in_an_attribute_name_the_field(fields: Any, message: str) -> None:
    with pytest.raises(CodebookError) as caught:
        Attribute("a", **fields)
    assert message in str(caught.value)


def test_contradictions_in_a_codebook() -> None:
    with pytest.raises(CodebookError, match="at least one attribute"):
        Codebook(())
    with pytest.raises(CodebookError, match=r"attribute\.vote: the name is declared twice"):
        Codebook((VOTE, AGE, VOTE))
    with pytest.raises(CodebookError, match="target: 'party' is not an attribute; there are age"):
        Codebook((AGE, VOTE), target="party")


def test_attributes_and_codebooks_are_frozen_and_hashable() -> None:
    with pytest.raises(FrozenInstanceError):
        AGE.name = "other"  # type: ignore[misc]
    with pytest.raises(FrozenInstanceError):
        BOOK.target = None  # type: ignore[misc]
    assert hash(BOOK) == hash(Codebook((AGE, VOTE), target="vote"))


def test_looking_up_and_selecting() -> None:
    assert (BOOK.names, BOOK.shape, BOOK.index("vote")) == (("age", "vote"), (3, 3), 1)
    assert BOOK["age"] is AGE
    assert BOOK.select(["vote", "age"]).names == ("vote", "age")
    assert BOOK.select(["vote"]).target == "vote"
    assert BOOK.select(["age"]).target is None
    with pytest.raises(CodebookError, match="no attribute 'sex'; there are age, vote"):
        BOOK.select(["sex"])


def test_masks_of_an_event() -> None:
    masks = BOOK.masks({"vote": "y", "age": ["young", "old"]})
    assert {name: mask.tolist() for name, mask in masks.items()} == {
        "vote": [False, False, True],
        "age": [True, False, True],
    }
    grades = Codebook((Attribute("g", ("1", "2")),))
    assert grades.masks({"g": 2})["g"].tolist() == [False, True]
    with pytest.raises(CodebookError, match="'vote': 'maybe' is not a category; there are '\\?'"):
        BOOK.masks({"vote": ["y", "maybe"]})
    with pytest.raises(CodebookError, match="names no category"):
        BOOK.masks({"vote": []})


# Files


def test_zero_has_one_sign(tmp_path: Path) -> None:
    """A file cannot tell -0.0 from 0, so a codebook that it gives back has the same digest."""
    book = Codebook((Attribute("a", ("low", "high"), cuts=(-0.0,), range=(-0.0, 1)),))
    book.to_toml(tmp_path / "book.toml")
    assert Codebook.from_toml(tmp_path / "book.toml").digest == book.digest


@pytest.mark.parametrize("blank", ["\r", " ", "\t"])
def test_a_blank_name_may_be_the_target(tmp_path, blank):
    book = Codebook((Attribute(blank, ("0",)),), blank)
    book.to_toml(tmp_path / "c.toml")
    assert Codebook.from_toml(tmp_path / "c.toml") == book


@given(st.data())
def test_toml_and_config_give_back_the_same_codebook(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    names = data.draw(st.lists(labels, min_size=1, max_size=3, unique=True))
    book = Codebook(
        tuple(data.draw(attributes(name)) for name in names),
        target=data.draw(st.none() | st.sampled_from(names)),
    )
    path = tmp_path_factory.mktemp("book") / "book.toml"
    book.to_toml(path)
    back = Codebook.from_toml(path)
    assert back == book
    assert back.digest == book.digest
    assert Codebook.from_config(json.loads(json.dumps(book.config()))) == book
    assert [file.name for file in path.parent.iterdir()] == ["book.toml"]


def test_long_lists_are_written_over_several_lines(tmp_path: Any) -> None:
    path = tmp_path / "book.toml"
    Codebook((Attribute("big", tuple(f"category {i}" for i in range(60))),)).to_toml(path)
    assert max(map(len, path.read_text().splitlines())) <= 100


def test_the_digest_is_of_canonical_json_without_provenance() -> None:
    text = (
        '{"attribute":[{"categories":["low","high"],"cuts":[30.0],"name":"age"},'
        '{"categories":["n","y"],"name":"vote"}],"target":"vote"}'
    )
    vote = Attribute("vote", ("n", "y"))
    for rule in (None, "median"):
        book = Codebook((Attribute("age", ("low", "high"), cuts=(30,), rule=rule), vote), "vote")
        assert book.digest == hashlib.sha256(text.encode()).hexdigest()
    swapped = Codebook((Attribute("age", ("high", "low"), cuts=(30,)), vote), "vote")
    assert swapped.digest != book.digest


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            'targt = "a"\n[[attribute]]\nname = "a"\ncategories = ["y"]',
            'targt: got "a"; there is no such key, did',
        ),
        (
            '[[attribute]]\nname = "a"\ncategory = ["y"]',
            'a.category: got ["y"]; there is no such key, did you',
        ),
        ('[[attribute]]\nname = "a"', "attribute.a.categories: got nothing; a list of at"),
        ('[[attribute]]\ncategories = ["y"]', "attribute[0].name: got nothing; a text that"),
        (
            '[[attribute]]\nname = "a"\ncategories = [1, 2]',
            "attribute.a.categories[0]: got 1; a te",
        ),
        ('[attribute]\nname = "a"\ncategories = ["y"]', 'attribute: got {"name": "a"'),
        ("attribute = 3", "attribute: got 3; at least one table [[attribute]] is needed"),
        ("", "attribute: got nothing; at least one table [[attribute]] is needed"),
        ('target = 3\n[[attribute]]\nname = "a"\ncategories = ["y"]', "target: got 3; a text"),
        ('target = ["a"]\n[[attribute]]\nname = "a"\ncategories = ["y"]', 'target: got ["a"]; a t'),
        ("target = ", "this is not TOML: "),
    ],
)
def test_a_wrong_file_is_named_with_the_dotted_path(tmp_path: Any, text: str, message: str) -> None:
    path = tmp_path / "book.toml"
    path.write_text(text)
    with pytest.raises(CodebookError) as caught:
        Codebook.from_toml(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_file_that_is_absent_or_no_text(tmp_path: Any) -> None:
    with pytest.raises(CodebookError, match=r"none\.toml: there is no such file"):
        Codebook.from_toml(tmp_path / "none.toml")
    (tmp_path / "bytes.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(CodebookError, match=r"bytes\.toml: line 1: this is not UTF-8 text"):
        Codebook.from_toml(tmp_path / "bytes.toml")


# Rules


def test_midrange_and_median_cut_numbers_of_known_values() -> None:
    values = pd.Series([0.0, 1.0, 2.0, 3.0, 100.0, np.nan])
    attribute = Attribute("x", ("?", "a", "b"), cuts=(7,), missing="?", range=(0, 100))
    midrange = binarise_attribute(attribute, values, "midrange")
    assert (midrange.categories, midrange.cuts) == (("<= 50", "> 50"), (50.0,))
    assert (midrange.missing, midrange.range, midrange.rule) == ("<= 50", (0, 100), "midrange")
    assert midrange.encode(values).tolist() == [0, 0, 0, 0, 1, 0]
    median = binarise_attribute(attribute, values, "median")
    assert median.categories == ("<= 2", "> 2")
    assert median.encode(values).tolist() == [0, 0, 0, 1, 1, 0]


def test_rules_group_labels_by_their_alphabetical_code() -> None:
    # Declared out of order; sorted codes are ? 0, a 1, b 2, c 3, d 4. "a" does not occur.
    attribute = Attribute("x", ("d", "c", "?", "b", "a"), missing="?")
    values = pd.Series(["b", "d", "d", "d", "c", None])
    midrange = binarise_attribute(attribute, values, "midrange")  # (0 + 4) / 2 = 2
    assert midrange.groups == (("?", "a", "b"), ("c", "d"))
    assert midrange.categories == ("? .. b", "c .. d")
    assert midrange.encode(values).tolist() == [0, 1, 1, 1, 1, 0]
    median = binarise_attribute(attribute, values, "median")  # of 0 2 3 4 4 4: 3.5
    assert median.groups == (("?", "a", "b", "c"), ("d",))
    assert median.categories == ("? .. c", "d")
    without = binarise_attribute(attribute, values.dropna(), "midrange")  # (2 + 4) / 2 = 3
    assert without.groups == (("?", "a", "b", "c"), ("d",))


def test_missing_sorts_first_even_before_digits() -> None:
    attribute = Attribute("x", ("0", "1", "?"), missing="?")
    binary = binarise_attribute(attribute, pd.Series(["0", "1", "0"]), "midrange")
    assert binary.groups == (("?", "0"), ("1",))


def test_two_categories_stay_even_where_one_holds_nothing() -> None:
    sex = binarise_attribute(
        Attribute("sex", ("Female", "Male")), pd.Series(["Male"] * 3 + ["Female"]), "median"
    )
    assert (sex.categories, sex.groups) == (("Female .. Male", "(none)"), (("Female", "Male"), ()))
    assert sex.encode(pd.Series(["Male", "Female"])).tolist() == [0, 0]
    constant = binarise_attribute(AGE, pd.Series([5, 5]), "midrange")
    assert constant.categories == ("<= 5", "> 5")
    assert constant.encode(pd.Series([5, 6])).tolist() == [0, 1]


@given(st.data())
def test_binarising_twice_is_binarising_once(data: st.DataObject) -> None:
    attribute = data.draw(attributes())
    rule = data.draw(st.sampled_from(["midrange", "median"]))
    if attribute.numeric:
        codes = attribute.codes_of_missing.numbers
        numbers = st.floats(-1e6, 1e6, allow_nan=False).filter(lambda x: x not in codes)
        values = pd.Series(data.draw(st.lists(numbers, min_size=1, max_size=9)))
    else:
        drawn = st.lists(st.sampled_from(attribute.labels), min_size=1, max_size=9)
        values = pd.Series(data.draw(drawn), dtype=object)
    once = binarise_attribute(attribute, values, rule)
    assert len(once) == 2
    assert binarise_attribute(once, values, rule).encode(values).tolist() == (
        once.encode(values).tolist()
    )


def test_a_codebook_binarises_every_attribute_and_keeps_its_target() -> None:
    frame = pd.DataFrame({"age": [0, 10, 100], "vote": ["n", "y", "n"]})
    book = BOOK.binarise(frame, "midrange")
    assert (book.shape, book.target) == ((2, 2), "vote")
    assert book.encode(frame).codes.tolist() == [[0, 0], [0, 1], [1, 0]]
    with pytest.raises(CodebookError, match="rule is 'mean'; known are midrange, median"):
        BOOK.binarise(frame, "mean")
    with pytest.raises(CodebookError, match="row 1: value 'x' is not declared"):
        BOOK.binarise(pd.DataFrame({"age": [1, 2], "vote": ["n", "x"]}), "median")
    with pytest.raises(CodebookError, match="attribute 'age': there is no value"):
        BOOK.binarise(frame[:0], "median")


def test_quantiles_are_values_that_occur() -> None:
    attribute = fit_attribute("x", pd.Series(range(1, 11)), "quantiles(5)")
    assert attribute.cuts == (2, 4, 6, 8)
    assert attribute.categories == ("<= 2", "(2, 4]", "(4, 6]", "(6, 8]", "> 8")
    assert np.bincount(attribute.encode(pd.Series(range(1, 11)))).tolist() == [2] * 5
    tied = fit_attribute("x", pd.Series([0] * 9 + [7]), "quantiles(10)", missing="?")
    assert (tied.cuts, tied.categories) == ((0,), ("?", "<= 0", "> 0"))


@given(st.lists(st.integers(-5, 5), min_size=2, max_size=40), st.integers(2, 12))
def test_quantiles_leave_no_bin_empty(values: list[int], k: int) -> None:
    series = pd.Series(values)
    below = sum(value < max(values) for value in values)
    if below * k < len(values):  # less than 1/k lies below the maximum, so each quantile is it
        with pytest.raises(CodebookError, match="finds no cut among equal values"):
            fit_attribute("x", series, f"quantiles({k})")
        return
    attribute = fit_attribute("x", series, f"quantiles({k})")
    counts = np.bincount(attribute.encode(series), minlength=len(attribute))
    assert counts.min() > 0
    assert len(attribute) <= k


def test_other_ways_to_fit() -> None:
    nominal = fit_attribute("v", pd.Series(["y", None, "n", "y"]), "labels", missing="?")
    assert (nominal.categories, nominal.missing) == (("?", "n", "y"), "?")
    given_cuts = fit_attribute("x", pd.Series([1.0]), [18, 65.5], limits=(0, 120))
    assert given_cuts.categories == ("<= 18", "(18, 65.5]", "> 65.5")
    assert (given_cuts.rule, given_cuts.range) == ("given", (0, 120))
    assert fit_attribute("x", pd.Series([1, 2, 9]), "median").cuts == (2,)
    assert fit_attribute("x", pd.Series(["1", "9", "?"]), "midrange", missing="?").cuts == (5,)
    for rule in ("quantiles(1)", "quantiles(x)", "thirds"):
        with pytest.raises(CodebookError, match="known are labels, midrange, median, quantiles"):
            fit_attribute("x", pd.Series([1, 2]), rule)
    with pytest.raises(CodebookError, match="'x': 'red' is not a finite number to cut at"):
        fit_attribute("x", pd.Series(["1", "red"]), "median")


def test_labels_of_bins_and_groups() -> None:
    assert cut_labels([0.1]) == ("<= 0.1", "> 0.1")
    assert cut_labels([-1.0, 2.5]) == ("<= -1", "(-1, 2.5]", "> 2.5")
    assert group_labels([("a",), ("b", "c", "d"), ()]) == ("a", "b .. d", "(none)")


def test_a_table_is_proposed_for_as_its_file_is(tmp_path: Path) -> None:
    frame = pd.DataFrame(
        {
            "answer": ["x", "y", "x", None],
            "age": [1.5, 2.0, 30.0, 7.25],
            "often": pd.Categorical(["lo", "hi", "lo", "lo"], ["none", "lo", "hi"], ordered=True),
            "same": ["k"] * 4,
        }
    )
    frame.to_parquet(tmp_path / "answers.parquet")
    expected = pp.survey.propose_codebook(tmp_path / "answers.parquet", bins=2, most=3).codebook
    with pytest.warns(pp.errors.ColumnsLeftOut, match=r"^'same': every value is 'k'$"):
        found = pp.Codebook.propose(frame, bins=2, most=3)
    assert found == expected
    assert found["often"].categories == ("none", "lo", "hi")
    with pytest.warns(pp.errors.ColumnsLeftOut):
        assert pp.Codebook.propose(frame.to_dict("list"), bins=2, most=3)["age"] == found["age"]
    found.to_toml(tmp_path / "codebook.toml")
    assert pp.Codebook.read(tmp_path / "codebook.toml") == found
    with pytest.raises(DataError, match="there are no records"):
        pp.Codebook.propose(frame.iloc[:0])
