"""Rules that find cut points and groups of categories in data, once; the codebook stores them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import pairwise
from math import isnan
from typing import Any

import numpy as np
import numpy.typing as npt

from ppdm_dask.data.attribute import Attribute
from ppdm_dask.errors import CodebookError, InputError
from ppdm_dask.files.any_column import as_column
from ppdm_dask.files.columns import (
    MissingCodes,
    factorise,
    float_kind,
    plain_number,
    read_numbers,
)
from ppdm_dask.files.texts import canonical_text
from ppdm_dask.ranges import reals
from ppdm_dask.shown import given, shown

__all__ = ["EMPTY_GROUP", "binarise_attribute", "cut_labels", "fit_attribute", "group_labels"]


EMPTY_GROUP = "(none)"
"""Label of a category that no declared label belongs to."""

BINARY_RULES = ("midrange", "median")


def fit_attribute(
    name: str,
    values: Any,
    rule: str | Sequence[float],
    *,
    missing: str | None = None,
    limits: tuple[float, float] | None = None,
    missing_codes: Sequence[str | float] | None = None,
    missing_kinds: Sequence[Sequence[str | float]] | None = None,
) -> Attribute:
    """Declare an attribute from data.

    Parameters
    ----------
    name : str
        Name of the attribute.
    values : Series, or array
        What was observed; missing values are passed over.
    rule : {"labels", "midrange", "median", "quantiles(k)"} or sequence of float
        ``"labels"`` makes a nominal attribute of the labels that occur, in alphabetical order.
        The others make a numeric one, cut at ``(min + max) / 2``, at the median, at the k-quantiles
        or at the points given. Quantiles are values that occur; equal ones are taken once and the
        maximum not at all, so that ties make fewer bins and never an empty one.
    missing : str, optional
        Label of a first category for missing values.
    limits : tuple of float, optional
        Smallest and largest value allowed.
    missing_codes : sequence of str or float, optional
        Values that stand for a missing one; see :class:`Attribute`.
    missing_kinds : sequence of sequences, optional
        Kinds of missing values that stay apart from each other, where numbers are cut.

    Raises
    ------
    CodebookError
        If the rule is unknown or finds nothing to cut.
    """
    given = None if missing_codes is None else tuple(missing_codes)
    kinds = tuple(map(tuple, missing_kinds or ()))
    apart = [code for _, *codes_of_kind in kinds for code in codes_of_kind]
    codes = MissingCodes.of([*(given or ()), *_optional(missing), *apart])
    if rule == "labels":
        _, texts = factorise(values)
        found = sorted(text for text in texts if not codes.holds(text))
        categories = (*_optional(missing), *found)
        return Attribute(
            name, categories, missing=missing, range=limits, rule="labels", missing_codes=given
        )
    if isinstance(rule, str):
        cuts = _find_cuts(name, values, rule, codes)
    else:
        cuts, rule = tuple(_checked(name, rule).tolist()), "given"
    categories = (*_optional(missing), *(str(kind[0]) for kind in kinds), *cut_labels(cuts))
    return Attribute(
        name,
        categories,
        cuts=cuts,
        missing=missing,
        range=limits,
        rule=rule,
        missing_codes=given,
        missing_kinds=kinds or None,
    )


def binarise_attribute(attribute: Attribute, values: Any, rule: str) -> Attribute:
    """Give an attribute two categories, split by a rule fitted on the values.

    A numeric attribute is cut at ``(min + max) / 2`` ("midrange") or at the median ("median") of
    the values that are not missing; a missing value goes to category 0, if the attribute allows
    any. A nominal one has its declared labels coded in alphabetical order, the label of missing
    values first, and split by the same rule on the codes of all records. Values above the cut
    are category 1. There are always two categories, even where one of them holds no value or
    (labelled ``"(none)"``) no label: a constant stays declared as what it is.

    Raises
    ------
    CodebookError
        If the rule is unknown, a value is not declared, or no value is left to fit on.
    """
    if rule not in BINARY_RULES:
        raise CodebookError(f"binarisation rule is {shown(rule)}; known are {_listed()}", rule)
    if attribute.numeric:
        numbers = attribute.read_numbers(values)
        cut = _binary_cut(attribute.name, numbers[~np.isnan(numbers)], rule)
        labels = cut_labels([cut])
        missing, codes = attribute.missing, attribute.missing_codes
        if missing is not None and attribute.own_missing and not isnan(plain_number(missing)):
            codes = (*(codes or ()), plain_number(missing))  # which no label spells any longer
        if apart := [code for _, *kind in attribute.missing_kinds or () for code in kind]:
            missing, codes = missing or labels[0], (*(codes or ()), *apart)
        return replace(
            attribute,
            missing_kinds=None,
            categories=labels,
            cuts=(cut,),
            missing=None if missing is None else labels[0],
            rule=rule,
            missing_codes=codes,
        )
    ordered = sorted(attribute.labels, key=lambda label: (label != attribute.missing, label))
    plain = Attribute(
        attribute.name,
        tuple(ordered),
        missing=attribute.missing,
        missing_codes=attribute.missing_codes,
    )
    cut = _binary_cut(attribute.name, plain.encode(values).astype(np.float64), rule)
    low = tuple(label for code, label in enumerate(ordered) if code <= cut)
    groups = (low, tuple(ordered[len(low) :]))
    return replace(plain, categories=group_labels(groups), groups=groups, rule=rule)


def cut_labels(cuts: Sequence[float]) -> tuple[str, ...]:
    """Labels of the bins between cut points, ``len(cuts) + 1`` of them.

    Examples
    --------
    >>> cut_labels([22, 26.5])
    ('<= 22', '(22, 26.5]', '> 26.5')
    """
    texts = [canonical_text(float(cut)) for cut in _checked("", cuts)]
    inner = [f"({low}, {high}]" for low, high in pairwise(texts)]
    return (f"<= {texts[0]}", *inner, f"> {texts[-1]}") if texts else ()


def _checked(name: str, cuts: Sequence[float]) -> npt.NDArray[np.float64]:
    """Cut points as an array, if they are finite numbers that ascend."""
    where = f"attribute {shown(name)}: cuts" if name else "cuts"
    try:
        points = reals(where, cuts, ndim=1)
    except InputError as error:
        raise CodebookError(str(error), cuts) from None
    if (np.diff(points) <= 0).any():
        raise CodebookError(f"{where}: got {given(points.tolist())}; they must ascend", cuts)
    return points


def group_labels(groups: Iterable[Sequence[str]]) -> tuple[str, ...]:
    """Labels of groups of categories: the only member, or the first and last one.

    Examples
    --------
    >>> group_labels([["?"], ["n", "y"], []])
    ('?', 'n .. y', '(none)')
    """
    texts = []
    for group in groups:
        ends = group[:1] if len(group) < 2 else (group[0], group[-1])
        texts.append(" .. ".join(ends) or EMPTY_GROUP)
    return tuple(texts)


def _find_cuts(name: str, values: Any, rule: str, missing: MissingCodes) -> tuple[float, ...]:
    numbers, wrong = read_numbers(values, missing)
    if wrong.any():
        value = canonical_text(as_column(values).value(int(np.argmax(wrong))))
        what = f"attribute {shown(name)}: {shown(value)} is not a finite number to cut at"
        raise CodebookError(what, value)
    numbers = numbers[~np.isnan(numbers)]
    if rule in BINARY_RULES:
        return (_binary_cut(name, numbers, rule),)
    match = re.fullmatch(r"quantiles\(([1-9]\d*)\)", rule)
    if not match or int(match[1]) < 2:
        known = f"labels, {_listed()}, quantiles(k) with k of 2 or more, or cut points"
        raise CodebookError(
            f"attribute {shown(name)}: rule is {shown(rule)}; known are {known}", rule
        )
    _require_some(name, numbers)
    n, k = len(numbers), int(match[1])
    ordered = np.sort(numbers)
    # The smallest value with at least i/k of the values at or below it, in exact arithmetic.
    ranks = range(n) if k > n else (-(-i * n // k) - 1 for i in range(1, k))
    found = {float(ordered[rank]) for rank in ranks} - {float(ordered[-1])}
    kind = float_kind(values)
    cuts = sorted(float(str(kind.type(cut))) for cut in found)
    if not cuts:
        raise CodebookError(
            f"attribute {shown(name)}: {rule} finds no cut among equal values", rule
        )
    return tuple(cuts)


def _binary_cut(name: str, numbers: npt.NDArray[np.float64], rule: str) -> float:
    _require_some(name, numbers)
    if rule == "median":
        return float(np.median(numbers))
    return float(numbers.min() / 2 + numbers.max() / 2)


def _require_some(name: str, numbers: npt.NDArray[np.float64]) -> None:
    if not len(numbers):
        raise CodebookError(f"attribute {shown(name)}: there is no value to fit a rule on", name)


def _optional(missing: str | None) -> tuple[str, ...]:
    return () if missing is None else (missing,)


def _listed() -> str:
    return ", ".join(BINARY_RULES)
