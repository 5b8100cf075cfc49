"""What an estimate says, and what it cannot know, in plain sentences."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ppdm_dask.survey.estimate import Cell, SurveyEstimate

__all__ = ["FEW", "name_cell", "statements"]

FEW = 300
"""Reports below which Wald intervals may cover less than they say."""

NAMED = 8
"""Cells that a sentence names before it counts the rest."""


def statements(found: SurveyEstimate) -> list[str]:
    """Sentences on the estimand, the method, the intervals, and the limits of all three."""
    return [*_what(found), *_limits(found)]


def _what(found: SurveyEstimate) -> Iterator[str]:
    question = found.question
    reports = f"{found.n:,} {'report' if found.n == 1 else 'reports'}"
    if question.estimand == "population":
        yield f"estimated: proportions in the population behind {reports}"
    else:
        yield f"estimated: proportions among these {found.n:,} records, in no wider population"
    if question.where:
        within = " and ".join(f"{k} = {' or '.join(v)}" for k, v in question.where.items())
        yield f"within: {within}; its size is itself an estimate, and enters the intervals"
    if question.weights or question.strata:
        parts = [("weights", question.weights), ("strata", question.strata)]
        yield "survey: " + ", ".join(f"{what} from {name!r}" for what, name in parts if name)
    yield {
        "invert": "method: inversion, unbiased; nothing is clipped or scaled",
        "mle": "method: maximum likelihood, within 0 and 1; biased where an estimate is at 0 or 1",
        "em": "method: expectation-maximisation, within 0 and 1; close to maximum likelihood",
    }[question.method]
    if found.intervals:
        good = f"; good from about {FEW} reports, away from 0 and 1"
        what = f"intervals: {100 * question.level:.4g} %, {found.intervals}"
        yield what + (good if found.intervals == "Wald" else "")
    if (factor := _widening(found)) is not None:
        yield (
            f"price: these intervals are about {factor:.2g} times as wide as those of the same "
            "answers undisguised"
        )


def _widening(found: SurveyEstimate) -> float | None:
    """Standard errors over those of undisguised answers, by their median."""
    question = found.question
    if question.where or question.weights or question.strata or question.estimand == "file":
        return None
    ratios = [
        cell.standard_error / math.sqrt(cell.proportion * (1 - cell.proportion) / found.n)
        for cell in found.cells
        if cell.standard_error is not None and 0.01 < cell.proportion < 0.99
    ]
    return statistics.median(ratios) if ratios else None


def _limits(found: SurveyEstimate) -> Iterator[str]:
    names = found.question.over
    zero = [c for c in found.cells if c.lower is not None and c.lower <= 0]
    one = [c for c in found.cells if c.upper is not None and c.upper >= 1]
    if zero:
        yield f"cannot be told from 0: {_named(zero, names)}"
    if one:
        yield f"cannot be told from 1: {_named(one, names)}"
    if found.negative and found.question.method == "invert":
        below = [cell for cell in found.cells if cell.proportion < 0]
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
    if found.reason:
        yield f"no standard errors: {found.reason.partition('; ask for')[0]}"
    elif blank := [c for c in found.cells if c.standard_error is None]:
        why = (
            "there are fewer than two reports" if found.n < 2 else "a stratum has one report alone"
        )
        if found.question.estimand == "file" and found.n > 1:
            why = "their unbiased variance is below 0"
        yield f"undefined: standard errors of {_named(blank, names)}, as {why}"
    if found.n < FEW and found.intervals == "Wald":
        yield (
            f"few reports: with {found.n:,} intervals may cover less than they say, the more so "
            "near 0 and 1; compare --method mle"
        )
    if found.simulated:
        yield "simulated: a seed drew the disguise of some reports, which protects nobody"
    yield (
        "cannot be known: anyone's own answer; whether answers were true; how those who did not "
        "answer differ"
    )


def name_cell(cell: Cell, names: Iterable[str]) -> str:
    """A cell in words, such as ``smokes = yes, drug = once``."""
    return ", ".join(f"{n} = {label}" for n, label in zip(names, cell.labels, strict=True))


def _named(cells: list[Cell], names: tuple[str, ...]) -> str:
    shown = "; ".join(name_cell(cell, names) for cell in cells[:NAMED])
    return shown + (f"; and {len(cells) - NAMED:,} more" if len(cells) > NAMED else "")
