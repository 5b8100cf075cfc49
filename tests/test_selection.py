"""scikit-learn's conventions and model selection, on disguised reports and on undisguised data."""

from __future__ import annotations

import math
import pickle
from typing import Any

import numpy as np
import pandas as pd
import pytest
from estimator_checks import each_check
from sklearn.base import clone
from sklearn.model_selection import (
    GridSearchCV,
    GroupKFold,
    KFold,
    cross_val_score,
    learning_curve,
    train_test_split,
)
from sklearn.naive_bayes import CategoricalNB
from sklearn.pipeline import Pipeline

import ppdm_dask as pp
from ppdm_dask.errors import DesignError, RecordsError
from ppdm_dask.mine.selection import accuracy_of

FRACTIONS = "its data are fractions whatever the tags say; categories are needed"
ONE_CLASS = "its data are fractions whatever the tags say, so it never sees one class"


def expected_failures(estimator: Any) -> dict[str, str]:
    if isinstance(estimator, pp.NaiveBayes):
        return {
            "check_sample_weight_equivalence_on_dense_data": FRACTIONS,
            "check_classifiers_one_label_sample_weights": ONE_CLASS,
        }
    return {}


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
@each_check(
    [pp.NaiveBayes(), pp.TAN(), pp.ID3(max_depth=3)], expected_failed_checks=expected_failures
)
def test_scikit_learns_checks(estimator: Any, check: Any) -> None:
    check(estimator)


@pytest.fixture(scope="module")
def clean() -> pp.Records:
    frame = pp.datasets.load("breast-cancer")
    book = pp.Codebook.from_toml(pp.resources.codebook_path("breast-cancer"))
    return book.binarise(frame, "midrange").encode(frame)


@pytest.fixture(scope="module")
def design(clean: pp.Records) -> pp.Design:
    return pp.UnrelatedQuestion(clean.codebook.names, q=0.9)


@pytest.fixture(scope="module")
def reports(clean: pp.Records, design: pp.Design) -> pp.Reports:
    return design.disguise(clean, pp.Stream.from_seed(1))


LEARNERS = [
    lambda d: pp.ID3(d, "class", max_depth=2),
    lambda d: pp.NaiveBayes(d, "class"),
    lambda d: pp.TAN(d, "class"),
]


# -- records by position ---------------------------------------------------------------------------


def test_records_are_chosen_as_rows_of_an_array_are(reports: pp.Reports) -> None:
    n, kept = len(reports), np.arange(len(reports))
    records = pp.Reports(reports.codes, reports.codebook, kept={"row": kept}, weights=kept + 1.0)
    mask = kept % 7 == 3
    assert records.shape == records.codes.shape
    for rows in (slice(3, 9), slice(None, None, 5), [4, 2, 2], mask, np.flatnonzero(mask), [-1]):
        chosen = records[rows]
        np.testing.assert_array_equal(chosen.codes, records.codes[rows])
        np.testing.assert_array_equal(chosen.kept["row"], kept[rows])
        np.testing.assert_array_equal(chosen.weights, kept[rows] + 1.0)
        np.testing.assert_array_equal(records[rows, ...].codes, chosen.codes)
    assert len(records[5]) == 1
    assert len(records[[]]) == 0
    # A part of the data set, or other records.
    assert (records[3:9].offset, records[[3, 4]].offset) == (3, 0)
    for impossible in ([n], np.ones(n - 1, bool)):
        with pytest.raises(IndexError):
            records[impossible]
    with pytest.raises(RecordsError, match="attributes by select"):
        records["class"]


