"""Estimates: event weights, inverted tables and plain sums over the dense inverse all agree."""

from __future__ import annotations

import itertools
import math

import checks
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from strategies import (
    SEEDS,
    codebook_of,
    codes_of,
    covered_codebooks,
    designs,
    events,
    joint_of,
    kron,
    laws,
    make_codebook,
    random_records,
    reports_of,
)

from ppdm_dask import (
    Identity,
    InputError,
    KaryResponse,
    NotInvertible,
    NotLumpable,
    Product,
    Records,
    RRMatrix,
    Stream,
    UnrelatedQuestion,
    Warner,
    count,
    event_weights,
    invert,
)
from ppdm_dask.designs.matching import covering
from ppdm_dask.errors import CodebookError, RecordsError
from ppdm_dask.inference import estimate, project_simplex
from ppdm_dask.inference.tables import ContingencyTable

TOLERANCE = 1e-12
JOINT = RRMatrix(["a", "b"], checks.JOINT_SKEWED, [2, 2])


def plain_weights(reports, design, event):
    """sum over x in E of B[x, y], block by block, for each report; B inverted densely."""
    book = reports.codebook
    masks = {n: np.array([c in labels for c in book[n].categories]) for n, labels in event.items()}
    weights = np.ones(len(reports))
    covered = set()
    for block in design.blocks:
        covered |= set(block.attributes)
        B = np.linalg.inv(block.matrix())
        columns = [book.index(name) for name in block.attributes]
        for i, y in enumerate(joint_of(reports.codes[:, columns], block.shape)):
            total = 0.0
            for x, code in enumerate(codes_of(np.arange(block.n_true), block.shape)):
                inside = [
                    masks[n][c] for n, c in zip(block.attributes, code, strict=True) if n in masks
                ]
                total += B[x, y] * all(inside)
            weights[i] *= total
    for name, mask in masks.items():
        if name not in covered:
            weights *= mask[reports.column(name)]
    return weights


def plain_proportions(reports, design, names):
    """B of the whole domain, by Kronecker's product, times the shares of the reports."""
    book = reports.codebook
    rest = [n for n in book.names if n not in design.attributes]
    order = [*design.attributes, *rest]
    inverses = [np.linalg.inv(block.matrix()) for block in design.blocks]
    inverses += [np.eye(len(book[name])) for name in rest]
    sizes = [len(book[name]) for name in order]
    joint = joint_of(reports.select(order).codes, sizes)
    shares = np.bincount(joint, minlength=math.prod(sizes)) / len(reports)
    whole = (kron(inverses) @ shares).reshape(sizes)
    summed = whole.sum(axis=tuple(i for i, name in enumerate(order) if name not in names))
    kept = [name for name in order if name in names]
    return summed.transpose([kept.index(name) for name in names])


def diagonal_is_variance(estimate, atol):
    """Where few reports carry a variance, it is raised; the covariance is unbiased throughout."""
    diagonal, variance = np.diag(estimate.covariance), estimate.variance.ravel()
    few = estimate.few.ravel()
    np.testing.assert_allclose(diagonal[~few], variance[~few], atol=atol)
    assert not (variance[few] < diagonal[few] - atol).any()


@st.composite
def cases(draw):
    """A design, reports it might have made, and an event."""
    design = draw(designs())
    assume(not design.undefined)
    book = draw(covered_codebooks(design))
    assume(math.prod(book.shape) <= 2_000)
    records = random_records(book, draw(st.integers(2, 40)), draw(SEEDS))
    return design, reports_of(records.codes, book, design), draw(events(book))


