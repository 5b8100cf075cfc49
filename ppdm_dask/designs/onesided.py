"""Designs in which a yes never becomes a no: Mangat's, and the triangular model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from ppdm_dask.designs.base import Floats
from ppdm_dask.designs.mixture import Mixture
from ppdm_dask.designs.parameters import check_keys, one_attribute, probability
from ppdm_dask.designs.registry import register
from ppdm_dask.randomness import exact

__all__ = ["Mangat", "Triangular"]

YES = np.array([0.0, 1.0])
YES.flags.writeable = False


@dataclass(frozen=True, eq=False, init=False)
class _OneSided(Mixture):
    """``P = q I + (1 - q) (0, 1)^T 1^T`` on a binary attribute: epsilon is infinite.

    A report of 0 gives away that the truth is 0.
    """

    attributes: tuple[str, ...]
    shape: tuple[int, ...]
    p: float

    def __init__(self, attribute: str, p: float) -> None:
        object.__setattr__(self, "attributes", one_attribute(attribute))
        object.__setattr__(self, "shape", (2,))
        object.__setattr__(self, "p", probability("p", p))

    @property
    def factors(self) -> tuple[Floats, ...]:
        return (YES,)

    def config(self) -> dict[str, Any]:
        return {"id": self.id, "attribute": self.attributes[0], "p": self.p}

    @classmethod
    def from_config(cls, parameters: Mapping[str, Any]) -> Self:
        check_keys(cls.id, parameters, {"attribute", "p"})
        return cls(**parameters)


@register
@dataclass(frozen=True, eq=False, init=False)
class Mangat(_OneSided):
    """Who has the trait says so; who has not answers as in Warner's design.

    Category 1 is the trait.  ``P(report 1) = pi + (1 - pi)(1 - p)``.

    Parameters
    ----------
    attribute : str
        Binary.
    p : float
        Probability that a record of category 0 reports 0, in [0, 1]; at 0 there is no inverse.
    """

    id = "mangat"

    @property
    def mixing(self) -> float:
        return self.p


@register
@dataclass(frozen=True, eq=False, init=False)
class Triangular(_OneSided):
    """Report 0 if neither the trait nor an unrelated statement applies, 1 if at least one does.

    No device is needed: the statement may be about a birthday, say.
    ``P(report 1) = pi + (1 - pi) p``.

    Parameters
    ----------
    attribute : str
        Binary; category 1 is the trait.
    p : float
        Probability that the unrelated statement applies, in [0, 1]; at 1 there is no inverse.
    """

    id = "triangular"

    @property
    def mixing(self) -> float:
        return float(1 - exact(self.p))
