"""Levels and epsilons go on after an interruption, from the file of a checkpoint."""

import numpy as np
import pytest

import ppdm_dask as pp
from ppdm_dask.search import solved as solved_module
from ppdm_dask.search.checkpoints import DamagedCheckpoint, read_checkpoint, write_checkpoint
from ppdm_dask.search.guess import Guesses
from ppdm_dask.search.optimize import best_within
from ppdm_dask.search.problem import Problem

PRIOR = [0.4, 0.3, 0.2, 0.1]
EPSILONS = [0.5, 1.0, 2.0]
KINDS = {"levels": {"delta": 0.8}, "epsilons": {"epsilon": EPSILONS}}


class Interruption(BaseException):
    """As Ctrl-C is: no Exception."""


def bound(checkpoint=None, progress=None, **more):
    return pp.optimize(
        PRIOR, 1_000, method="bound", checkpoint=checkpoint, progress=progress, **more
    )


def interrupted(path, after, **more):
    def progress(done, whole):
        if done == after:
            raise Interruption

    with pytest.raises(Interruption):
        bound(path, progress, **more)


@pytest.mark.parametrize("seconds", [0.0, 60.0], ids=["each", "at the end"])
@pytest.mark.parametrize("kind", KINDS)
def test_what_was_solved_is_taken_up_to_the_same_bits(kind, seconds, tmp_path, monkeypatch):
    monkeypatch.setattr(solved_module, "SECONDS", seconds)
    path, seen = tmp_path / "bound.checkpoint", []
    interrupted(path, 2, **KINDS[kind])
    front = bound(path, lambda done, whole: seen.append((done, whole)), **KINDS[kind])
    whole = 98 if kind == "levels" else 3
    assert seen == [(done, whole) for done in range(3, whole + 1)]
    assert front.identical(bound(**KINDS[kind]))
    # Once more there is nothing left to solve.
    again = bound(path, lambda done, whole: pytest.fail("solved again"), **KINDS[kind])
    assert again.identical(front)


def test_each_result_is_in_the_file_when_it_is_time(tmp_path, monkeypatch):
    """Nothing is run at the end of a process that is killed."""
    monkeypatch.setattr(solved_module, "SECONDS", 0.0)
    path, found = tmp_path / "bound.checkpoint", []

    def progress(done, whole):
        found.append(read_checkpoint(path, 1 << 20)[0]["done"])

    bound(path, progress, epsilon=EPSILONS)
    assert found == [1, 2, 3]


def test_a_disk_is_not_written_all_the_time(tmp_path, monkeypatch):
    written = []
    monkeypatch.setattr(solved_module, "write_checkpoint", lambda *a: written.append(a))
    bound(tmp_path / "bound.checkpoint", epsilon=EPSILONS)
    assert len(written) == 1  # three optima take less than the seconds between two writes


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("other", ["delta", "prior", "kind", "another level"])
def test_files_of_other_searches_are_refused(kind, other, tmp_path):
    path = tmp_path / "bound.checkpoint"
    interrupted(path, 1, **KINDS[kind])
    content = path.read_bytes()
    prior, more = PRIOR, dict(KINDS[kind])
    if other == "delta":
        more["delta"] = 0.79
    elif other == "prior":
        prior = PRIOR[::-1]
    elif other == "kind":
        more = KINDS["epsilons" if kind == "levels" else "levels"]
    elif kind == "levels":
        more["privacy"] = 0.333
    else:
        more["epsilon"] = [0.5, 1.0]
    with pytest.raises(DamagedCheckpoint, match=r"another search; remove it to begin again$"):
        pp.optimize(prior, 1_000, method="bound", checkpoint=path, **more)
    assert path.read_bytes() == content


def test_a_file_of_an_evolution_is_refused_and_the_other_way_round(tmp_path):
    evolution, levels = tmp_path / "evolution", tmp_path / "levels"
    pp.optimize(PRIOR, 1_000, 0.8, method="spea2", generations=2, checkpoint=evolution)
    interrupted(levels, 1, delta=0.8)
    with pytest.raises(DamagedCheckpoint, match="remove it to begin again"):
        bound(evolution, delta=0.8)
    with pytest.raises(DamagedCheckpoint, match="remove it to begin again"):
        pp.optimize(PRIOR, 1_000, 0.8, method="spea2", generations=2, checkpoint=levels)


def forge(path, change):
    """Another content under a checksum that is right."""
    facts, arrays = read_checkpoint(path, 1 << 20)
    change(facts, arrays)
    write_checkpoint(path, facts, arrays)


def more_certain(facts, arrays):
    arrays["0.certificate"][0] *= 1.01


def less_private(facts, arrays):
    arrays["0.rays"][0] = np.eye(4)[0]


def negative(facts, arrays):
    arrays["0.weights"][0] *= -1


def endless(facts, arrays):
    arrays["state.start_w"][0] = np.nan


def at_an_end(facts, arrays):
    arrays["state.start_z"][0] = 0.0


def shorter(facts, arrays):
    arrays["state.start_y"] = arrays["state.start_y"][:-1]


def absent(facts, arrays):
    del arrays["1.rays"]


def too_many(facts, arrays):
    facts["done"] = 200


def below_none(facts, arrays):
    facts["done"] = -1


FORGED = [more_certain, less_private, negative, endless, at_an_end, shorter, absent]


@pytest.mark.parametrize("change", [*FORGED, too_many, below_none])
def test_levels_that_are_none_are_refused(change, tmp_path):
    path = tmp_path / "bound.checkpoint"
    interrupted(path, 2, delta=0.8)
    forge(path, change)
    with pytest.raises(DamagedCheckpoint, match=r"^[^\n]*; remove it to begin again$"):
        bound(path, delta=0.8)


def better_bound(facts, arrays):
    arrays["0.numbers"][1] *= 1.5


def other_noise(facts, arrays):
    arrays["0.numbers"][:] *= 0.9


def truth(facts, arrays):
    arrays["0.P"] = np.eye(4)


def no_columns(facts, arrays):
    arrays["0.P"] = arrays["0.P"] * 0.5


@pytest.mark.parametrize("change", [better_bound, other_noise, truth, no_columns])
def test_epsilons_that_are_none_are_refused(change, tmp_path):
    path = tmp_path / "bound.checkpoint"
    interrupted(path, 2, epsilon=EPSILONS)
    forge(path, change)
    with pytest.raises(DamagedCheckpoint, match=r"its design within epsilon of 0\.5 is none"):
        bound(path, epsilon=EPSILONS)


def test_a_design_without_a_matrix_is_kept_without_one(tmp_path):
    problem = Problem(np.full(30, 1 / 30), 1_000)
    path = tmp_path / "bound.checkpoint"
    best = best_within(problem, [1.0], checkpoint=path)[1.0]
    again = best_within(problem, [1.0], checkpoint=path)[1.0]
    assert best.P is None
    assert again.P is None
    assert (again.noise, again.bound) == (best.noise, best.bound)


def test_a_solver_goes_on_where_it_left_it_to_the_cone_solver():
    problem = Problem(PRIOR, 1_000, 0.8)
    solver = Guesses(problem)
    solver.begin_from({"failed": np.array([1])})
    assert solver.state() == {"failed": np.array([1])}


def test_what_is_no_file_is_refused_before_anything_is_solved(tmp_path):
    with pytest.raises(pp.InputError, match="this is a folder"):
        bound(tmp_path, lambda done, whole: pytest.fail("solved"), delta=0.8)
    with pytest.raises(pp.InputError, match="there is no folder"):
        bound(tmp_path / "none" / "file", lambda done, whole: pytest.fail("solved"), delta=0.8)
