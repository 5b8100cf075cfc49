"""Regressions of disguised answers: no bias, and intervals that cover what they say."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ppdm_dask as pp

SETTINGS = tomllib.loads((Path(__file__).parent / "regression.toml").read_text())
ROWS = {setting["id"]: setting for setting in SETTINGS["setting"]}

pytestmark = pytest.mark.slow


def design_of(name: str, config: dict[str, Any]) -> pp.Design:
    key = "attribute" if config["id"] in ("warner", "kary") else "attributes"
    return pp.design_from_config(config | {key: name})


def drawn(laws: Any, draw: np.random.Generator) -> Any:
    """A category for each row of probabilities."""
    return (draw.random(len(laws))[:, None] > np.cumsum(laws, axis=1)[:, :-1]).sum(axis=1)


def people(setting: dict[str, Any], n: int, draw: np.random.Generator) -> pp.Records:
    """True answers: outcome, x and z."""
    beta, law = np.array(setting["beta"]), np.array(setting["x"])
    z = draw.integers(0, 2, n)
    x = drawn(np.where(z[:, None] == 1, law[::-1], law), draw)
    eta = np.stack([np.ones(n), x, z], axis=1) @ beta
    odds = np.exp(np.concatenate([np.zeros((n, 1)), eta], axis=1))
    y = drawn(odds / odds.sum(axis=1, keepdims=True), draw)
    sizes = {"y": odds.shape[1], "x": len(law), "z": 2}
    book = pp.Codebook(tuple(pp.Attribute(a, tuple(map(str, range(k)))) for a, k in sizes.items()))
    return pp.Records(np.stack([y, x, z], axis=1), book)


@pytest.mark.parametrize("name", ROWS)
def test_regressions_are_unbiased_and_cover(name: str) -> None:
    setting, n, runs = ROWS[name], SETTINGS["n"], SETTINGS["repeats"]
    place = list(ROWS).index(name)
    blocks = [
        design_of(attribute, setting[role])
        for role, attribute in (("outcome", "y"), ("predictor", "x"))
        if role in setting
    ]
    design = blocks[0] if len(blocks) == 1 else pp.Product(blocks)
    truth = people(setting, n * runs, np.random.default_rng(place))
    reports = design.disguise(truth, pp.Stream.from_seed(100 + place))
    design = reports.design
    beta = np.array(setting["beta"])
    family = "binomial" if beta.shape[1] == 1 else "multinomial"
    model = pp.GLM(design, outcome="y", predictors=["x", "z"], family=family)
    estimates, errors = np.empty((2, runs, beta.size))
    for run in range(runs):
        fit = model.fit(reports[run * n : (run + 1) * n])
        estimates[run], errors[run] = fit.coef_.ravel(), fit.standard_errors_.ravel()
    expected = "corrected score" if "predictor" in setting else "maximum likelihood"
    assert model.method_ == expected
    apart = np.abs(estimates - beta.ravel())
    covered = (apart < 1.959964 * errors).mean(axis=0)
    bias = np.abs(estimates.mean(axis=0) - beta.ravel()) / estimates.std(axis=0)
    print(name, covered.round(3), bias.round(3))
    assert (covered >= SETTINGS["lowest"]).all(), covered
    assert (covered <= SETTINGS["highest"]).all(), covered
    assert bias.max() < SETTINGS["bias"], bias
