"""``ppdm schema``: JSON Schemas of the files that a person writes."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer

import ppdm_dask as pp
from ppdm_dask.cli.output import print_json, print_rows
from ppdm_dask.errors import InputError
from ppdm_dask.files.values import Choice, Place

__all__ = ["SCHEMAS", "schema", "schema_document"]


class Kind(NamedTuple):
    """A kind of TOML file."""

    what: str
    """What it states, and which commands read it."""
    make: Callable[[], dict[str, Any]]
    """Its JSON Schema."""


SCHEMAS: Mapping[str, Kind] = {
    "recipe": Kind("an experiment: ppdm run", lambda: pp.experiments.recipe_schema()),
    "profile": Kind("where a run computes: --cluster", lambda: pp.cluster.profile_schema()),
    "codebook": Kind("attributes and categories: --codebook", lambda: pp.Codebook.schema()),
    "design": Kind("a randomization design: --design", lambda: pp.designs.design_schema()),
    "questionnaire": Kind(
        "a survey in browsers: ppdm survey", lambda: pp.collect.Questionnaire.document()
    ),
    "prior": Kind("known proportions: --prior", lambda: pp.survey.prior_schema()),
    "wording": Kind("texts for respondents: --texts", lambda: pp.survey.wording_schema()),
    "claims": Kind("what a paper claims: ppdm report", lambda: pp.claims.claims_schema()),
    "grades": Kind("sizes of a reproduction: ppdm reproduce", lambda: pp.reproduce.grades_schema()),
}
"""Every kind of TOML file that a command reads."""


def schema_document(kind: str) -> dict[str, Any]:
    """JSON Schema of a kind of file, whose ``$id`` is the name of the file that holds it."""
    found = SCHEMAS[kind].make()
    return {"$schema": found.pop("$schema"), "$id": f"{kind}.json", **found}


def schema(
    kind: Annotated[
        str | None,
        typer.Argument(
            metavar="KIND",
            help=f"Kind of file: {', '.join(SCHEMAS)}.",
            show_default="list the kinds",
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Write KIND.json to this folder, or all kinds; with a KIND also a FILE.json.",
            show_default="the terminal",
        ),
    ] = None,
) -> None:
    """Print the JSON Schema of a kind of TOML file, for editors, or list the kinds."""
    if kind is not None:
        kind = Choice(SCHEMAS, "a kind of file").read(kind, Place("KIND", error=InputError))
    if out is None:
        if kind is None:
            print_rows(["kind", "of files that state"], [[k, v.what] for k, v in SCHEMAS.items()])
        else:
            print_json(schema_document(kind))
        return
    to_file = kind is not None and out.suffix == ".json" and not out.is_dir()
    if not to_file and out.exists() and not out.is_dir():
        raise InputError(f"--out: {out} is not a folder; a folder, or a FILE.json, is needed", out)
    for each in SCHEMAS if kind is None else [kind]:
        path = out if to_file else out / f"{each}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        text = json.dumps(schema_document(each), indent=2, ensure_ascii=False)
        pp.files.write_text(path, text + "\n")
