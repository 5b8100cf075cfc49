"""How answers of ``ppdm estimate`` are written: tables, charts, CSV, Parquet and JSON."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import ppdm_dask as pp
from ppdm_dask.cli.options import plain
from ppdm_dask.cli.output import print_rows, say

__all__ = [
    "answer_document",
    "answers_csv",
    "interval_chart",
    "print_answer",
    "print_comparison",
    "write_answers",
]

NUMBERS = ("proportion", "standard_error", "lower", "upper")
"""What files and JSON have of a cell, apart from its labels."""

ROWS = 100
"""Cells that the table shows."""


def answer_document(found: pp.survey.Answer, said: list[str]) -> dict[str, Any]:
    """What JSON has of an answer and its sentences."""
    question = found.question
    return {
        "over": list(question.over),
        "n": found.estimate.n,
        "effective_size": found.estimate.effective_size,
        "degrees_of_freedom": found.estimate.freedom,
        "estimand": question.estimand,
        "method": question.method,
        "level": question.level,
        "intervals": found.intervals or None,
        "by": list(question.by),
        "where": {name: list(labels) for name, labels in question.where.items()},
        "weights": question.weights,
        "strata": question.strata,
        "clusters": question.clusters,
        "fpc": question.fpc,
        "lone": question.lone,
        "replicates": _of_replicates(question.replicates),
        **({"waves": question.waves} if question.waves else {}),
        "simulated": found.simulated,
        "negative": found.negative,
        "counted_along": list(found.whole),
        "fit": _fit(found.estimate.fit),
        "cells": [
            {
                "labels": dict(zip(question.columns, cell.labels, strict=True)),
                **dict(zip(NUMBERS, _numbers(cell), strict=True)),
            }
            for cell in found.cells
        ],
        "comparison": _comparison(found),
        "statements": said,
    }


def _of_replicates(replicates: pp.inference.Replicates | None) -> dict[str, Any] | None:
    if replicates is None:
        return None
    rscales = replicates.rscales
    return {
        "columns": list(replicates.weights),
        "method": replicates.kind,
        "scale": replicates.scale,
        "rscales": rscales if rscales is None or isinstance(rscales, float) else list(rscales),
        "rho": replicates.rho,
    }


def _comparison(found: pp.survey.Answer) -> dict[str, Any] | None:
    made = found.comparison
    if made is None:
        return None
    columns, test = found.question.columns, made.test
    return {
        "reference": dict(zip(found.question.by, made.reference, strict=True)),
        "rows": [
            {
                "labels": dict(zip(columns, row[: len(columns)], strict=True)),
                **{
                    name: _plain(value)
                    for name, value in zip(pp.inference.COMPARED, row[len(columns) :], strict=True)
                },
            }
            for row in made.rows
        ],
        "test": {
            "statistic": _plain(test.statistic),
            "freedom": [_plain(x) for x in test.freedom],
            "p_value": _plain(test.p_value),
            "reason": test.reason or None,
        },
    }


def _plain(x: float) -> float | str | None:
    return None if math.isnan(x) else plain(x)


def _numbers(cell: pp.inference.Interval) -> list[float | None]:
    numbers = (cell.value, cell.standard_error, cell.lower, cell.upper)
    return [None if math.isnan(x) else x for x in numbers]


def _fit(fit: pp.inference.Fit) -> dict[str, Any]:
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


def _table(found: Sequence[pp.survey.Answer], each: bool) -> tuple[list[str], int, list[Any]]:
    """Heads of columns, how many of them are of labels, and rows of labels and numbers."""
    question = found[0].question
    # Several questions have no common attribute: its name becomes a column.
    columns = (*question.by, "attribute", "label") if each else question.columns
    rows = []
    for answer in found:
        over, groups = answer.question.over, len(question.by)
        for cell in answer.cells:
            labels = [*cell.labels]
            if each:
                labels[groups:groups] = over
            rows.append((labels, _numbers(cell)))
    return _headed(columns, NUMBERS), len(columns), rows


def answers_csv(found: Sequence[pp.survey.Answer], each: bool, safe: bool) -> str:
    """Proportions as CSV; `each` says whether the answers are to several questions."""
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    quote = pp.files.spreadsheet_safe if safe else list
    heads, asked, rows = _table(found, each)
    writer.writerow([*quote(heads[:asked]), *heads[asked:]])
    for labels, numbers in rows:
        writer.writerow([*quote(labels), *("" if v is None else repr(v) for v in numbers)])
    return file.getvalue()


def write_answers(path: Path, found: Sequence[pp.survey.Answer], each: bool) -> None:
    """Write the same as Parquet."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    heads, asked, rows = _table(found, each)
    columns = [pa.array([labels[i] for labels, _ in rows], pa.string()) for i in range(asked)]
    for i in range(len(NUMBERS)):
        columns.append(pa.array([numbers[i] for _, numbers in rows], pa.float64()))
    with pp.files.replacing(path) as aside:
        pq.write_table(pa.Table.from_arrays(columns, heads), aside)


