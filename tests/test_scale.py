"""Sums of event weights: their scale, their rounding, and how much of a block they touch."""

from __future__ import annotations

import itertools
import math
import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import codes_of, make_codebook, random_records

import ppdm_dask as pp
from ppdm_dask import InputError, perturb
from ppdm_dask.arrays import sum_rounding, to_scale
from ppdm_dask.designs import Design, Flip, Product
from ppdm_dask.errors import RecordsError
from ppdm_dask.inference import (
    association_test,
    estimate,
    independence_test,
    sum_event,
    sum_weights,
)

DESIGN = Product([pp.Warner("a", 0.8), pp.KaryResponse("k", 3, 0.7)])
BOOK = make_codebook(["a", "u", "k"], [2, 2, 3])
REPORTS = DESIGN.disguise(random_records(BOOK, 240, 3), pp.Stream.from_seed(3))
STRATA = np.arange(240) % 3
WHOLE = np.random.default_rng(5).integers(1, 50, 240).astype(float)


def answers(weights) -> list[np.ndarray]:
    """Estimates and errors of every kind, as they come."""
    reports = REPORTS.surveyed(weights, STRATA)
    found = []
    for estimand in ("population", "file"):
        single = pp.estimate(reports, {"a": "1"}, design=DESIGN, estimand=estimand)
        within = pp.estimate(
            reports, {"a": "1"}, design=DESIGN, where={"u": "1"}, estimand=estimand
        )
        table = estimate(reports, ["k", "a"], design=DESIGN, estimand=estimand)
        domain = estimate(
            reports, ["k"], design=DESIGN, where={"a": ["1"], "u": "0"}, estimand=estimand
        )
        joint = estimate(reports, [{"a": "1"}, {"k": ["0", "2"]}], design=DESIGN, estimand=estimand)
        found += [np.array([single.value, single.standard_error])]
        found += [np.array([within.value, within.standard_error])]
        found += [table.values, table.variance, domain.values, domain.variance]
        found += [joint.values, joint.covariance]
    return found


PLAIN = answers(WHOLE)


@settings(max_examples=30, deadline=None)
@given(st.integers(-1074, 1017))
def test_a_power_of_two_changes_no_bit(exponent):
    for got, expected in zip(answers(np.ldexp(WHOLE, exponent)), PLAIN, strict=True):
        np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("scale", [1e-300, 1e-170, 1e-30, 3.0, 1e155, 1e300])
def test_any_other_scale_changes_the_last_bits_only(scale):
    for got, expected in zip(answers(WHOLE * scale), PLAIN, strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-9, atol=1e-14)


def test_parts_at_different_scales_add():
    """One part weighs next to nothing beside the other, and their sum is that of both."""
    heavy, light = WHOLE * 1e160, WHOLE * 1e-170
    one, two = REPORTS.surveyed(heavy), REPORTS.surveyed(light)
    for first, second, expected in ((one, two, one), (two, one, one), (two, two, two)):
        total = sum_weights(first, DESIGN, ["k"]) + sum_weights(second, DESIGN, ["k"])
        alone = sum_weights(expected, DESIGN, ["k"])
        np.testing.assert_allclose(total.values(), alone.values(), rtol=1e-12)
        assert np.isfinite(total.variances()).all()
    parts = [REPORTS.surveyed(WHOLE * 1e-200).slice(i, i + 80) for i in (0, 80, 160)]
    total = sum(
        (sum_event(p, DESIGN, {"a": "1"}) for p in parts[1:]),
        sum_event(parts[0], DESIGN, {"a": "1"}),
    )
    whole = sum_event(REPORTS.surveyed(WHOLE), DESIGN, {"a": "1"})
    np.testing.assert_allclose(total.values(), whole.values(), rtol=1e-12)
    np.testing.assert_allclose(total.variances(), whole.variances(), rtol=1e-9)


def test_weights_are_scaled_to_one_or_above():
    for least in (5e-324, 1e-310, 1.0, 1.5, 1e308):
        scaled, exponent = to_scale(np.array([least, least / 2]))
        assert 1 <= scaled[0] < 2
        assert math.ldexp(scaled[0], exponent) == least
    assert to_scale(np.ones(3))[1] == 0


