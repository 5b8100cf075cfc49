"""Regressions of disguised answers against statsmodels, brute force and direct optimisation."""

from __future__ import annotations

import itertools
import sys
from typing import Any

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
import statsmodels.formula.api as smf
from scipy.optimize import approx_fprime, check_grad, minimize
from sklearn.base import clone

import ppdm_dask as pp
from ppdm_dask.errors import NotIdentified, RecordsError
from ppdm_dask.inference.clusters import linearised

BOOK = pp.Codebook(
    (
        pp.Attribute("used", ("no", "yes")),
        pp.Attribute("often", ("never", "once", "weekly")),
        pp.Attribute("drinks", ("0", "1")),
        pp.Attribute("region", ("a", "b", "c")),
    )
)

CHANNELS = {
    "used": [[0.8, 0.3], [0.2, 0.7]],
    "drinks": [[0.9, 0.2], [0.1, 0.8]],
    "often": [[0.7, 0.1, 0.2], [0.2, 0.8, 0.1], [0.1, 0.1, 0.7]],
}


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    draw = np.random.default_rng(5)
    n = 900
    table = pd.DataFrame({"age": draw.normal(40, 10, n), "school": draw.integers(0, 45, n)})
    table["region"] = draw.choice(["a", "b", "c"], n)
    table["drinks"] = draw.integers(0, 2, n).astype(str)
    table["w"] = draw.uniform(0.5, 2, n)
    eta = -2 + 0.04 * table.age + 0.5 * (table.region == "b") + 0.7 * (table.drinks == "1")
    table["used"] = np.where(draw.random(n) < 1 / (1 + np.exp(-eta)), "yes", "no")
    table["often"] = draw.choice(["never", "once", "weekly"], n, p=[0.5, 0.3, 0.2])
    table["income"] = 1000 * eta + draw.normal(0, 500, n)
    table["visits"] = draw.poisson(np.exp(eta / 3))
    return table


def design_of(*names: str) -> Any:
    blocks = [
        pp.RRMatrix(name, P=CHANNELS[name], categories=list(BOOK[name].categories))
        for name in names
    ]
    return (pp.designs.Product(blocks) if len(blocks) > 1 else blocks[0]).bind(BOOK)


def reports_of(frame: pd.DataFrame, *names: str) -> tuple[Any, Any]:
    design = design_of(*names)
    keep = ["age", "school", "w", "income", "visits"]
    stream = pp.Stream.from_seed(7)
    return design, design.disguise(frame, stream, codebook=BOOK, keep=keep)


# -- no disguise -----------------------------------------------------------------------------------

PEERS = {
    "binomial": ("used", lambda f, d: smf.glm(f"u ~ {f}", d, family=sm.families.Binomial())),
    "gaussian": ("income", lambda f, d: smf.ols(f"income ~ {f}", d)),
    "poisson": ("visits", lambda f, d: smf.glm(f"visits ~ {f}", d, family=sm.families.Poisson())),
    "multinomial": ("often", lambda f, d: smf.mnlogit(f"o ~ {f}", d)),
}
RIGHT = "age + C(region) + drinks:age"
TIGHT: dict[str, dict[str, Any]] = {
    "gaussian": {},
    "multinomial": {"disp": 0, "method": "newton", "tol": 1e-15},
}


