"""Schemes of two samples, neither of which tells anything without the other.

The unrelated question whose prevalence nobody knows takes two samples with different coins; the
list experiment takes a group that is asked the sensitive statement among others, and one that is
not.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ppdm_dask.data.codebook import Records, Reports
from ppdm_dask.designs.identity import Identity
from ppdm_dask.designs.matrix import RRMatrix
from ppdm_dask.designs.parameters import (
    attribute_names,
    distribution,
    one_attribute,
    probability,
    whole,
)
from ppdm_dask.errors import DesignError, NotInvertible, RecordsError
from ppdm_dask.frozen import settle
from ppdm_dask.inference.result import Estimate
from ppdm_dask.randomness import LOGICAL_BLOCK, exact, unpack_plane
from ppdm_dask.shown import given, quoted, shown

if TYPE_CHECKING:
    from ppdm_dask.data.codebook import Codebook
    from ppdm_dask.randomness import Stream


MIN_DIFFERENCE = 1e-12

MOST_ITEMS = 100


@dataclass(frozen=True, init=False)
class TwoSample:
    r"""Two independent samples; sample h asks the private question with probability q_h.

    Reports of one sample mix two unknown shares, of the private and of the personal yes; two
    samples tell them apart:

    .. math:: \lambda_h = q_h \pi + (1 - q_h) w, \qquad
        \pi = \frac{\lambda_1 (1 - q_2) - \lambda_2 (1 - q_1)}{q_1 - q_2}

    The samples are strata: each has its own report, none has an inverse of its own,
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
        """Category of a question's yes; by position only for simulations."""
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
            _require_sample(reports, sample, self.digest)
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


