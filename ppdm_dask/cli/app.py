"""The commands and their options.  Nothing heavy is imported before a command runs."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

__all__ = ["UsageProblem", "app"]

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

Json = Annotated[bool, typer.Option("--json", help="Print JSON in place of tables.")]
Run = Annotated[Path, typer.Argument(metavar="RUN", help="A run's folder.", show_default=False)]


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
        typer.Argument(
            metavar="FILE...", help="Recipes, codebooks and designs.", show_default=False
        ),
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
    workers: Annotated[
        int | None,
        typer.Option(
            min=0,
            metavar="N",
            help="Worker processes; 0 computes in this process.",
            show_default="as many as help",
        ),
    ] = None,
    out: Annotated[
        Path, typer.Option(metavar="DIR", help="Folder in which the run's folder is made.")
    ] = Path("runs"),
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
    code = run_recipes(recipes, repeats=repeats, seed=seed, workers=workers, out=out, as_json=json)
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


class Method(StrEnum):
    """How ``ppdm optimize`` searches."""

    SPEA2 = "spea2"
    MEMETIC = "memetic"
    BOUND = "bound"


@app.command()
def optimize(
    prior: Annotated[
        Path,
        typer.Option(
            metavar="FILE",
            help="TOML: attribute, and a table [prior] of categories and proportions.",
            show_default=False,
        ),
    ],
    n: Annotated[int, typer.Option("--n", min=1, metavar="N", help="Reports.", show_default=False)],
    delta: Annotated[
        float, typer.Option(metavar="D", help="Largest posterior allowed; 1 allows all.")
    ] = 1.0,
    method: Annotated[
        Method,
        typer.Option(help="The paper's algorithm, it with gradients, or the certified optimum."),
    ] = Method.MEMETIC,
    symbols: Annotated[
        int | None,
        typer.Option(
            min=2, metavar="K", help="Reported symbols.", show_default="one a category, or all"
        ),
    ] = None,
    choose: Annotated[
        str | None,
        typer.Option(
            metavar="privacy=X|mse=X", help="Write the design of this point.", show_default=False
        ),
    ] = None,
    generations: Annotated[
        int | None,
        typer.Option(min=0, metavar="L", help="Generations.", show_default="the method's"),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, metavar="S", help="Seed of the search.")] = 0,
    checkpoint: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Go on from here; spea2 alone.", show_default=False),
    ] = None,
    out: Annotated[
        Path, typer.Option(metavar="DIR", help="Folder for front.nc and design.toml.")
    ] = Path("optimized"),
    json: Json = False,
) -> None:
    """Search for the randomization matrices with the best privacy and precision."""
    from ppdm_dask.cli.optimize import optimize_prior

    optimize_prior(
        prior,
        n_records=n,
        delta=delta,
        method=method.value,
        symbols=symbols,
        seed=seed,
        generations=generations,
        choose=choose,
        out=out,
        checkpoint=checkpoint,
        as_json=json,
    )
