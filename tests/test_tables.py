"""Contingency tables: a monoid of exact counts, whole blocks, dense and sparse alike."""

from __future__ import annotations

import itertools
from collections import Counter
from functools import reduce

import checks
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import identity_of, make_codebook, random_records, reports_of

from ppdm_dask import (
    Identity,
    NotLumpable,
    Product,
    Records,
    RRMatrix,
    Stream,
    UnrelatedQuestion,
    Warner,
    count,
    invert,
)
from ppdm_dask.designs.matching import covering, require_whole
from ppdm_dask.errors import CodebookError, RecordsError
from ppdm_dask.inference import tables
from ppdm_dask.inference.tables import ContingencyTable, RunningTable, sum_tables

BOOK = make_codebook(["a", "b", "c"], [2, 3, 4])
IDENTITY = Identity(["a", "b", "c"], [2, 3, 4])
CUT = RRMatrix(["a", "b"], checks.JOINT_SKEWED, [2, 2])


def cells(table: ContingencyTable) -> dict[tuple[int, ...], int]:
    """Counts by code, only those that are not 0."""
    part = table.sparse()
    return {
        tuple(int(c) for c in symbol): int(n)
        for symbol, n in zip(part.symbols(), part.counts, strict=True)
    }


def tallied(records: Records, names) -> dict[tuple[int, ...], int]:
    columns = [records.column(name).tolist() for name in names]
    return dict(Counter(zip(*columns, strict=True)))


def same(one: ContingencyTable, two: ContingencyTable) -> None:
    assert one.codebook == two.codebook
    assert one.design_digest == two.design_digest
    assert cells(one) == cells(two)
    assert one.n == two.n


@pytest.fixture(params=["dense", "sparse"])
def layout(request, monkeypatch):
    """Run a test with dense tables and, the limit lowered, with sparse ones."""
    if request.param == "sparse":
        monkeypatch.setattr(tables, "DENSE_CELLS", 5)
    return request.param


@pytest.mark.parametrize("names", [("a",), ("c", "a"), ("a", "b", "c"), ("b", "c")])
def test_counts_equal_a_plain_tally(layout, names):
    records = random_records(BOOK, 500, seed=1)
    table = count(records, IDENTITY, names)
    assert table.attributes == names
    assert cells(table) == tallied(records, names)
    assert table.n == 500
    assert (table.cells is not None) == (layout == "sparse" and names != ("a",))


def test_all_attributes_are_counted_by_default():
    records = random_records(BOOK, 50, seed=2)
    assert count(records, IDENTITY).attributes == ("a", "b", "c")
    assert cells(count(records, IDENTITY)) == tallied(records, "abc")


@given(st.lists(st.integers(0, 40), min_size=1, max_size=5), st.integers(0, 1000), st.data())
def test_parts_add_to_the_whole_in_any_order(sizes, seed, data):
    records = random_records(BOOK, sum(sizes), seed)
    edges = np.cumsum([0, *sizes])
    parts = [count(records.slice(a, b), IDENTITY) for a, b in itertools.pairwise(edges.tolist())]
    parts = data.draw(st.permutations(parts))
    whole = count(records, IDENTITY)
    same(reduce(lambda x, y: x + y, parts, ContingencyTable.zero(BOOK)), whole)
    same(reduce(lambda x, y: x.sparse() + y, parts), whole)
    same(reduce(lambda x, y: y + x.sparse(), parts), whole)


def test_zero_is_neutral(layout):
    table = count(random_records(BOOK, 30, seed=3), IDENTITY)
    zero = ContingencyTable.zero(BOOK)
    assert zero.n == 0
    same(zero + table, table)
    same(table + zero, table)


def test_tables_that_do_not_belong_together_do_not_add():
    records = random_records(BOOK, 30, seed=4)
    table = count(records, IDENTITY)
    with pytest.raises(RecordsError, match="different attributes or categories"):
        table + table.marginal(["a", "b"])
    warner, other = Warner("a", 0.8), Warner("a", 0.7)
    one, two = (count(d.disguise(records, Stream.from_seed(0)), d) for d in (warner, other))
    with pytest.raises(RecordsError, match="different designs"):
        one + two
    with pytest.raises(TypeError):
        table + 1


