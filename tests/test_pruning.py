"""Trees by gain ratio, and pruned trees, against plain statements over records and all subtrees."""

from __future__ import annotations

import itertools
import json
import math
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.model_selection import GridSearchCV
from sklearn.tree import DecisionTreeClassifier
from strategies import identity_of, make_codebook, random_records

import ppdm_dask as pp
from ppdm_dask.cli import main
from ppdm_dask.designs.files import write_design
from ppdm_dask.errors import RecordsError
from ppdm_dask.inference.stratified import Stratified
from ppdm_dask.mine.growth import gain_ratio, split_z

NAMES = ["a", "b", "c", "class"]
GROUPS = pp.MultiGroup([["a", "b"], ["c", "class"]], [0.9, 0.7])
DENSE = pp.Product([pp.KaryResponse(name, 2, 0.85) for name in NAMES])
NONE = pp.Identity(NAMES, [2] * 4)
DESIGNS = pytest.mark.parametrize("design", [NONE, GROUPS, DENSE], ids=["none", "groups", "dense"])


def records_of(seed: int, n: int = 160) -> pp.Records:
    """Three attributes, of which the first says most about the class."""
    rng = np.random.default_rng(seed)
    codes = rng.integers(2, size=(n, 4))
    codes[:, 3] = np.where(rng.random(n) < 0.5, codes[:, 0], codes[:, 3])
    codes[:, 3] = np.where(rng.random(n) < 0.3, codes[:, 1] & codes[:, 2], codes[:, 3])
    return pp.Records(codes, make_codebook(NAMES, [2] * 4))


def reports_of(design: pp.Design, seed: int, n: int = 160) -> pp.Reports:
    return design.disguise(records_of(seed, n), pp.Stream.from_seed(seed))


# -- gain ratio ------------------------------------------------------------------------------------


def entropy(counts: Any) -> float:
    total = sum(counts)
    return -sum(c / total * math.log2(c / total) for c in counts if c)


def grow_by_ratio(rows: list[tuple[int, ...]], free: list[int], path: tuple[Any, ...]) -> Any:
    """(path, split) of all nodes: Quinlan's rule, record by record; the class is the last value."""
    classes = Counter(row[-1] for row in rows)
    if len(classes) < 2 or not free:
        yield path, None
        return
    gains, ratios = {}, {}
    for column in free:
        parts = [
            [row[-1] for row in rows if row[column] == v] for v in {row[column] for row in rows}
        ]
        sizes = [len(part) for part in parts]
        inside = sum(len(part) * entropy(Counter(part).values()) for part in parts) / len(rows)
        gains[column] = entropy(classes.values()) - inside
        ratios[column] = gains[column] / entropy(sizes) if len(sizes) > 1 else 0.0
    enough = sum(gains.values()) / len(gains) - 1e-10
    best = max(ratios[c] for c in free if gains[c] >= enough)
    split = next(c for c in free if gains[c] >= enough and ratios[c] >= best - 1e-10)
    yield path, split
    for v in range(SHAPE[split]):
        below = [row for row in rows if row[split] == v]
        yield from grow_by_ratio(below, [c for c in free if c != split], (*path, (split, v)))


SHAPE = (2, 9, 3, 5, 2)


@pytest.mark.parametrize("seed", range(12))
def test_undisguised_trees_by_gain_ratio_are_those_of_the_plain_rule(seed: int) -> None:
    rng = np.random.default_rng(seed)
    book = make_codebook([*"abcd", "class"], SHAPE)
    codes = np.stack([rng.integers(k, size=120) for k in SHAPE], axis=1)
    codes[:, 2] = np.where(rng.random(120) < 0.9, 0, codes[:, 2])
    codes[:, 4] = np.where(rng.random(120) < 0.6, codes[:, 0] ^ (codes[:, 3] > 2), codes[:, 4])
    tree = pp.ID3(target="class", criterion="gain_ratio").fit(pp.Records(codes, book)).tree_
    found = {
        tuple(tree.conditions(node).items()): tree.attribute[node] for node in range(len(tree))
    }
    expected = dict(grow_by_ratio([tuple(map(int, row)) for row in codes], [0, 1, 2, 3], ()))
    assert found == {path: -1 if split is None else split for path, split in expected.items()}


