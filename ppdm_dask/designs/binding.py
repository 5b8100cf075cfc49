"""Which label is which category of a design, as methods of it; :mod:`ppdm_dask.designs.labels`."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

from ppdm_dask.designs.files import read_design
from ppdm_dask.designs.labels import (
    Categories,
    Orders,
    check_fit,
    needed_line,
    none_of,
    require_labels,
)
from ppdm_dask.errors import DesignError
from ppdm_dask.shown import quoted

if TYPE_CHECKING:
    from pathlib import Path

    from ppdm_dask.codebook import Codebook
    from ppdm_dask.designs.base import Design

__all__ = ["Binding"]


class Binding:
    """Labels of categories, and the order that they come in; mixed into every design.

    What stands here is for a design whose law is the same in any order: it needs no labels.
    """

    def _design(self) -> Design:
        return cast("Design", self)

    @property
    def ordered(self) -> bool:
        """Whether the order of categories matters: permuting them on both sides changes the law."""
        return False

    @property
    def categories(self) -> Categories:
        """Labels of each attribute in the order of P's axes; None where they are not stated.

        A design whose order does not matter states none.
        """
        return none_of(self._design().attributes)

    @property
    def unlabelled(self) -> tuple[str, ...]:
        """Attributes whose order of categories matters, and whose labels are not stated."""
        if not self.ordered:
            return ()
        stated = zip(self._design().attributes, self.categories, strict=True)
        return tuple(name for name, labels in stated if labels is None)

    @property
    def notes(self) -> tuple[str, ...]:
        """What was changed about the parameters as they were given, a sentence each."""
        return ()

    def line_to_add(self, orders: Orders) -> str:
        """The line of a design file that states the labels."""
        return needed_line(self._design(), orders, "P")

    def in_order(self, orders: Orders) -> Design:
        """The design with the categories of some attributes in another order, by label.

        Attributes whose labels are not stated stay as they are.

        Parameters
        ----------
        orders : mapping of attribute to labels

        Raises
        ------
        DesignError
            If the labels of an attribute are others than the design states.
        """
        return self._design()

    def by_position(self) -> Design | None:
        """The same law without labels; None where only labels can state it."""
        return self._design()

    def shares_in_order(self, shares: Mapping[str, float]) -> list[float]:
        """Proportions by label, of a design on one attribute, in the order of its categories.

        Raises
        ------
        DesignError
            If the labels are others than the design states; or it states none and the order
            matters, or it has several attributes.
        """
        design = self._design()
        labels = self.categories[0] if len(design.attributes) == 1 else None
        if labels is None and (len(design.attributes) > 1 or self.ordered):
            raise DesignError(
                "prior: proportions by label need a design on one attribute, bound to a codebook "
                "where the order matters",
                shares,
            )
        if labels is not None and set(labels) != set(shares):
            raise DesignError(
                f"prior: has {quoted(shares)}; the design has {quoted(labels)}", shares
            )
        return [shares[label] for label in labels or shares]

    def bind(self, codebook: Codebook, *, positions: bool = False) -> Design:
        """The design in the order of a codebook's categories: the law is permuted by label.

        Parameters
        ----------
        codebook : Codebook
            Has all the attributes of the design.
        positions : bool
            Take the order of an attribute's categories as it is where the design states no labels.
            For simulations, which nobody's answer depends on.

        Returns
        -------
        Design
            The design itself where it is in that order, or no order matters.

        Raises
        ------
        RecordsError
            If the codebook lacks an attribute, or declares another number of categories.
        DesignError
            If the codebook has other labels, or the order matters and the design states none: the
            message has the line to add.
        """
        design = self._design()
        orders = {n: codebook[n].categories for n in design.attributes if n in codebook.names}
        bound = self.in_order(orders)
        check_fit(design, codebook)
        if not positions:
            require_labels(design, orders)
        return bound

    @staticmethod
    def read(path: str | Path, codebook: Codebook | None = None) -> Design:
        """Read a design file; see :func:`ppdm_dask.designs.files.read_design`."""
        return read_design(path, codebook)

    def channel(self) -> dict[str, Any]:
        """The configuration without the name of the inverse, which does not touch the reports."""
        return {key: value for key, value in self._design().config().items() if key != "inverse"}

    def _by_label(self) -> dict[str, Any]:
        """The channel; with labels, whatever order they are in."""
        return self.channel()

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the channel: reports made by one design are estimated by the same.

        It covers labels, not their order: binding does not change it.
        """
        text = json.dumps(self._by_label(), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()
