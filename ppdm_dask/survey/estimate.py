"""Proportions with intervals from files of reports and counts.

Also here: event weights summed over files of reports and counts, with survey weights and strata.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ppdm_dask.data.codebook import label_codes
from ppdm_dask.designs.matching import covering
from ppdm_dask.errors import CodebookError, DataError, InputError
from ppdm_dask.faces.face import Face
from ppdm_dask.files.columns import read_numbers
from ppdm_dask.inference import (
    Estimate,
    Interval,
    estimate,
    event_interval,
    evidence_of,
    sum_weights,
)
from ppdm_dask.inference.clusters import Lone, Replicates, check_lone
from ppdm_dask.inference.contrasts import Comparison
from ppdm_dask.inference.likelihood import pseudo_mle
from ppdm_dask.inference.uncertainty import METHODS, IntervalMethod, check_estimand, normal_quantile
from ppdm_dask.shown import given, listed, shown
from ppdm_dask.survey.counts import Source, Sources, count_files, imported_of, total_of
from ppdm_dask.survey.reports import read_reports

if TYPE_CHECKING:
    from ppdm_dask.cluster.spread import Client
    from ppdm_dask.data.codebook import Codebook, Reports
    from ppdm_dask.data.words import Imported
    from ppdm_dask.designs import Design
    from ppdm_dask.files.column import Column
    from ppdm_dask.inference import Evidence, GroupedSums, WeightSums
    from ppdm_dask.inference.proportions import Method
    from ppdm_dask.inference.tables import ContingencyTable
    from ppdm_dask.inference.uncertainty import Estimand

LOG = logging.getLogger(__name__)

__all__ = ["Answer", "Question", "estimate_files", "sum_files"]


def sum_files(
    sources: Sources,
    codebook: Codebook,
    design: Design,
    question: Question,
    *,
    client: Client | None = None,
    done: Callable[[int], None] | None = None,
) -> WeightSums | GroupedSums:
    """Add up the event weights that a question asks for, block by block.

    Parameters as of :func:`ppdm_dask.survey.counts.count_files`.

    Raises
    ------
    DataError
        One line that names the file, the column and the row at fault.
    """
    names = [*_asked(design, question), *question.columns_of_survey]
    work = partial(_summed, codebook=codebook, design=design, question=question)
    found: WeightSums | GroupedSums = total_of(work, sources, names, client, done)
    return found


def _asked(design: Design, question: Question) -> tuple[str, ...]:
    return covering(design, dict.fromkeys((*question.over, *question.by, *question.where)))


def _summed(
    source: Source, *, codebook: Codebook, design: Design, question: Question
) -> Iterator[tuple[Evidence, int]]:
    """Sums over a file, block by block."""
    over, by, where = question.over, question.by, question.where
    if source.about.kind == "reports":
        for reports in _surveyed(source, design, question):
            if by:
                yield evidence_of(reports, design, over, by, where), len(reports)
            else:
                yield sum_weights(reports, design, over, where), len(reports)
        return
    for option in question.survey:
        raise DataError(
            f"{source.path}: counts keep no column for --{option}; give the reports", source.path
        )
    here = [(source.place, source.about)]
    table = count_files(here, codebook, design, _asked(design, question))
    made = evidence_of(table, design, over, by, where) if by else None
    yield sum_weights(table, design, over, where) if made is None else made, table.n


def _surveyed(source: Source, design: Design, question: Question) -> Iterator[Reports]:
    """Reports of a file, block by block, with the columns of a survey."""
    path, about = source.path, source.about
    names, extra = _asked(design, question), question.columns_of_survey
    for name in extra:
        if name not in about.undisguised:
            kept = listed(about.undisguised) or "none"
            raise DataError(
                f"{path}: column {shown(name)} was not kept undisguised; columns that were: {kept}",
                name,
            )
    for option, columns in question.survey.items():
        for name in columns if option not in LABELS else ():
            if name in about.codebook.names:
                raise DataError(
                    f"{path}: column {shown(name)} holds categories of the codebook, not numbers; "
                    f"{WHAT[option]} are kept as numbers if the codebook does not name them",
                    path,
                )
    for name in question.survey.get("clusters", ()):
        if _is_cut(about.codebook, name):
            raise DataError(
                f"{path}: column {shown(name)} holds the categories that the codebook cuts its "
                "numbers into, each of many clusters; numbers of clusters are kept where the "
                "codebook does not name them",
                path,
            )
    for name in names:
        if name not in about.codebook.names:
            there = listed(about.codebook.names)
            raise DataError(f"{path}: holds no attribute {shown(name)}; there are {there}", name)
    for block in read_reports(source.place, about, names, list(extra)):
        offset, found = block.reports.offset, {}
        for option, columns in question.survey.items():
            each = [_column(path, option, name, block.others[name], offset) for name in columns]
            found[option] = np.stack(each, axis=1) if option == "replicates" else each[0]
        reports = block.reports
        if "weights" in found and (found["weights"] == 0).any():
            reports, found = _of_weight(path, reports, found)
        if len(reports):
            yield reports.surveyed(**found)


def _of_weight(
    path: Path, reports: Reports, found: dict[str, Any]
) -> tuple[Reports, dict[str, Any]]:
    """Leave reports of weight 0 out: answers are disguised once, so a file cannot be made again."""
    weighted = found["weights"] > 0
    odd = ~weighted & found.get("replicates", found["weights"][:, None]).any(axis=1)
    if odd.any():
        row = int(np.argmax(odd)) + reports.offset
        raise DataError(
            f"{path}: row {row}: the survey weight is 0, and a replicate weight is not; it is 0 in "
            "all of them, or in none",
            path,
        )
    return reports[weighted], {option: values[weighted] for option, values in found.items()}


WHAT = {
    "weights": "survey weights",
    "strata": "strata",
    "clusters": "clusters",
    "fpc": "sampled fractions or numbers of clusters",
    "replicates": "replicate weights",
}
"""What messages call the columns of a survey."""

LABELS = ("strata", "clusters")


def _column(path: Path, option: str, name: str, values: Column, offset: int) -> Any:
    """A column of a survey: numbers, or codes of labels."""
    where = f"{path}: column {shown(name)}, row"
    if option in LABELS:
        positions, texts = values.factorised()
        if (positions < 0).any():
            row = int(np.argmax(positions < 0)) + offset
            what = "stratum" if option == "strata" else "cluster"
            raise DataError(f"{where} {row}: no {what} is given", path)
        # A number that follows from the text: files are read in any order, by processes apart.
        return label_codes(np.array(texts, object))[positions]
    numbers, wrong = read_numbers(values)
    low = numbers > 0 if option == "fpc" else numbers >= 0
    wrong = wrong | ~low
    if wrong.any():
        row = int(np.argmax(wrong))
        right = "positive numbers" if option == "fpc" else "numbers of 0 or more"
        raise DataError(
            f"{where} {row + offset}: {shown(values.value(row))}; {WHAT[option]} are {right}", path
        )
    return numbers


def _is_cut(codebook: Codebook, name: str) -> bool:
    """Whether a column that was kept holds numbers that the codebook cuts into categories."""
    return name in codebook.names and codebook[name].cuts is not None


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
    weights, strata, clusters, fpc : str, optional
        Columns that were kept undisguised.
    replicates : Replicates, optional
        Replicate weights, by the names of such columns.
    lone : {"fail", "certainty", "adjust", "average"}
        About strata with a single cluster.
    waves : int
        How many waves of the same people the files are of; 0 where they are of people apart.
    interval : {"score", "wald"}
        Of estimates by inversion; those of the likelihood have their own.
    by : tuple of str
        Attributes whose categories are the groups for which proportions are estimated.
    """

    over: tuple[str, ...]
    method: Method = "invert"
    level: float = 0.95
    estimand: Estimand = "population"
    where: Where = field(default_factory=dict)
    weights: str | None = None
    strata: str | None = None
    interval: IntervalMethod = "score"
    by: tuple[str, ...] = ()
    clusters: str | None = None
    fpc: str | None = None
    replicates: Replicates | None = None
    lone: Lone = "fail"
    waves: int = 0

    @property
    def survey(self) -> dict[str, tuple[str, ...]]:
        """Names of columns by their role in the survey, if given."""
        single = {name: getattr(self, name) for name in ("weights", "strata", "clusters", "fpc")}
        found: dict[str, tuple[str, ...]] = {n: (x,) for n, x in single.items() if x}
        if self.replicates is not None:
            found["replicates"] = tuple(self.replicates.weights)
        return found

    @property
    def columns_of_survey(self) -> tuple[str, ...]:
        """All of these names, each once."""
        return tuple(dict.fromkeys(name for names in self.survey.values() for name in names))

    @property
    def columns(self) -> tuple[str, ...]:
        """Attributes of the labels of a cell: groups first."""
        return (*self.by, *self.over)

    @property
    def needs_ratio(self) -> bool:
        """Whether the estimate is a ratio of two."""
        return bool(self.by or self.where or self.weights)

    def check(self, codebook: Codebook, design: Design) -> None:
        """Raise InputError if the question cannot be answered for any files."""
        check_estimand(self.estimand)
        check_lone(self.lone)
        normal_quantile(self.level)
        if self.interval not in METHODS:
            raise InputError(
                f"--interval: got {given(self.interval)}; score or wald is needed", self.interval
            )
        if not self.over or len(set(self.over)) < len(self.over):
            raise InputError(
                f"--over: got {shown(', '.join(self.over))}; distinct names are needed"
            )
        for name in self.over:
            codebook.index(name)
        try:
            codebook.masks(self.where)
        except CodebookError as error:
            raise InputError(f"--where: {error}", error.subject) from None
        if len(set(self.by)) < len(self.by):
            raise InputError(f"--by: got {shown(', '.join(self.by))}; distinct names are needed")
        for name in self.by:
            codebook.index(name)
            if name in self.over or name in self.where:
                where = "over" if name in self.over else "where"
                raise InputError(
                    f"--by: {shown(name)} is in --{where} too; name it in one of them", name
                )
        for name in self.where:
            if name in self.over and len(self.where[name]) < 2:
                raise InputError(
                    f"--where: {shown(name)} is in --over too; give two or more of its labels, "
                    "whose shares are asked for, or name it in one of them",
                    name,
                )
        if self.replicates is not None and not self.weights:
            raise InputError("--replicates: --weights is needed too, for the estimate itself")
        if self.estimand == "file":
            for option in ("clusters", "fpc", "replicates"):
                if option in self.survey:
                    raise InputError(
                        f"--{option}: for these records only the disguise causes errors; leave "
                        "it out, or ask for the population"
                    )
        for block in design.blocks:
            if {*self.columns, *self.where} & {*block.attributes}:
                block.require_inverse()
        if self.waves:
            self._check_waves()
        if self.method == "invert":
            return
        asked: dict[str, Any] = {"by": self.by, "where": self.where}
        tall = any(
            b.n_reported != b.n_true for b in design.blocks if {*self.over} & {*b.attributes}
        )
        if self.method == "em" or tall:
            asked |= self.survey
        for option, value in asked.items():
            if value:
                raise InputError(
                    f"--method {self.method}: takes plain counts, no --{option}; use invert", value
                )
        if self.estimand == "file":
            raise InputError(
                f"--method {self.method}: is about the population; use invert for this file"
            )
        if self.sets(design):
            raise InputError(f"--method {self.method}: takes no reports that are sets; use invert")
        if rest := [name for name in covering(design, self.over) if name not in self.over]:
            raise InputError(
                f"--over: {listed(rest)} was disguised together with what is asked for; "
                f"--method {self.method} needs all of the block, or use invert",
                rest,
            )

    def _check_waves(self) -> None:
        other: dict[str, Any] = {"by": self.by, "where": self.where, **self.survey}
        other |= {"method": self.method != "invert", "estimand": self.estimand == "file"}
        for option, value in other.items():
            if value:
                raise InputError(
                    f"--waves: takes plain reports by inversion, no --{option}; estimate each wave "
                    "by itself",
                    value,
                )

    def needs_sums(self, design: Design) -> bool:
        """Whether event weights are summed report by report, and no table is inverted."""
        return self.sets(design) or bool(self.by or self.where or self.survey)

    def sets(self, design: Design) -> bool:
        """Whether the reports in question are sets."""
        return any(b.kind == "set" and b.attributes[0] in self.over for b in design.blocks)

    def allows(self, method: Method, codebook: Codebook, design: Design) -> bool:
        """Whether another method could answer the same question."""
        try:
            replace(self, method=method).check(codebook, design)
        except InputError:
            return False
        return True


