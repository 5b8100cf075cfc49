"""Estimates against plain statements: information, cut blocks, one stratum, equal weights."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from strategies import codebook_of, make_codebook, random_records

from ppdm_dask import Product, Records, Reports, RRMatrix, Stream, UnrelatedQuestion, Warner
from ppdm_dask.designs import Kuk
from ppdm_dask.inference import mle, sum_event
from ppdm_dask.inference.blocks import solve_blocks
from ppdm_dask.inference.proportions import proportion
from ppdm_dask.inference.stratified import Stratified
from ppdm_dask.inference.tables import ContingencyTable
from ppdm_dask.inference.two_sample import TwoSample
from ppdm_dask.randomness import LOGICAL_BLOCK

TALL = np.array([[0.6, 0.1, 0.0], [0.2, 0.5, 0.1], [0.1, 0.3, 0.2], [0.1, 0.0, 0.4], [0, 0.1, 0.3]])
EACH = np.random.default_rng(4).dirichlet(np.ones(12), 12).T  # lumpable to none of its attributes


def table_of(design: RRMatrix, counts: np.ndarray) -> ContingencyTable:
    shaped = np.asarray(counts, dtype=np.int64).reshape(design.reported_shape)
    return ContingencyTable(
        codebook_of(design), shaped, None, design.digest, True, design.reported_shape
    )


def test_standard_errors_of_a_maximum_are_of_the_information_within_the_simplex() -> None:
    design = RRMatrix("a", TALL)
    counts = np.array([2_600, 2_700, 1_900, 1_500, 1_300])
    found = mle(table_of(design, counts), design)
    n, law = counts.sum(), TALL @ found.values
    information = TALL.T @ np.diag(counts / n / law**2) @ TALL
    # Directions in which proportions go on summing to 1.
    free = np.array([[1, 0], [0, 1], [-1, -1]])
    covariance = free @ np.linalg.inv(free.T @ information @ free) @ free.T / n
    assert (found.values > 0.05).all()
    assert found.standard_error.to_numpy() == pytest.approx(np.sqrt(np.diag(covariance)), rel=1e-6)
    # The maximum is one: moving along them lowers the likelihood.
    for step in (1e-3 * free.T).tolist() + (-1e-3 * free.T).tolist():
        there = counts @ np.log(TALL @ (found.values + step))
        assert there < counts @ np.log(law)


@pytest.mark.parametrize("over", [c for r in (1, 2) for c in itertools.permutations("abc", r)])
def test_some_attributes_of_a_block_that_is_kept_whole(over: tuple[str, ...]) -> None:
    design = RRMatrix(["a", "b", "c"], EACH, [2, 3, 2])
    counts = np.random.default_rng(5).integers(20, 90, 12)
    observed = (counts / counts.sum()).reshape(2, 3, 2)
    whole = (np.linalg.inv(EACH) @ observed.ravel()).reshape(2, 3, 2)
    others = tuple(i for i, name in enumerate("abc") if name not in over)
    kept = [name for name in "abc" if name in over]
    expected = whole.sum(axis=others).transpose([kept.index(name) for name in over])
    assert solve_blocks(observed, tuple("abc"), design, over) == pytest.approx(expected, abs=1e-9)


def test_one_stratum_has_the_moments_of_the_plain_estimate() -> None:
    design = UnrelatedQuestion(["a", "b"], 0.6)
    records = random_records(make_codebook(["a", "b"], [2, 2]), 80, 3)
    reports = design.disguise(records, Stream.from_seed(2))
    for event in ({"a": "1"}, {"a": "1", "b": "0"}):
        one = Stratified([design]).proportion([reports], event)
        plain = proportion(reports, design, event)
        assert one.moments == pytest.approx(plain.moments, rel=1e-12)
    # Where truths of an event differ, moments are as near to the reports' as can be.
    uneven = RRMatrix("a", [[0.7, 0.2, 0.05], [0.2, 0.5, 0.25], [0.1, 0.3, 0.7]])
    records = random_records(codebook_of(uneven), 80, 3)
    reports = uneven.disguise(records, Stream.from_seed(2))
    one = Stratified([uneven]).proportion([reports], {"a": ["0", "1"]})
    plain = proportion(reports, uneven, {"a": ["0", "1"]})
    assert one.moments == pytest.approx(plain.moments, rel=1e-12)


@pytest.mark.parametrize("seed", range(20))
def test_weights_that_do_not_vary_have_a_variance_of_0(seed: int) -> None:
    design, rng = Warner("a", 0.7), np.random.default_rng(seed)
    n = int(rng.integers(2, 400))
    codes, weights = np.ones((n, 1), np.uint8), rng.lognormal(0, 2, n)
    reports = Reports(codes, codebook_of(design), 0, design.digest, True, weights=weights)
    assert sum_event(reports, design, {"a": "1"}, None).unbiased().tolist() == [0.0]


def test_reports_of_more_symbols_than_another_block_has() -> None:
    kuk = Kuk("a", 0.7, 0.4, 700)
    design = Product([kuk, Warner("b", 0.8)])
    records = random_records(make_codebook(["a", "b"], [2, 2]), 60, 1)
    found = design.disguise(records, Stream.from_seed(1)).codes[:, 0].astype(int)
    mean = np.arange(701) @ kuk.matrix()
    # 700 cards, .7 or .4 of them red: 490 +- 12 or 280 +- 13.
    assert sorted(mean) == pytest.approx([280, 490])
    assert (np.abs(found - mean[records.codes[:, 0]]) < 80).all()


def test_a_product_of_symbols_is_drawn_as_one() -> None:
    design = Product([Warner("a", 0.8), UnrelatedQuestion(["b", "c"], 0.5)])
    records = random_records(codebook_of(design), 300, 1)
    stream = Stream.from_seed(9)
    plain = design.sample(records.codes, stream.child(0), 0)
    assert (design.disguise(records, stream).codes == plain).all()


def test_two_samples_are_drawn_by_position_however_they_are_parted() -> None:
    scheme = TwoSample("sick", "birthday", (0.7, 0.3))
    n, border = LOGICAL_BLOCK + 3_000, LOGICAL_BLOCK + 1_000
    book = make_codebook(["sick", "birthday"], [2, 2])
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 2, (n, 2)).astype(np.uint8)
    stream = Stream.from_seed(3)
    whole = scheme.disguise(Records(codes, book), 0, stream).codes[:, 0]
    for start, stop in ((0, border), (border, n)):
        part = scheme.disguise(Records(codes[start:stop], book, start), 0, stream)
        assert (part.codes[:, 0] == whole[start:stop]).all()
    # Beyond the first logical block too, .7 + .3 / 2 tell the truth: 2,550 +- 20 of 3,000.
    assert abs((whole == codes[:, 0])[LOGICAL_BLOCK:].sum() - 2_550) < 100
