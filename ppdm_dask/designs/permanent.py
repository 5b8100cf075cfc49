"""A permanent first stage for repeated waves, and a fresh randomization of it at each of them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import combinations_with_replacement
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from ppdm_dask.arrays import Floats
from ppdm_dask.designs.base import MAX_DENSE, Codes, Design, design_from_config, register
from ppdm_dask.designs.draws import Steps, drawn
from ppdm_dask.designs.identity import Identity
from ppdm_dask.designs.labelled import Trait
from ppdm_dask.designs.labels import Categories, Orders
from ppdm_dask.designs.matrix import RRMatrix
from ppdm_dask.designs.parameters import STAGE, arguments, whole
from ppdm_dask.designs.product import Product
from ppdm_dask.errors import DesignError
from ppdm_dask.shown import given, quoted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ppdm_dask.randomness import Stream

__all__ = [
    "Permanent",
    "WavesEpsilon",
    "epsilon_of_waves",
    "lasting",
    "permanent_attributes",
    "permanent_blocks",
]

FIRST, AGAIN = 0, 1

MAX_WAVES = 1 << 20
"""Reports of several waves, times permanent symbols, up to which their law is enumerated."""


MAX_SORTED = 1 << 24
"""Products up to which a product of matrices is summed in one order."""


class WavesEpsilon(NamedTuple):
    """Epsilon of one person's reports of several waves, taken together.

    Parameters
    ----------
    value : float
    exact : bool
        Whether it is the least that holds; otherwise a bound above it.
    """

    value: float
    exact: bool


@register
class Permanent(Design):
    r"""Two stages: a symbol that the respondent's device keeps, disguised again in each wave.

    .. math:: P = P_{\text{again}} P_{\text{first}}

    The first stage is drawn once for a person, the second in each wave: that is the permanent and
    the instantaneous randomized response of [Rappor]_.  However many waves there are, their reports
    together say no more than the permanent symbol: epsilon of all of them is at most that of the
    first stage.

    :meth:`disguise` disguises for one wave, each record with a new permanent symbol: disguising the
    same records for another wave gives away more, as it does with any design.

    Parameters
    ----------
    first : Design
        One block of symbols: from the true categories to the permanent symbols.
    again : Design
        One block of symbols over the same attributes, whose categories are the first stage's
        symbols.

    Raises
    ------
    DesignError
        If the stages do not fit each other, or the first keeps the answer itself.
    """

    id = "permanent"

    def __init__(self, first: Annotated[Design, STAGE], again: Annotated[Design, STAGE]) -> None:
        for name, stage in (("first", first), ("again", again)):
            _check_stage(name, stage)
        if isinstance(first, Identity):
            raise DesignError(
                "first: 'identity' keeps the answer itself; a design that disguises is needed",
                first,
            )
        if again.attributes != first.attributes:
            raise DesignError(
                f"again: is on {quoted(again.attributes)}; first is on {quoted(first.attributes)}: "
                "the same attributes are needed, in that order",
                again,
            )
        if again.shape != first.reported_shape:
            raise DesignError(
                f"again: has {list(again.shape)} categories; the first stage has "
                f"{list(first.reported_shape)} symbols, and each is a category of the second",
                again,
            )
        if max(first.n_true, first.n_reported, again.n_reported) > MAX_DENSE:
            raise DesignError(
                f"first, again: too large for a dense matrix (at most {MAX_DENSE} categories and "
                "symbols)",
                first,
            )
        self.attributes, self.shape = first.attributes, first.shape
        self._check_symbols(first, again)
        self.first, self.again = _aligned(first, again)
        P = _product(self.again.matrix(), self.first.matrix())
        self._composed = RRMatrix(self.attributes, P, self.shape, self.again.reported_shape)

    def _check_symbols(self, first: Design, again: Design) -> None:
        """Refuse labels of symbols that are no categories."""
        sizes = zip(
            self.attributes, self.shape, first.reported_shape, again.reported_shape, strict=True
        )
        for name, k, kept, reported in sizes:
            if kept == k:
                continue
            if reported == k:
                raise DesignError(
                    f"again: reports of {quoted([name])} have as many symbols as there are "
                    "categories, but are not categories, because the permanent symbols are not",
                    again,
                )
            if again.by_position() != again:
                raise DesignError(
                    f"again: states labels; the permanent symbols of {quoted([name])} are no "
                    "categories and have none",
                    again,
                )

    # -- structure -------------------------------------------------------------------------------

    @property
    def reported_shape(self) -> tuple[int, ...]:
        return self.again.reported_shape

    @property
    def undefined(self) -> str:
        return self._composed.undefined

    def marginal(self, attributes: Sequence[str]) -> Design | None:
        if tuple(attributes) == self.attributes:
            return self
        labels = dict(zip(self.attributes, self.categories, strict=True))
        part = self._composed.marginal(attributes)
        if not isinstance(part, RRMatrix) or all(labels[name] is None for name in attributes):
            return part
        stated = [labels[name] for name in attributes]
        return RRMatrix(part.attributes, part.P, part.shape, part.reported, part.p0, stated)

    def matrix(self) -> Floats:
        return self._composed.P

    def likelihood_range(self) -> tuple[Floats, Floats]:
        """Of the law that is drawn: an entry too small to be drawn rules its category out."""
        P = drawn(self.again.matrix()) @ drawn(self.first.matrix())
        return P.min(1), P.max(1)

    # -- draws -----------------------------------------------------------------------------------

    def sample(self, codes: Codes, stream: Stream, start: int) -> Codes:
        kept = self.first.sample(codes, stream.child(FIRST), start)
        return self.again.sample(kept, stream.child(AGAIN), start)

    def steps(self) -> Steps:
        """``op`` permanent: the steps of both stages, with sources below the keys 0 and 1."""
        return {"op": self.id, "first": self.first.steps(), "again": self.again.steps()}

    # -- privacy of several waves ----------------------------------------------------------------

    def epsilon_of_waves(self, waves: int | None) -> WavesEpsilon:
        """Epsilon of one person's reports of several waves, taken together.

        Their law given the answer x is ``sum_z P_first[z, x] prod_i P_again[y_i, z]``; it depends
        on how often each symbol is reported only, and all ways are gone through where there are
        not too many.  Otherwise it is the least of two bounds: of the permanent symbol, which says
        all that any number of reports can say, and of the waves one by one, given the symbol.

        Parameters
        ----------
        waves : int or None
            How many; None for any number.
        """
        most = self.first.epsilon()
        if waves is None:
            return WavesEpsilon(most, exact=_tells_all(self.again.matrix()))
        t, m = whole("waves", waves, 1), self.n_reported
        if math.comb(t + m - 1, t) * max(t, self.first.n_reported) <= MAX_WAVES:
            return WavesEpsilon(min(self._enumerated(t), most), exact=True)
        return WavesEpsilon(min(most, t * self.again.epsilon()), exact=False)

    def _enumerated(self, t: int) -> float:
        """Log of the largest likelihood ratio of t reports, by enumeration of how often each is."""
        first, again = drawn(self.first.matrix()), drawn(self.again.matrix())
        symbols = np.array(list(combinations_with_replacement(range(len(again)), t)))
        with np.errstate(divide="ignore"):
            logs = np.log(again)[symbols].sum(axis=1)  # (ways, permanent symbols)
        largest = logs.max(axis=1, keepdims=True)
        possible = np.isfinite(largest[:, 0])
        law = np.exp(logs[possible] - largest[possible]) @ first
        low, high = law.min(axis=1), law.max(axis=1)
        if (low[high > 0] <= 0).any():
            return math.inf
        return float(np.log(high[high > 0] / low[high > 0]).max())

    # -- labels ----------------------------------------------------------------------------------

    @property
    def _shared(self) -> tuple[str, ...]:
        """Attributes whose permanent symbols are their categories."""
        return _shared(self.first)

    @property
    def ordered(self) -> bool:
        return self.first.ordered or (self.again.ordered and bool(self._shared))

    @property
    def categories(self) -> Categories:
        return _labels(self.first, self.again)

    @property
    def unlabelled(self) -> tuple[str, ...]:
        again = {*self.again.unlabelled} & {*self._shared}
        lacking = again | {*self.first.unlabelled}
        return tuple(name for name in self.attributes if name in lacking)

    @property
    def notes(self) -> tuple[str, ...]:
        return (*self.first.notes, *self.again.notes)

    def line_to_add(self, orders: Orders) -> str:
        if self.first.unlabelled:
            return f"in first: {self.first.line_to_add(orders)}"
        return f"in again: {self.again.line_to_add(orders)}"

    def in_order(self, orders: Orders) -> Design:
        first, again = _in_order(self.first, self.again, orders)
        if first is self.first and again is self.again:
            return self
        return type(self)(first, again)._worded(self.symbols)

    def by_position(self) -> Design | None:
        first, again = self.first.by_position(), self.again.by_position()
        if first is None or again is None:
            return None
        if first is self.first and again is self.again:
            return self
        return type(self)(first, again)

    # -- configuration ---------------------------------------------------------------------------

    def _channel(self) -> dict[str, Any]:
        return {"id": self.id, "first": self.first._channel(), "again": self.again._channel()}

    def _by_label(self) -> dict[str, Any]:
        return {"id": self.id, "first": self.first._by_label(), "again": self.again._by_label()}

    @classmethod
    def from_config(cls, parameters: Mapping[str, Any]) -> Self:
        own = dict(parameters)
        words = own.pop("symbols", None)
        found = arguments(cls, cls.id, own)
        stages = {name: _stage(name, value) for name, value in found.items()}
        made = cls(**stages)
        return made if words is None else made.with_symbols(words)


def _check_stage(name: str, stage: Any) -> None:
    if not isinstance(stage, Design):
        raise DesignError(f"{name}: got {given(stage)}; a design is needed", stage)
    if isinstance(stage, Product | Permanent):
        raise DesignError(f"{name}: got {given(stage.id)}; a design of one block is needed", stage)
    if stage.kind == "set":
        raise DesignError(
            f"{name}: reports of {given(stage.id)} are sets; a design of symbols is needed", stage
        )


def _stage(name: str, value: Any) -> Design:
    try:
        return design_from_config(value)
    except DesignError as error:
        raise DesignError(f"{name}: {error}", error.subject) from None


def _shared(first: Design) -> tuple[str, ...]:
    """Attributes whose symbols of the first stage are their categories."""
    sizes = zip(first.attributes, first.shape, first.reported_shape, strict=True)
    return tuple(name for name, k, kept in sizes if k == kept)


def _labels(first: Design, again: Design) -> Categories:
    """Categories as the first stage labels them, or the second where its own are the same."""
    shared = _shared(first)
    stages = zip(first.attributes, first.categories, again.categories, strict=True)
    return tuple(
        one if one is not None or name not in shared else other for name, one, other in stages
    )


def _in_order(first: Design, again: Design, orders: Orders) -> tuple[Design, Design]:
    """Both stages in an order of the categories."""
    shared = {name: orders[name] for name in _shared(first) if name in orders}
    return first.in_order(orders), again.in_order(shared)


def _aligned(first: Design, again: Design) -> tuple[Design, Design]:
    """Both stages in one order of the categories that either of them labels."""
    if (
        isinstance(first, Trait)
        and isinstance(again, Trait)
        and _shared(first)
        and first.trait != again.trait
        and (first.categories, again.categories) == ((None,), (None,))
    ):
        raise DesignError("categories: missing; two stages with two traits need them", again)
    stated = zip(first.attributes, _labels(first, again), strict=True)
    return _in_order(first, again, {n: labels for n, labels in stated if labels is not None})


def _product(again: Floats, first: Floats) -> Floats:
    """Again times first, the same to the last bit whatever the order of the categories."""
    if again.size * first.shape[1] > MAX_SORTED:
        return again @ first
    found = [np.sort(again * column, axis=1).sum(axis=1) for column in first.T]
    return np.stack(found, axis=1)


def _tells_all(again: npt.NDArray[np.float64]) -> bool:
    """Whether reports without end tell the permanent symbols apart: no two are reported alike."""
    return bool(np.unique(np.round(again, 12), axis=1).shape[1] == again.shape[1])


def permanent_blocks(design: Design) -> tuple[Permanent, ...]:
    """Blocks of a design with a permanent first stage."""
    return tuple(block for block in design.blocks if isinstance(block, Permanent))


def permanent_attributes(design: Design) -> set[str]:
    """Attributes of the blocks with a permanent first stage."""
    return {name for block in permanent_blocks(design) for name in block.attributes}


def lasting(design: Design) -> Design:
    """What all waves together can tell of the blocks with a permanent first stage: that stage.

    Parameters
    ----------
    design : Design

    Returns
    -------
    Design
        The same where no block has one.
    """
    if not permanent_blocks(design):
        return design
    blocks = [b.first if isinstance(b, Permanent) else b for b in design.blocks]
    return Product(blocks) if len(blocks) > 1 else blocks[0]


def epsilon_of_waves(design: Design, waves: int | None) -> WavesEpsilon:
    """Epsilon of one person's reports of several waves, over all blocks of a design.

    A block without a permanent first stage is disguised again in each wave: its epsilon adds up.

    Parameters
    ----------
    design : Design
    waves : int or None
        How many; None for any number.
    """
    value, exact = 0.0, True
    for block in design.blocks:
        if isinstance(block, Permanent):
            found = block.epsilon_of_waves(waves)
            value, exact = value + found.value, exact and found.exact
        elif own := block.epsilon():
            value += own * (math.inf if waves is None else waves)
    return WavesEpsilon(value, exact)
