"""The program ``ppdm``: its commands, in the order in which its help lists them."""

from __future__ import annotations

from typing import Annotated, Any

import typer

import ppdm_dask as pp
from ppdm_dask.cli import (
    cluster,
    disguise,
    estimate,
    field,
    inputs,
    logs,
    mine,
    optimize,
    perturb,
    plan,
    regress,
    reproduce,
    runs,
    schema,
    survey,
)

# Typer carries its own copy of click in newer versions; this is the base class of either's errors.
UsageProblem: Any = next(
    base for base in typer.BadParameter.__mro__ if base.__name__ == "ClickException"
)

app = typer.Typer(
    help="Privacy-preserving data mining by randomization.",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"ppdm {pp.__version__}")
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
    more: Annotated[
        int,
        typer.Option(
            "--verbose",
            "-v",
            count=True,
            help="Print what is being done; -vv prints more.",
            show_default=False,
        ),
    ] = 0,
    only_errors: Annotated[
        bool, typer.Option("--quiet", "-q", help="Print errors only: no notes, no progress.")
    ] = False,
    log_json: Annotated[
        bool,
        typer.Option(
            "--log-json", help="Write messages, not results, as JSON, one object per line."
        ),
    ] = False,
) -> None:
    logs.choose(more, only_errors=only_errors, json=log_json)
    # Typer's own no_args_is_help would end with exit code 2.
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


app.command("list")(inputs.list_)
app.command()(inputs.check)
app.command()(schema.schema)
app.command()(runs.run)
app.command()(runs.show)
app.command()(runs.figures)
app.command()(runs.report)
app.command()(perturb.perturb)
app.command()(reproduce.reproduce)
app.command()(optimize.optimize)
app.command()(plan.plan)
app.command()(disguise.codebook)
app.command()(disguise.disguise)
app.command("import")(field.import_)
app.command()(estimate.count)
app.command()(estimate.estimate)
app.add_typer(mine.app, name="mine")
app.command()(mine.predict)
app.command()(regress.regress)
app.command()(disguise.audit)
app.add_typer(survey.app, name="survey")
app.add_typer(cluster.cluster, name="cluster")

parser: Any = typer.main.get_command(app)
"""The parser of all commands; making it takes longer than its use."""
