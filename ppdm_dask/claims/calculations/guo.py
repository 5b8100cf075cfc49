"""Calculations for the claims of [Guo]_."""

from __future__ import annotations

import numpy as np

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


def _pima() -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    values: np.ndarray[tuple[int, int], np.dtype[np.float64]] = (
        datasets.load("pima").drop(columns="diabetes").to_numpy(dtype=float)
    )
    return values


def aibr_reach() -> dict[str, float]:
    """Farthest that a value moves, in widths of its sub-interval, and the least correlation."""
    values = _pima()
    released = AIBR(4, seed=1).fit_transform(values)
    moved = np.abs(values - released) / (np.ptp(values, axis=0) / 4)
    pairs = zip(values.T, released.T, strict=True)
    return {
        "widths": float(moved.max()),
        "correlation": float(min(np.corrcoef(x, y)[0, 1] for x, y in pairs)),
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
        "original": float(np.corrcoef(values.T)[0, 7]),
        "released": float(np.corrcoef(released.T)[0, 7]),
    }
