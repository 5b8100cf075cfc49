"""Survey weights, strata, conditions, several events at once, and tests of independence."""

from __future__ import annotations

import math

import checks
import numpy as np
import pytest
from scipy.stats import chi2, chi2_contingency, kstest
from strategies import make_codebook, random_records

from ppdm_dask import (
    Identity,
    InputError,
    KaryResponse,
    Product,
    Records,
    RRMatrix,
    Stream,
    UnrelatedQuestion,
    Warner,
    count,
    event_weights,
    invert,
)
from ppdm_dask.inference import (
    association_test,
    estimate,
    independence_test,
    sum_event,
)
from ppdm_dask.inference.stratified import Stratified

DESIGN = Product(
    [Warner("w", 0.8), RRMatrix(["a", "b"], checks.JOINT_SKEWED, [2, 2]), KaryResponse("k", 3, 0.6)]
)
BOOK = make_codebook(["b", "u", "w", "k", "a"], [2, 2, 2, 3, 2])


def made(n=1_500, seed=1, **survey):
    records = random_records(BOOK, n, seed).surveyed(**survey)
    return DESIGN.disguise(records, Stream.from_seed(seed))


def survey(n, seed=2):
    rng = np.random.default_rng(seed)
    return {
        "weights": rng.uniform(0.2, 5, n),
        "strata": rng.choice([0, 3, 7], n, p=[0.5, 0.3, 0.2]),
    }


def plain(W, F, d, strata):
    """Ratio and linearised standard error, stratum by stratum."""
    ratio = (d * W).sum() / (d * F).sum()
    z = d * (W - ratio * F) / (d * F).sum()
    total = 0.0
    for h in set(strata.tolist()):
        part = z[strata == h]
        total += len(part) / (len(part) - 1) * ((part - part.mean()) ** 2).sum()
    return ratio, math.sqrt(total)


def test_weighted_and_stratified_proportions_by_plain_sums():
    n = 1_500
    reports = made(n, **survey(n))
    event, condition = {"a": "1", "k": ["0", "2"]}, {"b": "0", "u": "1"}
    W = event_weights(reports, DESIGN, event)
    single = estimate(reports, event, design=DESIGN)
    expected = plain(W, np.ones(n), reports.weights, reports.strata)
    assert (single.value, single.standard_error) == pytest.approx(expected, rel=1e-10)
    within = estimate(reports, event, design=DESIGN, where=condition)
    both = event_weights(reports, DESIGN, {**event, **condition})
    F = event_weights(reports, DESIGN, condition)
    expected = plain(both, F, reports.weights, reports.strata)
    assert (within.value, within.standard_error) == pytest.approx(expected, rel=1e-10)
    for names in (["k"], ["k", "w"], ["a"], ["u", "b"]):
        guess = estimate(reports, names, design=DESIGN)
        for cell in np.ndindex(*guess.values.shape):
            chosen = {name: str(c) for name, c in zip(names, cell, strict=True)}
            W = event_weights(reports, DESIGN, chosen)
            value, error = plain(W, np.ones(n), reports.weights, reports.strata)
            assert abs(guess.values[cell] - value) < 1e-12
            assert float(guess.standard_error[cell]) == pytest.approx(error, rel=1e-8)


def test_equal_weights_and_one_stratum_change_nothing():
    reports = made(900)
    weighted = reports.surveyed(np.full(900, 2.5), np.full(900, 4))
    for estimand in ("population", "file"):
        one = estimate(reports, {"a": "1"}, design=DESIGN, estimand=estimand)
        two = estimate(weighted, {"a": "1"}, design=DESIGN, estimand=estimand)
        assert one.value == pytest.approx(two.value, rel=1e-12)
        assert one.standard_error == pytest.approx(two.standard_error, rel=1e-9)
        table = estimate(reports, ["k", "w"], design=DESIGN, estimand=estimand)
        summed = estimate(weighted, ["k", "w"], design=DESIGN, estimand=estimand)
        np.testing.assert_allclose(summed.values, table.values, atol=1e-12)
        np.testing.assert_allclose(summed.variance, table.variance, atol=1e-14)
        within = estimate(
            reports, {"a": "1"}, design=DESIGN, where={"a": ["0", "1"]}, estimand=estimand
        )
        assert within.value == pytest.approx(one.value, rel=1e-12)
        assert within.standard_error == pytest.approx(one.standard_error, rel=1e-9)


