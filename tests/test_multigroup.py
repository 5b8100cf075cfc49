"""Flips, the multi-group design, and groups that are drawn at random.

What every family promises is checked by the battery in ``test_designs.py``.
"""

from __future__ import annotations

import itertools
from collections import Counter

import numpy as np
import pytest
from strategies import make_codebook, random_records

from ppdm_dask import MultiGroup, NotInvertible, Product, Stream, Warner
from ppdm_dask.designs import Flip, RandomGroups, design_from_config, scheme_from_config
from ppdm_dask.designs.flip import IntegerWeights
from ppdm_dask.designs.multigroup import deal
from ppdm_dask.errors import DesignError
from ppdm_dask.randomness import Source
from ppdm_dask.randomness import Stream as AnyStream

NAMES = ("age", "sex", "race", "job", "income")
SHAPE = (2, 2, 3, 2, 2)

# -- one clear line --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("groups", "says"),
    [
        (
            [["age", "sex"], ["job", "age"]],
            "groups: attribute 'age' is in groups 1 and 2; each belongs to one at most",
        ),
        (
            [["age"], ["job", "sex", "job"]],
            "groups: attribute 'job' occurs twice in group 2; each belongs to one at most",
        ),
        ([["age"], []], "groups: group 2 is empty; leave it out or name attributes"),
        (
            [["age"], ["wage"]],
            "groups: group 2 has the unknown attribute 'wage'; there are age, sex, race, job, "
            "income",
        ),
        (
            [["age", "race"]],
            "groups: group 1 has attribute 'race' with 3 categories; only binary attributes can be "
            "reversed",
        ),
        (["age", "sex"], "groups: group 1 is 'age'; a list of attribute names is needed"),
        ([["age"], [3]], "groups: group 2 has 3; a name is needed"),
        ([], "groups: got []; one or more lists of attribute names are needed"),
        ("age", "groups: got 'age'; one or more lists of attribute names are needed"),
        (None, "groups: got None; one or more lists of attribute names are needed"),
    ],
)
def test_wrong_groups_are_one_clear_line(groups, says):
    with pytest.raises(DesignError) as caught:
        MultiGroup(groups, 0.8, attributes=NAMES, shape=SHAPE)
    assert str(caught.value) == says
    config = {"id": "multigroup", "groups": groups, "theta": 0.8}
    with pytest.raises(DesignError) as caught:
        design_from_config({**config, "attributes": list(NAMES), "shape": list(SHAPE)})
    assert str(caught.value) == says


@pytest.mark.parametrize(
    ("theta", "says"),
    [
        ([0.8], "theta: got 1 values; one for all or one for each of 2 groups is needed"),
        (1.2, r"theta: got 1\.2; a probability in \[0, 1\] is needed"),
        ([0.8, "x"], r"theta\[1\]: got 'x'; a probability"),
        (True, "theta: got True; a probability"),
        (float("nan"), "theta: got nan; a probability"),
    ],
)
def test_wrong_theta(theta, says):
    with pytest.raises(DesignError, match=says):
        MultiGroup([["a"], ["b"]], theta)


def test_a_flip_needs_binary_attributes():
    with pytest.raises(DesignError, match="shape: attribute 'b' has 3 categories; a flip needs 2"):
        Flip(["a", "b"], 0.8, shape=[2, 3])
    assert Flip(["a", "b"], 0.8, shape=[2, 2]) == Flip(["a", "b"], 0.8)


def test_one_half_is_refused_with_the_group_and_the_reason():
    design = MultiGroup([["a"], ["b", "c"], ["d"]], [0.8, 0.5, 0.3])
    reason = "at theta = 1/2 an answer and its opposite are reported alike"
    assert design.undefined == f"group 2 (b, c): {reason}"
    with pytest.raises(NotInvertible) as caught:
        design.require_inverse()
    assert str(caught.value).startswith(f"group 2: flip on b, c is not invertible: {reason} (cond")
    np.testing.assert_array_equal(caught.value.subject, 0.5 * (np.eye(4) + np.eye(4)[::-1]))
    assert Flip("a", 0.1 + 0.4 - 1e-16).undefined
    assert not Flip("a", 0.500001).undefined


# -- structure -------------------------------------------------------------------------------------


def test_it_is_the_product_of_its_flips():
    design = MultiGroup([["a", "b"], ["c"]], [0.8, 0.3])
    product = Product([Flip(["a", "b"], 0.8), Warner("c", 0.3)])
    assert design.groups == (("a", "b"), ("c",))
    assert design.theta == (0.8, 0.3)
    np.testing.assert_allclose(design.matrix(), product.matrix(), rtol=0, atol=1e-15)
    assert design.attributes == product.attributes
    assert MultiGroup.by_attribute(["a", "b"], 0.7).groups == (("a",), ("b",))


