"""Draws of a search: a keyed source for each generation, so that no generator has to be stored."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from ppdm_dask.randomness import SimulationStream

__all__ = ["Draws"]

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


class Draws:
    """Random numbers below one key, each list under a key of its own.

    Parameters
    ----------
    stream : SimulationStream
    *key : int
        Such as the generation.
    """

    def __init__(self, stream: SimulationStream, *key: int) -> None:
        self._source = stream.source(*key)

    def uniform(self, *shape: int) -> Floats:
        """Doubles uniform on [0, 1)."""
        words = self._source.words(math.prod(shape))
        found: Floats = (words >> np.uint64(11)).astype(np.float64) * 2.0**-53
        return found.reshape(shape)

    def below(self, m: int, *shape: int) -> Ints:
        """Integers uniform on ``0 .. m - 1``."""
        return np.minimum((self.uniform(*shape) * m).astype(np.int64), m - 1)

    def order(self, m: int) -> Ints:
        """A random order of ``0 .. m - 1``."""
        return np.argsort(self.uniform(m), kind="stable")

    def columns(self, m: int, K: int, n: int) -> Floats:
        """Matrices whose columns are uniform on the simplex, shape (m, K, n)."""
        weights = -np.log1p(-self.uniform(m, K, n))
        return np.ascontiguousarray(weights / weights.sum(axis=1, keepdims=True))