def test_strata_agree_with_owners():
    """SE^2 = sum n_h s_h^2 / n^2, as Stratified has it for reports of several designs."""
    one, two = made(400, 5), made(700, 6)
    codes = np.concatenate([one.codes, two.codes])
    both = type(one)(codes, BOOK, 0, DESIGN.digest, True, strata=np.repeat([0, 1], [400, 700]))
    owners = Stratified([DESIGN, DESIGN]).estimate([one, two], {"a": "1"})
    strata = estimate(both, {"a": "1"}, design=DESIGN)
    assert strata.value == pytest.approx(owners.value, rel=1e-12)
    assert strata.standard_error == pytest.approx(owners.standard_error, rel=1e-9)


def test_sums_of_partitions_add_up_whatever_the_strata():
    n = 600
    reports = made(n, **survey(n))
    whole = sum_event(reports, DESIGN, {"a": "1"}, {"w": "1"})
    parts = [
        sum_event(reports.slice(i, i + 200), DESIGN, {"a": "1"}, {"w": "1"}) for i in (0, 200, 400)
    ]
    lone = sum_event(reports.take(reports.strata == 7), DESIGN, {"a": "1"}, {"w": "1"})
    rest = sum_event(reports.take(reports.strata != 7), DESIGN, {"a": "1"}, {"w": "1"})
    for total in (parts[0] + parts[1] + parts[2], lone + rest):
        assert total.strata.tolist() == [0, 3, 7]
        np.testing.assert_allclose(total.values(), whole.values(), rtol=1e-12)
        np.testing.assert_allclose(total.variances(), whole.variances(), rtol=1e-9)


def test_what_is_undefined_says_why():
    reports = made(50, strata=np.repeat([0, 1], [49, 1]))
    single = estimate(reports, {"a": "1"}, design=DESIGN)
    assert math.isfinite(single.value)
    assert math.isnan(single.standard_error)  # a stratum of one report
    book = make_codebook(["a", "b"], [2, 2])
    design = Product([Warner("a", 0.8), Warner("b", 0.8)])
    codes = np.zeros((9, 2), int)
    none = type(reports)(codes, book, 0, design.digest)
    with pytest.raises(InputError, match=r"where: its estimated proportion is -0\.333"):
        estimate(none, {"b": "1"}, design=design, where={"a": "1"})
    with pytest.raises(InputError, match=r"does not store the counts.*list of events"):
        estimate(reports, ["a"], design=DESIGN).covariance  # noqa: B018


def test_conditional_proportions_are_right():
    rng = np.random.default_rng(3)
    n = 200_000
    a = rng.random(n) < 0.3
    k = np.where(a, rng.choice(3, n, p=[0.7, 0.2, 0.1]), rng.choice(3, n, p=[0.1, 0.3, 0.6]))
    codes = np.zeros((n, 5), int)
    codes[:, 3], codes[:, 4] = k, a
    reports = DESIGN.disguise(Records(codes, BOOK), Stream.from_seed(4))
    guess = estimate(reports, ["k"], design=DESIGN, where={"a": "1"})
    z = (guess.values - [0.7, 0.2, 0.1]) / guess.standard_error
    assert np.abs(z).max() < 4.5
    assert guess.standard_error.max() < 0.02


def test_joint_estimates_and_their_covariance():
    n = 1_200
    reports = made(n)
    events = [{"a": "1"}, {"b": "1"}, {"a": "1", "b": "1"}, {"w": "1"}, {"k": ["0", "1"], "u": "1"}]
    joint = estimate(reports, events, design=DESIGN)
    W = np.stack([event_weights(reports, DESIGN, event) for event in events])
    np.testing.assert_allclose(joint.values, W.mean(axis=1), atol=1e-13)
    np.testing.assert_allclose(joint.covariance, np.cov(W) / n, rtol=1e-9)
    for estimand in ("population", "file"):
        joint = estimate(reports, events, design=DESIGN, estimand=estimand)
        for i, event in enumerate(events):
            single = estimate(reports, event, design=DESIGN, estimand=estimand)
            assert joint.covariance[i, i] == pytest.approx(single.standard_error**2, rel=1e-9)
    # A difference, against the covariance of the inverted table.
    table = invert(count(reports, DESIGN, ["a", "b"]), DESIGN)
    values, C = table.values.ravel(), table.covariance
    difference = estimate(reports, [{"a": "1"}, {"b": "1"}], design=DESIGN).combine([1, -1])
    c = np.array([0, -1, 1, 0])  # cells (b, a) or (a, b) = 00, 01, 10, 11
    if tuple(table.labels) == ("b", "a"):
        c = -c
    assert difference.value == pytest.approx(c @ values, abs=1e-12)
    assert difference.standard_error == pytest.approx(math.sqrt(c @ C @ c), rel=1e-9)
    n = 300
    weighted = made(n, **survey(n))
    one = estimate(weighted, events, design=DESIGN)
    for i, event in enumerate(events):
        single = estimate(weighted, event, design=DESIGN)
        assert one.covariance[i, i] == pytest.approx(single.standard_error**2, rel=1e-9)


