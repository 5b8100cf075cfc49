"""A front as a labelled dataset, and the choice of a design from it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np

from ppdm_dask.designs import RRMatrix
from ppdm_dask.errors import InputError
from ppdm_dask.search.limit import Limit
from ppdm_dask.search.methods import Found
from ppdm_dask.search.problem import Problem

if TYPE_CHECKING:
    import xarray as xr

    from ppdm_dask.designs import RRMatrix

__all__ = ["choose", "chosen_design", "front_dataset"]

PAPER = {
    "privacy": "how often the best guess of an answer is wrong",
    "mse": "average mean squared error of the estimated proportions",
}
GIVEN = {
    "privacy": "privacy as the given objective measures it",
    "error": "error as the given objective measures it",
}
NO_LIMIT = "none: the certified limit is one of the paper's privacy and MSE, not of this objective"


def front_dataset(
    problem: Problem,
    found: Found,
    labels: list[str],
    about: dict[str, Any],
    *,
    limit: Limit | None = None,
    objective: str | None = None,
) -> xr.Dataset:
    """The dataset that :func:`ppdm_dask.optimize` returns.

    Parameters
    ----------
    problem : Problem
    found : Found
    labels : list of str
        Of the true categories.
    about : dict
        Attributes of the dataset.
    limit : Limit, optional
        Of the paper's objectives.
    objective : str, optional
        Name of another one, which has no limit.
    """
    import xarray as xr

    privacy, worst, error = found.objectives
    (first, first_doc), (second, second_doc) = (GIVEN if limit is None else PAPER).items()
    variables = {
        first: ("point", privacy, first_doc, "1"),
        "worst": ("point", worst, "largest posterior of a true category given a report", "1"),
        second: ("point", error, second_doc, "1"),
    }
    attributes: dict[str, Any] = {
        **about,
        "n_records": problem.n_records,
        "delta": problem.delta,
        "generations": found.generations,
    }
    if limit is None:
        attributes |= {"objective": objective, "limit": NO_LIMIT}
    else:
        loss = 1.0 - privacy
        bound = "certified lower bound on the MSE at this privacy"
        variables["bound"] = ("point", limit.certain_mse(loss), bound, "1")
        attributes |= {"attained": json.dumps(limit.attained), **limit.summary(loss, error)}
    data: dict[str, Any] = {
        name: (dims, values, {"long_name": doc, "units": units})
        for name, (dims, values, doc, units) in variables.items()
    }
    doc = "probability of a reported symbol given a true category"
    data["matrix"] = (("point", "reported", "true"), found.P, {"long_name": doc, "units": "1"})
    labelled = {"long_name": "proportion of the true category", "units": "1"}
    data["prior"] = ("true", np.array(problem.prior), labelled)
    K = found.P.shape[1]
    reported = labels if problem.n == K else [str(i) for i in range(K)]
    return xr.Dataset(data, {"true": labels, "reported": reported}, attributes)


def choose(
    front: xr.Dataset,
    *,
    privacy: float | None = None,
    mse: float | None = None,
    error: float | None = None,
) -> int:
    """Point of a front: the least error at a privacy or above, or the most private up to an error.

    Parameters
    ----------
    front : xarray.Dataset
        From :func:`ppdm_dask.optimize`.
    privacy, mse : float, optional
        One of them; `error` in place of `mse` for a front by an objective of one's own.

    Raises
    ------
    InputError
        Where the front has none, or unless exactly one of them is given.
    """
    second = "mse" if "mse" in front else "error"
    absent = "error" if second == "mse" else "mse"
    given = {"privacy": privacy, "mse": mse, "error": error}
    if given[absent] is not None:
        raise InputError(f"{absent}: this front has none; choose by privacy or {second}", absent)
    if (privacy is None) == (given[second] is None):
        raise InputError(f"choose: give either privacy or {second}", None)
    privacies, errors = front["privacy"].to_numpy(), front[second].to_numpy()
    if privacy is not None:
        there = privacies >= privacy - 1e-9
        if not there.any():
            raise InputError(
                f"privacy: got {privacy:g}; the front goes up to {privacies.max():.4g}", privacy
            )
        return int(np.argmin(np.where(there, errors, np.inf)))
    most = given[second]
    there = errors <= most
    if not there.any():
        raise InputError(f"{second}: got {most:g}; the front begins at {errors.min():.3g}", most)
    return int(np.argmax(np.where(there, privacies, -1.0)))


def chosen_design(
    front: xr.Dataset,
    attribute: str,
    *,
    privacy: float | None = None,
    mse: float | None = None,
    error: float | None = None,
) -> RRMatrix:
    """The design of a chosen point, for an attribute; see :func:`choose`.

    It states the labels of the front's categories, where the search was given some.  A design with
    more reported symbols than categories is inverted for the front's prior.
    """
    point = front.isel(point=choose(front, privacy=privacy, mse=mse, error=error))
    P = point["matrix"].to_numpy()
    n = P.shape[1]
    used = P[P.any(axis=1)] if len(P) > n else P
    labels = None
    if front.attrs.get("labels") == "categories":
        labels = [str(label) for label in point["true"].to_numpy()]
    if len(used) <= n:
        return RRMatrix(attribute, P[:n] if len(P) == n else used, categories=labels)
    return RRMatrix(attribute, used, p0=point["prior"].to_numpy(), categories=labels)
