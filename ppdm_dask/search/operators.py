"""Mating selection, crossover, mutation and random matrices, on whole stacks at once."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ppdm_dask.kernels import channels
from ppdm_dask.search.draws import Draws

__all__ = ["cross", "initial", "mutate", "tournament"]

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


def tournament(fitness: Floats, size: int, draws: Draws) -> Ints:
    """Binary tournaments: indices of the parents, shape (size,).  Section V-D of [HuangDu]_.

    Two members are drawn, and the one with the lower fitness wins; the first where both are equal.
    """
    pairs = draws.below(len(fitness), size, 2)
    second = fitness[pairs[:, 1]] < fitness[pairs[:, 0]]
    return np.where(second, pairs[:, 1], pairs[:, 0])


def cross(P: Floats, draws: Draws) -> None:
    """Pair the matrices at random, and swap the columns right of a random line.  Section V-E.

    Parameters
    ----------
    P : array, shape (m, K, n)
        Changed in place; of an odd number one stays as it is.
    """
    m, _, n = P.shape
    pairs = draws.order(m)[: m // 2 * 2].reshape(-1, 2)
    cuts = 1 + draws.below(n - 1, m // 2)
    channels.swap_columns(P, pairs, cuts)


def mutate(P: Floats, draws: Draws, rate: float, scale: float) -> None:
    """Change one entry of a random column, and the rest of it in proportion.  Section V-F.

    Parameters
    ----------
    P : array, shape (m, K, n)
        Changed in place.
    rate : float
        Probability that a matrix is changed.
    scale : float
        The entry changes by up to this much, up or down.
    """
    m, K, n = P.shape
    column, row = draws.below(n, m), draws.below(K, m)
    size = draws.uniform(m) * scale
    sign = np.where(draws.uniform(m) < 0.5, -1.0, 1.0)
    step = np.where(draws.uniform(m) < rate, sign * size, 0.0)
    channels.mutate(P, column, row, step)


def initial(m: int, K: int, n: int, draws: Draws) -> Floats:
    """Random matrices of every privacy, shape (m, K, n).

    The columns of the first half are uniform on the simplex; such matrices tell little.  Those of
    the second half are concentrated (exponential weights to a power from 1/2 to 20) and mixed with
    the identity, so that the first population also reaches to the other end of the front.
    """
    half = m // 2
    weights = -np.log1p(-draws.uniform(half, K, n))
    weights **= 0.5 * 40.0 ** draws.uniform(half, 1, 1)
    share = draws.uniform(half, 1, 1)
    sharp = (1.0 - share) * weights / weights.sum(axis=1, keepdims=True) + share * np.eye(K, n)
    return np.concatenate([draws.columns(m - half, K, n), sharp])
