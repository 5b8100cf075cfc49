"""Naive Bayes on reports: a brute-force statement, floors, and scikit-learn's conventions."""

from __future__ import annotations

import math
import pickle

import checks
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone, is_classifier
from sklearn.exceptions import NotFittedError
from strategies import (
    SEEDS,
    identity_of,
    make_codebook,
    random_records,
    reports_of,
)

from ppdm_dask import (
    Attribute,
    Codebook,
    Identity,
    InputError,
    KaryResponse,
    NaiveBayes,
    NotInvertible,
    Product,
    Records,
    RRMatrix,
    Stream,
    UnrelatedQuestion,
    Warner,
    count,
)
from ppdm_dask.designs import SubsetSelection, UnaryEncoding
from ppdm_dask.errors import CodebookError, RecordsError
from ppdm_dask.inference.stratified import Stratified
from ppdm_dask.inference.weights import event_weights
from ppdm_dask.mine.classifier import score_disguised, score_strata
from ppdm_dask.mine.naive_bayes import first_largest

BOOK = make_codebook(["a", "class", "b"], [3, 3, 2], target="class")
JOINT = RRMatrix(["a", "b"], checks.JOINT_SKEWED, [2, 2])


def undisguised(codes, book=BOOK):
    return reports_of(codes, book, identity_of(book))


def brute_force(train, classes, features, record, n, floor):
    """argmax_c P(c) prod P(a | c) by plain sums over the training codes, first of ties."""
    best, best_score = None, -math.inf
    for c in range(classes):
        prior = max(sum(row[1] == c for row in train) / n, floor)
        score = math.log(prior)
        for axis, size in features.items():
            joint = [
                max(sum(row[1] == c and row[axis] == v for row in train) / n, floor)
                for v in range(size)
            ]
            score += math.log(joint[record[axis]] / sum(joint))
        if score > best_score + 1e-9:
            best, best_score = c, score
    return best


@settings(max_examples=60)
@given(st.integers(1, 40), SEEDS)
def test_undisguised_predictions_equal_brute_force(n, seed):
    train = random_records(BOOK, n, seed).codes.tolist()
    model = NaiveBayes(identity_of(BOOK), "class").fit(undisguised(train))
    domain = np.array(list(np.ndindex(*BOOK.shape)))
    expected = [brute_force(train, 3, {0: 3, 2: 2}, row, n, 1 / n) for row in domain.tolist()]
    assert model.predict_codes(Records(domain, BOOK)).tolist() == expected
    assert model.predict(Records(domain, BOOK)).tolist() == [str(c) for c in expected]


@settings(max_examples=40)
@given(SEEDS, st.sampled_from(["1/n", 0.01]))
def test_disguised_fit_by_equation_1(seed, floor):
    """P(a, c) = (P*(a, c) - (1 - q) P(Y_a) P(Y_c)) / q, floored, renormalised within the class."""
    q, laws = 0.3, [np.array(law) for law in ([0.2, 0.3, 0.5], [0.6, 0.1, 0.3], [0.7, 0.3])]
    design = UnrelatedQuestion(BOOK.names, q, laws)
    reports = design.disguise(random_records(BOOK, 30, seed), Stream.from_seed(seed))
    model = NaiveBayes(design, "class", floor).fit(reports)
    low, n_low = (1 / 30 if floor == "1/n" else floor), 0
    for axis, name in ((0, "a"), (2, "b")):
        joint = np.zeros((BOOK.shape[axis], 3))
        for row in reports.codes:
            joint[row[axis], row[1]] += 1 / 30
        joint = (joint - (1 - q) * np.outer(laws[axis], laws[1])) / q
        n_low += int((joint < low - 1e-12).sum())
        joint = np.maximum(joint, low)
        np.testing.assert_allclose(
            np.exp(model.feature_log_prob_[name]), joint / joint.sum(axis=0), atol=1e-12
        )
    prior = (np.bincount(reports.column("class"), minlength=3) / 30 - (1 - q) * laws[1]) / q
    prior = np.maximum(prior, low)
    np.testing.assert_allclose(np.exp(model.class_log_prior_), prior / prior.sum(), atol=1e-12)
    assert model.floored_ == n_low
    assert model.floored_share_ == n_low / 15
    assert model.floor_ == low


