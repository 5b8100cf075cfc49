"""``ppdm run``, ``show``, ``figures`` and ``report``: runs of recipes, and a look at them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

import ppdm_dask as pp
from ppdm_dask.cli.completing import recipe_names
from ppdm_dask.cli.logs import tell
from ppdm_dask.cli.options import Cluster, Json, Run, Workers
from ppdm_dask.cli.output import ProgressReporter, print_json, print_lines, print_result, print_rows
from ppdm_dask.errors import InputError


def run(
    recipes: Annotated[
        list[str],
        typer.Argument(
            metavar="RECIPE...",
            help="Names, or paths of .toml files.",
            show_default=False,
            autocompletion=recipe_names,
        ),
    ],
    repeats: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="Repeats of each cell.", show_default="the recipe's"),
    ] = None,
    seed: Annotated[
        int | None,
        typer.Option(min=0, metavar="S", help="Seed of the run.", show_default="the recipe's"),
    ] = None,
    workers: Workers = None,
    cluster: Cluster = None,
    out: Annotated[
        Path, typer.Option(metavar="DIR", help="Folder that will contain the run's folder.")
    ] = Path("runs"),
    retry_failed: Annotated[
        bool,
        typer.Option(
            "--retry-failed", help="Compute the repeats again that an earlier run quarantined."
        ),
    ] = False,
    code: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FILE",
            help="Allow the recipe to run this Python file.",
            show_default=False,
        ),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print what the run would do, and write nothing.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Run recipes, or resume interrupted runs of them; print results and digests."""
    loaded = _load(recipes, repeats, seed)
    if dry_run:
        _print_plans([_plan(recipe, out) for recipe in loaded], as_json=as_json)
        return
    found = []
    wrong = False
    # Recipes that need worker processes share them.
    with pp.cluster.pool_kept():
        for recipe in loaded:
            with ProgressReporter(recipe.name) as progress:
                result = pp.run(
                    recipe,
                    workers=workers,
                    cluster=cluster,
                    out=out,
                    retry_failed=retry_failed,
                    code=code or (),
                    progress=progress,
                )
            # Before anything is printed: a closed pipe must not cost the page.
            pp.report.write_report(result.folder)
            wrong = wrong or result.digest is None
            for trial in result.outcome.quarantined:
                tell(f"quarantined: {trial}")
            if result.outcome.quarantined:
                # The same command would end at once, like this one: quarantine is remembered.
                earlier = " in an earlier run" if result.outcome.remembered else ""
                tell(f"{recipe.name}: given up{earlier}; --retry-failed tries again")
            found.append(_facts(recipe, result))
            if not as_json:
                _print(recipe, result)
    if as_json:
        print_json(found)
    raise typer.Exit(1 if wrong else 0)


def _print_plans(found: list[dict[str, Any]], *, as_json: bool) -> None:
    """Print the cells of recipes, where their runs go, and what is already done."""
    if as_json:
        print_json(found)
        return
    for plan in found:
        rows = [
            [cell["cell"], f"{cell['done']:,}", f"{cell['repeats']:,}", cell["undefined"]]
            for cell in plan["cells"]
        ]
        header = ["cell", "done", "repeats", "undefined because"]
        print_rows(header, rows, right=(1, 2))
        there = "there already" if plan["exists"] else "not there yet"
        print(f"\n{plan['recipe']}: {plan['done']:,} of {plan['repeats']:,} repeats are done")
        print(f"run folder: {plan['folder']} ({there})")


def _load(
    recipes: Sequence[str], repeats: int | None, seed: int | None
) -> list[pp.experiments.AnyRecipe]:
    """Load and check all recipes, before the first is run."""
    loaded = [
        pp.experiments.load_recipe(recipe).with_changes(repeats=repeats, seed=seed)
        for recipe in recipes
    ]
    for recipe in loaded:
        pp.experiments.check_recipe(recipe)
    return loaded


def _facts(recipe: pp.experiments.AnyRecipe, result: pp.experiments.RunResult) -> dict[str, Any]:
    return {
        "recipe": recipe.name,
        "folder": str(result.folder),
        **pp.experiments.kind_of(recipe).as_json(result.dataset),
        "findings": result.findings,
        "quarantined": [str(trial) for trial in result.outcome.quarantined],
        "digest": result.digest,
    }


def _print(recipe: pp.experiments.AnyRecipe, result: pp.experiments.RunResult) -> None:
    print(recipe.about.title)
    print_result(result.dataset)
    print()
    print_lines(f"finding: {finding}" for finding in result.findings)
    print(f"folder: {result.folder}")
    print(f"digest: {result.digest or 'none, since trials were quarantined'}")


def _plan(recipe: pp.experiments.AnyRecipe, out: Path) -> dict[str, Any]:
    folder = pp.experiments.RunFolder.plan(recipe, out)
    plan = pp.experiments.make_plan(recipe)
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
    with pp.engine.Ledger(path, readonly=True) as ledger:
        return [int(ledger.finished(cell).size) for cell in cells]


def show(folder: Run, as_json: Json = False) -> None:
    """Print the result of a run, finished or not."""
    stored = pp.experiments.read_run(folder)
    kind = pp.experiments.kind_of_result(stored.dataset)
    if as_json:
        print_json(
            {
                "recipe": stored.folder.recipe.name,
                "folder": str(folder),
                "status": stored.manifest["status"],
                **kind.as_json(stored.dataset),
                "findings": stored.findings,
                "quarantined": stored.manifest["quarantined"],
                "digest": stored.manifest["digest"],
            }
        )
        return
    print(stored.folder.recipe.about.title)
    print_result(stored.dataset)
    print()
    print_lines(f"finding: {finding}" for finding in stored.findings)
    print_lines(f"quarantined: {trial}" for trial in stored.manifest["quarantined"])
    print(f"folder: {folder}")
    print(
        f"digest: {stored.manifest['digest']}" if stored.finished else "unfinished: no digest yet"
    )


def figures(folder: Run, as_json: Json = False) -> None:
    """Draw the figures of a run, finished or not."""
    stored = pp.experiments.read_run(folder)
    recipe = stored.folder.recipe
    kind = pp.experiments.kind_of(recipe)
    files = kind.draw_figures(stored.dataset, recipe, stored.folder.figures)
    if as_json:
        print_json([str(file) for file in files])
    else:
        print_lines(map(str, files))


def report(
    sources: Annotated[
        list[Path],
        typer.Argument(
            metavar="RUN...",
            help="Folders of runs, or reproduction.json files.",
            show_default=False,
        ),
    ],
    claims: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Write one page of all claims, judged on these runs, instead of a page for each.",
            show_default=False,
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Write report.html of runs: figures beside the papers' claims, numbers, provenance."""
    # All of them first, or a page would be written before the mistake is seen.
    for source in sources:
        if not source.exists():
            raise InputError(f"{source}: there is no such folder or file", source)
    if claims is not None:
        written = list(pp.claims.write_reproduction_page(sources, claims))
    else:
        written = [
            pp.report.write_report(source)
            if source.is_dir()
            else pp.report.write_reproduction(source)
            for source in sources
        ]
    if as_json:
        print_json([str(path) for path in written])
    else:
        print_lines(map(str, written))
