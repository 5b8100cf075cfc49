"""The crosswise model: Warner's design without a device."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from ppdm_dask.designs.base import register
from ppdm_dask.designs.kary import KaryResponse
from ppdm_dask.designs.parameters import check_keys, probability

__all__ = ["Crosswise"]


@register
@dataclass(frozen=True, eq=False, init=False)
class Crosswise(KaryResponse):
    """Report 1 if both the trait and an unrelated statement apply or neither does, else 0.

    Its P is that of Warner's design with theta = p.

    Parameters
    ----------
    attribute : str
        Binary; category 1 is the trait, but calling the other so gives the same law.
    p : float
        Probability that the unrelated statement applies, in [0, 1]; at 1/2 there is no inverse.
    """

    id = "crosswise"

    def __init__(self, attribute: str, p: float) -> None:
        super().__init__(attribute, 2, probability("p", p))

    def config(self) -> dict[str, Any]:
        return {"id": self.id, "attribute": self.attributes[0], "p": self.p}

    @classmethod
    def from_config(cls, parameters: Mapping[str, Any]) -> Self:
        check_keys(cls.id, parameters, {"attribute", "p"})
        return cls(**parameters)
