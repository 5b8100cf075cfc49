"""What adversaries learn: against an enumeration of all truths and reports, and known values."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small_recipe import TREES, changed, many
from strategies import SEEDS, designs, kron, make_codebook

from ppdm_dask import Identity, MultiGroup, Product, RRMatrix, UnrelatedQuestion, Warner
from ppdm_dask.audit.adversary import MAX_REPORTS, Population, disclose, learn
from ppdm_dask.data.codebook import Records
from ppdm_dask.designs import Flip, RandomGroups
from ppdm_dask.experiments.inputs import prepare_all
from ppdm_dask.experiments.sweep.plan import SweepPlan, fill_privacy, single_attribute
from ppdm_dask.experiments.sweep.recipe import Recipe
from ppdm_dask.experiments.sweep.results import (
    ADVERSARIES,
    DISCLOSURES,
    SPLITS_AVERAGED,
    empty_arrays,
)


def population(codes, shape, names=None) -> Population:
    codes = np.asarray(codes)
    names = names or list("abcdefgh"[: codes.shape[1]])
    return Population.of(Records(codes, make_codebook(names, shape)))


def random_population(names, shape, seed, n=12) -> Population:
    """A few records, so that many joint categories never occur."""
    rng = np.random.default_rng(seed)
    return population(np.stack([rng.integers(k, size=n) for k in shape], axis=1), shape, names)


def enumerated(adversary, design, people):
    """Largest posterior and probability of a right guess of each attribute, by enumeration."""
    names = [name for block in design.blocks for name in block.attributes]
    order = [*names, *(name for name in people.names if name not in names)]
    shape = [people.shape[people.names.index(name)] for name in order]
    rest = [np.eye(k) for k in shape[len(names) :]]
    P = kron([*(block.matrix() for block in design.blocks), *rest])
    prior = people.table(order)
    if adversary == "product":
        prior = np.ones(())
        for name in order:
            prior = np.multiply.outer(prior, people.laws[name])
    joint = P * prior.ravel()
    digits = np.stack(np.unravel_index(np.arange(joint.shape[0]), shape), axis=1)
    found = []
    for axis in range(len(names)):
        values = digits[:, axis]
        reports = values if adversary == "own" else np.arange(len(joint))
        told = np.zeros((reports.max() + 1, shape[axis]))
        np.add.at(told, (reports[:, None], values[None, :]), joint)
        total = told.sum(axis=1)
        possible = total > 1e-15
        worst = (told[possible] / total[possible, None]).max()
        found.append((worst, told.max(axis=1).sum()))
    return np.array(found).T


def agree(design, people):
    for adversary in ADVERSARIES:
        got = learn(adversary, design, people)
        expected = enumerated(adversary, design, people)
        np.testing.assert_allclose(got, expected, atol=1e-12, err_msg=f"{adversary}: {design}")


THETAS = st.sampled_from([0.0, 0.1, 0.45, 0.5, 0.7, 0.9, 1.0])


@settings(max_examples=40)
@given(SEEDS, st.lists(THETAS, min_size=1, max_size=3), st.booleans())
def test_groups_equal_the_enumeration(seed, thetas, partial):
    """Unequal thetas, attributes of a group apart in the records, undisguised ones among them."""
    names = [f"x{i}" for i in range(6)]
    dealt = np.random.default_rng(seed).permutation(names[:5] if partial else names)
    groups = [list(dealt[j :: len(thetas)]) for j in range(len(thetas))]
    shape = [2] * 5 + [3 if partial else 2]
    agree(MultiGroup(groups, thetas), random_population(names, shape, seed))


@settings(max_examples=60)
@given(designs(max_blocks=2), SEEDS)
def test_any_design_equals_the_enumeration(design, seed):
    agree(design, random_population(design.attributes, design.shape, seed))


@settings(max_examples=40)
@given(SEEDS, st.sampled_from([0.0, 0.2, 0.6, 1.0]), st.booleans())
def test_an_unrelated_question_equals_the_enumeration(seed, q, fair):
    """Over all attributes, ternary ones too, and over some of them."""
    rng = np.random.default_rng(seed)
    shape = [2, 3, 2, 2]
    laws = [rng.dirichlet(np.ones(k)) for k in shape]
    laws[1] = np.array([0.4, 0.0, 0.6])
    people = random_population("abcd", shape, seed, n=9)
    some = UnrelatedQuestion(["a", "b"], q, [[0.5, 0.5], laws[1]] if fair else laws[:2])
    for design in (UnrelatedQuestion(list("abcd"), q, laws), some):
        agree(design, people)


def test_a_design_that_is_not_lumpable():
    P = np.random.default_rng(5).dirichlet(np.ones(4), size=4).T
    people = random_population("abc", [2, 2, 2], seed=1)
    agree(RRMatrix(["c", "a"], P, [2, 2]), people)
    agree(Product([RRMatrix(["c", "a"], P, [2, 2]), Warner("b", 0.8)]), people)


# -- known values ------------------------------------------------------------------------------


def test_the_claim_that_no_guess_beats_theta_is_false():
    """Theta = .7 and prior .9: the own report's posterior is .954545."""
    people = population([[1]] * 9 + [[0]], [2])
    own = disclose("own", Flip("a", 0.7), people)
    assert own.posterior == pytest.approx(0.63 / 0.66, abs=1e-15)
    assert round(own.posterior, 6) == 0.954545
    assert own.guess == pytest.approx(0.9)
    assert own.advantage == 0  # without a report the guess is as good