# -- independence ----------------------------------------------------------------------------------


def test_chi_square_of_undisguised_records_is_pearsons():
    book = make_codebook(["x", "y"], [2, 3])
    counts = np.array([[30, 20, 10], [15, 25, 40]])
    codes = np.repeat(np.stack(np.unravel_index(np.arange(6), (2, 3)), 1), counts.ravel(), axis=0)
    identity = Identity(["x", "y"], [2, 3])
    split = Product([Identity("x", [2]), Identity("y", [3])])
    records = Records(codes, book)
    expected = chi2_contingency(counts, correction=False)
    test = independence_test(count(records, split), split, "x", "y")
    assert (test.statistic, test.freedom) == pytest.approx((expected.statistic, 2))
    assert test.p_value == pytest.approx(expected.pvalue)
    assert test.cramers_v == pytest.approx(math.sqrt(expected.statistic / 140))
    with pytest.raises(InputError, match="'x' and 'y' are disguised together by 'identity'"):
        independence_test(count(records, identity), identity, "x", "y")
    wald = association_test(count(records, identity), identity, "x", "y")
    assert wald.freedom == 2
    assert 0.5 < wald.statistic / expected.statistic < 2


def p_values(design, names, joint, n, test, repeats, seed):
    """p values over samples of records from a joint law of two attributes."""
    rng = np.random.default_rng(seed)
    book = make_codebook(names, joint.shape)
    order = list(design.attributes)
    law = design.apply(joint.transpose([names.index(a) for a in order]).ravel())
    values = []
    for _ in range(repeats):
        counts = rng.multinomial(n, law).reshape([joint.shape[names.index(a)] for a in order])
        table = count(Records(np.zeros((0, 2), int), book), Identity(names, joint.shape))
        table = type(table)(book.select(order), counts.astype(np.int64), None, design.digest, True)
        values.append(test(table, design, *names).p_value)
    return np.array(values)


INDEPENDENT = np.outer([0.35, 0.65], [0.5, 0.2, 0.3])
BLOCKS = Product([Warner("x", 0.75), RRMatrix("y", checks.SKEWED)])
TOGETHER = UnrelatedQuestion(["x", "y"], 0.6, [0.3, [0.2, 0.5, 0.3]])


@pytest.mark.parametrize(
    ("design", "test"),
    [(BLOCKS, independence_test), (BLOCKS, association_test), (TOGETHER, association_test)],
)
def test_p_values_are_uniform_under_independence_and_small_under_association(design, test):
    found = p_values(design, ["x", "y"], INDEPENDENT, 4_000, test, 400, seed=7)
    assert kstest(found, "uniform").pvalue > 1e-4
    assert (found < 0.05).mean() < 0.09
    linked = INDEPENDENT + 0.08 * np.array([[1, -0.5, -0.5], [-1, 0.5, 0.5]])
    assert (p_values(design, ["x", "y"], linked, 4_000, test, 50, seed=8) < 0.01).mean() > 0.9


def test_the_plain_chi_square_would_be_wrong_for_a_common_coin():
    """Reports of one block depend though the truth does not: what the test must account for."""
    law = TOGETHER.apply(INDEPENDENT.ravel()).reshape(2, 3)
    counts = law * 4_000
    statistic = chi2_contingency(counts, correction=False).statistic
    assert chi2.sf(statistic, 2) < 0.01


def test_one_category_is_independent_of_anything():
    design = Product([Identity("x", [1]), Warner("y", 0.8)])
    records = random_records(make_codebook(["x", "y"], [1, 2]), 30, seed=9)
    reports = design.disguise(records, Stream.from_seed(10))
    for test in (independence_test, association_test):
        result = test(count(reports, design), design, "x", "y")
        assert (result.statistic, result.freedom, result.p_value) == (0, 0, 1)
    with pytest.raises(InputError, match="two different attributes"):
        association_test(count(reports, design), design, "x", "x")