def test_negative_estimates_are_floored_and_counted():
    """At q = .5 and fair personal bits, 9 of 10 reports being 00 leaves 11 at -.25 or below."""
    book = make_codebook(["class", "a"], [2, 2], target="class")
    design = UnrelatedQuestion(book.names, 0.5)
    reports = reports_of([[0, 0]] * 9 + [[1, 0]], book, design)
    model = NaiveBayes(design, "class").fit(reports)
    # Estimates: P(00) = 1.55, P(10) = -.05, P(01) = P(11) = -.25, of which three are below 1/10.
    assert model.floored_ == 3
    assert model.floored_share_ == 0.75
    np.testing.assert_allclose(
        np.exp(model.feature_log_prob_["a"]), [[1.55 / 1.65, 0.5], [0.1 / 1.65, 0.5]]
    )
    # P(class = 1) is -.3: at the floor of .1, beside 1.3.
    np.testing.assert_allclose(np.exp(model.class_log_prior_), [1.3 / 1.4, 0.1 / 1.4])
    assert model.n_reports_ == 10


def test_the_design_may_cover_some_attributes_or_none_of_the_features():
    records = random_records(BOOK, 200, seed=3)
    for design in (
        KaryResponse("class", 3, 0.6),
        Warner("b", 0.7),
        Product([KaryResponse("a", 3, 0.9), Warner("b", 0.2)]),
    ):
        reports = design.disguise(records, Stream.from_seed(4))
        model = NaiveBayes(design, "class").fit(reports)
        for name in ("a", "b"):
            np.testing.assert_allclose(np.exp(model.feature_log_prob_[name]).sum(axis=0), 1)
        assert model.predict(records).shape == (200,)


def test_blocks_that_are_not_lumpable_are_counted_whole():
    book = make_codebook(["a", "b", "class"], [2, 2, 2], target="class")
    records = random_records(book, 300, seed=5)
    reports = JOINT.disguise(records, Stream.from_seed(6))
    model = NaiveBayes(JOINT, "class").fit(reports)
    B = np.linalg.inv(checks.JOINT_SKEWED)
    shares = np.zeros((4, 2))
    for a, b, c in reports.codes:
        shares[2 * a + b, c] += 1 / 300
    joint = (B @ shares).reshape(2, 2, 2).sum(axis=1)  # (a, class)
    joint = np.maximum(joint, 1 / 300)
    np.testing.assert_allclose(
        np.exp(model.feature_log_prob_["a"]), joint / joint.sum(axis=0), atol=1e-12
    )


def test_a_wide_block_that_is_not_lumpable_needs_no_covariance():
    """600 joint categories with 20 classes: 12,000 cells, whose covariance nobody asked for."""
    k = 300
    P = 0.7 * np.eye(2 * k)
    P[np.random.default_rng(1).permutation(2 * k), np.arange(2 * k)] += 0.3
    design = RRMatrix(["a", "b"], P, [k, 2])
    assert design.marginal(["b"]) is None
    book = make_codebook(["a", "b", "class"], [k, 2, 20], target="class")
    records = random_records(book, 500, seed=7)
    model = NaiveBayes(design, "class").fit(reports_of(records.codes, book, design))
    B = np.linalg.inv(P).reshape(k, 2, 2 * k).sum(axis=0)  # rows of b alone
    joint = np.zeros((2, 20))
    for a, b, c in records.codes.astype(int):
        joint[:, c] += B[:, 2 * a + b] / 500
    joint = np.maximum(joint, 1 / 500)
    np.testing.assert_allclose(
        np.exp(model.feature_log_prob_["b"]), joint / joint.sum(axis=0), atol=1e-12
    )


def test_tables_summed_over_parts_fit_the_same_model():
    design = UnrelatedQuestion(BOOK.names, 0.4, [[0.2, 0.3, 0.5], [0.6, 0.1, 0.3], 0.3])
    reports = design.disguise(random_records(BOOK, 150, seed=8), Stream.from_seed(9))
    whole = NaiveBayes(design, "class").fit(reports)
    parts = [reports.slice(a, b) for a, b in ((0, 40), (40, 41), (41, 150))]
    tables = [
        sum_of([count(part, design, ("class", name)) for part in parts]) for name in ("a", "b")
    ]
    for model in (
        NaiveBayes(design, "class").fit_tables(tables),
        NaiveBayes(design, "class").fit_tables(tables, BOOK.names),
    ):
        assert model.feature_names_in_.tolist() == ["a", "b"]
        assert model.floored_ == whole.floored_
        for name in ("a", "b"):
            np.testing.assert_array_equal(
                model.feature_log_prob_[name], whole.feature_log_prob_[name]
            )


def sum_of(tables):
    total = tables[0]
    for table in tables[1:]:
        total = total + table
    return total


# -- reports that are not counted ------------------------------------------------------------------


