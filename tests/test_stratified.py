"""Records of several owners with different designs in one estimate and one tree."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from strategies import identity_of, make_codebook, random_records, reports_of

from ppdm_dask import (
    ID3,
    Identity,
    InputError,
    KaryResponse,
    MultiGroup,
    NotInvertible,
    Product,
    RRMatrix,
    Stratified,
    Stream,
    UnrelatedQuestion,
    Warner,
    count,
    event_weights,
)
from ppdm_dask.errors import DesignError, RecordsError
from ppdm_dask.inference import estimate

BOOK = make_codebook(["a", "b", "class"], [2, 2, 2])

JOINT = 0.1 + 0.6 * np.eye(4)

DESIGNS = (
    identity_of(BOOK),  # an owner who hides nothing
    MultiGroup([["a", "class"], ["b"]], [0.8, 0.9]),
    Product([RRMatrix(["a", "class"], JOINT, [2, 2]), Warner("b", 0.3)]),
)
SIZES = (70, 120, 40)


def owners(seed=1, designs=DESIGNS, sizes=SIZES):
    """Reports of each owner; the law differs from owner to owner."""
    found = []
    for h, (design, n) in enumerate(zip(designs, sizes, strict=True)):
        records = random_records(BOOK, n, seed + h)
        found.append(design.disguise(records, Stream.from_seed(seed).child(h)))
    return found


# -- estimates -------------------------------------------------------------------------------------


@pytest.mark.parametrize("estimand", ["population", "file"])
def test_weights_of_all_strata_add(estimand):
    """p = sum n_h p_h / n and SE^2 = sum n_h s_h^2 / n^2, from the weights one by one."""
    strata, n = owners(), sum(SIZES)
    both = Stratified(DESIGNS)
    for event in ({"a": "1"}, {"a": "0", "class": "1"}, {"b": "1", "class": "0", "a": "1"}):
        weights = [event_weights(r, d, event) for r, d in zip(strata, DESIGNS, strict=True)]
        got = both.estimate(strata, event, estimand=estimand)
        assert got.value == pytest.approx(math.fsum(np.concatenate(weights)) / n, abs=1e-12)
        if estimand == "population":
            spread = sum(len(w) * w.var(ddof=1) for w in weights)
        else:
            spread = sum((w**2 - w).sum() for w in weights)
        assert got.standard_error == pytest.approx(math.sqrt(spread) / n, rel=1e-9)
        assert (got.n, got.estimand) == (n, estimand)


def test_one_stratum_is_the_plain_estimate():
    (reports,) = owners(designs=DESIGNS[1:2], sizes=[100])
    event = {"a": "1", "b": "0"}
    one = Stratified(DESIGNS[1:2]).estimate([reports], event)
    plain = estimate(reports, event, design=DESIGNS[1])
    assert one.value == plain.value
    assert one.standard_error == pytest.approx(plain.standard_error, rel=1e-12)
    table = Stratified(DESIGNS[1:2]).estimate([reports], ["class", "a"])
    expected = estimate(reports, ["class", "a"], design=DESIGNS[1])
    np.testing.assert_array_equal(table.values, expected.values)
    np.testing.assert_array_equal(table.variance, expected.variance)


@pytest.mark.parametrize("estimand", ["population", "file"])
def test_tables_are_inverted_by_stratum_and_added(estimand):
    strata, both = owners(), Stratified(DESIGNS)
    table = both.estimate(strata, ["class", "b"], estimand=estimand)
    assert table.values.sum() == pytest.approx(1)
    assert table.negative_share == (table.values < 0).mean()
    for c, b in itertools.product(range(2), repeat=2):
        event = {"class": str(c), "b": str(b)}
        expected = both.estimate(strata, event, estimand=estimand)
        assert table.values[c, b] == pytest.approx(expected.value, abs=1e-12)
        variance = expected.standard_error**2
        assert table.variance[c, b] == pytest.approx(variance, rel=1e-9)
    assert table.proportions.dims == ("class", "b")
    assert (table.n, table.estimand) == (sum(SIZES), estimand)


def test_pooling_the_weights_would_overstate_the_error():
    """Strata in which an event always and never holds: nothing varies within them."""
    one = reports_of(np.ones((50, 3), int), BOOK, DESIGNS[0])
    none = reports_of(np.zeros((50, 3), int), BOOK, DESIGNS[0])
    both = Stratified([DESIGNS[0], DESIGNS[0]])
    got = both.estimate([one, none], {"a": "1"}, estimand="file")
    assert (got.value, got.standard_error) == (0.5, 0.0)
    # Of the population they do not say how rare the others are.
    wider = both.estimate([one, none], {"a": "1"})
    assert wider.value == 0.5
    assert math.isnan(wider.standard_error)
    assert "vary too little" in wider.reason
    assert np.diff(wider.interval()) > 0.1


@pytest.mark.slow
def test_standard_errors_cover():
    """1,000 times new records of three owners: the errors have the spread that they claim."""
    both = Stratified(DESIGNS)
    chances = [0.2, 0.6, 0.9]
    truth = sum(n * p for n, p in zip(SIZES, chances, strict=True)) / sum(SIZES)
    rng = np.random.default_rng(2)
    z = []
    for repeat in range(1_000):
        strata = []
        for h, (design, n) in enumerate(zip(DESIGNS, SIZES, strict=True)):
            records = random_records(BOOK, n, 3)
            codes = np.array(records.codes)
            codes[:, 0] = rng.random(n) < chances[h]
            records = type(records)(codes, BOOK)
            strata.append(design.disguise(records, Stream.from_seed(repeat).child(h)))
        got = both.estimate(strata, {"a": "1"})
        z.append((got.value - truth) / got.standard_error)
    assert abs(np.mean(z)) < 4 / math.sqrt(1_000)
    assert abs(np.std(z) - 1) < 4 / math.sqrt(2_000) + 0.01


# -- trees -----------------------------------------------------------------------------------------


def test_undisguised_owners_make_the_tree_of_their_records_together():
    strata = owners(designs=DESIGNS[:1] * 3)
    codes = np.concatenate([reports.codes for reports in strata])
    together = ID3(DESIGNS[0], "class").fit(reports_of(codes, BOOK, DESIGNS[0]))
    model = ID3(Stratified(DESIGNS[:1] * 3), "class").fit(strata)
    assert model.tree_.to_dict() == together.tree_.to_dict()
    assert model.n_reports_ == sum(SIZES)


TWO_FLIPS = (
    MultiGroup([["a", "class"], ["b"]], [0.8, 0.9]),
    MultiGroup([["b", "class"]], 0.35),
    identity_of(BOOK),
)


@pytest.mark.parametrize("designs", [DESIGNS, TWO_FLIPS], ids=["mixed", "flips"])
def test_counts_and_errors_of_nodes_are_those_of_the_strata(designs):
    strata = owners(5, designs)
    both = Stratified(designs)
    model = ID3(both, "class").fit(strata)
    tree = model.tree_
    assert len(tree) > 3
    for node in range(len(tree)):
        for c in range(2):
            event = {BOOK.names[i]: str(v) for i, v in tree.conditions(node).items()}
            expected = both.estimate(strata, {**event, "class": str(c)})
            assert tree.counts[node, c] == pytest.approx(tree.n_reports * expected.value, abs=1e-9)
            error = tree.n_reports * expected.standard_error
            assert tree.standard_error[node, c] == pytest.approx(error, abs=1e-9)
    # Scales of 3 * 8, 6 and 1: whole numbers at 24.
    assert (tree.tolerance == 0) == (designs is TWO_FLIPS)


def test_two_parties_make_one_tree():
    """Section 4.8: B joins A's disguised records to its own, and loses nothing by it."""
    rng = np.random.default_rng(6)
    codes = rng.integers(2, size=(3_000, 3))
    codes[:, 2] = np.where(rng.random(3_000) < 0.9, codes[:, 0] ^ codes[:, 1], codes[:, 2])
    records = type(random_records(BOOK, 1, 0))(codes, BOOK)
    design = MultiGroup([["a", "b"], ["class"]], 0.8)
    theirs = design.disguise(records.slice(0, 1_500), Stream.from_seed(7))
    own = records.slice(1_500, 2_000)
    model = ID3(Stratified([design, identity_of(BOOK)]), "class").fit([theirs, own])
    test = records.slice(2_000, 3_000)
    assert model.score(test) > 0.9
    # Its test records may be mixed too, by leaves over both.
    mixed = [design.disguise(test.take(np.arange(500)), Stream.from_seed(8)), test.slice(500, 1000)]
    score = model.score_disguised(mixed)
    assert abs(score.value - model.score(test)) < 4 * score.standard_error
    parts = [
        ID3(one, "class", max_depth=0).fit(reports)
        for one, reports in zip((design, identity_of(BOOK)), mixed, strict=True)
    ]
    for part in parts:
        part._set_tree(model.tree_)
    scores = [part.score_disguised(reports) for part, reports in zip(parts, mixed, strict=True)]
    assert score.value == pytest.approx(sum(s.value for s in scores) / 2, abs=1e-12)
    error = math.hypot(*(s.standard_error for s in scores)) / 2
    assert score.standard_error == pytest.approx(error, rel=1e-9)
    pruned = model.prune(mixed)
    assert len(pruned.tree_) <= len(model.tree_)