@settings(max_examples=100)
@given(cases())
def test_event_weights_equal_the_inverted_table(case):
    design, reports, event = case
    book, n = reports.codebook, len(reports)
    weights = event_weights(reports, design, event)
    scale = max(1.0, float(np.abs(weights).max()))
    np.testing.assert_allclose(weights, plain_weights(reports, design, event), atol=1e-12 * scale)
    by_weights = math.fsum(weights) / n

    # Counted over the event's attributes, or whole blocks where the design is not lumpable.
    table = count(reports, design, event)
    assert set(table.attributes) >= set(event)
    tables = [table, table.sparse(), count(reports, design)]
    for counted in tables:
        for estimand in ("population", "file"):
            result = invert(counted, design, estimand=estimand)
            inside = np.ones(counted.codebook.shape)
            for axis, name in enumerate(counted.attributes):
                if name in event:
                    mask = book.masks(event)[name]
                    shape = [1] * inside.ndim
                    shape[axis] = len(mask)
                    inside = inside * mask.reshape(shape)
            by_table = math.fsum((result.values * inside).ravel())
            assert abs(by_table - by_weights) < TOLERANCE

            # The variance of the sum is the sum of the covariances.
            if result.values.size <= 300:
                spread = inside.ravel() @ result.covariance @ inside.ravel()
                square = math.fsum(weights**2) / n
                plain = {
                    "population": (square - by_weights**2) / (n - 1),
                    "file": (square - by_weights) / n,
                }
                assert abs(spread - plain[estimand]) < TOLERANCE * scale**2


@settings(max_examples=70)
@given(cases(), st.data())
def test_tables_over_some_attributes(case, data):
    design, reports, _ = case
    book = reports.codebook
    names = tuple(data.draw(st.lists(st.sampled_from(book.names), unique=True, min_size=1)))
    expected = plain_proportions(reports, design, names)

    # Whatever the blocks: whole ones are counted, inverted, and summed.
    result = estimate(reports, names, design=design)
    assert tuple(result.labels) == names
    np.testing.assert_allclose(result.values, expected, atol=TOLERANCE)
    assert result.negative_share == (result.values < 0).mean()

    # Inverting everything and summing is the same.
    whole = invert(count(reports, design), design)
    summed = whole.marginal(names)
    np.testing.assert_allclose(summed.values, expected, atol=TOLERANCE)
    scale = max(1.0, float(np.abs(whole.variance).max()) * len(reports))
    np.testing.assert_allclose(summed.variance, result.variance, atol=TOLERANCE * scale)
    diagonal_is_variance(summed, TOLERANCE * scale)

    # The table of these attributes alone inverts exactly if it cuts no block that is not lumpable.
    cut = count(reports, design).marginal(names)
    if set(covering(design, names)) == set(names):
        np.testing.assert_allclose(invert(cut, design).values, expected, atol=TOLERANCE)
        np.testing.assert_allclose(
            invert(cut, design).variance, result.variance, atol=1e-12 * scale
        )
    else:
        with pytest.raises(NotLumpable, match="that is not lumpable: it lacks"):
            invert(cut, design)


@settings(max_examples=40)
@given(cases())
def test_the_diagonal_of_the_covariance_is_the_variance(case):
    design, reports, event = case
    for estimand in ("population", "file"):
        result = invert(count(reports, design, event), design, estimand=estimand)
        assume(result.values.size <= 300)
        scale = max(1.0, float(np.abs(result.unbiased).max()) * len(reports))
        diagonal_is_variance(result, TOLERANCE * scale)
        np.testing.assert_allclose(result.covariance, result.covariance.T, atol=TOLERANCE * scale)
        # Proportions sum to 1 for certain.
        np.testing.assert_allclose(result.covariance.sum(axis=0), 0, atol=TOLERANCE * scale)


@settings(max_examples=60)
@given(designs(), SEEDS)
def test_the_expected_table_inverts_to_the_truth(design, seed):
    """invert(P p) = p: no sampling, so no tolerance for chance."""
    assume(not design.undefined)
    book, n = codebook_of(design), 10**9
    rng = np.random.default_rng(seed)
    p = rng.dirichlet(np.ones(design.n_true))
    reported = np.rint(kron([block.matrix() for block in design.blocks]) @ p * n).astype(np.int64)
    table = ContingencyTable(book, reported.reshape(book.shape), None, design.digest, True)
    result = invert(table, design)
    np.testing.assert_allclose(result.values.ravel(), p, atol=2e-5)


