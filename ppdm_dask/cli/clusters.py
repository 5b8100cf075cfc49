"""The commands ``ppdm cluster ...`` and their options; see :mod:`ppdm_dask.cli.app`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ppdm_dask.cli.app import Json, app

__all__ = ["certificates", "check"]

cluster = typer.Typer(help="Clusters: check a profile, make certificates.", no_args_is_help=True)
app.add_typer(cluster, name="cluster")


@cluster.command()
def check(
    profile: Annotated[
        str,
        typer.Argument(
            metavar="PROFILE", help="A name, or the path of a .toml file.", show_default=False
        ),
    ],
    json: Json = False,
) -> None:
    """Connect, start one worker, compare versions, and have it do a batch."""
    from ppdm_dask.cli.cluster import check_cluster

    raise typer.Exit(check_cluster(profile, as_json=json))


@cluster.command()
def certificates(
    folder: Annotated[
        Path,
        typer.Argument(metavar="DIR", help="A new folder.", show_default=False),
    ],
    days: Annotated[int, typer.Option(min=1, metavar="N", help="Days they are good for.")] = 30,
    json: Json = False,
) -> None:
    """Make an authority of a cluster's own, and certificates for its parts."""
    from ppdm_dask.cli.cluster import make_certificate_folder

    make_certificate_folder(folder, days=days, as_json=json)
