"""The evolution: operators, Omega, stopping rules, checkpoints, and that draws alone decide."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from deap import tools
from search_priors import PRIORS, random_matrices

from ppdm_dask import InputError
from ppdm_dask.randomness import SimulationStream
from ppdm_dask.search import methods as checkpoints
from ppdm_dask.search import operators
from ppdm_dask.search.limit import Limit, levels
from ppdm_dask.search.methods import Polisher, keep_to, polish, refine, warner_matrices
from ppdm_dask.search.operators import Draws, individuals, make_toolbox
from ppdm_dask.search.problem import Objectives, Problem, Settings, evaluate
from ppdm_dask.search.spea2 import Evolution, Omega, nondominated

PROBLEM = Problem([0.4, 0.3, 0.2, 0.1], 1_000, 0.8)
SMALL = Settings(generations=30, population=12, archive=10, slots=50)


def draws(*key: int) -> Draws:
    return Draws(SimulationStream(3), *key)


def stochastic(P: np.ndarray) -> bool:
    return bool(P.min() >= 0 and P.max() <= 1 and np.allclose(P.sum(axis=1), 1, atol=1e-13))


# -- operators -------------------------------------------------------------------------------------


def test_tournament_prefers_the_lower_fitness():
    fitness = np.array([0.5, 0.1, 3.0, 0.4])
    winners = operators.tournament(fitness, 40_000, draws(0))
    share = np.bincount(winners, minlength=4) / 40_000
    # Of 16 ordered pairs the best wins 7, the next 5, 3, and 1.
    np.testing.assert_allclose(share[[1, 3, 0, 2]], np.array([7, 5, 3, 1]) / 16, atol=0.01)


def test_crossover_swaps_the_columns_right_of_a_line():
    P = random_matrices(np.random.default_rng(1), 9, 4)
    before = P.copy()
    operators.cross(P, draws(1))
    assert stochastic(P)
    origin = [
        {tuple(before[i, :, x]) for i in range(9) if np.array_equal(P[j, :, x], before[i, :, x])}
        for j in range(9)
        for x in range(4)
    ]
    assert all(origin)  # each column is some parent's column of the same place
    changed = [j for j in range(9) if not np.array_equal(P[j], before[j])]
    assert len(changed) == 8  # an odd one stays
    for j in changed:
        own = [np.array_equal(P[j, :, x], before[j, :, x]) for x in range(4)]
        assert own[0] and not own[-1] and own == sorted(own, reverse=True)


def test_mutation_changes_one_column_in_proportion():
    P = random_matrices(np.random.default_rng(2), 500, 5)
    before = P.copy()
    operators.mutate(P, draws(2), rate=1.0, scale=0.1)
    assert stochastic(P)
    risen = fallen = 0
    for new, old in zip(P, before, strict=True):
        columns = np.flatnonzero(np.abs(new - old).max(axis=0) > 1e-15)
        assert len(columns) <= 1
        if not len(columns):
            continue
        step = (new - old)[:, columns[0]]
        own = int(np.abs(step).argmax())
        rest = np.delete(np.arange(5), own)
        assert abs(step[own]) <= 0.1 + 1e-12
        weight = old[rest, columns[0]] if step[own] > 0 else 1 - old[rest, columns[0]]
        np.testing.assert_allclose(step[rest], -step[own] * weight / weight.sum(), atol=1e-12)
        risen, fallen = risen + (step[own] > 0), fallen + (step[own] < 0)
    assert min(risen, fallen) > 150


def test_mutation_rate_leaves_the_others_alone():
    P = random_matrices(np.random.default_rng(2), 2_000, 5)
    before = P.copy()
    operators.mutate(P, draws(3), rate=0.25, scale=0.1)
    changed = (before != P).any(axis=(1, 2)).mean()
    assert 0.2 < changed < 0.3


def test_initial_matrices_are_stochastic_and_varied():
    P = operators.initial(41, 6, 4, draws(4))
    assert P.shape == (41, 6, 4)
    assert stochastic(P)
    found = evaluate(PROBLEM, P)
    assert np.ptp(found.privacy) > 0.3


# -- Omega -----------------------------------------------------------------------------------------


def objectives(privacy: list[float], mse: list[float]) -> Objectives:
    return Objectives(np.array(privacy), np.full(len(mse), 0.5), np.array(mse))


def test_omega_keeps_the_best_of_each_slot():
    omega = Omega(10, (2, 2))
    P = np.arange(20.0).reshape(5, 2, 2)
    first = objectives([0.11, 0.19, 0.55, 1.0, 0.12], [3.0, 2.0, 9.0, 1.0, 2.0])
    assert omega.offer(P, first) == 3
    assert omega.mse[[1, 5, 9]].tolist() == [2.0, 9.0, 1.0]
    np.testing.assert_array_equal(omega.P[1], P[1])  # of equals, the first
    assert omega.offer(P, first) == 0
    found = objectives([0.15, 0.55], [2.5, 1.0])
    Q = np.full((2, 2, 2), -1.0)
    omega.write_back(Q, found)
    np.testing.assert_array_equal(Q[0], P[1])
    assert (found.privacy[0], found.mse[0]) == (0.19, 2.0)
    assert (Q[1] == -1).all() and found.mse[1] == 1.0


def test_front_is_what_nothing_dominates():
    privacy = np.array([0.5, 0.4, 0.4, 0.3, 0.2, 0.5])
    mse = np.array([5.0, 4.0, 3.0, 3.0, np.inf, 5.0])
    assert nondominated(privacy, mse).tolist() == [0, 2]


# -- the loop --------------------------------------------------------------------------------------


def state_of(evolution: Evolution) -> list[np.ndarray]:
    omega = evolution.omega.state()
    return [evolution.population, evolution.archive, *evolution.found, *omega.values()]


def assert_same(one: Evolution, other: Evolution) -> None:
    assert (one.generation, one.unchanged) == (other.generation, other.unchanged)
    for a, b in zip(state_of(one), state_of(other), strict=True):
        np.testing.assert_array_equal(a, b)


def test_all_matrices_are_feasible_at_every_generation():
    def check(state: Evolution) -> None:
        everyone = np.concatenate([state.population, state.archive])
        assert stochastic(everyone)
        assert len(state.archive) <= SMALL.archive
        found = evaluate(PROBLEM, everyone)
        np.testing.assert_array_equal(found.mse, state.found.mse)
        assert found.worst.max() <= 0.8 + 1e-11

    evolution = Evolution(PROBLEM, SMALL, SimulationStream(1)).run(check)
    assert evolution.generation == 30
    P, found = evolution.omega.front()
    again = evaluate(PROBLEM, P)
    np.testing.assert_array_equal(again.mse, found.mse)
    np.testing.assert_array_equal(again.privacy, found.privacy)


def test_the_same_key_gives_the_same_bits_and_another_does_not():
    one, two = (Evolution(PROBLEM, SMALL, SimulationStream(1)).run() for _ in range(2))
    assert_same(one, two)
    other = Evolution(PROBLEM, SMALL, SimulationStream(2)).run()
    assert not np.array_equal(one.population, other.population)


def test_a_checkpoint_goes_on_to_the_same_bits(tmp_path):
    whole = Evolution(PROBLEM, SMALL, SimulationStream(1)).run()
    part = Evolution(PROBLEM, SMALL, SimulationStream(1))
    for _ in range(13):
        part.step()
    part.save(tmp_path / "search.npz")
    resumed = Evolution(PROBLEM, SMALL, SimulationStream(1)).restore(tmp_path / "search.npz")
    assert resumed.generation == 13
    assert_same(resumed.run(), whole)


def test_checkpoints_of_other_searches_are_refused(tmp_path):
    path = tmp_path / "search.npz"
    Evolution(PROBLEM, SMALL, SimulationStream(1)).save(path)
    other = Evolution(Problem([0.4, 0.3, 0.2, 0.1], 1_000, 0.9), SMALL, SimulationStream(1))
    for evolution in (other, Evolution(PROBLEM, SMALL, SimulationStream(2))):
        with pytest.raises(InputError, match="the checkpoint of another search"):
            evolution.restore(path)
    path.write_bytes(b"PK nonsense")
    with pytest.raises(InputError, match=r"no checkpoint of this search: .*; remove it"):
        Evolution(PROBLEM, SMALL, SimulationStream(1)).restore(path)


def test_a_polished_search_goes_on_from_its_checkpoint_to_the_same_bits(tmp_path, monkeypatch):
    path = tmp_path / "search.npz"
    settings = replace(SMALL, generations=130)
    stream = SimulationStream(1)
    at = levels(PROBLEM)[::10]
    whole = refine(PROBLEM, settings, stream, at=at)
    monkeypatch.setattr(checkpoints, "GENERATIONS", 30)

    class Killed(Exception):
        pass

    def kill(done: int, _: int) -> None:
        if done == 117:  # a polish after the last checkpoint, at 90, is lost with it
            raise Killed

    with pytest.raises(Killed):
        refine(PROBLEM, settings, stream, at=at, checkpoint=path, progress=kill)
    seen = []
    resumed = refine(
        PROBLEM, settings, stream, at=at, checkpoint=path, progress=lambda g, _: seen.append(g)
    )
    assert seen == list(range(91, 131))
    np.testing.assert_array_equal(resumed.P, whole.P)
    for polisher, says in (({}, "is for other levels"), (None, "polish_at")):
        if polisher is None:
            Evolution(PROBLEM, settings, stream).save(path)
        with pytest.raises(InputError, match=says):
            refine(PROBLEM, settings, stream, checkpoint=path)


def test_patience_stops_when_omega_stands_still():
    settings = Settings(generations=2_000, population=4, archive=4, slots=3, patience=15)
    evolution = Evolution(PROBLEM, settings, SimulationStream(1)).run()
    assert evolution.unchanged == 15
    assert evolution.generation < 2_000


def test_the_toolbox_map_takes_parts_of_the_population_and_changes_nothing():
    calls = []

    def chunked(function, parts):
        parts = list(parts)
        calls.append([len(part) for part in parts])
        return [function(part) for part in parts]

    toolbox = make_toolbox(PROBLEM)
    toolbox.register("map", chunked)
    toolbox.register("split", lambda P: [P[:5], P[5:]])
    one = Evolution(PROBLEM, SMALL, SimulationStream(1), toolbox).run()
    assert_same(one, Evolution(PROBLEM, SMALL, SimulationStream(1)).run())
    assert calls == [[5, 12 * 20 - 5]] + [[5, 7]] * 30


def test_individuals_are_views_for_deap_s_own_tools():
    P = random_matrices(np.random.default_rng(3), 6, 4)
    found = evaluate(PROBLEM, P)
    members = individuals(P, found)
    assert all(np.shares_memory(member, P) for member in members)
    front = tools.sortNondominated(members, len(members), first_front_only=True)[0]
    kept = sorted(member.fitness.values[0] for member in front)
    expected = sorted(found.privacy[nondominated(found.privacy, found.mse)])
    np.testing.assert_allclose(kept, expected)


@pytest.mark.parametrize(
    ("field", "value"),
    [("generations", -1), ("population", 1), ("rate", 0), ("scale", 2), ("patience", 0)],
)
def test_bad_settings_name_the_field(field, value):
    with pytest.raises(InputError, match=f"^{field}: got {value}"):
        Settings(**{field: value})


def test_too_few_symbols_are_refused():
    with pytest.raises(InputError, match=r"^symbols: got 3; at least 4"):
        Evolution(PROBLEM, Settings(symbols=3), SimulationStream(1))


# -- polish ----------------------------------------------------------------------------------------


def test_the_gradient_is_that_of_finite_differences():
    from ppdm_dask.kernels.channels import slope

    rng = np.random.default_rng(4)
    p = PROBLEM.prior
    A, C = np.empty((4, 4)), np.empty((4, 4))
    for K in (4, 7):
        P = 0.4 * random_matrices(rng, 1, 4, K)[0] + 0.2 / K + 0.4 * np.eye(K, 4)
        G, unused = np.empty((K, 4)), np.empty((K, 4))
        # A level and a bound that are violated, so that both penalties count.
        arguments = (p, 0.42, 0.41, 3.0, A, C)
        value = slope(P, *arguments, G)
        for y in range(K):
            for x in range(4):
                h = 1e-6
                up, down = P.copy(), P.copy()
                up[y, x] += h
                down[y, x] -= h
                numeric = (slope(up, *arguments, unused) - slope(down, *arguments, unused)) / (
                    2 * h
                )
                assert G[y, x] == pytest.approx(numeric, rel=1e-6, abs=1e-7)
        assert np.isfinite(value)


def test_polish_keeps_to_its_level_and_improves():
    at = levels(PROBLEM)[10::20]
    starts = random_matrices(np.random.default_rng(5), len(at), 4) * 0.5 + 0.5 * np.eye(4)
    before = keep_to(PROBLEM, starts.copy(), at)
    P, found = polish(PROBLEM, starts, at, np.full(len(at), 3.0), 600)
    assert stochastic(P)
    assert (1 - found.privacy <= at + 1e-12).all()
    assert (found.worst <= 0.8 + 1e-11).all()
    assert (found.mse < before.mse).all()


def test_the_polisher_serves_every_level_that_a_matrix_keeps_to():
    polisher = Polisher(PROBLEM, 4, np.array([0.5, 0.6, 0.7]))
    P = np.stack([np.eye(4) * 0.9 + 0.025, np.eye(4) * 0.5 + 0.125])
    assert polisher.offer(P, objectives([0.45, 0.35], [2.0, 1.0])) == 2
    assert polisher.mse.tolist() == [np.inf, 2.0, 1.0]
    np.testing.assert_array_equal(polisher.P[1], P[0])
    assert polisher.offer(P[:1], objectives([0.5], [3.0])) == 1
    assert polisher.mse.tolist() == [3.0, 2.0, 1.0]


@pytest.mark.slow
def test_memetic_is_repeatable_and_better_than_the_same_evolution():
    problem = Problem(PRIORS["normal"][:6] / PRIORS["normal"][:6].sum(), 1_000, 0.8)
    settings = Settings(generations=100, population=20, archive=20)
    one, two = (refine(problem, settings, SimulationStream(1)) for _ in range(2))
    np.testing.assert_array_equal(one.P, two.P)
    plain = Evolution(problem, settings, SimulationStream(1)).run().omega.front()[1]
    limit = Limit.compute(problem)
    polished = limit.hypervolume(1 - one.objectives.privacy, one.objectives.mse)
    assert polished > limit.hypervolume(1 - plain.privacy, plain.mse) + 0.02
    assert 0.8 < polished < 1


def test_more_symbols_than_categories_begin_at_merged_designs(tmp_path, monkeypatch):
    settings = replace(SMALL, generations=260, symbols=6)
    at = levels(PROBLEM)[::10]
    limit = Limit.compute(PROBLEM, at)
    path = tmp_path / "search.npz"
    whole = refine(PROBLEM, settings, SimulationStream(1), at=at, limit=limit)
    square = refine(PROBLEM, replace(settings, symbols=4), SimulationStream(1), at=at)
    ratios, others = (
        limit.ratios(1 - found.objectives.privacy, found.objectives.mse)
        for found in (whole, square)
    )
    assert (ratios < others).all() and ratios.max() < 1.1
    # Merging is drawn afresh in a round after the checkpoint.
    monkeypatch.setattr(checkpoints, "GENERATIONS", 60)
    part = replace(settings, generations=190)
    refine(PROBLEM, part, SimulationStream(1), at=at, limit=limit, checkpoint=path)
    resumed = refine(PROBLEM, settings, SimulationStream(1), at=at, limit=limit, checkpoint=path)
    np.testing.assert_array_equal(resumed.P, whole.P)


def test_warner_has_1001_matrices():
    P = warner_matrices(10)
    assert P.shape == (1_001, 10, 10)
    np.testing.assert_allclose(P.sum(axis=1), 1, atol=1e-12)
    np.testing.assert_array_equal(P[1_000], np.eye(10))
