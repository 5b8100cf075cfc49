"""Judge claims on results, and write the page of all verdicts.

A status is always computed and never written in a file.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ppdm_dask.claims.calculations import calculate
from ppdm_dask.claims.claim import Claim, Paper, load_papers
from ppdm_dask.claims.quantity import Unjudged
from ppdm_dask.claims.verdict import STATUSES, Verdict, number
from ppdm_dask.errors import InputError
from ppdm_dask.experiments.folder import StoredRun, read_run
from ppdm_dask.experiments.kinds import AnyRecipe, load_recipe
from ppdm_dask.files.documents import parse_json
from ppdm_dask.files.regular import read_bounded
from ppdm_dask.files.writing import write_text
from ppdm_dask.resources import recipes

if TYPE_CHECKING:
    import xarray as xr


__all__ = ["write_reproduction_page"]


def judge(claim: Claim, results: Mapping[str, xr.Dataset]) -> Verdict:
    """Judge a claim on results, whole or partial, by the name of their recipe."""
    if claim.untestable is not None:
        return Verdict("not testable", claim.untestable)
    assert claim.rule is not None
    if claim.calculation is not None:
        return claim.rule.judge(calculate(claim.calculation))
    if claim.survey is None and claim.recipe not in results:
        return Verdict("not judged", f"no run of {claim.recipe} is at hand")
    try:
        if claim.survey is not None:
            return claim.rule.judge(claim.survey.numbers())
        return claim.rule.judge(results[str(claim.recipe)])
    except Unjudged as error:
        return Verdict("not judged", str(error))


def judge_all(papers: Iterable[Paper], results: Mapping[str, xr.Dataset]) -> dict[str, Verdict]:
    """Verdicts on all claims of papers, by the claims' ids."""
    return {claim.id: judge(claim, results) for paper in papers for claim in paper.claims}


def same_experiment(recipe: AnyRecipe) -> bool:
    """Whether a recipe is the package's of that name, but for repeats and seed."""
    if recipe.name not in recipes():
        return False
    own = load_recipe(recipe.name)
    # By the digest: a title or note may differ, a parameter may not.
    changed = recipe.with_changes(repeats=own.sweep.repeats, seed=own.sweep.seed)
    return changed.digest == own.digest


def papers_of(recipe: AnyRecipe) -> tuple[Paper, ...]:
    """The papers that a recipe refers to."""
    return tuple(paper for paper in load_papers() if paper.key in recipe.about.references)


def published_surveys() -> tuple[Paper, ...]:
    """The files of claims that are on published surveys, and on no recipe."""
    return tuple(p for p in load_papers() if all(claim.survey for claim in p.claims))


def claims_of(recipe: AnyRecipe) -> tuple[Claim, ...]:
    """Claims to be shown with a run of a recipe, in the papers' order; none for other recipes.

    They are those judged on its results and, with a recipe on which some are, all others of its
    papers that need no results.
    """
    papers = papers_of(recipe)
    own = [c for paper in papers for c in paper.claims if c.recipe == recipe.name]
    # A user's recipe proves nothing about a paper, even under the name of one of the package's.
    if not own or not same_experiment(recipe):
        return ()
    return tuple(
        claim for paper in papers for claim in paper.claims if claim.recipe in (recipe.name, None)
    )


Summary = dict[str, Any]


def write_reproduction_page(runs: Iterable[str | Path], page: str | Path) -> tuple[Path, Path]:
    """Judge all claims on runs; write the page of the claims and the summary from which it is made.

    Parameters
    ----------
    runs : iterable of str or Path
        Folders of finished runs, one for each recipe of the package.
    page : str or Path
        A Markdown file; the summary goes beside it, as JSON.

    Raises
    ------
    InputError
        If a run is not finished or not one of the package's recipes, or two are of one recipe.
    RunFolderError
        If a folder is not a run's, or a file cannot be written.
    """
    page = Path(page)
    summary = summarise([read_run(run) for run in runs])
    stored = page.with_suffix(".json")
    text = reproduction_page(summary)
    write_text(stored, json.dumps(summary, indent=1, ensure_ascii=False) + "\n")
    write_text(page, text)
    return page, stored


def summarise(runs: Sequence[StoredRun]) -> Summary:
    """Judge all claims on finished runs; no time, path or version enters."""
    results = {}
    described = []
    for run in runs:
        recipe = run.folder.recipe
        # The page is kept in the repository: it must not rest on what nobody can run again.
        if not run.finished:
            raise InputError(f"{run.folder.path}: the run is not finished", run.folder.path)
        if not same_experiment(recipe):
            raise InputError(
                f"{run.folder.path}: {recipe.name} is not the package's recipe of that name, "
                "on which claims are judged",
                run.folder.path,
            )
        if recipe.name in results:
            raise InputError(f"{run.folder.path}: a second run of {recipe.name}", run.folder.path)
        results[recipe.name] = run.dataset
        described.append(
            {
                "recipe": recipe.name,
                "repeats": recipe.sweep.repeats,
                "seed": recipe.sweep.seed,
                "digest": run.manifest["digest"],
            }
        )
    verdicts = judge_all(load_papers(), results)
    return {
        "schema": "ppdm claims 1",
        "runs": sorted(described, key=lambda each: str(each["recipe"])),
        "claims": {name: _plain(verdict) for name, verdict in verdicts.items()},
    }


