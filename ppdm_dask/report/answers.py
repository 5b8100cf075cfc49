"""A page with estimates from reports, for people who do not run the program."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ppdm_dask.drawing.texts import interval_text, number_text
from ppdm_dask.files.writing import write_text
from ppdm_dask.inference.result import Interval
from ppdm_dask.report.rendering import render
from ppdm_dask.survey.estimate import Answer

__all__ = ["write_answers_page"]

ROWS = 1_000
"""Proportions that the page shows of an answer; files have all."""


@dataclass(frozen=True)
class Row:
    """A proportion as the page has it; places along the scale are in per cent of its width."""

    labels: tuple[str, ...]
    value: str
    error: str
    interval: str
    at: float | None
    low: float | None
    high: float | None


def write_answers_page(
    path: Path, answers: Sequence[Answer], said: Sequence[Sequence[str]], digest: str
) -> None:
    """Write the page atomically.

    Parameters
    ----------
    path : Path
        Ends in ``.html``.
    answers : sequence of Answer
    said : sequence of sequence of str
        Sentences on what is known about each answer.
    digest : str
        Of the design.

    Raises
    ------
    RunFolderError
        If the file cannot be written.
    """
    parts = [_part(answer, lines) for answer, lines in zip(answers, said, strict=True)]
    write_text(path, render("answers.html.j2", title="Estimates", parts=parts, digest=digest))


def _part(answer: Answer, said: Sequence[str]) -> dict[str, Any]:
    question, estimate = answer.question, answer.estimate
    shown = answer.cells[:ROWS]
    ends = [x for c in shown for x in (c.lower, c.value, c.upper) if math.isfinite(x)]
    scale = min([0.0, *ends]), max([1.0, *ends]) if max(ends, default=1.0) > 0.5 else max(ends)
    where = "; ".join(f"{name}: {' or '.join(labels)}" for name, labels in question.where.items())
    facts = [("Reports", f"{estimate.n:,}"), ("Method", estimate.method)]
    facts += [("Within", where)] if where else []
    named = {"weights": question.weights, "strata": question.strata, "clusters": question.clusters}
    facts += [(name.capitalize(), column) for name, column in named.items() if column]
    facts.append(("Intervals", f"{100 * question.level:.4g} %, {answer.intervals or 'none'}"))
    return {
        "heading": " by ".join(map(", ".join, filter(None, (question.over, question.by)))),
        "columns": question.columns,
        "rows": [_row(cell, scale) for cell in shown],
        "left": max(len(answer.cells) - ROWS, 0),
        "zero": _place(0.0, scale),
        "ends": [f"{100 * x:.3g} %" for x in scale],
        "facts": facts,
        "said": list(said),
        "comparison": _comparison(answer),
    }


def _place(x: float, scale: tuple[float, float]) -> float | None:
    low, high = scale
    return None if not math.isfinite(x) else round(100 * (x - low) / ((high - low) or 1.0), 2)


def _row(cell: Interval, scale: tuple[float, float]) -> Row:
    known = math.isfinite(cell.upper - cell.lower)
    return Row(
        cell.labels,
        number_text(cell.value),
        number_text(cell.standard_error),
        interval_text(cell.lower, cell.upper),
        _place(cell.value, scale),
        _place(cell.lower, scale) if known else None,
        _place(cell.upper, scale) if known else None,
    )


def _comparison(answer: Answer) -> dict[str, Any] | None:
    made = answer.comparison
    if made is None or not made.rows:
        return None
    k = len(answer.question.columns)
    rows = []
    for row in made.rows[:ROWS]:
        difference, _, lower, upper, *_ = row[k:]
        texts = number_text(difference), interval_text(lower, upper)
        rows.append([*map(str, row[:k]), *texts])
    return {
        "reference": ", ".join(made.reference),
        "columns": answer.question.columns,
        "rows": rows,
        "level": f"{100 * made.level:.4g} %",
    }