@settings(max_examples=40, deadline=None)
@given(
    # Squares of what is smaller vanish.
    st.lists(st.floats(-1e3, 1e3).filter(lambda v: abs(v) > 1e-150), min_size=1, max_size=200)
)
def test_rounding_of_a_sum_stays_below_its_bound(values):
    """Terms whose exact sum is 0: each with its opposite, in an order that rounds."""
    terms = np.array(values + [-v for v in values])
    rounded = 0.0
    for term in np.random.default_rng(1).permutation(terms):
        rounded += term
    assert abs(rounded) <= sum_rounding((terms**2).sum(), len(terms))


@settings(max_examples=30, deadline=None)
@given(
    st.integers(3, 6),
    st.integers(1, 40),
    st.sampled_from([0.4, 0.55, 0.7, 0.85]),
    st.integers(0, 9),
)
def test_a_condition_without_a_share_is_refused(k, times, p, seed):
    """Reports of category 0 as often as those who have another category give it: nobody has it."""
    design = Product([pp.Warner("a", 0.8), pp.KaryResponse("b", k, p)])
    # (1 - p) / (k - 1) of n reports, a whole number.
    n = 20 * (k - 1) * times
    zeros = round((1 - p) * 20) * times
    rng = np.random.default_rng(seed)
    codes = np.stack([rng.integers(2, size=n), rng.integers(1, k, size=n)], axis=1)
    codes[rng.permutation(n)[:zeros], 1] = 0
    reports = pp.Reports(codes, make_codebook(["a", "b"], [2, k]), 0, design.digest)
    share = pp.estimate(reports, {"b": "0"}, design=design)
    assert abs(share.value) < 1e-12
    surveyed = reports.surveyed(np.full(n, 0.3), np.arange(n) % 2)
    for records in (reports, surveyed):
        with pytest.raises(InputError, match=r"^where: its estimated proportion is 0;"):
            pp.estimate(records, {"a": "1"}, design=design, where={"b": "0"})
        with pytest.raises(InputError, match=r"^where: its estimated proportion is 0;"):
            estimate(records, ["a"], design=design, where={"b": "0"})
    table = pp.count(reports, design)
    for test in (association_test, independence_test):
        found = test(table, design, "a", "b")
        assert math.isnan(found.cramers_v)
        # With few reports another margin may be below 0, and is named first.
        assert found.reason.endswith("'b' = '0' is 0") or " is -0." in found.reason
        assert 0 <= found.p_value <= 1


def test_a_share_of_one_in_many_is_no_rounding():
    codes = np.zeros((100_000, 2), int)
    codes[7] = 1
    design = pp.Identity(["a", "b"], [2, 2])
    reports = pp.Reports(codes, make_codebook(["a", "b"], [2, 2]), 0, design.digest)
    assert pp.estimate(reports, {"a": "1"}, design=design, where={"b": "1"}).value == 1


def test_the_condition_of_the_manual_table():
    """Warner .8 and k-ary 4 at p = .7, 130 reports, a tenth of them category 0."""
    design = Product([pp.Warner("a", 0.8), pp.KaryResponse("b", 4, 0.7)])
    codes = np.stack([np.arange(130) % 2, 1 + np.arange(130) % 3], axis=1)
    codes[:13, 1] = 0
    reports = pp.Reports(codes, make_codebook(["a", "b"], [2, 4]), 0, design.digest)
    with pytest.raises(InputError, match="estimated proportion is 0; nothing can be said"):
        pp.estimate(reports, {"a": "1"}, design=design, where={"b": "0"})
    found = association_test(pp.count(reports, design), design, "a", "b")
    assert math.isnan(found.cramers_v)
    assert found.reason


def test_one_category_has_no_association_and_says_so():
    design = Product([pp.Warner("a", 0.8), pp.Identity("b", [1])])
    codes = np.stack([np.arange(40) % 2, np.zeros(40, int)], axis=1)
    reports = pp.Reports(codes, make_codebook(["a", "b"], [2, 1]), 0, design.digest)
    found = association_test(pp.count(reports, design), design, "a", "b")
    assert found.reason == "'b' has a single category"


# -- events that exclude one another ---------------------------------------------------------------