@dataclass(frozen=True, repr=False)
class Answer(Face):
    """The answer to a question: an estimate, and what else the files tell of it.

    Parameters
    ----------
    question : Question
    estimate : Estimate
    cells : list of Interval
        All proportions, in the order of the codebook.
    intervals : str
        How they were made; empty where there are none.
    simulated : bool
    whole : tuple of str
        Attributes that were counted too, because their block is not lumpable.
    likelihood : bool
        Whether ``--method mle`` could answer the question.
    imported : Imported, optional
        Of reports that people randomised themselves.
    comparison : Comparison, optional
        Of the groups, where there are some.
    unweighted : int
        Reports with a weight of 0, which are left out.
    cut : tuple of str
        Columns of strata whose numbers the codebook cuts into categories.
    """

    question: Question
    estimate: Estimate
    cells: list[Interval]
    intervals: str
    simulated: bool
    whole: tuple[str, ...] = ()
    likelihood: bool = False
    imported: Imported | None = None
    comparison: Comparison | None = None
    unweighted: int = 0
    cut: tuple[str, ...] = ()

    def _said(self) -> str:
        return f"Answer, {len(self.cells):,} proportions: {self.estimate._said()}"

    @property
    def negative(self) -> int:
        """Cells whose unbiased estimate is below 0."""
        return round(self.estimate.negative_share * self.estimate.values.size)


