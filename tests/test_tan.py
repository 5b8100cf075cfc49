"""Tree-augmented naive Bayes: its tree by all trees, its law by the textbook's."""

from __future__ import annotations

import json
from itertools import combinations, pairwise, product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse.csgraph import minimum_spanning_tree

import ppdm_dask as pp
from ppdm_dask.cli import main
from ppdm_dask.designs.files import write_design
from ppdm_dask.designs.subset import SubsetSelection
from ppdm_dask.errors import RecordsError
from ppdm_dask.mine.tan import conditional_information, maximum_tree

Floats = Any

SHAPE = (2, 3, 2, 4, 2)
NAMES = ("c", "w", "x", "y", "z")
BOOK = pp.Codebook(
    tuple(
        pp.Attribute(n, tuple(f"{n}{i}" for i in range(k)))
        for n, k in zip(NAMES, SHAPE, strict=True)
    ),
    target="c",
)
TREE = {"w": None, "x": "w", "y": "w", "z": "y"}
"""The parent beside the class of each attribute."""


def network() -> dict[str, Floats]:
    """Laws of a network of that tree: (class,), (class, own), or (class, parent, own)."""
    rng, sizes = np.random.default_rng(5), dict(zip(NAMES, SHAPE, strict=True))
    laws: dict[str, Floats] = {"c": np.array([0.45, 0.55])}
    for name, above in TREE.items():
        outer = (2,) if above is None else (2, sizes[above])
        laws[name] = rng.dirichlet(np.full(sizes[name], 1.5), outer) * 0.8 + 0.2 / sizes[name]
    return laws


def joint_law() -> Floats:
    """The law of all five attributes under the network, by multiplication cell by cell."""
    laws, law = network(), np.empty(SHAPE)
    for cell in product(*map(range, SHAPE)):
        at = dict(zip(NAMES, cell, strict=True))
        p = laws["c"][at["c"]]
        for name, above in TREE.items():
            place = (at["c"], at[name]) if above is None else (at["c"], at[above], at[name])
            p *= laws[name][place]
        law[cell] = p
    return law


def drawn(n: int, seed: int) -> pp.Records:
    law = joint_law()
    cells = np.random.default_rng(seed).choice(law.size, n, p=law.ravel())
    codes = np.stack(np.unravel_index(cells, SHAPE), axis=1).astype(np.uint8)
    return pp.Records(codes, BOOK)


def answers(records: pp.Records) -> pd.DataFrame:
    """The labels of records."""
    columns = zip(BOOK.attributes, records.codes.T, strict=True)
    return pd.DataFrame({a.name: np.array(a.categories)[codes] for a, codes in columns})


def matrices() -> pp.Design:
    """A general matrix for each attribute."""
    rng, blocks = np.random.default_rng(3), []
    for name, k in zip(NAMES, SHAPE, strict=True):
        P = 0.75 * np.eye(k) + 0.25 * rng.dirichlet(np.ones(k), k).T
        blocks.append(pp.RRMatrix(name, P, categories=[BOOK[name].categories]))
    return pp.Product(blocks)


def law_of(model: pp.TAN) -> Floats:
    """The joint law that a fitted model states, class first."""
    cells = np.array(list(product(*map(range, SHAPE[1:]))))
    scores = model._scores(cells, [0, 1, 2, 3])
    return np.exp(scores).T.reshape(SHAPE)


# -- the tree --------------------------------------------------------------------------------------


def trees(n: int) -> list[list[tuple[int, int]]]:
    """All spanning trees of n points, by their Pruefer codes."""
    found = []
    for code in product(range(n), repeat=n - 2):
        degree = [1 + code.count(i) for i in range(n)]
        edges = []
        for i in code:
            leaf = degree.index(1)
            edges.append((min(leaf, i), max(leaf, i)))
            degree[leaf] -= 1
            degree[i] -= 1
        last = [i for i in range(n) if degree[i] == 1]
        found.append([*edges, (last[0], last[1])])
    return found


ALL = trees(5)


def symmetric(values: list[float], n: int) -> Floats:
    information = np.zeros((n, n))
    information[np.triu_indices(n, 1)] = values
    return information + information.T


