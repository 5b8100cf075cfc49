"""Fits by standard errors against normal and Student tails by hand."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.integrate import quad
from strategies import codebook_of, make_codebook

from ppdm_dask import RRMatrix, Warner, invert
from ppdm_dask.inference import fit, likelihood
from ppdm_dask.inference.fit import fit_of_sums
from ppdm_dask.inference.result import Estimate
from ppdm_dask.inference.tables import ContingencyTable

INSIDE, OUTSIDE, SIZE = 1.5, 0.25, 400
"""At 1 a weight varies by 0.5, at 0 by 0.25: errors 0.035 and 0.025."""


def normal_tail(z: float) -> float:
    return math.erfc(z / math.sqrt(2)) / 2


def student_tail(z: float, freedom: float) -> float:
    """Share of Student's law above z, by its density."""
    scale = math.gamma((freedom + 1) / 2) / math.gamma(freedom / 2) / math.sqrt(freedom * math.pi)
    return quad(lambda x: scale * (1 + x * x / freedom) ** (-(freedom + 1) / 2), z, np.inf)[0]


def single(value: float, error: float, size: float, freedom: float | None = None) -> Estimate:
    """One proportion, with the moments of its weights."""
    made = Estimate.single(value, error, 10**6)
    moments = np.array(INSIDE), np.array(OUTSIDE)
    return replace(made, moments=moments, size=size, freedom=freedom)


@pytest.mark.parametrize("error", [0.0, 0.01, 0.02, 0.2, math.nan])
@pytest.mark.parametrize("value", [-0.06, -0.001, 0.0, 0.4, 1.0, 1.002, 1.09])
def test_a_proportion_is_tested_by_the_larger_of_two_errors(value: float, error: float) -> None:
    found = single(value, error, SIZE).fit
    beyond = max(-value, value - 1, 0.0)
    least = math.sqrt((OUTSIDE if value < 0 else INSIDE - 1) / SIZE)
    z = beyond / max(least, 0.0 if math.isnan(error) else error)
    assert found.statistic == pytest.approx(z, abs=1e-9)
    assert found.p_value == pytest.approx(normal_tail(z) if beyond else 1.0, rel=1e-9)
    assert (found.freedom, found.method) == (0, "standard errors")


@pytest.mark.parametrize("freedom", [2.0, 7.5])
def test_the_tail_is_students_where_degrees_of_freedom_are_known(freedom: float) -> None:
    found = single(-0.06, 0.0, SIZE, freedom).fit
    assert found.statistic == pytest.approx(0.06 / 0.025)
    assert found.p_value == pytest.approx(student_tail(0.06 / 0.025, freedom), rel=1e-9)


@pytest.mark.parametrize("many", [1, 2, 3, 40])
@pytest.mark.parametrize("beyond", [0.001, 0.02, 0.1])
def test_of_many_estimates_the_worst_counts_as_often_as_there_are_estimates(many, beyond) -> None:
    value = np.append(np.full(many - 1, 0.5), -beyond)
    moments = np.full(many, INSIDE), np.full(many, OUTSIDE)
    found = fit_of_sums(value, *moments, SIZE, None)
    assert found.statistic == pytest.approx(beyond / 0.025)
    # A probability, however many there are.
    assert found.p_value == pytest.approx(min(many * normal_tail(beyond / 0.025), 1), rel=1e-9)


@pytest.mark.parametrize("size", [29, 30])
def test_thirty_effective_reports_are_needed(size: int) -> None:
    found = single(-0.2, 0.0, size).fit
    assert math.isnan(found.p_value) is (size < 30)
    assert ("fewer than 30" in found.reason) is (size < 30)


RARE = np.array([[0.5, 0.4], [0.499, 0.59], [0.001, 0.01]])


def binomial(count: int, n: int, chance: float) -> float:
    return math.comb(n, count) * chance**count * (1 - chance) ** (n - count)


@pytest.mark.parametrize(
    "counts", [(10, 89, 1), (85, 14, 1), (45, 53, 2), (38, 52, 10), (50, 50, 0), (0, 100, 0)]
)
def test_the_tails_of_each_symbol_are_binomial(counts: tuple[int, int, int]) -> None:
    design, n = RRMatrix("a", RARE), sum(counts)
    table = ContingencyTable(
        codebook_of(design), np.array(counts), None, design.digest, True, design.reported_shape
    )
    # Too few are at most as likely as with the least chance, too many as with the largest one.
    tails = [
        min(
            math.fsum(binomial(i, n, min(row)) for i in range(count + 1)),
            math.fsum(binomial(i, n, max(row)) for i in range(count, n + 1)),
        )
        for count, row in zip(counts, RARE.tolist(), strict=True)
    ]
    found = invert(table, design).fit
    assert found.method == "binomial tails"
    assert found.p_value == pytest.approx(min(6 * min(tails), 1), rel=1e-9)


@pytest.mark.parametrize("most", [1, 2, 3])
@pytest.mark.parametrize("symbols", [2, 3, 4])
def test_tails_take_the_place_of_a_maximum_that_is_too_large(most, symbols, monkeypatch) -> None:
    design = RRMatrix("a", [[0.5, 0.3], [0.3, 0.3], [0.2, 0.4]])  # three symbols of two answers
    table = ContingencyTable(
        codebook_of(design), np.array([30, 50, 20]), None, design.digest, True, (3,)
    )
    monkeypatch.setattr(fit, "MAX_CATEGORIES", most)
    monkeypatch.setattr(fit, "MAX_DENSE", symbols)
    fits = most >= 2 and symbols >= 3
    expected = "likelihood ratio" if fits else "binomial tails"
    assert fit.fit_of_table(table, design).method == expected


@pytest.mark.parametrize("names", [("a", "c"), ("c", "a"), ("b", "c", "a")])
def test_tails_of_what_is_not_disguised_have_no_least_chance(names, monkeypatch) -> None:
    P = np.array([[0.7, 0.1], [0.3, 0.9]])
    shape = {"a": 2, "b": 1, "c": 3}
    book = make_codebook(names, [shape[name] for name in names])
    design, n = RRMatrix("a", P), 40
    # More of one report than its largest chance allows, and of one category of c.
    counts = np.ones([shape[name] for name in names], np.int64)
    counts[tuple(0 if name != "c" else 1 for name in names)] = n - counts.size + 1
    table = ContingencyTable(book, counts, None, design.digest, True)
    monkeypatch.setattr(fit, "MAX_CATEGORIES", 1)
    # Whatever the truth of c is, a report of a has a chance of no more than its row's largest.
    high = [P[at[names.index("a")]].max() for at in np.ndindex(*counts.shape)]
    tails = [
        math.fsum(binomial(i, n, most) for i in range(count, n + 1))
        for count, most in zip(counts.ravel().tolist(), high, strict=True)
    ]
    found = fit.fit_of_table(table, design)
    assert found.method == "binomial tails"
    assert found.p_value == pytest.approx(min(2 * counts.size * min(tails), 1), rel=1e-9)


def test_what_is_found_in_closed_form_takes_no_steps() -> None:
    tall = RRMatrix("a", RARE)
    for design, counts, closed in (
        (Warner("a", 0.8), (30, 20), True),  # inverted
        (Warner("a", 0.8), (45, 5), True),  # a water level
        (tall, (45, 53, 2), False),
    ):
        table = ContingencyTable(
            codebook_of(design), np.array(counts), None, design.digest, True, design.reported_shape
        )
        assert (likelihood.maximum(table, design)[1] == 0) is closed
