"""Priors that may be true where one is only guessed: a list, a ball round a guess, a region.

Each is an array with a row for each prior, the guess first.  None has a category rarer than 1e-6,
below which no limit is computed.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from ppdm_dask.arrays import Floats
from ppdm_dask.errors import InputError
from ppdm_dask.inference.result import Estimate
from ppdm_dask.ranges import real, whole
from ppdm_dask.search.problem import SMALLEST, Problem
from ppdm_dask.shown import given

__all__ = ["check_scenarios", "confidence_priors", "plausible_prior", "prior_ball"]


def check_scenarios(
    priors: Any, categories: Sequence[str] | None = None
) -> tuple[Floats, tuple[str, ...] | None]:
    """Priors as an array, shape (priors, n), and the labels of their categories if they have any.

    Parameters
    ----------
    priors : array_like, shape (priors, n), or sequence of mappings of label to proportion
        Mappings are put into the order of the categories; by default, that of the first mapping.
    categories : sequence of str, optional

    Raises
    ------
    InputError
        If there are none, they differ in their categories, or one is not a prior of a search.
    """
    labels = None if categories is None else tuple(categories)
    rows: list[Any] = list(priors) if isinstance(priors, Sequence | np.ndarray) else [priors]
    if not rows:
        raise InputError("priors: got none; one or more are needed", priors)
    if isinstance(rows[0], Mapping):
        labels = tuple(rows[0]) if labels is None else labels
        for i, row in enumerate(rows):
            if not isinstance(row, Mapping) or set(row) != set(labels):
                raise InputError(
                    f"priors[{i}]: other categories than those of the others; "
                    f"{', '.join(map(str, labels))[:60]} are needed",
                    row,
                )
        rows = [[row[label] for label in labels] for row in rows]
    found = []
    for i, row in enumerate(rows):
        try:
            found.append(Problem(row, 1, names=labels).prior)
        except InputError as error:
            _, _, what = str(error).partition(": ")
            raise InputError(f"priors[{i}]: {what}", row) from None
        if found[i].size != found[0].size:
            raise InputError(
                f"priors[{i}]: got {found[i].size} categories; {found[0].size} are needed, as of "
                "the first",
                row,
            )
    if labels is not None and len(labels) != found[0].size:
        raise InputError(
            f"categories: got {len(labels)} labels; {found[0].size} are needed", categories
        )
    return np.array(found), labels


def prior_ball(guess: npt.ArrayLike, worth: float, n_priors: int = 50, seed: int = 0) -> Floats:
    """Priors round a guess: draws of a Dirichlet distribution whose mean is the guess.

    Parameters
    ----------
    guess : array_like, shape (n,)
    worth : float
        Number of undisguised answers that the guess is worth: the sum of the distribution's
        parameters.  The standard deviation of a proportion g is ``sqrt(g (1 - g) / (worth + 1))``.
    n_priors : int
        With the guess, which is the first.
    seed : int

    Returns
    -------
    array, shape (n_priors, n)

    Examples
    --------
    >>> from ppdm_dask.search import prior_ball
    >>> prior_ball([0.7, 0.2, 0.1], worth=50).shape
    (50, 3)
    """
    p = Problem(guess, 1).prior
    real("worth", worth, 0, math.inf, open_ends=True)
    n_priors = whole("n_priors", n_priors, 1)
    rng = np.random.default_rng(whole("seed", seed, 0))
    drawn = rng.dirichlet(p * worth, size=n_priors - 1)
    return np.concatenate([p[None], np.array([_inside(row) for row in drawn]).reshape(-1, p.size)])


def confidence_priors(
    estimate: Estimate, level: float = 0.95, n_priors: int = 50, seed: int = 0
) -> Floats:
    """Priors on the boundary of the confidence region of an estimate, and the estimate itself.

    The region is Wald's ellipsoid ``(p - e)^T V^- (p - e) <= chi^2``, cut off where a proportion
    would fall below 1e-6.  Its rim is met along the axes of V, both ways, and in random directions.

    Parameters
    ----------
    estimate : Estimate
        Of all categories of one attribute, with a covariance.  Its nearest proportions of 1e-6 or
        more are the first prior.
    level : float in (0, 1)
    n_priors, seed : int
        As of :func:`prior_ball`.

    Returns
    -------
    array, shape (n_priors, n)
    """
    from scipy.stats import chi2

    level = real("level", level, 0, 1, open_ends=True)
    n_priors = whole("n_priors", n_priors, 1)
    centre = plausible_prior(estimate)
    covariance = np.asarray(estimate.covariance, dtype=float)
    values, vectors = np.linalg.eigh((covariance + covariance.T) / 2)
    # All proportions sum to 1, so one axis has no variance.
    axes = (vectors * np.sqrt(np.maximum(values, 0.0)))[:, 1:]
    n = axes.shape[1]
    rng = np.random.default_rng(whole("seed", seed, 0))
    turned = rng.standard_normal((max(n_priors - 1, 0), n))
    fixed = np.concatenate([np.eye(n), -np.eye(n)])[: len(turned)]
    turned[: len(fixed)] = fixed
    turned /= np.linalg.norm(turned, axis=1, keepdims=True)
    reach = math.sqrt(float(chi2.ppf(level, n)))
    found = [centre]
    for step in reach * turned @ axes.T:
        step = step - step.mean()
        falling = step < 0
        room = (centre[falling] - SMALLEST) / -step[falling]
        found.append(_inside(centre + min(1.0, float(room.min(initial=1.0))) * step))
    return np.array(found)


def plausible_prior(estimate: Estimate, least: float = SMALLEST) -> Floats:
    """The proportions nearest to an estimate, by squared distance, that have a least value.

    Parameters
    ----------
    estimate : Estimate
        Of all categories of one attribute.
    least : float
        From 1e-6 to below 1 / n.

    Returns
    -------
    array, shape (n,)
    """
    values = np.asarray(estimate.values, dtype=float)
    if values.ndim != 1 or len(values) < 2 or abs(values.sum() - 1) > 1e-6:
        raise InputError(
            f"estimate: got shape {values.shape}; all categories of one attribute are needed",
            estimate,
        )
    if not np.isfinite(values).all():
        raise InputError(f"estimate: got {given(values)}; finite proportions are needed", estimate)
    n = len(values)
    least = real("least", least, SMALLEST, 1 / n)
    # Projection onto a simplex of the size that the least values leave.
    size = 1 - n * least
    ordered = np.sort(values - least)[::-1]
    excess = (np.cumsum(ordered) - size) / np.arange(1, n + 1)
    last = int(np.flatnonzero(ordered > excess)[-1])
    return _inside(np.maximum(values - least - excess[last], 0.0) + least)


def _inside(p: Floats) -> Floats:
    """Proportions with sum 1 and none below the least."""
    raised = np.maximum(p, 2 * SMALLEST)
    result: Floats = raised / raised.sum()
    return result
