"""What the electronic-surveys sweep finds at full size, on the bundled data.  [ZhanMatwin]_."""

from __future__ import annotations

import math
from functools import cache

import numpy as np
import pytest

from ppdm_dask import Recipe
from ppdm_dask.experiments.grid import moments
from ppdm_dask.experiments.inputs import prepare_all
from ppdm_dask.experiments.sweep.plan import SweepPlan

pytestmark = pytest.mark.slow

REPEATS = 400


@cache
def plan(recipe: str) -> SweepPlan:
    found = Recipe.load(recipe).with_changes(repeats=REPEATS)
    return SweepPlan(found, prepare_all(found))


@cache
def trials(cell_id: str, recipe: str = "electronic-surveys", repeats: int = REPEATS):
    cell = next(cell for cell in plan(recipe).cells if cell.id == cell_id)
    results = plan(recipe).work.trials(cell, 0, min(repeats, cell.repeats))
    return results, plan(recipe).work.setting(cell).sample.n_test


def accuracy(cell_id: str):
    results, n_test = trials(cell_id)
    return moments(results["correct"], n_test)


def majority_of(data: int) -> tuple[int, int]:
    sample = (
        plan("electronic-surveys").work.setting(plan("electronic-surveys").benchmarks[data]).sample
    )
    return sample.majority_correct(20_040_101, 0), sample.n_test


@pytest.mark.parametrize("data", ["adult-median", "breast-cancer"])
def test_accuracy_falls_and_its_variance_rises_towards_q_of_zero(data):
    whole = accuracy(f"{data} q=1")
    assert whole.variance == 0
    for q in ("0.05", "0.1", "0.2"):
        low = accuracy(f"{data} q={q}")
        assert whole.mean - low.mean > 4 * low.mean_se
    noisy, quiet = accuracy(f"{data} q=0.1"), accuracy(f"{data} q=0.9")
    assert noisy.variance - quiet.variance > 4 * math.hypot(noisy.variance_se, quiet.variance_se)


def test_adult_at_mid_range_rises():
    """The majority is .765 and the classifier no better: a finding, and no fault."""
    whole, less = accuracy("adult-midrange q=1"), accuracy("adult-midrange q=0.4")
    assert less.mean - whole.mean > 4 * less.mean_se
    majority, n_test = majority_of(0)
    assert whole.mean < majority / n_test - 0.02


@pytest.mark.parametrize("data", ["adult-midrange", "adult-median", "breast-cancer"])
def test_disguised_test_parts_give_the_accuracy_of_clean_ones(data):
    compared = 0
    for q in ("0.05", "0.1", "0.2", "0.3", "0.5", "0.7", "0.9"):
        results, n_test = trials(f"{data} q={q}")
        clean = moments(results["correct"], n_test)
        disguised = moments(results["accuracy_disguised"])
        if disguised.variance < 0.2**2:
            error = math.hypot(clean.mean_se, disguised.mean_se)
            assert abs(clean.mean - disguised.mean) < 4 * error
            compared += 1
    assert compared >= 3


def test_undisguised_baselines():
    """Over 20 redrawn splits of four fifths."""
    expected = {"breast-cancer": (0.959, 0.02), "adult-median": (0.80, 0.02)}
    for data, (value, within) in expected.items():
        results, n_test = trials(f"{data} undisguised", "electronic-surveys-redrawn", 20)
        assert len(results["correct"]) == 20
        assert np.mean(results["correct"]) / n_test == pytest.approx(value, abs=within)


def test_majority_class_of_adult():
    correct, n_test = majority_of(0)
    assert n_test == 9_768
    assert correct / n_test == pytest.approx(37_155 / 48_842, abs=0.01)