def _plain(verdict: Verdict) -> dict[str, Any]:
    return {
        "status": verdict.status,
        "measured": verdict.measured,
        "figure": _rounded(verdict.figure),
        "error": _rounded(verdict.error),
        "of": verdict.of,
        "cells": verdict.cells,
        "against": verdict.against,
    }


def _rounded(value: float | None) -> float | None:
    """Ten digits: the last bits of a float are the machine's."""
    return None if value is None else float(f"{value:.10g}")


def read_summary(path: str | Path) -> Summary:
    """Read a summary as :func:`write_reproduction_page` writes it.

    Raises
    ------
    InputError
        If the file cannot be read, or is not such a summary.
    """
    path = Path(path)
    try:
        found = parse_json(read_bounded(path))
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}", path) from None
    except ValueError:
        raise InputError(f"{path}: this is not JSON", path) from None
    if not isinstance(found, dict) or found.get("schema") != "ppdm claims 1":
        raise InputError(f"{path}: this is not a summary of claims", path)
    return found


def reproduction_page(summary: Summary) -> str:
    """Write the page of all claims as Markdown, from a summary and the claims' own files."""
    # From the summary only, never from runs, so that a test can hold the page against the file.
    papers = load_papers()
    surveys = published_surveys()
    judged = summary["claims"]
    total = Counter(each["status"] for each in judged.values())
    testable = sum(n for status, n in total.items() if status != "not testable")
    lines = [
        "# Reproduction of the papers",
        "",
        f"This page lists {testable} claims of {_word(len(papers) - len(surveys))} papers"
        f"{' and of published surveys' if surveys else ''} that can be tested, and "
        f"{total['not testable']} that cannot. The statuses are computed from results by the rules "
        "of [pipelines/claims](../pipelines/claims/README.md). Only the explanations "
        "are written by hand; `ppdm report RUN... --claims docs/reproduction.md` wrote the rest.",
        "",
        "| paper | " + " | ".join(STATUSES) + " |",
        "|---" * (len(STATUSES) + 1) + "|",
    ]
    for paper in papers:
        counts = Counter(judged[claim.id]["status"] for claim in paper.claims)
        cells = [str(counts[status] or "") for status in STATUSES]
        lines.append(f"| [{paper.key}](#{paper.key.lower()}) | " + " | ".join(cells) + " |")
    cells = [str(total[status] or "") for status in STATUSES]
    lines += ["| all | " + " | ".join(cells) + " |", ""]
    lines += _runs(summary["runs"])
    for paper in papers:
        lines += _paper(paper, judged)
    return "\n".join(lines) + "\n"


def _word(n: int) -> str:
    return {2: "two", 3: "three", 4: "four", 5: "five"}.get(n, str(n))


def _runs(runs: Sequence[dict[str, Any]]) -> list[str]:
    lines = ["The results:", "", "| run | repeats | digest |", "|---|--:|---|"]
    lines += [
        f"| `ppdm run {run['recipe']}` | {run['repeats']:,} | `{run['digest']}` |" for run in runs
    ]
    return [
        *lines,
        "",
        "The number after ± is the standard error over repeats; numbers without ± are exact. If "
        "there are several comparisons, the table shows the one that supports the claim least.",
        "",
    ]


def _paper(paper: Paper, judged: dict[str, Any]) -> list[str]:
    lines = [f"## {paper.key}", "", f"{paper.authors}: {paper.title}.", ""]
    lines += ["| claim | status | figure ± standard error | test |", "|---|---|---|---|"]
    testable = [claim for claim in paper.claims if claim.untestable is None]
    lines += [_row(claim, judged[claim.id]) for claim in testable]
    differing = [c for c in testable if judged[c.id]["status"] == "differs" and c.differs]
    if differing:
        lines += ["", "Why results differ:", ""]
        lines += [f"- `{claim.id}`: {_inline(claim.differs or '')}" for claim in differing]
    rest = [claim for claim in paper.claims if claim.untestable is not None]
    if rest:
        lines += ["", "Not testable:", ""]
        lines += [
            f"- {_inline(claim.says)} ({claim.where}) {_inline(claim.untestable or '')}"
            for claim in rest
        ]
    return [*lines, ""]


def _row(claim: Claim, found: dict[str, Any]) -> str:
    printed = f" Paper: {_cell(claim.printed)}." if claim.printed else ""
    test = (claim.test or "").split("::")  # file, then the test's name
    return (
        f"| `{claim.id}`<br>{_cell(claim.says)}{printed} ({_cell(claim.where)}) "
        f"| {found['status']} "
        f"| {_figure(found)}{_cell(found['measured'])} "
        f"| [{test[-1]}](../{test[0]}) |"
    )


def _figure(found: dict[str, Any]) -> str:
    if found["figure"] is None:
        return ""
    of = "" if found["of"] == "value" else f"{found['of']} "
    return f"{of}**{number(found['figure'], found['error'] or 0.0)}**<br>"


def _inline(text: str) -> str:
    """Text with Markdown's marks escaped."""
    return "".join(f"\\{sign}" if sign in "\\`*_[]<>" else sign for sign in text)


def _cell(text: str) -> str:
    return _inline(text).replace("|", "\\|").replace("\n", " ")