def test_one_theta_for_all_says_the_same_as_one_a_group():
    one, both = MultiGroup([["a"], ["b"]], 0.8), MultiGroup([["a"], ["b"]], [0.8, 0.8])
    assert one == both
    assert one.digest == both.digest
    assert one.config() == {"id": "multigroup", "groups": [["a"], ["b"]], "theta": 0.8}
    other = MultiGroup([["a"], ["b"]], [0.8, 0.7])
    assert other.digest != one.digest
    whole = {"attributes": ["a", "b", "class"], "shape": [2, 2, 5]}
    assert design_from_config({**one.config(), **whole}) == one


def test_marginals_stay_multi_group():
    design = MultiGroup([["a", "b"], ["c", "d"]], [0.8, 0.3])
    assert design.marginal(["d", "b"]) == MultiGroup([["d"], ["b"]], [0.3, 0.8])
    assert design.marginal(["b", "c", "a"]) is None  # the order takes a group apart


@pytest.mark.parametrize(
    ("theta", "expected"),
    [
        (0.8, IntegerWeights(4, -1, 3)),
        (0.2, IntegerWeights(-1, 4, 3)),
        (0.45, IntegerWeights(-9, 11, 2)),
        (0.51, IntegerWeights(51, -49, 2)),
        (1.0, IntegerWeights(1, 0, 1)),
        (0.0, IntegerWeights(0, 1, 1)),
    ],
)
def test_integer_weights(theta, expected):
    flip = Flip(["a", "b"], theta)
    assert flip.integer_weights == expected
    truth, opposite, scale = expected
    solved = np.linalg.solve([[theta, 1 - theta], [1 - theta, theta]], [1, 0])
    np.testing.assert_allclose(np.array([truth, opposite]) / scale, solved, rtol=1e-12)


def test_many_groups_need_no_matrix():
    names = [f"a{i}" for i in range(300)]
    design = MultiGroup.by_attribute(names, 0.9)
    records = random_records(make_codebook(names, [2] * 300), 200, seed=1)
    reports = design.disguise(records, Stream.from_seed(2))
    event = {"a7": np.array([False, True]), "a250": np.array([True, False])}
    weights = design.weights(event, reports.codes)
    yes, no = reports.column("a7") == 1, reports.column("a250") == 0
    expected = np.where(yes, 9, -1) * np.where(no, 9, -1) / 64
    np.testing.assert_allclose(weights, expected, rtol=1e-12)


def test_posteriors_of_many_attributes_against_a_sum_over_the_flips():
    names = [f"a{i}" for i in range(14)]
    groups, thetas = [names[:3], names[3:9], names[9:]], [0.8, 0.3, 0.6]
    design = MultiGroup(groups, thetas)
    p = np.random.default_rng(3).dirichlet(np.ones(1 << 14))
    got = design.posterior_summary(p)
    joint = []
    for keeps in itertools.product([True, False], repeat=3):
        mask = 0
        for group, keep in zip(groups, keeps, strict=True):
            mask |= sum(1 << (13 - names.index(n)) for n in group) if not keep else 0
        chance = np.prod([t if k else 1 - t for t, k in zip(thetas, keeps, strict=True)])
        joint.append(chance * p[np.arange(1 << 14) ^ mask])
    np.testing.assert_allclose(got.total, np.sum(joint, axis=0), rtol=1e-12)
    np.testing.assert_allclose(got.largest, np.max(joint, axis=0), rtol=1e-12)
    np.testing.assert_allclose(got.squares, np.sum(np.square(joint), axis=0), rtol=1e-12)


# -- disguising ------------------------------------------------------------------------------------


def test_groups_are_told_or_reversed_whole_and_the_rest_is_told():
    book = make_codebook(NAMES, (2,) * 5)
    records = random_records(book, 20_000, seed=4)
    design = MultiGroup([["job", "age"], ["sex"]], [0.8, 0.3])
    reports = design.disguise(records, Stream.from_seed(5))
    changed = reports.codes != records.codes
    job, age, sex = (changed[:, book.index(name)] for name in ("job", "age", "sex"))
    np.testing.assert_array_equal(job, age)
    assert not changed[:, [book.index("race"), book.index("income")]].any()
    # The four outcomes of two independent coins, within 5 standard deviations.
    for reversed_job, reversed_sex in itertools.product([False, True], repeat=2):
        chance = (0.2 if reversed_job else 0.8) * (0.7 if reversed_sex else 0.3)
        share = ((job == reversed_job) & (sex == reversed_sex)).mean()
        assert abs(share - chance) < 5 * np.sqrt(chance * (1 - chance) / 20_000)


def test_a_group_keeps_its_coin_whatever_attributes_it_has():
    records = random_records(make_codebook(NAMES, (2,) * 5), 1_000, seed=6)
    one = MultiGroup([["age"], ["sex"]], 0.7).disguise(records, Stream.from_seed(7))
    two = MultiGroup([["race", "job"], ["income"]], 0.7).disguise(records, Stream.from_seed(7))
    for a, b in (("age", "race"), ("age", "job"), ("sex", "income")):
        np.testing.assert_array_equal(
            one.column(a) != records.column(a), two.column(b) != records.column(b)
        )