def test_six_attributes_at_q_of_six_tenths():
    """.903 by the own report, .976 by the whole one; the priors are .7, the personal bits fair."""
    codes = list(itertools.product((0, 1), repeat=6))
    weights = [7 ** sum(row) * 3 ** (6 - sum(row)) for row in codes]
    people = Population(
        tuple("abcdef"),
        (2,) * 6,
        np.array(codes),
        np.array(weights) / 10**6,
        {name: np.array([0.3, 0.7]) for name in "abcdef"},
    )
    design = UnrelatedQuestion(list("abcdef"), 0.6, 0.5)
    assert round(disclose("own", design, people).posterior, 3) == 0.903
    assert round(disclose("product", design, people).posterior, 3) == 0.976
    # These records are independent: knowing their joint law adds nothing.
    np.testing.assert_allclose(
        disclose("joint", design, people), disclose("product", design, people), atol=1e-12
    )


def test_one_group_hides_nothing_where_opposites_do_not_occur():
    people = population([[0, 0, 1], [0, 1, 0], [0, 0, 0]], [2, 2, 2])
    joint = disclose("joint", Flip(list("abc"), 0.6), people)
    assert joint.posterior == 1
    assert joint.guess == pytest.approx(1)
    assert joint.advantage == pytest.approx(1 / 3)
    # Where all records are alike frequent, only the coin is left to know.
    everybody = population(list(itertools.product((0, 1), repeat=3)), [2, 2, 2])
    for adversary in ADVERSARIES:
        found = disclose(adversary, Flip(list("abc"), 0.6), everybody)
        np.testing.assert_allclose(found, [0.6, 0.6, 0.1], atol=1e-15)


def test_more_groups_tell_less_of_the_coins():
    names = [f"x{i}" for i in range(6)]
    codes = np.random.default_rng(3).random((60, 6)) < 0.75
    people = population(codes.astype(int), [2] * 6, names)
    correct = {}
    for g in (1, 2, 3, 6):
        groups = [names[j::g] for j in range(g)]
        correct[g] = learn("product", MultiGroup(groups, 0.7), people).correct.max()
    assert correct[1] > correct[2] > correct[3] > correct[6]
    # A group of one attribute is its own report.
    alone = MultiGroup.by_attribute(people.names, 0.7)
    np.testing.assert_allclose(
        learn("product", alone, people), learn("own", alone, people), atol=1e-12
    )


@pytest.mark.parametrize("adversary", ADVERSARIES)
def test_no_disguise_at_the_ends(adversary):
    people = random_population("abc", [2, 2, 2], seed=8)
    for design in (
        Identity(list("abc"), [2, 2, 2]),
        Flip(list("abc"), 0),
        MultiGroup([["a"], ["b", "c"]], 1),
        UnrelatedQuestion(list("abc"), 1),
    ):
        found = disclose(adversary, design, people)
        assert found.posterior == found.guess == 1
        prior = min(law.max() for law in people.laws.values())
        assert found.advantage == pytest.approx(1 - prior)
    nothing = disclose(adversary, UnrelatedQuestion(list("abc"), 0), people)
    prior = max(law.max() for law in people.laws.values())
    np.testing.assert_allclose(nothing, [prior, prior, 0], atol=1e-15)


def test_what_is_not_disguised_does_not_count():
    people = population([[0, 0], [0, 1], [1, 0], [1, 1]], [2, 2])
    for adversary in ADVERSARIES:
        found = disclose(adversary, Product([Warner("b", 0.8), Identity("a", [2])]), people)
        np.testing.assert_allclose(found, [0.8, 0.8, 0.3], atol=1e-15)


# -- size --------------------------------------------------------------------------------------


def test_what_cannot_be_enumerated_is_not_known():
    d = 25
    assert 1 << d > MAX_REPORTS
    people = random_population([f"x{i}" for i in range(d)], [2] * d, seed=2, n=200)
    mixture, flip = UnrelatedQuestion(people.names, 0.4), Flip(people.names, 0.7)
    for design in (mixture, flip):
        own, whole = disclose("own", design, people), disclose("product", design, people)
        assert math.isnan(whole.guess)
        assert math.isnan(whole.advantage)
        assert own.posterior < whole.posterior <= 1
        assert not np.isnan(disclose("joint", design, people)).any()
    many_groups = MultiGroup.by_attribute(people.names, 0.7)
    assert np.isnan(disclose("joint", many_groups, people)).all()
    assert not np.isnan(disclose("product", many_groups, people)).any()


