"""Independent blocks: the whole design is the Kronecker product of theirs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import reduce
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from ppdm_dask.arrays import Floats, kron
from ppdm_dask.data.codebook import code_dtype
from ppdm_dask.designs.base import Codes, Design, design_from_config, register
from ppdm_dask.designs.draws import Steps
from ppdm_dask.designs.labels import Categories, Orders
from ppdm_dask.designs.mixture import MAX_JOINT
from ppdm_dask.designs.parameters import (
    BLOCKS,
    arguments,
    attribute_names,
)
from ppdm_dask.errors import DesignError
from ppdm_dask.shown import amount, given, shown

if TYPE_CHECKING:
    from ppdm_dask.randomness import Stream

__all__ = ["Product"]


def _first(block: Design, attributes: Sequence[str]) -> int:
    """Position of the first of the attributes that belongs to a block."""
    places = (i for i, name in enumerate(attributes) if name in block.attributes)
    return next(places, len(attributes))


@register
class Product(Design):
    """Blocks disguised independently of one another; what no block covers is undisguised.

    Parameters
    ----------
    designs : iterable of Design
        One or more, over distinct attributes; products are flattened.

    Raises
    ------
    DesignError
        If two blocks share an attribute.
    """

    id = "product"
    keys: ClassVar[Mapping[str, str]] = {"designs": "blocks"}

    def __init__(self, designs: Annotated[Iterable[Design], BLOCKS]) -> None:
        designs = tuple(designs)
        for design in designs:
            if not isinstance(design, Design):
                raise DesignError(f"designs: got {given(design)}; designs are needed", design)
        parts = tuple(block for design in designs for block in design.blocks)
        names = attribute_names([name for block in parts for name in block.attributes])
        self.designs = parts
        self.attributes = names
        self.shape = tuple(k for block in parts for k in block.shape)

    @property
    def blocks(self) -> tuple[Design, ...]:
        return self.designs

    @property
    def symbols(self) -> Mapping[str, Mapping[str, Any]]:
        return {name: words for block in self.designs for name, words in block.symbols.items()}

    def _worded(self, words: Mapping[str, Mapping[str, Any]]) -> Self:
        kept = object.__new__(type(self))
        parts = tuple(
            block._worded({name: words[name] for name in block.attributes if name in words})
            for block in self.designs
        )
        vars(kept).update(vars(self), designs=parts)
        return kept

    @property
    def ordered(self) -> bool:
        return any(block.ordered for block in self.designs)

    @property
    def categories(self) -> Categories:
        return tuple(labels for block in self.designs for labels in block.categories)

    @property
    def unlabelled(self) -> tuple[str, ...]:
        return tuple(name for block in self.designs for name in block.unlabelled)

    @property
    def notes(self) -> tuple[str, ...]:
        return tuple(note for block in self.designs for note in block.notes)

    def in_order(self, orders: Orders) -> Design:
        parts = tuple(block.in_order(orders) for block in self.designs)
        same = all(new is old for new, old in zip(parts, self.designs, strict=True))
        return self if same else Product(parts)

    def by_position(self) -> Design | None:
        parts = [block.by_position() for block in self.designs]
        if all(new is old for new, old in zip(parts, self.designs, strict=True)):
            return self
        found = [block for block in parts if block is not None]
        return Product(found) if len(found) == len(parts) else None

    @property
    def undefined(self) -> str:
        return next((block.undefined for block in self.designs if block.undefined), "")

    def require_inverse(self) -> None:
        for block in self.designs:
            block.require_inverse()

    def marginal(self, attributes: Sequence[str]) -> Design | None:
        """Product of the blocks' marginals, in the order given.

        None where a block that is cut is not lumpable, or the order takes a block apart.
        """
        parts: list[Design] = []
        for block in sorted(self.designs, key=lambda block: _first(block, attributes)):
            kept = [name for name in attributes if name in block.attributes]
            part = block.marginal(kept) if kept else None
            if kept and part is None:
                return None
            if part is not None:
                parts.append(part)
        product = Product(parts)
        return product if product.attributes == tuple(attributes) else None

    def matrix(self) -> Floats:
        self._require_dense()
        return kron([block.matrix() for block in self.designs])

    def left_inverse(self) -> Floats:
        self._require_dense()
        return kron([block.left_inverse() for block in self.designs])

    @property
    def reported_shape(self) -> tuple[int, ...]:
        return tuple(k for block in self.designs for k in block.reported_shape)

    def _along(
        self, step: Callable[[Design, Floats], Floats], vector: Floats, *, reported: bool = False
    ) -> Floats:
        """Apply a block operation along each block's axis of a joint vector in turn."""
        tail = vector.shape[1:]
        sizes = [block.n_reported if reported else block.n_true for block in self.designs]
        tensor = vector.reshape(*sizes, *tail)
        for axis, block in enumerate(self.designs):
            tensor = np.moveaxis(step(block, np.moveaxis(tensor, axis, 0)), 0, axis)
        return tensor.reshape(-1, *tail)

    def apply(self, true: Floats) -> Floats:
        return self._along(lambda block, x: block.apply(x), true)

    def apply_transposed(self, reported: Floats) -> Floats:
        return self._along(lambda block, y: block.apply_transposed(y), reported, reported=True)

    def invert(self, reported: Floats) -> Floats:
        return self._along(lambda block, y: block.invert(y), reported, reported=True)

    def invert_squared(self, reported: Floats) -> Floats:
        return self._along(lambda block, y: block.invert_squared(y), reported, reported=True)

    def invert_transposed(self, true: Floats) -> Floats:
        return self._along(lambda block, x: block.invert_transposed(x), true)

    def _require_symbols(self) -> None:
        for block in self.designs:
            if block.kind == "set":
                raise DesignError(
                    f"reports of {shown(block.attributes[0])} are sets; they are handled "
                    "block by block",
                    block,
                )

    def weights(self, masks: Mapping[str, npt.NDArray[np.bool_]], codes: Codes) -> Floats:
        self._require_symbols()
        weight = np.ones(len(codes))
        for block, columns in self._columns():
            if any(name in masks for name in block.attributes):
                weight *= block.weights(masks, codes[:, columns])
        return weight

    def _columns(self) -> list[tuple[Design, slice]]:
        edges = np.cumsum([0, *(len(block.shape) for block in self.designs)])
        return [
            (block, slice(a, b))
            for block, a, b in zip(self.designs, edges[:-1], edges[1:], strict=True)
        ]

    def likelihood_range(self) -> tuple[Floats, Floats]:
        if self.n_reported > MAX_JOINT:
            raise DesignError(
                f"{self.id}: {amount(self.n_reported)} joint reports are too many to list (at most "
                f"{MAX_JOINT}); ask block by block",
                self,
            )
        ranges = [block.likelihood_range() for block in self.designs]
        low = reduce(np.multiply.outer, [low for low, _ in ranges])
        high = reduce(np.multiply.outer, [high for _, high in ranges])
        return low.ravel(), high.ravel()

    def sample(self, codes: Codes, stream: Stream, start: int) -> Codes:
        self._require_symbols()
        reports = np.array(
            codes, np.result_type(codes, code_dtype(max(self.reported_shape))), order="F"
        )
        for j, (block, columns) in enumerate(self._columns()):
            reports[:, columns] = block.sample(codes[:, columns], stream.child(j), start)
        return reports

    def steps(self) -> Steps:
        """Raise DesignError: the blocks of a product are drawn one by one."""
        raise DesignError(f"{self.id!r} has no steps; its blocks have", self)

    def sample_inverse(self, codes: Codes, stream: Stream) -> tuple[Codes, Floats]:
        self._require_symbols()
        truth = np.array(codes, order="F")
        factors = np.ones(len(codes))
        for j, (block, columns) in enumerate(self._columns()):
            truth[:, columns], factor = block.sample_inverse(codes[:, columns], stream.child(j))
            factors *= factor
        return truth, factors

    def _by_label(self) -> dict[str, Any]:
        return {"id": self.id, "blocks": [block._by_label() for block in self.designs]}

    def _channel(self) -> dict[str, Any]:
        return {"id": self.id, "blocks": [block._channel() for block in self.designs]}

    @classmethod
    def from_config(cls, parameters: Mapping[str, Any]) -> Self:
        own = dict(parameters)
        words = own.pop("symbols", None)
        found = arguments(cls, cls.id, own)
        if "designs" in found:
            blocks = found["designs"]
            if not isinstance(blocks, Sequence) or isinstance(blocks, str) or not blocks:
                what = f"blocks: got {given(blocks)}; a list of designs is needed"
                raise DesignError(what, blocks)
            found["designs"] = [design_from_config(block) for block in blocks]
        made = cls(**found)
        return made if words is None else made.with_symbols(words)
