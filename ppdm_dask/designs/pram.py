"""Invariant post-randomization: a matrix that leaves a given distribution as it is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from ppdm_dask.designs.base import Design, Floats
from ppdm_dask.designs.matrix import RRMatrix
from ppdm_dask.designs.mixture import Mixture
from ppdm_dask.designs.parameters import (
    check_keys,
    distribution,
    numbers,
    one_attribute,
    probability,
)
from ppdm_dask.designs.registry import register

__all__ = ["InvariantPRAM", "two_stage"]


@register
@dataclass(frozen=True, eq=False, init=False)
class InvariantPRAM(Mixture):
    """``P = q I + (1 - q) p 1^T``, so that ``P p = p``: counts of reports are those of the truth.

    Parameters
    ----------
    attribute : str
    prior : array, shape (n,)
        p, the distribution that is left unchanged in expectation.
    q : float
        Probability of keeping the category, in [0, 1]; at 0 there is no inverse.

    Raises
    ------
    DesignError
        For a value outside its range.
    """

    id = "pram"

    attributes: tuple[str, ...]
    shape: tuple[int, ...]
    prior: Floats
    q: float

    def __init__(self, attribute: str, prior: npt.ArrayLike, q: float) -> None:
        law = distribution("prior", prior)
        object.__setattr__(self, "attributes", one_attribute(attribute))
        object.__setattr__(self, "shape", (law.size,))
        object.__setattr__(self, "prior", law)
        object.__setattr__(self, "q", probability("q", q))

    @property
    def mixing(self) -> float:
        return self.q

    @property
    def factors(self) -> tuple[Floats, ...]:
        return (self.prior,)

    def config(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "attribute": self.attributes[0],
            "prior": self.prior.tolist(),
            "q": self.q,
        }

    @classmethod
    def from_config(cls, parameters: Mapping[str, Any]) -> Self:
        check_keys(cls.id, parameters, {"attribute", "prior", "q"})
        return cls(**parameters)


def two_stage(design: Design, prior: npt.ArrayLike) -> RRMatrix:
    """The design followed by a draw from the posterior: an invariant matrix of any shape.

    ``Q P`` with ``Q[x, y] = P[y, x] p[x] / (P p)[y]``, which leaves the prior p unchanged.

    Parameters
    ----------
    design : Design
        Of one block, with a dense matrix.
    prior : array, shape (true categories,)
    """
    P = design.matrix()
    p = distribution("prior", numbers("prior", prior).ravel(), design.n_true)
    law = P @ p
    posterior = np.divide(P * p, law[:, None], out=np.zeros_like(P), where=law[:, None] > 0)
    both = posterior.T @ P
    return RRMatrix(design.attributes, both / both.sum(axis=0), design.shape)
