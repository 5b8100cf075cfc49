"""What the classifiers have in common: which records they take, labels, and the score.

The score is the accuracy on the truth behind disguised test reports, for any design.

``A(y) = sum_x B[x, y] 1[prediction(x) = class(x)]`` has expectation 1[prediction = class] at the
truth, so its mean over reports is unbiased.  It is never clipped: an accuracy above 1 is noise
that must be seen.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from ppdm_dask.arrays import Floats
from ppdm_dask.data.codebook import Codebook, Records, Reports, code_dtype, table_of
from ppdm_dask.data.partitioned import PartitionedReports, opened
from ppdm_dask.designs.base import Design, design_from_config
from ppdm_dask.designs.identity import Identity
from ppdm_dask.designs.matching import bound_to, require_countable, require_design
from ppdm_dask.designs.parameters import MOST_CELLS
from ppdm_dask.designs.product import Product
from ppdm_dask.errors import InputError, RecordsError
from ppdm_dask.faces.face import block, names_of
from ppdm_dask.faces.learner import LearnerFace
from ppdm_dask.inference.laws import undefined
from ppdm_dask.inference.owners import Owners
from ppdm_dask.inference.result import Estimate
from ppdm_dask.inference.stratified import Stratified
from ppdm_dask.inference.uncertainty import standard_error_of
from ppdm_dask.mine.arrays import Columns
from ppdm_dask.mine.evidence import row_keys
from ppdm_dask.shown import shown

if TYPE_CHECKING:
    from markupsafe import Markup

    from ppdm_dask.inference.stratified import Strata
    from ppdm_dask.randomness import Stream

Correct = Callable[[npt.NDArray[Any]], npt.NDArray[np.bool_]]
Outcome = Callable[[npt.NDArray[Any]], npt.NDArray[Any]]
"""What is asked of coded records: a number each, or a row of numbers."""

ENUMERATED = 1 << 20
"""Evaluations of the classifier up to which the sum over the truth is exact."""

DRAWS = 32


def undisguised(codebook: Codebook) -> Design:
    """The design of clean records, in blocks of one attribute where it would be too large."""
    if math.prod(codebook.shape) <= MOST_CELLS:
        return Identity(codebook.names, codebook.shape)
    pairs = zip(codebook.names, codebook.shape, strict=True)
    return Product([Identity(name, [size]) for name, size in pairs])


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
    weights = truth_weights(correct, reports, design, stream)
    n = len(weights)
    mean = math.fsum(weights) / n
    error = math.nan
    if n > 1:
        # Weights that are all alike by chance say nothing of how they vary.
        square = math.fsum(weights**2) / n
        spread = np.array(max(square - mean**2, 0.0) / (n - 1))
        error = float(standard_error_of(undefined(spread, n, max(square, 1.0))[0]))
    return Estimate.single(mean, error, n)


def truth_weights(
    outcome: Outcome, reports: Reports, design: Design, stream: Stream | None = None
) -> Floats:
    """Unbiased weights, one per report, of an outcome of the truth: ``sum_x B[x, y] outcome(x)``.

    Parameters
    ----------
    outcome : callable
        ``outcome(codes)``: shape (n,) or (n, m), for coded records over the reports' attributes.
    reports, design, stream
        As for :func:`score_disguised`, whose errors are raised.

    Returns
    -------
    array, shape (n,) or (n, m)
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
        return _enumerate(outcome, reports.codes, design, columns, first, which.ravel())
    if stream is not None:
        return _sample(outcome, reports.codes, design, columns, stream)
    raise InputError(
        f"scoring sums over {design.n_true} joint categories for {len(first)} undisguised "
        f"patterns, more than {ENUMERATED} terms: give a stream to sample them",
        design,
    )


