"""Run the recipes of a grade, and compare each with its golden or renew the goldens.

``grades.toml`` says which recipes a grade runs, and at what size.
"""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable, Iterable, Mapping
from copy import deepcopy
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from ppdm_dask import __version__
from ppdm_dask.errors import InputError, PPDMError, RecipeError, RunFolderError, RunInterrupted
from ppdm_dask.experiments.folder import RunFolder, read_result
from ppdm_dask.experiments.kinds import AnyRecipe, check_recipe, load_recipe
from ppdm_dask.experiments.results import digest
from ppdm_dask.experiments.run import profile_of, run
from ppdm_dask.files.declared import document
from ppdm_dask.files.fields import TomlTable, read_toml
from ppdm_dask.files.regular import require_file
from ppdm_dask.files.values import Schema, Text
from ppdm_dask.reproduce.compare import Comparison, compare
from ppdm_dask.reproduce.golden import Fingerprint, Golden, fingerprint, golden_path, short
from ppdm_dask.reproduce.summary import Summary, summarise
from ppdm_dask.shown import given, listed, shown

if TYPE_CHECKING:
    import xarray as xr

    from ppdm_dask.engine.cells import Progress

__all__ = [
    "Grade",
    "Renewed",
    "Reproduced",
    "check_reason",
    "default_folder",
    "grades_schema",
    "read_grade",
    "renew",
    "reproduce",
]


FILE = "grades.toml"
GRADES = ("small", "full")
LEFT_OUT = "left_out"

LONGEST_NAME = 100
"""Characters of a recipe's name, after which folders are called."""

FOLDERS = [".", ".."]
"""Names that folders have already."""


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
        It holds ``grades.toml``: one table per grade, with one table per recipe in it: the values
        that the grade changes, or ``left_out`` with the reason.
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
    root = TomlTable(read_toml(path), str(path))
    table = root.table(name, f"a table [{name}] with the recipes of that grade is needed")
    recipes, left_out = {}, {}
    for key in table.remaining():
        # It becomes part of a path: nothing that leaves the folder, or that no terminal shows.
        named = Path(key).name == key and key not in FOLDERS
        if not named or not key.isprintable() or not 0 < len(key) <= LONGEST_NAME:
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


def grades_schema() -> Schema:
    """JSON Schema of ``grades.toml``; the keys that it changes depend on the recipes."""
    reason = {"description": "Why this grade leaves the recipe out.", **Text().schema()}
    file = {
        "description": "File of the recipe, if the package has no such recipe.",
        **Text().schema(),
    }
    recipe: Schema = {
        "title": "Values of a recipe that the grade changes",
        "type": "object",
        "properties": {LEFT_OUT: reason, "file": file},
        "if": {"required": [LEFT_OUT]},
        "then": {"propertyNames": {"const": LEFT_OUT}},
    }
    grade: Schema = {
        "title": "Recipes of a grade, by name",
        "type": "object",
        "propertyNames": {
            "pattern": "^[^/]+$",
            "maxLength": LONGEST_NAME,
            "not": {"enum": FOLDERS},
        },
        "additionalProperties": recipe,
    }
    whole: Schema = {"type": "object", "additionalProperties": grade}
    return document("Grades of a reproduction, for ppdm_dask", whole)


def _recipe(key: str, entry: TomlTable, folder: Path) -> AnyRecipe:
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
    # Through plain tables, so that the recipe's own reader checks the changed whole.
    config = deepcopy(recipe.config())
    _change(config, entry.rest(), entry)
    source = f"{entry.source}: {entry.path} of {recipe.source}"
    changed = type(recipe).from_config(config, source, key)
    changed = replace(changed, base=recipe.base)
    check_recipe(changed)
    return changed


