"""The iterative estimator of the distribution, and its error by simulation."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ppdm_dask.randomness import SimulationStream

__all__ = ["iterate", "iterative_mse"]

Floats = npt.NDArray[np.float64]

STEPS = 1_000
CLOSE = 1e-7
"""Change of the estimate, as a sum of absolute values, below which it stops."""


def iterate(P: Floats, observed: Floats) -> Floats:
    """Estimate proportions by the iteration of Eq. (3) of [HuangDu]_ (expectation-maximisation).

    Parameters
    ----------
    P : array, shape (m, K, n)
    observed : array, shape (m, samples, K)
        Proportions of the reported symbols.

    Returns
    -------
    array, shape (m, samples, n)
        From the uniform distribution on, until two consecutive estimates are close.
    """
    m, samples, _ = observed.shape
    n = P.shape[2]
    found = np.full((m, samples, n), 1.0 / n)
    transposed = np.ascontiguousarray(P.transpose(0, 2, 1))
    going = np.arange(m)
    for _ in range(STEPS):
        current = found[going]
        reported = current @ transposed[going]
        ratio = np.divide(
            observed[going], reported, out=np.zeros_like(reported), where=reported > 0
        )
        following = current * (ratio @ P[going])
        found[going] = following
        change = np.abs(following - current).sum(axis=2).max(axis=1)
        going = going[change > CLOSE]
        if not going.size:
            break
    return found


def iterative_mse(
    P: Floats, prior: Floats, n_records: int, samples: int, stream: SimulationStream
) -> Floats:
    """Average squared error of the iterative estimates, over samples of records and reports.

    Parameters
    ----------
    P : array, shape (m, K, n)
    prior : array, shape (n,)
        Each sample draws its records from it anew; all matrices get the same draws.
    n_records, samples : int
    stream : SimulationStream

    Returns
    -------
    array, shape (m,)
    """
    m, K, _ = P.shape
    observed = np.empty((m, samples, K))
    for i in range(samples):
        seeds = np.random.SeedSequence(stream.entropy, spawn_key=(*stream.key, i))
        for j in range(m):
            # The reports of a sample are one draw from the reports' distribution.
            generator = np.random.Generator(np.random.SFC64(seeds))
            law = P[j] @ prior
            observed[j, i] = generator.multinomial(n_records, law / law.sum()) / n_records
    errors = (iterate(P, observed) - prior) ** 2
    result: Floats = errors.mean(axis=(1, 2))
    return result
