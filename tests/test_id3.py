"""ID3 against scikit-learn, against a plain recursion on event weights, and rule by rule."""

from __future__ import annotations

import itertools
import json
import math
import pickle

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.tree import DecisionTreeClassifier
from strategies import (
    SEEDS,
    covered_codebooks,
    designs,
    identity_of,
    make_codebook,
    random_records,
    reports_of,
)

from ppdm_dask import (
    ID3,
    Attribute,
    Codebook,
    ContingencyTable,
    Identity,
    InputError,
    KaryResponse,
    MultiGroup,
    Product,
    Records,
    RRMatrix,
    Stream,
    UnrelatedQuestion,
    Warner,
    count,
    event_weights,
)
from ppdm_dask.errors import CodebookError, RecordsError
from ppdm_dask.inference.proportions import estimate
from ppdm_dask.mine import evidence as signed_cells
from ppdm_dask.mine import tree as recount
from ppdm_dask.mine.classifier import score_disguised
from ppdm_dask.mine.evidence import Evidence
from ppdm_dask.mine.growth import split_z


def same_tree(one, two, *, exact=True):
    for field in ("attribute", "first_child", "parent", "category", "depth", "label", "negative"):
        np.testing.assert_array_equal(getattr(one, field), getattr(two, field), err_msg=field)
    scale = 0 if exact else 1e-9 * one.n_reports
    np.testing.assert_allclose(one.counts, two.counts, rtol=0, atol=scale)


# -- scikit-learn ----------------------------------------------------------------------------------


def compare(ours, theirs, counts, node=0, other=0):
    """Node for node; scikit-learn's left child holds the zeros."""
    tree = theirs.tree_
    value = tree.value[other][0] * tree.weighted_n_node_samples[other]
    np.testing.assert_allclose(ours.counts[node], value, rtol=1e-9)
    assert ours.label[node] == np.argmax(value)
    if tree.feature[other] < 0:
        assert ours.attribute[node] < 0
        return 1
    assert ours.attribute[node] == tree.feature[other]
    zeros, ones = ours.children(node)
    below = compare(ours, theirs, counts, zeros, tree.children_left[other])
    return 1 + below + compare(ours, theirs, counts, ones, tree.children_right[other])


def test_undisguised_trees_are_those_of_scikit_learn_at_every_depth():
    """60 binary tables with random positive weights in all cells, and so without ties."""
    rng = np.random.default_rng(1)
    for case in range(60):
        k = 2 + case % 4
        book = make_codebook([*map(str, range(k)), "class"], [2] * (k + 1))
        counts = rng.integers(1, 10**6, size=book.shape)
        table = ContingencyTable(book, counts)
        cells = np.argwhere(counts > 0)
        for depth in range(1, k + 1):
            theirs = DecisionTreeClassifier(criterion="entropy", max_depth=depth, random_state=0)
            theirs.fit(cells[:, :-1], cells[:, -1], sample_weight=counts.ravel())
            ours = ID3(identity_of(book), "class", max_depth=depth).fit_table(table)
            assert compare(ours.tree_, theirs, counts) == len(ours.tree_) == theirs.tree_.node_count
            records, X = Records(cells, book), cells[:, :-1]
            np.testing.assert_array_equal(ours.predict_codes(records), theirs.predict(X))
            shares = ours.predict_proba(records)
            np.testing.assert_allclose(shares, theirs.predict_proba(X), rtol=1e-9)


# -- a plain recursion -----------------------------------------------------------------------------


def grow_plainly(reports, design, target):
    """The rules of the class, a node at a time, on the event weights of the public interface.

    Returns nodes as (conditions, split attribute or None, counts, label), in any order.
    """
    book, n = reports.codebook, len(reports)
    classes = book[target].categories
    noise = 1e-9 * n

    def counts_of(conditions):
        events = [{**conditions, target: label} for label in classes]
        return [math.fsum(event_weights(reports, design, event)) for event in events]

    def entropy(counts):
        total = sum(counts)
        return -sum(c / total * math.log(c / total) for c in counts if c > 0)

    def grow(conditions, inherited):
        counts = counts_of(conditions)
        best = max(counts)
        label = next(i for i, w in enumerate(counts) if w >= best - noise)
        if best <= noise:
            label = inherited
        free = [name for name in book.names if name != target and name not in conditions]
        split = None
        if sum(w > noise for w in counts) > 1 and free:
            scores = []
            for name in free:
                clipped = [
                    [max(w, 0.0) for w in counts_of({**conditions, name: v})]
                    for v in book[name].categories
                ]
                sizes = [sum(part) for part in clipped]
                weighted = sum(
                    size * entropy(part) for size, part in zip(sizes, clipped, strict=True) if size
                )
                scores.append(weighted / sum(sizes))
            split = next(
                name for name, s in zip(free, scores, strict=True) if s <= min(scores) + 1e-10
            )
        nodes.append((conditions, split, counts, label))
        if split:
            for v in book[split].categories:
                grow({**conditions, split: v}, label)

    nodes = []
    grow({}, 0)
    return nodes