def assert_fitted_to(model, joints):
    """The model's log probabilities are those of joint proportions (category, class) by name."""
    for name, joint in joints.items():
        raised = np.maximum(joint, model.floor_)
        np.testing.assert_allclose(
            np.exp(model.feature_log_prob_[name]), raised / raised.sum(axis=0), atol=1e-12
        )
    prior = np.maximum(joints["a"].sum(axis=0), model.floor_)
    np.testing.assert_allclose(np.exp(model.class_log_prior_), prior / prior.sum(), atol=1e-12)


def joints_of(mean_weight):
    """Joint proportions of each feature and the class, from a function of an event."""
    return {
        name: np.array(
            [
                [mean_weight({name: v, "class": c}) for c in BOOK["class"].categories]
                for v in BOOK[name].categories
            ]
        )
        for name in ("a", "b")
    }


@pytest.mark.parametrize(
    "design",
    [
        Product([UnaryEncoding("a", 3, epsilon=1.5), KaryResponse("class", 3, 0.7)]),
        Product([SubsetSelection("class", 3, epsilon=2.0), Warner("b", 0.8)]),
    ],
)
def test_sets_are_fitted_by_their_event_weights(design):
    reports = design.disguise(random_records(BOOK, 400, seed=31), Stream.from_seed(32))
    model = NaiveBayes(design, "class").fit(reports)
    assert_fitted_to(model, joints_of(lambda event: event_weights(reports, design, event).mean()))
    assert model.n_reports_ == 400


def test_reports_that_are_sets_teach_what_their_truth_teaches():
    """20,000 reports of a plain rule: nearly each record is classified as by the undisguised."""
    gen = np.random.default_rng(33)
    codes = np.empty((20_000, 3), dtype=np.uint8)
    codes[:, 1] = gen.integers(3, size=20_000)
    codes[:, 0] = np.where(gen.random(20_000) < 0.8, codes[:, 1], gen.integers(3, size=20_000))
    codes[:, 2] = gen.random(20_000) < np.array([0.2, 0.5, 0.8])[codes[:, 1]]
    records = Records(codes, BOOK)
    design = Product([UnaryEncoding("a", 3, epsilon=3.0), KaryResponse("class", 3, 0.9)])
    reports = design.disguise(records, Stream.from_seed(34))
    clean = NaiveBayes(identity_of(BOOK), "class").fit(undisguised(codes))
    model = NaiveBayes(design, "class").fit(reports)
    np.testing.assert_array_equal(model.predict_codes(records), clean.predict_codes(records))


def test_survey_weights_and_strata_multiply_the_event_weights():
    """Weights 1 and 2 count as one and two records; strata leave the estimates as they are."""
    records = random_records(BOOK, 120, seed=35)
    twice = np.repeat(np.arange(120), np.arange(120) % 2 + 1)
    design = identity_of(BOOK)
    surveyed = undisguised(records.codes).surveyed(
        weights=np.arange(120) % 2 + 1.0, strata=np.arange(120) // 60
    )
    model = NaiveBayes(design, "class", floor=1e-3).fit(surveyed)
    expected = NaiveBayes(design, "class", floor=1e-3).fit(undisguised(records.codes[twice]))
    for name in ("a", "b"):
        np.testing.assert_allclose(
            model.feature_log_prob_[name], expected.feature_log_prob_[name], atol=1e-12
        )
    np.testing.assert_allclose(model.class_log_prior_, expected.class_log_prior_, atol=1e-12)


def owners():
    """An undisguised owner and two designs."""
    designs = [identity_of(BOOK), KaryResponse("class", 3, 0.7), Warner("b", 0.8)]
    parts = [random_records(BOOK, n, seed=n) for n in (50, 80, 120)]
    strata = [parts[0]] + [
        design.disguise(part, Stream.from_seed(36))
        for design, part in zip(designs[1:], parts[1:], strict=True)
    ]
    return Stratified(designs), strata


def test_owners_with_different_designs_are_fitted_together():
    both, strata = owners()
    model = NaiveBayes(both, "class").fit(strata)
    assert_fitted_to(model, joints_of(lambda event: both.estimate(strata, event).value))
    assert model.n_reports_ == 250
    pooled = NaiveBayes(Stratified([identity_of(BOOK)] * 2), "class").fit(
        [undisguised(strata[0].codes[:20]), undisguised(strata[0].codes[20:])]
    )
    whole = NaiveBayes(identity_of(BOOK), "class").fit(undisguised(strata[0].codes))
    for name in ("a", "b"):
        np.testing.assert_allclose(
            pooled.feature_log_prob_[name], whole.feature_log_prob_[name], atol=1e-12
        )


