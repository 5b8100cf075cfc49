"""Random draws inside compiled loops: NumPy's SeedSequence and SFC64 word for word, and subsets.

A sweep derives a generator for every (cell, repeat, role, block, attribute); building them through
NumPy would cost more than the draws.  ``Source`` in :mod:`ppdm_dask.randomness` is the plain twin:
the tests compare these words with ``numpy.random.SFC64(SeedSequence(entropy,
spawn_key=key)).random_raw(n)``. Unsigned 32-bit arithmetic is done in 64-bit words and masked.

Subsets of fixed size and their sums are on packed bits; the test part of a split is a simple random
sample without replacement.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ppdm_dask.arrays import Words
from ppdm_dask.errors import InputError
from ppdm_dask.kernels import kernel

POOL = 4
_MASK = np.uint64(0xFFFFFFFF)
_SHIFT = np.uint64(16)
_ONE = np.uint64(1)
_INIT_A, _MULT_A = np.uint64(0x43B0D7E5), np.uint64(0x931E8875)
_INIT_B, _MULT_B = np.uint64(0x8B51F9DD), np.uint64(0x58F38DED)
_MIX_L, _MIX_R = np.uint64(0xCA01F9DD), np.uint64(0x4973F715)


def seed_words(entropy: int, key: tuple[int, ...] = ()) -> Words:
    """The 32-bit words that ``SeedSequence(entropy, spawn_key=key)`` mixes, one an element."""
    words = _split(entropy)
    words += [0] * (POOL - len(words))
    for part in key:
        words += _split(part)
    return np.array(words, dtype=np.uint64)


def seed_rows(entropy: int, key: tuple[int, int], start: int, stop: int) -> Words:
    """Seed words of repeats ``start .. stop - 1`` under the key (cell, repeat, role), a row each.

    Parameters
    ----------
    entropy : int
    key : (cell, role)
    start, stop : int
        Repeats, below 2**32 so that each fills one word.
    """
    if stop > 1 << 32:
        raise InputError(f"repeats: got {stop}; at most 2**32 can be keyed", stop)
    cell, role = key
    rows = np.tile(seed_words(entropy, (cell, 0, role)), (stop - start, 1))
    rows[:, -2] = np.arange(start, stop, dtype=np.uint64)
    return rows


def _split(value: int) -> list[int]:
    words = [value & 0xFFFFFFFF]
    while value := value >> 32:
        words.append(value & 0xFFFFFFFF)
    return words


@kernel
def _hash(value: np.uint64, constant: np.uint64) -> np.uint64:
    """Second half of the hash step; the caller moves the constant on."""
    mixed = (value * constant) & _MASK
    return mixed ^ (mixed >> _SHIFT)


@kernel
def _mix(x: np.uint64, y: np.uint64) -> np.uint64:
    mixed = (_MIX_L * x - _MIX_R * y) & _MASK
    return mixed ^ (mixed >> _SHIFT)


@kernel
def absorb(words: Words, pool: Words) -> np.uint64:
    """Mix the words (at least 4) into a pool of 4; returns the hash constant reached."""
    constant = _INIT_A
    for i in range(POOL):
        value = words[i] ^ constant
        constant = (constant * _MULT_A) & _MASK
        pool[i] = _hash(value, constant)
    for source in range(POOL):
        for target in range(POOL):
            if source != target:
                value = pool[source] ^ constant
                constant = (constant * _MULT_A) & _MASK
                pool[target] = _mix(pool[target], _hash(value, constant))
    for i in range(POOL, words.size):
        constant = extend(pool, constant, words[i])
    return constant


@kernel
def extend(pool: Words, constant: np.uint64, word: np.uint64) -> np.uint64:
    """Mix one more word of the key into the pool; returns the next hash constant."""
    for target in range(POOL):
        value = word ^ constant
        constant = (constant * _MULT_A) & _MASK
        pool[target] = _mix(pool[target], _hash(value, constant))
    return constant


@kernel
def sfc64_start(pool: Words, state: Words) -> None:
    """Seed ``state`` (a, b, c, counter) as NumPy's SFC64 does, twelve draws discarded."""
    constant = _INIT_B
    for i in range(3):
        pair = np.uint64(0)
        for half in range(2):
            value = pool[(2 * i + half) % POOL] ^ constant
            constant = (constant * _MULT_B) & _MASK
            pair |= _hash(value, constant) << np.uint64(32 * half)
        state[i] = pair
    state[3] = np.uint64(1)
    discard = np.empty(12, np.uint64)
    sfc64_fill(state, discard, 0)


@kernel
def sfc64_next(
    a: np.uint64, b: np.uint64, c: np.uint64, counter: np.uint64
) -> tuple[np.uint64, np.uint64, np.uint64, np.uint64, np.uint64]:
    """Return the generator's next word, and the state behind it."""
    word = a + b + counter
    turned = (c << np.uint64(24)) | (c >> np.uint64(40))
    return word, b ^ (b >> np.uint64(11)), c + (c << np.uint64(3)), turned + word, counter + _ONE


@kernel
def sfc64_fill(state: Words, out: Words, start: int) -> None:
    """Write the generator's next words to ``out[start:]``."""
    a, b, c, counter = state[0], state[1], state[2], state[3]
    for i in range(start, out.size):
        out[i], a, b, c, counter = sfc64_next(a, b, c, counter)
    state[0], state[1], state[2], state[3] = a, b, c, counter


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
