"""What the classifiers have in common: which records they take, labels, and the score."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, ClassifierMixin

from ppdm_dask.designs.base import Design
from ppdm_dask.errors import RecordsError
from ppdm_dask.records import Records, Reports
from ppdm_dask.shown import shown

if TYPE_CHECKING:
    from ppdm_dask.designs.stratified import Stratified
    from ppdm_dask.uncertainty import Proportion

__all__ = ["Classifier", "check_inputs"]


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
    def score_disguised(self, reports: Any) -> Proportion:
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
