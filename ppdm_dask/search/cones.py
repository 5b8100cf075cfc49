"""What a privacy allows a report: a cone, stated by its extremal rays.

A reported symbol y is the row ``l(x) = P[y, x]`` of its matrix.  Every privacy here asks something
of each row that does not depend on its scale, and that a sum of rows keeps: the allowed rows are a
cone.  Splitting a symbol into extremal rays of the cone keeps that privacy and never worsens the
estimates (see :mod:`~ppdm_dask.search.bound`), so an optimal design is made of extremal rays with
weights w of 0 or more that satisfy ``sum_k w_k l_k(x) = 1`` for every category x.

Rays are scaled to ``sum_x l(x) p(x) = 1``: then a weight is the probability of a report.

A privacy is one class with

- ``count(n)``: the number of rays for n categories, to know whether they can be listed;
- ``rows(prior)``: all of them, shape (rays, n), scaled as above;
- ``check(prior)``: an :class:`~ppdm_dask.errors.InputError` where no design at all can be computed;
- ``excess(rows, prior)``: by how much each row breaks it, 0 or less where it keeps it;
- ``text``: what it asks for, for messages;
- ``pairs(prior)``: the two values that an entry can have, or None, and the least number of larger
  ones: where rays are too many to be listed, those of two values are walked through;
- ``others(prior)``: the rays that are not of this form.

A privacy of the *whole* design, as the success of an adversary's guess, is a second thing: the sum
over reports of a function that is linear on each ray, bounded by a level.  ``levels`` are the
bounds, of none, one or several such functions, and ``cost(rows, prior)`` their values for each ray.

:func:`ppdm_dask.search.optimum.optimum` takes any of them.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from itertools import product
from typing import NamedTuple

import numpy as np

from ppdm_dask.arrays import Floats, Ints
from ppdm_dask.errors import InputError
from ppdm_dask.ranges import real
from ppdm_dask.search.rays import count_rays, fractional_rays, least_size, list_rays

__all__ = ["Amplification", "Cone", "Epsilon", "EpsilonPosterior", "Guess", "Posterior", "Trait"]


LEAST, MOST = 1e-3, 30.0
"""Range of an epsilon: with a smaller one reports tell next to nothing, with a larger one all."""


class Pairs(NamedTuple):
    """Rays of two values each: ``high`` for a subset's members, ``low`` for the others."""

    low: Floats
    high: Floats
    least: int
    """Smallest size of a subset."""
    costs: tuple[float, ...] = ()
    """Of a ray in the unit of these values, one for each level."""


class Cone(ABC):
    """A privacy, by the rows that it allows; by default one whose rays are listed, of no level."""

    @property
    @abstractmethod
    def text(self) -> str:
        """What it asks for, for messages."""

    @property
    def levels(self) -> tuple[float, ...]:
        """Bounds on the sums of the costs."""
        return ()

    @abstractmethod
    def count(self, n: int) -> int:
        """Number of extremal rays for n categories, or a bound on it."""

    @abstractmethod
    def rows(self, prior: Floats) -> Floats:
        """All extremal rays, shape (rays, n), each with ``row @ prior = 1``."""

    def pairs(self, prior: Floats) -> Pairs | None:
        """The rays that have two values, for a walk over them; None where not all are of a form."""
        return None

    def others(self, prior: Floats, places: Ints | None = None) -> Floats:
        """The rays that the pairs leave out, scaled as all rows are.

        With `places` only those that are 0 elsewhere.
        """
        return self.rows(prior)

    def cost(self, rows: Floats, prior: Floats) -> Floats:
        """What each ray adds to each level, shape (rays, levels)."""
        return np.zeros((len(rows), 0))

    def check(self, prior: Floats) -> None:  # noqa: B027 - most privacies allow some design
        """Raise an InputError where no design tells anything within this privacy."""

    @abstractmethod
    def excess(self, rows: Floats, prior: Floats) -> Floats:
        """By how much each row breaks it, whatever its scale; 0 or less where it keeps it."""


def _scaled(rows: Floats, prior: Floats) -> Floats:
    result: Floats = rows / (rows @ prior)[:, None]
    return result


def starting_rows(cone: Cone, prior: Floats) -> Floats:
    """Rows that any privacy allows around the even one: designs of them can estimate.

    For each category one row that raises it and one that lowers it, by as large a power of two as
    the cone allows; and the even row.

    Returns
    -------
    array, shape (2 n + 1, n)
    """
    n = prior.size
    rows = [np.ones((1, n))]
    for sign, exponents in ((1.0, range(-24, 44)), (-1.0, range(-24, 1))):
        best = np.ones((n, n))
        for exponent in exponents:
            tried = np.ones((n, n)) + sign * 2.0**exponent * np.eye(n)
            fits = cone.excess(np.maximum(tried, 0.0), prior) <= 0
            best = np.where(fits[:, None], tried, best)
        rows.append(best)
    return _scaled(np.concatenate(rows), prior)


