"""One attribute of a codebook: its declared categories, and values to codes and back.

Beside it: fields of a codebook's attribute, checked one by one.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from functools import cached_property
from itertools import pairwise
from math import isnan
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt

from ppdm_dask.errors import CodebookError
from ppdm_dask.files.columns import (
    MissingCodes,
    at_least,
    at_most,
    canonical_text,
    coded,
    float_kind,
    look_up,
    number_text,
    plain_number,
    read_numbers,
)
from ppdm_dask.frozen import settle
from ppdm_dask.shown import cut, printable, quoted, shown

if TYPE_CHECKING:
    import pandas as pd


__all__ = ["Attribute", "check_fields"]


def check_fields(attribute: Attribute) -> dict[str, Any]:
    """Check the fields of an attribute; those whose form changes, as tuples of texts and floats.

    Raises
    ------
    CodebookError
        If the fields contradict each other; the message gives the dotted path.
    """
    name, missing = attribute.name, attribute.missing
    for field in ("name", "missing", "rule"):
        value = getattr(attribute, field)
        if not isinstance(value, str) and (value is not None or field == "name"):
            raise _wrong(name, field, value, "must be a text")
    found: dict[str, Any] = {"categories": _labels(name, "categories", attribute.categories)}
    if not found["categories"]:
        raise _wrong(name, "categories", (), "must declare at least one label")
    if attribute.missing_codes is not None:
        found["missing_codes"] = _codes(name, attribute.missing_codes)
        if missing is None:
            need = "needs `missing`, which says where these values go"
            raise _wrong(name, "missing_codes", attribute.missing_codes, need)
    return found | (_nominal if attribute.cuts is None else _numeric)(attribute, **found)


def _nominal(
    attribute: Attribute,
    categories: tuple[str, ...],
    missing_codes: tuple[str | float, ...] = (),
) -> dict[str, Any]:
    name, missing, found = attribute.name, attribute.missing, {}
    labels = categories
    if attribute.range is not None:
        need = "is for numeric attributes, which have `cuts`"
        raise _wrong(name, "range", attribute.range, need)
    given: Any = attribute.groups
    if given is not None:
        if isinstance(given, str) or not isinstance(given, Iterable):
            raise _wrong(name, "groups", given, "must be a list of lists of labels")
        groups = tuple(_labels(name, "groups", group) for group in given)
        labels = _labels(name, "groups", [label for group in groups for label in group])
        found["groups"] = groups
        if len(groups) != len(categories):
            need = f"must have one group for each of the {len(categories)} categories"
            raise _wrong(name, "groups", groups, need)
    if missing is not None and missing not in labels:
        raise _wrong(name, "missing", missing, "must be one of the declared labels")
    declared = frozenset(labels)
    for code in missing_codes:
        if (text := canonical_text(code)) != missing and text in declared:
            raise _wrong(name, "missing_codes", code, "is a declared label too")
    return found


def _numeric(
    attribute: Attribute,
    categories: tuple[str, ...],
    missing_codes: tuple[str | float, ...] = (),
) -> dict[str, Any]:
    name = attribute.name
    if attribute.groups is not None:
        need = "is for nominal attributes, without `cuts`"
        raise _wrong(name, "groups", attribute.groups, need)
    cuts = _numbers(name, "cuts", attribute.cuts)
    found: dict[str, Any] = {"cuts": cuts}
    if not cuts or any(low >= high for low, high in pairwise(cuts)):
        raise _wrong(name, "cuts", cuts, "must hold at least one number and rise strictly")
    extra = len(categories) - len(cuts) - 1
    if extra not in (0, 1):
        raise _wrong(
            name,
            "categories",
            categories,
            f"has {len(categories)} labels; {len(cuts)} cuts need {len(cuts) + 1}, "
            f"or {len(cuts) + 2} with one for missing values",
        )
    if attribute.missing not in categories and (extra or attribute.missing is not None):
        raise _wrong(name, "missing", attribute.missing, "must be one of the categories")
    if attribute.range is not None:
        limits = _numbers(name, "range", attribute.range)
        if len(limits) != 2 or limits[0] > limits[1]:
            raise _wrong(name, "range", attribute.range, "must be [smallest, largest]")
        found["range"] = limits
    return found


def _wrong(name: object, field: str, value: object, need: str) -> CodebookError:
    """Error of a field, with its dotted path."""
    # Lists are those of the codebook, not of the data.
    text = cut(repr(value)) if isinstance(value, tuple | list) else shown(value)
    where = f"attribute.{printable(cut(name)) if isinstance(name, str) else shown(name)}.{field}"
    return CodebookError(f"{where}: {text} {need}", value)


def _labels(name: str, field: str, labels: Iterable[Any]) -> tuple[str, ...]:
    """Labels, which must be distinct texts that are not empty."""
    if isinstance(labels, str) or not isinstance(labels, Iterable):
        raise _wrong(name, field, labels, "must be a list of labels")
    seen: set[str] = set()
    labels = tuple(labels)
    for label in labels:
        if not isinstance(label, str) or not label:
            raise _wrong(name, field, label, "must be a text that is not empty")
        if label in seen:
            raise _wrong(name, field, label, "is declared twice")
        seen.add(label)
    return labels


def _numbers(name: str, field: str, values: Any) -> tuple[float, ...]:
    """Finite numbers."""
    if isinstance(values, str) or not isinstance(values, Iterable):
        raise _wrong(name, field, values, "must be a list of numbers")
    values = tuple(values)
    for value in values:
        if not _is_number(value):
            raise _wrong(name, field, value, "must be a finite number")
    return tuple(float(value) + 0.0 for value in values)  # -0.0 is 0


def _codes(name: str, codes: Any) -> tuple[str | float, ...]:
    """Texts, which may be empty ones, and finite numbers."""
    right = 'must be a list of texts and numbers, such as [-99, "Refused"]'
    if isinstance(codes, str) or not isinstance(codes, Iterable) or not tuple(codes):
        raise _wrong(name, "missing_codes", codes, right)
    for code in codes:
        if not isinstance(code, str) and not _is_number(code):
            raise _wrong(name, "missing_codes", code, "must be a text or a finite number")
    return tuple(code if isinstance(code, str) else float(code) + 0.0 for code in codes)


def _is_number(value: Any) -> bool:
    """Whether a value is a number, and finite as a float."""
    if isinstance(value, bool) or not isinstance(value, int | float | np.integer | np.floating):
        return False
    try:
        return math.isfinite(value)
    except OverflowError:  # a whole number that no float can hold
        return False


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
    missing_codes : tuple of str or float, optional
        Values that stand for a missing one, which go where `missing` says, before they are cut or
        held against the range: ``(-99, 999, "Refused")``. 999, 999.0 and ``"999"`` are the same.
        Where `missing` itself names a category of its own that spells a number, such as ``"999"``,
        the number is a code without being listed.

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
    missing_codes: tuple[str | float, ...] | None = None

    def __post_init__(self) -> None:
        settle(self, **check_fields(self))

    def __len__(self) -> int:
        """Return the number of categories."""
        return len(self.categories)

    @property
    def numeric(self) -> bool:
        """Whether values are numbers that fall into bins."""
        return self.cuts is not None

    @property
    def own_missing(self) -> bool:
        """Whether a category of a numeric attribute holds missing values and nothing else."""
        return self.cuts is not None and len(self.categories) == len(self.cuts) + 2

    @cached_property
    def codes_of_missing(self) -> MissingCodes:
        """Values that stand for a missing one: those listed, and the name of their category."""
        codes = [*(self.missing_codes or ())]
        # The name of a bin that missing values share may well spell a number that is none.
        if self.missing is not None and (self.own_missing or isnan(plain_number(self.missing))):
            codes.append(self.missing)
        return MissingCodes.of(codes)

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
        return self.small_codes(values, offset).astype(np.intp)

    def small_codes(self, values: pd.Series, offset: int = 0) -> npt.NDArray[Any]:
        """As :meth:`encode`, in whatever integers are at hand, and perhaps not to be written to."""
        if self.cuts is not None:
            numbers = self.read_numbers(values, offset)
            kind = float_kind(values)
            cuts = self.cuts if kind == np.float64 else [at_most(cut, kind) for cut in self.cuts]
            codes = np.searchsorted(np.asarray(cuts), numbers, side="left")
            if self.own_missing:
                own = self.categories.index(self.missing or "")
                codes += codes >= own  # step over the category of missing values
            if self.missing is not None:
                codes[np.isnan(numbers)] = self.categories.index(self.missing)
            return codes
        positions, texts = coded(values)
        missing = -1 if self.missing is None else self.code_of[self.missing]
        known = self.code_of
        if self.missing_codes:
            held = self.codes_of_missing.holds
            known = {**{text: missing for text in texts if held(text)}, **known}
        codes = look_up(positions, texts, known, missing)
        if codes.size and codes.min() < 0:
            row = int(np.argmax(codes < 0))
            if positions[row] < 0:
                raise self._missing(row + offset)
            text = texts[positions[row]]
            raise self._undeclared(
                row + offset, text, f"is not declared; there are {quoted(self.labels)}"
            )
        return codes

    def read_numbers(self, values: pd.Series, offset: int = 0) -> npt.NDArray[np.float64]:
        """Values of a numeric attribute, NaN where missing, shape (n,).

        Raises
        ------
        CodebookError
            On a value that is no finite number, out of range, or missing with no place to go.
        """
        numbers, wrong = read_numbers(values, self.codes_of_missing)
        if wrong.any():
            row = int(np.argmax(wrong))
            raise self._undeclared(row + offset, values.iloc[row], "is no finite number")
        if self.missing is None and np.isnan(numbers).any():
            raise self._missing(int(np.argmax(np.isnan(numbers))) + offset)
        if self.range is not None:
            (low, high), kind = self.range, float_kind(values)
            outside = (numbers < at_least(low, kind)) | (numbers > at_most(high, kind))
            if outside.any():
                row = int(np.argmax(outside))
                allowed = f"is outside the range {number_text(low)} to {number_text(high)}"
                raise self._undeclared(row + offset, number_text(float(numbers[row])), allowed)
        return numbers

    def _undeclared(self, row: int, value: object, need: str) -> CodebookError:
        text = canonical_text(value)
        where = f"attribute {shown(self.name)}, row {row}"
        what = f"{where}: value {shown(text)} {need}"
        return CodebookError.at(row, what, value, told=f"{where}: the value {need}")

    def _missing(self, row: int) -> CodebookError:
        what = (
            f"attribute {shown(self.name)}, row {row}: the value is missing, and the codebook "
            "declares no category for that (`missing`)"
        )
        return CodebookError.at(row, what, told=what)

    def decode(self, codes: npt.NDArray[Any]) -> npt.NDArray[np.object_]:
        """Labels of codes, shape (n,); NaN for the category that stands for missing values alone.

        Numbers are not recovered, only the label of their bin.
        """
        table = np.array(self.categories, dtype=object)
        own = self.cuts is None or self.own_missing
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
            raise CodebookError(f"attribute {shown(self.name)}: an event names no category")
        for label in chosen:
            if label not in self.categories:
                raise CodebookError(
                    f"attribute {shown(self.name)}: {shown(label)} is not a category; there are "
                    f"{quoted(self.categories)}",
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
                path = f"attribute.{printable(cut(str(name)))}.{printable(cut(key))}"
                raise CodebookError(f"{path}: unknown key; known are {', '.join(known)}", key)
        for key in ("name", "categories"):
            if key not in config:
                raise CodebookError(
                    f"attribute.{printable(cut(str(name)))}: the key `{key}` is absent", name
                )
        return cls(**config)