def check_against_recursion(reports, design, target):
    model = ID3(design, target).fit(reports)
    tree, book = model.tree_, reports.codebook
    expected = {frozenset(c.items()): rest for c, *rest in grow_plainly(reports, design, target)}
    assert len(expected) == len(tree)
    scale = 1e-9 * max(len(reports), float(np.abs(tree.counts).max()))
    for node in range(len(tree)):
        conditions = {
            book.names[c]: book.attributes[c].categories[v]
            for c, v in tree.conditions(node).items()
        }
        split, counts, label = expected[frozenset(conditions.items())]
        assert (book.names[tree.attribute[node]] if tree.attribute[node] >= 0 else None) == split
        assert tree.label[node] == label
        assert tree.depth[node] == len(conditions)
        np.testing.assert_allclose(tree.counts[node], counts, rtol=0, atol=scale)
        assert tree.negative[node] == (min(counts) < -scale)
    assert model.floored_ == tree.negative.sum()
    assert model.negative_share_ == model.floored_ / len(tree)
    return model


@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow])
@given(st.data(), designs(), SEEDS, st.integers(1, 60))
def test_every_design_gives_the_tree_of_the_plain_recursion(data, design, seed, n):
    book = data.draw(covered_codebooks(design))
    if len(book.names) < 2:
        book = Codebook((*book.attributes, Attribute("u", ("0", "1"))))
    target = data.draw(st.sampled_from(book.names))
    reports = design.disguise(random_records(book, n, seed), Stream.from_seed(seed))
    check_against_recursion(reports, design, target)


@pytest.mark.parametrize("g", [1, 2, 3])
@pytest.mark.parametrize("theta", [0.2, 0.6, 0.8, 0.9])
def test_multi_group_designs_give_the_tree_of_the_plain_recursion(g, theta):
    names = ["a", "b", "c", "d", "class"]
    book = make_codebook(names, [2] * 5)
    met = 0
    for seed in range(3):
        design = MultiGroup.random(names, g, theta, Stream.from_seed(seed))
        records = random_records(book, 40, seed)
        reports = design.disguise(records, Stream.from_seed(seed))
        met += check_against_recursion(reports, design, "class").floored_
    assert met  # negative counts were met, so that their rules were at work


MIXED = Product(
    [
        RRMatrix(["a", "class"], 0.1 + 0.6 * np.eye(4), [2, 2]),
        KaryResponse("b", 3, 0.7),
        MultiGroup([["d", "e"]], 0.8),
    ]
)


@pytest.mark.parametrize(
    "design",
    [
        MIXED,
        UnrelatedQuestion(["a", "b", "d", "class"], 0.6, [0.3, [0.2, 0.3, 0.5], 0.5, 0.4]),
        MultiGroup([["a", "class"], ["d"]], [0.8, 0.3]),
        Identity(["a", "b", "d", "e", "class"], [2, 3, 2, 2, 2]),
    ],
    ids=["mixed", "unrelated", "groups", "identity"],
)
def test_event_weights_node_by_node_give_the_same_tree(design, monkeypatch):
    """Beyond a number of cells, counts, errors and scores come from event weights."""
    book = make_codebook(["a", "b", "d", "e", "class"], [2, 3, 2, 2, 2])
    reports = design.disguise(random_records(book, 120, 3), Stream.from_seed(4))
    test = design.disguise(random_records(book, 80, 5), Stream.from_seed(6))
    cells = ID3(design, "class").fit(reports)
    error, score = cells.tree_.standard_error, cells.score_disguised(test)
    pruned = cells.prune(test)
    monkeypatch.setattr(signed_cells, "MAX_CELLS", 0)
    assert signed_cells.signed_cells(cells.tree_.evidence) is None or isinstance(design, Identity)
    monkeypatch.setattr(recount, "images", lambda stratum: None)
    monkeypatch.setattr("ppdm_dask.mine.growth.signed_cells", lambda evidence, passes=0: None)
    monkeypatch.setattr(recount, "signed_cells", lambda evidence, passes=0: None)
    events = ID3(design, "class").fit(reports)
    same_tree(events.tree_, cells.tree_, exact=False)
    np.testing.assert_allclose(events.tree_.standard_error, error, rtol=1e-9, atol=1e-9)
    assert events.score_disguised(test).value == pytest.approx(score.value, abs=1e-12)
    again = events.score_disguised(test).standard_error
    assert again == pytest.approx(score.standard_error, abs=1e-12)
    same_tree(events.prune(test).tree_, pruned.tree_, exact=False)


