"""The certified front: the limit at many levels, and how near to it a set of matrices comes.

Up to 18 categories designs attain it.  Beyond, it is proved by products of bounds, which no design
need attain: it is as certain, but may lie lower than what is possible.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import astuple, dataclass, replace
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from ppdm_dask.arrays import Floats
from ppdm_dask.errors import InputError
from ppdm_dask.search.bound import ROUNDING, Designer, Level
from ppdm_dask.search.problem import NEAREST, Problem
from ppdm_dask.search.products import Relaxation
from ppdm_dask.search.rays import Certificate, listable

__all__ = ["AT_LEVEL", "SHARES", "Limit", "least_mse", "levels", "levels_with"]


SHARES: Floats = np.round(np.arange(2, 100) / 100, 2)
"""f: levels lie at ``a = p_max + f (delta - p_max)``; 98 of them."""

EPSILON = float(np.finfo(float).eps)

AT_LEVEL = 1e-12
"""By how much rounding may leave a matrix above the level that it was made for."""

MARKS = (0.02, 0.03, 0.05, 0.07, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.99)
"""Shares f near which certificates by products are sought; each of them holds at every level."""


def levels(problem: Problem) -> Floats:
    """The 98 levels of the adversary's success at which fronts are compared."""
    return problem.p_max + SHARES * (problem.delta - problem.p_max)


def levels_with(problem: Problem, privacy: float | None) -> Floats:
    """The levels of a front, and one more for a wanted privacy.

    No report is more private than none, ``1 - p_max``; and since ``max_x P[y, x] p[x]`` is at most
    delta times the probability of y, its sum over y is at most delta, and no privacy is below
    ``1 - delta``.

    Raises
    ------
    InputError
        If no matrix within delta has that privacy.
    """
    at = levels(problem)
    if privacy is None:
        return at
    loss = 1.0 - privacy
    least, most = 1.0 - problem.delta, 1.0 - problem.p_max
    if not problem.p_max + NEAREST <= loss <= problem.delta + AT_LEVEL:
        raise InputError(
            f"privacy: got {privacy:g}; from {least:.6g} (1 - delta) to below {most:.6g} "
            "(without any report) is possible",
            privacy,
        )
    return np.union1d(at, [min(loss, problem.delta)])


def least_mse(loss: npt.ArrayLike, mse: npt.ArrayLike, at: npt.ArrayLike) -> Floats:
    """Least MSE among matrices whose adversary's success is at most each level; inf for none.

    Parameters
    ----------
    loss, mse : array_like, shape (m,)
    at : array_like, shape (levels,)
    """
    loss, mse = np.asarray(loss, dtype=float), np.asarray(mse, dtype=float)
    order = np.argsort(loss, kind="stable")
    best = np.r_[np.inf, np.minimum.accumulate(mse[order])]
    found: Floats = best[np.searchsorted(loss[order], np.asarray(at) + AT_LEVEL, "right")]
    return found