# -- searches --------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", LEARNERS)
def test_cross_validation_scores_each_fold_without_bias(
    make: Any, reports: pp.Reports, design: pp.Design
) -> None:
    folds = KFold(4, shuffle=True, random_state=0)
    expected = [
        make(design).fit(reports.take(train)).score_disguised(reports.take(test)).value
        for train, test in folds.split(np.zeros(len(reports)))
    ]
    np.testing.assert_array_equal(cross_val_score(make(design), reports, cv=folds), expected)
    # Reports know their design.
    np.testing.assert_array_equal(cross_val_score(make(None), reports, cv=folds), expected)
    groups = np.arange(len(reports)) % 10
    assert len(cross_val_score(make(design), reports, cv=GroupKFold(5), groups=groups)) == 5


def test_other_helpers_take_reports(reports: pp.Reports, design: pp.Design) -> None:
    train, test = train_test_split(reports, test_size=0.25, random_state=0)
    assert (len(train) + len(test), type(test)) == (len(reports), pp.Reports)
    sizes, _, scores = learning_curve(pp.NaiveBayes(design, "class"), reports, None, cv=3)
    assert scores.shape == (len(sizes), 3)
    weights = np.arange(len(reports)) % 3
    found = pp.NaiveBayes(design, "class").fit(reports, sample_weight=weights)
    plain = reports.take(np.flatnonzero(weights)).surveyed(weights[weights > 0])
    same = pp.NaiveBayes(design, "class").fit(plain)
    np.testing.assert_array_equal(found.class_log_prior_, same.class_log_prior_)


def test_a_search_has_standard_errors_and_the_rule_of_one(
    reports: pp.Reports, design: pp.Design
) -> None:
    depths, folds = [1, 2, 3, None], KFold(4)
    search = GridSearchCV(
        pp.ID3(design, "class"),
        {"max_depth": depths},
        scoring=pp.disguised_accuracy,
        refit=pp.one_standard_error("max_depth"),
        cv=folds,
    ).fit(reports)
    means, errors = [], []
    for depth in depths:
        found = [
            pp.ID3(design, "class", depth).fit(reports[train]).score_disguised(reports[test])
            for train, test in folds.split(np.zeros(len(reports)))
        ]
        means.append(math.fsum(each.value for each in found) / 4)
        errors.append(math.sqrt(math.fsum(each.standard_error**2 for each in found)) / 4)
    np.testing.assert_allclose(search.cv_results_["mean_test_accuracy"], means, rtol=1e-12)
    best = int(np.argmax(means))
    chosen = next(i for i in range(4) if means[i] >= means[best] - errors[best])
    assert search.best_params_ == {"max_depth": depths[chosen]}
    assert search.best_estimator_.max_depth == depths[chosen]


def results(means: list[float], stds: list[float], values: list[Any]) -> dict[str, Any]:
    splits = {f"split{k}_test_score": means for k in range(5)}
    return {
        "mean_test_score": np.array(means),
        "std_test_score": np.array(stds),
        "param_m": np.array(values, object),
        **splits,
    }


@pytest.mark.parametrize(
    ("means", "stds", "values", "simplest", "chosen"),
    [
        # The best is .90 with error .02 / 2.
        ([0.88, 0.895, 0.90], [0.02] * 3, [1, 2, 3], "smallest", 1),
        ([0.88, 0.895, 0.90], [0.02] * 3, [3, 2, 1], "largest", 1),
        ([0.90, 0.895, 0.88], [0.02] * 3, [None, 4, 2], "smallest", 1),
        ([0.90, 0.895, 0.88], [0.0] * 3, [None, 4, 2], "smallest", 0),
        ([0.895, 0.90, 0.898], [0.02] * 3, [1, 1, 1], "smallest", 1),
        ([math.nan, 0.90, 0.898], [math.nan, 0.02, 0.02], [1, 2, 3], "smallest", 1),
    ],
)
def test_the_simplest_within_one_standard_error_is_chosen(
    means: list[float], stds: list[float], values: list[Any], simplest: str, chosen: int
) -> None:
    assert pp.one_standard_error("m", simplest=simplest)(results(means, stds, values)) == chosen


