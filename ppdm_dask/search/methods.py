"""The methods of a search: the paper's evolution, the same with gradient polish, optimal designs.

Polish moves matrices towards levels of privacy, between and after the generations.  An optimal
design with too many reported symbols is brought to fewer by merging symbols.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import Any

import numpy as np
import numpy.typing as npt

from ppdm_dask.arrays import Floats
from ppdm_dask.errors import InputError
from ppdm_dask.kernels.channels import descend
from ppdm_dask.randomness import SimulationStream
from ppdm_dask.search.bound import Level
from ppdm_dask.search.checkpoints import require_file
from ppdm_dask.search.limit import AT_LEVEL, Limit, least_mse, levels
from ppdm_dask.search.operators import Draws, make_toolbox
from ppdm_dask.search.problem import (
    GivenObjective,
    Objectives,
    Problem,
    Settings,
    evaluate,
    meet_bound,
)
from ppdm_dask.search.spea2 import Evolution, nondominated, require_form


def merged(
    level: Level, prior: Floats, symbols: int, draws: Draws | None = None, noise: float = 0.3
) -> Floats:
    """P with at most `symbols` symbols, merged pair by pair from the design of a level.

    Merging never raises the adversary's success or a posterior, and loses one rank-one term of J:
    with ``v = u_i / s_i - u_j / s_j`` and ``c = s_i s_j / (s_i + s_j)``, J becomes
    ``J - c v v^T``.  Each step takes the pair that costs least, where success given back counts at
    the certificate's exchange rate.

    Parameters
    ----------
    level : Level
    prior : array, shape (n,)
    symbols : int
        n or more.
    draws : Draws, optional
        Take pairs at random near the best, for variety.
    noise : float
        How far from the best, in units of the median cost of the twenty best pairs.
    """
    rays = level.weights[:, None] * level.rays
    certificate = level.certificate
    rate = certificate.rate(level.loss)
    while len(rays) > symbols:
        s = rays.sum(axis=1)
        u = rays / prior
        C = np.linalg.inv((u / s[:, None]).T @ u)
        i, j = np.triu_indices(len(rays), 1)
        v = u[i] / s[i, None] - u[j] / s[j, None]
        c = s[i] * s[j] / (s[i] + s[j])
        Cv = v @ C
        left = 1.0 - c * (v * Cv).sum(axis=1)
        rise = c * (Cv**2).sum(axis=1) / np.maximum(left, 1e-12)
        largest = rays.max(axis=1)
        given_back = largest[i] + largest[j] - (rays[i] + rays[j]).max(axis=1)
        cost = np.log1p(rise / np.trace(C)) - rate * given_back
        if draws is not None:
            # Gumbel noise: the pair is drawn by a softmax of the costs, in one argmin.
            usual = np.median(np.abs(np.partition(cost, min(20, len(cost) - 1))[:20]))
            gumbel = -np.log(-np.log(draws.uniform(len(cost)) + 2.0**-54))
            cost = cost - noise * usual * gumbel
        best = int(np.argmin(cost))
        rays[i[best]] += rays[j[best]]
        rays = np.delete(rays, j[best], axis=0)
    P = rays / prior
    result: Floats = P / P.sum(axis=0)
    return result


POLISH = 1 << 32
"""Key of the draws of polishing, beyond that of any generation."""

STEPS = 1_500
RATES = (0.1, 3e-4)  # of the first and of the last step
FORCES = (1.5, 30.0)  # in units of the front's own slope
SMALLEST = 1e-3  # an entry at 0 could not grow
NEAR = 6  # levels to either side from which a neighbour comes
WIDE = 15
FRESH_ROUNDS = 12  # of all kinds


def keep_to(problem: Problem, P: Floats, loss: Floats) -> Objectives:
    """Bring matrices down to delta and to levels of the adversary's success, in place.

    What is above is mixed with the matrix whose columns are all equal to the reports'
    distribution, on which the success depends linearly or better.

    Returns
    -------
    Objectives
        Of the changed matrices.
    """
    meet_bound(problem, P)
    success = 1.0 - evaluate(problem, P).privacy
    mix = np.clip((success - loss) / np.maximum(success - problem.p_max, 1e-12), 0.0, 1.0)
    reports = (P @ problem.prior)[:, :, None]
    P += mix[:, None, None] * (reports - P)
    return evaluate(problem, P)


def polish(
    problem: Problem, P: Floats, loss: Floats, stiffness: Floats, steps: int = STEPS
) -> tuple[Floats, Objectives]:
    """Descend from matrices towards the least MSE at a level each.

    Parameters
    ----------
    problem : Problem
    P : array, shape (m, K, n)
        Starts; not changed.
    loss, stiffness : arrays, shape (m,)
        Levels of the adversary's success, and the penalty's unit: about -d log tr J^-1 / d level.
    steps : int

    Returns
    -------
    P, Objectives
        All within delta and their level.
    """
    P = np.clip(P, SMALLEST, 1.0)
    P /= P.sum(axis=1, keepdims=True)
    run = np.linspace(0.0, 1.0, steps)
    force = FORCES[0] * (FORCES[1] / FORCES[0]) ** run
    rate = RATES[0] * (RATES[1] / RATES[0]) ** run
    # The penalties grow while the steps shrink: first far, then onto the bounds. Nothing is asked
    # where delta = 1, as no posterior is too large.
    descend(P, problem.prior, problem.delta, loss, stiffness, force, rate)
    return P, keep_to(problem, P, loss)


class Polisher:
    """The best matrix known at each of a list of levels, improved round by round.

    Parameters
    ----------
    problem : Problem
    symbols : int
        Reported symbols K.
    at : array, optional
        Rising levels; the 98 of :func:`~ppdm_dask.search.limit.levels` by default.

    Attributes
    ----------
    P : array, shape (levels, K, n)
    mse : array, shape (levels,)
        Infinite where nothing is known yet.
    fresh : callable, optional
        Starts for the first rounds of fresh ones, in place of random matrices.
    """

    fresh: Callable[[Draws], Floats] | None = None

    def __init__(self, problem: Problem, symbols: int, at: Floats | None = None) -> None:
        self.problem = problem
        self.at = levels(problem) if at is None else np.asarray(at, dtype=float)
        self.P = np.zeros((len(self.at), symbols, problem.n))
        self.mse = np.full(len(self.at), np.inf)
        self.rounds = 0

    def offer(self, P: Floats, found: Objectives) -> int:
        """Take matrices for every level that they keep to and improve; how many levels changed."""
        loss = 1.0 - found.privacy
        order = np.argsort(loss, kind="stable")
        mse = found.mse[order]
        lowest = np.minimum.accumulate(mse)
        first = np.r_[True, mse[1:] < lowest[:-1]]
        holder = np.maximum.accumulate(np.where(first, np.arange(len(mse)), 0))
        place = np.searchsorted(loss[order], self.at + AT_LEVEL, "right") - 1
        candidate = holder[np.maximum(place, 0)]
        better = (place >= 0) & (mse[candidate] < self.mse)
        self.P[better] = P[order[candidate[better]]]
        self.mse[better] = mse[candidate[better]]
        return int(better.sum())

    @property
    def stiffness(self) -> Floats:
        """Slope of log tr J^-1 along the front that is known, over ten levels."""
        loss, mse = self.at, least_mse(self.at, self.mse, self.at)
        known = np.isfinite(mse)
        if known.sum() < 2:
            return 0.5 / (loss - self.problem.p_max) + 1.0
        log = np.log(np.interp(loss, loss[known], self.problem.trace(mse[known])))
        low = np.maximum(np.arange(len(loss)) - 5, 0)
        high = np.minimum(np.arange(len(loss)) + 5, len(loss) - 1)
        slope = (log[low] - log[high]) / (loss[high] - loss[low])
        stiffness: Floats = np.clip(slope, 0.5, 0.5 / (loss - self.problem.p_max) + 1.0)
        return stiffness

    def improve(self, starts: Floats) -> tuple[Floats, Objectives]:
        """Polish one start a level, and keep what is better."""
        P, found = polish(self.problem, starts, self.at, self.stiffness)
        self.offer(P, found)
        return P, found

    def round(self, draws: Draws) -> tuple[Floats, Objectives]:
        """Polish starts of one kind: fresh ones, neighbours, mixed neighbours, crossed ones."""
        # Two rounds of fresh starts first: neighbours need matrices to come from.
        kind = self.rounds % 4 if self.rounds > 1 else 0
        self.rounds += 1
        return self.improve(self._starts(kind, draws))

    def neighbours(self, draws: Draws) -> None:
        """Polish a neighbour's matrix at each level."""
        self.improve(self._starts(1, draws))

    def _starts(self, kind: int, draws: Draws) -> Floats:
        m, K, n = self.P.shape
        if kind == 0 and self.fresh is not None and self.rounds <= FRESH_ROUNDS:
            return self.fresh(draws)
        fresh = draws.columns(m, K, n)
        if kind == 0 or not np.isfinite(self.mse).all():
            share = draws.uniform(m, 1, 1)
            return 0.5 * fresh + 0.5 * ((1.0 - share) * fresh + share * np.eye(K, n))
        source = self._near(np.arange(m), NEAR, draws)
        starts = self.P[source]
        if kind == 2:
            return 0.7 * starts + 0.3 * fresh
        if kind == 3:
            other = self.P[self._near(source, WIDE, draws)]
            return np.where(draws.uniform(m, 1, n) < 0.5, starts, other)
        return starts

    @staticmethod
    def _near(level: npt.NDArray[np.int64], reach: int, draws: Draws) -> npt.NDArray[np.int64]:
        m = len(level)
        step = 1 + draws.below(reach, m)
        sign = np.where(draws.uniform(m) < 0.5, -1, 1)
        return np.clip(level + sign * step, 0, m - 1)

    def state(self) -> dict[str, npt.NDArray[Any]]:
        """All that the next rounds depend on, as arrays, for :meth:`take_up`."""
        return {
            "polish_at": self.at,
            "polish_P": self.P,
            "polish_mse": self.mse,
            "polish_rounds": np.array(self.rounds),
        }

    def take_up(self, state: Mapping[str, npt.NDArray[Any]]) -> None:
        """Inverse of :meth:`state`.

        Raises
        ------
        KeyError, ValueError
            If the state is none of a polisher, or one of other levels.
        """
        if not np.array_equal(state["polish_at"], self.at):
            raise ValueError("its polish is for other levels")
        require_form(state, "polish_P", self.P.shape)
        require_form(state, "polish_mse", self.mse.shape)
        require_form(state, "polish_rounds", (), "i")
        self.P, self.mse = state["polish_P"], state["polish_mse"]
        self.rounds = int(state["polish_rounds"])

    def after_generation(self, evolution: Evolution, interval: int) -> None:
        """Polish every `interval` generations, and exchange what was found with Omega."""
        if evolution.generation % interval:
            return
        P, known = evolution.omega.front()
        self.offer(P, known)
        draws = Draws(evolution.stream, POLISH + evolution.generation)
        evolution.omega.offer(*self.round(draws))


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
        """Resume from the file; parameters as of :meth:`Evolution.restore`."""
        assert self.path is not None
        evolution.restore(self.path, take)

    def after_generation(
        self, evolution: Evolution, more: Callable[[], Mapping[str, Any]] | None = None
    ) -> None:
        """Write the file if it is due, with the state of what runs beside the evolution."""
        if self.path is None:
            return
        now = monotonic()
        due = evolution.finished or not evolution.generation % GENERATIONS
        if due or now > self._last + SECONDS:
            evolution.save(self.path, None if more is None else more())
            # After the write: on a slow disk the search must not write all the time.
            self._last = monotonic()


