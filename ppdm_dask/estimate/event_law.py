"""What a design says of the weight of an event, whatever the truth: ranges of its moments."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np
import numpy.typing as npt

__all__ = ["NOTHING", "EventLaw"]

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]
Range = tuple[Floats, Floats]

NOTHING = 1e-12
"""Share of the square of a weight's range that counts as no variance."""


@dataclass(frozen=True)
class EventLaw:
    """Ranges over the truth of the second moment of some events' weights, and of the weights.

    Parameters
    ----------
    inside, outside : pairs of arrays
        Least and largest ``E[w^2 | x]`` of truths x in the event, and outside of it; (inf, -inf)
        where there are none.
    weights : pair of arrays
        Least and largest weight over the reports that can occur.
    """

    inside: Range
    outside: Range
    weights: Range

    @property
    def least(self) -> Floats:
        """``min_x Var(w | x)``; 0 where some truth is told for certain."""
        least = np.minimum(self.inside[0] - 1, self.outside[0])
        return np.asarray(np.where(np.isfinite(least), np.maximum(least, 0), 0.0))

    @property
    def certain(self) -> Bools:
        """Whether the weight is one number whatever is reported: of everything, or of nothing."""
        low, high = self.weights
        return np.asarray(high - low <= NOTHING ** (1 / 2) * np.maximum(np.abs(high), 1))

    def farthest(self, value: Floats) -> Floats:
        """Largest squared distance of a weight from a mean, positive."""
        low, high = self.weights
        square = np.maximum(np.maximum(high - value, value - low), 0) ** 2
        return np.asarray(np.where(square > 0, square, 1.0))

    def told(self, estimand: str) -> Bools:
        """Whether a variance of 0 is right: for these records, where reports are the truth."""
        if estimand == "population":
            return np.zeros(self.inside[1].shape, bool)
        slack = 1e-9
        return np.asarray((self.inside[1] <= 1 + slack) & (self.outside[1] <= slack))

    def times(self, other: EventLaw) -> EventLaw:
        """Law of the weight of both of two events in independent blocks, for each pair of events.

        Shapes are joined: those of the first come first.
        """
        (a, A), (b, B) = self.inside, self.outside
        (c, C), (d, D) = other.inside, other.outside
        outer = np.multiply.outer
        with np.errstate(invalid="ignore"):
            # Outside is: outside of the first, the second, or both.
            low = [_product(b, c), _product(a, d), _product(b, d)]
            high = [_product(B, C), _product(A, D), _product(B, D)]
            ends = [outer(x, y) for x in self.weights for y in other.weights]
        return EventLaw(
            (_product(a, c), _product(A, C)),
            (reduce(np.minimum, low), reduce(np.maximum, high)),
            (reduce(np.minimum, ends), reduce(np.maximum, ends)),
        )

    def second_moments(self, value: Floats, square: Floats) -> tuple[Floats, Floats]:
        """``E[w^2]`` inside and outside of the event, as far as possible as the reports have it.

        Of all pairs within the ranges one with ``p inside + (1 - p) outside = square`` that is near
        their middles.  Where the ranges are points, as for a mixture, reports are not looked at.

        Parameters
        ----------
        value, square : arrays
            Mean weight and mean squared weight.
        """
        p = np.clip(value, 0, 1)
        with np.errstate(invalid="ignore"):
            middle = [
                np.where(lo <= hi, (lo + hi) / 2, 0.0) for lo, hi in (self.inside, self.outside)
            ]
        short = np.where(np.isfinite(square), square - p * middle[0] - (1 - p) * middle[1], 0.0)
        short = short / (p**2 + (1 - p) ** 2)
        found = [middle[0] + short * p, middle[1] + short * (1 - p)]
        ranges = (self.inside, self.outside)
        inside, outside = (
            np.where(lo <= hi, np.clip(x, lo, np.maximum(lo, hi)), 0.0)
            for x, (lo, hi) in zip(found, ranges, strict=True)
        )
        return inside, outside

    def reshaped(self, shape: Sequence[int], order: Sequence[int] | None = None) -> EventLaw:
        """With the events in another arrangement."""

        def moved(pair: Range) -> Range:
            low, high = (
                x.reshape(shape).transpose(order) if order is not None else x.reshape(shape)
                for x in pair
            )
            return low, high

        return EventLaw(moved(self.inside), moved(self.outside), moved(self.weights))


def _product(x: Floats, y: Floats) -> Floats:
    """Outer product of bounds of second moments; a bound of no truths at all stays one."""
    z = np.multiply.outer(x, y)
    none = np.logical_or.outer(x == np.inf, y == np.inf)
    never = np.logical_or.outer(x == -np.inf, y == -np.inf)
    return np.where(none, np.inf, np.where(never, -np.inf, z))
