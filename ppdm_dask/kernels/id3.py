"""Repeats of the ID3 sweep on binary attributes under multi-group flips.

A group of attributes is flipped together (section 4 of [ZhanDu]_), so the reports that a true
pattern can become are its *orbit* under the 2^g flips.  Records are counted by (pattern, flips);
an integer butterfly over each orbit turns the counts into signed counts of the truth at scale prod
|2 T - D|, for theta = T / D.

A tree is grown on these signed cells.  The cells of a node stand together and are parted in place,
class by class; so no tree is kept, and a node's counts are sums over contiguous integers.  Test
cells are scored at the leaves.

The plain twin is ``MultiGroup.disguise``, ``ID3.fit``, ``score`` and ``score_disguised``.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from ppdm_dask.arrays import Floats, Ints, Words
from ppdm_dask.kernels import ENTROPY_TIE, kernel
from ppdm_dask.kernels.draws import absorb, choose, draw_test_plane, extend, sfc64_fill, sfc64_start
from ppdm_dask.kernels.planes import draw_bernoulli

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
        # A signed count can be 0 where reports are not, and the other way round.
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
    # Round robin over the shuffled order: group sizes differ by 1 at most.
    masks.fill(0)
    for i in range(bit_of.size):
        masks[i % masks.size] |= np.int64(1) << bit_of[order[i]]


@kernel
def draw_keep(seed: Words, digits: npt.NDArray[np.uint8], n_digits: Ints, keep: Words) -> None:
    """Planes of the records that tell the truth, one per group.

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


# Tang's reduction as in FDLIBM's log: x = 2^k m with m in [sqrt(1/2), sqrt(2)), log m by a
# polynomial in s = (m - 1) / (m + 1); the error stays below one unit in the last place.
_LN2_HIGH, _LN2_LOW = 6.93147180369123816490e-01, 1.90821492927058770002e-10
_L1, _L2, _L3 = 6.666666666666735130e-01, 3.999999999940941908e-01, 2.857142874366239149e-01
_L4, _L5, _L6 = 2.222219843214978396e-01, 1.818357216161805012e-01, 1.531383769920937332e-01
_L7 = 1.479819860511658591e-01
_ROOT_HALF = np.int64(0x3FE6A09E667F3BCD)
_EXPONENT = np.int64(52)


@kernel
def xlogx(values: Floats, size: int, work: Floats, out: Floats) -> None:
    """``out[i] = x log x`` for the first ``size`` counts x; 0 for x below 1.

    Parameters
    ----------
    values, out : float64, shape (at least size,)
    work : float64, shape (2, at least size), overwritten
    """
    mantissa, exponent = work[0], work[1]
    bits = mantissa.view(np.int64)
    # Three loops without a branch each: the compiler turns every one into vector instructions.
    for i in range(size):
        mantissa[i] = max(values[i], 1.0)
    for i in range(size):
        k = (bits[i] - _ROOT_HALF) >> _EXPONENT
        bits[i] -= k << _EXPONENT
        exponent[i] = np.float64(k)
    for i in range(size):
        f = mantissa[i] - 1.0
        s = f / (2.0 + f)
        z = s * s
        tail = z * (_L1 + z * (_L2 + z * (_L3 + z * (_L4 + z * (_L5 + z * (_L6 + z * _L7))))))
        half = 0.5 * f * f
        k = exponent[i]
        log = k * _LN2_HIGH - ((half - (s * (half + tail) + k * _LN2_LOW)) - f)
        out[i] = max(values[i], 1.0) * log


Count = int | np.integer[Any]

# Columns of a node on the stack: bounds of its two classes in the training cells, of the disguised
# test cells and of the clean ones, then the node itself.
_TRAIN, _DISGUISED, _CLEAN = 0, 4, 8
_TOTAL, _USED, _VALUES, _PARENT, _WIDTH = 12, 14, 15, 16, 17


@kernel
def _lane_sum(bits: Ints, weights: Ints, lane: Count) -> Count:
    """Sum of the weights of the cells whose feature is 1."""
    total = np.int64(0)
    shift = np.int64(lane)
    for i in range(bits.size):
        # A mask of ones or zeros in place of a branch that no predictor could guess.
        total += weights[i] & -((bits[i] >> shift) & np.int64(1))
    return total


