"""Reports that are subsets: bits, sums of weights, thousands of categories."""

from __future__ import annotations

import itertools
import math
import pickle

import checks
import numpy as np
import pytest
from strategies import codebook_of, make_codebook, random_prior, random_records

from ppdm_dask import (
    KaryResponse,
    NotInvertible,
    Product,
    Records,
    RRMatrix,
    Stream,
    Warner,
    count,
    event_weights,
    privacy,
)
from ppdm_dask.designs import SubsetSelection, UnaryEncoding
from ppdm_dask.designs.sets import unpack
from ppdm_dask.errors import DesignError, RecordsError
from ppdm_dask.inference import estimate, sum_event, sum_weights
from ppdm_dask.kernels.draws import draw_subsets

SETS = Product(
    [
        UnaryEncoding("s", 5, epsilon=1.5),
        Warner("w", 0.8),
        SubsetSelection("t", 4, epsilon=2.0),
        RRMatrix(["a", "b"], checks.JOINT_SKEWED, [2, 2]),
    ]
)
BOOK = make_codebook(["u", "t", "w", "s", "b", "a"], [3, 4, 2, 5, 2, 2])


def made(n=2_000, seed=1):
    return SETS.disguise(random_records(BOOK, n, seed), Stream.from_seed(seed))


def test_reports_carry_sets_beside_codes():
    reports = made()
    assert set(reports.sets) == {"s", "t"}
    assert reports.sizes == (3, 1, 2, 1, 2, 2)
    assert not reports.column("s").any()
    assert (unpack(reports.sets["t"], 4).sum(axis=1) == SETS.blocks[2].size).all()
    part = reports.select(["s", "u"]).slice(10, 20)
    np.testing.assert_array_equal(part.sets["s"], reports.sets["s"][10:20])
    assert list(part.sets) == ["s"]
    np.testing.assert_array_equal(reports.take([3, 1]).sets["t"], reports.sets["t"][[3, 1]])
    again = pickle.loads(pickle.dumps(reports))
    np.testing.assert_array_equal(again.sets["s"], reports.sets["s"])
    assert not again.sets["s"].flags.writeable
    with pytest.raises(TypeError):
        reports.sets["s"] = reports.sets["t"]


def test_sets_are_not_counted_and_must_fit():
    reports = made()
    with pytest.raises(RecordsError, match="'s' are sets and are not counted; sum"):
        count(reports, SETS, ["s"])
    assert count(reports, SETS, ["w", "a"]).n == 2_000
    bare = type(reports)(reports.codes, BOOK, 0, SETS.digest, True, reports.reported_sizes)
    with pytest.raises(RecordsError, match="reports of 's' hold no sets"):
        event_weights(bare, SETS, {"s": "1"})
    with pytest.raises(RecordsError, match=r"sets of 's' are uint8 \(2, 1\)"):
        type(reports)(
            reports.codes,
            BOOK,
            0,
            SETS.digest,
            True,
            reports.reported_sizes,
            {"s": np.zeros((2, 1), np.uint8)},
        )
    wrong = np.array(reports.sets["t"])
    wrong[7] = 0b1111
    with pytest.raises(RecordsError, match="subset on t: report 7 has 4 categories; each has 1"):
        event_weights(
            type(reports)(
                reports.codes,
                BOOK,
                0,
                SETS.digest,
                True,
                reports.reported_sizes,
                {**reports.sets, "t": wrong},
            ),
            SETS,
            {"t": "1"},
        )