# -- random groups ---------------------------------------------------------------------------------


class _Words(AnyStream):
    """A stream whose only source serves the words it is given."""

    simulated = True

    def __init__(self, words):
        self.words = np.array(words, np.uint64)

    def child(self, *key):
        raise AssertionError("the split needs no stream below its own")

    def source(self, *key):
        assert key == ()
        return Source(lambda n: self.words[:n])


def test_the_split_follows_the_stated_rule():
    names = [f"a{i}" for i in range(11)]
    for seed in range(20):
        words = [int(w) for w in Stream.from_seed(seed).source().words(11)]
        order = list(range(11))
        for i, word in enumerate(words):
            j = i + ((word * (11 - i)) >> 64)
            order[i], order[j] = order[j], order[i]
        for g in (1, 2, 3, 5, 11):
            expected = tuple(tuple(names[i] for i in sorted(order[j::g])) for j in range(g))
            assert deal(names, g, Stream.from_seed(seed)) == expected
            design = MultiGroup.random(names, g, 0.8, Stream.from_seed(seed))
            assert design == MultiGroup(expected, 0.8)
            assert sorted(itertools.chain(*expected)) == sorted(names)
            assert {len(group) for group in expected} <= {11 // g, 11 // g + 1}


def test_the_split_at_the_ends_of_a_draw():
    top = 2**64 - 1
    # The first word moves the last name to the front; the others then find every name in place.
    assert deal(list("abcd"), 2, _Words([0, 0, 0, 0])) == (("a", "c"), ("b", "d"))
    assert deal(list("abcd"), 2, _Words([top, 0, 0, 0])) == (("c", "d"), ("a", "b"))


def test_every_split_is_equally_likely():
    seen = Counter(
        frozenset(map(frozenset, deal(list("abcd"), 2, Stream.from_seed(seed))))
        for seed in range(3_000)
    )
    # Three ways to part four names into two pairs; 1000 of each is expected, the sd is 26.
    assert len(seen) == 3
    assert all(abs(n - 1_000) < 5 * 26 for n in seen.values())


@pytest.mark.parametrize("g", [0, 6, 2.0, True, "2", -1])
def test_impossible_numbers_of_groups(g):
    says = "groups: got .*; a whole number from 1 to 5, the number of attributes, is needed"
    with pytest.raises(DesignError, match=says):
        MultiGroup.random(NAMES, g, 0.8, Stream.from_seed(1))
    with pytest.raises(DesignError, match=says):
        RandomGroups(NAMES, g, 0.8)


def test_a_number_in_place_of_groups_is_a_scheme():
    config = {"id": "multigroup", "groups": 3, "theta": 0.8}
    whole = {"attributes": list(NAMES), "shape": [2] * 5}
    scheme = scheme_from_config({**config, **whole})
    assert isinstance(scheme, RandomGroups)
    assert scheme.redrawn
    drawn = scheme.draw(Stream.from_seed(3))
    assert drawn == MultiGroup.random(NAMES, 3, 0.8, Stream.from_seed(3))
    assert not scheme_from_config({**config, **whole, "split": "fixed"}).redrawn
    # A single attribute's reports do not depend on the split.
    assert scheme.marginal(["sex"]) == Flip("sex", 0.8)
    assert drawn.marginal(["sex"]).matrix().tolist() == Flip("sex", 0.8).matrix().tolist()
    assert scheme.marginal(["sex", "job"]) is None
    assert RandomGroups(NAMES, 1, 0.8).marginal(["sex", "job"]) == Flip(["sex", "job"], 0.8)
    given = {"id": "multigroup", "groups": [["age"], ["sex"]], "theta": 0.8}
    assert scheme_from_config({**given, **whole}) == MultiGroup([["age"], ["sex"]], 0.8)
    assert scheme_from_config({"id": "warner", "attribute": "a", "theta": 0.8}) == Warner("a", 0.8)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"groups": 6}, "groups: got 6; a whole number from 1 to 5"),
        ({"split": "never"}, "split: got 'never'; 'redrawn' or 'fixed' is needed"),
        ({"theta": [0.8, 0.7]}, "theta: got 2 values; one for all or one for each of 3 groups"),
        ({"shape": [2, 2, 3, 2, 2]}, "groups: group 1 has attribute 'race' with 3 categories"),
        ({"w_y": 0.5}, "w_y: not a parameter of 'multigroup'"),
    ],
)
def test_wrong_schemes(change, says):
    config = {"id": "multigroup", "groups": 3, "theta": 0.8, "attributes": list(NAMES)}
    with pytest.raises(DesignError, match=says):
        scheme_from_config({**config, **change})


def test_a_scheme_is_undefined_where_its_designs_are():
    assert not RandomGroups(NAMES, 2, [0.8, 0.4]).undefined
    scheme = RandomGroups(NAMES, 2, [0.8, 0.5])
    assert scheme.undefined.startswith("group 2: at theta = 1/2")
    assert scheme.draw(Stream.from_seed(1)).undefined
