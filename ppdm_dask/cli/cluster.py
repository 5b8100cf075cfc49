"""``ppdm cluster``: look a cluster over; make certificates."""

from __future__ import annotations

import os
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from ppdm_dask.cli.output import print_json, print_lines, print_table
from ppdm_dask.errors import PPDMError

if TYPE_CHECKING:
    from ppdm_dask.engine.cells import Cell, Work

__all__ = ["check_cluster", "make_certificate_folder"]


def check_cluster(name_or_path: str, *, as_json: bool) -> int:
    """Look a cluster over; 0 if a run can go on there, 1 if something should be changed first."""
    from ppdm_dask.cluster.inspection import inspect_cluster
    from ppdm_dask.cluster.kinds import load_profile

    profile = load_profile(name_or_path)
    # Below the current folder, which the nodes of a batch system are more likely to see than this
    # machine's temporary one.
    here = Path.cwd()
    near = here if os.access(here, os.W_OK) else None
    with tempfile.TemporaryDirectory(
        prefix="ppdm-cluster-", dir=near, ignore_cleanup_errors=True
    ) as folder:
        try:
            findings = inspect_cluster(profile, Path(folder), _real_job)
        except PPDMError as error:
            raise _with_log(error, Path(folder)) from None
    if as_json:
        print_json(
            {"profile": profile.source, "findings": [asdict(each) for each in findings]},
        )
    else:
        from ppdm_dask.drawing.tables import plain_table

        print(f"{profile.source}: {profile.where}\n")
        rows = [[each.subject, each.found, "yes" if each.ok else "no"] for each in findings]
        print_table(plain_table(["checked", "found", "ok"], rows))
    return 0 if all(each.ok for each in findings) else 1


def _real_job(repeats: int) -> tuple[Work, Cell]:
    from ppdm_dask.experiments.kinds import load_recipe, make_plan

    plan = make_plan(load_recipe("electronic-surveys").with_changes(repeats=repeats))
    return plan.work, plan.cells[-1]


def _with_log(error: PPDMError, folder: Path) -> PPDMError:
    """The error with the last line of the log in place of the log's name: the log goes."""
    what = str(error)
    for log in folder.glob("*.log"):
        *_, last = ["", *log.read_text(errors="replace").splitlines()]
        what = what.replace(f"; see {log}", f"; the log ends: {last[:200]}" if last else "")
    return type(error)(what, error.subject)


def make_certificate_folder(folder: Path, *, days: int, as_json: bool) -> None:
    """Make a folder of certificates, and say what is for whom."""
    from ppdm_dask.cluster.security import make_certificates, write_certificates

    files = write_certificates(make_certificates(days), folder)
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
