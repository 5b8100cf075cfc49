"""One attribute of a codebook: its declared categories, and values to codes and back."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt

from ppdm_dask.coding import canonical_text, factorise, look_up, number_text, read_numbers
from ppdm_dask.errors import CodebookError

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Attribute"]


@dataclass(frozen=True)
class Attribute:
    """A question with its declared categories.

    A *nominal* attribute has no `cuts`: the code of a label is its position in `categories` or,
    with `groups`, the position of the group that holds it. A *numeric* attribute has `cuts`: a
    value's bin is the number of cut points strictly below it, and `categories` label the bins.

    Parameters
    ----------
    name : str
        Column of the data.
    categories : tuple of str
        Labels, distinct; the code of a category is its position. For a numeric attribute one a
        bin, in order, and one more, anywhere among them, if missing values have their own.
    cuts : tuple of float, optional
        Cut points, finite and strictly rising.
    groups : tuple of tuple of str, optional
        For a nominal attribute: the original labels in each category. A group may be empty.
    missing : str, optional
        Where a missing value goes: an original label if nominal, a category if numeric. Without
        it a missing value is an error.
    range : tuple of float, optional
        Smallest and largest value allowed to a numeric attribute, both inclusive.
    rule : str, optional
        How cuts or groups were found, such as ``"median"``. Provenance only.

    Raises
    ------
    CodebookError
        If the fields contradict each other; the message gives the dotted path.
    """

    name: str
    categories: tuple[str, ...]
    cuts: tuple[float, ...] | None = None
    groups: tuple[tuple[str, ...], ...] | None = None
    missing: str | None = None
    range: tuple[float, float] | None = None
    rule: str | None = None

    def __post_init__(self) -> None:
        for field in ("name", "missing", "rule"):
            value = getattr(self, field)
            if not isinstance(value, str) and (value is not None or field == "name"):
                raise self._error(field, value, "must be a text")
        self._set("categories", self._labels("categories", self.categories))
        if not self.categories:
            raise self._error("categories", (), "must declare at least one label")
        if self.cuts is None:
            self._check_nominal()
        else:
            self._check_numeric(self.cuts)

    def _check_nominal(self) -> None:
        if self.range is not None:
            raise self._error("range", self.range, "is for numeric attributes, which have `cuts`")
        if self.groups is not None:
            groups = tuple(self._labels("groups", group) for group in self.groups)
            self._labels("groups", [label for group in groups for label in group])
            self._set("groups", groups)
            if len(groups) != len(self.categories):
                need = f"must have one group for each of the {len(self.categories)} categories"
                raise self._error("groups", groups, need)
        if self.missing is not None and self.missing not in self.code_of:
            raise self._error("missing", self.missing, "must be one of the declared labels")

    def _check_numeric(self, cuts: Iterable[float]) -> None:
        if self.groups is not None:
            raise self._error("groups", self.groups, "is for nominal attributes, without `cuts`")
        cuts = self._numbers("cuts", cuts)
        self._set("cuts", cuts)
        if not cuts or any(low >= high for low, high in pairwise(cuts)):
            raise self._error("cuts", cuts, "must hold at least one number and rise strictly")
        extra = len(self.categories) - len(cuts) - 1
        if extra not in (0, 1):
            raise self._error(
                "categories",
                self.categories,
                f"has {len(self.categories)} labels; {len(cuts)} cuts need {len(cuts) + 1}, "
                f"or {len(cuts) + 2} with one for missing values",
            )
        if self.missing not in self.categories and (extra or self.missing is not None):
            raise self._error("missing", self.missing, "must be one of the categories")
        if self.range is not None:
            limits = self._numbers("range", self.range)
            if len(limits) != 2 or limits[0] > limits[1]:
                raise self._error("range", self.range, "must be [smallest, largest]")
            self._set("range", limits)

    def _set(self, field: str, value: object) -> None:
        object.__setattr__(self, field, value)

    def _error(self, field: str, value: object, need: str) -> CodebookError:
        return CodebookError(f"attribute.{self.name}.{field}: {value!r} {need}", value)

    def _labels(self, field: str, labels: Iterable[Any]) -> tuple[str, ...]:
        if isinstance(labels, str) or not isinstance(labels, Iterable):
            raise self._error(field, labels, "must be a list of labels")
        seen: set[str] = set()
        labels = tuple(labels)
        for label in labels:
            if not isinstance(label, str) or not label:
                raise self._error(field, label, "must be a text that is not empty")
            if label in seen:
                raise self._error(field, label, "is declared twice")
            seen.add(label)
        return labels

    def _numbers(self, field: str, values: Any) -> tuple[float, ...]:
        if isinstance(values, str) or not isinstance(values, Iterable):
            raise self._error(field, values, "must be a list of numbers")
        values = tuple(values)
        for value in values:
            number = isinstance(value, (int, float, np.integer, np.floating))
            if not number or isinstance(value, bool) or not math.isfinite(value):
                raise self._error(field, value, "must be a finite number")
        return tuple(float(value) + 0.0 for value in values)  # -0.0 is 0

    def __len__(self) -> int:
        """Return the number of categories."""
        return len(self.categories)

    @property
    def numeric(self) -> bool:
        """Whether values are numbers that fall into bins."""
        return self.cuts is not None

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """Original labels of a nominal attribute, group by group; none of a numeric one."""
        if self.numeric:
            return ()
        groups = self.groups or tuple((label,) for label in self.categories)
        return tuple(label for group in groups for label in group)

    @cached_property
    def code_of(self) -> Mapping[str, int]:
        """Code of each original label (nominal) or of each category (numeric)."""
        groups = self.groups or tuple((label,) for label in self.categories)
        return {label: code for code, group in enumerate(groups) for label in group}

    def encode(self, values: pd.Series, offset: int = 0) -> npt.NDArray[np.intp]:
        """Codes of a column, shape (n,).

        Parameters
        ----------
        values : Series
            Labels or numbers, of any dtype.
        offset : int
            Position of the first value in the whole data set, for messages.

        Raises
        ------
        CodebookError
            On a value that is not declared; names the attribute, the row and the value.
        """
        if self.cuts is not None:
            numbers = self.read_numbers(values, offset)
            codes = np.searchsorted(np.asarray(self.cuts), numbers, side="left")
            if len(self.categories) == len(self.cuts) + 2:
                own = self.categories.index(self.missing or "")
                codes += codes >= own  # step over the category of missing values
            if self.missing is not None:
                codes[np.isnan(numbers)] = self.categories.index(self.missing)
            return codes
        positions, texts = factorise(values)
        missing = -1 if self.missing is None else self.code_of[self.missing]
        codes = look_up(positions, texts, self.code_of, missing)
        if codes.size and codes.min() < 0:
            row = int(np.argmax(codes < 0))
            if positions[row] < 0:
                raise self._missing(row + offset)
            text = texts[positions[row]]
            raise self._undeclared(
                row + offset, text, f"is not declared; there are {_listed(self.labels)}"
            )
        return codes

    def read_numbers(self, values: pd.Series, offset: int = 0) -> npt.NDArray[np.float64]:
        """Values of a numeric attribute, NaN where missing, shape (n,).

        Raises
        ------
        CodebookError
            On a value that is no finite number, out of range, or missing with no place to go.
        """
        numbers, wrong = read_numbers(values, self.missing)
        if wrong.any():
            row = int(np.argmax(wrong))
            raise self._undeclared(row + offset, values.iloc[row], "is no finite number")
        if self.missing is None and np.isnan(numbers).any():
            raise self._missing(int(np.argmax(np.isnan(numbers))) + offset)
        if self.range is not None:
            low, high = self.range
            outside = (numbers < low) | (numbers > high)
            if outside.any():
                row = int(np.argmax(outside))
                allowed = f"is outside the range {number_text(low)} to {number_text(high)}"
                raise self._undeclared(row + offset, number_text(float(numbers[row])), allowed)
        return numbers

    def _undeclared(self, row: int, value: object, need: str) -> CodebookError:
        text = canonical_text(value)
        where = f"attribute {self.name!r}, row {row}"
        what = f"{where}: value {text!r} {need}"
        return CodebookError.at(row, what, value, told=f"{where}: the value {need}")

    def _missing(self, row: int) -> CodebookError:
        what = (
            f"attribute {self.name!r}, row {row}: the value is missing, and the codebook declares "
            "no category for that (`missing`)"
        )
        return CodebookError.at(row, what, told=what)

    def decode(self, codes: npt.NDArray[Any]) -> npt.NDArray[np.object_]:
        """Labels of codes, shape (n,); NaN for the category that stands for missing values alone.

        Numbers are not recovered, only the label of their bin.
        """
        table = np.array(self.categories, dtype=object)
        own = self.cuts is None or len(table) == len(self.cuts) + 2
        if own and self.missing is not None and self.groups is None:
            table[self.categories.index(self.missing)] = np.nan
        labels: npt.NDArray[np.object_] = table[codes]
        return labels

    def mask(self, labels: object) -> npt.NDArray[np.bool_]:
        """Which categories an event names: one label or several; shape (n_categories,)."""
        if isinstance(labels, (str, bytes)) or not isinstance(labels, Iterable):
            labels = (labels,)
        chosen = [canonical_text(label) for label in labels]
        if not chosen:
            raise CodebookError(f"attribute {self.name!r}: an event names no category", labels)
        for label in chosen:
            if label not in self.categories:
                raise CodebookError(
                    f"attribute {self.name!r}: {label!r} is not a category; there are "
                    f"{_listed(self.categories)}",
                    label,
                )
        return np.array([label in chosen for label in self.categories])

    def config(self) -> dict[str, Any]:
        """Return the fields as lists, texts and numbers; `from_config` reads them back."""
        config: dict[str, Any] = {}
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name == "groups" and value is not None:
                value = [list(group) for group in value]
            elif isinstance(value, tuple):
                value = list(value)
            if value is not None:
                config[field.name] = value
        return config

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> Self:
        """Read what `config` wrote; unknown and absent keys are errors."""
        name = config.get("name")
        known = [field.name for field in fields(cls)]
        for key in config:
            if key not in known:
                path = f"attribute.{name}.{key}"
                raise CodebookError(f"{path}: unknown key; known are {', '.join(known)}", key)
        for key in ("name", "categories"):
            if key not in config:
                raise CodebookError(f"attribute.{name}: the key `{key}` is absent", config)
        return cls(**config)


def _listed(labels: Iterable[str], most: int = 12) -> str:
    """Labels for a message, cut short if there are many."""
    texts = [repr(label) for label in labels]
    more = f" and {len(texts) - most} more" if len(texts) > most else ""
    return ", ".join(texts[:most]) + more