@pytest.mark.parametrize("family", PEERS)
def test_without_a_disguise_it_is_statsmodels(family: str, frame: pd.DataFrame) -> None:
    outcome, peer = PEERS[family]
    codes = {"no": 0, "yes": 1, "never": 0, "once": 1, "weekly": 2}
    told = frame.assign(
        u=frame.used.map(codes), o=frame.often.map(codes), drinks=frame.drinks.astype(int)
    )
    right = "drinks + age + C(region)"
    model, options = peer(right, told), TIGHT.get(family, {"tol": 1e-15})
    theirs = model.fit(**options)
    # Undisguised attributes and a frame are the same to it.
    book = BOOK.select(["used", "often", "drinks", "region"])
    identity = pp.Identity("used", [2]).bind(book)
    records = book.encode(frame, keep=["age", "school", "income", "visits"])
    for design, data in ((None, frame.assign(drinks=told.drinks)), (identity, records)):
        fit = pp.GLM(design, f"{outcome} ~ {right}", family=family).fit(data)
        order = [list(fit.terms_).index(name) for name in model.exog_names]
        scale = np.asarray(theirs.bse)
        assert np.abs(fit.coef_[order] - np.asarray(theirs.params)).max() < 1e-8 * scale.max()
        np.testing.assert_allclose(fit.standard_errors_[order], scale, rtol=1e-8)
        assert fit.loglikelihood_ == pytest.approx(theirs.llf, rel=1e-12)
        assert fit.method_ == "maximum likelihood"
        small = pp.GLM(design, f"{outcome} ~ age + C(region)", family=family).fit(data)
        less = peer("age + C(region)", told).fit(**options)
        test = fit.compare(small)
        assert test.statistic == pytest.approx(2 * (theirs.llf - less.llf), rel=1e-7)
        # Clusters: theirs without a correction has no m / (m - 1).
        fit.fit(data, clusters="school")
        groups = {"groups": frame.school, "use_correction": False}
        options_ = options | {"cov_type": "cluster", "cov_kwds": groups}
        m = frame.school.nunique()
        expected = np.asarray(model.fit(**options_).bse) * np.sqrt(m / (m - 1))
        np.testing.assert_allclose(fit.standard_errors_[order], expected, rtol=1e-8)


# -- the outcome disguised -------------------------------------------------------------------------


def negative_log_likelihood(beta: Any, X: Any, P: Any, reported: Any) -> float:
    eta = np.concatenate([np.zeros((len(X), 1)), X @ beta.reshape(X.shape[1], -1)], axis=1)
    mu = np.exp(eta - np.logaddexp.reduce(eta, axis=1)[:, None])
    return -float(np.log((mu * P[reported]).sum(axis=1)).sum())


@pytest.mark.parametrize(("family", "outcome"), [("binomial", "used"), ("multinomial", "often")])
def test_a_disguised_outcome_is_at_the_optimum(
    family: str, outcome: str, frame: pd.DataFrame
) -> None:
    design, reports = reports_of(frame, outcome)
    fit = pp.GLM(design, f"{outcome} ~ I((age - 40) / 10) + region", family=family).fit(reports)
    assert fit.method_ == "maximum likelihood"
    regions = [(frame.region == label).to_numpy(float) for label in "bc"]
    X = np.stack([np.ones(len(frame)), (frame.age.to_numpy() - 40) / 10, *regions], axis=1)
    P, reported = np.array(CHANNELS[outcome]), reports.column(outcome)
    q = len(P) - 1

    def aim(beta: Any) -> float:
        return negative_log_likelihood(beta, X, P, reported)

    def slope(beta: Any) -> Any:
        # Fisher's identity: the mean of the complete data's score, given the reports.
        eta = np.concatenate([np.zeros((len(X), 1)), X @ beta.reshape(X.shape[1], -1)], axis=1)
        mu = np.exp(eta - np.logaddexp.reduce(eta, axis=1)[:, None])
        joint = mu * P[reported]
        return -(X.T @ (joint / joint.sum(axis=1, keepdims=True) - mu)[:, 1:]).ravel()

    assert check_grad(aim, slope, np.full(4 * q, 0.1)) < 1e-2
    best = minimize(aim, np.zeros(4 * q), jac=slope, method="BFGS", options={"gtol": 1e-9})
    np.testing.assert_allclose(fit.coef_.ravel(), best.x, atol=1e-7)
    assert fit.loglikelihood_ >= -best.fun - 1e-9
    # Errors by the curvature of that likelihood, from differences of it.
    h = 1e-4
    eye = np.eye(4 * q) * h
    centre = fit.coef_.ravel()
    curve = [
        [
            (aim(centre + a + b) - aim(centre + a - b) - aim(centre - a + b) + aim(centre - a - b))
            / (4 * h * h)
            for a in eye
        ]
        for b in eye
    ]
    np.testing.assert_allclose(fit.covariance_, np.linalg.inv(curve), rtol=1e-3, atol=1e-6)


