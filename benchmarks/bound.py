"""Time of the best design, with its certificate, against the number of categories, by privacy.

    python benchmarks/bound.py
    python benchmarks/bound.py --most 14 --json
    python benchmarks/bound.py --levels --most 12

With --levels: CPU seconds of the whole limit, 98 levels, by Newton's method and by the cone solver
(for up to ten categories, beyond that it takes minutes; --cone raises it), of proportions that fall
as 1, 1/2, 1/3, ...

Priors: *distinct* has proportions that fall geometrically to a tenth of the largest; *parts* has
a fifth of the categories with half of all answers, evenly, and the others with the rest.
"""

from __future__ import annotations

import argparse
import json
import time
from typing import Any

import numpy as np

from ppdm_dask.arrays import Floats
from ppdm_dask.errors import InputError
from ppdm_dask.search.bound import Designer
from ppdm_dask.search.cones import Cone, Epsilon, EpsilonPosterior, Guess, Posterior
from ppdm_dask.search.limit import Limit
from ppdm_dask.search.optimum import optimum
from ppdm_dask.search.problem import Problem, evaluate

SIZES = (5, 10, 14, 16, 18, 30, 100)


def distinct(n: int) -> Floats:
    """Proportions no two of which are equal."""
    p = 10.0 ** -(np.arange(n) / (n - 1))
    result: Floats = p / p.sum()
    return result


def parts(n: int) -> Floats:
    """Two parts of exchangeable categories."""
    few = n // 5
    return np.r_[np.full(few, 0.5 / few), np.full(n - few, 0.5 / (n - few))]


def privacies(prior: Floats) -> dict[str, Cone]:
    """One of each kind, with room above the largest proportion."""
    top = float(prior.max())
    delta = max(0.6, (1 + top) / 2)
    return {
        "epsilon 1": Epsilon(1.0),
        "posterior": Posterior(delta),
        "guess": Guess(delta, success=(top + delta) / 2),
        "epsilon and posterior": EpsilonPosterior(1.0, min(1.5 * top, 0.9)),
    }


def measure(most: int) -> list[dict[str, object]]:
    """Seconds and relative gaps; None where the optimum is not computed."""
    optimum(distinct(5), Epsilon(1.0))  # compile, load
    found: list[dict[str, object]] = []
    for prior in (distinct, parts):
        for n in (size for size in SIZES if size <= most):
            p = prior(n)
            for name, cone in privacies(p).items():
                row = {"prior": prior.__name__, "n": n, "privacy": name}
                begun = time.process_time()
                try:
                    gap = optimum(p, cone, gap=1e-8).gap
                except InputError:
                    found.append({**row, "seconds": None, "gap": None})
                    continue
                seconds = time.process_time() - begun
                found.append({**row, "seconds": seconds, "gap": gap})
    return found


def harmonic(n: int) -> Floats:
    """Proportions as 1, 1/2, 1/3 and so on."""
    p = 1.0 / np.arange(1, n + 1)
    result: Floats = p / p.sum()
    return result


def measure_levels(most: int, most_by_cones: int) -> list[dict[str, object]]:
    """CPU seconds of the limit by both solvers, and the largest gap of a design."""
    Limit.compute(Problem(harmonic(4), 1_000, 0.75))  # compile, load
    found: list[dict[str, object]] = []
    for n in (size for size in (5, 8, 10, 12, 14, 16, 18) if size <= most):
        for delta in (0.75, 1.0):
            problem = Problem(harmonic(n), 10_000, delta)
            begun = time.process_time()
            limit = Limit.compute(problem)
            seconds, cones = time.process_time() - begun, None
            mse = [evaluate(problem, at.matrix(problem.prior)).mse[0] for at in limit.solved]
            gap = float((np.array(mse) / limit.mse(limit.loss)).max() - 1.0)
            if n <= most_by_cones:
                begun = time.process_time()
                Limit.compute(problem, solver=Designer)
                cones = time.process_time() - begun
            found.append({"n": n, "delta": delta, "newton": seconds, "cones": cones, "gap": gap})
    return found


def print_levels(rows: list[dict[str, Any]]) -> None:
    """As a table."""
    print("| n | delta | Newton | cone solver | ratio | gap |\n" + "| --- " * 6 + "|")
    for row in rows:
        cones = row["cones"]
        beside = ["-", "-"] if cones is None else [f"{cones:.1f}", f"{cones / row['newton']:.1f}"]
        cells = [row["n"], row["delta"], f"{row['newton']:.2f}", *beside, f"{row['gap']:.1g}"]
        print("| " + " | ".join(map(str, cells)) + " |")


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--most", type=int, default=100, help="largest number of categories")
    parser.add_argument("--levels", action="store_true", help="measure the limit of 98 levels")
    parser.add_argument("--cone", type=int, default=10, help="most categories of the cone solver")
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args()
    rows = measure_levels(options.most, options.cone) if options.levels else measure(options.most)
    if options.json:
        print(json.dumps(rows, indent=2))
        return
    if options.levels:
        print_levels(rows)
        return
    names = list(dict.fromkeys(str(row["privacy"]) for row in rows))
    print("| prior | n | " + " | ".join(names) + " |")
    print("| --- " * (len(names) + 2) + "|")
    for prior, n in dict.fromkeys((row["prior"], row["n"]) for row in rows):
        cells = [
            "-" if row["seconds"] is None else f"{row['seconds']:.3f}"
            for row in rows
            if (row["prior"], row["n"]) == (prior, n)
        ]
        print(f"| {prior} | {n} | " + " | ".join(cells) + " |")
    gaps = [float(str(row["gap"])) for row in rows if row["gap"] is not None]
    print(f"\nCPU seconds; the largest relative gap from a certificate is {max(gaps):.1g}")


if __name__ == "__main__":
    main()
