"""Counts of a tree's nodes from weighted rows, against sums of event weights over all reports."""

from __future__ import annotations

import itertools

import checks
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from strategies import (
    SEEDS,
    covered_codebooks,
    designs,
    make_codebook,
    random_records,
)

from ppdm_dask import (
    ID3,
    Attribute,
    Codebook,
    Identity,
    KaryResponse,
    MultiGroup,
    Product,
    RRMatrix,
    Stream,
    UnrelatedQuestion,
    Warner,
    event_weights,
)
from ppdm_dask.kernels.tables import add_tables, add_tables_plain
from ppdm_dask.mine import evidence as cells
from ppdm_dask.mine import rows
from ppdm_dask.mine.evidence import Evidence
from ppdm_dask.mine.rows import NodeTables


def test_the_compiled_pass_is_the_plain_one():
    rng = np.random.default_rng(1)
    sizes, width = np.array([2, 7, 300, 5]), 6
    symbols = np.stack([rng.integers(k, size=500) for k in sizes], axis=1).astype(np.uint16)
    columns = np.array([2, 0, 3])
    ends = np.cumsum(sizes[columns] * width)
    chosen = rng.permutation(500)[:200]
    base, weights = rng.integers(width, size=200), rng.normal(size=200)
    found = [np.ones(ends[-1]), np.ones(ends[-1])]
    for way, out in zip((add_tables, add_tables_plain), found, strict=True):
        starts = ends - sizes[columns] * width
        way(symbols, columns, starts, chosen, base, width, weights, out)
    np.testing.assert_allclose(*found, rtol=0, atol=1e-12)


def check_node(reports, design, target, order, codes):
    """A node that is reached by some columns in order: its weights, and those of all its splits."""
    book = reports.codebook
    names, t = book.names, book.index(target)
    tables = NodeTables(Evidence.collect([(reports, design)], target).strata[0], t)
    path = tuple((book.index(name), code) for name, code in zip(order, codes, strict=True))

    def label(name, code):
        return book[name].categories[code]

    def weights(conditions, c):
        event = {names[column]: label(names[column], v) for column, v in conditions}
        return event_weights(reports, design, {**event, target: label(target, c)})

    classes = range(len(book[target]))
    noise = 1e-9 * len(reports) * max(1.0, max(np.abs(weights(path, c)).max() for c in classes))
    for way in (path, path[:-1]):
        total, square = tables.moments(way)
        np.testing.assert_allclose(total, [weights(way, c).sum() for c in classes], atol=noise)
        expected = [(weights(way, c) ** 2).sum() for c in classes]
        np.testing.assert_allclose(square, expected, rtol=1e-9, atol=noise**2)
        got = tables.label_weight(way, classes[-1])[1] @ tables._times[tables._weight(way)[0]]
        np.testing.assert_allclose(got, total[-1], atol=noise)
    free = [c for c in range(len(names)) if c != t and names[c] not in order]
    siblings = range(len(book[order[-1]]))
    found = tables.split(path[:-1], path[-1][0], siblings, free)
    for column, counts in zip(free, found, strict=True):
        assert counts.shape == (len(siblings), len(book[names[column]]), len(classes))
        for code, v, c in itertools.product(siblings, range(counts.shape[1]), classes):
            way = (*path[:-1], (path[-1][0], code), (column, v))
            assert abs(counts[code, v, c] - weights(way, c).sum()) < noise
        # The same node by the symbols of its reports, as the test of a split takes them.
        joint, first, second = tables.split_moments(path, column)
        for v, c in itertools.product(range(counts.shape[1]), classes):
            each = weights((*path, (column, v)), c)
            assert abs(first @ joint[:, v, c] - each.sum()) < noise
            np.testing.assert_allclose(second @ joint[:, v, c] ** 2, each @ each, atol=noise**2)
        total, square = tables.moments_below(path, column)
        for v, c in itertools.product(range(counts.shape[1]), classes):
            each = weights((*path, (column, v)), c)
            assert abs(total[v, c] - each.sum()) < noise
            assert square[v, c] == pytest.approx(each @ each, rel=1e-9, abs=noise**2)
        # Of some of its children: each with a class that it would predict.
        labels = np.arange(counts.shape[1]) % (len(classes) + 1) - 1
        which, sums = tables.label_weights(path, column, labels)
        expected = sum(
            weights((*path, (column, v)), int(labels[v])).sum()
            for v in range(len(labels))
            if labels[v] >= 0
        )
        assert abs(sums @ tables._times[which] - expected) < noise


