"""The commands and their options.  Nothing heavy is imported before a command runs."""

from __future__ import annotations

from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import Annotated, Any

import typer

__all__ = ["UsageProblem", "app", "parser"]

# Typer carries its own copy of click in newer versions; this is the base class of either's errors.
UsageProblem: Any = next(
    base for base in typer.BadParameter.__mro__ if base.__name__ == "ClickException"
)

app = typer.Typer(
    help="Privacy-preserving data mining by randomization.",
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@cache
def parser() -> Any:
    """The parser of all commands, once they are registered; making it takes longer than its use."""
    return typer.main.get_command(app)


Json = Annotated[bool, typer.Option("--json", help="Print JSON in place of tables.")]
SpreadsheetSafe = Annotated[
    bool,
    typer.Option(
        "--spreadsheet-safe",
        help="In a .csv, put an apostrophe before texts that a spreadsheet takes for formulas.",
    ),
]
Run = Annotated[Path, typer.Argument(metavar="RUN", help="A run's folder.", show_default=False)]
Workers = Annotated[
    int | None,
    typer.Option(
        min=0,
        metavar="N",
        help="Worker processes; 0 computes in this process.",
        show_default="as many as help",
    ),
]
Cluster = Annotated[
    str | None,
    typer.Option(
        metavar="PROFILE",
        help="Where to compute: a cluster profile, in place of --workers.",
        show_default="this machine",
    ),
]


class Kind(StrEnum):
    """What ``ppdm list`` can list."""

    RECIPES = "recipes"
    DESIGNS = "designs"
    DATASETS = "datasets"


def _print_version(wanted: bool) -> None:
    if wanted:
        from ppdm_dask import __version__

        typer.echo(f"ppdm {__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def _root(
    context: typer.Context,
    version: Annotated[
        bool,
        typer.Option(
            "--version", help="Print the version.", is_eager=True, callback=_print_version
        ),
    ] = False,
) -> None:
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


@app.command("list")
def list_(
    kind: Annotated[
        Kind | None,
        typer.Argument(help="Everything, unless one is named.", show_default=False),
    ] = None,
    json: Json = False,
) -> None:
    """List the recipes, designs and data sets there are."""
    from ppdm_dask.cli.listing import print_lists

    print_lists([kind.value] if kind else [each.value for each in Kind], as_json=json)


@app.command()
def check(
    files: Annotated[
        list[str],
        typer.Argument(metavar="FILE...", help="Recipes, codebooks, designs.", show_default=False),
    ],
    json: Json = False,
) -> None:
    """Validate recipes, codebooks and designs; a recipe with all that it names."""
    from ppdm_dask.cli.check import check_files

    raise typer.Exit(check_files(files, as_json=json))


@app.command()
def run(
    recipes: Annotated[
        list[str],
        typer.Argument(
            metavar="RECIPE...", help="Names, or paths of .toml files.", show_default=False
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
        Path, typer.Option(metavar="DIR", help="Folder in which the run's folder is made.")
    ] = Path("runs"),
    retry_failed: Annotated[
        bool,
        typer.Option("--retry-failed", help="Try again what an earlier run quarantined."),
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would be done, and write nothing.")
    ] = False,
    json: Json = False,
) -> None:
    """Run recipes, or go on with interrupted runs of them; print results and digests."""
    from ppdm_dask.cli.run import plan_recipes, run_recipes

    if dry_run:
        plan_recipes(recipes, repeats=repeats, seed=seed, out=out, as_json=json)
        return
    code = run_recipes(
        recipes,
        repeats=repeats,
        seed=seed,
        workers=workers,
        cluster=cluster,
        out=out,
        retry_failed=retry_failed,
        as_json=json,
    )
    raise typer.Exit(code)


@app.command()
def show(folder: Run, json: Json = False) -> None:
    """Print the result of a run, finished or not."""
    from ppdm_dask.cli.show import show_run

    show_run(folder, as_json=json)


@app.command()
def figures(folder: Run, json: Json = False) -> None:
    """Draw the figures of a run, finished or not."""
    from ppdm_dask.cli.show import draw_run

    draw_run(folder, as_json=json)


@app.command()
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
            help="Write the page of all claims, judged on these runs, in place of a page each.",
            show_default=False,
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Write report.html of runs: figures beside the papers' claims, numbers, provenance."""
    from ppdm_dask.cli.report import write_pages

    write_pages(sources, claims, as_json=json)


class Method(StrEnum):
    """What ``ppdm perturb`` can do."""

    AIBR = "aibr"
    BSVD = "bsvd"
    SSVD = "ssvd"
    KCG = "kcg"


@app.command()
def perturb(
    data: Annotated[
        Path, typer.Argument(metavar="DATA", help="A .csv or .parquet file.", show_default=False)
    ],
    method: Annotated[Method, typer.Option(help="How to perturb.", show_default=False)],
    out: Annotated[
        Path,
        typer.Option(
            metavar="FILE",
            help="The release: a .csv or .parquet file, or a folder of parts.",
            show_default=False,
        ),
    ],
    k: Annotated[
        int,
        typer.Option(
            metavar="K",
            help="Sub-intervals (aibr), singular values (bsvd, ssvd) or records a group (kcg).",
            show_default=False,
        ),
    ],
    e: Annotated[
        float | None,
        typer.Option(metavar="E", help="Share of entries set to 0 (ssvd).", show_default=False),
    ] = None,
    columns: Annotated[
        list[str] | None,
        typer.Option(
            metavar="A,B", help="Columns to perturb.", show_default="all that are not kept"
        ),
    ] = None,
    keep: Annotated[
        list[str] | None,
        typer.Option(metavar="A,B", help="Columns to release as they are.", show_default="none"),
    ] = None,
    integers: Annotated[
        bool, typer.Option("--integers", help="Whole numbers stay whole (aibr).")
    ] = False,
    constant: Annotated[
        str | None,
        typer.Option(
            metavar="keep|refuse",
            help="What to do with a column of one value (aibr, kcg).",
            show_default="refuse",
        ),
    ] = None,
    interval: Annotated[
        float,
        typer.Option(metavar="P", help="Half-width of a disclosed interval, a share of the range."),
    ] = 0.05,
    simulate: Annotated[
        int | None,
        typer.Option(
            min=0, metavar="SEED", help="Repeatable draws, for a simulation.", show_default=False
        ),
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option(
            min=0, metavar="N", help="Worker processes, for a folder.", show_default="threads"
        ),
    ] = None,
    spreadsheet_safe: SpreadsheetSafe = False,
    json: Json = False,
) -> None:
    """Perturb columns of numbers, and report what the release keeps and gives away."""
    from ppdm_dask.cli.perturb import perturb_file

    given = {"e": e, "integers": integers or None, "constant": constant}
    parameters = {"id": method.value, "k": k}
    perturb_file(
        data,
        out,
        parameters=parameters | {key: value for key, value in given.items() if value is not None},
        columns=columns or [],
        keep=keep or [],
        interval=interval,
        simulate=simulate,
        workers=workers,
        safe=spreadsheet_safe,
        as_json=json,
    )
