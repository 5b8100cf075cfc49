"""Reports of whole blocks of records in one pass, each beside a plain statement of the same.

A record keeps its answer where its bit of a plane says so, and gives another by one uniform word
where it does not; or it draws its report by one word from the law of its answer.

Also here: sums of words by code, by which answers are known again.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from ppdm_dask.arrays import Words
from ppdm_dask.kernels import kernel

__all__ = [
    "draw_reports",
    "draw_reports_plain",
    "keep_or_draw",
    "keep_or_draw_plain",
    "keep_or_step",
    "keep_or_step_plain",
    "put_truth",
    "put_truth_plain",
    "sum_by_code",
    "sum_by_code_plain",
]

Codes = npt.NDArray[Any]


@kernel
def _drawn(u: np.uint64, cuts: Words, last: int) -> int:
    """The number of cuts up to u, `last` at most: symbol of a law by its rising cuts."""
    low, high = 0, last
    # Few cuts are counted without a branch that the processor would have to guess.
    while high - low > 16:
        middle = (low + high) >> 1
        if cuts[middle] <= u:
            low = middle + 1
        else:
            high = middle
    found = low
    for j in range(low, high):
        found += cuts[j] <= u
    return found


@kernel
def draw_reports(
    true: npt.NDArray[np.int64],
    words: Words,
    cuts: npt.NDArray[np.uint64],
    last: npt.NDArray[np.int64],
    out: npt.NDArray[np.int64],
) -> None:
    """Draw a symbol for each record from the law of its true category.

    Parameters
    ----------
    true : int64, shape (n,)
    words : uint64, shape (n,)
        Of which the upper 62 bits are used.
    cuts : uint64, shape (categories, symbols)
        Cumulative probabilities in units of 2**-62.
    last : int64, shape (categories,)
        Last symbol that each category can give.
    out : int64, shape (n,)
    """
    for i in range(true.size):
        x = true[i]
        out[i] = _drawn(words[i] >> np.uint64(2), cuts[x], last[x])


def draw_reports_plain(
    true: npt.NDArray[np.int64],
    words: Words,
    cuts: npt.NDArray[np.uint64],
    last: npt.NDArray[np.int64],
    out: npt.NDArray[np.int64],
) -> None:
    """Plain statement of :func:`draw_reports`."""
    for x in np.unique(true):
        rows = true == x
        found = np.searchsorted(cuts[x], words[rows] >> np.uint64(2), "right")
        out[rows] = np.minimum(found, last[x])


@kernel
def keep_or_draw(
    codes: Codes, plane: Words, start: int, words: Words, cuts: Words, last: int, out: Codes
) -> None:
    """Keep each code, or draw one from a law that is the same for all.

    Parameters
    ----------
    codes : integers, shape (n,)
    plane : uint64
        Record i is kept if bit ``start + i`` is 1.
    words, cuts, last
        As for :func:`draw_reports`; `cuts` of one law.
    out : integers, shape (n,)
    """
    for i in range(codes.size):
        bit = start + i
        kept = plane[bit >> 6] >> np.uint64(bit & 63) & np.uint64(1)
        other = _drawn(words[i] >> np.uint64(2), cuts, last)
        out[i] = codes[i] if kept else other


def keep_or_draw_plain(
    codes: Codes, plane: Words, start: int, words: Words, cuts: Words, last: int, out: Codes
) -> None:
    """Plain statement of :func:`keep_or_draw`."""
    other = np.minimum(np.searchsorted(cuts, words >> np.uint64(2), "right"), last)
    out[:] = np.where(_bits(plane, start, codes.size), codes, other)


@kernel
def keep_or_step(codes: Codes, plane: Words, start: int, words: Words, n: int, out: Codes) -> None:
    """Keep each code, or give one of the n - 1 others, all alike; see :func:`keep_or_draw`.

    A word is scaled to a step of 1 to n - 1 around the circle of codes (bias under n / 2**64).
    """
    half, low_half = np.uint64(32), np.uint64(0xFFFFFFFF)
    others = np.uint64(n - 1)
    for i in range(codes.size):
        bit = start + i
        kept = plane[bit >> 6] >> np.uint64(bit & 63) & np.uint64(1)
        high, low = words[i] >> half, words[i] & low_half
        step = 1 + np.int64((high * others + ((low * others) >> half)) >> half)
        other = np.int64(codes[i]) + step
        other -= n if other >= n else 0
        out[i] = codes[i] if kept else other


def keep_or_step_plain(
    codes: Codes, plane: Words, start: int, words: Words, n: int, out: Codes
) -> None:
    """Plain statement of :func:`keep_or_step`."""
    steps = np.array([1 + (word * (n - 1) >> 64) for word in words.tolist()], np.int64)
    out[:] = np.where(_bits(plane, start, codes.size), codes, (codes + steps) % n)


@kernel
def put_truth(
    plane: Words,
    coin: Words,
    start: int,
    stride: int,
    true: npt.NDArray[np.int64],
    k: int,
    out: npt.NDArray[np.uint8],
) -> None:
    """Sets of categories as packed bits: those of a plane, but the truth as a coin says.

    Parameters
    ----------
    plane : uint64
        Bit ``(start + i) * stride + v`` says whether record i holds category v.
    coin : uint64
        Record i holds its truth if bit ``start + i`` is 1.
    start, stride : int
        Place of the first record in both, and bits from one to the next in the plane.
    true : int64, shape (n,)
    k : int
        Categories, `stride` at most.
    out : uint8, shape (n, ceil(k / 8))
        Bits beyond the last category are 0.
    """
    size = out.shape[1]
    for i in range(true.size):
        at = start + i
        for j in range(size):
            bit = at * stride + 8 * j
            word, low = bit >> 6, bit & 63
            byte = plane[word] >> np.uint64(low)
            if low > 56 and word + 1 < plane.size:
                byte |= plane[word + 1] << np.uint64(64 - low)
            out[i, j] = np.uint8(byte & np.uint64(255))
        if k & 7:
            out[i, size - 1] &= np.uint8((1 << (k & 7)) - 1)
        held = (coin[at >> 6] >> np.uint64(at & 63)) & np.uint64(1)
        place, one = true[i] >> 3, np.uint8(1 << (true[i] & 7))
        out[i, place] = out[i, place] | one if held else out[i, place] & ~one


def put_truth_plain(
    plane: Words,
    coin: Words,
    start: int,
    stride: int,
    true: npt.NDArray[np.int64],
    k: int,
    out: npt.NDArray[np.uint8],
) -> None:
    """Plain statement of :func:`put_truth`."""
    n = len(true)
    inside = _bits(plane, start * stride, n * stride).reshape(n, stride)[:, :k].copy()
    inside[np.arange(n), true] = _bits(coin, start, n)
    out[:] = np.packbits(inside, axis=1, bitorder="little")


def _bits(plane: Words, start: int, n: int) -> npt.NDArray[np.bool_]:
    bits = np.unpackbits(plane.astype("<u8", copy=False).view(np.uint8), bitorder="little")
    return bits[start : start + n].view(np.bool_)


@kernel
def sum_by_code(codes: Codes, words: Words, sums: Words, counts: npt.NDArray[np.int64]) -> None:
    """Add each record's word to the sum of its code, modulo 2**64, and count it.

    Parameters
    ----------
    codes : integers, shape (n,)
        From -1 on.
    words : uint64, shape (n,)
    sums : uint64, shape (m,)
        The first one is of code -1.
    counts : int64, shape (m,)
    """
    for i in range(codes.size):
        place = np.int64(codes[i]) + 1
        sums[place] += words[i]
        counts[place] += 1


def sum_by_code_plain(
    codes: Codes, words: Words, sums: Words, counts: npt.NDArray[np.int64]
) -> None:
    """Plain statement of :func:`sum_by_code`."""
    places = codes.astype(np.int64) + 1
    np.add.at(sums, places, words)  # which wraps as unsigned words do
    np.add.at(counts, places, 1)