@kernel
def _part(bits: Ints, weights: Ints, lane: Count, aside: Ints) -> Count:
    """Move cells whose feature is 0 before those whose feature is 1; how many there are."""
    shift, one = np.int64(lane), np.int64(1)
    aside_bits, aside_weights = aside[0], aside[1]
    front, away = np.uint64(0), np.uint64(0)
    for i in range(bits.size):
        b, w = bits[i], weights[i]
        # Written to both places, one of which is written over: no branch.
        bits[front], weights[front] = b, w
        aside_bits[away], aside_weights[away] = b, w
        yes = np.uint64((b >> shift) & one)
        front += np.uint64(1) - yes
        away += yes
    n = np.int64(front)
    for i in range(bits.size - n):
        bits[n + i] = aside_bits[i]
        weights[n + i] = aside_weights[i]
    return n


@kernel
def _part_pairs(bits: Ints, signed: Ints, raw: Ints, lane: Count, aside: Ints) -> Count:
    """:func:`_part` of cells that carry two numbers."""
    shift, one = np.int64(lane), np.int64(1)
    aside_bits, aside_signed, aside_raw = aside[0], aside[1], aside[2]
    front, away = np.uint64(0), np.uint64(0)
    for i in range(bits.size):
        b, w, r = bits[i], signed[i], raw[i]
        bits[front], signed[front], raw[front] = b, w, r
        aside_bits[away], aside_signed[away], aside_raw[away] = b, w, r
        yes = np.uint64((b >> shift) & one)
        front += np.uint64(1) - yes
        away += yes
    n = np.int64(front)
    for i in range(bits.size - n):
        bits[n + i] = aside_bits[i]
        signed[n + i] = aside_signed[i]
        raw[n + i] = aside_raw[i]
    return n


@kernel
def _sum(weights: Ints, start: Count, stop: Count) -> Count:
    total = np.int64(0)
    part = weights[start:stop]
    for i in range(part.size):
        total += part[i]
    return total


@kernel
def _best(
    ones: Ints,
    total0: Count,
    total1: Count,
    size: int,
    x: Floats,
    work: Floats,
    y: Floats,
) -> int:
    """Position in ``ones`` of the split with the least mean entropy; ties go to the first.

    score = sum_v n_v H_v / sum_v n_v with n_vc = max(0, w_vc).
    """
    for i in range(size):
        w11, w10 = ones[1, i], ones[0, i]
        n11, n10 = np.float64(max(w11, 0)), np.float64(max(w10, 0))
        n01, n00 = np.float64(max(total1 - w11, 0)), np.float64(max(total0 - w10, 0))
        x[i], x[size + i], x[2 * size + i], x[3 * size + i] = n11, n10, n01, n00
        x[4 * size + i], x[5 * size + i] = n11 + n10, n01 + n00
    xlogx(x, 6 * size, work, y)
    best, least = 0, np.inf
    for i in range(size):
        entropy = y[4 * size + i] + y[5 * size + i]
        entropy -= y[i] + y[size + i] + y[2 * size + i] + y[3 * size + i]
        score = entropy / (x[4 * size + i] + x[5 * size + i])
        y[i] = score
        least = min(least, score)
    # A second pass: the first feature within the tie wins, though a later one may be the least.
    for i in range(size):
        if y[i] <= least + ENTROPY_TIE:
            best = i
            break
    return best


