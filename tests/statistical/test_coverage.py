"""Standard errors and intervals: each estimand covers its own truth, and only that.

The settings were fixed before they were run.  One budget: with right standard errors the coverage
tests of this file fail by chance with probability below ``FALSE_ALARM`` in all.
"""

from __future__ import annotations

import math
from functools import cache

import checks
import numpy as np
import pytest
from scipy.stats import binom, chi2, norm
from strategies import codebook_of, codes_of

from ppdm_dask import (
    KaryResponse,
    Product,
    Records,
    RRMatrix,
    Stream,
    UnrelatedQuestion,
    Warner,
    count,
    invert,
)

pytestmark = pytest.mark.slow

REPEATS = 4_000
RECORDS = 1_000
LEVEL = 0.95
APPROXIMATION = 0.01
"""How far from its level a Wald interval at 1,000 records may truly be."""

# Design, joint law of the truth, and the cell whose interval is looked at.
SETTINGS = {
    "warner": (Warner("a", 0.8), [0.7, 0.3], 1),
    "warner-below-half": (Warner("a", 0.3), [0.6, 0.4], 1),
    "unrelated": (UnrelatedQuestion(["a", "b"], 0.6, [0.3, 0.5]), [0.1, 0.2, 0.3, 0.4], 2),
    "kary": (KaryResponse("a", 4, 0.7), [0.4, 0.3, 0.2, 0.1], 0),
    "joint": (RRMatrix(["a", "b"], checks.JOINT_SKEWED, [2, 2]), [0.4, 0.3, 0.2, 0.1], 1),
    "product": (Product([Warner("a", 0.85), RRMatrix("b", checks.SKEWED)]), [1 / 6] * 6, 3),
}
FALSE_ALARM = 1e-6
EACH = FALSE_ALARM / (6 * len(SETTINGS))


@cache
def repeated(name: str, redraw: bool):
    """Estimates with both standard errors, and the truths: shape (repeats,) each."""
    design, law, cell = SETTINGS[name]
    codebook = codebook_of(design)
    rng = np.random.default_rng([*map(ord, name), redraw])
    stream = Stream.from_seed(sum(map(ord, name))).child(int(redraw))
    file = rng.choice(len(law), size=RECORDS, p=law)
    values, errors, truths = [], {"population": [], "file": []}, []
    for repeat in range(REPEATS):
        joint = rng.choice(len(law), size=RECORDS, p=law) if redraw else file
        records = Records(codes_of(joint, design.shape), codebook)
        table = count(design.disguise(records, stream.child(repeat)), design)
        for estimand, found in errors.items():
            estimate = invert(table, design, estimand=estimand)
            found.append(math.sqrt(estimate.variance.ravel()[cell]))
        values.append(estimate.values.ravel()[cell])
        truths.append(law[cell] if redraw else (file == cell).mean())
    return np.array(values), {k: np.array(v) for k, v in errors.items()}, np.array(truths)


def covered(name: str, redraw: bool, estimand: str) -> int:
    values, errors, truths = repeated(name, redraw)
    half = norm.ppf(0.5 + LEVEL / 2) * errors[estimand]
    return int((np.abs(values - truths) <= half).sum())


PAIRED = [(True, "population"), (False, "file")]


@pytest.mark.parametrize(("redraw", "estimand"), PAIRED, ids=["population", "file"])
@pytest.mark.parametrize("name", SETTINGS)
def test_right_pairings_cover(name, redraw, estimand):
    hits = covered(name, redraw, estimand)
    assert binom.cdf(hits, REPEATS, LEVEL - APPROXIMATION) > EACH / 2
    assert binom.sf(hits - 1, REPEATS, LEVEL + APPROXIMATION) > EACH / 2


def exact_errors(name: str) -> tuple[float, float]:
    """Standard errors about the population and about a file, from P and the law alone."""
    design, law, cell = SETTINGS[name]
    P = design.matrix()
    weights = np.linalg.inv(P)[cell]
    square, p = weights**2 @ P @ law, law[cell]
    return math.sqrt((square - p**2) / RECORDS), math.sqrt((square - p) / RECORDS)


@pytest.mark.parametrize("name", SETTINGS)
def test_wrong_pairings_cover_too_much_or_too_little(name):
    """By as much as the ratio of the two standard errors says."""
    population, file = exact_errors(name)
    for redraw, estimand, ratio in (
        (False, "population", population / file),
        (True, "file", file / population),
    ):
        expected = 1 - 2 * norm.sf(norm.ppf(0.5 + LEVEL / 2) * ratio)
        assert abs(expected - LEVEL) > 0.01
        hits = covered(name, redraw, estimand)
        assert binom.cdf(hits, REPEATS, expected - APPROXIMATION) > EACH / 2
        assert binom.sf(hits - 1, REPEATS, min(expected + APPROXIMATION, 0.999)) > EACH / 2


def test_wrong_pairings_show():
    assert covered("warner", False, "population") / REPEATS > 0.975
    assert covered("warner", True, "file") / REPEATS < 0.92


@pytest.mark.parametrize(("redraw", "estimand"), PAIRED, ids=["population", "file"])
@pytest.mark.parametrize("name", SETTINGS)
def test_unbiased_with_the_stated_variance(name, redraw, estimand):
    values, errors, truths = repeated(name, redraw)
    spread = values.std(ddof=1)
    z = (values - truths).mean() / (spread / math.sqrt(REPEATS))
    assert 2 * norm.sf(abs(z)) > EACH / 2
    # The mean of the squared errors is the variance of the estimates.  1.02 is for what the mean
    # itself is uncertain, and for a law that is only nearly normal.
    statistic = (REPEATS - 1) * values.var(ddof=1) / (errors[estimand] ** 2).mean()
    assert chi2.sf(statistic / 1.02, REPEATS - 1) > EACH / 4
    assert chi2.cdf(statistic * 1.02, REPEATS - 1) > EACH / 4
