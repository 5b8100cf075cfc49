"""Accuracy on disguised test reports: unbiased for any design, never clipped."""

from __future__ import annotations

import itertools
import math

import checks
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from strategies import (
    SEEDS,
    codebook_of,
    codes_of,
    covered_codebooks,
    designs,
    identity_of,
    kron,
    make_codebook,
    random_records,
    reports_of,
)

from ppdm_dask import (
    Identity,
    InputError,
    KaryResponse,
    NaiveBayes,
    Product,
    Records,
    Reports,
    RRMatrix,
    Stream,
    UnrelatedQuestion,
    Warner,
)
from ppdm_dask.errors import CodebookError, RecordsError
from ppdm_dask.mine import classifier as scoring
from ppdm_dask.mine.classifier import score_disguised


def classifier(seed, shape):
    """Any set of records as the ones predicted rightly."""
    hits = np.random.default_rng(seed).random(shape) < 0.5
    return lambda codes: hits[tuple(np.asarray(codes).T.astype(int))]


@st.composite
def settings_of(draw):
    design = draw(designs())
    assume(not design.undefined)
    book = draw(covered_codebooks(design))
    assume(math.prod(book.shape) <= 400)
    return design, book, draw(SEEDS)


@settings(max_examples=40)
@given(settings_of())
def test_unbiased_by_enumeration_of_all_reports(case):
    """sum_y P[y, x] A(y) = 1[the prediction at x is right], for each x."""
    design, book, seed = case
    correct = classifier(seed, book.shape)
    columns = [book.index(name) for name in design.attributes]
    others = [i for i in range(len(book.shape)) if i not in columns]
    P = kron([block.matrix() for block in design.blocks])
    for rest in itertools.product(*(range(book.shape[i]) for i in others)):
        domain = np.empty((design.n_true, len(book.shape)), int)
        domain[:, columns] = codes_of(np.arange(design.n_true), design.shape)
        domain[:, others] = rest
        # A report at a time, so that the mean over one report is its A(y).
        A = np.array(
            [score_disguised(correct, reports_of([y], book, design), design).value for y in domain]
        )
        scale = max(1.0, float(np.abs(A).max()))
        np.testing.assert_allclose(P.T @ A, correct(domain), atol=1e-12 * scale)


@settings(max_examples=25)
@given(settings_of())
def test_the_mean_over_reports_and_its_error(case):
    design, book, seed = case
    correct = classifier(seed, book.shape)
    reports = reports_of(random_records(book, 30, seed).codes, book, design)
    each = [score_disguised(correct, reports.take([i]), design).value for i in range(30)]
    score = score_disguised(correct, reports, design)
    scale = max(1.0, float(np.abs(each).max()))
    assert score.value == pytest.approx(np.mean(each), abs=1e-12 * scale)
    spread = np.std(each, ddof=1) / 30**0.5
    if spread > 1e-7 * scale:
        assert score.standard_error == pytest.approx(spread, abs=1e-9 * scale)
    else:
        assert math.isnan(score.standard_error)  # 30 reports that do not vary say nothing of it
    assert (score.n, score.estimand) == (30, "population")
    assert math.isnan(score_disguised(correct, reports.take([0]), design).standard_error)


@pytest.mark.parametrize(
    "design",
    [
        Product([RRMatrix(["a", "b"], checks.JOINT_SKEWED, [2, 2]), Warner("c", 0.3)]),
        UnrelatedQuestion(["a", "b", "c"], 0.4, [0.2, 0.5, [0.1, 0.3, 0.6]]),
        Product([KaryResponse("a", 4, 0.5), RRMatrix("b", checks.HOLES)]),
    ],
    ids=["dense", "mixture", "product"],
)
def test_the_sampled_sum_agrees_with_the_enumerated_one(design, monkeypatch):
    """For the same reports the sampled score is centred on the enumerated one, within 5 sigma."""
    book = make_codebook([*design.attributes, "u"], [*design.shape, 2])
    correct = classifier(1, book.shape)
    reports = reports_of(random_records(book, 3_000, seed=2).codes, book, design)
    exact = score_disguised(correct, reports, design)
    monkeypatch.setattr(scoring, "ENUMERATED", 0)
    repeats = [
        score_disguised(correct, reports, design, Stream.from_seed(seed)).value
        for seed in range(20)
    ]
    spread = np.std(repeats, ddof=1)
    assert 0 < spread < exact.standard_error
    assert abs(np.mean(repeats) - exact.value) < 5 * spread / 20**0.5
    with pytest.raises(InputError, match="more than 0 terms: give a stream to sample them"):
        score_disguised(correct, reports, design)


