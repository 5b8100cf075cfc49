"""Extremal rays of cones against closed forms and against every choice of tight inequalities."""

from itertools import combinations

import numpy as np
import pytest

from ppdm_dask.errors import InputError
from ppdm_dask.kernels.facets import adjacent
from ppdm_dask.search.facets import MOST_FACETS, extremal_rays


def sorted_rows(rows):
    rows = np.round(rows / np.abs(rows).max(axis=1, keepdims=True), 7) + 0.0
    return np.unique(rows, axis=0)


def every_choice(facets):
    """Lines on which dim - 1 inequalities are tight, where they are in the cone."""
    dim, found = facets.shape[1], []
    for chosen in combinations(range(len(facets)), dim - 1):
        some = facets[list(chosen)]
        if np.linalg.matrix_rank(some) < dim - 1:
            continue
        line = np.linalg.svd(some)[2][-1]
        for ray in (line, -line):
            if (facets @ ray >= -1e-9).all():
                found.append(ray)
    return np.array(found)


@pytest.mark.parametrize("dim", [2, 3, 4, 5])
@pytest.mark.parametrize("seed", range(3))
def test_rays_are_those_of_every_choice_of_tight_inequalities(dim, seed):
    rng = np.random.default_rng(seed)
    # All inequalities hold strictly at one point: the cone is full.
    facets = rng.normal(size=(dim + 5, dim))
    facets *= np.sign(facets @ np.ones(dim))[:, None]
    found = extremal_rays(facets)
    assert len(found) == len(sorted_rows(found))
    np.testing.assert_allclose(sorted_rows(found), sorted_rows(every_choice(facets)), atol=1e-6)


@pytest.mark.parametrize("dim", [2, 3, 4, 5, 6])
def test_cubes_and_their_duals(dim):
    cube = np.vstack([np.eye(dim), -np.eye(dim)])
    corners = extremal_rays(np.column_stack([cube, np.ones(2 * dim)]))
    assert len(corners) == 2**dim
    signs = np.array(np.meshgrid(*[[-1.0, 1.0]] * dim)).reshape(dim, -1).T
    if len(signs) <= MOST_FACETS:
        assert len(extremal_rays(np.column_stack([signs, np.ones(len(signs))]))) == 2 * dim


@pytest.mark.parametrize(("n", "several"), [(2, 2), (3, 6), (4, 24)])
def test_doubly_stochastic_matrices_are_spanned_by_permutations(n, several):
    """Birkhoff and von Neumann: rows and columns of equal sum, as inequalities both ways."""
    sums = []
    for i in range(n):
        for row in (True, False):
            entries = np.zeros((n, n))
            entries[(i, slice(None)) if row else (slice(None), i)] = 1
            sums.append(np.r_[entries.ravel(), -1.0])
    sums = np.array(sums)
    rays = extremal_rays(np.vstack([np.eye(n * n, n * n + 1), sums, -sums]))
    found = rays[:, :-1]
    assert len(found) == several
    assert set(np.unique(np.round(found, 9))) == {0.0, 1.0}


def test_what_is_no_pointed_cone_is_refused():
    with pytest.raises(InputError, match="facets: rank 2; 3 is needed"):
        extremal_rays(np.array([[1.0, 0, 0], [0, 1, 0], [1, 1, 0]]))
    with pytest.raises(InputError, match="facets: got 65; rays are found for up to 64"):
        extremal_rays(np.ones((65, 2)))


@pytest.mark.parametrize("seed", range(5))
def test_neighbours_are_the_pairs_with_no_third_ray_between(seed):
    rng = np.random.default_rng(seed)
    tight = rng.integers(0, 1 << 9, 40).astype(np.uint64)
    tight |= rng.integers(0, 1 << 9, 40).astype(np.uint64)
    inside, outside = np.arange(0, 15), np.arange(15, 40)
    known = {
        (i, j)
        for i in inside
        for j in outside
        if np.bitwise_count(tight[i] & tight[j]) >= 4
        and (tight & (tight[i] & tight[j]) == tight[i] & tight[j]).sum() == 2
    }
    pairs = np.empty((len(inside) * len(outside), 2), dtype=np.int64)
    several = adjacent(tight, inside, outside, 4, pairs)
    assert {(i, j) for i, j in pairs[:several]} == known and several == len(known)
    # Without room enough it still counts all of them.
    assert adjacent(tight, inside, outside, 4, pairs[:1]) == several
