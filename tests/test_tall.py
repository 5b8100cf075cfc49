"""More reported symbols than categories: columns of symbols, and one inverse for all of them."""

from __future__ import annotations

import itertools

import checks
import numpy as np
import pytest
from strategies import codebook_of, make_codebook, random_records

from ppdm_dask import (
    ID3,
    NaiveBayes,
    Product,
    RRMatrix,
    Stream,
    Warner,
    count,
    event_weights,
    invert,
)
from ppdm_dask.designs.inverses import condition, left_inverse
from ppdm_dask.errors import RecordsError
from ppdm_dask.inference import estimate

JOINT = RRMatrix(
    ["a", "b"], np.vstack([0.6 * checks.JOINT_SKEWED, 0.4 * np.eye(4)]), [2, 2], [2, 4]
)
DESIGN = Product([RRMatrix("t", checks.TALL), JOINT, Warner("w", 0.8)])
BOOK = make_codebook("wubat", [2, 3, 2, 2, 3])  # u is undisguised


def made(n, seed=1):
    return DESIGN.disguise(random_records(BOOK, n, seed), Stream.from_seed(seed))


def test_reports_hold_symbols_and_keep_the_codebook_of_the_truth():
    reports = made(5_000)
    assert reports.sizes == (2, 3, 4, 2, 5)
    assert reports.codebook is BOOK
    assert reports.codes.max(axis=0).tolist() == [1, 2, 3, 1, 4]
    part = reports.select(["t", "w"])
    assert part.sizes == (5, 2)
    assert part.take([3, 1]).slice(0, 1).sizes == (5, 2)
    with pytest.raises(RecordsError, match=r"'t': code 5 is not in 0 .. 4"):
        codes = np.array(reports.codes)
        codes[0, 4] = 5
        type(reports)(codes, BOOK, 0, DESIGN.digest, True, reports.sizes)


def test_tables_have_an_axis_of_symbols():
    reports = made(5_000)
    table = count(reports, DESIGN, ["t", "u"])
    assert table.counts.shape == table.sizes == (5, 3)
    halves = [count(reports.slice(*ends), DESIGN, ["t", "u"]) for ends in [(0, 99), (99, 5_000)]]
    np.testing.assert_array_equal((halves[0] + halves[1]).counts, table.counts)
    np.testing.assert_array_equal((halves[0] + halves[1].sparse()).dense().counts, table.counts)
    zero = type(table).zero(table.codebook, DESIGN.digest, table.sizes)
    np.testing.assert_array_equal((zero + table).counts, table.counts)
    for one in (table, table.sparse()):
        turned = one.marginal(["u", "t"])
        np.testing.assert_array_equal(turned.dense().counts, table.counts.T)
    assert table.where({"u": "1"}).n == table.counts[:, 1].sum()
    with pytest.raises(RecordsError, match="reports of 't' have symbols that are no categories"):
        table.where({"t": "1"})


def test_weights_tables_and_plain_sums_agree():
    reports = made(3_000, seed=2)
    whole = invert(count(reports, DESIGN), DESIGN)
    assert whole.values.shape == BOOK.shape
    for names in (["t"], ["t", "w"], ["b"], ["u", "a", "t"]):
        guess = estimate(reports, names, design=DESIGN)
        np.testing.assert_allclose(guess.values, whole.marginal(names).values, atol=1e-12)
        np.testing.assert_allclose(
            np.diag(guess.covariance), guess.variance.ravel(), rtol=1e-9, atol=1e-12
        )
        for cell in itertools.product(*(range(len(BOOK[name])) for name in names)):
            event = dict(zip(names, map(str, cell), strict=True))
            mean = event_weights(reports, DESIGN, event).mean()
            assert abs(mean - guess.values[cell]) < 1e-12


def test_estimates_are_unbiased():
    """Over all reports that a truth can give, weighted by P, the estimate is that truth."""
    for x in range(3):
        law = checks.TALL[:, x]
        for p0 in (None, np.array([0.7, 0.2, 0.1])):
            expected = left_inverse(checks.TALL, p0) @ law
            np.testing.assert_allclose(expected, np.eye(3)[x], atol=1e-12)


def test_the_weighted_inverse_has_least_variance_at_p0():
    """tr(B D B^T) at the law p0, against other left inverses B + Z with Z P = 0."""
    P, p0 = checks.TALL, np.array([0.7, 0.2, 0.1])
    D = np.diag(P @ p0)
    B = left_inverse(P, p0)
    rng = np.random.default_rng(3)
    null = np.eye(5) - P @ np.linalg.pinv(P)
    for _ in range(20):
        Z = 0.1 * rng.normal(size=(3, 5)) @ null
        np.testing.assert_allclose((B + Z) @ P, np.eye(3), atol=1e-12)
        assert np.trace(B @ D @ B.T) < np.trace((B + Z) @ D @ (B + Z).T)
    # The plain pseudo-inverse is none of ours: its columns do not sum to 1.
    assert np.abs(np.linalg.pinv(P).sum(axis=0) - 1).max() > 0.01


def test_learners_take_reports_of_symbols():
    truth = random_records(make_codebook("tw", [3, 2]), 30_000, seed=4)
    codes = np.array(truth.codes)
    codes[:, 1] = codes[:, 0] == 2  # w says whether t is 2
    truth = type(truth)(codes, truth.codebook)
    design = Product([RRMatrix("t", checks.TALL), Warner("w", 0.9)])
    reports = design.disguise(truth, Stream.from_seed(5))
    for model in (NaiveBayes(design, target="w"), ID3(design, target="w")):
        assert model.fit(reports).score(truth) == 1


def test_p0_is_of_the_design():
    assert (
        RRMatrix("a", checks.TALL).digest != RRMatrix("a", checks.TALL, p0=[0.7, 0.2, 0.1]).digest
    )
    # Fewer symbols than categories, or a column repeated: no inverse.
    assert condition(checks.WIDE) == np.inf
    assert (
        "2 reported symbols cannot tell 3 categories apart" in RRMatrix("a", checks.WIDE).undefined
    )


def test_one_column_of_a_tall_block_as_an_adversary_sees_it():
    from ppdm_dask import privacy

    prior = np.array([0.4, 0.3, 0.2, 0.1])
    channel, own = privacy.attribute_channel(JOINT, "b", prior)
    assert channel.n_reported == 4
    np.testing.assert_allclose(own, [0.6, 0.4])
    joint = (JOINT.matrix() * prior).reshape(2, 4, 2, 2).sum(axis=(0, 2))
    np.testing.assert_allclose(channel.matrix() * own, joint, atol=1e-12)
    assert codebook_of(JOINT).shape == (2, 2)
