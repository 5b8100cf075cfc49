"""Privacy, worst posterior and mean squared error of whole stacks of matrices at once."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ppdm_dask.errors import InputError
from ppdm_dask.kernels import channels
from ppdm_dask.search.problem import Problem

__all__ = ["TOLERANCE", "Objectives", "evaluate", "meet_bound"]

Floats = npt.NDArray[np.float64]

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
