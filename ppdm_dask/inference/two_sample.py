"""The unrelated question whose prevalence nobody knows: two samples with different coins."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ppdm_dask.data.codebook import Records, Reports
from ppdm_dask.designs.identity import Identity
from ppdm_dask.designs.parameters import attribute_names, probability
from ppdm_dask.errors import DesignError, NotInvertible, RecordsError
from ppdm_dask.frozen import settle
from ppdm_dask.inference.result import Estimate
from ppdm_dask.randomness import LOGICAL_BLOCK, exact, unpack_plane
from ppdm_dask.shown import given, quoted, shown

if TYPE_CHECKING:
    from ppdm_dask.data.codebook import Codebook
    from ppdm_dask.randomness import Stream


MIN_DIFFERENCE = 1e-12


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
    yes : str or sequence of two str, optional
        Label of yes, of both questions or of each; needed for answers of people.  Without it
        category 1 is yes.

    Raises
    ------
    DesignError
        For a value outside its range.
    """

    private: str
    personal: str
    q: tuple[float, float]
    yes: tuple[str, str] | None

    def __init__(
        self,
        private: str,
        personal: str,
        q: Sequence[float | str],
        yes: str | Sequence[str] | None = None,
    ) -> None:
        names = attribute_names([private, personal])
        two: Any = q
        if not isinstance(two, Sequence) or isinstance(two, str) or len(two) != 2:
            raise DesignError(f"q: got {given(q)}; two probabilities are needed", q)
        pair = (probability("q[0]", q[0]), probability("q[1]", q[1]))
        settle(self, private=names[0], personal=names[1], q=pair, yes=_labels_of_yes(yes))

    def matrix(self) -> npt.NDArray[np.float64]:
        """Shares of yes among reports from the shares of private and personal yes, shape (2, 2)."""
        first, second = self.q
        return np.array([[first, 1 - first], [second, 1 - second]])

    def digest(self, sample: int) -> str:
        """What reports of sample 0 or 1 say that made them."""
        said = [sample + 1, self.private, self.personal, self.q[sample], self.yes]
        return f"two-sample:{json.dumps(said, ensure_ascii=False)}"

    def _code_of_yes(self, book: Codebook, question: int, simulated: bool) -> int:
        """Category of a question's yes; by position for simulations alone."""
        name = (self.private, self.personal)[question]
        labels = book[name].categories
        if self.yes is not None:
            if self.yes[question] not in labels:
                raise DesignError(
                    f"two samples on {shown(name)}: the codebook has no category "
                    f"{shown(self.yes[question])}; it has {quoted(labels)}",
                    self.yes,
                )
            return labels.index(self.yes[question])
        if not simulated:
            lines = " or ".join(f"yes={shown(label)}" for label in labels)
            raise DesignError(
                f"two samples on {shown(name)}: it matters which answer is yes; add {lines}", name
            )
        return 1

    def disguise(self, records: Records, sample: int, stream: Stream) -> Reports:
        """Disguise the records of sample 0 or 1; the personal answer goes no further.

        Raises
        ------
        RecordsError
            If the records lack one of the two attributes or it is not binary.
        DesignError
            If an attribute has no category of the label of yes; or there is no label, unless the
            stream simulates.
        """
        book = records.codebook
        for name in (self.private, self.personal):
            if name not in book.names or len(book[name].categories) != 2:
                raise RecordsError(
                    f"attribute {shown(name)} with two categories is needed", records
                )
        yes, other = (self._code_of_yes(book, h, stream.simulated) for h in (0, 1))
        private = records.column(self.private)
        # The personal answer in the codes of the private one.
        personal = np.where(records.column(self.personal) == other, yes, 1 - yes)
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

    def from_field(self, answers: Any, sample: int, codebook: Codebook, **options: Any) -> Reports:
        """Reports of sample 0 or 1 from answers that people randomised themselves.

        Parameters
        ----------
        answers : DataFrame, Arrow table or mapping of columns
            The column of the private question holds what was answered, whichever was asked.
        sample : {0, 1}
        codebook : Codebook
            Of the answers; the personal question need not be in it.
        **options
            As of :meth:`ppdm_dask.Reports.from_field`.

        Raises
        ------
        RecordsError, CodebookError
            As there; or if the private question has other than two categories.
        """
        book = codebook.select(name for name in codebook.names if name != self.personal)
        read = Reports.from_field(answers, Identity(self.private, [2]), book, **options)
        return replace(read, design_digest=self.digest(sample), design=None)

    def _require_sample(self, reports: Reports, sample: int) -> None:
        """Raise RecordsError unless reports say that they are those of a sample."""
        which = f"sample {sample + 1}"
        if not reports.design_digest:
            raise RecordsError(
                f"{which} does not say which sample it is; its design_digest has to be "
                f"digest({sample}) of this scheme",
                reports,
            )
        if reports.design_digest == self.digest(1 - sample) != self.digest(sample):
            raise RecordsError(f"{which} holds reports of the other; exchange the two", reports)
        if reports.design_digest != self.digest(sample):
            raise RecordsError(f"{which} was made by another design", reports)
        if not len(reports):
            raise RecordsError(f"{which} has no reports", reports)

    def estimate(self, first: Reports, second: Reports) -> Estimate:
        """Unbiased shares of yes to the private and the personal question, and their covariance.

        ``pi = [l1 (1 - q2) - l2 (1 - q1)] / (q1 - q2)``.  With survey weights d the share of a
        sample is ``sum d y / sum d``; weights and strata enter its variance as in
        :func:`ppdm_dask.proportion`.  Standard errors are not numbers where a sample has equal
        reports only.

        Raises
        ------
        NotInvertible
            If both samples ask with the same probability.
        RecordsError
            For no reports, or such as do not say that they are this sample's.
        DesignError
            Where the label of yes is needed, as for :meth:`disguise`.
        """
        q1, q2 = (exact(q) for q in self.q)
        if abs(q1 - q2) < MIN_DIFFERENCE:
            raise NotInvertible(
                "two samples with the same q are not invertible: their reports say the same "
                f"(condition number {np.linalg.cond(self.matrix()):.3g})",
                self.matrix(),
            )
        shares, variances = [], []
        for sample, reports in enumerate((first, second)):
            self._require_sample(reports, sample)
            said = reports.column(self.private)
            share, variance = _share(
                said == self._code_of_yes(reports.codebook, 0, reports.simulated), reports
            )
            shares.append(share)
            # A sample of equal reports does not say how far its share may be from 0 or 1.
            variances.append(variance if 0 < share < 1 else math.nan)
        inverse = np.array([[1 - q2, q1 - 1], [-q2, q1]], dtype=float) / float(q1 - q2)
        values = inverse @ shares
        covariance = inverse @ np.diag(variances) @ inverse.T
        return Estimate(
            {"question": (self.private, self.personal)},
            values,
            np.diag(covariance),
            len(first) + len(second),
            covariances=partial(np.asarray, covariance),
        )


def _labels_of_yes(yes: Any) -> tuple[str, str] | None:
    """Label of yes to each question."""
    if yes is None:
        return None
    labels = (yes, yes) if isinstance(yes, str) else tuple(yes)
    if len(labels) != 2 or not all(isinstance(label, str) and label for label in labels):
        raise DesignError(f"yes: got {given(yes)}; one label, or one for each question", yes)
    return labels


def _share(said: npt.NDArray[np.bool_], reports: Reports) -> tuple[float, float]:
    """Share of yes in a sample and its variance, with survey weights and strata."""
    n = len(said)
    d = np.ones(n) if reports.weights is None else reports.weights
    share = float(d @ said / d.sum())
    z = d * (said - share) / d.sum()
    strata = np.zeros(n, np.int64) if reports.strata is None else reports.strata
    variance = 0.0
    for stratum in np.unique(strata):
        part = z[strata == stratum]
        m = len(part)
        variance += math.nan if m < 2 else m / (m - 1) * float(((part - part.mean()) ** 2).sum())
    return share, variance
