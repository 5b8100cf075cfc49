"""The contract of a perturbation of continuous data, and the registry of methods.

A perturbation is *algorithm-independent*: what it releases has the columns and records of the
original, and ordinary algorithms run on it as they are [Guo]_.  A method learns from a data set
what it needs (``fit``) and then draws a released record for each original one (``perturb``).
``tests/perturb_checks.py`` puts every registered method through one battery.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from ppdm_dask.errors import DataError, InputError
from ppdm_dask.perturb.columns import ColumnSummary, read_matrix
from ppdm_dask.randomness import Stream
from ppdm_dask.shown import given, listed, shown

if TYPE_CHECKING:
    from ppdm_dask.arrays import Floats

__all__ = ["Perturbation", "methods", "perturbation_from_config", "register"]

FIT, PERTURB = 0, 1
"""Children of the default stream."""

_METHODS: dict[str, type[Perturbation]] = {}


def register(method: type[Perturbation]) -> type[Perturbation]:
    """Class decorator: make a method known by its ``id`` to configurations and to the battery."""
    if method.id in _METHODS:
        raise InputError(f"two perturbation methods are called {method.id!r}", method)
    _METHODS[method.id] = method
    return method


def methods() -> dict[str, type[Perturbation]]:
    """Registered methods by id, in alphabetical order."""
    return dict(sorted(_METHODS.items()))


def perturbation_from_config(config: Mapping[str, Any]) -> Perturbation:
    """Build the perturbation that a configuration describes.

    Parameters
    ----------
    config : mapping
        ``id`` names the method, the other keys are its parameters, as
        :meth:`Perturbation.config` gives them.

    Raises
    ------
    InputError
        For an unknown method, an unknown or missing parameter, or an impossible value.
    """
    parameters = dict(config)
    name = parameters.pop("id", None)
    if not isinstance(name, str) or name not in _METHODS:
        known = ", ".join(methods())
        raise InputError(f"id: got {given(name)}; a perturbation method is needed: {known}", name)
    method = _METHODS[name]
    known_names = [key for key in method._get_param_names() if key != "seed"]
    for key in parameters:
        if key not in known_names:
            what = f"not a parameter of {name!r}; it has: {', '.join(known_names)}"
            raise InputError(f"{key}: got {given(parameters[key])}; {what}", key)
    for key in method.required:
        if key not in parameters:
            raise InputError(f"{key}: missing; {shown(name)} needs it", key)
    made = method(**parameters)
    made.check_parameters()
    return made


class Perturbation(OneToOneFeatureMixin, TransformerMixin, BaseEstimator, ABC):  # type: ignore[misc]
    """A perturbation of records of numbers, by scikit-learn's conventions for transformers.

    Parameters
    ----------
    seed : int, optional
        Makes :meth:`fit` and :meth:`transform` repeatable, for simulations; whoever knows it can
        narrow the originals down.  By default draws are cryptographic and nothing repeats them.

    Attributes
    ----------
    summary_ : ColumnSummary
        Names, ranges and missing values of the columns it was fitted on.
    n_features_in_ : int
    feature_names_in_ : array of str
        Only where it was fitted on a frame.
    """

    id: ClassVar[str]
    """Name in configurations."""
    required: ClassVar[tuple[str, ...]]
    """Parameters without a default."""
    private_end: ClassVar[Mapping[str, str]]
    """For each parameter, whether privacy is better where it is ``"small"`` or ``"large"``."""

    seed: int | None
    summary_: ColumnSummary

    @property
    @abstractmethod
    def caveat(self) -> str:
        """One plain sentence on what the method does not protect."""

    @abstractmethod
    def check_parameters(self) -> None:
        """Refuse a parameter that is impossible whatever the data; InputError of one line."""

    @abstractmethod
    def _learn(self, values: Floats, stream: Stream) -> None:
        """Learn from values that passed the checks common to all methods."""

    @abstractmethod
    def _draw(self, values: Floats, stream: Stream, offset: int) -> Floats:
        """Released records, shape (n, m), for originals that have the fitted columns."""

    def check_summary(self, summary: ColumnSummary) -> None:
        """Refuse data, by what is known of them as a whole, that the method cannot perturb.

        Raises
        ------
        InputError
            One line that names the column or the parameter.
        """
        summary.check_varied("keep")
        summary.check_complete(type(self).__name__)

    def fit(self, X: Any, y: object = None, *, stream: Stream | None = None) -> Self:
        """Learn what the method needs of the data.

        Parameters
        ----------
        X : DataFrame or array, shape (n, m)
            Columns of numbers.
        y : None
            Not used.
        stream : Stream, optional
            Where random draws come from, in place of ``seed``.

        Raises
        ------
        InputError
            For a parameter that is impossible, or does not suit these data.
        DataError
            For data that cannot be perturbed: texts, a column of missing values, a single record.
        """
        self.check_parameters()
        values, names = read_matrix(X)
        summary = ColumnSummary.of(values, names)
        self._set_summary(summary, named=hasattr(X, "columns"))
        self._learn(values, stream or self._stream().child(FIT))
        return self

    def _set_summary(self, summary: ColumnSummary, *, named: bool) -> None:
        self.check_summary(summary)
        self.summary_ = summary
        self.n_features_in_ = len(summary.names)
        if named:
            self.feature_names_in_ = np.array(summary.names, dtype=object)
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_

    def perturb(self, X: Any, stream: Stream, offset: int = 0) -> Floats:
        """Release a record for each original one.

        Parameters
        ----------
        X : DataFrame or array, shape (n, m)
            Originals, with the columns that the method was fitted on.
        stream : Stream
            ``Stream.from_entropy()`` for a real release, ``Stream.from_seed(seed)`` to simulate.
        offset : int
            Position of the first record in the whole data set; draws are keyed by it.

        Returns
        -------
        array of float, shape (n, m)
            NaN where the original is missing.

        Raises
        ------
        DataError
            If the columns are not those of the fit, or a value cannot be perturbed.
        """
        check_is_fitted(self, "summary_")
        values, names = read_matrix(X, offset)
        expected = self.summary_.names
        if names != expected:
            raise DataError(
                f"the columns are {listed(names)}; fitted were {listed(expected)}", names
            )
        return self._draw(values, stream, offset)

    def transform(self, X: Any) -> npt.NDArray[np.float64]:
        """Release a record for each original one, with draws as ``seed`` says."""
        return self.perturb(X, self._stream().child(PERTURB))

    def _stream(self) -> Stream:
        return Stream.from_entropy() if self.seed is None else Stream.from_seed(self.seed)

    def config(self) -> dict[str, Any]:
        """Return the method and its parameters, for :func:`perturbation_from_config`."""
        parameters = {k: v for k, v in self.get_params(deep=False).items() if k != "seed"}
        return {"id": self.id, **parameters}


def check_whole(name: str, value: object, least: int) -> None:
    """Refuse what is no whole number of at least `least`."""
    whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
    if not whole or value < least:  # type: ignore[operator]
        right = f"a whole number of {least} or more is needed"
        raise InputError(f"{name}: got {given(value)}; {right}", value)


def check_choice(name: str, value: object, known: tuple[object, ...]) -> None:
    """Refuse what is none of the known values."""
    if not any(value is each or value == each for each in known):
        right = ", ".join(map(repr, known))
        raise InputError(f"{name}: got {given(value)}; one of these is needed: {right}", value)
