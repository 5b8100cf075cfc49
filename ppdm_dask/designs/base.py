"""The contract of a randomization design.

A design is a column-stochastic matrix P, ``reported = P @ true``, over the joint categories of a
block of attributes.  Everything that is estimated follows from a left inverse B, ``B P = I``: for
a true event E, a reported symbol y carries the unbiased weight ``w(E, y) = <1_E, B e_y>``.

A family states its parameters and its P.  The dense statements below serve any family; a family
with structure replaces them by its own, which the battery in ``tests/checks.py`` holds to the
dense ones.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

import numpy as np
import numpy.typing as npt

from ppdm_dask.designs.binding import Binding
from ppdm_dask.designs.inverse import left_inverse
from ppdm_dask.designs.joint import row_major
from ppdm_dask.designs.measures import Measures
from ppdm_dask.designs.registry import design_from_config
from ppdm_dask.designs.sampling import draw_signed
from ppdm_dask.errors import DesignError, NotInvertible
from ppdm_dask.privacy import PosteriorSummary
from ppdm_dask.shown import listed

if TYPE_CHECKING:
    from ppdm_dask.randomness import Stream
    from ppdm_dask.records import Records, Reports

__all__ = ["Codes", "Design", "Floats"]

Floats = npt.NDArray[np.float64]
Codes = npt.NDArray[Any]

MAX_DENSE = 4_096
"""Categories above which no dense P or B is made; structured families do without."""

MAX_CONDITION_SIZE = 512
"""Categories above which no condition number is computed for a message."""


def _product(matrix: Floats, array: Floats) -> Floats:
    result: Floats = np.tensordot(matrix, array, axes=1)
    return result


class Design(Binding, Measures, ABC):
    """A randomization of one block of attributes, or a product of blocks.

    Attributes
    ----------
    attributes : tuple of str
        The attributes of the block.
    shape : tuple of int
        True categories of each attribute; the block's joint category is their row-major index.
    """

    id: ClassVar[str]
    kind: ClassVar[Literal["symbol", "set"]] = "symbol"

    attributes: tuple[str, ...]
    shape: tuple[int, ...]

    # -- what a family states ------------------------------------------------------------------

    @abstractmethod
    def matrix(self) -> Floats:
        """P, shape (reported symbols, true categories); columns sum to 1."""

    @abstractmethod
    def config(self) -> dict[str, Any]:
        """Parameters as JSON values, from which ``design_from_config`` builds an equal one."""

    @classmethod
    @abstractmethod
    def from_config(cls, parameters: Mapping[str, Any]) -> Self:
        """Inverse of :meth:`config`, without the ``id``."""

    @abstractmethod
    def sample(self, codes: Codes, stream: Stream, start: int) -> Codes:
        """Disguise records of one logical block.

        Parameters
        ----------
        codes : array, shape (n, attributes of the block)
            True codes of the records ``start .. start + n - 1`` of the logical block.
        stream : Stream
            Keyed by the block; sources below it serve one list of draws each.
        start : int
            Position of the first record in the logical block.
        """

    @property
    @abstractmethod
    def undefined(self) -> str:
        """Why P has no left inverse, in a few words; empty where it has one."""

    # -- structure -----------------------------------------------------------------------------

    @property
    def blocks(self) -> tuple[Design, ...]:
        """The independent blocks; a design that is no product is its own single block."""
        return (self,)

    @property
    def n_true(self) -> int:
        """Joint true categories of the block."""
        return math.prod(self.shape)

    @property
    def n_reported(self) -> int:
        """Joint reported symbols of the block."""
        return math.prod(self.reported_shape)

    @property
    def reported_shape(self) -> tuple[int, ...]:
        """Symbols in the reported column of each attribute; their row-major index is the symbol."""
        return self.shape

    @property
    def inverse(self) -> str:
        """Name of the left inverse: ``weighted``, or another that the family offers."""
        return "weighted"

    @property
    def p0(self) -> Floats | None:
        """Law of the truth at which a tall P's inverse has least variance; None for uniform."""
        return None

    def marginal(self, attributes: Sequence[str]) -> Design | None:
        """The design seen by some attributes of the block, or None where it is not lumpable."""
        return self if tuple(attributes) == self.attributes else None

    def summed_over(self, attributes: Sequence[str], vector: Floats) -> Floats:
        """Sum a joint vector of the block over the attributes that are not named."""
        axes = tuple(i for i, name in enumerate(self.attributes) if name not in attributes)
        summed: Floats = np.asarray(vector).reshape(self.shape).sum(axis=axes).ravel()
        return summed

    # -- algebra (dense statements) ------------------------------------------------------------

    def _require_dense(self) -> None:
        if max(self.n_true, self.n_reported) > MAX_DENSE:
            raise DesignError(
                f"{self.id}: {self.n_reported} x {self.n_true} is too large for a dense matrix "
                f"(at most {MAX_DENSE} categories)",
                self,
            )

    def require_inverse(self) -> None:
        """Raise NotInvertible, with P and its condition number, where there is no inverse."""
        if self.undefined:
            subject: object = self
            condition = math.inf
            if self.n_true <= MAX_CONDITION_SIZE and self.n_reported <= MAX_DENSE:
                subject = self.matrix()
                condition = float(np.linalg.cond(subject))
            raise NotInvertible(
                f"{self.id} on {listed(self.attributes)} is not invertible: {self.undefined} "
                f"(condition number {condition:.3g})",
                subject,
            )

    @cached_property
    def _left_inverse(self) -> Floats:
        self.require_inverse()
        inverse = left_inverse(self.matrix(), self.p0)
        inverse.flags.writeable = False
        return inverse

    def left_inverse(self) -> Floats:
        """B, shape (true categories, reported symbols): B P = I and columns sum to 1."""
        self._require_dense()
        return self._left_inverse

    def apply(self, true: Floats) -> Floats:
        """P @ true, along axis 0; shape (true categories, ...) to (reported symbols, ...)."""
        return _product(self.matrix(), true)

    def apply_transposed(self, reported: Floats) -> Floats:
        """P.T @ reported, along axis 0: what a function of the report is expected to be."""
        return _product(self.matrix().T, reported)

    def invert(self, reported: Floats) -> Floats:
        """B @ reported, along axis 0."""
        return _product(self.left_inverse(), reported)

    def invert_squared(self, reported: Floats) -> Floats:
        """(B * B) @ reported, along axis 0: second moments of the event weights."""
        return _product(self.left_inverse() ** 2, reported)

    def invert_transposed(self, true: Floats) -> Floats:
        """B.T @ true, along axis 0: from a function of the truth to its weight per report."""
        return _product(self.left_inverse().T, true)

    def weights(self, masks: Mapping[str, npt.NDArray[np.bool_]], codes: Codes) -> Floats:
        """Unbiased weights w(E, y) of an event for reported records.

        Parameters
        ----------
        masks : mapping of attribute to bool array
            The event: attribute a lies in the categories where its mask is true.
        codes : array, shape (n, attributes of the block)
            Reported codes.
        """
        event = np.ones(self.shape)
        for axis, (name, size) in enumerate(zip(self.attributes, self.shape, strict=True)):
            if name in masks:
                along = [1] * len(self.shape)
                along[axis] = size
                event = event * masks[name].reshape(along)
        return self.invert_transposed(event.ravel())[self.joint(codes)]

    def sample_inverse(self, codes: Codes, stream: Stream) -> tuple[Codes, Floats]:
        """Draw truths in proportion to |B e_y|, with signed factors: E[factor f(x)] = <f, B e_y>.

        Parameters
        ----------
        codes : array, shape (n, attributes of the block)
            Reported codes y.

        Returns
        -------
        codes, factors : arrays, shapes (n, attributes of the block) and (n,)
        """
        words = stream.source(0).words(len(codes))
        truth, factors = draw_signed(self.left_inverse(), self.joint(codes), words)
        return np.stack(np.unravel_index(truth, self.shape), axis=1).astype(codes.dtype), factors

    def joint(self, codes: Codes) -> npt.NDArray[np.int64]:
        """Row-major joint symbol of each record's reported codes, shape (n,)."""
        return row_major(codes, self.reported_shape)

    def posterior_summary(self, prior: Floats) -> PosteriorSummary:
        """Totals, largest entries and sums of squares of P[y, x] p[x] per symbol y."""
        joint = self.matrix() * np.asarray(prior, dtype=float).reshape(-1)
        return PosteriorSummary(joint.sum(1), joint.max(1), (joint**2).sum(1))

    def likelihood_range(self) -> tuple[Floats, Floats]:
        """Smallest and largest P[y, x] over x, per symbol y."""
        P = self.matrix()
        return P.min(1), P.max(1)

    # -- what a user calls ---------------------------------------------------------------------

    def disguise(self, records: Records, stream: Stream) -> Reports:
        """Disguise records, as each respondent would before answering.

        The design is bound to the records' codebook, by label.  Attributes that it does not cover
        pass through undisguised.

        Parameters
        ----------
        records : Records
        stream : Stream
            ``Stream.from_entropy()`` for a real disguise, ``Stream.from_seed(seed)`` to simulate.

        Raises
        ------
        RecordsError
            If the records lack an attribute of the design, it has another number of categories, or
            they are reports already.
        DesignError
            If the codebook has other labels, or the order of categories matters and the design
            states no labels.  A simulation then goes by the order of the codebook.
        """
        from ppdm_dask.designs.disguise import disguise

        return disguise(self, records, stream)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Design) and self.config() == other.config()

    def __hash__(self) -> int:
        return int(self.digest[:15], 16)

    def __reduce__(self) -> tuple[Callable[..., Design], tuple[dict[str, Any]]]:
        # Arrays lose their read-only flag when they are pickled; a design is built anew instead.
        return design_from_config, (self.config(),)
