"""What the AIBR paper states.  [Guo]_."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest

from ppdm_dask import datasets
from ppdm_dask.experiments.samples import draw_test
from ppdm_dask.perturb import AIBR, BSVD, KCG, SSVD, distortion
from ppdm_dask.randomness import SimulationStream

# Table 1: VD, RP, RK, CP, CK.
TABLE_1 = [
    ("wbc", AIBR(2), (0.42, 72.5, 0.006, 0.8, 0.4)),
    ("wbc", KCG(9), (0.41, 57.9, 0.007, 0.3, 0.7)),
    ("wbc", BSVD(7), (0.11, 31.9, 0.019, 0.3, 0.8)),
    ("wbc", SSVD(7, 0.45), (0.25, 37.3, 0.015, 0.3, 0.8)),
    ("pid", AIBR(4), (0.50, 111.3, 0.007, 0.3, 0.8)),
    ("pid", KCG(5), (0.19, 107.1, 0.008, 0, 1)),
    ("pid", BSVD(6), (0.01, 48.3, 0.126, 0, 1)),
    ("pid", SSVD(6, 0.15), (0.03, 56.2, 0.064, 0, 1)),
]
TOLERANCES = (0.02, 2.0, 0.003, 0.15, 0.15)
SPLITS = 50


@pytest.fixture(scope="module")
def tables():
    cancer = datasets.load("breast-cancer").dropna().drop_duplicates()
    pima = datasets.load("pima")
    return {
        "wbc": cancer.drop(columns="class").to_numpy(dtype=float),
        "pid": pima.drop(columns="diabetes").to_numpy(dtype=float),
    }


def test_sizes(tables):
    assert tables["wbc"].shape == (449, 9)
    assert tables["pid"].shape == (768, 8)


@pytest.mark.parametrize(
    ("name", "method", "printed"), TABLE_1, ids=[f"{name}-{m.id}" for name, m, _ in TABLE_1]
)
def test_table_1(tables, name, method, printed):
    """All 40 cells: metrics of the training part of 80 %, averaged over 50 splits."""
    values = tables[name]
    n = len(values)
    rows = []
    for split in range(SPLITS):
        stream = SimulationStream(47, (split,))
        test = draw_test(n, n - round(0.8 * n), stream.child(0))
        part = np.delete(values, test, axis=0)
        method.fit(part, stream=stream.child(1))
        rows.append(distortion(part, method.perturb(part, stream.child(2))))
    mean = np.mean(rows, axis=0)
    for measure, found, expected, tolerance in zip(
        rows[0]._fields, mean, printed, TOLERANCES, strict=True
    ):
        assert found == pytest.approx(expected, abs=tolerance), measure


def test_a_released_value_does_depend_on_its_original(tables):
    """Against section 2: it lies within range / k, so that the two correlate strongly."""
    values = tables["pid"]
    released = AIBR(4, seed=1).fit_transform(values)
    assert (np.abs(values - released) <= np.ptp(values, axis=0) / 4).all()
    for x, y in zip(values.T, released.T, strict=True):
        assert np.corrcoef(x, y)[0, 1] > 0.5


def test_privacy_falls_as_k_rises(tables):
    """ "k as large as possible" must read as small as possible: every metric says so."""
    values = tables["pid"]
    found = [distortion(values, AIBR(k, seed=k).fit_transform(values)) for k in (1, 2, 4, 8, 31)]
    for before, after in pairwise(found):
        assert after.vd < before.vd
        assert after.rp < before.rp
        assert after.rk > before.rk


def test_joint_distribution_is_not_kept(tables):
    """ "The perturbed data and the original data have the same distribution": not jointly."""
    values = tables["pid"]
    released = AIBR(1, seed=2).fit_transform(values)
    n = len(values)
    assert abs(np.corrcoef(values.T)[0, 7]) > 0.5  # pregnancies and age
    assert abs(np.corrcoef(released.T)[0, 7]) < 4 / math.sqrt(n)