@settings(max_examples=40)
@given(st.lists(st.sampled_from([0.0, 0.1, 0.2, 0.25, 0.5, 0.7]), min_size=10, max_size=10))
def test_no_tree_of_five_attributes_has_more_information(values: list[float]) -> None:
    assert len({tuple(sorted(tree)) for tree in ALL}) == 5**3
    information = symmetric(values, 5)
    best = max(sum(information[edge] for edge in tree) for tree in ALL)
    found = maximum_tree(information)
    assert sorted(found) in [sorted(tree) for tree in ALL]
    assert sum(information[edge] for edge in found) == pytest.approx(best, abs=1e-9)
    gains = [information[edge] for edge in found]
    assert all(a >= b for a, b in pairwise(gains))


def test_larger_trees_weigh_what_scipys_do() -> None:
    rng = np.random.default_rng(1)
    for _ in range(5):
        information = symmetric(rng.random(66).tolist(), 12)
        theirs = -minimum_spanning_tree(-information).sum()
        assert sum(information[edge] for edge in maximum_tree(information)) == pytest.approx(theirs)


def test_ties_go_to_the_pair_that_comes_first() -> None:
    equal = symmetric([0.2] * 10, 5)
    assert maximum_tree(equal) == [(0, 1), (0, 2), (0, 3), (0, 4)]
    equal[3, 4] = equal[4, 3] = 0.2 + 1e-12
    assert maximum_tree(equal) == [(0, 1), (0, 2), (0, 3), (0, 4)]
    equal[3, 4] = equal[4, 3] = 0.2 + 1e-8
    assert maximum_tree(equal) == [(3, 4), (0, 1), (0, 2), (0, 3)]


def test_information_is_the_textbooks_sum() -> None:
    joint = np.random.default_rng(2).dirichlet(np.ones(24)).reshape(2, 3, 4)
    expected = 0.0
    for c, a, b in product(range(2), range(3), range(4)):
        both = joint[c, a, b] / joint[c].sum()
        apart = joint[c, a].sum() / joint[c].sum() * joint[c, :, b].sum() / joint[c].sum()
        expected += joint[c, a, b] * np.log(both / apart)
    assert conditional_information(joint) == pytest.approx(expected, rel=1e-12)
    # Attributes that are independent in each class; estimates below 0 count as none.
    apart = np.einsum("c,ca,cb->cab", [0.3, 0.7], [[0.2, 0.8]] * 2, [[0.5, 0.5]] * 2)
    assert conditional_information(apart) == pytest.approx(0, abs=1e-15)
    lower, none = joint.copy(), joint.copy()
    lower[0, 0, 0], none[0, 0, 0] = -0.01, 0
    assert conditional_information(lower) == conditional_information(none) > 0


# -- undisguised: the textbook's -------------------------------------------------------------------


def textbook(codes: Floats, root: int) -> tuple[set[tuple[int, int]], Any]:
    """Edges, and P(class, record) from a root, of counts and nothing else."""
    n, m = len(codes), codes.shape[1] - 1

    def share(**fixed: int) -> float:
        inside = np.ones(n, bool)
        for column, value in fixed.items():
            inside &= codes[:, int(column[1:])] == value
        return float(inside.mean())

    information = np.zeros((m, m))
    for i, j in combinations(range(1, m + 1), 2):
        for c, a, b in product(*(range(SHAPE[k]) for k in (0, i, j))):
            p = share(_0=c, **{f"_{i}": a, f"_{j}": b})
            one, two = share(_0=c, **{f"_{i}": a}), share(_0=c, **{f"_{j}": b})
            information[i - 1, j - 1] += p * np.log(p * share(_0=c) / one / two)
    kept = minimum_spanning_tree(-information).nonzero()
    edges = {(int(i) + 1, int(j) + 1) for i, j in zip(*kept, strict=True)}
    parent: dict[int, int | None] = {root: None}
    while len(parent) < m:
        for i, j in edges:
            for above, below in ((i, j), (j, i)):
                if above in parent and below not in parent:
                    parent[below] = above

    def law(cell: tuple[int, ...]) -> float:
        p = share(_0=cell[0])
        for k, above in parent.items():
            given_ = {"_0": cell[0]} | ({} if above is None else {f"_{above}": cell[above]})
            p *= share(**given_, **{f"_{k}": cell[k]}) / share(**given_)
        return p

    return edges, law


def test_undisguised_records_give_the_textbooks_network() -> None:
    records = drawn(4_000, 1)
    model = pp.TAN().fit(records)
    assert model.floored_ == 0
    for root in (1, 4):
        edges, law = textbook(records.codes, root)
        assert {(NAMES[i], NAMES[j]) for i, j in edges} == set(model.edges_)
        found = law_of(model)
        for cell in [(0, 0, 0, 0, 0), (1, 2, 1, 3, 1), (1, 0, 1, 2, 0), (0, 1, 1, 1, 1)]:
            assert found[cell] == pytest.approx(law(cell), rel=1e-12)
    # The posterior is that law, given the record.
    table = found / found.sum(axis=0)
    x = records.codes[:50, 1:].T
    np.testing.assert_allclose(model.predict_proba(records[:50]), table[:, *x].T, rtol=1e-12)
    assert model.predict_codes(records[:50]).tolist() == table[:, *x].argmax(axis=0).tolist()


