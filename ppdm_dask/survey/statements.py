"""Sentences on what an estimate says and what it cannot know."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import numpy as np

from ppdm_dask.data.words import amount_of
from ppdm_dask.shown import shown

if TYPE_CHECKING:
    from ppdm_dask.data.codebook import Codebook
    from ppdm_dask.inference import Fit, Interval
    from ppdm_dask.survey.estimate import Answer, Question

__all__ = ["FEW", "kept_as", "name_cell", "statements"]

FEW = 300
"""Effective reports below which Wald intervals may cover less than they say."""

SMALL = 50
"""Effective reports below which a ratio may be far from what it estimates."""

NOTHING = 0.95
"""Share of all proportions that an interval may hold before it says nothing."""

NAMED = 8
"""Cells that a sentence names before it counts the rest."""


def kept_as(codebook: Codebook, name: str) -> str:
    """How a file of reports stores an undisguised column: values, categories or bins."""
    if name not in codebook.names:
        return "as it is"
    if codebook[name].cuts is None:
        return f"in {len(codebook[name])} categories"
    return (
        f"in {len(codebook[name])} categories that the codebook cuts its numbers into; to keep the "
        "numbers of schools, strata or clusters, delete it from the codebook"
    )


def statements(found: Answer) -> list[str]:
    """Sentences on the estimand, the method, the intervals, and the limits of all three."""
    return [*_what(found), *_groups(found), *_limits(found)]


def _what(found: Answer) -> Iterator[str]:
    made = found.estimate
    question = found.question
    reports = f"{made.n:,} {'report' if made.n == 1 else 'reports'}"
    if question.estimand == "population":
        yield f"estimated: proportions in the population behind {reports}"
    else:
        yield f"estimated: proportions among these {made.n:,} records, in no wider population"
    if question.waves:
        yield (
            f"waves: {question.waves} of the same people; a permanent first stage and the sample "
            "are the same in all of them, and their part of the errors does not shrink"
        )
    if question.where:
        within = " and ".join(f"{k} = {' or '.join(v)}" for k, v in question.where.items())
        yield f"within: {within}; its size is itself an estimate, and enters the intervals"
    if question.by:
        groups = " and ".join(question.by)
        yield f"within: each category of {groups}; their sizes are themselves estimates"
    if question.survey:
        yield "survey: " + ", ".join(_survey(question))
        yield from _design_effect(found)
    for name in found.cut:
        yield (
            f"strata: {shown(name)} holds the categories that the codebook cuts its numbers into; "
            "numbers of schools or regions are kept if the codebook does not name them"
        )
    if found.unweighted > 0:
        yield f"no weight: {amount_of(found.unweighted, 'report')} of weight 0 left out"
    ratio = question.needs_ratio
    if ratio and not question.by and not {"clusters", "replicates"} & {*question.survey}:
        yield (
            f"effective size: {made.effective_size:,.0f} of {reports}; unequal weights and a "
            "condition leave fewer to go by"
        )
    unbiased = "inversion, unbiased; nothing is clipped or scaled"
    if ratio:
        unbiased = "inversion; a ratio of unbiased sums, not unbiased itself; nothing is clipped"
    yield {
        "invert": f"method: {unbiased}",
        "mle": "method: maximum likelihood, within 0 and 1; biased where an estimate is at 0 or 1",
        "em": "method: expectation-maximisation, within 0 and 1; close to maximum likelihood",
    }[question.method]
    if found.intervals:
        what = f"intervals: {100 * question.level:.4g} %, {found.intervals}"
        if made.freedom is not None and found.intervals in ("score", "Wald"):
            what += f", Student's t with {made.freedom:,.0f} degrees of freedom"
        bounded = made.bounded and question.interval == "score"
        yield what + {
            "score": "; within 0 and 1, whatever the estimates are"
            if bounded
            else "; may leave 0 and 1 where estimates do",
            "Wald": f"; good from about {FEW} effective reports, away from 0 and 1",
        }.get(found.intervals, "")
    if (factor := _widening(found)) is not None:
        yield (
            f"price: these intervals are about {factor:.2g} times as wide as those of the same "
            "answers undisguised"
        )


def _survey(question: Question) -> Iterator[str]:
    """What is known of the sample, from which columns."""
    for what, columns in question.survey.items():
        if what != "replicates":
            yield f"{what} from {shown(columns[0])}"
    if question.replicates is not None:
        yield f"{len(question.replicates.weights):,} replicate weights ({question.replicates.kind})"
    if question.lone != "fail":
        yield f"strata with a single cluster by {question.lone!r}"


def _design_effect(found: Answer) -> Iterator[str]:
    """How much larger variances are than those of a simple random sample."""
    made = found.estimate
    effects = np.ravel(made.design_effect)
    few = np.zeros(effects.shape, bool) if made.few is None else np.ravel(made.few)
    known = effects[np.isfinite(effects) & (effects > 0) & ~few]
    if not known.size or found.question.estimand == "file":
        return
    middle = float(np.median(known))
    several = ""
    if known.size > 1 and known.max() > 1.05 * known.min():
        several = f" (from {known.min():.2f} to {known.max():.2f})"
    what = ", against a simple random sample"
    if not (found.question.by or found.question.where):
        what = (
            f"; {made.n:,} reports say as much as {made.n / middle:,.0f} of a simple random sample"
        )
    yield f"design effect: {middle:.2f}{several}{what}"


def _groups(found: Answer) -> Iterator[str]:
    """Whether groups differ."""
    if found.comparison is None or math.isnan(found.comparison.test.p_value):
        return
    test = found.comparison.test
    names = " and ".join(found.question.by)
    one, two = test.freedom
    differ = "differ" if test.p_value < 0.05 else "cannot be told to differ"
    yield (
        f"groups: proportions {differ} between categories of {names} (F = {test.statistic:.4g} on "
        f"{one:.3g} and {two:,.0f} degrees of freedom, p = {test.p_value:.2g}, by Rao and Scott)"
    )


def _widening(found: Answer) -> float | None:
    """Standard errors over those of undisguised answers, by their median."""
    made = found.estimate
    question = found.question
    if question.needs_ratio or question.survey or question.waves or question.estimand == "file":
        return None
    ratios = [
        cell.standard_error / math.sqrt(cell.value * (1 - cell.value) / made.n)
        for cell in found.cells
        if not math.isnan(cell.standard_error) and not cell.few and 0.01 < cell.value < 0.99
    ]
    return statistics.median(ratios) if ratios else None


def _limits(found: Answer) -> Iterator[str]:
    made = found.estimate
    names = found.question.columns
    if made.fit.contradicts:
        yield (
            "contradiction: the reports contradict the design or the answers "
            f"({_test(made.fit)}): no true proportions make such reports likely; compare design "
            "and codebook with what people were asked, and how"
        )
    bounds = [(c, c.lower, c.upper) for c in found.cells if not math.isnan(c.upper - c.lower)]
    nothing = [c for c, low, high in bounds if _says_nothing(low, high)]
    zero = [c for c, low, high in bounds if low <= 0 <= high and c not in nothing]
    one = [c for c, low, high in bounds if low <= 1 <= high and c not in nothing]
    if nothing:
        yield (
            f"says nothing: {_reports(found)} leave open nearly all there is between 0 and 1; do "
            f"not report these estimates: {_named(nothing, names)}"
        )
    if out := [c for c, low, high in bounds if high < 0 or low > 1]:
        yield (
            "beyond 0 and 1: no possible proportion is in these intervals, as happens to some of "
            f"many: {_named(out, names)}"
        )
    if zero:
        yield f"cannot be told from 0: {_named(zero, names)}"
    if one:
        yield f"cannot be told from 1: {_named(one, names)}"
    if found.negative and found.question.method == "invert":
        below = [cell for cell in found.cells if cell.value < 0]
        yield (
            f"negative: {found.negative:,} of {len(found.cells):,} estimates, kept as they are, as "
            f"clipping would bias the others: {_named(below, names)}"
        )
    elif found.negative:
        yield (
            f"negative: {found.negative:,} of {len(found.cells):,} unbiased estimates are below 0; "
            f"the method has moved them into the range, and the others with them"
        )
    if found.whole:
        yield (
            f"counted along: {', '.join(found.whole)}, disguised together with what was asked for "
            "under a design that does not marginalise; the whole block was inverted, then summed"
        )
    if made.reason:
        yield f"no standard errors: {made.reason.partition('; ask for')[0]}"
    else:
        yield from _errors(found, names)
    yield from _size(found)
    if found.imported is not None:
        yield from found.imported.sentences()
    if found.simulated:
        yield "simulated: a seed drew the disguise of some reports, which protects nobody"
    yield (
        "cannot be known: anyone's own answer; whether answers were true; how those who did not "
        "answer differ"
    )


def _errors(found: Answer, names: tuple[str, ...]) -> Iterator[str]:
    """What is wrong with standard errors, and of which cells."""
    made = found.estimate
    if raised := [c for c in found.cells if c.few and not math.isnan(c.standard_error)]:
        yield (
            f"few reports behind: {_named(raised, names)}; standard errors are no smaller than the "
            "design makes them, whatever the truth is"
        )
    blank = [c for c in found.cells if math.isnan(c.standard_error)]
    flat = [c for c in blank if c.few and made.n > 1]
    rest = [c for c in blank if c not in flat]
    if flat:
        yield (
            f"undefined: standard errors of {_named(flat, names)}, as no report varies and that "
            "may be chance"
        )
    if rest:
        why = "a stratum has one report only; --lone names remedies"
        if made.n < 2:
            why = "there are fewer than two reports"
        if found.question.estimand == "file" and made.n > 1:
            why = "their unbiased variance is below 0"
        yield f"undefined: standard errors of {_named(rest, names)}, as {why}"


def _size(found: Answer) -> Iterator[str]:
    """What a small number of reports does to ratios and intervals."""
    made = found.estimate
    question = found.question
    if (question.where or question.weights) and made.effective_size < SMALL:
        yield (
            f"small: with an effective size of {made.effective_size:,.0f} a ratio may be far from "
            "the truth, beyond 0 and 1 too, and is wrong on average"
        )
    if made.effective_size >= FEW or found.intervals not in ("Wald", "score"):
        return
    other = ["--interval score"] * (found.intervals == "Wald" and not question.waves)
    other += ["--method mle, which stays between 0 and 1"] * found.likelihood
    compare = f"; compare {' and '.join(other)}" if other else ""
    what = "intervals are wide, and estimates beyond 0 and 1 no surprise"
    if found.intervals == "Wald":
        what = "intervals may cover less than they say, the more so near 0 and 1"
    yield f"few reports: with {_reports(found)} {what}{compare}"


def _reports(found: Answer) -> str:
    """How many reports there are, and how many they are worth where that is another number."""
    made = found.estimate
    if made.freedom is None:
        return f"{made.n:,} {'report' if made.n == 1 else 'reports'}"
    return f"an effective size of {made.effective_size:,.0f}"


def _says_nothing(low: float, high: float) -> bool:
    """Whether an interval is as wide as all proportions, or holds nearly all of them."""
    return high - low >= 1 or min(high, 1) - max(low, 0) >= NOTHING


def _test(fit: Fit) -> str:
    p = f"p = {fit.p_value:.2g}"
    if fit.method == "likelihood ratio":
        degrees = "degree" if fit.freedom == 1 else "degrees"
        return f"likelihood ratio {fit.statistic:.4g} on {fit.freedom} {degrees} of freedom, {p}"
    if fit.method == "standard errors":
        return f"{fit.statistic:.3g} standard errors beyond what can be, {p}"
    return f"{fit.method}, {p}"


def name_cell(cell: Interval, names: Iterable[str]) -> str:
    """A cell as text, such as ``smokes = yes, drug = once``."""
    return ", ".join(f"{n} = {label}" for n, label in zip(names, cell.labels, strict=True))


def _named(cells: list[Interval], names: tuple[str, ...]) -> str:
    shown = "; ".join(name_cell(cell, names) for cell in cells[:NAMED])
    return shown + (f"; and {len(cells) - NAMED:,} more" if len(cells) > NAMED else "")
