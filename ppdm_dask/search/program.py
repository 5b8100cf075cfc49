"""The least noise of estimates within a privacy: one program, and one certificate, for every cone.

A design gives its rays l_k, scaled to ``l_k^T p = 1``, the probabilities w_k.  With
``D = diag(p)``, an orthonormal basis B of the complement of ``p^(1/2)`` and
``e_k = B^T D^(1/2) l_k``, the sum of the variances of one report's estimates of ``L pi`` is

    tr C K^-1 C^T   with   C = L D^(1/2) B,   K = sum_k w_k e_k e_k^T,

in which nothing cancels, however rare a category is; for L = 1 it is ``tr J^-1 - |p|^2``, n N times
the paper's MSE.  It is minimised subject to ``sum_k w_k l_k = 1`` and, where the privacy has
levels, ``sum_k w_k c_k <= a``: a convex problem in w, which
:mod:`~ppdm_dask.search.newton` solves.  Costs c_k and levels a are counted from the cost of the
even ray, below which no design is.

The certificate needs no solver.  For any A, nu and ``mu >= 0`` let kappa be the largest of
``|A e_k|^2 - nu^T l_k - mu^T c_k`` over *all* rays.  Since ``sum_k w_k = 1`` in every design,

    tr C K^-1 C^T >= tr(A^T C)^2 / (nu^T 1 + mu^T a + kappa).

Where L has fewer rows than categories the best K may be singular, as where a report tells one of
several attributes.  Then some rows more, `spare`, times a small factor, keep it regular; what a
design is certified by leaves their part of ``tr(A^T C)`` out.

Categories of equal proportion are exchangeable: by convexity some optimal design is unchanged when
they change places.  Then only the number of members that a ray has at each value counts.  With
m_k the means of a ray over the parts, everything above holds for the parts; within a part of size
n_i the variance of the entries, v_ki, adds ``(n_i - 1) / sum_k w_k v_ki``, and
``(n_i - 1) a_i^2 v_ki`` to what a ray needs in the certificate, for any a_i.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ppdm_dask.arrays import EPS, Floats, Ints
from ppdm_dask.search.rays import Certificate

ROUNDING = 1e-12
"""What arithmetic may take from a certificate, relative to what its sums are made of."""


class Rays(NamedTuple):
    """Rays of a program: of categories, or of parts of exchangeable ones."""

    rows: Floats
    """Shape (rays, n), with ``rows @ prior = 1``: entries, or their means over parts."""
    spread: Floats
    """Shape (rays, parts): variance of the entries within a part; (rays, 0) without parts."""
    cost: Floats
    """Shape (rays, levels): what each level bounds."""

    def take(self, places: Ints) -> Rays:
        """Some of them."""
        return Rays(self.rows[places], self.spread[places], self.cost[places])

    def join(self, more: Rays) -> Rays:
        """These and others."""
        return Rays(*map(np.concatenate, zip(self, more, strict=True)))


class Dual(NamedTuple):
    """What a certificate is made of."""

    A: Floats
    """Shape (q, n - 1)."""
    within: Floats
    """a_i, shape (parts,)."""
    nu: Floats
    """Shape (n,)."""
    mu: Floats
    """Shape (levels,)."""
    value: float
    """``tr(A^T C)`` and what is within parts."""


@dataclass(frozen=True, eq=False)
class Program:
    """A-optimal weights of rays for one prior.

    Parameters
    ----------
    prior : array, shape (n,)
        Proportions of the categories, or the sums of parts.
    contrasts : array, shape (q, n)
        L: what is estimated.
    sizes : array, shape (parts,)
        Numbers of exchangeable categories less 1, for each column of the spread.
    levels : tuple of float
        Bounds on the sums of costs.
    even : tuple of float
        What the even ray costs, as many as levels.  No design costs less, and what is relative to
        it loses no digits where a level allows hardly more.
    """

    prior: Floats
    contrasts: Floats
    sizes: Floats
    levels: tuple[float, ...] = ()
    even: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        p = self.prior
        root = np.sqrt(p / p.sum())
        # Householder's reflection that takes p^(1/2) to an axis: its other columns are B.
        axis = int(p.argmax())
        normal = root.copy()
        normal[axis] += 1.0  # the sign that cannot cancel: all entries of the root are above 0
        normal /= np.linalg.norm(normal)
        B = np.delete(np.eye(p.size) - 2 * np.outer(normal, normal), axis, axis=1)
        vars(self)["basis"] = root[:, None] * B
        vars(self)["C"] = self.contrasts @ vars(self)["basis"]

    @property
    def basis(self) -> Floats:
        """``D^(1/2) B``: ``e = rows @ basis``."""
        found: Floats = vars(self)["basis"]
        return found

    @property
    def C(self) -> Floats:
        """Shape (q, n - 1)."""
        found: Floats = vars(self)["C"]
        return found

    @property
    def room(self) -> Floats:
        """What the levels allow beyond the cost of the even ray, shape (levels,)."""
        room: Floats = np.array(self.levels) - np.array(self.even)
        return room

    def noise(self, rays: Rays, weights: Floats) -> float:
        """Of the design with these weights; infinite where it cannot estimate."""
        e = rays.rows @ self.basis
        try:
            half = np.linalg.solve((e.T * weights) @ e, self.C.T)
        except np.linalg.LinAlgError:
            return math.inf
        total = float((self.C.T * half).sum())
        if self.sizes.size:
            total += float((self.sizes / (weights @ rays.spread)).sum())
        return total if total > 0 and math.isfinite(total) else math.inf

    def noise_of_matrix(self, P: Floats) -> float:
        """Of the design with this matrix, whose columns sum to 1."""
        reports = P @ self.prior
        P, reports = P[reports > 0], reports[reports > 0]
        none = np.zeros((len(P), 0))
        return self.noise(Rays(P / reports[:, None], none, none), reports)

    def lack(self, rays: Rays, dual: Dual) -> Floats:
        """``|A e|^2 - nu^T l - mu c`` of rays, raised by what rounding may have done to it."""
        half = self.basis @ dual.A.T
        needs = ((rays.rows @ half) ** 2).sum(axis=1)
        size = ((rays.rows @ np.abs(half)) ** 2).sum(axis=1)
        within = rays.spread @ (self.sizes * dual.within**2)
        has = rays.rows @ dual.nu + (rays.cost - self.even) @ dual.mu
        cost = rays.cost @ dual.mu
        off = rays.rows @ np.abs(dual.nu) + cost + within + np.sqrt(needs * size)
        lacking: Floats = needs + within - has + 4 * self.prior.size * EPS * off
        return lacking

    def certify(self, dual: Dual, kappa: float) -> Certificate:
        """Certificate of the least noise at every first level, given the largest lack of any ray.

        Its sums are widened by what rounding may have done to them.
        """
        base = float(dual.nu.sum()) + kappa
        base += ROUNDING * (float(np.abs(dual.nu).sum()) + dual.value)
        mu = dual.mu * (1 + ROUNDING)
        base += float(mu[1:] @ self.room[1:])
        slope, at = (float(mu[0]), self.even[0]) if mu.size else (0.0, 0.0)
        known = math.fsum(self.prior**2)
        return Certificate(dual.value**2 * (1 - ROUNDING), base, slope, at, known)

    def bound(self, certificate: Certificate) -> float:
        """The certified least noise at the program's levels; 0 where nothing is certified."""
        level = self.levels[0] if self.levels else 0.0
        if not certificate.base + certificate.slope * (level - certificate.at) > 0:
            return 0.0
        found = float(certificate.beyond(level))
        return found if math.isfinite(found) else 0.0
