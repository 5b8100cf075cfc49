"""Privacy of each of several attributes, where one report speaks of all of them.

Categories are the cells of the attributes' joint table in row-major order.  With r(x) = l(x) p(x)
what a row tells of an attribute is its margin of r.  Rays are found from the inequalities: they do
not depend on the prior, so those of one shape and privacy are found once.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from ppdm_dask.arrays import Floats
from ppdm_dask.errors import InputError
from ppdm_dask.ranges import real
from ppdm_dask.search.cones import LEAST, MOST, Cone
from ppdm_dask.search.facets import MOST_FACETS, extremal_rays

__all__ = ["MOST_CELLS", "EpsilonEach", "GuessEach", "largest_of_margins", "margins_of"]

MOST_CELLS = 18
"""Cells of the joint table up to which the rays of a guess are found: some 70,000 at most."""


MOST_DIFFERENT = 60
"""Pairs of cells that differ in one attribute up to which different epsilons are dealt with.

Equal ones make many rays coincide; of four attributes of two categories with an epsilon each there
are too many.
"""


@lru_cache(maxsize=64)
def margins_of(shape: tuple[int, ...]) -> tuple[Floats, ...]:
    """For each attribute the 0-1 matrix that sums cells to its margin, shape (k, cells)."""
    places = np.indices(shape).reshape(len(shape), -1)
    found = []
    for place, k in zip(places, shape, strict=True):
        found.append((place == np.arange(k)[:, None]).astype(float))
        found[-1].flags.writeable = False
    return tuple(found)


def largest_of_margins(joint: Floats, shape: tuple[int, ...]) -> Floats:
    """Largest entry of each attribute's margin, shape (..., attributes).

    Parameters
    ----------
    joint : array, shape (..., cells)
    shape : tuple of int
    """
    return np.stack([(joint @ margin.T).max(axis=-1) for margin in margins_of(shape)], axis=-1)


@lru_cache(maxsize=64)
def _guess_rays(shape: tuple[int, ...], deltas: tuple[float, ...], lifted: bool) -> Floats:
    """Extremal rays r, of sum 1, of the cone of GuessEach.

    With a level the largest entry of a margin counts, which is not linear: with one coordinate u_i
    more for each attribute, above every entry of its margin, it is, and rays are those with the
    least u.
    """
    margins = margins_of(shape)
    n, d = math.prod(shape), len(shape)
    if lifted:
        # r >= 0; then u_i >= each entry of margin i; then delta_i sum r >= u_i.
        facets = [np.eye(n, n + d)]
        for i, margin in enumerate(margins):
            facets.append(np.hstack([-margin, np.tile(np.eye(d)[i], (len(margin), 1))]))
        facets.append(np.hstack([np.tile(np.array(deltas)[:, None], (1, n)), -np.eye(d)]))
        every = extremal_rays(np.vstack(facets))
        r, u = every[:, :n], every[:, n:]
        r = r[(u - largest_of_margins(r, shape)).max(axis=1) <= ROUNDING]
    else:
        bounds = [
            np.full((len(margin), n), delta) - margin
            for margin, delta in zip(margins, deltas, strict=True)
        ]
        r = extremal_rays(np.vstack([np.eye(n), *bounds]))
    r = np.maximum(r[r.sum(axis=1) > ROUNDING], 0.0)
    found: Floats = r / r.sum(axis=1, keepdims=True)
    found.flags.writeable = False
    return found


ROUNDING = 1e-8
"""What is 0, of rays whose largest entry is 1."""


@dataclass(frozen=True)
class GuessEach(Cone):
    """For each attribute: no posterior above a delta, no guess right more often than a success.

    The adversary sees the whole report: what it tells of one attribute tells, by their correlation,
    of the others.  Eqs. (8) and (9) of [HuangDu]_, for each attribute.

    Parameters
    ----------
    shape : tuple of int
        Numbers of categories; up to 18 cells.
    deltas : tuple of float
        For each attribute, above its largest proportion; 1 for no bound.
    successes : tuple of float, optional
        For each attribute, above its largest proportion.
    """

    shape: tuple[int, ...]
    deltas: tuple[float, ...]
    successes: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        cells = math.prod(self.shape)
        if cells > MOST_CELLS:
            raise InputError(
                f"prior: has {cells} joint categories; privacy of each attribute's guess is "
                f"computed for up to {MOST_CELLS}",
                self.shape,
            )

    @property
    def levels(self) -> tuple[float, ...]:
        return self.successes

    @property
    def text(self) -> str:
        parts = [f"bounds of {_listed(self.deltas)} on the posteriors of the attributes"]
        if self.successes:
            parts.insert(0, f"privacies of {_listed([1 - s for s in self.successes])}")
        return " within ".join(parts)

    def count(self, n: int) -> int:
        return len(self._rays)

    @property
    def _rays(self) -> Floats:
        return _guess_rays(self.shape, self.deltas, bool(self.successes))

    def rows(self, prior: Floats) -> Floats:
        found: Floats = self._rays / prior
        return found

    def cost(self, rows: Floats, prior: Floats) -> Floats:
        if not self.successes:
            return super().cost(rows, prior)
        return largest_of_margins(rows * prior, self.shape)

    def check(self, prior: Floats) -> None:
        largest = largest_of_margins(prior, self.shape)
        names = ("delta", self.deltas), ("success", self.successes)
        for name, bounds in names:
            for i, bound in enumerate(bounds):
                real(name, bound, 0.0, 1.0)
                if bound <= largest[i]:
                    raise InputError(
                        f"{name}: got {bound:.9g} for attribute {i + 1}; a number above its most "
                        f"frequent category's proportion, {largest[i]:.6g}, is needed",
                        bound,
                    )

    def excess(self, rows: Floats, prior: Floats) -> Floats:
        joint = rows * prior
        posteriors = joint / joint.sum(axis=1, keepdims=True)
        worst = largest_of_margins(posteriors, self.shape) - self.deltas
        result: Floats = worst.max(axis=1)
        return result


@lru_cache(maxsize=64)
def _neighbours(shape: tuple[int, ...]) -> Floats:
    """Pairs of cells that differ in one attribute, and which one: shape (pairs, 3)."""
    cells = np.indices(shape).reshape(len(shape), -1).T
    differ = cells[:, None] != cells[None]
    x, y = np.nonzero(differ.sum(axis=2) == 1)
    return np.column_stack([x, y, differ[x, y].argmax(axis=1)])


@lru_cache(maxsize=64)
def _epsilon_rays(shape: tuple[int, ...], epsilons: tuple[float, ...]) -> Floats:
    """Extremal rays of the cone of EpsilonEach, of largest entry 1.

    On one, the pairs of ratio ``e^epsilon`` connect all cells.  Of logarithms the same is true at
    the corners of the polytope of all bounded differences, whose numbers are all of one size.
    """
    pairs, n = _neighbours(shape), math.prod(shape)
    facets = np.zeros((len(pairs), n + 1))
    at = np.arange(len(pairs))
    facets[at, pairs[:, 0]] = 1.0
    facets[at, pairs[:, 1]] = -1.0
    facets[:, n] = np.array(epsilons)[pairs[:, 2]] / max(epsilons)
    corners = extremal_rays(facets[:, 1:])  # the logarithm of the first cell is 0
    logs = np.zeros((len(corners), n))
    logs[:, 1:] = corners[:, :-1] / corners[:, -1:] * max(epsilons)
    found: Floats = np.exp(logs - logs.max(axis=1, keepdims=True))
    found.flags.writeable = False
    return found


@dataclass(frozen=True)
class EpsilonEach(Cone):
    """Of each attribute, whatever the others are, a report is at most ``e^epsilon`` times likelier.

    No more for one category of it than for another: the bound that disguising each attribute alone
    keeps, whose sum bounds a whole record.

    Parameters
    ----------
    shape : tuple of int
        Numbers of categories; up to 64 pairs of cells that differ in one attribute, of different
        epsilons 60.
    epsilons : tuple of float
        For each attribute, from 1e-3 to 30.
    """

    shape: tuple[int, ...]
    epsilons: tuple[float, ...]

    def __post_init__(self) -> None:
        for epsilon in self.epsilons:
            real("epsilon", epsilon, LEAST, MOST)
        most = MOST_FACETS if len(set(self.epsilons)) == 1 else MOST_DIFFERENT
        if (pairs := len(_neighbours(self.shape))) > most:
            kind = "equal" if most == MOST_FACETS else "different"
            raise InputError(
                f"prior: has {pairs} pairs of joint categories that differ in one attribute; "
                f"{kind} epsilons of the attributes are computed for up to {most}",
                self.shape,
            )

    @property
    def text(self) -> str:
        return f"epsilons of {_listed(self.epsilons)} for the attributes"

    def count(self, n: int) -> int:
        return len(_epsilon_rays(self.shape, self.epsilons))

    def rows(self, prior: Floats) -> Floats:
        rays = _epsilon_rays(self.shape, self.epsilons)
        found: Floats = rays / (rays @ prior)[:, None]
        return found

    def excess(self, rows: Floats, prior: Floats) -> Floats:
        x, y, which = _neighbours(self.shape).T
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = np.log(rows[:, x] / rows[:, y]) - np.array(self.epsilons)[which]
        result: Floats = np.where(np.isnan(ratio), -math.inf, ratio).max(axis=1)
        return result


def _listed(numbers: Sequence[float]) -> str:
    return ", ".join(f"{each:g}" for each in numbers)