def test_a_pair_that_says_the_class_together() -> None:
    rng = np.random.default_rng(0)
    x = rng.integers(0, 2, (6_000, 3))
    frame = pd.DataFrame({"a": x[:, 0], "b": x[:, 1], "d": x[:, 2]})
    y = x[:, 0] ^ x[:, 1]
    assert pp.NaiveBayes().fit(frame, y).score(frame, y) < 0.55
    model = pp.TAN().fit(frame, y)
    assert model.edges_[0] == ("a", "b")
    assert model.score(frame, y) == 1
    book = pp.Codebook(tuple(pp.Attribute(n, ("0", "1")) for n in "abdy"), target="y")
    records = pp.Records(np.column_stack([x, y]).astype(np.uint8), book)
    design = pp.Product([pp.Warner(name, 0.85) for name in "abdy"])
    reports = design.disguise(records, pp.Stream.from_seed(1))
    model = pp.TAN(design, "y").fit(reports)
    assert model.score(records) == 1
    score = model.score_disguised(design.disguise(records, pp.Stream.from_seed(2)))
    assert abs(score.value - 1) < 4 * score.standard_error


# -- from reports ----------------------------------------------------------------------------------


def exact_tables(design: pp.Design) -> list[pp.ContingencyTable]:
    """Tables whose shares are what reports are expected to be, to 2**-50."""
    law, tables = joint_law(), []
    for names in (("c", *pair) for pair in combinations(NAMES[1:], 2)):
        kept = [NAMES.index(n) for n in names]
        margin = law.sum(axis=tuple(i for i in range(5) if i not in kept))
        for axis, name in enumerate(names):
            P = next(b for b in design.blocks if b.attributes == (name,)).matrix()
            margin = np.moveaxis(np.tensordot(P, margin, (1, axis)), 0, axis)
        counts = np.rint(margin * 2.0**50).astype(np.int64)
        tables.append(pp.ContingencyTable(BOOK.select(names), counts, None, design.digest))
    return tables


def test_the_expected_reports_of_a_network_give_it_back() -> None:
    design = matrices()
    tables = exact_tables(design)
    n = min(table.n for table in tables)
    model = pp.TAN(design, "c").fit_tables(tables)
    assert set(model.edges_) == {("w", "x"), ("w", "y"), ("y", "z")}
    np.testing.assert_allclose(law_of(model), joint_law(), atol=1e-10)
    assert n == pytest.approx(2**50, rel=1e-9)
    assert model.features_ == NAMES[1:]


def test_the_law_is_one_and_the_same_from_every_root() -> None:
    design = matrices()
    records = drawn(80, 2)
    model = pp.TAN(design, "c").fit(design.disguise(records, pp.Stream.from_seed(1)))
    # So few reports that estimates are negative and raised.
    assert model.floored_ > 5
    assert model.negative_share_ > 0
    law = law_of(model)
    assert law.sum() == pytest.approx(1, abs=1e-11)
    np.testing.assert_allclose(law.sum(axis=(1, 2, 3, 4)), np.exp(model.class_log_prior_))
    for k, name in enumerate(NAMES[1:], 1):
        inside = law.sum(axis=tuple(i for i in range(1, 5) if i != k)).T
        own = np.exp(model.feature_log_prob_[name] + model.class_log_prior_)
        np.testing.assert_allclose(inside, own, rtol=1e-9)
    for root in NAMES[1:]:
        parents, directed = model.parents(root), np.ones(SHAPE)
        assert [n for n, above in parents.items() if above is None] == [root]
        assert {tuple(sorted(pair)) for pair in parents.items() if pair[1]} == set(model.edges_)
        for cell in product(*map(range, SHAPE)):
            at = dict(zip(NAMES, cell, strict=True))
            p = np.exp(model.class_log_prior_[at["c"]])
            for name, above in parents.items():
                if above is None:
                    p *= np.exp(model.feature_log_prob_[name][at[name], at["c"]])
                    continue
                pair = (name, above) if (name, above) in model.edge_log_prob_ else (above, name)
                both = np.exp(model.edge_log_prob_[pair])
                axis = pair.index(name)
                p *= both[at[pair[0]], at[pair[1]], at["c"]]
                p /= both.sum(axis=axis)[at[above], at["c"]]
            directed[cell] = p
        np.testing.assert_allclose(directed, law, rtol=1e-8)
    with pytest.raises(pp.InputError, match="root: got 'c'; one of the features"):
        model.parents("c")


