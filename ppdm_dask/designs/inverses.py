"""Left inverses of a channel matrix: the inverse of a square one, the weighted of a tall one."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ppdm_dask.arrays import Floats

__all__ = ["MAX_CONDITION", "condition", "left_inverse"]

MAX_CONDITION = 1e12
"""Condition number from which on P counts as singular."""


def _scaled(P: Floats, p0: Floats | None) -> tuple[Floats, npt.NDArray[np.bool_], Floats]:
    """Rows of P that can occur, over the roots of their chances under p0; which; the roots."""
    prior = np.full(P.shape[1], 1 / P.shape[1]) if p0 is None else p0
    law = P @ prior
    occurs: npt.NDArray[np.bool_] = law > 0
    root = np.sqrt(law[occurs])
    return P[occurs] / root[:, None], occurs, root


def condition(P: Floats, p0: Floats | None = None) -> float:
    """Condition number of P; infinite with fewer reported symbols than categories.

    Of a square P in the 1-norm, which takes an inverse: the 2-norm takes minutes for thousands of
    categories.
    """
    m, k = P.shape
    if m < k:
        return float("inf")
    return float(np.linalg.cond(P, 1) if m == k else np.linalg.cond(_scaled(P, p0)[0]))


def left_inverse(P: Floats, p0: Floats | None = None) -> Floats:
    """B with ``B P = I`` and columns that sum to 1.

    For a tall P, ``B = (P^T D^-1 P)^-1 P^T D^-1`` with ``D = diag(P p0)``: of all left inverses the
    one of least variance where the truth follows p0.  Columns sum to 1, for ``P^T D^-1 P p0 = 1``.

    Parameters
    ----------
    P : array, shape (reported symbols, true categories)
        Of full column rank.
    p0 : array, shape (true categories,), optional
        Positive, fixed before the data are seen: taken from the data it would bias the estimates.
        Uniform by default.

    Returns
    -------
    array, shape (true categories, reported symbols)
        A symbol that cannot occur has the column p0: no report ever uses it.
    """
    m, k = P.shape
    if m == k:
        return np.asarray(np.linalg.inv(P), dtype=np.float64)
    rows, occurs, root = _scaled(P, p0)
    R = np.linalg.qr(rows)[1]
    B = np.empty((k, m))
    B[:, ~occurs] = np.full((k, 1), 1 / k) if p0 is None else p0[:, None]
    # By ratios P[y, x] / law[y], which stay exact for symbols that hardly ever occur; the second
    # step takes back the square of the condition number that the first one costs.
    B[:, occurs] = np.linalg.solve(R, np.linalg.solve(R.T, (rows / root[:, None]).T))
    return B + (np.eye(k) - B @ P) @ B
