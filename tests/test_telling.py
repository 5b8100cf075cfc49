"""An error shows its value in the process that read it, and takes it nowhere else."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ppdm_dask as pp
from ppdm_dask.cluster.partitions import (
    Refusal,
    disguise_and_count,
    frame_partitions,
    guarded,
    opened,
    parquet_partitions,
)
from ppdm_dask.cluster.worker import Failure
from ppdm_dask.errors import CodebookError, DataError, InputError, PPDMError, RecordsError
from ppdm_dask.perturb import AIBR

BOOK = pp.Codebook(
    (
        pp.Attribute("smokes", ("no", "yes")),
        pp.Attribute("age", ("<= 40", "> 40"), cuts=(40,), range=(18, 90)),
    )
)
DESIGN = pp.Warner("smokes", 0.8)
SECRET = 7_913_554.25


def refused(smokes: object = "no", age: object = 20) -> CodebookError:
    frame = pd.DataFrame({"smokes": ["no", "yes", smokes], "age": [20, 30, age]}, dtype=object)
    with pytest.raises(CodebookError) as caught:
        BOOK.encode(frame, 100)
    return caught.value


def everything(error: BaseException) -> bytes:
    """All that a pickled exception, its text and its attributes hold."""
    return pickle.dumps(error) + repr((str(error), error.args, vars(error))).encode()


@pytest.mark.parametrize("place", [{"smokes": "secret-1"}, {"age": SECRET}, {"age": "secret-1"}])
def test_an_undeclared_value_is_shown_here_and_not_elsewhere(place: dict[str, object]) -> None:
    error = refused(**place)
    (name, value), *_ = place.items()
    assert str(value) in str(error)
    there = pickle.loads(pickle.dumps(error))
    assert type(there) is CodebookError
    assert (there.row, there.subject) == (102, None)
    assert str(there).startswith(f"attribute {name!r}, row 102: the value is ")
    assert str(value).encode() not in pickle.dumps(error)
    assert str(value).encode() not in everything(there)


WORDS = st.text(st.characters(exclude_categories=["Cs", "Cc", "Z"]), min_size=3, max_size=20)


@settings(max_examples=40, deadline=None)
@given(WORDS, st.sampled_from(["smokes", "age"]))
def test_no_text_leaves_with_an_error(text: str, name: str) -> None:
    value = f"\u2020{text}\u2020"
    error = refused(**{name: value})
    for told in (pickle.dumps(error), pickle.dumps(Failure.of(error))):
        assert value.encode() not in told
        assert value.encode("unicode_escape") not in told
    assert name in str(pickle.loads(pickle.dumps(error)))


def test_codes_and_numbers_stay_as_well() -> None:
    with pytest.raises(RecordsError, match=r"code 77 is not in 0 \.\. 1") as caught:
        pp.Records(np.array([[0, 0], [77, 1]]), BOOK, 5)
    assert str(caught.value.without_data()) == "attribute 'smokes': a code is not in 0 .. 1"
    assert caught.value.row == 6
    fitted = AIBR(3).fit(pd.DataFrame({"x": [1.0, 2.0, 3.0]}))
    with pytest.raises(DataError, match=r"7\.91355e") as lost:
        fitted.perturb(pd.DataFrame({"x": [2.0, SECRET]}), pp.Stream.from_seed(1))
    assert str(lost.value.without_data()) == (
        "column 'x', row 1: the value lies outside the fitted range"
    )


def fails(error: Exception) -> None:
    raise error


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (DataError("column 'age' is absent", "age"), "column 'age' is absent"),
        (FileNotFoundError(2, "No such file", "a.parquet"), "a.parquet: No such file"),
    ],
)
def test_a_task_says_what_holds_no_data(error: Exception, told: str) -> None:
    answer = guarded(fails, ["age"], error)
    assert isinstance(answer, Refusal)
    with pytest.raises(PPDMError) as caught:
        opened(answer)
    assert str(caught.value) == told


@pytest.mark.parametrize(
    "error",
    [
        ValueError("could not convert string to float: 'secret-1'"),
        DataError("value 'secret-1' is wrong", "secret-1"),
        RecordsError("codes are wrong", np.array([7_913_554])),
    ],
)
def test_a_task_withholds_what_could_hold_data(error: Exception) -> None:
    answer = guarded(fails, ["age"], error)
    assert type(error).__name__ in str(answer.error)
    assert f"in {__file__.rpartition('/')[2]}, line " in str(answer.error)
    told = everything(answer.error) + repr(answer).encode() + pickle.dumps(answer)
    assert b"secret" not in told and b"7913554" not in told
    # A sum of results passes it on.
    assert guarded(sum, ["age"], [1, answer]) is answer


def test_without_a_cluster_the_value_is_shown(tmp_path) -> None:
    frame = pd.DataFrame({"smokes": ["no", "secret-1"], "age": [20, 30]})
    frame.to_parquet(tmp_path / "data.parquet")
    for parts in (frame_partitions(frame, 2), parquet_partitions(tmp_path / "data.parquet", BOOK)):
        with pytest.raises(CodebookError, match="row 1: value 'secret-1' is not declared"):
            disguise_and_count(parts, BOOK, DESIGN, pp.Stream.from_seed(1), [["smokes"]])


def test_frames_do_not_show_in_what_carries_them() -> None:
    frame = pd.DataFrame({"smokes": ["secret-1"], "other": ["secret-2"]}, index=["secret-3"])
    (part,) = frame_partitions(frame, 1)
    assert "secret" not in repr(part)
    narrow = part.read.narrowed(["smokes"])
    assert narrow().to_dict("list") == {"smokes": ["secret-1"]}
    shipped = pickle.dumps(narrow)
    assert b"secret-1" in shipped
    assert b"secret-2" not in shipped and b"secret-3" not in shipped


def test_streams_of_a_real_disguise_are_not_copied() -> None:
    for stream in (pp.Stream.from_entropy(), pp.Stream.from_entropy().child(1)):
        for copied in (pickle.dumps, copy.copy, copy.deepcopy):
            with pytest.raises(InputError, match="use disguise_and_count or disguise_and_sum"):
                copied(stream)
