"""The face of an estimator of scikit-learn: what it shows in a notebook once it is fitted."""

from __future__ import annotations

from typing import Any

__all__ = ["LearnerFace"]


class LearnerFace:
    """Stands before BaseEstimator, whose releases ask for HTML in different ways."""

    def _fitted_html(self) -> str | None:
        """What a fitted estimator shows; None before."""
        raise NotImplementedError

    def _html_repr(self) -> str:
        from sklearn.utils import estimator_html_repr

        found = self._fitted_html()
        return str(estimator_html_repr(self)) if found is None else found

    def _repr_html_inner(self) -> str:
        return self._html_repr()

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, str]:
        from sklearn import get_config

        bundle = {"text/plain": repr(self)}
        if get_config()["display"] == "diagram":
            bundle["text/html"] = self._html_repr()
        return bundle
