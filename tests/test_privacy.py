"""Privacy measures against brute force over the joint law of truth and report."""

from __future__ import annotations

import itertools
import math

import checks
import numpy as np
import pytest
from hypothesis import given, settings
from strategies import SEEDS, blocks, codes_of, designs, joint_of, kron, laws

from ppdm_dask import (
    Identity,
    KaryResponse,
    Product,
    RRMatrix,
    UnrelatedQuestion,
    Warner,
    privacy,
)
from ppdm_dask.errors import DesignError


def joint_law(design, prior):
    """P(y, x), shape (reported, true), from the blocks' matrices."""
    return kron([block.matrix() for block in design.blocks]) * np.asarray(prior, float).ravel()


def brute_force(design, prior):
    """MAP privacy, worst posterior and expected Gini impurity, a report at a time."""
    right, worst, impurity = 0.0, 0.0, 0.0
    for row in joint_law(design, prior):
        total = row.sum()
        right += row.max()
        if total > 1e-15:
            worst = max(worst, row.max() / total)
            impurity += sum(part * (1 - part / total) for part in row)
    return 1 - right, worst, impurity


def prior_for(design, seed):
    rng = np.random.default_rng(seed)
    p = rng.dirichlet(np.ones(design.n_true))
    if design.n_true > 2:
        p[rng.integers(design.n_true)] = 0
        p /= p.sum()
    return p


@settings(max_examples=80)
@given(designs(), SEEDS)
def test_measures_equal_brute_force(design, seed):
    prior = prior_for(design, seed)
    got = design.privacy(prior), design.max_posterior(prior), design.pse(prior)
    np.testing.assert_allclose(got, brute_force(design, prior), atol=1e-12)
    assert 0 <= got[0] <= 1 - prior.max() + 1e-12
    assert prior.max() - 1e-12 <= got[1] <= 1 + 1e-12
    assert 0 <= got[2] <= 1 - 1 / design.n_true + 1e-12
    if got[1] < 1:
        assert got[0] >= 1 - got[1] - 1e-12  # Theorem 5 of [HuangDu]


@settings(max_examples=50)
@given(designs(), SEEDS)
def test_epsilon_equals_brute_force(design, seed):
    P = kron([block.matrix() for block in design.blocks])
    worst = 0.0
    for row in P[P.max(axis=1) > 0]:
        worst = max(worst, math.inf if row.min() <= 0 else math.log(row.max() / row.min()))
    assert design.epsilon() == pytest.approx(worst, abs=1e-12)


def test_epsilon_is_infinite_where_a_report_rules_a_truth_out():
    assert Identity("a", [3]).epsilon() == math.inf
    assert Warner("a", 1).epsilon() == math.inf
    assert RRMatrix("a", checks.HOLES).epsilon() == math.inf
    assert Product([Warner("a", 0.8), Identity("b", [2])]).epsilon() == math.inf
    assert UnrelatedQuestion("a", 0.5, [[0.5, 0.5, 0.0]]).epsilon() == math.inf
    assert UnrelatedQuestion("a", 0.0, [[0.5, 0.5, 0.0]]).epsilon() == 0  # 2 is never reported
    assert Identity("a", [1]).epsilon() == 0
    assert math.isclose(Warner("a", 0.8).epsilon(), math.log(4))
    assert math.isclose(Warner("a", 0.2).epsilon(), math.log(4))


@settings(max_examples=60)
@given(designs(max_blocks=2), SEEDS)
def test_posterior_is_bayes_rule(design, seed):
    prior = prior_for(design, seed)
    posterior = privacy.posterior(design, prior)
    for y, row in enumerate(joint_law(design, prior)):
        if row.sum() > 0:
            np.testing.assert_allclose(posterior[y], row / row.sum(), atol=1e-12)
        else:
            assert np.isnan(posterior[y]).all()


def test_a_report_that_cannot_occur_has_no_posterior():
    design = UnrelatedQuestion("a", 0.5, [[0.5, 0.5, 0.0]])
    posterior = privacy.posterior(design, [0.5, 0.5, 0.0])
    assert np.isnan(posterior[2]).all()
    np.testing.assert_allclose(posterior[0], [0.75, 0.25, 0])
    assert math.isclose(design.max_posterior([0.5, 0.5, 0.0]), 0.75)


def test_the_claim_that_no_guess_beats_theta_is_false():
    """Theta = .7 and prior .9: the posterior is .954545."""
    assert math.isclose(Warner("a", 0.7).max_posterior([0.9, 0.1]), 0.63 / 0.66)
    assert round(Warner("a", 0.7).max_posterior([0.9, 0.1]), 6) == 0.954545


def test_measures_at_the_ends():
    prior = [0.2, 0.5, 0.3]
    nothing = Identity("a", [3])
    assert (nothing.privacy(prior), nothing.max_posterior(prior), nothing.pse(prior)) == (0, 1, 0)
    everything = UnrelatedQuestion("a", 0, [[0.2, 0.3, 0.5]])
    assert math.isclose(everything.privacy(prior), 0.5)
    assert math.isclose(everything.max_posterior(prior), 0.5)
    assert math.isclose(everything.pse(prior), 1 - (0.04 + 0.25 + 0.09))


