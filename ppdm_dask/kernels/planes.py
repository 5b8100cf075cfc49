"""Bit planes: record i is bit ``i % 64`` of word ``i // 64``.

Also here: counting bits: the processor's population count, which numba does not offer by itself.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from ppdm_dask.arrays import Words
from ppdm_dask.kernels import has_numba, kernel
from ppdm_dask.kernels.draws import POOL, absorb, seed_words, sfc64_next, sfc64_start

__all__ = [
    "bernoulli_plane",
    "bernoulli_plane_plain",
    "draw_bernoulli",
    "fill_by_key",
    "pack_plane",
    "popcount",
]


def _counted_by_the_processor() -> Callable[[Any], Any]:
    """Number of ones of an unsigned 64-bit word, as an unsigned 64-bit integer."""
    from numba import types
    from numba.extending import intrinsic

    @intrinsic
    def count(typingctx: Any, word: Any) -> Any:
        signature = types.uint64(types.uint64)

        def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            return builder.ctpop(arguments[0])

        return signature, build

    # Typed as compiled code calls it: numba passes the typing context by itself.
    return cast(Callable[[Any], Any], count)


popcount = _counted_by_the_processor() if has_numba() else np.bitwise_count


def pack_plane(bits: npt.NDArray[Any]) -> Words:
    """Pack n zeros and ones into ``ceil(n / 64)`` words; the spare bits are zero."""
    padded = np.zeros(-(-len(bits) // 64) * 64, dtype=np.uint8)
    padded[: len(bits)] = bits
    return np.packbits(padded, bitorder="little").view("<u8").astype(np.uint64)


@kernel
def _masks(digits: npt.NDArray[np.uint8]) -> Words:
    """Words that are full where a digit is 1: a branch on it would take longer."""
    masks = np.zeros(digits.size, np.uint64)
    for d in range(digits.size):
        if digits[d]:
            masks[d] = ~masks[d]
    return masks


@kernel
def bernoulli_plane(words: Words, digits: npt.NDArray[np.uint8], out: Words) -> int:
    """Fill a plane with Bernoulli bits from uniform words; number of words used, or -1 if too few.

    A lane is one as soon as its uniform falls below the probability: its digits are compared with
    the probability's until they differ.  A word of lanes draws until all are decided.
    """
    zero = np.uint64(0)
    masks = _masks(digits)
    used = 0
    for i in range(out.size):
        undecided = ~zero
        ones = zero
        for d in range(digits.size):
            if used == words.size:
                return -1
            word = words[used]
            used += 1
            ones |= undecided & ~word & masks[d]
            undecided &= ~(word ^ masks[d])
            if undecided == zero:
                break
        out[i] = ones
    return used


@kernel
def draw_bernoulli(pool: Words, digits: npt.NDArray[np.uint8], out: Words) -> None:
    """Fill a plane from the source that a seed pool stands for; ``Source.bernoulli`` compiled.

    Words are compared as they are drawn, and none is kept; see :func:`bernoulli_plane`.
    """
    zero = np.uint64(0)
    masks = _masks(digits)
    state = np.empty(4, np.uint64)
    sfc64_start(pool, state)
    a, b, c, counter = state[0], state[1], state[2], state[3]
    for i in range(out.size):
        undecided = ~zero
        ones = zero
        for d in range(digits.size):
            word, a, b, c, counter = sfc64_next(a, b, c, counter)
            ones |= undecided & ~word & masks[d]
            undecided &= ~(word ^ masks[d])
            if undecided == zero:
                break
        out[i] = ones


def fill_by_key(
    entropy: int, key: tuple[int, ...], digits: npt.NDArray[np.uint8], out: Words
) -> bool:
    """Fill a plane from SFC64 seeded under a key; False where that is not compiled.

    NumPy's own generator takes longer to be made than a short plane to be drawn.
    """
    if not has_numba():
        return False
    pool = np.empty(POOL, np.uint64)
    absorb(seed_words(entropy, key), pool)
    draw_bernoulli(pool, digits, out)
    return True


def bernoulli_plane_plain(words: list[int], digits: list[int], n_words: int) -> list[list[bool]]:
    """Plain statement of :func:`bernoulli_plane`, a lane at a time: 0.b1b2b3... < 0.d1d2d3..."""
    position = 0
    plane = []
    for _ in range(n_words):
        seen: list[list[int]] = [[] for _ in range(64)]
        while True:
            depth = len(seen[0])
            prefix = digits[:depth]
            if depth == len(digits) or all(bits != prefix for bits in seen):
                break
            for lane, bits in enumerate(seen):
                bits.append(words[position] >> lane & 1)
            position += 1
        plane.append([bits < digits[: len(bits)] for bits in seen])
    return plane
