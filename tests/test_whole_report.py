"""The adversary who reads all of a block's report: a device and its word, a list and its count."""

import math
from typing import Any

import numpy as np
import pytest

import ppdm_dask as pp

MIXED = {
    "id": "mixed",
    "by": "form",
    "categories": ["no", "yes"],
    "devices": {
        "A": {"id": "crosswise", "attribute": "used", "p": 0.25},
        "B": {
            "id": "forced",
            "attribute": "used",
            "forced_probability": {"yes": 1 / 6, "no": 1 / 12},
        },
    },
}
LISTED = {
    "id": "itemcount",
    "attribute": "used",
    "count": "statements",
    "items": 3,
    "categories": ["no", "yes"],
    "trait": "yes",
    "treated": "long",
    "control": "short",
    "share": 0.5,
}


def measures(design: Any, name: str) -> dict[str, float | None]:
    (found,) = [each for each in pp.audit.audit(design, {}) if each.name == name]
    return {each.measure: each.value for each in found.findings}


def test_a_device_and_its_word_tell_more_than_the_word() -> None:
    """By hand: 'no' to the forced device has 10/12 where it is true, and 1/12 where it is not."""
    found = measures(pp.designs.design_from_config(MIXED), "used from the whole report")
    assert found["epsilon"] == pytest.approx(math.log(10))
    assert found["worst posterior"] == pytest.approx(10 / 11)
    # The best guess: right in 3/4 of form A, and in (11/12 + 10/12) / 2 of form B.
    assert found["MAP privacy"] == pytest.approx(1 - (3 / 4 + 21 / 24) / 2)


def test_a_list_and_its_count_tell_the_trait() -> None:
    """None of a long list apply: nobody with the trait says so; four: everybody who does has it."""
    found = measures(pp.designs.design_from_config(LISTED), "used from the whole report")
    assert found["epsilon"] == math.inf
    assert found["worst posterior"] == pytest.approx(1)
    # Half get the long list, and 2 of its 8 pairs of trait and count are certain.
    assert found["MAP privacy"] == pytest.approx(1 - (1 / 2 / 2 + (1 / 4 + 3 / 4 / 2) / 2))


def test_attributes_disguised_independently_need_no_second_table() -> None:
    P = np.kron([[0.8, 0.2], [0.2, 0.8]], [[0.7, 0.3], [0.3, 0.7]])
    subjects = pp.audit.audit(pp.RRMatrix(["a", "b"], P, shape=[2, 2]), {})
    assert [each.name for each in subjects] == ["a, b (matrix)", "a alone", "b alone"]
