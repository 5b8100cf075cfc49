"""The identity: reports are the truth.  It is the undisguised baseline of every experiment."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from ppdm_dask.arrays import Floats
from ppdm_dask.designs.base import Codes, register
from ppdm_dask.designs.mixture import Mixture
from ppdm_dask.designs.parameters import attribute_names, check_keys, shape_of

if TYPE_CHECKING:
    from ppdm_dask.randomness import Stream

__all__ = ["Identity"]


@register
@dataclass(frozen=True, eq=False, init=False)
class Identity(Mixture):
    """P = I: nothing is disguised.

    Parameters
    ----------
    attributes : str or iterable of str
    shape : sequence of int
        Categories of each attribute.
    """

    id = "identity"

    attributes: tuple[str, ...]
    shape: tuple[int, ...]

    def __init__(self, attributes: str | Iterable[str], shape: Sequence[int]) -> None:
        names = attribute_names(attributes)
        object.__setattr__(self, "attributes", names)
        object.__setattr__(self, "shape", shape_of(shape, len(names)))

    @property
    def mixing(self) -> float:
        return 1.0

    @property
    def factors(self) -> tuple[Floats, ...]:
        return tuple(np.full(k, 1 / k) for k in self.shape)

    def marginal(self, attributes: Sequence[str]) -> Identity:
        sizes = dict(zip(self.attributes, self.shape, strict=True))
        return Identity(attributes, [sizes[name] for name in attributes])

    def sample(self, codes: Codes, stream: Stream, start: int) -> Codes:
        return codes

    def config(self) -> dict[str, Any]:
        return self._named(shape=list(self.shape))

    @classmethod
    def from_config(cls, parameters: Mapping[str, Any]) -> Self:
        check_keys(cls.id, parameters, {"attributes", "shape"})
        return cls(**parameters)