def test_a_domain_too_large_for_cells():
    """Twelve attributes of eight categories, each disguised by itself: 8^12 true patterns."""
    names = [*"abcdefghijk", "class"]
    book = make_codebook(names, [8] * 12)
    design = Product([KaryResponse(name, 8, 0.8) for name in names])
    reports = design.disguise(random_records(book, 300, 20), Stream.from_seed(21))
    model = ID3(design, "class", max_depth=1).fit(reports)
    assert signed_cells.signed_cells(model.tree_.evidence) is None
    root = names[model.tree_.attribute[0]]
    for v, child in enumerate(model.tree_.children(0)):
        for c in range(8):
            expected = estimate(reports, {root: str(v), "class": str(c)}, design=design)
            assert model.tree_.counts[child, c] == pytest.approx(300 * expected.value, abs=1e-9)
            error = model.tree_.standard_error[child, c]
            assert error == pytest.approx(300 * expected.standard_error, abs=1e-9)
    assert math.isfinite(model.score_disguised(reports).value)


# -- the rules, one by one -------------------------------------------------------------------------


def tabled(counts, design=None, target="class", **parameters):
    """A tree on a table with axes a, b, ..., class."""
    counts = np.asarray(counts, dtype=np.int64)
    names = [*"abcdefg"[: counts.ndim - 1], "class"]
    book = make_codebook(names, counts.shape)
    digest = design.digest if design else ""
    table = ContingencyTable(book, counts, None, digest)
    return ID3(design or identity_of(book), target, **parameters).fit_table(table)


def test_a_pure_node_is_a_leaf():
    tree = tabled([[5, 0], [7, 0]]).tree_
    assert len(tree) == 1
    assert tree.label.tolist() == [0]


def test_a_split_without_gain_is_made():
    """Exclusive or: neither attribute gains alone, both together tell the class."""
    exclusive = np.zeros((2, 2, 2), int)
    for a, b in itertools.product(range(2), repeat=2):
        exclusive[a, b, a ^ b] = 10
    model = tabled(exclusive)
    assert model.tree_.gain[0] == pytest.approx(0, abs=1e-12)
    assert model.score(Records(np.argwhere(exclusive), model.tree_.codebook)) == 1.0


def test_ties_go_to_the_attribute_and_the_class_that_come_first():
    twins = np.zeros((2, 2, 2), int)
    twins[0, 0] = [9, 4]
    twins[1, 1] = [2, 8]
    tree = tabled(twins).tree_
    assert tree.codebook.names[tree.attribute[0]] == "a"
    assert tabled([[3, 3], [5, 5]]).tree_.label.tolist() == [0, 0, 0]
    # The order is that of the codebook, the class standing anywhere in it.
    book = make_codebook(["class", "z", "a"], [2, 2, 2])
    codes = np.repeat([[0, 0, 0], [1, 0, 0], [0, 1, 1], [1, 1, 1]], [9, 4, 2, 8], axis=0)
    tree = ID3(identity_of(book), "class").fit(Records(codes, book)).tree_
    assert tree.codebook.names[tree.attribute[0]] == "z"


def test_ties_are_found_through_rounding():
    """An attribute and its copy with the categories in another order gain the same."""
    rng = np.random.default_rng(17)
    for _ in range(100):
        counts = rng.integers(1, 1_000, size=(5, 2))
        copied = np.zeros((5, 5, 2), int)
        copied[np.arange(5), [3, 0, 4, 2, 1]] = counts
        assert tabled(copied, max_depth=1).tree_.attribute[0] == 0
        assert tabled(copied.transpose(1, 0, 2), max_depth=1).tree_.attribute[0] == 0


def test_a_category_without_records_takes_its_parents_majority():
    tree = tabled([[5, 3], [0, 0], [2, 6]]).tree_
    assert tree.label.tolist() == [1, 0, 1, 1]
    assert tree.attribute.tolist() == [0, -1, -1, -1]


def test_a_node_without_a_positive_count_takes_its_parents_majority():
    """Warner's design at .8: w(yes) = (4 yes - no) / 3, w(no) = (4 no - yes) / 3."""
    design = Warner("a", 0.8)
    # Of class 0: 10 no and 2 yes, which estimates 38/3 no and -2/3 yes; of class 1 likewise.
    model = tabled([[10, 12], [2, 3]], design)
    tree = model.tree_
    np.testing.assert_allclose(tree.counts, np.array([[36, 45], [38, 45], [-2, 0]]) / 3)
    assert tree.label.tolist() == [1, 1, 1]
    assert tree.negative.tolist() == [False, False, True]
    assert model.floored_ == 1
    assert model.negative_share_ == 1 / 3
    # Clipped, the leaf has no class; the shares are those of the node above.
    shares = model.predict_proba(Records([[1, 0]], tree.codebook))
    np.testing.assert_allclose(shares, [[36 / 81, 45 / 81]])


