"""The unrelated question whose prevalence nobody knows: two samples with different coins."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ppdm_dask.designs.parameters import attribute_names, probability
from ppdm_dask.errors import DesignError, NotInvertible, RecordsError
from ppdm_dask.randomness import LOGICAL_BLOCK, exact, unpack_plane
from ppdm_dask.records import Records, Reports

if TYPE_CHECKING:
    from ppdm_dask.events import Proportion
    from ppdm_dask.randomness import Stream

__all__ = ["TwoSample", "TwoSampleEstimate"]

MIN_DIFFERENCE = 1e-12


@dataclass(frozen=True)
class TwoSampleEstimate:
    """Shares of yes to the private and to the personal question.

    Parameters
    ----------
    private, personal : Proportion
    covariance : array, shape (2, 2)
        Of the two shares, in that order.
    """

    private: Proportion
    personal: Proportion
    covariance: npt.NDArray[np.float64]


@dataclass(frozen=True, init=False)
class TwoSample:
    """Two independent samples; sample h asks the private question with probability q_h.

    Reports of one sample mix two unknown shares, ``l_h = q_h pi + (1 - q_h) w``; two samples tell
    them apart.  The samples are strata: each has its own report, none has an inverse of its own,
    so this is a scheme of two samples and no single matrix.

    Parameters
    ----------
    private, personal : str
        Binary attributes of the records: the sensitive answer and the innocuous one.
    q : sequence of two floats
        Probability of the private question in each sample, in [0, 1].

    Raises
    ------
    DesignError
        For a value outside its range.
    """

    private: str
    personal: str
    q: tuple[float, float]

    def __init__(self, private: str, personal: str, q: Sequence[float]) -> None:
        names = attribute_names([private, personal])
        given: Any = q
        if not isinstance(given, Sequence) or isinstance(given, str) or len(given) != 2:
            raise DesignError(f"q: got {q!r}; two probabilities are needed", q)
        pair = (probability("q[0]", q[0]), probability("q[1]", q[1]))
        object.__setattr__(self, "private", names[0])
        object.__setattr__(self, "personal", names[1])
        object.__setattr__(self, "q", pair)

    def matrix(self) -> npt.NDArray[np.float64]:
        """Shares of yes among reports from the shares of private and personal yes, shape (2, 2)."""
        first, second = self.q
        return np.array([[first, 1 - first], [second, 1 - second]])

    def digest(self, sample: int) -> str:
        """What reports of sample 0 or 1 say that made them."""
        return f"two-sample:{self.private}:{self.personal}:{self.q[sample]!r}"

    def disguise(self, records: Records, sample: int, stream: Stream) -> Reports:
        """Disguise the records of sample 0 or 1; the personal answer goes no further.

        Raises
        ------
        RecordsError
            If the records lack one of the two attributes or it is not binary.
        """
        book = records.codebook
        for name in (self.private, self.personal):
            if name not in book.names or len(book[name].categories) != 2:
                raise RecordsError(f"attribute {name!r} with two categories is needed", records)
        private, personal = records.column(self.private), records.column(self.personal)
        answers = np.array(personal)
        first, last = records.offset, records.offset + len(records)
        for logical in range(first // LOGICAL_BLOCK, -(-last // LOGICAL_BLOCK)):
            start = logical * LOGICAL_BLOCK
            low, high = max(first, start), min(last, start + LOGICAL_BLOCK)
            source = stream.child(sample, logical).source(0)
            coin = source.bernoulli(exact(self.q[sample]), high - start)
            rows = slice(low - first, high - first)
            asked = unpack_plane(coin, low - start, high - start)
            answers[rows] = np.where(asked, private[rows], personal[rows])
        kept = [name for name in book.names if name != self.personal]
        codes = np.array(records.select(kept).codes)
        codes[:, kept.index(self.private)] = answers
        return Reports(codes, book.select(kept), first, self.digest(sample), stream.simulated)

    def estimate(self, first: Reports, second: Reports) -> TwoSampleEstimate:
        """Unbiased shares of yes, and their covariance.

        ``pi = [l1 (1 - q2) - l2 (1 - q1)] / (q1 - q2)``.  Standard errors are not numbers where a
        sample has equal reports only.

        Raises
        ------
        NotInvertible
            If both samples ask with the same probability.
        RecordsError
            For no reports, or such as another scheme made.
        """
        from ppdm_dask.events import Proportion

        q1, q2 = (exact(q) for q in self.q)
        if abs(q1 - q2) < MIN_DIFFERENCE:
            raise NotInvertible(
                "two samples with the same q are not invertible: their reports say the same "
                f"(condition number {np.linalg.cond(self.matrix()):.3g})",
                self.matrix(),
            )
        shares, variances = [], []
        for sample, reports in enumerate((first, second)):
            if reports.design_digest and reports.design_digest != self.digest(sample):
                raise RecordsError(f"sample {sample + 1} was made by another design", reports)
            n = len(reports)
            if not n:
                raise RecordsError(f"sample {sample + 1} has no reports", reports)
            share = int(reports.column(self.private).sum()) / n
            shares.append(share)
            # A sample of equal reports does not say how far its share may be from 0 or 1.
            variances.append(share * (1 - share) / (n - 1) if 0 < share < 1 else math.nan)
        inverse = np.array([[1 - q2, q1 - 1], [-q2, q1]], dtype=float) / float(q1 - q2)
        values = inverse @ shares
        covariance = inverse @ np.diag(variances) @ inverse.T
        errors = np.sqrt(np.diag(covariance))
        total = len(first) + len(second)
        private, personal = (
            Proportion(float(v), float(e), total, "population")
            for v, e in zip(values, errors, strict=True)
        )
        return TwoSampleEstimate(private, personal, covariance)