def test_one_attribute_is_naive_bayes() -> None:
    design = matrices()
    reports = design.disguise(drawn(500, 3), pp.Stream.from_seed(1)).select(["c", "y"])
    tree, naive = (kind(design, "c").fit(reports) for kind in (pp.TAN, pp.NaiveBayes))
    assert (tree.edges_, tree.floored_) == ((), naive.floored_)
    np.testing.assert_array_equal(tree.predict_proba(reports), naive.predict_proba(reports))


@pytest.mark.parametrize("kind", [pp.TAN, pp.NaiveBayes])
def test_partitions_tables_and_files_give_the_same(kind: Any, tmp_path: Path) -> None:
    dd = pytest.importorskip("dask.dataframe")
    records, design = drawn(3_000, 4), matrices().bind(BOOK)
    reports = design.disguise(records, pp.Stream.from_seed(1))
    expected = kind(design, "c").fit(reports)
    lazy = design.disguise(
        dd.from_pandas(answers(records), npartitions=3), stream=pp.Stream.from_seed(1)
    )
    margins = expected._margins(list(NAMES[1:]))
    tables = [pp.count(reports[:900], design, m) for m in margins]
    tables = [t + pp.count(reports[900:], design, m) for t, m in zip(tables, margins, strict=True)]
    lazy.to_parquet(tmp_path / "parts")
    found = [
        kind(target="c").fit(lazy),
        kind(design, "c").fit_tables(tables),
        kind(target="c").fit(str(tmp_path / "parts")),
        kind(pp.Stratified([design, design]), "c").fit([reports[:900], reports[900:]]),
        kind(design, "c").fit(reports, sample_weight=np.full(len(reports), 2.0)),
    ]
    for model in found:
        np.testing.assert_allclose(
            model.predict_proba(records[:200]), expected.predict_proba(records[:200]), rtol=1e-8
        )
        assert model.n_reports_ == 3_000
    assert found[0].floored_ == expected.floored_
    with pytest.raises(RecordsError, match="sample_weight: takes Records or Reports in memory"):
        kind(target="c").fit(lazy, sample_weight=[1.0])


def test_a_tree_grows_from_lazy_reports_too() -> None:
    dd = pytest.importorskip("dask.dataframe")
    records, design = drawn(1_000, 4), matrices().bind(BOOK)
    stream = pp.Stream.from_seed(1)
    lazy = design.disguise(dd.from_pandas(answers(records), npartitions=2), stream=stream)
    expected = pp.ID3(design, "c", max_depth=2).fit(design.disguise(records, stream))
    assert pp.ID3(target="c", max_depth=2).fit(lazy).tree_.export_text() == (
        expected.tree_.export_text()
    )


def test_sets_are_learned_by_their_weights() -> None:
    records = drawn(4_000, 5)
    subset = SubsetSelection("y", 4, epsilon=3.0)
    design = pp.Product([subset, pp.Warner("z", 0.9)])
    model = pp.TAN(design, "c").fit(design.disguise(records, pp.Stream.from_seed(1)))
    assert ("y", "z") in model.edges_
    assert np.abs(law_of(model) - joint_law()).sum() < 0.25


def test_the_score_of_reports_is_the_sum_over_all_truths() -> None:
    design, records = matrices(), drawn(400, 6)
    model = pp.TAN(design, "c").fit(design.disguise(drawn(400, 7), pp.Stream.from_seed(1)))
    reports = design.disguise(records, pp.Stream.from_seed(2))
    best = law_of(model).argmax(axis=0)
    right = np.stack([best == c for c in range(2)]).astype(float)
    for axis, block in enumerate(design.blocks):
        B = np.linalg.inv(block.matrix())
        right = np.moveaxis(np.tensordot(B.T, right, (1, axis)), 0, axis)
    weights = right[tuple(reports.codes.T)]
    assert model.score(reports) == pytest.approx(weights.mean(), abs=1e-12)
    assert (
        model.score(records) == (best[tuple(records.codes[:, 1:].T)] == records.codes[:, 0]).mean()
    )


# -- files and commands ----------------------------------------------------------------------------


