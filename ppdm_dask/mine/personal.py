"""Accuracy from disguised test records whose personal answers are of an unknown law.

[ZhanMatwin]_, section 2.4.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from ppdm_dask.data.codebook import Reports
from ppdm_dask.designs.unrelated import UnrelatedQuestion
from ppdm_dask.errors import InputError, RecordsError
from ppdm_dask.inference.result import Estimate
from ppdm_dask.shown import quoted

if TYPE_CHECKING:
    from ppdm_dask.mine.classifier import Classifier

__all__ = ["score_by_personal"]


def score_by_personal(model: Classifier, reports: Reports, personal: Estimate) -> Estimate:
    r"""Accuracy on the private records behind reports: ``(P*(cc) - (1 - q) P(Y(cc))) / q``.

    Section 2.4 of [ZhanMatwin]_:

    .. math:: P(cc) = \frac{P^*(cc) - (1 - q) P(Y(cc))}{q}

    ``P*(cc)`` is the share of the reports whose class the model predicts from their answers, and
    ``P(Y(cc))`` that share of the personal records, which respondents find out themselves.
    :meth:`ppdm_dask.NaiveBayes.score_disguised` takes the second from the law that the design
    states for the personal answers; here no law has to be known, only that both are unrelated.

    Parameters
    ----------
    model : Classifier
        Fitted to other reports.
    reports : Reports
        Of one unrelated question over the whole record: all attributes of the model are in one
        block, whose ``w_y`` is not looked at.
    personal : Estimate
        P(Y(cc)), from respondents who are not those of the reports: a report
        whose sender also tells the bit is certainly private where only one of them is right.

    Returns
    -------
    Estimate
        Unbiased; the value may leave [0, 1].

    Raises
    ------
    RecordsError
        Without reports.
    InputError
        For reports of another kind of design, or several proportions.

    Examples
    --------
    >>> import ppdm_dask as pp
    >>> frame = pp.datasets.load("breast-cancer")
    >>> book = pp.Codebook.from_toml(pp.resources.codebook_path("breast-cancer"))
    >>> records = book.binarise(frame, "midrange").encode(frame)
    >>> model = pp.NaiveBayes(target="class").fit(records[:400])
    >>> design = pp.UnrelatedQuestion(records.codebook.names, q=0.8)
    >>> reports = design.disguise(records[400:], pp.Stream.from_seed(1))
    >>> right = pp.inference.Estimate.single(0.5, 0.02, 600)
    >>> found = pp.mine.score_by_personal(model, reports, right)
    >>> abs(found.value - model.score(records[400:])) < 4 * float(found.standard_error)
    True
    """
    if not isinstance(reports, Reports):
        raise RecordsError(f"reports: got {type(reports).__name__}; Reports are needed", reports)
    if not (n := len(reports)):
        raise RecordsError("there are no test reports; at least one is needed", reports)
    names = {*model.features_, model.target_}
    blocks = () if reports.design is None else reports.design.blocks
    block = next((b for b in blocks if names & {*b.attributes}), None)
    if not isinstance(block, UnrelatedQuestion) or not names <= {*block.attributes}:
        raise InputError(
            f"reports: those of one unrelated question over {quoted(sorted(names))} are needed, "
            "with their design",
            reports.design,
        )
    if personal.values.ndim:
        many = personal.values.size
        raise InputError(f"personal: one proportion is needed; got {many}", personal)
    block.require_inverse()
    q, share = block.q, model.count_correct(reports) / n
    value = (share - (1 - q) * personal.value) / q
    own = math.sqrt(share * (1 - share) / (n - 1)) if n > 1 else math.nan
    error = math.hypot(own, (1 - q) * float(personal.standard_error)) / q
    return Estimate.single(value, error, n)
