"""Claims that need a run, held to a small one; and some that enumeration settles."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from search_priors import N_RECORDS, PRIORS
from sklearn.neighbors import KNeighborsClassifier

from ppdm_dask import RRMatrix, datasets
from ppdm_dask.claims.claim import load_papers
from ppdm_dask.claims.judge import judge, read_summary
from ppdm_dask.designs import MultiGroup
from ppdm_dask.designs.flip import Flip
from ppdm_dask.experiments.kinds import load_recipe
from ppdm_dask.experiments.run import run
from ppdm_dask.experiments.samples import draw_test
from ppdm_dask.perturb import AIBR, KCG, disclosure
from ppdm_dask.privacy import hint_attack, map_privacy
from ppdm_dask.randomness import SimulationStream
from ppdm_dask.search.methods import evolve, settings_for, warner_matrices
from ppdm_dask.search.problem import Problem, evaluate

SMALL = 60
"""Repeats in place of the recipes' 1000; and another seed."""

HERE = "tests/papers/test_further_claims.py::test_status_in_a_small_run"
CLAIMS = [claim for paper in load_papers() for claim in paper.claims if claim.test == HERE]
STORED = read_summary(Path(__file__).parents[2] / "docs" / "reproduction.json")["claims"]


@pytest.fixture(scope="module")
def small_runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The two sweeps with few repeats and other draws."""
    found = {}
    for name in ("electronic-surveys", "multi-group"):
        recipe = load_recipe(name).with_changes(repeats=SMALL, seed=77)
        found[name] = run(recipe, workers=0, out=tmp_path_factory.mktemp(name)).dataset
    return found


@pytest.mark.slow
@pytest.mark.parametrize("claim", CLAIMS, ids=lambda claim: claim.id)
def test_status_in_a_small_run(claim: Any, small_runs: dict[str, Any]) -> None:
    """Other draws and few repeats never say the opposite of the stored result."""
    found = judge(claim, small_runs)
    assert found.status in (STORED[claim.id]["status"], "undecided")
    assert found.cells == STORED[claim.id]["cells"]


@pytest.mark.slow
def test_most_claims_are_decided_by_a_small_run(small_runs: dict[str, Any]) -> None:
    undecided = [claim for claim in CLAIMS if judge(claim, small_runs).status == "undecided"]
    assert len(undecided) < len(CLAIMS) / 4


# -- enumerations ----------------------------------------------------------------------------------


def test_one_half_reports_one_half_of_ones() -> None:
    for ones in (0.0, 0.1, 0.9):
        reported = Flip("a", 0.5).apply(np.array([1 - ones, ones]))
        np.testing.assert_allclose(reported, 0.5, rtol=0, atol=1e-15)


def test_other_groups_stay_hidden() -> None:
    """Independent attributes, one told: the other's posterior stays that of its own report."""
    prior = np.full((2, 2), 0.25)
    joint = np.zeros((2, 2, 2, 2))  # a, b, report of a, report of b
    for a, b, x, y in itertools.product((0, 1), repeat=4):
        joint[a, b, x, y] = 0.25 * (0.8 if a == x else 0.2) * (0.8 if b == y else 0.2)
    # The best guess at a by one who knows b and sees both reports.
    right = joint.max(axis=0).sum()
    assert right == pytest.approx(0.8)
    assert Flip("a", 0.8).privacy([0.5, 0.5]) == pytest.approx(1 - right)
    assert hint_attack(Flip(["a", "b"], 0.8), prior, "a", ["b"]).privacy == 0


def test_a_whole_record_is_guessed_by_its_prior() -> None:
    """Five attributes, each 1 for nine in ten, each with its own coin of .7: all 2^10 cases."""
    theta, prior = 0.7, 0.9
    right = 0.0
    for report in itertools.product((0, 1), repeat=5):
        right += max(
            np.prod(
                [
                    (prior if x else 1 - prior) * (theta if x == y else 1 - theta)
                    for x, y in zip(truth, report, strict=True)
                ]
            )
            for truth in itertools.product((0, 1), repeat=5)
        )
    assert right == pytest.approx(0.9**5)
    assert right > 3 * theta**5
    names = list("abcde")
    design = MultiGroup([[name] for name in names], theta)
    joint = np.array(
        [
            np.prod([prior if bit else 1 - prior for bit in bits])
            for bits in itertools.product((0, 1), repeat=5)
        ]
    )
    assert 1 - design.privacy(joint) == pytest.approx(right)


