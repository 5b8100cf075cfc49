"""Choosing models by scikit-learn's searches, when the answers are disguised.

``model.score`` is unbiased on reports, so ``GridSearchCV``, ``cross_val_score`` and
``learning_curve`` are right as they are; what is here adds standard errors and simulations.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Mapping
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin

from ppdm_dask.arrays import Floats
from ppdm_dask.data.codebook import Records, Reports
from ppdm_dask.designs.base import Design
from ppdm_dask.errors import InputError, RecordsError
from ppdm_dask.inference.result import Estimate
from ppdm_dask.mine.classifier import Classifier
from ppdm_dask.randomness import Stream
from ppdm_dask.ranges import real
from ppdm_dask.shown import given, listed

__all__ = ["Disguise", "disguised_accuracy", "one_standard_error"]

Results = Mapping[str, Any]


def accuracy_of(model: Classifier, X: Any) -> Estimate:
    """Accuracy of a fitted model on the truth, with its standard error.

    Parameters
    ----------
    model : Classifier
    X : Records, Reports, or one Reports a stratum under a stratified design
        Of clean records the error is that of a share.
    """
    if isinstance(X, Records) and not isinstance(X, Reports):
        share = model.score(X)
        error = math.sqrt(share * (1 - share) / (len(X) - 1)) if len(X) > 1 else math.nan
        return Estimate.single(share, error, len(X))
    return model.score_disguised(X)


def disguised_accuracy(estimator: Any, X: Any, y: None = None) -> dict[str, float]:
    """Scoring for scikit-learn's searches: the unbiased accuracy and its standard error.

    Parameters
    ----------
    estimator : Classifier, or a pipeline that ends in one
    X : Records or Reports
        Of one fold.

    Returns
    -------
    dict
        ``accuracy`` and ``standard_error``; a search has ``mean_test_accuracy`` and
        ``split0_test_standard_error`` of them.

    Examples
    --------
    >>> from sklearn.model_selection import GridSearchCV
    >>> import ppdm_dask as pp
    >>> frame = pp.datasets.load("breast-cancer")
    >>> book = pp.Codebook.from_toml(pp.resources.codebook_path("breast-cancer"))
    >>> records = book.binarise(frame, "midrange").encode(frame)
    >>> design = pp.UnrelatedQuestion(records.codebook.names, q=0.9)
    >>> reports = design.disguise(records, pp.Stream.from_seed(1))
    >>> search = GridSearchCV(
    ...     pp.ID3(design, "class"),
    ...     {"max_depth": [1, 2, 3]},
    ...     scoring=pp.disguised_accuracy,
    ...     refit=pp.one_standard_error("max_depth"),
    ... ).fit(reports)
    >>> search.best_estimator_.score(records) > 0.9
    True
    """
    steps = getattr(estimator, "steps", None)
    if steps is not None:
        for _, step in steps[:-1]:
            X = step.transform(X)
        estimator = steps[-1][1]
    if not isinstance(estimator, Classifier):
        raise InputError(
            f"scoring: got {type(estimator).__name__}; a classifier of disguised data is needed",
            estimator,
        )
    found = accuracy_of(estimator, X)
    return {"accuracy": float(found.value), "standard_error": float(found.standard_error)}


def one_standard_error(
    parameter: str, score: str = "accuracy", *, simplest: str = "smallest", paired: bool = False
) -> Callable[[Results], int]:
    """Rule for ``refit=`` of a search: the simplest model within one standard error of the best.

    Folds share no test report, so the error of a mean over folds is that of independent scores:
    from the reports' own standard errors where the scoring gives them, from the spread over the
    folds otherwise.

    Parameters
    ----------
    parameter : str
        The parameter that says how complex a model is: ``max_depth``, ``tree__max_depth``, or, with
        ``simplest="largest"``, ``ccp_alpha``.
    score : str
        Name of the score; of a search with a single score it is not looked at.
    simplest : {"smallest", "largest"}
        Which of its values is the simplest model; None, no limit, is never simpler than another.
    paired : bool
        Whether a model has to be within one standard error of its own difference from the best,
        which the folds' differences give.  Models are scored on the same reports, whose noise is
        common to them, so that this error is smaller: the plain rule may give away as much accuracy
        as the best score is uncertain.

    Raises
    ------
    InputError
        If the search does not vary the parameter, which has to be a number or None, has no such
        score or no standard error of it, or, for differences, a single fold.

    References
    ----------
    Section 3.4.3 of [Breiman]_.
    """
    if simplest not in ("smallest", "largest"):
        raise InputError(
            f"simplest: got {given(simplest)}; 'smallest' or 'largest' is needed", simplest
        )

    def choose(results: Results) -> int:
        values = results.get(f"param_{parameter}")
        if values is None:
            varied = [key.removeprefix("param_") for key in results if key.startswith("param_")]
            raise InputError(
                f"one_standard_error: the search does not vary {given(parameter)}; "
                f"it varies: {listed(varied)}",
                parameter,
            )
        name = score if f"mean_test_{score}" in results else "score"
        if f"mean_test_{name}" not in results:
            scores = [key.removeprefix("mean_test_") for key in results if "mean_test_" in key]
            raise InputError(f"score: got {given(score)}; the search has: {listed(scores)}", score)
        means = np.asarray(results[f"mean_test_{name}"], float)
        if np.isnan(means).all():
            raise InputError(f"{name}: no model of the search has a score", means)
        best = int(np.nanargmax(means))
        if paired:
            errors = _errors_of_differences(results, name, best)
        else:
            errors = np.full(len(means), _error_of_mean(results, name, best))
        sign = 1 if simplest == "smallest" else -1
        order = [
            math.inf if value is None else sign * real(parameter, value, infinite=True)
            for value in values
        ]
        if math.isnan(errors[best]):
            raise InputError(
                "one_standard_error: the scores of the best model have no standard error; "
                "folds of two or more reports are needed",
                errors,
            )
        # Of equally simple ones the better.
        inside = [i for i in range(len(means)) if means[i] >= means[best] - errors[i]]
        return min(inside, key=lambda i: (order[i], -means[i]))

    return choose


def _folds(results: Results, name: str) -> int:
    return sum(1 for key in results if key.startswith("split") and key.endswith(f"_test_{name}"))


def _errors_of_differences(results: Results, name: str, best: int) -> Floats:
    """Standard errors of the mean differences from the best candidate, from those of the folds."""
    folds = _folds(results, name)
    if folds < 2:
        raise InputError(f"paired: the search has {folds} fold; two or more are needed", folds)
    scores = np.array([results[f"split{k}_test_{name}"] for k in range(folds)], float)
    found: Floats = (scores - scores[:, [best]]).std(axis=0, ddof=1) / math.sqrt(folds)
    return found


def _error_of_mean(results: Results, name: str, candidate: int) -> float:
    """Standard error of a candidate's mean score over the folds."""
    folds = _folds(results, name)
    errors = [results.get(f"split{k}_test_standard_error") for k in range(folds)]
    if all(each is not None for each in errors):
        return math.hypot(*(float(each[candidate]) for each in errors)) / folds  # type: ignore[index]
    spread = float(results[f"std_test_{name}"][candidate])
    return spread / math.sqrt(max(folds - 1, 1))


