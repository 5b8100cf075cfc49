"""``ppdm reproduce``: run, compare, say what moved; or write goldens anew."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ppdm_dask.cli.output import print_json, print_lines, print_table

if TYPE_CHECKING:
    from ppdm_dask.experiments.kinds import AnyRecipe
    from ppdm_dask.reproduce.compare import Drift
    from ppdm_dask.reproduce.notify import Notice
    from ppdm_dask.reproduce.renew import Renewed
    from ppdm_dask.reproduce.reproduce import Grade, Reproduced

__all__ = ["renew_goldens", "reproduce_recipes"]

SHOWN = 3
"""Cells of a drift of either kind that are printed; all of them are in drift.json."""


def reproduce_recipes(
    recipes: Sequence[str],
    *,
    grade: str,
    against: Path | None,
    out: Path,
    workers: int | None,
    cluster: str | None,
    fresh: bool,
    hook: str | None,
    page: bool,
    as_json: bool,
) -> int:
    """Run and compare; 0, or 1 if something drifted or failed, or nobody could be told."""
    from ppdm_dask.experiments.folder import now
    from ppdm_dask.reproduce import documents
    from ppdm_dask.reproduce.notify import check_hook, notify
    from ppdm_dask.reproduce.reproduce import reproduce

    if hook is not None:
        check_hook(hook)
    started = now()
    chosen = _grade(against, grade, recipes)
    with _occupied(out, fresh):
        results = reproduce(chosen, out, workers=workers, cluster=cluster, progress=_progress)
        whole = documents.make_reproduction(chosen, results, started)
        drift = out / documents.DRIFT
        documents.write_json(drift, documents.make_drift(chosen, results))
        documents.write_json(out / documents.REPRODUCTION, whole)
        keys = documents.drift_keys(results)
        notice = notify(out / "state.json", grade, keys, drift, hook)
        written, unwritten = _page(out / documents.REPRODUCTION) if page else (None, "")
    if unwritten:
        print(f"ppdm: warning: no page was written: {unwritten}", file=sys.stderr)
    if notice.problem:
        print(f"ppdm: warning: {notice.problem}; it is called again next time", file=sys.stderr)
    if as_json:
        print_json(whole)
    else:
        _print(results, chosen, drift, notice, written)
    return 1 if whole["status"] == "drift" or notice.problem or unwritten else 0


def renew_goldens(
    recipes: Sequence[str],
    reason: str,
    *,
    grade: str,
    against: Path | None,
    out: Path,
    workers: int | None,
    fresh: bool,
    as_json: bool,
) -> None:
    """Write goldens anew, and print what became of each."""
    from ppdm_dask.reproduce.renew import check_reason, renew

    check_reason(reason)

    def tell(renewed: Renewed) -> None:
        if not as_json:
            print(f"{renewed.path}: {renewed.what}, digest {renewed.digest}", flush=True)

    chosen = _grade(against, grade, recipes)
    with _occupied(out, fresh):
        found = renew(chosen, out, reason, workers=workers, progress=_progress, done=tell)
    if as_json:
        print_json(
            [
                {"recipe": each.recipe, "path": str(each.path), "digest": each.digest}
                | {"what": each.what, "work_seconds": each.work_seconds}
                for each in found
            ]
        )


def _grade(against: Path | None, grade: str, recipes: Sequence[str]) -> Grade:
    from ppdm_dask.reproduce.reproduce import default_folder, read_grade

    return read_grade(default_folder() if against is None else against, grade, recipes)


@contextmanager
def _occupied(out: Path, fresh: bool) -> Iterator[None]:
    """Context in which no other reproduction uses the folder."""
    from ppdm_dask.errors import RunFolderError
    from ppdm_dask.files.lock import RunLock
    from ppdm_dask.reproduce.documents import forget

    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RunFolderError(f"{out}: cannot be made: {error.strerror}", out) from None
    lock = RunLock(out / "reproduce.lock", out)
    try:
        if fresh:
            forget(out)
        yield
    finally:
        lock.release()


def _progress(recipe: AnyRecipe) -> Any:
    from ppdm_dask.cli.progress import ProgressReporter

    return ProgressReporter(recipe.name)


def _page(document: Path) -> tuple[Path | None, str]:
    """Write the page of a reproduction; why not, where that fails."""
    from ppdm_dask.errors import PPDMError
    from ppdm_dask.report import write_reproduction

    try:
        return write_reproduction(document), ""
    except PPDMError as error:
        return None, " ".join(str(error).split())


def _print(
    results: Sequence[Reproduced], grade: Grade, drift: Path, notice: Notice, page: Path | None
) -> None:
    from ppdm_dask.drawing.tables import plain_table

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
    print_table(plain_table(header, rows, right=(4,)))
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


def _seconds(result: Reproduced) -> str:
    if result.finished is None:
        return ""
    return "finished" if result.finished.reused else f"{result.finished.seconds:.1f}"


def _shared_reasons(results: Sequence[Reproduced]) -> dict[str, list[str]]:
    """Reasons, each with the recipes that it holds for."""
    found: dict[str, list[str]] = {}
    for result in results:
        for reason in result.comparison.reasons:
            found.setdefault(reason, []).append(result.recipe)
    return found


def _moved(result: Reproduced) -> Iterator[str]:
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


def _line(drift: Drift) -> str:
    values = drift.config()
    where = " ".join(filter(None, [drift.variable, drift.cell]))
    expected, found = _said(values["expected"]), _said(values["found"])
    if expected == found:  # only the last digits differ, or the standard errors alone
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
