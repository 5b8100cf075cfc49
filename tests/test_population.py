"""Where an objective is evaluated: what is measured, and how populations are cut.

On real workers: tests/cluster/test_population_workers.py.
"""

from __future__ import annotations

import os
import signal
from types import SimpleNamespace

import numpy as np
import pytest

from ppdm_dask.cluster import population
from ppdm_dask.cluster.losses import PoolLost
from ppdm_dask.cluster.population import cut, population_map
from ppdm_dask.errors import InputError, PPDMError
from ppdm_dask.search.problem import BLOCK


@pytest.fixture
def clock(monkeypatch):
    """A clock that objectives advance."""
    now = [0.0]
    monkeypatch.setattr(population, "perf_counter", lambda: now[0])
    return now


def stack(m: int) -> np.ndarray:
    return np.arange(m * 4.0).reshape(m, 2, 2)


class Costly:
    """Takes some seconds for the first block and for each matrix of the later ones."""

    def __init__(self, clock, first, then):
        self.clock, self.first, self.then = clock, first, then
        self.seen = []

    def __call__(self, P):
        self.clock[0] += self.first if not self.seen else self.then * len(P)
        self.seen.append(len(P))
        return P[:, 0, 0]


@pytest.mark.parametrize(
    ("first", "then", "seconds", "away", "seen"),
    [
        (0.08, 9.0, 0.01, False, [8, 92]),
        # The first block may load and compile, which the second does not.
        (3.0, 0.049, 0.049, False, [8, 8, 84]),
        (3.0, 0.051, 0.051, True, [8, 8]),
    ],
)
def test_the_cost_decides_on_the_first_population(clock, first, then, seconds, away, seen):
    objective = Costly(clock, first, then)
    with population_map(workers=2) as mapped:
        mapped._on_workers = lambda P: [P[:50, 0, 0], P[50:, 0, 0]]
        parts = mapped(objective, [stack(100)])
        assert mapped.seconds == pytest.approx(seconds)
        assert mapped.away is away
        assert objective.seen == seen
        np.testing.assert_array_equal(np.concatenate(parts), stack(100)[:, 0, 0])
        # It is measured once.
        again = mapped(objective, [stack(70), stack(10)])
        np.testing.assert_array_equal(
            np.concatenate(again), np.concatenate([stack(70), stack(10)])[:, 0, 0]
        )
        assert objective.seen == (seen if away else [*seen, 70, 10])


def test_another_objective_is_measured_anew(clock):
    with population_map(workers=0) as mapped:
        mapped(Costly(clock, 9.0, 1.0), [stack(20)])
        assert mapped.seconds == 1.0 and not mapped.away
        mapped(Costly(clock, 0.0, 0.0), [stack(20)])
        assert mapped.seconds == 0.0


def test_one_core_needs_no_worker(clock, monkeypatch):
    monkeypatch.setattr(population, "usable_cores", lambda: 1)
    with population_map() as mapped:
        assert len(np.concatenate(mapped(Costly(clock, 9.0, 9.0), [stack(20)]))) == 20
        assert not mapped.away


class Shaky:
    """A session whose pool is lost after each chunk, or before any."""

    pool = SimpleNamespace(workers=3)

    def __init__(self, chunks):
        self.chunks = chunks
        self.times = 0

    def evaluate(self, chunks, found, stop):
        self.times += 1
        waiting = [i for i in range(len(chunks)) if i not in found]
        for i in waiting[: self.chunks]:
            found[i] = chunks[i][:, 0, 0]
        if waiting[self.chunks :]:
            raise PoolLost("the scheduler is gone")


def test_lost_pools_are_replaced_while_chunks_are_finished(clock, monkeypatch):
    monkeypatch.setattr(population.PopulationMap, "_connect", lambda self, stop: session)
    for chunks, times in ((1, 3), (0, 4)):
        session = Shaky(chunks)
        with population_map(workers=3) as mapped:
            if chunks:
                found = mapped(Costly(clock, 9.0, 0.1), [stack(100)])
                np.testing.assert_array_equal(np.concatenate(found), stack(100)[:, 0, 0])
            else:
                with pytest.raises(PPDMError, match=r"^workers were lost 4 times in a row .*gone$"):
                    mapped(Costly(clock, 9.0, 0.1), [stack(100)])
        assert session.times == times


@pytest.mark.parametrize("m", [1, 7, 8, 9, 184, 200, 3_984])
@pytest.mark.parametrize("workers", [1, 2, 3, 40])
@pytest.mark.parametrize("seconds", [0.0, 0.05, 20.0])
def test_chunks_are_whole_stacks_of_the_objective(m, workers, seconds):
    P = stack(m)
    chunks = cut(P, workers, seconds)
    np.testing.assert_array_equal(np.concatenate(chunks), P)
    sizes = [len(chunk) for chunk in chunks]
    assert min(sizes) > 0
    assert all(size % BLOCK == 0 for size in sizes[:-1])
    blocks = -(-m // BLOCK)
    if m * seconds / workers <= 30:
        assert len(chunks) == min(workers, blocks)
    # Of equal size to a block, and none longer than half a minute if it could be cut.
    assert max(sizes) - min(sizes[:-1] or sizes) <= BLOCK
    assert all(size <= BLOCK or (size - BLOCK) * seconds <= 30 for size in sizes)


def test_large_matrices_travel_in_small_messages():
    P = np.zeros((400, 60, 50))
    assert max(chunk.nbytes for chunk in cut(P, 2, 0.0)) <= (4 << 20) + P[:BLOCK].nbytes


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"workers": -1}, "^workers is -1; it must be 0 or more"),
        ({"workers": 1, "client": object()}, "^give workers or client, not both"),
        ({"worth_seconds": float("nan")}, "^worth_seconds: got nan; 0 or more is needed"),
    ],
)
def test_bad_arguments_are_one_clear_line(arguments, says):
    with pytest.raises(InputError, match=says), population_map(**arguments):
        pass


@pytest.mark.parametrize(
    ("number", "end"), [(signal.SIGINT, KeyboardInterrupt), (signal.SIGTERM, SystemExit)]
)
def test_a_signal_with_the_last_chunk_is_not_forgotten(clock, number, end):
    with population_map(workers=2, worth_seconds=0) as mapped:

        def last(P, stop):
            os.kill(os.getpid(), number)
            return [P[:, 0, 0]]

        mapped._through_losses = last
        with pytest.raises(end):
            mapped(Costly(clock, 1.0, 1.0), [stack(100)])