class Disguise(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """A step of a pipeline that simulates the disguise of clean records.

    A search over ``disguise__design`` then compares designs for what a learner makes of their
    reports.  The learner after it takes the design from the reports (``design=None``).

    Parameters
    ----------
    design : Design
    seed : int
        Of the simulation.  Draws also depend on the records, so that folds are disguised apart.

    Examples
    --------
    >>> from sklearn.pipeline import Pipeline
    >>> import ppdm_dask as pp
    >>> steps = [("disguise", pp.Disguise(pp.Warner("a", 0.8), 1)), ("tree", pp.ID3(None, "a"))]
    >>> Pipeline(steps).get_params()["disguise__seed"]
    1
    """

    def __init__(self, design: Design, seed: int = 0) -> None:
        self.design = design
        self.seed = seed

    def fit(self, X: Records, y: None = None) -> Self:
        """Nothing is learned."""
        _require_clean(X)
        return self

    def transform(self, X: Records) -> Reports:
        """Reports of clean records; the same for the same records."""
        _require_clean(X)
        if not isinstance(self.design, Design):
            raise InputError(f"design: got {given(self.design)}; one design is needed", self.design)
        digest = hashlib.blake2b(np.ascontiguousarray(X.codes).data, digest_size=8).digest()
        stream = Stream.from_seed(self.seed).child(int.from_bytes(digest) >> 1)
        return self.design.disguise(X, stream)

    def __sklearn_is_fitted__(self) -> bool:
        return True


def _require_clean(X: Any) -> None:
    if not isinstance(X, Records) or isinstance(X, Reports):
        raise RecordsError(
            f"X: got {type(X).__name__}; undisguised Records are needed, as Codebook.encode "
            "gives them",
            X,
        )