def test_the_covariance_of_disjoint_events_in_a_file():
    """The weights of an answer and of its opposite sum to 1, so that they covary at -variance."""
    for weights in (None, WHOLE):
        reports = REPORTS.surveyed(weights)
        both = estimate(reports, [{"a": "0"}, {"a": "1"}], design=DESIGN, estimand="file")
        assert both.covariance[0, 1] == pytest.approx(-both.covariance[0, 0], rel=1e-9)
        assert both.covariance[1, 0] == both.covariance[0, 1]
        assert both.combine([1, 1]).value == pytest.approx(1)
        # What is certain has no error, rather than none that is known.
        assert both.combine([1, 1]).standard_error == 0
        apart = estimate(reports, [{"a": "0"}, {"a": "1"}], design=DESIGN)
        assert apart.combine([1, 1]).standard_error == 0
        assert apart.combine([1, -1]).standard_error > 0


def test_the_covariance_in_a_file_is_unbiased_by_enumeration():
    """All reports that two respondents can give, by their chances."""
    design = pp.KaryResponse("a", 3, 0.7)
    book, truth, P = make_codebook(["a"], [3]), [0, 2], design.matrix()
    events = [{"a": "0"}, {"a": ["1", "2"]}, {"a": "2"}]
    mean = np.zeros(3)
    second, estimated = np.zeros((3, 3)), np.zeros((3, 3))
    for said in itertools.product(range(3), repeat=2):
        chance = math.prod(P[y, x] for y, x in zip(said, truth, strict=True))
        reports = pp.Reports(np.array(said)[:, None], book, 0, design.digest)
        found = estimate(reports, events, design=design, estimand="file")
        mean += chance * found.values
        second += chance * np.outer(found.values, found.values)
        estimated += chance * found.covariance
    np.testing.assert_allclose(mean, [0.5, 0.5, 0.5], atol=1e-12)
    np.testing.assert_allclose(estimated, second - np.outer(mean, mean), atol=1e-12)


@pytest.mark.parametrize("estimand", ["population", "file"])
def test_a_proportion_within_a_condition_that_excludes_it_is_0(estimand):
    for reports in (REPORTS, REPORTS.surveyed(WHOLE, STRATA)):
        found = pp.estimate(
            reports, {"a": "0", "k": "1"}, design=DESIGN, where={"a": "1"}, estimand=estimand
        )
        assert (found.value, found.standard_error) == (0, 0)
        table = estimate(reports, ["a"], design=DESIGN, where={"a": "1"}, estimand=estimand)
        np.testing.assert_allclose(table.values, [0, 1], atol=1e-12)


# -- counts ----------------------------------------------------------------------------------------


def test_counts_below_zero_are_refused():
    book = make_codebook(["a"], [2])
    with pytest.raises(RecordsError, match=r"^counts: got -1; 0 or more are needed"):
        pp.ContingencyTable(book, np.array([-1, 4]))
    large = make_codebook([f"a{i}" for i in range(22)], [2] * 22)
    with pytest.raises(RecordsError, match=r"^counts: got -3"):
        pp.ContingencyTable(large, np.array([5, -3]), np.array([0, 9]))
    for cells in ([9, 0], [3, 3], [-1, 4], [0, 1 << 22]):
        with pytest.raises(RecordsError, match=r"^cells: ascending indices"):
            pp.ContingencyTable(large, np.array([5, 3]), np.array(cells))


@settings(max_examples=50, deadline=None)
@given(st.lists(st.integers(0, 2**63 - 1), min_size=2, max_size=2), st.integers(0, 2**63 - 1))
def test_a_sum_of_counts_is_right_or_refused(counts, more):
    book = make_codebook(["a"], [2])
    try:
        table = pp.ContingencyTable(book, np.array(counts))
    except RecordsError as error:
        assert sum(counts) > 2**63 - 1
        assert "records in all" in str(error)
        return
    assert table.n == sum(counts) <= 2**63 - 1
    other = pp.ContingencyTable(book, np.array([more, 0]))
    if sum(counts) + more > 2**63 - 1:
        with pytest.raises(RecordsError, match="records in all; at most 9223372036854775807"):
            table + other
    else:
        assert (table + other).n == sum(counts) + more


# -- distances -------------------------------------------------------------------------------------


