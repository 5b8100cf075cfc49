"""Owners: clean records beside reports, each with its design, in one estimate and one model."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
from strategies import identity_of, make_codebook, random_records

import ppdm_dask as pp
from ppdm_dask.errors import CodebookError, InputError, RecordsError
from ppdm_dask.inference import precision_weights

BOOK = pp.Codebook(make_codebook(["a", "b", "c", "class"], [2, 3, 2, 2]).attributes, "class")
CROSS = np.full((6, 6), 0.06) + 0.64 * np.eye(6)
ONE = pp.Product([pp.RRMatrix(["a", "b"], CROSS, [2, 3]), pp.Warner("class", 0.8)]).bind(
    BOOK, positions=True
)
TWO = pp.Product([pp.KaryResponse("b", 3, 0.6), pp.MultiGroup([["a", "class"]], 0.3)]).bind(
    BOOK, positions=True
)


def records(n: int, seed: int) -> pp.Records:
    """Records whose class depends on two attributes."""
    rng = np.random.default_rng(seed)
    codes = random_records(BOOK, n, seed).codes.copy()
    codes[:, 3] = np.where(rng.random(n) < 0.8, codes[:, 0] ^ (codes[:, 1] == 2), codes[:, 2])
    return pp.Records(codes, BOOK)


def three(n=(400, 500, 300)):
    return (
        ONE.disguise(records(n[0], 1), pp.Stream.from_seed(1)),
        TWO.disguise(records(n[1], 2), pp.Stream.from_seed(2)),
        records(n[2], 3),
    )


def learners():
    return (
        lambda: pp.NaiveBayes(target="class"),
        lambda: pp.ID3(target="class", max_depth=2),
        lambda: pp.ID3(target="class", max_depth=2, min_z=0.5),
    )


def fitted(model):
    return model.fitted_values()


# -- the sum ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", learners())
def test_owners_who_hide_nothing_are_their_records_together(make):
    whole = records(1_001, 5)
    parts = whole[:49], whole[49:500], whole[500:]
    owned, together = fitted(make().fit(pp.Owners(*parts))), fitted(make().fit(whole))
    # Owners are strata: errors are within them, and differ.
    assert owned.pop("standard_error", 0) != together.pop("standard_error", 1)
    assert owned == together
    score = make().fit(whole).score_disguised(pp.Owners(*parts))
    assert score.value == pytest.approx(make().fit(whole).score(whole), abs=1e-15)


@pytest.mark.parametrize("over", [("a",), ("class", "b"), {"a": "1", "b": ("0", "2")}])
def test_parts_of_one_owner_are_its_reports_together(over):
    whole = ONE.disguise(records(700, 5), pp.Stream.from_seed(4))
    found = pp.estimate(pp.Owners(whole[:101], whole[101:]), over)
    np.testing.assert_array_equal(found.values, pp.estimate(whole, over).values)


@pytest.mark.parametrize("weights", ["sum", "precision", (2.0, 0.5, 1.0)])
@pytest.mark.parametrize("make", learners())
def test_no_digit_depends_on_the_order_of_owners(make, weights):
    models = []
    for order in itertools.permutations(range(3)):
        given = weights if isinstance(weights, str) else [weights[i] for i in order]
        owners = pp.Owners(*(three()[i] for i in order), weights=given)
        model = make().fit(owners)
        models.append((fitted(model), model.score(owners), model.n_reports_))
    assert all(each == models[0] for each in models[1:])
    assert models[0][2] == 1_200


@pytest.mark.parametrize("weights", ["sum", (2.0, 0.25, 1.0)])
def test_evidence_is_the_weighted_mean_of_event_weights(weights):
    """By brute force, from the weight of each report of each owner."""
    parts = three()
    owners = pp.Owners(*parts, weights=weights)
    c = (1.0, 1.0, 1.0) if weights == "sum" else weights
    designs = (ONE, TWO, identity_of(BOOK))

    def mean(event):
        found = [pp.event_weights(r, d, event) for r, d in zip(parts, designs, strict=True)]
        total = sum(x * len(w) for x, w in zip(c, found, strict=True))
        value = sum(x * w.sum() for x, w in zip(c, found, strict=True)) / total
        spread = sum(x**2 * len(w) * w.var(ddof=1) for x, w in zip(c, found, strict=True))
        return value, np.sqrt(spread) / total

    table = pp.estimate(owners, ("b", "class"))
    for b, y in itertools.product(range(3), range(2)):
        value, error = mean({"b": str(b), "class": str(y)})
        assert table.values[b, y] == pytest.approx(value, abs=1e-12)
        assert np.sqrt(table.unbiased[b, y]) == pytest.approx(error, rel=1e-9)
    np.testing.assert_allclose(np.diag(table.covariance), table.unbiased.ravel(), rtol=1e-9)
    tree = pp.ID3(target="class", max_depth=2).fit(owners).tree_
    assert len(tree) > 3
    for node, y in itertools.product(range(len(tree)), range(2)):
        named = {BOOK.names[i]: str(v) for i, v in tree.conditions(node).items()}
        value, error = mean({**named, "class": str(y)})
        assert tree.counts[node, y] == pytest.approx(1_200 * value, abs=1e-8)
        assert tree.standard_error[node, y] == pytest.approx(1_200 * error, rel=1e-6)
    bayes = pp.NaiveBayes(target="class", floor=1e-9).fit(owners)
    for y in range(2):
        shares = np.array([mean({"b": str(b), "class": str(y)})[0] for b in range(3)])
        expected = np.log(shares / shares.sum())
        np.testing.assert_allclose(bayes.feature_log_prob_["b"][:, y], expected, atol=1e-10)


@pytest.mark.parametrize("weights", ["sum", (2.0, 0.25, 1.0)])
def test_scores_and_figures_add_like_evidence(weights):
    parts, model = three(), pp.NaiveBayes(target="class").fit(records(500, 9))
    owners = pp.Owners(*parts, weights=weights)
    c = np.array([1.0, 1.0, 1.0] if weights == "sum" else weights) * [len(one) for one in parts]
    each = [model.score_disguised(pp.Owners(one)) for one in parts]
    found = model.score_disguised(owners)
    assert found.value == pytest.approx(sum(c * [e.value for e in each]) / sum(c), abs=1e-12)
    errors = c * [float(e.standard_error) for e in each] / sum(c)
    assert float(found.standard_error) == pytest.approx(np.sqrt((errors**2).sum()), rel=1e-9)
    figures = pp.evaluate(model, owners)
    assert figures.accuracy.value == pytest.approx(found.value, abs=1e-12)
    assert float(figures.accuracy.standard_error) == pytest.approx(
        float(found.standard_error), rel=1e-9
    )
    tree = pp.ID3(target="class", max_depth=2).fit(owners)
    each = [tree.score(one) for one in parts]
    assert tree.score(owners) == pytest.approx(sum(c * each) / sum(c), abs=1e-12)
    assert pp.evaluate(tree, owners).accuracy.value == pytest.approx(tree.score(owners), abs=1e-9)


def test_rules_of_owners_are_those_of_their_tables():
    parts = three()
    options = {"min_support": 0.1, "min_confidence": 0.5}
    whole = records(900, 5)
    together = pp.association_rules(whole, **options).to_frame()
    apart = pp.association_rules(pp.Owners(whole[:300], whole[300:]), **options).to_frame()
    told = ["antecedent", "consequent", "support", "confidence", "lift"]
    key = ["antecedent", "consequent"]
    one, two = (x[told].sort_values(key, ignore_index=True) for x in (together, apart))
    assert len(one) > 3
    assert one.equals(two)
    owners = pp.Owners(*parts)
    for rule in pp.association_rules(owners, **options):
        event = dict((*rule.antecedent, *rule.consequent))
        found = pp.estimate(owners, event)
        assert rule.support == pytest.approx(found.value, abs=1e-12)
        assert rule.support_error == pytest.approx(float(found.standard_error), rel=1e-9)


# -- unbiased, with the spread that is claimed -----------------------------------------------------


@pytest.mark.parametrize("weights", ["sum", "precision"])
def test_evidence_of_owners_is_unbiased_over_1000_runs(weights):
    """1,000 disguises of the same records: the mean of the estimates is the truth, cell by cell."""
    truth, runs, sizes = records(500, 7), 1_000, (200, 175, 125)
    parts = truth[:200], truth[200:375], truth[375:]
    designs = (ONE, TWO, identity_of(BOOK))
    c = np.ones(3) if weights == "sum" else np.array(precision_weights(designs, BOOK))
    share = c * sizes / (c @ sizes)
    cells = [{"b": str(b), "class": str(y)} for b in range(3) for y in range(2)]
    expected, found = np.zeros(6), np.zeros((runs, 6))
    drawn = []
    for h, (design, part) in enumerate(zip(designs, parts, strict=True)):
        tiled = pp.Records(np.tile(part.codes, (runs, 1)), BOOK)
        drawn.append(design.disguise(tiled, pp.Stream.from_seed(11 + h)))
        for j, cell in enumerate(cells):
            weight = pp.event_weights(drawn[h], design, cell).reshape(runs, -1)
            found[:, j] += share[h] * weight.mean(axis=1)
            holds = (part.column("b") == j // 2) & (part.column("class") == j % 2)
            expected[j] += share[h] * holds.mean()
    z = (found.mean(axis=0) - expected) / (found.std(axis=0, ddof=1) / np.sqrt(runs))
    assert np.abs(z).max() < 4
    claimed = []
    for i in range(0, runs, 20):
        ones = [each[i * m : (i + 1) * m] for each, m in zip(drawn, sizes, strict=True)]
        made = pp.estimate(pp.Owners(*ones, weights=weights), ("b", "class"), estimand="file")
        np.testing.assert_allclose(made.values.ravel(), found[i], atol=1e-12)
        claimed.append(made.unbiased.ravel())
    ratio = np.mean(claimed, axis=0) / found.var(axis=0, ddof=1)
    assert np.abs(ratio - 1).max() < 5 * np.sqrt(2 / runs)


@pytest.mark.parametrize("design", [ONE, TWO, identity_of(BOOK)])
def test_precision_is_one_over_the_variance_at_equal_shares(design):
    """The variances by brute force, over all records and all reports of them."""
    shape = BOOK.shape
    every = np.array(list(itertools.product(*map(range, shape))))
    everyone = pp.Records(every, BOOK)
    P = np.ones((len(every), len(every)))
    covered = [n for block in design.blocks for n in block.attributes]
    for block in design.blocks:
        columns = [BOOK.index(n) for n in block.attributes]
        at = np.ravel_multi_index(every[:, columns].T, [shape[c] for c in columns])
        P *= block.matrix()[np.ix_(at, at)]
    for c in (BOOK.index(n) for n in BOOK.names if n not in covered):
        P *= np.equal.outer(every[:, c], every[:, c])
    law = P.mean(axis=1)
    reports = replace_with(design, everyone)
    total = 0.0
    for name in ("a", "b", "c"):
        for v, y in itertools.product(range(shape[BOOK.index(name)]), range(2)):
            w = pp.event_weights(reports, design, {name: str(v), "class": str(y)})
            total += law @ w**2 - (law @ w) ** 2
    clean = sum(1 - 1 / (2 * shape[BOOK.index(name)]) for name in ("a", "b", "c"))
    found = precision_weights([design, identity_of(BOOK)], BOOK)
    assert found == pytest.approx((clean / total, 1.0), rel=1e-9)


def replace_with(design, everyone):
    reports = design.disguise(everyone, pp.Stream.from_seed(1))
    return replace(reports, codes=everyone.codes)


def test_weights_by_precision_do_better_than_the_sum_and_than_one_owner():
    """Exactly, by the variances of the designs: at equal shares of all answers."""
    weak = pp.MultiGroup([["a", "class"], ["c"]], 0.55).bind(BOOK, positions=True)
    designs, n = [weak, identity_of(BOOK)], np.array([900.0, 100.0])
    v = 1 / np.array(precision_weights(designs, BOOK))
    pooled = (n**2 * v / n).sum() / n.sum() ** 2
    c = 1 / v
    weighted = ((n * c) ** 2 * v / n).sum() / (n * c).sum() ** 2
    assert weighted < v[1] / n[1] < pooled


# -- files -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", learners())
def test_a_model_of_several_owners_is_written_and_read(make, tmp_path):
    owners = pp.Owners(*three(), weights="precision")
    model = make().fit(owners)
    pp.write_model(tmp_path / "m.json", model)
    back = pp.read_model(tmp_path / "m.json")
    test = records(200, 8)
    np.testing.assert_array_equal(back.predict(test), model.predict(test))
    assert back.design_ == model.design_ == owners.design
    assert back.score(owners) == model.score(owners)


# -- one clear line --------------------------------------------------------------------------------


def other_book(**changes):
    attributes = [
        replace(each, **changes) if each.name == "b" else each for each in BOOK.attributes
    ]
    return pp.Codebook(tuple(attributes), "class")


def test_what_is_refused():
    one, two, clean = three()
    with pytest.raises(RecordsError, match="owner 3: has the records of owner 1"):
        pp.Owners(one, two, one)
    with pytest.raises(RecordsError, match="owners: got none"):
        pp.Owners()
    with pytest.raises(RecordsError, match="owner 2: got list; Reports or Records"):
        pp.Owners(one, [1])
    with pytest.raises(RecordsError, match="owner 1: design: got none"):
        pp.Owners(replace(one, design=None), clean)
    with pytest.raises(CodebookError, match=r"owner 2: .* attribute 'b': categories is .*'x'"):
        pp.Owners(one, pp.Records(clean.codes, other_book(categories=("0", "1", "x"))))
    with pytest.raises(CodebookError, match="attribute 'c' is owner 1's, and owner 2 lacks it"):
        pp.Owners(one, clean.select(["a", "b", "class"]))
    with pytest.raises(RecordsError, match="undisguised records"):
        pp.ID3(target="class").fit(pp.Owners(one, (clean, TWO)))
    with pytest.raises(RecordsError, match="made by another design"):
        pp.NaiveBayes(target="class").fit(pp.Owners((one, TWO)))
    with pytest.raises(InputError, match="design: the owners carry theirs"):
        pp.NaiveBayes(ONE, target="class").fit(pp.Owners(one, clean))
    with pytest.raises(InputError, match="design: the owners carry theirs"):
        pp.estimate(pp.Owners(one, clean), ["a"], design=ONE)
    with pytest.raises(InputError, match="weights: got 'best'; 'sum', 'precision'"):
        pp.Owners(one, clean, weights="best")
    for wrong in ([1.0], [1.0, 0.0], [1.0, -1.0]):
        with pytest.raises(InputError, match="weights: "):
            pp.Owners(one, clean, weights=wrong)


def test_the_order_of_attributes_is_that_of_the_first():
    one, _, clean = three()
    turned = clean.select(["class", "c", "b", "a"])
    found = pp.estimate(pp.Owners(one, turned), ["b", "class"])
    np.testing.assert_array_equal(
        found.values, pp.estimate(pp.Owners(one, clean), ["b", "class"]).values
    )
