"""What the classifiers have in common: which records they take, labels, and the score.

The score is the accuracy on the truth behind disguised test reports, for any design.

``A(y) = sum_x B[x, y] 1[prediction(x) = class(x)]`` has expectation 1[prediction = class] at the
truth, so its mean over reports is unbiased.  It is never clipped: an accuracy above 1 is noise
that must be seen.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, ClassifierMixin

from ppdm_dask.arrays import Floats
from ppdm_dask.data.codebook import Records, Reports, code_dtype
from ppdm_dask.designs.base import Design
from ppdm_dask.designs.matching import bound_to, require_countable, require_design
from ppdm_dask.errors import InputError, RecordsError
from ppdm_dask.inference.laws import undefined
from ppdm_dask.inference.result import Estimate
from ppdm_dask.inference.uncertainty import standard_error_of
from ppdm_dask.mine.evidence import row_keys
from ppdm_dask.shown import shown

if TYPE_CHECKING:
    from ppdm_dask.inference.stratified import Strata, Stratified
    from ppdm_dask.randomness import Stream

Correct = Callable[[npt.NDArray[Any]], npt.NDArray[np.bool_]]

ENUMERATED = 1 << 20
"""Evaluations of the classifier up to which the sum over the truth is exact."""

DRAWS = 32


def score_disguised(
    correct: Correct, reports: Reports, design: Design, stream: Stream | None = None
) -> Estimate:
    """Estimate the accuracy on the truth behind test reports.

    Parameters
    ----------
    correct : callable
        ``correct(codes)``: for coded records over the reports' attributes, is the prediction right?
    reports : Reports
        Test reports, with all attributes of the design.
    design : Design
        The design that made them.
    stream : Stream, optional
        Samples the sum over the truth where it is too long to enumerate.

    Returns
    -------
    Estimate
        Its standard error is that of the population behind the test records.

    Raises
    ------
    RecordsError
        For no reports, or such as another design made.
    CodebookError
        If an attribute of the design is not among theirs.
    InputError
        If the sum has to be sampled and there is no stream.
    """
    if not len(reports):
        raise RecordsError("there are no test reports; at least one is needed", reports)
    design = bound_to(reports, design)
    require_countable(reports, design)
    # Undisguised records pass where the design disguises nothing of them.
    if require_design(reports, design)[0] != design.digest and isinstance(reports, Reports):
        raise RecordsError("the test reports do not say that this design made them", design)
    names = reports.codebook.names
    columns = [reports.codebook.index(name) for name in design.attributes]
    others = [i for i in range(len(names)) if i not in columns]
    keys = row_keys(reports.codes[:, others], [reports.sizes[i] for i in others])
    _, first, which = np.unique(keys, return_index=True, return_inverse=True)
    if design.n_true * len(first) <= ENUMERATED:
        weights = _enumerate(correct, reports.codes, design, columns, first, which.ravel())
    elif stream is not None:
        weights = _sample(correct, reports.codes, design, columns, stream)
    else:
        raise InputError(
            f"scoring sums over {design.n_true} joint categories for {len(first)} undisguised "
            f"patterns, more than {ENUMERATED} terms: give a stream to sample them",
            design,
        )
    n = len(weights)
    mean = math.fsum(weights) / n
    error = math.nan
    if n > 1:
        # Weights that are all alike by chance say nothing of how they vary.
        square = math.fsum(weights**2) / n
        spread = np.array(max(square - mean**2, 0.0) / (n - 1))
        error = float(standard_error_of(undefined(spread, n, max(square, 1.0))[0]))
    return Estimate.single(mean, error, n)


def score_strata(correct: Correct, strata: Strata, stream: Stream | None = None) -> Estimate:
    """Estimate the accuracy over strata of test reports, each disguised by a design of its own.

    ``sum_h n_h A_h / n`` with ``SE^2 = sum_h (n_h s_h / n)^2``.  [ZhanDu]_, section 4.8.

    Parameters
    ----------
    correct : callable
        As for :func:`score_disguised`.
    strata : sequence of (Records or Reports, Design)
    stream : Stream, optional
        As for :func:`score_disguised`.
    """
    parts = [
        score_disguised(correct, reports, design, None if stream is None else stream.child(h))  # type: ignore[arg-type]
        for h, (reports, design) in enumerate(strata)
    ]
    n = sum(part.n for part in parts)
    value = math.fsum(part.n * part.value for part in parts) / n
    error = math.hypot(*(part.n * part.standard_error for part in parts)) / n
    return Estimate.single(value, error, n)


def _enumerate(
    correct: Correct,
    codes: npt.NDArray[Any],
    design: Design,
    columns: list[int],
    first: npt.NDArray[np.int64],
    which: npt.NDArray[np.int64],
) -> Floats:
    """A(y) exactly: B transposed, applied to the classifier's table of hits.

    Parameters
    ----------
    codes : array, shape (n, attributes)
    columns : list of int
        Those that are disguised.
    first, which : int arrays, shapes (patterns,) and (n,)
        A report of each pattern of the other columns, and the pattern of each report.
    """
    domain = np.indices(design.shape, dtype=code_dtype(max(design.shape)))
    truth = np.empty((design.n_true * len(first), codes.shape[1]), dtype=codes.dtype, order="F")
    # All joint categories with each pattern, the patterns running fastest.
    for column in range(codes.shape[1]):
        truth[:, column] = np.tile(codes[first, column], design.n_true)
    truth[:, columns] = np.repeat(domain.reshape(len(design.shape), -1).T, len(first), axis=0)
    hits = correct(truth).astype(float).reshape(design.n_true, len(first))
    weights: Floats = design.invert_transposed(hits)[design.joint(codes[:, columns]), which]
    return weights


def _sample(
    correct: Correct,
    codes: npt.NDArray[Any],
    design: Design,
    columns: list[int],
    stream: Stream,
) -> Floats:
    """A(y) without bias: x is drawn in proportion to |B e_y| and carries its sign."""
    weights = np.zeros(len(codes))
    for draw in range(DRAWS):
        truth = np.array(codes, order="F")
        truth[:, columns], factor = design.sample_inverse(codes[:, columns], stream.child(draw))
        weights += factor * correct(truth)
    return weights / DRAWS


class Classifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A classifier of categorical attributes, fitted to disguised reports."""

    design: Design | Stratified
    classes_: npt.NDArray[Any]

    @abstractmethod
    def predict_codes(self, X: Records) -> npt.NDArray[np.int64]:
        """Predicted codes of the target, shape (n,)."""

    @abstractmethod
    def count_correct(self, X: Records) -> int:
        """Records whose target is the predicted one."""

    @abstractmethod
    def score_disguised(self, reports: Any) -> Estimate:
        """Unbiased accuracy on the truth behind disguised test reports."""

    def predict(self, X: Records) -> npt.NDArray[Any]:
        """Predicted labels of the target, shape (n,); reports as in :meth:`predict_codes`."""
        codes = self.predict_codes(X)
        labels: npt.NDArray[Any] = self.classes_[codes]
        return labels

    def score(self, X: Records | Sequence[Records], y: None = None) -> float:
        """Accuracy on the truth, whatever the records are.

        Reported answers are not the truth, so counting how often the reported class is predicted
        would be no accuracy.

        Parameters
        ----------
        X : Records, Reports, or one Reports a stratum under a stratified design
            Of clean records it is the share whose target is predicted correctly, in [0, 1]; of
            reports its unbiased estimate, as by :meth:`score_disguised`, which may leave [0, 1].

        Raises
        ------
        RecordsError
            Without records, or for reports that the model's design did not make.
        """
        if not isinstance(X, Records):
            return self.score_disguised(X).value
        if not len(X):
            raise RecordsError("there are no test records; at least one is needed", X)
        if not isinstance(X, Reports):
            return self.count_correct(X) / len(X)
        design = self.design
        if isinstance(design, Design) and X.design_digest != design.digest:
            raise RecordsError("the test reports do not say that the model's design made them", X)
        return self.score_disguised(X).value


def check_inputs(X: Any, names: Iterable[str], categories: Mapping[str, tuple[str, ...]]) -> None:
    """Raise RecordsError unless these are records with the categories of a fitted model.

    Parameters
    ----------
    X : Records
    names : iterable of str
        Attributes that are looked at.
    categories : mapping of attribute to tuple of str
        Those that the model was fitted to.
    """
    if not isinstance(X, Records):
        raise RecordsError(
            f"X: got {type(X).__name__}; Records are needed, as Codebook.encode gives them", X
        )
    for name in names:
        if X.codebook[name].categories != categories[name]:
            raise RecordsError(
                f"attribute {shown(name)} has other categories than the model was fitted to", X
            )