def test_one_simulated_part_makes_the_sum_simulated():
    records, warner = random_records(BOOK, 30, seed=5), Warner("a", 0.8)
    real = count(warner.disguise(records, Stream.from_entropy()), warner)
    simulated = count(warner.disguise(records, Stream.from_seed(1)), warner)
    assert (real.simulated, simulated.simulated) == (False, True)
    assert (real + simulated).simulated
    assert (simulated + real.sparse()).simulated
    assert not (real + real).simulated


def test_dense_and_sparse_round_trip(layout):
    table = count(random_records(BOOK, 40, seed=6), IDENTITY)
    sparse = table.sparse()
    assert (np.diff(sparse.cells) > 0).all()
    assert (sparse.counts > 0).all()
    flat = np.ravel_multi_index(tuple(sparse.symbols().T), BOOK.shape)
    np.testing.assert_array_equal(flat, sparse.cells)
    if layout == "dense":
        same(sparse.dense(), table)
        np.testing.assert_array_equal(sparse.dense().counts, table.counts)
        assert sparse.dense().counts.shape == BOOK.shape
    else:
        with pytest.raises(RecordsError, match="table over a, b, c has 24 cells, more than 5"):
            sparse.dense()


@pytest.mark.parametrize(
    "names", [("c",), *itertools.permutations("abc", 2), *itertools.permutations("abc", 3)]
)
def test_marginals_equal_counting_fewer(layout, names):
    records = random_records(BOOK, 200, seed=7)
    same(count(records, IDENTITY).marginal(names), count(records, IDENTITY, names))


def test_where_keeps_the_part_inside(layout):
    records = random_records(BOOK, 300, seed=8)
    table = count(records, IDENTITY)
    part = table.where({"b": ["0", "2"], "c": "1"})
    expected = {k: n for k, n in cells(table).items() if k[1] in (0, 2) and k[2] == 1}
    assert cells(part) == expected
    assert part.attributes == table.attributes
    assert (part.cells is None) == (table.cells is None)
    with pytest.raises(CodebookError, match="'9' is not a category"):
        table.where({"b": "9"})


@pytest.mark.parametrize("layout", ["dense", "sparse"])
def test_tables_that_come_one_by_one_add_in_a_binary_tree(layout, monkeypatch):
    """As counted by hand; and no cell is merged more often than a tree is deep."""
    if layout == "sparse":
        monkeypatch.setattr(tables, "DENSE_CELLS", 4)
    book = make_codebook(["a", "b"], [50, 40])
    moved = []
    plain = tables._merged

    def merged(cells, counts):
        moved.append(sum(map(len, cells)))
        return plain(cells, counts)

    monkeypatch.setattr(tables, "_merged", merged)
    whole = random_records(book, 64 * 60, 1)
    design = identity_of(book)
    running, parts = RunningTable(), []
    assert running.total() is None
    for i in range(64):
        parts.append(count(whole.slice(60 * i, 60 * i + 60), design))
        assert (parts[-1].cells is None) == (layout == "dense")
        running.add(parts[-1])
        so_far = running.total()
        assert so_far is not None
        assert so_far.n == 60 * (i + 1)
    moved.clear()
    again = RunningTable()
    for part in parts:
        again.add(part)
    for found in (
        running.total(),
        again.total(),
        sum_tables(parts),
        reduce(lambda x, y: x + y, parts),
    ):
        assert found is not None
        assert cells(found) == tallied(whole, ["a", "b"])
        assert found.n == len(whole)
    if layout == "dense":
        assert not moved
    else:
        # In a tree of six levels a cell moves six times; one after another the whole sum so far
        # moves each time.
        moved.clear()
        last = RunningTable()
        for part in parts:
            last.add(part)
        last.total()
        assert sum(moved) < 60 * 64 * 8
        moved.clear()
        reduce(lambda x, y: x + y, parts)
        assert sum(moved) > 60 * 64 * 12


def test_a_large_domain_is_counted_sparsely():
    book = make_codebook(["a", "b"], [2_925, 100_000])
    records = random_records(book, 3_000, seed=9)
    table = count(records, identity_of(book))
    assert len(table.counts) <= 3_000
    assert cells(table) == tallied(records, "ab")
    assert cells(table.marginal(["b"])) == tallied(records, "b")
    assert ContingencyTable.zero(book).n == 0
    same(table + ContingencyTable.zero(book), table)


