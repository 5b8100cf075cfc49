"""Errors with clusters, strata, finite populations and replicate weights."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ppdm_dask.errors import InputError
from ppdm_dask.inference.clusters import LONE, linearised

RANDOM = np.random.default_rng(3)


def plain(
    scores: Any, weights: Any, strata: Any, clusters: Any, fraction: dict[Any, float], lone: str
) -> Any:
    """The linearised definition, in loops over strata and clusters."""
    p = scores.shape[1]
    total, known = np.zeros((p, p)), 0
    names = sorted(set(strata))
    for h in names:
        inside = [i for i in range(len(scores)) if strata[i] == h]
        units = sorted({clusters[i] for i in inside})
        z = [sum(weights[i] * scores[i] for i in inside if clusters[i] == c) for c in units]
        m, left = len(z), 1 - fraction.get(h, 0.0)
        if m == 1 and left > 0:
            if lone == "average":
                continue
            if lone == "adjust":
                total += left * np.outer(z[0], z[0])
        elif m > 1:
            mean = sum(z) / m
            for each in z:
                total += left * m / (m - 1) * np.outer(each - mean, each - mean)
        known += 1
    return total * len(names) / known if lone == "average" else total


@pytest.mark.parametrize("lone", LONE[1:])
@pytest.mark.parametrize("how", ["all", "fpc", "no strata", "no clusters"])
def test_the_linearised_definition(lone: Any, how: str) -> None:
    n = 120
    strata = RANDOM.choice(["a", "b", "c"], n) if how != "no strata" else np.full(n, "x")
    clusters = RANDOM.integers(0, 7, n) if how != "no clusters" else np.arange(n)
    lonely = strata == "c"
    clusters = np.where(lonely, clusters.min(), clusters) if how != "no clusters" else clusters
    d = RANDOM.uniform(0.5, 3, n)
    z = RANDOM.normal(size=(n, 3))
    z -= d @ z / d.sum()
    fraction = {"a": 0.25, "b": 7 / 40, "c": 0.5} if how == "fpc" else {}
    stated = {"a": 0.25, "b": 40, "c": 0.5}
    fpc = np.array([stated[h] for h in strata]) if how == "fpc" else None
    found = linearised(
        z,
        d,
        None if how == "no strata" else strata,
        None if how == "no clusters" else clusters,
        fpc,
        lone=lone,
    )
    np.testing.assert_allclose(found, plain(z, d, strata, clusters, fraction, lone), rtol=1e-12)


def test_a_lone_cluster_is_refused_unless_it_does_not_matter() -> None:
    z, strata, clusters = np.array([1.0, -2, 0.5, 0.5]), [0, 0, 1, 1], [0, 1, 2, 2]
    with pytest.raises(InputError, match=r"1 stratum has a single cluster.*certainty, adjust or"):
        linearised(z, strata=strata, clusters=clusters)
    # All of its clusters were sampled, or nobody of it is in the domain.
    whole = linearised(z, strata=strata, clusters=clusters, fpc=[0.5, 0.5, 1, 1])
    assert whole.item() == pytest.approx(0.5 * 2 * 2 * 1.5**2)
    outside = linearised(z * [1, 1, 0, 0], strata=strata, clusters=clusters)
    assert outside.item() == pytest.approx(2 * 2 * 1.5**2)
    with pytest.raises(InputError, match=r"fpc: one number in each stratum"):
        linearised(z, strata=strata, clusters=clusters, fpc=[0.5, 0.4, 1, 1])
    with pytest.raises(InputError, match=r"fpc: got 1.5 for a stratum with 2 sampled"):
        linearised(z, strata=strata, clusters=clusters, fpc=[1.5, 1.5, 1, 1])
