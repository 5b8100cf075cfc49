"""Designs of the form P = q I + (1 - q) r 1^T: keep the truth, or report something unrelated to it.

The law r of what is reported instead is a product over the block's attributes.  The left inverse is
B = (I - (1 - q) r 1^T) / q; both act in O(k), marginals are mixtures again, and no matrix is made.
"""

from __future__ import annotations

import math
import sys
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from functools import cached_property, reduce
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from ppdm_dask.arrays import EPS, Floats
from ppdm_dask.designs.base import Codes, Design
from ppdm_dask.designs.draws import Steps, coin_of, drawn, thresholds
from ppdm_dask.designs.labels import same_law
from ppdm_dask.errors import DesignError
from ppdm_dask.privacy import PosteriorSummary
from ppdm_dask.randomness import exact, unpack_plane

if TYPE_CHECKING:
    from ppdm_dask.randomness import Stream

__all__ = ["COIN", "PERSONAL", "Mixture", "uniform"]

COIN, PERSONAL = 0, 1
"""Source of the coin; the source of what attribute a reports in place of the truth is 1 + a."""

MAX_JOINT = 1 << 24
"""Joint categories of a block above which no vector over them is made: it would take 128 MiB."""

MIN_MIXING = 1e-12
"""Below this much of the truth in the reports, estimates would be rounding errors: 1/3 as a double
is not quite 1/3."""


def uniform(law: Floats) -> bool:
    """Whether all probabilities of a law are equal."""
    return same_law(law.min(keepdims=True), law.max(keepdims=True))


