"""Small inputs with known right values, each checked by hand or by two independent programs."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import binomtest
from strategies import make_codebook, reports_of

from ppdm_dask import (
    KaryResponse,
    NotInvertible,
    RRMatrix,
    UnrelatedQuestion,
    Warner,
    count,
    invert,
    privacy,
)
from ppdm_dask.inference.proportions import estimate
from ppdm_dask.inference.tables import ContingencyTable

YES_NO = make_codebook(["a"], [2])


def answers(design, n, yes):
    codes = np.repeat([1, 0], [yes, n - yes])[:, None]
    return reports_of(codes, YES_NO, design)


SHARES = [
    ("warner-380", Warner("a", 0.8), 1000, 380, 0.3, 0.0255949),
    ("warner-negative", Warner("a", 0.8), 100, 15, -0.083333, 0.0598117),
    ("unrelated-known", UnrelatedQuestion("a", 0.7, 0.5), 1000, 420, 0.3857143, 0.0223079),
]


@pytest.mark.parametrize(("name", "design", "n", "yes", "share", "error"), SHARES)
def test_one_proportion(name, design, n, yes, share, error):
    reports = answers(design, n, yes)
    single = estimate(reports, {"a": "1"}, design=design)
    result = invert(count(reports, design), design)
    for value in (single.value, result.values[1]):
        assert value == pytest.approx(share, abs=5e-7)
    for value in (single.standard_error, float(result.standard_error[1])):
        assert value == pytest.approx(error, abs=5e-8)
    low, high = single.interval(0.95, method="wald")
    assert low == pytest.approx(share - 1.959964 * error, abs=1e-6)
    assert high == pytest.approx(share + 1.959964 * error, abs=1e-6)
    np.testing.assert_allclose(result.interval(method="wald").values[1], [low, high], atol=1e-12)
    # By default Wilson's interval of the share of yes, as the design maps it.
    wilson = binomtest(yes, n).proportion_ci(method="wilson")
    mapped = [(end - yes / n) / (design.matrix()[1, 1] - design.matrix()[1, 0]) for end in wilson]
    assert single.interval() == pytest.approx([share + m for m in mapped], abs=1e-6)
    np.testing.assert_allclose(result.interval().values[1], single.interval(), atol=1e-12)


def test_warner_380_variance_over_n():
    """6.54444e-4 divides by n where the package divides by n - 1."""
    result = invert(count(answers(Warner("a", 0.8), 1000, 380), Warner("a", 0.8)), Warner("a", 0.8))
    assert result.variance[1] * 999 / 1000 == pytest.approx(6.54444e-4, abs=5e-10)


def test_warner_negative_stays_negative_until_projected():
    design = Warner("a", 0.8)
    result = invert(count(answers(design, 100, 15), design), design)
    assert result.values[1] < 0
    assert result.negative_share == 0.5
    assert result.project().values.tolist() == [1, 0]


def test_warner_half_is_not_invertible():
    half = Warner("a", 0.5)
    with pytest.raises(NotInvertible, match="not invertible"):
        invert(count(answers(half, 10, 5), half), half)


def exact_mse(design, prior, n):
    """Variance of each inverted proportion over samples of n records from the prior."""
    B = np.linalg.inv(design.matrix())
    law = design.matrix() @ prior
    return ((B**2) @ law - (B @ law) ** 2) / n


def test_kary_variance():
    design = KaryResponse("a", 4, epsilon=1.0986122886681098)
    prior = np.array([0.4, 0.3, 0.2, 0.1])
    expected = np.array([1.89, 1.76, 1.61, 1.44]) / 1000
    np.testing.assert_allclose(exact_mse(design, prior, 1000), expected, atol=5e-9)
    # The estimate's own variance at the expected table, which holds whole counts.
    counts = np.rint(design.matrix() @ prior * 1_000_000).astype(np.int64)
    table = ContingencyTable(make_codebook(["a"], [4]), counts, None, design.digest)
    variance = invert(table, design).variance
    np.testing.assert_allclose(variance * 999_999 / 1_000, expected, rtol=1e-6)


def test_theorem_6():
    design, prior = Warner("a", 0.8), np.array([0.3, 0.7])
    np.testing.assert_allclose(exact_mse(design, prior, 1000), 6.544e-4, atol=5e-8)
    reports = answers(design, 1000, 380)  # the expected answers at p = .3
    variance = invert(count(reports, design), design).variance * 999 / 1000
    np.testing.assert_allclose(variance, 6.544e-4, atol=5e-8)


def test_matrix_3():
    design = RRMatrix("a", [[0.8, 0.1, 0.1], [0.1, 0.8, 0.1], [0.1, 0.1, 0.8]])
    book = make_codebook(["a"], [3])
    table = ContingencyTable(book, np.array([700, 250, 50]), None, design.digest)
    result = invert(table, design)
    np.testing.assert_allclose(result.values, [0.857143, 0.214286, -0.071429], atol=5e-7)
    np.testing.assert_allclose(result.project().values, [0.821429, 0.178571, 0], atol=5e-7)
    assert result.negative_share == 1 / 3


def test_pse():
    assert float(privacy.pse_unrelated(0.3, 0.2, 0.6)) == pytest.approx(0.254969, abs=5e-7)
    assert UnrelatedQuestion("a", 0.6, 0.2).pse([0.7, 0.3]) == pytest.approx(0.254969, abs=5e-7)


def test_map_privacy():
    design, prior = Warner("a", 0.8), [0.3, 0.7]
    assert math.isclose(design.privacy(prior), 0.20, abs_tol=1e-12)
    assert design.max_posterior(prior) == pytest.approx(0.903226, abs=5e-7)