def test_adversaries_who_see_more_know_more():
    """Six attributes at q = .6: the worst posterior is .903 by own report, .976 by the whole."""
    prior = np.array([0.3, 0.7])
    block = UnrelatedQuestion([f"a{i}" for i in range(6)], 0.6, 0.5)
    whole = prior
    for _ in range(5):
        whole = np.multiply.outer(whole, prior)
    own = privacy.per_attribute(privacy.max_posterior, block, whole.ravel())
    expected = 0.7 * 0.8 / (0.7 * 0.8 + 0.3 * 0.2)
    assert {round(v, 12) for v in own.values()} == {round(expected, 12)}
    assert round(expected, 3) == 0.903
    # The whole report tells on one attribute: P(a0 = 1 | all six ones).
    posterior = privacy.posterior(block, whole.ravel())[-1].reshape(block.shape)
    assert round(posterior[1].sum(), 3) == 0.976


@settings(max_examples=60)
@given(blocks(["a", "b"]), SEEDS)
def test_one_attribute_of_a_block(block, seed):
    """The channel of one attribute, whether or not the block is lumpable."""
    prior = prior_for(block, seed)
    joint = joint_law(block, prior)
    codes = codes_of(np.arange(block.n_true), block.shape)
    for axis, name in enumerate(block.attributes):
        k = block.shape[axis]
        both = np.zeros((k, k))
        for (y, x), mass in np.ndenumerate(joint):
            both[codes[y, axis], codes[x, axis]] += mass
        channel, own = privacy.attribute_channel(block, name, prior)
        np.testing.assert_allclose(own, both.sum(axis=0), atol=1e-12)
        np.testing.assert_allclose(channel.matrix() * own, both, atol=1e-12)
        impurity = sum((r - r**2 / r.sum()).sum() for r in both if r.sum() > 1e-15)
        measured = privacy.per_attribute(privacy.pse, block, prior)[name]
        assert measured == pytest.approx(impurity, abs=1e-12)


# -- the unrelated question in closed form ---------------------------------------------------------


@given(laws(2), laws(2), laws(2))
def test_the_closed_form_is_the_gini_form(a, y, coin):
    w_a, w_y, q = a[1], y[1], coin[1]
    design = UnrelatedQuestion("a", q, [[1 - w_y, w_y]])
    closed = float(privacy.pse_unrelated(w_a, w_y, q))
    assert design.pse([1 - w_a, w_a]) == pytest.approx(closed, abs=1e-12)


def test_the_closed_form_broadcasts():
    q = np.array([0.0, 0.5, 1.0])
    values = privacy.pse_unrelated([[0.3], [0.5]], 0.5, q)
    assert values.shape == (2, 3)
    np.testing.assert_allclose(values[1], (1 - q**2) / 2)
    for (i, j), value in np.ndenumerate(values):
        assert value == privacy.pse_unrelated([0.3, 0.5][i], 0.5, q[j])


# -- conditions ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("prior", "says"),
    [
        ([0.5, 0.3, 0.2], "prior: 3 categories; 2 are needed for a"),
        ([0.5, 0.6], "prior: probabilities that sum to 1"),
        ([1.5, -0.5], "prior: probabilities"),
        ([float("nan"), 1], "prior: probabilities"),
    ],
)
def test_priors_are_checked(prior, says):
    for measure in (privacy.pse, privacy.map_privacy, privacy.max_posterior, privacy.posterior):
        with pytest.raises(DesignError, match=says):
            measure(Warner("a", 0.8), prior)


def test_a_prior_may_have_the_shape_of_the_block():
    block = UnrelatedQuestion(["a", "b"], 0.5)
    prior = np.array([[0.1, 0.2], [0.3, 0.4]])
    assert block.pse(prior) == block.pse(prior.ravel())


def test_structured_designs_measure_thousands_of_categories():
    """Product priors: the measures of 2,925 categories by a plain loop over reports."""
    design = KaryResponse("a", 2_925, 0.3)
    prior = np.random.default_rng(1).dirichlet(np.ones(2_925))
    off = 0.7 / 2_924
    right = impurity = 0.0
    for y in range(2_925):
        row = off * prior
        row[y] = 0.3 * prior[y]
        right += row.max()
        impurity += row.sum() - (row**2).sum() / row.sum()
    assert design.privacy(prior) == pytest.approx(1 - right, abs=1e-12)
    assert design.pse(prior) == pytest.approx(impurity, abs=1e-12)


def test_joint_prior_of_a_block_that_moves_together():
    """Flipped together under a joint prior without complements, a report gives itself away."""
    design = RRMatrix(["a", "b"], checks.BOTH_FLIPPED, [2, 2])
    joint = np.array([0.5, 0.0, 0.5, 0.0])  # 00 and 10; their complements 11 and 01 never occur
    assert design.max_posterior(joint) == 1
    assert math.isclose(design.privacy(joint), 0)
    own = privacy.per_attribute(privacy.max_posterior, design, joint)
    assert math.isclose(own["a"], 0.8)


def test_joint_indices_are_row_major():
    shape = (2, 3, 2)
    for joint, codes in enumerate(itertools.product(*map(range, shape))):
        assert joint_of([codes], shape)[0] == joint
        assert codes_of([joint], shape)[0].tolist() == list(codes)
