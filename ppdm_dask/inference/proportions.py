"""One estimate: proportions of categories or events, from reports or from what was kept of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
import numpy.typing as npt

from ppdm_dask.arrays import Floats, to_scale
from ppdm_dask.data.codebook import Records, Reports
from ppdm_dask.data.partitioned import PartitionedReports, Paths, opened
from ppdm_dask.designs.base import Design
from ppdm_dask.designs.identity import Identity
from ppdm_dask.designs.matching import bound_to, covering
from ppdm_dask.errors import InputError, RecordsError
from ppdm_dask.inference.clusters import Lone, Replicates, check_lone, fractions, linearised
from ppdm_dask.inference.evidence import Evidence, evidence_of, sum_event
from ppdm_dask.inference.inversion import unbiased
from ppdm_dask.inference.likelihood import em, mle, pseudo_mle
from ppdm_dask.inference.owners import Owners
from ppdm_dask.inference.result import Estimate, stacked
from ppdm_dask.inference.stratified import Stratified
from ppdm_dask.inference.sums import GroupedSums, WeightSums
from ppdm_dask.inference.tables import ContingencyTable
from ppdm_dask.inference.uncertainty import Estimand, check_estimand
from ppdm_dask.inference.weights import combined_masks, event_weights, mask_weights
from ppdm_dask.shown import given, listed

Method = Literal["invert", "mle", "em"]

Event = Mapping[str, Any]

Over = str | Iterable[str] | Event | Sequence[Event]

Question = tuple[Any, tuple[str, ...], Event | None]
"""Attributes or an event; groups; condition."""


def estimate(
    evidence: Records | PartitionedReports | Paths | Evidence | Owners | Sequence[Records],
    over: Over | None = None,
    by: str | Iterable[str] = (),
    where: Event | None = None,
    *,
    weights: str | npt.ArrayLike | None = None,
    strata: str | npt.ArrayLike | None = None,
    clusters: str | npt.ArrayLike | None = None,
    fpc: str | npt.ArrayLike | None = None,
    replicates: Replicates | None = None,
    lone: Lone = "fail",
    design: Design | Stratified | None = None,
    method: Method = "invert",
    estimand: Estimand = "population",
) -> Estimate:
    r"""Estimate proportions from disguised reports, or from evidence that was added up of them.

    By inversion proportions are unbiased and may leave [0, 1]: nothing is clipped.  An event's
    proportion is the mean of the weights w that :func:`ppdm_dask.event_weights` gives to the
    reports, with survey weights d if there are some; if all d are 1, the standard error is

    .. math:: \hat p = \frac{\sum_i d_i w_i}{\sum_i d_i}, \qquad
        \text{SE}^2 = \frac{\sum_i w_i^2 / n - \hat p^2}{n - 1}

    Within a condition or a group proportions are ratios of two estimates.  Both, and strata,
    clusters and finite populations, enter the standard errors.

    Parameters
    ----------
    evidence : Reports, Records, lazy reports, ContingencyTable, WeightSums or GroupedSums
        Reports, undisguised records, or what :func:`evidence_of` or :func:`ppdm_dask.count` made of
        some; or paths of files and folders of reports.  Owners, or under a stratified design the
        reports of each stratum.
    over : iterable of str, mapping, or sequence of mappings
        Attributes, for the proportions of all their joint categories; an event, as a mapping of
        attributes to a label or labels, for a single proportion; or several events, whose
        covariance is estimated too.  Not for sums, which know what they are of.
    by : str or iterable of str
        Attributes, disguised or not, whose categories make groups; proportions are within each,
        and the groups are the first axes of the result.
    where : mapping of attribute to label or labels, optional
        Condition within which proportions are asked for.
    weights, strata : array or str, optional
        Survey weights, positive; and strata.  Of shape (n_reports,), or the name of a column that
        was kept with the reports.
    clusters : array or str, optional
        Primary sampling units, such as schools or households; equal labels in two strata are two
        clusters.  By default each report is one.
    fpc : array or str, optional
        One number in each stratum: the fraction of its clusters that was sampled, up to 1; above 1,
        how many the population has.
    replicates : Replicates, optional
        Replicate weights that variances are made of.
    lone : {"fail", "certainty", "adjust", "average"}
        About strata with a single cluster; see :func:`ppdm_dask.inference.clusters.deviations`.
        Strata with a single report, where there are no clusters, leave the error undefined by
        *fail*.
    design : Design or Stratified, optional
        The design that made the reports; by default the one that they or the table carry.
    method : {"invert", "mle", "em"}
        Unbiased inversion; or the most likely proportions within [0, 1], exactly or by
        expectation-maximisation, which take plain counts of whole blocks.
    estimand : {"population", "file"}
        What errors are about: the population behind the records, or these records.

    Raises
    ------
    InputError
        One line on a question that cannot be answered.
    RecordsError
        If there are no reports, or another design made them.

    References
    ----------
    Section III-B of [HuangDu]_; Eq. (1) of [ZhanMatwin]_ solved for P(A).

    Examples
    --------
    >>> import ppdm_dask as pp
    >>> book = pp.Codebook((pp.Attribute("drug", ("no", "yes")),))
    >>> design = pp.Warner("drug", theta=0.8)
    >>> answers = pp.Records(np.repeat([[0], [1]], [700, 300], axis=0), book)
    >>> reports = design.disguise(answers, pp.Stream.from_seed(1))
    >>> low, high = pp.estimate(reports, {"drug": "yes"}).interval()
    >>> low < 0.3 < high
    True
    """
    check_estimand(estimand)
    if method not in get_args(Method):
        raise InputError(f"method: got {given(method)}; {listed(get_args(Method))} are known")
    groups = (by,) if isinstance(by, str) else tuple(by)
    evidence = opened(evidence)
    check_lone(lone)
    survey = {"weights": weights, "strata": strata, "clusters": clusters, "fpc": fpc}
    columns = {name: column for name, column in survey.items() if column is not None}
    finish = partial(_finished, errors=_Errors(estimand, lone, replicates))
    if isinstance(evidence, WeightSums | GroupedSums):
        if over is not None or groups or where or columns:
            raise InputError(
                f"over, by, where, {listed(survey)}: sums know theirs; leave them out", columns
            )
        return evidence.estimate(estimand, lone, replicates)
    if replicates is not None:
        columns["replicates"] = replicates.weights
    if over is None:
        raise InputError("over: got none; attributes or an event are needed", over)
    asked: Any = (
        over if isinstance(over, Mapping) else (over,) if isinstance(over, str) else tuple(over)
    )
    several = not isinstance(asked, Mapping) and any(isinstance(one, Mapping) for one in asked)
    if several and (groups or where or method != "invert" or not isinstance(evidence, Records)):
        what = "over: several events take reports in memory, without by, where or method"
        raise InputError(what, asked)
    if isinstance(evidence, PartitionedReports):
        made = design_of(evidence, design)
        question = (asked, groups, where)
        total = evidence.reduce(_part_of(made, question, columns))
        return finish(total, made, question, method)
    if isinstance(evidence, Records):
        evidence = evidence.surveyed_by(**columns)
    elif columns:
        raise InputError(f"{listed(columns)}: counts keep none; give the reports")
    if not isinstance(evidence, Records | ContingencyTable):
        return _of_strata(evidence, asked, groups, where, design, method, estimand)
    made = design_of(evidence, design)
    if several:
        return _of_events(evidence, made, asked, estimand, lone, replicates)  # type: ignore[arg-type]
    question = (asked, groups, where)
    if isinstance(evidence, ContingencyTable) and method != "invert":
        return _most_likely(evidence, made, question, method, finish.keywords["errors"])
    return finish(evidence_of(evidence, made, *question), made, question, method)


class _Errors(NamedTuple):
    """What is asked of errors, apart from the evidence."""

    estimand: Estimand
    lone: Lone
    replicates: Replicates | None


def _part_of(
    design: Design, question: Question, columns: Mapping[str, Any]
) -> Callable[[Reports], Evidence]:
    """What makes evidence of a partition's reports, where they are."""
    for name, column in columns.items():
        names = [column] if name != "replicates" else list(column)
        if not all(isinstance(each, str) for each in names):
            raise InputError(f"{name}: of reports in partitions, name columns", name)
    return partial(_evidence, design=design, question=question, columns=columns)


