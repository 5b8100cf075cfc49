"""Designs whose reports are subsets of the categories.

There are up to 2^k reports, so none is ever counted: estimates are streamed sums of event weights.
A report is kept as bits, category v in bit ``v % 8`` of byte ``v // 8``.  Within one report all
categories inside have the same weight, and so have all outside: everything takes O(k).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np
import numpy.typing as npt

from ppdm_dask.arrays import Floats
from ppdm_dask.designs.base import Codes, Design
from ppdm_dask.errors import DesignError, RecordsError

if TYPE_CHECKING:
    from ppdm_dask.randomness import Stream

__all__ = ["CHUNK", "Bits", "SetDesign", "pack", "unpack"]

Bits = npt.NDArray[np.uint8]
"""Packed reports, shape (n, ceil(k / 8))."""

CHUNK = 1_024
"""Records that are drawn for at once, by position in the logical block."""

MAX_SET = 12
"""Categories up to which all 2^k reports can be listed in a dense matrix."""


def pack(inside: npt.NDArray[np.bool_]) -> Bits:
    """Bits of reports, from shape (n, k) to (n, ceil(k / 8))."""
    return np.packbits(inside, axis=1, bitorder="little")


def unpack(bits: Bits, k: int) -> npt.NDArray[np.bool_]:
    """Whether category v is in report i, shape (n, k)."""
    return np.unpackbits(bits, axis=1, count=k, bitorder="little").view(np.bool_)


class SetDesign(Design):
    """A design on one attribute; a family adds its law, its weights and its sampler."""

    kind: ClassVar[Literal["symbol", "set"]] = "set"

    # -- what a family states ------------------------------------------------------------------

    @abstractmethod
    def chances(self, size: npt.NDArray[np.int64]) -> tuple[Floats, Floats]:
        """P[y, x] of reports y of some sizes, for x inside y and for x outside."""

    @abstractmethod
    def pair_weights(self, size: npt.NDArray[np.int64]) -> tuple[Floats, Floats]:
        """Weights of a category inside and outside of reports of some sizes."""

    @abstractmethod
    def category_moments(self) -> tuple[float, float]:
        """Second moment of a category's weight where it is the truth, and where another one is."""

    @abstractmethod
    def draw(self, true: npt.NDArray[np.int64], stream: Stream, start: int) -> Bits:
        """Reports of records ``start .. start + len(true)`` of a chunk, which the stream keys."""

    # -- structure -----------------------------------------------------------------------------

    @property
    def reported_shape(self) -> tuple[int, ...]:
        """All subsets: subset y has index ``sum over v in y of 2^v``."""
        return (1 << self.shape[0],)

    def _require_dense(self) -> None:
        if self.shape[0] > MAX_SET:
            raise DesignError(
                f"{self.id}: the 2^{self.shape[0]} subsets of {self.shape[0]} categories are too "
                f"many to list (at most {MAX_SET} categories); estimate by sums of event weights",
                self,
            )

    @cached_property
    def _subsets(self) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.int64]]:
        """All subsets, shape (2^k, k), and their sizes."""
        k = self.shape[0]
        inside = (np.arange(1 << k)[:, None] >> np.arange(k) & 1).astype(bool)
        size = inside.sum(axis=1)
        inside.flags.writeable = size.flags.writeable = False
        return inside, size

    # -- algebra -------------------------------------------------------------------------------

    def matrix(self) -> Floats:
        self._require_dense()
        inside, size = self._subsets
        within, without = self.chances(size)
        return np.where(inside, within[:, None], without[:, None])

    @cached_property
    def _left_inverse(self) -> Floats:
        self.require_inverse()
        inside, size = self._subsets
        possible = self.matrix().any(axis=1)
        B: Floats = np.full((self.shape[0], len(inside)), 1 / self.shape[0])
        within, without = self.pair_weights(size[possible])
        B[:, possible] = np.where(inside[possible], within[:, None], without[:, None]).T
        B.flags.writeable = False
        return B

    def _second_moments(self, p: Floats) -> Floats:
        own, other = self.category_moments()
        found: Floats = p * own + (1 - p) * other
        return found

    def sizes(self, bits: Bits) -> npt.NDArray[np.int64]:
        """Categories in each report."""
        size: npt.NDArray[np.int64] = np.bitwise_count(bits).sum(axis=1, dtype=np.int64)
        return size

    def weights(self, masks: Mapping[str, npt.NDArray[np.bool_]], codes: Codes) -> Floats:
        """As in the base class, of packed reports."""
        self.require_inverse()
        mask = masks.get(self.attributes[0])
        if mask is None:
            return np.ones(len(codes))
        within, without = self.pair_weights(self.sizes(codes))
        both = np.bitwise_count(codes & pack(mask[None, :])).sum(axis=1, dtype=np.int64)
        result: Floats = within * both + without * (int(mask.sum()) - both)
        return result

    def sum_weights(self, bits: Bits, scales: Floats, squares: Floats) -> tuple[Floats, Floats]:
        """``sum_i scales[i, c] w_v(y_i)``, and ``sum_i squares[i, c] w_v(y_i)^2``.

        Parameters
        ----------
        bits : packed reports, shape (n, ceil(k / 8))
        scales, squares : arrays, shape (n, columns)

        Returns
        -------
        arrays, shape (columns, k)
        """
        from ppdm_dask.kernels.draws import sum_subsets

        self.require_inverse()
        within, without = self.pair_weights(self.sizes(bits))
        more = np.hstack(
            [(within - without)[:, None] * scales, (within**2 - without**2)[:, None] * squares]
        )
        base = np.concatenate(
            [(scales.T * without).sum(axis=1), (squares.T * without**2).sum(axis=1)]
        )
        sums = np.zeros((len(base), 8 * bits.shape[1]))
        sum_subsets(np.ascontiguousarray(bits), more, sums)
        total = base[:, None] + sums[:, : self.shape[0]]
        return total[: scales.shape[1]], total[scales.shape[1] :]

    def weight_matrix(self, bits: Bits) -> Floats:
        """Weight of each category in each report, shape (n, k)."""
        self.require_inverse()
        within, without = self.pair_weights(self.sizes(bits))
        return np.where(unpack(bits, self.shape[0]), within[:, None], without[:, None])

    def sample_inverse(self, codes: Codes, stream: Stream) -> tuple[Codes, Floats]:
        """As in the base class, of packed reports."""
        weights = self.weight_matrix(codes)
        edges = np.cumsum(np.abs(weights), axis=1)
        place = stream.source(0).words(len(codes)) / 2.0**64 * edges[:, -1]
        truth = np.minimum((edges <= place[:, None]).sum(axis=1), self.shape[0] - 1)
        signs = np.sign(weights[np.arange(len(codes)), truth])
        return truth[:, None], signs * edges[:, -1]

    def sample(self, codes: Codes, stream: Stream, start: int) -> Codes:
        """Packed reports, shape (n, ceil(k / 8)), drawn for by chunks."""
        true = codes[:, 0].astype(np.int64)
        parts, stop = [np.zeros((0, -(-self.shape[0] // 8)), np.uint8)], start + len(codes)
        # Where nobody can repeat the draws they need no key for each chunk.
        size = max(CHUNK, 8 * CHUNK // -(-self.shape[0] // 64)) if stream.fresh else CHUNK
        for chunk in range(start // size, -(-stop // size)):
            low, high = max(start, chunk * size), min(stop, (chunk + 1) * size)
            rows = true[low - start : high - start]
            parts.append(self.draw(rows, stream.child(chunk), low - chunk * size))
        return np.concatenate(parts)


def check_size(size: npt.NDArray[np.int64], expected: int, design: SetDesign) -> None:
    """Raise RecordsError unless all reports have the size that the design gives them."""
    wrong = np.flatnonzero(size != expected)
    if wrong.size:
        raise RecordsError(
            f"{design.id} on {design.attributes[0]}: report {wrong[0]} has {size[wrong[0]]} "
            f"categories; each has {expected}",
            design,
        )
