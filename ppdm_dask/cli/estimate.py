"""``ppdm count`` and ``ppdm estimate``: reports added up, and what follows from them."""

from __future__ import annotations

import fnmatch
import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

import typer

import ppdm_dask as pp
from ppdm_dask.cli.answers import (
    answer_document,
    answers_csv,
    interval_chart,
    print_answer,
    print_comparison,
    write_answers,
)
from ppdm_dask.cli.counting import RecordsReporter
from ppdm_dask.cli.options import (
    Cluster,
    Clusters,
    CodebookFile,
    DesignFile,
    Force,
    Fpc,
    Json,
    Level,
    PartWorkers,
    Remedy,
    Sources,
    SpreadsheetSafe,
    Strata,
    Weights,
    conditions,
    named,
    read_both,
    require_new,
)
from ppdm_dask.cli.output import print_json, print_lines, say
from ppdm_dask.errors import InputError, NotInvertible
from ppdm_dask.files.regular import ending
from ppdm_dask.shown import shown

__all__ = ["count", "estimate"]

Kind = Literal["JK1", "JKn", "BRR", "Fay", "bootstrap"]


def count(
    files: Sources,
    codebook: CodebookFile,
    design: DesignFile,
    out: Annotated[
        Path | None,
        typer.Option(metavar="COUNTS", help="Write the counts: .parquet.", show_default=False),
    ] = None,
    add: Annotated[
        Path | None,
        typer.Option(
            metavar="COUNTS",
            help="Instead of --out: add the files that are not in these counts yet.",
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
    """Count reports, or add up files of counts."""
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
        raise InputError(
            f"--over: {target} counts {before}; --add needs the same attributes", names
        )
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
        say(f"skipped, as already counted: {passed:,} {noun} of reports")
    if along:
        say(f"counted too, as the block does not marginalise: {', '.join(along)}")
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
            metavar="A,B", help="Attributes whose proportions to estimate.", show_default=False
        ),
    ],
    each: Annotated[
        bool,
        typer.Option(
            "--each", help="Estimate each attribute of --over by itself, not their combinations."
        ),
    ] = False,
    method: Annotated[
        Literal["invert", "mle", "em"],
        typer.Option(help="Unbiased inversion, or maximum likelihood (by EM)."),
    ] = "invert",
    level: Level = 0.95,
    interval: Annotated[
        Literal["score", "wald"],
        typer.Option(help="Interval of inverted proportions; wald uses standard errors."),
    ] = "score",
    estimand: Annotated[
        Literal["population", "file"],
        typer.Option(
            help="What to estimate: the population behind the reports, or only these records."
        ),
    ] = "population",
    by: Annotated[
        list[str] | None,
        typer.Option(
            metavar="A,B",
            help="Attributes whose categories are the groups to estimate for.",
            show_default=False,
        ),
    ] = None,
    reference: Annotated[
        list[str] | None,
        typer.Option(
            metavar="A=VALUE",
            help="Compare the other groups of --by with this one.",
            show_default="the first",
        ),
    ] = None,
    where: Annotated[
        list[str] | None,
        typer.Option(
            metavar="A=VALUE,B=VALUE",
            help="Estimate only among people with these values.",
            show_default=False,
        ),
    ] = None,
    waves: Annotated[
        bool,
        typer.Option("--waves", help="Treat each SOURCE as one wave of the same people."),
    ] = False,
    weights: Weights = None,
    strata: Strata = None,
    clusters: Clusters = None,
    fpc: Fpc = None,
    lone: Remedy = "fail",
    replicates: Annotated[
        list[str] | None,
        typer.Option(
            metavar="COL,COL",
            help="Columns of undisguised replicate weights; * stands for any letters.",
            show_default=False,
        ),
    ] = None,
    replicate_method: Annotated[
        Kind | None,
        typer.Option(help="Method that made the replicate weights.", show_default=False),
    ] = None,
    scale: Annotated[
        float | None,
        typer.Option(
            metavar="X",
            help="Factor of the replicates' variance.",
            show_default="as the method has it",
        ),
    ] = None,
    rscales: Annotated[
        str | None,
        typer.Option(
            metavar="X,X", help="Factor of each replicate, or one for all.", show_default="1"
        ),
    ] = None,
    rho: Annotated[
        float | None,
        typer.Option(metavar="X", help="Coefficient of Fay's method.", show_default=False),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Write the estimate: .csv, .json or .parquet.", show_default=False
        ),
    ] = None,
    page: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Write a page with tables and intervals: one .html file.",
            show_default=False,
        ),
    ] = None,
    chart: Annotated[bool, typer.Option("--chart", help="Draw the intervals too.")] = False,
    spreadsheet_safe: SpreadsheetSafe = False,
    workers: PartWorkers = 0,
    cluster: Cluster = None,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Estimate proportions with intervals, and state what cannot be known."""
    book, plan = read_both(codebook, design)
    require_new(out, force, (*files, codebook, design), (".csv", ".json", ".parquet"))
    if page is not None:
        require_new(page, force, (*files, codebook, design), (".html",))
    labels = {a.name: a.categories for a in book.attributes}
    asked = conditions(where or [], labels)
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
        clusters,
        fpc,
        lone=lone,
        waves=len(files) if waves else 0,
    )
    group = _reference(conditions(reference or [], labels, "--reference"), question.by)
    questions = [question]
    if each:
        questions = [replace(question, over=(name,)) for name in question.over]
    try:
        for one in questions:
            one.check(book, plan)
    except NotInvertible as error:
        raise NotInvertible(f"{design}: {error}", error.subject) from None
    sources = pp.survey.open_sources(files, book, plan, {"codebook": codebook, "design": design})
    kept = sources[0][1].undisguised
    made = _replicates(named(replicates, kept), kept, replicate_method, scale, rscales, rho)
    questions = [replace(one, replicates=made) for one in questions]
    for one in questions:
        one.check(book, plan)
    stated = {"codebook": codebook, "design": design}
    apart = [pp.survey.open_sources([each], book, plan, stated) for each in files] if waves else []
    place = pp.cluster.Place(workers, cluster)
    found = []
    with RecordsReporter("estimate") as progress, place.client() as client:
        done = progress(len(questions) * sum(about.n or 0 for _, about in sources))
        for one in questions:
            if waves:
                found.append(pp.survey.estimate_wave_files(apart, book, plan, one))
                continue
            answer = pp.survey.estimate_files(
                sources, book, plan, one, reference=group, client=client, done=done
            )
            found.append(answer)
    # Of several waves it goes without saying that they hold the same people.
    remarks = [line for each in apart or [sources] for line in pp.survey.remarks(each)]
    if len(files) > 1 and not waves and pp.designs.permanent_blocks(plan):
        remarks.append(
            "waves: if these are waves of the same people, errors are larger; ask with --waves"
        )
    said = [[*pp.survey.statements(answer), *remarks] for answer in found]
    documents = [answer_document(answer, lines) for answer, lines in zip(found, said, strict=True)]
    document = {"answers": documents} if each else documents[0]
    if out is not None:
        if ending(out) == ".parquet":
            write_answers(out, found, each)
        elif ending(out) == ".csv":
            pp.files.write_text(out, answers_csv(found, each, spreadsheet_safe))
        else:
            pp.files.write_text(out, json.dumps(document, indent=2) + "\n")
    if page is not None:
        pp.report.write_answers_page(page, found, said, plan.digest)
    if as_json:
        print_json(document)
        return
    for i, (answer, lines) in enumerate(zip(found, said, strict=True)):
        if i:
            say()
        print_answer(answer)
        if chart:
            say()
            print_lines(interval_chart(answer.cells))
        print_comparison(answer)
        say()
        print_lines(lines)
    for path in (out, page):
        if path is not None:
            say(f"written: {path}")


def _replicates(
    names: Sequence[str],
    kept: Sequence[str],
    method: Kind | None,
    scale: float | None,
    rscales: str | None,
    rho: float | None,
) -> pp.inference.Replicates | None:
    """Replicate weights that the options name, if they name some."""
    if not names:
        if any(x is not None for x in (method, scale, rscales, rho)):
            raise InputError("--replicates: none are named; columns are needed")
        return None
    if method is None:
        raise InputError(
            f"--replicate-method: none is given; one of {', '.join(get_args(Kind))} is needed"
        )
    found: list[str] = []
    for name in names:
        matches = [name] if name in kept else [k for k in kept if fnmatch.fnmatchcase(k, name)]
        found += [k for k in matches or [name] if k not in found]
    numbers = None
    if rscales is not None:
        try:
            numbers = [float(text) for text in rscales.split(",")]
        except ValueError:
            raise InputError(
                f"--rscales: got {shown(rscales)}; numbers between commas are needed", rscales
            ) from None
    one = numbers[0] if numbers is not None and len(numbers) == 1 else numbers
    return pp.inference.Replicates(tuple(found), method, scale, one, rho)


def _reference(given: dict[str, list[str]], by: tuple[str, ...]) -> tuple[str, ...] | None:
    """Labels of the group of reference."""
    if not given:
        return None
    if set(given) != set(by) or any(len(labels) != 1 for labels in given.values()):
        raise InputError(
            f"--reference: one category of each of {', '.join(by) or 'the attributes of --by'} is "
            "needed",
            given,
        )
    return tuple(given[name][0] for name in by)
