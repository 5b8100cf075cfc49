"""One report on several attributes: certificates, known optima, and what reports alone need."""

import math
from itertools import combinations

import numpy as np
import pandas as pd
import pytest
import xarray as xr

import ppdm_dask as pp
from ppdm_dask.designs import RRMatrix
from ppdm_dask.errors import InputError
from ppdm_dask.search.cones import Epsilon, Guess, Posterior, breach
from ppdm_dask.search.joint_cones import EpsilonEach, GuessEach, margins_of
from ppdm_dask.search.optimum import optimum

SHAPES = [(2, 2), (2, 3), (3, 3), (2, 2, 2)]


def law(table):
    table = np.asarray(table)
    names = "abcd"[: table.ndim]
    return xr.DataArray(
        table, {n: [f"{n}{i}" for i in range(k)] for n, k in zip(names, table.shape, strict=True)}
    )


def correlated(shape, seed):
    """A joint law whose attributes tell of each other."""
    rng = np.random.default_rng(seed)
    table = rng.dirichlet(np.full(math.prod(shape), 0.8)).reshape(shape) + 0.01
    return law(table / table.sum())


def variance_of_margins(design, prior):
    """Of one report's estimates by the design's own left inverse."""
    p, P, B = prior.to_numpy().ravel(), design.matrix(), design.left_inverse()
    np.testing.assert_allclose(B @ P, np.eye(p.size), atol=1e-6)
    L = np.concatenate(margins_of(prior.shape)) @ B
    return float(((L**2) @ (P @ p) - (L @ P @ p) ** 2).sum())


def successes_of(P, prior):
    p = prior.to_numpy().ravel()
    return [float((P * p @ m.T).max(axis=1).sum()) for m in margins_of(prior.shape)]


def worst_of(P, prior):
    joint = P * prior.to_numpy().ravel()
    return [
        float((joint @ m.T / joint.sum(axis=1, keepdims=True)).max())
        for m in margins_of(prior.shape)
    ]


def own_limits(prior, cones):
    margins = [m @ prior.to_numpy().ravel() for m in margins_of(prior.shape)]
    return sum(optimum(p, cone).bound for p, cone in zip(margins, cones, strict=True))


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("seed", range(3))
def test_at_the_privacy_of_designs_alone_margins_are_never_worse(shape, seed):
    prior, rng = correlated(shape, seed), np.random.default_rng(seed)
    alone = []
    for name, k in zip(prior.dims, shape, strict=True):
        stay = rng.uniform(1 / k + 0.1, 0.95)
        P = np.full((k, k), (1 - stay) / (k - 1))
        np.fill_diagonal(P, stay)
        alone.append(RRMatrix(name, P, categories=list(prior[name].values)))
    found = pp.joint_design(prior, like=alone)
    product = alone[0].matrix()
    for each in alone[1:]:
        product = np.kron(product, each.matrix())
    P = found.design.matrix()
    assert max(np.subtract(successes_of(P, prior), successes_of(product, prior))) < 1e-9
    assert max(np.subtract(worst_of(P, prior), worst_of(product, prior))) < 1e-7
    # Of square matrices, whose inverses are unique, the noise of margins is a sum.
    margins = [m @ prior.to_numpy().ravel() for m in margins_of(shape)]
    own = sum(
        float((np.linalg.inv(d.matrix()) ** 2 @ (d.matrix() @ p) - p**2).sum())
        for d, p in zip(alone, margins, strict=True)
    )
    assert found.alone == pytest.approx(own, rel=1e-9)
    assert found.noise <= found.alone * (1 + 1e-9)
    assert found.gap < 1e-6
    assert variance_of_margins(found.design, prior) == pytest.approx(found.noise, rel=1e-6)
    cones = [
        Guess(min(1.0, w * (1 + 1e-9)), success=s * (1 + 1e-9))
        for w, s in zip(worst_of(product, prior), successes_of(product, prior), strict=True)
    ]
    assert found.noise >= own_limits(prior, cones) * (1 - 1e-8)