def test_one_negative_count_makes_a_leaf_of_the_other_class():
    # Where a is yes: class 0 has (4 * 10 - 1 * 2) / 3, class 1 (4 * 2 - 1 * 10) / 3 = -2/3.
    tree = tabled([[[2], [10]], [[10], [2]]], Warner("b", 0.8), target="b").tree_
    assert tree.depth.max() == 1  # "class" has one category; "a" splits, both children are leaves
    assert tree.negative.tolist() == [False, True, True]
    assert tree.label.tolist() == [0, 1, 0]


def test_exact_counts_know_zero():
    """1 yes and 4 no at theta = .8 are exactly no yes at all; as floats they need not be."""
    tree = tabled([[4, 8], [1, 2]], Warner("a", 0.8)).tree_
    assert tree.counts[2].tolist() == [0.0, 0.0]
    assert not tree.negative.any()
    assert tree.tolerance == 0
    assert tree.label.tolist() == [1, 1, 1]


def test_whole_numbers_that_do_not_fit_fall_back_to_floats():
    book = make_codebook(["a", "b", "class"], [2, 2, 2])
    records = random_records(book, 200, 1)
    for theta in (0.123456789012, 1 / 3):
        design = MultiGroup([["a"], ["b"], ["class"]], theta)
        reports = design.disguise(records, Stream.from_seed(2))
        model = check_against_recursion(reports, design, "class")
        assert model.tree_.tolerance > 0
        assert math.isfinite(model.score_disguised(reports).value)
    design = MultiGroup([["a"], ["b"], ["class"]], 0.51)
    reports = design.disguise(records, Stream.from_seed(2))
    assert check_against_recursion(reports, design, "class").tree_.tolerance == 0


def test_max_depth_and_min_weight():
    book = make_codebook(["a", "b", "c", "class"], [2, 3, 2, 2])
    records = random_records(book, 300, 7)
    whole = ID3(identity_of(book), "class").fit(records).tree_
    for depth in range(4):
        tree = ID3(identity_of(book), "class", max_depth=depth).fit(records).tree_
        kept = np.flatnonzero(whole.depth <= depth)
        np.testing.assert_array_equal(tree.counts, whole.counts[kept])
        assert tree.depth.max() == depth
        assert (tree.attribute[tree.depth == depth] < 0).all()
    design = MultiGroup([["a", "c"], ["class"]], 0.8)
    reports = design.disguise(records, Stream.from_seed(8))
    for least in (5.0, 60.0, 300.0):
        tree = ID3(design, "class", min_weight=least).fit(reports).tree_
        weight = np.maximum(tree.counts, 0).sum(axis=1)
        assert (weight[tree.attribute >= 0] >= least).all()
        full = ID3(design, "class").fit(reports).tree_
        light = np.maximum(full.counts, 0).sum(axis=1) < least
        assert (tree.attribute < 0).sum() > 0
        assert len(tree) <= len(full) - light[full.attribute >= 0].sum()


# -- standard errors and what they support ---------------------------------------------------------


@pytest.mark.parametrize(
    "design",
    [
        MultiGroup([["a", "class"], ["b"]], [0.8, 0.9]),
        UnrelatedQuestion(["a", "b", "class"], 0.5),
        Product([RRMatrix(["a", "class"], 0.1 + 0.6 * np.eye(4), [2, 2]), Warner("b", 0.7)]),
        Identity(["a", "b", "class"], [2, 2, 2]),
    ],
    ids=lambda design: design.id,
)
def test_standard_errors_are_those_of_the_events(design):
    book = make_codebook(["a", "b", "u", "class"], [2, 2, 3, 2])
    reports = design.disguise(random_records(book, 150, 9), Stream.from_seed(10))
    tree = ID3(design, "class").fit(reports).tree_
    assert len(tree) > 10
    for node in range(len(tree)):
        for c, label in enumerate("01"):
            event = {book.names[i]: str(v) for i, v in tree.conditions(node).items()}
            expected = estimate(reports, {**event, "class": label}, design=design)
            assert tree.counts[node, c] == pytest.approx(150 * expected.value, abs=1e-9)
            error = 150 * expected.standard_error
            assert tree.standard_error[node, c] == pytest.approx(error, abs=1e-9)


def test_z_of_an_undisguised_fourfold_table():
    """The contrast n11 - n1. n.1 / n over its error, record by record."""
    counts = np.array([[30, 10], [15, 25]])
    book = make_codebook(["a", "class"], [2, 2])
    codes = np.repeat(np.argwhere(counts > 0), counts.ravel(), axis=0)
    evidence = Evidence.collect([(Records(codes, book), identity_of(book))], "class")
    a, c = codes.T == 0
    terms = (a - a.mean()) * (c - c.mean())
    expected = abs(terms.sum()) / math.sqrt(80 * terms.var(ddof=1))
    assert split_z(evidence, {}, 0, 1) == pytest.approx(expected, rel=1e-9)
    # Half of the p-value for twice as many candidates: a smaller deviate.
    assert 0 < split_z(evidence, {}, 0, 2) < expected
    assert split_z(evidence, {}, 0, 10**9) == 0


