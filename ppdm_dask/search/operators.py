"""The parts of SPEA2, on whole stacks of matrices at once, and DEAP's toolbox of them.

Fitness and selection work for any number of objectives.  Draws are keyed by the generation, so that
no generator has to be stored.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np
from deap import base, creator

from ppdm_dask.arrays import Floats, Ints
from ppdm_dask.kernels import channels
from ppdm_dask.kernels.spea2 import assign_two, select_two
from ppdm_dask.randomness import SimulationStream
from ppdm_dask.search.problem import Objectives, Problem, evaluate, meet_bound


class Fitness(NamedTuple):
    """SPEA2's quality of n points; the lower the better."""

    strength: Ints
    """How many points each one dominates."""
    raw: Ints
    """Sum of the strengths of those that dominate it; 0 for what is not dominated."""
    sigma: Floats
    """Distance to the k-th nearest point."""

    @property
    def total(self) -> Floats:
        """Raw fitness plus density 1 / (sigma + 2).  Eq. (11) of [HuangDu]_."""
        return self.raw + 1.0 / (self.sigma + 2.0)


def assign_fitness(F: Floats, k: int = 1) -> Fitness:
    """Fitness of points all of whose objectives are minimised.  Section V-B of [HuangDu]_.

    Parameters
    ----------
    F : array, shape (n, objectives)
        Finite.
    k : int
        The density looks at the k-th nearest point: 1 in the paper, ``floor(sqrt(n))`` in SPEA2
        itself.  Of fewer than k others the farthest counts; a lone point has density 0.
    """
    F = np.ascontiguousarray(F, dtype=float)
    n = len(F)
    found = Fitness(np.zeros(n, np.int64), np.zeros(n, np.int64), np.full(n, np.inf))
    if n:
        if F.shape[1] == 2:
            assign = assign_two
        else:
            # Compiled when it is needed: the paper has two objectives.
            from ppdm_dask.kernels.spea2 import assign_any as assign
        assign(F, max(1, min(k, n - 1)), *found)
    return found


def select(F: Floats, fitness: Fitness, size: int) -> Ints:
    """Indices of the new archive, increasing; fewer than `size` if there are fewer points.

    All points that are not dominated; the best of the others where those are too few, and where
    they are too many, without the one that is nearest to its neighbours, again and again.
    Section V-C of [HuangDu]_.  Ties go against the earlier point in the removal, and for the
    earlier one in the filling.
    """
    F = np.ascontiguousarray(F, dtype=float)
    if F.shape[1] == 2:
        chosen = select_two
    else:
        from ppdm_dask.kernels.spea2 import select_any as chosen
    result: Ints = chosen(F, fitness.raw, fitness.sigma, size)
    return result


class Draws:
    """Random numbers below one key, each list under a key of its own.

    Parameters
    ----------
    stream : SimulationStream
    *key : int
        Such as the generation.
    """

    def __init__(self, stream: SimulationStream, *key: int) -> None:
        self._source = stream.source(*key)

    def uniform(self, *shape: int) -> Floats:
        """Doubles uniform on [0, 1)."""
        # 53 bits, as many as a double has: more would round up to 1.
        words = self._source.words(math.prod(shape))
        found: Floats = (words >> np.uint64(11)).astype(np.float64) * 2.0**-53
        return found.reshape(shape)

    def below(self, m: int, *shape: int) -> Ints:
        """Integers uniform on ``0 .. m - 1``."""
        # Rounding of the product may reach m; rejection would make draws depend on one another.
        return np.minimum((self.uniform(*shape) * m).astype(np.int64), m - 1)

    def order(self, m: int) -> Ints:
        """A random order of ``0 .. m - 1``."""
        return np.argsort(self.uniform(m), kind="stable")

    def columns(self, m: int, K: int, n: int) -> Floats:
        """Matrices whose columns are uniform on the simplex, shape (m, K, n)."""
        # Exponential numbers over their sum; log1p, as a draw can be 0 and never is 1.
        weights = -np.log1p(-self.uniform(m, K, n))
        return np.ascontiguousarray(weights / weights.sum(axis=1, keepdims=True))


def tournament(fitness: Floats, size: int, draws: Draws) -> Ints:
    """Binary tournaments: indices of the parents, shape (size,).  Section V-D of [HuangDu]_.

    Two members are drawn, and the one with the lower fitness wins; the first where both are equal.
    """
    pairs = draws.below(len(fitness), size, 2)
    second = fitness[pairs[:, 1]] < fitness[pairs[:, 0]]
    return np.where(second, pairs[:, 1], pairs[:, 0])


