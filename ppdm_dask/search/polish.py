"""Gradient polish of matrices towards levels of privacy, between and after the generations.

Beside it: from an optimal design to one with fewer reported symbols, by merging symbols.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ppdm_dask.arrays import Floats
from ppdm_dask.kernels.channels import descend
from ppdm_dask.search.archive import require_form
from ppdm_dask.search.bound import Level
from ppdm_dask.search.limit import AT_LEVEL, least_mse, levels
from ppdm_dask.search.objectives import Objectives, evaluate, meet_bound
from ppdm_dask.search.operators import Draws
from ppdm_dask.search.problem import Problem

if TYPE_CHECKING:
    from ppdm_dask.search.spea2 import Evolution

__all__ = ["POLISH", "Polisher", "keep_to", "merged", "polish"]


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
    # With delta = 1 no posterior is too large.
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
