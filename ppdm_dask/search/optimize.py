"""Search for matrices by one of the methods: the front as a labelled dataset, a design from it."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from ppdm_dask.data.plugins import plugin
from ppdm_dask.designs import RRMatrix
from ppdm_dask.errors import InputError
from ppdm_dask.faces.notebook import follower
from ppdm_dask.randomness import SimulationStream
from ppdm_dask.ranges import real
from ppdm_dask.search.checkpoints import read_checkpoint, require_file
from ppdm_dask.search.cones import LEAST, MOST, Cone, Epsilon, EpsilonPosterior
from ppdm_dask.search.limit import Limit, levels_with
from ppdm_dask.search.methods import (
    METHODS,
    Found,
    Progress,
    evolve,
    optimal_designs,
    refine,
    settings_for,
    stacked,
)
from ppdm_dask.search.optimum import Optimum, optimum
from ppdm_dask.search.problem import GivenObjective, Objective, Problem, evaluate
from ppdm_dask.search.rays import listable
from ppdm_dask.search.solved import Solved
from ppdm_dask.search.solved import most_bytes as kept_bytes
from ppdm_dask.search.spea2 import most_bytes
from ppdm_dask.shown import given

if TYPE_CHECKING:
    import xarray as xr


__all__ = ["choose", "chosen_design", "optimize"]


PAPER = {
    "privacy": "how often the best guess of an answer is wrong",
    "mse": "average mean squared error of the estimated proportions",
}
GIVEN = {
    "privacy": "privacy as the given objective measures it",
    "error": "error as the given objective measures it",
}
ATTAINED = 1e-6
"""Relative gap of a design from its certificate up to which it counts as the optimum."""

NO_LIMIT = "none: the certified limit is one of the paper's privacy and MSE, not of this objective"


def front_dataset(
    problem: Problem,
    found: Found,
    labels: list[str],
    about: dict[str, Any],
    *,
    limit: Limit | None = None,
    objective: str | None = None,
    within: Mapping[float, Optimum] | None = None,
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
    within : mapping, optional
        The best design of each epsilon, a point each, in place of a limit at a privacy.
    """
    import xarray as xr

    privacy, worst, error = found.objectives
    (first, first_doc), (second, second_doc) = (PAPER if objective is None else GIVEN).items()
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
    if within:
        epsilons = np.array(list(within))
        variables["epsilon"] = ("point", epsilons, "bound on the log ratio of likelihoods", "1")
        bound = "certified lower bound on the MSE within this epsilon and delta"
        noise = np.array([each.bound for each in within.values()])
        least = noise / (problem.n * problem.n_records)
        variables["bound"] = ("point", np.minimum(least, error), bound, "1")
        attributes["attained"] = json.dumps(all(best.gap <= ATTAINED for best in within.values()))
    elif limit is None:
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
    epsilon: float | None = None,
) -> int:
    """Point of a front: the least error at a privacy or above, or the most private up to an error.

    Parameters
    ----------
    front : xarray.Dataset
        From :func:`ppdm_dask.optimize`.
    privacy, mse : float, optional
        One of them; `error` in place of `mse` for a front by a custom objective.
    epsilon : float, optional
        In place of these, for a front by epsilon: the largest up to it.  For a front with one point
        no choice is needed.

    Raises
    ------
    InputError
        Where the front has none, or unless exactly one of them is given.
    """
    second = "mse" if "mse" in front else "error"
    absent = "error" if second == "mse" else "mse"
    given = {"privacy": privacy, "mse": mse, "error": error}
    if epsilon is not None or (front.sizes["point"] == 1 and set(given.values()) == {None}):
        return _by_epsilon(front, epsilon, given)
    if given[absent] is not None:
        raise InputError(f"{absent}: this front has none; choose by privacy or {second}", absent)
    if (privacy is None) == (given[second] is None):
        raise InputError(f"choose: give either privacy or {second}", None)
    privacies, errors = front["privacy"].to_numpy(), front[second].to_numpy()
    if privacy is not None:
        there = privacies >= privacy - 1e-9  # a level that was asked for is met to rounding
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


