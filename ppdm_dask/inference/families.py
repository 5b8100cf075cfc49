"""Families of generalized linear models, and what fits them to signed pseudo-records.

With a canonical link the score of a record is ``(t(y) - mu(x)) x``, linear in the statistic of the
outcome.  Its unbiased estimate from a report is the sum over the true cells a of the predictors of
``(T_a - V_a mu(x_a)) x_a``: V_a is the weight of the cell and T_a that of the cell times the
statistic.  So a fit to disguised reports is a fit to pseudo-records with signed weights.

References
----------
[Nakamura]_ for corrected scores; [ScheersDayton]_ and [Maddala]_ for maximum likelihood where only
the outcome is disguised.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from ppdm_dask.arrays import Floats, Ints
from ppdm_dask.errors import NotIdentified
from ppdm_dask.shown import listed

__all__ = ["Corrected", "Family", "Gaussian", "Likelihood", "Logit", "Poisson", "climb"]


class Family(ABC):
    """An exponential family with its canonical link.

    Linear predictors have shape (rows, q): q is 1, or the classes less one.
    """

    longest = np.inf
    """Largest change of a linear predictor in one step."""

    @abstractmethod
    def cumulant(self, theta: Floats) -> Floats:
        """b(theta), shape (rows,): the log likelihood is ``t theta - b(theta)``."""

    @abstractmethod
    def mean(self, theta: Floats) -> Floats:
        """Expected statistic, shape (rows, q)."""

    @abstractmethod
    def variance(self, theta: Floats) -> Floats:
        """Covariance of the statistic, shape (rows, q, q)."""

    def expected(self, theta: Floats) -> Floats:
        """What predictions and margins are about, shape (rows, outputs)."""
        return self.mean(theta)

    def slopes(self, theta: Floats) -> Floats:
        """Derivatives of :meth:`expected` by the linear predictors, shape (rows, outputs, q)."""
        return self.variance(theta)


class Logit(Family):
    """Classes with multinomial logits against the first; two of them are the binomial.

    Parameters
    ----------
    all_classes : bool
        Whether predictions are of every class; else of all but the first.
    """

    longest = 4.0

    def __init__(self, all_classes: bool) -> None:
        self.all_classes = all_classes

    def cumulant(self, theta: Floats) -> Floats:
        top = np.maximum(theta.max(axis=1), 0)
        total = np.exp(-top) + np.exp(theta - top[:, None]).sum(axis=1)
        return np.asarray(top + np.log(total))

    def mean(self, theta: Floats) -> Floats:
        return np.asarray(np.exp(theta - self.cumulant(theta)[:, None]))

    def classes(self, theta: Floats) -> Floats:
        """Probabilities of all classes, shape (rows, q + 1)."""
        first = np.exp(-self.cumulant(theta))[:, None]
        return np.concatenate([first, self.mean(theta)], axis=1)

    def variance(self, theta: Floats) -> Floats:
        return _multinomial(self.mean(theta))

    def expected(self, theta: Floats) -> Floats:
        return self.classes(theta) if self.all_classes else self.mean(theta)

    def slopes(self, theta: Floats) -> Floats:
        every = _multinomial(self.classes(theta))[:, :, 1:]
        return every if self.all_classes else every[:, 1:]


def _multinomial(mu: Floats) -> Floats:
    return np.asarray(mu[:, :, None] * (np.eye(mu.shape[1]) - mu[:, None, :]))


class Gaussian(Family):
    """Numbers with the identity link: least squares."""

    def cumulant(self, theta: Floats) -> Floats:
        return np.asarray(theta[:, 0] ** 2 / 2)

    def mean(self, theta: Floats) -> Floats:
        return theta

    def variance(self, theta: Floats) -> Floats:
        return np.ones((*theta.shape, 1))


class Poisson(Family):
    """Counts with the log link."""

    longest = 2.0

    def cumulant(self, theta: Floats) -> Floats:
        return np.asarray(np.exp(theta[:, 0]))

    def mean(self, theta: Floats) -> Floats:
        return np.asarray(np.exp(theta))

    def variance(self, theta: Floats) -> Floats:
        return np.asarray(np.exp(theta)[:, :, None])


class Problem(Protocol):
    """What a fit climbs: a log likelihood or its corrected form."""

    @property
    def family(self) -> Family:
        """The family."""
        ...  # pragma: no cover

    @property
    def X(self) -> Floats:
        """Rows of the model matrix, shape (rows, p)."""
        ...  # pragma: no cover

    @property
    def unit(self) -> float:
        """Square of the size of the statistic, in which gradients are measured."""
        ...  # pragma: no cover

    def value(self, theta: Floats) -> float:
        """The value at linear predictors."""
        ...  # pragma: no cover

    def gradient(self, theta: Floats) -> Floats:
        """Derivatives by the coefficients, shape (p, q)."""
        ...  # pragma: no cover

    def information(self, theta: Floats) -> Floats:
        """Negative second derivatives, shape (p q, p q)."""
        ...  # pragma: no cover

    def scale(self) -> Floats:
        """What the information would be at a common mean and without a disguise of outcomes."""
        ...  # pragma: no cover


def _crossed(X: Floats, weights: Floats) -> Floats:
    """``sum_r weights[r, q, s] x_r x_r'`` as a matrix over (coefficient, q) pairs."""
    p, q = X.shape[1], weights.shape[1]
    result = np.empty((p, q, p, q))
    for a in range(q):
        for b in range(a + 1):
            result[:, a, :, b] = X.T @ (X * weights[:, a, b, None])
            result[:, b, :, a] = result[:, a, :, b].T
    return result.reshape(p * q, p * q)


