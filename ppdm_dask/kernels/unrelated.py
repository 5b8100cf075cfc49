"""Disguising binary records by the unrelated-question design, on bit planes.

Layout: planes are word-major, shape (words, lanes), one lane an attribute, padded to a multiple of
8 lanes so that the compiler works on whole vectors. The plain twin is ``UnrelatedQuestion.sample``.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ppdm_dask.kernels import kernel
from ppdm_dask.kernels.planes import draw_bernoulli
from ppdm_dask.kernels.seeding import absorb, extend, sfc64_start

__all__ = ["draw_reports", "personal_planes"]

Words = npt.NDArray[np.uint64]
Ints = npt.NDArray[np.int64]

BLOCK_WORDS = 1024  # LOGICAL_BLOCK / 64


@kernel
def personal_planes(pool: Words, constant: np.uint64, roles: Ints, out: Words) -> None:
    """Fair personal planes of one block, all lanes abreast, shape (words, lanes)."""
    lanes = out.shape[1]
    a, b, c = np.zeros(lanes, np.uint64), np.zeros(lanes, np.uint64), np.zeros(lanes, np.uint64)
    state = np.empty(4, np.uint64)
    counter = np.uint64(0)
    for lane in range(roles.size):
        own = pool.copy()
        extend(own, constant, np.uint64(roles[lane]))
        sfc64_start(own, state)
        a[lane], b[lane], c[lane], counter = state[0], state[1], state[2], state[3]
    for i in range(out.shape[0]):
        for lane in range(lanes):
            word = a[lane] + b[lane] + counter
            a[lane] = b[lane] ^ (b[lane] >> np.uint64(11))
            b[lane] = c[lane] + (c[lane] << np.uint64(3))
            c[lane] = ((c[lane] << np.uint64(24)) | (c[lane] >> np.uint64(40))) + word
            out[i, lane] = ~word  # below 1/2 as soon as the first digit is 0
        counter += np.uint64(1)


@kernel
def draw_reports(
    planes: Words,
    keep_all: bool,
    digits: npt.NDArray[np.uint8],
    roles: Ints,
    personal_digits: npt.NDArray[np.uint8],
    n_digits: Ints,
    seed: Words,
    reports: Words,
    coin: Words,
) -> None:
    """Disguise all records once: reports = coin ? truth : personal answer.

    Parameters
    ----------
    planes, reports : uint64, shape (words, lanes)
    keep_all : bool
        q = 1: nothing is drawn.
    digits : binary digits of q
    roles : int64, shape (used lanes,)
        Key of each lane's personal source.
    personal_digits, n_digits : shape (used lanes, most digits), (used lanes,)
        Binary digits of each lane's P(Y = 1), and how many; -1 where it is 1/2 and one bit decides.
    seed : uint64, shape (s,)
        Words of the stream's seed and key.
    coin : uint64, shape (words,), overwritten
    """
    if keep_all:
        for i in range(planes.shape[0]):
            for lane in range(planes.shape[1]):
                reports[i, lane] = planes[i, lane]
        return
    pool = np.empty(4, np.uint64)
    constant = absorb(seed, pool)
    column = np.empty(min(BLOCK_WORDS, planes.shape[0]), np.uint64)
    for first in range(0, planes.shape[0], BLOCK_WORDS):
        last = min(first + BLOCK_WORDS, planes.shape[0])
        block_pool = pool.copy()
        block_constant = extend(block_pool, constant, np.uint64(first // BLOCK_WORDS))
        own = block_pool.copy()
        extend(own, block_constant, np.uint64(0))
        draw_bernoulli(own, digits, coin[first:last])
        part = reports[first:last]
        personal_planes(block_pool, block_constant, roles, part)
        for lane in range(roles.size):
            if n_digits[lane] >= 0:
                own = block_pool.copy()
                extend(own, block_constant, np.uint64(roles[lane]))
                draw_bernoulli(own, personal_digits[lane, : n_digits[lane]], column[: last - first])
                for i in range(part.shape[0]):
                    part[i, lane] = column[i]
        for i in range(part.shape[0]):
            keep = coin[first + i]
            for lane in range(part.shape[1]):
                part[i, lane] = (planes[first + i, lane] & keep) | (part[i, lane] & ~keep)
