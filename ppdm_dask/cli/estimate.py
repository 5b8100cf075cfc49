"""``ppdm count`` and ``ppdm estimate``: reports added up, and what follows from them."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

import ppdm_dask as pp
from ppdm_dask.cli.counting import RecordsReporter
from ppdm_dask.cli.options import (
    Cluster,
    CodebookFile,
    DesignFile,
    Force,
    Json,
    PartWorkers,
    Sources,
    SpreadsheetSafe,
    conditions,
    named,
    read_both,
    require_new,
)
from ppdm_dask.cli.output import print_json, print_lines, print_rows, say
from ppdm_dask.errors import InputError, NotInvertible
from ppdm_dask.files.regular import ending

__all__ = ["count", "estimate"]

NUMBERS = ("proportion", "standard_error", "lower", "upper")
"""What files and JSON have of a cell, besides its labels."""

ROWS = 100
"""Cells that the table shows."""


def count(
    files: Sources,
    codebook: CodebookFile,
    design: DesignFile,
    out: Annotated[
        Path | None,
        typer.Option(metavar="COUNTS", help="The counts: .parquet.", show_default=False),
    ] = None,
    add: Annotated[
        Path | None,
        typer.Option(
            metavar="COUNTS",
            help="In place of --out: add to these counts what they do not hold yet.",
            show_default=False,
        ),
    ] = None,
    over: Annotated[
        list[str] | None,
        typer.Option(
            metavar="A,B", help="Attributes to count.", show_default="all, or those of --add"
        ),
    ] = None,
    workers: PartWorkers = 0,
    cluster: Cluster = None,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Count reports; files of counts add up like files of reports."""
    if (out is None) == (add is None):
        raise InputError("--out or --add is needed, and only one of them", out)
    book, plan = read_both(codebook, design)
    target = out if add is None else add
    assert target is not None
    there = add is not None and add.exists()
    require_new(target, force or there, (*files, codebook, design), (".parquet",))
    passed, found = 0, list[Any](files)
    if there:
        new, passed = pp.survey.not_counted(files, target)
        found = [target, *new]
    place = pp.cluster.Place(workers, cluster, target.absolute().parent)
    sources = pp.survey.open_sources(found, book, plan, {"codebook": codebook, "design": design})
    names = named(over, book.names) or list(sources[0][1].codebook.names)
    with RecordsReporter("count") as progress, place.client() as client:
        done = progress(sum(about.n or 0 for _, about in sources))
        table = pp.survey.count_files(sources, book, plan, names, client=client, done=done)
    made = pp.survey.counted_about(sources, table, plan)
    if there and list(sources[0][1].codebook.names) != list(table.attributes):
        before = ", ".join(sources[0][1].codebook.names)
        raise InputError(f"--over: {target} is over {before}; --add counts the same", names)
    if not there or len(found) > 1:
        pp.survey.write_counts(target, table, made, [path for path, _ in sources])
    cells = len(table.sparse().counts)
    along = [name for name in table.attributes if name not in names]
    if as_json:
        print_json(
            {
                "files": [str(path) for path, _ in sources],
                "out": str(target),
                "over": list(table.attributes),
                "counted_along": along,
                "reports": table.n,
                "cells": cells,
                "simulated": table.simulated,
                "counted_before": passed,
                "remarks": pp.survey.remarks(sources),
            }
        )
        return
    print_lines(_named(sources))
    if passed:
        noun = "file" if passed == 1 else "files"
        say(f"passed over, as they are counted already: {passed:,} {noun} of reports")
    if along:
        say(f"counted along, as its block does not marginalise: {', '.join(along)}")
    if table.simulated:
        say("simulated: some of the reports protect nobody")
    print_lines(pp.survey.remarks(sources))
    say(f"{table.n:,} reports in {cells:,} cells over {', '.join(table.attributes)}: {target}")


def _named(sources: pp.survey.Sources) -> Iterator[str]:
    """A line for each file, and one for all parts in a folder."""
    parts: dict[Path, int] = {}
    for path, about in sources:
        if about.seal:
            parts[path.parent] = parts.get(path.parent, 0) + 1
    for path, about in sources:
        what = f"{about.kind} of {', '.join(about.codebook.names)}"
        if not about.seal:
            yield f"{path}: {what}"
        elif n := parts.pop(path.parent, 0):
            yield f"{path.parent}: {what}, {n:,} {'part' if n == 1 else 'parts'}"


