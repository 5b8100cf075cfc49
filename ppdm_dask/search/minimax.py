"""The least regret that any design can have over a set of priors, with a certificate.

For each prior p_s of a set there is a unit l_s: the limit of the sum of variances there, or 1.  A
design has one left inverse B, fixed before the data are seen, and its regret is

    max_s  (sum_y (P p_s)_y |b_y|^2 - |p_s|^2) / l_s,     b_y the columns of B.

Reports have likelihoods ``w_k g_k`` with g_k an extremal ray of the cone of those that keep the
privacy at every prior of the set: ``g(x)`` in ``{1, e^epsilon}``, whatever the prior; or the
vertices of ``g(x) p_s(x) <= delta g^T p_s``.  With ``c_k = w_k b_k`` the least regret is convex in
w and c.  Its dual puts weights ``pi`` on the priors, of sum 1.  With ``q = sum_s pi_s p_s / l_s``
it is

    maximise 2 tr Y - 1^T nu - sum_s pi_s |p_s|^2 / l_s
    subject to |Y g_k|^2 <= (q^T g_k) (nu^T g_k)  for all k,

a second-order cone program.  So the best design is the optimal one at the *least favourable prior*
q / sum(q), and its inverse is the one of least variance there.  With one prior it is the limit.

A certificate needs no solver: for any symmetric Y, nu with ``nu^T g_k > 0`` and weights pi, with
``eta = max_k |Y g_k|^2 / ((q^T g_k) (nu^T g_k))``,

    regret >= (tr Y)^2 / (eta 1^T nu) - sum_s pi_s |p_s|^2 / l_s   for every design of the privacy.
"""

from __future__ import annotations

import math
from itertools import product
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ppdm_dask.arrays import Floats, Ints
from ppdm_dask.errors import InputError, PPDMError
from ppdm_dask.search.bound import run_solver

__all__ = ["Dual", "certify", "limits_of", "rays_of_epsilon", "rays_of_posterior", "solve"]

MOST_EPSILON, MOST_POSTERIOR = 10, 6
"""Categories up to which the extremal rays are listed: those of an epsilon, and those of a bound on
the posterior at every prior, which are vertices of a polytope."""

TOLERANCES = (1e-10, 1e-9, 1e-8)
ROUNDS, ADDED = 60, 60
FIRST = 300  # rays that are given to the solver at once
VIOLATION = 1e-9
NEARLY = 1.5
"""Allowance over use of a ray up to which it starts the program of the next prior."""


class Dual(NamedTuple):
    """Dual variables, and the weights of the rays that come with them."""

    Y: Floats
    nu: Floats
    pi: Floats
    weights: Floats


def rays_of_epsilon(n: int, epsilon: float) -> Floats:
    """Extremal likelihoods with ratios of at most ``e^epsilon``, shape (rays, n), of mean 1.

    Raises
    ------
    InputError
        Above 10 categories.
    """
    _few("epsilon", n, MOST_EPSILON)
    # 1 and 1 + (e^epsilon - 1), so that a small epsilon keeps its digits.
    rays = 1.0 + math.expm1(epsilon) * np.array([*product((0.0, 1.0), repeat=n)][1:-1])
    scaled: Floats = rays * (n / rays.sum(axis=1, keepdims=True))
    return scaled


def rays_of_posterior(p: Floats, delta: float) -> Floats:
    """Extremal likelihoods none of whose posteriors exceeds delta at any prior, of mean 1.

    Parameters
    ----------
    p : array, shape (priors, n)
    delta : float
        Above all proportions.

    Raises
    ------
    InputError
        Above 6 categories.
    """
    from scipy.spatial import HalfspaceIntersection, QhullError

    n = p.shape[1]
    _few("max_posterior", n, MOST_POSTERIOR)
    # Rows a with a^T g <= 0; g is 1 + B h with h of n - 1 entries, so its mean is 1.
    bounds = [row for each in p for row in np.diag(each) - delta * each]
    A = np.unique(np.concatenate([np.array(bounds), -np.eye(n)]), axis=0)
    B = np.linalg.svd(np.ones((1, n)))[2][1:].T
    slopes, rests = A @ B, A.sum(axis=1)
    if n == 2:
        ends = -rests / slopes[:, 0]
        corners = np.array([[ends[slopes[:, 0] > 0].min()], [ends[slopes[:, 0] < 0].max()]])
    else:
        try:
            # 1 itself tells nothing, and keeps every bound with room.
            halves = HalfspaceIntersection(np.column_stack([slopes, rests]), np.zeros(n - 1))
        except QhullError:
            raise PPDMError(
                "the reports that keep the bound at every prior were not found", p
            ) from None
        corners = halves.intersections
    rays = 1.0 + corners @ B.T
    rays[rays < 1e-12] = 0.0
    found: Floats = np.unique(np.round(rays, 13), axis=0)
    return found


def _few(name: str, n: int, most: int) -> None:
    if n > most:
        raise InputError(f"priors: got {n} categories; {name} takes up to {most}", n)


def limits_of(rays: Floats, p: Floats) -> Floats:
    """The certified least sum of variances at each prior, for designs of some rays.

    Parameters
    ----------
    rays : array, shape (rays, n)
        All extremal likelihoods of a privacy.
    p : array, shape (priors, n)

    Returns
    -------
    array, shape (priors,)
    """
    unit, found, active = np.ones(1), [], None
    for row in p:
        dual, active = _solve(rays, row[None], unit, active)
        found.append(certify(rays, row[None], unit, dual.Y, dual.nu, dual.pi))
    return np.array(found)


