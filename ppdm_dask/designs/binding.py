"""Which label is which category of a design, as methods of it; :mod:`ppdm_dask.designs.labels`."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

from ppdm_dask.data.words import by_label, word_codes
from ppdm_dask.designs.labels import Categories, Labels, Orders, check_labels, none_of
from ppdm_dask.designs.parameters import Parameters, as_plain
from ppdm_dask.errors import DesignError, RecordsError
from ppdm_dask.files.canonical import canonical_json
from ppdm_dask.shown import cut, listed, quoted

if TYPE_CHECKING:
    from ppdm_dask.data.codebook import Codebook

__all__ = ["Binding", "check_fit", "check_words", "require_labels"]

LISTED = 20
"""Labels of an attribute that the line to add lists."""


class Binding(Parameters):
    """Labels of categories, and the order that they come in; mixed into every design.

    What stands here is for a design whose law is the same in any order: it needs no labels.
    """

    remarks: tuple[str, ...] = ()
    """What was changed about the parameters of this block as they were given."""

    if TYPE_CHECKING:
        # What the contract has beside these methods.
        @property
        def blocks(self) -> tuple[Any, ...]: ...

    @property
    def ordered(self) -> bool:
        """Whether the order of categories matters: permuting them on both sides changes the law."""
        return False

    @property
    def categories(self) -> Categories:
        """Labels of each attribute in the order of P's axes; None where they are not stated.

        A design whose order does not matter states none.
        """
        return none_of(self.attributes)

    @property
    def unlabelled(self) -> tuple[str, ...]:
        """Attributes whose order of categories matters, and whose labels are not stated."""
        if not self.ordered:
            return ()
        stated = zip(self.attributes, self.categories, strict=True)
        return tuple(name for name, labels in stated if labels is None)

    @property
    def notes(self) -> tuple[str, ...]:
        """What was changed about the parameters as they were given, a sentence each."""
        return self.remarks

    def line_to_add(self, orders: Orders) -> str:
        """The line of a design file that states the labels."""
        return needed_line(self, orders, "P")

    def shares_in_order(self, shares: Mapping[str, float]) -> list[float]:
        """Proportions by label, of a design on one attribute, in the order of its categories.

        Raises
        ------
        DesignError
            If the labels are others than the design states; or it states none and the order
            matters, or it has several attributes.
        """
        labels = self.categories[0] if len(self.attributes) == 1 else None
        if labels is None and (len(self.attributes) > 1 or self.ordered):
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

    def channel(self) -> dict[str, Any]:
        """The configuration without what does not touch the reports: inverse, and words."""
        plain: dict[str, Any] = as_plain(self._channel())
        return plain

    def _channel(self) -> dict[str, Any]:
        """The channel with arrays as they are."""
        config = self._config()
        return {key: value for key, value in config.items() if key not in ("inverse", "symbols")}

    def _by_label(self) -> dict[str, Any]:
        """The same; with labels, whatever order they are in."""
        return self._channel()

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the channel: reports made by one design are estimated by the same.

        It covers labels, not their order: binding does not change it.
        """
        digest = hashlib.sha256()
        for piece in canonical_json(self._by_label()):
            digest.update(piece)
        return digest.hexdigest()


def check_fit(design: Binding, codebook: Codebook) -> None:
    """Raise RecordsError unless the codebook has the attributes that the design expects."""
    for name, size in zip(design.attributes, design.shape, strict=True):
        if name not in codebook.names:
            have = listed(codebook.names)
            raise RecordsError(
                f"the design covers attribute {quoted([name])}; there are only: {have}", name
            )
        declared = len(codebook[name].categories)
        if declared != size:
            missing = codebook[name].missing
            hint = ""
            if declared == size + 1 and missing is not None:
                hint = (
                    f"; {quoted([missing])} stands for missing answers: if the device does not "
                    "offer it, delete it from the codebook (ppdm import has --nonresponse)"
                )
            raise RecordsError(
                f"attribute {quoted([name])} has {declared} categories; the design expects "
                f"{size}{hint}",
                name,
            )


def require_labels(design: Binding, orders: Orders) -> None:
    """Raise DesignError, with the line to add, where the order matters and no label is stated.

    Parameters
    ----------
    design : Design
    orders : mapping of attribute to labels
        Attributes that are not among them are passed over.
    """
    for block in design.blocks:
        names = [name for name in block.unlabelled if name in orders]
        if names:
            where = quoted(names)
            raise DesignError(
                f"design on {where}: the order of categories matters for {block.id!r}; "
                f"add {block.line_to_add(orders)}",
                block,
            )


def check_words(design: Binding, orders: Orders) -> None:
    """Raise DesignError where a design's words of reports are not those that it can give."""
    for block in design.blocks:
        for axis, name in enumerate(block.attributes):
            words, labels = block.symbols.get(name), orders.get(name)
            if words is not None and labels is not None:
                are_labels = block.kind == "set" or block.reported_shape[axis] == len(labels)
                size = len(labels) if are_labels else block.reported_shape[axis]
                told = labels if are_labels else None
                tables = [words]
                if by_label(words):
                    first = block.attributes[0]
                    check_labels(first, words, orders.get(first, ()))
                    tables = list(words.values())
                for table in tables:
                    word_codes(name, told, size, table, empty=block.kind == "set")


def needed_line(design: Binding, orders: Orders, what: str) -> str:
    """The line that states the categories, with the codebook's labels, in the order of a law."""
    lists = [_listed(orders.get(name, ())) for name in design.attributes]
    text = lists[0] if len(lists) == 1 else f"[{', '.join(lists)}]"
    return f"categories = {text}, put into the order of {what}"


def _listed(labels: Labels) -> str:
    """Labels as a list of a file; many are cut short."""
    texts = [json.dumps(cut(label), ensure_ascii=False) for label in labels[:LISTED]]
    return f"[{', '.join(texts + ['...'] * (len(labels) > LISTED))}]"
