"""Types of arrays, what rounding leaves of their sums, and a scale that loses no digit."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

Bools = npt.NDArray[np.bool_]

Ints = npt.NDArray[np.int64]

Words = npt.NDArray[np.uint64]


EPS = float(np.finfo(np.float64).eps)


def kron(matrices: Iterable[Floats]) -> Floats:
    """Kronecker product of matrices, in their order."""
    result: Floats = np.ones((1, 1))
    for matrix in matrices:
        result = np.asarray(np.kron(result, matrix), dtype=np.float64)
    return result


def sum_rounding(square: npt.ArrayLike, n: npt.ArrayLike) -> Floats:
    """Bound on what rounding leaves of a sum of n terms that is 0.

    A sum in any order is off by at most ``n eps sum |terms|``, and by Cauchy and Schwarz
    ``sum |terms| <= sqrt(n sum terms^2)``.  It stays far below the sum's standard error, which is
    of the order ``sqrt(sum terms^2)``, for fewer than 10^10 terms.

    Parameters
    ----------
    square : array_like
        Sum of the squared terms.
    n : array_like
        Number of terms.
    """
    count = np.asarray(n, dtype=float)
    result: Floats = count * EPS * np.sqrt(count * np.asarray(square, dtype=float))
    return result


def to_scale(weights: Floats) -> tuple[Floats, int]:
    """Positive weights over a power of two that brings the largest into [1, 2), and its exponent.

    Estimates depend on ratios of weights only, and a power of two changes no digit of them, while
    squares of weights such as 1e-170 or 1e155 leave the range of a double.
    """
    if not len(weights):
        return weights, 0
    exponent = math.frexp(float(weights.max()))[1] - 1
    scaled: Floats = np.ldexp(weights, -exponent)
    return scaled, exponent