def test_min_z_counts_all_strata():
    strata = owners(9)
    designs = Stratified(DESIGNS)
    assert len(ID3(designs, "class", min_z=3.0).fit(strata).tree_) == 1
    assert len(ID3(designs, "class", min_z=0.0).fit(strata).tree_) > 1


# -- one clear line --------------------------------------------------------------------------------


def test_wrong_strata():
    strata, both = owners(), Stratified(DESIGNS)
    says = "strata: got 2; reports for each of 3 designs are needed"
    with pytest.raises(RecordsError, match=says):
        both.estimate(strata[:2], {"a": "1"})
    with pytest.raises(RecordsError, match="strata: got 1; reports for each of 3 designs"):
        ID3(both, "class").fit(strata[0])
    with pytest.raises(RecordsError, match="made by another design"):
        both.estimate([strata[0], strata[2], strata[1]], {"a": "1"})
    with pytest.raises(RecordsError, match="stratum 2 has no records; leave it out"):
        both.estimate([strata[0], strata[1].slice(0, 0), strata[2]], {"a": "1"})
    with pytest.raises(RecordsError, match="stratum 3 has another codebook than stratum 1"):
        both.estimate([*strata[:2], strata[2].select(["b", "a", "class"])], {"a": "1"})
    with pytest.raises(RecordsError, match="stratum 1: got list; Reports are needed"):
        both.estimate([[1], *strata[1:]], {"a": "1"})
    with pytest.raises(InputError, match="estimand: got 'sample'"):
        both.estimate(strata, {"a": "1"}, estimand="sample")
    with pytest.raises(InputError, match="a table has one design"):
        ID3(both, "class").fit_table(count(strata[1], DESIGNS[1]))


def test_wrong_designs():
    with pytest.raises(DesignError, match="designs: got 'warner'; designs are needed"):
        Stratified(["warner"])
    with pytest.raises(DesignError, match="designs: got none; one a stratum is needed"):
        Stratified([])
    designs = (Warner("a", 0.5), UnrelatedQuestion(["a", "b"], 0.6), KaryResponse("b", 2, 0.7))
    strata = owners(designs=designs)
    with pytest.raises(NotInvertible, match="warner on a is not invertible"):
        Stratified(designs).estimate(strata, {"a": "1"})
    with pytest.raises(NotInvertible, match="warner on a is not invertible"):
        ID3(Stratified(designs), "class").fit(strata)
    assert Stratified(designs) == Stratified(list(designs))
    assert Stratified([Identity("a", [2])]) != Stratified([Identity("b", [2])])
