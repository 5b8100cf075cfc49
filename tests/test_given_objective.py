"""An objective of the user's own: the same search, checked answers, and no claim of a limit."""

from __future__ import annotations

import re
from functools import partial

import numpy as np
import pytest

import ppdm_dask as pp
from ppdm_dask.errors import InputError
from ppdm_dask.search import methods as checkpoints
from ppdm_dask.search.checkpoints import read_checkpoint
from ppdm_dask.search.optimize import choose, chosen_design
from ppdm_dask.search.problem import BLOCK, GivenObjective, Problem, evaluate

PRIOR = [0.2, 0.5, 0.3]
PROBLEM = Problem(PRIOR, 1_000, 0.8)
ELSEWHERE = Problem([0.4, 0.4, 0.2], 1_000, 0.8)


def as_in_the_paper(P):
    found = evaluate(PROBLEM, P)
    return np.stack([found.privacy, found.mse], axis=1)


def worse_of_two_priors(P):
    """The error where the truth may follow either of two priors."""
    found, other = evaluate(PROBLEM, P), evaluate(ELSEWHERE, P)
    return np.stack([found.privacy, np.maximum(found.mse, other.mse)], axis=1)


def search(objective, generations=30, **arguments):
    return pp.optimize(
        PRIOR,
        1_000,
        0.8,
        method="spea2",
        objective=objective,
        generations=generations,
        **arguments,
    )


def test_the_paper_s_objectives_given_as_one_s_own_find_the_same_matrices():
    own, paper = search(as_in_the_paper), search(None)
    for ours, theirs in (
        ("matrix", "matrix"),
        ("privacy", "privacy"),
        ("error", "mse"),
        ("worst", "worst"),
    ):
        np.testing.assert_array_equal(own[ours], paper[theirs])
    assert (own["worst"] <= 0.8 + 1e-11).all()


def test_another_objective_is_what_the_front_minimises():
    front = search(worse_of_two_priors)
    P = front["matrix"].to_numpy()
    np.testing.assert_array_equal(front["error"], worse_of_two_priors(P)[:, 1])
    assert (np.diff(front["privacy"]) < 0).all() and (np.diff(front["error"]) > 0).sum() == 0


def test_a_front_that_is_known_is_found():
    """Whatever P[0, 0] is, the error is least where P[1, 1] = 1, and then equal to the privacy."""

    def score(P):
        privacy = 1 - P[:, 0, 0]
        return np.stack([privacy, privacy + 5 * (1 - P[:, 1, 1])], axis=1)

    front = pp.optimize(PRIOR, 1_000, method="spea2", objective=score, generations=60)
    excess = (front["error"] - front["privacy"]).to_numpy()
    assert len(excess) > 50
    assert (excess >= -1e-12).all() and np.median(excess) < 0.01


def test_no_limit_is_claimed_for_another_objective():
    front = search(worse_of_two_priors, 5)
    assert not {"mse", "bound"} & set(front.variables)
    assert not {"hypervolume", "median", "attained"} & set(front.attrs)
    assert front.attrs["objective"] == "worse_of_two_priors"
    assert front.attrs["limit"].startswith("none: the certified limit is one of the paper's")


def test_a_design_is_chosen_by_its_own_error():
    front = search(worse_of_two_priors, 5)
    most = float(front["error"].median())
    design = chosen_design(front, "answer", error=most)
    assert worse_of_two_priors(design.matrix()[None])[0, 1] <= most
    with pytest.raises(InputError, match=r"^mse: this front has none; choose by privacy or error"):
        choose(front, mse=1.0)
    with pytest.raises(InputError, match=r"^error: this front has none; choose by privacy or mse"):
        choose(search(None, 5), error=1.0)


