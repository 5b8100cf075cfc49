"""The face of an estimator of scikit-learn: what it shows in a notebook once it is fitted."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from sklearn import get_config
from sklearn.base import BaseEstimator
from sklearn.utils import estimator_html_repr

from ppdm_dask.faces.face import brief

__all__ = ["LearnerFace"]


class LearnerFace(BaseEstimator, ABC):  # type: ignore[misc]
    """An estimator, by whichever release of scikit-learn, which ask for HTML in different ways."""

    @abstractmethod
    def _fitted_html(self) -> str | None:
        """What a fitted estimator shows; None before."""

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:
        return brief(super().__repr__(N_CHAR_MAX))

    def _html_repr(self) -> str:
        found = self._fitted_html()
        return str(estimator_html_repr(self)) if found is None else found

    def _repr_html_inner(self) -> str:
        return self._html_repr()

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, str]:
        bundle = {"text/plain": repr(self)}
        if get_config()["display"] == "diagram":
            bundle["text/html"] = self._html_repr()
        return bundle
