"""``ppdm cluster``: look a cluster over; make certificates."""

from __future__ import annotations

import os
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

import ppdm_dask as pp
from ppdm_dask.cli.completing import profile_names
from ppdm_dask.cli.options import Json
from ppdm_dask.cli.output import print_json, print_lines, print_rows
from ppdm_dask.errors import PPDMError
from ppdm_dask.extras import MissingExtra

cluster = typer.Typer(help="Clusters: check a profile, make certificates.", no_args_is_help=True)


@cluster.command()
def check(
    profile: Annotated[
        str,
        typer.Argument(
            metavar="PROFILE",
            help="A name, or the path of a .toml file.",
            show_default=False,
            autocompletion=profile_names,
        ),
    ],
    as_json: Json = False,
) -> None:
    """Connect, start one worker, compare versions, and compute a batch on it."""
    loaded = pp.cluster.load_profile(profile)
    # Below the current folder, which the nodes of a batch system are more likely to see than this
    # machine's temporary one.
    here = Path.cwd()
    near = here if os.access(here, os.W_OK) else None
    with tempfile.TemporaryDirectory(
        prefix="ppdm-cluster-", dir=near, ignore_cleanup_errors=True
    ) as folder:
        try:
            findings = pp.cluster.inspect_cluster(loaded, Path(folder), _real_job)
        except MissingExtra:
            raise
        except PPDMError as error:
            raise _with_log(error, Path(folder)) from None
    if as_json:
        print_json(
            {"profile": loaded.source, "findings": [asdict(each) for each in findings]},
        )
    else:
        print(f"{loaded.source}: {loaded.where}\n")
        rows = [[each.subject, each.found, "yes" if each.ok else "no"] for each in findings]
        print_rows(["checked", "found", "ok"], rows)
    raise typer.Exit(0 if all(each.ok for each in findings) else 1)


# A recipe's own cell, so that kernels compile and results travel as they will in a run.
def _real_job(repeats: int) -> tuple[pp.engine.Work, pp.engine.Cell]:
    recipe = pp.experiments.load_recipe("electronic-surveys").with_changes(repeats=repeats)
    plan = pp.experiments.make_plan(recipe)
    return plan.work, plan.cells[-1]


def _with_log(error: PPDMError, folder: Path) -> PPDMError:
    """Quote the last line of the log in place of its name, as the folder is removed."""
    what = str(error)
    for log in folder.glob("*.log"):
        *_, last = ["", *log.read_text(errors="replace").splitlines()]
        what = what.replace(f"; see {log}", f"; the log ends: {last[:200]}" if last else "")
    return type(error)(what, error.subject)


@cluster.command()
def certificates(
    folder: Annotated[
        Path,
        typer.Argument(metavar="DIR", help="A new folder.", show_default=False),
    ],
    days: Annotated[
        int, typer.Option(min=1, metavar="N", help="Days for which the certificates are valid.")
    ] = 30,
    as_json: Json = False,
) -> None:
    """Make a certificate authority for a cluster, and certificates for all of its parts."""
    files = pp.cluster.write_certificates(pp.cluster.make_certificates(days), folder)
    if as_json:
        print_json({"folder": str(folder), "files": [path.name for path in files], "days": days})
        return
    print_lines(
        [
            f"{folder}: good for {days} days, for one cluster",
            "ca.pem                            everywhere",
            "scheduler.pem, scheduler-key.pem  where the scheduler runs",
            "worker.pem, worker-key.pem        where workers run",
            "client.pem, client-key.pem        where ppdm run is called",
            "The authority's own key was not kept: nobody can add a certificate to these.",
        ]
    )
