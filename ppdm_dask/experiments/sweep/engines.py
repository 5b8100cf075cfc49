"""Fast engines for binary attributes: naive Bayes under one coin, ID3 under multi-group flips."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from ppdm_dask.arrays import Ints, Words
from ppdm_dask.data.codebook import Codebook
from ppdm_dask.designs.flip import Flip
from ppdm_dask.designs.identity import Identity
from ppdm_dask.designs.mixture import PERSONAL, Mixture
from ppdm_dask.designs.multigroup import RandomGroups
from ppdm_dask.designs.unrelated import UnrelatedQuestion
from ppdm_dask.experiments.samples import SPLIT
from ppdm_dask.experiments.sweep.trials import DISGUISE, DTYPES, GROUPS, Results, Setting
from ppdm_dask.inference.tables import ContingencyTable
from ppdm_dask.kernels.draws import seed_rows
from ppdm_dask.kernels.id3 import trials as id3_trials
from ppdm_dask.kernels.naive_bayes import draw_reports, pair_counts
from ppdm_dask.kernels.naive_bayes import trials as naive_bayes_trials
from ppdm_dask.kernels.planes import pack_plane
from ppdm_dask.randomness import binary_digits, exact


def _mask(rows: Ints, n: int) -> Words:
    bits = np.zeros(n, np.uint8)
    bits[rows] = 1
    return pack_plane(bits)


def _digit_rows(fractions: Sequence[Fraction]) -> tuple[npt.NDArray[np.uint8], list[int]]:
    """Binary digits of proportions, a row each padded with zeros, and how many each has."""
    # Of 1 there are none: the digits are those behind the point.
    expansions = [binary_digits(f) if f < 1 else np.zeros(0, np.uint8) for f in fractions]
    lengths = [len(expansion) for expansion in expansions]
    rows = np.zeros((len(fractions), max([1, *lengths])), np.uint8)
    for row, expansion in zip(rows, expansions, strict=True):
        row[: len(expansion)] = expansion
    return rows, lengths


MAX_GROUPS = 6
"""Each true pattern is spread over 2^g cells; with more groups the plain path is as good."""

CERTAIN = -1
"""In place of a number of digits: theta is 1, and nothing is drawn."""


@dataclass(frozen=True, eq=False)
class BinaryID3:
    """Repeats on signed integer cells; trees and scores are those of the plain path.

    Parameters
    ----------
    setting : Setting
        One that :meth:`serves`.
    """

    setting: Setting

    @staticmethod
    def serves(setting: Setting) -> bool:
        """Whether the cell is the paper's ID3 on binary attributes, flipped in a few groups."""
        sample, mine = setting.sample, setting.mine
        codebook = sample.records.codebook
        # The compiled loop grows the paper's tree only: no parameter stops it early.
        plain = {key for key, value in mine.items() if value is not None} == {"learner"}
        if not plain or mine["learner"] != "id3" or set(codebook.shape) != {2}:
            return False
        # A pattern is a signed word of 64 bits, and its class moves to bit 62 while it is sorted.
        if not 2 <= len(codebook.names) <= 62:
            return False
        thetas = _thetas(setting)
        if thetas is None or len(thetas) > MAX_GROUPS:
            return False
        # Signed counts are integers at the scale of all thetas together; they must not overflow.
        largest = math.prod(max(T, D - T) for T, D in map(_ratio, thetas))
        return largest * len(sample.records) < 1 << 62

    @cached_property
    def _patterns(self) -> tuple[Ints, npt.NDArray[np.int32], int]:
        """Distinct records, those of class 0 first; each record's; how many are of class 0."""
        records = self.setting.sample.records
        code = np.zeros(len(records), np.int64)
        for bit, name in enumerate(self.setting.names):
            code |= records.column(name).astype(np.int64) << bit
        # The class becomes the highest bit, so that sorting parts the patterns by class.
        class_first = (code & 1) << 62 | code >> 1
        distinct, pattern_of = np.unique(class_first, return_inverse=True)
        negatives = int((distinct < 1 << 62).sum())
        patterns = (distinct & ((1 << 62) - 1)) << 1 | distinct >> 62
        return patterns, pattern_of.ravel().astype(np.int32), negatives

    @cached_property
    def _bit_of(self) -> Ints:
        names = self.setting.sample.records.codebook.names
        return np.array([self.setting.names.index(name) for name in names], np.int64)

    @cached_property
    def _masks(self) -> Ints:
        """Bits that each group flips; zero where the groups are still to be drawn."""
        design = self.setting.design
        thetas = _thetas(self.setting)
        assert thetas is not None
        if isinstance(design, RandomGroups):
            if design.redrawn:
                return np.zeros(len(thetas), np.int64)
            design = self.setting.design_for(0)
        blocks = [block.attributes for block in design.blocks if isinstance(block, Flip)]
        bits = [sum(1 << self.setting.names.index(name) for name in block) for block in blocks]
        return np.array(bits, np.int64)

    @cached_property
    def _coins(self) -> tuple[Ints, Ints, npt.NDArray[np.uint8], Ints, int]:
        """T and D - T of each group with the sign of 2 T - D, digits of theta, and the scale."""
        thetas = _thetas(self.setting)
        assert thetas is not None
        ratios = [_ratio(theta) for theta in thetas]
        # The inverse divides by 2 T - D. The sign goes into the counts, the size into the scale.
        signs = [1 if 2 * T > D else -1 for T, D in ratios]
        heads = np.array([s * T for s, (T, _) in zip(signs, ratios, strict=True)], np.int64)
        tails = np.array([s * (D - T) for s, (T, D) in zip(signs, ratios, strict=True)], np.int64)
        fractions = [exact(theta) for theta in thetas]
        digits, lengths = _digit_rows(fractions)
        sizes = [CERTAIN if f == 1 else n for f, n in zip(fractions, lengths, strict=True)]
        scale = math.prod(abs(2 * T - D) for T, D in ratios)
        return heads, tails, digits, np.array(sizes, np.int64), scale

    @cached_property
    def _test(self) -> Words:
        sample = self.setting.sample
        return _mask(sample.parts(self.setting.seed, 0)[1], len(sample.records))

    def _trials(self, start: int, stop: int, capacity: int) -> tuple[Ints, Ints]:
        setting, sample, design = self.setting, self.setting.sample, self.setting.design
        patterns, pattern_of, negatives = self._patterns
        heads, tails, digits, n_digits, _ = self._coins
        nodes, totals = np.zeros((capacity, 6), np.int64), np.zeros((stop - start, 5), np.int64)
        id3_trials(
            patterns,
            pattern_of,
            negatives,
            len(self.setting.names) - 1,
            self._bit_of,
            self._masks,
            isinstance(design, RandomGroups) and design.redrawn,
            heads,
            tails,
            digits,
            n_digits,
            self._test,
            sample.n_test,
            sample.redrawn,
            seed_rows(setting.seed, (setting.key, DISGUISE), start, stop),
            seed_rows(setting.seed, (setting.key, GROUPS), start, stop),
            seed_rows(setting.seed, (sample.split_key, SPLIT), start, stop),
            nodes,
            totals,
        )
        return nodes, totals

    def run(self, start: int, stop: int) -> Results:
        """Results of repeats ``start .. stop - 1``."""
        _, totals = self._trials(start, stop, 0)  # no room for nodes: only sums are wanted
        results = {
            "correct": totals[:, 0],
            "correct_disguised": totals[:, 2],
            "accuracy_disguised": totals[:, 1] / (self._coins[-1] * self.setting.sample.n_test),
            "floored": totals[:, 4],
            "nodes": totals[:, 3],
        }
        return {name: values.astype(DTYPES[name]) for name, values in results.items()}

    def tree(self, repeat: int) -> Ints:
        """The nodes of one repeat's tree, shape (nodes, 6).

        Columns: attributes on the path (bits), their values (bits), the feature that splits or -1,
        the label, signed counts of class 0 and 1 at the integer scale.
        """
        n_nodes = int(self._trials(repeat, repeat + 1, 0)[1][0, 3])
        return self._trials(repeat, repeat + 1, n_nodes)[0]


