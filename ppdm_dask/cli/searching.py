"""The command ``ppdm optimize`` and its options; see :mod:`ppdm_dask.cli.app`."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from ppdm_dask.cli.app import Json, app

__all__ = ["optimize"]


class Search(StrEnum):
    """How ``ppdm optimize`` searches."""

    SPEA2 = "spea2"
    MEMETIC = "memetic"
    BOUND = "bound"


@app.command()
def optimize(
    prior: Annotated[
        Path,
        typer.Option(
            metavar="FILE",
            help="TOML: attribute, and a table [prior] of categories and proportions.",
            show_default=False,
        ),
    ],
    n: Annotated[int, typer.Option("--n", min=1, metavar="N", help="Reports.", show_default=False)],
    delta: Annotated[
        float, typer.Option(metavar="D", help="Largest posterior allowed; 1 allows all.")
    ] = 1.0,
    method: Annotated[
        Search,
        typer.Option(help="The paper's algorithm, it with gradients, or the certified optimum."),
    ] = Search.MEMETIC,
    symbols: Annotated[
        int | None,
        typer.Option(
            min=2, metavar="K", help="Reported symbols.", show_default="one a category, or all"
        ),
    ] = None,
    choose: Annotated[
        str | None,
        typer.Option(
            metavar="privacy=X|mse=X", help="Write the design of this point.", show_default=False
        ),
    ] = None,
    generations: Annotated[
        int | None,
        typer.Option(min=0, metavar="L", help="Generations.", show_default="the method's"),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, metavar="S", help="Seed of the search.")] = 0,
    checkpoint: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Go on from here; not for bound.", show_default=False),
    ] = None,
    out: Annotated[
        Path, typer.Option(metavar="DIR", help="Folder for front.nc and design.toml.")
    ] = Path("optimized"),
    json: Json = False,
) -> None:
    """Search for the randomization matrices with the best privacy and precision."""
    from ppdm_dask.cli.optimize import optimize_prior

    optimize_prior(
        prior,
        n_records=n,
        delta=delta,
        method=method.value,
        symbols=symbols,
        seed=seed,
        generations=generations,
        choose=choose,
        out=out,
        checkpoint=checkpoint,
        as_json=json,
    )