@pytest.mark.parametrize("scale", [1e-300, 1e-170, 7.0, 1e155, 1e300])
def test_metrics_of_a_release_do_not_depend_on_units(scale):
    rng = np.random.default_rng(1)
    A = rng.normal(size=(60, 3))
    A[:, 1] = 0.1  # constant, with a mean that is rounded
    MA = A + 0.1 * rng.normal(size=A.shape)
    for measure in (perturb.distortion, perturb.disclosure):
        np.testing.assert_allclose(measure(A * scale, MA * scale), measure(A, MA), rtol=1e-9)
    assert perturb.disclosure(A, MA).linkage > 0.3
    nothing = np.zeros((4, 1))
    both = perturb.distortion(np.hstack([nothing + 1e-300, nothing]), np.full((4, 2), 1e300))
    assert both.vd == math.inf


# -- how much is touched ---------------------------------------------------------------------------

SIZES = [2, 3, 4, 5, 8, 10, 12, 15, 18, 20]
NAMES = [f"a{i}" for i in range(10)]
WIDE = pp.UnrelatedQuestion(NAMES, 0.6, [[1 / k] * k for k in SIZES])


@pytest.fixture
def peak():
    """Bytes that are allocated at most; the product of all sizes would be 10^9 cells."""
    tracemalloc.start()
    yield lambda: tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()


