"""NumPy's SeedSequence and SFC64 inside compiled loops, word for word.

A sweep derives a generator for every (cell, repeat, role, block, attribute); building them through
NumPy would cost more than the draws.  ``Source`` in :mod:`ppdm_dask.randomness` is the plain twin:
the tests compare these words with ``numpy.random.SFC64(SeedSequence(entropy,
spawn_key=key)).random_raw(n)``. Unsigned 32-bit arithmetic is done in 64-bit words and masked.
"""

from __future__ import annotations

import numpy as np

from ppdm_dask.arrays import Words
from ppdm_dask.errors import InputError
from ppdm_dask.kernels import kernel

__all__ = ["absorb", "extend", "seed_rows", "seed_words", "sfc64_fill", "sfc64_start"]


POOL = 4
_MASK = np.uint64(0xFFFFFFFF)
_SHIFT = np.uint64(16)
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
def sfc64_fill(state: Words, out: Words, start: int) -> None:
    """Write the generator's next words to ``out[start:]``."""
    a, b, c, counter = state[0], state[1], state[2], state[3]
    for i in range(start, out.size):
        word = a + b + counter
        counter += np.uint64(1)
        a = b ^ (b >> np.uint64(11))
        b = c + (c << np.uint64(3))
        c = ((c << np.uint64(24)) | (c >> np.uint64(40))) + word
        out[i] = word
    state[0], state[1], state[2], state[3] = a, b, c, counter
