"""What a classifier gets right and wrong on the truth behind disguised test reports.

Every figure is a mean of unbiased weights, ``sum_x B[x, y] f(x)`` for an outcome f of the true
record, or a ratio of such means with its error by the delta method.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ppdm_dask.arrays import Floats
from ppdm_dask.data.codebook import Records, Reports
from ppdm_dask.designs.base import Design
from ppdm_dask.errors import InputError, RecordsError
from ppdm_dask.extras import named
from ppdm_dask.faces.dataset import dataset_of
from ppdm_dask.faces.face import Face, html_table, picture
from ppdm_dask.faces.plots import grid, grid_size
from ppdm_dask.inference.owners import Owners, scored
from ppdm_dask.inference.result import Estimate
from ppdm_dask.mine.classifier import truth_weights
from ppdm_dask.shown import given, listed

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr
    from markupsafe import Markup
    from matplotlib.axes import Axes

    from ppdm_dask.mine.classifier import Classifier, Outcome
    from ppdm_dask.randomness import Stream

__all__ = ["Evaluation", "evaluate"]

BLOCK = 1 << 16
"""Reports at a time: their weights are a column an outcome."""

LEAST = 1e-15
"""Least probability of the log loss, as scikit-learn had it."""


@dataclass(frozen=True, eq=False, repr=False)
class Evaluation(Face):
    """Unbiased figures of a classifier, with standard errors for the population of test records.

    Parameters
    ----------
    confusion : Estimate
        Proportions of the records by predicted and actual class; they sum to 1, and may be
        negative.
    log_loss : Estimate
        Mean of ``-log p`` of the actual class, in nats.
    curves : mapping of class to pair of Estimate
        Shares of the records that are of the class, and that are not, whose probability of it is
        at least each threshold.
    thresholds : array
    """

    confusion: Estimate
    log_loss: Estimate
    curves: dict[str, tuple[Estimate, Estimate]]
    thresholds: Floats

    @property
    def classes(self) -> tuple[str, ...]:
        """Labels."""
        return self.confusion.labels["actual"]

    @cached_property
    def accuracy(self) -> Estimate:
        """Share of the records that are predicted right."""
        return self.confusion.combine(np.eye(len(self.classes)))

    @cached_property
    def balanced_accuracy(self) -> Estimate:
        """Mean over the classes of the share that is predicted right; a ratio, not unbiased."""
        table = self.confusion.values
        actual, right = table.sum(axis=0), np.diag(table)
        k = len(self.classes)
        gradient = (np.eye(k) * actual - right) / actual**2 / k
        value = float((right / actual).mean())
        return _linearised(self.confusion, gradient, value)

    def roc(self, positive: str) -> pd.DataFrame:
        """Points of the curve of a class: a row a threshold, from the highest down.

        Parameters
        ----------
        positive : str
            The class.

        Returns
        -------
        DataFrame
            ``threshold``, ``false_positive_rate`` and ``true_positive_rate``, with their standard
            errors.  Unbiased shares are divided, so rates may leave [0, 1].

        Raises
        ------
        InputError
            If there is no such class.
        """
        with named("roc"):
            import pandas as pd

        if positive not in self.curves:
            raise InputError(
                f"positive: got {given(positive)}; the classes are {listed(self.classes)}", positive
            )
        columns: dict[str, Any] = {"threshold": self.thresholds}
        # The first threshold is 0: everybody is above it.
        for name, found in zip(("true", "false"), self.curves[positive], strict=True):
            rates = [_rate(found, i) for i in range(len(self.thresholds))]
            columns[f"{name}_positive_rate"] = [each.value for each in rates]
            columns[f"{name}_positive_error"] = [float(each.standard_error) for each in rates]
        return pd.DataFrame(columns).iloc[::-1].reset_index(drop=True)

    def _figures(self) -> dict[str, Estimate]:
        return {
            "accuracy": self.accuracy,
            "balanced accuracy": self.balanced_accuracy,
            "log loss": self.log_loss,
        }

    def to_frame(self, level: float = 0.95) -> pd.DataFrame:
        """Accuracy, balanced accuracy and log loss with errors and intervals, a row each."""
        with named("to_frame"):
            import pandas as pd

        rows = {name: found.rows(level)[0] for name, found in self._figures().items()}
        columns = {
            "value": [row.value for row in rows.values()],
            "standard_error": [row.standard_error for row in rows.values()],
            "lower": [row.lower for row in rows.values()],
            "upper": [row.upper for row in rows.values()],
        }
        return pd.DataFrame(columns, index=pd.Index(rows, name="figure"))

    def to_dataset(self, level: float = 0.95) -> xr.Dataset:
        """The numbers of :meth:`to_frame`, along ``figure``."""
        found = self.to_frame(level)
        return dataset_of(
            {"figure": found.index.tolist()},
            [found[name] for name in ("value", "standard_error", "lower", "upper")],
            units="proportion; of the log loss, nats",
            level=level,
            interval="Wald",
            method="inversion",
            n=self.confusion.n,
        )

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the confusion matrix on axes of matplotlib: estimated shares of the records."""
        classes = self.classes
        return grid(ax, self.confusion.values, classes, classes, x="actual", y="predicted")

    def _said(self) -> str:
        figures = [
            f"{name} {found.value:.4f} ± {float(found.standard_error):.4f}"
            for name, found in self._figures().items()
        ]
        return f"Evaluation on {self.confusion.n:,} records: {', '.join(figures)}"

    def _shown(self) -> Iterator[Markup]:
        yield html_table(self.to_frame(), index=True)
        if len(self.classes) <= 12:
            yield picture(self.plot, *grid_size(self.classes, self.classes), "Confusion matrix")

    def __str__(self) -> str:
        lines = [
            f"{name:18} {x.value:9.4f}  {float(x.standard_error):.4f}"
            for name, x in self._figures().items()
        ]
        return "\n".join([f"evaluation on {self.confusion.n:,} records", *lines])


