"""Designs of multiples of 1/m against all such matrices, and the tables that people read."""

from __future__ import annotations

import itertools
import json
import math

import numpy as np
import pytest
from typer.testing import CliRunner

import ppdm_dask as pp
from ppdm_dask.errors import InputError
from ppdm_dask.search import lattice
from ppdm_dask.search.lattice import lattice_design
from ppdm_dask.survey.devices import Wording

RARE = [0.6, 0.3, 0.1]


def of_all_matrices(p, m, K, epsilon=math.inf, delta=1.0):
    """Least sum of variances over every matrix of multiples of 1/m, in plain NumPy."""
    p = np.array(p)
    columns = [c for c in itertools.product(range(m + 1), repeat=K) if sum(c) == m]
    stack = np.array([*itertools.product(columns, repeat=len(p))]).transpose(0, 2, 1)
    used = stack.max(axis=2) > 0
    joint = stack * p
    kept = joint.max(axis=2) <= delta * joint.sum(axis=2) * (1 + 1e-9)
    if math.isfinite(epsilon):
        kept &= stack.max(axis=2) <= math.exp(epsilon) * stack.min(axis=2) * (1 + 1e-9)
    stack = stack[(kept | ~used).all(axis=1)] / m
    law = stack @ p
    scaled = stack / np.where(law > 0, law, 1.0)[..., None]
    J = stack.transpose(0, 2, 1) @ scaled
    J = J[np.linalg.svd(J, compute_uv=False).min(axis=1) > 1e-9]
    traces = np.trace(np.linalg.inv(J), axis1=1, axis2=2)
    return traces.min() - (p**2).sum()


@pytest.mark.parametrize(
    ("p", "m", "K", "privacy"),
    [
        ([0.9, 0.1], 6, 2, {"epsilon": 1.0}),
        ([0.9, 0.1], 36, 2, {"epsilon": 1.0}),
        ([0.7, 0.3], 10, 2, {"max_posterior": 0.8}),
        ([0.7, 0.3], 8, 3, {"max_posterior": 0.85}),
        ([0.7, 0.3], 6, 3, {"epsilon": 1.4}),
        (RARE, 6, 3, {"epsilon": 1.0}),
        (RARE, 6, 3, {"max_posterior": 0.8}),
        (RARE, 8, 3, {"epsilon": 2.0, "max_posterior": 0.8}),
        ([0.5, 0.25, 0.25], 4, 4, {"max_posterior": 0.75}),
    ],
)
def test_no_other_matrix_is_better(p, m, K, privacy):
    found = lattice_design(p, m, symbols=K, **privacy)
    delta = privacy.get("max_posterior", 1.0)
    assert found.exact
    assert found.noise == pytest.approx(
        of_all_matrices(p, m, K, privacy.get("epsilon", math.inf), delta), rel=1e-9
    )
    assert (found.counts.sum(axis=0) == m).all()
    design = pp.RRMatrix("a", found.P, p0=np.array(p) if len(found.P) > len(p) else None)
    assert found.noise == pytest.approx(math.fsum(design.variance(p)))
    assert design.max_posterior(p) <= delta + 1e-9
    assert design.epsilon() <= privacy.get("epsilon", math.inf) + 1e-9
    assert found.ratio >= 1


@pytest.mark.parametrize(
    ("p", "m", "privacy"),
    [
        (RARE, 36, {"epsilon": 1.0}),
        (RARE, 10, {"max_posterior": 0.9}),
        ([0.4, 0.3, 0.2, 0.1], 10, {"epsilon": 1.0}),
        ([0.4, 0.2, 0.2, 0.1, 0.1], 6, {"epsilon": 1.0}),
    ],
)
def test_the_local_search_finds_the_best_of_all(monkeypatch, p, m, privacy):
    whole = lattice_design(p, m, **privacy)
    monkeypatch.setattr(lattice, "LOOKED_AT", 0)
    found = lattice_design(p, m, **privacy)
    assert whole.exact
    assert not found.exact
    assert found.noise == pytest.approx(whole.noise, rel=1e-9)


