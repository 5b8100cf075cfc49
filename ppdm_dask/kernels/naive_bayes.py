"""Repeats of the naive Bayes sweep on binary attributes under the unrelated-question design.

All attributes of a record share one coin (section 2.2 of [ZhanMatwin]_).  A repeat draws the coin
plane and a personal plane an attribute, counts the reports of the training part by population
counts, fits, and scores the clean and the disguised test part.  The plain twin is the package's
own path: ``disguise``, ``NaiveBayes.fit``, ``score`` and ``score_disguised``.

Layout: planes are word-major, shape (words, lanes), one lane an attribute, the class in lane 0,
padded to a multiple of 8 lanes so that the compiler works on whole vectors.  Eight features make a
byte; a record's score is a sum of one table entry a byte.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from ppdm_dask.arrays import Floats, Ints, Words
from ppdm_dask.kernels import FLOOR_ROUNDING, SCORE_TIE, kernel
from ppdm_dask.kernels.draws import absorb, draw_test_plane, extend, sfc64_start
from ppdm_dask.kernels.planes import draw_bernoulli, popcount

BLOCK_WORDS = 1024  # LOGICAL_BLOCK / 64


@kernel
def personal_planes(pool: Words, constant: np.uint64, roles: Ints, out: Words) -> None:
    """Fair personal planes of one block, all lanes abreast, shape (words, lanes)."""
    lanes = out.shape[1]
    # SFC64 of every lane side by side: one step of all generators is a few vector instructions.
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


@kernel
def pair_counts(reports: Words, train: Words, n_ones: Ints, n_both: Ints) -> None:
    """Ones of each lane, and of each lane with the class (lane 0), within the training mask."""
    lanes = reports.shape[1]
    ones, both = np.zeros(lanes, np.uint64), np.zeros(lanes, np.uint64)
    for i in range(reports.shape[0]):
        mask = train[i]
        positive = reports[i, 0] & mask
        for lane in range(lanes):
            ones[lane] += popcount(reports[i, lane] & mask)
            both[lane] += popcount(reports[i, lane] & positive)
    for lane in range(n_ones.size):
        n_ones[lane] = ones[lane]
        n_both[lane] = both[lane]


@kernel
def _fit(
    n: int, n_ones: Ints, n_both: Ints, q: float, law: Floats, floor: float, tables: Floats
) -> int:
    """Log-odds tables of the model; number of joint estimates that were raised to the floor.

    ``tables[t, byte]`` is the score of class 1 over class 0 from features 8t .. 8t + 7; the prior's
    part is added to the first table.
    """
    floored = 0
    below = floor - FLOOR_ROUNDING
    shift = (1.0 - q) / q
    prior0 = (n - n_ones[0]) / n / q - shift * (1.0 - law[0])
    prior1 = n_ones[0] / n / q - shift * law[0]
    bias = math.log(max(prior1, floor)) - math.log(max(prior0, floor))
    tables.fill(0.0)
    for feature in range(n_ones.size - 1):
        one, both = n_ones[feature + 1], n_both[feature + 1]
        r = law[feature + 1]
        p11 = both / n / q - shift * r * law[0]
        p10 = (one - both) / n / q - shift * r * (1.0 - law[0])
        p01 = (n_ones[0] - both) / n / q - shift * (1.0 - r) * law[0]
        p00 = (n - n_ones[0] - one + both) / n / q - shift * (1.0 - r) * (1.0 - law[0])
        floored += (p11 < below) + (p10 < below) + (p01 < below) + (p00 < below)
        p11, p10 = max(p11, floor), max(p10, floor)
        p01, p00 = max(p01, floor), max(p00, floor)
        total1, total0 = p11 + p01, p10 + p00
        yes = math.log(p11 / total1) - math.log(p10 / total0)
        no = math.log(p01 / total1) - math.log(p00 / total0)
        # A feature that is 0 counts in the bias, so that table entries add up for the ones only.
        bias += no
        table = tables[feature // 8]
        bit = 1 << (feature % 8)
        # Entries with this bit are those without it and the bit's own part: 256 sums, not 8 x 256.
        for byte in range(bit):
            table[bit + byte] = table[byte] + (yes - no)
    for byte in range(tables.shape[1]):
        tables[0, byte] += bias
    return floored


@kernel
def _predict_cells(
    cells: npt.NDArray[np.uint8], tables: Floats, predicted: npt.NDArray[np.uint8]
) -> None:
    for i in range(cells.shape[0]):
        score = tables[0, cells[i, 0]]
        for t in range(1, tables.shape[0]):
            score += tables[t, cells[i, t]]
        predicted[i] = score > SCORE_TIE


@kernel
def _transpose(block: np.uint64) -> np.uint64:
    """Transpose the 8 x 8 bits of a word: bit j of byte i becomes bit i of byte j."""
    swap = (block ^ (block >> np.uint64(7))) & np.uint64(0x00AA00AA00AA00AA)
    block ^= swap ^ (swap << np.uint64(7))
    swap = (block ^ (block >> np.uint64(14))) & np.uint64(0x0000CCCC0000CCCC)
    block ^= swap ^ (swap << np.uint64(14))
    swap = (block ^ (block >> np.uint64(28))) & np.uint64(0x00000000F0F0F0F0)
    return block ^ swap ^ (swap << np.uint64(28))


@kernel
def _score_reports(reports: Words, test: Words, n_features: int, tables: Floats) -> int:
    """Reports inside the test mask whose reported class is the one predicted from the rest."""
    correct = np.uint64(0)
    scores = np.empty(64)
    for i in range(reports.shape[0]):
        if test[i] == 0:
            continue
        for t in range(tables.shape[0]):
            planes = min(8, n_features - 8 * t)
            for group in range(8):
                block = np.uint64(0)
                shift = np.uint64(8 * group)
                for j in range(planes):
                    byte = (reports[i, 1 + 8 * t + j] >> shift) & np.uint64(0xFF)
                    block |= byte << np.uint64(8 * j)
                block = _transpose(block)
                for r in range(8):
                    value = tables[t, (block >> np.uint64(8 * r)) & np.uint64(0xFF)]
                    if t == 0:
                        scores[8 * group + r] = value
                    else:
                        scores[8 * group + r] += value
        predicted = np.uint64(0)
        for r in range(64):
            predicted |= np.uint64(scores[r] > SCORE_TIE) << np.uint64(r)
        correct += popcount(~(predicted ^ reports[i, 0]) & test[i])
    return int(correct)


@kernel
def _personal_share(law: Floats, tables: Floats) -> float:
    """Probability that the personal answers' class is the one predicted from the rest."""
    if law[0] == 0.5:
        return 0.5
    n_features = law.size - 1
    weights = np.zeros((2, 256))
    weights[1, 0] = 1.0
    for t in range(tables.shape[0]):
        weights[t, 0] = 1.0
        for j in range(min(8, n_features - 8 * t)):
            r = law[1 + 8 * t + j]
            for byte in range(1 << j):
                weights[t, (1 << j) + byte] = weights[t, byte] * r
                weights[t, byte] *= 1.0 - r
    positive = 0.0
    second = tables.shape[0] == 2
    for high in range(256):
        if weights[1, high] == 0.0:
            continue
        inner = 0.0
        for low in range(256):
            score = tables[0, low] + (tables[1, high] if second else 0.0)
            if score > SCORE_TIE:
                inner += weights[0, low]
        positive += weights[1, high] * inner
    share: float = law[0] * positive + (1.0 - law[0]) * (1.0 - positive)
    return share


