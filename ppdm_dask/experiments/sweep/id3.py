"""The fast engine for ID3 on binary attributes under multi-group flips."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from ppdm_dask.arrays import Ints, Words
from ppdm_dask.designs.flip import Flip
from ppdm_dask.designs.identity import Identity
from ppdm_dask.designs.multigroup import RandomGroups
from ppdm_dask.experiments.samples import SPLIT
from ppdm_dask.experiments.sweep.trials import DISGUISE, DTYPES, GROUPS, Results, Setting
from ppdm_dask.kernels.id3 import trials
from ppdm_dask.kernels.planes import pack_plane
from ppdm_dask.kernels.seeding import seed_rows
from ppdm_dask.randomness import binary_digits, exact

__all__ = ["BinaryID3"]


MAX_GROUPS = 6
"""Each true pattern is spread over 2^g cells; with more groups the plain path is as good."""

CERTAIN = -1  # in place of a number of digits: theta is 1 and nothing is drawn


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
        plain = {key: value for key, value in mine.items() if value is not None} == {
            "learner": "id3"
        }
        if not plain or set(codebook.shape) != {2} or not 2 <= len(codebook.names) <= 62:
            return False
        thetas = _thetas(setting)
        if thetas is None or len(thetas) > MAX_GROUPS:
            return False
        largest = math.prod(max(T, D - T) for T, D in map(_ratio, thetas))
        return largest * len(sample.records) < 1 << 62

    @cached_property
    def names(self) -> list[str]:
        """Attributes by bit of a pattern: the class, then the features in the codebook's order."""
        target = self.setting.sample.target
        return [target, *(n for n in self.setting.sample.records.codebook.names if n != target)]

    @cached_property
    def _patterns(self) -> tuple[Ints, npt.NDArray[np.int32], int]:
        """Distinct records, those of class 0 first; each record's; how many are of class 0."""
        records = self.setting.sample.records
        code = np.zeros(len(records), np.int64)
        for bit, name in enumerate(self.names):
            code |= records.column(name).astype(np.int64) << bit
        class_first = (code & 1) << 62 | code >> 1
        distinct, pattern_of = np.unique(class_first, return_inverse=True)
        negatives = int((distinct < 1 << 62).sum())
        patterns = (distinct & ((1 << 62) - 1)) << 1 | distinct >> 62
        return patterns, pattern_of.ravel().astype(np.int32), negatives

    @cached_property
    def _bit_of(self) -> Ints:
        names = self.setting.sample.records.codebook.names
        return np.array([self.names.index(name) for name in names], np.int64)

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
        bits = [sum(1 << self.names.index(name) for name in block) for block in blocks]
        return np.array(bits, np.int64)

    @cached_property
    def _coins(self) -> tuple[Ints, Ints, npt.NDArray[np.uint8], Ints, int]:
        """T and D - T of each group with the sign of 2 T - D, digits of theta, and the scale."""
        thetas = _thetas(self.setting)
        assert thetas is not None
        ratios = [_ratio(theta) for theta in thetas]
        signs = [1 if 2 * T > D else -1 for T, D in ratios]
        heads = np.array([s * T for s, (T, _) in zip(signs, ratios, strict=True)], np.int64)
        tails = np.array([s * (D - T) for s, (T, D) in zip(signs, ratios, strict=True)], np.int64)
        fractions = [exact(theta) for theta in thetas]
        expansions = [binary_digits(f) if f < 1 else np.zeros(0, np.uint8) for f in fractions]
        digits = np.zeros((len(thetas), max([1, *map(len, expansions)])), np.uint8)
        for row, expansion in zip(digits, expansions, strict=True):
            row[: len(expansion)] = expansion
        sizes = [CERTAIN if f == 1 else len(e) for f, e in zip(fractions, expansions, strict=True)]
        scale = math.prod(abs(2 * T - D) for T, D in ratios)
        return heads, tails, digits, np.array(sizes, np.int64), scale

    @cached_property
    def _test(self) -> Words:
        sample = self.setting.sample
        bits = np.zeros(len(sample.records), np.uint8)
        bits[sample.parts(self.setting.seed, 0)[1]] = 1
        return pack_plane(bits)

    def _trials(self, start: int, stop: int, capacity: int) -> tuple[Ints, Ints]:
        setting, sample, design = self.setting, self.setting.sample, self.setting.design
        patterns, pattern_of, negatives = self._patterns
        heads, tails, digits, n_digits, _ = self._coins
        nodes, totals = np.zeros((capacity, 6), np.int64), np.zeros((stop - start, 5), np.int64)
        trials(
            patterns,
            pattern_of,
            negatives,
            len(self.names) - 1,
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
        _, totals = self._trials(start, stop, 0)
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