@dataclass(frozen=True, eq=False)
class Corrected:
    """The corrected log likelihood ``sum T theta - V b(theta)`` of signed pseudo-records.

    Parameters
    ----------
    family : Family
    X : array, shape (rows, p)
    V : array, shape (rows,)
        Weights.
    T : array, shape (rows, q)
        Weights times statistics.
    """

    family: Family
    X: Floats
    V: Floats
    T: Floats

    @property
    def unit(self) -> float:
        if not isinstance(self.family, Gaussian):
            return 1.0
        return max(float((self.T**2).sum() / (self.V**2).sum()), 1e-300)

    def value(self, theta: Floats) -> float:
        with np.errstate(over="ignore", invalid="ignore"):
            return float((self.T * theta).sum() - self.V @ self.family.cumulant(theta))

    def gradient(self, theta: Floats) -> Floats:
        return np.asarray(self.X.T @ (self.T - self.V[:, None] * self.family.mean(theta)))

    def information(self, theta: Floats) -> Floats:
        return _crossed(self.X, self.V[:, None, None] * self.family.variance(theta))

    def scale(self) -> Floats:
        return _crossed(self.X, self.V[:, None, None] * _common(self.family, self.V, self.T))


def _common(family: Family, V: Floats, T: Floats) -> Floats:
    """Variance of the statistic if all had one mean, kept off 0."""
    q = T.shape[1]
    mean = T.sum(axis=0) / V.sum()
    if isinstance(family, Logit):
        mean = np.clip(mean, 1e-3, 1 - 1e-3)
        return np.diag(mean * (1 - mean))[None]
    if isinstance(family, Poisson):
        return np.full((1, q, q), max(float(mean[0]), 1e-3))
    return np.ones((1, q, q))


@dataclass(frozen=True, eq=False)
class Likelihood:
    """The log likelihood of reports of the outcome: ``sum d log sum_j P[y, j] mu_j(x)``.

    Parameters
    ----------
    family : Logit
    X : array, shape (rows, p)
    row : int array, shape (patterns,)
        Row of X of each pattern of reports.
    P : array, shape (patterns, classes)
        Chance of the report for each true class.
    d : array, shape (patterns,)
        Weight of each pattern.
    """

    family: Logit
    X: Floats
    row: Ints
    P: Floats
    d: Floats
    unit: float = 1.0

    def chances(self, theta: Floats) -> tuple[Floats, Floats, Floats]:
        """Classes before and after the report, shapes (patterns, classes), and its chance."""
        mu = self.family.classes(theta)[self.row]
        joint = self.P * mu
        total = joint.sum(axis=1)
        return mu, joint / total[:, None], total

    def value(self, theta: Floats) -> float:
        with np.errstate(divide="ignore", invalid="ignore"):
            return float(self.d @ np.log(self.chances(theta)[2]))

    def residuals(self, theta: Floats) -> Floats:
        """Score of each pattern by its linear predictors, shape (patterns, q)."""
        mu, after, _ = self.chances(theta)
        return (after - mu)[:, 1:]

    def _summed(self, values: Floats) -> Floats:
        """Sums over the patterns of each row of X."""
        total = np.zeros((len(self.X), *values.shape[1:]))
        np.add.at(total, self.row, values)
        return total

    def gradient(self, theta: Floats) -> Floats:
        return np.asarray(self.X.T @ self._summed(self.d[:, None] * self.residuals(theta)))

    def information(self, theta: Floats) -> Floats:
        mu, after, _ = self.chances(theta)
        lost = _multinomial(mu[:, 1:]) - _multinomial(after[:, 1:])
        return _crossed(self.X, self._summed(self.d[:, None, None] * lost))

    def scale(self) -> Floats:
        q = self.P.shape[1] - 1
        share = np.full(q, 1 / (q + 1))
        weight = self._summed(self.d)
        return _crossed(self.X, weight[:, None, None] * np.diag(share * (1 - share))[None])


@dataclass(frozen=True, eq=False)
class Climb:
    """Where a fit ended.

    Parameters
    ----------
    beta : array, shape (p, q)
    value : float
    information : array, shape (p q, p q)
    steps : int
    """

    beta: Floats
    value: float
    information: Floats
    steps: int


STOP = 1e-18
"""Squared length of a Newton step, in standard errors of an undisguised fit, that ends a fit."""

