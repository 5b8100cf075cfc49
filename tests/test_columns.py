"""Columns of files and of mappings read as frames of pandas do, value by value and type by type."""

from __future__ import annotations

import datetime
import decimal
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import ppdm_dask as pp
from ppdm_dask.faces.listing import Listing
from ppdm_dask.files import arrow_column
from ppdm_dask.files.any_column import as_column, column_of, joined
from ppdm_dask.files.arrow import arrow_table
from ppdm_dask.files.column import Column, Numbers
from ppdm_dask.files.frame_column import FrameColumn
from ppdm_dask.files.table import Table

MOMENT = datetime.datetime(2026, 11, 29, 14, 5, 30)
D = decimal.Decimal
ARRAYS = {
    "texts": pa.array(["b", None, "a", "b", "3.0", "-99"]),
    "large texts": pa.array(["b", None, "a"], pa.large_string()),
    "dictionary": pa.array(["b", None, "a", "b"]).dictionary_encode(),
    "unsigned dictionary": pa.DictionaryArray.from_arrays(
        pa.array([1, None, 0], pa.uint8()), pa.array(["x", "y"])
    ),
    "dictionary of numbers": pa.array([7, None, 3, 7]).dictionary_encode(),
    "int8": pa.array([1, None, -3, 1], pa.int8()),
    "int64": pa.array([5, 2**60 + 1, None, -3]),
    "whole": pa.array([3, 1, 2, 3]),
    "uint64": pa.array([2**64 - 1, None, 0], pa.uint64()),
    "bool": pa.array([True, None, False]),
    "all true": pa.array([True, True]),
    "double": pa.array([0.1, None, 3.0, float("nan"), float("inf"), -0.0, 0.0, 1e300]),
    "float": pa.array([0.1, None, 3.0, 2.7, 16_777_217.0], pa.float32()),
    "half": pa.array([np.float16(0.1), None, np.float16(3), np.float16(0.1)], pa.float16()),
    "decimal": pa.array([D("1.50"), None, D("2.00")], pa.decimal128(6, 2)),
    "date": pa.array([datetime.date(2026, 11, 29), None]),
    "time": pa.array([datetime.time(14, 5, 30, 250_000), None], pa.time64("us")),
    "seconds": pa.array([MOMENT, None, datetime.datetime(1969, 1, 1)], pa.timestamp("s")),
    "milliseconds": pa.array([MOMENT.replace(microsecond=250_000), None], pa.timestamp("ms")),
    "nanoseconds": pa.array([1_764_425_130_000_000_001, None, -1], pa.timestamp("ns")),
    "zone": pa.array([MOMENT, None], pa.timestamp("us", "Europe/Berlin")),
    "duration": pa.array([90_061_000_000_001, None, -1, 0, 10**9], pa.duration("ns")),
    "long duration": pa.array([1, None, -90_061], pa.duration("s")),
    "none": pa.nulls(3),
    "bytes": pa.array([b"ab", None, b"\xff"], pa.binary()),
}


def texts(column: Column) -> list[str | None]:
    """Text of each value, by the positions and texts that a column gives."""
    found = []
    for positions, labels in (column.coded(), column.factorised()):
        found.append([labels[i] if i >= 0 else None for i in np.asarray(positions).tolist()])
    assert found[0] == found[1]
    return found[0]


def alike(ours: Column, theirs: Column) -> None:
    assert len(ours) == len(theirs)
    assert texts(ours) == texts(theirs)
    appearing = dict.fromkeys(text for text in texts(ours) if text is not None)
    assert ours.factorised()[1] == theirs.factorised()[1] == list(appearing)
    assert ours.cells() == theirs.cells()
    assert ours.kind == theirs.kind
    numbers, expected = ours.numbers(), theirs.numbers()
    assert (numbers is None) == (expected is None)
    if numbers is not None and expected is not None:
        np.testing.assert_array_equal(numbers, expected)


@pytest.mark.parametrize("kept", [False, True])
@pytest.mark.parametrize("name", ARRAYS)
def test_arrow_is_read_as_its_frame_is(name: str, kept: bool) -> None:
    batch = pa.table({"a": pa.chunked_array([ARRAYS[name].slice(0, 2), ARRAYS[name].slice(2)])})
    table = arrow_table(batch, ["a"] if kept else [])
    series = table.to_frame()["a"]
    if kept:
        assert series.dtype == pd.ArrowDtype(ARRAYS[name].type)
    if kept and name == "unsigned dictionary":  # which pandas does not take apart
        assert texts(table["a"]) == ["y", None, "x"]
    elif kept and name == "none":  # of which some releases of pandas make a text
        assert texts(table["a"]) == [None] * 3
    elif kept and name == "double":  # one that is not a number is missing here, and "nan" there
        assert texts(table["a"])[3] is None
    elif kept and name == "half":  # which is single precision in all frames but this one
        assert texts(table["a"])[1:3] == [None, "3"]
    else:
        alike(table["a"], FrameColumn(series))
    back = table["a"].arrow(table["a"].arrow().type)
    assert FrameColumn(pd.Series(back.to_pylist(), dtype=object)).cells() == [
        "" if v is None or v != v else str(v) for v in back.to_pylist()
    ]
    part = table.take(np.array([False, *[True] * (len(ARRAYS[name]) - 1)]))
    assert texts(part["a"]) == texts(table["a"])[1:]
    assert texts(table.take(slice(1, 2))["a"]) == texts(table["a"])[1:2]


