"""Likelihood of reports maximised over the simplex: closed forms, and an interior-point method."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from ppdm_dask.arrays import Floats
from ppdm_dask.designs.mixture import Mixture
from ppdm_dask.errors import InputError, RecordsError
from ppdm_dask.inference.tables import along_blocks

if TYPE_CHECKING:
    from ppdm_dask.designs.base import Design
    from ppdm_dask.inference.tables import ContingencyTable


STEPS = 200
GAP = 1e-17

MAX_DENSE = 2_048
"""Cells up to which the exact maximum is found with dense matrices."""


def log_likelihood(P: Floats, observed: Floats, p: Floats) -> float:
    """``sum_y observed[y] log (P p)[y]``; minus infinity where an observed report is ruled out."""
    seen = observed > 0
    law = P[seen] @ p
    if (law <= 0).any():
        return -np.inf
    return float(observed[seen] @ np.log(law))


def maximise(P: Floats, observed: Floats, A: Floats, p: Floats) -> tuple[Floats, int]:
    """Maximise the likelihood over ``p >= 0`` with ``A p`` kept as it is at the start.

    A primal-dual path of Newton steps, each shortened until the barrier function falls, and Newton
    steps on the categories that are not at 0 to end with.

    Parameters
    ----------
    P : array, shape (reported symbols, categories)
    observed : array, shape (reported symbols,)
        Proportions of the reports.
    A : array, shape (constraints, categories)
        Of full row rank; its rows span 1.
    p : array, shape (categories,)
        Positive start.

    Returns
    -------
    p, steps
    """
    seen = observed > 0
    P, f = P[seen], observed[seen]
    z = np.ones_like(p)
    steps = 0
    while steps < STEPS and float(p @ z) >= GAP * p.size:
        steps += 1
        gap = float(p @ z)
        barrier = 0.1 * gap / p.size
        gradient, hessian = _derivatives(P, f, p)
        dp, _ = _newton(hessian + np.diag(z / p), A, barrier / p - gradient)
        dz = barrier / p - z - z / p * dp
        step = min(1.0, 0.995 / max(float((-dp / p).max()), 1e-300))
        value = _barrier(P, f, p, barrier)
        slope = float((gradient - barrier / p) @ dp)
        while step > 1e-10 and not _barrier(P, f, p + step * dp, barrier) <= (
            value + 1e-4 * step * slope + 1e-15 * abs(value)
        ):
            step /= 2
        if step <= 1e-10:
            break
        p = p + step * dp
        z = z + min(1.0, 0.995 / max(float((-dz / z).max()), 1e-300)) * dz
    return _polish(P, f, A, p, z), steps


def _derivatives(P: Floats, f: Floats, p: Floats) -> tuple[Floats, Floats]:
    """Gradient and Hessian of minus the log likelihood."""
    law = P @ p
    return -P.T @ (f / law), P.T @ ((f / law**2)[:, None] * P)


def _newton(hessian: Floats, A: Floats, right: Floats) -> tuple[Floats, Floats]:
    """Step in the null space of A, and multipliers: [H A'; A 0] [dp; y] = [right; 0].

    The shortest one where the likelihood is flat, as few reports leave it.
    """
    m, k = A.shape
    system = np.zeros((k + m, k + m))
    system[:k, :k], system[:k, k:], system[k:, :k] = hessian, A.T, A
    target = np.concatenate([right, np.zeros(m)])
    try:
        solution = np.linalg.solve(system, target)
    except np.linalg.LinAlgError:
        solution = np.linalg.lstsq(system, target, rcond=None)[0]
    return solution[:k], solution[k:]


def _barrier(P: Floats, f: Floats, p: Floats, barrier: float) -> float:
    law = P @ p
    if (p <= 0).any() or (law <= 0).any():
        return np.inf
    return float(-f @ np.log(law) - barrier * np.log(p).sum())


def _polish(P: Floats, f: Floats, A: Floats, p: Floats, z: Floats) -> Floats:
    """Newton's method on the categories above 0, kept if it ends at a maximum."""
    free = p > z
    rank = np.linalg.matrix_rank(A[:, free]) if free.any() else 0
    constraint = A[:, free]
    if rank < len(A):
        # A constraint whose categories are all at 0 holds by itself.
        constraint = constraint[np.abs(constraint).sum(axis=1) > 0]
    trial = np.where(free, p, 0.0)
    trial[free] += np.linalg.pinv(A[:, free]) @ (A @ p - A @ trial)
    multipliers = np.zeros(len(constraint))
    for _ in range(4):
        if (P @ trial <= 0).any():
            return p
        gradient, hessian = _derivatives(P, f, trial)
        try:
            step, multipliers = _newton(hessian[np.ix_(free, free)], constraint, -gradient[free])
        except np.linalg.LinAlgError:
            return p
        trial[free] += step
    if not np.isfinite(trial).all() or (trial < 0).any() or (P @ trial <= 0).any():
        return p
    if len(constraint) == len(A):
        slack = _derivatives(P, f, trial)[0] + A.T @ multipliers
        if slack[~free].min(initial=0.0) < -1e-9:
            return p
    better = f @ np.log(P @ trial) >= f @ np.log(P @ p) - 1e-13
    return trial if better else p


def channel(table: ContingencyTable, design: Design) -> Floats:
    """P from the true cells of a table to the reported ones, densely."""
    return _channel(table.codebook.shape, table.attributes, design)


def _channel(shape: tuple[int, ...], names: tuple[str, ...], design: Design) -> Floats:
    k = math.prod(shape)
    identity = np.eye(k).reshape(*shape, k)
    return along_blocks(identity, names, design, "apply").reshape(-1, k)


def require_possible(observed: Floats, law: Floats) -> None:
    """Raise RecordsError where reports were seen that a law rules out."""
    if (law[observed > 0] <= 0).any():
        raise RecordsError("the table holds reports that the design cannot make", observed)


def maximum(table: ContingencyTable, design: Design) -> tuple[Floats, int]:
    """Where the likelihood of a checked table is greatest, and the steps to get there.

    Raises
    ------
    InputError, RecordsError
        As :func:`mle`.
    """
    shape, observed = table.codebook.shape, table.counts / table.n
    return maximum_of_shares(observed, table.attributes, shape, design)


def maximum_of_shares(
    observed: Floats, names: tuple[str, ...], shape: tuple[int, ...], design: Design
) -> tuple[Floats, int]:
    """The same of reported shares, along axes of some names; shape is that of the truth."""
    if observed.shape == shape:
        p = along_blocks(observed, names, design, "invert")
        if (p >= 0).all():
            return p, 0
    block = whole_mixture(design, names)
    if block is not None:
        order = [names.index(name) for name in block.attributes]
        level = _water_level(block, observed.transpose(order).ravel())
        return level.reshape([shape[i] for i in order]).transpose(np.argsort(order)), 0
    k = math.prod(shape)
    if max(k, observed.size) > MAX_DENSE:
        raise InputError(
            f"mle: {observed.size} reported cells are too many for the exact maximum (at most "
            f"{MAX_DENSE}); em needs no matrix",
            observed.size,
        )
    P = _channel(shape, names, design)
    start = np.full(k, 1 / k)
    require_possible(observed.ravel(), P @ start)
    p, steps = maximise(P, observed.ravel(), np.ones((1, k)), start)
    return p.reshape(shape), steps


def whole_mixture(design: Design, names: tuple[str, ...]) -> Mixture | None:
    """The single mixture behind all axes of a table, if it keeps the truth more often than not."""
    touched = [block for block in design.blocks if any(n in names for n in block.attributes)]
    if len(touched) != 1:
        return None
    part = touched[0].marginal([n for n in touched[0].attributes if n in names])
    if isinstance(part, Mixture) and part.mixing > 0 and set(part.attributes) == set(names):
        return part
    return None


def _water_level(block: Mixture, observed: Floats) -> Floats:
    """Maximum for P = q I + c 1^T: p = max(0, f / nu - c / q), with nu such that it sums to 1."""
    q = block.mixing
    c = (1 - q) * block.unrelated / q
    with np.errstate(divide="ignore", invalid="ignore"):
        rank = np.where(observed > 0, observed / c, 0.0)
    order = np.argsort(-rank, kind="stable")
    f, low = np.cumsum(observed[order]), np.cumsum(c[order])
    nu = f / (1 + low)
    # The categories above the level are those whose f / c exceeds nu.
    count = int(np.flatnonzero(rank[order] > nu)[-1]) + 1
    p = np.zeros_like(observed)
    kept = order[:count]
    p[kept] = np.maximum(observed[kept] / nu[count - 1] - c[kept], 0.0)
    result: Floats = p / p.sum()
    return result
