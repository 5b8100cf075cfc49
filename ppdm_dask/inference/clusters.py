"""Errors of samples of surveys: strata, clusters and finite populations; replicate weights.

Clusters are primary sampling units.  Only how their totals vary within strata enters a variance, as
if they had been drawn with replacement (*ultimate clusters*), so what is drawn within them needs no
formula of its own.

References
----------
[Wolter]_ for clusters and replicates; [Binder]_ for linearised estimates.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt

from ppdm_dask.arrays import Floats, Ints
from ppdm_dask.errors import InputError, RecordsError
from ppdm_dask.faces.face import Face
from ppdm_dask.ranges import real, reals
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
    r"""Covariance of the sum of weighted scores over a sample of a survey.

    With ``z`` the totals of ``weights * scores`` by cluster, ``m`` clusters in stratum ``h`` of
    which the fraction ``f`` was sampled, it is

    .. math:: V = \sum_h (1 - f_h) \frac{m_h}{m_h - 1}
        \sum_c (z_{hc} - \bar z_h)(z_{hc} - \bar z_h)^T

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
    found, which = pairs(stratum, cluster)
    totals = np.zeros((len(found), table.shape[1]))
    np.add.at(totals, which, table)
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


def pairs(strata: Ints, clusters: Ints) -> tuple[Ints, Ints]:
    """Different pairs of stratum and cluster, ascending, and which of them each respondent has."""
    h, of_stratum = np.unique(strata, return_inverse=True)
    c, of_cluster = np.unique(clusters, return_inverse=True)
    # One number for a pair: sorting rows of two is many times as slow.
    found, which = np.unique(of_stratum * max(len(c), 1) + of_cluster, return_inverse=True)
    first, second = np.divmod(found, max(len(c), 1))
    return np.stack([h[first], c[second]], axis=1), np.asarray(which, np.int64)


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


@dataclass(frozen=True, eq=False, repr=False)
class ClusterTotals(Face):
    """Sums over the reports of each cluster, which add up over partitions that share clusters.

    Parameters
    ----------
    keys : int array, shape (clusters, 2)
        Stratum and cluster, ascending.
    values : array, shape (clusters, p)
    """

    keys: Ints
    values: Floats

    def _said(self) -> str:
        return f"ClusterTotals of {len(self.keys):,} clusters"

    def __add__(self, other: ClusterTotals) -> ClusterTotals:
        keys = np.concatenate([self.keys, other.keys])
        found, which = pairs(keys[:, 0], keys[:, 1])
        values = np.zeros((len(found), self.values.shape[1]))
        np.add.at(values, which, np.concatenate([self.values, other.values]))
        return ClusterTotals(found, values)

    def scaled(self, exponent: int) -> ClusterTotals:
        """Times 2 to the exponent."""
        return replace(self, values=np.ldexp(self.values, exponent))

    @property
    def strata(self) -> Ints:
        """Position of each cluster's stratum among those that occur."""
        return np.asarray(np.unique(self.keys[:, 0], return_inverse=True)[1], np.int64)

    def freedom(self) -> int:
        """Clusters less strata, of those in which the first column is not 0."""
        inside = self.keys[self.values[:, 0] != 0]
        return len(inside) - len(np.unique(inside[:, 0]))


@dataclass(frozen=True, eq=False, repr=False)
class ReplicateTotals(Face):
    """Sums over reports under each of some replicate weights.

    Parameters
    ----------
    values : array, shape (replicates, p)
    gram : array, shape (replicates, replicates)
        Sums of products of the weights, whose rank is that of the weights.
    """

    values: Floats
    gram: Floats

    def _said(self) -> str:
        return f"ReplicateTotals of {len(self.values):,} replicate weights"

    def __add__(self, other: ReplicateTotals) -> ReplicateTotals:
        if len(self.values) != len(other.values):
            raise RecordsError("sums with different replicate weights do not add", other)
        return ReplicateTotals(self.values + other.values, self.gram + other.gram)

    def scaled(self, exponent: int) -> ReplicateTotals:
        """Times 2 to the exponent."""
        return ReplicateTotals(np.ldexp(self.values, exponent), np.ldexp(self.gram, 2 * exponent))

    def freedom(self) -> int:
        """Rank of the replicate weights, less 1."""
        size = np.sqrt(np.diag(self.gram))
        size = np.where(size > 0, size, 1.0)
        return int(np.linalg.matrix_rank(self.gram / np.outer(size, size), 1e-10, True)) - 1


Kind = Literal["JK1", "JKn", "BRR", "Fay", "bootstrap"]