@pytest.mark.parametrize("shape", [(2, 2), (2, 3), (2, 2, 2)])
def test_independent_attributes_are_best_disguised_alone(shape):
    """Then the other reports tell nothing, and the sum of the limits is attained."""
    rng = np.random.default_rng(5)
    margins = [rng.dirichlet(np.full(k, 3.0)) for k in shape]
    table = margins[0]
    for p in margins[1:]:
        table = np.multiply.outer(table, p)
    prior = law(table)
    privacy = {n: 0.6 * (1 - p.max()) for n, p in zip(prior.dims, margins, strict=True)}
    posterior = {n: 0.3 * p.max() + 0.7 for n, p in zip(prior.dims, margins, strict=True)}
    epsilon = {n: 0.7 + 0.3 * i for i, n in enumerate(prior.dims)}
    guesses = [Guess(1.0, success=1 - s) for s in privacy.values()]
    for stated, cones in (
        ({"privacy": privacy}, guesses),
        ({"max_posterior": posterior}, [Posterior(d) for d in posterior.values()]),
        ({"epsilon": epsilon}, [Epsilon(e) for e in epsilon.values()]),
    ):
        found = pp.joint_design(prior, **stated)
        assert found.noise == pytest.approx(own_limits(prior, cones), rel=1e-6)
        assert found.gap < 1e-6


def test_of_equal_attributes_one_report_serves_both():
    """Nearly always equal: both margins from the best report on one attribute, at its privacy."""
    table = np.array([[0.3, 1e-6], [1e-6, 0.7 - 2e-6]])
    prior = law(table / table.sum())
    found = pp.joint_design(prior, privacy={"a": 0.2, "b": 0.2})
    once = optimum(np.array([0.3, 0.7]), Guess(1.0, success=0.8)).noise
    assert found.noise == pytest.approx(2 * once, rel=1e-3)


def within(cone, P, prior):
    """A matrix made as private as is asked for by mixing with what tells nothing."""
    p = prior.to_numpy().ravel()
    even = np.outer(P @ p, np.ones(p.size))
    low, high = 0.0, 1.0
    for _ in range(40):
        share = (low + high) / 2
        kept = breach(cone, share * P + (1 - share) * even, p) <= 0
        low, high = (share, high) if kept else (low, share)
    return low * P + (1 - low) * even


@pytest.mark.slow
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("aim", ["margins", "pairs", "cells"])
def test_no_random_design_is_below_the_certificate(shape, aim):
    prior, rng = correlated(shape, 11), np.random.default_rng(3)
    p, n = prior.to_numpy().ravel(), math.prod(shape)
    largest = [float((m @ p).max()) for m in margins_of(shape)]
    half = tuple(0.5 + 0.5 * each for each in largest)
    each = dict(zip(prior.dims, half, strict=True))
    for stated, cone in (
        ({"epsilon": 1.5}, Epsilon(1.5)),
        ({"max_posterior": each}, GuessEach(shape, half)),
        (
            {"privacy": {name: 1 - value for name, value in each.items()}},
            GuessEach(shape, (1.0,) * len(shape), half),
        ),
        (
            {"epsilon": dict.fromkeys(prior.dims, 1.2)},
            EpsilonEach(shape, (1.2,) * len(shape)),
        ),
    ):
        found = pp.joint_design(prior, aim=aim, **stated)
        assert found.gap < 1e-4
        assert breach(cone, found.design.matrix(), p) < 1e-9
        margins = margins_of(shape)
        L = {
            "margins": np.concatenate(margins),
            "cells": np.eye(n),
            "pairs": np.array([a * b for x, y in combinations(margins, 2) for a in x for b in y]),
        }[aim]
        for _ in range(20):
            P = within(cone, rng.dirichlet(np.full(n, 0.3), n).T, prior)
            assert breach(cone, P, p) < 1e-9
            reports = P @ p
            J = (P.T / reports) @ P
            with np.errstate(all="ignore"):
                noise = np.trace(L @ np.linalg.inv(J) @ L.T) - ((L @ p) ** 2).sum()
            assert noise >= found.bound * (1 - 1e-6)