def test_the_gain_ratio_of_signed_counts_by_hand() -> None:
    gain = np.array([[0.2, 0.1, -np.inf, 0.15, 0.3], [-0.2, -0.1, -np.inf, -0.3, 0.2]])
    split = np.array([[1.0, 0.1, 0.5, 0.0, 2.0], [1.0, 0.1, 0.5, 0.5, 0.0]])
    # Means .1875 and -.1: the second gains too little, and a single category has ratio 0.
    expected = [[0.2, -np.inf, -np.inf, -np.inf, 0.15], [-np.inf, -1.0, -np.inf, -np.inf, 0.0]]
    np.testing.assert_allclose(gain_ratio(gain, split), expected)


def test_undisguised_records_need_no_weights_to_be_tested(monkeypatch: pytest.MonkeyPatch) -> None:
    """Counts of 0s and 1s give the z of the reports' weights."""
    reports = pp.Records(records_of(4, 600).codes, make_codebook(NAMES, [2] * 4))
    fast = pp.ID3(target="class", min_z=2.0).fit(reports).tree_
    monkeypatch.setattr("ppdm_dask.mine.growth._undisguised", lambda evidence: False)
    slow = pp.ID3(target="class", min_z=2.0).fit(reports).tree_
    np.testing.assert_array_equal(fast.attribute, slow.attribute)
    assert 1 < len(fast) < 15
    evidence = fast.evidence
    for column in range(3):
        counts = np.zeros((2, 2))
        np.add.at(counts, (reports.codes[:, column], reports.codes[:, 3]), 1)
        z = split_z(evidence, {}, column, 3, clean=counts)
        assert z == pytest.approx(split_z(evidence, {}, column, 3), rel=1e-9)


def test_tables_of_a_hundred_columns_are_fitted_scored_and_pruned() -> None:
    """Their categories have more combinations than a number of 64 bits."""
    X = np.random.default_rng(1).integers(2, size=(400, 100))
    y = X[:, 70] ^ (X[:, 3] & X[:, 4])
    model = pp.ID3(max_depth=3).fit(X, y)
    assert model.tree_.attribute[0] == 70
    peer = DecisionTreeClassifier(criterion="entropy", max_depth=3, random_state=0).fit(X, y)
    assert model.score(X, y) == peer.score(X, y)
    book = make_codebook([f"a{i}" for i in range(100)], [2] * 100, target="a70")
    records = pp.Records(X, book)
    assert len(pp.ID3(max_depth=2).fit(records).prune(records).tree_) <= 7


@pytest.mark.parametrize("criterion", ["information_gain", "gain_ratio"])
def test_a_root_whose_weights_sum_to_one_each_is_split(criterion: str) -> None:
    """Its size has no error; what rounding leaves of the variance has either sign."""
    shape = [7, 9, 5, 3, 2]
    book = make_codebook([*"abcd", "class"], shape)
    design = pp.Product(
        [pp.KaryResponse(n, k, 0.7) for n, k in zip(book.names, shape, strict=True)]
    )
    for seed in range(4):
        rng = np.random.default_rng(seed)
        codes = np.stack([rng.integers(k, size=2_003) for k in shape], axis=1)
        codes[:, 4] = codes[:, 3] > 0
        reports = design.disguise(pp.Records(codes, book), pp.Stream.from_seed(seed))
        model = pp.ID3(design, "class", max_depth=1, min_z=3.0, criterion=criterion).fit(reports)
        assert model.tree_.attribute[0] == 3


# -- cost and complexity ---------------------------------------------------------------------------


def prunings(tree: Any, node: int = 0) -> Iterator[tuple[int, ...]]:
    """All sets of leaves that pruning can leave below a node."""
    yield (node,)
    if tree.attribute[node] >= 0:
        below = [list(prunings(tree, child)) for child in tree.children(node)]
        for choice in itertools.product(*below):
            yield tuple(itertools.chain(*choice))


def leaf_weights(tree: Any, reports: pp.Records, design: pp.Design) -> np.ndarray:
    """Weights of "in the node and of its class" by report, shape (nodes, n)."""
    book, found = reports.codebook, []
    for node in range(len(tree)):
        event = {book.names[c]: str(v) for c, v in tree.conditions(node).items()}
        found.append(pp.event_weights(reports, design, {**event, "class": str(tree.label[node])}))
    return np.array(found)


