"""Run a recipe: from the file to the result, through a ledger that survives every kill."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from ppdm_dask.cluster.active import active_client, client_aside
from ppdm_dask.cluster.runner import execute
from ppdm_dask.engine.cells import Checkpointed
from ppdm_dask.engine.ledger import Ledger
from ppdm_dask.errors import InputError, PPDMError, RunFolderError
from ppdm_dask.experiments.facing import RunFace
from ppdm_dask.experiments.folder import RunFolder
from ppdm_dask.experiments.kinds import (
    AnyRecipe,
    check_recipe,
    kind_of,
    load_recipe,
    make_plan,
)
from ppdm_dask.experiments.results import digest, write_netcdf
from ppdm_dask.faces.notebook import follower

if TYPE_CHECKING:
    import xarray as xr

    from ppdm_dask.cluster.active import Client
    from ppdm_dask.cluster.kinds import Profile
    from ppdm_dask.engine.cells import Progress
    from ppdm_dask.engine.planner import Outcome

LOG = logging.getLogger(__name__)

__all__ = ["RunResult", "run"]


@dataclass(frozen=True, eq=False, repr=False)
class RunResult(RunFace):
    """A run and its result.

    Attributes
    ----------
    dataset : xarray.Dataset
        The result variables.
    folder : Path
        Where the run is kept.
    digest : str
        SHA-256 of the result variables; None for a run with quarantined trials.
    findings : list of str
        What a reader of the numbers must know.
    outcome : Outcome
        How the computation went.
    recipe : Recipe
        What was computed.
    """

    dataset: xr.Dataset
    folder: Path
    digest: str | None
    findings: list[str]
    outcome: Outcome
    recipe: AnyRecipe

    def _state(self) -> str:
        done = f"{self.outcome.total_repeats:,} repeats"
        return f"{done}, digest {self.digest[:12]}" if self.digest else f"{done}, some quarantined"


def run(
    recipe: AnyRecipe | str | Path,
    *,
    repeats: int | None = None,
    seed: int | None = None,
    workers: int | None = None,
    cluster: str | Path | None = None,
    client: Client | None = None,
    batch_seconds: float | None = None,
    out: str | Path = "runs",
    retry_failed: bool = False,
    code: str | Path | Sequence[str | Path] = (),
    progress: Callable[[Progress], None] | Literal[False] | None = None,
) -> RunResult:
    """Run a recipe, or resume a run that was stopped.

    Parameters
    ----------
    recipe : Recipe, PerturbationRecipe, str or Path
        A recipe, its file, or the name of one that comes with the package.
    repeats, seed : int, optional
        In place of the recipe's.
    workers : int, optional
        0 computes in one thread of this process, N starts N worker processes.  By default compiled
        work takes a thread for each core, and other work a worker for each core if that saves more
        than their start costs.  The numbers do not depend on it.
    cluster : str or Path, optional
        Cluster profile, its file or the name of one of the package; excludes `workers`.
    client : distributed.Client, optional
        Cluster that does the work; excludes `workers` and `cluster`.  Without any of them it is the
        active client of Dask, if there is one.
    batch_seconds : float, optional
        Time a batch of repeats should take; by default half a second, longer on a cluster of more
        than 100 workers.
    out : str or Path
        Folder in which the run's folder is made, or the run's own folder.
    retry_failed : bool
        Compute again the trials that an earlier run quarantined.
    code : path or sequence of path
        Files of Python that a recipe names and that may be executed: no recipe runs code by itself.
    progress : callable, optional
        Called with a ``Progress`` at intervals.  By default a notebook shows a progress bar; False
        turns it off.

    Raises
    ------
    InputError
        If anything in the recipe, the data or the folder is wrong.
    RunInterrupted
        If the run was stopped; the same call resumes it.
    """
    # What can be wrong is looked at before the folder is made, the cheapest first.
    profile = profile_of(cluster, workers)
    if client is None and workers is None and profile is None:
        client = active_client()
    if isinstance(recipe, str | Path):
        recipe = load_recipe(recipe)
    recipe = recipe.with_changes(repeats=repeats, seed=seed)
    check_recipe(recipe)
    _allow(recipe, code)
    folder = RunFolder.plan(recipe, out)
    plan = make_plan(recipe)
    work = plan.work
    # Before `start` replaces it: its digest is compared with that of the ledger's numbers.
    before = folder.read()
    folder.start(plan.inputs)
    if isinstance(work, Checkpointed):
        folder.checkpoints.mkdir(exist_ok=True)
        work = work.keeping(folder.checkpoints)
    _say("run %s of %s", folder.id, recipe.name, cells=len(plan.cells), folder=str(folder.path))
    with Ledger(folder.ledger) as ledger:
        try:
            outcome = execute(
                work,
                plan.cells,
                ledger,
                workers=workers,
                client=client,
                profile=profile,
                batch_seconds=batch_seconds,
                retry_failed=retry_failed,
                progress=_bar(recipe.name) if progress is None else progress or None,
            )
        except (PPDMError, KeyboardInterrupt):
            # On a full disk this fails too, and what stopped the run is the news.
            with suppress(RunFolderError):
                given_up = [str(trial) for trial in ledger.quarantined(plan.cells)]
                folder.finish("partial", quarantined=given_up)
            raise
        dataset = plan.collect(ledger)
        spent, *_ = ledger.work()
    found = kind_of(recipe).findings(dataset)
    # A result that lacks trials has no digest, which would pass for that of the recipe.
    total = digest(dataset) if not outcome.quarantined else None
    if total and before is not None and before["digest"] not in (None, total):
        # Its numbers had not come from the ledger: they were edited, with their digests.
        LOG.warning("%s: does not match its ledger; it is written again", folder.result)
    # The result first: a manifest that says "finished" must not stand beside an older one.
    with client_aside():
        written = write_netcdf(dataset, folder.result)
    folder.finish(
        "finished" if total else "partial",
        digest=total,
        result=written,
        findings=found,
        quarantined=[str(trial) for trial in outcome.quarantined],
        seconds=round(spent, 3),
    )
    if total:
        shutil.rmtree(folder.checkpoints, ignore_errors=True)
    done = outcome.computed_repeats
    _say("run %s has a result", folder.id, digest=total or "", computed_repeats=done)
    return RunResult(dataset, folder.path, total, found, outcome, recipe)


def _bar(name: str) -> Callable[[Progress], None] | None:
    """A bar in a notebook; None elsewhere."""
    bar = follower(name)
    if bar is None:
        return None

    def show(progress: Progress) -> None:
        bar(progress.done_repeats, progress.total_repeats, progress.mode)

    return show


def _say(text: str, *values: object, **fields: object) -> None:
    LOG.info(text, *values, extra={"fields": fields})


def _allow(recipe: AnyRecipe, code: str | Path | Sequence[str | Path]) -> None:
    """Refuse a recipe whose code is not among the files that may be executed."""
    needed = recipe.code
    if needed is None:
        return
    named = [code] if isinstance(code, str | Path) else code
    if needed.resolve() not in {Path(each).resolve() for each in named}:
        raise InputError(
            f"{recipe.source}: would execute {needed}; read that file, then name it too: "
            f"--code {needed}",
            needed,
        )


def profile_of(cluster: str | Path | None, workers: int | None) -> Profile | None:
    """Read the cluster profile that is asked for; InputError where workers are asked for too."""
    if cluster is None:
        return None
    # Not at the top: Dask, which runs in one process do without.
    from ppdm_dask.cluster.kinds import load_profile

    profile = load_profile(cluster)
    if workers is not None:
        what = f"{cluster}: says how many workers there are; leave the number of workers out"
        raise InputError(what, workers)
    return profile
