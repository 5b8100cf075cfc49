"""Drawing the test part of a split: a simple random sample without replacement."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ppdm_dask.kernels import kernel

__all__ = ["choose"]


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