def print_answer(found: pp.survey.Answer) -> None:
    """Print a table of proportions with errors and intervals."""
    over = found.question.columns
    rows = [
        [
            *cell.labels,
            f"{cell.value:.4f}",
            pp.drawing.number_text(cell.standard_error),
            pp.drawing.interval_text(cell.lower, cell.upper),
        ]
        for cell in found.cells[:ROWS]
    ]
    level = f"{100 * found.question.level:.4g} % interval"
    header = _headed(over, ["proportion", "standard error", level])
    print_rows(header, rows, right=range(len(over), len(header)))
    if len(found.cells) > ROWS:
        say(f"{ROWS} of {len(found.cells):,} cells; --out and --json have all")


def print_comparison(found: pp.survey.Answer) -> None:
    """Print how groups differ from one of them, where there are groups."""
    made = found.comparison
    if made is None or not made.rows:
        return
    columns = found.question.columns
    rows = []
    for row in made.rows[:ROWS]:
        difference, _, lower, upper, ratio, least, most = row[len(columns) :]
        if math.isnan(least):  # a ratio without an interval is not shown
            ratio = least
        rows.append(
            [
                *row[: len(columns)],
                pp.drawing.number_text(difference),
                pp.drawing.interval_text(lower, upper),
                pp.drawing.number_text(ratio),
                pp.drawing.interval_text(ratio if math.isnan(ratio) else least, most),
            ]
        )
    say()
    say(f"compared with {', '.join(made.reference)}:")
    level = f"{100 * made.level:.4g} % interval"
    header = _headed(columns, ["difference", level, "ratio", f"{level} "])
    print_rows(header, rows, right=range(len(columns), len(header)))
    if len(made.rows) > ROWS:
        say(f"{ROWS} of {len(made.rows):,} differences; --json has all")


BAR = 48
"""Columns of the intervals of a chart."""


def interval_chart(cells: Sequence[pp.inference.Interval]) -> Iterator[str]:
    """Lines that draw intervals and estimates, over one scale.

    Cells without an interval have their estimate only; after a hundred cells it ends.
    """
    shown_cells = cells[:ROWS]
    ends = [x for c in shown_cells for x in (c.lower, c.value, c.upper) if not math.isnan(x)]
    low, high = min([0.0, *ends]), max(ends, default=1.0)
    if high <= low:
        high = low + 1.0
    names = [", ".join(cell.labels) for cell in shown_cells]
    wide = max(map(len, names), default=0)

    def at(x: float) -> int:
        return round((x - low) / (high - low) * (BAR - 1))

    for name, cell in zip(names, shown_cells, strict=True):
        line = [" "] * BAR
        if low < 0:
            line[at(0)] = "┊"
        if not math.isnan(cell.upper - cell.lower):
            line[at(cell.lower) : at(cell.upper) + 1] = "─" * (at(cell.upper) - at(cell.lower) + 1)
            line[at(cell.lower)], line[at(cell.upper)] = "├", "┤"
        if not math.isnan(cell.value):
            line[at(cell.value)] = "●"
        yield f"{name:<{wide}}  {''.join(line)}".rstrip()
    left, right = f"{low:.3g}", f"{high:.3g}"
    yield f"{'':<{wide}}  {left}{right:>{BAR - len(left)}}"
