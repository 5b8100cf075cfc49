"""Records and reports: checked, read-only codes with their place in the whole data set."""

from __future__ import annotations

import pickle
from dataclasses import FrozenInstanceError

import numpy as np
import pytest
from strategies import make_codebook

from ppdm_dask import Records, Reports, Stream, Warner
from ppdm_dask.data.codebook import code_dtype
from ppdm_dask.errors import CodebookError, RecordsError

BOOK = make_codebook(["a", "b", "c"], [2, 3, 300], target="a")


def records(n: int = 10, offset: int = 0) -> Records:
    codes = np.arange(3 * n).reshape(n, 3) % np.array([2, 3, 300])
    return Records(codes, BOOK, offset)


def test_codes_take_the_smallest_type():
    assert records().codes.dtype == np.uint16
    assert Records(np.zeros((1, 1), int), make_codebook("a", [256])).codes.dtype == np.uint8
    assert [code_dtype(k).itemsize for k in (1, 2, 256, 257, 65_536, 65_537)] == [1, 1, 1, 2, 2, 4]


def test_columns_are_contiguous_and_read_only():
    own = np.asfortranarray(records().codes)
    kept = Records(own, BOOK)
    assert kept.column("b").flags.contiguous
    with pytest.raises(ValueError, match="read-only"):
        kept.codes[0, 0] = 1
    with pytest.raises(FrozenInstanceError):
        kept.offset = 3
    fresh = np.zeros((2, 3), np.uint16, order="F")
    Records(fresh, BOOK)
    fresh[0, 0] = 1  # the caller's own array is not locked


def test_columns_and_lengths():
    some = records(7)
    assert len(some) == 7
    np.testing.assert_array_equal(some.column("b"), some.codes[:, 1])
    assert len(Records(np.zeros((0, 3), int), BOOK)) == 0
    with pytest.raises(CodebookError, match="no attribute 'z'; there are a, b, c"):
        some.column("z")


def test_select_take_and_slice():
    some = records(20, offset=100)
    chosen = some.select(["c", "a"])
    assert chosen.codebook.names == ("c", "a")
    assert chosen.codebook.target == "a"
    np.testing.assert_array_equal(chosen.codes, some.codes[:, [2, 0]])
    assert chosen.offset == 100
    part = some.slice(5, 8)
    assert (part.offset, len(part)) == (105, 3)
    np.testing.assert_array_equal(part.codes, some.codes[5:8])
    last = some.slice(-3, 20)
    assert (last.offset, len(last)) == (117, 3)
    assert (some.slice(30, 40).offset, len(some.slice(30, 40))) == (120, 0)
    taken = some.take([7, 7, 0])
    assert taken.offset == 0
    np.testing.assert_array_equal(taken.codes, some.codes[[7, 7, 0]])


def test_reports_stay_reports():
    warner = Warner("a", 0.8)
    reports = warner.disguise(records(20, offset=4), Stream.from_seed(1))
    for part in (reports.select(["a", "b"]), reports.take([1, 2]), reports.slice(2, 5)):
        assert isinstance(part, Reports)
        assert (part.design_digest, part.simulated) == (warner.digest, True)
    assert not warner.disguise(records(), Stream.from_entropy()).simulated
    again = pickle.loads(pickle.dumps(reports))
    np.testing.assert_array_equal(again.codes, reports.codes)
    assert (again.offset, again.design_digest) == (4, warner.digest)


@pytest.mark.parametrize(
    ("codes", "says"),
    [
        (np.zeros((2, 2), int), r"codes have shape \(2, 2\); the codebook needs \(n, 3\)"),
        (np.zeros(3, int), r"codes have shape \(3,\)"),
        (np.zeros((2, 3)), "codes have type float64; integers are needed"),
        (np.zeros((2, 3), bool), "codes have type bool"),
        (np.array([[0, 3, 0]]), r"attribute 'b': code 3 is not in 0 \.\. 2"),
        (np.array([[0, 0, 0], [0, 0, -1]]), r"attribute 'c': code -1 is not in 0 \.\. 299"),
        (np.array([[2**63 - 1, 0, 0]]), "attribute 'a': code 9223372036854775807"),
    ],
)
def test_codes_that_do_not_fit_are_refused(codes, says):
    with pytest.raises(RecordsError, match=says):
        Records(codes, BOOK)


def test_a_negative_offset_is_refused():
    with pytest.raises(RecordsError, match="offset: got -1; a whole number of 0 or more"):
        records(3, offset=-1)


# -- survey weights and strata ---------------------------------------------------------------------


def test_survey_weights_and_strata_travel_with_the_records():
    from ppdm_dask import Stream, Warner, count

    book = make_codebook(["a"], [2])
    plain = Records(np.array([[0], [1], [1], [0]]), book, 7)
    records = plain.surveyed([1, 2, 3, 4], [0, 0, 5, 5])
    assert records.offset == 7
    assert records.slice(1, 3).weights.tolist() == [2, 3]
    assert records.take([3, 0]).strata.tolist() == [5, 0]
    design = Warner("a", 0.8)
    reports = design.disguise(records, Stream.from_seed(1))
    assert reports.weights.tolist() == [1, 2, 3, 4]
    assert reports.select(["a"]).strata.tolist() == [0, 0, 5, 5]
    assert not reports.weights.flags.writeable
    np.testing.assert_array_equal(reports.codes, design.disguise(plain, Stream.from_seed(1)).codes)
    with pytest.raises(RecordsError, match="survey weights or strata are not counted"):
        count(reports, design)
    for weights in ([1, 2, 3], [1, 2, 3, 0], [1, 2, 3, np.nan]):
        with pytest.raises(RecordsError, match="weights: 4 positive numbers"):
            plain.surveyed(weights)
    for strata in ([1, 2, 3], [1, 2, 3, -1], [1.5, 2, 3, 1]):
        with pytest.raises(RecordsError, match="strata: 4 whole numbers"):
            plain.surveyed(strata=strata)
