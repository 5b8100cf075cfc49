"""Kuk's design: red cards counted in draws from one of two packs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Annotated

import numpy as np

from ppdm_dask.arrays import Floats
from ppdm_dask.data.codebook import code_dtype
from ppdm_dask.designs.base import Codes, register
from ppdm_dask.designs.draws import Steps, coin_of
from ppdm_dask.designs.inverses import MAX_CONDITION, condition
from ppdm_dask.designs.labelled import Trait
from ppdm_dask.designs.parameters import (
    LABELS,
    Inverse,
    OneName,
    Probability,
    inverse_name,
    one_attribute,
    probability,
    whole,
)
from ppdm_dask.files.values import Whole
from ppdm_dask.randomness import exact, unpack_plane

if TYPE_CHECKING:
    from ppdm_dask.randomness import Stream

__all__ = ["Kuk"]

MOST_CARDS = 1_000  # whose exact probabilities take a quarter of a second


@register
class Kuk(Trait):
    r"""Draw from a pack that the truth chooses, and report how many of the cards were red.

    P has r + 1 rows of binomial probabilities and two columns, x = 1 for the trait and 2 for the
    others:

    .. math:: P_{yx} = \binom{r}{y} p_x^y (1 - p_x)^{r - y}

    A single card is reported as the trait if it is red, more of them as their number.

    Parameters
    ----------
    attribute : str
        Binary.
    p1, p2 : float
        Share of red cards in the pack of those with the trait, and of those without, in [0, 1].
        If they are equal there is no inverse.
    repeats : int
        r, cards that each respondent draws, with replacement; up to 1,000.
    inverse : {"weighted", "textbook"}
        The weighted left inverse, with the least variance at equal proportions, or the usual mean
        count, ``(y / r - p2) / (p1 - p2)``.  They are the same for one card.
    trait : str, optional
        Label of the trait; needed for real answers.  Without it category 1 is the trait.
    categories : sequence of str, optional
        Both labels in the order of the codes, as set by binding.

    Raises
    ------
    DesignError
        For a value outside its range.
    """

    id = "kuk"

    def __init__(
        self,
        attribute: OneName,
        p1: Probability,
        p2: Probability,
        repeats: Annotated[int, Whole(1, MOST_CARDS)] = 1,
        inverse: Inverse = "weighted",
        trait: str | None = None,
        categories: Annotated[Sequence[str] | None, LABELS] = None,
    ) -> None:
        self.attributes = one_attribute(attribute)
        self.shape = (2,)
        self.p1 = probability("p1", p1)
        self.p2 = probability("p2", p2)
        self.repeats = whole("repeats", repeats, 1, MOST_CARDS)
        self.inverse = inverse_name(inverse)
        self._state(trait, categories)

    @property
    def ordered(self) -> bool:
        p1, p2 = exact(self.p1), exact(self.p2)
        return p1 + p2 != 1 if self.repeats == 1 else p1 != p2

    @property
    def _packs(self) -> tuple[float, float]:
        """Share of red cards by category."""
        return (self.p2, self.p1) if self.position == 1 else (self.p1, self.p2)

    @property
    def _reversed(self) -> bool:
        """Whether a red card is symbol 0: the only card, and the trait is category 0."""
        return self.repeats == 1 and self.position == 0

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
        for x, red in enumerate(map(exact, self._packs)):
            P[:, x] = [float(math.comb(r, y) * red**y * (1 - red) ** (r - y)) for y in range(r + 1)]
        return P[::-1] if self._reversed else P

    @cached_property
    def _left_inverse(self) -> Floats:
        if self.inverse == "weighted":
            return super()._left_inverse
        self.require_inverse()
        p1, p2 = exact(self.p1), exact(self.p2)
        y = np.arange(self.repeats + 1) / self.repeats
        trait = (y - self.p2) / float(p1 - p2)
        trait = trait[::-1] if self._reversed else trait
        inverse: Floats = np.stack([1 - trait, trait] if self.position else [trait, 1 - trait])
        inverse.flags.writeable = False
        return inverse

    def sample(self, codes: Codes, stream: Stream, start: int) -> Codes:
        stop = start + len(codes)
        red = np.zeros(len(codes), np.int64)
        for draw in range(self.repeats):
            packs = [
                unpack_plane(stream.source(draw, x).bernoulli(exact(p), stop), start, stop)
                for x, p in enumerate(self._packs)
            ]
            red += np.where(codes[:, 0] == 1, packs[1], packs[0])
        if self._reversed:
            red = 1 - red
        return red[:, None].astype(np.result_type(codes, code_dtype(self.repeats + 1)))

    def steps(self) -> Steps:
        packs = [
            [coin_of(p, draw, x) for x, p in enumerate(self._packs)] for draw in range(self.repeats)
        ]
        return {"op": "cards", "packs": packs, "reversed": self._reversed}
