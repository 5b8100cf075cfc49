"""The methods of a search, and what each of them finds.

Beside it: when a search writes its checkpoint.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from time import monotonic
from typing import Any

import numpy as np

from ppdm_dask.arrays import Floats
from ppdm_dask.errors import InputError
from ppdm_dask.randomness import SimulationStream
from ppdm_dask.search.archive import nondominated
from ppdm_dask.search.checkpoints import require_file
from ppdm_dask.search.limit import Limit
from ppdm_dask.search.objectives import GivenObjective, Objectives, evaluate
from ppdm_dask.search.operators import Draws
from ppdm_dask.search.polish import POLISH, Polisher, keep_to, merged, polish
from ppdm_dask.search.problem import Problem, Settings
from ppdm_dask.search.spea2 import Evolution
from ppdm_dask.search.toolbox import make_toolbox

__all__ = [
    "METHODS",
    "Found",
    "Keeper",
    "evolve",
    "optimal_designs",
    "refine",
    "settings_for",
    "warner_matrices",
]


GENERATIONS = 500
"""Generations after which a checkpoint is written."""

SECONDS = 60.0
"""Time after which one is written earlier, where an objective takes long."""


class Keeper:
    """Takes up the checkpoint of a search, and writes it now and then.

    Parameters
    ----------
    path : Path or None
        None keeps nothing.

    Raises
    ------
    InputError
        Where no checkpoint could be: in a folder that is not there, at a device.
    """

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self.there = path is not None and require_file(path)
        self._last = monotonic()

    def take_up(
        self, evolution: Evolution, take: Callable[[dict[str, Any]], None] | None = None
    ) -> None:
        """Go on from the file; parameters as of :meth:`Evolution.restore`."""
        assert self.path is not None
        evolution.restore(self.path, take)

    def after_generation(
        self, evolution: Evolution, more: Callable[[], Mapping[str, Any]] | None = None
    ) -> None:
        """Write the file if it is due, with the state of what goes on beside the evolution."""
        if self.path is None:
            return
        now = monotonic()
        due = evolution.finished or not evolution.generation % GENERATIONS
        if due or now > self._last + SECONDS:
            evolution.save(self.path, None if more is None else more())
            self._last = monotonic()


Progress = Callable[[int, int], None]

METHODS = ("spea2", "memetic", "bound")

INTERVAL = 50
"""Generations between two rounds of polishing."""

MEMETIC_GENERATIONS = 3_000
LAST_ROUNDS = 6  # of neighbours, after the last generation
MERGES = 6  # starts a level for a design with few symbols
MERGE_STEPS = 6_000

_LAST = POLISH - (1 << 16)
_MERGE = POLISH - (1 << 17)


@dataclass(frozen=True, eq=False)
class Found:
    """Matrices that a method offers, by falling privacy.

    Parameters
    ----------
    P : array, shape (points, K, n)
        Rows of zeros are symbols that a matrix does not use.
    objectives : Objectives
    generations : int
        That were computed.
    """

    P: Floats
    objectives: Objectives
    generations: int = 0

    @classmethod
    def best(cls, P: Floats, found: Objectives, generations: int = 0) -> Found:
        """Keep the matrices that no other dominates."""
        keep = nondominated(found.privacy, found.mse)
        return cls(P[keep], Objectives(*(values[keep] for values in found)), generations)


def _prepare(
    problem: Problem,
    settings: Settings,
    stream: SimulationStream,
    keeper: Keeper,
    mapper: Callable[..., Any] | None = None,
    objective: GivenObjective | None = None,
) -> Evolution:
    toolbox = make_toolbox(
        problem, density=settings.density, rate=settings.rate, scale=settings.scale
    )
    if mapper is not None:
        toolbox.register("map", mapper)
    if objective is not None:
        toolbox.register("evaluate", objective)
    # What a checkpoint replaces need not be evaluated first.
    return Evolution(problem, settings, stream, toolbox, begun=not keeper.there)


def evolve(
    problem: Problem,
    settings: Settings,
    stream: SimulationStream,
    *,
    checkpoint: Path | None = None,
    progress: Progress | None = None,
    mapper: Callable[..., Any] | None = None,
    objective: GivenObjective | None = None,
) -> Found:
    """The paper's algorithm: matrices of Omega after the last generation.

    Parameters
    ----------
    problem : Problem
    settings : Settings
    stream : SimulationStream
    checkpoint : Path, optional
        File that is written now and then, and taken up where it is there.
    progress : callable, optional
        Called with the generation and their number after each one.
    mapper : callable, optional
        In place of the toolbox's ``map``.
    objective : GivenObjective, optional
        In place of privacy and MSE.
    """
    keeper = Keeper(checkpoint)
    evolution = _prepare(problem, settings, stream, keeper, mapper, objective)
    if keeper.there:
        keeper.take_up(evolution)

    def hook(state: Evolution) -> None:
        keeper.after_generation(state)
        if progress is not None:
            progress(state.generation, settings.generations)

    evolution.run(hook)
    return Found.best(*evolution.omega.front(), evolution.generation)


def refine(
    problem: Problem,
    settings: Settings,
    stream: SimulationStream,
    *,
    at: Floats | None = None,
    limit: Limit | None = None,
    checkpoint: Path | None = None,
    progress: Progress | None = None,
) -> Found:
    """The same evolution with gradient polish, fresh starts and polished neighbours.

    Parameters
    ----------
    at : array, optional
        Levels of the adversary's success to polish for.
    limit : Limit, optional
        With more symbols than categories, polishing begins from its designs, merged.
    checkpoint, progress : optional
        As of :func:`evolve`.
    """
    keeper = Keeper(checkpoint)
    evolution = _prepare(problem, settings, stream, keeper)
    symbols = evolution.population.shape[1]
    polisher = Polisher(problem, symbols, at)
    if symbols > problem.n and limit is not None and limit.attained:
        nearest = np.abs(polisher.at[:, None] - limit.loss).argmin(axis=1)
        designs = [limit.solved[i] for i in nearest]

        def starts(draws: Draws | None = None) -> Floats:
            P = [merged(level, problem.prior, symbols, draws) for level in designs]
            return np.array([_padded(each, symbols) for each in P])

        polisher.fresh = starts
        if not keeper.there:
            P = starts()
            polisher.offer(P, evaluate(problem, P))
    if keeper.there:
        keeper.take_up(evolution, polisher.take_up)

    def hook(state: Evolution) -> None:
        polisher.after_generation(state, INTERVAL)
        keeper.after_generation(state, polisher.state)
        if progress is not None:
            progress(state.generation, settings.generations)

    evolution.run(hook)
    polisher.offer(*evolution.omega.front())
    if np.isfinite(polisher.mse).any():
        for i in range(LAST_ROUNDS):
            polisher.neighbours(Draws(stream, _LAST + i))
    P, found = evolution.omega.front()
    known = np.isfinite(polisher.mse)
    polished = evaluate(problem, polisher.P[known]) if known.any() else None
    if polished is not None:
        P = np.concatenate([P, polisher.P[known]])
        found = Objectives(*map(np.concatenate, zip(found, polished, strict=True)))
    return Found.best(P, found, evolution.generation)


def optimal_designs(limit: Limit, stream: SimulationStream, symbols: int | None = None) -> Found:
    """The designs that attain the limit, or the best ones found with few reported symbols.

    Parameters
    ----------
    limit : Limit
    stream : SimulationStream
        Draws for the choice of symbols to merge.
    symbols : int, optional
        At most so many; as many as the optimum takes by default.

    Returns
    -------
    Found
        One matrix a level.
    """
    problem = limit.problem
    if symbols is not None and symbols < problem.n:
        raise InputError(
            f"symbols: got {symbols}; at least {problem.n} are needed, one a category", symbols
        )
    matrices = [level.matrix(problem.prior) for level in limit.solved]
    if symbols is not None:
        over = [i for i, P in enumerate(matrices) if len(P) > symbols]
        for i, P in zip(over, _few_symbols(limit, over, symbols, stream), strict=True):
            matrices[i] = P
    K = max(map(len, matrices))
    order = np.argsort(limit.loss, kind="stable")
    P = np.array([_padded(matrices[i], K) for i in order])
    # What arithmetic left above delta or a level goes.
    return Found(P, keep_to(problem, P, limit.loss[order]))


def _few_symbols(
    limit: Limit, places: list[int], symbols: int, stream: SimulationStream
) -> list[Floats]:
    """Merge and polish the designs of some levels from several starts; the best of each."""
    problem = limit.problem
    found = []
    for i in places:
        level = limit.solved[i]
        starts = [merged(level, problem.prior, symbols)]
        for start in range(1, MERGES):
            draws = Draws(stream, _MERGE + start, i)
            starts.append(merged(level, problem.prior, symbols, draws))
        stack = np.array([_padded(P, symbols) for P in starts])
        slope = level.certificate.rate(level.loss)
        loss = np.full(len(stack), level.loss)
        polished, after = polish(problem, stack, loss, np.full(len(stack), slope), MERGE_STEPS)
        before = evaluate(problem, stack)
        every = np.concatenate([stack, polished])
        mse = np.concatenate([before.mse, after.mse])
        found.append(every[int(np.argmin(mse))])
    return found


def _padded(P: Floats, symbols: int) -> Floats:
    return np.concatenate([P, np.zeros((symbols - len(P), P.shape[1]))])


def warner_matrices(n: int, steps: int = 1_000) -> Floats:
    """Warner's matrices with p = 0, 1/steps, ..., 1 on the diagonal, shape (steps + 1, n, n)."""
    p = np.arange(steps + 1)[:, None, None] / steps
    identity = np.eye(n)
    return p * identity + (1.0 - p) / (n - 1) * (1.0 - identity)


def settings_for(method: str, **given: Any) -> Settings:
    """Settings with a method's own number of generations, unless one is given."""
    chosen = {key: value for key, value in given.items() if value is not None}
    settings = Settings(**chosen)
    if method == "memetic" and "generations" not in chosen:
        settings = replace(settings, generations=MEMETIC_GENERATIONS)
    return settings