def _by_epsilon(front: xr.Dataset, epsilon: float | None, others: dict[str, float | None]) -> int:
    if epsilon is None:
        return 0
    if any(value is not None for value in others.values()):
        raise InputError("choose: give either epsilon, privacy or an error", epsilon)
    if "epsilon" not in front:
        raise InputError("epsilon: this front is one by privacy; choose by privacy", epsilon)
    there = front["epsilon"].to_numpy()
    fits = there <= epsilon * (1 + 1e-12)
    if not fits.any():
        raise InputError(
            f"epsilon: got {epsilon:g}; the front begins at {there.min():.4g}", epsilon
        )
    return int(np.argmax(np.where(fits, there, -1.0)))


def chosen_design(
    front: xr.Dataset,
    attribute: str,
    *,
    privacy: float | None = None,
    mse: float | None = None,
    error: float | None = None,
    epsilon: float | None = None,
) -> RRMatrix:
    """The design of a chosen point, for an attribute; see :func:`choose`.

    It states the labels of the front's categories, where the search was given some.  A design with
    more reported symbols than categories is inverted for the front's prior.
    """
    point = front.isel(point=choose(front, privacy=privacy, mse=mse, error=error, epsilon=epsilon))
    P = point["matrix"].to_numpy()
    n = P.shape[1]
    # A front has one K; rows of zeros fill up designs that need fewer symbols.
    used = P[P.any(axis=1)] if len(P) > n else P
    labels = None
    if front.attrs.get("labels") == "categories":
        labels = [str(label) for label in point["true"].to_numpy()]
    if len(used) <= n:
        return RRMatrix(attribute, P[:n] if len(P) == n else used, categories=labels)
    return RRMatrix(attribute, used, p0=point["prior"].to_numpy(), categories=labels)