Progress = Callable[[int, int], None]

METHODS = ("spea2", "memetic", "bound")

INTERVAL = 50
"""Generations between two rounds of polishing."""

MEMETIC_GENERATIONS = 3_000
LAST_ROUNDS = 6  # of neighbours, after the last generation
MERGES = 6  # starts a level for a design with few symbols
MERGE_STEPS = 6_000

# Keys that no generation reaches and no other list of draws has.
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
    # What the generations have found since the last round of polishing.
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
            f"symbols: got {symbols}; at least {problem.n} are needed, one for each category",
            symbols,
        )
    matrices = [level.matrix(problem.prior) for level in limit.solved]
    if symbols is not None:
        over = [i for i, P in enumerate(matrices) if len(P) > symbols]
        for i, P in zip(over, _few_symbols(limit, over, symbols, stream), strict=True):
            matrices[i] = P
    order = np.argsort(limit.loss, kind="stable")
    P = stacked([matrices[i] for i in order])
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


def stacked(matrices: Sequence[Floats]) -> Floats:
    """Matrices of different numbers of symbols as one array; rows of zeros fill them up."""
    K = max(map(len, matrices))
    return np.array([_padded(P, K) for P in matrices])


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
    if method == "memetic":
        chosen.setdefault("generations", MEMETIC_GENERATIONS)
    return Settings(**chosen)
