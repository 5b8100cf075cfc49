"""Options and arguments that several commands have."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

__all__ = [
    "Cluster",
    "CodebookFile",
    "Data",
    "DesignFile",
    "Force",
    "Json",
    "Run",
    "Sources",
    "SpreadsheetSafe",
    "Workers",
]

Json = Annotated[bool, typer.Option("--json", help="Print JSON in place of tables.")]
SpreadsheetSafe = Annotated[
    bool,
    typer.Option(
        "--spreadsheet-safe",
        help="In a .csv, put an apostrophe before texts that a spreadsheet takes for formulas.",
    ),
]
Force = Annotated[bool, typer.Option("--force", help="Replace a file that is there.")]
Workers = Annotated[
    int | None,
    typer.Option(
        min=0,
        metavar="N",
        help="Worker processes; 0 computes in this process.",
        show_default="as many as help",
    ),
]
Cluster = Annotated[
    str | None,
    typer.Option(
        metavar="PROFILE",
        help="Where to compute: a cluster profile, in place of --workers.",
        show_default="this machine",
    ),
]
Run = Annotated[Path, typer.Argument(metavar="RUN", help="A run's folder.", show_default=False)]
Data = Annotated[
    Path,
    typer.Argument(
        metavar="DATA", help="A .csv, .parquet, .arrow or .feather file.", show_default=False
    ),
]
Sources = Annotated[
    list[Path],
    typer.Argument(
        metavar="FILE...", help="Files of reports, of counts, or of both.", show_default=False
    ),
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
