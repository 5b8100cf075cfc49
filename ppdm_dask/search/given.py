"""An objective of the user's own, in place of the paper's privacy and error."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import lru_cache

import numpy as np
import numpy.typing as npt
from threadpoolctl import ThreadpoolController

from ppdm_dask.errors import InputError
from ppdm_dask.search.objectives import Objectives, evaluate
from ppdm_dask.search.problem import Problem
from ppdm_dask.shown import given

__all__ = ["BLOCK", "GivenObjective", "Objective"]

Floats = npt.NDArray[np.float64]
Objective = Callable[[Floats], npt.ArrayLike]

BLOCK = 8
"""Matrices that an objective is given at once.

Populations are cut at multiples of it, wherever they are evaluated.  So an objective sees the same
stacks in this process and on any number of workers, and may round as it likes within one of them.
"""


class GivenObjective:
    """Evaluates stacks by a user's function, and checks what it returns.

    Parameters
    ----------
    problem : Problem
        Its prior and delta still say which posteriors a matrix has.
    function : callable
        Takes an array of shape (m, K, n), whose columns sum to 1, and returns one of shape (m, 2):
        for each matrix a privacy in [0, 1], the better the larger, and an error, the better the
        smaller, infinite for a matrix that is of no use.  The same matrices have to give the same
        numbers; m is at most 8.  It runs with one thread in numerical libraries.

    Raises
    ------
    InputError
        If it is no function; when called, if the function returns anything else.
    """

    def __init__(self, problem: Problem, function: Objective) -> None:
        if not callable(function):
            raise InputError(
                f"objective: got {given(function)}; a function of a stack of matrices is needed",
                function,
            )
        self.problem = problem
        self.function = function

    @property
    def name(self) -> str:
        """What the function is called, for messages and results."""
        named = getattr(self.function, "func", self.function)
        return str(getattr(named, "__qualname__", type(named).__qualname__))

    def __call__(self, P: Floats) -> Objectives:
        """Objectives of a stack, shape (m, K, n), that begins at a multiple of 8 of a population.

        The worst posteriors are computed here.
        """
        values = np.empty((len(P), 2))
        with _controller(len(sys.modules)).limit(limits=1):
            for start in range(0, len(P), BLOCK):
                # A copy: the function may do with it what it likes.
                block = np.array(P[start : start + BLOCK])
                values[start : start + BLOCK] = self._checked(self.function(block), len(block))
        privacy, error = np.ascontiguousarray(values.T)
        return Objectives(privacy, evaluate(self.problem, P).worst, error)

    def _checked(self, returned: npt.ArrayLike, m: int) -> Floats:
        try:
            found = np.asarray(returned)
        except ValueError:
            found = np.array(None)  # of a ragged list
        if found.shape != (m, 2) or found.dtype.kind not in "biuf":
            what = type(returned).__name__
            if isinstance(returned, np.ndarray):
                what = f"an array of {found.dtype} of shape {found.shape}"
            elif found.dtype.kind in "biuf" and found.shape:
                what += f" of shape {found.shape}"
            raise InputError(
                f"objective: {self.name} returned {what} for {m} matrices; numbers of shape "
                f"({m}, 2) are needed, a privacy and an error each",
                returned,
            )
        values: Floats = found.astype(np.float64)
        privacy, error = values.T
        for name, numbers, right, needed in (
            ("privacy", privacy, (privacy >= 0) & (privacy <= 1), "a number from 0 to 1"),
            ("error", error, error > -np.inf, "a number, or infinity for a matrix of no use,"),
        ):
            if not right.all():
                raise InputError(
                    f"objective: {self.name} returned the {name} {numbers[~right][0]:g}; "
                    f"{needed} is needed",
                    returned,
                )
        return values


@lru_cache(maxsize=1)
def _controller(modules: int) -> ThreadpoolController:
    """Control over the numerical libraries that are loaded; a later module may load more."""
    return ThreadpoolController()
