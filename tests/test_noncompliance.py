"""Models of respondents who do not follow the instructions, against brute force and simulation."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binom, chi2

import ppdm_dask as pp


def brute_force(counts: Any, shares: Any) -> float:
    """Log likelihood with its binomial coefficients, for arrays of shares of each sample."""
    return sum(binom.logpmf(y, n, s) for (y, n), s in zip(counts, shares, strict=True))


def grid() -> tuple[Any, Any]:
    steps = np.linspace(0, 1, 801)
    pi, beta = np.meshgrid(steps, steps, indexing="ij")
    inside = pi + beta <= 1 + 1e-12
    return pi[inside], beta[inside]


@pytest.mark.parametrize(
    "counts",
    [
        ((350, 1000), (550, 1000)),  # inside
        ((100, 400), (330, 500)),  # pi below 0
        ((70, 100), (90, 120)),  # gamma below 0 or near it
        ((60, 100), (50, 100)),  # beta below 0
    ],
)
def test_cheating_is_most_likely_by_brute_force(counts: Any) -> None:
    p = (0.25, 0.75)
    found = pp.noncompliance(counts, p)
    pi, beta = grid()
    values = brute_force(counts, [pi + beta * x for x in p])
    best = values.argmax()
    np.testing.assert_allclose(found.most_likely[:2], [pi[best], beta[best]], atol=2e-3)
    assert found.most_likely.sum() == pytest.approx(1)
    honest = np.abs(pi + beta - 1) < 1e-9
    expected = 2 * (values.max() - values[honest].max())
    assert found.statistic == pytest.approx(expected, abs=2e-2)
    if found.statistic > 0:
        assert found.p_value == pytest.approx(chi2.sf(found.statistic, 1) / 2)
    else:
        assert found.p_value == 1


def test_closed_forms() -> None:
    (y1, n1), (y2, n2) = counts = ((350, 1000), (550, 1200))
    l1, l2, p1, p2 = y1 / n1, y2 / n2, 0.2, 0.7
    found = pp.noncompliance(counts, (p1, p2))
    beta = (l2 - l1) / (p2 - p1)
    pi = (p2 * l1 - p1 * l2) / (p2 - p1)
    np.testing.assert_allclose(found.values, [pi, beta, 1 - pi - beta])
    v1, v2 = l1 * (1 - l1) / (n1 - 1), l2 * (1 - l2) / (n2 - 1)
    squares = np.array(
        [
            p2**2 * v1 + p1**2 * v2,
            v1 + v2,
            (1 - p2) ** 2 * v1 + (1 - p1) ** 2 * v2,
        ]
    )
    np.testing.assert_allclose(found.standard_errors, np.sqrt(squares) / (p2 - p1))


def test_the_lie_detector_has_its_published_estimators() -> None:
    (y1, n1), (y2, n2) = counts = ((430, 1000), (250, 900))
    l1, l2, p1, p2 = y1 / n1, y2 / n2, 0.25, 0.75
    found = pp.noncompliance(counts, (p1, p2), "lie-detector")
    pi = (l2 - l1 + p2 - p1) / (p2 - p1)
    t = (l2 * (1 - p1) - l1 * (1 - p2)) / (l2 - l1 + p2 - p1)
    np.testing.assert_allclose(found.values, [pi, t])
    error = np.sqrt(l1 * (1 - l1) / (n1 - 1) + l2 * (1 - l2) / (n2 - 1)) / (p2 - p1)
    assert found.standard_errors[0] == pytest.approx(error)


def test_the_crosswise_sample_turned_round_is_one_sample() -> None:
    p, counts = 0.2, ((620, 1000), (360, 1100))
    found = pp.noncompliance(counts, p, "crosswise")
    # All answers as of the first device: what an unrelated program has of one crosswise sample.
    same = (620 + 1100 - 360) / 2100
    assert found.values[0] == pytest.approx((same + p - 1) / (2 * p - 1))
    warner = pp.Warner("x", theta=0.8)
    book = pp.Codebook((pp.Attribute("x", ("no", "yes")),))
    codes = np.repeat([[1], [0]], [2100 - 1360, 1360], axis=0)
    reports = pp.Reports(codes, book, 0, warner.digest)
    plain = pp.estimate(reports, {"x": "yes"}, design=warner)
    assert found.values[0] == pytest.approx(plain.value)
    assert found.standard_errors[0] == pytest.approx(float(plain.standard_error))
    steps = np.linspace(0.3, 0.9, 200_001)
    null = brute_force(counts, [steps, 1 - steps]).max()
    top = brute_force(counts, [620 / 1000, 360 / 1100])
    assert found.statistic == pytest.approx(2 * (top - null), abs=1e-6)
    assert found.p_value == pytest.approx(chi2.sf(found.statistic, 1))


@pytest.mark.parametrize(
    ("model", "p", "truth"),
    [
        ("cheating", (0.2, 0.8), (0.25, 0.6, 0.15)),
        ("lie-detector", (0.3, 0.8), (0.4, 0.7)),
        ("crosswise", 0.2, (0.15,)),
    ],
)
def test_intervals_cover_shares_of_people_who_act_like_that(
    model: Any, p: Any, truth: tuple[float, ...]
) -> None:
    draw = np.random.default_rng(11)
    n, runs = 1500, 600
    devices = (p, 1 - p) if model == "crosswise" else p
    inside = np.zeros((runs, len(truth)))
    values = np.zeros((runs, len(truth)))
    for run in range(runs):
        samples = []
        for device in devices:
            # Person by person, by the instructions, not by the formula of their sum.
            kind = draw.random(n)
            coin = draw.random(n) < device
            if model == "cheating":
                cheats = kind >= truth[0] + truth[1]
                yes = ((kind < truth[0]) | coin) & ~cheats
            elif model == "lie-detector":
                trait = kind < truth[0]
                yes = np.where(trait, draw.random(n) < truth[1], ~coin)
            else:
                yes = (kind < truth[0]) == coin
            samples.append((int(yes.sum()), n))
        found = pp.noncompliance(samples, p, model)
        table = found.to_frame()
        values[run] = found.values
        inside[run] = (table.lower.to_numpy() <= truth) & (truth <= table.upper.to_numpy())
    np.testing.assert_allclose(inside.mean(axis=0), 0.95, atol=0.03)
    bias = (values.mean(axis=0) - truth) / values.std(axis=0)
    assert np.abs(bias).max() < 0.15


def test_fair_coins_are_not_seen_by_the_crosswise_test() -> None:
    found = pp.noncompliance([(500, 1000), (500, 1000)], 0.2, "crosswise")
    assert found.statistic == 0
    assert found.values[0] == pytest.approx(0.5)
    biased = pp.noncompliance([(650, 1000), (550, 1000)], 0.2, "crosswise")
    assert biased.p_value < 1e-6


def test_records_are_counted() -> None:
    book = pp.Codebook((pp.Attribute("used", ("no", "yes")),))
    tables = [pd.DataFrame({"used": ["yes"] * a + ["no"] * b}) for a, b in ((7, 13), (22, 18))]
    samples = [book.encode(table) for table in tables]
    found = pp.noncompliance(samples, (0.25, 0.75))
    assert found.counts == ((7, 20), (22, 40))
    assert pp.noncompliance(samples, (0.25, 0.75), label="no").counts == ((13, 20), (18, 40))
    assert "everybody complies" in repr(found)


@pytest.mark.parametrize(
    ("samples", "p", "model", "said"),
    [
        ([(1, 2)], (0.1, 0.2), "cheating", "samples: two are needed"),
        ([(3, 2), (1, 2)], (0.1, 0.2), "cheating", "answers: got 3"),
        ([(1, 2), (1, 2)], 0.1, "cheating", "two probabilities are needed"),
        ([(1, 2), (1, 2)], (0.1, 0.1), "cheating", "two devices that differ"),
        ([(1, 2), (1, 2)], 0.5, "crosswise", "tells nothing"),
        ([(1, 2), (1, 2)], (0.1, 1.2), "lie-detector", "p: got 1.2"),
        ([(1, 2), (1, 2)], (0.1, 0.2), "honest", "model: got 'honest'"),
    ],
)
def test_refusals(samples: Any, p: Any, model: Any, said: str) -> None:
    with pytest.raises(pp.InputError, match=said):
        pp.noncompliance(samples, p, model)
