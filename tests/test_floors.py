"""No standard error of 0 by chance: least variances of designs, and intervals that have width."""

from __future__ import annotations

import itertools
import json
import math
import time

import checks
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.stats import binomtest
from strategies import (
    SEEDS,
    codebook_of,
    designs,
    events,
    kron,
    make_codebook,
    random_records,
    reports_of,
)

from ppdm_dask import (
    ID3,
    Identity,
    KaryResponse,
    Product,
    Records,
    Reports,
    RRMatrix,
    Stream,
    Warner,
    count,
    invert,
)
from ppdm_dask.designs import Kuk, Mangat, MultiGroup
from ppdm_dask.designs.sets import pack
from ppdm_dask.designs.subset import SubsetSelection
from ppdm_dask.designs.unary import UnaryEncoding
from ppdm_dask.inference import (
    bootstrap,
    em,
    estimate,
    mle,
    sum_weights,
)
from ppdm_dask.inference.laws import law_of_cells, law_of_event
from ppdm_dask.inference.stratified import Stratified
from ppdm_dask.inference.tables import ContingencyTable
from ppdm_dask.inference.two_sample import TwoSample
from ppdm_dask.mine.classifier import score_disguised
from ppdm_dask.mine.tree import to_dict


def table_of(design, counts):
    counts = np.asarray(counts, np.int64).reshape(design.reported_shape)
    return ContingencyTable(
        codebook_of(design), counts, None, design.digest, True, design.reported_shape
    )


def made(design, counts):
    """Reports with these counts of the symbols of a design on one attribute."""
    codes = np.repeat(np.arange(len(counts)), counts)[:, None]
    return reports_of(codes, codebook_of(design), design)


# -- laws of weights ---------------------------------------------------------------------------


def dense_moments(design, inside):
    """E[w^2 | x], shape (truths,), and the weights of reports that can occur, by matrices."""
    P = kron([block.matrix() for block in design.blocks])
    B = kron([block.left_inverse() for block in design.blocks])
    w = inside @ B
    return w**2 @ P, w[P.any(axis=1)]


def check_law(law, index, design, inside):
    square, weights = dense_moments(design, inside.astype(float))
    atol = 1e-9 * max(1.0, float((weights**2).max()))
    for (low, high), part in ((law.inside, square[inside]), (law.outside, square[~inside])):
        if len(part):
            assert low[index] == pytest.approx(part.min(), abs=atol)
            assert high[index] == pytest.approx(part.max(), abs=atol)
        else:
            assert low[index] == math.inf
    assert law.weights[0][index] == pytest.approx(weights.min(), abs=atol)
    assert law.weights[1][index] == pytest.approx(weights.max(), abs=atol)
    least = (square - inside).min()
    assert law.least[index] == pytest.approx(max(least, 0), abs=atol)


@settings(max_examples=40, deadline=None)
@given(designs(), st.data())
def test_laws_are_those_of_the_dense_matrices(design, data):
    assume(not design.undefined and design.n_true <= 100)
    book = codebook_of(design)
    law = law_of_cells(design, book, book.names)
    for cell in np.ndindex(*design.shape):
        inside = np.zeros(design.shape, bool)
        inside[cell] = True
        check_law(law, cell, design, inside.ravel())
    event = data.draw(events(book))
    masks, inside = book.masks(event), np.ones(design.shape, bool)
    for axis, name in enumerate(book.names):
        if name in masks:
            shape = [1] * inside.ndim
            shape[axis] = -1
            inside = inside & masks[name].reshape(shape)
    check_law(law_of_event(design, masks, book.names), (), design, inside.ravel())


@pytest.mark.parametrize(
    "design",
    [
        UnaryEncoding("a", 5, epsilon=1.0),
        UnaryEncoding("a", 2, p=0.7, q=0.2),
        UnaryEncoding("a", 4, p=0.8, q=0.3, inverse="textbook"),
        SubsetSelection("a", 6, epsilon=1.0),
        SubsetSelection("a", 5, size=3, p=0.2),
        Kuk("a", 0.7, 0.2, 3),
        Mangat("a", 0.6),
        RRMatrix("a", checks.TALL),
        MultiGroup([["a"], ["b", "c"], ["d", "e", "f"]], theta=[0.8, 0.3, 0.9]),
    ],
    ids=lambda design: f"{design.id}-{design.n_true}",
)
def test_laws_of_sets_tall_designs_and_flips(design):
    book = codebook_of(design)
    law = law_of_cells(design, book, book.names)
    for cell in np.ndindex(*design.shape):
        inside = np.zeros(design.shape, bool)
        inside[cell] = True
        check_law(law, cell, design, inside.ravel())


