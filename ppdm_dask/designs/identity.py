"""The identity: reports are the truth.  It is the undisguised baseline of every experiment."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Annotated

import numpy as np

from ppdm_dask.arrays import Floats
from ppdm_dask.designs.base import Codes, register
from ppdm_dask.designs.draws import Steps
from ppdm_dask.designs.mixture import Mixture
from ppdm_dask.designs.parameters import (
    NAMES,
    SHAPE,
    attribute_names,
    shape_of,
)

if TYPE_CHECKING:
    from ppdm_dask.randomness import Stream

__all__ = ["Identity"]


@register
class Identity(Mixture):
    """P = I: nothing is disguised.

    Parameters
    ----------
    attributes : str or iterable of str
    shape : sequence of int
        Categories of each attribute.
    """

    id = "identity"

    def __init__(
        self,
        attributes: Annotated[str | Iterable[str], NAMES],
        shape: Annotated[Sequence[int], SHAPE],
    ) -> None:
        names = attribute_names(attributes)
        self.attributes = names
        self.shape = shape_of(shape, len(names))

    @property
    def mixing(self) -> float:
        return 1.0

    @property
    def factors(self) -> tuple[Floats, ...]:
        return tuple(np.full(k, 1 / k) for k in self.shape)

    def marginal(self, attributes: Sequence[str]) -> Identity:
        sizes = dict(zip(self.attributes, self.shape, strict=True))
        return Identity(attributes, [sizes[name] for name in attributes])

    def steps(self) -> Steps:
        return {"op": "truth"}

    def sample(self, codes: Codes, stream: Stream, start: int) -> Codes:
        return codes
