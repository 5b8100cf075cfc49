"""Every perturbation method through the battery, and what each method states of itself."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
import perturb_checks as checks
import pytest
from estimator_checks import each_check
from hypothesis import given
from hypothesis import strategies as st

from ppdm_dask.errors import DataError, InputError
from ppdm_dask.kernels.aibr import perturb_column, perturb_column_plain
from ppdm_dask.perturb import (
    AIBR,
    BSVD,
    KCG,
    SSVD,
    Perturbation,
    distortion,
    expected_rp,
    methods,
    perturbation_from_config,
)
from ppdm_dask.perturb.base import ColumnSummary, read_matrix, register
from ppdm_dask.perturb.condensation import condense
from ppdm_dask.perturb.metrics import ordinal_ranks
from ppdm_dask.randomness import LOGICAL_BLOCK, SimulationStream, Stream

ALL = [method for own in checks.EXAMPLES.values() for method in own]


def _label(method: Perturbation) -> str:
    return f"{method.id}-{checks.EXAMPLES[method.id].index(method)}"


# -- the battery and the registry ------------------------------------------------------------------


def test_every_registered_method_has_examples():
    checks.require_examples(methods(), checks.EXAMPLES)


@pytest.mark.parametrize("check", checks.BATTERY, ids=lambda check: check.__name__[6:])
@pytest.mark.parametrize("method", ALL, ids=_label)
def test_battery(method, check):
    check(method)


def test_a_method_without_examples_fails_the_battery():
    with pytest.raises(pytest.fail.Exception, match="'noise' has no example"):
        checks.require_examples([*checks.EXAMPLES, "noise"], checks.EXAMPLES)


def test_unknown_method_and_second_registration():
    with pytest.raises(InputError, match=r"^id: got 'abir'; .* is needed: aibr, bsvd, kcg, ssvd$"):
        perturbation_from_config({"id": "abir", "k": 2})
    with pytest.raises(InputError, match="two perturbation methods are called 'aibr'"):
        register(AIBR)


# -- AIBR ------------------------------------------------------------------------------------------


def two_step_aibr(column, k, rng):
    """[Guo]_'s algorithm as it is printed: draw T_j for each sub-interval, then deal it out."""
    edges = np.linspace(column.min(), column.max(), k + 1)
    inside = np.clip(np.searchsorted(edges, column, side="right") - 1, 0, k - 1)
    released = np.empty_like(column)
    for j in range(k):
        rows = np.flatnonzero(inside == j)
        drawn = list(rng.uniform(edges[j], edges[j + 1], rows.size))
        for row in rows:
            released[row] = drawn.pop(rng.integers(len(drawn)))
    return released


def test_the_two_steps_of_the_paper_and_ours_have_one_law():
    """First two moments of a released value, and of a pair in one sub-interval, by averaging."""
    column = np.array([0.0, 0.5, 1.0, 6.0, 7.0, 10.0])
    rng, repeats = np.random.default_rng(3), 4_000
    theirs = np.array([two_step_aibr(column, 2, rng) for _ in range(repeats)])
    method = AIBR(2).fit(column[:, None])
    ours = np.array(
        [method.perturb(column[:, None], Stream.from_seed(s))[:, 0] for s in range(repeats)]
    )
    middles, width = np.array([2.5, 2.5, 2.5, 7.5, 7.5, 7.5]), 5.0
    error = width / math.sqrt(12 * repeats)
    for sample in (theirs, ours):
        assert np.abs(sample.mean(axis=0) - middles).max() < 4 * error
        np.testing.assert_allclose(sample.var(axis=0), width**2 / 12, rtol=0.1)
        assert abs(np.corrcoef(sample.T)[0, 1]) < 4 / math.sqrt(repeats)


def test_distance_is_below_the_width_and_histograms_are_kept():
    frame = checks.make_frame(500)
    values, _ = read_matrix(frame)
    for k in (1, 2, 5, 24, 500):
        for integers in (False, True):
            method = AIBR(k, integers=integers).fit(frame)
            released = method.perturb(frame, Stream.from_seed(k))
            width = np.ptp(values, axis=0) / k
            assert (np.abs(released - values) <= width * (1 + 1e-12)).all()
            np.testing.assert_array_equal(method.counts(released), method.counts(values))
            assert (method.counts(values).sum(axis=1) == 500).all()
            _, counted = method.perturb_and_count(values, Stream.from_seed(1), 0)
            np.testing.assert_array_equal(counted, method.counts(values))