def test_groups_of_a_saturated_model_are_the_unbiased_proportions(frame: pd.DataFrame) -> None:
    design, reports = reports_of(frame, "used")
    for method in ("mle", "corrected"):
        fit = pp.GLM(design, outcome="used", predictors=["region"], method=method).fit(reports)
        margins = fit.margins("region").to_frame()
        found = pp.estimate(reports, ["used"], by="region", design=design)
        np.testing.assert_allclose(margins.value, found.values[:, 1], atol=1e-9)
        # The ratio's own linearised error, but for n / (n - 1) within groups or over all.
        errors = np.asarray(found.standard_error)[:, 1]
        np.testing.assert_allclose(margins.standard_error, errors, rtol=5e-3)
        effects = fit.effects("region").to_frame()
        np.testing.assert_allclose(
            effects.value, (margins.value - margins.value[0])[1:], atol=1e-12
        )
        gaps = np.hypot(margins.standard_error[1:], margins.standard_error[0])
        np.testing.assert_allclose(effects.standard_error, gaps, rtol=1e-2)
    whole = fit.margins()
    plain = pp.estimate(reports, {"used": "yes"}, design=design)
    assert whole.values[0] == pytest.approx(plain.value, abs=1e-9)
    assert whole.standard_errors[0] == pytest.approx(float(plain.standard_error), rel=1e-9)


# -- predictors disguised --------------------------------------------------------------------------


def brute_force_score(
    beta: Any, family: str, reports: Any, names: tuple[str, ...], ages: Any, weights: Any
) -> Any:
    """The corrected score of each respondent, cell by cell: outcome, drinks."""
    inverses = [
        np.linalg.inv(CHANNELS[name]) if name in design_names else np.eye(len(BOOK[name]))
        for name in names
        for design_names in [CHANNELS]
    ]
    sizes = [len(BOOK[name]) for name in names]
    outcome_values = np.arange(sizes[0], dtype=float)
    total = np.zeros((len(ages), 3))
    for cell in itertools.product(*map(range, sizes)):
        w = np.ones(len(ages))
        for name, B, code in zip(names, inverses, cell, strict=True):
            w = w * B[code, reports.column(name)]
        x = np.stack([np.ones(len(ages)), ages, np.full(len(ages), float(cell[1]))], axis=1)
        eta = x @ beta
        mu = {"binomial": 1 / (1 + np.exp(-eta)), "poisson": np.exp(eta), "gaussian": eta}[family]
        total += (w * (outcome_values[cell[0]] - mu))[:, None] * x
    return total * weights[:, None]


@pytest.mark.parametrize(
    ("family", "outcome"), [("binomial", "used"), ("poisson", "often"), ("gaussian", "often")]
)
def test_corrected_scores_are_the_sum_over_the_true_cells(
    family: str, outcome: str, frame: pd.DataFrame
) -> None:
    frame = frame.assign(age=(frame.age - 40) / 10)
    design, reports = reports_of(frame, outcome, "drinks")
    model = pp.GLM(
        design,
        outcome=outcome,
        predictors=["age", "drinks"],
        family=family,
        values={"often": [0, 1, 2]},
    )
    fit = model.fit(reports, weights="w", clusters="school")
    assert fit.method_ == "corrected score"
    ages, weights = frame.age.to_numpy(), frame.w.to_numpy()
    weights = weights / weights.mean()

    def score(beta: Any) -> Any:
        return brute_force_score(beta, family, reports, (outcome, "drinks"), ages, weights)

    scores = score(fit.coef_)
    assert np.abs(scores.sum(axis=0)).max() < 1e-7
    A = np.stack(
        [approx_fprime(fit.coef_, lambda b, j=j: score(b).sum(axis=0)[j], 1e-7) for j in range(3)]
    )
    inverse = np.linalg.inv(A)
    meat = linearised(scores, clusters=frame.school)
    np.testing.assert_allclose(fit.covariance_, inverse @ meat @ inverse.T, rtol=1e-4, atol=1e-9)


