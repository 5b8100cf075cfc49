"""Objectives of stacks, and the repair: held to the package's own measures and to plain sums."""

from __future__ import annotations

import math
import pickle

import numpy as np
import pytest
from search_priors import PRIORS, random_matrices

from ppdm_dask import InputError, RRMatrix
from ppdm_dask.search.problem import Problem, evaluate, infeasible, meet_bound

RNG = np.random.default_rng(5)


@pytest.mark.parametrize("prior", PRIORS.values(), ids=PRIORS)
@pytest.mark.parametrize("symbols", [10, 13])
def test_objectives_are_those_of_the_designs(prior, symbols):
    problem = Problem(prior, 10_000)
    stack = random_matrices(np.random.default_rng(1), 20, 10, symbols)
    found = evaluate(problem, stack)
    for i, P in enumerate(stack):
        design = RRMatrix("x", P, p0=None if symbols == 10 else prior)
        assert found.privacy[i] == pytest.approx(design.privacy(prior), abs=1e-14)
        assert found.worst[i] == pytest.approx(design.max_posterior(prior), rel=1e-14)
        # MSE of the estimate: sum_y B[x, y]^2 s_y - p_x^2 over N, averaged over x.
        second = design.invert_squared(P @ prior)
        mse = (second - prior**2).mean() / 10_000
        assert found.mse[i] == pytest.approx(mse, rel=1e-8)


def test_mse_of_theorem_6_for_warner():
    found = evaluate(Problem([0.3, 0.7], 1_000), [[0.8, 0.2], [0.2, 0.8]])
    B = np.linalg.inv([[0.8, 0.2], [0.2, 0.8]])
    s = np.array([[0.8, 0.2], [0.2, 0.8]]) @ [0.3, 0.7]
    covariance = (np.diag(s) - np.outer(s, s)) / 1_000
    assert found.mse[0] == pytest.approx((B @ covariance @ B.T)[0, 0], rel=1e-12)
    assert f"{found.mse[0]:.3e}" == "6.544e-04"


def test_a_matrix_without_inverse_has_infinite_error():
    problem = Problem([0.5, 0.3, 0.2], 100)
    flat = np.full((3, 3), 1 / 3)
    tall = np.full((5, 3), 1 / 5)
    assert evaluate(problem, flat).mse[0] == math.inf
    assert evaluate(problem, tall).mse[0] == math.inf


def test_symbols_that_cannot_occur_change_nothing():
    problem = Problem([0.5, 0.3, 0.2], 100)
    P = random_matrices(RNG, 1, 3)[0]
    padded = np.concatenate([P, np.zeros((2, 3))])
    one, other = evaluate(problem, P), evaluate(problem, padded)
    assert one.mse[0] == pytest.approx(other.mse[0], rel=1e-9)
    assert one.worst[0] == other.worst[0]


@pytest.mark.parametrize("prior", PRIORS.values(), ids=PRIORS)
@pytest.mark.parametrize("delta", [0.4, 0.75, 0.95])
@pytest.mark.parametrize("sweeps", [0, 1, 25])
def test_repair_holds_the_bound(prior, delta, sweeps):
    problem = Problem(prior, 10_000, delta)
    P = np.concatenate(
        [
            random_matrices(np.random.default_rng(2), 300, 10),
            np.eye(10)[None],
            np.eye(10)[None, ::-1],
            np.repeat(np.eye(10)[:, :1], 10, axis=1)[None],
        ]
    )
    before = P.copy()
    meet_bound(problem, P, sweeps)
    assert (evaluate(problem, P).worst <= delta * (1 + 1e-11)).all()
    np.testing.assert_allclose(P.sum(axis=1), 1, atol=1e-14)
    assert P.min() >= 0 and P.max() <= 1
    fine = evaluate(problem, before).worst <= delta
    np.testing.assert_allclose(P[fine], before[fine], atol=1e-15)


def test_repair_lowers_the_entry_that_is_too_large():
    # One sweep on a column: the entry goes to where its posterior is delta, as in section V-G.
    problem = Problem([0.5, 0.5], 100, 0.8)
    P = np.array([[[0.9, 0.1], [0.1, 0.9]]])
    meet_bound(problem, P)
    assert evaluate(problem, P).worst[0] == pytest.approx(0.8, rel=1e-9)
    assert P[0, 0, 0] < 0.9 and P[0, 1, 0] > 0.1


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (
            ([0.5, 0.3, 0.2], 100, 0.4),
            r"^delta: got 0.4; a number above .* 0.5, by 0.0001 or more is needed$",
        ),
        (([0.5, 0.5], 100, 0.5), r"^delta: got 0.5; a number above"),
        (([0.5, 0.5], 100, 1.5), r"^delta: got 1.5; a number in \(0, 1\]"),
        (([0.5, 0.4], 100), r"^prior: got a sum of 0.9; .* sum to 1"),
        (([0.5, 0.5, 0.0], 100), r"^prior: category 2 has proportion 0; leave out"),
        (([1.0], 100), r"^prior: got shape \(1,\); 2 or more categories"),
        (([0.5, float("nan")], 100), r"^prior: got a sum of nan"),
        (("ab", 100), r"^prior: got 'ab'; proportions are needed"),
        (([0.5, 0.5], 0), r"^n_records: got 0; a whole number of 1 or more"),
        (([0.5, 0.5], 1.5), r"^n_records: got 1.5"),
    ],
)
def test_bad_problems_are_one_clear_line(arguments, says):
    with pytest.raises(InputError, match=says) as caught:
        Problem(*arguments)
    assert "\n" not in str(caught.value)


def test_infeasible_gives_the_reason():
    assert "below the most frequent" in infeasible([0.9, 0.1], 0.75)
    assert infeasible([0.6, 0.4], 0.75) == ""


def test_matrices_of_another_size_are_refused():
    with pytest.raises(InputError, match="matrices with 2 columns are needed"):
        evaluate(Problem([0.5, 0.5], 10), np.eye(3))


def test_a_problem_survives_pickling():
    problem = pickle.loads(pickle.dumps(Problem([0.3, 0.7], 10, 0.9)))
    assert (problem.prior.tolist(), problem.n_records, problem.delta) == ([0.3, 0.7], 10, 0.9)
    assert not problem.prior.flags.writeable
