"""Latent classes: against plain expectation-maximisation, the summed-out likelihood, and optima."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise, permutations
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from estimator_checks import each_check
from scipy.optimize import minimize

import ppdm_dask as pp
from ppdm_dask.designs.subset import SubsetSelection
from ppdm_dask.errors import InputError, NotInvertible, NotLumpable, RecordsError

Floats = Any

SHAPE = (2, 2, 3, 2)
NAMES = ("a", "b", "d", "e")
BOOK = pp.Codebook(
    tuple(
        pp.Attribute(n, tuple(f"{n}{i}" for i in range(k)))
        for n, k in zip(NAMES, SHAPE, strict=True)
    )
)
WEIGHTS = np.array([0.65, 0.35])
LAWS = [
    np.array([[0.9, 0.2], [0.1, 0.8]]),
    np.array([[0.85, 0.1], [0.15, 0.9]]),
    np.array([[0.7, 0.1], [0.2, 0.2], [0.1, 0.7]]),
    np.array([[0.8, 0.15], [0.2, 0.85]]),
]
"""Of each attribute in two clusters."""


def drawn(n: int, seed: int) -> tuple[pp.Records, Any]:
    rng = np.random.default_rng(seed)
    cluster = (rng.random(n) > WEIGHTS[0]).astype(int)
    columns = [(rng.random((n, 1)) > law.cumsum(axis=0).T[cluster]).sum(axis=1) for law in LAWS]
    return pp.Records(np.stack(columns, axis=1).astype(np.uint8), BOOK), cluster


def matrix(name: str, seed: int) -> pp.RRMatrix:
    k = len(BOOK[name])
    P = 0.8 * np.eye(k) + 0.2 * np.random.default_rng(seed).dirichlet(np.ones(k), k).T
    return pp.RRMatrix(name, P, categories=[BOOK[name].categories])


def tall(name: str) -> pp.RRMatrix:
    P = [[0.7, 0.1], [0.1, 0.7], [0.2, 0.2]]
    return pp.RRMatrix(name, P, categories=[BOOK[name].categories])


def pair(seed: int) -> pp.RRMatrix:
    """A general matrix of two attributes together."""
    P = 0.8 * np.eye(4) + 0.2 * np.random.default_rng(seed).dirichlet(np.ones(4), 4).T
    both = [BOOK["a"].categories, BOOK["b"].categories]
    return pp.RRMatrix(("a", "b"), P, (2, 2), categories=both)


DESIGNS: dict[str, Callable[[], pp.Design]] = {
    "nothing": lambda: pp.Identity(NAMES, SHAPE),
    "flips": lambda: pp.MultiGroup([["a", "b"], ["e"]], theta=0.85),
    "k-ary": lambda: pp.Product(
        [pp.KaryResponse(n, k, p=0.8) for n, k in zip(NAMES, SHAPE, strict=True)]
    ),
    "unrelated question": lambda: pp.UnrelatedQuestion(("a", "b", "e"), q=0.7),
    "matrices": lambda: pp.Product([matrix(n, i) for i, n in enumerate(NAMES)]),
    "tall and together": lambda: pp.Product([pair(1), matrix("d", 5), tall("e")]),
}


def summed_out(design: pp.Design, weights: Floats, laws: list[Floats]) -> Floats:
    """The law of reports, P as one dense matrix over all cells of the truth, shape of reports."""
    truth = sum(
        w * np.multiply.outer(np.multiply.outer(np.multiply.outer(a, b), d), e)
        for w, a, b, d, e in zip(weights, *(law.T for law in laws), strict=True)
    )
    law = np.asarray(truth)
    for block in design.blocks:
        axes = [NAMES.index(name) for name in block.attributes]
        P = block.matrix().reshape(*block.reported_shape, *block.shape)
        inner = list(range(len(axes), 2 * len(axes)))
        law = np.moveaxis(np.tensordot(P, law, (inner, axes)), range(len(axes)), axes)
    return law


def fitted(design: pp.Design, n: int = 2_000, **parameters: Any) -> tuple[Any, pp.Reports]:
    reports = design.disguise(drawn(n, 1)[0], pp.Stream.from_seed(2))
    return pp.LatentClasses(design, **({"n_init": 3} | parameters)).fit(reports), reports


# -- the maximum -----------------------------------------------------------------------------------


def plain_em(codes: Floats, steps: int) -> tuple[Floats, list[Floats], float]:
    """The textbook's steps, record by record, from the laws that made them."""
    weights, laws = WEIGHTS.copy(), [law.copy() for law in LAWS]
    total = 0.0
    for _ in range(steps):
        each = np.tile(weights, (len(codes), 1))
        for column, law in zip(codes.T, laws, strict=True):
            each *= law[column]
        total = float(np.log(each.sum(axis=1)).sum())
        each /= each.sum(axis=1, keepdims=True)
        weights = each.mean(axis=0)
        for column, law in zip(codes.T, laws, strict=True):
            for v in range(len(law)):
                law[v] = each[column == v].sum(axis=0) / each.sum(axis=0)
    return weights, laws, total