def test_more_outcomes_that_include_the_fewer_are_no_worse():
    noises = [lattice_design(RARE, m, epsilon=1.0).noise for m in (4, 8, 16)]
    assert sorted(noises, reverse=True) == noises


def test_a_die_for_two_answers_is_warners():
    made = pp.device_design({"yes": 0.1, "no": 0.9}, "die", epsilon=1.0)
    assert made.design.matrix() == pytest.approx(pp.Warner("answer", theta=2 / 3).matrix())
    assert made.epsilon == pytest.approx(math.log(2))
    # By hand: both designs are Warner's, with variance theta (1 - theta) / (2 theta - 1)^2 + ...
    best = 1 / (1 + math.exp(-1))

    def noise(t):
        return 2 * (0.09 + t * (1 - t) / (2 * t - 1) ** 2)

    assert made.ratio == pytest.approx(noise(2 / 3) / noise(best), rel=1e-6)


@pytest.mark.parametrize(
    ("device", "symbols"),
    [("die", None), ("two dice", None), ("three coins", None), ("number-cards", 4)],
)
def test_every_outcome_leads_to_one_report(device, symbols):
    prior = dict(zip(("never", "once", "often"), RARE, strict=True))
    made = pp.device_design(prior, device, max_posterior=0.85, symbols=symbols)
    entry = Wording().tables[made.device]
    names = entry["outcomes"]
    events = {
        entry["one" if i == j else "several"].format(first=names[i], last=names[j]): {
            *range(i, j + 1)
        }
        for i in range(len(names))
        for j in range(i, len(names))
    }
    for x, row in enumerate(made.cases):
        sets = [events[case] if case else set() for case in row]
        assert [len(each) for each in sets] == made.lattice.counts[:, x].tolist()
        assert set.union(*sets) == {*range(len(names))}
        for symbol, case in zip(made.symbols, row, strict=True):
            if case:
                assert f"say “{symbol}” if {case}" in made.text
    assert made.design.categories == (("never", "once", "often"),)
    assert made.max_posterior <= 0.85 + 1e-9


@pytest.mark.parametrize(
    ("device", "options", "message"),
    [
        ("a hat", {"epsilon": 1.0}, "device: got 'a hat'; one of coin, two-coins"),
        ("coin", {"epsilon": 0.5}, r"outcomes: got 2; no matrix of multiples of 1/2"),
        ("die", {}, "epsilon, max_posterior: give one of them, or both"),
        ("die", {"max_posterior": 0.5}, "max_posterior: got 0.5"),
        ("die", {"epsilon": 1.0, "symbols": 2}, "symbols: got 2"),
    ],
)
def test_what_no_device_makes(device, options, message):
    with pytest.raises(InputError, match=message):
        pp.device_design(dict(zip("abc", RARE, strict=True)), device, **options)


def test_the_command_writes_the_design_and_the_words(tmp_path):
    from ppdm_dask.cli.app import app

    prior = tmp_path / "prior.toml"
    prior.write_text('attribute = "times"\n[prior]\nnever = 0.6\nonce = 0.3\noften = 0.1\n')
    out = tmp_path / "out"
    options = ["optimize", "--prior", str(prior), "--n", "1000", "--delta", "0.8"]
    options += ["--device", "two dice", "--question", "How often?", "--out", str(out)]
    found = CliRunner().invoke(app, [*options, "--json"])
    assert found.exit_code == 0, found.output
    said = json.loads(found.stdout)
    design = pp.Design.read(out / "design.toml")
    assert design.matrix() * 36 == pytest.approx(np.array(said["counts"]))
    assert said["mse"] * 3 * 1000 == pytest.approx(math.fsum(design.variance(RARE)))
    text = (out / "instructions.txt").read_text(encoding="utf-8")
    assert text.rstrip("\n") == said["text"]
    assert "How often?" in text
    plain = CliRunner().invoke(app, options)
    assert "times the reports of the best possible design" in plain.stdout
    refused = CliRunner().invoke(app, [*options, "--choose", "privacy=0.4"])
    assert str(refused.exception) == "--choose: not available with --device"
