"""Estimates against plain statements: information, cut blocks, one stratum, equal weights."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats.contingency import association as scipy_association
from strategies import codebook_of, make_codebook, random_records

from ppdm_dask import Product, Records, Reports, RRMatrix, Stream, UnrelatedQuestion, Warner
from ppdm_dask.designs import Design, Identity, Kuk
from ppdm_dask.errors import InputError, RecordsError
from ppdm_dask.inference import (
    bootstrap,
    invert,
    maximum,
    mle,
    resampling,
    sum_event,
    sum_weights,
)
from ppdm_dask.inference import (
    weights as sums,
)
from ppdm_dask.inference.association import association_test, independence_test
from ppdm_dask.inference.maximum import _polish
from ppdm_dask.inference.proportions import estimate
from ppdm_dask.inference.stratified import Stratified
from ppdm_dask.inference.tables import ContingencyTable, solve_blocks
from ppdm_dask.inference.two_sample import TwoSample
from ppdm_dask.inference.uncertainty import bounded_interval, intervals_of
from ppdm_dask.randomness import LOGICAL_BLOCK

TALL = np.array([[0.6, 0.1, 0.0], [0.2, 0.5, 0.1], [0.1, 0.3, 0.2], [0.1, 0.0, 0.4], [0, 0.1, 0.3]])
EACH = np.random.default_rng(4).dirichlet(np.ones(12), 12).T  # lumpable to none of its attributes


def table_of(design: RRMatrix, counts: np.ndarray) -> ContingencyTable:
    shaped = np.asarray(counts, dtype=np.int64).reshape(design.reported_shape)
    return ContingencyTable(
        codebook_of(design), shaped, None, design.digest, True, design.reported_shape
    )


def test_standard_errors_of_a_maximum_are_of_the_information_within_the_simplex() -> None:
    design = RRMatrix("a", TALL)
    counts = np.array([2_600, 2_700, 1_900, 1_500, 1_300])
    found = mle(table_of(design, counts), design)
    n, law = counts.sum(), TALL @ found.values
    information = TALL.T @ np.diag(counts / n / law**2) @ TALL
    # Directions in which proportions go on summing to 1.
    free = np.array([[1, 0], [0, 1], [-1, -1]])
    covariance = free @ np.linalg.inv(free.T @ information @ free) @ free.T / n
    assert (found.values > 0.05).all()
    assert found.standard_error.to_numpy() == pytest.approx(np.sqrt(np.diag(covariance)), rel=1e-6)
    # The maximum is one: moving along them lowers the likelihood.
    for step in (1e-3 * free.T).tolist() + (-1e-3 * free.T).tolist():
        there = counts @ np.log(TALL @ (found.values + step))
        assert there < counts @ np.log(law)


@pytest.mark.parametrize("limit", [3, 4, 5, 6])
def test_an_exact_maximum_is_looked_for_up_to_a_number_of_symbols(limit, monkeypatch) -> None:
    design = RRMatrix("a", TALL)  # five symbols
    table = table_of(design, np.array([26, 27, 19, 15, 13]))
    monkeypatch.setattr(maximum, "MAX_DENSE", limit)
    if limit >= 5:
        assert mle(table, design).values.sum() == pytest.approx(1)
    else:
        with pytest.raises(InputError, match=rf"5 reported cells are too many .*most {limit}\)"):
            mle(table, design)


@pytest.mark.parametrize("q", [(0.7, 0.3), (1.0, 0.25), (0.0, 0.9)])
def test_two_samples_say_yes_as_often_as_either_answer_is_asked_for(q) -> None:
    for private, personal in itertools.product((0.0, 0.25, 1.0), repeat=2):
        plain = [share * private + (1 - share) * personal for share in q]
        found = TwoSample("a", "b", q).matrix() @ [private, personal]
        assert found.tolist() == pytest.approx(plain, abs=1e-15)


@pytest.mark.parametrize("seed", range(40))
def test_a_face_of_the_simplex_is_kept_only_where_it_is_as_likely(seed: int) -> None:
    rng = np.random.default_rng(seed)
    P, p, f = rng.dirichlet(np.ones(5), 4).T, rng.dirichlet(np.ones(4)), rng.dirichlet(np.ones(5))
    # Of some categories it is said that they are at 0, whether or not the maximum is there.
    z = p * rng.choice([0.1, 10], 4)
    found = _polish(P, f, np.ones((1, 4)), p, z)
    assert f @ np.log(P @ found) >= f @ np.log(P @ p) - 1e-12
    assert found.sum() == pytest.approx(1, abs=1e-12)
    assert (found >= 0).all()
    halves = np.repeat(np.eye(2), 2, axis=1)
    found = _polish(P, f, halves, p, z)
    assert f @ np.log(P @ found) >= f @ np.log(P @ p) - 1e-12


@pytest.mark.parametrize("over", [c for r in (1, 2) for c in itertools.permutations("abc", r)])
def test_some_attributes_of_a_block_that_is_kept_whole(over: tuple[str, ...]) -> None:
    design = RRMatrix(["a", "b", "c"], EACH, [2, 3, 2])
    counts = np.random.default_rng(5).integers(20, 90, 12)
    observed = (counts / counts.sum()).reshape(2, 3, 2)
    whole = (np.linalg.inv(EACH) @ observed.ravel()).reshape(2, 3, 2)
    others = tuple(i for i, name in enumerate("abc") if name not in over)
    kept = [name for name in "abc" if name in over]
    expected = whole.sum(axis=others).transpose([kept.index(name) for name in over])
    assert solve_blocks(observed, tuple("abc"), design, over) == pytest.approx(expected, abs=1e-9)


def test_one_stratum_has_the_moments_of_the_plain_estimate() -> None:
    design = UnrelatedQuestion(["a", "b"], 0.6)
    records = random_records(make_codebook(["a", "b"], [2, 2]), 80, 3)
    reports = design.disguise(records, Stream.from_seed(2))
    for event in ({"a": "1"}, {"a": "1", "b": "0"}):
        one = Stratified([design]).estimate([reports], event)
        plain = estimate(reports, event, design=design)
        assert [*map(float, one.moments)] == pytest.approx([*map(float, plain.moments)], rel=1e-12)
    # Where truths of an event differ, moments are as near to the reports' as can be.
    uneven = RRMatrix("a", [[0.7, 0.2, 0.05], [0.2, 0.5, 0.25], [0.1, 0.3, 0.7]])
    records = random_records(codebook_of(uneven), 80, 3)
    reports = uneven.disguise(records, Stream.from_seed(2))
    one = Stratified([uneven]).estimate([reports], {"a": ["0", "1"]})
    plain = estimate(reports, {"a": ["0", "1"]}, design=uneven)
    assert [*map(float, one.moments)] == pytest.approx([*map(float, plain.moments)], rel=1e-12)


@pytest.mark.parametrize("sizes", [(1,), (1, 1), (2, 1), (5, 4, 3)])
def test_degrees_of_freedom_of_strata(sizes: tuple[int, ...]) -> None:
    warner = Warner("a", 0.8)
    parts = [
        warner.disguise(random_records(codebook_of(warner), n, n), Stream.from_seed(h))
        for h, n in enumerate(sizes)
    ]
    owners = Stratified([warner] * len(sizes))
    # Reports less strata, and 1 where nothing is left.
    expected = {(1,): 1, (1, 1): 1, (2, 1): 1, (5, 4, 3): 9}[sizes]
    assert owners.estimate(parts, {"a": "1"}).freedom == expected
    assert owners.estimate(parts, ["a"]).freedom == expected


@pytest.mark.parametrize("event", [{"a": "1"}, {"a": "1", "b": "0"}])
def test_moments_of_strata_count_by_their_shares(event: dict[str, str]) -> None:
    designs = [UnrelatedQuestion(["a", "b"], q) for q in (0.6, 0.35, 0.8)]
    book, sizes = make_codebook(["a", "b"], [2, 2]), (200, 60, 40)
    parts = [
        design.disguise(random_records(book, n, n), Stream.from_seed(n))
        for design, n in zip(designs, sizes, strict=True)
    ]
    owners = Stratified(designs)
    plain = [
        estimate(part, event, design=design) for part, design in zip(parts, designs, strict=True)
    ]
    expected = [
        sum(n / 300 * p.moments[i] for n, p in zip(sizes, plain, strict=True)) for i in (0, 1)
    ]
    pooled = owners.estimate(parts, event).moments
    assert [*map(float, pooled)] == pytest.approx(expected, rel=1e-12)
    cells = owners.estimate(parts, list(event))
    at = (1, 0)[: len(event)]
    assert [pair[at] for pair in cells.moments] == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("p", [0.55, 0.8, 0.99, 1.0])
def test_moments_are_known_unless_the_condition_is_disguised(p: float) -> None:
    design = Product([Warner("a", 0.8), Warner("b", p)])
    book = make_codebook(["a", "b", "c"], [2, 2, 2])
    reports = design.disguise(random_records(book, 300, 2), Stream.from_seed(1))
    for where, known in (({"b": "1"}, p == 1), ({"c": "1"}, True), ({}, True)):
        single = sum_event(reports, design, {"a": "1"}, where).estimate()
        cells = sum_weights(reports, design, ["a"], where).estimate()
        assert (single.moments is not None, cells.moments is not None) == (known, known)


@pytest.mark.parametrize("estimand", ["population", "file"])
@pytest.mark.parametrize("value", [0.2, 0.5, 0.85])
def test_ends_of_surveyed_intervals_count_the_reports_that_have_their_variance(
    value: float, estimand: str
) -> None:
    inside, outside, variance, quantile = 1.7, 0.4, 0.0008, 1.959963984540054

    def varies(p: float) -> float:
        taken = p**2 if estimand == "population" else p
        return p * inside + (1 - p) * outside - taken

    found = intervals_of(
        value,
        variance,
        (inside, outside),
        10.0**6,
        level=0.95,
        freedom=None,
        estimand=estimand,
        method="score",
        surveyed=True,
    )
    size = varies(value) / variance
    for end in map(float, found):
        assert abs(value - end) == pytest.approx(quantile * math.sqrt(varies(end) / size), rel=1e-9)
    assert found[0] < value < found[1]


def test_a_sum_knows_the_laws_that_either_part_knows() -> None:
    design = Warner("a", 0.8)
    reports = design.disguise(random_records(codebook_of(design), 90, 2), Stream.from_seed(1))
    known = sum_event(reports, design, {"a": "1"})
    silent = replace(known, laws=None)
    assert known.laws is not None
    for one, two in itertools.product((known, silent), repeat=2):
        expected = None if one.laws is None and two.laws is None else known.laws
        assert (one + two).laws is expected
        assert (one + two).values() == pytest.approx(known.values(), rel=1e-12)


@pytest.mark.parametrize(("value", "limit"), [(1.2, 1.10), (1.4, 0.62), (-0.2, 1.10), (-0.6, 0.42)])
def test_where_no_number_of_reports_has_a_variance_it_is_taken_as_it_is(value, limit) -> None:
    # Not disguised: a weight is 0 or 1, so that a mean beyond them has no spread.  The limits, in
    # standard errors, are those of Table X of [FeldmanCousins] at 95 %.
    lower, upper = intervals_of(
        value,
        0.04,
        (1.0, 0.0),
        10.0**6,
        level=0.95,
        freedom=None,
        estimand="population",
        method="score",
        surveyed=True,
    )
    ends = (0, limit * 0.2) if value < 0 else (1 - limit * 0.2, 1)
    assert (lower, upper) == pytest.approx(ends, abs=0.0011)


@pytest.mark.parametrize(
    ("value", "lower", "upper"),
    [(-3, 0, 0.42), (-2, 0, 0.62), (-1, 0, 1.10), (0, 0, 1.96), (1, 0, 2.96), (2, 0.35, 3.96)],
)
def test_bounded_intervals_are_those_of_feldman_and_cousins(value, lower, upper) -> None:
    # Table X of [FeldmanCousins], 95 %: a normal mean that cannot be below 0, of variance 1.  The
    # other end of the range is far away.
    for sign, start in ((1, 0.0), (-1, 1.0)):
        one = np.array([start + sign * value / 1000])
        quadratic = (np.full(1, 1e-6), np.zeros(1), np.zeros(1))
        ends = [float(x[0]) for x in bounded_interval(one, quadratic, 0.95, None)]
        found = sorted(sign * (end - start) * 1000 for end in ends)
        assert found == pytest.approx([lower, upper], abs=0.0051)


@pytest.mark.parametrize("base", [0.0, 0.05, -0.3, 1.0, -40.0])
def test_resamples_that_differ_by_rounding_do_not_differ(
    base: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    design = Warner("a", 0.8)
    table = table_of(design, np.array([3, 5]))
    rounding = 1e-12 * max(abs(base), 1)
    steps = np.array([0.0, 0.2, 0.5, 0.9])[:, None]
    values = base + rounding * np.hstack([steps, 4 * steps])
    monkeypatch.setattr(resampling, "along_blocks", lambda *_: values.T)
    each = bootstrap(table, design, invert, repeats=4)
    lower, upper = each.ends(0.999)
    for ends in (each.standard_error.values, lower, upper):
        assert np.isnan(ends).tolist() == [True, False]
    # The proportion of the only category is 1 for certain.
    single = Identity("a", [1])
    monkeypatch.undo()
    sure = bootstrap(table_of(single, np.array([8])), single, invert, repeats=4)
    assert sure.standard_error.values.tolist() == [0.0]


@pytest.mark.parametrize("seed", range(20))
def test_weights_that_do_not_vary_have_a_variance_of_0(seed: int) -> None:
    design, rng = Warner("a", 0.7), np.random.default_rng(seed)
    n = int(rng.integers(2, 400))
    codes, weights = np.ones((n, 1), np.uint8), rng.lognormal(0, 2, n)
    reports = Reports(codes, codebook_of(design), 0, design.digest, True, weights=weights)
    assert sum_event(reports, design, {"a": "1"}, None).unbiased().tolist() == [0.0]


def test_reports_of_more_symbols_than_another_block_has() -> None:
    kuk = Kuk("a", 0.7, 0.4, 700)
    design = Product([kuk, Warner("b", 0.8)])
    records = random_records(make_codebook(["a", "b"], [2, 2]), 60, 1)
    found = design.disguise(records, Stream.from_seed(1)).codes[:, 0].astype(int)
    mean = np.arange(701) @ kuk.matrix()
    # 700 cards, .7 or .4 of them red: 490 +- 12 or 280 +- 13.
    assert sorted(mean) == pytest.approx([280, 490])
    assert (np.abs(found - mean[records.codes[:, 0]]) < 80).all()


@pytest.mark.parametrize("first", [Identity("a", [2]), Warner("a", 0.8)])
@pytest.mark.parametrize("cell", range(4))
def test_reports_that_are_all_alike_say_nothing_of_association(first: Design, cell: int) -> None:
    design = Product([first, Warner("b", 0.7)])
    counts = np.eye(4, dtype=np.int64)[cell].reshape(2, 2) * 50
    table = ContingencyTable(codebook_of(design), counts, None, design.digest, True)
    found = association_test(table, design, "a", "b")
    assert (found.statistic, found.freedom, found.p_value) == (0.0, 0, 1.0)


@pytest.mark.parametrize("shape", [(2, 2), (3, 3), (3, 4), (5, 2)])
def test_cramers_v_of_a_table_that_is_not_disguised(shape: tuple[int, int]) -> None:
    counts = np.random.default_rng(6).integers(5, 60, shape)
    design = Product([Identity("a", shape[:1]), Identity("b", shape[1:])])
    table = ContingencyTable(codebook_of(design), counts, None, design.digest, True)
    # SciPy's own: the root of chi-square over n times the smaller number of categories less one.
    expected = scipy_association(counts, method="cramer")
    for test in (association_test, independence_test):
        assert test(table, design, "a", "b").cramers_v == pytest.approx(expected, rel=1e-12)
    complete = ContingencyTable(
        table.codebook, np.eye(*shape, dtype=np.int64) * 9, None, design.digest, True
    )
    if shape[0] == shape[1]:
        assert association_test(complete, design, "a", "b").cramers_v == pytest.approx(1)


def test_only_what_is_below_0_is_a_negative_estimate() -> None:
    design = Product([Warner("a", 0.8), Identity("b", [3])])
    book = make_codebook(["a", "b"], [2, 3])
    # Nobody has the third label of b; of the second all say no to a: 4/3 and -1/3 of them.
    codes = np.array([[0, 0]] * 5 + [[1, 0]] * 5 + [[0, 1]] * 6, np.uint8)
    reports = Reports(codes, book, 0, design.digest, True)
    found = sum_weights(reports, design, ["a", "b"]).estimate()
    shares = np.array([[5, 8, 0], [5, -2, 0]]) / 16
    assert found.values == pytest.approx(shares, abs=1e-12)
    assert found.negative_share == pytest.approx(1 / 6)
    # One yes of five is 4/3 and four times -1/3: nobody, however it is rounded.
    codes = np.repeat(np.array([[1, 0], [0, 0]], np.uint8), [30, 120], axis=0)
    reports = Reports(codes, book, 0, design.digest, True)
    found = sum_weights(reports, design, ["a"]).estimate()
    assert found.values == pytest.approx(np.array([1, 0]), abs=1e-12)
    assert found.negative_share == 0


def test_an_attribute_of_a_single_category_is_named() -> None:
    for shape, alone in (((1, 3), "a"), ((3, 1), "b"), ((1, 1), "a")):
        design = Product([Identity("a", shape[:1]), Identity("b", shape[1:])])
        counts = np.full(shape, 7, dtype=np.int64)
        table = ContingencyTable(codebook_of(design), counts, None, design.digest, True)
        found = association_test(table, design, "a", "b")
        assert (found.freedom, found.reason) == (0, f"'{alone}' has a single category")
        assert math.isnan(found.cramers_v)


def test_records_are_not_one_stratum_for_each_design() -> None:
    warner = Warner("a", 0.8)
    reports = warner.disguise(random_records(codebook_of(warner), 2, 1), Stream.from_seed(1))
    with pytest.raises(RecordsError, match="strata: got 1; reports for each of 2 designs"):
        Stratified([warner, warner]).pair(reports)
    with pytest.raises(RecordsError, match="strata: got 3; reports for each of 2 designs"):
        Stratified([warner, warner]).pair([reports] * 3)


def test_cells_within_a_condition_of_other_blocks_take_no_matrix(monkeypatch) -> None:
    design = Product([UnrelatedQuestion(["a", "b"], 0.6), Warner("c", 0.7), Warner("d", 0.8)])
    book = make_codebook(["a", "b", "c", "d", "e"], [2, 2, 2, 2, 2])
    reports = design.disguise(random_records(book, 60, 2), Stream.from_seed(1))
    entire = {
        (over, name): sum_weights(reports, design, list(over), {name: "1"}).values()
        for over in ("ab", "abc", "c", "e")
        for name in "abcde"
    }
    monkeypatch.setattr(sums, "MAX_ENTRIES", 0)
    for (over, name), expected in entire.items():
        if name in over:
            with pytest.raises(RecordsError, match="too many for one pass"):
                sum_weights(reports, design, list(over), {name: "1"})
        else:
            found = sum_weights(reports, design, list(over), {name: "1"}).values()
            assert found == pytest.approx(expected, abs=1e-12)


def test_a_product_of_symbols_is_drawn_as_one() -> None:
    design = Product([Warner("a", 0.8), UnrelatedQuestion(["b", "c"], 0.5)])
    records = random_records(codebook_of(design), 300, 1)
    stream = Stream.from_seed(9)
    plain = design.sample(records.codes, stream.child(0), 0)
    assert (design.disguise(records, stream).codes == plain).all()


def test_two_samples_are_drawn_by_position_however_they_are_parted() -> None:
    scheme = TwoSample("sick", "birthday", (0.7, 0.3))
    n, border = LOGICAL_BLOCK + 3_000, LOGICAL_BLOCK + 1_000
    book = make_codebook(["sick", "birthday"], [2, 2])
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 2, (n, 2)).astype(np.uint8)
    stream = Stream.from_seed(3)
    whole = scheme.disguise(Records(codes, book), 0, stream).codes[:, 0]
    for start, stop in ((0, border), (border, n)):
        part = scheme.disguise(Records(codes[start:stop], book, start), 0, stream)
        assert (part.codes[:, 0] == whole[start:stop]).all()
    # Beyond the first logical block too, .7 + .3 / 2 tell the truth: 2,550 +- 20 of 3,000.
    assert abs((whole == codes[:, 0])[LOGICAL_BLOCK:].sum() - 2_550) < 100