def independent(rng, n, book):
    codes = np.stack([rng.random(n) < p for p in (0.4, 0.5, 0.6, 0.3)], axis=1).astype(np.uint8)
    return Records(codes, book)


@pytest.mark.parametrize(
    "design",
    [
        MultiGroup([["a", "class"], ["b", "c"]], 0.8),
        UnrelatedQuestion(["a", "b", "c", "class"], 0.7),
    ],
    ids=lambda design: design.id,
)
def test_min_z_seldom_splits_on_noise(design):
    """Class and attributes independent: splits above z = 2 in 4.6 % of the cases or fewer.

    Bonferroni's bound is not far off for three attributes, so that a split is not impossible.
    """
    book = make_codebook(["a", "b", "c", "class"], [2] * 4)
    rng = np.random.default_rng(11)
    split = 0
    for repeat in range(600):
        reports = design.disguise(independent(rng, 400, book), Stream.from_seed(repeat))
        model = ID3(design, "class", max_depth=1, min_z=2.0).fit(reports)
        split += len(model.tree_) > 1
    # 600 * .0455 = 27 with a standard deviation of 5.
    assert 3 <= split <= 27 + 4 * 5.1
    assert len(ID3(design, "class", max_depth=1).fit(reports).tree_) == 3


def test_min_z_keeps_what_the_data_support():
    book = make_codebook(["a", "b", "c", "class"], [2] * 4)
    rng = np.random.default_rng(12)
    codes = np.array(independent(rng, 4_000, book).codes)
    codes[:, 3] = np.where(rng.random(4_000) < 0.9, codes[:, 0] | codes[:, 1], codes[:, 3])
    design = MultiGroup([["a", "c"], ["b", "class"]], 0.85)
    reports = design.disguise(Records(codes, book), Stream.from_seed(13))
    full = ID3(design, "class").fit(reports).tree_
    tree = ID3(design, "class", min_z=3.0).fit(reports).tree_
    assert len(tree) < len(full)
    assert set(tree.attribute[tree.attribute >= 0].tolist()) == {0, 1}
    same_tree(ID3(design, "class", min_z=0.0).fit(reports).tree_, full)


def test_a_node_without_records_supports_no_split():
    """Whatever the ratios of its counts say, z is at most its size over the size's error."""
    book = make_codebook(["a", "b", "c", "class"], [2] * 4)
    design = MultiGroup([["a", "class"], ["b", "c"]], 0.65)
    binding = negative = 0
    for seed, (a, b) in itertools.product(range(20), itertools.product(range(2), repeat=2)):
        reports = design.disguise(random_records(book, 100, seed), Stream.from_seed(seed))
        evidence = Evidence.collect([(reports, design)], "class")
        size = estimate(reports, {"a": str(a), "b": str(b)}, design=design)
        limit = max(size.value / size.standard_error, 0)
        z = split_z(evidence, {0: a, 1: b}, 2, 1)
        assert 0 <= z <= limit + 1e-9
        binding += z == pytest.approx(limit) and limit > 0
        negative += limit == 0
    assert binding
    assert negative


# -- scoring and predicting ------------------------------------------------------------------------


@settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow])
@given(st.data(), designs(), SEEDS)
def test_the_leaf_form_is_the_sum_over_all_true_records(data, design, seed):
    """On any design; score_disguised of the scoring module enumerates the truth."""
    book = data.draw(covered_codebooks(design))
    if len(book.names) < 2:
        book = Codebook((*book.attributes, Attribute("u", ("0", "1"))))
    target = data.draw(st.sampled_from(book.names))
    column = book.index(target)
    reports = design.disguise(random_records(book, 60, seed), Stream.from_seed(seed))
    model = ID3(design, target).fit(reports.take(np.arange(30)))
    test = reports.take(np.arange(30, 60))

    def correct(codes):
        return model.predict_codes(Records(codes, book)) == codes[:, column]

    expected, got = score_disguised(correct, test, design), model.score_disguised(test)
    assert got.value == pytest.approx(expected.value, rel=1e-12, abs=1e-12)
    assert got.standard_error == pytest.approx(expected.standard_error, rel=1e-9, abs=1e-12)
    assert (got.n, got.estimand) == (30, "population")


def fitted(n=200, seed=14):
    book = make_codebook(["a", "b", "c", "class"], [2, 3, 2, 3], "class")
    design = Product([KaryResponse("b", 3, 0.8), MultiGroup([["a", "c"]], 0.9)])
    records = random_records(book, n, seed)
    reports = design.disguise(records, Stream.from_seed(seed))
    return ID3(design, "class").fit(reports), records, reports