def test_of_the_record_it_is_the_known_optimum_of_the_joint_table():
    prior = correlated((2, 3), 7)
    p = prior.to_numpy().ravel()
    for stated, cone in (
        ({"epsilon": 1.0}, Epsilon(1.0)),
        ({"max_posterior": 0.7}, Posterior(0.7)),
        ({"max_posterior": 0.8, "privacy": 0.3}, Guess(0.8, success=0.7)),
    ):
        found = pp.joint_design(prior, aim="cells", **stated)
        assert found.noise == pytest.approx(optimum(p, cone).noise, rel=1e-8)
    # A pair of two attributes is the joint table.
    assert pp.joint_design(prior, aim="pairs", epsilon=1.0).noise == pytest.approx(
        pp.joint_design(prior, aim="cells", epsilon=1.0).noise, rel=1e-8
    )


def test_an_epsilon_is_shared_as_a_grid_of_shares_shares_it():
    prior = correlated((2, 3), 1)
    margins = [m @ prior.to_numpy().ravel() for m in margins_of((2, 3))]
    found = pp.joint_design(prior, epsilon=1.5)
    grid = [
        sum(optimum(p, Epsilon(e)).noise for p, e in zip(margins, (s, 1.5 - s), strict=True))
        for s in np.linspace(0.1, 1.4, 53)
    ]
    assert found.alone <= min(grid) * (1 + 1e-9)
    assert found.alone >= min(grid) * 0.99
    assert sum(found.epsilons.values()) == pytest.approx(1.5)
    assert 1 < found.ratio < 10


