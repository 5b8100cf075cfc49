"""Variables of a regression, and the columns that a formula or their names make of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ppdm_dask.arrays import Floats, Ints
from ppdm_dask.errors import InputError, RecordsError
from ppdm_dask.ranges import reals
from ppdm_dask.shown import cut, given, listed, printable, shown

if TYPE_CHECKING:
    import pandas as pd

    from ppdm_dask.data.codebook import Codebook

__all__ = [
    "Terms",
    "Variable",
    "as_categories",
    "combined",
    "make_terms",
    "missing_in",
    "numbers_of",
    "read_formula",
    "statistic_of",
    "variable_of",
]


@dataclass(frozen=True, eq=False)
class Variable:
    """An outcome or a predictor: an attribute, or a column that was kept.

    Parameters
    ----------
    name : str
    labels : tuple of str
        Its categories; none for a column of numbers.
    numbers : array, shape (categories,), optional
        What the categories count as, where they are numbers.
    disguised : bool
    """

    name: str
    labels: tuple[str, ...]
    numbers: Floats | None = None
    disguised: bool = False

    @property
    def plain(self) -> bool:
        """Whether it is a column of numbers as it stands."""
        return not self.labels

    @property
    def numeric(self) -> bool:
        """Whether it enters a model as a number."""
        return self.plain or self.numbers is not None

    def column(self, codes: npt.NDArray[Any]) -> Any:
        """What a formula sees, from codes or numbers."""
        import pandas as pd

        if self.plain:
            return np.asarray(codes, float)
        if self.numbers is not None:
            return self.numbers[codes]
        return pd.Categorical.from_codes(codes.astype(np.int64), pd.Index(list(self.labels)))

    def coded(self, values: npt.ArrayLike) -> npt.NDArray[Any]:
        """Codes of labels, or the numbers of a plain column.

        Raises
        ------
        RecordsError
            For a value that is missing, no number, or none of the labels.
        """
        array = np.asarray(values)
        if self.plain:
            return _floats(self.name, array)
        texts = _texts(array)
        known = {label: code for code, label in enumerate(self.labels)}
        distinct, which = np.unique(texts, return_inverse=True)
        codes = np.array([known.get(text, -1) for text in distinct.tolist()], np.int64)[which]
        if (codes < 0).any():
            row = int(np.argmax(codes < 0))
            raise RecordsError(
                f"{shown(self.name)}, row {row}: {shown(str(texts[row]))} is none of "
                f"{listed(self.labels)}",
                str(texts[row]),
            )
        return codes


def _texts(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    if array.dtype.kind == "f" and np.isfinite(array).all() and (array == np.rint(array)).all():
        array = array.astype(np.int64)
    return array.astype(str)


def missing_in(values: npt.ArrayLike) -> npt.NDArray[np.bool_]:
    """Which entries of a column are missing."""
    array = np.asarray(values)
    if array.dtype.kind == "f":
        return np.asarray(np.isnan(array), bool)
    if array.dtype.kind != "O":
        return np.zeros(len(array), bool)
    # What is missing differs from itself, or is None.
    return np.array([x is None or bool(x != x) for x in array.tolist()], bool)


def _floats(name: str, array: npt.NDArray[Any]) -> Floats:
    try:
        numbers = array.astype(float)
    except (TypeError, ValueError):
        raise RecordsError(f"{shown(name)}: numbers are needed", name) from None
    if not np.isfinite(numbers).all():
        row = int(np.argmax(~np.isfinite(numbers)))
        raise RecordsError(f"{shown(name)}, row {row}: a finite number is needed", name)
    return numbers


def variable_of(
    name: str,
    book: Codebook | None,
    kept: Mapping[str, npt.NDArray[Any]],
    disguised: bool,
    values: Mapping[str, Any],
) -> Variable:
    """The variable of a name: an attribute of the codebook, or a column beside it.

    Categories whose labels all are numbers are numbers, as in a data frame; `values` makes numbers
    of others.

    Raises
    ------
    RecordsError
        If there is none of that name.
    """
    if book is not None and name in book.names:
        labels: tuple[str, ...] = book[name].categories
    elif name in kept:
        column = np.asarray(kept[name])
        column = column[~missing_in(column)]
        if column.dtype.kind in "iufb" and name not in values:
            return Variable(name, ())
        labels = tuple(np.unique(_texts(column)).tolist())
    else:
        there = [*(() if book is None else book.names), *kept]
        raise RecordsError(f"there is no variable {shown(name)}; there are {listed(there)}", name)
    return Variable(name, labels, _numbers_of(name, labels, values.get(name)), disguised)


def _numbers_of(name: str, labels: tuple[str, ...], values: Any) -> Floats | None:
    if values is not None:
        if isinstance(values, Mapping):
            stated = {str(label): number for label, number in values.items()}
            if absent := [label for label in labels if label not in stated]:
                raise InputError(f"values: {shown(name)} lacks a number for {listed(absent)}", name)
            values = [stated[label] for label in labels]
        numbers = reals(f"values of {printable(cut(name))}", values, ndim=1)
        if len(numbers) != len(labels):
            raise InputError(
                f"values: got {len(numbers)} numbers for the {len(labels)} categories of "
                f"{shown(name)}",
                name,
            )
        return numbers
    try:
        numbers = np.array([float(label) for label in labels])
    except ValueError:
        return None
    return numbers if np.isfinite(numbers).all() else None


MOST_CLASSES = 50
"""Different numbers of a kept column that are treated as categories of an outcome."""


def as_categories(outcome: Variable, column: Any) -> Variable:
    """The outcome with categories: of a kept column of numbers its different numbers.

    Raises
    ------
    InputError
        If there are too many of them.
    """
    if not outcome.plain:
        return outcome
    numbers = np.unique(np.asarray(column, float))
    if len(numbers) > MOST_CLASSES:
        raise InputError(
            f"{shown(outcome.name)}: the outcome needs categories, not {len(numbers)} different "
            "numbers",
            outcome.name,
        )
    return Variable(outcome.name, tuple(_texts(numbers).tolist()))


def statistic_of(
    outcome: Variable, success: str | Sequence[str] | None
) -> tuple[Floats, tuple[str, ...]]:
    """Which class each category of the outcome is in, and the labels of the classes.

    Parameters
    ----------
    outcome : Variable
        With categories.
    success : str or sequence of str, optional
        Those of the second of two classes; the last of two categories by default.  An empty
        sequence makes every category a class.

    Returns
    -------
    statistic : array, shape (categories, classes - 1)
        1 in the class of a category; in none for the first class.
    labels : tuple of str

    Raises
    ------
    InputError
        For a category that there is not, or if none or all count.
    """
    labels = outcome.labels
    if success is not None and not len(success):
        return np.eye(len(labels))[:, 1:], labels
    wanted = [success] if isinstance(success, str) else list(success or labels[1:])
    if success is None and len(labels) != 2:
        raise InputError(
            f"success: {shown(outcome.name)} has {len(labels)} categories; name those that count",
            outcome.name,
        )
    if unknown := [x for x in wanted if x not in labels]:
        raise InputError(
            f"success: got {given(unknown[0])}; {shown(outcome.name)} has {listed(labels)}",
            unknown[0],
        )
    yes = [label for label in labels if label in wanted]
    no = [label for label in labels if label not in wanted]
    if not no:
        raise InputError("success: every category counts", success)
    inside = np.array([[float(label in wanted)] for label in labels])
    return inside, (" or ".join(no), " or ".join(yes))


def numbers_of(outcome: Variable, *, counts: bool) -> Floats | None:
    """What the categories of an outcome count as, shape (categories, 1); None of a plain column.

    Raises
    ------
    InputError
        If they are no numbers, or negative where counts are needed.
    """
    if not outcome.numeric:
        raise InputError(
            f"{shown(outcome.name)}: the outcome needs numbers; give one for each category in "
            "values=",
            outcome.name,
        )
    if outcome.numbers is None:
        return None
    if counts and (outcome.numbers < 0).any():
        raise InputError(f"{shown(outcome.name)}: counts of 0 or more are needed", outcome.name)
    return outcome.numbers[:, None]


def read_formula(formula: str) -> tuple[str, Any, tuple[str, ...]]:
    """The outcome, the right-hand side, and the variables in it, of ``outcome ~ predictors``.

    Raises
    ------
    InputError
        If it cannot be read, its left-hand side is not one variable, or formulaic is absent.
    """
    try:
        import formulaic
        from formulaic.errors import FormulaicError
    except ModuleNotFoundError:
        raise InputError(
            'formulas need the extra `formulas`: pip install "ppdm-dask[formulas]"; or give '
            "outcome= and predictors=",
            formula,
        ) from None
    try:
        read = formulaic.Formula(formula)
        left = list(getattr(read, "lhs", ()))
        names = list(read.lhs.required_variables) if len(left) == 1 else []
    except FormulaicError:
        left = []
    if len(left) != 1 or len(names) != 1 or str(left[0]).strip("`") != str(names[0]):
        raise InputError(
            f"formula: got {shown(formula)}; `outcome ~ predictors` is needed, with the name of "
            "the outcome",
            formula,
        )
    return str(names[0]), read.rhs, tuple(sorted(map(str, read.rhs.required_variables)))


@dataclass(frozen=True, eq=False)
class Terms:
    """Columns of a model matrix, made of variables.

    Parameters
    ----------
    variables : tuple of Variable
    names : tuple of str
        Of the columns.
    slices : mapping of term to slice
    spec : object, optional
        Of formulaic; None for an intercept and main effects.
    """

    variables: tuple[Variable, ...]
    names: tuple[str, ...]
    slices: Mapping[str, slice]
    spec: Any = None

    def matrix(self, frame: pd.DataFrame) -> Floats:
        """The columns for rows of :meth:`Variable.column`, shape (rows, p)."""
        if self.spec is not None:
            return np.asarray(_evaluated(self.spec, frame), float)
        columns = [np.ones(len(frame))]
        for variable in self.variables:
            column = frame[variable.name]
            if variable.numeric:
                columns.append(column.to_numpy(float))
            else:
                codes = column.cat.codes.to_numpy()
                columns += [
                    (codes == code).astype(float) for code in range(1, len(variable.labels))
                ]
        return np.stack(columns, axis=1)


def _evaluated(spec: Any, frame: pd.DataFrame) -> Any:
    from formulaic.errors import FormulaicError

    try:
        return spec.get_model_matrix(frame, context={})
    except FormulaicError as error:
        raise InputError(f"formula: {printable(cut(str(error), 200))}", None) from None


def make_terms(right: Any, variables: Sequence[Variable], frame: pd.DataFrame) -> Terms:
    """The columns of a formula, or of an intercept and the variables.

    Parameters
    ----------
    right : object or None
        Right-hand side, as :func:`read_formula` gives it.
    variables : sequence of Variable
    frame : DataFrame
        One row a respondent: where a formula centres or scales, by their mean.
    """
    if right is not None:
        made = _evaluated(right, frame)
        slices = {str(term): place for term, place in made.model_spec.term_slices.items()}
        names = tuple(map(str, made.columns))
        if not names:
            raise InputError("formula: there is nothing on the right of ~", None)
        return Terms(tuple(variables), names, slices, made.model_spec)
    names_, slices_ = ["Intercept"], {"1": slice(0, 1)}
    for variable in variables:
        first = len(names_)
        name = variable.name
        names_ += [name] if variable.numeric else [f"{name}[T.{x}]" for x in variable.labels[1:]]
        slices_[name] = slice(first, len(names_))
    return Terms(tuple(variables), tuple(names_), slices_)


def combined(columns: Iterable[npt.NDArray[Any]], n: int) -> tuple[Ints, Ints]:
    """Patterns of several columns: a row of each, and the pattern of each row."""
    key = np.zeros(n, np.int64)
    first = np.zeros(min(n, 1), np.int64)
    for column in columns:
        distinct, codes = np.unique(column, return_inverse=True)
        joint = key * len(distinct) + codes.reshape(-1)
        _, first, key = np.unique(joint, return_index=True, return_inverse=True)
        key = key.reshape(-1)
    return np.asarray(first, np.int64), np.asarray(key, np.int64)
