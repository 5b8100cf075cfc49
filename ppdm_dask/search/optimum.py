"""The best design within a privacy, with its certificate: for any prior, as far as rays go.

Rays are listed where they are few.  Subsets of up to 22 categories are walked through; of any
number of categories in a few parts of equal proportion, only the numbers of members count.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
import numpy.typing as npt

from ppdm_dask.arrays import EPS, Floats
from ppdm_dask.errors import InputError, PPDMError
from ppdm_dask.kernels.rays import most_lacking
from ppdm_dask.search.cones import Cone, Pairs, breach, starting_rows
from ppdm_dask.search.newton import (
    GAP,
    UNUSED,
    Best,
    Pricing,
    Start,
    arithmetic,
    improve,
    settle,
)
from ppdm_dask.search.parts import EVEN, Parts, collapsed, orbits
from ppdm_dask.search.program import ROUNDING, Dual, Program, Rays
from ppdm_dask.search.rays import MOST_RAYS, thinned
from ppdm_dask.search.solved import Arrays, finite


@dataclass(frozen=True, eq=False)
class Optimum:
    """The best design within a privacy, and a certificate.

    Parameters
    ----------
    prior : array, shape (n,)
    cone : Cone
    noise : float
        Sum of the variances of one report's estimates by the design.
    bound : float
        No design within the privacy has less.
    P : array, shape (symbols, n), or None
        Columns sum to 1; None where the design has too many symbols to be written out.
    """

    prior: Floats
    cone: Cone
    noise: float
    bound: float
    P: Floats | None

    @property
    def gap(self) -> float:
        """How far the design is above the certificate, relative."""
        return self.noise / self.bound - 1.0

    def arrays(self) -> Arrays:
        """Its numbers by name, for :meth:`from_arrays`."""
        numbers = {"numbers": np.array([self.noise, self.bound])}
        return numbers if self.P is None else {**numbers, "P": self.P}

    @classmethod
    def from_arrays(cls, prior: Floats, cone: Cone, arrays: Arrays) -> Self:
        """Inverse of :meth:`arrays`.

        Raises
        ------
        KeyError, ValueError
            If the arrays are none of a design within this privacy.
        """
        noise, bound = map(float, finite(arrays, "numbers", (2,)))
        P = finite(arrays, "P", (None, prior.size)) if "P" in arrays else None
        good = 0 < bound <= noise
        if P is not None and good:
            good = P.size > 0 and P.min() >= 0 and np.abs(P.sum(axis=0) - 1).max() < CLOSE
            good = good and breach(cone, P, prior) < CLOSE
            good = good and abs(noise_of(prior, P) / noise - 1) < CLOSE
        if not good:
            raise ValueError(f"its design within {cone.text} is none")
        return cls(prior, cone, noise, bound, P)


CLOSE = 1e-9
"""Relative difference, and a matrix's breach of a privacy, that rounding may make."""

MOST_LISTED = 5_000
"""Rays up to which all are looked at in every round."""

MOST_WALKED = 22
"""Categories up to which subsets are walked through."""

MOST_ORBITS = 20_000
"""Numbers of members in exchangeable parts up to which they are listed."""

MOST_THINNED = 300
"""Entries of the information up to which a design is brought to no more symbols."""

PARTS_OF_WALK = 256

FAINT = 1e-6
"""Weight of a ray, relative to the largest, below which a design may do without it."""

LOST = 1e-7
"""Relative noise that a design with no more symbols than its information has entries may cost."""

SPARE = 1e-4
"""Weight of what need not be estimated beside what need: the gap stays about as small."""

NEIGHBOURS = 3
"""Subsets whose neighbours are offered too."""


