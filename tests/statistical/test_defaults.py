"""The default interval covers at least nearly what it says, and better than Wald's."""

from __future__ import annotations

import tomllib
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from strategies import make_codebook

from ppdm_dask import Identity, Product, Reports, design_from_config
from ppdm_dask.designs.sets import SetDesign, pack
from ppdm_dask.inference import invert, sum_weights
from ppdm_dask.inference.tables import ContingencyTable

SETTINGS = tomllib.loads((Path(__file__).parent / "defaults.toml").read_text())
ROWS = {setting["id"]: setting for setting in SETTINGS["setting"]}
# The interval was chosen on all repeats; a quarter of them shows whether it still does what it did.
LEVEL, REPEATS = SETTINGS["level"], SETTINGS["repeats"] // 4

pytestmark = pytest.mark.slow


def prior_of(setting, k):
    if "uniform" in setting:
        return np.arange(k) < setting["uniform"], np.repeat(1 / setting["uniform"], k)
    return None, np.array(setting["prior"])


def law_of(setting, k):
    mask, prior = prior_of(setting, k)
    return prior if mask is None else np.where(mask, prior, 0.0)


def disguised(design, truth, rng):
    """Reports by the law of the design, drawn by plain NumPy: codes, or packed sets."""
    k = design.n_true
    if isinstance(design, SetDesign):
        size, others = design.size, np.argsort(rng.random((len(truth), k)), axis=1)
        inside = np.zeros((len(truth), k), bool)
        told = rng.random(len(truth)) < design.p
        for i, x in enumerate(truth):
            rest = others[i][others[i] != x][: size - told[i]]
            inside[i, rest] = True
            inside[i, x] = told[i]
        return inside
    edges = np.cumsum(design.matrix(), axis=0)
    return np.minimum((rng.random(len(truth)) > edges[:, truth]).sum(axis=0), k - 1)


def one_estimate(setting, design, rng):
    """An estimate of one draw of reports, and the proportion that it is about."""
    k, n, event = design.n_true, setting["n"], setting["event"]
    law = law_of(setting, k)
    truth = rng.choice(k, n, p=law)
    target = law[event]
    plain = not {"weights", "domain", "strata"} & set(setting)
    sets = isinstance(design, SetDesign)
    made = disguised(design, truth, rng)
    if plain and not sets:
        counts = np.bincount(made, minlength=k).astype(np.int64)
        book = make_codebook(["a"], [k])
        return invert(ContingencyTable(book, counts, None, design.digest), design), target
    book = make_codebook(["a", "u"], [k, 2])
    whole = Product([design, Identity("u", [2])])
    domain = (rng.random(n) < setting.get("domain", 1.0)).astype(int)
    codes = np.stack([np.zeros(n, int) if sets else made, domain], axis=1)
    survey = {}
    if "weights" in setting:
        # Sampled with chances inverse to the weights: the law of the sample is tilted against them.
        gain = np.exp(setting["informative"] * (np.arange(k) == event))
        tilted = law / gain
        truth = rng.choice(k, n, p=tilted / tilted.sum())
        codes[:, 0] = disguised(design, truth, rng)
        spread = setting["weights"]
        survey["weights"] = gain[truth] * rng.lognormal(-(spread**2) / 2, spread, n)
    if "strata" in setting:
        survey["strata"] = np.arange(n) % setting["strata"]
    given = {"sets": {"a": pack(made)}} if sets else {}
    reports = Reports(codes, book, 0, whole.digest, True, **given).surveyed(**survey)
    where = {"u": "1"} if "domain" in setting else None
    return sum_weights(reports, whole, ["a"], where).estimate(), target


@cache
def coverage(name):
    """Share of repeats whose intervals hold the truth, by method."""
    setting = ROWS[name]
    design = design_from_config(setting["design"])
    rng = np.random.default_rng([SETTINGS["seed"], *map(ord, name)])
    held = {"score": 0, "wald": 0}
    for _ in range(REPEATS):
        estimate, target = one_estimate(setting, design, rng)
        for method in held:
            lower, upper = (end[setting["event"]] for end in estimate.ends(LEVEL, method))
            held[method] += bool(lower <= target <= upper)
    return {method: count / REPEATS for method, count in held.items()}


@pytest.mark.parametrize("name", ROWS)
def test_the_default_covers(name):
    shares = coverage(name)
    assert shares["score"] >= SETTINGS["lowest"], shares


def test_the_default_is_the_one_that_falls_less_short():
    short = {
        method: sum(max(LEVEL - coverage(name)[method], 0) for name in ROWS)
        for method in ("score", "wald")
    }
    assert short["score"] < short["wald"]
