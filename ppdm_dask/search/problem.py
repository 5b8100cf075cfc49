"""What is searched for: matrices for one prior, number of records and bound on the posterior.

Beside it: sizes and rates of the evolution.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ppdm_dask.arrays import Floats
from ppdm_dask.errors import InputError
from ppdm_dask.frozen import settle
from ppdm_dask.shown import given, shown

__all__ = ["Problem", "Settings", "infeasible"]


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
        Stop after so many generations in a row that leave Omega as it is.
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
    """Find P with ``reported = P @ true`` that discloses little and lets much be estimated.

    Parameters
    ----------
    prior : array_like, shape (n,)
        Proportions of the true categories: 2 or more, none below 1e-6, with sum 1.
    n_records : int
        Records N that a proportion is estimated from.
    delta : float
        Largest posterior P(x | y) allowed, above max p by 1e-4 or more; 1 is no bound.  Eq. (9) of
        [HuangDu]_.
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
                f"{p.max():.9g}; at most {1 - LEAST_ROOM:g} is needed: reports would tell nothing",
                prior,
            )
        if not _is_whole(n_records) or n_records < 1:
            raise InputError(
                f"n_records: got {given(n_records)}; a whole number of 1 or more is needed",
                n_records,
            )
        if not _is_number(delta) or not 0 < delta <= 1:
            raise InputError(f"delta: got {given(delta)}; a number in (0, 1] is needed", delta)
        if infeasible(p, float(delta)):
            raise InputError(
                f"delta: got {delta:.9g}; a number above the most frequent category's proportion, "
                f"{p.max():.6g}, by {LEAST_ROOM:g} or more is needed",
                delta,
            )
        p.flags.writeable = False
        settle(self, prior=p, n_records=int(n_records), delta=float(delta))

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
        return (trace - math.fsum(self.prior**2)) / (self.n * self.n_records)

    def trace(self, mse: Any) -> Any:
        """Inverse of :meth:`mse`."""
        return mse * self.n * self.n_records + math.fsum(self.prior**2)


def _named(at: int, p: Floats, names: Sequence[str] | None) -> str:
    """A category for a message, by its name if there is one."""
    return str(at) if names is None or len(names) != p.size else shown(names[at])


def _is_whole(value: object) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def _is_number(value: object) -> bool:
    number = isinstance(value, int | float | np.floating | np.integer)
    return number and not isinstance(value, bool)
