"""What result variables are called, against what their numbers are."""

from __future__ import annotations

import numpy as np
import pytest

from ppdm_dask import UnrelatedQuestion, privacy
from ppdm_dask.experiments.results import digest
from ppdm_dask.experiments.sweep.results import variable


def pse_of_first(P: np.ndarray, prior: np.ndarray) -> float:
    """PSE of the first of two binary attributes for a reader of the whole report, plainly."""
    joint = (P * prior).reshape(-1, 2, 2).sum(axis=2)
    total = joint.sum(axis=1)
    return float(sum(t - (row**2).sum() / t for t, row in zip(total, joint, strict=True)))


def test_a_reader_of_the_whole_report_may_be_left_with_less() -> None:
    """The variable is of readers of one answer, and says so: it bounds no other reader."""
    design = UnrelatedQuestion(["a", "b"], q=0.6)
    prior = np.array([0.45, 0.05, 0.05, 0.45])
    own = privacy.per_attribute(privacy.pse, design, prior.reshape(2, 2))["a"]
    whole = pse_of_first(design.matrix(), prior)
    assert whole < own - 0.02
    doc = variable("pse").doc
    assert doc.startswith("Least PSE of readers of one answer")
    assert "whole record" not in doc
    assert "may be left with less" in doc


def test_the_least_of_the_attributes_it_is() -> None:
    from ppdm_dask.experiments.sweep.results import _least

    axes = {"data": ["x", "y"], "column": ["x/a", "x/b", "y/a"]}
    found = _least(np.array([[0.3, 0.4], [0.2, 0.5], [0.1, 0.6]]), axes)
    assert found.tolist() == [[0.2, 0.4], [0.1, 0.6]]


def test_a_description_is_no_part_of_the_digest() -> None:
    xr = pytest.importorskip("xarray")
    values = ("data", [0.25])
    made = [
        xr.Dataset({"majority": (*values, {"long_name": doc})}, {"data": ["x"]}, {"grid": "[]"})
        for doc in ("one", "another")
    ]
    assert digest(made[0]) == digest(made[1])