def _thetas(setting: Setting) -> tuple[float, ...] | None:
    """Theta of each group; None where the design is not made of flips."""
    design = setting.design
    if isinstance(design, RandomGroups):
        return design.theta
    if isinstance(design, Identity):
        return ()
    if all(isinstance(block, Flip) for block in design.blocks):
        return tuple(block.theta for block in design.blocks if isinstance(block, Flip))
    return None


def _ratio(theta: float) -> tuple[int, int]:
    fraction = exact(theta)
    return fraction.numerator, fraction.denominator


LANES = 8
"""Lanes are padded to a multiple of this."""

FAIR = -1
"""In place of a number of digits: one bit decides."""


@dataclass(frozen=True, eq=False)
class BinaryNaiveBayes:
    """Repeats by bit planes and population counts; the numbers are those of the plain path.

    Parameters
    ----------
    setting : Setting
        One that :meth:`serves`.
    """

    setting: Setting

    @staticmethod
    def serves(setting: Setting) -> bool:
        """Whether the cell is naive Bayes on binary attributes, all behind one coin or none."""
        design, codebook = setting.design, setting.sample.records.codebook
        if setting.mine["learner"] != "naive-bayes" or set(codebook.shape) != {2}:
            return False
        if len(codebook.names) < 2 or set(design.attributes) != set(codebook.names):
            return False
        if isinstance(design, Identity):
            return True
        if not isinstance(design, UnrelatedQuestion):
            return False
        yes = {name: law[1] for name, law in zip(design.attributes, design.w_y, strict=True)}
        fair_class = yes[setting.sample.target] == 0.5
        # A biased class needs the law of the predictions: enumerated over at most two bytes.
        return all(0 < w < 1 for w in yes.values()) and (fair_class or len(yes) <= 17)

    @cached_property
    def planes(self) -> Words:
        """True bits, shape (words, lanes)."""
        records = self.setting.sample.records
        lanes = -(-len(self.setting.names) // LANES) * LANES  # whole vectors of the processor
        planes = np.zeros((-(-len(records) // 64), lanes), np.uint64)
        for lane, name in enumerate(self.setting.names):
            planes[:, lane] = pack_plane(records.column(name))
        return planes

    @cached_property
    def _masks(self) -> tuple[Words, Words]:
        train, test = self.setting.sample.parts(self.setting.seed, 0)
        n = len(self.setting.sample.records)
        return _mask(train, n), _mask(test, n)

    @cached_property
    def _cells(self) -> tuple[npt.NDArray[np.uint8], Ints, npt.NDArray[np.int32]]:
        """Distinct feature patterns, a byte for eight features; test records by class in each."""
        sample = self.setting.sample
        features = np.stack(
            [sample.records.column(name) for name in self.setting.names[1:]], axis=1
        )
        packed = np.packbits(features.astype(np.uint8), axis=1, bitorder="little")
        if sample.redrawn:
            cells, cell_of = np.unique(packed, axis=0, return_inverse=True)
            return cells, np.zeros((0, 2), np.int64), cell_of.ravel().astype(np.int32)
        test = sample.parts(self.setting.seed, 0)[1]
        # Records of one pattern get one prediction, so that a fixed test part is scored by cells.
        cells, cell_of = np.unique(packed[test], axis=0, return_inverse=True)
        classes = np.zeros((len(cells), 2), np.int64)
        np.add.at(classes, (cell_of.ravel(), sample.records.column(sample.target)[test]), 1)
        return cells, classes, np.zeros(0, np.int32)

    @cached_property
    def _personal(self) -> tuple[Ints, npt.NDArray[np.float64], npt.NDArray[np.uint8], Ints]:
        """Keys, laws and digits of the lanes' personal bits."""
        design = self.setting.design
        assert isinstance(design, Mixture)
        axes = [design.attributes.index(name) for name in self.setting.names]
        roles = np.array([PERSONAL + axis for axis in axes], np.int64)
        law = np.array([design.factors[axis][1] for axis in axes])
        digits, lengths = _digit_rows([exact(float(w)) for w in law])
        sizes = [FAIR if w == 0.5 else n for w, n in zip(law, lengths, strict=True)]
        return roles, law, digits, np.array(sizes, np.int64)

    @property
    def _q(self) -> float:
        design = self.setting.design
        assert isinstance(design, Mixture)
        return design.mixing

    @property
    def _floor(self) -> float:
        floor = self.setting.mine.get("floor", "1/n")
        return 1 / self.setting.sample.n_train if floor == "1/n" else float(floor)

    def run(self, start: int, stop: int, *, disguised_test: bool = True) -> Results:
        """Results of repeats ``start .. stop - 1``.

        Without the disguised test, and with a fixed split, the test part is not disguised at all;
        what is left of the results is the same.
        """
        setting, sample, q = self.setting, self.setting.sample, self._q
        roles, law, personal_digits, n_digits = self._personal
        cells, cell_classes, cell_of = self._cells
        train, test = self._masks
        # A fixed split has the training records first, so that their planes are the first words.
        whole = disguised_test or sample.redrawn
        words = slice(None) if whole else slice(-(-sample.n_train // 64))
        correct, disguised, floored = (np.zeros(stop - start, np.int64) for _ in range(3))
        share = np.zeros(stop - start)
        naive_bayes_trials(
            self.planes[words],
            q == 1.0,
            q,
            binary_digits(exact(q)) if q < 1 else np.zeros(0, np.uint8),
            roles,
            law,
            personal_digits,
            n_digits,
            self._floor,
            len(sample.records),
            sample.n_test,
            train[words],
            test[words],
            cells,
            cell_classes,
            cell_of,
            sample.redrawn,
            seed_rows(setting.seed, (setting.key, DISGUISE), start, stop),
            seed_rows(setting.seed, (sample.split_key, SPLIT), start, stop),
            disguised_test,
            correct,
            disguised,
            share,
            floored,
        )
        # P(cc) = (P*(cc) - (1 - q) P_Y(cc)) / q, section 2.4 of [ZhanMatwin].
        accuracy = (disguised / sample.n_test - (1 - q) * share) / q
        results: dict[str, Any] = {
            "correct": correct,
            "correct_disguised": disguised,
            "accuracy_disguised": accuracy,
            "floored": floored,
        }
        return {name: values.astype(DTYPES[name]) for name, values in results.items()}

    def pair_tables(self, repeat: int) -> list[ContingencyTable]:
        """The integer counts behind one repeat: class by feature, of the training reports."""
        setting, q = self.setting, self._q
        roles, _, personal_digits, n_digits = self._personal
        reports, coin = np.zeros_like(self.planes), np.empty(len(self.planes), np.uint64)
        digits = binary_digits(exact(q)) if q < 1 else np.zeros(0, np.uint8)
        seed = seed_rows(setting.seed, (setting.key, DISGUISE), repeat, repeat + 1)[0]
        draw_reports(
            self.planes, q == 1.0, digits, roles, personal_digits, n_digits, seed, reports, coin
        )
        train, _ = setting.sample.parts(setting.seed, repeat)
        ones, both = np.empty(len(roles), np.int64), np.empty(len(roles), np.int64)
        pair_counts(reports, _mask(train, len(setting.sample.records)), ones, both)
        n, positive = setting.sample.n_train, ones[0]
        codebook: Codebook = setting.sample.records.codebook
        tables = []
        for name, one, joint in zip(self.setting.names[1:], ones[1:], both[1:], strict=True):
            counts = [[n - positive - one + joint, one - joint], [positive - joint, joint]]
            pair = codebook.select((setting.sample.target, name))
            tables.append(
                ContingencyTable(
                    pair, np.array(counts, np.int64), None, setting.design_for(repeat).digest, True
                )
            )
        return tables
