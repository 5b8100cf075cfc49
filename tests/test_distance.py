"""How far designs are from the best possible: exact cases, and designs that are the best."""

from __future__ import annotations

import math

import numpy as np
import pytest

from ppdm_dask import KaryResponse, UnrelatedQuestion, Warner, optimize
from ppdm_dask.designs import Flip, Mangat, SubsetSelection, UnaryEncoding
from ppdm_dask.search import distances
from ppdm_dask.search.cones import Epsilon
from ppdm_dask.search.optimum import optimum

SKEWED = [0.6, 0.2, 0.1, 0.05, 0.03, 0.02]


def by_privacy(block, priors=None):
    return {each.privacy.split()[0]: each for each in distances(block, priors or {})}


def test_warner_is_the_best_of_its_epsilon_for_even_answers():
    found = by_privacy(Warner("a", 0.8))
    assert found["epsilon"].times == pytest.approx(1, rel=1e-8)
    assert found["epsilon"].sentence.startswith("a: 1 times as many reports as the best design")


def test_subset_selection_of_the_best_size_is_the_best_for_even_categories():
    n, epsilon = 12, 1.0
    even = np.full(n, 1 / n)
    sizes = {s: SubsetSelection("a", n, s, epsilon=epsilon) for s in range(1, n)}
    noise = {s: math.fsum(design.variance(even)) for s, design in sizes.items()}
    best = min(noise, key=noise.get)
    for s, design in sizes.items():
        times = by_privacy(design)["epsilon"].times
        assert times == pytest.approx(max(noise[s] / noise[best], 1), rel=1e-6)


@pytest.mark.parametrize("make", [KaryResponse, UnaryEncoding])
def test_the_ratio_is_that_of_the_noises(make):
    design = make("a", 6, epsilon=1.5)
    found = by_privacy(design, {"a": SKEWED})["epsilon"]
    least = optimum(SKEWED, Epsilon(1.5)).noise
    assert found.times == pytest.approx(math.fsum(design.variance(np.array(SKEWED))) / least)
    assert found.times > 1.02


def test_an_infinite_epsilon_leaves_the_posterior():
    found = distances(Mangat("a", 0.75), {"a": [0.8, 0.2]})
    # Its report of no is certain, so there is no bound on the posterior of both either.
    assert [each.times for each in found] == [None]
    assert found[0].sentence == "a: how far it is from the best possible design is not known"


def test_joint_blocks_are_compared_by_their_joint_table():
    block = UnrelatedQuestion(["a", "b"], 0.5)
    found = by_privacy(block)["epsilon"]
    P, even = block.matrix(), np.full(4, 1 / 4)
    J = P.T @ np.diag(1 / (P @ even)) @ P
    noise = np.trace(np.linalg.inv(J)) - 1 / 4
    assert found.times == pytest.approx(noise / optimum(even, Epsilon(block.epsilon())).noise)
    assert [each.times for each in distances(Flip([f"a{i}" for i in range(30)], 0.8), {})] == [None]


def test_a_front_s_design_is_the_best_possible():
    import ppdm_dask as pp

    front = optimize(SKEWED, 1_000, epsilon=1.0)
    design = pp.chosen_design(front, "a")
    assert by_privacy(design, {"a": SKEWED})["epsilon"].times == pytest.approx(1, rel=1e-7)
