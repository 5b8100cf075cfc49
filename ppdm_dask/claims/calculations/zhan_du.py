"""Calculations for the claims of [ZhanDu]_."""

from __future__ import annotations

import itertools
import math

import numpy as np

from ppdm_dask import datasets
from ppdm_dask.designs import MultiGroup
from ppdm_dask.designs.flip import Flip
from ppdm_dask.designs.multigroup import coefficient_matrix
from ppdm_dask.privacy.hints import hint_attack

__all__ = [
    "adversary_s_guess",
    "coefficient_matrices",
    "half",
    "hint",
    "record_counts",
    "solved_equations",
    "whole_record",
]

PRINTED_M3 = (
    (3, 2, 2, 1, 2, 1, 1, 0),
    (2, 3, 1, 2, 1, 1, 0, 1),
    (2, 1, 3, 2, 1, 0, 2, 1),
    (1, 2, 2, 3, 0, 1, 1, 2),
    (2, 1, 1, 0, 3, 2, 2, 1),
    (1, 2, 0, 1, 2, 3, 1, 2),
    (1, 0, 2, 1, 2, 1, 3, 2),
    (0, 1, 1, 2, 1, 2, 2, 3),
)
"""Eq. (8) as printed: the power of theta in each entry; the rest of the 3 is that of 1 - theta."""


def coefficient_matrices() -> dict[str, float]:
    """Entries of the printed M_1, M_2 and M_3 that differ from the truths and lies they count."""
    t = 0.7
    found = {}
    powers = {
        "m1": np.array([[1, 0], [0, 1]]),
        "m2": np.array([[2, 1, 1, 0], [1, 2, 0, 1], [1, 0, 2, 1], [0, 1, 1, 2]]),
        "m3": np.array(PRINTED_M3),
    }
    for g, (name, power) in enumerate(powers.items(), 1):
        events = list(itertools.product([0, 1], repeat=g))
        built = [
            [
                math.prod(t if a == b else 1 - t for a, b in zip(one, two, strict=True))
                for two in events
            ]
            for one in events
        ]
        if not np.allclose(built, coefficient_matrix([t] * g), rtol=1e-12):
            raise AssertionError("the package's coefficient matrix is wrong")
        printed = t**power * (1 - t) ** (g - power)
        found[name] = float((~np.isclose(printed, built, rtol=1e-12)).sum())
    return found


def solved_equations() -> dict[str, float]:
    """Eq. (7): largest error of P from P* through M_3, over 100 random joint distributions."""
    rng = np.random.default_rng(1)
    design = MultiGroup([["a"], ["b"], ["c"]], 0.8)
    worst = 0.0
    for p in rng.dirichlet(np.ones(8), size=100):
        worst = max(worst, float(np.abs(design.invert(design.apply(p)) - p).max()))
    return {"error": worst}


def half() -> dict[str, float]:
    """At theta = 1/2: reports of two opposite distributions, and how many directions are lost."""
    flip = Flip("a", 0.5)
    one, other = flip.apply(np.array([0.1, 0.9])), flip.apply(np.array([0.9, 0.1]))
    rank = int(np.linalg.matrix_rank(flip.matrix()))
    return {
        "difference": float(np.abs(one - other).max()),
        "ones": float(one[1]),
        "lost": float(2 - rank),
    }


def adversary_s_guess() -> dict[str, float]:
    """Posterior of a value with prior .9 after a report of it, at theta = .7."""
    return {"posterior": float(Flip("a", 0.7).max_posterior([0.1, 0.9])), "theta": 0.7}


def whole_record() -> dict[str, float]:
    """How often all of five attributes are guessed, each with prior .9 and its own coin of .7."""
    right = 1 - float(Flip("a", 0.7).privacy([0.1, 0.9]))
    return {"guessed": right**5, "theta_to_the_n": 0.7**5}


def hint() -> dict[str, float]:
    """Privacy left of an attribute once another is known: one coin for both, and one each."""
    prior = np.full((2, 2), 0.25)
    one = hint_attack(Flip(["a", "b"], 0.8), prior, "a", ["b"])
    # With a coin each, the other attribute's truth says nothing of this one's coin.
    return {"one_group": one.privacy, "two_groups": float(Flip("a", 0.8).privacy([0.5, 0.5]))}


def record_counts() -> dict[str, float]:
    """Records of the data sets as their original files have them."""
    return {
        name.replace("-", "_"): float(len(datasets.load(name)))
        for name in ("adult", "breast-cancer", "votes")
    }
