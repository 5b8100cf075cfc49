"""Fitness and environmental selection: the kernels equal the paper's definitions, and DEAP."""

from __future__ import annotations

import math

import numpy as np
import plain_spea2
import pytest
from deap import base, creator, tools

from ppdm_dask.search.operators import assign_fitness, select

if not hasattr(creator, "PlainMinimum"):
    creator.create("PlainMinimum", base.Fitness, weights=(-1.0, -1.0))
    creator.create("PlainPoint", list, fitness=creator.PlainMinimum)


def random_points(rng: np.random.Generator, objectives: int = 2) -> np.ndarray:
    """Points with ties and duplicates, or distinct ones, or a chain of non-dominated ones."""
    n = int(rng.integers(1, 17))
    kind = rng.integers(4)
    if kind == 0:
        return rng.random((n, objectives))
    if kind == 1:
        return rng.integers(0, 5, (n, objectives)).astype(float)
    if kind == 2 and objectives == 2:
        x = rng.choice(np.linspace(0, 1, 9), n) if rng.random() < 0.5 else rng.random(n)
        return np.stack([x, 1 - x], axis=1)
    points = rng.random((n, objectives))
    return points[rng.integers(0, n, n)]


@pytest.mark.parametrize("objectives", [2, 3])
def test_fitness_and_selection_are_those_of_the_paper(objectives):
    rng = np.random.default_rng(20_080_101)
    over = under = ties = 0
    for _ in range(2_000):
        F = random_points(rng, objectives)
        k, size = int(rng.integers(1, 6)), int(rng.integers(1, 12))
        found = assign_fitness(F, k)
        expected = plain_spea2.fitness(F.tolist(), k)
        assert list(zip(found.strength, found.raw, strict=True)) == [e[:2] for e in expected]
        np.testing.assert_array_equal(found.sigma, [e[2] for e in expected])
        free = int((found.raw == 0).sum())
        over, under = over + (free > size), under + (free < size < len(F))
        ties += len(np.unique(F, axis=0)) < len(F)
        chosen = select(F, found, size).tolist()
        assert chosen == plain_spea2.select(F.tolist(), k, size), F.tolist()
    assert min(over, under, ties) > 200  # each situation was met


def test_a_lone_point_has_no_density():
    found = assign_fitness(np.array([[0.3, 0.4]]))
    assert found.sigma.tolist() == [math.inf]
    assert found.total.tolist() == [0.0]
    assert select(np.array([[0.3, 0.4]]), found, 5).tolist() == [0]


def test_both_kernels_agree_on_two_objectives():
    from ppdm_dask.kernels.spea2 import assign_any, select_any

    rng = np.random.default_rng(7)
    for _ in range(300):
        F = random_points(rng)
        found = assign_fitness(F, 2)
        strength, raw, sigma = np.zeros(len(F), int), np.zeros(len(F), int), np.zeros(len(F))
        assign_any(F, max(1, min(2, len(F) - 1)), strength, raw, sigma)
        np.testing.assert_array_equal(raw, found.raw)
        np.testing.assert_array_equal(sigma, found.sigma)
        np.testing.assert_array_equal(select_any(F, raw, sigma, 6), select(F, found, 6))


def test_truncation_keeps_the_set_that_deap_keeps():
    rng = np.random.default_rng(11)
    compared = 0
    for _ in range(150):
        F = random_points(rng)
        fitness = assign_fitness(F)
        free = int((fitness.raw == 0).sum())
        if free < 2:
            continue
        size = int(rng.integers(1, free))
        members = []
        for i, values in enumerate(F.tolist()):
            member = creator.PlainPoint([i])
            member.fitness.values = values
            members.append(member)
        theirs = {member[0] for member in tools.selSPEA2(members, size)}
        assert set(select(F, fitness, size).tolist()) == theirs
        compared += 1
    assert compared > 75


def test_fitness_reads_like_the_example_of_the_paper():
    # Figure 2: three matrices that nothing dominates; the crowded one has the worst fitness.
    F = np.array([[0.1, 0.9], [0.2, 0.8], [0.8, 0.1], [0.5, 0.9]])
    found = assign_fitness(F)
    assert found.raw.tolist() == [0, 0, 0, 2]
    assert found.strength.tolist() == [1, 1, 0, 0]
    assert found.total[0] == found.total[1] > found.total[2]
    assert (found.total[:3] < 1).all() and found.total[3] > 1
