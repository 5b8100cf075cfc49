"""Drawing the test part of a split: a simple random sample without replacement."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ppdm_dask.kernels import kernel
from ppdm_dask.kernels.seeding import absorb, sfc64_fill, sfc64_start

__all__ = ["choose", "draw_test_plane"]


@kernel
def choose(n: int, words: npt.NDArray[np.uint64], order: npt.NDArray[np.int64]) -> None:
    """Partial Fisher-Yates shuffle: ``order[:m]`` becomes a uniform sample of m of ``0 .. n - 1``.

    One 64-bit word a draw, m words in all, scaled to the range (bias under n / 2**64); n < 2**32.
    """
    for i in range(n):
        order[i] = i
    low_half = np.uint64(0xFFFFFFFF)
    half = np.uint64(32)
    for i in range(words.size):
        left = np.uint64(n - i)
        high, low = words[i] >> half, words[i] & low_half
        j = i + np.int64((high * left + ((low * left) >> half)) >> half)
        order[i], order[j] = order[j], order[i]


@kernel
def draw_test_plane(
    seed: npt.NDArray[np.uint64],
    n_test: int,
    order: npt.NDArray[np.int64],
    test: npt.NDArray[np.uint64],
) -> None:
    """Draw the test part of ``order.size`` records as a plane; ``order[:n_test]`` lists it."""
    pool, state = np.empty(4, np.uint64), np.empty(4, np.uint64)
    words = np.empty(n_test, np.uint64)
    absorb(seed, pool)
    sfc64_start(pool, state)
    sfc64_fill(state, words, 0)
    choose(order.size, words, order)
    test.fill(np.uint64(0))
    for i in range(n_test):
        test[order[i] >> 6] |= np.uint64(1) << np.uint64(order[i] & 63)