def test_reports_of_the_design_give_the_margins_within_their_errors():
    prior = correlated((2, 3), 2)
    found = pp.joint_design(prior, epsilon=2.0)
    stream = np.random.default_rng(8)
    cells = stream.choice(6, 40_000, p=prior.to_numpy().ravel())
    frame = pd.DataFrame({"a": prior["a"].values[cells // 3], "b": prior["b"].values[cells % 3]})
    book = pp.Codebook.propose(frame)
    design = found.design.in_order({n: list(prior[n].values) for n in prior.dims})
    reports = (
        pp.Reports if False else design.disguise(book.encode(frame), stream=pp.Stream.from_seed(1))
    )
    for name in prior.dims:
        estimate = pp.estimate(reports, over=[name], design=design)
        truth = frame[name].value_counts(normalize=True)
        error = np.asarray(estimate.values) - truth[list(prior[name].values)].to_numpy()
        spread = np.sqrt(found.noise / 40_000)
        assert np.abs(error).max() < 4 * spread


def test_a_front_has_the_designs_of_its_levels():
    prior = correlated((2, 3), 4)
    front = pp.joint_front(prior, 1_000, levels=3)
    assert (front["gain"] >= 1).all()
    assert (front["mse"] >= front["bound"]).all()
    assert (front["mse"] <= front["bound"] * (1 + 1e-6)).all()
    assert (front["privacy"] <= front["privacy_own"] + 1e-12).all()
    margins = [m @ prior.to_numpy().ravel() for m in margins_of((2, 3))]
    alone = []
    for name, p in zip(prior.dims, margins, strict=True):
        made = optimum(p, Guess(1.0, success=float(p.max() + 0.5 * (1 - p.max()))))
        alone.append(RRMatrix(name, made.P, p0=p, categories=list(prior[name].values)))
    found = pp.joint_design(prior, like=alone)
    assert float(front["mse"][1]) == pytest.approx(found.noise / 5_000, rel=1e-6)
    assert float(front["mse_alone"][1]) == pytest.approx(found.alone / 5_000, rel=1e-6)


def test_beyond_eighteen_cells_there_is_the_limit():
    prior = correlated((4, 5), 4)
    front = pp.joint_front(prior, 1_000, levels=2)
    assert np.isnan(front["mse"]).all()
    assert (front["bound"] > 0).all()
    assert (front["bound"] <= front["mse_alone"]).all()
    assert front.attrs["attained"] == 0


def test_tables_of_pandas_are_laws():
    prior = correlated((2, 3), 3)
    series = prior.to_series()
    assert pp.joint_design(series, epsilon=1.0).noise == pytest.approx(
        pp.joint_design(prior, epsilon=1.0).noise
    )


PRIOR = law([[0.4, 0.1], [0.2, 0.3]])


@pytest.mark.parametrize(
    ("prior", "stated", "message"),
    [
        ([[0.5, 0.5]], {"epsilon": 1.0}, "prior: got list; an xarray DataArray"),
        (law([0.5, 0.5]), {"epsilon": 1.0}, "prior: got 1 attributes; 2 or more are needed"),
        (law([[0.5, 0.0], [0.25, 0.25]]), {"epsilon": 1.0}, "prior: a=a0, b=b1 has proportion 0"),
        (law([[0.5, 0.2], [0.25, 0.25]]), {"epsilon": 1.0}, "prior: proportions sum to 1.2"),
        (PRIOR, {}, "epsilon, max_posterior, privacy: give an epsilon"),
        (PRIOR, {"epsilon": 1.0, "privacy": 0.2}, "epsilon, max_posterior, privacy: give"),
        (PRIOR, {"epsilon": {"a": 1.0}}, "epsilon: none for 'b'"),
        (PRIOR, {"epsilon": {"a": 1.0, "c": 1.0}}, "epsilon: 'c' is not in the prior"),
        (PRIOR, {"max_posterior": {"a": 0.4}}, "max_posterior.a.: got 0.4; a number above 0.5"),
        (PRIOR, {"privacy": {"a": 0.6}}, "privacy.a.: got 0.6; a number below 0.5"),
        (PRIOR, {"max_posterior": 0.3}, "max_posterior: got 0.3; a number above"),
        (PRIOR, {"privacy": {"a": -0.1}}, "privacy.a.: got -0.1"),
        (PRIOR, {"epsilon": {"a": 1.0, "b": 50}}, "epsilon.b.: got 50"),
        (PRIOR, {"privacy": 0.2, "max_posterior": {"a": 0.9}}, "give two numbers, for the record"),
        (PRIOR, {"epsilon": 1.0, "aim": "all"}, "aim: got .*margins, pairs, cells or a matrix"),
        (PRIOR, {"epsilon": 1.0, "aim": [[1, 0]]}, r"aim: shape \(1, 2\); a matrix of numbers"),
        (PRIOR, {"like": [RRMatrix("a", np.eye(2))]}, "like: no design for 'b'"),
        (PRIOR, {"like": [RRMatrix("c", np.eye(2))]}, "like: got a design of"),
        (PRIOR, {"like": RRMatrix("a", np.eye(2))}, "like: a list of designs"),
        (
            PRIOR,
            {"like": [RRMatrix("a", np.full((2, 2), 0.5)), RRMatrix("b", np.eye(2))]},
            "like: reports of the design of 'a' do not tell",
        ),
        (PRIOR, {"epsilon": 1.0, "aim": [["x"] * 4]}, "aim: a table of real numbers is needed"),
        (PRIOR, {"epsilon": 1.0, "aim": [[1, 2], [1]]}, "aim: a table of real numbers is needed"),
        (PRIOR, {"epsilon": 1.0, "aim": [[1] * 4]}, "aim: every row is constant"),
        (
            xr.DataArray([["x"] * 2] * 2, PRIOR.coords),
            {"epsilon": 1.0},
            "prior: a table of real numbers is needed",
        ),
        (PRIOR + 0j, {"epsilon": 1.0}, "prior: a table of real numbers is needed"),
        (law([[0.4, 0.6]]), {"epsilon": 1.0}, "prior: 'a' has 1 categories; 2 or more"),
        (
            pd.concat([PRIOR.to_series() / 2, PRIOR.to_series() / 2]),
            {"epsilon": 1.0},
            "prior: a cell is there more than once",
        ),
        (law(np.full((30, 30), 1 / 900)), {"epsilon": 1.0}, "prior: has 900 joint categories"),
    ],
)
def test_bad_input_is_one_line(prior, stated, message):
    with pytest.raises(InputError, match=message) as caught:
        pp.joint_design(prior, **stated)
    assert "\n" not in str(caught.value)


def test_more_cells_than_can_be_solved_are_refused():
    prior = correlated((4, 5), 1)
    with pytest.raises(InputError, match=r"has 20 joint categories.*up to 18"):
        pp.joint_design(prior, privacy=dict.fromkeys(prior.dims, 0.1))
    with pytest.raises(InputError, match=r"has 140 pairs of .*equal epsilons.*up to 64"):
        pp.joint_design(prior, epsilon=dict.fromkeys(prior.dims, 1.0))
    with pytest.raises(InputError, match=r"has 64 pairs.*different epsilons.*up to 60"):
        pp.joint_design(
            correlated((2, 2, 2, 2), 1), epsilon=dict(zip("abcd", (1, 0.9, 0.7, 0.4), strict=True))
        )


@pytest.mark.parametrize(
    "epsilons", [(10.0, 0.05), (0.5, 10.0), (4.0, 10.0), (30.0, 0.001), (30.0, 30.0)]
)
def test_large_and_small_epsilons_of_attributes_are_kept(epsilons):
    """Their ratios are of any size; of independent attributes the limits are attained."""
    first, second = np.array([0.55, 0.45]), np.array([0.2, 0.5, 0.3])
    prior = law(np.outer(first, second))
    found = pp.joint_design(prior, epsilon=dict(zip("ab", epsilons, strict=True)))
    cone = EpsilonEach((2, 3), epsilons)
    assert breach(cone, found.design.matrix(), prior.to_numpy().ravel()) < 1e-9
    limit = own_limits(prior, [Epsilon(each) for each in epsilons])
    assert found.noise == pytest.approx(limit, rel=1e-6)


def test_rays_of_epsilons_connect_all_cells():
    """Of every ray the pairs whose ratio is a bound connect the table, and each is extremal."""
    shape, epsilons = (2, 3), (0.5, 10.0)
    cone = EpsilonEach(shape, epsilons)
    prior = np.full(6, 1 / 6)
    rows = cone.rows(prior)
    assert cone.excess(rows, prior).max() < 1e-9
    bounds = np.where(np.indices((6, 6))[0] // 3 != np.indices((6, 6))[1] // 3, *epsilons)
    near = [[(i // 3 == j // 3) != (i % 3 == j % 3) for j in range(6)] for i in range(6)]
    for row in np.log(rows):
        tight = (np.abs(np.abs(row[:, None] - row) - bounds) < 1e-9) & near
        assert (np.linalg.matrix_power(tight + np.eye(6), 6) > 0).all()


@pytest.mark.parametrize(
    ("table", "stated"),
    [
        ([[0.147767, 2e-6], [2e-6, 0.852229]], {"max_posterior": 0.8537}),
        ([[0.49, 2e-6], [2e-6, 0.509996]], {"max_posterior": {"a": 0.511, "b": 0.6}}),
    ],
)
def test_rare_cells_at_nearly_no_information(table, stated):
    prior = law(table)
    found = pp.joint_design(prior, **stated)
    assert found.gap < 1e-4
    P, p = found.design.matrix(), prior.to_numpy().ravel()
    each = stated["max_posterior"]
    cone = Posterior(each) if isinstance(each, float) else GuessEach((2, 2), tuple(each.values()))
    assert breach(cone, P, p) < 1e-9


def test_many_even_categories_have_a_limit_too():
    """Designs of many exchangeable categories are not written out where parts are enough."""
    shape = (20, 2)
    prior = law(np.full(shape, 1 / 40))
    front = pp.joint_front(prior, 1_000, levels=1)
    # Even attributes are independent, so that disguising each alone is best.
    assert float(front["mse_alone"][0]) == pytest.approx(float(front["bound"][0]), rel=1e-6)