def score_strata(
    correct: Correct,
    strata: Strata,
    stream: Stream | None = None,
    weights: Sequence[float] | None = None,
) -> Estimate:
    """Estimate the accuracy over strata of test reports, each disguised by a design of its own.

    ``sum_h n_h A_h / n`` with ``SE^2 = sum_h (n_h s_h / n)^2``.  [ZhanDu]_, section 4.8.

    Parameters
    ----------
    correct : callable
        As for :func:`score_disguised`.
    strata : sequence of (Records or Reports, Design)
    stream : Stream, optional
        As for :func:`score_disguised`.
    weights : sequence of float, optional
        What a report of each stratum counts for; by default all count alike.
    """
    parts = [
        score_disguised(correct, reports, design, None if stream is None else stream.child(h))  # type: ignore[arg-type]
        for h, (reports, design) in enumerate(strata)
    ]
    n = sum(part.n for part in parts)
    factors = [1.0] * len(parts) if weights is None else weights
    times = [factor * part.n for factor, part in zip(factors, parts, strict=True)]
    total = math.fsum(times)
    value = math.fsum(t * part.value for t, part in zip(times, parts, strict=True)) / total
    errors = [t * float(part.standard_error) for t, part in zip(times, parts, strict=True)]
    error = math.hypot(*sorted(errors)) / total
    return Estimate.single(value, error, n)


def _enumerate(
    outcome: Outcome,
    codes: npt.NDArray[Any],
    design: Design,
    columns: list[int],
    first: npt.NDArray[np.int64],
    which: npt.NDArray[np.int64],
) -> Floats:
    """A(y) exactly: B transposed, applied to the table of outcomes.

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
    found = outcome(truth).astype(float)
    table = design.invert_transposed(found.reshape(design.n_true, -1))
    table = table.reshape(design.n_reported, len(first), *found.shape[1:])
    weights: Floats = table[design.joint(codes[:, columns]), which]
    return weights


def _sample(
    outcome: Outcome,
    codes: npt.NDArray[Any],
    design: Design,
    columns: list[int],
    stream: Stream,
) -> Floats:
    """A(y) without bias: x is drawn in proportion to ``|B e_y|`` and carries its sign."""
    total: Any = 0.0
    for draw in range(DRAWS):
        truth = np.array(codes, order="F")
        truth[:, columns], factor = design.sample_inverse(codes[:, columns], stream.child(draw))
        found = outcome(truth)
        total = total + factor.reshape(-1, *[1] * (found.ndim - 1)) * found
    weights: Floats = total / DRAWS
    return weights


class Designed(LearnerFace):
    """An estimator with a design: its parameters, its features, and what is asked of it."""

    design: Design | Stratified | None
    codebook_: Codebook
    features_: tuple[str, ...]
    _columns: Columns | None = None

    # -- faces -------------------------------------------------------------------------------------

    def _fitted_html(self) -> str | None:
        if not hasattr(self, "features_"):
            return None
        return block(self._said(), *self._shown())

    def _said(self) -> str:
        of = f" for {self.target_}" if hasattr(self, "target_") else ""
        n = getattr(self, "n_reports_", None)
        reports = "" if n is None else f", {n:,} reports"
        return f"{type(self).__name__}{of} from {names_of(self.features_)}{reports}"

    def _shown(self) -> Iterator[Markup]:
        return iter(())

    def _fitted_to(self, features: Iterable[str]) -> None:
        """Say what the features were, as scikit-learn does."""
        self.features_ = tuple(features)
        self.n_features_in_ = len(self.features_)
        if self._columns is None:
            self.feature_names_in_ = np.array(self.features_, dtype=object)

    def _asked(self, X: Any) -> Records:
        """Records to predict: as they are, or from columns like those that were fitted."""
        check_is_fitted(self)
        if isinstance(X, Records):
            return X
        if self._columns is not None:
            return self._columns.records(self, X)
        return self._encoded(X)

    def _encoded(self, X: Any, *others: str) -> Records:
        """Answers of a table of labels, for a model that was fitted to records."""
        if not hasattr(X, "columns") and not isinstance(X, Mapping):
            raise RecordsError(
                f"X: got {type(X).__name__}; Records are needed, as Codebook.encode gives them, "
                "or a table of labels",
                X,
            )
        return self.codebook_.select((*self.features_, *others)).encode(table_of(X))

    # -- parameters --------------------------------------------------------------------------------

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Parameters; deep ones are those of the design, such as ``design__theta``."""
        params: dict[str, Any] = super().get_params(deep=False)
        if deep and isinstance(self.design, Design):
            nested = self.design.config().items()
            params |= {f"design__{key}": value for key, value in nested if key != "id"}
        return params

    def set_params(self, **params: Any) -> Self:
        """Set parameters; ``design__theta=0.7`` puts a design that differs in it in the place.

        Raises
        ------
        DesignError
            For what the design has no parameter of, or an impossible value.
        """
        nested = {k.partition("__")[2]: v for k, v in params.items() if k.startswith("design__")}
        super().set_params(**{k: v for k, v in params.items() if not k.startswith("design__")})
        if nested:
            if not isinstance(self.design, Design):
                raise InputError("design: there is none whose parameters could be set", params)
            self.design = design_from_config(self.design.config() | nested)
        return self

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.categorical = True
        return tags