def optimize(
    prior: npt.ArrayLike,
    n_records: int,
    delta: float = 1.0,
    *,
    epsilon: float | Sequence[float] | None = None,
    method: str | None = None,
    symbols: int | None = None,
    seed: int = 0,
    generations: int | None = None,
    patience: int | None = None,
    privacy: float | None = None,
    categories: Sequence[str] | None = None,
    checkpoint: str | Path | None = None,
    progress: Progress | Literal[False] | None = None,
    objective: Objective | None = None,
    map: Callable[..., Any] | None = None,
    client: Any = None,
) -> xr.Dataset:
    r"""Randomization matrices with the best trade-off between privacy and error.

    Privacy is to be large and the mean squared error of a proportion small, Eqs. (8) and (10) of
    [HuangDu]_, from N reports on n categories:

    .. math:: 1 - \sum_y \max_x P_{yx} p_x, \qquad
        \frac{\operatorname{tr} J^{-1} - |p|^2}{n N}, \qquad J = P^T \operatorname{diag}(P p)^{-1} P

    The certified limit holds at a privacy of 1 - a for any symmetric Y, any nu, and a mu of 0 or
    more with a positive denominator at each r_k, the extremal shapes that a row of P times p has:

    .. math:: \operatorname{tr} J^{-1} \ge \frac{\operatorname{tr}(Y)^2}{\eta (\nu^T p + \mu a)},
        \qquad \eta = \max_k \frac{|Y u_k|^2}{\nu^T r_k + \mu}, \qquad
        u_k = \frac{r_k / p}{\sqrt{\sum_x r_k(x)}}

    ``ppdm_dask/search/bound.py`` says how it is computed; no paper has it.

    Parameters
    ----------
    prior : array_like, shape (n,)
        Proportions of the true categories, none below 1e-6.
    n_records : int
        Reports from which proportions will be estimated.
    delta : float
        Largest posterior P(x | y) allowed, above max p by 1e-4 or more.  Eq. (9) of [HuangDu]_.
    epsilon : float or sequence of float, optional
        A bound on the log ratio of a report's likelihoods for two categories (local differential
        privacy) in place of one on the success of a guess: the certified optimum for each, with as
        many reported symbols as it needs, within `delta` too.  From 1e-3 to 30.  Only
        ``method="bound"`` knows it.
    method : {"memetic", "spea2", "bound"}
        The paper's evolution with gradient polish, the default; the paper's algorithm; or the
        designs that attain the certified limit, with as many reported symbols as they need, the
        default with `epsilon`.
    symbols : int, optional
        Reported symbols: n by default, for ``"bound"`` as many as the optimum takes (then an upper
        limit).
    seed : int
        The same seed, the same matrices.
    generations, patience : int, optional
        20,000 for ``"spea2"`` and 3,000 for ``"memetic"``; and stop after this many generations
        without improvement.
    privacy : float, optional
        A privacy for which a matrix is wanted: one more level to polish or solve for.  Within delta
        it is never below ``1 - delta``, and below ``1 - max p`` by 1e-6 or more.
    categories : sequence of str, optional
        Labels of the categories.
    checkpoint : path, optional
        A file to resume from after an interruption; one that is damaged, or another search's, is
        refused.
    progress : callable, optional
        Called with the number done and the total: generations, levels or epsilons.  By default a
        notebook shows a progress bar; False turns it off.
    objective : callable, optional
        Only for ``"spea2"``: a measure of privacy and error in place of the paper's.  A function of
        a stack of up to 8 matrices, shape (m, K, n), that returns numbers of shape (m, 2): a
        privacy in [0, 1] (larger is better) and an error (smaller is better, infinite for a useless
        matrix).  The same matrices have to give the same numbers.
    map : callable, optional
        Only for ``"spea2"``: how parts of a population are evaluated, instead of the built-in
        ``map``; for an expensive objective :func:`ppdm_dask.cluster.population.population_map`.
        The built-in `map` itself keeps them in this process.
    client : distributed.Client, optional
        Workers that evaluate an `objective` which costs 50 ms a matrix or more; by default the
        active client of Dask, if there is one.  The same matrices are found.  A cheaper objective
        is evaluated in this process: the paper's objective takes microseconds.  Excludes `map`.

    Returns
    -------
    xarray.Dataset
        Along ``point``, by falling privacy: ``privacy``, ``worst`` (posterior), ``mse``, ``bound``
        (certified: no design has a smaller MSE at that privacy) and ``matrix`` with dimensions
        ``point``, ``reported``, ``true``, whose columns sum to 1.  Its attributes hold the
        hypervolume ratio and the median of MSE / bound over 98 levels, and ``attained``: whether
        designs attain the bound, as up to 18 categories, or the bound may be lower than possible.

        With a custom `objective`, ``privacy`` and ``error`` are its numbers, and there is no
        limit: ``mse``, ``bound`` and the attributes on them are absent, and the attribute ``limit``
        says why.  The attribute ``objective`` has its name.

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
    progress = follower("optimize") if progress is None else progress or None
    if method is None:
        method = "memetic" if epsilon is None else "bound"
    if method not in METHODS:
        raise InputError(
            f"method: got {given(method)}; one of {', '.join(METHODS)} is needed", method
        )
    if method != "spea2" and map is not None:
        raise InputError(f"map: {method!r} has none; 'spea2' has", method)
    if map is not None and client is not None:
        raise InputError("give map or client, not both", map)
    if method != "spea2" and objective is not None:
        raise InputError(
            f"objective: {method!r} has none but the paper's, whose gradient or dual it uses; "
            "'spea2' takes any",
            method,
        )
    if method == "bound" and any(v is not None for v in (generations, patience)):
        raise InputError("generations, patience: not available for 'bound'", method)
    if epsilon is not None:
        _refuse_beside_epsilon(method, symbols=symbols, privacy=privacy)
    problem = Problem(prior, n_records, delta, names=categories)
    labels = [str(i) for i in range(problem.n)] if categories is None else list(categories)
    if len(labels) != problem.n:
        raise InputError(
            f"categories: got {len(labels)} labels; {problem.n} are needed", categories
        )
    path = None if checkpoint is None else Path(checkpoint)
    about: dict[str, Any] = {"method": method}
    about["labels"] = "positions" if categories is None else "categories"
    if epsilon is not None:
        best = best_within(problem, epsilon, progress, path)
        found = within_epsilon(problem, best.values())
        return front_dataset(problem, found, labels, about, within=best)
    stream = SimulationStream(seed)
    at = levels_with(problem, None if objective is not None else privacy)
    settings = settings_for(method, generations=generations, patience=patience, symbols=symbols)
    if method != "bound" and path is not None and require_file(path):
        # A damaged one is not found only after the limit was computed.
        read_checkpoint(path, most_bytes(settings, settings.symbols or problem.n, problem.n))
    about |= {"seed": seed}
    if objective is not None:
        ours = GivenObjective(problem, objective)
        with _mapper(map, client) as mapper:
            found = evolve(
                problem,
                settings,
                stream,
                checkpoint=path,
                progress=progress,
                mapper=mapper,
                objective=ours,
            )
        return front_dataset(problem, found, labels, about, objective=ours.name)
    if method == "bound" and not listable(problem.n, problem.delta):
        raise InputError(
            f"method: 'bound' lists all subsets of up to 18 categories, the prior has {problem.n}; "
            "'memetic' and 'spea2' are shown beside a certified limit for any number",
            method,
        )
    hook = _hook(progress, len(at)) if method == "bound" else None
    # Of the other methods the file holds the search itself.
    limit = Limit.compute(problem, at, hook, checkpoint=path if method == "bound" else None)
    if method == "bound":
        found = optimal_designs(limit, stream, symbols)
    elif method == "memetic":
        found = refine(
            problem, settings, stream, at=at, limit=limit, checkpoint=path, progress=progress
        )
    else:
        with _mapper(map, client) as mapper:
            found = evolve(
                problem, settings, stream, checkpoint=path, progress=progress, mapper=mapper
            )
    return front_dataset(problem, found, labels, about, limit=limit)


def _hook(progress: Progress | None, whole: int) -> Callable[[int], None] | None:
    """Tells a progress how much is done, of a whole."""
    return None if progress is None else lambda done: progress(done, whole)


def _refuse_beside_epsilon(method: str, **given: Any) -> None:
    if method != "bound":
        raise InputError(f"epsilon: {method!r} knows none; 'bound' does", method)
    for name, value in given.items():
        if value is not None:
            raise InputError(f"give epsilon or {name}, not both", value)


def best_within(
    problem: Problem,
    epsilon: float | Sequence[float],
    progress: Progress | None = None,
    checkpoint: Path | None = None,
) -> dict[float, Optimum]:
    """The optimum for each epsilon, by rising epsilon; within the problem's delta too."""
    several = [epsilon] if isinstance(epsilon, int | float) else list(epsilon)
    wanted = sorted({real("epsilon", each, LEAST, MOST) for each in several})
    if not wanted:
        raise InputError("epsilon: got none; one or more are needed", epsilon)
    p, delta = problem.prior, problem.delta
    cones: list[Cone] = [
        EpsilonPosterior(each, delta) if delta < 1 else Epsilon(each) for each in wanted
    ]
    identity = {"prior": p.tolist(), "delta": delta, "epsilons": wanted}
    solved = Solved(checkpoint, identity, kept_bytes(len(wanted), problem.n))
    best = solved.each(
        cones, partial(optimum, p), partial(Optimum.from_arrays, p), _hook(progress, len(wanted))
    )
    return dict(zip(wanted, best, strict=True))


def within_epsilon(problem: Problem, best: Iterable[Optimum]) -> Found:
    """Their matrices, as a method's."""
    matrices = []
    for each in best:
        if each.P is None:
            raise InputError(
                f"epsilon: the best design of {each.cone.text} has too many symbols to be written "
                "out; subset selection of the best size comes near it",
                each.cone,
            )
        matrices.append(each.P)
    P = stacked(matrices)
    return Found(P, evaluate(problem, P))


def _mapper(
    map: Callable[..., Any] | None, client: Any
) -> AbstractContextManager[Callable[..., Any] | None]:
    """What evaluates populations: the given map, or workers of a client, or None."""
    # The code that made a client has loaded Dask, which is not loaded to find none.
    if map is not None or (client is None and "distributed" not in sys.modules):
        return nullcontext(map)
    offered: AbstractContextManager[Callable[..., Any] | None] = plugin("population")(client)
    return offered
