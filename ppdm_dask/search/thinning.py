"""Fewer rays with the same sum."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

__all__ = ["thinned"]

Floats = npt.NDArray[np.float64]


def thinned(A: Floats, weights: Floats) -> Floats:
    """Weights of 0 or more with the same ``A w``, no more of them positive than A has rows.

    Parameters
    ----------
    A : array, shape (rows, rays)
        A column for each ray.
    weights : array, shape (rays,)
    """
    from scipy.optimize import nnls

    scale = np.abs(A).max(axis=1, keepdims=True)
    A = A / np.where(scale > 0, scale, 1.0)  # two categories may share no ray
    thin, _ = nnls(A, A @ weights, maxiter=50 * len(weights))
    result: Floats = thin
    return result
