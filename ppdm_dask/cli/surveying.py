"""The commands of a survey and their options; see :mod:`ppdm_dask.cli.app`."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from ppdm_dask.cli.app import Json, SpreadsheetSafe, app

__all__ = ["audit", "codebook", "count", "disguise", "estimate"]


class Estimator(StrEnum):
    """How ``ppdm estimate`` estimates."""

    INVERT = "invert"
    MLE = "mle"
    EM = "em"


class IntervalBy(StrEnum):
    """How ``ppdm estimate`` makes intervals of estimates by inversion."""

    SCORE = "score"
    WALD = "wald"


class Order(StrEnum):
    """How ``ppdm codebook`` orders categories."""

    SORTED = "sorted"
    APPEARANCE = "appearance"


class About(StrEnum):
    """What an estimate is about."""

    POPULATION = "population"
    FILE = "file"


Data = Annotated[
    Path, typer.Argument(metavar="DATA", help="A .csv or .parquet file.", show_default=False)
]
CodebookFile = Annotated[
    Path,
    typer.Option(
        "--codebook", metavar="C", help="Codebook: the declared answers.", show_default=False
    ),
]
DesignFile = Annotated[
    Path,
    typer.Option(
        "--design", metavar="D", help="Design: how answers are disguised.", show_default=False
    ),
]
Sources = Annotated[
    list[Path],
    typer.Argument(
        metavar="FILE...", help="Files of reports, of counts, or of both.", show_default=False
    ),
]
Force = Annotated[bool, typer.Option("--force", help="Replace a file that is there.")]


@app.command()
def codebook(
    data: Data,
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="The codebook: .toml.", show_default="print it"),
    ] = None,
    order: Annotated[Order, typer.Option(help="Of categories.")] = Order.SORTED,
    most: Annotated[
        int,
        typer.Option(
            "--max-categories",
            min=2,
            metavar="N",
            help="Of more, numbers are cut into bins, and texts left out and said to be.",
        ),
    ] = 20,
    bins: Annotated[int, typer.Option(min=2, metavar="K", help="Bins of numbers.")] = 4,
    force: Force = False,
    json: Json = False,
) -> None:
    """Propose a codebook from a file, for you to edit."""
    from ppdm_dask.cli.codebook import propose

    propose(data, out, order=order.value, most=most, bins=bins, force=force, as_json=json)


@app.command()
def disguise(
    data: Data,
    codebook: CodebookFile,
    design: DesignFile,
    out: Annotated[
        Path,
        typer.Option(metavar="R", help="The reports: .parquet or .csv.", show_default=False),
    ],
    keep: Annotated[
        list[str] | None,
        typer.Option(
            "--keep-undisguised",
            metavar="A,B",
            help="Columns to report as they are, in truth.",
            show_default="none",
        ),
    ] = None,
    drop: Annotated[
        list[str] | None,
        typer.Option(metavar="A,B", help="Columns to leave out.", show_default="none"),
    ] = None,
    accept: Annotated[
        list[str] | None,
        typer.Option(
            "--accept-certain",
            metavar="NAME",
            help="Attribute, label or ATTRIBUTE=LABEL that a report may make certain.",
            show_default="none",
        ),
    ] = None,
    simulate: Annotated[
        int | None,
        typer.Option(
            min=0,
            metavar="SEED",
            help="Repeatable draws, which protect nobody.",
            show_default=False,
        ),
    ] = None,
    block: Annotated[
        int, typer.Option(min=1, metavar="N", help="Records held at a time.")
    ] = 65_536,
    force: Force = False,
    json: Json = False,
) -> None:
    """Disguise the answers of a file, on the client side; true answers stay in the file."""
    from ppdm_dask.cli.disguise import disguise_answers

    disguise_answers(
        data,
        codebook,
        design,
        out,
        keep=keep or [],
        drop=drop or [],
        accept=accept or [],
        simulate=simulate,
        block=block,
        force=force,
        as_json=json,
    )


@app.command()
def count(
    files: Sources,
    codebook: CodebookFile,
    design: DesignFile,
    out: Annotated[
        Path, typer.Option(metavar="COUNTS", help="The counts: .parquet.", show_default=False)
    ],
    over: Annotated[
        list[str] | None,
        typer.Option(metavar="A,B", help="Attributes to count.", show_default="all"),
    ] = None,
    force: Force = False,
    json: Json = False,
) -> None:
    """Count reports; files of counts add up like files of reports."""
    from ppdm_dask.cli.count import count_reports

    count_reports(files, codebook, design, out, over=over or [], force=force, as_json=json)


@app.command()
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
        Estimator, typer.Option(help="Unbiased inversion, or most likely proportions.")
    ] = Estimator.INVERT,
    level: Annotated[float, typer.Option(metavar="P", help="Level of the intervals.")] = 0.95,
    interval: Annotated[
        IntervalBy, typer.Option(help="Of inverted proportions; wald: by standard errors.")
    ] = IntervalBy.SCORE,
    estimand: Annotated[
        About, typer.Option(help="The population behind the reports, or their records alone.")
    ] = About.POPULATION,
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
    force: Force = False,
    json: Json = False,
) -> None:
    """Estimate proportions with intervals, and say what cannot be known."""
    from ppdm_dask.cli.estimate import estimate_answers

    estimate_answers(
        files,
        codebook,
        design,
        out,
        over=over,
        method=method.value,
        level=level,
        estimand=estimand.value,
        where=where or [],
        weights=weights,
        strata=strata,
        interval=interval.value,
        safe=spreadsheet_safe,
        force=force,
        as_json=json,
    )


@app.command()
def audit(
    design: DesignFile,
    prior: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="TOML: a table [prior.ATTRIBUTE] of categories and proportions each.",
            show_default="equal",
        ),
    ] = None,
    codebook: Annotated[
        Path | None,
        typer.Option(
            metavar="C", help="Codebook to check names and categories by.", show_default=False
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Say what a report gives away: every privacy measure of a design, in words."""
    from ppdm_dask.cli.audit import audit_design

    audit_design(design, prior, codebook, as_json=json)