def test_laws_of_a_hundred_thousand_categories():
    k = 100_000
    for design in (
        KaryResponse("a", k, epsilon=5.0),
        UnaryEncoding("a", k, epsilon=2.0),
        SubsetSelection("a", k, epsilon=2.0),
    ):
        start = time.monotonic()
        law = law_of_cells(design, codebook_of(design), ["a"])
        assert law.least.shape == (k,)
        assert (law.least > 0).all()
        assert time.monotonic() - start < 60


# -- what few reports carry --------------------------------------------------------------------


def test_a_category_that_nobody_reported_has_the_error_of_the_design():
    design = KaryResponse("a", 165, epsilon=1.0)
    p = math.e / (math.e + 164)
    q = (1 - p) / 164
    least = math.sqrt(q * (1 - q) / 400) / (p - q)
    assert least == pytest.approx(0.375, abs=5e-4)
    counts = np.random.default_rng(1).multinomial(400, np.full(165, 1 / 165))
    assert (counts == 0).any()
    guess = invert(table_of(design, counts), design)
    assert guess.standard_error.values.min() == pytest.approx(least, rel=1e-9)
    # Where reports are enough, it is what it was.
    many = counts >= 10
    assert not guess.few[many].any()
    plain = counts * (400 - counts) / 400**2 / (p - q) ** 2 / 399
    np.testing.assert_allclose(guess.variance[many], plain[many], rtol=1e-9)
    np.testing.assert_allclose(guess.unbiased, plain, rtol=1e-9, atol=1e-15)
    single = estimate(made(design, counts), {"a": str(counts.argmin())}, design=design)
    assert single.standard_error == pytest.approx(least, rel=1e-9)


def test_all_reports_alike():
    design = Warner("a", 0.8)
    floor = math.sqrt(0.16 / 100) / 0.6
    guess = invert(table_of(design, [0, 100]), design)
    assert guess.values.tolist() == pytest.approx([-1 / 3, 4 / 3])
    assert guess.standard_error.values.tolist() == pytest.approx([floor, floor])
    for method in ("score", "wald"):
        low, high = guess.ends(method=method)
        assert (high - low > 0.2).all()
    single = estimate(made(design, [0, 100]), {"a": "1"}, design=design)
    assert single.standard_error == pytest.approx(floor)
    assert single.interval() == pytest.approx([end[1] for end in guess.ends()])


def test_undisguised_reports_that_do_not_vary():
    """The least variance is 0 there: no error, with the reason, and Wilson's interval."""
    design = Identity("a", [3])
    guess = invert(table_of(design, [60, 40, 0]), design)
    assert np.isnan(guess.standard_error.values).tolist() == [False, False, True]
    assert np.isnan(guess.ends(method="wald")[0]).tolist() == [False, False, True]
    wilson = binomtest(0, 100).proportion_ci(method="wilson")
    low, high = (end[2] for end in guess.ends())
    assert (low, high) == pytest.approx((wilson.low, wilson.high), abs=1e-12)
    single = estimate(made(design, [60, 40, 0]), {"a": "2"}, design=design)
    assert math.isnan(single.standard_error)
    assert "vary too little" in single.reason
    # These records are all there is: nobody among them is.
    whole = invert(table_of(design, [60, 40, 0]), design, estimand="file")
    assert whole.standard_error.values.tolist() == [0, 0, 0]
    known = estimate(made(design, [60, 40, 0]), {"a": "2"}, design=design, estimand="file")
    assert (known.standard_error, known.interval()) == (0, (0, 0))


def test_this_file_is_known_where_no_truth_behind_the_reports_varies():
    """Two answers behind one coin: reports 01 and 10 say that nobody is 00, and no more."""
    design = MultiGroup([["a", "b"]], theta=0.8)
    table = table_of(design, [[0, 30], [20, 0]])
    here = invert(table, design, estimand="file")
    assert here.standard_error.values[0, 0] == here.standard_error.values[1, 1] == 0
    assert np.isnan(invert(table, design).standard_error.values[0, 0])
    # Mangat's yes: from all who have the trait, and from some who do not.
    mangat = Mangat("a", 0.6)
    assert np.isnan(
        invert(table_of(mangat, [0, 50]), mangat, estimand="file").standard_error.values
    ).all()


def surveyed(design, counts, **survey):
    return made(design, counts).surveyed(**survey)


