"""Randomized response by an arbitrary square matrix over the joint categories of a block."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt

from ppdm_dask.designs.base import Codes, Design, Floats
from ppdm_dask.designs.parameters import attribute_names, check_keys, numbers, shape_of
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
    P : array, shape (n, n)
        Columns sum to 1.  Section III of [HuangDu]_.
    shape : sequence of int, optional
        Categories of each attribute; needed for more than one.

    Raises
    ------
    DesignError
        If P is not square, has an entry outside [0, 1], or a column that does not sum to 1.
    """

    id = "matrix"

    attributes: tuple[str, ...]
    shape: tuple[int, ...]
    P: Floats

    def __init__(
        self,
        attributes: str | Iterable[str],
        P: npt.ArrayLike,
        shape: Sequence[int] | None = None,
    ) -> None:
        names = attribute_names(attributes)
        matrix = numbers("P", P)
        if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or not matrix.size:
            raise DesignError(f"P: shape {matrix.shape}; a square matrix is needed", P)
        if not np.isfinite(matrix).all() or matrix.min() < 0 or matrix.max() > 1:
            y, x = np.argwhere(~((matrix >= 0) & (matrix <= 1)))[0]
            raise DesignError(
                f"P[{y}, {x}]: got {matrix[y, x]:g}; a probability in [0, 1] is needed", P
            )
        sums = matrix.sum(axis=0)
        if np.abs(sums - 1).max() > 1e-9:
            worst = int(np.abs(sums - 1).argmax())
            rows = ""
            if np.abs(matrix.sum(axis=1) - 1).max() <= 1e-9:
                rows = "; the rows do: transpose it, true categories are columns"
            raise DesignError(
                f"P: column {worst} sums to {sums[worst]:.6g}; each must sum to 1{rows}", P
            )
        if shape is None:
            if len(names) > 1:
                raise DesignError("shape: missing; a block of several attributes needs it", None)
            shape = (len(matrix),)
        sizes = shape_of(shape, len(names))
        if math.prod(sizes) != len(matrix):
            raise DesignError(
                f"shape: {list(sizes)} has {math.prod(sizes)} joint categories; "
                f"P has {len(matrix)}",
                shape,
            )
        matrix.flags.writeable = False
        object.__setattr__(self, "attributes", names)
        object.__setattr__(self, "shape", sizes)
        object.__setattr__(self, "P", matrix)

    @property
    def undefined(self) -> str:
        # In the 1-norm it takes an inverse; in the 2-norm minutes for thousands of categories.
        singular = not np.linalg.cond(self.P, 1) < MAX_CONDITION
        return "P is singular to working precision" if singular else ""

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
        return np.stack(np.unravel_index(reported, self.shape), axis=1).astype(codes.dtype)

    def config(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "attributes": list(self.attributes),
            "P": self.P.tolist(),
            "shape": list(self.shape),
        }

    @classmethod
    def from_config(cls, parameters: Mapping[str, Any]) -> Self:
        check_keys(cls.id, parameters, {"attributes", "P"}, {"shape"})
        return cls(**parameters)