def test_a_kept_column_of_numbers_is_converted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """As an attribute it is asked for its numbers, their kind, and the texts of a message."""
    made = []

    def converted(array: Any) -> Numbers | None:
        made.append(array)
        return numbers_of(array)

    numbers_of = arrow_column._numbers_of
    monkeypatch.setattr(arrow_column, "_numbers_of", converted)
    attribute = pp.Attribute("a", ("<= 30", "> 30"), cuts=(30,))
    book = pp.Codebook((attribute,))
    for chunks in ([[20, None, 40]], [[20], [None, 40]]):
        made.clear()
        column = pa.chunked_array([pa.array(chunk, pa.int64()) for chunk in chunks])
        table = arrow_table(pa.table({"a": column}), ["a"])
        known = pp.Attribute("a", ("<= 30", "> 30"), cuts=(30,), missing="<= 30")
        assert pp.Codebook((known,)).encode(table).column("a").tolist() == [0, 0, 1]
        with pytest.raises(pp.InputError, match="missing"):
            book.encode(table)
        assert texts(table["a"]) == ["20", None, "40"]
        assert table["a"].cells() == ["20", "", "40"]
        np.testing.assert_array_equal(table["a"].to_numpy(), [20, np.nan, 40])
        assert len(made) == 1


def test_frames_of_files_have_their_types() -> None:
    """As they had before there were columns of our own."""
    whole = pa.table({name: ARRAYS[name].slice(0, 2) for name in ARRAYS})
    kinds = {name: str(kind) for name, kind in arrow_table(whole).to_frame().dtypes.items()}
    assert kinds == {
        **dict.fromkeys(("texts", "large texts", "dictionary", "unsigned dictionary"), "category"),
        "dictionary of numbers": "Int64",
        "int8": "Int8",
        "int64": "Int64",
        "whole": "Int64",
        "uint64": "UInt64",
        "bool": "boolean",
        "all true": "boolean",
        "double": "float64",
        "float": "float32",
        "half": "float16",
        **dict.fromkeys(("decimal", "date", "time", "none", "bytes"), "object"),
        "seconds": "datetime64[s]",
        "milliseconds": "datetime64[ms]",
        "nanoseconds": "datetime64[ns]",
        "zone": "datetime64[us, Europe/Berlin]",
        "duration": "timedelta64[ns]",
        "long duration": "timedelta64[s]",
    }


COLUMNS = {
    "texts": ["b", "a", "b"],
    "texts with gaps": ["b", None, "a"],
    "empty texts": ["", "a", None],
    "whole": [3, 1, 3],
    "whole with gaps": [3, None, 1],
    "large": [2**70, 1, None],
    "floats": [0.5, 3.0, float("nan")],
    "both": [1, 2.5, 1],
    "truth": [True, False, True],
    "truth with gaps": [True, None, False],
    "mixed": [1, 1.0, True, "1", None, float("nan"), D("1")],
    "none": [None, None],
    "tuple": ("x", "y"),
    "range": range(3),
    "int32": np.array([3, 1, 3], np.int32),
    "float32": np.array([0.1, np.nan, 3.0], np.float32),
    "unicode": np.array(["b", "a"]),
    "objects": np.array([1, None, 2.5], object),
    "text objects": np.array(["b", None, "b"], object),
    "moments": np.array(["2026-11-29T14:05", "NaT"], "datetime64[s]"),
    "nan objects": np.array(["b", np.nan], object),
}


@pytest.mark.parametrize("name", COLUMNS)
def test_mappings_are_read_as_frames_of_them(name: str) -> None:
    values = COLUMNS[name]
    theirs = FrameColumn(pd.DataFrame({"a": values})["a"])
    alike(Table.of_mapping({"a": values})["a"], theirs)
    alike(as_column(values if isinstance(values, np.ndarray) else list(values)), theirs)


def test_half_a_sign_is_a_text() -> None:
    """Arrow has no such text, nor has pandas with Arrow's."""
    for values in (["\ud800", "a", None], np.array(["\ud800", "a", None], object)):
        assert texts(column_of(values)) == ["\ud800", "a", None]