def test_weights_strata_and_conditions():
    design, d = KaryResponse("a", 5, 0.7), np.linspace(0.5, 2, 100)
    least = 0.075 * (1 - 0.075) / (0.7 - 0.075) ** 2
    counts = [40, 30, 20, 10, 0]
    weighted = estimate(surveyed(design, counts, weights=d), ["a"], design=design)
    kish = (d**2).sum() / d.sum() ** 2
    assert weighted.variance[4] == pytest.approx(least * kish)
    assert weighted.effective_size == pytest.approx(1 / kish)
    strata = np.arange(100) % 4
    stratified = estimate(surveyed(design, counts, strata=strata), ["a"], design=design)
    assert stratified.variance[4] == pytest.approx(least / 100)
    assert stratified.freedom == pytest.approx(96)
    # Within an undisguised condition the reports of others do not count.
    whole = Product([design, Identity("u", [2])])
    book = make_codebook(["a", "u"], [5, 2])
    codes = np.stack([np.repeat(np.arange(5), counts), np.arange(100) % 4 == 0], axis=1)
    reports = reports_of(codes.astype(int), book, whole)
    within = estimate(reports, ["a"], design=whole, where={"u": "1"})
    assert within.effective_size == pytest.approx(25)
    assert within.variance[4] == pytest.approx(least / 25)
    single = estimate(reports, {"a": "4"}, design=whole, where={"u": "1"})
    assert single.standard_error**2 == pytest.approx(least / 25)
    assert single.freedom == pytest.approx(24)
    # What a condition decides has no error.
    sure = sum_weights(reports, whole, ["u"], {"u": "1"})
    assert sure.values().tolist() == [0, 1]
    assert sure.variances().tolist() == [0, 0]


def test_sets_that_hold_no_one():
    design = SubsetSelection("a", 12, epsilon=2.0)
    inside = np.zeros((60, 12), bool)
    inside[:, : design.size] = True
    book = codebook_of(design)
    reports = Reports(
        np.zeros((60, 1), int), book, 0, design.digest, True, sets={"a": pack(inside)}
    )
    guess = estimate(reports, ["a"], design=design)
    law = law_of_cells(design, book, ["a"])
    np.testing.assert_allclose(guess.variance, law.least / 60)
    assert (guess.ends()[1] > guess.ends()[0]).all()


def test_owners_and_several_events():
    design = KaryResponse("a", 3, 0.8)
    least = 0.09 / 0.49
    parts = [made(design, [30, 20, 0]), made(design, [50, 0, 0])]
    both = Stratified([design, design])
    single = both.estimate(parts, {"a": "2"})
    assert single.standard_error == pytest.approx(math.sqrt(least / 100))
    guess = both.estimate(parts, ["a"])
    assert float(guess.standard_error[2]) == pytest.approx(single.standard_error)
    assert single.interval() == pytest.approx([end[2] for end in guess.ends()])
    joint = estimate(parts[0], [{"a": "2"}, {"a": "0"}], design=design)
    assert joint.combine([1, 0]).standard_error == pytest.approx(math.sqrt(least / 50))
    assert joint.combine([1, -1]).standard_error > 0
    none = estimate(made(Identity("a", [2]), [9, 0]), [{"a": "1"}], design=Identity("a", [2]))
    assert math.isnan(none.combine([1]).standard_error)


def test_two_samples_of_equal_reports():
    scheme = TwoSample("sick", "birthday", (0.7, 0.3))
    book = make_codebook(["sick"], [2])
    answers = [
        Reports(np.array([0] * (n - yes) + [1] * yes)[:, None], book, 0, scheme.digest(h))
        for h, (n, yes) in enumerate(((20, 20), (30, 9)))
    ]
    found = scheme.estimate(*answers)
    assert math.isnan(found[0].standard_error)
    assert math.isnan(found[1].standard_error)


def test_a_score_of_tests_that_are_all_right():
    design = Warner("a", 0.8)
    reports = made(design, [0, 12])
    score = score_disguised(lambda codes: codes[:, 0] == 1, reports, design)
    assert math.isnan(score.standard_error)


