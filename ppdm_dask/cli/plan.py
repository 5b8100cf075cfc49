"""``ppdm plan``: designs compared before the field, and the protocol of the chosen one."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

import ppdm_dask as pp
from ppdm_dask.cli.options import Json, in_options
from ppdm_dask.cli.output import print_json, print_rows, say
from ppdm_dask.errors import InputError
from ppdm_dask.files.lock import own
from ppdm_dask.shown import listed

OPTIONS = {
    "half_width": "--half-width",
    "half_width, difference": "--half-width, --difference",
    "difference": "--difference",
    "level": "--level",
    "power": "--power",
    "max_posterior": "--max-posterior",
    "max_posterior, epsilon": "--max-posterior, --epsilon",
    "epsilon": "--epsilon",
    "guard": "--guard",
    "trait": "--trait",
    "design_effect": "--design-effect",
    "nonresponse": "--nonresponse",
    "prior": "--prior",
    "design": "--design",
}
"""Parameters of :func:`ppdm_dask.plan` as the command line calls them."""


def plan(
    prior: Annotated[
        str,
        typer.Option(
            metavar="P|FILE",
            help="Guessed share of the sensitive answer, or TOML with a table \\[prior].",
            show_default=False,
        ),
    ],
    half_width: Annotated[
        float | None,
        typer.Option(
            metavar="H", help="Half-width that the interval should have.", show_default=False
        ),
    ] = None,
    difference: Annotated[
        float | None,
        typer.Option(
            metavar="D", help="Difference between two groups to detect.", show_default=False
        ),
    ] = None,
    level: Annotated[
        float, typer.Option(metavar="L", help="Confidence level of the interval.")
    ] = 0.95,
    power: Annotated[float, typer.Option(metavar="P", help="Power to detect --difference.")] = 0.8,
    max_posterior: Annotated[
        float | None,
        typer.Option(
            metavar="P",
            help="Largest posterior probability of an answer given a report.",
            show_default=False,
        ),
    ] = None,
    epsilon: Annotated[
        float | None,
        typer.Option(
            metavar="E", help="Largest log likelihood ratio of a report.", show_default=False
        ),
    ] = None,
    guard: Annotated[
        Literal["trait", "all"] | None,
        typer.Option(
            help="Answers that --max-posterior protects.",
            show_default="the sensitive one of two, else all",
        ),
    ] = None,
    attribute: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Name of the attribute.", show_default="answer"),
    ] = None,
    trait: Annotated[
        str | None,
        typer.Option(metavar="LABEL", help="The sensitive one of two answers.", show_default="yes"),
    ] = None,
    codebook: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Take the labels from this codebook.", show_default=False
        ),
    ] = None,
    design_effect: Annotated[
        float, typer.Option(metavar="X", help="Design effect of clusters and weights.")
    ] = 1.0,
    nonresponse: Annotated[
        float, typer.Option(metavar="SHARE", help="Share of people who give no report.")
    ] = 0.0,
    design: Annotated[
        str | None,
        typer.Option(
            metavar="ID",
            help="Family of the design to write to --out.",
            show_default="fewest reports with a device",
        ),
    ] = None,
    question: Annotated[
        str | None,
        typer.Option(
            metavar="TEXT", help="The question as people will hear it.", show_default=False
        ),
    ] = None,
    texts: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="TOML of translated texts.", show_default=False),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="Write design.toml and the protocol here.", show_default=False
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Plan a survey: compare designs by reports needed, privacy and devices; write a protocol."""
    shares, name = _prior(prior, attribute, trait, codebook)
    try:
        found = pp.plan(
            shares,
            half_width=half_width,
            difference=difference,
            level=level,
            power=power,
            max_posterior=max_posterior,
            epsilon=epsilon,
            guard=guard,
            trait=trait,
            design_effect=design_effect,
            nonresponse=nonresponse,
            attribute=name,
            question=question,
            wording=texts,
        )
        chosen = found.choose(design)
    except InputError as error:
        raise in_options(error, OPTIONS) from None
    written: dict[str, str] = {}
    if out is not None:
        own(out)
        paths = pp.report.write_protocol(found, out, design)
        written = {key: str(path) for key, path in paths.items()}
    if as_json:
        print_json(found.to_dict() | {"chosen": chosen.family, "files": written})
        return
    _print(found, chosen, written)


def _prior(
    prior: str, attribute: str | None, trait: str | None, codebook: Path | None
) -> tuple[float | Mapping[str, float], str]:
    """Proportions, by label where labels are known, and the name of the attribute."""
    book = None if codebook is None else pp.Codebook.from_toml(codebook)
    try:
        share = float(prior)
    except ValueError:
        path = Path(prior)
        priors = pp.survey.read_priors(path)
        if attribute is None:
            name, _, _ = pp.survey.one_prior(path)
        else:
            name = attribute
        if name not in priors:
            raise InputError(
                f"{path}: prior: has {listed(priors)}; --attribute {name} is needed", name
            ) from None
        shares = priors[name]
        if book is not None:
            pp.survey.check_prior_labels(path, {name: shares}, book)
            shares = {label: shares[label] for label in book[name].categories}
        return shares, name
    if book is None:
        return share, attribute or "answer"
    if attribute is None or attribute not in book.names:
        raise InputError(
            f"--attribute: {codebook} has {listed(book.names)}; one of them is needed", attribute
        )
    labels = book[attribute].categories
    named = trait if trait is not None else "yes"
    if len(labels) != 2 or named not in labels:
        raise InputError(
            f"--prior: got {prior}; {attribute} has the labels {listed(labels)}: a file of "
            "proportions is needed, or --trait with one of two labels",
            prior,
        )
    if not 0 < share < 1:
        raise InputError(f"--prior: got {prior}; a number between 0 and 1 is needed", prior)
    return {label: share if label == named else 1 - share for label in labels}, attribute


def _print(found: pp.Plan, chosen: Any, written: Mapping[str, str]) -> None:
    rows, remarks = [], []
    for row in found.rows:
        if row.need is None:
            remarks.append(f"{row.family}: {row.reason}")
            continue
        made = row.made
        rows.append(
            [
                row.family,
                ", ".join(f"{key} {value:.4g}" for key, value in row.parameters.items()),
                f"{row.need.complete:,}",
                f"{row.need.invited:,}",
                f"{row.max_posterior:.3f}",
                "inf" if math.isinf(row.epsilon) else f"{row.epsilon:.3f}",
                "?" if row.times is None else f"{row.times:.3f}",
                "" if made is None else f"{made.need.invited:,}",
            ]
        )
        if made is not None:
            odds = ", ".join(f"{key} {ratio}" for key, ratio in made.odds.items())
            remarks.append(f"{row.family} by {' and '.join(made.devices)}: {odds}")
    invited = "invited,\nby device"
    header = ["design", "parameter", "reports", "invited", "worst", "epsilon", "x best", invited]
    print_rows(header, rows, right=range(2, 8))
    say()
    for line in remarks:
        say(line)
    say(f"{found.limit[0].upper()}{found.limit[1:]}.")
    made = chosen.made
    text = chosen.text if made is None else made.text
    recorded = chosen.recorded if made is None else made.recorded
    say()
    say(f"{chosen.family}: {text}")
    say(recorded)
    for path in written.values():
        say(f"written: {path}")
