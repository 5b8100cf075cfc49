"""Mean and variance over repeats, with their standard errors; the order of the repeats is void."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

__all__ = ["Moments", "moments"]


class Moments(NamedTuple):
    """Mean and sample variance of some numbers, with standard errors; NaN where too few."""

    mean: float
    mean_se: float
    variance: float
    variance_se: float


def moments(values: npt.ArrayLike, scale: int = 1) -> Moments:
    """Mean and variance of ``values / scale``.

    Parameters
    ----------
    values : array, shape (n,)
        Finite numbers; integers are summed as integers.
    scale : int
        Divisor of every value: for counts out of `scale`, the moments are those of shares.

    Returns
    -------
    Moments
        The variance is the sample variance (n - 1).  Its standard error is
        ``sqrt((m4 - (n - 3) / (n - 1) s^4) / n)``, with m4 the fourth central moment and s^2 the
        sample variance.

    Notes
    -----
    Sums are exact or correctly rounded (:func:`math.fsum`), so no order of summation shows.
    """
    x = np.asarray(values)
    n = x.size
    if n == 0:
        return Moments(math.nan, math.nan, math.nan, math.nan)
    total = int(x.sum(dtype=np.int64)) if x.dtype.kind in "iu" else math.fsum(x)
    mean = total / (n * scale)
    if n == 1:
        return Moments(mean, math.nan, math.nan, math.nan)
    # Rounding may put the mean of equal values beside them; their variance is 0.
    centre = min(max(total / n, float(x.min())), float(x.max()))
    squares = (x - centre) ** 2
    variance = math.fsum(squares) / (n - 1)
    fourth = math.fsum(squares * squares) / n
    # Never negative: m4 >= (n - 1)^2 / n^2 s^4 and (n - 3) n^2 < (n - 1)^3.  Rounding may differ.
    spread = max(0.0, fourth - (n - 3) / (n - 1) * variance**2)
    return Moments(
        mean,
        math.sqrt(variance / n) / scale,
        variance / scale**2,
        math.sqrt(spread / n) / scale**2,
    )