def cross(P: Floats, draws: Draws) -> None:
    """Pair the matrices at random, and swap the columns right of a random line.  Section V-E.

    Parameters
    ----------
    P : array, shape (m, K, n)
        Changed in place; of an odd number one stays as it is.
    """
    m, _, n = P.shape
    pairs = draws.order(m)[: m // 2 * 2].reshape(-1, 2)
    cuts = 1 + draws.below(n - 1, m // 2)
    channels.swap_columns(P, pairs, cuts)


def mutate(P: Floats, draws: Draws, rate: float, scale: float) -> None:
    """Change one entry of a random column, and the rest of it in proportion.  Section V-F.

    Parameters
    ----------
    P : array, shape (m, K, n)
        Changed in place.
    rate : float
        Probability that a matrix is changed.
    scale : float
        The entry changes by up to this much, up or down.
    """
    m, K, n = P.shape
    column, row = draws.below(n, m), draws.below(K, m)
    size = draws.uniform(m) * scale
    sign = np.where(draws.uniform(m) < 0.5, -1.0, 1.0)
    step = np.where(draws.uniform(m) < rate, sign * size, 0.0)
    channels.mutate(P, column, row, step)


def initial(m: int, K: int, n: int, draws: Draws) -> Floats:
    """Random matrices of every privacy, shape (m, K, n).

    The columns of the first half are uniform on the simplex; such matrices tell little.  Those of
    the second half are concentrated (exponential weights to a power from 1/2 to 20) and mixed with
    the identity, so that the first population also reaches to the other end of the front.
    """
    half = m // 2
    weights = -np.log1p(-draws.uniform(half, K, n))
    weights **= 0.5 * 40.0 ** draws.uniform(half, 1, 1)
    share = draws.uniform(half, 1, 1)
    sharp = (1.0 - share) * weights / weights.sum(axis=1, keepdims=True) + share * np.eye(K, n)
    return np.concatenate([draws.columns(m - half, K, n), sharp])


# DEAP keeps created classes in one module, under names that must not be created twice.
if not hasattr(creator, "RRTradeoff"):
    creator.create("RRTradeoff", base.Fitness, weights=(1.0, -1.0))
    creator.create("RRIndividual", np.ndarray, fitness=creator.RRTradeoff)


def make_toolbox(
    problem: Problem, *, density: int = 1, rate: float = 1.0, scale: float = 0.1
) -> Any:
    """Toolbox of the paper's algorithm; every tool works on a whole stack of matrices.

    Parameters
    ----------
    problem : Problem
    density : int
        Which nearest neighbour the density looks at.
    rate, scale : float
        Probability of a mutation, and the largest change of an entry by one.

    Returns
    -------
    deap.base.Toolbox
        With ``population``, ``evaluate``, ``fitness``, ``select``, ``parents``, ``mate``,
        ``mutate``, ``repair``, ``split`` and ``map``; register another tool under one of these
        names to change that part.  ``map`` applies ``evaluate`` to the parts that ``split`` makes
        of the children: one part, unless evaluating is expensive.
    """
    toolbox = base.Toolbox()
    toolbox.register("population", initial, n=problem.n)
    toolbox.register("evaluate", evaluate, problem)
    toolbox.register("repair", meet_bound, problem)
    toolbox.register("fitness", assign_fitness, k=density)
    toolbox.register("select", select)
    toolbox.register("parents", tournament)
    toolbox.register("mate", cross)
    toolbox.register("mutate", mutate, rate=rate, scale=scale)
    toolbox.register("split", _whole)
    toolbox.register("map", map)
    return toolbox


def _whole(P: Floats) -> list[Floats]:
    return [P]


def mapped(toolbox: Any, P: Floats) -> Objectives:
    """Evaluate a stack part by part through the toolbox's ``map``."""
    call: Callable[..., Iterable[Objectives]] = toolbox.map
    parts = list(call(toolbox.evaluate, toolbox.split(P)))
    if len(parts) == 1:
        return parts[0]
    return Objectives(*(np.concatenate(field) for field in zip(*parts, strict=True)))


def individuals(P: Floats, found: Objectives) -> list[Any]:
    """Matrices of a stack as DEAP's individuals, for DEAP's own tools; they share its memory.

    Each is an ``RRIndividual``, an array whose ``fitness.values`` are privacy (maximised) and MSE
    (minimised).
    """
    members = []
    for matrix, privacy, mse in zip(P, found.privacy, found.mse, strict=True):
        member = matrix.view(creator.RRIndividual)
        member.fitness = creator.RRTradeoff((float(privacy), float(mse)))
        members.append(member)
    return members
