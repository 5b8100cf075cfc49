"""SPEA2: selection, whole generations, and the front after equal time.

Contestants take turns in one process:

- selection of 100 out of 200 distinct, mutually non-dominated points: DEAP's selSPEA2, pymoo's
  survival of SPEA2, and ours (fitness included in all of them);
- a generation of OptRR (n = 10, normal prior, delta = .75): ours with Omega, repair and the DEAP
  layer, against DEAP's selection alone;
- the front after equal CPU time: the paper's algorithm (``spea2``), its operators with DEAP's
  selection, pymoo's NSGA-II on the entries of a matrix with our repair and evaluation, and
  ``memetic``, the method that we recommend.

With ``--seconds`` the time is another than 20 s.
"""

from __future__ import annotations

import sys
import time

import numpy as np
from deap import base, creator, tools
from pymoo.algorithms.moo.nsga2 import NSGA2
from pymoo.algorithms.moo.spea2 import SPEA2Survival
from pymoo.core.population import Population
from pymoo.core.problem import Problem as PymooProblem
from pymoo.problems.static import StaticProblem
from scipy import stats
from timing import Claim, interleave, options, ratio, report

from ppdm_dask.randomness import SimulationStream
from ppdm_dask.search.limit import Limit
from ppdm_dask.search.methods import INTERVAL, Polisher
from ppdm_dask.search.operators import Fitness, assign_fitness, make_toolbox, select
from ppdm_dask.search.problem import Problem, Settings, evaluate, meet_bound
from ppdm_dask.search.spea2 import Evolution

POINTS, KEPT = 200, 100
GENERATIONS = 20_000
ROUNDS = 5

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
    parser = options("SPEA2")
    parser.add_argument("--seconds", type=float, default=20.0, help="of processor, for each front")
    given = parser.parse_args()
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
    after = fronts_after_equal_time(problem, settings, given.seconds)
    for name, value in after.items():
        # On standard error: with --json, standard output is JSON alone.
        print(f"hypervolume after {given.seconds:g} s, {name}: {value:.3f}", file=sys.stderr)
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
                "front after equal time, hypervolume spea2 / with DEAP's selection",
                after["spea2"] / max(after["DEAP's selection"], 1e-9),
                least=1,
            ),
            Claim(
                "front after equal time, hypervolume memetic / pymoo's NSGA-II",
                after["memetic"] / max(after["pymoo's NSGA-II"], 1e-9),
                least=1,
            ),
        ],
        given,
    )


def nsga2(problem: Problem, limit: Limit, seconds: float) -> float:
    """Hypervolume ratio of all that NSGA-II has met, from our first population.

    Each matrix is repaired as ours are.
    """
    n, bins = problem.n, 5_000
    space = PymooProblem(n_var=n * n, n_obj=2, xl=np.zeros(n * n), xu=np.ones(n * n))
    first = Evolution(problem, Settings(generations=1), SimulationStream(2)).population
    algorithm = NSGA2(pop_size=KEPT, sampling=first[:KEPT].reshape(-1, n * n))
    algorithm.setup(space, termination=("n_gen", 10**9), seed=1, verbose=False)
    loss, mse = np.full(bins + 1, np.inf), np.full(bins + 1, np.inf)
    end = time.process_time() + seconds
    while time.process_time() < end:
        asked = algorithm.ask()
        P = np.maximum(asked.get("X").reshape(-1, n, n), 1e-12)
        P = np.ascontiguousarray(P / P.sum(axis=1, keepdims=True))
        meet_bound(problem, P)
        F = evaluate(problem, P).minimised
        F[~np.isfinite(F)] = 1e9
        algorithm.evaluator.eval(StaticProblem(space, F=F), asked)
        algorithm.tell(infills=asked)
        for one, other in F:
            place = int(one * bins)
            if other < mse[place]:
                loss[place], mse[place] = one, other
    known = mse < 1e9
    return limit.hypervolume(loss[known], mse[known])


def memetic(problem: Problem, limit: Limit, settings: Settings, seconds: float) -> float:
    """Hypervolume ratio of evolution with polish."""
    evolution = Evolution(problem, settings, SimulationStream(2))
    polisher = Polisher(problem, problem.n)
    end = time.process_time() + seconds
    while time.process_time() < end:
        evolution.step()
        polisher.after_generation(evolution, INTERVAL)
    P, _ = evolution.omega.front()
    P = np.concatenate([P, polisher.P[np.isfinite(polisher.mse)]])
    objectives = evaluate(problem, P)
    return limit.hypervolume(1 - objectives.privacy, objectives.mse)


def fronts_after_equal_time(
    problem: Problem, settings: Settings, seconds: float
) -> dict[str, float]:
    """Hypervolume ratios by the search."""
    limit = Limit.compute(problem)

    def selected(F: np.ndarray, fitness: Fitness, size: int) -> np.ndarray:
        return by_deap(F, min(size, len(F)))

    found = {}
    for name in ("spea2", "DEAP's selection"):
        toolbox = make_toolbox(problem)
        if name != "spea2":
            toolbox.register("select", selected)
        evolution = Evolution(problem, settings, SimulationStream(2), toolbox)
        end = time.process_time() + seconds
        while time.process_time() < end:
            evolution.step()
        _, objectives = evolution.omega.front()
        found[name] = limit.hypervolume(1 - objectives.privacy, objectives.mse)
    found["pymoo's NSGA-II"] = nsga2(problem, limit, seconds)
    found["memetic"] = memetic(problem, limit, settings, seconds)
    return found


if __name__ == "__main__":
    main()
