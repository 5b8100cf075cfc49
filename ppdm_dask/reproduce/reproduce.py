"""Run all recipes of a grade, or take up what is finished, and compare each with its golden."""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ppdm_dask.errors import InputError, PPDMError, RunFolderError, RunInterrupted
from ppdm_dask.experiments.folder import RunFolder
from ppdm_dask.experiments.kinds import AnyRecipe
from ppdm_dask.experiments.results import digest
from ppdm_dask.experiments.run import profile_of, run
from ppdm_dask.experiments.stored import read_result
from ppdm_dask.reproduce.compare import Comparison, compare
from ppdm_dask.reproduce.fingerprint import Fingerprint, fingerprint, short
from ppdm_dask.reproduce.golden import Golden, golden_path
from ppdm_dask.reproduce.grades import Grade
from ppdm_dask.reproduce.summary import Summary, summarise

if TYPE_CHECKING:
    import xarray as xr

    from ppdm_dask.engine.progress import Progress

__all__ = ["Finished", "Reproduced", "compute", "own_folder", "reproduce"]


Report = Callable[["Progress"], None]


@dataclass(frozen=True, eq=False)
class Finished:
    """The finished run of a recipe.

    Parameters
    ----------
    folder : Path
    digest : str
    summaries : mapping of str to Summary
    seconds : float
        Wall time now; next to nothing for a run that was finished.
    work_seconds : float
        Time of the trials, summed over processes, whenever they were computed.
    reused : bool
        Whether nothing was left to compute.
    """

    folder: Path
    digest: str
    summaries: dict[str, Summary]
    seconds: float
    work_seconds: float
    reused: bool


@dataclass(frozen=True, eq=False)
class Reproduced:
    """A recipe that was run and compared.

    Parameters
    ----------
    recipe : str
    folder : Path
        Of its run, which a failed one may lack.
    finished : Finished or None
        None for a run that failed.
    comparison : Comparison
    expected : str
        The golden's digest.
    trace : str
        Python's traceback of a failure that is a fault of the program; else empty.
    """

    recipe: str
    folder: Path
    finished: Finished | None
    comparison: Comparison
    expected: str
    trace: str = ""

    def config(self) -> dict[str, Any]:
        """Return it as JSON values."""
        done, found = self.finished, self.comparison
        return {
            "name": self.recipe,
            "folder": str(self.folder.resolve()),
            "status": found.status,
            "comparison": found.kind,
            "reasons": list(found.reasons),
            "expected_digest": self.expected,
            "digest": done.digest if done else None,
            "reused": bool(done and done.reused),
            "seconds": round(done.seconds, 3) if done else None,
            "work_seconds": round(done.work_seconds, 3) if done else None,
            "drifts": [drift.config() for drift in found.drifts],
            "traceback": self.trace,
        }


def own_folder(out: Path, own: Fingerprint) -> Path:
    """Folder of the runs of this environment: no run is begun in one and finished in another."""
    return out / "runs" / short(own)


def reproduce(
    grade: Grade,
    out: Path,
    *,
    workers: int | None = None,
    cluster: str | Path | None = None,
    progress: Callable[[AnyRecipe], Any] | None = None,
) -> list[Reproduced]:
    """Run the recipes of a grade and compare them with their goldens, which are only read.

    Parameters
    ----------
    grade : Grade
    out : Path
        The runs go below it; what is finished there is not computed again.
    workers, cluster
        As of :func:`~ppdm_dask.experiments.run.run`.  Nobody knows the processors of a cluster, so
        what is not the same to the bit there is compared within tolerances.
    progress : callable, optional
        Given a recipe, returns a context manager that gives a callable for its progress.

    Returns
    -------
    list of Reproduced
        In the order of the grade.

    Raises
    ------
    InputError
        If a golden is missing or damaged or the profile is wrong, before anything is run, or the
        folder cannot be used.
    RunInterrupted
        If it was stopped; the same call goes on.
    """
    goldens = {
        recipe.name: Golden.read(golden_path(grade.folder, recipe.name, grade.name))
        for recipe in grade.recipes
    }
    profile = profile_of(cluster, workers)
    # Workers of this machine have its processor.
    elsewhere = profile is not None and profile.kind != "local"
    own = fingerprint(str(cluster) if elsewhere else None)
    runs = own_folder(out, own)
    run_one = partial(compute, out=runs, workers=workers, cluster=cluster, progress=progress)
    return [
        _reproduce(recipe, goldens[recipe.name], runs, own, run_one) for recipe in grade.recipes
    ]


def _reproduce(
    recipe: AnyRecipe,
    golden: Golden,
    out: Path,
    own: Fingerprint,
    run_one: Callable[[AnyRecipe], Finished],
) -> Reproduced:
    folder = RunFolder.plan(recipe, out).path
    trace = ""
    try:
        done = run_one(recipe)
    except (RunInterrupted, RunFolderError):
        raise
    except PPDMError as error:
        why = str(error)
    except Exception as error:  # one recipe's fault must not hide how the others are
        why, trace = f"{type(error).__name__}: {error}", traceback.format_exc()
    else:
        found = compare(golden, recipe.digest, done.digest, done.summaries, own)
        return Reproduced(recipe.name, folder, done, found, golden.digest)
    failed = Comparison("exact", "failed", (" ".join(why.split()),))
    return Reproduced(recipe.name, folder, None, failed, golden.digest, trace)


def compute(
    recipe: AnyRecipe,
    out: Path,
    *,
    workers: int | None = None,
    cluster: str | Path | None = None,
    progress: Callable[[AnyRecipe], Any] | None = None,
) -> Finished:
    """Run a recipe, or read its run where it is finished.

    Raises
    ------
    PPDMError
        If trials were quarantined.
    """
    began = time.monotonic()
    folder = RunFolder.plan(recipe, out)
    dataset = _stored(folder)
    reused = dataset is not None
    if dataset is None:
        run_it = partial(run, recipe, workers=workers, cluster=cluster, out=out)
        if progress is None:
            result = run_it()
        else:
            with progress(recipe) as report:
                result = run_it(progress=report)
        if result.digest is None:
            given_up = "; ".join(str(trial) for trial in result.outcome.quarantined)
            raise PPDMError(f"trials were quarantined: {given_up}", recipe.name)
        dataset = result.dataset
        reused = result.outcome.computed_repeats == 0
    manifest = folder.read() or {}
    return Finished(
        folder.path,
        digest(dataset),
        summarise(dataset),
        time.monotonic() - began,
        float(manifest.get("seconds", 0.0)),
        reused,
    )


def _stored(folder: RunFolder) -> xr.Dataset | None:
    """Return the result of a finished run, if it is what its manifest says."""
    manifest = folder.read()
    if manifest is None or manifest["status"] != "finished" or not folder.result.is_file():
        return None
    try:
        return read_result(folder.result, manifest)
    except InputError:
        return None  # it is made again from the ledger