def test_no_guess_beats_the_largest_posterior() -> None:
    """All 4^4 consistent guesses, and random ones that change from record to record."""
    rng = np.random.default_rng(5)
    for _ in range(5):
        P, p = rng.dirichlet(np.ones(4), size=4).T, rng.dirichlet(np.ones(4))
        joint = P * p
        best = max(
            sum(joint[y, x] for y, x in enumerate(guess))
            for guess in itertools.product(range(4), repeat=4)
        )
        assert best == pytest.approx(1 - map_privacy(RRMatrix("a", P), p))
        for mixed in rng.dirichlet(np.ones(4), size=(50, 4)):
            assert (joint * mixed).sum() <= best + 1e-12


# -- perturbation ----------------------------------------------------------------------------------


def test_use_and_privacy_of_aibr() -> None:
    """With k nearest neighbour's accuracy rises; kCG's records are harder to link than AIBR's."""
    cancer = datasets.load("breast-cancer").dropna().drop_duplicates()
    values = cancer.drop(columns="class").to_numpy(dtype=float)
    labels = cancer["class"].to_numpy(dtype=str)
    accuracy: dict[int, list[float]] = {1: [], 4: []}
    linked: dict[str, list[float]] = {"aibr": [], "kcg": []}
    for split in range(10):
        stream = SimulationStream(48, (split,))
        test = draw_test(len(values), 90, stream.child(0))
        train = np.setdiff1d(np.arange(len(values)), test)
        part = values[train]
        for k, found in accuracy.items():
            released = AIBR(k).fit(part).perturb(part, stream.child(k))
            model = KNeighborsClassifier(1).fit(released, labels[train])
            found.append(model.score(values[test], labels[test]))
        for name, method in (("aibr", AIBR(2)), ("kcg", KCG(9))):
            method.fit(part, stream=stream.child(5))
            released = method.perturb(part, stream.child(6))
            linked[name].append(disclosure(part, released).linkage)
    assert np.mean(accuracy[4]) > np.mean(accuracy[1]) + 0.2
    differences = np.subtract(linked["aibr"], linked["kcg"])  # of the same splits
    assert differences.mean() > 4 * differences.std(ddof=1) / np.sqrt(len(differences))


# -- ranges of privacy -----------------------------------------------------------------------------


@pytest.mark.slow
def test_ranges_of_privacy() -> None:
    """A tenth of the generations reaches the ranges that the paper names."""

    def ranges(name: str, delta: float) -> tuple[float, float, float, float]:
        problem = Problem(PRIORS[name], N_RECORDS, delta)
        own = evolve(problem, settings_for("spea2", generations=2_000), SimulationStream(9))
        warner = evaluate(problem, warner_matrices(problem.n))
        kept = (warner.worst <= delta + 1e-12) & np.isfinite(warner.mse)
        privacy = own.objectives.privacy
        return (
            float(privacy.min()),
            float(privacy.max()),
            float(warner.privacy[kept].min()),
            float(warner.privacy[kept].max()),
        )

    least = []
    for delta in (0.6, 0.9):
        low, _, warner_low, _ = ranges("normal", delta)
        assert low < warner_low - 0.02
        least.append(low)
    assert least[1] < least[0] - 0.1
    low, high, warner_low, warner_high = ranges("gamma", 0.75)
    assert high - low > 2 * (warner_high - warner_low)
    low, high, warner_low, warner_high = ranges("uniform", 0.75)
    assert low == pytest.approx(warner_low, abs=0.02)
    assert high < warner_high - 0.01
