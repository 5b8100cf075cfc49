"""SPEA2: selection, whole generations, and the front after equal time.

Contestants take turns in one process:

- selection of 100 out of 200 distinct, mutually non-dominated points: DEAP's selSPEA2, pymoo's
  survival of SPEA2, and ours (fitness included in all of them);
- a generation of OptRR (n = 10, normal prior, delta = .75): ours with Omega, repair and the DEAP
  layer, against DEAP's selection alone;
- the front after equal CPU time: ours, and the same operators with DEAP's selection.
"""

from __future__ import annotations

import sys
import time

import numpy as np
from deap import base, creator, tools
from pymoo.algorithms.moo.spea2 import SPEA2Survival
from pymoo.core.population import Population
from pymoo.core.problem import Problem as PymooProblem
from scipy import stats
from timing import Claim, interleave, ratio, report

from ppdm_dask.randomness import SimulationStream
from ppdm_dask.search.limit import Limit
from ppdm_dask.search.operators import Fitness, assign_fitness, make_toolbox, select
from ppdm_dask.search.problem import Problem, Settings
from ppdm_dask.search.spea2 import Evolution

POINTS, KEPT = 200, 100
GENERATIONS = 20_000
ROUNDS = 5
EQUAL_SECONDS = 20.0

creator.create("BenchMinimum", base.Fitness, weights=(-1.0, -1.0))
creator.create("BenchPoint", list, fitness=creator.BenchMinimum)


def chain(seed: int = 1) -> np.ndarray:
    """Distinct points none of which dominates another."""
    rng = np.random.default_rng(seed)
    first, second = np.sort(rng.random(POINTS)), np.sort(rng.random(POINTS))[::-1]
    return np.stack([first, second], axis=1)[rng.permutation(POINTS)].copy()


def members(F: np.ndarray) -> list:
    found = []
    for i, values in enumerate(F.tolist()):
        member = creator.BenchPoint([i])
        member.fitness.values = values
        found.append(member)
    return found


def by_deap(F: np.ndarray, size: int) -> np.ndarray:
    return np.sort([member[0] for member in tools.selSPEA2(members(F), size)])


def ours(F: np.ndarray) -> np.ndarray:
    return select(F, assign_fitness(F), KEPT)


def main() -> None:
    F = chain()
    assert by_deap(F, KEPT).tolist() == ours(F).tolist(), "the sets differ"
    p = np.diff(stats.norm.cdf(np.linspace(-3, 3, 11)))
    problem = Problem(p / p.sum(), 10_000, 0.75)
    problem_of_pymoo = PymooProblem(n_var=1, n_obj=2)
    survival = SPEA2Survival(normalize=False)

    def pymoo() -> int:
        survival.do(problem_of_pymoo, Population.new("F", F), n_survive=KEPT)
        return 1

    def deap() -> int:
        by_deap(F, KEPT)
        return 1

    def selection() -> int:
        for _ in range(200):
            ours(F)
        return 200

    settings = Settings(generations=1_000_000)
    evolution = Evolution(problem, settings, SimulationStream(1))

    def generations() -> int:
        for _ in range(500):
            evolution.step()
        return 500

    seconds = interleave(
        {
            "selection, DEAP": deap,
            "selection, pymoo": pymoo,
            "selection, ours": selection,
            "generation, ours": generations,
        },
        ROUNDS,
    )
    calls = GENERATIONS / ratio(seconds, "selection, DEAP", "generation, ours")
    after = fronts_after_equal_time(problem, settings)
    for name, value in after.items():
        # On standard error: with --json, standard output is JSON alone.
        print(f"hypervolume after {EQUAL_SECONDS:g} s, {name}: {value:.3f}", file=sys.stderr)
    report(
        "SPEA2",
        seconds,
        [
            Claim(
                "selection 200 -> 100, DEAP / ours",
                ratio(seconds, "selection, DEAP", "selection, ours"),
                least=500,
            ),
            Claim(
                "selection 200 -> 100, pymoo / ours",
                ratio(seconds, "selection, pymoo", "selection, ours"),
                least=1,
            ),
            Claim(f"{GENERATIONS:,} generations in calls of DEAP's selection", calls, most=100),
            Claim(
                "front after equal time, hypervolume ours / with DEAP's selection",
                after["ours"] / max(after["DEAP's selection"], 1e-9),
                least=1,
            ),
        ],
    )


def fronts_after_equal_time(problem: Problem, settings: Settings) -> dict[str, float]:
    """Hypervolume ratios of the same search with two selections."""
    limit = Limit.compute(problem)

    def selected(F: np.ndarray, fitness: Fitness, size: int) -> np.ndarray:
        return by_deap(F, min(size, len(F)))

    found = {}
    for name in ("ours", "DEAP's selection"):
        toolbox = make_toolbox(problem)
        if name != "ours":
            toolbox.register("select", selected)
        evolution = Evolution(problem, settings, SimulationStream(2), toolbox)
        end = time.process_time() + EQUAL_SECONDS
        while time.process_time() < end:
            evolution.step()
        _, objectives = evolution.omega.front()
        found[name] = limit.hypervolume(1 - objectives.privacy, objectives.mse)
    return found


if __name__ == "__main__":
    main()
