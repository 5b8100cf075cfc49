"""``ppdm reproduce``: run, compare, say what moved; or renew the goldens."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from logging import WARNING
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

import ppdm_dask as pp
from ppdm_dask.cli.completing import recipe_names
from ppdm_dask.cli.logs import tell
from ppdm_dask.cli.options import Cluster, Json, Workers
from ppdm_dask.cli.output import ProgressReporter, print_json, print_lines, print_rows
from ppdm_dask.errors import InputError, PPDMError, RunFolderError
from ppdm_dask.files.lock import RunLock

SHOWN = 3
"""Cells of a drift that are printed, of either kind; all of them are in drift.json."""


def reproduce(
    recipes: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="RECIPE",
            help="Recipes of the grade.",
            show_default="all of them",
            autocompletion=recipe_names,
        ),
    ] = None,
    grade: Annotated[
        Literal["small", "full"],
        typer.Option(help="small: a few minutes, for every day; full: everything at full size."),
    ] = "small",
    against: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="Folder of the goldens.", show_default="the checkout's tests/golden"
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Folder for the runs, reproduction.json and drift.json.",
            show_default="runs/reproduce-GRADE",
        ),
    ] = None,
    workers: Workers = None,
    cluster: Cluster = None,
    fresh: Annotated[
        bool,
        typer.Option(
            "--fresh", help="Compute again what a complete earlier reproduction computed."
        ),
    ] = False,
    hook: Annotated[
        str | None,
        typer.Option(
            metavar="CMD",
            help="Call CMD drift FILE for a new drift, and CMD closed FILE at its end.",
            show_default=False,
        ),
    ] = None,
    page: Annotated[
        bool, typer.Option("--page/--no-page", help="Write report.html, with all figures.")
    ] = True,
    renew: Annotated[
        str | None,
        typer.Option(
            metavar="WHY",
            help="Write new goldens with this reason, without a comparison.",
            show_default=False,
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Run all recipes and compare the results with their goldens; exit 1 if a number changed."""
    folder = out or Path("runs") / f"reproduce-{grade}"
    if renew is not None:
        if hook is not None:
            raise InputError("--renew: nothing is compared, so there is no --hook to call", hook)
        if cluster is not None:
            what = "--renew: goldens are made on this machine, whose processor they name; leave out"
            raise InputError(f"{what} --cluster", cluster)
        pp.reproduce.check_reason(renew)
        chosen = _grade(against, grade, recipes)
        _renew(chosen, folder, renew, workers=workers, fresh=fresh, as_json=as_json)
        return
    if hook is not None:
        pp.reproduce.check_hook(hook)  # not after hours of work
    started = pp.experiments.now()
    chosen = _grade(against, grade, recipes)
    documents = pp.reproduce.documents
    with _occupied(folder, fresh):
        with pp.cluster.pool_kept():
            results = pp.reproduce.reproduce(
                chosen, folder, workers=workers, cluster=cluster, progress=_progress
            )
        whole = documents.make_reproduction(chosen, results, started)
        drift = folder / documents.DRIFT
        # The whole last: while it is missing, --fresh takes the runs for unfinished.
        documents.write_json(drift, documents.make_drift(chosen, results))
        documents.write_json(folder / documents.REPRODUCTION, whole)
        keys = documents.drift_keys(results)
        notice = pp.reproduce.notify(folder / "state.json", grade, keys, drift, hook)
        written, unwritten = _page(folder / documents.REPRODUCTION) if page else (None, "")
    if unwritten:
        tell(f"no page was written: {unwritten}", level=WARNING)
    if notice.problem:
        tell(f"{notice.problem}; it is called again next time", level=WARNING)
    if as_json:
        print_json(whole)
    else:
        _print(results, chosen, drift, notice, written)
    wrong = whole["status"] == "drift" or notice.problem or unwritten
    raise typer.Exit(1 if wrong else 0)


def _renew(
    chosen: pp.reproduce.Grade,
    out: Path,
    reason: str,
    *,
    workers: int | None,
    fresh: bool,
    as_json: bool,
) -> None:
    """Renew the goldens, and print what became of each."""

    def tell(renewed: pp.reproduce.Renewed) -> None:
        if not as_json:
            print(f"{renewed.path}: {renewed.what}, digest {renewed.digest}", flush=True)

    with _occupied(out, fresh):
        found = pp.reproduce.renew(
            chosen, out, reason, workers=workers, progress=_progress, done=tell
        )
    if as_json:
        print_json(
            [
                {"recipe": each.recipe, "path": str(each.path), "digest": each.digest}
                | {"what": each.what, "work_seconds": each.work_seconds}
                for each in found
            ]
        )