def test_the_rule_needs_a_parameter_that_the_search_varies() -> None:
    with pytest.raises(pp.InputError, match="does not vary 'depth'; it varies: m"):
        pp.one_standard_error("depth")(results([0.5], [0.1], [1]))
    with pytest.raises(pp.InputError, match="simplest: got 'first'"):
        pp.one_standard_error("depth", simplest="first")


def test_the_error_of_an_accuracy_on_clean_records_is_that_of_a_share(clean: pp.Records) -> None:
    model = pp.NaiveBayes(None, "class").fit(clean)
    found, share = accuracy_of(model, clean), model.score(clean)
    assert found.value == share
    hits = np.repeat(
        [1.0, 0.0], [round(share * len(clean)), len(clean) - round(share * len(clean))]
    )
    assert found.standard_error == pytest.approx(hits.std(ddof=1) / math.sqrt(len(clean)))


# -- parameters of designs -------------------------------------------------------------------------


def test_parameters_of_the_design_are_set_by_name(clean: pp.Records) -> None:
    model = pp.ID3(pp.Warner("class", 0.8), "class", max_depth=1)
    changed = clone(model).set_params(design__theta=0.7, max_depth=2)
    assert changed.design == pp.Warner("class", 0.7)
    assert (changed.max_depth, model.design) == (2, pp.Warner("class", 0.8))
    assert model.get_params()["design__theta"] == 0.8
    with pytest.raises(DesignError, match="q: not a parameter"):
        model.set_params(design__q=0.5)
    with pytest.raises(ValueError, match="Invalid parameter 'depth'"):
        model.set_params(depth=3)
    with pytest.raises(pp.InputError, match="there is none"):
        pp.ID3().set_params(design__theta=0.5)


def test_designs_are_compared_by_what_a_learner_makes_of_their_reports(clean: pp.Records) -> None:
    names = clean.codebook.names
    weak, strong = (pp.UnrelatedQuestion(names, q=q) for q in (0.95, 0.3))
    steps = [("disguise", pp.Disguise(weak, 3)), ("tree", pp.ID3(max_depth=1))]
    search = GridSearchCV(
        Pipeline(steps),
        {"disguise__design": [weak, strong], "tree__max_depth": [1, 2]},
        scoring=pp.disguised_accuracy,
        refit="accuracy",
        cv=4,
    ).fit(clean)
    assert search.best_params_["disguise__design"] == weak
    assert 0.8 < search.best_score_ < 1.1
    # The error of the stronger disguise is larger, and said to be.
    errors = search.cv_results_["mean_test_standard_error"]
    assert errors[2:].min() > 2 * errors[:2].max()


def test_a_step_disguises_parts_apart_and_the_same_part_alike(clean: pp.Records) -> None:
    step = pp.Disguise(pp.UnrelatedQuestion(clean.codebook.names, q=0.5), 7)
    twice = pp.Records(np.concatenate([clean.codes, clean.codes[::-1]]), clean.codebook)
    first, second = (step.transform(twice[rows]) for rows in (slice(0, 699), slice(699, 1398)))
    np.testing.assert_array_equal(first.codes, step.transform(clean).codes)
    assert first.simulated
    # Alike by chance only: a coin of each pair says whether it is disguised alike.
    alike = (first.codes == second.codes[::-1]).all(axis=1).mean()
    assert alike < 0.6
    with pytest.raises(RecordsError, match="undisguised Records are needed"):
        step.fit(first)
    for seed in (-1, 0.5, "a"):
        with pytest.raises(pp.InputError, match="seed"):
            pp.Disguise(step.design, seed).transform(clean)


def test_pipelines_score_without_bias(clean: pp.Records) -> None:
    design = pp.UnrelatedQuestion(clean.codebook.names, q=0.6)
    train, test = clean[:400], clean[400:]
    scores, accuracies = [], []
    for seed in range(60):
        steps = [("disguise", pp.Disguise(design, seed)), ("bayes", pp.NaiveBayes())]
        fitted = Pipeline(steps).fit(train)
        scores.append(fitted.score(test))
        accuracies.append(fitted.named_steps["bayes"].score(test))
    differences = np.subtract(scores, accuracies)
    assert abs(differences.mean()) < 4 * differences.std(ddof=1) / math.sqrt(60)