def leaves_of(tree: Any) -> set[tuple[tuple[int, int], ...]]:
    return {tuple(tree.conditions(leaf).items()) for leaf in tree.leaves}


@DESIGNS
@pytest.mark.parametrize("seed", range(4))
def test_the_path_is_that_of_the_definition_over_all_subtrees(design: pp.Design, seed: int) -> None:
    reports = reports_of(design, seed)
    model = pp.ID3(design, "class").fit(reports)
    tree, n = model.tree_, len(reports)
    wrong = {
        leaves: 1 - math.fsum(right[leaf] for leaf in leaves) / n
        for right in [leaf_weights(tree, reports, design).sum(axis=1)]
        for leaves in prunings(tree)
    }

    def best(alpha: float) -> tuple[int, ...]:
        least = min(error + alpha * len(leaves) for leaves, error in wrong.items())
        near = [k for k, error in wrong.items() if error + alpha * len(k) <= least + 1e-9]
        smallest = min(map(len, near))
        # The smallest is unique: it is below all others that cost as little.
        (found,) = (k for k in near if len(k) == smallest)
        return found

    path = model.cost_complexity_pruning_path(reports)
    assert path.ccp_alphas[0] == 0
    assert (np.diff(path.ccp_alphas) > 0).all()
    assert (np.diff(path.leaves) < 0).all()
    assert path.leaves[-1] == 1
    later = [*path.ccp_alphas[1:], path.ccp_alphas[-1] + 0.1]
    for alpha, error, size, then in zip(
        path.ccp_alphas, path.errors, path.leaves, later, strict=True
    ):
        expected = best(alpha)
        assert (wrong[expected], len(expected)) == (pytest.approx(error, abs=1e-9), size)
        paths = {tuple(tree.conditions(leaf).items()) for leaf in expected}
        for between in (alpha, (alpha + then) / 2):
            assert best(between) == expected
            model = pp.ID3(design, "class", ccp_alpha=between).fit(reports)
            assert leaves_of(model.tree_) == paths
        # Up to where the next tree costs as little.
        assert len(best(then)) < size or size == 1


def test_an_alpha_ends_on_a_leaf_whatever_the_reports_are() -> None:
    reports = reports_of(GROUPS, 1)
    grown = pp.ID3(GROUPS, "class").fit(reports)
    assert len(grown.tree_) > len(pp.ID3(GROUPS, "class", ccp_alpha=0).fit(reports).tree_)
    assert len(pp.ID3(GROUPS, "class", ccp_alpha=2.0).fit(reports).tree_) == 1
    alone = pp.ID3(GROUPS, "class", max_depth=0).cost_complexity_pruning_path(reports)
    assert (list(alone.ccp_alphas), list(alone.leaves)) == ([0], [1])


def test_the_error_of_other_reports_falls_where_noise_was_grown() -> None:
    """Under strong noise a full tree is no better than the alpha that other reports choose."""
    train, test = reports_of(DENSE, 7, 1_500), records_of(8, 4_000)
    full = pp.ID3(DENSE, "class").fit(train)
    path = full.cost_complexity_pruning_path(train)
    scores = [pp.ID3(DENSE, "class", ccp_alpha=a).fit(train).score(test) for a in path.ccp_alphas]
    assert max(scores) >= full.score(test)
    assert path.errors[0] <= path.errors.min() + 1e-12


# -- by other reports ------------------------------------------------------------------------------


def prune_plainly(tree: Any, right: list[np.ndarray], min_z: float) -> set[Any]:
    """Leaves after pruning from the bottom, by the differences of all reports in each stratum."""

    def visit(node: int) -> tuple[list[np.ndarray], set[Any]]:
        alone = [part[node] for part in right], {tuple(tree.conditions(node).items())}
        if tree.attribute[node] < 0:
            return alone
        below = [visit(child) for child in tree.children(node)]
        sums = [np.sum([found[h] for found, _ in below], axis=0) for h in range(len(right))]
        differences = [one - other for one, other in zip(sums, alone[0], strict=True)]
        gained = sum(d.sum() for d in differences)
        error = math.sqrt(sum(len(d) * d.var(ddof=1) for d in differences))
        if gained > min_z * error + 1e-9:
            return sums, set.union(*(paths for _, paths in below))
        return alone

    return visit(0)[1]


