"""Random subsets of fixed size, and sums over subsets, on packed bits."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ppdm_dask.kernels import kernel

__all__ = ["draw_subsets", "sum_subsets"]


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
