"""Optimal designs at rising levels of the success of a guess, by the solver of all cones."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ppdm_dask.errors import PPDMError
from ppdm_dask.search.bound import Designer, Level
from ppdm_dask.search.cones import Guess, starting_rows
from ppdm_dask.search.newton import Best, Start, arithmetic, improve
from ppdm_dask.search.optimum import design_of, even_cost, pricing_of, rays_of
from ppdm_dask.search.problem import Problem
from ppdm_dask.search.program import Program
from ppdm_dask.search.solved import Arrays

ENOUGH = 1e-9
"""Relative gap at which a level is solved."""

WORST = 1e-7
"""Relative gap beyond which the cone solver has a try."""


TRIES = 2
"""Levels in a row that fail after which the cone solver is left to itself."""


class Guesses:
    """Optimal designs of one problem, each from where the level before ended.

    Parameters
    ----------
    problem : Problem
    """

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        cone = Guess(problem.delta, success=problem.delta)
        p = problem.prior
        levels, even = (problem.delta,), even_cost(cone, p)
        self._program = Program(p, np.eye(p.size), np.zeros(0), levels, even)
        self._pricing = pricing_of(self._program, cone)
        self._start = rays_of(cone, starting_rows(cone, p), p)
        self._before: Start | None = None
        self._designer: Designer | None = None
        self._failed = 0

    def solve(self, loss: float) -> Level:
        """The design of least MSE with the adversary's success at most `loss`.

        Parameters
        ----------
        loss : float
            Above max p, at most delta.

        Raises
        ------
        PPDMError
            If neither solver gives anything that can be certified.
        """
        if self._failed < TRIES:
            level = self._solve(loss)
            if level is not None:
                self._failed = 0
                return level
            self._failed += 1
        if self._designer is None:
            self._designer = Designer(self.problem)
        return self._designer.solve(loss)

    def state(self) -> Arrays:
        """What the next level begins from, for :meth:`begin_from`."""
        failed = {"failed": np.array([self._failed])}
        return failed if self._before is None else {**failed, **self._before.arrays()}

    def begin_from(self, state: Arrays) -> None:
        """Continue as the solver would whose state this was.

        Raises
        ------
        KeyError, ValueError
            If it is none of this problem.
        """
        (failed,) = state["failed"]
        before = None
        if len(state) > 1:
            before = Start.from_arrays(state, self.problem.n, len(self._program.levels))
        self._failed, self._before = int(failed), before

    def _solve(self, loss: float) -> Level | None:
        """By Newton's method; None where it comes to no good end."""
        program = replace(self._program, levels=(loss,))
        for start in (self._before, Start(self._start)):
            if start is None:
                continue
            try:
                with arithmetic():
                    best = improve(program, start, self._pricing, gap=ENOUGH)
                    if best.gap <= WORST:
                        level = _level(program, best, loss)
                        self._before = best.last
                        return level
            except (PPDMError, np.linalg.LinAlgError):
                pass
        self._before = None
        return None


def _level(program: Program, best: Best, loss: float) -> Level:
    """The design with rays of largest entry 1, as all levels have them."""
    rays, weights = design_of(program, best)
    joint = rays.rows * program.prior / rays.cost
    return Level(loss, weights * rays.cost[:, 0], joint, best.certificate)