@DESIGNS
@pytest.mark.parametrize("min_z", [1.0, 2.0])
def test_pruning_by_standard_errors_is_that_of_the_plain_rule(
    design: pp.Design, min_z: float
) -> None:
    met = 0
    for seed in range(4):
        model = pp.ID3(design, "class").fit(reports_of(design, seed, 400))
        validation = reports_of(design, seed + 50, 300)
        right = leaf_weights(model.tree_, validation, design)
        pruned = model.prune(validation, min_z=min_z)
        assert leaves_of(pruned.tree_) == prune_plainly(model.tree_, [right], min_z)
        # With hardly a standard error it is the rule without.
        same = model.prune(validation, min_z=1e-9).tree_
        assert leaves_of(same) == leaves_of(model.prune(validation).tree_)
        met += len(pruned.tree_) < len(same)
    assert met


def test_pruning_by_standard_errors_counts_strata_and_many_categories() -> None:
    names, shape = ["a", "b", "class"], [3, 4, 3]
    book = make_codebook(names, shape)
    first = pp.Product([pp.KaryResponse(n, k, 0.8) for n, k in zip(names, shape, strict=True)])
    second = identity_of(book)
    rng = np.random.default_rng(5)
    codes = random_records(book, 900, 5).codes.copy()
    codes[:, 2] = np.where(rng.random(900) < 0.5, codes[:, 0], codes[:, 2])
    records = pp.Records(codes, book)
    strata = [first.disguise(records[:300], pp.Stream.from_seed(1)), records[300:400]]
    model = pp.ID3(Stratified([first, second]), "class").fit(strata)
    other = [first.disguise(records[400:700], pp.Stream.from_seed(2)), records[700:]]
    right = [
        leaf_weights(model.tree_, part, design)
        for part, design in zip(other, (first, second), strict=True)
    ]
    pruned = model.prune(other, min_z=1.0)
    assert leaves_of(pruned.tree_) == prune_plainly(model.tree_, right, 1.0)
    assert 1 < len(pruned.tree_) < len(model.tree_)


@pytest.mark.parametrize(
    ("parameters", "says"),
    [
        ({"criterion": "gini"}, "criterion: got 'gini'; one of information_gain, gain_ratio"),
        ({"criterion": None}, "criterion: got None"),
        ({"ccp_alpha": -0.1}, "ccp_alpha: got -0.1; a number of 0 or more"),
        ({"ccp_alpha": "a"}, "ccp_alpha: got 'a'"),
    ],
)
def test_wrong_parameters(parameters: dict[str, Any], says: str) -> None:
    with pytest.raises(pp.InputError, match=says):
        pp.ID3(GROUPS, "class", **parameters).fit(reports_of(GROUPS, 1))


def test_a_wrong_number_of_standard_errors() -> None:
    model = pp.ID3(GROUPS, "class").fit(reports_of(GROUPS, 1))
    with pytest.raises(pp.InputError, match="min_z: got -1; a number of 0 or more"):
        model.prune(reports_of(GROUPS, 2), min_z=-1)


# -- files and commands ----------------------------------------------------------------------------


BOTH = ("--codebook", "c.toml", "--design", "d.toml")


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> pp.Codebook:
    """1,500 reports of people whose class depends on two of three attributes."""
    monkeypatch.chdir(tmp_path)
    records = records_of(3, 1_500)
    book = pp.Codebook(records.codebook.attributes, target="class")
    records.codebook.decode(records).to_csv("a.csv", index=False)
    book.to_toml("c.toml")
    write_design(DENSE, Path("d.toml"))
    assert main(["disguise", "a.csv", *BOTH, "--simulate", "1", "--out", "r.parquet"]) == 0
    capsys.readouterr()
    return book


def mined(capsys: Any, *options: str) -> Any:
    paths = ("--out", "m.json", "--picture", "m.svg", "--force", "--json")
    assert main(["mine", "id3", "r.parquet", *BOTH, *paths, *options]) == 0
    return json.loads(capsys.readouterr().out)


