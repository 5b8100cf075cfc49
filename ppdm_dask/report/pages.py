"""Write the page of a run, and that of a reproduction of all recipes."""

from __future__ import annotations

from collections import Counter
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ppdm_dask.claims.verdict import STATUSES
from ppdm_dask.errors import InputError
from ppdm_dask.files.documents import NUMBER, Form, misfit, read_sealed
from ppdm_dask.files.writing import write_text
from ppdm_dask.shown import cut

if TYPE_CHECKING:
    from jinja2 import Environment

__all__ = ["write_report", "write_reproduction"]


def write_report(run: str | Path) -> Path:
    """Draw the figures of a run, and write its page: ``report.html`` in its folder.

    Parameters
    ----------
    run : str or Path
        The run's folder; the run may be unfinished.

    Returns
    -------
    Path
        The page, which needs no other file, no network and no script.

    Raises
    ------
    RunFolderError
        If the folder is no run's, or cannot be written.
    InputError
        If a run is unfinished, and the recipe's codebooks or data are no longer what they were.
    """
    from ppdm_dask.experiments.stored import read_run
    from ppdm_dask.report.view import view_run

    stored = read_run(run)
    path = stored.folder.path / "report.html"
    view = view_run(stored, "run")
    write_text(path, _render("report.html.j2", run=view, counts=_counts([view])))
    return path


def write_reproduction(document: str | Path) -> Path:
    """Write the page of a reproduction: ``report.html`` beside its JSON.

    Parameters
    ----------
    document : str or Path
        ``reproduction.json`` as ``ppdm reproduce`` writes it: how each recipe compares with its
        golden, and where its run is.  Runs whose folders are gone are listed without figures.

    Raises
    ------
    InputError
        If the file cannot be read, or is no reproduction.
    RunFolderError
        If a run's folder or the page cannot be written.
    """
    from ppdm_dask.errors import RunFolderError
    from ppdm_dask.experiments.stored import read_run
    from ppdm_dask.report.view import view_run

    path = Path(document)
    found = _read(path)
    views, missing = [], []
    for i, recipe in enumerate(found["recipes"]):
        try:
            stored = read_run(recipe["folder"])
        except RunFolderError as error:
            missing.append({"name": recipe["name"], "reason": str(error)})
            continue
        views.append(view_run(stored, f"run{i}"))
    page = path.with_name("report.html")
    text = _render(
        "reproduction.html.j2",
        found=found,
        runs=views,
        missing=missing,
        counts=_counts(views),
        drifts=[drift for recipe in found["recipes"] for drift in recipe["drifts"]],
    )
    write_text(page, text)
    return page


VALUE = (str, int, float, type(None))
DRIFT = {"recipe": str, "variable": str, "cell": str, "expected": VALUE, "found": VALUE}
RECIPE: Form = {
    "name": str,
    "folder": str,
    "status": str,
    "comparison": str,
    "reasons": [str],
    "digest": (str, type(None)),
    "work_seconds": (*NUMBER, type(None)),
    "drifts": [{**DRIFT, "z": (*NUMBER, type(None))}],
}
FORM: Form = {
    "grade": str,
    "status": str,
    "started": str,
    "finished": str,
    "left_out": [{"name": str, "reason": str}],
    "recipes": [RECIPE],
}
ABSENT = {"grade": "", "status": "green", "started": "", "finished": "", "left_out": []}
UNTIMED = {"work_seconds": None}
"""What the page does without."""


def _read(path: Path) -> dict[str, Any]:
    try:
        found = read_sealed(path, "reproduction")
    except FileNotFoundError:
        raise InputError(f"{path}: there is no such file", path) from None
    recipes = found.get("recipes")
    if not isinstance(recipes, list) or not all(isinstance(each, dict) for each in recipes):
        raise InputError(f"{path}: recipes: this is no reproduction, it has no recipes", path)
    filled = {**ABSENT, **found, "recipes": [{**UNTIMED, **each} for each in recipes]}
    if (at := misfit(filled, FORM)) is not None:
        raise InputError(f"{path}: {cut(at)}: got nothing, or no value of a reproduction", path)
    return dict(found)


def _counts(views: list[dict[str, Any]]) -> list[tuple[str, int]]:
    """How many claims have each status, over runs; a claim that two runs show counts once."""
    statuses = {claim["id"]: claim["status"] for view in views for claim in view["claims"]}
    counts = Counter(statuses.values())
    return [(status, counts[status]) for status in STATUSES if counts[status]]


@cache
def _environment() -> Environment:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    made = Environment(
        loader=PackageLoader("ppdm_dask.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    made.filters["figure"] = _figure
    return made


def _figure(value: object) -> str:
    """A number of a drift in words."""
    if isinstance(value, float):
        return f"{value:.6g}"
    return "none" if value is None else str(value)


def _render(template: str, **context: Any) -> str:
    return _environment().get_template(template).render(**context)
