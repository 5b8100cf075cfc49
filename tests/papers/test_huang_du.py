"""OptRR: the paper's claims, the fronts that searches reach, and designs at the limit."""

from __future__ import annotations

import math

import checks
import numpy as np
import pytest
from search_priors import N_RECORDS, PRIORS

from ppdm_dask import Attribute, Codebook, Records, RRMatrix, Stream, count, invert
from ppdm_dask.randomness import SimulationStream
from ppdm_dask.search.limit import Limit, levels
from ppdm_dask.search.methods import optimal_designs, refine, settings_for, warner_matrices
from ppdm_dask.search.problem import Problem, evaluate
from ppdm_dask.search.spea2 import Evolution

FAITHFUL = {"normal": 0.75, "gamma": 0.55, "uniform": 0.83}
SLACK = 0.01
MEMETIC = {"normal": (0.86, 1.26), "gamma": (0.75, 1.21), "uniform": (0.91, 1.27)}


def warner_front(problem: Problem) -> tuple[np.ndarray, np.ndarray]:
    """Success and MSE of Warner's matrices that keep to delta."""
    found = evaluate(problem, warner_matrices(problem.n))
    kept = (found.worst <= problem.delta + 1e-12) & np.isfinite(found.mse)
    return 1 - found.privacy[kept], found.mse[kept]


@pytest.mark.parametrize(
    ("delta", "least"), [(0.6, 0.599), (0.7, 0.510), (0.8, 0.385), (0.9, 0.226)]
)
def test_warner_cannot_be_less_private(delta, least):
    loss, _ = warner_front(Problem(PRIORS["normal"], N_RECORDS, delta))
    assert 1 - loss.max() == pytest.approx(least, abs=1.1e-3)


def test_schemes_of_theorem_2_are_one():
    n, q = 10, 0.35
    uniform = q * np.eye(n) + (1 - q) / n
    frapp = (12.0 * np.eye(n) + (1 - np.eye(n))) / (12.0 + n - 1)
    for P in (uniform, frapp):
        p = P[0, 0]
        np.testing.assert_allclose(P, p * np.eye(n) + (1 - p) / (n - 1) * (1 - np.eye(n)))


def test_fact_1():
    assert float(math.comb(109, 100) ** 10) == pytest.approx(1.98e126, rel=0.01)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "expected"), [("normal", 0.447), ("gamma", 0.0), ("uniform", 0.661)]
)
def test_warner_s_front(limit_of, name, expected):
    limit = limit_of(name, 0.75)
    assert limit.hypervolume(*warner_front(limit.problem)) == pytest.approx(expected, abs=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("name", PRIORS)
def test_the_paper_s_search(limit_of, name, seed):
    """What holds after 20,000 generations: of one seed to the end, of the others when it is sure.

    A slot of Omega only ever gets a smaller error, so the front falls back by the width of a slot
    at most: less than SLACK of the hypervolume.
    """
    limit = limit_of(name, 0.75)
    evolution = Evolution(limit.problem, settings_for("spea2"), SimulationStream(seed))
    enough = FAITHFUL[name] + (SLACK if seed > 1 else 1.0)
    reached = [0.0]
    while not evolution.finished and reached[-1] < enough:
        for _ in range(500):
            evolution.step()
        _, found = evolution.omega.front()
        loss = 1 - found.privacy
        reached.append(limit.hypervolume(loss, found.mse))
        assert reached[-1] >= max(reached) - SLACK
    assert evolution.generation == 20_000 or seed > 1
    assert reached[-1] >= FAITHFUL[name]
    assert (found.mse >= limit.mse(loss)).all()
    ratios, warner = limit.ratios(loss, found.mse), limit.ratios(*warner_front(limit.problem))
    both = np.isfinite(ratios) & np.isfinite(warner)
    # Only at the two ends of the uniform prior's front, where Warner's matrices are near the limit.
    behind = both & (ratios > warner)
    assert not behind[5:95].any()
    assert name == "uniform" or not behind.any()


@pytest.mark.slow
@pytest.mark.parametrize("name", PRIORS)
def test_the_memetic_search(limit_of, name):
    """A sixth of its generations is enough: what polish has found at a level is never given up."""
    limit = limit_of(name, 0.75)
    settings = settings_for("memetic", generations=500)
    found = refine(limit.problem, settings, SimulationStream(1)).objectives
    summary = limit.summary(1 - found.privacy, found.mse)
    hypervolume, median = MEMETIC[name]
    assert summary["hypervolume"] >= hypervolume
    assert summary["median"] <= median
    assert (found.mse >= limit.mse(1 - found.privacy) * (1 - 1e-12)).all()


@pytest.fixture(scope="module")
def subset_design():
    problem = Problem(PRIORS["normal"], N_RECORDS, 0.75)
    limit = Limit.compute(problem, levels(problem)[[18]])
    (P,) = optimal_designs(limit, SimulationStream(1)).P
    return RRMatrix("a", P, p0=problem.prior), limit


@pytest.mark.parametrize("check", checks.BATTERY, ids=lambda check: check.__name__[6:])
def test_the_optimal_design_passes_the_battery(subset_design, check):
    check(subset_design[0])


@pytest.mark.slow
def test_the_optimal_design_attains_the_limit(subset_design):
    """2,000 samples of 10^6 records, each drawn afresh; reports by the law of their counts."""
    design, limit = subset_design
    n, repeats, p = 1_000_000, 2_000, design.p0
    rng = np.random.default_rng(20_080_101)
    B = design.left_inverse()
    errors = np.empty(repeats)
    for repeat in range(repeats):
        truth = rng.multinomial(n, p)
        reports = sum(rng.multinomial(m, design.P[:, x]) for x, m in enumerate(truth))
        errors[repeat] = ((B @ reports / n - p) ** 2).mean()
    # The limit is stated for 10,000 records.
    expected = float(limit.mse(limit.loss)[0]) * N_RECORDS / n
    assert abs(errors.mean() - expected) < 4 * errors.std() / math.sqrt(repeats)


@pytest.mark.slow
def test_a_million_records_through_the_package(subset_design):
    design, limit = subset_design
    n, p = 1_000_000, design.p0
    book = Codebook((Attribute("a", tuple("abcdefghij")),))
    rng = np.random.default_rng(3)
    errors = []
    for seed in range(20):
        records = Records(rng.choice(10, n, p=p).astype(np.uint8)[:, None], book)
        reports = design.disguise(records, Stream.from_seed(seed))
        estimate = invert(count(reports, design), design)
        errors.append(((estimate.values - p) ** 2).mean())
    expected = float(limit.mse(limit.loss)[0]) * N_RECORDS / n
    assert abs(np.mean(errors) - expected) < 4 * np.std(errors) / math.sqrt(20)
