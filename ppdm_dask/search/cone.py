"""The dual of the optimal design as a second-order cone program, solved by Clarabel."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ppdm_dask.arrays import Floats
from ppdm_dask.errors import PPDMError

__all__ = ["Dual", "Solution", "run_solver", "solve_dual"]


ATTEMPTS = ((1.0, 1e-10), (1.7, 1e-10), (0.6, 1e-9), (3.0, 1e-8))
"""Unit of the problem and tolerance, tried in turn where the solver breaks down.  What comes out
is certified afterwards, whatever the solver says of it."""


class Dual(NamedTuple):
    """Solution for a set of rays."""

    Y: Floats
    nu: Floats
    mu: float
    weights: Floats
    trace: float


def solve_dual(u: Floats, rays: Floats, prior: Floats, loss: float, scale: float) -> Dual:
    """Maximise ``2 tr Y - nu^T p - mu a`` with ``|Y u_k|^2 <= nu^T r_k + mu`` for all k.

    The multipliers of the constraints are the weights of the rays in the design.

    Parameters
    ----------
    u, rays : arrays, shape (rays, n)
    prior : array, shape (n,)
    loss : float
        Level a.
    scale : float
        About tr J^-1; the problem is solved in this unit.

    Raises
    ------
    PPDMError
        If the solver does not end well.
    """
    for factor, tolerance in ATTEMPTS:
        found = _attempt(u, rays, prior, loss, scale * factor, tolerance)
        if found is not None:
            return found
    raise PPDMError(f"the cone solver gave up at level {loss:g}", loss)


def _attempt(
    u: Floats, rays: Floats, prior: Floats, loss: float, scale: float, tolerance: float
) -> Dual | None:
    m, n = rays.shape
    v = u * np.sqrt(scale)
    rows, cols = np.triu_indices(n)
    n_Y = len(rows)
    # Each cone: (h + 1, h - 1, 2 Y v) with h = nu^T r + mu, so that |Y v|^2 <= h.
    A = np.zeros((m, n + 2, n_Y + n + 1))
    A[:, :2, n_Y : n_Y + n] = -rays[:, None, :]
    A[:, :2, -1] = -1.0
    for j, (i, k) in enumerate(zip(rows, cols, strict=True)):
        A[:, 2 + i, j] = -2.0 * v[:, k]
        A[:, 2 + k, j] = -2.0 * v[:, i]
    b = np.zeros((m, n + 2))
    b[:, 0], b[:, 1] = 1.0, -1.0
    last = np.zeros((1, A.shape[2]))
    last[0, -1] = -1.0
    q = np.concatenate([np.where(rows == cols, -2.0, 0.0), prior, [loss]])
    found = run_solver(
        np.vstack([A.reshape(m * (n + 2), -1), last]),
        np.append(b.ravel(), 0.0),
        q,
        [n + 2] * m,
        tolerance,
    )
    if found is None:
        return None
    x = found.x
    Y = np.zeros((n, n))
    Y[rows, cols] = Y[cols, rows] = x[:n_Y]
    z = found.z[:-1].reshape(m, n + 2)
    weights = z[:, 0] + z[:, 1]
    # Back in the caller's unit: Y v = (sqrt(scale) Y) u, and all of it times sqrt(scale) again.
    return Dual(
        Y * scale,
        x[n_Y : n_Y + n] * scale,
        max(float(x[-1]), 0.0) * scale,
        np.maximum(weights, 0.0),
        -found.value * scale,
    )


class Solution(NamedTuple):
    """Variables, multipliers of the constraints, and the objective."""

    x: Floats
    z: Floats
    value: float


def run_solver(
    A: Floats, b: Floats, cost: Floats, cones: Sequence[int], tolerance: float
) -> Solution | None:
    """Minimise ``cost^T x`` with ``b - A x`` in cones; None where the solver does not end well.

    Parameters
    ----------
    A : array, shape (rows, variables)
    b : array, shape (rows,)
    cost : array, shape (variables,)
    cones : sequence of int
        Sizes of the second-order cones; the last row is one of a number of 0 or more.
    tolerance : float
        Of the gap and of feasibility.
    """
    import clarabel
    from scipy import sparse

    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.max_threads = 1
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = tolerance
    found = clarabel.DefaultSolver(
        sparse.csc_matrix((len(cost), len(cost))),
        cost,
        sparse.csc_matrix(A),
        b,
        [*map(clarabel.SecondOrderConeT, cones), clarabel.NonnegativeConeT(1)],
        settings,
    ).solve()
    if str(found.status) not in ("Solved", "AlmostSolved", "InsufficientProgress"):
        return None
    return Solution(np.array(found.x), np.array(found.z), float(found.obj_val))