# -- conditions ------------------------------------------------------------------------------------


def reports_under(design, codes):
    codes = np.asarray(codes)
    return reports_of(codes.reshape(-1, len(design.shape)), codebook_of(design), design)


def test_a_design_without_inverse_gives_no_estimate():
    half = Warner("a", 0.5)
    reports = reports_under(half, [0, 1])
    with pytest.raises(NotInvertible) as caught:
        invert(count(reports, half), half)
    np.testing.assert_array_equal(caught.value.subject, np.full((2, 2), 0.5))
    with pytest.raises(NotInvertible, match="at q = 0 every report is the personal answer"):
        none = UnrelatedQuestion("a", 0)
        estimate(reports_under(none, [0, 1]), {"a": "1"}, design=none)


def test_what_was_made_by_another_design_is_refused():
    warner, other = Warner("a", 0.8), Warner("a", 0.7)
    reports = reports_under(warner, [0, 1, 1])
    for refused in (
        lambda: event_weights(reports, other, {"a": "1"}),
        lambda: estimate(reports, {"a": "1"}, design=other),
        lambda: invert(count(reports, warner), other),
        lambda: estimate(reports, ["a"], design=other),
    ):
        with pytest.raises(RecordsError, match="by another design"):
            refused()
    truth = Records(np.array([[0], [1]]), reports.codebook)
    with pytest.raises(RecordsError, match="undisguised records"):
        estimate(truth, {"a": "1"}, design=warner)
    assert estimate(truth, {"a": "1"}, design=Identity("a", [2])).value == 0.5


def test_reports_that_lack_a_part_of_a_block():
    lumpable = UnrelatedQuestion(["a", "b"], 0.5, [0.2, 0.7])
    reports = reports_under(lumpable, [[0, 1], [1, 1], [1, 0], [1, 1]])
    whole = event_weights(reports, lumpable, {"a": "1"})
    np.testing.assert_array_equal(event_weights(reports.select(["a"]), lumpable, {"a": "1"}), whole)
    cut = reports_under(JOINT, [[0, 1], [1, 1]]).select(["a"])
    with pytest.raises(NotLumpable, match="it lacks b"):
        event_weights(cut, JOINT, {"a": "1"})


def test_events_name_declared_categories():
    warner = Warner("a", 0.8)
    reports = reports_under(warner, [0, 1])
    with pytest.raises(CodebookError, match="'a': '2' is not a category"):
        estimate(reports, {"a": "2"}, design=warner)
    with pytest.raises(CodebookError, match="no attribute 'z'"):
        estimate(reports, {"z": "0"}, design=warner)
    assert estimate(reports, {}, design=warner).value == 1


def test_no_reports_no_estimate():
    warner, book = Warner("a", 0.8), make_codebook("a", [2])
    with pytest.raises(RecordsError, match="no records; at least one is needed"):
        invert(ContingencyTable.zero(book), warner)
    with pytest.raises(RecordsError, match="no reports; at least one is needed"):
        estimate(reports_under(warner, np.zeros((0, 1), int)), {"a": "1"}, design=warner)


def test_one_report_has_no_standard_error():
    warner = Warner("a", 0.8)
    reports = reports_under(warner, [1])
    for estimand in ("population", "file"):
        single = estimate(reports, {"a": "1"}, design=warner, estimand=estimand)
        assert math.isclose(single.value, 0.8 / 0.6)
        assert math.isnan(single.standard_error)
        assert all(math.isnan(bound) for bound in single.interval())
        result = invert(count(reports, warner), warner, estimand=estimand)
        assert np.isnan(result.standard_error).all()
        assert np.isnan(result.covariance).all()