def test_a_large_joint_domain_is_sampled_from_a_stream():
    """Eight attributes of ten categories: 10**8 terms, which no enumeration would finish."""
    names = list("abcdefgh")
    design = Product([KaryResponse(name, 10, 0.9) for name in names])
    book = codebook_of(design)
    records = random_records(book, 400, seed=3)
    reports = design.disguise(records, Stream.from_seed(4))

    def correct(codes):
        return codes[:, 0] < 5

    score = score_disguised(correct, reports, design, Stream.from_seed(5))
    truth = (records.column("a") < 5).mean()
    assert abs(score.value - truth) < 5 * score.standard_error
    assert score.standard_error < 0.2
    again = score_disguised(correct, reports, design, Stream.from_seed(5))
    assert again.value == score.value


def test_unclipped():
    """An accuracy above 1 is noise that must be seen."""
    design = Warner("a", 0.6)
    reports = reports_of([[1]] * 4, codebook_of(design), design)
    score = score_disguised(lambda codes: codes[:, 0] == 1, reports, design)
    assert math.isclose(score.value, 3)
    other = score_disguised(lambda codes: codes[:, 0] == 0, reports, design)
    assert math.isclose(other.value, -2)


@pytest.mark.parametrize("q", [0.3, 1.0])
def test_naive_bayes_scores_a_disguised_test_part(q):
    """The model's score equals A(y) summed over the truth by hand, biased class and all."""
    book = make_codebook(["a", "class", "b"], [2, 2, 3], target="class")
    design = UnrelatedQuestion(book.names, q, [0.3, 0.2, [0.5, 0.2, 0.3]])
    records = random_records(book, 300, seed=6)
    reports = design.disguise(records, Stream.from_seed(7))
    model = NaiveBayes(design, "class").fit(reports.slice(0, 200))
    test = reports.slice(200, 300)
    domain = Records(codes_of(np.arange(12), book.shape), book)
    hits = model.predict_codes(domain) == domain.column("class")
    B = np.linalg.inv(design.matrix())
    A = [float(hits @ B[:, np.ravel_multi_index(tuple(y), book.shape)]) for y in test.codes]
    assert model.score_disguised(test).value == pytest.approx(np.mean(A), abs=1e-12)
    if q == 1:
        assert model.score_disguised(test).value == model.score(records.slice(200, 300))


def test_attributes_in_another_order():
    book = make_codebook(["a", "class", "b"], [2, 2, 3], target="class")
    design = Product([KaryResponse("b", 3, 0.6), Warner("class", 0.8)])  # a is undisguised
    reports = design.disguise(random_records(book, 200, seed=8), Stream.from_seed(9))
    model = NaiveBayes(design, "class").fit(reports)
    turned = reports.select(["b", "class", "a"])
    assert model.score_disguised(turned).value == pytest.approx(
        model.score_disguised(reports).value, abs=1e-12
    )


def test_what_cannot_be_scored_is_refused():
    book = make_codebook(["a", "b"], [2, 2], target="a")
    design = UnrelatedQuestion(["a", "b"], 0.5)
    reports = reports_of([[0, 0], [1, 1], [1, 0]], book, design)
    model = NaiveBayes(design, "a").fit(reports)
    with pytest.raises(RecordsError, match="made by another design"):
        model.score_disguised(reports_of([[0, 0]], book, UnrelatedQuestion(["a", "b"], 0.6)))
    with pytest.raises(RecordsError, match="undisguised records"):
        model.score_disguised(Records(np.array([[0, 0]]), book))
    with pytest.raises(RecordsError, match="no test reports"):
        model.score_disguised(reports.slice(0, 0))
    with pytest.raises(CodebookError, match="no attribute 'b'"):
        score_disguised(lambda codes: codes[:, 0] == 0, reports.select(["a"]), design)
    plain = NaiveBayes(identity_of(book), "a").fit(reports_of([[0, 0]], book, identity_of(book)))
    with pytest.raises(RecordsError, match="do not say that this design made them"):
        plain.score_disguised(Reports(np.array([[0, 0]]), book, 0, ""))
    assert plain.score_disguised(Records(np.array([[0, 0], [1, 1]]), book)).value == 0.5
    assert Identity(["a", "b"], [2, 2]) == identity_of(book)
