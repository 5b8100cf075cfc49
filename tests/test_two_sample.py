"""Two samples tell an unknown prevalence from the private share."""

from __future__ import annotations

import math

import numpy as np
import pytest
from strategies import make_codebook

from ppdm_dask import NotInvertible, Records, Reports, Stream
from ppdm_dask.errors import DesignError, RecordsError
from ppdm_dask.inference.two_sample import TwoSample

BOOK = make_codebook(["x", "birthday", "sick"], [3, 2, 2])
SCHEME = TwoSample("sick", "birthday", (0.7, 0.3))


def sample(n, sick, birthday, seed):
    rng = np.random.default_rng(seed)
    columns = [rng.integers(3, size=n), rng.random(n) < birthday, rng.random(n) < sick]
    return Records(np.stack(columns, axis=1).astype(int), BOOK)


def answers(sample_, n, yes):
    codes = np.zeros((n, 1), int)
    codes[:yes] = 1
    return Reports(codes, BOOK.select(["sick"]), 0, SCHEME.digest(sample_))


def test_the_published_estimator():
    """pi = [l1 (1 - q2) - l2 (1 - q1)] / (q1 - q2), with the variance of independent shares."""
    result = SCHEME.estimate(answers(0, 400, 140), answers(1, 600, 150))
    l1, l2 = 0.35, 0.25
    assert math.isclose(result[0].value, (l1 * 0.7 - l2 * 0.3) / 0.4)
    v1, v2 = l1 * (1 - l1) / 399, l2 * (1 - l2) / 599
    error = math.sqrt(0.7**2 * v1 + 0.3**2 * v2) / 0.4
    assert math.isclose(result[0].standard_error, error)
    assert math.isclose(0.7 * result[0].value + 0.3 * result[1].value, l1)
    assert math.isclose(0.3 * result[0].value + 0.7 * result[1].value, l2)
    assert math.isclose(result.covariance[0, 0], error**2)
    assert result.covariance[0, 1] < 0


def test_coverage_and_law_of_the_disguise():
    truth = [sample(30_000, 0.2, 0.6, 1), sample(40_000, 0.2, 0.6, 2)]
    stream = Stream.from_seed(3)
    reports = [SCHEME.disguise(records, h, stream) for h, records in enumerate(truth)]
    for h, (records, made) in enumerate(zip(truth, reports, strict=True)):
        assert made.codebook.names == ("x", "sick")
        np.testing.assert_array_equal(made.column("x"), records.column("x"))
        expected = SCHEME.q[h] * 0.2 + (1 - SCHEME.q[h]) * 0.6
        assert abs(made.column("sick").mean() - expected) < 5 * 0.5 / math.sqrt(len(made))
        same = records.column("sick") == records.column("birthday")
        told = made.column("sick")[same] == records.column("sick")[same]
        assert told.all()
        # In parts, by position.
        part = SCHEME.disguise(records.slice(100, 900), h, stream)
        np.testing.assert_array_equal(part.codes, made.codes[100:900])
    result = SCHEME.estimate(*reports)
    assert abs(result[0].value - 0.2) < 5 * result[0].standard_error
    assert abs(result[1].value - 0.6) < 5 * result[1].standard_error
    assert result[0].standard_error < 0.02


def test_what_cannot_be_estimated_is_refused():
    with pytest.raises(NotInvertible, match=r"same q are not invertible.*condition number"):
        TwoSample("sick", "birthday", (0.4, 0.4)).estimate(answers(0, 9, 3), answers(1, 9, 3))
    with pytest.raises(RecordsError, match="sample 1 holds reports of the other; exchange the two"):
        SCHEME.estimate(answers(1, 9, 3), answers(1, 9, 3))
    with pytest.raises(RecordsError, match="sample 2 has no reports"):
        SCHEME.estimate(answers(0, 9, 3), answers(1, 0, 0))
    with pytest.raises(RecordsError, match="'birthday' with two categories is needed"):
        records = Records(np.zeros((1, 1), int), BOOK.select(["sick"]))
        SCHEME.disguise(records, 0, Stream.from_seed(0))
    with pytest.raises(DesignError, match=r"^q\[1\]: got 1.3"):
        TwoSample("sick", "birthday", (0.4, 1.3))
    with pytest.raises(DesignError, match=r"^q: got .*two probabilities"):
        TwoSample("sick", "birthday", (0.4,))
    single = SCHEME.estimate(answers(0, 1, 1), answers(1, 5, 3))
    assert math.isnan(single[0].standard_error)
