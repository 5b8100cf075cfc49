"""Standard errors of sums of event weights, and what they say about a split."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from ppdm_dask.rounding import sum_rounding

if TYPE_CHECKING:
    from ppdm_dask.mine.evidence import Conditions, Evidence

__all__ = ["split_z", "sum_variance"]

Floats = npt.NDArray[np.float64]

DEGENERATE = 1e-10
"""Directions whose variance is a smaller share of the largest do not vary: a category is empty."""


def sum_variance(total: Floats, square: Floats, n: int) -> Floats:
    """Variance of a sum of n weights, for the population behind the reports.

    Parameters
    ----------
    total, square : array
        Sum of the weights and of their squares.
    n : int
        Reports of one stratum; variances of strata add.  NaN for fewer than two.
    """
    if n < 2:
        return np.full(np.shape(total), np.nan)
    return np.maximum(square - total**2 / n, 0.0) * (n / (n - 1))


def split_z(evidence: Evidence, conditions: Conditions, column: int, candidates: int) -> float:
    """How many standard errors a node is away from not supporting a split.

    The smaller of two numbers.  The first is the node's estimated number of records over its
    standard error: without records there is nothing to split.  The second is the normal deviate of
    a two-sided test that class and attribute are independent within the node: a Wald test of the
    contrasts ``w_vc - w_v w_c / w``, linearised in the event weights, whose p-value is multiplied
    by the number of attributes from which this one was chosen (Bonferroni).

    Parameters
    ----------
    evidence : Evidence
    conditions : mapping of column to code
        The node.
    column : int
        The attribute that would split it.
    candidates : int
        Attributes that it was chosen from.

    Returns
    -------
    float
        0 or more; infinite where the test's p-value is too small for a double.
    """
    from scipy.special import chdtrc, ndtri

    parts = []
    counts = np.zeros((evidence.codebook.shape[column], evidence.n_classes))
    for stratum in evidence.strata:
        rows, weights = stratum.split_weights(conditions, column, evidence.target)
        multiplicity = stratum.multiplicity[rows].astype(float)
        counts += np.tensordot(multiplicity, weights, axes=1)
        parts.append((weights, multiplicity, stratum.n))
    size, n = counts.sum(), sum(n for *_, n in parts)
    square = sum(float(m @ w.sum(axis=(1, 2)) ** 2) for w, m, _ in parts)
    variance = _covariance([(w.sum(axis=(1, 2))[:, None], m, n) for w, m, n in parts])[0, 0]
    if not size > sum_rounding(square, n) or not variance >= 0:
        return 0.0
    present = size / math.sqrt(variance) if variance else math.inf
    by_value, by_class = counts.sum(axis=1) / size, counts.sum(axis=0) / size
    # In the node the weights of a row sum to `own`; the linearised contrasts sum to the contrasts.
    contrasts = []
    for weights, multiplicity, n in parts:
        of_value, of_class = weights.sum(axis=2), weights.sum(axis=1)
        own = of_value.sum(axis=1)
        t = (
            weights
            - of_value[:, :, None] * by_class
            - by_value[:, None] * of_class[:, None, :]
            + np.outer(by_value, by_class) * own[:, None, None]
        )
        # The last category and the last class follow from the others.
        contrasts.append((t[:, :-1, :-1].reshape(len(t), -1), multiplicity, n))
    total = (counts - np.outer(by_value, by_class) * size)[:-1, :-1].ravel()
    spread, directions = np.linalg.eigh(_covariance(contrasts))
    varies = spread > DEGENERATE * spread.max(initial=0.0)
    if not varies.any():
        return 0.0
    statistic = float(((total @ directions[:, varies]) ** 2 / spread[varies]).sum())
    p = min(1.0, candidates * float(chdtrc(int(varies.sum()), statistic)))
    return min(present, -float(ndtri(p / 2)))


def _covariance(parts: Sequence[tuple[Floats, Floats, int]]) -> Floats:
    """Covariance of sums of weights, shape (k, k), from (weights, multiplicity, n) by stratum."""
    k = parts[0][0].shape[1]
    matrix = np.zeros((k, k))
    for weights, multiplicity, n in parts:
        total = multiplicity @ weights
        second = (weights.T * multiplicity) @ weights
        factor = n / (n - 1) if n > 1 else math.nan
        matrix += (second - np.outer(total, total) / n) * factor
    return matrix
