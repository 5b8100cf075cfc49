"""The search's parts on DEAP's toolbox, and its matrices as DEAP's individuals."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from deap import base, creator

from ppdm_dask.arrays import Floats
from ppdm_dask.search import operators
from ppdm_dask.search.objectives import Objectives, evaluate, meet_bound
from ppdm_dask.search.operators import assign_fitness, select
from ppdm_dask.search.problem import Problem

__all__ = ["individuals", "make_toolbox"]


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
    toolbox.register("population", operators.initial, n=problem.n)
    toolbox.register("evaluate", evaluate, problem)
    toolbox.register("repair", meet_bound, problem)
    toolbox.register("fitness", assign_fitness, k=density)
    toolbox.register("select", select)
    toolbox.register("parents", operators.tournament)
    toolbox.register("mate", operators.cross)
    toolbox.register("mutate", operators.mutate, rate=rate, scale=scale)
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
