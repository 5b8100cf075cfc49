"""The trial of two owners: its ends, where a variant is another one, and what it finds."""

from __future__ import annotations

import numpy as np
import pytest
from strategies import make_codebook, random_records

import ppdm_dask as pp
from ppdm_dask.experiments.kinds import recipe_from_config
from ppdm_dask.experiments.run import run
from ppdm_dask.experiments.trials.owners import OwnersTrial

BOOK = pp.Codebook(make_codebook(["a", "b", "c", "class"], [2, 2, 2, 2]).attributes, "class")


def records(n=300):
    codes = random_records(BOOK, n, 1).codes.copy()
    codes[:, 3] = codes[:, 0] ^ (np.arange(n) % 10 == 0)
    return pp.Records(codes, BOOK)


@pytest.mark.parametrize("learner", ["id3", "naive-bayes"])
def test_owners_who_both_tell_the_truth_make_one_model(learner):
    """At theta = 1 the sum is the model of all training records, whatever B's share."""
    found = []
    for share in (0.1, 0.5):
        trial = OwnersTrial(theta=1, share=share, learner=learner, train=0.5)
        made = trial.repeat(pp.Stream.from_seed(3), records())
        assert made["gain"]["B"] == 0
        accuracy = made["accuracy"]
        assert accuracy["A + B"] == accuracy["A + B by precision"]
        for name, gain in made["gain"].items():
            assert gain == accuracy[name] - accuracy["B"]
        found.append(accuracy["A + B"])
    assert found[0] == found[1]


def test_settings_without_numbers_say_why():
    assert "theta = 1/2" in OwnersTrial(theta=0.5, share=0.5).undefined(records())
    assert "no record" in OwnersTrial(theta=0.8, share=0.001).undefined(records())
    assert OwnersTrial(theta=0.8, share=0.5).undefined(records()) == ""


def config(**trial):
    return {
        "about": {"title": "t"},
        "data": [{"id": "votes", "set": "votes", "codebook": "votes", "binarise": "midrange"}],
        "trial": {"name": "owners", "max_depth": 2, **trial},
        "sweep": {"repeats": 20, "seed": 1, "grid": {"theta": [0.55, 0.95], "share": [0.1]}},
    }


def test_findings_name_the_cells_where_one_owner_does_better_alone(root, tmp_path):
    made = config()
    made["data"][0]["codebook"] = str(root / "pipelines" / "codebooks" / "votes.toml")
    ds = run(recipe_from_config(made), workers=0, out=tmp_path).dataset
    said = OwnersTrial.findings(ds)
    gain = ds["accuracy"] - ds["accuracy"].sel(variant="B")
    for line, variant in zip(said, OwnersTrial.variants[2:], strict=True):
        assert line.startswith(f"{variant}: ")
        for theta in (0.55, 0.95):
            one = gain.sel(data="votes", theta=theta, share=0.1, variant=variant).to_numpy()
            worse = one.mean() < -2 * one.std(ddof=1) / np.sqrt(len(one))
            assert worse == (f"votes, theta = {theta}, share = 0.1 (" in line)
    # With theta near 1/2 the plain sum is noise, however much B knows.
    assert "votes, theta = 0.55" in said[0]


def test_findings_name_a_cell_by_words_too(root, tmp_path):
    made = config()
    made["data"][0]["codebook"] = str(root / "pipelines" / "codebooks" / "votes.toml")
    made["trial"] = {"name": "owners", "share": 0.1}
    made["sweep"] |= {"repeats": 8, "grid": {"theta": [0.55], "learner": ["id3", "naive-bayes"]}}
    ds = run(recipe_from_config(made), workers=0, out=tmp_path).dataset
    assert "votes, theta = 0.55, learner = id3 (" in OwnersTrial.findings(ds)[0]


def test_a_depth_is_only_of_trees():
    with pytest.raises(pp.InputError, match="max_depth: got 2; only trees have a depth"):
        recipe_from_config(config(learner="naive-bayes"))
