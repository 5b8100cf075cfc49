"""Reported answers are not the truth: what learners and the codebook make of them."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from strategies import make_codebook

import ppdm_dask as pp
from ppdm_dask.designs import Flip, Kuk, Product, UnaryEncoding
from ppdm_dask.errors import RecordsError
from ppdm_dask.inference.stratified import Stratified
from ppdm_dask.mine import ID3, NaiveBayes
from ppdm_dask.mine.classifier import score_strata
from ppdm_dask.perturb import expected_rp

BOOK = make_codebook(["a", "b", "class"], [2, 3, 2], "class")
DESIGN = Product([pp.Warner("a", 0.85), pp.KaryResponse("b", 3, 0.75), pp.Warner("class", 0.8)])
LEARNERS = [NaiveBayes, ID3]


def related(n: int, seed: int) -> pp.Records:
    """A class that mostly is a, so that a model is right for most."""
    rng = np.random.default_rng(seed)
    a = rng.integers(2, size=n)
    c = np.where(rng.random(n) < 0.85, a, 1 - a)
    return pp.Records(np.stack([a, rng.integers(3, size=n), c], axis=1), BOOK)


TRAIN = DESIGN.disguise(related(4_000, 1), pp.Stream.from_seed(1))
TEST = related(20_000, 2)
REPORTED = DESIGN.disguise(TEST, pp.Stream.from_seed(2))


@pytest.mark.parametrize("learner", LEARNERS)
def test_a_score_is_of_the_truth(learner):
    model = learner(DESIGN, "class").fit(TRAIN)
    clean = model.score(TEST)
    assert clean == model.count_correct(TEST) / len(TEST)
    unbiased = model.score_disguised(REPORTED)
    assert model.score(REPORTED) == unbiased.value
    assert abs(unbiased.value - clean) < 4.5 * unbiased.standard_error
    # What counting reported classes would say is far off.
    assert model.count_correct(REPORTED) / len(REPORTED) < clean - 0.1


@pytest.mark.parametrize("learner", LEARNERS)
def test_a_score_on_reports_of_another_design_is_refused(learner):
    model = learner(DESIGN, "class").fit(TRAIN)
    other = Product([pp.Warner("a", 0.6), pp.KaryResponse("b", 3, 0.75), pp.Warner("class", 0.8)])
    for reports in (
        other.disguise(TEST.slice(0, 50), pp.Stream.from_seed(1)),
        pp.Reports(REPORTED.codes[:50], BOOK),
    ):
        with pytest.raises(RecordsError, match=r"design made them|another design"):
            model.score(reports)
    with pytest.raises(RecordsError, match="there are no test records"):
        model.score(TEST.slice(0, 0))
    with pytest.raises(RecordsError, match="got list; Records are needed"):
        model.score([[0, 1, 0]])


@pytest.mark.parametrize("learner", LEARNERS)
def test_a_score_on_undisguised_reports_is_the_accuracy(learner):
    identity = pp.Identity(BOOK.names, BOOK.shape)
    reports = identity.disguise(related(500, 3), pp.Stream.from_seed(1))
    model = learner(identity, "class").fit(reports)
    assert model.score(reports) == pytest.approx(model.count_correct(reports) / 500)


@pytest.mark.parametrize("learner", LEARNERS)
def test_a_score_over_strata(learner):
    owners = Stratified([pp.Identity(BOOK.names, BOOK.shape), DESIGN])
    strata = [related(800, 4), TRAIN]
    model = learner(owners, "class").fit(strata)
    tests = [TEST.slice(0, 3_000), REPORTED.slice(3_000, 20_000)]
    found = model.score_disguised(tests)
    assert model.score(tests) == found.value
    assert model.score(TEST) == model.count_correct(TEST) / len(TEST)
    assert abs(found.value - model.score(TEST)) < 4.5 * found.standard_error


# -- symbols that are no categories ----------------------------------------------------------------

SETS = Product([UnaryEncoding("b", 3, 0.75, 0.25), pp.Warner("a", 0.85), pp.Warner("class", 0.8)])
CARDS = Product([Kuk("a", 0.8, 0.2, 3), pp.Warner("class", 0.8)])


@pytest.mark.parametrize("design", [SETS, CARDS], ids=["sets", "cards"])
@pytest.mark.parametrize("learner", LEARNERS)
def test_sets_and_cards_are_not_predicted_from(learner, design):
    reports = design.disguise(related(200, 1), pp.Stream.from_seed(1))
    model = learner(DESIGN, "class").fit(TRAIN)
    calls = [model.predict, model.predict_codes, model.predict_proba, model.count_correct]
    for call in calls:
        with pytest.raises(RecordsError, match=r"which are no answers to predict from") as error:
            call(reports)
        assert "\n" not in str(error.value)
    with pytest.raises(RecordsError):
        model.score(reports)


def test_a_target_that_is_a_set_is_not_counted_as_right():
    design = Product([pp.Warner("a", 0.85), UnaryEncoding("class", 2, 0.75, 0.25)])
    reports = design.disguise(related(50, 1), pp.Stream.from_seed(1))
    for learner in LEARNERS:
        model = learner(DESIGN, "class").fit(TRAIN)
        assert len(model.predict(reports)) == 50  # the target is not looked at
        with pytest.raises(RecordsError, match="reports of 'class' are sets, which are no answers"):
            model.count_correct(reports)


def test_what_has_no_label_is_not_decoded():
    for design, told in ((SETS, "'b' are sets"), (CARDS, "'a' are 4 symbols for 2 categories")):
        reports = design.disguise(related(20, 1), pp.Stream.from_seed(1))
        with pytest.raises(RecordsError, match=f"^reports of {told}, which are no answers"):
            BOOK.decode(reports)
        kept = reports.select(["class"])
        labels = kept.codebook.decode(kept)["class"]
        assert labels.tolist() == reports.column("class").astype(str).tolist()
    assert BOOK.decode(REPORTED.slice(0, 3)).shape == (3, 3)


# -- formulas, by enumeration ----------------------------------------------------------------------


def test_the_error_of_several_strata_is_pooled_by_their_sizes():
    """SE^2 = sum n_h s_h^2 / n^2, with A(y) from the left inverse itself."""
    book = make_codebook(["a", "class"], [2, 2], "class")
    designs = [
        Product([pp.Warner("a", theta), pp.Warner("class", 0.9)]) for theta in (0.8, 0.65, 0.95)
    ]
    strata = []
    for design, n in zip(designs, (40, 700, 150), strict=True):
        records = pp.Records(related(n, n).codes[:, [0, 2]], book)
        strata.append((design.disguise(records, pp.Stream.from_seed(n)), design))
    hits = np.array([1.0, 0.0, 0.0, 1.0])

    def correct(codes):
        return codes[:, 0] == codes[:, 1]

    total, square, n = 0.0, 0.0, 0
    for reports, design in strata:
        A = (hits @ design.left_inverse())[
            2 * reports.codes[:, 0].astype(int) + reports.codes[:, 1]
        ]
        total, n = total + A.sum(), n + len(A)
        square += len(A) * A.var(ddof=1)
    found = score_strata(correct, strata)
    assert found.n == n
    assert found.value == pytest.approx(total / n, rel=1e-12)
    assert found.standard_error == pytest.approx(math.sqrt(square) / n, rel=1e-9)
    # Trees have a path of their own to the same numbers.
    owners = Stratified(designs)
    tree = ID3(owners, "class").fit([reports for reports, _ in strata])
    assert tree.predict(pp.Records([[0, 0], [1, 0]], book)).tolist() == ["0", "1"]
    scored = tree.score_disguised([reports for reports, _ in strata])
    assert scored.value == pytest.approx(found.value, rel=1e-9)
    assert scored.standard_error == pytest.approx(found.standard_error, rel=1e-9)


def moved(sizes: list[int]) -> float:
    """Mean absolute change of rank over all orders within the groups."""
    expected = 0.0
    for size in sizes:
        orders = list(itertools.permutations(range(size)))
        expected += sum(abs(i - x) for order in orders for i, x in enumerate(order)) / len(orders)
    return expected / sum(sizes)


@pytest.mark.parametrize("sizes", [[1], [2], [3], [4, 1], [5, 3, 2], [1, 1, 1], [6]])
def test_the_expected_change_of_rank_by_enumeration(sizes):
    assert expected_rp(sizes) == pytest.approx(moved(sizes), rel=1e-12)
    padded = [*sizes, 0, 0]
    assert expected_rp(padded) == pytest.approx(moved(sizes), rel=1e-12)
    other = [2] * len(padded)
    both = (moved(sizes) + moved(other)) / 2
    assert expected_rp([padded, other]) == pytest.approx(both, rel=1e-12)


@pytest.mark.parametrize("theta", [0.1, 0.3, 0.45, 0.6, 0.8, 0.99])
@pytest.mark.parametrize("names", [["a"], ["a", "b"]])
def test_the_signed_draws_of_a_flip_by_its_inverse(theta, names):
    """A draw keeps or reverses the report; chance times factor is the entry of B."""
    design = Flip(names, theta)
    B = design.left_inverse()
    n = 40_000
    codes = np.tile(np.array([[0, 1][: len(names)]], np.uint8), (n, 1))
    truth, factors = design.sample_inverse(codes, pp.Stream.from_seed(7))
    kept = (truth == codes).all(axis=1)
    assert (kept | (truth == 1 - codes).all(axis=1)).all()
    y = int(design.joint(codes[:1])[0])
    size = np.abs(B[:, y]).sum()
    for rows, x in ((kept, y), (~kept, design.n_true - 1 - y)):
        np.testing.assert_allclose(factors[rows], math.copysign(size, B[x, y]), rtol=1e-12)
        chance = abs(B[x, y]) / size
        assert abs(rows.mean() - chance) < 5 * math.sqrt(chance * (1 - chance) / n)