def solve(rays: Floats, p: Floats, limits: Floats) -> Dual:
    """Dual variables of the least regret, with a weight for each ray.

    Raises
    ------
    PPDMError
        If the solver does not end well.
    """
    return _solve(rays, p, limits, None)[0]


def _solve(rays: Floats, p: Floats, limits: Floats, active: Ints | None) -> tuple[Dual, Ints]:
    """The same, with the rays that are nearly tight; rays are added as they are violated."""
    if active is None or not len(active):
        active = np.arange(len(rays))
        if len(rays) > FIRST:
            active = np.sort(np.argsort(-rays.std(axis=1), kind="stable")[:FIRST])
    for _ in range(ROUNDS):
        found = _first_good(rays[active], p, limits)
        q = found.pi @ (p / limits[:, None])
        allowed = (rays @ q) * (rays @ found.nu)
        used = ((rays @ found.Y) ** 2).sum(axis=1)
        over = used - allowed * (1 + VIOLATION)
        over[active] = -np.inf
        worst = np.argsort(-over, kind="stable")[:ADDED]
        worst = worst[over[worst] > 0]
        if not worst.size:
            break
        active = np.sort(np.concatenate([active, worst]))
    weights = np.zeros(len(rays))
    weights[active] = found.weights
    return found._replace(weights=weights), active[allowed[active] < NEARLY * used[active]]


def _first_good(rays: Floats, p: Floats, limits: Floats) -> Dual:
    for tolerance in TOLERANCES:
        found = _attempt(rays, p, limits, tolerance)
        if found is not None:
            return found
    raise PPDMError("the cone solver gave up on this set of priors", p)


def _attempt(rays: Floats, p: Floats, limits: Floats, tolerance: float) -> Dual | None:
    m, n = rays.shape
    rows, cols = np.triu_indices(n)
    n_Y, n_pi = len(rows), len(p) - 1
    shares = p / limits[:, None]
    known = (p**2).sum(axis=1) / limits
    # In units in which q is about 1; the weight of the first prior is what the others lack of 1.
    unit = 1.0 / float(shares.sum(axis=1).max())
    first, others = rays @ shares[0] * unit, rays @ (shares[1:] - shares[0]).T * unit
    A = np.zeros((m, n + 2, n_Y + n + n_pi))
    A[:, 0, n_Y : n_Y + n], A[:, 1, n_Y : n_Y + n] = -rays, rays
    A[:, :2, n_Y + n :] = -others[:, None, :]
    for j, (i, k) in enumerate(zip(rows, cols, strict=True)):
        A[:, 2 + i, j] = -2.0 * rays[:, k]
        A[:, 2 + k, j] = -2.0 * rays[:, i]
    b = np.zeros((m, n + 2))
    b[:, 0] = b[:, 1] = first
    positive = np.zeros((n_pi + 1, A.shape[2]))
    positive[:n_pi, n_Y + n :] = -np.eye(n_pi)
    positive[n_pi, n_Y + n :] = 1.0
    cost = np.concatenate(
        [np.where(rows == cols, -2.0 / math.sqrt(unit), 0.0), np.ones(n), known[1:] - known[0]]
    )
    found = run_solver(
        np.vstack([A.reshape(m * (n + 2), -1), positive]),
        np.concatenate([b.ravel(), np.zeros(n_pi), [1.0]]),
        cost,
        [n + 2] * m,
        tolerance,
        n_pi + 1,
    )
    if found is None:
        return None
    x, z = found.x, found.z[: m * (n + 2)].reshape(m, n + 2)
    Y = np.zeros((n, n))
    Y[rows, cols] = Y[cols, rows] = x[:n_Y] / math.sqrt(unit)
    pi = np.maximum(np.append(1.0 - x[n_Y + n :].sum(), x[n_Y + n :]), 0.0)
    return Dual(Y, x[n_Y : n_Y + n], pi / pi.sum(), np.maximum(z[:, 0] - z[:, 1], 0.0))


def certify(
    rays: Floats,
    p: Floats,
    limits: Floats,
    Y: npt.ArrayLike,
    nu: npt.ArrayLike,
    pi: npt.ArrayLike,
) -> float:
    """What no design's worst regret is below, by plain arithmetic on every ray.

    Parameters
    ----------
    rays : array, shape (rays, n)
        All extremal likelihoods.
    p : array, shape (priors, n)
    limits : array, shape (priors,)
    Y : array_like, shape (n, n)
    nu : array_like, shape (n,)
    pi : array_like, shape (priors,)

    Raises
    ------
    PPDMError
        If they certify nothing.
    """
    given, cost = np.asarray(Y, dtype=float), np.asarray(nu, dtype=float)
    even = (given + given.T) / 2
    shares = np.maximum(np.asarray(pi, dtype=float), 0.0)
    shares = shares / shares.sum()
    allowed = (rays @ (shares @ (p / limits[:, None]))) * (rays @ cost)
    if not allowed.min() > 0:
        raise PPDMError("the dual variables certify nothing: a ray has no positive allowance", nu)
    eta = float((((rays @ even) ** 2).sum(axis=1) / allowed).max())
    known = float(shares @ ((p**2).sum(axis=1) / limits))
    return float(np.trace(even)) ** 2 / (eta * float(cost.sum())) - known