def test_blocks_that_disguise_together_keep_their_weights(frame: pd.DataFrame) -> None:
    # Outcome and predictor in one block that is not lumpable: P has no structure at all.
    draw = np.random.default_rng(1)
    P = 0.7 * np.eye(4) + 0.3 * draw.dirichlet(np.ones(4), 4).T
    design = pp.RRMatrix(
        ("used", "drinks"), P=P, shape=[2, 2], categories=[["no", "yes"], ["0", "1"]]
    ).bind(BOOK)
    reports = design.disguise(frame, pp.Stream.from_seed(1), codebook=BOOK)
    fit = pp.GLM(design, outcome="used", predictors=["drinks"]).fit(reports)
    p = pp.estimate(reports, ["used", "drinks"], design=design).values
    logits = np.log(p[1] / p[0])
    np.testing.assert_allclose(fit.coef_, [logits[0], logits[1] - logits[0]], atol=1e-9)


def test_sets_are_predictors_too(frame: pd.DataFrame) -> None:
    design = pp.designs.SubsetSelection("often", 3, size=1, epsilon=3.0).bind(BOOK)
    reports = design.disguise(frame, pp.Stream.from_seed(1), codebook=BOOK)
    fit = pp.GLM(design, outcome="used", predictors=["often"]).fit(reports)
    p = pp.estimate(reports, ["used", "often"], design=design).values
    logits = np.log(p[1] / p[0])
    expected = [logits[0], logits[1] - logits[0], logits[2] - logits[0]]
    np.testing.assert_allclose(fit.coef_, expected, atol=1e-9)


# -- what it refuses, and conventions --------------------------------------------------------------


def test_it_says_what_is_not_identified(frame: pd.DataFrame) -> None:
    with pytest.raises(NotIdentified, match=r"age, I\(2 \* age\) depend on one another"):
        pp.GLM(formula="used ~ age + I(2 * age)").fit(frame)
    with pytest.raises(NotIdentified, match="separation"):
        pp.GLM(formula="used ~ age + late").fit(frame.assign(late=(frame.used == "yes") * 1.0))
    design, reports = reports_of(frame, "used")
    rare = np.where(np.arange(len(frame)) < 5, "x", "y")
    only = pp.Reports(
        np.where((rare == "x")[:, None], 0, reports.codes),
        reports.codebook,
        0,
        design.digest,
        kept={"rare": rare},
    )
    with pytest.raises(NotIdentified, match="rare"):
        pp.GLM(design, outcome="used", predictors=["rare"]).fit(only)
    weak = pp.RRMatrix("drinks", P=[[0.52, 0.48], [0.48, 0.52]], categories=["0", "1"]).bind(BOOK)
    few = weak.disguise(frame[:40], pp.Stream.from_seed(2), codebook=BOOK)
    with pytest.raises(NotIdentified, match="not identified by these data"):
        pp.GLM(weak, outcome="used", predictors=["drinks"]).fit(few)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"formula": "used ~ nobody"}, "there is no variable 'nobody'"),
        ({"formula": "used + drinks ~ age"}, "`outcome ~ predictors` is needed"),
        ({"formula": "used ~ (age"}, "`outcome ~ predictors` is needed"),
        ({"formula": "used ~ age + used"}, "is a predictor too"),
        ({"formula": "often ~ age"}, "'often' has 3 categories; name those that count"),
        ({"formula": "used ~ age", "success": "maybe"}, "success: got 'maybe'"),
        ({"formula": "used ~ age", "family": "probit"}, "family: got 'probit'"),
        ({"formula": "region ~ age", "family": "poisson"}, "the outcome needs numbers"),
        ({"formula": "used ~ drinks", "method": "mle"}, "there is no likelihood"),
        ({"formula": "used ~ drinks", "errors": "model"}, "use 'sandwich'"),
        ({"formula": "age ~ drinks"}, "needs categories, not 900 different numbers"),
        ({}, "outcome: none is given"),
    ],
)
def test_refusals_are_one_line(options: Any, said: str, frame: pd.DataFrame) -> None:
    design, reports = reports_of(frame, "used", "drinks")
    with pytest.raises(pp.InputError, match=said) as error:
        pp.GLM(design, **options).fit(reports)
    assert "\n" not in str(error.value)


