"""Repairs of estimates that leave the simplex; each is asked for by name."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ppdm_dask.errors import InputError
from ppdm_dask.ranges import reals

__all__ = ["project_simplex"]

Floats = npt.NDArray[np.float64]


def project_simplex(values: Floats) -> Floats:
    """Euclidean projection onto the simplex, exact by sorting; shape (k,), k of 1 or more.

    Raises
    ------
    InputError
        For another shape, or values that are not finite.
    """
    values = reals("values", values, ndim=1)
    if not values.size:
        raise InputError("values: got none; one or more are needed", values)
    descending = np.sort(values)[::-1]
    excess = (np.cumsum(descending) - 1) / np.arange(1, len(values) + 1)
    support = int(np.flatnonzero(descending > excess)[-1])
    result: Floats = np.maximum(values - excess[support], 0.0)
    return result