@dataclass(frozen=True, init=False)
class ItemCount:
    """A list experiment: people say how many statements of a list apply to them, and not which.

    One group, the control, has a list of harmless statements; the other, the treated one, has the
    sensitive statement too.  With groups at random, and counts that the sensitive statement does
    not change otherwise, its share is the difference of the mean counts.

    Parameters
    ----------
    attribute : str
        Binary attribute that the sensitive statement is about; the column of counts has its name.
    items : int
        Harmless statements, 1 to 100.
    trait : str
        Label of those to whom the sensitive statement applies.

    Raises
    ------
    DesignError
        For a value outside its range.

    Examples
    --------
    >>> import ppdm_dask as pp
    >>> book = pp.Codebook((pp.Attribute("used", ("no", "yes")),))
    >>> scheme = ItemCount("used", 2, trait="yes")
    >>> control = scheme.from_field({"used": [0, 1, 1, 2, 1]}, False, book)
    >>> treated = scheme.from_field({"used": [0, 1, 2, 3, 1]}, True, book)
    >>> scheme.estimate(control, treated).values.round(2).tolist()
    [0.6, 0.4]
    """

    attribute: str
    items: int
    trait: str

    def __init__(self, attribute: str, items: int, *, trait: str) -> None:
        if not trait:
            raise DesignError("trait: got ''; the label of a category is needed", trait)
        settle(
            self,
            attribute=one_attribute(attribute)[0],
            items=whole("items", items, 1, MOST_ITEMS),
            trait=trait,
        )

    def digest(self, sample: int) -> str:
        """What reports of the control group (0) or the treated one (1) say that made them."""
        said = [sample, self.attribute, self.items, self.trait]
        return f"item-count:{json.dumps(said, ensure_ascii=False)}"

    def _labels(self, codebook: Codebook) -> tuple[str, ...]:
        labels = codebook[self.attribute].categories
        if len(labels) != 2 or self.trait not in labels:
            raise DesignError(
                f"item count of {shown(self.attribute)}: two categories are needed, one of them "
                f"{shown(self.trait)}; the codebook has {quoted(labels)}",
                labels,
            )
        return labels

    def design(self, law: npt.ArrayLike, codebook: Codebook) -> RRMatrix:
        """The treated group's counts as a design, where the law of the harmless count is known.

        P is that law for those without the trait, and the same shifted by one for the others.

        Parameters
        ----------
        law : array, shape (items + 1,)
            Probabilities of 0 .. items harmless statements, fixed beforehand: standard errors do
            not know of a law that was estimated.
        codebook : Codebook
        """
        harmless = distribution("law", law, self.items + 1)
        without, others = [*harmless, 0.0], [0.0, *harmless]
        labels = self._labels(codebook)
        pairs = [others if label == self.trait else without for label in labels]
        return RRMatrix(self.attribute, np.array(pairs).T, categories=labels)

    def from_field(
        self, answers: Any, treated: bool, codebook: Codebook, **options: Any
    ) -> Reports:
        """Counts of the treated or the control group.

        Parameters
        ----------
        answers : DataFrame, Arrow table or mapping of columns
            The column of the attribute holds counts.
        treated : bool
        codebook : Codebook
        **options
            As of :meth:`ppdm_dask.Reports.from_field`.

        Raises
        ------
        RecordsError, CodebookError
            As there; or for a count above the number of statements.
        """
        # Only for reading, any law of counts does that allows all that there can be.
        law = np.full(self.items + 1, 1 / (self.items + 1))
        reader = self.design(law, codebook)
        if not treated:
            alike = np.array([[*law, 0.0]] * 2).T
            reader = RRMatrix(self.attribute, alike, categories=self._labels(codebook))
        read = Reports.from_field(answers, reader, codebook, **options)
        return replace(read, design_digest=self.digest(int(treated)), design=None)

    def estimate(self, control: Reports, treated: Reports) -> Estimate:
        """Shares without and with the trait, in the codebook's order, unbiased.

        The difference of the (weighted) mean counts, with the variances of both; survey weights
        and strata enter as for :class:`TwoSample`.

        Raises
        ------
        RecordsError
            For no reports, or such as do not say that they are this group's.
        """
        means, variances = [], []
        for sample, reports in enumerate((control, treated)):
            _require_sample(reports, sample, self.digest)
            mean, variance = _share(reports.column(self.attribute).astype(float), reports)
            means.append(mean)
            variances.append(variance if variance else math.nan)
        share, variance = means[1] - means[0], sum(variances)
        labels = self._labels(treated.codebook)
        values = np.array([share if label == self.trait else 1 - share for label in labels])
        return Estimate(
            {self.attribute: labels},
            values,
            np.full(2, variance),
            len(control) + len(treated),
            covariances=partial(np.asarray, variance * np.array([[1.0, -1.0], [-1.0, 1.0]])),
        )


def _require_sample(reports: Reports, sample: int, digest: Callable[[int], str]) -> None:
    """Raise RecordsError unless reports say that they are those of a sample of a scheme."""
    which = f"sample {sample + 1}"
    if not reports.design_digest:
        raise RecordsError(
            f"{which} does not say which sample it is; its design_digest has to be "
            f"digest({sample}) of this scheme",
            reports,
        )
    if reports.design_digest == digest(1 - sample) != digest(sample):
        raise RecordsError(f"{which} holds reports of the other; exchange the two", reports)
    if reports.design_digest != digest(sample):
        raise RecordsError(f"{which} was made by another design", reports)
    if not len(reports):
        raise RecordsError(f"{which} has no reports", reports)


def _labels_of_yes(yes: Any) -> tuple[str, str] | None:
    """Label of yes to each question."""
    if yes is None:
        return None
    labels = (yes, yes) if isinstance(yes, str) else tuple(yes)
    if len(labels) != 2 or not all(isinstance(label, str) and label for label in labels):
        raise DesignError(f"yes: got {given(yes)}; one label, or one for each question", yes)
    return labels


def _share(said: npt.NDArray[Any], reports: Reports) -> tuple[float, float]:
    """Share of yes, or mean count, of a sample and its variance, with survey weights and strata."""
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