def test_predictions_follow_the_tree():
    model, records, _ = fitted()
    assert model.classes_.tolist() == ["0", "1", "2"]
    assert model.feature_names_in_.tolist() == ["a", "b", "c"]
    assert model.n_reports_ == model.tree_.n_reports == 200
    tree, shares = model.tree_, model.predict_proba(records)
    for row, label, share, leaf in zip(
        records.codes, model.predict(records), shares, model.apply(records), strict=True
    ):
        node = 0
        while tree.attribute[node] >= 0:
            node = tree.children(node)[row[tree.attribute[node]]]
        assert node == leaf
        assert label == model.classes_[tree.label[node]]
        assert share.min() >= 0
        assert math.fsum(share) == pytest.approx(1)
        assert share[tree.label[node]] == pytest.approx(share.max())
    # The order of the columns and the presence of the class do not matter.
    other = records.select(["c", "b", "a"])
    np.testing.assert_array_equal(model.predict(other), model.predict(records))
    hits = (model.predict(records) == records.column("class").astype(str)).sum()
    assert model.count_correct(records.select(["class", "c", "a", "b"])) == hits
    assert model.score(records) == hits / 200


def test_tables_summed_over_partitions_give_the_same_tree():
    model, _, reports = fitted()
    parts = [count(reports.slice(i, i + 50), model.design) for i in range(0, 200, 50)]
    whole = ID3(model.design, "class").fit_table(parts[0] + parts[1] + parts[2] + parts[3])
    same_tree(whole.tree_, model.tree_, exact=False)
    assert whole.n_reports_ == 200


def test_scikit_learn_conventions():
    model, records, reports = fitted()
    assert model.get_params(deep=False) == {
        "design": model.design,
        "target": "class",
        "max_depth": None,
        "min_weight": 0.0,
        "min_z": None,
        "criterion": "information_gain",
        "ccp_alpha": None,
    }
    fresh = clone(model).set_params(max_depth=1)
    for name in ("predict", "predict_proba", "score", "score_disguised", "prune"):
        with pytest.raises(NotFittedError):
            getattr(fresh, name)(records)
    assert fresh.fit(reports).tree_.depth.max() == 1
    assert model.tree_.depth.max() > 1


def test_a_pickled_model_leaves_the_reports_behind():
    model, records, _ = fitted()
    again = pickle.loads(pickle.dumps(model))
    assert again.tree_.evidence is None
    assert model.tree_.evidence is not None
    np.testing.assert_array_equal(again.predict(records), model.predict(records))
    np.testing.assert_array_equal(again.tree_.standard_error, model.tree_.standard_error)
    pruned, other = model.prune(records), again.prune(records)
    same_tree(other.tree_, pruned.tree_)
    np.testing.assert_allclose(other.tree_.standard_error, pruned.tree_.standard_error)


# -- pruning ---------------------------------------------------------------------------------------


def prunings(tree, node=0):
    """All sets of leaves that pruning can leave below a node."""
    yield (node,)
    if tree.attribute[node] >= 0:
        below = [list(prunings(tree, child)) for child in tree.children(node)]
        for choice in itertools.product(*below):
            yield tuple(itertools.chain(*choice))


@pytest.mark.parametrize("disguised", [False, True], ids=["clean", "disguised"])
@pytest.mark.parametrize("seed", range(6))
def test_pruning_finds_the_best_of_all_prunings(seed, disguised):
    book = make_codebook(["a", "b", "c", "class"], [2] * 4)
    rng = np.random.default_rng(seed)
    codes = rng.integers(2, size=(160, 4))
    codes[:, 3] = np.where(rng.random(160) < 0.75, codes[:, 0], codes[:, 3])
    # A noisy design, so that some leaves seem to have fewer than no right answers.
    design = MultiGroup([["a", "b"], ["c", "class"]], [0.9, 0.7])
    records = Records(codes, book)
    reports = design.disguise(records, Stream.from_seed(seed))
    model = ID3(design, "class").fit(reports.take(np.arange(80)))
    validation = (reports if disguised else records).take(np.arange(80, 160))
    before = len(model.tree_)
    pruned = model.prune(validation)
    assert len(model.tree_) == before

    tree = model.tree_
    right = []
    for node in range(before):
        event = {book.names[c]: str(v) for c, v in tree.conditions(node).items()}
        event["class"] = str(tree.label[node])
        used = design if disguised else identity_of(book)
        right.append(math.fsum(event_weights(validation, used, event)))
    totals = {leaves: math.fsum(right[leaf] for leaf in leaves) for leaves in prunings(tree)}
    best = max(totals.values())
    kept = [{tuple(pruned.tree_.conditions(leaf).items()) for leaf in pruned.tree_.leaves}]
    chosen = [
        leaves
        for leaves in totals
        if {tuple(tree.conditions(leaf).items()) for leaf in leaves} in kept
    ]
    assert len(chosen) == 1
    assert totals[chosen[0]] == pytest.approx(best, abs=1e-9)
    # Of the best ones it is the smallest.
    assert len(chosen[0]) == min(len(k) for k, total in totals.items() if total > best - 1e-9)
    score = pruned.score_disguised(validation).value if disguised else pruned.score(validation)
    assert score == pytest.approx(best / 80)


