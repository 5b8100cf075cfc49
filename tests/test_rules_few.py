"""p-values of rules that hold for any number of reports, and false rules in many simulations."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy.stats import binomtest, fisher_exact, multinomial

import ppdm_dask as pp
from ppdm_dask.mine.betting import independence_p, mean_p
from ppdm_dask.mine.rules import Rules

A, B = np.array([0, 0, 1, 1]), np.array([0, 1, 0, 1])
"""Who has the antecedent and the consequent, by true cell."""


def weights(keep: float) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Channel of two Warner designs, and weights of both, the first and the second by report."""
    P = np.array([[keep, 1 - keep], [1 - keep, keep]])
    whole = np.kron(P, P)
    B_T = np.linalg.inv(whole).T
    return whole, B_T @ (A * B), B_T @ A, B_T @ B


def outcomes(n: int, cells: int) -> np.ndarray:
    """All counts of n reports in some cells."""
    bars = itertools.combinations(range(n + cells - 1), cells - 1)
    ends = np.array([(-1, *each, n + cells - 1) for each in bars])
    return np.diff(ends, axis=1) - 1


def laws(step: int) -> np.ndarray:
    return outcomes(step, 4) / step


@pytest.mark.parametrize("keep", [1.0, 0.9, 0.75])
@pytest.mark.parametrize("test", ["confidence", "lift"])
def test_no_law_of_the_hypothesis_makes_p_small_more_often_than_it_says(
    keep: float, test: str
) -> None:
    """By all outcomes of a few reports, under a grid of all true laws that have no such rule."""
    n, c = {"confidence": 7, "lift": 12}[test], 0.6
    whole, both, first, second = weights(keep)
    seen = outcomes(n, 4)
    if test == "confidence":
        u = (both - c * first)[None, :]
        p = np.array([mean_p(u, each)[0][0] for each in seen])
    else:
        p = np.array([independence_p(both, first, second, each)[0] for each in seen])
    true = laws(12)
    of_first, of_second, of_both = true @ A, true @ B, true @ (A * B)
    bound = c * of_first if test == "confidence" else of_first * of_second
    true = true[of_both <= bound + 1e-12]
    assert len(true) > 200
    # Chance of each outcome under each law, and of a p of at most each that there is.
    chance = np.array([multinomial.pmf(seen, n, law) for law in true @ whole.T])
    order = np.argsort(p)
    reached = np.cumsum(chance[:, order], axis=1)
    last = np.append(np.diff(p[order]) > 1e-12, True)
    assert (reached[:, last] <= p[order][last] + 1e-9).all()
    assert p.min() < {"confidence": 0.3, "lift": 0.6}[test]
    # Nor are they idle: what goes together is seen to.
    some = np.array([70, 5, 5, 70])
    sure = (
        mean_p((both - 0.5 * first)[None, :], some)[0][0]
        if test == "confidence"
        else independence_p(both, first, second, some)[0]
    )
    assert sure < 1e-4


def test_of_undisguised_answers_they_are_the_binomials_and_fishers() -> None:
    rng = np.random.default_rng(4)
    _, both, first, second = weights(1.0)
    for _ in range(30):
        counts = rng.integers(0, 9, 4) + np.array([1, 0, 0, 1])
        (p,), (how,) = mean_p((both - 0.7 * first)[None, :], counts)
        held = int(counts[3]), int(counts[2] + counts[3])
        assert p == pytest.approx(binomtest(*held, 0.7, alternative="greater").pvalue)
        assert how == "binomial"
        table = counts.reshape(2, 2)
        p, how = independence_p(both, first, second, counts)
        assert p == pytest.approx(fisher_exact(table, alternative="greater").pvalue)
        assert how == "hypergeometric"


def test_where_z_deceives_p_does_not() -> None:
    """Rare reports with large negative weights: a z of 3 is reached in one sample of ten."""
    n, times = 400, 20_000
    u = np.array([-60.0, 0.35, 0.3, -0.2])
    law = np.array([0.005, 0.85, 0.1, 0.0])
    law[3] = 1 - law.sum()
    u = u - law @ u  # a mean of 0
    counts = np.random.default_rng(5).multinomial(n, law, size=times)
    mean = counts @ u / n
    z = mean / np.sqrt((counts @ u**2 / n - mean**2) / (n - 1))
    assert (z >= 3).mean() > 0.1
    kinds, which = np.unique(counts, axis=0, return_inverse=True)
    p = np.array([mean_p(u[None, :], each)[0][0] for each in kinds])[which.ravel()]
    for level in (0.001, 0.01, 0.05, 0.1):
        assert (p <= level).mean() <= level + 3 * math.sqrt(level / times)


