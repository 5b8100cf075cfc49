"""Repeats of the ID3 sweep on binary attributes under multi-group flips.

The plain twin is ``MultiGroup.disguise``, ``ID3.fit``, ``score`` and ``score_disguised``.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ppdm_dask.kernels import kernel
from ppdm_dask.kernels.flips import draw_keep, draw_masks, spread, tally
from ppdm_dask.kernels.id3 import grow
from ppdm_dask.kernels.sampling import draw_test_plane

__all__ = ["trials"]

Ints = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint64]


@kernel
def trials(
    patterns: Ints,
    pattern_of: npt.NDArray[np.int32],
    negatives: int,
    n_features: int,
    bit_of: Ints,
    fixed_masks: Ints,
    random_groups: bool,
    heads: Ints,
    tails: Ints,
    digits: npt.NDArray[np.uint8],
    n_digits: Ints,
    fixed_test: Words,
    n_test: int,
    redraw: bool,
    seeds: Words,
    group_seeds: Words,
    split_seeds: Words,
    nodes: Ints,
    totals: Ints,
) -> None:
    """Run one repeat for each row of ``seeds``.

    Parameters
    ----------
    patterns : int64, shape (patterns,)
        Distinct records, those of class 0 first; bit 0 is the class, bit 1 + a feature a.
    pattern_of : int32, shape (records,)
    negatives : int
        Patterns of class 0.
    bit_of : int64, shape (attributes,)
        Bit of each attribute, in the codebook's order.
    fixed_masks : int64, shape (g,)
        Bits that each group flips, unless ``random_groups`` deals them anew in each repeat.
    heads, tails : int64, shape (g,)
        T and D - T of each group, with the sign of 2 T - D.
    digits, n_digits : see ``draw_keep``
    fixed_test : uint64, shape (words,)
        Which records are tested, unless ``redraw`` draws them anew in each repeat.
    seeds, group_seeds, split_seeds : uint64, shape (repeats, s)
    nodes : int64, shape (capacity, 6)
        The nodes of the last repeat's tree, see ``grow``.
    totals : int64, shape (repeats, 5)
        On return what ``grow`` gives for each repeat.
    """
    n_groups = heads.size
    orbit = 1 << n_groups
    n_cells = patterns.size * orbit
    train_counts = np.empty((patterns.size, orbit), np.int64)
    test_counts = np.empty((patterns.size, orbit), np.int64)
    clean, clean_bits = np.empty(patterns.size, np.int64), np.empty(patterns.size, np.int64)
    train_bits, train = np.empty(n_cells, np.int64), np.empty(n_cells, np.int64)
    train_raw = np.empty(n_cells, np.int64)
    test_bits, test_signed = np.empty(n_cells, np.int64), np.empty(n_cells, np.int64)
    test_raw = np.empty(n_cells, np.int64)
    masks = fixed_masks.copy()
    keep = np.empty((n_groups, fixed_test.size), np.uint64)
    test = fixed_test.copy()
    order = np.empty(pattern_of.size if redraw else 0, np.int64)
    for repeat in range(seeds.shape[0]):
        if redraw:
            draw_test_plane(split_seeds[repeat], n_test, order, test)
        if random_groups:
            draw_masks(group_seeds[repeat], bit_of, masks)
        draw_keep(seeds[repeat], digits, n_digits, keep)
        tally(keep, test, pattern_of, train_counts, test_counts, clean)
        train_bounds = spread(
            train_counts, patterns, masks, heads, tails, train_bits, train, train_raw
        )
        test_bounds = spread(
            test_counts, patterns, masks, heads, tails, test_bits, test_signed, test_raw
        )
        for p in range(patterns.size):
            clean_bits[p] = patterns[p] >> 1
        grow(
            n_features,
            train_bits,
            train,
            train_bounds,
            test_bits,
            test_signed,
            test_raw,
            test_bounds,
            clean_bits,
            clean,
            negatives,
            nodes,
            totals[repeat],
        )
