"""What a release gives away in spite of its distortion: linkage, and values known to an interval.

Rank and norm metrics say how much changed; these say what an attacker still finds.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from ppdm_dask.errors import InputError
from ppdm_dask.perturb.columns import Floats
from ppdm_dask.perturb.metrics import read_pair
from ppdm_dask.ranges import real

__all__ = ["INTERVAL", "Disclosure", "check_interval", "disclosure", "within_interval"]

INTERVAL = 0.05
"""Default half-width of an interval, as a share of the column's range."""

TIE = 1e-9
"""Relative difference within which two distances tie."""


class Disclosure(NamedTuple):
    """What can be found out; smaller is more private."""

    linkage: float
    """Share of released records whose nearest original is their own; NaN without complete ones."""
    interval: float
    """Share of values that are released within an interval about the original."""


def disclosure(original: Any, released: Any, interval: float = INTERVAL) -> Disclosure:
    """What an attacker learns who compares a release with originals.

    Parameters
    ----------
    original, released : DataFrame or array, shape (n, m)
        Record by record; values that are missing in both are passed over.
    interval : float
        Half-width of the interval about an original value, as a share of its column's range, in
        (0, 1).

    Returns
    -------
    Disclosure

    Raises
    ------
    InputError
        If `interval` is out of its range.
    DataError
        If the two differ in shape or in what is missing.

    Notes
    -----
    *Linkage* is the attacker who has all originals and looks for the one nearest to a released
    record, in Euclidean distance on columns divided by their standard deviation in the original.
    Where several originals are equally near he picks one at random, so that the own one among t
    counts 1 / t; a release at random would score 1 / n.  Records with a missing value are left out.
    """
    A, MA, _ = read_pair(original, released)
    complete = ~np.isnan(A).any(axis=1)
    linked = _linkage(A[complete], MA[complete]) if complete.any() else math.nan
    return Disclosure(linked, within_interval(zip(A.T, MA.T, strict=True), interval))


def check_interval(interval: float) -> None:
    """Refuse a half-width that is no share of a range; InputError of one line."""
    try:
        real("interval", interval, 0, 1, open_ends=True)
    except InputError as error:
        got = str(error).partition(";")[0]
        right = "a share of the range between 0 and 1, both excluded, is needed"
        raise InputError(f"{got}; {right}", interval) from None


def within_interval(pairs: Iterable[tuple[Floats, Floats]], interval: float = INTERVAL) -> float:
    """Share of values that are released within an interval about the original.

    Parameters
    ----------
    pairs : iterable of (array, array), shape (n,) each
        Columns of original and release, NaN where a value is missing in both.
    interval : float
        Half-width, as a share of the column's range, in (0, 1).

    Returns
    -------
    float
        NaN without values.

    Raises
    ------
    InputError
        If `interval` is out of its range.
    """
    check_interval(interval)
    near = there = 0
    for x, y in pairs:
        change = np.abs(x - y)[~np.isnan(x)]
        if change.size:
            width = interval * (np.nanmax(x) - np.nanmin(x))
            near, there = near + int((change <= width * (1 + TIE)).sum()), there + change.size
    return near / there if there else math.nan


def _linkage(A: Floats, MA: Floats) -> float:
    from scipy.spatial import cKDTree

    # Over powers of two, which change no digit, squares stay within a double.
    largest = np.frexp(np.maximum(np.abs(A), np.abs(MA)).max(axis=0))[1]
    A, MA = np.ldexp(A, -largest), np.ldexp(MA, -largest)
    # The deviation of a constant is rounding where its mean is rounded.
    scale = np.where(A.max(axis=0) > A.min(axis=0), A.std(axis=0), 1.0)
    known, seen = A / scale, MA / scale
    tree = cKDTree(known)
    reach = tree.query(seen)[0] * (1 + TIE)
    own = np.sqrt(((known - seen) ** 2).sum(axis=1)) <= reach
    ties = tree.query_ball_point(seen[own], reach[own], return_length=True)
    return math.fsum(1 / t for t in ties) / len(A)