def test_a_rule_that_few_reports_carry_has_a_p_of_its_own() -> None:
    book = pp.Codebook((pp.Attribute("a", ("n", "y")), pp.Attribute("b", ("n", "y"))))
    codes = np.repeat([[0, 0], [0, 1], [1, 0], [1, 1]], [40, 3, 1, 6], axis=0).astype(np.uint8)
    options = {"min_support": 0.01, "min_confidence": 0.3, "max_length": 2}
    clean = pp.Records(codes, book)

    def of(test: str) -> pp.mine.Rule:
        found = pp.association_rules(clean, test=test, **options)
        return next(rule for rule in found if str(rule) == "a = y -> b = y")

    assert of("confidence").p == pytest.approx(binomtest(6, 7, 0.3, alternative="greater").pvalue)
    assert (of("confidence").by, of("lift").by) == ("binomial", "hypergeometric")
    assert math.isnan(of("lift").z)
    expected = fisher_exact([[6, 1], [3, 40]], alternative="greater").pvalue
    assert of("lift").p == pytest.approx(expected)
    # Disguised, the same rule is tested by betting; none is left without a p.
    design = pp.Product([pp.Warner("a", 0.9), pp.Warner("b", 0.9)])
    reports = design.disguise(clean, pp.Stream.from_seed(3))
    for test in ("confidence", "lift"):
        rules = list(pp.association_rules(reports, test=test, **options))
        assert {rule.by for rule in rules} == {"betting"}
        assert all(0 <= rule.p <= rule.q <= 1 for rule in rules)


EIGHT = tuple("abcdefgh")


def eight_blocks(kind: str) -> pp.Design:
    """Eight attributes in three blocks."""
    if kind == "flips":
        return pp.MultiGroup([EIGHT[:3], EIGHT[3:6], EIGHT[6:]], 0.85)
    rng = np.random.default_rng(8)
    P = 0.8 * np.eye(8) + 0.2 * rng.dirichlet(np.ones(8), 8).T
    rest = pp.MultiGroup([EIGHT[3:6], EIGHT[6:]], 0.85)
    labels = [["0", "1"]] * 3
    matrix = pp.RRMatrix(EIGHT[:3], P, shape=(2, 2, 2), categories=labels)
    return pp.Product([matrix, *rest.blocks])


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["flips", "matrix"])
def test_at_a_rate_of_a_hundredth_false_rules_are_one_in_a_hundred(kind: str) -> None:
    """250 samples of each kind; the confidence that is asked for is the truth of many rules."""
    design = eight_blocks(kind)
    n, times, least = 3_000, 250, 0.5
    # Pairs go together; their other halves are independent coins, with a confidence of just 1/2.
    cells = np.array(list(np.ndindex(*(2,) * 8)))
    law = np.ones(256)
    for first, second in ((0, 3), (1, 6)):
        law *= np.where(cells[:, first] == cells[:, second], 0.425, 0.075)
    law *= 0.25 * 0.25  # the other four
    law /= law.sum()
    book = pp.Codebook(tuple(pp.Attribute(name, ("0", "1")) for name in EIGHT))
    reported = design.apply(law)
    rng = np.random.default_rng(11)
    true: dict[str, float] = {}
    shares = []
    some = 0
    for counts in rng.multinomial(n, reported / reported.sum(), size=times):
        table = pp.ContingencyTable(
            book, counts.reshape((2,) * 8).astype(np.int64), design_digest=design.digest
        )
        found: Rules = pp.association_rules(
            table, design, min_support=0.1, min_confidence=least, max_length=2, fdr=0.01
        )
        false = [_confidence(rule, law, cells, true) <= least + 1e-12 for rule in found]
        shares.append(np.mean(false) if false else 0.0)
        some += len(false)
    assert some > 4 * times  # the rules that there are, are found
    assert np.mean(shares) <= 0.01 + 2 * np.std(shares) / math.sqrt(times)


def _confidence(rule: pp.mine.Rule, law: np.ndarray, cells: np.ndarray, known: dict) -> float:
    key = str(rule)
    if key not in known:
        first, second = (
            np.logical_and.reduce([cells[:, EIGHT.index(a)] == int(v) for a, v in part])
            for part in (rule.antecedent, rule.consequent)
        )
        known[key] = law[first & second].sum() / law[first].sum()
    return known[key]