def _evidence(
    reports: Reports, *, design: Design, question: Question, columns: Mapping[str, Any]
) -> Evidence:
    over, groups, where = question
    return evidence_of(reports.surveyed_by(**columns), design, over, groups, where)


def _finished(
    evidence: Evidence, design: Design, question: Question, method: Method, errors: _Errors
) -> Estimate:
    """The estimate of evidence that was added up for a question."""
    if method != "invert":
        return _most_likely(evidence, design, question, method, errors)
    if isinstance(evidence, ContingencyTable):
        return unbiased(evidence, design, question[0], estimand=errors.estimand)
    return evidence.estimate(*errors)


def design_of(source: Any, design: Design | Stratified | None) -> Design:
    """The design given, or the one that the reports carry."""
    made = design
    if made is None:
        made = getattr(source, "design", None)
    if (
        made is None
        and not isinstance(source, Reports)
        and not getattr(source, "design_digest", "")
    ):
        # Undisguised: every attribute is as the design leaves those that it does not cover.
        first = source.codebook.attributes[0]
        made = Identity(first.name, [len(first)])
    if not isinstance(made, Design):
        got = "none" if made is None else type(made).__name__
        raise InputError(f"design: got {got}; the design that made the reports is needed", design)
    return made


def _of_strata(
    strata: Any,
    over: Any,
    groups: tuple[str, ...],
    where: Event | None,
    design: Any,
    method: str,
    estimand: Estimand,
) -> Estimate:
    """Reports of several owners, under a stratified design."""
    if isinstance(strata, Owners):
        if design is not None and design != strata.design:
            raise InputError("design: the owners carry theirs; leave it out", design)
        design = strata.design
    if not isinstance(design, Stratified):
        raise RecordsError(
            f"evidence: got {type(strata).__name__}; reports, counts or sums are needed, or the "
            "reports of each stratum with their stratified design",
            strata,
        )
    if groups or where or method != "invert":
        raise InputError("by, where and method: strata of several designs take none of them")
    return design.estimate(strata, over, estimand=estimand)


