"""AIBR: a new value, uniform in the sub-interval of the original one.  [Guo]_, section 2."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from ppdm_dask.arrays import Floats
from ppdm_dask.errors import DataError, InputError
from ppdm_dask.perturb.base import (
    ColumnSummary,
    Perturbation,
    check_choice,
    column_words,
    read_matrix,
    register,
)
from ppdm_dask.randomness import Stream
from ppdm_dask.ranges import whole
from ppdm_dask.shown import shown

CONSTANT = ("refuse", "keep")


@register
class AIBR(Perturbation):
    r"""Algorithm-irrelevant perturbation by randomization.

    The range of each column is divided into k sub-intervals of equal width, and each value x is
    replaced by one drawn uniformly from its own sub-interval j:

    .. math:: y \sim U(e_j, e_{j+1}), \qquad e_j \le x < e_{j+1}, \qquad
        e_j = \min x + \frac{j}{k} (\max x - \min x)

    This equals in law the two steps of
    [Guo]_, which draw ``N_j`` values in sub-interval j and deal them out to its records at random.
    Missing values stay missing, and how many values lie in each sub-interval does not change.

    Parameters
    ----------
    k : int
        Sub-intervals of each column, 1 or more, and no more than records.
    integers : bool
        Whether columns of whole numbers get whole numbers, drawn from those in the sub-interval.
    constant : {"refuse", "keep"}
        What to do with a column of one value, which would be released unchanged.
    seed : int, optional
        See :class:`~ppdm_dask.perturb.base.Perturbation`.

    Attributes
    ----------
    edges_ : array of float, shape (m, k + 1)
        Limits of the sub-intervals of each column; closed below, open above, the last one closed.

    Notes
    -----
    A released value lies in the sub-interval of the original one: it does depend on the original,
    although the paper says that it does not.

    .. math:: |x - y| \le \frac{\max x - \min x}{k}

    Examples
    --------
    >>> import numpy as np
    >>> original = np.array([[1.0, 10.0], [2.0, 30.0], [3.0, 20.0], [4.0, 40.0]])
    >>> released = AIBR(k=2, seed=1).fit_transform(original)
    >>> bool((abs(released - original) <= np.ptp(original, axis=0) / 2).all())
    True
    """

    id = "aibr"
    takes_missing = True
    required = ("k",)
    private_end: ClassVar[Mapping[str, str]] = {"k": "small"}

    def __init__(
        self, k: int, integers: bool = False, constant: str = "refuse", seed: int | None = None
    ) -> None:
        self.k = k
        self.integers = integers
        self.constant = constant
        self.seed = seed

    @property
    def caveat(self) -> str:
        """One plain sentence on what AIBR does not protect."""
        share = "the whole" if self.k == 1 else f"1/{self.k}"
        return (
            f"AIBR does not hide roughly how large a value is: every released value lies within "
            f"{share} of its column's range from the original, in the same sub-interval, so that "
            "an extreme record stays extreme and a sub-interval with few records marks them out."
        )

    def check_parameters(self) -> None:
        """Refuse an impossible parameter."""
        whole("k", self.k, 1)
        check_choice("integers", self.integers, (False, True))
        check_choice("constant", self.constant, CONSTANT)

    def check_summary(self, summary: ColumnSummary) -> None:
        """Refuse data that the method cannot perturb."""
        summary.check_varied(self.constant)
        if self.k > summary.n:
            raise InputError(
                f"k: got {self.k}; there are {summary.n} records, and no more sub-intervals than "
                "records make sense",
                self.k,
            )

    def fit_summary(self, summary: ColumnSummary) -> Self:
        """Fit to what is known of the columns as a whole, such as the sum over partitions.

        Raises
        ------
        InputError
            As :meth:`fit` does.
        """
        self.check_parameters()
        self._set_summary(summary, named=True)
        self._set_edges()
        return self

    def _learn(self, values: Floats, stream: Stream) -> None:
        self._set_edges()

    def _set_edges(self) -> None:
        low, high = self.summary_.low[:, None], self.summary_.high[:, None]
        # The one formula for edges; the last one is the maximum, whatever the rounding.
        edges = np.minimum(low + (high - low) * (np.arange(self.k + 1) / self.k), high)
        edges[:, -1] = high[:, 0]
        self.edges_ = edges

    def _draw(self, values: Floats, stream: Stream, offset: int) -> Floats:
        return self.perturb_and_count(values, stream, offset)[0]

    def perturb_and_count(
        self, values: Floats, stream: Stream, offset: int
    ) -> tuple[Floats, npt.NDArray[np.int64]]:
        """Released records, and how many originals lie in each sub-interval.

        Parameters
        ----------
        values : array of float, shape (n, m)
        stream : Stream
        offset : int

        Returns
        -------
        released : array of float, shape (n, m)
        counts : array of int, shape (m, k)
            Counts of partitions add up to the whole's.

        Raises
        ------
        DataError
            If a value lies outside the range that the edges were fitted on.
        """
        from ppdm_dask.kernels.aibr import perturb_column

        released = np.empty_like(values, order="F")
        counts = np.zeros((values.shape[1], self.k), np.int64)
        for j in range(values.shape[1]):
            column, edges = np.ascontiguousarray(values[:, j]), self.edges_[j]
            integers = bool(self.integers and self.summary_.whole[j])
            for rows, words in column_words(stream, j, len(values), offset):
                bad = perturb_column(
                    column[rows], edges, words, integers, released[rows, j], counts[j]
                )
                if bad >= 0:
                    row = rows.start + bad
                    where = f"column {shown(self.summary_.names[j])}, row {row + offset}"
                    # The ends of the range are two people's values.
                    raise DataError.at(
                        row + offset,
                        f"{where}: {column[row]:g} lies outside the fitted range from "
                        f"{edges[0]:g} to {edges[-1]:g}",
                        float(column[row]),
                        told=f"{where}: the value lies outside the fitted range",
                    )
        return released, counts

    def counts(self, X: Any) -> npt.NDArray[np.int64]:
        """How many values of each column lie in each sub-interval, shape (m, k)."""
        from ppdm_dask.kernels.aibr import locate_plain

        values, _ = read_matrix(X)
        found = np.zeros((values.shape[1], self.k), np.int64)
        for j, column in enumerate(values.T):
            inside = locate_plain(column[~np.isnan(column)], self.edges_[j])
            found[j] = np.bincount(inside, minlength=self.k)
        return found
