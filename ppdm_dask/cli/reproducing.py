"""The command ``ppdm reproduce`` and its options; see :mod:`ppdm_dask.cli.app`."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from ppdm_dask.cli.app import Cluster, Json, Workers, app

__all__ = ["reproduce"]


class Size(StrEnum):
    """Grades of a reproduction."""

    SMALL = "small"
    FULL = "full"


@app.command()
def reproduce(
    recipes: Annotated[
        list[str] | None,
        typer.Argument(metavar="RECIPE", help="Recipes of the grade.", show_default="all of them"),
    ] = None,
    grade: Annotated[
        Size, typer.Option(help="A few minutes for every day, or everything at full size.")
    ] = Size.SMALL,
    against: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="Folder of the goldens.", show_default="the checkout's tests/golden"
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Folder for the runs, reproduction.json and drift.json.",
            show_default="runs/reproduce-GRADE",
        ),
    ] = None,
    workers: Workers = None,
    cluster: Cluster = None,
    fresh: Annotated[
        bool,
        typer.Option("--fresh", help="Compute anew what an earlier, whole reproduction computed."),
    ] = False,
    hook: Annotated[
        str | None,
        typer.Option(
            metavar="CMD",
            help="Called as CMD drift FILE for a new drift, CMD closed FILE at its end.",
            show_default=False,
        ),
    ] = None,
    page: Annotated[
        bool, typer.Option("--page/--no-page", help="Write report.html, with all figures.")
    ] = True,
    renew: Annotated[
        str | None,
        typer.Option(
            metavar="WHY",
            help="Write the goldens anew, and this reason into them; compare nothing.",
            show_default=False,
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Run all recipes and compare them with their goldens; exit 1 if a number moved."""
    from ppdm_dask.cli.reproduce import renew_goldens, reproduce_recipes
    from ppdm_dask.errors import InputError

    folder = out or Path("runs") / f"reproduce-{grade.value}"
    if renew is not None:
        if hook is not None:
            raise InputError("--renew: nothing is compared, so there is no --hook to call", hook)
        if cluster is not None:
            what = "--renew: goldens are made on this machine, whose processor they name; leave out"
            raise InputError(f"{what} --cluster", cluster)
        renew_goldens(
            recipes or [],
            renew,
            grade=grade.value,
            against=against,
            out=folder,
            workers=workers,
            fresh=fresh,
            as_json=json,
        )
        return
    code = reproduce_recipes(
        recipes or [],
        grade=grade.value,
        against=against,
        out=folder,
        workers=workers,
        cluster=cluster,
        fresh=fresh,
        hook=hook,
        page=page,
        as_json=json,
    )
    raise typer.Exit(code)