def test_a_pruned_tree_is_whole():
    model, records, reports = fitted()
    pruned = model.prune(random_records(records.codebook, 100, 15))
    tree = pruned.tree_
    assert 1 <= len(tree) < len(model.tree_)
    assert tree.standard_error.shape == tree.counts.shape
    assert tree.gain.shape == tree.label.shape
    assert pruned.floored_ == tree.negative.sum()
    for node in range(1, len(tree)):
        assert node in tree.children(tree.parent[node])
        assert tree.children(tree.parent[node])[tree.category[node]] == node
    by_path = {tuple(model.tree_.conditions(i).items()): i for i in range(len(model.tree_))}
    for node in range(len(tree)):
        old = by_path[tuple(tree.conditions(node).items())]
        np.testing.assert_array_equal(tree.counts[node], model.tree_.counts[old])
        np.testing.assert_allclose(tree.standard_error[node], model.tree_.standard_error[old])
    assert pruned.predict(reports).shape == (200,)


# -- export ----------------------------------------------------------------------------------------


def spelled():
    book = Codebook(
        (
            Attribute("smokes", ("no", "yes")),
            Attribute("age", ("young", "middle", "old")),
            Attribute("ill", ("healthy", "sick")),
        )
    )
    counts = [[[8, 0], [4, 1], [2, 3]], [[3, 3], [1, 6], [0, 9]]]
    table = ContingencyTable(book, np.array(counts))
    return ID3(identity_of(book), "ill").fit_table(table).tree_


def test_the_tree_as_text():
    assert spelled().export_text() == "\n".join(
        [
            "[healthy 18.0, sick 22.0]",
            "|--- smokes = no  [healthy 14.0, sick 4.0]",
            "|   |--- age = young  [healthy 8.0, sick 0.0]  healthy",
            "|   |--- age = middle  [healthy 4.0, sick 1.0]  healthy",
            "|   |--- age = old  [healthy 2.0, sick 3.0]  sick",
            "|--- smokes = yes  [healthy 4.0, sick 18.0]",
            "|   |--- age = young  [healthy 3.0, sick 3.0]  healthy",
            "|   |--- age = middle  [healthy 1.0, sick 6.0]  sick",
            "|   |--- age = old  [healthy 0.0, sick 9.0]  sick",
        ]
    )
    assert spelled().export_text(max_depth=1).splitlines()[1:] == [
        "|--- smokes = no  [healthy 14.0, sick 4.0]  healthy  (and 3 nodes below)",
        "|--- smokes = yes  [healthy 4.0, sick 18.0]  sick  (and 3 nodes below)",
    ]
    with pytest.raises(InputError, match="max_depth: got -1; a whole number of 0 or more"):
        spelled().export_text(max_depth=-1)


def test_the_tree_as_mappings():
    tree = spelled()
    found = json.loads(json.dumps(tree.to_dict(standard_errors=True)))
    assert found["attribute"] == "smokes"
    assert found["counts"] == {"healthy": 18.0, "sick": 22.0}
    entropy = -(18 / 40 * math.log2(18 / 40) + 22 / 40 * math.log2(22 / 40))
    after = [-(p * math.log2(p) + (1 - p) * math.log2(1 - p)) for p in (14 / 18, 18 / 22)]
    assert found["gain"] == pytest.approx(entropy - (18 * after[0] + 22 * after[1]) / 40)
    leaf = found["children"]["yes"]["children"]["old"]
    assert leaf["label"] == "sick"
    assert leaf["counts"] == {"healthy": 0.0, "sick": 9.0}
    assert "children" not in leaf
    # 9 of 40 records: sqrt(n p (1 - p)) with n / (n - 1).
    expected = math.sqrt(40 * 9 / 40 * 31 / 40 * 40 / 39)
    assert leaf["standard_errors"] == {"healthy": None, "sick": pytest.approx(expected)}
    assert "standard_errors" not in tree.to_dict()


@pytest.mark.parametrize("kind", ["png", "svg"])
def test_the_tree_as_a_drawing(tmp_path, kind):
    path = tmp_path / f"tree.{kind}"
    model, _, _ = fitted()
    for depth in (None, 0, 1):
        model.tree_.draw(path, depth)
        assert path.stat().st_size > 3_000
    if kind == "svg":
        spelled().draw(path)
        shown = path.read_text()
        # Text is drawn as paths with the text in a comment.
        for text in ("smokes", "age", "middle", "sick 22.0", "healthy 8.0"):
            assert f"<!-- {text} -->" in shown
        spelled().draw(path, 1)
        shown = path.read_text()
        assert "<!-- (+ 3 nodes) -->" in shown
        assert "<!-- → sick -->" in shown
        assert "middle" not in shown


