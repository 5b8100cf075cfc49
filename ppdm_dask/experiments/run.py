"""Run a recipe: from the file to the result, through a ledger that survives every kill."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ppdm_dask.errors import RunInterrupted
from ppdm_dask.experiments.kinds import (
    AnyRecipe,
    check_recipe,
    findings,
    load_recipe,
    make_plan,
)
from ppdm_dask.experiments.plan import Checkpointed
from ppdm_dask.experiments.results import digest, write_netcdf
from ppdm_dask.experiments.rundir import RunFolder

if TYPE_CHECKING:
    import xarray as xr

    from ppdm_dask.parallel.progress import Progress
    from ppdm_dask.parallel.runner import Outcome

__all__ = ["RunResult", "run"]


@dataclass(frozen=True, eq=False)
class RunResult:
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
    """

    dataset: xr.Dataset
    folder: Path
    digest: str | None
    findings: list[str]
    outcome: Outcome


def run(
    recipe: AnyRecipe | str | Path,
    *,
    repeats: int | None = None,
    seed: int | None = None,
    workers: int | None = None,
    batch_seconds: float = 0.5,
    out: str | Path = "runs",
    progress: Callable[[Progress], None] | None = None,
) -> RunResult:
    """Run a recipe, or go on with a run that was stopped.

    Parameters
    ----------
    recipe : Recipe, PerturbationRecipe, str or Path
        A recipe, its file, or the name of one that comes with the package.
    repeats, seed : int, optional
        In place of the recipe's.
    workers : int, optional
        0 computes in this process, N starts N workers; by default short runs stay in this process
        and longer ones take a worker a core.  The numbers do not depend on it.
    batch_seconds : float
        Time a batch of repeats should take.
    out : str or Path
        Folder in which the run's folder is made, or the run's own folder.
    progress : callable, optional
        Called with a ``Progress`` now and then.

    Raises
    ------
    InputError
        For anything in the recipe, the data or the folder that the user can mend.
    RunInterrupted
        If the run was stopped; the same call goes on.
    """
    from ppdm_dask.parallel.ledger import Ledger
    from ppdm_dask.parallel.runner import execute

    if isinstance(recipe, str | Path):
        recipe = load_recipe(recipe)
    recipe = recipe.with_changes(repeats=repeats, seed=seed)
    check_recipe(recipe)
    folder = RunFolder.plan(recipe, out)
    plan = make_plan(recipe)
    work = plan.work
    folder.start(plan.inputs)
    if isinstance(work, Checkpointed):
        folder.checkpoints.mkdir(exist_ok=True)
        work = work.keeping(folder.checkpoints)
    with Ledger(folder.ledger) as ledger:
        try:
            outcome = execute(
                work,
                plan.cells,
                ledger,
                workers=workers,
                batch_seconds=batch_seconds,
                progress=progress,
            )
        except RunInterrupted:
            folder.finish("partial")
            raise
        dataset = plan.collect(ledger)
    found = findings(dataset)
    total = digest(dataset) if not outcome.quarantined else None
    write_netcdf(dataset, folder.result)
    folder.finish(
        "finished" if total else "partial",
        digest=total,
        findings=found,
        quarantined=[str(trial) for trial in outcome.quarantined],
        seconds=round(outcome.work_seconds, 3),
    )
    if total:
        shutil.rmtree(folder.checkpoints, ignore_errors=True)
    return RunResult(dataset, folder.path, total, found, outcome)
