"""Random subsets of fixed size, and sums over subsets, on packed bits.

Beside it: drawing the test part of a split: a simple random sample without replacement.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ppdm_dask.kernels import kernel
from ppdm_dask.kernels.seeding import absorb, sfc64_fill, sfc64_start

__all__ = ["choose", "draw_subsets", "draw_test_plane", "sum_subsets"]


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


@kernel
def draw_subsets(
    true: npt.NDArray[np.int64],
    coin: npt.NDArray[np.bool_],
    words: npt.NDArray[np.uint64],
    k: int,
    size: int,
    bits: npt.NDArray[np.uint8],
) -> None:
    """Subsets of a size that hold the truth where the coin says so, all others alike.

    Floyd's algorithm on the categories other than the truth: of those inside, or of those outside
    where they are fewer.  Row i uses the first of ``words[i]``, ``min(size, k - size)`` in all,
    scaled to the range (bias under k / 2**64).

    Parameters
    ----------
    bits : uint8, shape (n, ceil(k / 8))
        Zeros; category v becomes bit ``v % 8`` of byte ``v // 8``.
    """
    half, low_half = np.uint64(32), np.uint64(0xFFFFFFFF)
    direct = 2 * size <= k
    for i in range(len(true)):
        x = true[i]
        marked_truth = coin[i] == direct
        mark = (size if direct else k - size) - (1 if marked_truth else 0)
        if marked_truth:
            bits[i, x >> 3] |= np.uint8(1 << (x & 7))
        for step in range(mark):
            j = k - 1 - mark + step
            bound = np.uint64(j + 1)
            high, low = words[i, step] >> half, words[i, step] & low_half
            t = np.int64((high * bound + ((low * bound) >> half)) >> half)
            v: np.int64 | int = t + 1 if t >= x else t
            if bits[i, v >> 3] >> (v & 7) & 1:
                v = j + 1 if j >= x else j
            bits[i, v >> 3] |= np.uint8(1 << (v & 7))
        if not direct:
            for byte in range(bits.shape[1]):
                bits[i, byte] = ~bits[i, byte]
            if k & 7:
                bits[i, bits.shape[1] - 1] &= np.uint8((1 << (k & 7)) - 1)


@kernel
def sum_subsets(
    bits: npt.NDArray[np.uint8],
    values: npt.NDArray[np.float64],
    sums: npt.NDArray[np.float64],
) -> None:
    """Add ``values[i, c]`` to ``sums[c, v]`` for each category v in report i.

    Parameters
    ----------
    sums : float64, shape (columns, 8 * ceil(k / 8))
    """
    for i in range(bits.shape[0]):
        for c in range(values.shape[1]):
            value = values[i, c]
            row = sums[c]
            for byte in range(bits.shape[1]):
                b = bits[i, byte]
                for j in range(8):
                    # Without a branch: eight sums at once.
                    row[8 * byte + j] += value * ((b >> j) & 1)
