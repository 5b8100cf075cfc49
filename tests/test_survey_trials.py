"""Trials of surveys in two stages and of frequencies, against theory and what is known."""

from __future__ import annotations

import math

import numpy as np
import pytest

from ppdm_dask.designs import UnaryEncoding
from ppdm_dask.errors import InputError
from ppdm_dask.experiments.trials.frequency import FrequencyTrial
from ppdm_dask.experiments.trials.stages import StagesTrial
from ppdm_dask.files.fields import TomlTable
from ppdm_dask.randomness import SimulationStream

TRUTH = (0.6, 0.25, 0.1, 0.05)


def run(trial, repeats, seed=1):
    ready = trial.ready(None)
    found = trial.batch([SimulationStream(seed, (i,)) for i in range(repeats)], ready)
    return {name: dict(zip(trial.variants, a.T, strict=True)) for name, a in found.items()}


def test_frequencies_of_even_categories_by_formulas_from_the_literature():
    eps, k, n = 2.0, 50, 400
    trial = FrequencyTrial(epsilon=eps, n=n, k=k)
    found = run(trial, 60)
    e = math.exp(eps)
    # n Var of each category by Wang et al., 2017, and what drawing the people adds.
    own = 1 / k - 1 / k**2
    p, q = e / (e + k - 1), 1 / (e + k - 1)
    kary = (q * (1 - q) + (1 / k) * (p - q) * (1 - p - q)) / (p - q) ** 2 + own
    assert found["expected"]["k-ary"][0] == pytest.approx(kary)
    p, q = 0.5, 1 / (e + 1)
    oue = (q * (1 - q) + (1 / k) * (p - q) * (1 - p - q)) / (p - q) ** 2 + own
    textbook = UnaryEncoding("value", k, epsilon=eps, inverse="textbook")
    assert textbook.variance(np.full(k, 1 / k)).mean() == pytest.approx(oue)
    # The weights of least variance make a little more of the same reports.
    assert 0.95 * oue < found["expected"]["OUE"][0] < oue
    # Of even categories the best subset selection is the optimum.
    assert found["ratio"]["subset selection"][0] == pytest.approx(1, abs=1e-6)
    for name in trial.variants:
        error = found["error"][name]
        spread = error.std(ddof=1) / math.sqrt(len(error))
        assert abs(error.mean() - found["expected"][name][0]) < 4.5 * spread


def test_no_mechanism_is_below_the_limit_of_uneven_categories():
    found = run(FrequencyTrial(epsilon=3.0, n=100, k=20, common=4, share=0.6), 1)
    ratios = [each[0] for each in found["ratio"].values()]
    assert min(ratios) >= 1
    assert max(ratios) > 1.1


def test_two_stages_by_theory_lie_between_the_guess_and_the_truth():
    found = run(StagesTrial(epsilon=2.0, n=600, truth=TRUTH, pilot=0.2), 1)
    guess, both, truth = (found["expected"][name][0] for name in StagesTrial.variants)
    assert truth < both < guess
    assert both == pytest.approx(0.2 * guess + 0.8 * truth, rel=1e-6)


@pytest.mark.slow
def test_two_stages_are_unbiased_and_their_intervals_cover():
    repeats = 500
    found = run(StagesTrial(epsilon=2.0, n=1500, truth=TRUTH, pilot=0.2), repeats)
    for name in StagesTrial.variants:
        bias, error = found["bias"][name], found["error"][name]
        assert abs(bias.mean()) < 4 * bias.std() / math.sqrt(repeats)
        assert 0.93 < found["coverage"][name].mean() < 0.97
        assert error.mean() == pytest.approx(found["expected"][name][0], rel=0.15)


@pytest.mark.parametrize(
    ("trial", "parameters", "message"),
    [
        (FrequencyTrial, {"epsilon": 1.0, "n": 10, "k": 3, "common": 3}, "common: got 3"),
        (FrequencyTrial, {"epsilon": 1.0, "n": 10, "k": 3, "share": 0.4}, "share: got 0.4"),
        (StagesTrial, {"epsilon": 1.0, "n": 10, "truth": [0.5, 0.6]}, "truth: got"),
        (
            StagesTrial,
            {"epsilon": 1.0, "n": 10, "truth": [0.5, 0.5], "guess": [0.2, 0.3, 0.5]},
            "guess: got",
        ),
    ],
)
def test_what_is_refused(trial, parameters, message):
    with pytest.raises(InputError, match=message):
        trial.from_table(TomlTable(parameters, "recipe"))


def test_repeats_do_not_depend_on_their_neighbours():
    trial = StagesTrial(epsilon=1.0, n=100, truth=TRUTH)
    ready = trial.ready(None)
    streams = [SimulationStream(3, (i,)) for i in range(3)]
    whole = trial.batch(streams, ready)["error"]
    alone = [trial.batch([stream], ready)["error"][0] for stream in streams]
    assert np.array_equal(whole, np.array(alone))
