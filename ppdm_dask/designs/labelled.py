"""Designs whose law is given category by category, so that each category has to have a label."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from ppdm_dask.designs.base import Design
from ppdm_dask.designs.labels import Categories, Orders, places, written

__all__ = ["Labelled", "Places"]

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
        return self.permuted(order, wanted)

    def by_position(self) -> Design:
        dropped = ("id", "categories")
        return self.from_config({k: v for k, v in self.config().items() if k not in dropped})

    def _by_label(self) -> dict[str, Any]:
        stated = zip(self.attributes, self.labels, strict=True)
        return self.in_order({n: tuple(sorted(ls)) for n, ls in stated if ls}).channel()

    def _labels_config(self) -> dict[str, Any]:
        return written(self.labels)