def breach(cone: Cone, P: Floats, prior: Floats) -> float:
    """By how much a matrix breaks a privacy; 0 or less where it keeps it."""
    used = P[P @ prior > 0]
    worst = float(cone.excess(used, prior).max())
    rows = _scaled(used, prior)
    over: Floats = used @ prior @ cone.cost(rows, prior) - cone.levels
    return float(np.r_[worst, over].max())


@dataclass(frozen=True)
class Epsilon(Cone):
    """No report is more than ``e^epsilon`` times likelier for one category than for another.

    Its extremal rays are the staircases ``l(x) in {1, e^epsilon}``, all but the two even ones.

    Parameters
    ----------
    epsilon : float
        From 1e-3 to 30.
    """

    epsilon: float

    def __post_init__(self) -> None:
        real("epsilon", self.epsilon, LEAST, MOST)

    @property
    def text(self) -> str:
        return f"epsilon of {self.epsilon:g}"

    def count(self, n: int) -> int:
        return (1 << n) - 2

    def rows(self, prior: Floats) -> Floats:
        n = prior.size
        members = (np.arange(1, 2**n - 1)[:, None] >> np.arange(n)) & 1
        high = math.exp(self.epsilon)
        rows: Floats = np.where(members > 0, high, 1.0)
        return _scaled(rows, prior)

    def pairs(self, prior: Floats) -> Pairs:
        return Pairs(np.ones(prior.size), np.full(prior.size, math.exp(self.epsilon)), 0)

    def others(self, prior: Floats, places: Ints | None = None) -> Floats:
        return np.zeros((0, prior.size))

    def excess(self, rows: Floats, prior: Floats) -> Floats:
        with np.errstate(divide="ignore"):
            result: Floats = np.log(rows.max(axis=1) / rows.min(axis=1)) - self.epsilon
        return result


class Amplification(Epsilon):
    """At most gamma-amplifying: no report is more than gamma times likelier for one category.

    [EvfimievskiGehrkeSrikant]_.

    Parameters
    ----------
    gamma : float
        ``e^epsilon``.
    """

    def __init__(self, gamma: float) -> None:
        super().__init__(math.log(real("gamma", gamma, 1.0, open_ends=True)))

    @property
    def text(self) -> str:
        return f"amplification of {math.exp(self.epsilon):g}"


@dataclass(frozen=True)
class Posterior(Cone):
    """No posterior P(x | y) is above delta.

    Parameters
    ----------
    delta : float
        Above the largest proportion, at most 1.
    """

    delta: float

    def __post_init__(self) -> None:
        real("delta", self.delta, 0.0, 1.0)

    @property
    def text(self) -> str:
        return f"bound of {self.delta:g} on the posterior"

    def count(self, n: int) -> int:
        return count_rays(n, self.delta)

    def rows(self, prior: Floats) -> Floats:
        return _scaled(list_rays(prior.size, self.delta) / prior, prior)

    def pairs(self, prior: Floats) -> Pairs:
        # The largest entry of a ray is 1, which is its cost too, where there is a level.
        costs = (1.0,) * len(self.levels)
        return Pairs(np.zeros(prior.size), 1.0 / prior, least_size(self.delta), costs)

    def others(self, prior: Floats, places: Ints | None = None) -> Floats:
        at = np.arange(prior.size) if places is None else places
        some = fractional_rays(len(at), self.delta)
        rows = np.zeros((len(some), prior.size))
        rows[:, at] = some / prior[at]
        return _scaled(rows, prior)

    def check(self, prior: Floats) -> None:
        if self.delta <= prior.max():
            raise InputError(
                f"delta: got {self.delta:.9g}; a number above the most frequent category's "
                f"proportion, {prior.max():.6g}, is needed",
                self.delta,
            )

    def excess(self, rows: Floats, prior: Floats) -> Floats:
        result: Floats = _scaled(rows * prior, np.ones(prior.size)).max(axis=1) - self.delta
        return result


