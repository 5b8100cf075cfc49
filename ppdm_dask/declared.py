"""Fields of a codebook's attribute, checked one by one."""

from __future__ import annotations

import math
from collections.abc import Iterable
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from ppdm_dask.coding import canonical_text
from ppdm_dask.errors import CodebookError
from ppdm_dask.shown import cut, printable, shown

if TYPE_CHECKING:
    from ppdm_dask.attribute import Attribute

__all__ = ["check_fields"]


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
