"""Write goldens anew: on purpose alone, and never without a reason that stays in the file."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from ppdm_dask import __version__
from ppdm_dask.errors import InputError
from ppdm_dask.experiments.kinds import AnyRecipe
from ppdm_dask.reproduce.fingerprint import Fingerprint, fingerprint
from ppdm_dask.reproduce.golden import Golden, golden_path
from ppdm_dask.reproduce.reproduce import Finished, Grade, compute, own_folder
from ppdm_dask.shown import given

__all__ = ["Renewed", "check_reason", "renew"]


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
        Called with each golden after it was written, or left as it was.

    Raises
    ------
    InputError
        If the reason is none, or a golden that is there is damaged, before anything is run.
    """
    reason = check_reason(reason)
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
    if what != "unchanged":
        golden.write(path)
    times = finished.seconds, finished.work_seconds
    return Renewed(recipe.name, path, finished.digest, what, *times)