def test_a_certainty_has_no_error_at_all():
    """Undisguised, or certain: rounding must not leave a negative variance under the root."""
    design = Product([RRMatrix("a", checks.SKEWED), UnrelatedQuestion(["b", "c"], 0.3, [0.1, 0.7])])
    records = random_records(codebook_of(design), 777, seed=1)
    reports = design.disguise(records, Stream.from_seed(2))
    certain = {"a": ["0", "1", "2"], "b": ["0", "1"], "c": ["0", "1"]}
    for estimand in ("population", "file"):
        sure = estimate(reports, certain, design=design, estimand=estimand)
        assert math.isclose(sure.value, 1, abs_tol=1e-12)
        assert sure.standard_error < 1e-7
    known = estimate(records, {"a": ["0", "1"]}, design=Identity("a", [3]), estimand="file")
    assert known.standard_error == 0


def test_a_file_variance_below_zero_says_nothing():
    """Weights between 0 and 1 give mean w^2 < mean w: an unbiased variance, and no error."""
    P = np.array([[0.9, 0.1, 0.0], [0.1, 0.8, 0.4], [0.0, 0.1, 0.6]])
    design = RRMatrix("a", P)
    y = next(y for x, y in np.ndindex(3, 3) if 0.05 < np.linalg.inv(P)[x, y] < 0.95)
    x = next(x for x in range(3) if 0.05 < np.linalg.inv(P)[x, y] < 0.95)
    reports = reports_under(design, [y] * 5)
    w = np.linalg.inv(P)[x, y]
    result = invert(count(reports, design), design, estimand="file")
    assert math.isclose(result.variance[x], (w**2 - w) / 5, rel_tol=1e-9)
    assert result.variance[x] < 0
    assert math.isnan(result.standard_error.values[x])
    assert np.isnan(result.interval(method="wald").values[x]).all()
    low, high = result.interval().values[x]  # from what the design makes the variance
    assert low < w < high
    single = estimate(reports, {"a": str(x)}, design=design, estimand="file")
    assert math.isnan(single.standard_error)
    assert not math.isnan(estimate(reports, {"a": str(x)}, design=design).standard_error)


@pytest.mark.parametrize("wrong", ["sample", "", None])
def test_unknown_estimands_are_refused(wrong):
    warner = Warner("a", 0.8)
    reports = reports_under(warner, [0, 1])
    with pytest.raises(InputError, match=r"^estimand: got .*'population' or 'file' is needed"):
        estimate(reports, {"a": "1"}, design=warner, estimand=wrong)
    with pytest.raises(InputError, match=r"^estimand: got"):
        invert(count(reports, warner), warner, estimand=wrong)


# -- what an estimate offers -----------------------------------------------------------------------


def test_labelled_results():
    design = Product([Warner("a", 0.8), KaryResponse("b", 3, 0.7)])
    records = random_records(codebook_of(design), 500, seed=3)
    result = invert(count(design.disguise(records, Stream.from_seed(4)), design), design)
    proportions = result.proportions
    assert proportions.dims == ("a", "b")
    assert proportions.coords["b"].values.tolist() == ["0", "1", "2"]
    assert proportions.attrs == {"n": 500, "method": "inversion", "estimand": "population"}
    assert math.isclose(float(proportions.sum()), 1, abs_tol=1e-12)
    np.testing.assert_array_equal(proportions.values, result.values)
    np.testing.assert_allclose(result.standard_error.values**2, result.variance, rtol=1e-14)
    interval = result.interval(0.9)
    assert interval.dims == ("a", "b", "bound")
    assert interval.coords["bound"].values.tolist() == ["lower", "upper"]
    half = 1.6448536269514722 * result.standard_error
    interval = result.interval(0.9, method="wald")
    np.testing.assert_allclose(interval.sel(bound="lower"), proportions - half, rtol=1e-12)
    np.testing.assert_allclose(interval.sel(bound="upper"), proportions + half, rtol=1e-12)


@pytest.mark.parametrize("level", [0, 1, -0.5, 95])
def test_levels_lie_between_zero_and_one(level):
    warner = Warner("a", 0.8)
    reports = reports_under(warner, [0, 1])
    with pytest.raises(InputError, match=f"^level: got {level}; a number between 0 and 1"):
        estimate(reports, {"a": "1"}, design=warner).interval(level)
    with pytest.raises(InputError, match=r"^level: got"):
        invert(count(reports, warner), warner).interval(level)