@settings(max_examples=40, deadline=None)
@given(designs(), SEEDS, st.integers(2, 25), st.sampled_from(["population", "file"]))
def test_no_interval_has_no_width_unless_it_is_exact(design, seed, n, estimand):
    """Of any design and reports; what is exact is told by the dense matrices."""
    assume(not design.undefined and design.n_true <= 60)
    book = codebook_of(design)
    rng = np.random.default_rng(seed)
    # Few different records, so that many weights are alike.
    few = random_records(book, 2, seed).codes[rng.integers(2, size=n)]
    reports = design.disguise(Records(few, book), Stream.from_seed(seed))
    guess = invert(count(reports, design), design, estimand=estimand)
    P = kron([block.matrix() for block in design.blocks])
    B = kron([block.left_inverse() for block in design.blocks])
    square = (B**2) @ P - np.eye(len(B))  # Var(w_v | x)
    seen = np.ravel_multi_index(tuple(reports.codes.astype(int).T), design.shape)
    behind = (P[seen] > 0).any(axis=0)
    for v, cell in enumerate(np.ndindex(*design.shape)):
        varies = (square[v] > 1e-9).any() if estimand == "population" else None
        exact = estimand == "file" and not (square[v][behind] > 1e-9).any()
        error = float(guess.standard_error.values[cell])
        low, high = (float(end[cell]) for end in guess.ends())
        assert error > 0 or math.isnan(error) or exact
        assert high > low or exact
        if varies and not math.isnan(error):
            floor = max(square[v].min(), 0) / n
            carried = guess.unbiased[cell] * n**2
            farthest = np.abs(B[v][P.any(axis=1)] - guess.values[cell]).max() ** 2
            if carried < 9.99 * farthest:
                assert error**2 >= floor * (1 - 1e-6)


def test_a_bootstrap_does_not_see_what_nobody_reported():
    design = KaryResponse("a", 3, 0.8)
    table = table_of(design, [60, 40, 0])
    guess = bootstrap(table, design, invert, repeats=50)
    assert np.isnan(guess.standard_error.values).tolist() == [False, False, True]
    low, high = guess.ends()
    assert np.isnan(low).tolist() == np.isnan(high).tolist() == [False, False, True]
    corner = bootstrap(table_of(design, [100, 0, 0]), design, mle, repeats=20)
    assert np.isnan(corner.standard_error).all()


def test_a_trees_counts_of_no_reports_have_no_error():
    names, rng = ["a", "b", "y"], np.random.default_rng(8)
    design = Product([Warner("a", 0.9), Identity(["b"], [3]), Identity(["y"], [2])])
    book = make_codebook(names, [2, 3, 2])
    codes = np.stack([rng.integers(2, size=300), rng.integers(2, size=300)], axis=1)
    codes = np.column_stack([codes, codes[:, 1] ^ (rng.random(300) < 0.1)])
    tree = ID3(design, "y").fit(design.disguise(Records(codes, book), Stream.from_seed(9))).tree_
    errors = tree.standard_error
    assert not (errors == 0).any()
    assert np.isnan(errors[tree.counts == 0]).all()
    json.dumps(to_dict(tree, standard_errors=True), allow_nan=False)


# -- maximum likelihood ------------------------------------------------------------------------


@settings(max_examples=25, deadline=None)
@given(SEEDS, st.sampled_from([1e-6, 1e-9, 1e-11]))
def test_em_has_errors_where_the_exact_maximum_has_and_no_others(seed, tolerance):
    rng = np.random.default_rng(seed)
    k = int(rng.integers(2, 6))
    design = KaryResponse("a", k, 0.8)
    counts = rng.multinomial(400, rng.dirichlet(np.full(k, 0.5)))
    table = table_of(design, counts)
    exact, near = mle(table, design), em(table, design, tolerance=tolerance)
    if (exact.values == 0).any():
        assert near.variance is None
        assert "on the boundary" in near.reason
    elif exact.values.min() > 10 * math.sqrt(tolerance):
        np.testing.assert_allclose(near.variance, exact.variance, rtol=0.02)


def test_em_at_the_boundary_says_so():
    design = KaryResponse("a", 3, 0.8)
    near = em(table_of(design, [700, 250, 50]), design)
    assert near.variance is None
    assert near.reason.startswith("the maximum is on the boundary (1 of 3 cells are below 3.2e-05")
    unfinished = em(table_of(design, [700, 250, 50]), design, max_steps=3)
    assert unfinished.variance is None


# -- names -------------------------------------------------------------------------------------


def test_attributes_may_have_the_names_of_results():
    names = ["proportions", "standard_error", "interval", "bound"]
    design = Product([Warner(name, 0.8) for name in names])
    records = random_records(codebook_of(design), 200, seed=3)
    guess = invert(count(design.disguise(records, Stream.from_seed(4)), design), design)
    frame = guess.proportions.to_dataframe().reset_index()
    assert list(frame.columns) == [*names, "proportions_"]
    assert set(frame["proportions"]) == {"0", "1"}
    assert guess.standard_error.name == "standard_error_"
    interval = guess.interval()
    assert interval.dims == (*names, "bound_")
    for bound, end in zip(("lower", "upper"), guess.ends(), strict=True):
        np.testing.assert_array_equal(interval.sel(bound_=bound).values, end)
    for cell in itertools.product("01", repeat=4):
        at = dict(zip(names, cell, strict=True))
        assert float(guess.proportions.sel(at)) == guess.values[tuple(map(int, cell))]