@pytest.mark.parametrize(
    "names", [["s"], ["t", "u"], ["w", "s"], ["s", "t"], ["a", "s"], ["b", "a"], ["w", "u"]]
)
@pytest.mark.parametrize(
    "where", [None, {"w": "1"}, {"s": ["0", "3"], "u": ["1", "2"]}, {"a": "1"}]
)
def test_sums_equal_event_weights_cell_by_cell(names, where):
    """Every path (bits, tables, rows) against plain sums over event weights."""
    reports = made(700, seed=3)
    sums = sum_weights(reports, SETS, names, where)
    values, variance = sums.values(), sums.variances()
    condition = event_weights(reports, SETS, where or {})
    n = len(reports)
    for i, cell in enumerate(itertools.product(*(range(len(BOOK[name])) for name in names))):
        event = {name: [str(c)] for name, c in zip(names, cell, strict=True)}
        for name, labels in (where or {}).items():
            if name in event and event[name][0] not in labels:
                event[name] = []
            elif name not in event:
                event[name] = list(labels)
        joint = np.zeros(n) if [] in event.values() else event_weights(reports, SETS, event)
        ratio = joint.sum() / condition.sum()
        assert abs(values[i] - ratio) < 1e-12
        z = (joint - ratio * condition) / condition.sum()
        assert math.isclose(variance[i], n / (n - 1) * (z**2).sum(), rel_tol=1e-9, abs_tol=1e-15)
    # In parts.
    added = sum_weights(reports.slice(0, 300), SETS, names, where) + sum_weights(
        reports.slice(300, n), SETS, names, where
    )
    np.testing.assert_allclose(added.values(), values, rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(added.variances(), variance, rtol=1e-8, atol=1e-14)


def test_proportion_and_estimate_agree_and_are_right():
    truth = random_records(BOOK, 60_000, seed=4)
    reports = SETS.disguise(truth, Stream.from_seed(5))
    made = estimate(reports, ["s", "w"], design=SETS)
    single = estimate(reports, {"s": "2", "w": "1"}, design=SETS)
    assert math.isclose(made.values[2, 1], single.value)
    assert math.isclose(float(made.standard_error[2, 1]), single.standard_error, rel_tol=1e-6)
    share = ((truth.column("s") == 2) & (truth.column("w") == 1)).mean()
    assert abs(single.value - share) < 5 * single.standard_error
    assert abs(math.fsum(made.values.ravel()) - 1) < 1e-9


def test_oue_against_published_formulas():
    """Expected variance of the textbook estimator, and weights from -5.8 to 15.8 a record."""
    k, epsilon = 5, 1.0
    oue = UnaryEncoding("a", k, epsilon=epsilon, inverse="textbook")
    e = math.exp(epsilon)
    within, without = oue.pair_weights(np.arange(k + 1))
    np.testing.assert_allclose(within, (1 - oue.q) / (0.5 - oue.q))
    totals = within * np.arange(k + 1) + without * (k - np.arange(k + 1))
    assert (round(totals.min(), 1), round(totals.max(), 1)) == (-5.8, 15.8)
    weighted = UnaryEncoding("a", k, epsilon=epsilon)
    assert weighted.digest == oue.digest
    # Variance of one textbook weight for a category that is not the truth: 4 e / (e - 1)^2.
    P = weighted.matrix()
    B = oue.left_inverse()
    assert math.isclose((B[1] ** 2) @ P[:, 0], 4 * e / (e - 1) ** 2, rel_tol=1e-12)
    # At uniform categories the weighted one has the least variance.
    law = P.mean(axis=1)
    assert ((weighted.left_inverse() ** 2) @ law).sum() < ((B**2) @ law).sum()


def test_subset_selection_is_the_textbook_estimator():
    k, s, epsilon = 6, 2, 1.2
    design = SubsetSelection("a", k, s, epsilon=epsilon)
    e = math.exp(epsilon)
    p = s * e / (s * e + k - s)
    q = p * (s - 1) / (k - 1) + (1 - p) * s / (k - 1)
    assert math.isclose(design.p, p)
    within, without = design.pair_weights(np.array([s]))
    assert math.isclose(within[0], (1 - q) / (p - q))
    assert math.isclose(without[0], -q / (p - q))
    assert SubsetSelection("a", 2_925, epsilon=1.0).size == round(2_925 / (1 + math.e))


@pytest.mark.parametrize("design", [d for f in ("unary", "subset") for d in checks.EXAMPLES[f]])
def test_privacy_in_closed_form(design):
    rng = np.random.default_rng(6)
    k = design.n_true
    for prior in (random_prior(k, rng), np.full(k, 1 / k)):
        posterior = privacy.posterior(design, prior)
        assert math.isclose(design.max_posterior(prior), np.nanmax(posterior), rel_tol=1e-9)
    P = design.matrix()
    P = P[P.any(axis=1)]
    plain = math.inf if not P.all() else float(np.log(P.max(1) / P.min(1)).max())
    assert design.epsilon() == pytest.approx(plain, abs=1e-9)


def test_epsilon_is_what_was_asked_for():
    for design in (
        UnaryEncoding("a", 2_925, epsilon=1.3),
        SubsetSelection("a", 2_925, epsilon=1.3),
    ):
        assert math.isclose(design.epsilon(), 1.3, rel_tol=1e-12)


def test_bits_of_thousands_of_categories():
    """Shares of bits follow p and q; estimates are right; no dense matrix."""
    k, n = 2_925, 6_000
    rng = np.random.default_rng(7)
    truth = np.minimum(rng.geometric(0.3, n) - 1, k - 1)
    book = make_codebook(["a"], [k])
    for design in (UnaryEncoding("a", k, epsilon=2.0), SubsetSelection("a", k, epsilon=2.0)):
        reports = design.disguise(Records(truth[:, None], book), Stream.from_seed(8))
        inside = unpack(reports.sets["a"], k)
        own = inside[np.arange(n), truth]
        chance = design.p
        assert abs(own.mean() - chance) < 5 * math.sqrt(chance * (1 - chance) / n)
        others = (inside.sum() - own.sum()) / (n * (k - 1))
        expected = (
            design.q if isinstance(design, UnaryEncoding) else (design.size - chance) / (k - 1)
        )
        assert abs(others - expected) < 1e-3 * expected + 5 * math.sqrt(expected / (n * k))
        made = estimate(reports, ["a"], design=design)
        z = (made.values - np.bincount(truth, minlength=k) / n) / np.sqrt(made.variance)
        assert abs(made.values.sum() - 1) < 1e-8
        assert np.abs(z).max() < 6
        assert 0.9 < z.std() < 1.1
        with pytest.raises(DesignError, match=r"2\^2925 subsets .* sums of event weights"):
            design.matrix()
    none = UnaryEncoding("a", k, 0.3, 0.3)
    reports = none.disguise(Records(truth[:, None], book), Stream.from_seed(9))
    with pytest.raises(NotInvertible, match="not invertible"):
        estimate(reports, ["a"], design=none)


def test_the_subset_kernel_is_floyds_algorithm():
    """Against a plain set, on both sides of one half."""
    rng = np.random.default_rng(10)
    for k, size in ((7, 2), (7, 3), (7, 5), (9, 8), (2, 1), (16, 8)):
        n, steps = 40, min(size, k - size)
        true, coin = rng.integers(k, size=n), rng.random(n) < 0.5
        words = rng.integers(0, 2**64, size=(n, steps), dtype=np.uint64)
        bits = np.zeros((n, -(-k // 8)), np.uint8)
        draw_subsets(true, coin, words, k, size, bits)
        for i, x in enumerate(true):
            others = [v for v in range(k) if v != x]
            direct = 2 * size <= k
            marked = {int(x)} if coin[i] == direct else set()
            m = (size if direct else k - size) - len(marked)
            for step, j in enumerate(range(k - 1 - m, k - 1)):
                t = int(words[i, step]) * (j + 1) >> 64
                marked.add(others[j] if others[t] in marked else others[t])
            chosen = marked if direct else set(range(k)) - marked
            assert set(np.flatnonzero(unpack(bits[i : i + 1], k)[0])) == chosen
            assert len(chosen) == size
            assert (x in chosen) == coin[i]


def test_one_report_and_none():
    design = UnaryEncoding("a", 4, epsilon=1.0)
    book = codebook_of(design)
    one = design.disguise(random_records(book, 1, seed=11), Stream.from_seed(12))
    made = estimate(one, ["a"], design=design)
    assert np.isfinite(made.values).all()
    assert np.isnan(made.standard_error).all()
    with pytest.raises(RecordsError, match="no reports; at least one is needed"):
        estimate(one.slice(0, 0), ["a"], design=design)
    kary = KaryResponse("a", 4, 0.5)
    with pytest.raises(RecordsError, match="sums of reports made by different designs"):
        sum_event(one, design, {"a": "1"}) + sum_event(
            kary.disguise(random_records(book, 3, 1), Stream.from_seed(1)), kary, {"a": "1"}
        )


def test_learners_refuse_what_they_would_misread():
    from ppdm_dask import ID3, NaiveBayes
    from ppdm_dask.inference.stratified import Stratified
    from ppdm_dask.mine.classifier import score_disguised

    design = Product([UnaryEncoding("a", 3, epsilon=1.0), Warner("w", 0.8)])
    records = random_records(codebook_of(design), 50, seed=13)
    reports = design.disguise(records, Stream.from_seed(14))
    with pytest.raises(RecordsError, match=r"reports of 'a' are sets"):
        ID3(design, target="w").fit(reports)
    with pytest.raises(RecordsError, match=r"reports of 'a' are sets, which learners do not take"):
        score_disguised(lambda codes: codes[:, 0] == 0, reports, design)
    warner = Warner("w", 0.8)
    weighted = warner.disguise(records, Stream.from_seed(15)).surveyed(np.ones(50))
    for use in (
        ID3(warner, target="w").fit,
        lambda r: NaiveBayes(Stratified([warner]), target="w").fit([r]),
        lambda r: score_disguised(lambda codes: codes[:, 0] == 0, r, warner),
        lambda r: Stratified([warner]).estimate([r], {"w": "1"}),
    ):
        with pytest.raises(RecordsError, match=r"survey weights can be used only in estimate"):
            use(weighted)