def test_owners_are_scored_together():
    """ "Right" where b is "1" is an event, whose proportion and error are known otherwise."""
    both, strata = owners()
    column = BOOK.index("b")
    found = score_strata(lambda codes: codes[:, column] == 1, both.pair(strata))
    expected = both.estimate(strata, {"b": "1"})
    assert found.value == pytest.approx(expected.value, abs=1e-12)
    assert found.standard_error == pytest.approx(expected.standard_error, rel=1e-2)
    assert found.n == 250
    model = NaiveBayes(both, "class").fit(strata)
    parts = [
        score_disguised(model._correct(part), part, design) for part, design in both.pair(strata)
    ]
    value = sum(part.n * part.value for part in parts) / 250
    assert model.score_disguised(strata).value == pytest.approx(value, abs=1e-12)
    assert parts[0].value == model.score(strata[0])


# -- categories that are declared and never seen ---------------------------------------------------


def test_unseen_categories_have_a_cell():
    train = [[0, 0, 0], [0, 1, 1], [1, 1, 1], [1, 0, 0]]  # a = 2 and class = 2 never occur
    model = NaiveBayes(identity_of(BOOK), "class").fit(undisguised(train))
    assert model.classes_.tolist() == ["0", "1", "2"]
    for name in ("a", "b"):
        assert np.isfinite(model.feature_log_prob_[name]).all()
    assert np.isfinite(model.class_log_prior_).all()
    unseen = Records(np.array([[2, 2, 0], [2, 2, 1]]), BOOK)
    assert model.predict(unseen).tolist() == ["0", "1"]  # by b alone
    probabilities = model.predict_proba(unseen)
    assert np.isfinite(probabilities).all()
    np.testing.assert_allclose(probabilities.sum(axis=1), 1)


def test_unseen_categories_of_a_disguised_attribute():
    book = make_codebook(["class", "a"], [2, 500], target="class")
    design = Product([Warner("class", 0.8), KaryResponse("a", 500, 0.7)])
    records = Records(np.array([[0, 0], [1, 1]] * 200), book)
    model = NaiveBayes(design, "class").fit(design.disguise(records, Stream.from_seed(1)))
    assert model.score(records) == 1
    assert model.feature_log_prob_["a"].shape == (500, 2)
    assert np.isfinite(model.feature_log_prob_["a"]).all()


def test_one_report_is_enough_to_fit():
    model = NaiveBayes(identity_of(BOOK), "class").fit(undisguised([[1, 2, 0]]))
    assert np.isfinite(model.class_log_prior_).all()
    assert model.floor_ == 1


# -- ties ------------------------------------------------------------------------------------------


def test_ties_go_to_the_class_that_comes_first():
    train = [[0, 1, 0], [0, 0, 0], [1, 2, 0]]
    model = NaiveBayes(identity_of(BOOK), "class").fit(undisguised(train))
    assert model.predict_codes(undisguised([[0, 2, 0]])).tolist() == [0]
    scores = np.array([[0.0, 5e-10, -1.0], [0.0, 2e-9, 0.0], [-1.0, 0.0, 0.0]])
    assert first_largest(scores).tolist() == [0, 1, 1]


# -- scikit-learn's conventions --------------------------------------------------------------------


def test_parameters_clone_and_repr():
    design = Warner("class", 0.8)
    model = NaiveBayes(design, "class", floor=0.01)
    assert model.get_params(deep=False) == {"design": design, "target": "class", "floor": 0.01}
    twin = clone(model)
    assert twin is not model
    assert twin.get_params() == model.get_params()
    assert "floor=0.01" in repr(model)
    assert "floor" not in repr(NaiveBayes(design, "class"))
    assert model.set_params(floor="1/n") is model
    assert model.floor == "1/n"
    assert is_classifier(model)
    with pytest.raises(ValueError, match="Invalid parameter 'smoothing'"):
        model.set_params(smoothing=1)


def test_clones_are_unfitted_and_pickles_are_not():
    model = NaiveBayes(identity_of(BOOK), "class").fit(
        undisguised(random_records(BOOK, 50, 1).codes)
    )
    records = random_records(BOOK, 20, seed=2)
    with pytest.raises(NotFittedError):
        clone(model).predict(records)
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict_proba(records), model.predict_proba(records))


@pytest.mark.parametrize(
    "method",
    ["predict", "predict_codes", "predict_proba", "score", "count_correct", "score_disguised"],
)
def test_an_unfitted_model_says_so(method):
    with pytest.raises(NotFittedError):
        getattr(NaiveBayes(identity_of(BOOK), "class"), method)(undisguised([[0, 0, 0]]))