@dataclass(frozen=True)
class Guess(Posterior):
    """The best guess from a report is right with probability `success` at most: MAP privacy.

    Eq. (8) of [HuangDu]_, together with a bound on the posterior.

    Parameters
    ----------
    delta : float
    success : float
        Above the largest proportion.
    """

    success: float = 1.0

    @property
    def levels(self) -> tuple[float, ...]:
        return (self.success,)

    @property
    def text(self) -> str:
        return f"privacy of {1 - self.success:g} within {super().text}"

    def cost(self, rows: Floats, prior: Floats) -> Floats:
        result: Floats = (rows * prior).max(axis=1, keepdims=True)
        return result

    def check(self, prior: Floats) -> None:
        super().check(prior)
        if self.success <= prior.max():
            raise InputError(
                f"privacy: got {1 - self.success:g}; below {1 - prior.max():.6g} (without any "
                "report) is needed",
                self.success,
            )


@dataclass(frozen=True)
class Trait(Cone):
    """No posterior of one category is above delta; the others may be known for certain.

    The extremal rays are the reports that are one other category, and those that are the trait
    with probability delta and else one other category.

    Parameters
    ----------
    trait : int
        Place of the category.
    delta : float
        Above its proportion.
    """

    trait: int
    delta: float

    @property
    def text(self) -> str:
        return f"bound of {self.delta:g} on the posterior of one category"

    def count(self, n: int) -> int:
        return 2 * (n - 1)

    def rows(self, prior: Floats) -> Floats:
        n = prior.size
        others = np.delete(np.eye(n), self.trait, axis=0)
        with_trait = (1.0 - self.delta) * others
        with_trait[:, self.trait] = self.delta
        return _scaled(np.concatenate([others, with_trait]) / prior, prior)

    def check(self, prior: Floats) -> None:
        share = float(prior[self.trait])
        if not share < self.delta <= 1:
            raise InputError(
                f"delta: got {self.delta:.9g}; a number above {share:.6g}, up to 1 is needed",
                self.delta,
            )

    def excess(self, rows: Floats, prior: Floats) -> Floats:
        result: Floats = _scaled(rows * prior, np.ones(prior.size))[:, self.trait] - self.delta
        return result


@dataclass(frozen=True)
class EpsilonPosterior(Cone):
    """A bound on epsilon and one on the posterior, both.

    With the smallest entry of a row as unit and s its probability in that unit, each entry is 1,
    ``e^epsilon`` or ``delta s / p(x)``; where one of them is two of these at once, one more entry
    is whatever makes the probability s.

    Parameters
    ----------
    epsilon, delta : float
    """

    epsilon: float
    delta: float

    def __post_init__(self) -> None:
        real("epsilon", self.epsilon, LEAST, MOST)
        real("delta", self.delta, 0.0, 1.0)

    @property
    def text(self) -> str:
        return f"epsilon of {self.epsilon:g} and a bound of {self.delta:g} on the posterior"

    def count(self, n: int) -> int:
        return int(3**n)

    def rows(self, prior: Floats) -> Floats:
        n, high, delta = prior.size, math.exp(self.epsilon), self.delta
        # How an entry depends on s: constant and factor.
        kinds = np.array([*product(range(3), repeat=n)])
        constant = np.array([1.0, high, 0.0])[kinds]
        factor = np.where(kinds == 2, delta / prior, 0.0)
        left = 1.0 - factor @ prior
        with np.errstate(divide="ignore", invalid="ignore"):
            s = (constant @ prior) / left
        candidates = [constant + factor * np.where(left > EVEN, s, 0.0)[:, None]]
        # One entry at two bounds fixes s; another takes what is left.
        for x, bound in product(range(n), (1.0, high)):
            s_x = bound * prior[x] / delta
            entries = constant + factor * s_x
            here = entries[kinds[:, x] == 2]
            for free in range(n):
                if free != x:
                    rest = np.delete(here, free, axis=1) @ np.delete(prior, free)
                    filled = here.copy()
                    filled[:, free] = (s_x - rest) / prior[free]
                    candidates.append(filled[kinds[kinds[:, x] == 2, free] == 0])
        rows = np.concatenate(candidates)
        rows = rows[np.isfinite(rows).all(axis=1) & (rows.min(axis=1) > 0)]
        fits = rows.max(axis=1) <= high * rows.min(axis=1) * (1 + EVEN)
        fits &= (rows * prior).max(axis=1) <= delta * (rows @ prior) * (1 + EVEN)
        fits &= np.ptp(rows, axis=1) > EVEN * rows.max(axis=1)
        rows = _scaled(rows[fits], prior)
        _, first = np.unique(np.round(rows, 10), axis=0, return_index=True)
        return rows[np.sort(first)]

    def check(self, prior: Floats) -> None:
        Posterior(self.delta).check(prior)

    def excess(self, rows: Floats, prior: Floats) -> Floats:
        ratio = Epsilon(self.epsilon).excess(rows, prior)
        return np.maximum(ratio, Posterior(self.delta).excess(rows, prior))


EVEN = 1e-12
"""Relative difference that rounding may make."""