def _most_likely(
    evidence: Evidence, design: Design, question: Question, method: str, errors: _Errors
) -> Estimate:
    over, groups, where = question
    if isinstance(over, Mapping) or groups or where:
        raise InputError(
            f"method: {method} takes attributes, without by and where; event_interval has the "
            "likelihood of one event",
            over,
        )
    if rest := [name for name in covering(design, over) if name not in over]:
        raise InputError(
            f"over: {listed(rest)} was disguised together with what is asked for; method {method} "
            "needs all of the block",
            rest,
        )
    if isinstance(evidence, ContingencyTable):
        return (mle if method == "mle" else em)(evidence, design, estimand=errors.estimand)
    if method == "em" or not isinstance(evidence, WeightSums) or errors.estimand == "file":
        raise InputError(
            f"method: {method} takes plain counts; of weights, strata and clusters mle is known, "
            "for the population",
            evidence,
        )
    return pseudo_mle(evidence.estimate(*errors), design)


def _of_events(
    reports: Records,
    design: Design,
    events: Sequence[Any],
    estimand: Estimand,
    lone: Lone,
    replicates: Replicates | None,
) -> Estimate:
    """Several events, whose attributes and blocks may be any, with their covariance."""
    for event in events:
        if not isinstance(event, Mapping):
            raise InputError(f"over: got {given(event)} among events; give all as mappings", event)
    if not len(reports):
        raise RecordsError("there are no reports; at least one is needed", reports)
    given_reports: Any = reports
    design = bound_to(reports, design)
    # Each as if it were asked for alone, so that a list changes no interval.
    parts = [
        sum_event(given_reports, design, event).estimate(estimand, lone, replicates)
        for event in events
    ]
    made = stacked("event", [_named(event) for event in events], parts)
    return replace(
        made,
        covariances=partial(
            _covariance, given_reports, design, events, _Errors(estimand, lone, replicates)
        ),
    )


def _named(event: Event) -> str:
    """An event as text, such as ``sick = yes, age = old or young``."""
    parts = []
    for name, labels in event.items():
        each = [labels] if isinstance(labels, str) else [str(label) for label in labels]
        parts.append(f"{name} = {' or '.join(each)}")
    return ", ".join(parts) or "all"


def _covariance(
    reports: Reports, design: Design, events: Sequence[Event], errors: _Errors
) -> Floats:
    """Unbiased covariance of the estimated proportions of some events."""
    n, K = len(reports), len(events)
    if n < 2:
        return np.full((K, K), np.nan)
    W = np.stack([event_weights(reports, design, event) for event in events], axis=1)
    d = np.ones(n) if reports.weights is None else to_scale(reports.weights)[0]
    d = d / d.sum()
    if errors.estimand == "file":
        return _of_the_disguise(reports, design, events, d[:, None] * W, d**2)
    if errors.replicates is not None and reports.replicates is not None:
        R = reports.replicates
        return errors.replicates.covariance(R.T @ W / R.sum(axis=0)[:, None], d @ W)
    z, strata, fpc = W - d @ W, reports.strata, reports.fpc
    try:
        total = linearised(z, d, strata, reports.clusters, fpc, lone=errors.lone)
    except InputError:
        if reports.clusters is not None:
            raise
        return np.full((K, K), np.nan)  # a stratum of a single report
    if fpc is not None:
        groups = np.zeros(n, np.int64) if strata is None else strata
        for stratum in np.unique(groups):
            rows = groups == stratum
            units = rows.sum() if reports.clusters is None else len(set(reports.clusters[rows]))
            drawn = float(fractions(fpc[rows][:1], units)[0])
            part = reports.take(np.flatnonzero(rows))
            noise = _of_the_disguise(part, design, events, d[rows, None] * W[rows], d[rows] ** 2)
            total = total + drawn * noise
    return total


def _of_the_disguise(
    reports: Reports, design: Design, events: Sequence[Event], scaled: Floats, squares: Floats
) -> Floats:
    """Covariance by the disguise only: E[w_i w_j | x] is 1 in both events, which is estimated."""
    certain = np.empty((len(events),) * 2)
    for i, one in enumerate(events):
        for j, other in enumerate(events):
            masks = combined_masks(reports.codebook, one, other)
            certain[i, j] = squares @ mask_weights(reports, design, masks)
    return np.asarray(scaled.T @ scaled - certain)
