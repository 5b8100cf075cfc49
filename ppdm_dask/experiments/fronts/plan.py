"""An experiment with searches: its cells, the work behind them, and the result from the ledger.

The error of the iterative estimator has no closed form, so it is simulated here.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ppdm_dask.arrays import Floats
from ppdm_dask.engine.cells import Cell
from ppdm_dask.experiments.fronts.objective import RecipeObjective, locate
from ppdm_dask.experiments.fronts.recipe import FrontRecipe, Prior
from ppdm_dask.experiments.fronts.results import FRONT_REGISTRY, PAPER_ONLY
from ppdm_dask.experiments.inputs import Prepared
from ppdm_dask.experiments.variables import assemble
from ppdm_dask.randomness import SimulationStream
from ppdm_dask.search.bound import Designer
from ppdm_dask.search.checkpoints import DamagedCheckpoint
from ppdm_dask.search.limit import SHARES, Limit, least_mse, levels
from ppdm_dask.search.methods import Found, evolve, refine, warner_matrices
from ppdm_dask.search.problem import TOLERANCE, Problem, Settings, evaluate, infeasible

if TYPE_CHECKING:
    import xarray as xr

    from ppdm_dask.experiments.kind import Finished


STEPS = 1_000
"""Most iterations; near a singular matrix they creep."""

CLOSE = 1e-7
"""Change of the estimate, as a sum of absolute values, below which the iteration stops."""


def iterate(P: Floats, observed: Floats) -> Floats:
    """Estimate proportions by the iteration of Eq. (3) of [HuangDu]_ (expectation-maximisation).

    Parameters
    ----------
    P : array, shape (m, K, n)
    observed : array, shape (m, samples, K)
        Proportions of the reported symbols.

    Returns
    -------
    array, shape (m, samples, n)
        From the uniform distribution on, until two consecutive estimates are close.
    """
    m, samples, _ = observed.shape
    n = P.shape[2]
    found = np.full((m, samples, n), 1.0 / n)
    transposed = np.ascontiguousarray(P.transpose(0, 2, 1))
    going = np.arange(m)
    for _ in range(STEPS):
        # Of all matrices together; those whose samples have all settled drop out.
        current = found[going]
        reported = current @ transposed[going]
        # A symbol that the estimate gives no probability does not occur among the reports either.
        ratio = np.divide(
            observed[going], reported, out=np.zeros_like(reported), where=reported > 0
        )
        following = current * (ratio @ P[going])
        found[going] = following
        change = np.abs(following - current).sum(axis=2).max(axis=1)
        going = going[change > CLOSE]
        if not going.size:
            break
    return found


def iterative_mse(
    P: Floats, prior: Floats, n_records: int, samples: int, stream: SimulationStream
) -> Floats:
    """Average squared error of the iterative estimates, over samples of records and reports.

    Parameters
    ----------
    P : array, shape (m, K, n)
    prior : array, shape (n,)
        Each sample draws its own records from it; all matrices get the same draws.
    n_records, samples : int
    stream : SimulationStream

    Returns
    -------
    array, shape (m,)
    """
    m, K, _ = P.shape
    observed = np.empty((m, samples, K))
    for i in range(samples):
        # Common random numbers: matrices are compared, so their draws should differ in nothing.
        seeds = np.random.SeedSequence(stream.entropy, spawn_key=(*stream.key, i))
        for j in range(m):
            # The reports of a sample are one draw from the reports' distribution.
            generator = np.random.Generator(np.random.SFC64(seeds))
            law = P[j] @ prior
            observed[j, i] = generator.multinomial(n_records, law / law.sum()) / n_records
    errors = (iterate(P, observed) - prior) ** 2
    result: Floats = errors.mean(axis=(1, 2))
    return result


Arrays = dict[str, npt.NDArray[Any]]

LOG = logging.getLogger(__name__)

LIMIT, WARNER = "limit", "warner"
SEARCH, SAMPLES = 0, 1  # roles of the streams below a repeat


@dataclass(frozen=True, eq=False)
class Case:
    """A prior with a bound on the posterior; `undefined` says why there is no front."""

    name: str
    prior: Prior
    delta: float
    methods: tuple[str, ...]
    undefined: str

    def problem(self, n_records: int) -> Problem:
        return Problem(self.prior.proportions, n_records, self.delta)


class FrontWork:
    """Searches, certified limits and Warner's matrices, a cell each.

    Parameters
    ----------
    seed : int
        Entropy of the run.
    folder : Path, optional
        Where searches keep checkpoints, if it is there; a damaged one is removed with a warning.
    objective : RecipeObjective, optional
        In place of the paper's.
    """

    def __init__(
        self,
        seed: int,
        folder: Path | None = None,
        objective: RecipeObjective | None = None,
    ) -> None:
        self.seed = seed
        self.folder = folder
        self.objective = objective

    def keeping(self, folder: Path) -> FrontWork:
        """The same work with checkpoints in a folder."""
        # Absolute: a worker of the same machine may have another working folder.
        return FrontWork(self.seed, folder.resolve(), self.objective)

    def trials(self, cell: Cell, start: int, stop: int) -> Arrays:
        """Results of repeats ``start .. stop - 1`` of a cell."""
        params = cell.params
        problem = Problem(params["prior"], params["n_records"], params["delta"])
        if params["method"] == LIMIT:
            # Results hold the last bits of this solver's certificates.
            return {"certificates": Limit.compute(problem, solver=Designer).table[None]}
        rows = [self._trial(problem, params, cell.key, repeat) for repeat in range(start, stop)]
        # All of the batch is stored together, so nothing is removed before its last repeat.
        for repeat in range(start, stop):
            path = self._checkpoint(cell.key, repeat)
            if path is not None:
                path.unlink(missing_ok=True)
        return {name: np.array([row[name] for row in rows]) for name in rows[0]}

    def _checkpoint(self, key: int, repeat: int) -> Path | None:
        """File of a repeat; None where no folder is in sight."""
        if self.folder is None or not self.folder.is_dir():
            return None
        return self.folder / f"{key:016x}-{repeat}.checkpoint"

    def _trial(
        self, problem: Problem, params: Mapping[str, Any], key: int, repeat: int
    ) -> dict[str, Any]:
        stream = SimulationStream(self.seed, (key, repeat, SEARCH))
        objective = None if self.objective is None else self.objective.of(problem)
        measure = partial(evaluate, problem) if objective is None else objective
        if params["method"] == WARNER:
            # No search: all of the family on a fine grid, of which those within the bound count.
            P = warner_matrices(problem.n)
            objectives = measure(P)
            allowed = objectives.worst <= problem.delta + TOLERANCE
            allowed &= np.isfinite(objectives.mse)
            found = Found.best(P[allowed], type(objectives)(*(v[allowed] for v in objectives)))
        else:
            evolved = partial(evolve, objective=objective)
            method: Any = evolved if params["method"] == "spea2" else refine
            path, settings = self._checkpoint(key, repeat), Settings(**params["settings"])
            try:
                found = method(problem, settings, stream, checkpoint=path)
            except DamagedCheckpoint as error:
                assert path is not None
                # It only saves time: the repeat gives the same numbers from its beginning.
                LOG.warning("%s: this repeat begins again", error)
                path.unlink(missing_ok=True)
                found = method(problem, settings, stream, checkpoint=path)
        privacy, _, mse = found.objectives
        if objective is not None:
            return {
                "error": least_mse(1.0 - privacy, mse, SHARES),
                "privacy_min": privacy.min(initial=np.inf),
                "privacy_max": privacy.max(initial=-np.inf),
            }
        at = levels(problem)
        row = {
            "mse": least_mse(1.0 - privacy, mse, at),
            # A search that finds no matrix at all has an empty span.
            "privacy_min": privacy.min(initial=np.inf),
            "privacy_max": privacy.max(initial=-np.inf),
            "iterative_mse": np.full(len(at), np.nan),
        }
        if params["simulations"]:
            known = np.isfinite(row["mse"])
            # Of each level the matrix with the least MSE that keeps to it.
            use = np.array([int(np.flatnonzero(mse == value)[0]) for value in row["mse"][known]])
            # Without the cell's key, so that all methods meet the same samples.
            samples = SimulationStream(self.seed, (repeat, SAMPLES))
            if use.size:
                # One matrix may be the best at several levels.
                matrices, back = np.unique(use, return_inverse=True)
                errors = iterative_mse(
                    found.P[matrices],
                    problem.prior,
                    problem.n_records,
                    params["simulations"],
                    samples,
                )
                row["iterative_mse"][known] = errors[back]
        return row


@dataclass(frozen=True, eq=False)
class FrontPlan:
    """The cells of a recipe; its cases are the priors with their bounds, in the recipe's order."""

    recipe: FrontRecipe
    cases: Sequence[Case]
    objective: RecipeObjective | None = None

    @classmethod
    def make(cls, recipe: FrontRecipe) -> FrontPlan:
        """Cut the priors of a recipe, or count them in their data."""
        cases = []
        # Once more, for it may have changed since the recipe was read.
        recipe = recipe.placed(recipe.base)
        name = recipe.search.objective
        objective = None if name is None else locate(name, recipe.base)
        for spec in recipe.prior:
            methods = spec.methods or recipe.search.methods
            for prior in spec.priors():
                for delta in spec.delta:
                    name = f"{prior.name} delta={delta:g}"
                    reason = infeasible(prior.proportions, delta)
                    if len(prior.proportions) < 2:
                        reason = "only one category occurs"
                    cases.append(Case(name, prior, delta, methods, reason))
        return cls(recipe, cases, objective)

    @property
    def prepared(self) -> Sequence[Prepared]:
        """No records: searches need proportions only."""
        return ()

    @property
    def inputs(self) -> dict[str, dict[str, str]]:
        """Digests of the data behind the priors, for the manifest."""
        return {case.name: {"data": case.prior.sha256} for case in self.cases}

    def cell(self, case: Case, method: str) -> Cell:
        """The cell of a method in a case."""
        search, sweep = self.recipe.search, self.recipe.sweep
        # Only what the method depends on: other settings must not move its key, or its draws.
        settings: dict[str, Any] = {}
        if method not in (LIMIT, WARNER):
            names = ("population", "archive", "slots", "density", "rate", "scale")
            settings = {key: getattr(search, key) for key in names}
            memetic = method == "memetic"
            settings["generations"] = search.memetic_generations if memetic else search.generations
        params = {
            "experiment": "front",
            "prior": case.prior.proportions.tolist(),
            "delta": case.delta,
            "n_records": search.n_records,
            "method": method,
            "settings": settings,
            "simulations": 0 if method == LIMIT else search.simulations,
        }
        if search.objective is not None:
            params["objective"] = [search.objective, search.objective_sha256]
        return Cell(f"{case.name} {method}", params, 1 if method == LIMIT else sweep.repeats)

    @cached_property
    def listed(self) -> list[tuple[Cell, str]]:
        """All cells, each with why it is undefined."""
        return [
            (self.cell(case, method), case.undefined)
            for case in self.cases
            for method in (*self.limits, WARNER, *case.methods)
        ]

    @property
    def limits(self) -> tuple[str, ...]:
        """The certified limit, which another objective does not have."""
        return (LIMIT,) if self.recipe.search.objective is None else ()

    @property
    def cells(self) -> list[Cell]:
        """Everything to compute."""
        return [cell for cell, reason in self.listed if not reason]

    @property
    def work(self) -> FrontWork:
        """The computation behind the cells."""
        return FrontWork(self.recipe.sweep.seed, objective=self.objective)

    @property
    def methods(self) -> tuple[str, ...]:
        """The results' axis ``method``."""
        return (WARNER, *self.recipe.search.methods)

    def collect(self, ledger: Finished) -> xr.Dataset:
        """The result from the finished repeats of all cells."""
        recipe = self.recipe
        coordinates: dict[str, Any] = {
            "case": [case.name for case in self.cases],
            "method": self.methods,
            "level": SHARES,
        }
        sizes = {name: len(values) for name, values in coordinates.items()}
        sizes["repeat"] = recipe.sweep.repeats
        without = PAPER_ONLY if recipe.search.objective else ("error",)
        arrays = {
            v.name: v.empty(tuple(sizes[d] for d in v.dims))
            for v in FRONT_REGISTRY
            if v.name not in without
        }
        arrays["completed"][...] = 0
        for i, case in enumerate(self.cases):
            self._fill(arrays, i, case, ledger)
        attributes = {
            "title": recipe.about.title,
            "recipe": recipe.name,
            "experiment": recipe.kind,
            "n_records": recipe.search.n_records,
        }
        if recipe.search.objective is not None:
            attributes["objective"] = recipe.search.objective
        return assemble(FRONT_REGISTRY, arrays, coordinates, ["method"], attributes)

    def _fill(self, arrays: Arrays, i: int, case: Case, ledger: Finished) -> None:
        p = case.prior.proportions
        arrays["delta"][i], arrays["p_max"][i] = case.delta, p.max()
        arrays["categories"][i], arrays["dropped"][i] = len(p), case.prior.dropped
        arrays["undefined"][i] = case.undefined
        if case.undefined:
            return
        problem = case.problem(self.recipe.search.n_records)
        # Nothing is known of the privacies of another objective but that they are in [0, 1].
        arrays["privacy"][i] = 1.0 - (levels(problem) if self.limits else SHARES)
        limit = None
        own = self.cell(case, LIMIT)
        if self.limits and ledger.finished(own).size:
            table = ledger.collect(own)["certificates"][0]
            limit = Limit.from_certificates(problem, table)
            arrays["limit"][i] = limit.mse(limit.loss)
        for m, method in enumerate(self.methods):
            if method != WARNER and method not in case.methods:
                continue
            cell = self.cell(case, method)
            done = ledger.finished(cell)
            arrays["completed"][i, m] = done.size
            if not done.size:
                continue
            for name, values in ledger.collect(cell).items():
                arrays[name][i, m][done] = values
            if limit is None:
                continue  # its cell is still to be computed
            for repeat in done:
                mse = arrays["mse"][i, m, repeat]
                found = limit.summary(limit.loss, mse)
                arrays["hypervolume"][i, m, repeat] = found["hypervolume"]
                arrays["median_ratio"][i, m, repeat] = found["median"]