def _grade(against: Path | None, grade: str, recipes: Sequence[str] | None) -> pp.reproduce.Grade:
    return pp.reproduce.read_grade(
        pp.reproduce.default_folder() if against is None else against, grade, recipes or []
    )


@contextmanager
def _occupied(out: Path, fresh: bool) -> Iterator[None]:
    """Context in which no other reproduction uses the folder."""
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RunFolderError(f"{out}: cannot be made: {error.strerror}", out) from None
    lock = RunLock(out / "reproduce.lock", out)
    try:
        if fresh:
            pp.reproduce.documents.forget(out)
        yield
    finally:
        lock.release()


def _progress(recipe: pp.experiments.AnyRecipe) -> Any:
    return ProgressReporter(recipe.name)


def _page(document: Path) -> tuple[Path | None, str]:
    """Write the page of a reproduction; return its path, or why there is none."""
    # The comparison is done and written: a page that fails must not hide it.
    try:
        return pp.report.write_reproduction(document), ""
    except PPDMError as error:
        return None, " ".join(str(error).split())


def _print(
    results: Sequence[pp.reproduce.Reproduced],
    grade: pp.reproduce.Grade,
    drift: Path,
    notice: pp.reproduce.Notice,
    page: Path | None,
) -> None:
    rows = [
        [
            result.recipe,
            result.comparison.status,
            result.comparison.kind if result.finished else "",
            result.finished.digest[:12] if result.finished else "",
            _seconds(result),
        ]
        for result in results
    ]
    header = ["recipe", "status", "compared", "digest", "seconds"]
    print_rows(header, rows, right=(4,))
    print()
    for reason, names in _shared_reasons(results).items():
        everything = len(names) == len(results) and len(names) > 1
        print(f"{'all' if everything else ', '.join(names)}: {reason}")
    for result in results:
        print_lines(_moved(result))
    if notice.event:
        print(f"the hook was told: {notice.event}")
    if page is not None:
        print(f"page: {page}")
    wrong = [r.recipe for r in results if r.comparison.status in ("drifted", "failed")]
    if wrong:
        since = f", open since {notice.since}"
        print(f"drift: {len(wrong)} of {_recipes(len(results))}{since}: {drift}")
    else:
        print(f"green: {_recipes(len(results))} as in {grade.folder}")


def _recipes(count: int) -> str:
    return f"{count} {'recipe' if count == 1 else 'recipes'}"


def _seconds(result: pp.reproduce.Reproduced) -> str:
    if result.finished is None:
        return ""
    return "finished" if result.finished.reused else f"{result.finished.seconds:.1f}"


def _shared_reasons(results: Sequence[pp.reproduce.Reproduced]) -> dict[str, list[str]]:
    """Reasons, each with the recipes that it holds for."""
    found: dict[str, list[str]] = {}
    for result in results:
        for reason in result.comparison.reasons:
            found.setdefault(reason, []).append(result.recipe)
    return found


def _moved(result: pp.reproduce.Reproduced) -> Iterator[str]:
    """Lines on the cells that moved: the first one, and those that moved most."""
    drifts = result.comparison.drifts
    if result.comparison.status == "drifted" and not drifts:
        yield f"{result.recipe}: the digest is another one, though no variable differs"
    if not drifts:
        return
    count = len(drifts)
    yield f"{result.recipe}: {count:,} {'cell differs' if count == 1 else 'cells differ'}"
    yield f"  first: {_line(drifts[0])}"
    for what, among in [
        ("most by z", [drift for drift in drifts if drift.z is not None]),
        ("most without a standard error", [drift for drift in drifts if drift.z is None]),
    ]:
        for drift in sorted(among, key=lambda each: -each.size)[: SHOWN if count > 1 else 0]:
            yield f"  {what}: {_line(drift)}"


def _line(drift: pp.reproduce.Drift) -> str:
    values = drift.config()
    where = " ".join(filter(None, [drift.variable, drift.cell]))
    expected, found = _said(values["expected"]), _said(values["found"])
    if expected == found:  # only the last digits differ, or only the standard errors
        expected, found = str(values["expected"]), str(values["found"])
    text = f"{where}: expected {expected}, found {found}"
    if values["expected"] == values["found"]:
        text += f", standard error {values['expected_se']}, found {values['found_se']}"
    text += "" if drift.z is None else f", z = {drift.z:+.2f}"
    return text + ("" if drift.bound is None else f", allowed {drift.bound:.2f}")


def _said(value: Any) -> str:
    if value is None:
        return "nothing"
    return f"{value:.9g}" if isinstance(value, float) else str(value)
