"""``ppdm show`` and ``ppdm figures``: look at a run, finished or not."""

from __future__ import annotations

from pathlib import Path

from ppdm_dask.cli.output import print_json, print_lines, print_result

__all__ = ["draw_run", "show_run"]


def show_run(path: Path, *, as_json: bool) -> None:
    """Print the tables of a run, and how it stands."""
    from ppdm_dask.experiments.folder import read_run
    from ppdm_dask.experiments.kinds import kind_of_result

    run = read_run(path)
    kind = kind_of_result(run.dataset)
    found = run.manifest["findings"] if run.finished else kind.findings(run.dataset)
    if as_json:
        print_json(
            {
                "recipe": run.folder.recipe.name,
                "folder": str(path),
                "status": run.manifest["status"],
                **kind.as_json(run.dataset),
                "findings": found,
                "quarantined": run.manifest["quarantined"],
                "digest": run.manifest["digest"],
            }
        )
        return
    print(run.folder.recipe.about.title)
    print_result(run.dataset)
    print()
    print_lines(f"finding: {finding}" for finding in found)
    print_lines(f"quarantined: {trial}" for trial in run.manifest["quarantined"])
    print(f"folder: {path}")
    print(f"digest: {run.manifest['digest']}" if run.finished else "unfinished: no digest yet")


def draw_run(path: Path, *, as_json: bool) -> None:
    """Draw the figures of a run into its folder, and print the files."""
    from ppdm_dask.experiments.folder import read_run
    from ppdm_dask.experiments.kinds import kind_of

    run = read_run(path)
    recipe = run.folder.recipe
    files = kind_of(recipe).draw_figures(run.dataset, recipe, run.folder.figures)
    if as_json:
        print_json([str(file) for file in files])
    else:
        print_lines(map(str, files))