MAX_REPLICATES = 1_024


@dataclass(frozen=True)
class Replicates:
    r"""Replicate weights, and how their estimates become a variance.

    With the scale c, the rscales s and the centre as below,

    .. math:: \operatorname{Var}(\hat p) = c \sum_r s_r (\hat p_r - \hat p_0)^2

    Each column is a full weight, the survey weight included.

    Parameters
    ----------
    weights : sequence of str, or array of shape (n, replicates)
        Columns that were kept, or the weights.
    kind : {"JK1", "JKn", "BRR", "Fay", "bootstrap"}
        What made them.  It gives the scale for R replicates: ``(R - 1) / R`` for the jackknife
        without strata (JK1), 1 with them (JKn), ``1 / R`` for balanced half samples (BRR),
        ``1 / (R (1 - rho)^2)`` for Fay's, and ``1 / (R - 1)`` for the bootstrap.
    scale : float, optional
        In place of the kind's.
    rscales : float or sequence of float, optional
        One for all replicates, or one for each; 1 by default.  JKn needs them: for a replicate that
        leaves a cluster of stratum h out, ``(m_h - 1) / m_h``.
    rho : float in [0, 1), optional
        Of Fay's method, which needs it.
    centre : {"estimate", "mean"}
        Deviations are from the estimate itself, or from the mean of the replicates; the first gives
        the larger variance, the second is the default of R's `survey`.

    Raises
    ------
    InputError
        For a kind that is not known, and for numbers out of range, missing, or not needed.

    References
    ----------
    [Wolter]_
    """

    weights: Any
    kind: Kind
    scale: float | None = None
    rscales: float | Sequence[float] | None = None
    rho: float | None = None
    centre: Literal["estimate", "mean"] = "estimate"

    def __post_init__(self) -> None:
        if self.kind not in get_args(Kind):
            raise InputError(
                f"replicates: got {given(self.kind)}; {listed(get_args(Kind))} are known", self.kind
            )
        if self.centre not in ("estimate", "mean"):
            raise InputError(
                f"centre: got {given(self.centre)}; 'estimate' or 'mean' is needed", self.centre
            )
        if (self.kind == "Fay") != (self.rho is not None):
            raise InputError("rho: Fay's method needs it, and no other takes it", self.rho)
        if self.rho is not None:
            real("rho", self.rho, 0)
            if self.rho >= 1:
                raise InputError(f"rho: got {self.rho:g}; below 1 is needed", self.rho)
        if self.scale is not None:
            real("scale", self.scale, 0)
        if self.rscales is not None:
            reals("rscales", self.rscales, 0)
        elif self.kind == "JKn":
            raise InputError(
                "rscales: JKn needs one for each replicate, (m - 1) / m with m clusters in the "
                "stratum that it leaves one out of",
                self,
            )

    def factors(self, replicates: int) -> Floats:
        """What the squared deviation of each replicate is multiplied by, shape (replicates,)."""
        R = replicates
        scale = {
            "JK1": (R - 1) / R,
            "JKn": 1.0,
            "BRR": 1 / R,
            "Fay": 1 / (R * (1 - (self.rho or 0.0)) ** 2),
            "bootstrap": 1 / max(R - 1, 1),
        }[self.kind]
        rscales = np.asarray(1.0 if self.rscales is None else self.rscales, float)
        if rscales.ndim and rscales.shape != (R,):
            raise InputError(
                f"rscales: {rscales.size} numbers; one, or {R}, are needed", self.rscales
            )
        return np.broadcast_to(rscales * (scale if self.scale is None else self.scale), (R,)).copy()

    def _deviations(self, replicates: Floats, estimate: Floats) -> Floats:
        factors = self.factors(len(replicates))
        centre = estimate
        if self.centre == "mean":
            # As R has it: replicates that do not count do not move the mean.
            centre = replicates[factors > 0].mean(axis=0)
        return np.asarray(np.sqrt(factors)[:, None] * (replicates - centre))

    def variance(self, replicates: Floats, estimate: Floats) -> Floats:
        """Variance of estimates, from those under each replicate, shape (replicates, p)."""
        return np.asarray((self._deviations(replicates, estimate) ** 2).sum(axis=0))

    def covariance(self, replicates: Floats, estimate: Floats) -> Floats:
        """Covariance of estimates, shape (p, p)."""
        rows = self._deviations(replicates, estimate)
        return np.asarray(rows.T @ rows)

    def __repr__(self) -> str:
        count = np.shape(self.weights)[-1]
        return f"Replicates({count} weights, kind={self.kind!r})"