def test_whole_numbers_stay_whole_on_request_and_are_uniform():
    frame = checks.make_frame(500)
    released = AIBR(4, integers=True, seed=1).fit_transform(frame)
    assert (released[:, [0, 2]] == np.floor(released[:, [0, 2]])).all()
    assert (released[:, [1, 3]] != np.floor(released[:, [1, 3]])).all()
    assert (AIBR(4, seed=1).fit_transform(frame)[:, 0] % 1 != 0).all()
    # 0 .. 10 in three parts: 0-3, 4-6, 7-10, each whole number equally often within its part.
    column = np.repeat(np.arange(11.0), 3_000)[:, None]
    drawn = AIBR(3, integers=True, seed=2).fit_transform(column)[:, 0]
    counts = np.bincount(drawn.astype(int), minlength=11)
    expected = np.repeat([3_000.0, 3_000.0, 3_000.0], [4, 3, 4])
    assert ((counts - expected) ** 2 / expected).sum() < 30  # chi-square with 8 degrees: p < 1e-3


def test_expected_rp():
    """E[RP] = sum_j (N_j^2 - 1) / (3 n), also with ties, within 3 standard errors."""
    rng = np.random.default_rng(4)
    for column in (rng.permutation(200) * 1.0, rng.integers(0, 7, 200) * 1.0):
        data = column[:, None]
        method = AIBR(6).fit(data)
        expected = expected_rp(method.counts(data))
        rp = [distortion(data, method.perturb(data, Stream.from_seed(s))).rp for s in range(600)]
        error = np.std(rp, ddof=1) / math.sqrt(len(rp))
        assert abs(np.mean(rp) - expected) < 3 * error
    assert expected_rp([3, 1, 0]) == (8 + 0) / 12
    assert expected_rp([[4], [2]]) == (15 / 12 + 3 / 6) / 2


@given(
    st.lists(
        st.floats(-1e9, 1e9) | st.integers(-50, 50).map(float) | st.just(math.nan),
        min_size=2,
        max_size=60,
    ),
    st.integers(1, 60),
    st.booleans(),
    st.integers(0, 1000),
)
def test_the_kernel_is_its_plain_twin(values, k, whole, seed):
    column = np.array(values)
    there = column[~np.isnan(column)]
    if there.size < 2 or there.min() == there.max():
        return
    whole = whole and bool((there == np.floor(there)).all())
    method = AIBR(min(k, column.size), constant="keep").fit(column[:, None])
    edges = method.edges_[0]
    words = np.random.default_rng(seed).integers(0, 2**64, column.size, dtype=np.uint64)
    words[: min(4, column.size)] = [0, 2**64 - 1, 2**11 - 1, 2**63][: min(4, column.size)]
    out, counts = np.empty_like(column), np.zeros(edges.size - 1, np.int64)
    assert perturb_column(column, edges, words, whole, out, counts) == -1
    np.testing.assert_array_equal(out, perturb_column_plain(column, edges, words, whole))
    np.testing.assert_array_equal(method.counts(out[:, None])[0], counts)
    np.testing.assert_array_equal(method.counts(column[:, None])[0], counts)


def test_edges_that_round_onto_one_another():
    low = 2.0**53
    column = np.array([low, low + 2, low + 4, low + 4])[:, None]
    method = AIBR(4).fit(column)
    released = method.perturb(column, Stream.from_seed(1))
    np.testing.assert_array_equal(method.counts(released), method.counts(column))


def test_a_value_outside_the_fitted_range_is_named():
    frame = checks.make_frame()
    method = AIBR(3).fit(frame)
    frame.loc[41, "age"] = 120
    with pytest.raises(DataError, match=r"column 'age', row 1041: 120 lies outside the fitted ra"):
        method.perturb(frame, Stream.from_seed(1), offset=1000)


def test_draws_are_keyed_by_logical_block_and_column():
    """A record's word is the one at its place in its block, column by column."""
    n, k = 40, 1
    data = np.stack([np.linspace(0, 1, n)] * 2, axis=1)
    stream = SimulationStream(9)
    released = AIBR(k).fit(data).perturb(data, stream, LOGICAL_BLOCK - 15)
    for j in range(2):
        before = stream.source(0, j).words(LOGICAL_BLOCK)[-15:]
        after = stream.source(1, j).words(25)
        words = np.concatenate([before, after])
        np.testing.assert_array_equal(released[:, j], (words >> np.uint64(11)) * 2.0**-53)