@kernel
def grow(
    n_features: int,
    train_bits: Ints,
    train: Ints,
    train_bounds: tuple[int, int],
    test_bits: Ints,
    test_signed: Ints,
    test_raw: Ints,
    test_bounds: tuple[int, int],
    clean_bits: Ints,
    clean: Ints,
    clean_middle: int,
    nodes: Ints,
    totals: Ints,
) -> None:
    """Grow a tree on signed cells, and score the test cells at its leaves.

    All cells are parted in place: class 0 stands before the first bound, class 1 from the second
    on.

    Parameters
    ----------
    n_features : int
    train_bits, train : int64, shape (cells,)
        Features and signed counts.
    test_bits, test_signed, test_raw : int64
        The disguised test part: features, signed counts, counts of reports.
    clean_bits, clean : int64
        The clean test part: features and counts.
    nodes : int64, shape (capacity, 6)
        Filled with (attributes used, their values, split feature or -1, label, signed counts of
        class 0 and 1) of each node as it is met; capacity 0 keeps nothing.
    totals : int64, shape (5,)
        On return: clean records right, signed count of the truth right, reports right, nodes, nodes
        that met a negative count.
    """
    totals.fill(0)
    everything = (1 << n_features) - 1
    # Depth first: a path has a node and its sibling on each level, and one level a feature.
    stack = np.empty((2 * n_features + 4, _WIDTH), np.int64)
    lanes = np.empty(n_features, np.int64)
    ones = np.empty((2, n_features), np.int64)
    x, y = np.empty(6 * n_features), np.empty(6 * n_features)
    work = np.empty((2, 6 * n_features))
    longest = max(train.size, max(test_signed.size, clean.size))
    aside = np.empty((3, longest + 1), np.int64)
    root = stack[0]
    root[0], root[1], root[2], root[3] = 0, train_bounds[0], train_bounds[1], train.size
    root[4], root[5], root[6], root[7] = 0, test_bounds[0], test_bounds[1], test_signed.size
    root[8], root[9], root[10], root[11] = 0, clean_middle, clean_middle, clean.size
    root[_TOTAL] = _sum(train, 0, train_bounds[0])
    root[_TOTAL + 1] = _sum(train, train_bounds[1], train.size)
    root[_USED], root[_VALUES], root[_PARENT] = 0, 0, 0
    node = np.empty(_WIDTH, np.int64)
    depth = 1
    met = 0
    while depth:
        depth -= 1
        for i in range(_WIDTH):
            node[i] = stack[depth, i]
        total0, total1, used = node[_TOTAL], node[_TOTAL + 1], node[_USED]
        label = node[_PARENT]
        if total0 > 0 or total1 > 0:
            label = np.int64(total1 > total0)
        totals[4] += total0 < 0 or total1 < 0
        split = np.int64(-1)
        if total0 > 0 and total1 > 0 and used != everything:
            size = 0
            bits0, train0 = train_bits[node[0] : node[1]], train[node[0] : node[1]]
            bits1, train1 = train_bits[node[2] : node[3]], train[node[2] : node[3]]
            for lane in range(n_features):
                if not used >> lane & 1:
                    lanes[size] = lane
                    ones[0, size] = _lane_sum(bits0, train0, lane)
                    ones[1, size] = _lane_sum(bits1, train1, lane)
                    size += 1
            best = _best(ones, total0, total1, size, x, work, y)
            split = lanes[best]
        if met < nodes.shape[0]:
            nodes[met, 0], nodes[met, 1], nodes[met, 2] = used, node[_VALUES], split
            nodes[met, 3], nodes[met, 4], nodes[met, 5] = label, total0, total1
        met += 1
        if split < 0:
            clean_start, test_start = node[8 + 2 * label], node[4 + 2 * label]
            totals[0] += _sum(clean, clean_start, node[9 + 2 * label])
            totals[1] += _sum(test_signed, test_start, node[5 + 2 * label])
            totals[2] += _sum(test_raw, test_start, node[5 + 2 * label])
            continue
        zero, one = stack[depth], stack[depth + 1]
        for c in range(2):
            a, b = node[2 * c], node[2 * c + 1]
            middle = a + _part(train_bits[a:b], train[a:b], split, aside)
            zero[2 * c], zero[2 * c + 1], one[2 * c], one[2 * c + 1] = a, middle, middle, b
            a, b = node[4 + 2 * c], node[5 + 2 * c]
            middle = a + _part_pairs(test_bits[a:b], test_signed[a:b], test_raw[a:b], split, aside)
            zero[4 + 2 * c], zero[5 + 2 * c], one[4 + 2 * c], one[5 + 2 * c] = a, middle, middle, b
            a, b = node[8 + 2 * c], node[9 + 2 * c]
            middle = a + _part(clean_bits[a:b], clean[a:b], split, aside)
            zero[8 + 2 * c], zero[9 + 2 * c], one[8 + 2 * c], one[9 + 2 * c] = a, middle, middle, b
            one[_TOTAL + c] = ones[c, best]
            zero[_TOTAL + c] = node[_TOTAL + c] - ones[c, best]
        bit = np.int64(1) << split
        zero[_USED], one[_USED] = used | bit, used | bit
        zero[_VALUES], one[_VALUES] = node[_VALUES], node[_VALUES] | bit
        zero[_PARENT], one[_PARENT] = label, label
        depth += 2
    totals[3] = met


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
        Bits that each group flips, unless ``random_groups`` assigns them again in each repeat.
    heads, tails : int64, shape (g,)
        T and D - T of each group, with the sign of 2 T - D.
    digits, n_digits : see ``draw_keep``
    fixed_test : uint64, shape (words,)
        Which records are tested, unless ``redraw`` draws them again in each repeat.
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