def optimum(
    prior: npt.ArrayLike,
    cone: Cone,
    *,
    contrasts: npt.ArrayLike | None = None,
    gap: float = GAP,
) -> Optimum:
    """The design with the least noise within a privacy, with its certificate.

    Parameters
    ----------
    prior : array_like, shape (n,)
        All positive, with sum 1.
    cone : Cone
        See :mod:`ppdm_dask.search.cones`.
    contrasts : array_like, shape (q, n), optional
        What is estimated, in place of all proportions: the noise is ``tr L J^-1 L^T - |L p|^2``.
        Where they leave some proportions open, the design can estimate those too, if badly.
    gap : float
        Relative gap between design and certificate at which to stop.

    Raises
    ------
    InputError
        Where no design can be computed within the privacy, or it has too many rays.
    PPDMError
        If the solver comes to no good end.
    """
    p = np.asarray(prior, dtype=float)
    cone.check(p)
    few = cone.count(p.size) <= MOST_LISTED
    if contrasts is None and not few:
        parts = Parts.of(p)
        by_walk = p.size <= MOST_WALKED and parts.count() > MOST_LISTED
        if parts.count() <= MOST_ORBITS and not by_walk and cone.pairs(p) is not None:
            return _of_parts(p, parts, cone, gap)
    L = np.eye(p.size) if contrasts is None else np.asarray(contrasts, dtype=float)
    even = even_cost(cone, p)
    program = Program(p, L, np.zeros(0), cone.levels, even)
    full = program
    if np.linalg.matrix_rank(program.C) < p.size - 1:
        spare = SPARE * np.abs(L).max() * np.eye(p.size)
        full = Program(p, np.vstack([L, spare]), np.zeros(0), cone.levels, even)
    pricing = pricing_of(full, cone)
    start = rays_of(cone, starting_rows(cone, p), p)
    with arithmetic():
        best = improve(full, Start(start), pricing, gap=gap)
    rays, weights = design_of(full, best)
    P = weights[:, None] * rays.rows
    P /= P.sum(axis=0)
    noise = program.noise_of_matrix(P)
    bound = best.bound
    if full is not program:
        # What a ray lacks for all rows is no less than what it lacks for those that count.
        alone = float((best.dual.A[: len(L)] * program.C).sum())
        bound *= (alone / best.dual.value) ** 2 * (1 - ROUNDING)
    return Optimum(p, cone, noise, min(bound, noise), P)


def pricing_of(program: Program, cone: Cone) -> Pricing:
    """Find the rays that lack most, by a list or a walk.

    Raises
    ------
    InputError
        Where they are too many for both.
    """
    p = program.prior
    pairs, count = cone.pairs(p), cone.count(p.size)
    if count <= MOST_LISTED or (pairs is None and count <= MOST_RAYS):
        return listed(program, rays_of(cone, cone.rows(p), p))
    if pairs is not None and p.size <= MOST_WALKED:
        return walked(program, cone, pairs)
    what, most = "different proportions", MOST_WALKED
    if pairs is None:
        what = "categories"
        most = max(n for n in range(1, p.size) if cone.count(n) <= MOST_RAYS)
    raise InputError(
        f"prior: got {p.size} {what}; the best design within {cone.text} is computed for up to "
        f"{most}",
        p.size,
    )


def even_cost(cone: Cone, prior: Floats) -> tuple[float, ...]:
    """What the even ray costs, which tells nothing."""
    return tuple(cone.cost(np.ones((1, prior.size)), prior)[0].tolist())


def rays_of(cone: Cone, rows: Floats, prior: Floats) -> Rays:
    """Rays of categories, without parts."""
    return Rays(rows, np.zeros((len(rows), 0)), cone.cost(rows, prior))


def listed(program: Program, rays: Rays) -> Pricing:
    """Look at every ray."""

    def pricing(dual: Dual) -> tuple[float, Rays]:
        lack = program.lack(rays, dual)
        worst = np.argsort(-lack, kind="stable")[: 4 * program.prior.size]
        return float(lack.max()), rays.take(worst[lack[worst] > EVEN * dual.value])

    return pricing


