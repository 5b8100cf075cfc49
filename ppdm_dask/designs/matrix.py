"""Randomized response by an arbitrary matrix over the joint categories of a block."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any, Self

import numpy as np
import numpy.typing as npt

from ppdm_dask.arrays import Floats
from ppdm_dask.data.codebook import code_dtype
from ppdm_dask.designs.base import Codes, Design, register, row_major
from ppdm_dask.designs.draws import Steps, Thresholds, all_thresholds, drawn
from ppdm_dask.designs.inverses import MAX_CONDITION, condition, left_inverse
from ppdm_dask.designs.labelled import Labelled, Places
from ppdm_dask.designs.labels import Categories, joint_order, read_categories, same_law
from ppdm_dask.designs.parameters import (
    LABELS,
    LAW,
    MATRIX,
    NAMES,
    SHAPE,
    attribute_names,
    noted_distribution,
    numbers,
    rescaled,
    shape_of,
    sums_to_one,
)
from ppdm_dask.errors import DesignError

if TYPE_CHECKING:
    from ppdm_dask.randomness import Stream

__all__ = ["RRMatrix"]

SLAB = 1 << 20
"""Entries of P that are compared at a time."""


@register
class RRMatrix(Labelled):
    r"""``reported = P @ true``: P[y, x] is the probability that category x is reported as y.

    Eq. (1) of [HuangDu]_:

    .. math:: P^*_y = \sum_x P_{yx} p_x

    Parameters
    ----------
    attributes : str or iterable of str
        The block; P acts on its joint categories in row-major order.
    P : array, shape (m, n)
        Columns sum to 1.  Section III of [HuangDu]_.  With more reported symbols than categories,
        estimates use the weighted left inverse; with fewer, nothing can be estimated.
    shape : sequence of int, optional
        Categories of each attribute; needed for more than one.
    reported_shape : sequence of int, optional
        Symbols in the reported column of each attribute.  By default the shape of the true
        categories for a square P, and otherwise all m symbols in the first attribute's column.
    p0 : array, shape (n,), optional
        Positive proportions at which the inverse of a tall P has the least variance, fixed before
        the data are seen; uniform by default.
    categories : sequence of str, or one for each attribute, optional
        Labels in the order of P's columns; needed for real answers unless the order does not
        matter. A reported column with as many symbols as its attribute has categories holds those
        categories, and is permuted with them; other symbols have no labels and are not permuted.

    Raises
    ------
    DesignError
        If P has an entry outside [0, 1] or a column that does not sum to 1, or the shapes do not
        fit it.  Sums within 1e-6 of 1, as of numbers in single precision, are scaled to 1.
    """

    id = "matrix"

    def __init__(
        self,
        attributes: Annotated[str | Iterable[str], NAMES],
        P: Annotated[npt.ArrayLike, MATRIX],
        shape: Annotated[Sequence[int] | None, SHAPE] = None,
        reported_shape: Annotated[Sequence[int] | None, SHAPE] = None,
        p0: Annotated[npt.ArrayLike | None, LAW] = None,
        categories: Annotated[Sequence[Any] | None, LABELS] = None,
    ) -> None:
        names = attribute_names(attributes)
        matrix = numbers("P", P)
        if matrix.ndim != 2 or not matrix.size:
            raise DesignError(f"P: shape {matrix.shape}; a matrix is needed", P)
        if not np.isfinite(matrix).all() or matrix.min() < 0 or matrix.max() > 1:
            y, x = np.argwhere(~((matrix >= 0) & (matrix <= 1)))[0]
            raise DesignError(
                f"P[{y}, {x}]: got {matrix[y, x]:g}; a probability in [0, 1] is needed", P
            )
        sums = matrix.sum(axis=0)
        if not sums_to_one(sums).all():
            worst = int(np.abs(sums - 1).argmax())
            off = f"{abs(sums[worst] - 1):.2g} off"
            rows = ""
            if sums_to_one(matrix.sum(axis=1)).all():
                rows = "; the rows do: transpose it, true categories are columns"
            raise DesignError(
                f"P: column {worst} sums to {sums[worst]:.6g}, {off}; each must sum to 1{rows}", P
            )
        matrix, notes = rescaled("P", matrix)
        if shape is None:
            if len(names) > 1:
                raise DesignError("shape: missing; a block of several attributes needs it", None)
            shape = (matrix.shape[1],)
        sizes = shape_of(shape, len(names))
        if math.prod(sizes) != matrix.shape[1]:
            raise DesignError(
                f"shape: {list(sizes)} has {math.prod(sizes)} joint categories; "
                f"P has {matrix.shape[1]}",
                shape,
            )
        square = len(matrix) == matrix.shape[1]
        if reported_shape is None:
            reported_shape = sizes if square else (len(matrix),) + (1,) * (len(names) - 1)
        try:
            reported = shape_of(reported_shape, len(names))
        except DesignError as error:
            raise DesignError(f"reported_{error}", error.subject) from None
        if math.prod(reported) != len(matrix):
            raise DesignError(
                f"reported_shape: {list(reported)} has {math.prod(reported)} joint symbols; "
                f"P has {len(matrix)}",
                reported_shape,
            )
        law = None
        if p0 is not None:
            law, more = noted_distribution("p0", p0, matrix.shape[1])
            notes += more
            if square or law.min() <= 0:
                what = "only a tall P has one" if square else "positive probabilities are needed"
                raise DesignError(f"p0: got {law.tolist()}; {what}", p0)
        matrix.flags.writeable = False
        self.attributes = names
        self.shape = sizes
        self.P = matrix
        self.reported = reported
        self.p0 = law
        self.labels = read_categories(categories, names, sizes)
        self.remarks = notes

    @property
    def ordered(self) -> bool:
        """Whether P changes under a swap of two categories, or a turn: they make any order."""
        for axis, size in enumerate(self.shape):
            swap, turn = np.arange(size), np.roll(np.arange(size), 1)
            swap[:2] = swap[:2][::-1]
            for moved in (swap, turn):
                order = [np.arange(k) for k in self.shape]
                order[axis] = moved
                rows, columns = self._old(tuple(order))
                # A few rows most often tell, and all of a large P would be held several times.
                for low in range(0, len(rows), some := max(1, SLAB // len(columns))):
                    part = slice(low, low + some)
                    if not same_law(self.P[part], self.P[np.ix_(rows[part], columns)]):
                        return True
        return False

    def _old(self, order: Places) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Old rows and columns of P with categories in another order.

        Reported columns that hold categories have them in the same order.
        """
        along = zip(order, self.shape, self.reported, strict=True)
        rows = [moved if m == k else np.arange(m) for moved, k, m in along]
        return joint_order(rows, self.reported), joint_order(order, self.shape)

    def permuted(self, order: Places, labels: Categories) -> Self:
        p0 = None if self.p0 is None else self.p0[joint_order(order, self.shape)]
        P = self.P[np.ix_(*self._old(order))]
        return type(self)(self.attributes, P, self.shape, self.reported, p0, labels)

    @property
    def reported_shape(self) -> tuple[int, ...]:
        return self.reported

    def _parameter(self, name: str) -> Any:
        if name == "reported_shape" and self.reported == self.shape:
            return None
        return super()._parameter(name)

    @property
    def undefined(self) -> str:
        m, n = self.P.shape
        if m < n:
            return f"{m} reported symbols cannot tell {n} categories apart"
        singular = not condition(self.P, self.p0) < MAX_CONDITION
        return "P is singular to working precision" if singular else ""

    def matrix(self) -> Floats:
        return self.P

    def marginal(self, attributes: Sequence[str]) -> Design | None:
        """The lumped design, where every true category of a lump gives the same lumped reports.

        Of a tall P the lumped inverse must also be the inverse of the lumped P, or margins of
        estimates would not be estimates of margins.
        """
        if tuple(attributes) == self.attributes:
            return self
        sizes, lumps = self._lumps(attributes, self.shape)
        reported, lumped_rows = self._lumps(attributes, self.reported)
        rows = lumped_rows @ self.P
        columns = rows @ (lumps / lumps.sum(axis=1, keepdims=True)).T
        if np.abs(rows - columns @ lumps).max() > 1e-12:
            return None
        # A square P has one inverse, and lumping commutes with it; a tall one has many.
        tall = len(columns) > columns.shape[1]
        p0 = lumps @ self.p0 if tall and self.p0 is not None else None
        if len(self.P) != self.n_true and not self.undefined:
            # Reported columns that tell nothing each may do so together.
            if not condition(columns, p0) < MAX_CONDITION:
                return None
            whole = lumps @ self._left_inverse
            # A symbol that cannot occur has an arbitrary weight.
            occurs = self.P.any(axis=1)
            differs = np.abs(whole - left_inverse(columns, p0) @ lumped_rows)[:, occurs]
            if differs.max() > 1e-9 * np.abs(whole).max():
                return None
        labels = dict(zip(self.attributes, self.labels, strict=True))
        kept = [labels[name] for name in attributes]
        return RRMatrix(attributes, columns, sizes, reported, p0, kept)

    def _lumps(
        self, attributes: Sequence[str], shape: tuple[int, ...]
    ) -> tuple[tuple[int, ...], Floats]:
        """Sizes of some attributes, and the 0-1 matrix that sums a joint vector to them."""
        kept = [self.attributes.index(name) for name in attributes]
        sizes = tuple(shape[i] for i in kept)
        codes = np.stack(np.unravel_index(np.arange(math.prod(shape)), shape), axis=1)
        group = row_major(codes[:, kept], sizes)
        return sizes, (group == np.arange(math.prod(sizes))[:, None]).astype(float)

    @cached_property
    def _thresholds(self) -> Thresholds:
        # Quadratic in the categories: once a design, and not for each block of records.
        return all_thresholds(self.P)

    def sample(self, codes: Codes, stream: Stream, start: int) -> Codes:
        from ppdm_dask.kernels.disguise import draw_reports

        words = stream.source(0).words(len(codes), start)
        reported = np.empty(len(codes), dtype=np.int64)
        draw_reports(row_major(codes, self.shape), words, *self._thresholds, reported)
        kind = np.result_type(codes, code_dtype(max(self.reported)))
        if len(self.attributes) == 1:
            return reported.astype(kind)[:, None]
        return np.stack(np.unravel_index(reported, self.reported), axis=1).astype(kind)

    def steps(self) -> Steps:
        return self._drawn_by(self._thresholds)

    def likelihood_range(self) -> tuple[Floats, Floats]:
        """Of the law that is drawn: an entry too small to be drawn rules its category out."""
        P = drawn(self.P)
        return P.min(1), P.max(1)
