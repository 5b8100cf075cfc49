"""The simulated cluster of the scaling page, against closed forms and cases done by hand."""

from __future__ import annotations

import importlib.util
import math
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

PATH = Path(__file__).resolve().parents[1] / "benchmarks" / "cluster_model.py"


@pytest.fixture(scope="module")
def model() -> ModuleType:
    spec = importlib.util.spec_from_file_location("cluster_model", PATH)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["cluster_model"] = module
    spec.loader.exec_module(module)
    return module


def always(seconds: float) -> Callable[[], float]:
    return lambda: seconds


@pytest.mark.parametrize(("workers", "batches"), [(1, 7), (3, 12), (3, 13), (5, 3)])
def test_without_costs_workers_are_always_busy(
    model: ModuleType, workers: int, batches: int
) -> None:
    out = model.simulate(workers, batches, always(2.0), model.Costs(0.0, 0.0))
    assert len(out.stored) == batches
    assert out.seconds == pytest.approx(2.0 * math.ceil(batches / workers))


@pytest.mark.parametrize("shared", [True, False])
def test_one_worker_that_holds_one_batch_goes_round_in_a_circle(
    model: ModuleType, shared: bool
) -> None:
    # Batch 1 and 2 by hand, all else the same: out, computed, back, served, stored; the scheduler
    # hands out the next as soon as it has served the report, while the driver stores.
    costs = model.Costs(0.25, 0.5, worker=0.125, latency=0.0625, shared=shared)
    out = model.simulate(1, 6, always(1.0), costs, window=4, held=1)
    circle = 0.0625 + 0.125 + 1.0 + 0.0625 + 0.25
    tail = 0.5 if shared else 0.0625 + 0.5
    np.testing.assert_allclose(out.stored, [circle * n + tail for n in range(1, 7)])


def test_with_one_batch_in_flight_the_circle_holds_the_driver_too(model: ModuleType) -> None:
    costs = model.Costs(0.25, 0.5, worker=0.125, latency=0.0625)
    out = model.simulate(1, 4, always(1.0), costs, window=1)
    circle = 0.0625 + 0.125 + 1.0 + 0.0625 + 0.25 + 0.5
    np.testing.assert_allclose(out.stored, [circle * n for n in range(1, 5)])


def test_a_second_batch_at_hand_hides_the_way_to_the_scheduler(model: ModuleType) -> None:
    costs = model.Costs(0.1, 0.1, latency=0.2)
    out = model.simulate(1, 40, always(1.0), costs)
    assert out.rate == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("scheduler", "driver", "shared", "rate"),
    [(0.02, 0.03, True, 20.0), (0.02, 0.03, False, 1 / 0.03), (0.04, 0.01, False, 25.0)],
)
def test_the_slowest_process_sets_the_rate(
    model: ModuleType, scheduler: float, driver: float, shared: bool, rate: float
) -> None:
    costs = model.Costs(scheduler, driver, shared=shared)
    assert 1 / costs.slowest == pytest.approx(rate)
    out = model.simulate(50, 2_000, always(0.1), costs)
    assert out.rate == pytest.approx(rate, rel=1e-3)


@pytest.mark.parametrize("workers", [1, 4, 10, 30])
def test_asymptotic_bounds(model: ModuleType, workers: int) -> None:
    """Operational analysis: a rate is at most what workers, and what the slowest server, can do."""
    rng = np.random.default_rng(workers)
    costs = model.Costs(0.03, 0.05, worker=0.01, latency=0.002)
    out = model.simulate(workers, 200 * workers, lambda: rng.uniform(0.5, 1.5), costs)
    most = min(workers / (1.0 + 0.01), 1 / costs.slowest)
    assert 0.75 * most < out.rate < 1.02 * most


@pytest.mark.parametrize("workers", [2, 5, 12])
def test_machine_repair(model: ModuleType, workers: int) -> None:
    """One server and exponential times: Palm's formula for machines that wait for a repairman."""
    task, serve = 1.0, 0.2
    load = serve / task
    weights = [math.perm(workers, n) * load**n for n in range(workers + 1)]
    expected = (1 - weights[0] / sum(weights)) / serve
    rng = np.random.default_rng(workers)
    out = model.simulate(
        workers,
        60_000,
        lambda: rng.exponential(task),
        model.Costs(0.0, serve),
        window=1,
        held=1,
        service=lambda mean: rng.exponential(mean) if mean else 0.0,
    )
    # The rate is over 30,000 batches; its relative error is below their number's, 1 / 173.
    assert out.rate == pytest.approx(expected, rel=0.02)


def test_every_batch_is_stored_once_and_in_order(model: ModuleType) -> None:
    rng = np.random.default_rng(1)
    for workers, batches in ((1, 1), (7, 3), (7, 200)):
        out = model.simulate(workers, batches, lambda: rng.exponential(1.0), model.Costs(0.01, 0.1))
        assert len(out.stored) == batches
        assert out.stored == sorted(out.stored)