def walked(program: Program, cone: Cone, pairs: Pairs) -> Pricing:
    """Walk through all subsets, and look at the rays that are none."""
    p = program.prior
    others = rays_of(cone, cone.others(p), p)
    several = min(PARTS_OF_WALK, 1 << p.size)
    lack, codes = np.empty(several), np.empty(several, dtype=np.int64)

    def pricing(dual: Dual) -> tuple[float, Rays]:
        half = program.basis @ dual.A.T
        once = float(dual.mu @ pairs.costs)
        most_lacking(
            half @ half.T, dual.nu, once, pairs.low, pairs.high, p, pairs.least, lack, codes
        )
        # What rounding may have done to the sums of the walk.
        most = float((np.abs(dual.nu) / p).max()) + once + dual.value
        even = float(dual.mu @ program.even)
        kappa = float(lack.max()) + even + 16 * p.size * EPS * most
        order = np.argsort(-lack, kind="stable")[: 4 * p.size]
        chosen = codes[order[lack[order] + even > 1e-11 * dual.value]]
        if len(chosen):
            # Each part of the walk tells only its worst subset: one ray a round would take long.
            nearby = codes[order[:NEIGHBOURS], None] ^ (1 << np.arange(p.size))
            chosen = np.union1d(chosen, nearby)
            chosen = chosen[np.bitwise_count(chosen) >= max(pairs.least, 1)]
        members = (chosen[:, None] >> np.arange(p.size)) & 1
        rows = np.where(members > 0, pairs.high, pairs.low)
        rays = rays_of(cone, rows / (rows @ p)[:, None], p)
        if len(others.rows):
            lacking = program.lack(others, dual)
            kappa = max(kappa, float(lacking.max()))
            worst = np.argsort(-lacking, kind="stable")[: p.size]
            rays = rays.join(others.take(worst[lacking[worst] > EVEN * dual.value]))
        return kappa, rays

    return pricing


def design_of(program: Program, best: Best) -> tuple[Rays, Floats]:
    """Rays and weights of a design, no more than its information has entries (Caratheodory)."""
    # Of a rare category a ray of little weight may be a large share.
    share = best.weights * best.rays.rows.max(axis=1)
    keep = share > UNUSED * min(best.weights.max(), share.max())
    rays, weights = best.rays.take(np.flatnonzero(keep)), best.weights[keep]
    rays, weights = _without_faint(program, rays, weights)
    n = program.prior.size
    entries = n * (n + 1) // 2 + len(program.levels)
    if len(weights) > entries <= MOST_THINNED:
        e = rays.rows @ program.basis
        i, j = np.triu_indices(n - 1)
        A = np.hstack([e[:, i] * e[:, j], rays.rows, rays.cost]).T
        thin = thinned(A, weights)
        try:
            settled = settle(program, rays, thin)
        except PPDMError:  # the vertex is too far off: the design as it was is as good
            settled = weights
        if program.noise(rays, settled) <= program.noise(rays, weights) * (1 + LOST):
            keep = settled > 0
            rays, weights = rays.take(np.flatnonzero(keep)), settled[keep]
    return _without_faint(program, rays, weights)


def _without_faint(program: Program, rays: Rays, weights: Floats) -> tuple[Rays, Floats]:
    """The design without rays that are hardly used, where nothing is lost.

    A matrix has few digits of such a ray.
    """
    faint = weights < FAINT * weights.max()
    if not faint.any():
        return rays, weights
    try:
        left = settle(program, rays, np.where(faint, 0.0, weights))
    except PPDMError:
        return rays, weights
    exact = np.abs(left @ rays.rows - 1).max() <= program.prior.size * EPS
    if exact and program.noise(rays, left) <= program.noise(rays, weights) * (1 + GAP):
        return rays.take(np.flatnonzero(left)), left[left > 0]
    return rays, weights


def noise_of(prior: Floats, P: Floats, contrasts: Floats | None = None) -> float:
    """Sum of the variances of one report's best estimates; infinite where there are none.

    Parameters
    ----------
    prior : array, shape (n,)
    P : array, shape (symbols, n)
        Columns sum to 1.
    contrasts : array, shape (q, n), optional
        What is estimated, in place of all proportions.
    """
    L = np.eye(prior.size) if contrasts is None else contrasts
    return Program(prior, L, np.zeros(0)).noise_of_matrix(P)


def _of_parts(prior: Floats, parts: Parts, cone: Cone, gap: float) -> Optimum:
    """The optimum that exchangeable categories share."""
    pairs = cone.pairs(prior)
    assert pairs is not None
    sizes = parts.sizes
    program = Program(
        parts.share * sizes,
        np.diag(1.0 / np.sqrt(sizes)),
        (sizes[sizes > 1] - 1).astype(float),
        cone.levels,
        even_cost(cone, prior),
    )
    every = orbits(parts, pairs)
    # A ray that is not a subset has two members at most beyond its ones.
    others = cone.others(prior, parts.some(pairs.least))
    every = every.join(collapsed(parts, cone, others, prior))
    start = collapsed(parts, cone, starting_rows(cone, prior), prior)
    with arithmetic():
        best = improve(program, Start(start), listed(program, every), gap=gap)
    return Optimum(prior, cone, best.noise, best.bound, None)
