"""Proportions with intervals from files of reports and counts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np

from ppdm_dask.errors import InputError
from ppdm_dask.estimate import Fit, em, event_interval, invert, mle
from ppdm_dask.estimate.inversion import Estimate
from ppdm_dask.estimate.moments import check_estimand, normal_quantile, standard_error_of
from ppdm_dask.estimate.score import METHODS, IntervalMethod
from ppdm_dask.matching import covering
from ppdm_dask.shown import listed, shown
from ppdm_dask.survey.counts import Sources, count_files
from ppdm_dask.survey.sums import sum_files

if TYPE_CHECKING:
    from ppdm_dask.codebook import Codebook
    from ppdm_dask.designs import Design
    from ppdm_dask.estimate.moments import Estimand
    from ppdm_dask.tables import ContingencyTable

__all__ = ["Cell", "Question", "SurveyEstimate", "estimate_files"]

MAX_LIKELIHOOD = 100
"""Cells above which no interval is made from the likelihood, one by one."""

Where = Mapping[str, Sequence[str]]


@dataclass(frozen=True)
class Question:
    """What is asked of the files.

    Parameters
    ----------
    over : tuple of str
        Attributes of the cells.
    method : {"invert", "mle", "em"}
    level : float in (0, 1)
    estimand : {"population", "file"}
    where : mapping of attribute to labels
        Condition within which proportions are asked for.
    weights, strata : str, optional
        Columns that were kept undisguised.
    interval : {"score", "wald"}
        Of estimates by inversion; those of the likelihood have their own.
    """

    over: tuple[str, ...]
    method: str = "invert"
    level: float = 0.95
    estimand: Estimand = "population"
    where: Where = field(default_factory=dict)
    weights: str | None = None
    strata: str | None = None
    interval: IntervalMethod = "score"

    def check(self, codebook: Codebook, design: Design) -> None:
        """Raise InputError where the question cannot be answered, whatever the files hold."""
        check_estimand(self.estimand)
        normal_quantile(self.level)
        if self.interval not in METHODS:
            raise InputError(
                f"--interval: got {self.interval!r}; score or wald is needed", self.interval
            )
        if not self.over or len(set(self.over)) < len(self.over):
            raise InputError(
                f"--over: got {shown(', '.join(self.over))}; distinct names are needed"
            )
        for name in self.over:
            codebook.index(name)
        codebook.masks(self.where)
        for name in self.where:
            if name in self.over:
                raise InputError(
                    f"--where: {name!r} is in --over too; name it in one of them", name
                )
        for block in design.blocks:
            if {*self.over, *self.where} & {*block.attributes}:
                block.require_inverse()
        if self.method == "invert":
            return
        for option, given in (
            ("where", self.where),
            ("weights", self.weights),
            ("strata", self.strata),
        ):
            if given:
                raise InputError(
                    f"--method {self.method}: takes plain counts, no --{option}; use invert", given
                )
        if self.estimand == "file":
            raise InputError(
                f"--method {self.method}: is about the population; use invert for this file"
            )
        if self.needs_sums(design):
            raise InputError(f"--method {self.method}: takes no reports that are sets; use invert")
        if rest := [name for name in covering(design, self.over) if name not in self.over]:
            raise InputError(
                f"--over: {listed(rest)} was disguised together with what is asked for; "
                f"--method {self.method} needs all of the block, or use invert",
                rest,
            )

    def needs_sums(self, design: Design) -> bool:
        """Whether event weights are summed report by report, and no table is inverted."""
        sets = any(b.kind == "set" and b.attributes[0] in self.over for b in design.blocks)
        return sets or bool(self.where or self.weights or self.strata)

    def allows(self, method: str, codebook: Codebook, design: Design) -> bool:
        """Whether another method could answer the same question."""
        try:
            replace(self, method=method).check(codebook, design)
        except InputError:
            return False
        return True


@dataclass(frozen=True)
class Cell:
    """One joint category: its estimate, and what there is of its error.

    Parameters
    ----------
    few : bool
        Whether fewer than ten reports carry the standard error, which then is the least that the
        design allows, if it allows one.
    """

    labels: tuple[str, ...]
    proportion: float
    standard_error: float | None
    lower: float | None
    upper: float | None
    few: bool = False


@dataclass(frozen=True)
class SurveyEstimate:
    """The answer to a question.

    Parameters
    ----------
    question : Question
    cells : list of Cell
        All of them, in the order of the codebook.
    n : int
        Reports.
    size : float
        Effective reports, where survey weights or a condition make them fewer.
    freedom : float or None
        Degrees of freedom of standard errors, where weights, strata or a condition enter.
    fit : Fit
        Whether the reports contradict the design.
    intervals : str
        How they were made; empty where there are none.
    negative : int
        Cells whose unbiased estimate is below 0.
    simulated : bool
    whole : tuple of str
        Attributes that were counted along, as their block is not lumpable.
    reason : str
        Why there is no standard error.
    likelihood : bool
        Whether ``--method mle`` could answer the question.
    """

    question: Question
    cells: list[Cell]
    n: int
    size: float
    freedom: float | None
    fit: Fit
    intervals: str
    negative: int
    simulated: bool
    whole: tuple[str, ...] = ()
    reason: str = ""
    likelihood: bool = False


def estimate_files(
    sources: Sources, codebook: Codebook, design: Design, question: Question
) -> SurveyEstimate:
    """Estimate joint proportions from files of reports and counts.

    Raises
    ------
    InputError
        One line on what cannot be answered, or what is wrong with a file.
    """
    question.check(codebook, design)
    simulated = any(about.simulated for _, about in sources)
    if question.needs_sums(design):
        sums = sum_files(sources, codebook, design, question)
        found, table = sums.estimate(question.estimand), None
    else:
        table = count_files(sources, codebook, design, question.over)
        if question.method == "invert":
            found = invert(table, design, estimand=question.estimand).marginal(question.over)
        else:
            found = (mle if question.method == "mle" else em)(table, design)
    whole = covering(design, question.over)[len(question.over) :]
    cells, intervals = _cells(found, table, design, question)
    negative = round(found.negative_share * found.values.size)
    return SurveyEstimate(
        question,
        cells,
        found.n,
        found.effective_size,
        found.freedom,
        found.fit,
        intervals,
        negative,
        simulated,
        whole,
        found.reason,
        question.allows("mle", codebook, design),
    )


def _cells(
    found: Estimate, table: ContingencyTable | None, design: Design, question: Question
) -> tuple[list[Cell], str]:
    values = found.values.ravel().tolist()
    labels = list(product(*(a.categories for a in found.codebook.attributes)))
    errors: list[float | None] = [None] * len(values)
    ends: list[tuple[float | None, float | None]] = [(None, None)] * len(values)
    few = [False] * len(values) if found.few is None else found.few.ravel().tolist()
    name = ""
    if found.variance is not None:
        errors = [_number(e) for e in standard_error_of(found.variance).ravel()]
        lower, upper = found.ends(question.level, question.interval)
        ends = [(_number(a), _number(b)) for a, b in zip(lower.flat, upper.flat, strict=True)]
        if any(low is not None for low, _ in ends):
            scored = question.interval == "score" and found.moments is not None
            name = "score" if scored else "Wald"
    if question.method != "invert" and table is not None and len(values) <= MAX_LIKELIHOOD:
        ends, name = _of_the_likelihood(found, table, design, labels, question.level)
    cells = [
        Cell(*row)
        for row in zip(labels, values, errors, *zip(*ends, strict=True), few, strict=True)
    ]
    return cells, name


def _of_the_likelihood(
    found: Estimate,
    table: ContingencyTable,
    design: Design,
    labels: list[tuple[str, ...]],
    level: float,
) -> tuple[list[tuple[float | None, float | None]], str]:
    """Intervals of the likelihood that the estimate maximises, which hold it.

    Two symbols of two categories are one count, whose intervals are exact.  With more of either the
    likelihood of all of them is profiled: the counts of one category do not know that others
    are at 0.
    """
    exact = found.values.size == 2 and table.counts.size == 2
    ends: list[tuple[float | None, float | None]] = []
    methods: dict[str, None] = {}
    for label, value in zip(labels, found.values.ravel().tolist(), strict=True):
        event = dict(zip(found.codebook.names, label, strict=True))
        method: Any = "auto" if exact else "profile"
        made = event_interval(table, design, event, level=level, method=method)
        # Expectation-maximisation ends near the maximum.
        ends.append((min(made.lower, value), max(made.upper, value)))
        methods[made.method] = None
    return ends, " and ".join(methods)


def _number(value: float) -> float | None:
    return None if np.isnan(value) else float(value)
