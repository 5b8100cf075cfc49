"""The contract of a perturbation of continuous data, and the registry of methods.

A perturbation is *algorithm-independent*: what it releases has the columns and records of the
original, and ordinary algorithms run on it as they are [Guo]_.  A method learns from a data set
what it needs (``fit``) and then draws a released record for each original one (``perturb``).
``tests/perturb_checks.py`` puts every registered method through one battery.

Columns of numbers are read from any frame and summed up in a way that partitions add; draws for
them are keyed by a record's position and its column.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from ppdm_dask.arrays import Floats
from ppdm_dask.errors import DataError, InputError
from ppdm_dask.files.columns import read_numbers
from ppdm_dask.files.texts import canonical_text
from ppdm_dask.randomness import LOGICAL_BLOCK, Stream
from ppdm_dask.shown import given, listed, shown

UNIT = 2.0**-53


def column_words(
    stream: Stream, column: int, n: int, offset: int
) -> Iterator[tuple[slice, npt.NDArray[np.uint64]]]:
    """One 64-bit word a record, block by block; a record's word depends only on its position.

    Yields
    ------
    rows : slice
        The records, counted from `offset`.
    words : array of uint64
    """
    last = offset + n
    for block in range(offset // LOGICAL_BLOCK, -(-last // LOGICAL_BLOCK)):
        start = block * LOGICAL_BLOCK
        low, high = max(offset, start), min(last, start + LOGICAL_BLOCK)
        # The block's first words are drawn even where they are not wanted: positions are keys.
        words = stream.source(block, column).words(high - start)[low - start :]
        yield slice(low - offset, high - offset), words


def uniforms(stream: Stream, columns: int, n: int, offset: int) -> npt.NDArray[np.float64]:
    """Uniform numbers in [0, 1), multiples of 2**-53, shape (n, columns)."""
    drawn = np.empty((n, columns), order="F")
    for j in range(columns):
        # A source for each column: a column that is left out changes no other one's draws.
        for rows, words in column_words(stream, j, n, offset):
            drawn[rows, j] = (words >> np.uint64(11)) * UNIT
    return drawn


def choose_one(word: int, n: int) -> int:
    """One of ``0 .. n - 1`` from a uniform 64-bit word (bias under n / 2**64)."""
    return word * n >> 64


def read_matrix(X: Any, offset: int = 0) -> tuple[Floats, tuple[str, ...]]:
    """Numbers of a frame or an array, a column at a time.

    Parameters
    ----------
    X : DataFrame or array, shape (n, m)
        Columns of any dtype that hold numbers, texts that spell numbers included.
    offset : int
        Position of the first record in the whole data set, for messages.

    Returns
    -------
    values : array of float, shape (n, m)
        NaN where a value is missing; columns are contiguous.
    names : tuple of str
        The frame's columns, or ``"0"``, ``"1"``, ... for an array.

    Raises
    ------
    DataError
        If a value is not a finite number, a name occurs twice, or there is no column.
    """
    if isinstance(X, np.ndarray) and X.ndim == 2 and X.dtype == np.float64 and X.shape[1]:
        if np.isinf(X).any():
            row, j = (int(i) for i in np.argwhere(np.isinf(X))[0])
            raise _no_number(str(j), row + offset, X[row, j])
        return np.asfortranarray(X), tuple(map(str, range(X.shape[1])))
    import pandas as pd

    frame = X if isinstance(X, pd.DataFrame) else _frame(X)
    names = tuple(map(str, frame.columns))
    if not names:
        raise DataError(
            f"there are no columns: 0 feature(s) (shape={frame.shape}) while a minimum of 1 is "
            "required."
        )
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise DataError(f"column {shown(twice)} occurs {names.count(twice)} times", twice)
    values = np.empty((len(frame), len(names)), order="F")
    for j, name in enumerate(names):
        values[:, j] = _numbers(frame.iloc[:, j], name, offset)
    return values, names


def _frame(X: Any) -> Any:
    import pandas as pd

    if hasattr(X, "tocsr"):
        raise DataError("sparse data are not taken; give a dense array or a frame")
    array = np.asarray(X)
    if array.ndim != 2:
        # The words in the end are those of scikit-learn.
        raise DataError(
            f"the data have shape {array.shape}; records by columns are needed. Reshape your data"
        )
    if array.dtype.kind == "c":
        raise DataError("Complex data not supported; columns of numbers are needed")
    return pd.DataFrame(array)


def _numbers(column: Any, name: str, offset: int) -> Floats:
    if column.dtype.kind in "bmM":
        raise DataError(
            f"column {shown(name)} holds {column.dtype}; numbers are needed, leave the column out",
            name,
        )
    numbers, wrong = read_numbers(column)
    if wrong.any():
        row = int(np.argmax(wrong))
        raise _no_number(name, row + offset, column.iloc[row])
    return numbers


def _no_number(name: str, row: int, value: object) -> DataError:
    text = canonical_text(value)
    where, right = (
        f"column {shown(name)}, row {row}",
        "numbers are needed, leave a column of texts out",
    )
    return DataError.at(
        row,
        f"{where}: {shown(text)} is not a finite number; {right}",
        text,
        told=f"{where}: the value is not a finite number; {right}",
    )


@dataclass(frozen=True, eq=False)
class ColumnSummary:
    """What is known of some columns as a whole; summaries of partitions add up to the whole's.

    Parameters
    ----------
    names : tuple of str
    n : int
        Records.
    missing : array of int, shape (m,)
        Missing values.
    low, high : array of float, shape (m,)
        Smallest and largest value; infinite, the wrong way round, where there is none.
    whole : array of bool, shape (m,)
        Whether every value is a whole number.
    """

    names: tuple[str, ...]
    n: int
    missing: npt.NDArray[np.int64]
    low: Floats
    high: Floats
    whole: npt.NDArray[np.bool_]

    @classmethod
    def of(cls, values: Floats, names: tuple[str, ...]) -> Self:
        """Sum up the records of an array, shape (n, m), NaN where missing."""
        m = len(names)
        missing = np.zeros(m, np.int64)
        low, high = np.full(m, np.inf), np.full(m, -np.inf)
        whole = np.ones(m, bool)
        for j, column in enumerate(values.T):
            there = column[~np.isnan(column)]
            missing[j] = column.size - there.size
            if there.size:
                low[j], high[j] = there.min(), there.max()
                whole[j] = bool((there == np.floor(there)).all())
        return cls(names, len(values), missing, low, high, whole)

    def __add__(self, other: ColumnSummary) -> ColumnSummary:
        if self.names != other.names:
            raise DataError(
                f"partitions differ in their columns: {listed(self.names)} "
                f"and {listed(other.names)}",
                other.names,
            )
        return ColumnSummary(
            self.names,
            self.n + other.n,
            self.missing + other.missing,
            np.minimum(self.low, other.low),
            np.maximum(self.high, other.high),
            self.whole & other.whole,
        )

    def check_varied(self, constant: str) -> None:
        """Refuse what no method can perturb: too few records, or a column without two values.

        Parameters
        ----------
        constant : {"refuse", "keep"}
            What to do with a column of one value, which would be released unchanged.

        Raises
        ------
        DataError
            One line that names the column.
        """
        if self.n < 2:
            raise DataError(
                f"there {'is 1 record' if self.n else 'are 0 records'}; 2 or more are needed, "
                f"since a single one would be released as it is (n_samples={self.n})",
                self.n,
            )
        for name, missing, low, high in zip(
            self.names, self.missing, self.low, self.high, strict=True
        ):
            if missing == self.n:
                raise DataError(
                    f"column {shown(name)}: every value is missing; leave the column out", name
                )
            if low == high and constant == "refuse":
                raise DataError(
                    f"column {shown(name)}: every value is {low:g}, which would be released as "
                    "it is; leave the column out, or say constant = 'keep'",
                    name,
                )
            if not math.isfinite(float(high) - float(low)):  # plain floats overflow silently
                raise DataError(
                    f"column {shown(name)}: the range from {low:g} to {high:g} is too wide to "
                    "compute with; rescale the column",
                    name,
                )

    def check_complete(self, method: str) -> None:
        """Refuse missing values, for a method that works on whole records."""
        for name, missing in zip(self.names, self.missing, strict=True):
            if missing:
                raise DataError(
                    f"column {shown(name)}: {missing} of {self.n} values are missing; {method} "
                    "needs complete records, drop those with NaN first",
                    name,
                )


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
        Makes :meth:`fit` and :meth:`transform` repeatable, for simulations; anyone who knows it can
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

    takes_missing: ClassVar[bool] = False
    """Whether values may be missing, which then are missing in the release."""

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
        elif hasattr(self, "feature_names_in_"):  # of an earlier fit, to a frame
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
        if len(names) != len(expected) and not hasattr(X, "columns"):
            raise DataError(
                f"X has {len(names)} features, but {type(self).__name__} is expecting "
                f"{len(expected)} features as input",
                names,
            )
        if names != expected:
            raise DataError(
                f"the columns are {listed(names)}; fitted were {listed(expected)}", names
            )
        if not self.takes_missing and np.isnan(values).any():
            ColumnSummary.of(values, names).check_complete(type(self).__name__)
        return self._draw(values, stream, offset)

    def transform(self, X: Any) -> npt.NDArray[np.float64]:
        """Release a record for each original one, with draws as ``seed`` says."""
        return self.perturb(X, self._stream().child(PERTURB))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = self.takes_missing
        return tags

    def _stream(self) -> Stream:
        return Stream.from_entropy() if self.seed is None else Stream.from_seed(self.seed)

    def config(self) -> dict[str, Any]:
        """Return the method and its parameters, for :func:`perturbation_from_config`."""
        parameters = {k: v for k, v in self.get_params(deep=False).items() if k != "seed"}
        return {"id": self.id, **parameters}


def check_choice(name: str, value: object, known: tuple[object, ...]) -> None:
    """Refuse what is none of the known values."""
    if not any(value is each or value == each for each in known):
        right = ", ".join(map(repr, known))
        raise InputError(f"{name}: got {given(value)}; one of these is needed: {right}", value)