@dataclass(frozen=True, eq=False)
class Limit:
    """Certified lower bound on the MSE at every level, and the designs that attain it.

    Parameters
    ----------
    problem : Problem
    solved : tuple of Level
        At rising levels.
    """

    problem: Problem
    solved: tuple[Level, ...]

    @classmethod
    def compute(
        cls, problem: Problem, at: Floats | None = None, hook: Callable[[int], None] | None = None
    ) -> Self:
        """Solve at some levels (the 98 by default), which must rise.

        Parameters
        ----------
        problem : Problem
        at : array, optional
        hook : callable, optional
            Called with the number of levels solved after each one.
        """
        at = levels(problem) if at is None else np.asarray(at, dtype=float)
        if not listable(problem.n, problem.delta):
            return cls(problem, _relaxed(problem, at, hook))
        designer = Designer(problem)
        found = []
        for i, loss in enumerate(at):
            found.append(designer.solve(float(loss)))
            if hook is not None:
                hook(i + 1)
        return cls(problem, tuple(found))

    @classmethod
    def from_certificates(cls, problem: Problem, table: Floats) -> Self:
        """A limit from the rows of :attr:`table`, without the designs."""
        none = np.zeros((0, problem.n))
        rows = [
            Level(float(loss), none[:, 0], none, Certificate(*map(float, rest)))
            for loss, *rest in table
        ]
        return cls(problem, tuple(rows))

    @property
    def attained(self) -> bool:
        """Whether designs attain it; otherwise it may lie lower than what is possible."""
        return listable(self.problem.n, self.problem.delta)

    @property
    def table(self) -> Floats:
        """Rows ``loss, square, base, slope``, and ``at, known`` where a certificate has them.

        Shape (levels, 4) or (levels, 6).
        """
        rows = np.array([(s.loss, *astuple(s.certificate)) for s in self.solved])
        return rows if rows[:, 4:].any() else rows[:, :4]

    @property
    def loss(self) -> Floats:
        """The levels."""
        return np.array([level.loss for level in self.solved])

    def mse(self, loss: npt.ArrayLike) -> Floats:
        """No design has less at these levels of the adversary's success: the best certificate's."""
        known = math.fsum(self.problem.prior**2)
        # All but |p|^2 of the trace, without its cancellation where a certificate can do without.
        beyond = [
            level.certificate.beyond(loss) + (level.certificate.known - known)
            for level in self.solved
        ]
        result: Floats = np.max(beyond, axis=0) / (self.problem.n * self.problem.n_records)
        return result

    def certain_mse(self, loss: npt.ArrayLike) -> Floats:
        """:meth:`mse`, lowered by what rounding may have done to it, and to a matrix.

        A matrix meets its level and delta to rounding, and next to ``p_max`` that little is a
        larger share of what delta allows.  The MSE of a matrix itself is known to about as much.
        """
        later = np.asarray(loss, dtype=float) + 4 * EPSILON
        found = self.mse(later)
        slack = ROUNDING + 16 * EPSILON * self.problem.trace(found)
        if self.problem.delta < 1:
            slack += AT_LEVEL / (self.problem.delta - self.problem.p_max)
        result: Floats = found * np.maximum(1.0 - slack, 0.0)
        return result

    def ratios(self, loss: npt.ArrayLike, mse: npt.ArrayLike) -> Floats:
        """MSE of a set of matrices over the limit, at each level; inf where it has no matrix."""
        return least_mse(loss, mse, self.loss) / self.mse(self.loss)

    def hypervolume(self, loss: npt.ArrayLike, mse: npt.ArrayLike) -> float:
        """Share of the limit's area under the front that a set of matrices covers.

        The area is that between the front and the limit at the first level, in (level, log10 MSE),
        by the trapezoidal rule on the levels.
        """
        at, best = self.loss, self.mse(self.loss)
        least = least_mse(loss, mse, at)
        # Where there is no matrix there is no area.
        height = np.log10(best[0] / np.where(np.isfinite(least), least, best[0]))
        whole = np.trapezoid(np.log10(best[0] / best), at)
        return float(np.trapezoid(np.maximum(height, 0.0), at) / whole)

    def summary(self, loss: npt.ArrayLike, mse: npt.ArrayLike) -> dict[str, Any]:
        """Hypervolume ratio and median of MSE / limit over the levels."""
        ratios = self.ratios(loss, mse)
        return {"hypervolume": self.hypervolume(loss, mse), "median": float(np.median(ratios))}


def _relaxed(problem: Problem, at: Floats, hook: Callable[[int], None] | None) -> tuple[Level, ...]:
    """Certificates near some marks, from the least private level on; the best for each level."""
    marks = problem.p_max + np.array(MARKS) * (problem.delta - problem.p_max)
    near = np.unique(np.abs(at[:, None] - marks).argmin(axis=0))
    relaxation = Relaxation(problem)
    found = []
    for i, place in enumerate(near[::-1]):
        found.append(relaxation.solve(float(at[place])))
        if hook is not None:
            hook(i + 1)
    best = np.argmax([level.certificate.trace(at) for level in found], axis=0)
    return tuple(replace(found[k], loss=float(loss)) for k, loss in zip(best, at, strict=True))