def test_a_block_is_asked_only_for_what_is_touched(peak):
    reports = WIDE.disguise(
        random_records(make_codebook(NAMES, SIZES), 1_000, 1), pp.Stream.from_seed(1)
    )
    over = ["a9", "a7"]
    found = estimate(reports, over, design=WIDE, where={"a8": ["1", "2", "3"]})
    many = {f"a{i}": ["0", "1", "2"][: SIZES[i]] for i in range(9)}
    given_all = sum_weights(reports, WIDE, ["a9"], many)
    assert peak() < 1 << 27
    small = reports.select(["a7", "a8", "a9"])
    lumped = WIDE.marginal(["a7", "a8", "a9"])
    small = pp.Reports(small.codes, small.codebook, 0, lumped.digest)
    same = estimate(small, over, design=lumped, where={"a8": ["1", "2", "3"]})
    np.testing.assert_allclose(found.values, same.values, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(found.variance, same.variance, rtol=1e-9)
    for label in ("0", "7"):
        weights = pp.event_weights(reports, WIDE, {**many, "a9": label})
        assert given_all.w[0, int(label)] == pytest.approx(weights.sum(), abs=1e-9)


def test_cells_one_by_one_are_those_of_the_table(monkeypatch):
    """A block of many joint categories is not tabulated; its weights are the same."""
    from ppdm_dask.inference import weights as cells

    reports = DESIGN.disguise(random_records(BOOK, 60, 1), pp.Stream.from_seed(2))
    block = pp.UnrelatedQuestion(["a", "k"], 0.6, [0.3, [0.2, 0.5, 0.3]])
    reports = pp.Reports(reports.codes, BOOK, 0, block.digest)
    table = sum_weights(reports, block, ["k"], {"a": "1", "k": ["0", "2"]})
    monkeypatch.setattr(cells, "MAX_TABLE", 0)
    one_by_one = sum_weights(reports.slice(0, 5), block, ["k"], {"a": "1", "k": ["0", "2"]})
    for start in range(5, 60, 5):
        part = reports.slice(start, start + 5)
        one_by_one += sum_weights(part, block, ["k"], {"a": "1", "k": ["0", "2"]})
    for name in ("w", "ddw", "ddwf", "ddww", "f", "ddff"):
        np.testing.assert_allclose(getattr(one_by_one, name), getattr(table, name), rtol=1e-9)


def test_too_many_cells_or_strata_are_refused_before_they_are_made(peak):
    names = [f"b{i}" for i in range(30)]
    design = pp.Identity(names, [2] * 30)
    book = make_codebook(names, [2] * 30)
    reports = pp.Reports(np.zeros((50, 30), int), book, 0, design.digest)
    with pytest.raises(RecordsError, match="1,073,741,824 cells are too many to sum weights for"):
        sum_weights(reports, design, names)
    stratified = reports.surveyed(strata=np.arange(50))
    with pytest.raises(RecordsError, match="1,048,576 cells in 50 strata are too many"):
        sum_weights(stratified, design, names[:20])
    assert peak() < 1 << 30


def test_strata_by_the_thousand_take_a_moment():
    n = 6_000
    reports = DESIGN.disguise(random_records(BOOK, n, 1), pp.Stream.from_seed(2))
    many = reports.surveyed(strata=np.random.default_rng(1).permutation(n) // 2)
    sums = sum_weights(many, DESIGN, ["k"])
    assert len(sums.strata) == n // 2
    expected = sum_weights(reports, DESIGN, ["k"])
    np.testing.assert_allclose(sums.values(), expected.values(), rtol=1e-12)


@pytest.mark.parametrize("q", [0, 0.3, 1 / 3, 1])
@pytest.mark.parametrize("law", [0.5, 0.1, 0.0, [0.2, 0.5, 0.3], [0, 0.5, 0.5]])
def test_epsilon_in_closed_form_is_that_of_the_list(q, law):
    for names in (["a"], ["a", "b"], ["a", "b", "c"]):
        design = pp.UnrelatedQuestion(names, q, [law] * len(names))
        assert design.log_ratio() == pytest.approx(Design.log_ratio(design), rel=1e-14)


@pytest.mark.parametrize(
    "design",
    [
        *(pp.Warner("a", theta) for theta in (0, 0.05, 0.5, 0.8, 1)),
        *(pp.KaryResponse("a", 5, p) for p in (0, 0.1, 0.2, 0.9)),
        *(Flip(names, 0.3) for names in (["a"], ["a", "b"])),
        Flip(["a"], 0),
        pp.Identity("a", [1]),
        pp.Identity(["a", "b"], [2, 3]),
    ],
)
def test_closed_forms_of_other_families(design: Design):
    assert design.log_ratio() == pytest.approx(Design.log_ratio(design), rel=1e-14)
    dense = Design.likelihood_range(design)
    for got, expected in zip(design.likelihood_range(), dense, strict=True):
        np.testing.assert_allclose(got, expected, atol=1e-15)


@pytest.mark.parametrize("k", range(2, 40))
def test_an_answer_that_is_never_true_rules_it_out(k):
    """At p = 0 rounding must leave no chance of the truth, nor one below 0."""
    design = pp.KaryResponse("a", k, 0.0)
    P = design.matrix()
    assert not P.diagonal().any()
    assert (P >= 0).all()
    assert design.epsilon() == math.inf
    assert not design.likelihood_range()[0].any()
    np.testing.assert_allclose(design.left_inverse() @ P, np.eye(k), atol=1e-12)


def test_epsilon_takes_no_memory_by_joint_categories(peak):
    eleven = pp.UnrelatedQuestion([f"a{i}" for i in range(11)], 0.6, [[0.2] * 5] * 11)
    assert eleven.epsilon() == pytest.approx(math.log(1 + 0.6 / (0.4 * 0.2**11)), rel=1e-12)
    many = pp.UnrelatedQuestion([f"a{i}" for i in range(2_000)], 0.6)
    assert many.epsilon() == pytest.approx(math.log(1.5) + 2_000 * math.log(2), rel=1e-12)
    assert Flip([f"a{i}" for i in range(40)], 0.6).epsilon() == math.inf
    both = Product([eleven, pp.UnrelatedQuestion([f"b{i}" for i in range(20)], 0.6)])
    assert both.log_ratio() == pytest.approx(both.epsilon())
    assert peak() < 1 << 26


@pytest.mark.parametrize("method", ["matrix", "left_inverse", "likelihood_range", "unrelated"])
def test_what_lists_a_joint_domain_has_a_bound(peak, method):
    design = pp.UnrelatedQuestion([f"a{i}" for i in range(40)], 0.6)
    with pytest.raises(InputError, match=r"too large") as error:
        value = getattr(design, method)
        value()
    assert "\n" not in str(error.value)
    with pytest.raises(InputError, match="too many to list"):
        Product([pp.KaryResponse(f"a{i}", 10, 0.5) for i in range(9)]).likelihood_range()
    assert peak() < 1 << 24


def test_an_association_of_many_cells_is_refused_before_it_is_made(peak):
    design = Product([pp.KaryResponse("a", 300, 0.5), pp.KaryResponse("b", 300, 0.5)])
    codes = codes_of(np.arange(2_000), (300, 300))
    reports = pp.Reports(codes, make_codebook(["a", "b"], [300, 300]), 0, design.digest)
    with pytest.raises(InputError, match="covariance of 90000 cells"):
        association_test(pp.count(reports, design), design, "a", "b")
    assert peak() < 1 << 26