def test_stacks_begin_at_fixed_places_and_belong_to_the_function():
    seen = []

    def greedy(P):
        values = as_in_the_paper(P)
        # Rounding, or more, may depend on what else is in the stack.
        values[:, 1] *= 1 + P[:, 0, 0].sum()
        seen.append(len(P))
        P[:] = np.nan
        return values

    P = np.random.default_rng(1).dirichlet(np.ones(3), (5 * BLOCK + 3, 3)).transpose(0, 2, 1)
    P = np.ascontiguousarray(P)
    given = GivenObjective(PROBLEM, greedy)
    whole = given(P)
    assert seen == [BLOCK] * 5 + [3]
    assert np.isfinite(P).all()
    for cut in (BLOCK, 2 * BLOCK, 4 * BLOCK):
        for field, first, second in zip(whole, given(P[:cut]), given(P[cut:]), strict=True):
            np.testing.assert_array_equal(field, np.concatenate([first, second]))


@pytest.mark.parametrize(
    ("returned", "says"),
    [
        (
            lambda P: np.zeros((2, len(P))),
            "an array of float64 of shape (2, 8) for 8 matrices; num",
        ),
        (lambda P: None, "NoneType for 8 matrices; numbers of shape (8, 2) are needed"),
        (lambda P: [[1.0], [1.0, 2.0]], "list for 8 matrices"),
        (lambda P: (P[:, 0, 0], P[:, 1, 1]), "tuple of shape (2, 8) for 8 matrices"),
        (lambda P: np.full((len(P), 2), "a"), "an array of <U1 of shape (8, 2)"),
        (lambda P: np.full((len(P), 2), 1j), "an array of complex128"),
        (lambda P: np.full((len(P), 2), 1.5), "the privacy 1.5; a number from 0 to 1 is needed"),
        (lambda P: np.full((len(P), 2), np.nan), "the privacy nan; a number from 0 to 1"),
        (lambda P: [[0.5, np.nan]] * len(P), "the error nan; a number, or infinity"),
        (lambda P: [[0.5, -np.inf]] * len(P), "the error -inf; a number, or infinity"),
    ],
)
def test_what_else_is_returned_is_one_clear_line(returned, says):
    returned.__qualname__ = "score"
    with pytest.raises(InputError, match="^objective: score returned " + re.escape(says)) as told:
        search(returned)
    assert "\n" not in str(told.value)


def test_other_refusals_are_one_clear_line():
    with pytest.raises(InputError, match=r"^objective: got 3; a function of a stack"):
        search(3)
    with pytest.raises(InputError, match=r"^objective: all errors of the first 4000 matrices are"):
        search(lambda P: [[0.5, np.inf]] * len(P))
    for method in ("memetic", "bound"):
        with pytest.raises(InputError, match=f"^objective: '{method}' has none but the paper's"):
            pp.optimize(PRIOR, 1_000, 0.8, method=method, objective=as_in_the_paper)


def test_functions_are_named():
    class Score:
        def __call__(self, P):
            return as_in_the_paper(P)

    for function, name in ((partial(as_in_the_paper), "as_in_the_paper"), (Score(), "Score")):
        assert GivenObjective(PROBLEM, function).name.endswith(name)


def test_a_search_goes_on_from_its_checkpoint_without_a_first_population(tmp_path, monkeypatch):
    path = tmp_path / "search.npz"
    whole = search(worse_of_two_priors, 20)
    search(worse_of_two_priors, 10, checkpoint=path)
    seen = []

    def counted(P):
        seen.append(len(P))
        return worse_of_two_priors(P)

    resumed = search(counted, 20, checkpoint=path)
    # One matrix to compare with the file, then 200 children a generation.
    assert sum(seen) == 1 + 10 * 200
    np.testing.assert_array_equal(resumed["matrix"], whole["matrix"])
    with pytest.raises(InputError, match="this is the checkpoint of another search"):
        search(as_in_the_paper, 30, checkpoint=path)


def test_slow_generations_are_kept_by_time(tmp_path, monkeypatch):
    path = tmp_path / "search.npz"

    def tell(done, whole):
        if done == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        search(worse_of_two_priors, 20, checkpoint=path, progress=tell)
    assert not path.exists()
    monkeypatch.setattr(checkpoints, "SECONDS", 0.0)
    with pytest.raises(KeyboardInterrupt):
        search(worse_of_two_priors, 20, checkpoint=path, progress=tell)
    facts, _ = read_checkpoint(path, 1 << 26)
    assert facts["generation"] == 3
