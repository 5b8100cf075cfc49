"""What is searched for: matrices for one prior, number of records and bound on the posterior.

Privacy, worst posterior and mean squared error are evaluated for whole stacks of matrices; a
custom objective may take the place of the paper's.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from threadpoolctl import ThreadpoolController

from ppdm_dask.arrays import Floats
from ppdm_dask.errors import InputError
from ppdm_dask.frozen import settle
from ppdm_dask.ranges import whole
from ppdm_dask.shown import given, shown


@dataclass(frozen=True)
class Settings:
    """Sizes and rates of the evolution.

    Parameters
    ----------
    generations : int
        L, after which it stops.
    population, archive : int
        N_Q and N_V, 2 or more.
    slots : int
        Size of Omega.
    density : int
        Which nearest neighbour the density looks at; 1 in the paper.
    rate, scale : float
        Probability of a mutation, and the largest change of an entry by one.
    patience : int, optional
        Stop after this many generations in a row that do not change Omega.
    symbols : int, optional
        Reported symbols K, as many as categories by default.
    """

    generations: int = 20_000
    population: int = 200
    archive: int = 100
    slots: int = 1_000
    density: int = 1
    rate: float = 1.0
    scale: float = 0.1
    patience: int | None = None
    symbols: int | None = None

    def __post_init__(self) -> None:
        least = {"generations": 0, "population": 2, "archive": 2, "slots": 1, "density": 1}
        least |= {name: 1 for name in ("patience", "symbols") if getattr(self, name) is not None}
        for name, smallest in least.items():
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or value < smallest:
                raise InputError(
                    f"{name}: got {given(value)}; a whole number of {smallest} or more is needed",
                    value,
                )
        for name in ("rate", "scale"):
            value = getattr(self, name)
            if not isinstance(value, int | float) or not 0 < value <= 1:
                raise InputError(f"{name}: got {given(value)}; a number in (0, 1] is needed", value)


SMALLEST = 1e-6
"""The rarest category: the MSE of rarer ones is lost in the rounding of tr J^-1."""

NEAREST = 1e-6
"""Least distance of a level from max p: nearer to it reports tell nothing that could be computed.
"""

LEAST_ROOM = 1e-4
"""Least distance of delta from max p."""


def infeasible(prior: npt.ArrayLike, delta: float) -> str:
    """Why no matrix can be computed that keeps every posterior at most delta; empty where one can.

    Theorem 5 of [HuangDu]_: delta has to exceed the most frequent category's proportion.
    """
    p_max, least = float(np.max(prior)), float(np.min(prior))
    if least < SMALLEST:
        return f"a category has proportion {least:g}; {SMALLEST:g} or more is needed"
    if delta < p_max:
        return f"delta = {delta:g} is below the most frequent category's proportion, {p_max:.4g}"
    if delta == p_max:
        return f"delta = {delta:g} is the most frequent category's proportion: reports tell nothing"
    if delta < p_max + LEAST_ROOM:
        return (
            f"delta = {delta:g} is less than {LEAST_ROOM:g} above the most frequent category's "
            f"proportion, {p_max:.6g}: reports tell next to nothing"
        )
    return ""


@dataclass(frozen=True, eq=False)
class Problem:
    r"""Find P with ``reported = P @ true`` that discloses little and lets much be estimated.

    Privacy, its bound and the error are Eqs. (8) to (10) of [HuangDu]_, the last one in closed
    form:

    .. math:: 1 - \sum_y \max_x P_{yx} p_x, \qquad \max_{x, y} P(x \mid y) \le \delta

    .. math:: \text{MSE} = \frac{\operatorname{tr} J^{-1} - |p|^2}{n N}, \qquad
        J = P^T \operatorname{diag}(P p)^{-1} P

    Parameters
    ----------
    prior : array_like, shape (n,)
        Proportions of the true categories: 2 or more, none below 1e-6, with sum 1.
    n_records : int
        Records N that a proportion is estimated from.
    delta : float
        Largest posterior P(x | y) allowed, above max p by 1e-4 or more; 1 is not a bound.  Eq. (9)
        of [HuangDu]_.
    names : sequence of str, optional
        Of the categories, for messages.

    Raises
    ------
    InputError
        One line: parameter, value, and what would be right.
    """

    prior: Floats
    n_records: int
    delta: float = 1.0

    def __init__(
        self,
        prior: npt.ArrayLike,
        n_records: int,
        delta: float = 1.0,
        *,
        names: Sequence[str] | None = None,
    ) -> None:
        try:
            p = np.array(prior, dtype=float)
        except (TypeError, ValueError):
            raise InputError(f"prior: got {given(prior)}; proportions are needed", prior) from None
        if p.ndim != 1 or p.size < 2:
            raise InputError(f"prior: got shape {p.shape}; 2 or more categories are needed", prior)
        if not np.isfinite(p).all() or (p < 0).any() or abs(p.sum() - 1) > 1e-9:
            raise InputError(
                f"prior: got a sum of {p.sum():g}; proportions that sum to 1 are needed", prior
            )
        if (p < SMALLEST).any():
            at = int(np.argmax(p < SMALLEST))
            name = _named(at, p, names)
            right = "leave out categories that do not occur"
            if p[at] > 0:
                right = f"{SMALLEST:g} or more is needed: leave the category out, or merge it"
            raise InputError(f"prior: category {name} has proportion {p[at]:g}; {right}", prior)
        if p.max() > 1 - LEAST_ROOM:
            raise InputError(
                f"prior: category {_named(int(p.argmax()), p, names)} has proportion "
                f"{p.max():.9g}; at most {1 - LEAST_ROOM:g} is needed: reports would say nothing",
                prior,
            )
        n_records = whole("n_records", n_records, 1)
        number = isinstance(delta, int | float | np.floating | np.integer)
        if not number or isinstance(delta, bool) or not 0 < delta <= 1:
            raise InputError(f"delta: got {given(delta)}; a number in (0, 1] is needed", delta)
        if infeasible(p, float(delta)):
            raise InputError(
                f"delta: got {delta:.9g}; a number above the most frequent category's proportion, "
                f"{p.max():.6g}, by {LEAST_ROOM:g} or more is needed",
                delta,
            )
        # Others keep the array: certificates and checkpoints are for exactly these numbers.
        p.flags.writeable = False
        settle(self, prior=p, n_records=n_records, delta=float(delta))

    def __reduce__(self) -> tuple[Any, ...]:
        return Problem, (self.prior.tolist(), self.n_records, self.delta)

    @property
    def n(self) -> int:
        """Number of true categories."""
        return self.prior.size

    @property
    def p_max(self) -> float:
        """Success of an adversary who sees no report."""
        return float(self.prior.max())

    def mse(self, trace: Any) -> Any:
        """Average MSE from tr J^-1: (tr J^-1 - |p|^2) / (n N).  Eq. (10) of [HuangDu]_."""
        # fsum: what is left of the trace may be small beside |p|^2.
        return (trace - math.fsum(self.prior**2)) / (self.n * self.n_records)

    def trace(self, mse: Any) -> Any:
        """Inverse of :meth:`mse`."""
        return mse * self.n * self.n_records + math.fsum(self.prior**2)


def _named(at: int, p: Floats, names: Sequence[str] | None) -> str:
    """A category for a message, by its name if there is one."""
    return str(at) if names is None or len(names) != p.size else shown(names[at])


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
    >>> from ppdm_dask.search.problem import evaluate
    >>> from ppdm_dask.search.problem import Problem
    >>> warner = [[0.8, 0.2], [0.2, 0.8]]
    >>> found = evaluate(Problem([0.3, 0.7], n_records=1000), warner)
    >>> f"{found.privacy[0]:.2f} {found.mse[0]:.4g}"
    '0.20 0.0006544'
    """
    # Not at the top, here and below: numba, which reading a recipe of a search does without.
    from ppdm_dask.kernels import channels

    stack = _stack(problem, P)
    loss, worst, trace = (np.empty(len(stack)) for _ in range(3))
    channels.measure(stack, problem.prior, loss, worst, trace)
    # Rounding may put the adversary's success above 1.
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
    from ppdm_dask.kernels import channels

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
        If it is not a function; when called, if the function returns anything else.
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
        with one_thread():
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


def one_thread() -> AbstractContextManager[Any]:
    """One thread in numerical libraries, which may round otherwise with several."""
    limited: AbstractContextManager[Any] = _controller(len(sys.modules)).limit(limits=1)
    return limited


@lru_cache(maxsize=1)
def _controller(modules: int) -> ThreadpoolController:
    """Control over the numerical libraries that are loaded; a later module may load more."""
    return ThreadpoolController()
