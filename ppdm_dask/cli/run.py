"""``ppdm run``: run recipes and print what came out, or say what would be done."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ppdm_dask.cli.output import print_json, print_lines, print_result, print_table

if TYPE_CHECKING:
    from ppdm_dask.experiments.kinds import AnyRecipe
    from ppdm_dask.experiments.run import RunResult

__all__ = ["plan_recipes", "run_recipes"]


def run_recipes(
    recipes: Sequence[str],
    *,
    repeats: int | None,
    seed: int | None,
    workers: int | None,
    cluster: str | None,
    out: Path,
    retry_failed: bool,
    as_json: bool,
) -> int:
    """Run recipes one after the other; 0, or 1 if trials had to be given up."""
    from ppdm_dask.cli.progress import ProgressReporter
    from ppdm_dask.experiments.run import run
    from ppdm_dask.report import write_report

    found = []
    wrong = False
    for recipe in _load(recipes, repeats, seed):
        with ProgressReporter(recipe.name) as progress:
            result = run(
                recipe,
                workers=workers,
                cluster=cluster,
                out=out,
                retry_failed=retry_failed,
                progress=progress,
            )
        write_report(result.folder)
        wrong = wrong or result.digest is None
        for trial in result.outcome.quarantined:
            print(f"ppdm: quarantined: {trial}", file=sys.stderr)
        if result.outcome.quarantined:
            # The same command would end like this one, at once.
            earlier = " in an earlier run" if result.outcome.remembered else ""
            what = f"ppdm: {recipe.name}: given up{earlier}; --retry-failed tries again"
            print(what, file=sys.stderr)
        found.append(_as_json(recipe, result))
        if not as_json:
            _print(recipe, result)
    if as_json:
        print_json(found)
    return 1 if wrong else 0


def plan_recipes(
    recipes: Sequence[str], *, repeats: int | None, seed: int | None, out: Path, as_json: bool
) -> None:
    """Print the cells of recipes, where their runs go, and what is done already."""
    found = [_plan(recipe, out) for recipe in _load(recipes, repeats, seed)]
    if as_json:
        print_json(found)
        return
    from ppdm_dask.drawing.tables import plain_table

    for plan in found:
        rows = [
            [cell["cell"], f"{cell['done']:,}", f"{cell['repeats']:,}", cell["undefined"]]
            for cell in plan["cells"]
        ]
        header = ["cell", "done", "repeats", "undefined because"]
        print_table(plain_table(header, rows, right=(1, 2)))
        there = "there already" if plan["exists"] else "not there yet"
        print(f"\n{plan['recipe']}: {plan['done']:,} of {plan['repeats']:,} repeats are done")
        print(f"run folder: {plan['folder']} ({there})")


def _load(recipes: Sequence[str], repeats: int | None, seed: int | None) -> list[AnyRecipe]:
    """Load and check all recipes, before the first is run."""
    from ppdm_dask.experiments.kinds import check_recipe, load_recipe

    loaded = [load_recipe(recipe).with_changes(repeats=repeats, seed=seed) for recipe in recipes]
    for recipe in loaded:
        check_recipe(recipe)
    return loaded


def _as_json(recipe: AnyRecipe, result: RunResult) -> dict[str, Any]:
    from ppdm_dask.experiments.kinds import kind_of

    return {
        "recipe": recipe.name,
        "folder": str(result.folder),
        **kind_of(recipe).as_json(result.dataset),
        "findings": result.findings,
        "quarantined": [str(trial) for trial in result.outcome.quarantined],
        "digest": result.digest,
    }


def _print(recipe: AnyRecipe, result: RunResult) -> None:
    print(recipe.about.title)
    print_result(result.dataset)
    print()
    print_lines(f"finding: {finding}" for finding in result.findings)
    print(f"folder: {result.folder}")
    print(f"digest: {result.digest or 'none, since trials were quarantined'}")


def _plan(recipe: AnyRecipe, out: Path) -> dict[str, Any]:
    from ppdm_dask.experiments.folder import RunFolder
    from ppdm_dask.experiments.kinds import make_plan

    folder = RunFolder.plan(recipe, out)
    plan = make_plan(recipe)
    named = plan.listed
    done = _done(folder.ledger, [cell for cell, _ in named])
    cells = [
        {
            "cell": cell.id,
            "repeats": 0 if reason else cell.repeats,
            "done": count,
            "undefined": reason,
        }
        for (cell, reason), count in zip(named, done, strict=True)
    ]
    return {
        "recipe": recipe.name,
        "folder": str(folder.path),
        "exists": folder.manifest.is_file(),
        "repeats": sum(cell.repeats for cell in plan.cells),
        "done": sum(done),
        "cells": cells,
    }


def _done(path: Path, cells: Sequence[Any]) -> list[int]:
    """Return how many repeats of each cell the ledger has."""
    if not path.is_file():
        return [0] * len(cells)
    from ppdm_dask.engine.ledger import Ledger

    with Ledger(path, readonly=True) as ledger:
        return [int(ledger.finished(cell).size) for cell in cells]