def estimate(
    files: Sources,
    codebook: CodebookFile,
    design: DesignFile,
    over: Annotated[
        list[str],
        typer.Option(
            metavar="A,B", help="Attributes whose proportions are asked for.", show_default=False
        ),
    ],
    method: Annotated[
        Literal["invert", "mle", "em"],
        typer.Option(help="Unbiased inversion, or most likely proportions."),
    ] = "invert",
    level: Annotated[float, typer.Option(metavar="P", help="Level of the intervals.")] = 0.95,
    interval: Annotated[
        Literal["score", "wald"],
        typer.Option(help="Of inverted proportions; wald: by standard errors."),
    ] = "score",
    estimand: Annotated[
        Literal["population", "file"],
        typer.Option(help="The population behind the reports, or their records alone."),
    ] = "population",
    by: Annotated[
        list[str] | None,
        typer.Option(
            metavar="A,B",
            help="Attributes whose categories make groups; proportions are within each.",
            show_default=False,
        ),
    ] = None,
    where: Annotated[
        list[str] | None,
        typer.Option(
            metavar="A=VALUE,B=VALUE", help="Proportions within this.", show_default=False
        ),
    ] = None,
    weights: Annotated[
        str | None,
        typer.Option(metavar="COL", help="Undisguised survey weights.", show_default=False),
    ] = None,
    strata: Annotated[
        str | None, typer.Option(metavar="COL", help="Undisguised strata.", show_default=False)
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="The estimate: .csv or .json.", show_default=False),
    ] = None,
    spreadsheet_safe: SpreadsheetSafe = False,
    workers: PartWorkers = 0,
    cluster: Cluster = None,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Estimate proportions with intervals, and say what cannot be known."""
    book, plan = read_both(codebook, design)
    require_new(out, force, (*files, codebook, design), (".csv", ".json"))
    asked = conditions(where or [], {a.name: a.categories for a in book.attributes})
    question = pp.survey.Question(
        tuple(named(over, book.names)),
        method,
        level,
        estimand,
        asked,
        weights,
        strata,
        interval,
        tuple(named(by, book.names)),
    )
    try:
        question.check(book, plan)
    except NotInvertible as error:
        raise NotInvertible(f"{design}: {error}", error.subject) from None
    sources = pp.survey.open_sources(files, book, plan, {"codebook": codebook, "design": design})
    place = pp.cluster.Place(workers, cluster)
    with RecordsReporter("estimate") as progress, place.client() as client:
        done = progress(sum(about.n or 0 for _, about in sources))
        found = pp.survey.estimate_files(sources, book, plan, question, client=client, done=done)
    said = [*pp.survey.statements(found), *pp.survey.remarks(sources)]
    if out is not None:
        as_csv = ending(out) == ".csv"
        whole = (
            _csv(found, spreadsheet_safe)
            if as_csv
            else json.dumps(_json(found, said), indent=2) + "\n"
        )
        pp.files.write_text(out, whole)
    if as_json:
        print_json(_json(found, said))
        return
    _print(found)
    say()
    print_lines(said)
    if out is not None:
        say(f"written: {out}")


def _json(found: pp.survey.Answer, said: list[str]) -> dict[str, Any]:
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
        "statements": said,
    }


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


def _csv(found: pp.survey.Answer, safe: bool) -> str:
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    quote = pp.files.spreadsheet_safe if safe else list
    columns = found.question.columns
    over, asked = _headed(columns, NUMBERS), len(columns)
    writer.writerow([*quote(over[:asked]), *over[asked:]])
    for cell in found.cells:
        numbers = ["" if v is None else repr(v) for v in _numbers(cell)]
        writer.writerow([*quote(cell.labels), *numbers])
    return file.getvalue()


def _print(found: pp.survey.Answer) -> None:
    over = found.question.columns
    rows = [
        [
            *cell.labels,
            f"{cell.value:.4f}",
            "undefined" if math.isnan(cell.standard_error) else f"{cell.standard_error:.4f}",
            "undefined"
            if math.isnan(cell.upper - cell.lower)
            else f"{cell.lower:.4f} to {cell.upper:.4f}",
        ]
        for cell in found.cells[:ROWS]
    ]
    level = f"{100 * found.question.level:.4g} % interval"
    header = _headed(over, ["proportion", "standard error", level])
    print_rows(header, rows, right=range(len(over), len(header)))
    if len(found.cells) > ROWS:
        say(f"{ROWS} of {len(found.cells):,} cells; --out and --json have all")
