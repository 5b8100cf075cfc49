"""Labels of a design's categories: read, written, and brought into the order of a codebook.

Where the law of a design changes when categories are permuted, on both sides alike, the design has
to say which category is which.  Binding permutes it by label, so that nothing is applied by
position.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from ppdm_dask.errors import DesignError
from ppdm_dask.shown import quoted, shown

__all__ = [
    "Categories",
    "Labels",
    "Orders",
    "check_labels",
    "joint_order",
    "none_of",
    "places",
    "read_categories",
    "same_law",
    "written",
]

Labels = tuple[str, ...]
"""Categories of one attribute, in the order of P's axis."""

Categories = tuple[Labels | None, ...]
"""Labels of each attribute of a design; None for one whose labels it does not state."""

Orders = Mapping[str, Labels]
"""Categories of attributes as a codebook orders them."""

RELATIVE = 1e-12
"""Probabilities that differ by no more than this share of them count as equal: 1/3 made in two ways
differs in the last place."""


def none_of(attributes: Sequence[str]) -> Categories:
    """No labels for any attribute."""
    return (None,) * len(attributes)


def read_categories(value: Any, names: Sequence[str], shape: Sequence[int]) -> Categories:
    """Labels as a file or a call gives them: a list, or a list of lists for several attributes.

    Raises
    ------
    DesignError
        If there are not as many distinct texts as categories; an empty list states no labels.
    """
    if value is None:
        return none_of(names)
    listed = isinstance(value, Iterable) and not isinstance(value, str | Mapping)
    entries = list(value) if listed else [value]
    flat = all(isinstance(entry, str) for entry in entries)
    if flat and len(names) == 1:
        entries = [entries]
    if not listed or len(entries) != len(names):
        kind = "labels" if len(names) == 1 else f"lists of labels, one for each of {len(names)}"
        raise DesignError(f"categories: got {quoted([value])}; a list of {kind} is needed", value)
    return tuple(
        _labels(name, entry, size) for name, entry, size in zip(names, entries, shape, strict=True)
    )


def _labels(name: str, entry: Any, size: int) -> Labels | None:
    texts = entry is None or (isinstance(entry, Iterable) and not isinstance(entry, str | Mapping))
    labels = () if entry is None or not texts else tuple(entry)
    if texts and not labels:
        return None
    if not labels or any(not isinstance(label, str) for label in labels):
        raise DesignError(
            f"categories of {shown(name)}: got {quoted([entry])}; a list of labels is needed", entry
        )
    if len(labels) != size or len(set(labels)) < size:
        raise DesignError(
            f"categories of {shown(name)}: got {quoted(labels)}; {size} distinct labels are needed",
            entry,
        )
    return labels


def written(categories: Categories) -> dict[str, Any]:
    """The entry of a configuration: nothing where there are no labels."""
    if all(labels is None for labels in categories):
        return {}
    lists = [list(labels or ()) for labels in categories]
    return {"categories": lists[0] if len(lists) == 1 else lists}


def check_labels(name: str, stated: Iterable[str], there: Labels) -> None:
    """Raise DesignError unless the labels that a design states are those of the codebook."""
    known, declared = dict.fromkeys(stated), frozenset(there)
    missing = [label for label in known if label not in declared]
    surplus = [label for label in there if label not in known]
    said = []
    if missing:
        said.append(f"the codebook has no category {quoted(missing)}")
    if surplus:
        said.append(f"the design has no category {quoted(surplus)}")
    if said:
        raise DesignError(f"design on {quoted([name])}: {'; '.join(said)}", name)


def places(name: str, stated: Labels, there: Labels) -> npt.NDArray[np.int64]:
    """Where each of the codebook's categories is among the design's."""
    check_labels(name, stated, there)
    place = {label: i for i, label in enumerate(stated)}
    return np.array([place[label] for label in there], np.int64)


def joint_order(
    orders: Sequence[npt.NDArray[np.int64]], shape: Sequence[int]
) -> npt.NDArray[np.int64]:
    """Old row-major joint index of each new one, for an order of each attribute's categories."""
    index = np.arange(int(np.prod(shape, dtype=np.int64))).reshape(tuple(shape))
    return index[np.ix_(*orders)].ravel()


def same_law(one: npt.NDArray[np.float64], other: npt.NDArray[np.float64]) -> bool:
    """Whether probabilities are equal but for rounding; 0 equals only 0."""
    return bool((np.abs(one - other) <= RELATIVE * np.maximum(one, other)).all())