def test_the_command_does_what_python_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    design, records = matrices(), drawn(2_000, 8)
    answers(records).to_csv("a.csv", index=False)
    BOOK.to_toml("c.toml")
    write_design(design, Path("d.toml"))
    both = ["--codebook", "c.toml", "--design", "d.toml"]
    assert main(["disguise", "a.csv", *both, "--simulate", "1", "--out", "r.parquet"]) == 0
    capsys.readouterr()
    made = ["--out", "m.json", "--picture", "m.svg", "--folds", "2"]
    assert main(["mine", "tan", "r.parquet", *both, *made, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    model = pp.TAN(design, "c").fit(design.disguise(records, pp.Stream.from_seed(1)))
    assert [tuple(pair) for pair in told["edges"]] == [*model.edges_]
    assert Path("m.svg").read_text().startswith("<?xml")
    assert main(["predict", "m.json", "a.csv", "--codebook", "c.toml", "--out", "p.csv"]) == 0
    assert pd.read_csv("p.csv")["predicted"].tolist() == model.predict(records).tolist()
    assert main(["mine", "tan", "r.parquet", *both, "--out", "n.json", "--folds", "0"]) == 0
    assert " - ".join(model.edges_[0]) in capsys.readouterr().out
    read = pp.read_model("m.json")
    np.testing.assert_array_equal(law_of(read), law_of(model))
    assert (read.edges_, read.parents()) == (model.edges_, model.parents())
    np.testing.assert_array_equal(read.information_, model.information_)
    fitted = model.fitted_values()
    for edges, words in (
        (fitted["edges"][:-1], "a tree over all features"),
        ([*fitted["edges"][:-1], fitted["edges"][0]], "a tree over all features"),
        ([fitted["edges"][0] | {"attributes": ["w", "z"]}], "other categories"),
    ):
        with pytest.raises(pp.InputError, match=words):
            read.restore(fitted | {"edges": edges})


# -- consistency -----------------------------------------------------------------------------------


def flips() -> tuple[pp.Codebook, pp.Design]:
    names = ("c", "w", "x", "y", "z")
    book = pp.Codebook(tuple(pp.Attribute(n, ("0", "1")) for n in names), target="c")
    return book, pp.MultiGroup([["c", "w", "x"], ["y", "z"]], theta=0.85)


@pytest.mark.slow
@pytest.mark.parametrize("how", ["flips", "matrices"])
def test_the_error_shrinks_as_the_root_of_the_reports(how: str) -> None:
    law = joint_law()
    if how == "flips":
        book, design = flips()
        # The network of the first two categories of each attribute.
        law = law[:2, :2, :2, :2, :2]
        law = _treelike(law / law.sum())
    else:
        book, design = BOOK, matrices()
    sizes, repeats = np.array([4_000, 16_000, 64_000, 256_000]), 12
    errors = np.zeros((len(sizes), repeats))
    for i, n in enumerate(sizes.tolist()):
        for r in range(repeats):
            rng = np.random.default_rng([i, r])
            cells = rng.choice(law.size, n, p=law.ravel())
            codes = np.stack(np.unravel_index(cells, law.shape), axis=1).astype(np.uint8)
            reports = design.disguise(pp.Records(codes, book), pp.Stream.from_seed(100 * i + r))
            model = pp.TAN(design, "c").fit(reports)
            rows = np.array(list(product(*map(range, law.shape[1:]))))
            found = np.exp(model._scores(rows, [0, 1, 2, 3])).T.reshape(law.shape)
            errors[i, r] = np.sqrt(((found - law) ** 2).sum())
    logs = np.log(errors)
    x = np.log(sizes) - np.log(sizes).mean()
    slope = float(x @ logs.mean(axis=1) / (x @ x))
    # The spread of log errors within sizes is what the slope may be off by.
    spread = np.sqrt(logs.var(axis=1, ddof=1).mean() / repeats / (x @ x))
    assert abs(slope + 0.5) < 4 * spread + 0.03
    assert errors[-1].mean() < 0.02


def _treelike(law: Floats) -> Floats:
    """The law with the margins of the tree's pairs, and no other dependence."""
    p = law.sum(axis=(2, 3, 4))  # (c, w)
    x = law.sum(axis=(3, 4)) / p[:, :, None]
    y = law.sum(axis=(2, 4)) / p[:, :, None]
    yz = law.sum(axis=(1, 2))
    z = yz / yz.sum(axis=2, keepdims=True)
    return np.einsum("cw,cwx,cwy,cyz->cwxyz", p, x, y, z)
