"""A certified lower bound, as a function of the level of the adversary's success."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["Certificate"]


@dataclass(frozen=True)
class Certificate:
    """A lower bound on tr J^-1 at every level: ``known + square / (base + slope (a - at))``.

    Parameters
    ----------
    square, base, slope : float
    at : float
        A level: what is relative to it loses no digits near it.
    known : float
        Part of the trace that every design has: 0, or ``|p|^2``.
    """

    square: float
    base: float
    slope: float
    at: float = 0.0
    known: float = 0.0

    def trace(self, a: npt.ArrayLike) -> Any:
        """The bound at levels a of the adversary's success."""
        return self.known + self.beyond(a)

    def beyond(self, a: npt.ArrayLike) -> Any:
        """The bound on what is not known."""
        return self.square / (self.base + self.slope * (np.asarray(a, dtype=float) - self.at))

    def rate(self, a: float) -> float:
        """``-d log / d a`` of :meth:`beyond`: what a little more success is worth."""
        return self.slope / (self.base + self.slope * (a - self.at))
