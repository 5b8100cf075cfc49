"""Errors of samples of surveys: strata, clusters and finite populations; replicate weights.

Clusters are primary sampling units.  Only how their totals vary within strata enters a variance, as
if they had been drawn with replacement (*ultimate clusters*), so what is drawn within them needs no
formula of its own.

References
----------
[Wolter]_ for clusters and replicates; [Binder]_ for linearised estimates.
"""

from __future__ import annotations

from typing import Literal, get_args

import numpy as np
import numpy.typing as npt

from ppdm_dask.arrays import Floats, Ints
from ppdm_dask.errors import InputError
from ppdm_dask.shown import given, listed

Lone = Literal["fail", "certainty", "adjust", "average"]

LONE: tuple[Lone, ...] = get_args(Lone)
"""What is done about a stratum with a single cluster, by the names that R's `survey` has."""


def check_lone(lone: str) -> None:
    """Raise InputError unless it is the name of a remedy."""
    if lone not in LONE:
        raise InputError(f"lone: got {given(lone)}; {listed(LONE)} are known", lone)


def linearised(
    scores: npt.ArrayLike,
    weights: npt.ArrayLike | None = None,
    strata: npt.ArrayLike | None = None,
    clusters: npt.ArrayLike | None = None,
    fpc: npt.ArrayLike | None = None,
    *,
    lone: Lone = "fail",
) -> Floats:
    """Covariance of the sum of weighted scores over a sample of a survey.

    With ``z`` the totals of ``weights * scores`` by cluster, ``m`` clusters in stratum ``h`` of
    which the fraction ``f`` was sampled::

        sum_h (1 - f_h) m_h / (m_h - 1) sum_c (z_hc - mean z_h) (z_hc - mean z_h)'

    The estimate that solves ``sum weights * scores = 0`` has the covariance ``A^-1 V A^-T`` with A
    the derivative of the sum.

    Parameters
    ----------
    scores : array, shape (n,) or (n, p)
        Each respondent's contribution to the estimating equations.
    weights : array, shape (n,), optional
    strata : array of labels, shape (n,), optional
    clusters : array of labels, shape (n,), optional
        Within their stratum: equal labels in two strata are two clusters.  By default each
        respondent is one.
    fpc : array, shape (n,), optional
        One number in each stratum: the fraction of its clusters that was sampled, up to 1; or how
        many it has in the population.
    lone : {"fail", "certainty", "adjust", "average"}
        See :func:`deviations`.

    Returns
    -------
    array, shape (p, p)

    Raises
    ------
    InputError
        For lengths that differ, a stratum with a single cluster by "fail", or an fpc that is none.

    References
    ----------
    [Binder]_; [Wolter]_.  R's `survey` has the same conventions.
    """
    check_lone(lone)
    table = np.asarray(scores, float)
    table = table.reshape(len(table), -1)
    n = len(table)
    columns = [
        _labels(name, values, n)
        for name, values in (("strata", strata), ("clusters", clusters))
        if values is not None
    ]
    if weights is not None:
        table = table * _numbers("weights", weights, n)[:, None]
    stratum = columns.pop(0) if strata is not None else np.zeros(n, np.int64)
    cluster = columns.pop(0) if clusters is not None else np.arange(n)
    keys = np.stack([stratum, cluster], axis=1)
    found, which = np.unique(keys, axis=0, return_inverse=True)
    totals = np.zeros((len(found), table.shape[1]))
    np.add.at(totals, which.ravel(), table)
    fraction = None
    if fpc is not None:
        given_fpc = _numbers("fpc", fpc, n)
        levels = np.zeros(int(stratum.max(initial=-1)) + 1)
        levels[stratum] = given_fpc
        if (levels[stratum] != given_fpc).any():
            raise InputError("fpc: one number in each stratum is needed", fpc)
        fraction = fractions(levels, np.bincount(found[:, 0]))
    rows = deviations(totals, found[:, 0], fraction, lone)
    return np.asarray(rows.T @ rows)


def _labels(name: str, values: npt.ArrayLike, n: int) -> Ints:
    array = np.asarray(values)
    if array.shape != (n,):
        raise InputError(f"{name}: {array.shape}; {(n,)} is needed", name)
    return np.asarray(np.unique(array, return_inverse=True)[1], np.int64)


def _numbers(name: str, values: npt.ArrayLike, n: int) -> Floats:
    array = np.asarray(values, float)
    if array.shape != (n,) or not (np.isfinite(array) & (array >= 0)).all():
        raise InputError(f"{name}: {n} numbers of 0 or more are needed", name)
    return array


def fractions(fpc: Floats, clusters: npt.ArrayLike) -> Floats:
    """Sampled fraction of each stratum, from fractions or from numbers in the population.

    Parameters
    ----------
    fpc : array, shape (strata,)
        Up to 1 a fraction; above, how many clusters the population has.
    clusters : array, shape (strata,)
        How many were sampled.

    Raises
    ------
    InputError
        If more clusters were sampled than there are.
    """
    sampled = np.asarray(clusters, float)
    wrong = ~(fpc > 0) | ((fpc > 1) & (sampled > fpc))
    if wrong.any():
        at = int(np.argmax(wrong))
        raise InputError(
            f"fpc: got {fpc[at]:.6g} for a stratum with {sampled[at]:.0f} sampled; a fraction in "
            "(0, 1] or the number in the population is needed",
            float(fpc[at]),
        )
    return np.asarray(np.where(fpc <= 1, fpc, sampled / np.where(fpc > 1, fpc, 1.0)))


def deviations(
    totals: Floats, strata: Ints, fraction: Floats | None = None, lone: Lone = "fail"
) -> Floats:
    """Rows whose cross products add up to the covariance of the sum of some clusters' totals.

    Parameters
    ----------
    totals : array, shape (clusters, p)
        Of linearised scores, which sum to 0 over all clusters.
    strata : int array, shape (clusters,)
        0 .. H - 1, each of which occurs.
    fraction : array, shape (H,), optional
        Sampled fractions.
    lone : {"fail", "certainty", "adjust", "average"}
        About a stratum with one cluster, which cannot vary.  *fail* refuses.  *certainty*: it was
        sure to be drawn and adds nothing.  *adjust*: its deviation is from the mean of all
        clusters, 0 ("centered").  *average*: it adds what the other strata add on average
        ("scaled").  A stratum of which all clusters were sampled, or none of whose clusters enters
        the scores, adds nothing and needs no remedy.

    Returns
    -------
    array, shape (clusters, p)
    """
    m = np.bincount(strata)
    left = np.ones(len(m)) if fraction is None else 1 - fraction
    means = np.zeros((len(m), totals.shape[1]))
    np.add.at(means, strata, totals / m[strata][:, None])
    alone = (m == 1) & (left > 0)
    alone[alone] = (means[alone] != 0).any(axis=1)
    scale = np.sqrt(left * np.where(m > 1, m / np.maximum(m - 1, 1), 1.0))
    if alone.any():
        if lone == "fail":
            count = int(alone.sum())
            strata_have = "stratum has" if count == 1 else "strata have"
            raise InputError(
                f"lone: {count} {strata_have} a single cluster, whose variance cannot be seen; "
                "choose a remedy: certainty, adjust or average",
                lone,
            )
        if lone == "adjust":
            means[alone] = 0.0
        if lone == "average":
            others = len(m) - int(alone.sum())
            scale = scale * (np.sqrt(len(m) / others) if others else np.nan)
    return np.asarray((totals - means[strata]) * scale[strata][:, None])
