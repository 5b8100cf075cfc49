"""Run all recipes of a grade, or take up what is finished, and compare each with its golden.

Beside it: grades: which recipes a reproduction runs, and at what size; read from ``grades.toml``.
"""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable, Iterable, Mapping
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ppdm_dask.errors import InputError, PPDMError, RecipeError, RunFolderError, RunInterrupted
from ppdm_dask.experiments.folder import RunFolder, read_result
from ppdm_dask.experiments.kinds import AnyRecipe, check_recipe, load_recipe
from ppdm_dask.experiments.results import digest
from ppdm_dask.experiments.run import profile_of, run
from ppdm_dask.files.fields import Table, read_toml
from ppdm_dask.files.regular import require_file
from ppdm_dask.reproduce.compare import Comparison, compare
from ppdm_dask.reproduce.fingerprint import Fingerprint, fingerprint, short
from ppdm_dask.reproduce.golden import Golden, golden_path
from ppdm_dask.reproduce.summary import Summary, summarise
from ppdm_dask.shown import listed, shown

if TYPE_CHECKING:
    import xarray as xr

    from ppdm_dask.engine.cells import Progress

__all__ = [
    "FILE",
    "GRADES",
    "Finished",
    "Grade",
    "Reproduced",
    "compute",
    "default_folder",
    "own_folder",
    "read_grade",
    "reproduce",
]


FILE = "grades.toml"
GRADES = ("small", "full")
LEFT_OUT = "left_out"

LONGEST_NAME = 100
"""Characters of a recipe's name, after which folders are called."""


@dataclass(frozen=True)
class Grade:
    """What a reproduction runs.

    Parameters
    ----------
    name : {"small", "full"}
    folder : Path
        Where the goldens are.
    recipes : tuple of recipes
        Each with the changes of the grade.
    left_out : mapping of str to str
        Recipes that the grade leaves out, and why.
    """

    name: str
    folder: Path
    recipes: tuple[AnyRecipe, ...]
    left_out: Mapping[str, str]


def default_folder() -> Path:
    """Folder of the goldens in a checkout.

    Raises
    ------
    InputError
        In an installed package, which has none.
    """
    import ppdm_dask

    folder = Path(ppdm_dask.__file__).resolve().parent.parent / "tests" / "golden"
    if not (folder / FILE).is_file():
        raise InputError(
            "--against: got nothing; an installed package has no goldens: give the folder of a "
            f"checkout's tests/golden, or one of your own with a {FILE}",
            None,
        )
    return folder


def read_grade(folder: Path, name: str, only: Iterable[str] = ()) -> Grade:
    """Read a grade of a folder of goldens, and load its recipes.

    Parameters
    ----------
    folder : Path
        It holds ``grades.toml``: a table a grade, in it a table a recipe with the values that the
        grade changes, or with ``left_out`` and the reason.
    name : str
        The grade.
    only : iterable of str
        Recipes to take of it; by default all that are not left out.

    Raises
    ------
    InputError
        One line: file, dotted path, value, and what would be right.
    """
    path = folder / FILE
    root = Table(read_toml(path), str(path))
    table = root.table(name, f"a table [{name}] with the recipes of that grade is needed")
    recipes, left_out = {}, {}
    for key in table.remaining():
        if Path(key).name != key or not key.isprintable() or not 0 < len(key) <= LONGEST_NAME:
            right = f"the name of a recipe is needed, of {LONGEST_NAME} characters at most"
            raise table.error(key, table.take(key), right)
        entry = table.table(key, "a table with the values that the grade changes is needed")
        reason = entry.optional_text(LEFT_OUT, "the reason is needed, as a text")
        if reason is not None:
            entry.done()
            left_out[key] = reason
        else:
            recipes[key] = _recipe(key, entry, folder)
    chosen = list(only) or list(recipes)
    for each in chosen:
        if each not in recipes:
            why = f"it is left out: {left_out[each]}" if each in left_out else "it has no such"
            known = f"; there are: {listed(recipes)}" if each not in left_out else ""
            raise InputError(f"{path}: {name}: got recipe {shown(each)}; {why}{known}", each)
    return Grade(name, folder, tuple(recipes[each] for each in dict.fromkeys(chosen)), left_out)


def _recipe(key: str, entry: Table, folder: Path) -> AnyRecipe:
    file = entry.optional_text("file", "the path of a recipe's file is needed")
    if file:
        where = f"{entry.source}: {entry.path}.file"
        require_file(folder / file, lambda what, path: RecipeError(f"{where}: {what}", path))
    try:
        recipe = load_recipe(folder / file if file else key)
    except RecipeError as error:
        if file:
            raise
        raise RecipeError(f"{entry.source}: {entry.path}: {error}", error.subject) from None
    config = deepcopy(recipe.config())
    _change(config, entry.rest(), entry)
    source = f"{entry.source}: {entry.path} of {recipe.source}"
    changed = type(recipe).from_config(config, source, key)
    changed = replace(changed, base=recipe.base)
    check_recipe(changed)
    return changed


def _change(config: Any, changes: Mapping[str, Any], at: Table, path: str = "") -> None:
    """Put values in the place of a recipe's own; lists of tables go by the tables' ids.

    What is no key of a recipe is left to the recipe's own reading to refuse.
    """
    for key, value in changes.items():
        inner = config.get(key)
        dotted = f"{path}.{key}" if path else key
        if isinstance(value, Mapping) and isinstance(inner, list):
            inner = {each["id"]: each for each in inner if isinstance(each, dict) and "id" in each}
            for name in value:
                if name not in inner:
                    right = f"the recipe has no table of that id, known: {', '.join(inner)}"
                    raise at.error(f"{dotted}.{name}", value[name], right)
        if isinstance(value, Mapping) and isinstance(inner, dict):
            _change(inner, value, at, dotted)
        else:
            config[key] = value


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
