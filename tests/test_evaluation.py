"""Figures of a classifier on the truth: exact on clean records, unbiased on reports."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from sklearn.metrics import (
    accuracy_score,
    balanced_accuracy_score,
    confusion_matrix,
    log_loss,
)

import ppdm_dask as pp
from ppdm_dask.errors import RecordsError

SHAPE = (2, 3, 3)
BOOK = pp.Codebook(
    tuple(
        pp.Attribute(name, tuple(map(str, range(k)))) for name, k in zip("abc", SHAPE, strict=True)
    ),
    target="c",
)
DESIGN = pp.Product([pp.UnrelatedQuestion(["a", "b"], 0.6, [0.5, [0.2, 0.3, 0.5]])])


def records(n: int, seed: int) -> pp.Records:
    rng = np.random.default_rng(seed)
    a, b = rng.integers(0, 2, n), rng.integers(0, 3, n)
    c = np.where(rng.random(n) < 0.7, (a + b) % 3, rng.integers(0, 3, n))
    return pp.Records(np.column_stack([a, b, c]), BOOK)


DESIGNS = {
    "blocks": pp.Product([pp.Warner("a", 0.8), pp.KaryResponse("b", 3, p=0.7)]),
    "all": pp.Product(
        [pp.Warner("a", 0.8), pp.KaryResponse("b", 3, p=0.7), pp.KaryResponse("c", 3, p=0.8)]
    ),
}
MODELS: list[Any] = [pp.NaiveBayes(target="c"), pp.ID3(target="c", max_depth=2)]


@pytest.mark.parametrize("model", MODELS, ids=["bayes", "tree"])
def test_on_clean_records_the_figures_are_scikit_learns(model: Any) -> None:
    test = records(500, 2)
    model.fit(records(2_000, 1))
    found = pp.evaluate(model, test, thresholds=[0.2, 0.5])
    actual, predicted = test.column("c"), model.predict_codes(test)
    chances = model.predict_proba(test)
    np.testing.assert_allclose(
        found.confusion.values, confusion_matrix(actual, predicted).T / 500, atol=1e-12
    )
    assert found.accuracy.value == pytest.approx(accuracy_score(actual, predicted))
    assert found.balanced_accuracy.value == pytest.approx(
        balanced_accuracy_score(actual, predicted)
    )
    assert found.log_loss.value == pytest.approx(log_loss(actual, chances))
    losses = -np.log(chances[np.arange(500), actual])
    assert found.log_loss.standard_error == pytest.approx(losses.std(ddof=1) / math.sqrt(500))
    points = found.roc("1")
    assert points["threshold"].tolist() == [0.5, 0.2, 0.0]
    for row in points.itertuples():
        above = chances[:, 1] >= row.threshold
        assert row.true_positive_rate == pytest.approx(above[actual == 1].mean())
        assert row.false_positive_rate == pytest.approx(above[actual != 1].mean())


@pytest.mark.parametrize("design", DESIGNS.values(), ids=DESIGNS)
def test_on_reports_the_figures_are_those_of_the_truth_on_average(design: pp.Design) -> None:
    model = pp.NaiveBayes(target="c").fit(records(2_000, 1))
    model.design_ = design
    test = records(300, 2)
    truth = pp.evaluate(model, test)
    names = ("accuracy", "log_loss")
    means: dict[str, list[float]] = {name: [] for name in (*names, "cell")}
    errors = []
    for seed in range(80):
        found = pp.evaluate(model, design.disguise(test, pp.Stream.from_seed(seed)))
        for name in names:
            means[name].append(getattr(found, name).value)
        means["cell"].append(float(found.confusion.values[1, 2]))
        errors.append(float(found.log_loss.standard_error))
    for name, values in means.items():
        true = float(truth.confusion.values[1, 2]) if name == "cell" else getattr(truth, name).value
        assert abs(np.mean(values) - true) < 4 * np.std(values, ddof=1) / math.sqrt(80), name
    # Errors are of the population: the disguise and which records are drawn.
    spread = np.std(means["log_loss"], ddof=1)
    sampled = float(truth.log_loss.standard_error)
    assert np.mean(errors) == pytest.approx(math.hypot(spread, sampled), rel=0.2)


def test_the_accuracy_is_that_of_the_score() -> None:
    design = DESIGNS["all"]
    train, test = (design.disguise(records(2_000, i), pp.Stream.from_seed(i)) for i in (1, 2))
    for model in (pp.NaiveBayes(design, "c"), pp.ID3(design, "c", max_depth=2)):
        model.fit(train)
        found, score = pp.evaluate(model, test), model.score_disguised(test)
        assert found.accuracy.value == pytest.approx(score.value, abs=1e-9)
        assert float(found.accuracy.standard_error) == pytest.approx(
            float(score.standard_error), rel=1e-6
        )
        assert found.confusion.values.sum() == pytest.approx(1)


def test_the_error_of_the_balanced_accuracy_is_that_over_repetitions() -> None:
    design = DESIGNS["blocks"]
    model = pp.NaiveBayes(target="c").fit(records(2_000, 1))
    model.design_ = design
    found = [
        pp.evaluate(model, design.disguise(records(300, i), pp.Stream.from_seed(i)))
        for i in range(120)
    ]
    values = [each.balanced_accuracy.value for each in found]
    said = np.mean([float(each.balanced_accuracy.standard_error) for each in found])
    assert said == pytest.approx(np.std(values, ddof=1), rel=0.2)
    rates = [each.roc("2")["true_positive_rate"].iloc[9] for each in found]
    said = np.mean([each.roc("2")["true_positive_error"].iloc[9] for each in found])
    assert said == pytest.approx(np.std(rates, ddof=1), rel=0.2)


def test_what_cannot_be_evaluated_is_refused() -> None:
    model = pp.NaiveBayes(target="c").fit(records(200, 1))
    with pytest.raises(RecordsError, match="at least one record"):
        pp.evaluate(model, records(10, 1)[[]])
    with pytest.raises(pp.InputError, match="thresholds: numbers above 0"):
        pp.evaluate(model, records(10, 1), thresholds=[1.5])
    with pytest.raises(pp.InputError, match="positive: got 'x'; the classes are 0, 1, 2"):
        pp.evaluate(model, records(10, 1)).roc("x")
    with pytest.raises(RecordsError, match="design"):
        pp.evaluate(model, DESIGN.disguise(records(10, 1), pp.Stream.from_seed(1)))
