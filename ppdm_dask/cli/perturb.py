"""``ppdm perturb``: release a perturbed file, with its metrics and a report."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

import ppdm_dask as pp
from ppdm_dask.cli.options import (
    Data,
    Decimal,
    Delimiter,
    Encoding,
    Json,
    Sheet,
    SpreadsheetSafe,
    named,
)
from ppdm_dask.cli.output import note, print_json, print_lines, print_rows, say
from ppdm_dask.files.lock import own

# By hand: the registry of methods would load scikit-learn for `--help`. A test compares the two.
Method = Literal["aibr", "bsvd", "ssvd", "kcg"]


def perturb(
    data: Data,
    name: Annotated[
        Method, typer.Option("--method", help="Method of perturbation.", show_default=False)
    ],
    out: Annotated[
        Path,
        typer.Option(
            metavar="FILE",
            help="The release: a .csv or .parquet file, or a folder of parts.",
            show_default=False,
        ),
    ],
    k: Annotated[
        int,
        typer.Option(
            metavar="K",
            help="Sub-intervals (aibr), singular values (bsvd, ssvd) or records per group (kcg).",
            show_default=False,
        ),
    ],
    e: Annotated[
        float | None,
        typer.Option(metavar="E", help="Share of entries set to 0 (ssvd).", show_default=False),
    ] = None,
    columns: Annotated[
        list[str] | None,
        typer.Option(
            metavar="A,B", help="Columns to perturb.", show_default="all that are not kept"
        ),
    ] = None,
    keep: Annotated[
        list[str] | None,
        typer.Option(metavar="A,B", help="Columns to release unchanged.", show_default="none"),
    ] = None,
    integers: Annotated[
        bool, typer.Option("--integers", help="Keep whole numbers whole (aibr).")
    ] = False,
    constant: Annotated[
        str | None,
        typer.Option(
            metavar="keep|refuse",
            help="What to do with a column of one value (aibr, kcg).",
            show_default="refuse",
        ),
    ] = None,
    interval: Annotated[
        float,
        typer.Option(
            metavar="P", help="Half-width of a disclosed interval, as a share of the range."
        ),
    ] = 0.05,
    simulate: Annotated[
        int | None,
        typer.Option(
            min=0,
            metavar="SEED",
            help="Simulate with this seed, so that the draws can be repeated.",
            show_default=False,
        ),
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option(
            min=0, metavar="N", help="Worker processes, for a folder.", show_default="threads"
        ),
    ] = None,
    delimiter: Delimiter = None,
    encoding: Encoding = None,
    decimal: Decimal = None,
    sheet: Sheet = None,
    spreadsheet_safe: SpreadsheetSafe = False,
    as_json: Json = False,
) -> None:
    """Perturb columns of numbers, and report what the release keeps and what it reveals."""
    given = {"e": e, "integers": integers or None, "constant": constant}
    parameters: dict[str, Any] = {"id": name, "k": k}
    parameters |= {key: value for key, value in given.items() if value is not None}
    method = pp.perturb.perturbation_from_config(parameters)
    pp.perturb.check_interval(interval)
    stream = pp.Stream.from_entropy() if simulate is None else pp.Stream.from_seed(simulate)
    # Until the command ends nobody else may write there; parts take minutes.
    own(out)
    how = pp.files.Reading(delimiter, encoding, decimal, sheet)
    file = pp.files.open_data(data, how=how)
    found = pp.report.release_file(
        data,
        out,
        method,
        stream,
        columns=named(columns, file.columns),
        keep=named(keep, file.columns),
        interval=interval,
        how=how,
        workers=workers,
        safe=spreadsheet_safe,
    )
    if file.note:
        note(f"{data}: {file.note}")
    if as_json:
        print_json(found)
    else:
        _print(found)


def _print(found: Mapping[str, Any]) -> None:
    rows = [
        [pp.report.METRIC_WORDS[key], "not computed" if value is None else f"{value:.4g}"]
        for key, value in found["metrics"].items()
    ]
    print_rows(["metric", "value"], rows, right=(1,))
    say()
    print_lines([*found["notes"], f"not protected: {found['caveat']}"])
    if found["simulated"]:
        say("simulated: anyone who knows the seed can repeat the draws")
    say(f"release: {found['out']}")
    say(f"report: {found['report']}")