def test_summaries_of_parts_add_up():
    frame = checks.make_frame(300).assign(gap=np.nan)
    frame.loc[250:, "gap"] = 3.0
    values, names = read_matrix(frame)
    whole = ColumnSummary.of(values, names)
    cuts = [0, 1, 40, 40, 260, 300]
    parts = [ColumnSummary.of(values[a:b], names) for a, b in pairwise(cuts)]
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    assert (total.names, total.n) == (whole.names, 300)
    for field in ("missing", "low", "high", "whole"):
        np.testing.assert_array_equal(getattr(total, field), getattr(whole, field))
    assert total.missing.tolist() == [0, 0, 0, 0, 250]
    other = ColumnSummary.of(values[:, :2], names[:2])
    with pytest.raises(DataError, match="partitions differ in their columns"):
        total + other
    assert AIBR(5).fit(frame.drop(columns="gap")).edges_.tolist() == (
        AIBR(5).fit_summary(ColumnSummary.of(values[:, :4], names[:4])).edges_.tolist()
    )


def test_every_dtype_gives_the_same_release():
    numbers = [3, 1, 4, 1, 5, 9, 2, 6]
    expected = AIBR(3, seed=5).fit_transform(np.array(numbers, float)[:, None])
    for dtype in ("int8", "uint64", "Int64", "float32", "Float64", "object", "string", "category"):
        values = list(map(str, numbers)) if dtype in ("string", "category") else numbers
        frame = pd.DataFrame({"x": pd.Series(values).astype(dtype)})
        np.testing.assert_array_equal(AIBR(3, seed=5).fit_transform(frame), expected)
    with pytest.raises(DataError, match="column 'x' holds bool; numbers are needed"):
        AIBR(1).fit(pd.DataFrame({"x": [True, False]}))


# -- BSVD and SSVD ---------------------------------------------------------------------------------


def test_bsvd_is_the_best_approximation_of_its_rank():
    """Eckart and Young: the error is the norm of the dropped singular values, to 1e-12."""
    frame = checks.make_frame(200)
    A = frame.to_numpy(dtype=float)
    u, s, vt = np.linalg.svd(A, full_matrices=False)
    for k in (1, 2, 3):
        released = BSVD(k).fit_transform(frame)
        best = (u[:, :k] * s[:k]) @ vt[:k]
        assert np.abs(released - best).max() <= 1e-12 * np.abs(A).max()
        error = np.linalg.norm(A - released)
        assert error == pytest.approx(math.sqrt((s[k:] ** 2).sum()), rel=1e-9)
        assert np.linalg.matrix_rank(released, tol=1e-6) == k
        for seed in range(20):  # no other k directions do better
            other = np.linalg.qr(np.random.default_rng(seed).normal(size=(4, k)))[0]
            assert np.linalg.norm(A - A @ other @ other.T) > error


def test_bsvd_refuses_to_return_its_input():
    frame = checks.make_frame()
    with pytest.raises(InputError, match="k: got 4; of 60 records of 4 columns, 3 or fewer"):
        BSVD(4).fit(frame)
    doubled = frame.assign(double=2 * frame["age"], half=frame["age"] / 2)
    with pytest.raises(InputError, match="k: got 5; the data have rank 4"):
        BSVD(5).fit(doubled)


def test_ssvd_is_its_plain_statement():
    A = checks.make_frame(80).to_numpy(dtype=float)
    k, e = 3, 0.4
    u, s, vt = np.linalg.svd(A, full_matrices=False)
    u, s, v = u[:, :k], s[:k], vt[:k].T
    threshold = np.quantile(np.abs(np.concatenate([u, v])), e)
    plain = np.where(np.abs(u) < threshold, 0, u) @ np.diag(s)
    plain = plain @ np.where(np.abs(v) < threshold, 0, v).T
    method = SSVD(k, e).fit(A)
    assert method.threshold_ == pytest.approx(threshold, rel=1e-9)
    np.testing.assert_allclose(method.transform(A), plain, atol=1e-9 * np.abs(A).max())
    entries = np.concatenate([u, v]).size
    zeros = (np.abs(np.concatenate([u, v])) < method.threshold_).sum()
    assert abs(zeros - e * entries) <= 1


@pytest.mark.parametrize("e", [0, 1, 1.5, -0.1, "half", True, math.nan])
def test_ssvd_refuses_an_impossible_share(e):
    with pytest.raises(InputError, match=r"^e: got .*; a share between 0 and 1"):
        SSVD(2, e).fit(checks.make_frame())


# -- kCG -------------------------------------------------------------------------------------------


def test_groups_have_k_records_or_more():
    values = checks.make_frame(103).to_numpy(dtype=float)
    for k in (2, 5, 10, 60, 103):
        labels = condense(values, k, Stream.from_seed(k))
        sizes = np.bincount(labels)
        assert sizes.min() >= k
        assert sizes.size == 103 // k
        assert sizes.sum() == 103