def test_commands_grow_and_prune_as_python_does(files: pp.Codebook, capsys: Any) -> None:
    reports = pp.load_reports("r.parquet", files, DENSE)
    full = mined(capsys, "--folds", "0")
    assert full["nodes"] == len(pp.ID3().fit(reports).tree_)
    options = {"criterion": "gain_ratio", "ccp_alpha": 0.02, "min_z": 0.5}
    expected = pp.ID3(**options).fit(reports)
    found = mined(
        capsys, "--criterion", "gain-ratio", "--ccp-alpha", "0.02", "--min-z", "0.5", "--folds", "3"
    )
    read = pp.read_model("m.json")
    assert {k: read.get_params()[k] for k in options} == options
    assert found["nodes"] == len(read.tree_) == len(expected.tree_) < full["nodes"]
    np.testing.assert_array_equal(read.tree_.counts, expected.tree_.counts)
    np.testing.assert_array_equal(
        read.tree_.standard_error, pp.ID3(**options).fit(reports).tree_.standard_error
    )


def test_a_tree_pruned_by_what_was_kept_back_is_written_and_drawn(
    files: pp.Codebook, capsys: Any
) -> None:
    found = mined(capsys, "--prune", "0.4")
    read = pp.read_model("m.json")
    tree = read.tree_
    # Grown on the others; smaller than a full tree of three attributes, and drawn as it is.
    assert read.n_reports_ == 900
    assert 1 < found["nodes"] == len(tree) < 15
    assert Path("m.svg").read_text().count("<!-- →") == len(tree.leaves)
    test = records_of(4, 3_000)
    score = read.score(pp.Records(test.codes, files))
    assert abs(found["accuracy"]["value"] - score) < 4 * found["accuracy"]["standard_error"] + 0.02
    for share, says in (
        ("1", "prune: got 1.0; a number between 0 and 1"),
        ("0.0001", "prune: got 0.0001; 1500 reports are too few for this share"),
    ):
        options = ("--prune", share, "--folds", "0", "--out", "x.json")
        assert main(["mine", "id3", "r.parquet", *BOTH, *options]) == 2
        assert says in capsys.readouterr().err
        assert not Path("x.json").exists()


# -- choosing among trees --------------------------------------------------------------------------


def test_the_paired_rule_goes_by_the_differences_of_the_folds() -> None:
    scores = np.array(
        [[0.70, 0.80, 0.90, 0.80], [0.69, 0.81, 0.88, 0.78], [0.72, 0.83, 0.93, 0.80]]
    )
    results = {f"split{k}_test_score": scores[:, k] for k in range(4)}
    results |= {"mean_test_score": scores.mean(axis=1), "std_test_score": scores.std(axis=1)}
    results["param_ccp_alpha"] = np.array([0.2, 0.1, None], object)
    # The scores vary by .08 from fold to fold; the differences of .02 and .03 only by half of that.
    assert pp.one_standard_error("ccp_alpha", simplest="largest")(results) == 0
    assert pp.one_standard_error("ccp_alpha", simplest="largest", paired=True)(results) == 2
    results["mean_test_score"] = np.array([0.80, 0.79, 0.801])
    assert pp.one_standard_error("ccp_alpha", simplest="largest", paired=True)(results) == 0
    one = {k: v for k, v in results.items() if not k.startswith("split") or k[5] == "0"}
    with pytest.raises(pp.InputError, match="paired: the search has 1 fold; two or more"):
        pp.one_standard_error("ccp_alpha", paired=True)(one)


def test_depth_and_alpha_are_chosen_by_reports_only() -> None:
    reports, test = reports_of(GROUPS, 11, 3_000), records_of(12, 4_000)
    path = pp.ID3(GROUPS, "class").cost_complexity_pruning_path(reports)
    search = GridSearchCV(
        pp.ID3(GROUPS, "class"),
        {"ccp_alpha": [None, *path.ccp_alphas]},
        scoring=pp.disguised_accuracy,
        refit=pp.one_standard_error("ccp_alpha", simplest="largest", paired=True),
    ).fit(reports)
    best = max(
        pp.ID3(GROUPS, "class", ccp_alpha=a).fit(reports).score(test) for a in path.ccp_alphas
    )
    assert search.best_estimator_.score(test) > best - 0.03
    # The design is the law of the reports: another one is refused, and no parameter to tune.
    other = GridSearchCV(
        pp.ID3(GROUPS, "class", max_depth=1),
        {"design__theta": [[0.9, 0.7], [0.9, 0.8]]},
        scoring=pp.disguised_accuracy,
        refit="accuracy",
        error_score="raise",
    )
    with pytest.raises(RecordsError, match="made by another design"):
        other.fit(reports)
