"""``ppdm audit``: what a report gives away, in numbers and words."""

from __future__ import annotations

import math
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import ppdm_dask as pp
from ppdm_dask.cli.options import DesignFile, Json
from ppdm_dask.cli.output import print_json, print_lines, print_rows, say
from ppdm_dask.cli.survey_files import plain, read_both
from ppdm_dask.errors import InputError

if TYPE_CHECKING:
    from ppdm_dask.arrays import Floats

__all__ = ["audit"]


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
    as_json: Json = False,
) -> None:
    """Say what a report gives away: every privacy measure of a design, in words."""
    if codebook is None:
        book, plan = None, pp.designs.read_design(design)
    else:
        book, plan = read_both(codebook, design)
    priors: dict[str, Floats] = {}
    if prior is not None:
        plan, priors = pp.survey.prior_arrays(prior, pp.survey.read_priors(prior), plan, book)
    try:
        subjects = pp.audit.audit(plan, priors)
    except InputError as error:
        raise InputError(f"{prior}: {error}", error) from None
    labels = {} if book is None else {name: book[name].categories for name in plan.attributes}
    certain = pp.audit.certainties(plan, labels)
    if as_json:
        found = [asdict(subject) for subject in subjects]
        for finding in (each for subject in found for each in subject["findings"]):
            finding["value"] = plain(finding["value"])
        print_json(
            {
                "design": str(design),
                "undefined": plan.undefined,
                "subjects": found,
                "certain": [asdict(each) for each in certain],
            }
        )
        return
    for subject in subjects:
        rows = [[f.measure, _value(f.value), f.sentence] for f in subject.findings]
        say(f"{subject.name}: {subject.prior}")
        print_rows(["measure", "value", "in words"], rows, right=(1,))
        say()
    print_lines(each.sentence for each in certain)
    if any(each.degree in ("nearly", "likely") for each in certain):
        say("what is likely is so where each answer was equally likely before")
    say("epsilon and gamma hold for any prior; the others for the prior that is named")
    if plan.undefined:
        say(f"nothing can be estimated of all of it: {plan.undefined}")


def _value(value: float | None) -> str:
    if value is None:
        return "-"
    return "infinite" if math.isinf(value) else f"{value:.4g}"