def evaluate(
    model: Classifier,
    X: Any,
    stream: Stream | None = None,
    *,
    thresholds: Sequence[float] | npt.NDArray[Any] | None = None,
) -> Evaluation:
    """Evaluate a fitted classifier on test records, disguised or clean.

    Parameters
    ----------
    model : Classifier
    X : Records, Reports or Owners
        Reports of the model's design, or of several owners with theirs, none of which it was fitted
        to.  Figures of owners are sums over theirs.
    stream : Stream, optional
        Samples the sum over the truth where it is too long to enumerate.
    thresholds : sequence of float, optional
        For the curves, each above 0 and at most 1; by default .05, .10, ..., .95.

    Raises
    ------
    RecordsError
        Without records, or for reports that another design made.
    InputError
        For thresholds out of range, or where there is no stream and one is needed.
    """
    design, X = model.design_, scored(model.design_, X)
    if not isinstance(X, Records | Owners) or not len(X):
        raise RecordsError("X: at least one record is needed, as Records, Reports or Owners", X)
    levels = np.linspace(0.05, 0.95, 19) if thresholds is None else np.asarray(thresholds, float)
    if levels.ndim != 1 or not ((levels > 0) & (levels <= 1)).all():
        raise InputError("thresholds: numbers above 0 and up to 1 are needed", thresholds)
    levels = np.concatenate([[0.0], np.unique(levels)])
    k = len(model.classes_)
    if isinstance(X, Owners):
        strata, n = X.design.pair(X), X.n
        below = [None if stream is None else stream.child(h) for h in range(len(strata))]
        parts = [
            _moments(model, one, made, levels, draws)
            for (one, made), draws in zip(strata, below, strict=True)
        ]
        shares = X.design.shares([len(one) for one in X])
        mean = np.sum([s * part[0] for s, part in zip(shares, parts, strict=True)], axis=0)
        covariance = np.sum([s**2 * part[1] for s, part in zip(shares, parts, strict=True)], axis=0)
    else:
        assert isinstance(design, Design)  # else `scored` has made them owners
        n = len(X)
        mean, covariance = _moments(model, X, design, levels, stream)
    classes = tuple(str(label) for label in model.classes_)
    at = np.arange(len(mean))
    curves = {}
    for c, label in enumerate(classes):
        first = k * k + 1 + 2 * len(levels) * c
        middle, last = first + len(levels), first + 2 * len(levels)
        axis = {"threshold": tuple(f"{level:g}" for level in levels)}
        curves[label] = (
            _part(mean, covariance, at[first:middle], axis, n),
            _part(mean, covariance, at[middle:last], axis, n),
        )
    axes = {"predicted": classes, "actual": classes}
    return Evaluation(
        _part(mean, covariance, at[: k * k].reshape(k, k), axes, n),
        _part(mean, covariance, at[k * k], {}, n),
        curves,
        levels,
    )