def test_fit_returns_the_model_and_can_be_repeated():
    model = NaiveBayes(identity_of(BOOK), "class")
    assert model.fit(undisguised([[0, 0, 0]] * 5)) is model
    assert model.predict(undisguised([[0, 1, 0]])).tolist() == ["0"]
    model.fit(undisguised([[0, 1, 0]] * 7))
    assert model.predict(undisguised([[0, 0, 0]])).tolist() == ["1"]
    assert model.n_reports_ == 7


def test_score_is_the_share_of_correct_predictions():
    records = random_records(BOOK, 200, seed=4)
    model = NaiveBayes(identity_of(BOOK), "class").fit(undisguised(records.codes))
    hits = (model.predict(records) == records.column("class").astype(str)).sum()
    assert model.count_correct(records) == hits
    assert model.score(records) == hits / 200
    best = model.predict_proba(records).max(axis=1)
    rows = np.arange(200), model.predict_codes(records)
    np.testing.assert_allclose(model.predict_proba(records)[rows], best)


def test_predictions_do_not_look_at_the_target():
    records = random_records(BOOK, 50, seed=5)
    model = NaiveBayes(identity_of(BOOK), "class").fit(undisguised(records.codes))
    codes = np.array(records.codes)
    codes[:, 1] = 0
    assert model.predict(Records(codes, BOOK)).tolist() == model.predict(records).tolist()
    without = records.select(["b", "a"])  # no target, another order
    assert model.predict(without).tolist() == model.predict(records).tolist()


# -- refusals --------------------------------------------------------------------------------------


def test_bad_input_is_named():
    design = identity_of(BOOK)
    reports = undisguised([[0, 0, 0], [1, 1, 1]])
    with pytest.raises(
        RecordsError, match=r"^target: got 'klass'; the attributes are: a, class, b"
    ):
        NaiveBayes(design, "klass").fit(reports)
    with pytest.raises(RecordsError, match="fit: got ndarray; Reports are needed"):
        NaiveBayes(design, "class").fit(reports.codes)
    with pytest.raises(RecordsError, match="at least one attribute beyond the target"):
        NaiveBayes(Identity("class", [3]), "class").fit(
            reports_of([[0]], make_codebook(["class"], [3]), Identity("class", [3]))
        )
    with pytest.raises(RecordsError, match="no reports to fit"):
        NaiveBayes(design, "class").fit(reports.slice(0, 0))
    with pytest.raises(RecordsError, match="no reports to fit"):
        NaiveBayes(design, "class").fit_tables([])
    with pytest.raises(RecordsError, match="made by another design"):
        NaiveBayes(Warner("b", 0.8), "class").fit(reports)
    with pytest.raises(RecordsError, match="undisguised records; reports of b"):
        NaiveBayes(Warner("b", 0.8), "class").fit(random_records(BOOK, 5, seed=1))
    half = Warner("b", 0.5)
    with pytest.raises(NotInvertible):
        NaiveBayes(half, "class").fit(reports_of([[0, 0, 0]], BOOK, half))


@pytest.mark.parametrize("floor", ["n/1", "", 0, 1, -0.1, 1.5, float("nan")])
def test_bad_floors_are_named(floor):
    with pytest.raises(InputError, match=r"^floor: got .*'1/n' or a number between 0 and 1"):
        NaiveBayes(identity_of(BOOK), "class", floor).fit(undisguised([[0, 0, 0]]))


def test_records_coded_otherwise_are_refused():
    """Codes mean categories of the codebook that the model was fitted with."""
    model = NaiveBayes(identity_of(BOOK), "class").fit(undisguised([[0, 0, 0], [1, 1, 1]]))
    turned = Codebook(
        (Attribute("a", ("2", "1", "0")), *BOOK.attributes[1:]),
        "class",
    )
    with pytest.raises(RecordsError, match="attribute 'a' has other categories than the model"):
        model.predict(Records(np.array([[0, 0, 0]]), turned))
    fewer = make_codebook(["a", "class", "b"], [3, 2, 2])
    with pytest.raises(RecordsError, match="attribute 'class' has other categories"):
        model.score(Records(np.array([[0, 0, 0]]), fewer))
    with pytest.raises(CodebookError, match="no attribute 'b'"):
        model.predict(random_records(make_codebook(["a"], [3]), 3, seed=1))
    with pytest.raises(RecordsError, match="X: got list; Records are needed"):
        model.predict([[0, 0, 0]])
