"""Kuk's design: red cards counted in draws from one of two packs."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from ppdm_dask.designs.base import Codes, Design, Floats
from ppdm_dask.designs.inverse import MAX_CONDITION, condition
from ppdm_dask.designs.parameters import (
    check_keys,
    inverse_name,
    one_attribute,
    probability,
    whole,
)
from ppdm_dask.designs.registry import register
from ppdm_dask.randomness import exact, unpack_plane
from ppdm_dask.records import code_dtype

if TYPE_CHECKING:
    from ppdm_dask.randomness import Stream

__all__ = ["Kuk"]

MOST_CARDS = 1_000  # whose exact probabilities take a quarter of a second


@register
@dataclass(frozen=True, eq=False, init=False)
class Kuk(Design):
    """Draw from a pack that the truth chooses, and report how many of the cards were red.

    P has r + 1 rows of binomial probabilities and two columns.

    Parameters
    ----------
    attribute : str
        Binary; category 1 is the trait.
    p1, p2 : float
        Share of red cards in the pack of those with the trait, and of those without, in [0, 1].
        Where they are equal there is no inverse.
    repeats : int
        r, cards that each respondent draws, with replacement; up to 1,000.
    inverse : {"weighted", "textbook"}
        The weighted left inverse, of least variance at even odds, or the textbook's mean count,
        ``(y / r - p2) / (p1 - p2)``.  They are the same for one card.

    Raises
    ------
    DesignError
        For a value outside its range.
    """

    id = "kuk"

    attributes: tuple[str, ...]
    shape: tuple[int, ...]
    p1: float
    p2: float
    repeats: int
    named: str

    def __init__(
        self, attribute: str, p1: float, p2: float, repeats: int = 1, inverse: str = "weighted"
    ) -> None:
        object.__setattr__(self, "attributes", one_attribute(attribute))
        object.__setattr__(self, "shape", (2,))
        object.__setattr__(self, "p1", probability("p1", p1))
        object.__setattr__(self, "p2", probability("p2", p2))
        object.__setattr__(self, "repeats", whole("repeats", repeats, 1, MOST_CARDS))
        object.__setattr__(self, "named", inverse_name(inverse))

    @property
    def inverse(self) -> str:
        return self.named

    @property
    def reported_shape(self) -> tuple[int, ...]:
        return (self.repeats + 1,)

    @property
    def undefined(self) -> str:
        singular = not condition(self.matrix()) < MAX_CONDITION
        return "both packs give the same reports" if singular else ""

    def matrix(self) -> Floats:
        r = self.repeats
        P = np.empty((r + 1, 2))
        for x, red in enumerate((exact(self.p2), exact(self.p1))):
            P[:, x] = [float(math.comb(r, y) * red**y * (1 - red) ** (r - y)) for y in range(r + 1)]
        return P

    @cached_property
    def _left_inverse(self) -> Floats:
        if self.named == "weighted":
            return super()._left_inverse
        self.require_inverse()
        p1, p2 = exact(self.p1), exact(self.p2)
        y = np.arange(self.repeats + 1) / self.repeats
        trait = (y - self.p2) / float(p1 - p2)
        inverse: Floats = np.stack([1 - trait, trait])
        inverse.flags.writeable = False
        return inverse

    def sample(self, codes: Codes, stream: Stream, start: int) -> Codes:
        stop = start + len(codes)
        trait = codes[:, 0] == 1
        red = np.zeros(len(codes), np.int64)
        for draw in range(self.repeats):
            packs = [
                unpack_plane(stream.source(draw, x).bernoulli(exact(p), stop), start, stop)
                for x, p in enumerate((self.p2, self.p1))
            ]
            red += np.where(trait, packs[1], packs[0])
        return red[:, None].astype(np.result_type(codes, code_dtype(self.repeats + 1)))

    def config(self) -> dict[str, Any]:
        config = {
            "id": self.id,
            "attribute": self.attributes[0],
            "p1": self.p1,
            "p2": self.p2,
            "repeats": self.repeats,
        }
        return config if self.named == "weighted" else {**config, "inverse": self.named}

    @classmethod
    def from_config(cls, parameters: Mapping[str, Any]) -> Self:
        check_keys(cls.id, parameters, {"attribute", "p1", "p2"}, {"repeats", "inverse"})
        return cls(**parameters)