NEAR = 1e-12
"""The same, where no step rises any more."""

WEAKEST = 1e-7
"""Share of the information of a common mean below which a direction is not identified."""


def require_rank(X: Floats, names: Sequence[str]) -> None:
    """Raise NotIdentified where columns of the model matrix depend on one another."""
    size = np.sqrt((X**2).sum(axis=0))
    if (size == 0).any():
        where = [name for name, s in zip(names, size, strict=True) if s == 0]
        raise NotIdentified(
            f"not identified: {listed(where)} is 0 for all reports: nobody can be in that category",
            where,
        )
    # Of the small triangle: the model matrix may have a row for every respondent.
    _, values, V = np.linalg.svd(np.linalg.qr(X / size, mode="r"))
    if len(X) < X.shape[1] or values[-1] < 1e-10 * values[0]:
        direction = V[-1]
        held = np.abs(direction) > 0.01 * np.abs(direction).max()
        where = [name for name, h in zip(names, held, strict=True) if h]
        raise NotIdentified(
            f"not identified: {listed(where)} depend on one another; leave one out", where
        )


def climb(problem: Problem, start: Floats, names: Sequence[str], most: int) -> Climb:
    """Newton's method with damped steps, from where the corrected likelihood is concave.

    Parameters
    ----------
    problem : Corrected or Likelihood
    start : array, shape (p, q)
    names : sequence of str
        Of the p q coefficients, for messages.
    most : int
        Steps.

    Raises
    ------
    NotIdentified
        Where the data do not determine the coefficients, in one line that says why.
    """
    beta, X = np.array(start, float), problem.X
    shape, scale = beta.shape, problem.scale()
    weak = np.linalg.eigvalsh(_unit(scale, scale))[0]
    if weak < WEAKEST:
        raise NotIdentified(
            "not identified by these data: the estimated moments of the predictors are not "
            "positive; more reports, a more informative design, or fewer predictors are needed",
            weak,
        )
    theta = X @ beta
    value = problem.value(theta)
    for step in range(most):
        gradient = problem.gradient(theta).ravel()
        information = problem.information(theta)
        direction = _solved(information, scale, gradient)
        length = float(gradient @ np.linalg.solve(scale, gradient)) / problem.unit
        if length < STOP:
            return _judged(problem, Climb(beta, value, information, step), scale, names)
        move = X @ direction.reshape(shape)
        factor = min(1.0, problem.family.longest / max(float(np.abs(move).max()), 1e-300))
        for _ in range(40):
            trial = beta + factor * direction.reshape(shape)
            there = problem.value(X @ trial)
            if np.isfinite(there) and there >= value - 1e-12 * abs(value):
                break
            factor /= 2
        else:
            # No step rises: what is left is rounding, or there is no maximum.
            if length < NEAR:
                return _judged(problem, Climb(beta, value, information, step), scale, names)
            break
        beta, theta, value = trial, X @ trial, there
    _judged(problem, Climb(beta, value, problem.information(theta), most), scale, names)
    raise NotIdentified(
        f"not identified by these data: no maximum was found in {most} steps; more reports or a "
        "more informative design are needed",
        beta,
    )


def _unit(matrix: Floats, scale: Floats) -> Floats:
    """A matrix in units of the diagonal of another."""
    size = np.sqrt(np.maximum(np.diag(scale), 1e-300))
    return np.asarray(matrix / np.outer(size, size))


def _solved(information: Floats, scale: Floats, gradient: Floats) -> Floats:
    """A direction that rises: Newton's where the information is positive."""
    size = np.sqrt(np.maximum(np.diag(scale), 1e-300))
    values, vectors = np.linalg.eigh(information / np.outer(size, size))
    # Where the function is not concave the way down is turned round, and flat ones are shortened.
    values = np.maximum(np.abs(values), 1e-10 * max(float(np.abs(values).max()), 1e-300))
    return np.asarray(vectors @ ((vectors.T @ (gradient / size)) / values) / size)


def _judged(problem: Problem, found: Climb, scale: Floats, names: Sequence[str]) -> Climb:
    """The fit, if its information is positive in every direction."""
    values, vectors = np.linalg.eigh(_unit(found.information, scale))
    if values[0] > WEAKEST * max(float(np.linalg.eigvalsh(_unit(scale, scale))[0]), WEAKEST):
        return found
    size = np.sqrt(np.diag(scale))
    direction = np.abs(vectors[:, 0] / size)
    held = direction > 0.1 * direction.max()
    where = [name for name, h in zip(names, held, strict=True) if h]
    if isinstance(problem.family, Logit | Poisson) and np.abs(problem.X @ found.beta).max() > 8:
        raise NotIdentified(
            f"not identified by these data: {listed(where)} grow without end (separation, or a "
            "group whose estimate is 0 or 1); leave it out, join categories, or ask more people",
            where,
        )
    raise NotIdentified(
        f"not identified by these data: {listed(where)} have no maximum; more reports or a more "
        "informative design are needed",
        where,
    )