def test_a_domain_beyond_64_bits_is_refused():
    book = make_codebook([f"a{i}" for i in range(13)], [30] * 13)
    design = Product([Identity(name, [30]) for name in book.names])
    with pytest.raises(RecordsError, match=r"table over 13 attributes has \d+ cells; count fewer"):
        count(random_records(book, 2, seed=10), design)


def test_counts_are_64_bit_integers():
    with pytest.raises(RecordsError, match=r"counts are float64 \(2,\); int64 \(2,\) is needed"):
        ContingencyTable(make_codebook("a", [2]), np.array([1.0, 2.0]))
    with pytest.raises(RecordsError, match=r"int64 \(2,\) is needed"):
        ContingencyTable(make_codebook("a", [2]), np.array([1, 2, 3]))
    with pytest.raises(RecordsError, match=r"counts are int32"):
        ContingencyTable(make_codebook("a", [2]), np.array([1, 2], np.int32))


def test_ten_thousand_million_records_stay_exact():
    warner, book = Warner("a", 0.8), make_codebook("ab", [2, 2])
    counts = np.array([[3_000_000_001, 2_999_999_999], [1_000_000_001, 3_000_000_000]])
    part = ContingencyTable(book, counts, None, warner.digest)
    total = part + part.sparse() + part + part
    assert total.n == 40_000_000_004
    assert cells(total)[0, 1] == 11_999_999_996
    assert total.marginal(["b"]).counts.sum() == total.n
    estimate = invert(part, warner)
    # (share - .2) / .6, column by column, at exactly rational shares.
    n = counts.sum()
    for b in range(2):
        yes, no = counts[1, b] / n, counts[0, b] / n
        np.testing.assert_allclose(estimate.values[1, b], (0.8 * yes - 0.2 * no) / 0.6, rtol=1e-13)
    w = np.array([0.8, -0.2]) / 0.6
    share = counts[:, 0] / n
    variance = ((w**2) @ share[::-1] - (w @ share[::-1]) ** 2) / (n - 1)
    np.testing.assert_allclose(estimate.variance[1, 0], variance, rtol=1e-12)


# -- which attributes a design lets be counted -----------------------------------------------------


def test_a_block_that_is_not_lumpable_is_counted_whole():
    design = Product([CUT, Warner("c", 0.8)])
    assert covering(design, ["a"]) == ("a", "b")
    assert covering(design, ["c", "b"]) == ("c", "b", "a")
    assert covering(design, ["c", "u"]) == ("c", "u")
    lumpable = UnrelatedQuestion(["a", "b"], 0.5)
    assert covering(lumpable, ["b"]) == ("b",)
    half = RRMatrix(["a", "b"], checks.second_depends_on_first(), [2, 2])
    assert covering(half, ["a"]) == ("a",)
    assert covering(half, ["b"]) == ("b", "a")

    book = make_codebook(["u", "b", "a"], [2, 2, 2])
    reports = reports_of(random_records(book, 20, seed=11).codes, book, CUT)
    assert count(reports, CUT, ["u", "a"]).attributes == ("u", "a", "b")
    require_whole(CUT, ["u", "b", "a"])
    require_whole(CUT, ["u"])
    with pytest.raises(NotLumpable, match=r"cuts a block of 'matrix' .* it lacks b"):
        require_whole(CUT, ["a", "u"])


def test_reports_of_another_design_are_refused():
    records = random_records(BOOK, 10, seed=12)
    reports = Warner("a", 0.8).disguise(records, Stream.from_seed(1))
    with pytest.raises(RecordsError, match="made by another design"):
        count(reports, Warner("a", 0.7))


def test_undisguised_records_are_no_reports_of_a_design():
    records = random_records(BOOK, 10, seed=13)
    with pytest.raises(
        RecordsError, match="undisguised records; reports of a made by the 'warner'"
    ):
        count(records, Warner("a", 0.8))
    other = Warner("elsewhere", 0.8)
    assert count(records, other, ["a"]).n == 10  # the design covers nothing of them
    assert count(records, IDENTITY).design_digest == ""


def test_unknown_attributes_are_named():
    with pytest.raises(CodebookError, match="no attribute 'z'"):
        count(random_records(BOOK, 10, seed=14), IDENTITY, ["z"])
