"""Surveys in two stages: unbiased with fixed weights, errors that cover, what is refused."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

import ppdm_dask as pp
from ppdm_dask.errors import InputError
from ppdm_dask.inference.stratified import Stratified

LABELS = ("never", "once", "often")
TRUTH = np.array([0.75, 0.2, 0.05])
BOOK = pp.Codebook((pp.Attribute("answer", LABELS),))
GUESS = dict(zip(LABELS, (0.4, 0.3, 0.3), strict=True))


def reports_of(design, symbols):
    return pp.Reports(
        np.array(symbols)[:, None], BOOK, 0, design.digest, reported_sizes=(len(design.matrix()),)
    )


def drawn(design, n, rng):
    law = design.matrix() @ TRUTH
    return reports_of(design, rng.choice(len(law), n, p=law / law.sum()))


def every_sample(design, n):
    """Samples of n reports up to their order, with the probability of each."""
    law = design.matrix() @ TRUTH
    for sample in itertools.combinations_with_replacement(range(len(law)), n):
        orders = math.factorial(n)
        for symbol in set(sample):
            orders //= math.factorial(sample.count(symbol))
        yield reports_of(design, sample), orders * math.prod(law[list(sample)])


@pytest.mark.parametrize("weights", ["planned", "sizes", (0.7, 0.3)])
def test_the_estimate_is_unbiased_over_every_pilot_and_second_sample(weights):
    kary = pp.KaryResponse("answer", 3, p=0.5)
    plan = pp.TwoStage(GUESS, (3, 2), epsilon=1.0, first=kary, weights=weights)
    mean, whole, designs = np.zeros(3), 0.0, set()
    for pilot, p_pilot in every_sample(kary, 3):
        design = plan.second(pilot)
        designs.add(design.digest)
        for second, p_second in every_sample(design, 2):
            found = plan.estimate(pilot, second, design=design)
            mean += p_pilot * p_second * np.asarray(found.values)
            whole += p_pilot * p_second
    assert whole == pytest.approx(1)
    assert mean == pytest.approx(TRUTH, abs=1e-10)
    assert len(designs) > 1


def test_both_stages_add_with_the_planned_weights():
    kary = pp.KaryResponse("answer", 3, p=0.5)
    plan = pp.TwoStage(GUESS, (300, 700), epsilon=2.0, first=kary)
    best = pp.robust_design([GUESS], epsilon=2.0).design
    precision = [
        300 / kary.variance(GUESS).sum(),
        700 / best.variance(list(GUESS.values())).sum(),
    ]
    assert plan.shares == pytest.approx(np.array(precision) / sum(precision), rel=1e-6)
    rng = np.random.default_rng(5)
    pilot = drawn(kary, 300, rng)
    design = plan.second(pilot)
    second = drawn(design, 700, rng)
    found = plan.estimate(pilot, second)
    parts = [
        pp.estimate(reports, ["answer"], design=each)
        for reports, each in ((pilot, kary), (second, design))
    ]
    a, b = plan.shares
    assert found.values == pytest.approx(a * parts[0].values + b * parts[1].values)
    assert found.variance == pytest.approx(a**2 * parts[0].variance + b**2 * parts[1].variance)
    assert found.effective_size == pytest.approx(1 / (a**2 / 300 + b**2 / 700))
    event = plan.estimate(pilot, second, {"answer": ["once", "often"]})
    assert event.value == pytest.approx(found.values[1:].sum())


def test_the_second_design_is_the_best_at_the_estimate():
    plan = pp.TwoStage(GUESS, (400, 400), epsilon=1.0)
    pilot = drawn(plan.first, 400, np.random.default_rng(2))
    estimate = pp.estimate(pilot, ["answer"], design=plan.first)
    design = plan.second(pilot)
    assert design.matrix() == pytest.approx(plan.second(estimate).matrix())
    from ppdm_dask.search import cheapest_epsilon, plausible_prior

    prior = plausible_prior(estimate, 0.5 / 400)
    limit = cheapest_epsilon(prior, 1.0).noise
    assert math.fsum(design.variance(prior)) == pytest.approx(limit, rel=1e-6)
    assert design.epsilon() == pytest.approx(1.0)


def test_a_region_keeps_the_posterior_at_all_of_it():
    plan = pp.TwoStage(GUESS, (2000, 2000), max_posterior=0.9, level=0.9)
    pilot = drawn(plan.first, 2000, np.random.default_rng(4))
    from ppdm_dask.search import confidence_priors

    estimate = pp.estimate(pilot, ["answer"], design=plan.first)
    design = plan.second(pilot)
    worst = [design.max_posterior(p) for p in confidence_priors(estimate, 0.9, 25)]
    assert max(worst) == pytest.approx(0.9)
    bold = pp.TwoStage(GUESS, (2000, 2000), max_posterior=0.9).second(pilot)
    assert max(bold.max_posterior(p) for p in confidence_priors(estimate, 0.9, 25)) > 0.9


def test_shares_of_strata_have_to_be_weights():
    designs = [pp.KaryResponse("answer", 3, p=0.5), pp.KaryResponse("answer", 3, p=0.8)]
    rng = np.random.default_rng(0)
    strata = [drawn(design, 60, rng) for design in designs]
    both = Stratified(designs)
    even = both.estimate(strata, ["answer"], shares=[0.5, 0.5])
    usual = both.estimate(strata, ["answer"])
    assert even.values == pytest.approx(usual.values)
    assert np.asarray(even.ends()) == pytest.approx(np.asarray(usual.ends()))
    with pytest.raises(InputError, match="2 weights of sum 1 are needed"):
        both.estimate(strata, ["answer"], shares=[0.5, 0.6])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"guess": [0.5, 0.5]}, "guess: got"),
        ({"sizes": 100}, "sizes: got 100; reports of two stages"),
        ({"sizes": (1, 5)}, r"sizes\[0\]: got 1"),
        ({"sizes": None}, "sizes: got None; reports of two stages"),
        ({"weights": "best"}, "weights: got 'best'"),
        ({"weights": None}, "weights: got None"),
        ({"weights": 5}, "weights: got 5"),
        ({"weights": (0.5, 0.6)}, "weights: got"),
        ({"level": 2.0}, "level: got 2"),
        ({"epsilon": None}, "epsilon, max_posterior: give one of them"),
        ({"first": "kary"}, "first: got 'kary'; a design"),
        # Its likelihoods have the ratio .9 / .05 = 18.
        ({"first": pp.KaryResponse("answer", 3, p=0.9)}, "first: got an epsilon of 2.89037176; 1 "),
        # By Bayes' theorem .4 .5 / (.4 .5 + .6 .25) = 4 / 7.
        (
            {
                "first": pp.KaryResponse("answer", 3, p=0.5),
                "epsilon": None,
                "max_posterior": 0.55,
            },
            "first: got a posterior of 0.571428571; 0.55 ",
        ),
        ({"first": pp.KaryResponse("other", 3, p=0.5)}, "first: got a design of 'other'"),
        ({"first": pp.KaryResponse("answer", 4, p=0.5)}, "with 4 categories; one of 'answer' with"),
        (
            {"first": pp.KaryResponse("answer", 3, p=1 / 3), "weights": "sizes"},
            "reports do not depend on the truth",
        ),
    ],
)
def test_what_is_refused(options, message):
    given = {"guess": GUESS, "sizes": (10, 10), "epsilon": 1.0} | options
    guess, sizes = given.pop("guess"), given.pop("sizes")
    with pytest.raises(InputError, match=message):
        pp.TwoStage(guess, sizes, **given)