class Classifier(ClassifierMixin, Designed):  # type: ignore[misc]
    """A classifier of categorical attributes, fitted to disguised reports or undisguised data.

    Reports and records hold their target.  Arrays and frames are undisguised, have it in ``y``, and
    each different value is a category; then ``design`` stays None.
    """

    target: str | None
    design_: Design | Stratified
    target_: str
    classes_: npt.NDArray[Any]

    @abstractmethod
    def predict_codes(self, X: Any) -> npt.NDArray[np.int64]:
        """Predicted codes of the target, shape (n,)."""

    @abstractmethod
    def count_correct(self, X: Records) -> int:
        """Records whose target is the predicted one."""

    @abstractmethod
    def score_disguised(self, reports: Any) -> Estimate:
        """Unbiased accuracy on the truth behind disguised test reports."""

    # -- what is fitted and asked ------------------------------------------------------------------

    def _learned(self, X: Any, y: Any, sample_weight: Any = None) -> Records | Sequence[Records]:
        """Settle the design and the target, and return the records to fit."""
        self._columns = None
        X = opened(X)
        known = Records | PartitionedReports | Owners
        if isinstance(X, known) or isinstance(self.design, Stratified):
            if y is not None:
                raise RecordsError("y: reports and records hold their target; leave y out", y)
            self._settle(X)
            if sample_weight is None:
                return X  # type: ignore[no-any-return]
            if not isinstance(X, Records):
                raise RecordsError("sample_weight: takes Records or Reports in memory", X)
            return _weighted(X, sample_weight)
        if self.design is not None:
            raise RecordsError(
                f"fit: got {type(X).__name__}; Reports are needed, as the design makes them, or "
                "design=None for undisguised columns",
                X,
            )
        self._columns = Columns(self, X, y, self.target)
        records = self._columns.records(self, X, y)
        self._settle(records)
        return records if sample_weight is None else _weighted(records, sample_weight)

    def _settle(self, reports: Any) -> None:
        """Take the design from the reports, and the target from the codebook, if none is given.

        ``reports`` may be a table of their counts.
        """
        design, target = self.design, self.target
        book = getattr(reports, "codebook", None)
        if isinstance(reports, Owners) and design not in (None, reports.design):
            raise InputError("design: the owners carry theirs; leave it out", design)
        if design is None:
            design = getattr(reports, "design", None)
        if design is None and isinstance(reports, Records) and not isinstance(reports, Reports):
            design = undisguised(reports.codebook)
        if target is None and book is not None:
            target = book.target
        if design is None:
            raise RecordsError("design: the reports do not carry theirs; give it", reports)
        if target is None:
            raise RecordsError("target: the codebook names none; give it", reports)
        self.design_, self.target_ = design, target
        self.codebook_ = reports[0].codebook if book is None else book

    def _labelled(self, categories: Sequence[str]) -> npt.NDArray[Any]:
        """Labels of the classes, as y had them."""
        if self._columns is not None:
            return self._columns.classes
        return np.array(categories, dtype=object)

    def predict(self, X: Any) -> npt.NDArray[Any]:
        """Predicted labels of the target, shape (n,); reports as in :meth:`predict_codes`."""
        codes = self.predict_codes(X)
        labels: npt.NDArray[Any] = self.classes_[codes]
        return labels

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Accuracy on the truth, whatever the records are.

        Reported answers are not the truth, so counting how often the reported class is predicted
        would be no accuracy.

        Parameters
        ----------
        X : Records, Reports, Owners, one Reports a stratum under a stratified design, or array or
            frame
            Of clean records and frames it is the share whose target is predicted correctly, in
            [0, 1]; of reports its unbiased estimate, as by :meth:`score_disguised`, which may leave
            [0, 1].
        y : array, shape (n_records,), optional
            Classes, for arrays and frames.
        sample_weight : array, shape (n_records,), optional

        Raises
        ------
        RecordsError
            Without records, or for reports that the model's design did not make.
        """
        check_is_fitted(self)
        if self._columns is not None and not isinstance(X, Records):
            return float(super().score(X, y, sample_weight))
        if y is not None:
            raise RecordsError("y: reports and records hold their target; leave y out", y)
        if isinstance(X, Owners) or (
            isinstance(self.design_, Stratified) and not isinstance(X, Records)
        ):
            return self.score_disguised(X).value
        if not isinstance(X, Records):
            X = self._encoded(X, self.target_)
        if not len(X):
            raise RecordsError("there are no test records; at least one is needed", X)
        if not isinstance(X, Reports):
            if sample_weight is None:
                return self.count_correct(X) / len(X)
            hits = self.predict_codes(X) == X.column(self.target_)
            return float(np.average(hits, weights=sample_weight))
        if sample_weight is not None:
            raise RecordsError("sample_weight: the score of reports takes none", sample_weight)
        design = self.design_
        if isinstance(design, Design) and X.design_digest != design.digest:
            raise RecordsError("the test reports do not say that the model's design made them", X)
        return self.score_disguised(X).value

    @abstractmethod
    def predict_proba(self, X: Any) -> Floats:
        """Probabilities of the classes, shape (n, n_classes)."""

    @abstractmethod
    def draw(self, path: str | Path) -> None:
        """Draw the fitted model to a file; its ending says the kind (svg, png, pdf)."""

    # -- documents ---------------------------------------------------------------------------------

    def client_steps(self) -> dict[str, Any]:
        """How a class is predicted, as plain values by label, for clients in other languages.

        ``op`` names the step.  A ``"tree"`` has a ``root``: a class, or ``attribute`` and, by
        category, the nodes ``below``.  ``"scores"`` have ``classes``, ``prior``, a number a class,
        and ``tables``: for ``attributes`` and their ``categories``, numbers by category of each and
        class.  They are added to the prior in this order, in double precision; the first class
        within ``tie`` of the largest sum is predicted.
        """
        raise InputError(f"model: {type(self).__name__} has no steps for a client", self)

    def fitted_values(self) -> dict[str, Any]:
        """What was fitted, as JSON values; see :func:`ppdm_dask.mine.documents.write_model`."""
        raise InputError(f"model: {type(self).__name__} cannot be written to a file", self)

    def restore(self, fitted: Mapping[str, Any]) -> None:
        """Inverse of :meth:`fitted_values`, once the codebook and the features are settled."""
        raise InputError(f"model: {type(self).__name__} cannot be read from a file", self)


def _weighted(records: Records, sample_weight: Any) -> Records:
    """Records with weights; scikit-learn has those of weight 0 left out."""
    weights = np.asarray(sample_weight, dtype=float)
    if weights.shape != (len(records),) or not (np.isfinite(weights) & (weights >= 0)).all():
        raise RecordsError(
            f"sample_weight: {len(records)} numbers of 0 or more are needed", sample_weight
        )
    inside = weights > 0
    if not inside.any():
        raise RecordsError("sample_weight: every weight is zero", sample_weight)
    if not inside.all():
        records, weights = records.take(np.flatnonzero(inside)), weights[inside]
    return records.surveyed_by(weights=weights)


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