def test_one_value_stands_for_all_rows_and_lengths_are_equal() -> None:
    table = Table.of_mapping({"a": ["x", "y"], "b": 3, "c": "z"})
    assert (len(table), texts(table["b"]), texts(table["c"])) == (2, ["3"] * 2, ["z"] * 2)
    labelled = {"a": pd.Series([1, 2], index=[1, 0]), "b": pd.Series([3, 4])}
    assert Table.of_mapping(labelled).to_frame().equals(pd.DataFrame(labelled))
    arrays = {"a": pl.Series(["x", None]), "n": pa.array([1, None]), "d": pa.array([MOMENT] * 2)}
    found = Table.of_mapping(arrays)
    assert [texts(found[name]) for name in "an"] == [["x", None], ["1", None]]
    assert texts(found["d"]) == ["2026-11-29 14:05:30"] * 2
    for wrong in ({"a": [1], "b": [1, 2]}, {"a": 1}, {"a": {1, 2}}):
        with pytest.raises(pp.InputError, match="not a table of equally long columns"):
            Table.of_mapping(wrong)


@pytest.mark.parametrize("name", ARRAYS)
def test_blocks_that_are_joined_hold_their_values(name: str) -> None:
    column = arrow_table(pa.table({"a": ARRAYS[name]}))["a"]
    for parts in ([column, column], [column.take(slice(0, 1)), column.take(slice(1, None))]):
        whole = joined(parts)
        assert texts(whole) == [text for part in parts for text in texts(part)]
    odd = joined([column, column_of([1, "x"]), column_of(["x"])])
    assert texts(odd)[-3:] == ["1", "x", "x"]


def test_a_block_without_rows_has_the_type_of_the_others() -> None:
    whole = arrow_table(pa.table({"a": pa.array([1, None, 3])}))["a"]
    empty = arrow_table(pa.table({"a": pa.array([], pa.int64())}))["a"]
    kind = whole.series().dtype
    assert empty.series().dtype == kind
    for parts in ([empty, whole], [whole, empty]):
        assert joined(parts).series().dtype == kind


# -- results ---------------------------------------------------------------------------------------


def numbers(rng: np.random.Generator, n: int, scale: float) -> np.ndarray:
    found = rng.normal(size=n) * scale
    found[rng.random(n) < 0.15] = np.nan
    found[rng.random(n) < 0.1] = 0.0
    return np.where(rng.random(n) < 0.2, found.round(2), found)


@pytest.mark.parametrize("n", [1, 2, 7, 60, 61, 150])
@pytest.mark.parametrize("scale", [1e-9, 1e-4, 1.0, 300.0, 1e7, 1e12])
def test_listings_are_printed_as_pandas_does(n: int, scale: float) -> None:
    rng = np.random.default_rng(n)
    rows = [f"label {i}" if i % 3 else "a\tb" for i in range(n)]
    x, y = numbers(rng, n, scale), np.where(rng.random(n) < 0.5, 0.25, 1.0)
    y[-1] = np.inf
    listing = Listing.of({"s": rows, "proportion": x.tolist(), "a long name": y, "k": ["x"] * n})
    frame = listing.to_frame()
    assert listing.to_string() == frame.to_string(index=False)
    assert listing.to_string(most=60) == frame.to_string(index=False, max_rows=60)
    form = "{:.4f}".format
    named = Listing.of({"estimate": x, "lower": y}, ("share", rows))
    frame = named.to_frame()
    assert frame.index.name == "share"
    assert named.to_string(form) == frame.to_string(float_format=form)
    assert named.to_string(form, 60) == frame.to_string(float_format=form, max_rows=60)
    assert named.to_string(most=60) == frame.to_string(max_rows=60)


def test_frames_of_results_have_their_columns_and_types() -> None:
    book = pp.Codebook((pp.Attribute("a", ("x", "y")), pp.Attribute("b", ("u", "v", "w"))))
    text = str(pd.DataFrame({"a": ["x"]})["a"].dtype)
    frame = book.to_frame()
    assert frame.columns.tolist() == ["attribute", "kind", "categories", "labels"]
    assert frame.dtypes.astype(str).tolist() == [text, text, "int64", "object"]
    assert frame["labels"].tolist() == [("x", "y"), ("u", "v", "w")]
    design = pp.Warner("a", 0.8).bind(book)
    answers = {"a": ["x", "y"] * 50, "b": ["u", "v", "w", "w"] * 25}
    reports = design.disguise(answers, stream=pp.Stream.from_seed(1))
    estimate = pp.estimate(reports, ["a"], by="b").to_frame()
    heads = ["b", "a", "proportion", "standard_error", "lower", "upper"]
    assert estimate.columns.tolist() == heads
    assert estimate.dtypes.astype(str).tolist() == [text, text, *["float64"] * 4]
    counts = pp.count(reports).to_frame()
    assert counts.dtypes.astype(str).tolist() == [text, text, "int64"]
    plan = pp.plan({"no": 0.8, "yes": 0.2}, half_width=0.05, max_posterior=0.6).to_frame()
    assert plan.index.name == "design"
    kinds = plan.dtypes.astype(str)
    whole = ["n", "complete", "invited", "invited_with_devices"]
    assert kinds[whole].tolist() == ["Int64"] * 4
    assert kinds["times_best"] == "float64"
