"""The commands of a survey and their options; see :mod:`ppdm_dask.cli.app`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ppdm_dask.cli.app import Json, app, listed

__all__ = ["disguise"]

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
Force = Annotated[bool, typer.Option("--force", help="Replace a file that is there.")]


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
        str,
        typer.Option(
            "--keep-undisguised",
            metavar="A,B",
            help="Columns to report as they are, in truth.",
            show_default="none",
        ),
    ] = "",
    drop: Annotated[
        str, typer.Option(metavar="A,B", help="Columns to leave out.", show_default="none")
    ] = "",
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
        keep=listed(keep),
        drop=listed(drop),
        simulate=simulate,
        block=block,
        force=force,
        as_json=json,
    )
