"""``ppdm estimate``: proportions with intervals, and what cannot be known."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ppdm_dask.cli.names import conditions, named
from ppdm_dask.cli.output import print_json, print_lines, print_table, say
from ppdm_dask.cli.survey_files import read_both, require_new
from ppdm_dask.errors import NotInvertible
from ppdm_dask.files.regular import ending
from ppdm_dask.files.writing import spreadsheet_safe

if TYPE_CHECKING:
    from ppdm_dask.inference import Fit
    from ppdm_dask.survey.estimate import Cell, SurveyEstimate

__all__ = ["estimate_answers"]

NUMBERS = ("proportion", "standard_error", "lower", "upper")
"""What files and JSON have of a cell, besides its labels."""

ROWS = 100
"""Cells that the table shows."""


def estimate_answers(
    files: Sequence[Path],
    codebook: Path,
    design: Path,
    out: Path | None,
    *,
    over: Sequence[str],
    method: str,
    level: float,
    estimand: Any,
    where: Sequence[str],
    weights: str | None,
    strata: str | None,
    interval: Any,
    safe: bool = False,
    force: bool,
    as_json: bool,
) -> None:
    """Print the estimate and its limits; write it to a file where one is named."""
    from ppdm_dask.files.writing import write_text
    from ppdm_dask.survey.counts import open_sources, remarks
    from ppdm_dask.survey.estimate import Question, estimate_files
    from ppdm_dask.survey.statements import statements

    book, plan = read_both(codebook, design)
    require_new(out, force, (*files, codebook, design), (".csv", ".json"))
    asked = conditions(where, {a.name: a.categories for a in book.attributes})
    question = Question(
        tuple(named(over, book.names)),
        method,
        level,
        estimand,
        asked,
        weights,
        strata,
        interval,
    )
    try:
        question.check(book, plan)
    except NotInvertible as error:
        raise NotInvertible(f"{design}: {error}", error.subject) from None
    sources = open_sources(files, book, plan, {"codebook": codebook, "design": design})
    found = estimate_files(sources, book, plan, question)
    said = [*statements(found), *remarks(sources)]
    if out is not None:
        as_csv = ending(out) == ".csv"
        whole = _csv(found, safe) if as_csv else json.dumps(_json(found, said), indent=2) + "\n"
        write_text(out, whole)
    if as_json:
        print_json(_json(found, said))
        return
    _print(found)
    say()
    print_lines(said)
    if out is not None:
        say(f"written: {out}")


def _json(found: SurveyEstimate, said: list[str]) -> dict[str, Any]:
    question = found.question
    return {
        "over": list(question.over),
        "n": found.n,
        "effective_size": found.size,
        "degrees_of_freedom": found.freedom,
        "estimand": question.estimand,
        "method": question.method,
        "level": question.level,
        "intervals": found.intervals or None,
        "where": {name: list(labels) for name, labels in question.where.items()},
        "weights": question.weights,
        "strata": question.strata,
        "simulated": found.simulated,
        "negative": found.negative,
        "counted_along": list(found.whole),
        "fit": _fit(found.fit),
        "cells": [
            {
                "labels": dict(zip(question.over, cell.labels, strict=True)),
                **dict(zip(NUMBERS, _numbers(cell), strict=True)),
            }
            for cell in found.cells
        ],
        "statements": said,
    }


def _numbers(cell: Cell) -> list[float | None]:
    return [getattr(cell, name) for name in NUMBERS]


def _fit(fit: Fit) -> dict[str, Any]:
    numbers = {"p_value": fit.p_value, "statistic": fit.statistic}
    return {
        **{name: None if math.isnan(value) else value for name, value in numbers.items()},
        "freedom": fit.freedom,
        "method": fit.method or None,
        "contradicts": fit.contradicts,
        "reason": fit.reason or None,
    }


def _headed(over: Sequence[str], names: Sequence[str]) -> list[str]:
    """Heads of columns of labels and of numbers; a number's has ``_`` added if a label's is equal.

    Attributes keep their names.
    """
    heads = list(over)
    for name in names:
        while name in heads:
            name += "_"
        heads.append(name)
    return heads


def _csv(found: SurveyEstimate, safe: bool) -> str:
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    quote = spreadsheet_safe if safe else list
    over, asked = _headed(found.question.over, NUMBERS), len(found.question.over)
    writer.writerow([*quote(over[:asked]), *over[asked:]])
    for cell in found.cells:
        numbers = ["" if v is None else repr(v) for v in _numbers(cell)]
        writer.writerow([*quote(cell.labels), *numbers])
    return file.getvalue()


def _print(found: SurveyEstimate) -> None:
    from ppdm_dask.drawing.tables import plain_table

    over = found.question.over
    rows = [
        [
            *cell.labels,
            f"{cell.proportion:.4f}",
            "undefined" if cell.standard_error is None else f"{cell.standard_error:.4f}",
            "undefined"
            if cell.lower is None or cell.upper is None
            else f"{cell.lower:.4f} to {cell.upper:.4f}",
        ]
        for cell in found.cells[:ROWS]
    ]
    level = f"{100 * found.question.level:.4g} % interval"
    header = _headed(over, ["proportion", "standard error", level])
    print_table(plain_table(header, rows, right=range(len(over), len(header))))
    if len(found.cells) > ROWS:
        say(f"{ROWS} of {len(found.cells):,} cells; --out and --json have all")