@kernel
def trials(
    planes: Words,
    keep_all: bool,
    q: float,
    digits: npt.NDArray[np.uint8],
    roles: Ints,
    law: Floats,
    personal_digits: npt.NDArray[np.uint8],
    n_digits: Ints,
    floor: float,
    n_records: int,
    n_test: int,
    train: Words,
    test: Words,
    cells: npt.NDArray[np.uint8],
    cell_classes: Ints,
    cell_of: npt.NDArray[np.int32],
    redraw: bool,
    seeds: Words,
    split_seeds: Words,
    score_disguised: bool,
    correct: Ints,
    correct_disguised: Ints,
    personal_share: Floats,
    floored: Ints,
) -> None:
    """Run one repeat for each row of ``seeds``; results go to the last four arrays.

    Parameters
    ----------
    cells : uint8, shape (distinct records, bytes)
        Distinct feature patterns of the records that are tested clean.
    cell_classes : int64, shape (distinct records, 2)
        Test records of each class in each pattern (a fixed split).
    cell_of : int32, shape (records,)
        Pattern of each record (a redrawn split).
    redraw : bool
        Draw the test part again in each repeat, from ``split_seeds``.
    seeds, split_seeds : uint64, shape (repeats, s)
    """
    n_lanes = roles.size
    reports = np.zeros(planes.shape, np.uint64)
    coin = np.empty(planes.shape[0], np.uint64)
    n_ones, n_both = np.empty(n_lanes, np.int64), np.empty(n_lanes, np.int64)
    tables = np.zeros(((n_lanes + 6) // 8, 256))
    predicted = np.empty(cells.shape[0], np.uint8)
    order = np.empty(n_records if redraw else 0, np.int64)
    train, test = train.copy(), test.copy()
    first_test = 0
    # A fixed split puts the training part first, so that most words hold no test record.
    while not redraw and first_test < test.size and test[first_test] == 0:
        first_test += 1
    n_train = n_records - n_test
    for repeat in range(seeds.shape[0]):
        if redraw:
            # The last repeat's test records go back into the training part.
            for i in range(test.size):
                train[i] |= test[i]
            draw_test_plane(split_seeds[repeat], n_test, order, test)
            for i in range(test.size):
                train[i] &= ~test[i]
        draw_reports(
            planes, keep_all, digits, roles, personal_digits, n_digits, seeds[repeat], reports, coin
        )
        pair_counts(reports, train, n_ones, n_both)
        floored[repeat] = _fit(n_train, n_ones, n_both, q, law, floor, tables)
        _predict_cells(cells, tables, predicted)
        total = 0
        if redraw:
            for i in range(n_test):
                record = order[i]
                truth = (planes[record >> 6, 0] >> np.uint64(record & 63)) & np.uint64(1)
                total += predicted[cell_of[record]] == truth
        else:
            for i in range(cells.shape[0]):
                total += cell_classes[i, predicted[i]]
        correct[repeat] = total
        if score_disguised:
            correct_disguised[repeat] = _score_reports(
                reports[first_test:], test[first_test:], n_lanes - 1, tables
            )
            personal_share[repeat] = 0.0 if keep_all else _personal_share(law, tables)
