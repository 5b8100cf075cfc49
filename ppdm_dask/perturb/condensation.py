"""kCG: groups of at least k records, and new records drawn from each group's moments."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from ppdm_dask.arrays import Floats
from ppdm_dask.errors import InputError
from ppdm_dask.perturb.base import (
    ColumnSummary,
    Perturbation,
    check_choice,
    choose_one,
    register,
    uniforms,
)
from ppdm_dask.randomness import Stream
from ppdm_dask.ranges import whole

CONSTANT = ("refuse", "keep")


@register
class KCG(Perturbation):
    r"""Condensation into groups of at least k records.

    A record is picked at random and makes a group with its k - 1 nearest; this continues while k
    records are left, and each of the rest joins the group with the nearest centroid.  A released
    record is drawn from the moments of its original's group, the mean m and the eigenvectors v of
    its population covariance:

    .. math:: y = m + \sum_j u_j \sqrt{3 \lambda_j} \, v_j, \qquad u_j \sim U(-1, 1)

    Distances are Euclidean on the columns as they are.

    Parameters
    ----------
    k : int
        Records of the smallest group, 2 or more.
    constant : {"refuse", "keep"}
        What to do with a column of one value, which would be released unchanged.
    seed : int, optional
        See :class:`~ppdm_dask.perturb.base.Perturbation`.

    Attributes
    ----------
    labels_ : array of int, shape (n,)
        Group of each fitted record.
    means_ : array of float, shape (groups, m)
    axes_ : array of float, shape (groups, m, m)
        Eigenvectors in columns, each times its half-width.

    Notes
    -----
    The expected covariance of a group's released records, with n - 1, is the group's population
    covariance, and their expected mean is its mean.  Records other than the fitted ones are
    released from the group with the nearest centroid.
    """

    id = "kcg"
    required = ("k",)
    private_end: ClassVar[Mapping[str, str]] = {"k": "large"}

    def __init__(self, k: int, constant: str = "refuse", seed: int | None = None) -> None:
        self.k = k
        self.constant = constant
        self.seed = seed

    @property
    def caveat(self) -> str:
        """One plain sentence on what kCG does not protect."""
        return (
            f"kCG does not hide what the {self.k} or more records of a group have in common: a "
            "column in which a group agrees is released as it is, small groups give away means "
            "and correlations of few people, and released values may lie where no original can."
        )

    def check_parameters(self) -> None:
        """Refuse an impossible parameter."""
        whole("k", self.k, 2)
        check_choice("constant", self.constant, CONSTANT)

    def check_summary(self, summary: ColumnSummary) -> None:
        """Refuse data that the method cannot perturb."""
        summary.check_varied(self.constant)
        summary.check_complete(type(self).__name__)
        if self.k > summary.n:
            what = f"there are {summary.n} records, too few for one group"
            raise InputError(f"k: got {self.k}; {what}", self.k)

    def _learn(self, values: Floats, stream: Stream) -> None:
        labels = condense(values, self.k, stream)
        groups = int(labels.max()) + 1
        m = values.shape[1]
        means, axes = np.empty((groups, m)), np.empty((groups, m, m))
        for group in range(groups):
            own = values[labels == group]
            means[group] = own.mean(axis=0)
            centred = own - means[group]
            spread, vectors = np.linalg.eigh(centred.T @ centred / len(own))
            # Rounding may put an eigenvalue of 0 below it.
            axes[group] = vectors * np.sqrt(3 * np.maximum(spread, 0))
        self.labels_, self.means_, self.axes_ = labels, means, axes
        # Fitted records have a group of their own; others only a nearest one.
        self._digest = _digest(values)

    def _draw(self, values: Floats, stream: Stream, offset: int) -> Floats:
        if _digest(values) == self._digest:
            labels = self.labels_
        else:
            labels = np.array([_nearest(self.means_, row) for row in values], dtype=np.intp)
        n, m = values.shape
        along = 2 * uniforms(stream, m, n, offset) - 1
        # Not optimised: a path through BLAS would sum in an order that depends on the machine.
        released: Floats = self.means_[labels] + np.einsum(
            "nij,nj->ni", self.axes_[labels], along, optimize=False
        )
        return released


def _digest(values: Floats) -> str:
    """Tells the fitted records from others without keeping them."""
    return hashlib.sha256(np.ascontiguousarray(values).tobytes()).hexdigest()


def _squares(points: Floats, centre: Floats) -> Floats:
    squares: Floats = ((points - centre) ** 2).sum(axis=1)
    return squares


def _nearest(points: Floats, centre: Floats) -> int:
    return int(np.argmin(_squares(points, centre)))


def condense(values: Floats, k: int, stream: Stream) -> npt.NDArray[np.intp]:
    """Group of each record; ties go to the record or group that comes first.

    Parameters
    ----------
    values : array of float, shape (n, m)
    k : int
        Records of the smallest group, at most n.
    stream : Stream
        Gives one word a group.
    """
    n = len(values)
    labels = np.full(n, -1, dtype=np.intp)
    left = np.arange(n)
    means = []
    words = stream.source().words(n // k)
    for group in range(n // k):
        at = choose_one(int(words[group]), len(left))
        squares = _squares(values[left], values[left[at]])
        squares[at] = -1  # the picked record itself comes before its duplicates
        own = np.argsort(squares, kind="stable")[:k]
        labels[left[own]] = group
        means.append(values[left[own]].mean(axis=0))
        left = np.delete(left, own)
    centroids = np.array(means)
    for row in left:
        labels[row] = _nearest(centroids, values[row])
    return labels
