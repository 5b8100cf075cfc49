"""``ppdm import``: answers that people randomised themselves become reports."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

import ppdm_dask as pp
from ppdm_dask.cli.counting import RecordsReporter
from ppdm_dask.cli.options import (
    CodebookFile,
    Decimal,
    Delimiter,
    DesignFile,
    Encoding,
    Force,
    Json,
    Sheet,
    named,
    read_both,
    require_new,
)
from ppdm_dask.cli.output import print_json, print_lines, say
from ppdm_dask.files.regular import ending


def import_(
    data: Annotated[
        list[Path],
        typer.Argument(
            metavar="DATA...",
            help="Files of reported answers, folders of them, or patterns.",
            show_default=False,
        ),
    ],
    codebook: CodebookFile,
    design: DesignFile,
    out: Annotated[
        Path,
        typer.Option(metavar="R", help="Write the reports: .parquet or .csv.", show_default=False),
    ],
    keep: Annotated[
        list[str] | None,
        typer.Option(
            "--keep",
            "--keep-undisguised",
            metavar="A,B",
            help="Columns of true values to keep, such as regions, strata or clusters.",
            show_default="none",
        ),
    ] = None,
    weights: Annotated[
        str | None,
        typer.Option(metavar="COL", help="Column of survey weights to keep.", show_default=False),
    ] = None,
    nonresponse: Annotated[
        Literal["refuse", "drop", "category"],
        typer.Option(
            help="Of rows with an answer missing: refuse the file, leave them out, or take them "
            "for reports of the codebook's category of missing answers."
        ),
    ] = "refuse",
    no_answer: Annotated[
        list[str] | None,
        typer.Option(
            metavar="WORD",
            help="Word that means a missing answer, in addition to empty cells.",
            show_default="none",
        ),
    ] = None,
    unweighted: Annotated[
        Literal["refuse", "drop"],
        typer.Option(
            help="What to do with rows whose weight is 0 or missing: refuse or leave out."
        ),
    ] = "refuse",
    separator: Annotated[
        str,
        typer.Option(metavar="S", help="Separator of the categories in a set report."),
    ] = ";",
    delimiter: Delimiter = None,
    encoding: Encoding = None,
    decimal: Decimal = None,
    sheet: Sheet = None,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Read answers that people randomised themselves, with dice or cards, as reports."""
    book, plan = read_both(codebook, design)
    files = pp.files.expand(data)
    require_new(out, force, (*files, codebook, design))
    if ending(out) == ".csv":
        require_new(pp.survey.beside(out), force, (*files, codebook, design))
    how = pp.files.Reading(delimiter, encoding, decimal, sheet)
    columns = pp.files.open_data(files[0], how=how).columns
    rules = pp.survey.FieldRules(nonresponse, tuple(no_answer or ()), unweighted, separator)
    with RecordsReporter("import") as progress:
        about, left_out = pp.survey.import_files(
            files,
            book,
            plan,
            out,
            keep=named(keep, columns),
            weights=weights,
            rules=rules,
            how=how,
            progress=progress,
        )
    assert about.imported is not None
    if as_json:
        print_json(
            {
                "data": [str(path) for path in data],
                "out": str(out),
                "records": about.n,
                "disguised": [n for n in about.codebook.names if n not in about.undisguised],
                "undisguised": list(about.undisguised),
                "left_out": list(left_out),
                "field": about.imported.config(),
            }
        )
        return
    for part in plan.blocks:
        say(f"{', '.join(part.attributes)}: {part.id}, as people were asked")
    for name in about.undisguised:
        say(f"{name}: undisguised, {pp.survey.kept_as(book, name)}")
    if pp.survey.DESIGN_COLUMN in columns and pp.survey.DESIGN_COLUMN not in book.names:
        say(f"{pp.survey.DESIGN_COLUMN}: all reports are of this design")
    if left_out:
        say(f"left out: {', '.join(left_out)}")
    print_lines(about.imported.sentences())
    say(f"{about.n:,} {'report' if about.n == 1 else 'reports'}: {out}")