def test_condensation_is_its_plain_statement():
    """Records one at a time: a random record, its k - 1 nearest, leftovers to the nearest mean."""
    values = np.random.default_rng(6).normal(size=(23, 3))
    k, stream = 4, Stream.from_seed(11)
    words = [int(word) for word in stream.source().words(23 // k)]
    left, groups = list(range(23)), []
    for word in words:
        picked = left[word * len(left) >> 64]
        near = sorted(left, key=lambda i: math.dist(values[i], values[picked]))[:k]
        groups.append(near)
        left = [i for i in left if i not in near]
    means = [values[group].mean(axis=0) for group in groups]
    for i in left:
        groups[min(range(len(means)), key=lambda g: math.dist(values[i], means[g]))].append(i)
    labels = condense(values, k, stream)
    for g, group in enumerate(groups):
        assert sorted(group) == np.flatnonzero(labels == g).tolist()


def test_released_groups_keep_mean_and_covariance():
    """Averaged over releases: the group's mean, and with n - 1 its population covariance."""
    frame = checks.make_frame(30)[["age", "visits", "score"]]
    values = frame.to_numpy(dtype=float)
    method = KCG(6).fit(frame, stream=Stream.from_seed(1))
    repeats = 3_000
    releases = np.array([method.perturb(frame, Stream.from_seed(s)) for s in range(repeats)])
    for group in range(5):
        rows = method.labels_ == group
        own, drawn = values[rows], releases[:, rows]
        means = drawn.mean(axis=1)
        spread = means.std(axis=0, ddof=1) / math.sqrt(repeats)
        assert (np.abs(means.mean(axis=0) - own.mean(axis=0)) < 4 * spread + 1e-12).all()
        covariances = np.array([np.cov(each.T) for each in drawn])
        spread = covariances.std(axis=0, ddof=1) / math.sqrt(repeats)
        population = np.cov(own.T, bias=True)
        assert (np.abs(covariances.mean(axis=0) - population) < 4.5 * spread + 1e-12).all()


def test_other_records_are_released_from_the_nearest_group():
    frame = checks.make_frame(40)
    method = KCG(8).fit(frame, stream=Stream.from_seed(2))
    far = frame.iloc[:3].copy()
    far["income"] += 0.25
    released = method.perturb(far, Stream.from_seed(3))
    values = far.to_numpy(dtype=float)
    for row, value in zip(released, values, strict=True):
        group = np.argmin(((method.means_ - value) ** 2).sum(axis=1))
        along = np.linalg.lstsq(method.axes_[group], row - method.means_[group], rcond=None)[0]
        assert np.abs(along).max() <= 1 + 1e-6


def test_duplicates_are_condensed_too():
    values = np.array([[0.0, 0.0]] * 7 + [[5.0, 1.0]] * 7)
    released = KCG(3, seed=1).fit_transform(values)
    assert np.isfinite(released).all()


# -- ranks -----------------------------------------------------------------------------------------


def test_equal_values_are_ranked_by_position():
    assert ordinal_ranks(np.array([2.0, 1.0, 2.0, 1.0])).tolist() == [2, 0, 3, 1]


# -- scikit-learn's conventions --------------------------------------------------------------------

OBJECTS = "of objects that are no numbers it wants a TypeError; ours names column, row and value"
BY_POSITION = "records are drawn for by their position, so that parts give what the whole gives"


def expected_failures(method: Perturbation) -> dict[str, str]:
    found = {"check_dtype_object": OBJECTS}
    if method.id in ("aibr", "kcg"):
        found |= {
            "check_methods_sample_order_invariance": BY_POSITION,
            "check_methods_subset_invariance": BY_POSITION,
        }
    return found


@each_check(
    [AIBR(k=2, seed=1), BSVD(k=1), SSVD(k=1, e=0.1), KCG(k=3, seed=1)],
    expected_failed_checks=expected_failures,
)
def test_scikit_learns_checks(estimator: Any, check: Any) -> None:
    check(estimator)


@pytest.mark.parametrize("method", [BSVD(k=1), SSVD(k=1, e=0.1), KCG(k=2, seed=1)])
def test_a_value_that_is_missing_only_later_is_refused(method: Perturbation) -> None:
    fitted = method.fit(np.arange(12.0).reshape(6, 2) ** 2)
    later = np.array([[1.0, 2.0], [np.nan, 3.0]])
    with pytest.raises(DataError, match="column '0': 1 of 2 values are missing"):
        fitted.transform(later)
