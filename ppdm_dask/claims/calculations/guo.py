"""Calculations for the claims of [Guo]_."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from ppdm_dask import datasets
from ppdm_dask.perturb.aibr import AIBR

__all__ = ["aibr_histogram", "aibr_reach", "joint_distribution", "sample_counts"]


def sample_counts() -> dict[str, float]:
    """Records of Breast-Cancer, those complete and distinct, and records of Pima."""
    cancer = datasets.load("breast-cancer")
    return {
        "wbc": float(len(cancer)),
        "wbc_used": float(len(cancer.dropna().drop_duplicates())),
        "pid": float(len(datasets.load("pima"))),
    }


def _pima() -> npt.NDArray[np.float64]:
    return np.asarray(datasets.load("pima").drop(columns="diabetes").to_numpy(dtype=float))


def _correlation(one: npt.NDArray[Any], other: npt.NDArray[Any]) -> float:
    return float(np.asarray(np.corrcoef(one, other))[0, 1])


def aibr_reach() -> dict[str, float]:
    """Farthest that a value moves, in widths of its sub-interval, and the least correlation."""
    values = _pima()
    released = AIBR(4, seed=1).fit_transform(values)
    moved = np.abs(values - released) / (np.ptp(values, axis=0) / 4)
    pairs = zip(values.T, released.T, strict=True)
    return {
        "widths": float(moved.max()),
        "correlation": min(_correlation(x, y) for x, y in pairs),
    }


def aibr_histogram() -> dict[str, float]:
    """Counts in AIBR's own sub-intervals that differ between release and original."""
    values = _pima()
    released = AIBR(4, seed=1).fit_transform(values)
    wrong = 0
    for x, y in zip(values.T, released.T, strict=True):
        edges = np.linspace(x.min(), x.max(), 5)
        one, two = np.histogram(x, edges)[0], np.histogram(y, edges)[0]
        wrong += int((one != two).sum())
    return {"different": float(wrong)}


def joint_distribution() -> dict[str, float]:
    """Correlation of pregnancies and age in Pima: original, and released with k = 1."""
    values = _pima()
    released = AIBR(1, seed=2).fit_transform(values)
    return {
        "original": _correlation(values[:, 0], values[:, 7]),
        "released": _correlation(released[:, 0], released[:, 7]),
    }
