"""The unrelated-question design over a record or a block of it: [ZhanMatwin]_, 2.2."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any, Self

import numpy as np
import numpy.typing as npt

from ppdm_dask.arrays import Floats
from ppdm_dask.designs.base import register
from ppdm_dask.designs.binding import needed_line
from ppdm_dask.designs.labelled import Labelled, Places
from ppdm_dask.designs.labels import Categories, Labels, Orders, read_categories
from ppdm_dask.designs.mixture import COIN, PERSONAL, Mixture, uniform
from ppdm_dask.designs.parameters import (
    LABELS,
    LAWS,
    NAMES,
    SHAPE,
    Probability,
    attribute_names,
    labelled,
    noted_distribution,
    probability,
    shape_of,
    stated_once,
)
from ppdm_dask.errors import DesignError
from ppdm_dask.randomness import exact
from ppdm_dask.shown import shown

__all__ = ["COIN", "PERSONAL", "UnrelatedQuestion"]

NAMED = 3
"""Attributes of which a message tells who gets a single number."""

Personal = float | str | Sequence[float] | Mapping[str, Any] | npt.NDArray[np.float64]


@register
class UnrelatedQuestion(Labelled, Mixture):
    r"""With probability q the true answers, else the answers to unrelated questions.

    The personal attributes are independent of the private ones and of one another.  For any event,
    by Eq. (1) of [ZhanMatwin]_ and its solution,

    .. math:: P^*(A) = q P(A) + (1 - q) P(Y), \qquad
        P(A) = \frac{P^*(A) - (1 - q) P(Y)}{q}

    Parameters
    ----------
    attributes : str or iterable of str
        The block: one coin decides for all of it.
    q : float
        In [0, 1]; at 0 the design has no inverse.
    w_y : float, sequence or mapping
        Distribution of the personal attributes. A number is P(Y = 1) for every attribute, all
        binary. A sequence has one entry for each attribute: a number if it is binary, otherwise a
        probability vector or a mapping from label to probability. A mapping is the distribution of
        one attribute, or of each attribute by its name.
    shape : sequence of int, optional
        Categories of each attribute, checked against w_y.
    categories : sequence of str, or one for each attribute, optional
        Labels in the order of the distributions, if no mapping names them. Real answers need them
        if a distribution is not uniform; an empty list means no labels.

    Raises
    ------
    DesignError
        For a value outside its range, or lengths that disagree.
    """

    id = "unrelated"
    left_out = ("shape",)

    def __init__(
        self,
        attributes: Annotated[str | Iterable[str], NAMES],
        q: Probability,
        w_y: Annotated[Personal | Sequence[Personal], LAWS] = 0.5,
        shape: Annotated[Sequence[int] | None, SHAPE] = None,
        categories: Annotated[Sequence[Any] | None, LABELS] = None,
    ) -> None:
        names = attribute_names(attributes)
        entries = _entries(names, w_y)
        sized = [len(entry) if _listed(entry) else 2 for entry in entries]
        stated = read_categories(categories, names, sized)
        given: Categories = tuple(
            stated_once(f"w_y of {shown(name)}", labelled(entry)[1], labels)
            for name, entry, labels in zip(names, entries, stated, strict=True)
        )
        read = [_law(*each) for each in zip(names, entries, given, strict=True)]
        laws = tuple(law for law, _ in read)
        sizes = tuple(law.size for law in laws)
        if shape is not None and shape_of(shape, len(names)) != sizes:
            raise DesignError(
                f"w_y: gives {list(sizes)} categories; shape says {list(shape)} "
                "(a single number stands for a binary attribute)",
                w_y,
            )
        self.attributes = names
        self.shape = sizes
        self.q = probability("q", q)
        self.w_y = laws
        self.labels = read_categories(given, names, sizes)
        self.remarks = tuple(note for _, notes in read for note in notes)

    @property
    def unlabelled(self) -> tuple[str, ...]:
        if not self.ordered:
            return ()
        stated = zip(self.attributes, self.w_y, self.labels, strict=True)
        return tuple(n for n, law, labels in stated if labels is None and not uniform(law))

    def permuted(self, order: Places, labels: Categories) -> Self:
        laws = [law[moved] for law, moved in zip(self.w_y, order, strict=True)]
        return type(self)(self.attributes, self.q, laws, categories=labels)

    def _parameter(self, name: str) -> Any:
        if name != "w_y":
            return super()._parameter(name)
        # Of a binary attribute without labels P(Y = 1) says everything.
        return [
            float(law[1]) if law.size == 2 and labels is None else law
            for law, labels in zip(self.w_y, self.labels, strict=True)
        ]

    def line_to_add(self, orders: Orders) -> str:
        line = needed_line(self, orders, "w_y")
        single = [
            (name, float(law[1]), orders[name][-1])
            for name, law in zip(self.attributes, self.w_y, strict=True)
            if law.size == 2 and name in orders and name in self.unlabelled
        ]
        if not single:
            return line
        # A number alone does not show that it has an order.
        said = [
            f"{share:g} is the probability of the last label of {shown(name)}, "
            f"which would be {shown(last)}"
            for name, share, last in single[:NAMED]
        ]
        return f"{line}: {'; '.join(said)}"

    @property
    def mixing(self) -> float:
        return self.q

    @property
    def factors(self) -> tuple[Floats, ...]:
        return self.w_y

    @property
    def undefined(self) -> str:
        return super().undefined if self.q else "at q = 0 every report is the personal answer"

    def marginal(self, attributes: Sequence[str]) -> UnrelatedQuestion:
        laws = dict(zip(self.attributes, self.w_y, strict=True))
        labels = dict(zip(self.attributes, self.labels, strict=True))
        return UnrelatedQuestion(
            attributes,
            self.q,
            [laws[name] for name in attributes],
            categories=[labels[name] for name in attributes],
        )


def _listed(entry: Any) -> bool:
    return isinstance(entry, Iterable) and not isinstance(entry, str)


def _entries(names: tuple[str, ...], w_y: Any) -> list[Any]:
    """What w_y says of each attribute."""
    if not _listed(w_y):
        return [probability("w_y", w_y)] * len(names)
    if not isinstance(w_y, Mapping):
        entries = list(w_y)
    elif any(isinstance(value, Mapping) for value in w_y.values()):
        for name in {**w_y, **dict.fromkeys(names)}:
            if name not in names or name not in w_y:
                what = "missing" if name in names else "no attribute of the design"
                raise DesignError(f"w_y of {shown(name)}: {what}; a law of each attribute", w_y)
        entries = [w_y[name] for name in names]
    else:
        entries = [w_y]
    if len(entries) != len(names):
        raise DesignError(
            f"w_y: got {len(entries)} entries; one for each of {len(names)} attributes is needed",
            w_y,
        )
    return entries


def _law(name: str, entry: Any, labels: Labels | None) -> tuple[Floats, tuple[str, ...]]:
    """The law of a personal attribute, and a note on it."""
    what = f"w_y of {shown(name)}"
    if _listed(entry):
        law, notes = noted_distribution(what, labelled(entry)[0])
    else:
        law, notes = np.array([1.0, probability(what, entry)]), ()
    if law.size == 2 and not (labels and _listed(entry)):
        # Only P(Y = 1) goes into the configuration, from which an equal law must come back.
        yes = float(law[1])
        law = np.array([float(1 - exact(yes)), yes])
        law.flags.writeable = False
    return law, notes
