"""Forced response: a die says whether to answer truly, or which answer to give."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy.typing as npt

from ppdm_dask.designs.base import Floats
from ppdm_dask.designs.mixture import Mixture
from ppdm_dask.designs.parameters import check_keys, distribution, one_attribute, probability
from ppdm_dask.designs.registry import register

__all__ = ["ForcedResponse"]


@register
@dataclass(frozen=True, eq=False, init=False)
class ForcedResponse(Mixture):
    """``P = t I + (1 - t) f 1^T``: the truth with probability t, else the category that f draws.

    Parameters
    ----------
    attribute : str
        Of two or more categories.
    truth : float
        t, the probability of being asked for the truth, in [0, 1]; at 0 there is no inverse.
    forced : array, shape (n,)
        f, the law of the answer that is forced.

    Raises
    ------
    DesignError
        For a value outside its range.

    Examples
    --------
    Two dice: a forced yes at 2, 3 or 4, a forced no at 11 or 12, else the truth.

    >>> design = ForcedResponse("a", truth=0.75, forced=[1 / 3, 2 / 3])
    >>> design.matrix().round(4).tolist()
    [[0.8333, 0.0833], [0.1667, 0.9167]]
    """

    id = "forced"

    attributes: tuple[str, ...]
    shape: tuple[int, ...]
    truth: float
    forced: Floats

    def __init__(self, attribute: str, truth: float, forced: npt.ArrayLike) -> None:
        law = distribution("forced", forced)
        object.__setattr__(self, "attributes", one_attribute(attribute))
        object.__setattr__(self, "shape", (law.size,))
        object.__setattr__(self, "truth", probability("truth", truth))
        object.__setattr__(self, "forced", law)

    @property
    def mixing(self) -> float:
        return self.truth

    @property
    def factors(self) -> tuple[Floats, ...]:
        return (self.forced,)

    def config(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "attribute": self.attributes[0],
            "truth": self.truth,
            "forced": self.forced.tolist(),
        }

    @classmethod
    def from_config(cls, parameters: Mapping[str, Any]) -> Self:
        check_keys(cls.id, parameters, {"attribute", "truth", "forced"})
        return cls(**parameters)
