"""Search for matrices, and the front as a labelled dataset."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ppdm_dask.errors import InputError
from ppdm_dask.randomness import SimulationStream
from ppdm_dask.search.limit import Limit
from ppdm_dask.search.methods import (
    METHODS,
    Found,
    Progress,
    evolve,
    levels_with,
    optimal_designs,
    refine,
    settings_for,
)
from ppdm_dask.search.problem import Problem
from ppdm_dask.search.rays import listable

if TYPE_CHECKING:
    import xarray as xr

    from ppdm_dask.designs import RRMatrix

__all__ = ["choose", "chosen_design", "optimize"]


def optimize(
    prior: npt.ArrayLike,
    n_records: int,
    delta: float = 1.0,
    *,
    method: str = "memetic",
    symbols: int | None = None,
    seed: int = 0,
    generations: int | None = None,
    patience: int | None = None,
    privacy: float | None = None,
    categories: Sequence[str] | None = None,
    checkpoint: str | Path | None = None,
    progress: Progress | None = None,
    map: Callable[..., Any] | None = None,
) -> xr.Dataset:
    """Randomization matrices with the best trade-off between privacy and error.

    Parameters
    ----------
    prior : array_like, shape (n,)
        Proportions of the true categories, all positive.
    n_records : int
        Reports from which proportions will be estimated.
    delta : float
        Largest posterior P(x | y) allowed, above max p.  Eq. (9) of [HuangDu]_.
    method : {"memetic", "spea2", "bound"}
        The paper's evolution with gradient polish; the paper's algorithm; or the designs that
        attain the certified limit, with as many reported symbols as they need.
    symbols : int, optional
        Reported symbols: n by default, for ``"bound"`` as many as the optimum takes (then an upper
        limit).
    seed : int
        The same seed, the same matrices.
    generations, patience : int, optional
        20,000 for ``"spea2"`` and 3,000 for ``"memetic"``; and stop after so many generations that
        find nothing better.
    privacy : float, optional
        A privacy for which a matrix is wanted: one more level to polish or solve for.
    categories : sequence of str, optional
        Labels of the categories.
    checkpoint : path, optional
        ``"spea2"`` and ``"memetic"``: a file to go on from after an interruption.
    progress : callable, optional
        Called with what is done and what there is.
    map : callable, optional
        ``"spea2"`` alone: how parts of a population are evaluated, in place of the built-in.

    Returns
    -------
    xarray.Dataset
        Along ``point``, by falling privacy: ``privacy``, ``worst`` (posterior), ``mse``, ``bound``
        (certified: no design has a smaller MSE at that privacy) and ``matrix`` with dimensions
        ``point``, ``reported``, ``true``, whose columns sum to 1.  Its attributes hold the
        hypervolume ratio and the median of MSE / bound over 98 levels, and ``attained``: whether
        designs attain the bound, as up to 18 categories, or it may lie lower than what is possible.

    Raises
    ------
    InputError
        One line: parameter, value, and what would be right.

    Examples
    --------
    >>> import ppdm_dask as pp
    >>> front = pp.optimize([0.3, 0.7], n_records=1000, method="bound", privacy=0.2)
    >>> design = pp.chosen_design(front, "answer", privacy=0.2)
    >>> f"{design.privacy([0.3, 0.7]):.3f}"
    '0.200'
    """
    if method not in METHODS:
        raise InputError(f"method: got {method!r}; one of {', '.join(METHODS)} is needed", method)
    if method != "spea2" and map is not None:
        raise InputError(f"map: {method!r} has none; 'spea2' has", method)
    if method == "bound" and any(v is not None for v in (generations, patience, checkpoint)):
        raise InputError("generations, patience, checkpoint: 'bound' has none", method)
    problem = Problem(prior, n_records, delta)
    labels = list(map_labels(categories, problem.n))
    stream = SimulationStream(seed)
    at = levels_with(problem, privacy)
    settings = settings_for(method, generations=generations, patience=patience, symbols=symbols)
    path = None if checkpoint is None else Path(checkpoint)
    if method == "bound" and not listable(problem.n, problem.delta):
        raise InputError(
            f"method: 'bound' lists all subsets of up to 18 categories, the prior has {problem.n}; "
            "'memetic' and 'spea2' are shown beside a certified limit for any number",
            method,
        )
    limit = Limit.compute(problem, at)
    if method == "bound":
        found = optimal_designs(limit, stream, symbols)
    elif method == "memetic":
        found = refine(
            problem, settings, stream, at=at, limit=limit, checkpoint=path, progress=progress
        )
    else:
        found = evolve(problem, settings, stream, checkpoint=path, progress=progress, mapper=map)
    return _dataset(problem, found, limit, labels, {"method": method, "seed": seed})


def map_labels(categories: Sequence[str] | None, n: int) -> Sequence[str]:
    """Labels of the categories, numbers where there are none."""
    if categories is None:
        return [str(i) for i in range(n)]
    if len(categories) != n:
        raise InputError(f"categories: got {len(categories)} labels; {n} are needed", categories)
    return categories


def _dataset(
    problem: Problem,
    found: Found,
    limit: Limit,
    labels: list[str],
    about: dict[str, Any],
) -> xr.Dataset:
    import xarray as xr

    privacy, worst, mse = found.objectives
    loss = 1.0 - privacy
    bound = limit.mse(loss)
    attributes: dict[str, Any] = {
        **about,
        "n_records": problem.n_records,
        "delta": problem.delta,
        "generations": found.generations,
        "attained": json.dumps(limit.attained),
        **limit.summary(loss, mse),
    }
    K = found.P.shape[1]
    variables = {
        "privacy": ("point", privacy, "how often the best guess of an answer is wrong", "1"),
        "worst": ("point", worst, "largest posterior of a true category given a report", "1"),
        "mse": ("point", mse, "average mean squared error of the estimated proportions", "1"),
        "bound": ("point", bound, "certified lower bound on the MSE at this privacy", "1"),
    }
    data: dict[str, Any] = {
        name: (dims, values, {"long_name": doc, "units": units})
        for name, (dims, values, doc, units) in variables.items()
    }
    doc = "probability of a reported symbol given a true category"
    data["matrix"] = (("point", "reported", "true"), found.P, {"long_name": doc, "units": "1"})
    labelled = {"long_name": "proportion of the true category", "units": "1"}
    data["prior"] = ("true", np.array(problem.prior), labelled)
    reported = labels if problem.n == K else [str(i) for i in range(K)]
    return xr.Dataset(data, {"true": labels, "reported": reported}, attributes)


def choose(front: xr.Dataset, *, privacy: float | None = None, mse: float | None = None) -> int:
    """Point of a front: the least MSE with at least a privacy, or the most private up to an MSE.

    Raises
    ------
    InputError
        Where the front has none, or unless exactly one of the two is given.
    """
    if (privacy is None) == (mse is None):
        raise InputError("choose: give either privacy or mse", None)
    privacies, errors = front["privacy"].to_numpy(), front["mse"].to_numpy()
    if privacy is not None:
        there = privacies >= privacy - 1e-9
        if not there.any():
            raise InputError(
                f"privacy: got {privacy:g}; the front goes up to {privacies.max():.4g}", privacy
            )
        return int(np.argmin(np.where(there, errors, np.inf)))
    assert mse is not None
    there = errors <= mse
    if not there.any():
        raise InputError(f"mse: got {mse:g}; the front begins at {errors.min():.3g}", mse)
    return int(np.argmax(np.where(there, privacies, -1.0)))


def chosen_design(
    front: xr.Dataset,
    attribute: str,
    *,
    privacy: float | None = None,
    mse: float | None = None,
) -> RRMatrix:
    """The design of a chosen point, for an attribute; see :func:`choose`.

    A design with more reported symbols than categories is inverted for the front's prior.
    """
    from ppdm_dask.designs import RRMatrix

    point = front.isel(point=choose(front, privacy=privacy, mse=mse))
    P = point["matrix"].to_numpy()
    n = P.shape[1]
    used = P[P.any(axis=1)] if len(P) > n else P
    if len(used) <= n:
        return RRMatrix(attribute, P[:n] if len(P) == n else used)
    return RRMatrix(attribute, used, p0=point["prior"].to_numpy())
