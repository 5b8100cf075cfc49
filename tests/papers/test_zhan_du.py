"""What the multi-group paper states, corrected where it is misprinted.  [ZhanDu]_."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from strategies import make_codebook, random_records, reports_of

from ppdm_dask import (
    ID3,
    Codebook,
    Identity,
    InputError,
    MultiGroup,
    NotInvertible,
    Records,
    Stream,
    datasets,
    event_weights,
    resources,
)
from ppdm_dask.designs import Flip
from ppdm_dask.designs.multigroup import coefficient_matrix
from ppdm_dask.inference.proportions import estimate
from ppdm_dask.mine.classifier import score_disguised
from ppdm_dask.mine.evidence import Evidence, images

# -- sections 4.2 to 4.4: the coefficient matrices -------------------------------------------------


def truths_and_lies(thetas):
    """M_g from the text: the chance that event j, reversed by groups, is reported as event i.

    Events are in the order of Eq. (7): E1 E2 E3, E1 E2 not-E3, ...
    """
    events = list(itertools.product([0, 1], repeat=len(thetas)))
    return np.array(
        [
            [
                math.prod(
                    t if a == b else 1 - t for t, a, b in zip(thetas, one, other, strict=True)
                )
                for other in events
            ]
            for one in events
        ]
    )


@pytest.mark.parametrize("thetas", [[0.7], [0.7] * 2, [0.7] * 3, [0.9, 0.2, 0.6], [0.8] * 4])
def test_coefficient_matrices(thetas):
    np.testing.assert_allclose(coefficient_matrix(thetas), truths_and_lies(thetas), rtol=1e-13)


def test_coefficient_matrices_are_made_for_few_groups_only():
    assert coefficient_matrix([0.8] * 12).shape == (4096, 4096)
    with pytest.raises(InputError, match="theta: 13 groups; the matrix is made for up to 12"):
        coefficient_matrix([0.8] * 13)


def test_the_printed_m1_and_m2():
    t, u = 0.7, 1 - 0.7
    np.testing.assert_allclose(coefficient_matrix([t]), [[t, u], [u, t]], rtol=1e-13)
    tt, tu, uu = t * t, t * u, u * u
    printed = [[tt, tu, tu, uu], [tu, tt, uu, tu], [tu, uu, tt, tu], [uu, tu, tu, tt]]
    np.testing.assert_allclose(coefficient_matrix([t, t]), printed, rtol=1e-13)


def test_the_printed_m3_has_one_wrong_entry():
    """Eq. (8) as printed: the power of theta in each entry, the rest of the 3 being 1 - theta."""
    printed = np.array(
        [
            [3, 2, 2, 1, 2, 1, 1, 0],
            [2, 3, 1, 2, 1, 1, 0, 1],
            [2, 1, 3, 2, 1, 0, 2, 1],
            [1, 2, 2, 3, 0, 1, 1, 2],
            [2, 1, 1, 0, 3, 2, 2, 1],
            [1, 2, 0, 1, 2, 3, 1, 2],
            [1, 0, 2, 1, 2, 1, 3, 2],
            [0, 1, 1, 2, 1, 2, 2, 3],
        ]
    )
    t = 0.7
    as_printed = t**printed * (1 - t) ** (3 - printed)
    built = coefficient_matrix([t] * 3)
    wrong = np.argwhere(~np.isclose(as_printed, built, rtol=1e-12, atol=0))
    assert wrong.tolist() == [[1, 5]]  # (2, 6), counted from 1
    assert built[1, 5] == pytest.approx(t**2 * (1 - t), rel=1e-12)
    # It shows without knowing better: a column of probabilities must sum to 1.
    assert np.flatnonzero(np.abs(as_printed.sum(axis=0) - 1) > 1e-12).tolist() == [5]


def test_two_groups_by_hand():
    design = MultiGroup([["a"], ["b"]], theta=0.8)
    true = np.array([0.3, 0.2, 0.1, 0.4])
    reported = [0.256, 0.244, 0.184, 0.316]
    np.testing.assert_allclose(design.apply(true), reported, rtol=0, atol=1e-15)
    np.testing.assert_allclose(design.invert(np.array(reported)), true, rtol=0, atol=1e-15)


# -- section 4.5: estimates ------------------------------------------------------------------------

NAMES = ("a", "b", "c", "d", "class")
BOOK = make_codebook(NAMES, [2] * 5)

GROUPINGS = {
    "1 group": ([NAMES], [0.8]),
    "1 group, class undisguised": ([NAMES[:4]], [0.3]),
    "2 groups": ([("a", "class"), ("b", "c", "d")], [0.8, 0.8]),
    "2 groups, class undisguised": ([("d", "a"), ("b", "c")], [0.7, 0.2]),
    "2 groups, b and d undisguised": ([("a",), ("c", "class")], [0.9, 0.55]),
    "3 groups": ([("a", "b"), ("c",), ("d", "class")], [0.8, 0.9, 0.7]),
    "3 groups, class undisguised": ([("a", "d"), ("b",), ("c",)], [0.6, 0.6, 0.6]),
    "3 groups, only three attributes": ([("b",), ("d",), ("class",)], [0.3, 0.8, 0.45]),
    "4 groups": ([("a",), ("b", "class"), ("c",), ("d",)], [0.8, 0.7, 0.2, 0.9]),
    "4 groups, class undisguised": ([("a",), ("b",), ("c",), ("d",)], [0.8] * 4),
}


@pytest.mark.parametrize("name", GROUPINGS)
def test_estimates_are_the_literal_solution_of_equation_7(name):
    """P*(E) of all 2^g reversed events is counted, M_g is solved; Eqs. (11) to (14), corrected.

    Each attribute belongs to one group; what is in none stays as it is in every reversed event, as
    the class in Eq. (13).
    """
    groups, thetas = GROUPINGS[name]
    design = MultiGroup(groups, thetas)
    codes = random_records(BOOK, 300, seed=len(name)).codes
    reports = reports_of(codes, BOOK, design)
    for conditions in itertools.product([None, 0, 1], repeat=5):
        event = {n: v for n, v in zip(NAMES, conditions, strict=True) if v is not None}
        observed = []
        for reverse in itertools.product([False, True], repeat=len(groups)):
            reversed_names = {n for g, r in zip(groups, reverse, strict=True) if r for n in g}
            inside = np.ones(len(codes), dtype=bool)
            for n, v in event.items():
                inside &= reports.column(n) == (1 - v if n in reversed_names else v)
            observed.append(inside.mean())
        expected = np.linalg.solve(truths_and_lies(thetas), observed)[0]
        made = estimate(reports, {n: str(v) for n, v in event.items()}, design=design)
        assert abs(made.value - expected) < 1e-12 * max(1, abs(expected))


def test_one_half_has_no_solution():
    design = MultiGroup([["a", "b"], ["c", "d", "class"]], [0.8, 0.5])
    reports = reports_of(np.zeros((4, 5), int), BOOK, design)
    says = r"group 2: flip on c, d, class is not invertible: at theta = 1/2 .* alike"
    with pytest.raises(NotInvertible, match=says):
        ID3(design, "class").fit(reports)
    with pytest.raises(np.linalg.LinAlgError):
        np.linalg.inv(truths_and_lies([0.5]))


# -- sections 4.5 and 5.3: trees -------------------------------------------------------------------


def same_tree(one, two):
    for field in ("attribute", "first_child", "parent", "category", "depth", "label", "negative"):
        np.testing.assert_array_equal(getattr(one, field), getattr(two, field), err_msg=field)
    np.testing.assert_array_equal(one.counts, two.counts)
    np.testing.assert_array_equal(one.score, two.score)


def load(name, rule, records=None):
    frame = datasets.load(name).iloc[:records]
    book = Codebook.from_toml(resources.codebook_path(name)).binarise(frame, rule)
    return book.encode(frame)


SETS = {
    "breast-cancer": lambda: load("breast-cancer", "midrange"),
    "votes": lambda: load("votes", "midrange"),
    "adult-midrange": lambda: load("adult", "midrange", 10_000),
    "adult-median": lambda: load("adult", "median", 10_000),
}


@pytest.fixture(scope="module")
def records_of():
    """Binarised records of a set, read once."""
    found = {}

    def get(name):
        if name not in found:
            found[name] = SETS[name]()
        return found[name]

    return get


@pytest.mark.parametrize("theta", [0.0, 1.0])
@pytest.mark.parametrize("g", [1, 2, 3, 4])
@pytest.mark.parametrize("name", ["breast-cancer", "votes"])
def test_theta_0_and_1_give_the_undisguised_tree(name, g, theta, records_of):
    records = records_of(name)
    names, target = records.codebook.names, records.codebook.target
    clean = ID3(Identity(names, records.codebook.shape), target).fit(records)
    for repeat in range(3):
        design = MultiGroup.random(names, g, theta, Stream.from_seed(repeat))
        reports = design.disguise(records, Stream.from_seed(100 + repeat))
        assert theta == 1.0 or (reports.codes == 1 - records.codes).all()
        tree = ID3(design, target).fit(reports)
        same_tree(tree.tree_, clean.tree_)
        assert tree.score_disguised(reports).value == clean.score(records)


@pytest.mark.parametrize("thetas", [[0.8], [0.9, 0.7], [0.6, 0.8, 0.55]])
def test_reversed_reports_under_1_minus_theta_give_the_same_tree(thetas, records_of):
    """Theta and 1 - theta differ by the reversal of every group, which the estimate undoes."""
    records = records_of("breast-cancer")
    names = records.codebook.names
    groups = MultiGroup.random(names, len(thetas), 0.8, Stream.from_seed(4)).groups
    design = MultiGroup(groups, thetas)
    other = MultiGroup(groups, [round(1 - t, 2) for t in thetas])
    reports = design.disguise(records, Stream.from_seed(5))
    reverse = reports_of(1 - reports.codes, records.codebook, other)
    one, two = ID3(design, "class").fit(reports), ID3(other, "class").fit(reverse)
    same_tree(one.tree_, two.tree_)
    first, second = one.score_disguised(reports), two.score_disguised(reverse)
    assert (first.value, first.standard_error) == (second.value, second.standard_error)


@pytest.mark.parametrize(
    ("name", "accuracy", "majority"),
    [
        ("breast-cancer", 0.952, 0.647),
        ("votes", 0.943, 0.611),
        ("adult-midrange", 0.765, 0.761),
        ("adult-median", 0.799, 0.760),
    ],
)
def test_baselines(name, accuracy, majority, records_of):
    """Undisguised, 80/20 splits."""
    records = records_of(name)
    target = records.codebook.target
    design = Identity(records.codebook.names, records.codebook.shape)
    assert abs(np.bincount(records.column(target)).max() / len(records) - majority) < 0.02
    scores = []
    for split in range(10):
        order = np.random.default_rng(split).permutation(len(records))
        cut = round(0.8 * len(records))
        train, test = records.take(order[:cut]), records.take(order[cut:])
        scores.append(ID3(design, target).fit(train).score(test))
    assert abs(np.mean(scores) - accuracy) < 0.02


# -- section 4.6: testing on disguised records -----------------------------------------------------


def test_the_eight_records_of_the_example():
    book = make_codebook(["A1", "A2", "A3", "A4", "A5"], [2] * 5)
    design = MultiGroup([["A1", "A2"], ["A3"], ["A4", "A5"]], theta=0.8)
    reports = reports_of([[1, 0, 1, 0, 1]], book, design)
    (stratum,) = Evidence.collect([(reports, design)], "A5").strata
    codes, _, weights, scale = images(stratum)
    fed = {"".join(map(str, row)): w / scale for row, w in zip(codes, weights, strict=True)}
    printed = ["10101", "10110", "10001", "10010", "01101", "01110", "01001", "01010"]
    assert sorted(fed) == sorted(printed)
    # The weights of Eq. (15) solved for the truth are the first row of the inverse of M_3.
    solved = np.linalg.inv(truths_and_lies([0.8] * 3))[0]
    np.testing.assert_allclose([fed[name] for name in printed], solved, rtol=1e-12)


@pytest.mark.parametrize("name", GROUPINGS)
def test_the_leaf_form_is_equation_15(name):
    """The share of right predictions on all 2^g reversed test sets is counted, M_g is solved."""
    groups, thetas = GROUPINGS[name]
    design = MultiGroup(groups, thetas)
    records = random_records(BOOK, 400, seed=1)
    # A class that depends on the attributes, so that trees have some depth.
    codes = np.array(records.codes)
    codes[:, 4] = (codes[:, 0] & codes[:, 1]) ^ (codes[:, 2] | (codes[:, 3] & (codes[:, 4])))
    reports = design.disguise(Records(codes, BOOK), Stream.from_seed(2))
    model = ID3(design, "class").fit(reports.take(np.arange(250)))
    test = reports.take(np.arange(250, 400))
    shares = []
    for reverse in itertools.product([False, True], repeat=len(groups)):
        reversed_names = {n for g, r in zip(groups, reverse, strict=True) if r for n in g}
        changed = np.array(test.codes)
        for column, n in enumerate(NAMES):
            if n in reversed_names:
                changed[:, column] = 1 - changed[:, column]
        other = Records(changed, BOOK)
        shares.append((model.predict(other) == other.column("class").astype(str)).mean())
    expected = np.linalg.solve(truths_and_lies(thetas), shares)[0]
    got = model.score_disguised(test)
    assert abs(got.value - expected) < 1e-12 * max(1, abs(expected))

    # The same by leaves, with the event weights of the public interface ...
    leaves = 0.0
    for leaf in model.tree_.leaves:
        event = {NAMES[c]: str(v) for c, v in model.tree_.conditions(leaf).items()}
        event["class"] = model.classes_[model.tree_.label[leaf]]
        leaves += event_weights(test, design, event).mean()
    assert abs(got.value - leaves) < 1e-12 * max(1, abs(leaves))

    # ... and by the sum over all true records, which serves every classifier.
    def correct(codes):
        return model.predict_codes(Records(codes, BOOK)) == codes[:, 4]

    summed = score_disguised(correct, test, design)
    assert abs(got.value - summed.value) < 1e-12 * max(1, abs(summed.value))
    assert abs(got.standard_error - summed.standard_error) < 1e-12 * summed.standard_error


@pytest.mark.slow
@pytest.mark.parametrize(
    ("groups", "thetas"),
    [
        (1, 0.8),
        (2, 0.8),
        (3, 0.8),
        (2, [0.85, 0.1]),
        (3, [0.9, 0.8, 0.15]),
        ("partial", [0.8, 0.9]),
    ],
)
def test_the_disguised_score_is_unbiased(groups, thetas, records_of):
    """Over 1,000 disguises its mean is within 4 standard errors of the mean clean score."""
    records = records_of("breast-cancer")
    names = records.codebook.names
    if groups == "partial":
        design = MultiGroup([names[:3], names[3:6]], thetas)  # the class stays as it is
    else:
        design = MultiGroup.random(names, groups, thetas, Stream.from_seed(6))
    order = np.random.default_rng(7).permutation(len(records))
    train, test = records.take(order[:559]), records.take(order[559:])
    difference = []
    for repeat in range(1_000):
        model = ID3(design, "class").fit(design.disguise(train, Stream.from_seed(2 * repeat)))
        disguised = design.disguise(test, Stream.from_seed(2 * repeat + 1))
        difference.append(model.score_disguised(disguised).value - model.score(test))
    spread = np.std(difference, ddof=1)
    assert spread < 0.2
    assert abs(np.mean(difference)) < 4 * spread / math.sqrt(1_000)


# -- sections 1.2 and 5.3.3: privacy ---------------------------------------------------------------


def test_an_adversary_can_do_better_than_theta():
    """The text says that no guess succeeds with more than theta; with prior .9 one does."""
    assert Flip("a", 0.7).max_posterior([0.1, 0.9]) == pytest.approx(0.954545, abs=1e-6)
    # Knowing one true answer of a group gives away all of it, as section 1.2 says.
    joint = np.zeros((2, 2))
    joint[0, 0], joint[0, 1], joint[1, 1] = 0.5, 0.3, 0.2  # nobody is (1, 0)
    assert Flip(["a", "b"], 0.7).max_posterior(joint.ravel()) == 1.0
    assert MultiGroup([["a"], ["b"]], 0.7).max_posterior(joint.ravel()) < 1.0


def test_one_group_hides_no_record_from_who_knows_the_joint_law(records_of):
    """The opposite of a record of votes seldom occurs, and then the report gives the truth away."""
    codes = records_of("votes").codes
    distinct = {tuple(row) for row in codes.tolist()}
    alone = [row for row in distinct if tuple(1 - v for v in row) not in distinct]
    assert len(alone) / len(distinct) > 0.85


def test_more_groups_are_more_private():
    rng = np.random.default_rng(8)
    p = rng.dirichlet(np.ones(64))
    names = list("abcdef")
    groupings = [[names], [names[:3], names[3:]], [names[:2], names[2:4], names[4:]]]
    privacies = [MultiGroup(g, 0.7).privacy(p) for g in [*groupings, [[n] for n in names]]]
    assert privacies == sorted(privacies)
    assert privacies[0] < privacies[-1] - 0.1