def test_undisguised_records_give_what_plain_steps_give() -> None:
    records, _ = drawn(1_500, 1)
    model = pp.LatentClasses(n_init=3, tolerance=1e-12).fit(records)
    weights, laws, total = plain_em(records.codes, 1_500)
    assert model.converged_
    assert model.log_likelihood_ == pytest.approx(total, abs=1e-8)
    np.testing.assert_allclose(model.weights_, weights, atol=1e-8)
    for name, law in zip(NAMES, laws, strict=True):
        np.testing.assert_allclose(model.probabilities_[name], law, atol=1e-8)


@pytest.mark.parametrize("name", DESIGNS)
def test_no_other_laws_make_the_reports_more_likely(name: str) -> None:
    design = DESIGNS[name]()
    model, reports = fitted(design, tolerance=1e-10)
    table = np.zeros(reports.sizes)
    np.add.at(table, tuple(reports.codes.T), 1)

    def loss(free: Floats) -> float:
        ends = np.cumsum([1, *(2 * (k - 1) for k in SHAPE)])
        head, *tails = np.split(free, ends[:-1])
        parts = []
        for k, tail in zip((2, *SHAPE), (head, *tails), strict=True):
            scores = np.vstack([tail.reshape(k - 1, -1), np.zeros((1, tail.size // (k - 1)))])
            parts.append(np.exp(scores) / np.exp(scores).sum(axis=0))
        law = summed_out(design, parts[0][:, 0], parts[1:])
        seen = table > 0
        return -float(table[seen] @ np.log(law[seen]))

    def scores(law: Floats) -> Floats:
        return np.log(law[:-1] / law[-1]).ravel()

    laws = [model.probabilities_[n] for n in NAMES]
    at = np.concatenate([scores(model.weights_[:, None]), *map(scores, laws)])
    # The likelihood is that of the law with the truth summed out, and their best cannot beat it.
    assert model.log_likelihood_ == pytest.approx(-loss(at), rel=1e-11)
    assert minimize(loss, at, method="BFGS", options={"gtol": 1e-4}).fun > loss(at) - 1e-5
    true = np.concatenate([scores(WEIGHTS[:, None]), *map(scores, LAWS)])
    assert minimize(loss, true, method="BFGS").fun > loss(at) - 1e-5


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("name", DESIGNS)
@pytest.mark.parametrize("clusters", [2, 3])
def test_the_likelihood_never_falls(name: str, clusters: int) -> None:
    model, _ = fitted(DESIGNS[name](), 300, n_clusters=clusters, n_init=2, max_steps=300)
    assert all(b >= a - 1e-13 for a, b in pairwise(model.log_likelihoods_))
    assert len(model.log_likelihoods_) == model.n_steps_ <= 301
    assert all(a >= b for a, b in pairwise(model.weights_))
    assert model.weights_.sum() == pytest.approx(1, abs=1e-12)
    for law in model.probabilities_.values():
        np.testing.assert_allclose(law.sum(axis=0), 1, atol=1e-12)
        assert (law >= 0).all()


@pytest.mark.parametrize("name", ["nothing", "k-ary", "matrices"])
def test_one_cluster_has_the_most_likely_margins(name: str) -> None:
    design = DESIGNS[name]()
    model, reports = fitted(design, n_clusters=1, tolerance=1e-13)
    total = 0.0
    for each in NAMES:
        table = pp.count(reports, design, [each])
        p = pp.mle(table, design).values
        np.testing.assert_allclose(model.probabilities_[each][:, 0], p, atol=1e-8)
        block = next((b for b in design.blocks if b.attributes == (each,)), None)
        law = p if block is None else block.matrix() @ p
        total += float(table.counts @ np.log(law))
    assert model.log_likelihood_ == pytest.approx(total, abs=1e-6)
    assert model.n_parameters_ == sum(k - 1 for k in SHAPE)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_criteria_find_the_number_of_clusters() -> None:
    design = DESIGNS["k-ary"]()
    reports = design.disguise(drawn(6_000, 1)[0], pp.Stream.from_seed(2))
    models = [pp.LatentClasses(design, k, n_init=2, max_steps=300).fit(reports) for k in (1, 2, 3)]
    assert min(models, key=lambda m: m.bic_).n_clusters == 2
    for k, model in enumerate(models, 1):
        free = k - 1 + k * sum(size - 1 for size in SHAPE)
        assert model.aic_ == 2 * free - 2 * model.log_likelihood_
        assert model.bic_ == free * math.log(6_000) - 2 * model.log_likelihood_
        assert model.score(reports) == pytest.approx(model.log_likelihood_ / 6_000, rel=1e-12)
    assert models[0].log_likelihood_ < models[1].log_likelihood_ <= models[2].log_likelihood_


# -- what is asked of it ---------------------------------------------------------------------------


@pytest.mark.parametrize("name", DESIGNS)
def test_posteriors_are_bayes_theorem_over_all_truths(name: str) -> None:
    design = DESIGNS[name]()
    model, reports = fitted(design)
    laws = [model.probabilities_[n] for n in NAMES]
    none = np.zeros(2)
    clusters = []
    for k in range(2):
        only = none.copy()
        only[k] = model.weights_[k]
        clusters.append(summed_out(design, only, laws))
    joint = np.stack(clusters)
    expected = (joint / joint.sum(axis=0))[:, *reports.codes[:100].T].T
    np.testing.assert_allclose(model.predict_proba(reports[:100]), expected, atol=1e-12)
    assert model.predict(reports[:100]).tolist() == expected.argmax(axis=1).tolist()
    assert model.labels_[:100].tolist() == expected.argmax(axis=1).tolist()

    records, _ = drawn(100, 9)
    truth = np.tile(model.weights_, (100, 1))
    for law, column in zip(laws, records.codes.T, strict=True):
        truth *= law[column]
    np.testing.assert_allclose(
        model.predict_proba(records), truth / truth.sum(axis=1, keepdims=True), atol=1e-12
    )
    assert model.score(records) == pytest.approx(np.log(truth.sum(axis=1)).mean(), rel=1e-12)


def test_clusters_of_the_truth_are_found_again() -> None:
    records, cluster = drawn(20_000, 3)
    design = DESIGNS["matrices"]()
    model = pp.LatentClasses(design, n_init=3).fit(design.disguise(records, pp.Stream.from_seed(1)))
    best = np.stack(
        [WEIGHTS * np.prod([law[v] for law, v in zip(LAWS, row, strict=True)], axis=0)
         for row in records.codes[:2_000]]
    ).argmax(axis=1)  # fmt: skip
    found = model.predict(records[:2_000])
    assert (found == best).mean() > 0.95
    assert (found == cluster[:2_000]).mean() > (best == cluster[:2_000]).mean() - 0.03


def answers(records: pp.Records) -> pd.DataFrame:
    columns = zip(BOOK.attributes, records.codes.T, strict=True)
    return pd.DataFrame({a.name: np.array(a.categories)[codes] for a, codes in columns})


def test_counts_partitions_files_and_columns_give_the_same(tmp_path: Path) -> None:
    dd = pytest.importorskip("dask.dataframe")
    records, _ = drawn(1_200, 4)
    design = DESIGNS["matrices"]().bind(BOOK)
    stream = pp.Stream.from_seed(1)
    reports = design.disguise(records, stream)
    expected = pp.LatentClasses(design, n_init=2).fit(reports)
    lazy = design.disguise(dd.from_pandas(answers(records), npartitions=3), stream=stream)
    lazy.to_parquet(tmp_path / "parts")
    table = pp.count(reports[:500], design) + pp.count(reports[500:], design)
    for given in (lazy, str(tmp_path / "parts"), table):
        model = pp.LatentClasses(n_init=2).fit(given)
        np.testing.assert_allclose(model.weights_, expected.weights_, rtol=1e-9)
        assert model.score(given) == pytest.approx(expected.score(reports), rel=1e-9)
        assert not hasattr(model, "labels_")
        assert model.predict(records[:50]).tolist() == expected.predict(records[:50]).tolist()
    part = pp.LatentClasses(n_init=2, over=("b", "d", "e")).fit(reports)
    chosen = pp.LatentClasses(n_init=2).fit(reports.select(["b", "d", "e"]))
    assert (part.log_likelihood_, part.features_) == (chosen.log_likelihood_, ("b", "d", "e"))

    clean, frame = pp.LatentClasses(n_init=2).fit(records), answers(records)
    for X in (frame, frame.to_numpy(), records.codes):
        model = pp.LatentClasses(n_init=2).fit(X)
        np.testing.assert_allclose(model.weights_, clean.weights_, rtol=1e-12)
        assert model.predict(X).tolist() == clean.labels_.tolist()
        assert model.n_features_in_ == 4
    assert model.score(records.codes) == pytest.approx(clean.score(records), rel=1e-12)
    # Labels of a frame are read by the codebook of the records.
    assert clean.predict(frame).tolist() == clean.labels_.tolist()


def test_a_picture_and_parameters(tmp_path: Path) -> None:
    model, _ = fitted(DESIGNS["k-ary"](), 200)
    model.draw(tmp_path / "c.svg")
    assert (tmp_path / "c.svg").read_text().startswith("<?xml")
    nested = pp.LatentClasses(pp.Warner("a", 0.8)).set_params(design__theta=0.9, n_clusters=3)
    assert (nested.design.theta, nested.n_clusters) == (0.9, 3)


def test_what_cannot_be_fitted_is_refused() -> None:
    records, _ = drawn(50, 5)
    design = DESIGNS["k-ary"]()
    reports = design.disguise(records, pp.Stream.from_seed(1))
    other = pp.Product([pp.KaryResponse("a", 2, p=0.6)])
    wide = pp.UnrelatedQuestion([f"x{i}" for i in range(20)], q=0.7)
    many = pp.Codebook(tuple(pp.Attribute(f"x{i}", ("0", "1")) for i in range(20)))
    plenty = wide.disguise(pp.Records(np.zeros((3, 20), np.uint8), many), pp.Stream.from_seed(1))
    sets = SubsetSelection("d", 3, epsilon=2.0)
    cut = pp.Product([pair(1)])
    together = cut.disguise(records, pp.Stream.from_seed(1))
    blind = pp.Warner("a", 0.5)
    for X, parameters, error, words in (
        (reports, {"n_clusters": 0}, InputError, "n_clusters: got 0"),
        (reports, {"over": ["a", "a"]}, InputError, "over: got .*different attributes"),
        (reports, {"design": other}, RecordsError, "another design"),
        (records, {"design": design}, RecordsError, "got undisguised records"),
        (reports[:0], {}, RecordsError, "there are no reports"),
        (reports.surveyed_by(weights=np.ones(50)), {}, RecordsError, "survey weights"),
        (plenty, {}, InputError, "1048576 joint categories; times 2 clusters"),
        (sets.disguise(records, pp.Stream.from_seed(1)), {}, RecordsError, "are sets"),
        (together, {"over": ["a", "d"]}, NotLumpable, "lacks b"),
        (blind.disguise(records, pp.Stream.from_seed(1)), {}, NotInvertible, "not invertible"),
        (reports, {"design": pp.Stratified([design])}, InputError, "one design is needed"),
        (records.codes, {"design": design}, RecordsError, "Reports are needed"),
    ):
        with pytest.raises(error, match=words):
            pp.LatentClasses(**parameters).fit(X)
    model = pp.LatentClasses(design, n_init=1).fit(reports)
    with pytest.raises(RecordsError, match="another design"):
        model.predict(other.disguise(records, pp.Stream.from_seed(1)))
    with pytest.raises(RecordsError, match="there are no records"):
        model.score(records[:0])
    # A symbol that the device has not.
    P = [[0.8, 0.2], [0.2, 0.8], [0.0, 0.0]]
    device = pp.RRMatrix("a", P, categories=[BOOK["a"].categories])
    odd = pp.Reports(
        np.array([[2], [0]], np.uint8), BOOK.select(["a"]), 0, device.digest, reported_sizes=(3,)
    )
    with pytest.raises(RecordsError, match="reports that the design cannot make"):
        pp.LatentClasses(device).fit(odd)


def test_a_record_that_no_cluster_allows_has_their_weights() -> None:
    book = pp.Codebook(tuple(pp.Attribute(n, ("0", "1", "2")) for n in "ab"))
    model = pp.LatentClasses(n_init=1).fit(pp.Records(np.array([[0, 1], [1, 0], [0, 0]]), book))
    record = pp.Records(np.array([[2, 2]]), book)
    np.testing.assert_allclose(model.predict_proba(record)[0], model.weights_, atol=1e-12)
    assert model.score(record) == -math.inf


FRACTIONS = "its data are fractions whatever the tags say; categories are needed"


def expected_failures(estimator: Any) -> dict[str, str]:
    return dict.fromkeys(("check_clustering", "check_clustering(readonly_memmap=True)"), FRACTIONS)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
@each_check([pp.LatentClasses(n_init=2, max_steps=50)], expected_failed_checks=expected_failures)
def test_scikit_learns_checks(estimator: Any, check: Any) -> None:
    check(estimator)


# -- consistency -----------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("name", ["flips", "matrices"])
def test_the_error_shrinks_as_the_root_of_the_reports(name: str) -> None:
    design = DESIGNS[name]()
    sizes, repeats = np.array([4_000, 16_000, 64_000, 256_000]), 12
    errors = np.zeros((len(sizes), repeats))
    for i, n in enumerate(sizes.tolist()):
        for r in range(repeats):
            records, _ = drawn(n, 1_000 * i + r)
            reports = design.disguise(records, pp.Stream.from_seed(r))
            model = pp.LatentClasses(design, n_init=2).fit(reports)
            found = np.concatenate([model.weights_[None], *model.probabilities_.values()])
            truth = np.concatenate([WEIGHTS[None], *LAWS])
            errors[i, r] = min(
                np.linalg.norm(found[:, [*order]] - truth) for order in permutations(range(2))
            )
    logs = np.log(errors)
    x = np.log(sizes) - np.log(sizes).mean()
    slope = float(x @ logs.mean(axis=1) / (x @ x))
    spread = np.sqrt(logs.var(axis=1, ddof=1).mean() / repeats / (x @ x))
    assert abs(slope + 0.5) < 4 * spread + 0.03
    assert errors[-1].mean() < 0.03
