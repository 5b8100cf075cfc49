"""Designs whose law is given category by category, so that each category has to have a label.

Also here: designs on one binary attribute that treat one of its categories, the trait, in its own
way.
"""

from __future__ import annotations

import json
from abc import abstractmethod
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from ppdm_dask.designs.base import Design
from ppdm_dask.designs.labels import (
    Categories,
    Orders,
    check_labels,
    places,
    read_categories,
    written,
)
from ppdm_dask.errors import DesignError
from ppdm_dask.shown import cut, given, quoted, shown

__all__ = ["Labelled", "Places", "Trait"]


class Trait(Design):
    """What such families have in common: which label is the trait, and where it is.

    Without labels the trait is category 1; a design that is bound to a codebook has it wherever the
    codebook has it.
    """

    def _state(self, trait: Any, categories: Any) -> None:
        """Check and keep the label of the trait, and the labels in order where they are known."""
        if trait is not None and (not isinstance(trait, str) or not trait):
            raise DesignError(
                f"trait: got {given(trait)}; the label of a category is needed", trait
            )
        labels = read_categories(categories, self.attributes, self.shape)
        if labels[0] is not None and trait not in labels[0]:
            what = "missing" if trait is None else f"got {given(trait)}"
            raise DesignError(
                f"trait: {what}; one of the categories {shown(labels[0][0])} and "
                f"{shown(labels[0][1])} is "
                "needed",
                trait,
            )
        self.trait: str | None = trait
        self.labels = labels

    @property
    def position(self) -> int:
        """Category of the trait, 0 or 1."""
        labels = self.labels[0]
        return 1 if labels is None or self.trait is None else labels.index(self.trait)

    @property
    def categories(self) -> Categories:
        return self.labels

    @property
    def unlabelled(self) -> tuple[str, ...]:
        return self.attributes if self.ordered and self.trait is None else ()

    def line_to_add(self, orders: Orders) -> str:
        labels = orders[self.attributes[0]]
        return " or ".join(
            f"trait = {json.dumps(cut(label), ensure_ascii=False)}" for label in labels
        )

    def in_order(self, orders: Orders) -> Self:
        name, stated = self.attributes[0], self.labels[0]
        if self.trait is None or name not in orders or orders[name] == stated:
            return self
        if len(orders[name]) != 2:
            raise DesignError(
                f"design on {shown(name)}: {self.id!r} is of two categories; the codebook has "
                f"{len(orders[name])}: {quoted(orders[name])}",
                name,
            )
        if stated is not None:
            check_labels(name, stated, orders[name])
        elif self.trait not in orders[name]:
            other = " or ".join(map(shown, orders[name]))
            raise DesignError(
                f"design on {shown(name)}: the codebook has no category {shown(self.trait)}, "
                "the trait; "
                f"it is {other}",
                name,
            )
        config = {**self.config(), **written((orders[name],))}
        return self.from_config({key: value for key, value in config.items() if key != "id"})

    def by_position(self) -> Design | None:
        if self.trait is None:
            return self
        if self.position != 1:
            return None
        dropped = ("id", "trait", "categories")
        return self.from_config({k: v for k, v in self.config().items() if k not in dropped})

    def _by_label(self) -> dict[str, Any]:
        # The other label follows from the codebook.
        return {key: value for key, value in self._channel().items() if key != "categories"}


Places = tuple[npt.NDArray[np.int64], ...]
"""For each attribute, where each category of the new order is in the old one."""


class Labelled(Design):
    """A design that keeps labels in the order of its axes, and permutes its law by them."""

    labels: Categories

    @property
    def categories(self) -> Categories:
        return self.labels

    @abstractmethod
    def permuted(self, order: Places, labels: Categories) -> Self:
        """The design with its categories in another order."""

    def in_order(self, orders: Orders) -> Self:
        wanted = tuple(
            None if stated is None else orders.get(name, stated)
            for name, stated in zip(self.attributes, self.labels, strict=True)
        )
        if wanted == self.labels:
            return self
        order = tuple(
            np.arange(size) if stated is None or there is None else places(name, stated, there)
            for name, size, stated, there in zip(
                self.attributes, self.shape, self.labels, wanted, strict=True
            )
        )
        return self.permuted(order, wanted)._worded(self.symbols)

    def by_position(self) -> Design:
        dropped = ("id", "categories")
        return self.from_config({k: v for k, v in self.config().items() if k not in dropped})

    def _by_label(self) -> dict[str, Any]:
        stated = zip(self.attributes, self.labels, strict=True)
        return self.in_order({n: tuple(sorted(ls)) for n, ls in stated if ls})._channel()
