"""``ppdm plan``: which design, how many reports, which device, before anybody is asked."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated, Any

import typer

import ppdm_dask as pp
from ppdm_dask.cli.options import Force, Json
from ppdm_dask.cli.output import print_json, print_rows, say
from ppdm_dask.errors import InputError
from ppdm_dask.files.lock import own

__all__ = ["plan"]

FILES = ("design.toml", "protocol.txt", "protocol.html")


def plan(
    prevalence: Annotated[
        float | None,
        typer.Option(metavar="P", help="Guessed share of “yes”; or --prior.", show_default=False),
    ] = None,
    prior: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="TOML: attribute, and a table [prior] of categories and guessed shares.",
            show_default=False,
        ),
    ] = None,
    half_width: Annotated[
        float | None,
        typer.Option(metavar="H", help="Of the intervals, as a share: 0.03.", show_default=False),
    ] = None,
    difference: Annotated[
        float | None,
        typer.Option(
            metavar="D", help="Or: of two groups, to be found with --power.", show_default=False
        ),
    ] = None,
    power: Annotated[float, typer.Option(metavar="P", help="Of finding the difference.")] = 0.8,
    level: Annotated[float, typer.Option(metavar="L", help="Of intervals and tests.")] = 0.95,
    max_posterior: Annotated[
        float | None,
        typer.Option(
            metavar="P",
            help="Privacy: what a report may make of a category's probability.",
            show_default=False,
        ),
    ] = None,
    epsilon: Annotated[
        float | None,
        typer.Option(
            metavar="E",
            help="Or: a report at most exp(E) times likelier for one answer.",
            show_default=False,
        ),
    ] = None,
    sensitive: Annotated[
        str | None,
        typer.Option(
            metavar="LABEL",
            help="The category whose probability counts.",
            show_default="yes, of --prevalence; else every one",
        ),
    ] = None,
    design_effect: Annotated[
        float, typer.Option(metavar="X", help="Of clusters and weights.")
    ] = 1.0,
    response: Annotated[float, typer.Option(metavar="R", help="Share of people who report.")] = 1.0,
    attribute: Annotated[
        str | None,
        typer.Option(metavar="A", help="Name for the design file.", show_default="answer"),
    ] = None,
    question: Annotated[
        str | None,
        typer.Option(metavar="TEXT", help="As people are asked it.", show_default=False),
    ] = None,
    choose: Annotated[
        str | None,
        typer.Option(metavar="DESIGN", help="The one to write.", show_default="fewest reports"),
    ] = None,
    computed: Annotated[
        bool, typer.Option("--computed", help="Write what a computer draws, and no device.")
    ] = False,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="Write the design and its protocol there.", show_default=False
        ),
    ] = None,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Plan a survey: designs at a privacy floor, reports they need, devices that make them."""
    if (prevalence is None) == (prior is None):
        raise InputError("--prevalence or --prior is needed, and only one of them", prior)
    guess: Any = prevalence
    name = attribute or "answer"
    if prior is not None:
        stated, labels, shares = pp.survey.one_prior(prior)
        guess, name = dict(zip(labels, shares, strict=True)), attribute or stated
    if out is not None:
        _require_folder(out, force)
    try:
        found = pp.plan(
            guess,
            half_width=half_width,
            difference=difference,
            power=power,
            level=level,
            max_posterior=max_posterior,
            epsilon=epsilon,
            sensitive=sensitive,
            design_effect=design_effect,
            response=response,
            attribute=name,
            question=question,
        )
        option = None if out is None and choose is None else _chosen(found, choose, computed)
    except InputError as error:
        raise InputError(_as_options(str(error)), error.subject) from None
    if out is not None and option is not None:
        found.write(out, option)
    if as_json:
        told = found.as_json()
        if option is not None:
            told["chosen"] = option.row() | {"digest": option.design.digest}
        print_json(told | ({} if out is None else {"out": str(out)}))
        return
    rows = [
        [
            each.family,
            each.parameters.replace(" = ", "="),
            f"{each.reports:,}",
            f"{each.invited:,}",
            f"{100 * each.max_posterior:.3g} %",
            f"{each.epsilon:.3g}",
            "not known" if each.ratio is None else f"{each.ratio:.2f}",
            "" if each.device is None else each.device.device,
        ]
        for each in (*found.options, *found.made)
    ]
    head = ["design", "parameters", "reports", "to ask", "posterior", "epsilon", "vs best"]
    print_rows([*head, "device"], rows, right=(2, 3, 4, 5, 6))
    if any(math.isinf(each.epsilon) for each in (*found.options, *found.made)):
        say("epsilon inf: some reports rule an answer out")
    if option is not None and option.device is not None:
        say(option.device.text)
    if out is not None and option is not None:
        say(f"{option.family}, {option.parameters}: {', '.join(str(out / file) for file in FILES)}")


def _chosen(found: pp.survey.Plan, choose: str | None, computed: bool) -> pp.survey.Option:
    if choose is not None:
        devices = {each.family for each in found.made}
        return found.option(choose, device=not computed and choose in devices)
    among = found.options if computed or not found.made else found.made
    return among[0]


NAMES = ("half_width", "max_posterior", "design_effect")


def _as_options(line: str) -> str:
    """Parameters as the command line calls them."""
    head, colon, rest = line.partition(":")
    words = [f"--{word}" if word != "or" else word for word in head.split()]
    return f"{' '.join(words)}{colon}{rest}".replace("_", "-") if colon else line


def _require_folder(out: Path, force: bool) -> None:
    own(out)
    if out.exists() and not out.is_dir():
        raise InputError(f"--out: got {str(out)!r}, which is a file; a folder is needed", out)
    if not out.absolute().parent.is_dir():
        raise InputError(f"--out: there is no folder {str(out.parent)!r}", out)
    there = [name for name in FILES if (out / name).exists()]
    if there and not force:
        raise InputError(f"--out: {out / there[0]} is there already; --force replaces it", out)
