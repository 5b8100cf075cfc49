"""Randomized response by an arbitrary matrix over the joint categories of a block."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt

from ppdm_dask.designs.base import Codes, Design, Floats
from ppdm_dask.designs.parameters import (
    attribute_names,
    check_keys,
    distribution,
    numbers,
    shape_of,
)
from ppdm_dask.designs.registry import register
from ppdm_dask.designs.sampling import thresholds
from ppdm_dask.errors import DesignError

if TYPE_CHECKING:
    from ppdm_dask.randomness import Stream

__all__ = ["RRMatrix"]

MAX_CONDITION = 1e12


@register
@dataclass(frozen=True, eq=False, init=False)
class RRMatrix(Design):
    """``reported = P @ true``: P[y, x] is the probability that category x is reported as y.

    Parameters
    ----------
    attributes : str or iterable of str
        The block; P acts on its joint categories in row-major order.
    P : array, shape (n, n), or (K, n) with K > n for a single attribute
        Columns sum to 1.  Section III of [HuangDu]_.  With more reported symbols than categories
        the left inverse is ``(P^T D^-1 P)^-1 P^T D^-1`` with ``D = diag(P p0)``.
    shape : sequence of int, optional
        Categories of each attribute; needed for more than one.
    p0 : array, shape (n,), optional
        Tall P only: the proportions for which estimates are the most precise, all positive and
        fixed before the data; uniform by default.

    Raises
    ------
    DesignError
        If P has fewer rows than columns, an entry outside [0, 1], or a column that does not sum
        to 1.
    """

    id = "matrix"

    attributes: tuple[str, ...]
    shape: tuple[int, ...]
    P: Floats
    p0: Floats | None

    def __init__(
        self,
        attributes: str | Iterable[str],
        P: npt.ArrayLike,
        shape: Sequence[int] | None = None,
        p0: npt.ArrayLike | None = None,
    ) -> None:
        names = attribute_names(attributes)
        matrix = numbers("P", P)
        if matrix.ndim != 2 or matrix.shape[0] < matrix.shape[1] or not matrix.size:
            raise DesignError(
                f"P: shape {matrix.shape}; a square matrix, or one with more rows than columns, "
                "is needed",
                P,
            )
        n = matrix.shape[1]
        tall = len(matrix) > n
        if tall and len(names) > 1:
            raise DesignError(
                f"P: shape {matrix.shape}; more rows than columns need a single attribute", P
            )
        if not np.isfinite(matrix).all() or matrix.min() < 0 or matrix.max() > 1:
            y, x = np.argwhere(~((matrix >= 0) & (matrix <= 1)))[0]
            raise DesignError(
                f"P[{y}, {x}]: got {matrix[y, x]:g}; a probability in [0, 1] is needed", P
            )
        sums = matrix.sum(axis=0)
        if np.abs(sums - 1).max() > 1e-9:
            worst = int(np.abs(sums - 1).argmax())
            rows = ""
            if not tall and np.abs(matrix.sum(axis=1) - 1).max() <= 1e-9:
                rows = "; the rows do: transpose it, true categories are columns"
            raise DesignError(
                f"P: column {worst} sums to {sums[worst]:.6g}; each must sum to 1{rows}", P
            )
        if shape is None:
            if len(names) > 1:
                raise DesignError("shape: missing; a block of several attributes needs it", None)
            shape = (n,)
        sizes = shape_of(shape, len(names))
        if math.prod(sizes) != n:
            raise DesignError(
                f"shape: {list(sizes)} has {math.prod(sizes)} joint categories; P has {n}", shape
            )
        object.__setattr__(self, "p0", _reference(p0, n) if tall else None)
        if p0 is not None and not tall:
            raise DesignError("p0: a square P has one left inverse; leave p0 out", p0)
        matrix.flags.writeable = False
        object.__setattr__(self, "attributes", names)
        object.__setattr__(self, "shape", sizes)
        object.__setattr__(self, "P", matrix)

    @property
    def undefined(self) -> str:
        # In the 1-norm it takes an inverse; in the 2-norm minutes for thousands of categories.
        singular = not np.linalg.cond(self.P, None if self.p0 is not None else 1) < MAX_CONDITION
        return "P is singular to working precision" if singular else ""

    @property
    def reported_shape(self) -> tuple[int, ...]:
        return self.shape if self.p0 is None else (len(self.P),)

    @cached_property
    def _left_inverse(self) -> Floats:
        if self.p0 is None:
            return super()._left_inverse
        self.require_inverse()
        reports = self.P @ self.p0
        possible = reports > 0
        scaled = self.P[possible] / reports[possible, None]
        J = scaled.T @ self.P[possible]
        # A symbol that cannot occur weighs as if it told nothing.
        inverse = np.repeat(self.p0[:, None], len(self.P), axis=1)
        inverse[:, possible] = np.linalg.solve(J, scaled.T)
        inverse.flags.writeable = False
        return inverse

    def matrix(self) -> Floats:
        return self.P

    def marginal(self, attributes: Sequence[str]) -> Design | None:
        """The lumped design, where every true category of a lump gives the same lumped reports."""
        if tuple(attributes) == self.attributes:
            return self
        kept = [self.attributes.index(name) for name in attributes]
        rest = [i for i in range(len(self.shape)) if i not in kept]
        sizes = [self.shape[i] for i in kept]
        n, m = math.prod(sizes), math.prod(self.shape[i] for i in rest)
        order = (*kept, *rest)
        d = len(order)
        tensor = self.P.reshape(self.shape * 2)
        tensor = tensor.transpose(*order, *(d + i for i in order)).reshape(n, m, n, m)
        lumped = tensor.sum(axis=1)
        if np.ptp(lumped, axis=2).max() > 1e-12:
            return None
        return RRMatrix(attributes, lumped.mean(axis=2), sizes)

    def sample(self, codes: Codes, stream: Stream, start: int) -> Codes:
        joint = self.joint(codes)
        words = stream.source(0).words(start + len(codes))[start:] >> np.uint64(2)
        reported = np.empty(len(codes), dtype=np.int64)
        order = np.argsort(joint, kind="stable")
        bounds = np.searchsorted(joint[order], np.arange(self.n_true + 1))
        for x in np.flatnonzero(np.diff(bounds)):
            rows = order[bounds[x] : bounds[x + 1]]
            cuts, last = thresholds(self.P[:, x])
            reported[rows] = np.minimum(np.searchsorted(cuts, words[rows], "right"), last)
        return np.stack(np.unravel_index(reported, self.reported_shape), axis=1).astype(codes.dtype)

    def config(self) -> dict[str, Any]:
        config = {
            "id": self.id,
            "attributes": list(self.attributes),
            "P": self.P.tolist(),
            "shape": list(self.shape),
        }
        return config if self.p0 is None else {**config, "p0": self.p0.tolist()}

    @classmethod
    def from_config(cls, parameters: Mapping[str, Any]) -> Self:
        check_keys(cls.id, parameters, {"attributes", "P"}, {"shape", "p0"})
        return cls(**parameters)


def _reference(p0: Any, n: int) -> Floats:
    """The proportions that a tall matrix is inverted for."""
    reference = distribution("p0", np.full(n, 1 / n) if p0 is None else p0, n)
    if (reference <= 0).any():
        raise DesignError(f"p0: got {reference.tolist()}; positive proportions are needed", p0)
    return reference
