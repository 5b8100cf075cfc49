"""Privacy, worst posterior and mean squared error of whole stacks of matrices at once.

Beside it: an objective of the user's own, in place of the paper's privacy and error.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from threadpoolctl import ThreadpoolController

from ppdm_dask.arrays import Floats
from ppdm_dask.errors import InputError
from ppdm_dask.kernels import channels
from ppdm_dask.search.problem import Problem
from ppdm_dask.shown import given

__all__ = [
    "BLOCK",
    "TOLERANCE",
    "GivenObjective",
    "Objective",
    "Objectives",
    "evaluate",
    "meet_bound",
]


SWEEPS = 25
"""Sweeps of the repair before a matrix is mixed with a constant one."""

TOLERANCE = 1e-12
"""By how much rounding may leave a posterior above delta."""


class Objectives(NamedTuple):
    """What a stack of m matrices achieves; each field has shape (m,)."""

    privacy: Floats
    """1 - sum_y max_x P[y, x] p[x], in [0, 1 - max p].  Eq. (8) of [HuangDu]_."""
    worst: Floats
    """max over x and y of P(x | y), in [max p, 1].  Eq. (9)."""
    mse: Floats
    """Average MSE of the estimated proportions, Eq. (10); infinite where P has no left inverse."""

    @property
    def minimised(self) -> Floats:
        """Adversary's success and MSE, shape (m, 2): both are the better the smaller."""
        return np.stack([1.0 - self.privacy, self.mse], axis=1)


def _stack(problem: Problem, P: npt.ArrayLike) -> Floats:
    stack = np.ascontiguousarray(P, dtype=float)
    if stack.ndim == 2:
        stack = stack[None]
    if stack.ndim != 3 or stack.shape[2] != problem.n or stack.shape[1] < 1:
        raise InputError(
            f"P: got shape {np.shape(P)}; matrices with {problem.n} columns are needed", P
        )
    return stack


def evaluate(problem: Problem, P: npt.ArrayLike) -> Objectives:
    """Privacy, worst posterior and MSE of matrices.

    Parameters
    ----------
    problem : Problem
    P : array_like, shape (m, K, n) or (K, n)
        K reported symbols; with K above n the MSE is that of the best linear unbiased estimator,
        ``(tr J^-1 - |p|^2) / (n N)`` with ``J = P^T diag(1 / P p) P``.

    Examples
    --------
    >>> from ppdm_dask.search.objectives import evaluate
    >>> from ppdm_dask.search.problem import Problem
    >>> warner = [[0.8, 0.2], [0.2, 0.8]]
    >>> found = evaluate(Problem([0.3, 0.7], n_records=1000), warner)
    >>> f"{found.privacy[0]:.2f} {found.mse[0]:.4g}"
    '0.20 0.0006544'
    """
    stack = _stack(problem, P)
    loss, worst, trace = (np.empty(len(stack)) for _ in range(3))
    channels.measure(stack, problem.prior, loss, worst, trace)
    return Objectives(np.maximum(1.0 - loss, 0.0), worst, problem.mse(trace))


def meet_bound(problem: Problem, P: Floats, sweeps: int = SWEEPS) -> None:
    """Change matrices in place until no posterior exceeds delta.  Section V-G of [HuangDu]_.

    Parameters
    ----------
    problem : Problem
    P : array, shape (m, K, n)
        Contiguous; columns sum to 1 but for rounding.
    sweeps : int
        How often the paper's step is repeated before what is left is mixed away.
    """
    delta = problem.delta
    if delta < 1.0:
        channels.repair(P, problem.prior, delta, sweeps, TOLERANCE)
    else:
        channels.repair(P, problem.prior, 2.0, 0, 0.0)  # only tidies


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