def test_long_records_neither_overflow_nor_underflow():
    d = 800
    people = random_population([f"x{i}" for i in range(d)], [2] * d, seed=4, n=30)
    for design in (UnrelatedQuestion(people.names, 0.01, 0.3), Flip(people.names, 0.55)):
        assert learn("product", design, people).posterior == pytest.approx(np.ones(d))
    uniform = population([[0] * d, [1] * d], [2] * d, list(people.names))
    posterior = learn("product", Flip(people.names, 0.55), uniform).posterior
    assert posterior == pytest.approx(np.full(d, 0.55))


# -- cells of a sweep --------------------------------------------------------------------------


def filled(config):
    recipe = Recipe.from_config(config)
    plan = SweepPlan(recipe, prepare_all(recipe))
    names = [f"{p.entry.id}/{name}" for p in plan.prepared for name in p.codebook.names]
    coordinates = {**recipe.coordinates, "column": names, "w_a": recipe.w_a}
    arrays = empty_arrays(coordinates, recipe.sweep.repeats, 1, DISCLOSURES)
    fill_privacy(arrays, plan)
    return plan, arrays


def test_groups_drawn_anew_are_averaged_over_twenty_splits():
    plan, arrays = filled(TREES)
    at = {point.index: plan.work.setting(cell) for point, cell, _ in plan.points}
    people = Population.of(plan.prepared[0].records)
    setting = at[0, 1, 2]  # two groups at theta = .8
    assert isinstance(setting.design, RandomGroups)
    each = [
        disclose("product", setting.design_for(repeat), people) for repeat in range(SPLITS_AVERAGED)
    ]
    assert len({found.guess for found in each}) > 1
    for i, measure in enumerate(("posterior", "guess", "advantage")):
        expected = np.mean([found[i] for found in each])
        assert arrays[f"{measure}_product"][0, 1, 2] == pytest.approx(expected, abs=1e-14)
    # Not the number of repeats but the design decides.
    _, more = filled(many(TREES, {"sweep.repeats": 3}))
    for name in DISCLOSURES:
        np.testing.assert_array_equal(arrays[name], more[name])
        assert not np.isnan(arrays[name]).any()


def test_what_single_reports_tell_does_not_depend_on_groups():
    plan, arrays = filled(TREES)
    for name in ("posterior_own", "guess_own", "advantage_own", "pse_attribute", "pse_curve"):
        np.testing.assert_array_equal(arrays[name][:, 0], arrays[name][:, 1])
    law = plan.prepared[0].records.column("class").mean()
    column = plan.prepared[0].codebook.index("class")
    expected = Flip("class", 0.8).pse([1 - law, law])
    assert arrays["pse_attribute"][column, 0, 2] == pytest.approx(expected)
    # Eq. of [ZhanDu]_'s coin: at theta the PSE of a fair attribute is 2 theta (1 - theta).
    assert arrays["pse_curve"][0, 0] == pytest.approx([0, 0.5, 0.32, 0])


def test_fixed_groups_are_those_of_the_repeats():
    plan, arrays = filled(many(TREES, {"design.split": "fixed"}))
    at = {point.index: plan.work.setting(cell) for point, cell, _ in plan.points}
    people = Population.of(plan.prepared[0].records)
    assert at[0, 1, 0].design_for(0).groups == at[0, 1, 2].design_for(7).groups
    found = disclose("joint", at[0, 1, 2].design_for(7), people)
    got = [arrays[f"{measure}_joint"][0, 1, 2] for measure in found._fields]
    assert got == pytest.approx(list(found))


def test_an_undefined_cell_has_its_privacy():
    plan, arrays = filled(changed("sweep.grid.q", [0, 0.6]))
    prior = max(law.max() for law in Population.of(plan.prepared[0].records).laws.values())
    assert arrays["posterior_joint"][0, 0] == pytest.approx(prior)
    assert arrays["advantage_product"][0, 0] == pytest.approx(0, abs=1e-15)
    assert arrays["advantage_product"][0, 1] > arrays["advantage_own"][0, 1] > 0


def test_the_design_of_a_single_attribute():
    drawn = {"id": "multigroup", "groups": 3, "theta": 0.8, "split": "fixed"}
    assert single_attribute(drawn) == MultiGroup([["A"]], 0.8)
    assert single_attribute({"id": "unrelated", "q": 0.5}) == UnrelatedQuestion("A", 0.5)
    assert single_attribute({"id": "unrelated", "q": 0.5, "w_y": [0.5, 0.2]}) is None
    assert single_attribute({"id": "multigroup", "groups": [["age"]], "theta": 0.8}) is None