def estimate_files(
    sources: Sources,
    codebook: Codebook,
    design: Design,
    question: Question,
    *,
    reference: Sequence[str] | None = None,
    client: Client | None = None,
    done: Callable[[int], None] | None = None,
) -> Answer:
    """Estimate joint proportions from files of reports and counts.

    Parameters as of :func:`ppdm_dask.survey.counts.count_files`, and

    Parameters
    ----------
    reference : sequence of str, optional
        Labels of the group that others are compared with; the first by default.

    Raises
    ------
    InputError
        One line on what cannot be answered, or what is wrong with a file.
    """
    question.check(codebook, design)
    simulated = any(about.simulated for _, about in sources)
    table: ContingencyTable | None = None
    evidence: Evidence
    if question.needs_sums(design):
        evidence = sum_files(sources, codebook, design, question, client=client, done=done)
        errors = question.estimand, question.lone, question.replicates
        found = evidence.estimate(*errors)
        if question.method == "mle":
            found = pseudo_mle(found, design)
    else:
        evidence = table = count_files(
            sources, codebook, design, question.over, client=client, done=done
        )
        found = estimate(
            evidence,
            question.over,
            design=design,
            method=question.method,
            estimand=question.estimand,
        )
    LOG.info("%d reports of %d files are counted", found.n, len(sources))
    cells = found.rows(question.level, question.interval)
    # Labels that a condition on the same attribute rules out have no share by definition.
    allowed = {i: question.where[n] for i, n in enumerate(question.columns) if n in question.where}
    cells = [c for c in cells if all(c.labels[i] in labels for i, labels in allowed.items())]
    if question.method != "invert" and table is not None and len(cells) <= MAX_LIKELIHOOD:
        cells = [_of_the_likelihood(cell, found, table, design) for cell in cells]
    methods = dict.fromkeys(c.method for c in cells if not np.isnan(c.lower))
    whole = covering(design, question.columns)[len(question.columns) :]
    return Answer(
        question,
        found,
        cells,
        " and ".join(methods),
        simulated,
        whole,
        question.allows("mle", codebook, design),
        imported_of(sources),
        None if found.compared is None else found.compare(reference, question.level),
        # Files say how many reports they hold, and only weights leave some of them out.
        sum(about.n or 0 for _, about in sources) - found.n if question.weights else 0,
        tuple(name for name in question.survey.get("strata", ()) if _is_cut(codebook, name)),
    )


def _of_the_likelihood(
    cell: Interval, found: Estimate, table: ContingencyTable, design: Design
) -> Interval:
    """The same with an interval of the likelihood that the estimate maximises, which holds it.

    Two symbols of two categories are one count, whose intervals are exact.  With more of either the
    likelihood of all of them is profiled: the counts of one category do not know that others
    are at 0.
    """
    exact = found.values.size == 2 and table.counts.size == 2
    event = dict(zip(found.labels, cell.labels, strict=True))
    method: Any = "auto" if exact else "profile"
    made = event_interval(table, design, event, level=cell.level, method=method)
    # Expectation-maximisation ends near the maximum.
    lower, upper = min(made.lower, cell.value), max(made.upper, cell.value)
    return replace(cell, lower=lower, upper=upper, method=made.method)