class Mixture(Design):
    """Algebra of ``q I + (1 - q) r 1^T``; a family adds its parameters and its sampler.

    ``q`` may be negative (a Warner design below one half): only the algebra is shared.
    """

    @property
    @abstractmethod
    def mixing(self) -> float:
        """q, the coefficient of the identity."""

    @property
    @abstractmethod
    def factors(self) -> tuple[Floats, ...]:
        """r of each attribute, a probability vector over its categories."""

    @property
    def ordered(self) -> bool:
        # P keeps q I under any order; r 1^T keeps its law where each factor is uniform.
        return self.mixing != 1 and any(not uniform(law) for law in self.factors)

    @property
    def undefined(self) -> str:
        return "" if abs(self.mixing) >= MIN_MIXING else "reports do not depend on the truth"

    @cached_property
    def unrelated(self) -> Floats:
        """r over the joint categories of the block, shape (n_true,).

        Raises
        ------
        DesignError
            Above 2**24 joint categories; event weights and epsilon do without.
        """
        law = self._joint(self.factors)
        law.flags.writeable = False
        return law

    def _joint(self, factors: Sequence[Floats]) -> Floats:
        if self.n_true > MAX_JOINT:
            raise DesignError(
                f"{self.id}: a block of {self.n_true} joint categories is too large to list (at "
                f"most {MAX_JOINT}); ask for fewer attributes, or for events",
                self,
            )
        law: Floats = reduce(np.multiply.outer, factors, np.ones(())).ravel()
        return law

    def _shift(self) -> tuple[float, float]:
        """Coefficients (a, b) of B = a I + b r 1^T."""
        self.require_inverse()
        q = self.mixing
        # Sherman and Morrison: r sums to 1, so the inverse of a mixture is one with 1/q for q.
        return 1 / q, -(1 - q) / q

    def matrix(self) -> Floats:
        self._require_dense()
        q = self.mixing
        P: Floats = q * np.eye(self.n_true) + (1 - q) * self.unrelated[:, None]
        if q < 0:
            np.fill_diagonal(P, self._diagonal((1 - q) * self.unrelated))
        return P

    def _diagonal(self, off: Floats) -> Floats:
        """q + off, the chances of the truth; for q below 0 rounding can leave 1e-17 of a 0."""
        diagonal: Floats = self.mixing + off
        if self.mixing < 0:
            diagonal = np.where(diagonal <= 4 * EPS * off, 0.0, diagonal)
        return diagonal

    def left_inverse(self) -> Floats:
        self._require_dense()
        a, b = self._shift()
        B: Floats = a * np.eye(self.n_true) + b * self.unrelated[:, None]
        return B

    def _column(self, ndim: int) -> Floats:
        return self.unrelated.reshape((-1,) + (1,) * (ndim - 1))

    def apply(self, true: Floats) -> Floats:
        q = self.mixing
        result: Floats = q * true + (1 - q) * self._column(true.ndim) * true.sum(axis=0)
        return result

    def apply_transposed(self, reported: Floats) -> Floats:
        q = self.mixing
        result: Floats = q * reported + (1 - q) * np.tensordot(self.unrelated, reported, axes=1)
        return result

    def invert(self, reported: Floats) -> Floats:
        a, b = self._shift()
        result: Floats = a * reported + b * self._column(reported.ndim) * reported.sum(axis=0)
        return result

    def invert_squared(self, reported: Floats) -> Floats:
        a, b = self._shift()
        off = b * self._column(reported.ndim)
        # Row i of B * B has (a + b r_i)^2 on the diagonal, and (b r_i)^2 everywhere else.
        result: Floats = ((a + off) ** 2 - off**2) * reported + off**2 * reported.sum(axis=0)
        return result

    def invert_transposed(self, true: Floats) -> Floats:
        a, b = self._shift()
        expected = np.tensordot(self.unrelated, true, axes=1)
        result: Floats = a * true + b * expected
        return result

    def weights(self, masks: Mapping[str, npt.NDArray[np.bool_]], codes: Codes) -> Floats:
        a, b = self._shift()
        inside = np.ones(len(codes), dtype=bool)
        expected = 1.0
        for axis, (name, factor) in enumerate(zip(self.attributes, self.factors, strict=True)):
            if name in masks:
                # r is a product over attributes, so r(E) needs no joint domain.
                inside &= masks[name][codes[:, axis]]
                expected *= float(factor[masks[name]].sum())
        return a * inside + b * expected

    def sample(self, codes: Codes, stream: Stream, start: int) -> Codes:
        """A coin for the block, and what each attribute reports where it forbids the truth.

        For ``mixing`` in [0, 1]; a family with a negative one has a sampler of its own.
        """
        stop = start + len(codes)
        plane = stream.source(COIN).bernoulli(exact(self.mixing), stop)
        keep = unpack_plane(plane, start, stop)
        reports = np.array(codes, order="F")
        # Drawn for every record, whether its coin asks for it or not: draws go only by position.
        for axis, law in enumerate(self.factors):
            source = stream.source(PERSONAL + axis)
            if law.size == 2:
                yes = exact(float(law[1]))
                other = unpack_plane(source.bernoulli(yes, stop), start, stop)
                np.copyto(reports[:, axis], other, where=~keep, casting="unsafe")
            else:
                from ppdm_dask.kernels.disguise import keep_or_draw

                words = source.words(len(codes), start)
                cuts, last = thresholds(law)
                keep_or_draw(codes[:, axis], plane, start, words, cuts, last, reports[:, axis])
        return reports

    def steps(self) -> Steps:
        others: list[Steps] = []
        for axis, law in enumerate(self.factors):
            if law.size == 2:
                others.append(coin_of(float(law[1]), PERSONAL + axis))
            else:
                cuts, last = thresholds(law)
                others.append({"at": [PERSONAL + axis], "cuts": [*map(str, cuts)], "last": last})
        return {"op": "mix", "keep": coin_of(self.mixing, COIN), "others": others}

    def sample_inverse(self, codes: Codes, stream: Stream) -> tuple[Codes, Floats]:
        """Keep the report or draw from r, as ``|a|`` is to ``|b|``: B = a I + b r 1^T."""
        a, b = self._shift()
        total = abs(a) + abs(b)
        n, scale = len(codes), 2.0**64
        # The largest double below 2^64 is 2,048 less; 2^64 itself is not a uint64.
        limit = np.uint64(min(abs(a) / total * scale, scale - 2048))
        keep: npt.NDArray[np.bool_] = stream.source(0).words(n) < limit
        truth = np.array(codes, order="F")
        for axis, factor in enumerate(self.factors):
            cuts, last = thresholds(factor)
            words = stream.source(1 + axis).words(n) >> np.uint64(2)
            drawn = np.minimum(np.searchsorted(cuts, words, "right"), last)
            truth[~keep, axis] = drawn[~keep]
        return truth, total * np.where(keep, math.copysign(1, a), math.copysign(1, b))

    def posterior_summary(self, prior: Floats) -> PosteriorSummary:
        p = np.asarray(prior, dtype=float).reshape(-1)
        q, r = self.mixing, self.unrelated
        off = (1 - q) * r
        diagonal = p * self._diagonal(off)
        if p.size == 1:
            return PosteriorSummary(diagonal, diagonal, diagonal**2)
        # Behind a report is its own category, or else the likeliest of the others.
        order = np.argsort(p)
        others = np.full(p.size, p[order[-1]])
        others[order[-1]] = p[order[-2]]
        total = q * p + off * p.sum()
        largest = np.maximum(diagonal, off * others)
        squares = diagonal**2 + off**2 * np.maximum((p**2).sum() - p**2, 0)
        return PosteriorSummary(total, largest, squares)

    @property
    def _drawn_factors(self) -> tuple[Floats, ...]:
        """r of each attribute as it is drawn; coins are exact, more sides have finite words."""
        return tuple(law if law.size == 2 else drawn(law) for law in self.factors)

    def likelihood_range(self) -> tuple[Floats, Floats]:
        off = (1 - self.mixing) * self._joint(self._drawn_factors)
        diagonal = self._diagonal(off)
        if self.n_true == 1:
            return diagonal, diagonal
        return np.minimum(diagonal, off), np.maximum(diagonal, off)

    def log_ratio(self) -> float:
        """As in the base class, in closed form: the least r has the largest ratio."""
        q, least = self.mixing, [float(factor.min()) for factor in self._drawn_factors]
        if self.n_true == 1 or not q:
            return 0.0
        r = math.prod(least)
        if r < sys.float_info.min and min(least) > 0 and 0 < q < 1:
            # The product leaves the range of a double; q + (1 - q) r is q.
            return math.log(q) - math.log1p(-q) - math.fsum(map(math.log, least))
        off = (1 - q) * r
        truth = float(self._diagonal(np.array(off)))
        low, high = min(truth, off), max(truth, off)
        return float(np.log(high / low)) if low > 0 else math.inf
