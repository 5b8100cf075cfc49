"""From an optimal design to one with fewer reported symbols, by merging symbols."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ppdm_dask.search.bound import Level
from ppdm_dask.search.draws import Draws

__all__ = ["merged"]

Floats = npt.NDArray[np.float64]


def merged(
    level: Level, prior: Floats, symbols: int, draws: Draws | None = None, noise: float = 0.3
) -> Floats:
    """P with at most `symbols` symbols, merged pair by pair from the design of a level.

    Merging never raises the adversary's success or a posterior, and loses one rank-one term of J:
    with ``v = u_i / s_i - u_j / s_j`` and ``c = s_i s_j / (s_i + s_j)``, J becomes
    ``J - c v v^T``.  Each step takes the pair that costs least, where success given back counts at
    the certificate's exchange rate.

    Parameters
    ----------
    level : Level
    prior : array, shape (n,)
    symbols : int
        n or more.
    draws : Draws, optional
        Take pairs at random near the best, for variety.
    noise : float
        How far from the best, in units of the median cost of the twenty best pairs.
    """
    rays = level.weights[:, None] * level.rays
    certificate = level.certificate
    rate = certificate.rate(level.loss)
    while len(rays) > symbols:
        s = rays.sum(axis=1)
        u = rays / prior
        C = np.linalg.inv((u / s[:, None]).T @ u)
        i, j = np.triu_indices(len(rays), 1)
        v = u[i] / s[i, None] - u[j] / s[j, None]
        c = s[i] * s[j] / (s[i] + s[j])
        Cv = v @ C
        left = 1.0 - c * (v * Cv).sum(axis=1)
        rise = c * (Cv**2).sum(axis=1) / np.maximum(left, 1e-12)
        largest = rays.max(axis=1)
        given_back = largest[i] + largest[j] - (rays[i] + rays[j]).max(axis=1)
        cost = np.log1p(rise / np.trace(C)) - rate * given_back
        if draws is not None:
            usual = np.median(np.abs(np.partition(cost, min(20, len(cost) - 1))[:20]))
            gumbel = -np.log(-np.log(draws.uniform(len(cost)) + 2.0**-54))
            cost = cost - noise * usual * gumbel
        best = int(np.argmin(cost))
        rays[i[best]] += rays[j[best]]
        rays = np.delete(rays, j[best], axis=0)
    P = rays / prior
    result: Floats = P / P.sum(axis=0)
    return result