def test_other_designs_are_refused(frame: pd.DataFrame) -> None:
    design, reports = reports_of(frame, "used")
    with pytest.raises(pp.InputError, match="got Stratified; a regression takes one design"):
        pp.GLM(pp.Stratified([design]), "used ~ age").fit(reports)
    with pytest.raises(RecordsError, match="made by another design"):
        pp.GLM(pp.Warner("used", theta=0.6), "used ~ age").fit(reports)
    with pytest.raises(RecordsError, match="Reports are needed"):
        pp.GLM(design, "used ~ age").fit(frame)


def test_rows_that_lack_a_variable_are_refused_or_dropped(frame: pd.DataFrame) -> None:
    holes = frame.assign(age=frame.age.where(frame.index % 9 != 0))
    design, reports = reports_of(holes, "used")
    with pytest.raises(RecordsError, match="100 of 900 rows lack a variable"):
        pp.GLM(design, "used ~ age").fit(reports, clusters="school")
    fit = pp.GLM(design, "used ~ age", missing="drop").fit(reports, clusters="school")
    whole = pp.GLM(design, "used ~ age").fit(
        reports[holes.age.notna().to_numpy()], clusters="school"
    )
    np.testing.assert_array_equal(fit.covariance_, whole.covariance_)
    assert (fit.n_reports_, fit.n_dropped_) == (800, 100)


def test_a_column_of_zeros_and_ones_is_an_outcome(frame: pd.DataFrame) -> None:
    told = frame.assign(u=(frame.used == "yes") * 1)
    one = pp.GLM(formula="u ~ age").fit(told)
    np.testing.assert_array_equal(one.coef_, pp.GLM(formula="used ~ age").fit(told).coef_)
    assert one.classes_.tolist() == ["0", "1"]


def test_conventions(frame: pd.DataFrame) -> None:
    design, reports = reports_of(frame, "used", "drinks")
    model = pp.GLM(design, "used ~ age + drinks + region")
    fit = clone(model)
    assert fit.get_params()["design"] == design
    assert fit.fit(reports) is fit
    assert fit.n_features_in_ == 3
    assert list(fit.feature_names_in_) == ["age", "drinks", "region"]
    told = fit.predict_proba(frame)
    eta = fit.to_frame().estimate
    first = frame.iloc[0]
    x = eta["Intercept"] + eta["age"] * first.age + eta["drinks"] * float(first.drinks)
    x += eta.get(f"region[T.{first.region}]", 0.0)
    assert told[0, 1] == pytest.approx(1 / (1 + np.exp(-x)))
    assert list(fit.predict(frame)) == ["yes" if p > 0.5 else "no" for p in told[:, 1]]
    with pytest.raises(RecordsError, match="true answers are needed"):
        fit.predict(reports)
    assert str(fit).startswith("binomial model of P(used = yes), 900 reports\ncorrected score")
    assert "GLM(" in repr(fit)


def test_a_formula_needs_its_extra(monkeypatch: pytest.MonkeyPatch, frame: pd.DataFrame) -> None:
    monkeypatch.setitem(sys.modules, "formulaic", None)
    with pytest.raises(pp.InputError, match=r'pip install "ppdm-dask\[formulas\]"'):
        pp.GLM(formula="used ~ age").fit(frame)
    pp.GLM(outcome="used", predictors=["age"]).fit(frame)
