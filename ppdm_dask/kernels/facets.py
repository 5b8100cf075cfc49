"""Which rays of a cone are neighbours: a comparison of every pair with every third ray."""

from __future__ import annotations

import numpy as np

from ppdm_dask.arrays import Ints, Words
from ppdm_dask.kernels import kernel


@kernel
def adjacent(tight: Words, inside: Ints, outside: Ints, least: int, pairs: Ints) -> int:
    """Pairs of rays of which no third is tight wherever both are.

    Parameters
    ----------
    tight : array of uint64, shape (rays,)
        Bits of the inequalities that a ray is tight at.
    inside, outside : arrays
        Places of rays, of which the pairs take one each.
    least : int
        At how many inequalities both have to be tight.
    pairs : array, shape (room, 2)
        Set to the pairs, as far as there is room.

    Returns
    -------
    int
        How many there are.
    """
    found = 0
    one, none = np.uint64(1), np.uint64(0)
    last = 0
    for i in inside:
        for j in outside:
            common = tight[i] & tight[j]
            size, left = 0, common
            while left != none and size < least:
                left &= left - one
                size += 1
            if size < least:
                continue
            # The ray between the last two is often between the next two as well.
            if last != i and last != j and (tight[last] & common) == common:
                continue
            alone = True
            for k in range(tight.shape[0]):
                if (tight[k] & common) == common and k != i and k != j:
                    alone, last = False, k
                    break
            if alone:
                if found < pairs.shape[0]:
                    pairs[found, 0], pairs[found, 1] = i, j
                found += 1
    return found
