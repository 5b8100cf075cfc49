"""Association rules: the textbook's on the truth, unbiased and honest on reports."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy.stats import false_discovery_control

import ppdm_dask as pp

SHAPE = (2, 2, 3, 2)
NAMES = "abcd"
BOOK = pp.Codebook(
    tuple(pp.Attribute(n, tuple(map(str, range(k)))) for n, k in zip(NAMES, SHAPE, strict=True))
)
BLOCKS = pp.Product(
    [
        pp.UnrelatedQuestion(["a", "b"], 0.7, [[0.4, 0.6], [0.7, 0.3]]),
        pp.KaryResponse("c", 3, p=0.8),
        pp.Warner("d", 0.85),
    ]
)


def records(n: int, seed: int) -> pp.Records:
    rng = np.random.default_rng(seed)
    a = rng.random(n) < 0.4
    b = np.where(rng.random(n) < 0.85, a, rng.random(n) < 0.5)
    c = np.where(b & (rng.random(n) < 0.7), 2, rng.integers(0, 3, n))
    d = rng.random(n) < 0.3 + 0.4 * (c == 2)
    return pp.Records(np.column_stack([a, b, c, d]).astype(np.uint8), BOOK)


def textbook(codes: np.ndarray, least: float, confidence: float, longest: int) -> dict:
    """All rules by counting every combination of items."""
    found, n = {}, len(codes)
    items = [(i, v) for i, k in enumerate(SHAPE) for v in range(k)]
    for length in range(2, longest + 1):
        for chosen in itertools.combinations(items, length):
            if len({i for i, _ in chosen}) < length:
                continue
            hold = {item: codes[:, item[0]] == item[1] for item in chosen}
            both = np.logical_and.reduce(list(hold.values())).sum()
            for size in range(1, length):
                for first in itertools.combinations(chosen, size):
                    second = tuple(x for x in chosen if x not in first)
                    left, right = (
                        np.logical_and.reduce([hold[x] for x in part]).sum()
                        for part in (first, second)
                    )
                    if both / n >= least and left and both / left >= confidence:
                        key = tuple(
                            tuple((NAMES[i], str(v)) for i, v in part) for part in (first, second)
                        )
                        found[key] = both / n, both / left, both / left / (right / n)
    return found


@pytest.mark.parametrize(("least", "confidence"), [(0.05, 0.5), (0.15, 0.7), (0.002, 0.9)])
def test_on_undisguised_records_they_are_the_textbooks(least: float, confidence: float) -> None:
    clean = records(900, 1)
    found = pp.association_rules(clean, min_support=least, min_confidence=confidence, max_length=4)
    expected = textbook(clean.codes, least, confidence, 4)
    assert {(r.antecedent, r.consequent) for r in found} == set(expected)
    for rule in found:
        numbers = rule.support, rule.confidence, rule.lift
        np.testing.assert_allclose(numbers, expected[rule.antecedent, rule.consequent], rtol=1e-12)
    # A table of counts says the same.
    design = pp.Identity(BOOK.names, BOOK.shape)
    counted = pp.association_rules(
        pp.count(clean, design), design, min_support=least, min_confidence=confidence, max_length=4
    )
    assert [str(rule) for rule in counted] == [str(rule) for rule in found]


def test_errors_are_those_of_the_binomial_and_of_repetitions() -> None:
    clean = records(900, 1)
    (rule,) = [
        r
        for r in pp.association_rules(clean, max_length=2, min_confidence=0.5)
        if str(r) == "a = 1 -> b = 1"
    ]
    left = (clean.codes[:, 0] == 1).sum()
    c = rule.confidence
    assert rule.confidence_error == pytest.approx(math.sqrt(c * (1 - c) / left), rel=0.01)
    made = []
    for seed in range(120):
        reports = BLOCKS.disguise(records(900, seed), pp.Stream.from_seed(seed))
        rules = pp.association_rules(
            reports, attributes=["a", "c"], min_support=0.01, min_confidence=0.01, max_length=2
        )
        made += [r for r in rules if str(r) == "a = 1 -> c = 2"]
    assert len(made) == 120
    whole = pp.association_rules(
        records(400_000, 7), attributes=["a", "c"], min_confidence=0.01, max_length=2
    )
    truth = next(r for r in whole if str(r) == "a = 1 -> c = 2")
    for name in ("support", "confidence", "lift"):
        values = np.array([getattr(r, name) for r in made])
        errors = np.array([getattr(r, f"{name}_error") for r in made])
        assert errors.mean() == pytest.approx(values.std(ddof=1), rel=0.2)
        assert abs(values.mean() - getattr(truth, name)) < 4 * values.std() / math.sqrt(120)


def test_the_adjusted_p_values_are_scipys() -> None:
    reports = BLOCKS.disguise(records(3_000, 2), pp.Stream.from_seed(2))
    found = pp.association_rules(reports, min_support=0.001, min_confidence=0.001, test="lift")
    known = [r for r in found if not math.isnan(r.p)]
    assert len(known) > 20
    # All that were tested are there, or the rest has p = 1 and larger.
    lowest = sorted(r.p for r in known)[:15]
    rest = [1.0] * (found.tested - len(lowest))
    expected = false_discovery_control([*lowest, *rest])[:15]
    np.testing.assert_allclose(sorted(r.q for r in known)[:5], expected[:5], rtol=1e-9)


def test_sets_are_left_out_by_what_they_may_at_most_be() -> None:
    reports = BLOCKS.disguise(records(20_000, 3), pp.Stream.from_seed(3))
    every = pp.association_rules(reports, min_support=1e-9, min_confidence=0.5, max_length=4)
    some = pp.association_rules(reports, min_support=0.2, min_confidence=0.5, max_length=4)
    assert some.tested < every.tested
    large = {str(r) for r in every if r.support >= 0.2}
    assert {str(r) for r in some} == large


@pytest.mark.slow
def test_false_rules_are_as_rare_as_asked_for() -> None:
    """Of the rules reported at FDR 10 %, those whose true confidence is below the bound."""
    truth = textbook(records(2_000_000, 9).codes, 0.0, 0.0, 3)
    false = []
    for seed in range(120):
        reports = BLOCKS.disguise(records(1_500, 1_000 + seed), pp.Stream.from_seed(seed))
        found = pp.association_rules(reports, min_support=0.05, min_confidence=0.6, fdr=0.1)
        wrong = [truth[r.antecedent, r.consequent][1] < 0.6 for r in found]
        false.append(np.mean(wrong) if wrong else 0.0)
    assert np.mean(false) <= 0.1 + 3 * np.std(false) / math.sqrt(len(false))
    assert sum(map(bool, false)) > 0


def test_what_cannot_be_asked_is_refused() -> None:
    clean = records(100, 1)
    for options, words in (
        ({"min_support": 0}, "min_support: got 0"),
        ({"min_confidence": 1.5}, "min_confidence"),
        ({"max_length": 1}, "max_length"),
        ({"test": "chi"}, "test: got 'chi'"),
        ({"fdr": 1}, "fdr"),
        ({"attributes": ["a", "x"]}, "attributes: got x; there are a, b, c, d"),
        ({"level": 1.0}, "level"),
    ):
        with pytest.raises(pp.InputError, match=words):
            pp.association_rules(clean, **options)  # type: ignore[arg-type]