@pytest.fixture(params=["tables", "parts of blocks", "rows"])
def sizes(request, monkeypatch):
    """Small blocks whole; the touched part of a block; no table that is larger than the rows."""
    if request.param != "tables":
        monkeypatch.setattr(rows, "JOINT", 1)
    if request.param == "rows":
        monkeypatch.setattr(rows, "TABLE", 0)
    return request.param


@settings(
    max_examples=30,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
@given(st.data(), designs(), SEEDS, st.integers(1, 40))
def test_weights_and_splits_of_nodes_are_sums_of_event_weights(sizes, data, design, seed, n):
    book = data.draw(covered_codebooks(design))
    if len(book.names) < 3:
        more = [Attribute(name, ("0", "1")) for name in "pq"]
        book = Codebook((*book.attributes, *more))
    target, *others = data.draw(st.permutations(book.names))
    order = others[: data.draw(st.integers(1, len(others)))]
    codes = [data.draw(st.integers(0, len(book[name]) - 1)) for name in order]
    reports = design.disguise(random_records(book, n, seed), Stream.from_seed(seed))
    check_node(reports, design, target, order, codes)


JOINT = RRMatrix(
    ["a", "b"], np.vstack([0.6 * checks.JOINT_SKEWED, 0.4 * np.eye(4)]), [2, 2], [2, 4]
)


@pytest.mark.parametrize(
    ("design", "target", "order"),
    [
        (Product([RRMatrix("t", checks.TALL), JOINT, Warner("w", 0.8)]), "w", "bat"),
        (Product([RRMatrix("t", checks.TALL), JOINT, Warner("w", 0.8)]), "a", "tb"),
        (Product([RRMatrix("t", checks.TALL), JOINT, Warner("w", 0.8)]), "t", "aw"),
        (UnrelatedQuestion([*"tabw"], 0.4, [[0.2, 0.5, 0.3], 0.1, 0.5, 0.9]), "a", "bt"),
        (Product([Identity([*"ta"], [3, 2]), MultiGroup([["b", "w"]], 0.7)]), "w", "tb"),
    ],
    ids=["tall", "class in a tall block", "tall class", "one coin", "partly undisguised"],
)
def test_blocks_of_every_kind(sizes, design, target, order):
    book = make_codebook("wubat", [2, 3, 2, 2, 3])
    reports = design.disguise(random_records(book, 60, 5), Stream.from_seed(6))
    for depth in range(1, len(order) + 1):
        check_node(reports, design, target, [*order[:depth]], [1, 0, 1][:depth])


@pytest.mark.parametrize("seed", range(4))
def test_the_tree_of_rows_is_the_tree_of_cells(seed, monkeypatch):
    """Blocks of all kinds, split to the end: the same nodes, errors and scores."""
    names, shape = ["a", "b", "c", "d", "e", "class"], [2, 3, 4, 2, 2, 3]
    rng = np.random.default_rng(seed)
    P = 0.6 * np.eye(12) + 0.4 * rng.dirichlet(np.ones(12), 12).T
    design = Product(
        [
            RRMatrix(["b", "c"], P, [3, 4]),
            KaryResponse("class", 3, 0.8),
            MultiGroup([["d", "e"]], 0.85),
        ]
    )
    book = make_codebook(names, shape)
    reports = design.disguise(random_records(book, 400, seed), Stream.from_seed(seed))
    by_cells = ID3(design, "class").fit(reports)
    score = by_cells.score_disguised(reports)
    monkeypatch.setattr(cells, "MAX_CELLS", 0)
    by_rows = ID3(design, "class").fit(reports)
    one, two = by_cells.tree_, by_rows.tree_
    for field in ("attribute", "first_child", "parent", "category", "label", "negative"):
        np.testing.assert_array_equal(getattr(one, field), getattr(two, field), err_msg=field)
    np.testing.assert_allclose(two.counts, one.counts, atol=1e-9)
    assert by_rows.score_disguised(reports).value == pytest.approx(score.value, abs=1e-12)


def test_two_hundred_columns_are_numbered_in_64_bits():
    """Rows that differ in one late column only, or in none."""
    codes = np.random.default_rng(3).integers(2, size=(50, 200))
    codes[10:20] = codes[0]
    codes[20:, :190] = codes[20, :190]
    keys = cells.row_keys(codes, [2] * 200)
    for i, j in itertools.combinations(range(50), 2):
        assert (keys[i] == keys[j]) == bool((codes[i] == codes[j]).all())