def test_estimates_are_not_repaired_unless_asked():
    design = KaryResponse("a", 3, 0.5)
    result = invert(count(reports_under(design, [0] * 9 + [1]), design), design)
    assert result.values.min() < 0
    assert math.isclose(result.negative_share, (result.values < 0).mean())
    repaired = result.project()
    assert repaired.method == "projection"
    assert repaired.values.min() == 0
    assert math.isclose(repaired.values.sum(), 1)
    assert repaired.negative_share == result.negative_share  # kept, so that it shows
    assert result.values.min() < 0
    for refused in (
        lambda: repaired.standard_error,
        lambda: repaired.interval(),
        lambda: repaired.covariance,
        lambda: repaired.marginal(["a"]),
    ):
        with pytest.raises(InputError):
            refused()


def test_a_summed_estimate_is_an_estimate_like_any_other():
    """Summed over a block that is not lumpable, it still has covariances and marginals."""
    design = Product([JOINT, Warner("c", 0.8)])
    book = codebook_of(design)
    reports = reports_of(random_records(book, 60, seed=5).codes, book, design)
    result = invert(count(reports, design), design).marginal(["c", "a"])
    whole = invert(count(reports, design), design)
    M = np.zeros((4, 8))  # (c, a) from (a, b, c)
    for a, b, c in itertools.product(range(2), repeat=3):
        M[2 * c + a, 4 * a + 2 * b + c] = 1
    np.testing.assert_allclose(result.covariance, M @ whole.covariance @ M.T, atol=1e-15)
    again = result.marginal(["a"])
    np.testing.assert_allclose(again.values, result.values.sum(axis=0), atol=1e-15)
    np.testing.assert_allclose(
        again.variance, estimate(reports, ["a"], design=design).variance, atol=1e-15
    )
    with pytest.raises(CodebookError, match="no attribute 'b'"):
        result.marginal(["b"])  # the estimate is not about b any more


def test_covariance_of_many_cells_is_refused():
    design = KaryResponse("a", 5_000, 0.5)
    reports = reports_under(design, [0, 1, 4_999])
    with pytest.raises(InputError, match="covariance of 5000 cells; at most 4096"):
        _ = invert(count(reports, design), design).covariance


def test_a_large_sparse_table_is_not_inverted_but_its_events_are():
    book = make_codebook(["a", "b", "c"], [2_925, 2, 300])
    design = Product([KaryResponse("a", 2_925, 0.5), Warner("b", 0.8)])
    reports = design.disguise(random_records(book, 2_000, seed=6), Stream.from_seed(7))
    with pytest.raises(RecordsError, match="has 1755000 cells, more than 1048576; estimate events"):
        invert(count(reports, design), design)
    event = {"a": [str(i) for i in range(1_500)], "b": "1", "c": "5"}
    table = count(reports, design).where({"c": "5"}).marginal(["a", "b"])
    by_table = invert(table, design).values[:1_500, 1].sum() * table.n / 2_000
    assert math.isclose(estimate(reports, event, design=design).value, by_table, abs_tol=1e-12)


# -- the simplex -----------------------------------------------------------------------------------


@given(st.lists(st.integers(-20, 30), min_size=1, max_size=8))
def test_projection_is_the_nearest_point_of_the_simplex(values):
    v = np.array(values) / 10
    p = project_simplex(v)
    assert p.min() >= 0
    assert math.isclose(p.sum(), 1, abs_tol=1e-12)
    # Optimality: (v - p) . (z - p) <= 0 for every corner z, and so for the whole simplex.
    for corner in np.eye(len(v)):
        assert (v - p) @ (corner - p) <= 1e-12


@given(laws(5))
def test_a_point_of_the_simplex_stays(p):
    np.testing.assert_allclose(project_simplex(p), p, atol=1e-15)