def test_a_drawing_that_nobody_could_read_is_refused(tmp_path):
    book = make_codebook(["a", "b", "class"], [8, 16, 2])
    model = ID3(identity_of(book), "class").fit(random_records(book, 2_000, 16))
    path = tmp_path / "tree.png"
    says = "max_depth: got 4; 128 branches end there, more than the 100 that can be read"
    with pytest.raises(InputError, match=says):
        model.tree_.draw(path)
    assert not path.exists()


def test_labels_of_a_drawing_are_no_formulas(tmp_path):
    book = Codebook((Attribute("pay", ("$\\frac", "$50K")), Attribute("class", ("$_{", "$}"))))
    table = ContingencyTable(book, np.array([[3, 1], [1, 3]]))
    tree = ID3(identity_of(book), "class").fit_table(table).tree_
    tree.draw(tmp_path / "tree.svg")
    assert "<!-- $\\frac -->" in (tmp_path / "tree.svg").read_text()


# -- one clear line --------------------------------------------------------------------------------


def test_wrong_parameters():
    _, _, reports = fitted()
    design = fitted()[0].design
    for parameters, says in [
        ({"max_depth": -1}, "max_depth: got -1; a whole number of 0 or more, or None"),
        ({"max_depth": 1.5}, "max_depth: got 1.5"),
        ({"max_depth": True}, "max_depth: got True"),
        ({"min_weight": -1}, "min_weight: got -1; a number of 0 or more"),
        ({"min_weight": None}, "min_weight: got None"),
        ({"min_z": "3"}, "min_z: got '3'"),
        ({"min_z": math.inf}, "min_z: got inf"),
    ]:
        with pytest.raises(InputError, match=says):
            ID3(design, "class", **parameters).fit(reports)


def test_wrong_reports():
    model, records, reports = fitted()
    design = model.design
    other = Product([KaryResponse("b", 3, 0.8), MultiGroup([["a", "c"]], 0.8)])
    with pytest.raises(RecordsError, match="made by another design"):
        ID3(other, "class").fit(reports)
    with pytest.raises(RecordsError, match="made by another design"):
        ID3(other, "class").fit_table(count(reports, design))
    with pytest.raises(RecordsError, match="made by another design"):
        model.score_disguised(other.disguise(records, Stream.from_seed(1)))
    with pytest.raises(RecordsError, match="got undisguised records; reports of b made by"):
        ID3(design, "class").fit(records)
    with pytest.raises(RecordsError, match="target: got 'klass'; the attributes are: a, b, c, cl"):
        ID3(design, "klass").fit(reports)
    with pytest.raises(RecordsError, match="target: got 'klass'"):
        ID3(design, "klass").fit_table(count(reports, design))
    with pytest.raises(RecordsError, match="the design covers attribute 'a'; there are only: b"):
        ID3(design, "class").fit(reports.select(["b", "c", "class"]))
    with pytest.raises(RecordsError, match="no records"):
        ID3(design, "class").fit(reports.slice(0, 0))
    with pytest.raises(RecordsError, match="no records"):
        ID3(design, "class").fit_table(count(reports.slice(0, 0), design))
    with pytest.raises(RecordsError, match="got DataFrame; Reports are needed"):
        ID3(design, "class").fit(records.codebook.decode(records))
    with pytest.raises(RecordsError, match="at least one attribute beyond the target"):
        ID3(Identity("class", [3]), "class").fit(records.select(["class"]))


def test_wrong_records_to_predict():
    model, records, _ = fitted()
    with pytest.raises(CodebookError, match="there is no attribute 'c'"):
        model.predict(records.select(["a", "b"]))
    other = make_codebook(["a", "b", "c", "class"], [2, 4, 2, 3])
    with pytest.raises(RecordsError, match="attribute 'b' has other categories"):
        model.predict(random_records(other, 5, 1))
    with pytest.raises(RecordsError, match="X: got list; Records are needed"):
        model.predict([[0, 0, 0]])


def test_a_single_report_has_no_standard_error():
    book = make_codebook(["a", "class"], [2, 2])
    design = MultiGroup([["a"], ["class"]], 0.8)
    model = ID3(design, "class").fit(reports_of([[1, 0]], book, design))
    assert np.isnan(model.tree_.standard_error).all()
    assert math.isnan(model.score_disguised(reports_of([[1, 0]], book, design)).standard_error)
    assert len(ID3(design, "class", min_z=0.1).fit(reports_of([[1, 0]], book, design)).tree_) == 1