def _moments(
    model: Classifier, X: Records, design: Design, levels: Floats, stream: Stream | None
) -> tuple[Floats, Floats]:
    """Means of all outcomes over the truth behind records of one design, and their covariance."""
    outcome, n = _outcomes(model, X, levels), len(X)
    total, square = np.zeros(0), np.zeros((0, 0))
    for start in range(0, n, BLOCK):
        part = X[start : start + BLOCK]
        if isinstance(part, Reports):
            below = None if stream is None else stream.child(start)
            weights = truth_weights(outcome, part, design, below)
        else:
            weights = outcome(part.codes)
        if not start:
            total, square = np.zeros(weights.shape[1]), np.zeros((weights.shape[1],) * 2)
        total += weights.sum(axis=0)
        square += weights.T @ weights
    mean = total / n
    covariance = (square / n - np.outer(mean, mean)) / (n - 1) if n > 1 else square * np.nan
    return mean, covariance


def _outcomes(model: Classifier, like: Records, levels: Floats) -> Outcome:
    """For true records: in which cell of the confusion, the log loss, and who is above a level."""
    k, target = len(model.classes_), like.codebook.index(model.target_)

    def outcome(codes: npt.NDArray[Any]) -> Floats:
        records = Records(codes, like.codebook)
        chances, actual = model.predict_proba(records), codes[:, target].astype(np.intp)
        rows = np.arange(len(codes))
        found = np.zeros((len(codes), k * k + 1 + 2 * k * len(levels)))
        found[rows, model.predict_codes(records) * k + actual] = 1
        found[:, k * k] = -np.log(np.maximum(chances[rows, actual], LEAST))
        for c in range(k):
            above = chances[:, [c]] >= levels
            first, inside = k * k + 1 + 2 * len(levels) * c, (actual == c)[:, None]
            found[:, first : first + len(levels)] = above & inside
            found[:, first + len(levels) : first + 2 * len(levels)] = above & ~inside
        return found

    return outcome


def _part(
    mean: Floats,
    covariance: Floats,
    at: npt.NDArray[np.intp],
    axes: dict[str, tuple[str, ...]],
    n: int,
) -> Estimate:
    flat = at.ravel()
    found = covariance[np.ix_(flat, flat)]
    variance = np.diag(found).reshape(at.shape)
    return Estimate(axes, mean[at], variance, n, covariances=lambda: found)


def _linearised(estimate: Estimate, gradient: Floats, value: float) -> Estimate:
    """A smooth function of an estimate, with its error by the delta method."""
    g = gradient.ravel()
    variance = float(g @ estimate.covariance @ g)
    return Estimate.single(value, math.sqrt(max(variance, 0.0)), estimate.n)


def _rate(shares: Estimate, level: int) -> Estimate:
    """Those above a level among all, who are above the first."""
    value = float(shares.values[level] / shares.values[0])
    gradient = np.zeros(shares.values.size)
    gradient[level] += 1 / shares.values[0]
    gradient[0] -= value / shares.values[0]
    return _linearised(shares, gradient, value)
