"""``ppdm regress``: generalized linear models of reports."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

import ppdm_dask as pp
from ppdm_dask.cli.options import (
    Clusters,
    CodebookFile,
    DesignFile,
    Force,
    Fpc,
    Json,
    Level,
    Remedy,
    Sources,
    Strata,
    Weights,
    named,
    read_both,
    require_new,
)
from ppdm_dask.cli.output import print_json, print_lines, print_rows, say
from ppdm_dask.files.regular import ending

__all__ = ["regress"]

NUMBERS = ("estimate", "standard_error", "z", "p_value", "lower", "upper")


def regress(
    files: Sources,
    codebook: CodebookFile,
    design: DesignFile,
    formula: Annotated[
        str,
        typer.Option(
            metavar="FORMULA", help='Formula, such as "used ~ age + C(region)".', show_default=False
        ),
    ],
    family: Annotated[
        Literal["binomial", "multinomial", "gaussian", "poisson"],
        typer.Option(help="Distribution of the outcome, with its canonical link."),
    ] = "binomial",
    success: Annotated[
        list[str] | None,
        typer.Option(
            metavar="A,B",
            help="Categories of a binomial outcome that count as success.",
            show_default="the last of two",
        ),
    ] = None,
    method: Annotated[
        Literal["auto", "mle", "corrected"],
        typer.Option(help="Maximum likelihood if possible, or the corrected score."),
    ] = "auto",
    errors: Annotated[
        Literal["auto", "model", "sandwich"],
        typer.Option(help="Standard errors from the information, or from the sandwich estimator."),
    ] = "auto",
    weights: Weights = None,
    strata: Strata = None,
    clusters: Clusters = None,
    fpc: Fpc = None,
    lone: Remedy = "fail",
    missing: Annotated[
        Literal["fail", "drop"],
        typer.Option(help="What to do with rows in which a variable is missing."),
    ] = "fail",
    margins: Annotated[
        list[str] | None,
        typer.Option(
            metavar="A,B",
            help="Print marginal prevalences and effects of these variables.",
            show_default="none",
        ),
    ] = None,
    level: Level = 0.95,
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write the table: .csv or .json.", show_default=False),
    ] = None,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Fit a regression to reports: outcome, predictors, or both disguised."""
    book, plan = read_both(codebook, design)
    require_new(out, force, (*files, codebook, design), (".csv", ".json"))
    labels = [x for attribute in book.attributes for x in attribute.categories]
    model = pp.GLM(
        plan,
        formula,
        family=family,
        success=named(success, labels) or None,
        method=method,
        errors=errors,
        missing=missing,
        lone=lone,
    )
    model.variables()
    sources = pp.survey.open_sources(files, book, plan, {"codebook": codebook, "design": design})
    fit = pp.survey.regress_files(
        sources, model, book, plan, weights=weights, strata=strata, clusters=clusters, fpc=fpc
    )
    table = fit.to_frame(level).reset_index()
    of = named(margins, [str(name) for name in fit.feature_names_in_])
    document = _document(fit, formula, table, level, of)
    document["simulated"] = any(about.simulated for _, about in sources)
    if out is not None:
        if ending(out) == ".csv":
            pp.files.write_text(out, table.to_csv(index=False))
        else:
            pp.files.write_text(out, json.dumps(document, indent=2) + "\n")
    if as_json:
        print_json(document)
        return
    heads = [name for name in table.columns if name not in NUMBERS]
    interval = f"{100 * level:.4g} % interval"
    rows = [
        [*(str(row[h]) for h in heads), *(_short(row[x]) for x in NUMBERS)]
        for row in document["coefficients"]
    ]
    header = [*heads, "estimate", "error", "z", "p", interval, ""]
    print_rows(header, rows, right=range(len(heads), len(header)))
    for part in document["margins"]:
        say()
        print_rows(*_margin_rows(part))
    say()
    print_lines(_statements(fit, document))
    if out is not None:
        say(f"written: {out}")


def _document(fit: pp.GLM, formula: str, table: Any, level: float, of: list[str]) -> dict[str, Any]:
    parts = []
    for name in of:
        for kind, found in (("prevalences", fit.margins(name)), ("effects", fit.effects(name))):
            parts.append({"of": name, "kind": kind, "rows": _plain(found.to_frame(level))})
    return {
        "formula": formula,
        "family": fit.family,
        "method": fit.method_,
        "errors": fit.errors_,
        "reports": fit.n_reports_,
        "dropped": fit.n_dropped_,
        "log_likelihood": None if math.isnan(fit.loglikelihood_) else fit.loglikelihood_,
        "dispersion": fit.dispersion_,
        "level": level,
        "coefficients": _plain(table),
        "margins": parts,
    }


def _plain(table: Any) -> list[dict[str, Any]]:
    return [
        {str(k): v if isinstance(v, str) else float(v) for k, v in row.items()}
        for row in table.to_dict("records")
    ]


def _margin_rows(part: dict[str, Any]) -> tuple[list[str], list[list[str]], range]:
    numbers = ("value", "standard_error", "lower", "upper")
    heads = [name for name in part["rows"][0] if name not in numbers]
    rows = [[*(str(r[h]) for h in heads), *(_short(r[x]) for x in numbers)] for r in part["rows"]]
    what = "effect" if part["kind"] == "effects" else "expected"
    return [*heads, what, "error", "lower", "upper"], rows, range(len(heads), len(heads) + 4)


def _short(value: float) -> str:
    return f"{value:.4f}" if abs(value) < 1e4 else f"{value:.6g}"


def _statements(fit: pp.GLM, document: dict[str, Any]) -> list[str]:
    what = str(fit.variables()[0])
    if fit.family == "binomial":
        what = f"P({what} = {fit.classes_[1]})"
    lines = [
        f"{fit.family} model of {what}: {fit.method_}, errors by the {fit.errors_}",
        f"{fit.n_reports_:,} reports",
    ]
    if fit.n_dropped_:
        lines.append(f"left out, as they lack a variable: {fit.n_dropped_:,} reports")
    if document["simulated"]:
        lines.append("simulated: some of the reports protect nobody")
    return lines
