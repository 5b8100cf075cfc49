"""The list experiment as one matrix: chance says which list a person gets, who tells a count."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from ppdm_dask.designs.base import made_by
from ppdm_dask.designs.labels import read_categories
from ppdm_dask.designs.matrix import RRMatrix
from ppdm_dask.designs.parameters import (
    LABELS,
    LAW,
    PROBABILITY,
    attribute_names,
    distribution,
    probability,
    whole,
)
from ppdm_dask.errors import DesignError
from ppdm_dask.shown import given, quoted

__all__ = ["item_count"]

MOST_ITEMS = 100
"""Harmless statements of a list; people count few."""


@made_by(
    "itemcount",
    "A list experiment: the long list has the sensitive statement, the short one has not.",
    {
        "attribute": {
            "type": "string",
            "minLength": 1,
            "description": "What the sensitive statement is about; its column names the list.",
        },
        "count": {
            "type": "string",
            "minLength": 1,
            "description": "The column with the number of statements that apply.",
        },
        "items": {
            "type": "integer",
            "minimum": 1,
            "maximum": MOST_ITEMS,
            "description": "Number of harmless statements, which are in both lists.",
        },
        "categories": {**LABELS.schema(), "description": "The two labels of the attribute."},
        "trait": {
            "type": "string",
            "description": "Label of the people to whom the statement applies.",
        },
        "treated": {"type": "string", "minLength": 1, "description": "Word of the long list."},
        "control": {"type": "string", "minLength": 1, "description": "Word of the short list."},
        "share": {**PROBABILITY.schema(), "description": "Probability of the long list."},
        "expected": {
            **LAW.schema(),
            "description": "Distribution of the harmless count that gives the best precision.",
        },
    },
    optional=("expected",),
)
def item_count(
    attribute: str,
    count: str,
    items: int,
    categories: Sequence[str],
    trait: str,
    treated: str,
    control: str,
    share: float | str,
    expected: npt.ArrayLike | None = None,
) -> RRMatrix:
    """The matrix from the trait and the harmless count to the list and the count that is reported.

    Of people with the trait those with the long list tell one more.  Two counts that differ so
    between the lists tell trait and harmless count apart, jointly: the matrix has a left inverse.
    It holds if chance decides on the list, and the sensitive statement changes no other answer.

    Parameters
    ----------
    attribute, count : str
        Columns of the file: in the first stands the word of the list, in the second the count.
        They estimate the trait and the harmless count.
    items : int
        Harmless statements, 1 to 100.
    categories : sequence of two str
        Labels of the attribute.
    trait : str
        The one of those to whom the sensitive statement applies.
    treated, control : str
        Words of the list with that statement, and of the one without it.
    share : float
        Chance of the list with it, within (0, 1).
    expected : array, shape (items + 1,), optional
        Law of the harmless count, fixed before the data are seen, at which estimates are most
        precise; uniform by default.  Where it is right and half have the trait, nothing unbiased
        is more precise; ``--method mle`` needs no such guess.

    Raises
    ------
    DesignError
        For a value outside its range.

    Examples
    --------
    >>> design = item_count("used", "n", 1, ["no", "yes"], "yes", "long", "short", "1/2")
    >>> design.matrix()[:3].tolist()  # the short list and 0, 1, 2 of it
    [[0.5, 0.0, 0.5, 0.0], [0.0, 0.5, 0.0, 0.5], [0.0, 0.0, 0.0, 0.0]]
    >>> design.matrix()[3:].tolist()  # the long list
    [[0.5, 0.0, 0.0, 0.0], [0.0, 0.5, 0.5, 0.0], [0.0, 0.0, 0.0, 0.5]]
    """
    names = attribute_names([attribute, count])
    (labels,) = read_categories(categories, names[:1], (2,))
    if labels is None or trait not in labels:
        raise DesignError(f"trait: got {given(trait)}; one of {quoted(labels or ())}", trait)
    n, chance = whole("items", items, 1, MOST_ITEMS), probability("share", share)
    if not 0 < chance < 1:
        raise DesignError(f"share: got {given(share)}; within 0 and 1 is needed", share)
    if treated == control:
        raise DesignError(f"treated, control: both are {given(treated)}; two words", treated)
    P = np.zeros((2, n + 2, 2, n + 1))
    told = np.arange(n + 1)
    with_it = labels.index(trait)
    for label in (0, 1):
        P[with_it, told + (label == with_it), label, told] = chance
        P[1 - with_it, told, label, told] = 1 - chance
    law = None if expected is None else distribution("expected", expected, n + 1)
    if law is not None and law.min() <= 0:
        raise DesignError(f"expected: got {given(law.tolist())}; positive ones are needed", law)
    made = RRMatrix(
        names,
        P.reshape(2 * (n + 2), 2 * (n + 1)),
        (2, n + 1),
        (2, n + 2),
        None if law is None else np.tile(law / 2, 2),
        [list(labels), list(map(str, told))],
    )
    words: dict[str, Any] = {attribute: {treated: trait, control: labels[1 - with_it]}}
    return made.with_symbols(words)
