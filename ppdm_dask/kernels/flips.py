"""Multi-group flips on binary attributes: draws, orbits, and signed counts of the truth.

A group of attributes is flipped together (section 4 of [ZhanDu]_), so the reports that a true
pattern can become are its *orbit* under the 2^g flips.  Records are counted by (pattern, flips);
an integer butterfly over each orbit turns the counts into signed counts of the truth at scale prod
|2 T - D|, for theta = T / D.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ppdm_dask.arrays import Ints, Words
from ppdm_dask.kernels import kernel
from ppdm_dask.kernels.planes import draw_bernoulli
from ppdm_dask.kernels.sampling import choose
from ppdm_dask.kernels.seeding import absorb, extend, sfc64_fill, sfc64_start

__all__ = ["butterfly", "draw_keep", "draw_masks", "spread", "tally"]


BLOCK_WORDS = 1024


@kernel
def butterfly(counts: Ints, heads: Ints, tails: Ints) -> None:
    """Signed counts of the truth from counts of reports, over one orbit, in place.

    Parameters
    ----------
    counts : int64, shape (2^g,)
        Reports by which groups are flipped; on return g factors
        ``[[T, -(D - T)], [-(D - T), T]]`` have been applied.
    heads, tails : int64, shape (g,)
        T and D - T of each group, both with the sign of 2 T - D.
    """
    for j in range(heads.size):
        step = 1 << j
        for i in range(counts.size):
            if not i & step:
                one, two = counts[i], counts[i | step]
                counts[i] = heads[j] * one - tails[j] * two
                counts[i | step] = heads[j] * two - tails[j] * one


@kernel
def spread(
    counts: Ints,
    patterns: Ints,
    masks: Ints,
    heads: Ints,
    tails: Ints,
    bits: Ints,
    signed: Ints,
    raw: Ints,
) -> tuple[int, int]:
    """Signed cells of all orbits, class 0 from the front and class 1 from the back.

    Parameters
    ----------
    counts : int64, shape (patterns, 2^g)
        Records by true pattern and flips.
    patterns : int64, shape (patterns,)
        Bit 0 is the class, bit 1 + a is feature a.
    masks : int64, shape (g,)
        Bits that a group flips.
    bits, signed, raw : int64, shape (patterns * 2^g,), overwritten
        Features, signed count and count of reports of each cell.

    Returns
    -------
    front, back : int
        Cells of class 0 stand in ``[0, front)``, those of class 1 in ``[back, size)``; what is
        zero in both counts is left out.
    """
    orbit = np.empty(counts.shape[1], np.int64)
    flips = np.zeros(orbit.size, np.int64)
    for s in range(orbit.size):
        for j in range(masks.size):
            if s >> j & 1:
                flips[s] ^= masks[j]
    front, back = 0, bits.size
    for p in range(counts.shape[0]):
        seen = np.int64(0)
        for s in range(orbit.size):
            orbit[s] = counts[p, s]
            seen |= orbit[s]
        if seen == 0:
            continue
        butterfly(orbit, heads, tails)
        for s in range(orbit.size):
            if orbit[s] == 0 and counts[p, s] == 0:
                continue
            cell = patterns[p] ^ flips[s]
            if cell & 1:
                back -= 1
                place = back
            else:
                place = front
                front += 1
            bits[place] = cell >> 1
            signed[place] = orbit[s]
            raw[place] = counts[p, s]
    return front, back


@kernel
def draw_masks(seed: Words, bit_of: Ints, masks: Ints) -> None:
    """Deal the attributes at random into groups: group j gets the shuffled positions j, j + g, ...

    Parameters
    ----------
    seed : uint64
        Words of the stream that shuffles.
    bit_of : int64, shape (attributes,)
        Bit of each attribute in a pattern.
    masks : int64, shape (g,), overwritten
    """
    pool, state = np.empty(4, np.uint64), np.empty(4, np.uint64)
    words, order = np.empty(bit_of.size, np.uint64), np.empty(bit_of.size, np.int64)
    absorb(seed, pool)
    sfc64_start(pool, state)
    sfc64_fill(state, words, 0)
    choose(bit_of.size, words, order)
    masks.fill(0)
    for i in range(bit_of.size):
        masks[i % masks.size] |= np.int64(1) << bit_of[order[i]]


@kernel
def draw_keep(seed: Words, digits: npt.NDArray[np.uint8], n_digits: Ints, keep: Words) -> None:
    """Planes of the records that tell the truth, one a group.

    Parameters
    ----------
    seed : uint64
        Words of the disguise's stream; below it come the logical block, the group and role 0.
    digits, n_digits : shape (g, most digits), (g,)
        Binary digits of each theta, and how many; -1 where theta is 1 and nothing is drawn.
    keep : uint64, shape (g, words), overwritten
    """
    pool = np.empty(4, np.uint64)
    for first in range(0, keep.shape[1], BLOCK_WORDS):
        last = min(first + BLOCK_WORDS, keep.shape[1])
        for j in range(keep.shape[0]):
            plane = keep[j, first:last]
            if n_digits[j] < 0:
                plane.fill(~np.uint64(0))
                continue
            constant = absorb(seed, pool)
            constant = extend(pool, constant, np.uint64(first // BLOCK_WORDS))
            constant = extend(pool, constant, np.uint64(j))
            extend(pool, constant, np.uint64(0))
            draw_bernoulli(pool, digits[j, : n_digits[j]], plane)


@kernel
def tally(
    keep: Words,
    test: Words,
    pattern_of: npt.NDArray[np.int32],
    train_counts: Ints,
    test_counts: Ints,
    clean: Ints,
) -> None:
    """Count records by true pattern and flips, the training and the test part apart.

    Parameters
    ----------
    keep : uint64, shape (g, words)
    test : uint64, shape (words,)
        Which records are tested.
    pattern_of : int32, shape (records,)
    train_counts, test_counts : int64, shape (patterns, 2^g), overwritten
    clean : int64, shape (patterns,), overwritten
        Test records by pattern.
    """
    train_counts.fill(0)
    test_counts.fill(0)
    clean.fill(0)
    for record in range(pattern_of.size):
        word, bit = record >> 6, np.uint64(record & 63)
        flips = np.int64(0)
        for j in range(keep.shape[0]):
            flips |= np.int64(~(keep[j, word] >> bit) & np.uint64(1)) << j
        pattern = pattern_of[record]
        if (test[word] >> bit) & np.uint64(1):
            test_counts[pattern, flips] += 1
            clean[pattern] += 1
        else:
            train_counts[pattern, flips] += 1
