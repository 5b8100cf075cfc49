"""Calculations for the claims of [ZhanMatwin]_."""

from __future__ import annotations

import itertools

import numpy as np

from ppdm_dask import privacy
from ppdm_dask.designs import UnrelatedQuestion

__all__ = ["conjunction", "mixture", "printed_pse", "pse_symmetry"]

GRID = np.arange(1, 10) / 10


def mixture() -> dict[str, float]:
    """Eq. (1) for the example: largest deviation of reports from q P + (1 - q) P_Y."""
    rng = np.random.default_rng(0)
    worst = 0.0
    for q in GRID:
        p, w = rng.dirichlet(np.ones(4)), rng.random(2)
        personal = np.outer([1 - w[0], w[0]], [1 - w[1], w[1]]).ravel()
        reported = UnrelatedQuestion(["a", "b"], float(q), w.tolist()).apply(p)
        worst = max(worst, float(np.abs(reported - q * p - (1 - q) * personal).max()))
    return {"deviation": worst}


def conjunction() -> dict[str, float]:
    """Probability that two fair personal attributes are 1 at once."""
    alone = UnrelatedQuestion(["a", "b"], 0, 0.5).apply(np.array([1.0, 0.0, 0.0, 0.0]))
    return {"probability": float(alone[3])}


def printed_pse() -> dict[str, float]:
    """PSE by enumeration and by the printed Eq. (2), at W_a = .3, W_y = .2, q = .6."""
    a, y, q = 0.3, 0.2, 0.6
    joint = {
        (o, r): (a if o else 1 - a) * (q * (o == r) + (1 - q) * (y if r else 1 - y))
        for o, r in itertools.product((0, 1), repeat=2)
    }
    true = sum(2 * joint[0, r] * joint[1, r] / (joint[0, r] + joint[1, r]) for r in (0, 1))
    r11, r00, wrong = q + (1 - q) * y, q + (1 - q) * (1 - y), (1 - q) * (1 - y)
    # The printed factor 2 stands before the second fraction alone.
    first = (1 - a) * a * (1 - q) * r11 / (r11 * a + wrong * (1 - a))
    second = 2 * a * (1 - a) * wrong * r00 / (r00 * (1 - a) + wrong * a)
    return {"enumerated": true, "printed": first + second}


def pse_symmetry() -> dict[str, float]:
    """Largest differences of PSE between W_a and 1 - W_a, and between q and 1 - q, at W_y = 1/2."""
    w, q = np.meshgrid(GRID, GRID)
    pse = privacy.pse_unrelated(w, 0.5, q)
    other_w, other_q = privacy.pse_unrelated(1 - w, 0.5, q), privacy.pse_unrelated(w, 0.5, 1 - q)
    return {"w_a": float(np.abs(pse - other_w).max()), "q": float(np.abs(pse - other_q).max())}