def _change(config: Any, changes: Mapping[str, Any], at: TomlTable, path: str = "") -> None:
    """Replace values of a recipe; lists of tables go by the tables' ids.

    Unknown keys are put in too, for the recipe's reader to refuse.
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
        Wall time of this call; next to nothing for a run that was finished before.
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
        Folder of its run; a failed run may have none.
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
    """Folder of the runs of this environment: a run is never continued in another one."""
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
        As of :func:`~ppdm_dask.experiments.run.run`.  The processors of a cluster are not known, so
        results that differ there in a bit are compared within tolerances.
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
        If it was stopped; the same call resumes it.
    """
    # All goldens first: a missing one is said at once, not after hours of work.
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
        raise  # the next recipe would meet the same full disk, or the same Ctrl-C
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
        if result.digest is None:  # a partial result compares with nothing
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


SHORTEST = 10
"""Characters of a reason."""


@dataclass(frozen=True)
class Renewed:
    """What became of a golden.

    Parameters
    ----------
    recipe : str
    path : Path
    digest : str
    what : {"new", "changed", "other environment", "unchanged"}
        The file is not written where nothing has changed.
    seconds, work_seconds : float
        As of :class:`~ppdm_dask.reproduce.reproduce.Finished`.
    """

    recipe: str
    path: Path
    digest: str
    what: Literal["new", "changed", "other environment", "unchanged"]
    seconds: float
    work_seconds: float


def check_reason(reason: str) -> str:
    """Return the reason as one line.

    Raises
    ------
    InputError
        If it is too short to be one.
    """
    reason = " ".join(reason.split())
    if len(reason) < SHORTEST:
        raise InputError(
            f"--renew: got {given(reason)}; a sentence of {SHORTEST} characters or more is needed, "
            "on why other numbers are right",
            reason,
        )
    return reason


def renew(
    grade: Grade,
    out: Path,
    reason: str,
    *,
    workers: int | None = None,
    progress: Callable[[AnyRecipe], Any] | None = None,
    done: Callable[[Renewed], None] | None = None,
) -> list[Renewed]:
    """Run the recipes of a grade, and write the goldens that differ.

    Parameters
    ----------
    grade : Grade
    out : Path
        The runs go below it; what is finished there is not computed again.
    reason : str
        Why; it is kept in every golden that is written.
    workers, progress
        As of :func:`~ppdm_dask.reproduce.reproduce.reproduce`.
    done : callable, optional
        Called with each golden after it was written or found unchanged.

    Raises
    ------
    InputError
        If the reason is none, or a golden that is there is damaged, before anything is run.
    """
    reason = check_reason(reason)
    # Read before anything is run: their history goes into the goldens that replace them.
    before = {}
    for recipe in grade.recipes:
        path = golden_path(grade.folder, recipe.name, grade.name)
        before[recipe.name] = Golden.read(path) if path.exists() else None
    own = fingerprint()
    found = []
    for recipe in grade.recipes:
        finished = compute(recipe, own_folder(out, own), workers=workers, progress=progress)
        renewed = _write(recipe, grade, before[recipe.name], finished, reason, own)
        if done is not None:
            done(renewed)
        found.append(renewed)
    return found


def _write(
    recipe: AnyRecipe,
    grade: Grade,
    before: Golden | None,
    finished: Finished,
    reason: str,
    own: Fingerprint,
) -> Renewed:
    path = golden_path(grade.folder, recipe.name, grade.name)
    entry = {
        "date": datetime.now(UTC).date().isoformat(),
        "digest": finished.digest,
        "reason": reason,
    }
    golden = Golden(
        recipe=recipe.name,
        grade=grade.name,
        recipe_digest=recipe.digest,
        digest=finished.digest,
        fingerprint=own,
        version=__version__,
        summaries=finished.summaries,
        history=(*(before.history if before else ()), entry),
    )
    what: Literal["new", "changed", "other environment", "unchanged"] = "changed"
    if before is None:
        what = "new"
    elif (before.digest, before.recipe_digest) == (golden.digest, golden.recipe_digest):
        what = "unchanged" if before.fingerprint == own else "other environment"
    # A golden of another environment is written too: it decides how later runs are compared.
    if what != "unchanged":
        golden.write(path)
    times = finished.seconds, finished.work_seconds
    return Renewed(recipe.name, path, finished.digest, what, *times)