# -- undisguised arrays and frames -----------------------------------------------------------------


def table(n: int = 400) -> tuple[pd.DataFrame, np.ndarray]:
    rng = np.random.default_rng(5)
    frame = pd.DataFrame(
        {
            "colour": rng.choice(["red", "green", "blue"], n),
            "size": rng.integers(1, 5, n),
            "old": rng.random(n) < 0.5,
        }
    )
    y = np.where((frame["size"] > 2) ^ (rng.random(n) < 0.2), "yes", "no")
    return frame, y


def test_naive_bayes_of_a_table_is_scikit_learns() -> None:
    frame, y = table()
    model = pp.NaiveBayes().fit(frame, y)
    codes = np.column_stack([np.unique(frame[c], return_inverse=True)[1] for c in frame])
    peer = CategoricalNB(alpha=1e-12, force_alpha=True).fit(codes, y)
    np.testing.assert_allclose(model.predict_proba(frame), peer.predict_proba(codes), atol=1e-9)
    np.testing.assert_array_equal(model.predict(frame), peer.predict(codes))
    assert model.score(frame, y) == peer.score(codes, y)
    assert list(model.feature_names_in_) == list(frame)


def test_a_tree_of_a_table_is_that_of_its_records() -> None:
    frame, y = table()
    tree = pp.ID3(max_depth=2).fit(frame, y)
    whole = frame.astype(str).assign(y=y)
    attributes = [pp.Attribute(n, tuple(sorted(set(whole[n])))) for n in whole]
    book = pp.Codebook(tuple(attributes), target="y")
    same = pp.ID3(max_depth=2).fit(book.encode(whole))
    np.testing.assert_array_equal(tree.predict(frame), same.predict(book.encode(whole)))
    assert len(tree.tree_) == len(same.tree_)
    # Answers by label serve a model of records, with and without the target.
    np.testing.assert_array_equal(same.predict(whole), same.predict(whole.drop(columns="y")))
    assert same.score(whole) == tree.score(frame, y)
    assert pickle.loads(pickle.dumps(tree)).score(frame, y) == tree.score(frame, y)


def test_what_is_no_table_of_categories_is_refused() -> None:
    frame, y = table(40)
    model = pp.NaiveBayes()
    with pytest.raises(RecordsError, match="column 'size' has fractions"):
        model.fit(frame[["size"]] + 0.5, y)
    with pytest.raises(RecordsError, match="column 'colour': 'pink' is none of the categories"):
        model.fit(frame, y).predict(frame.replace("red", "pink"))
    with pytest.raises(RecordsError, match="requires y to be passed"):
        model.fit(frame)
    with pytest.raises(RecordsError, match="'size', which is a column of X too"):
        pp.NaiveBayes(target="size").fit(frame, y)
    with pytest.raises(RecordsError, match="design=None for undisguised columns"):
        pp.NaiveBayes(pp.Warner("old", 0.8), "old").fit(frame, y)


@pytest.mark.parametrize("make", LEARNERS)
def test_reports_hold_their_target(make: Any, reports: pp.Reports, design: pp.Design) -> None:
    model = make(design)
    for impossible in (model.fit, model.fit(reports).score):
        with pytest.raises(RecordsError, match="leave y out"):
            impossible(reports, np.zeros(len(reports)))
    with pytest.raises(RecordsError, match="score of reports takes none"):
        model.score(reports, sample_weight=np.ones(len(reports)))
    with pytest.raises(RecordsError, match="Records are needed"):
        model.predict(reports.codes)
    with pytest.raises(RecordsError, match="do not carry theirs"):
        make(None).fit(pp.Reports(reports.codes, reports.codebook, design_digest=design.digest))
