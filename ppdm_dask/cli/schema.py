"""``ppdm schema``: JSON Schemas of the files that a person writes."""

from __future__ import annotations

import json
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

import ppdm_dask as pp
from ppdm_dask.cli.output import print_json

__all__ = ["schema"]


class Subject(StrEnum):
    """Files that have a schema."""

    recipe = "recipe"
    codebook = "codebook"
    design = "design"
    profile = "profile"


def schema(
    subject: Annotated[Subject, typer.Argument(help="Which files.", show_default=False)],
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write it there.", show_default="the terminal"),
    ] = None,
) -> None:
    """Print the JSON Schema of recipes, codebooks, designs or cluster profiles, for editors."""
    match subject:
        case Subject.recipe:
            found = pp.experiments.recipe_schema()
        case Subject.codebook:
            found = pp.Codebook.schema()
        case Subject.design:
            found = pp.designs.design_schema()
        case Subject.profile:
            found = pp.cluster.profile_schema()
    if out is None:
        print_json(found)
    else:
        pp.files.write_text(out, json.dumps(found, indent=2, ensure_ascii=False) + "\n")
