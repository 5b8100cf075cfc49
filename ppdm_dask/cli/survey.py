"""``ppdm survey``: the respondents' page, its collector, and the reports that it took."""

from __future__ import annotations

import secrets
import sys
from pathlib import Path
from typing import Annotated

import typer

import ppdm_dask as pp
from ppdm_dask.cli.options import (
    CodebookFile,
    DesignFile,
    Force,
    Json,
    read_both,
    require_new,
    require_new_folder,
)
from ppdm_dask.cli.output import print_json, say
from ppdm_dask.errors import InputError

app = typer.Typer(
    help="Electronic surveys: build the page that disguises, collect and export its reports.",
    no_args_is_help=True,
)

Folder = Annotated[
    Path,
    typer.Argument(
        metavar="FOLDER", help="Folder that `ppdm survey build` wrote.", show_default=False
    ),
]
Database = Annotated[
    str,
    typer.Option(
        "--database",
        metavar="FILE|ADDRESS",
        help="An SQLite file, or postgresql://...",
        show_default=False,
    ),
]


@app.command()
def build(
    codebook: CodebookFile,
    design: DesignFile,
    questionnaire: Annotated[
        Path,
        typer.Option(
            "--questionnaire",
            "-q",
            metavar="Q",
            help="Questionnaire: what is asked, in TOML.",
            show_default=False,
        ),
    ],
    out: Annotated[
        Path, typer.Option(metavar="FOLDER", help="Folder for the page.", show_default=False)
    ],
    model: Annotated[
        Path | None,
        typer.Option(
            metavar="MODEL",
            help="Model file of `ppdm mine`: the page tests it on each respondent.",
            show_default="none",
        ),
    ] = None,
    accept: Annotated[
        list[str] | None,
        typer.Option(
            "--accept-certain",
            metavar="NAME",
            help="Accept that a report can make this answer certain: an attribute or a label.",
            show_default="none",
        ),
    ] = None,
    embed: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ORIGIN",
            help="Origin of a platform that may show the page in a frame; writes embed.html and "
            "embed.js.",
            show_default="none",
        ),
    ] = None,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Build the page for respondents: one file, which disguises answers before it sends them."""
    book, plan = read_both(codebook, design)
    asked = pp.collect.Questionnaire.read(questionnaire)
    inputs = [codebook, design, questionnaire, *([] if model is None else [model])]
    require_new_folder(out, force, inputs, "survey.json")
    page = pp.collect.build_page(
        asked,
        book,
        plan,
        model=None if model is None else pp.read_model(model),
        source=str(questionnaire),
        accept=tuple(accept or ()),
        embed=pp.collect.require_origins(embed or ()),
    )
    path = pp.collect.Survey.of(page, tuple(asked.hands)).write(out)
    pp.collect.remove_embedded(out)
    extra = [] if page.framed is None else pp.collect.write_embedded(out, page.framed)
    size = len(page.html.encode())
    if as_json:
        about = {"page": str(path), "bytes": size, "survey": page.survey}
        print_json({**about, "design": page.design.digest, "embed": [str(each) for each in extra]})
        return
    say(f"{path}: {size:,} bytes, {len(asked.question)} questions in {', '.join(asked.languages)}")
    say(f"survey {page.survey}")
    say(f"design {page.design.digest}")
    if extra:
        say(f"{' and '.join(map(str, extra))}: for pages of {', '.join(embed or ())}")


@app.command()
def serve(
    folder: Folder,
    database: Database,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port of the page.")] = 8000,
    team_port: Annotated[
        int, typer.Option(min=0, max=65535, help="Port of the team's page, on loopback only.")
    ] = 8001,
    workers: Annotated[
        int, typer.Option(min=1, help="Number of processes that accept reports.")
    ] = 1,
    tokens: Annotated[
        bool, typer.Option("--tokens", help="Accept only reports with a single-use token.")
    ] = False,
    origin: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ORIGIN",
            help="Another origin whose page may send reports.",
            show_default="none",
        ),
    ] = None,
    certificate: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Certificate for TLS, in PEM form.", show_default=False),
    ] = None,
    key: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Private key of the certificate, in PEM form.", show_default=False
        ),
    ] = None,
    proxy: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ADDRESS",
            help="Address of a proxy in front, whose X-Forwarded-For is trusted.",
            show_default="none",
        ),
    ] = None,
    rate: Annotated[
        float,
        typer.Option(min=0, help="Reports accepted per minute from one address; 0: no limit."),
    ] = 60.0,
) -> None:
    """Serve the page and accept its reports, until Ctrl-C or SIGTERM."""
    if (certificate is None) != (key is None):
        raise InputError("--certificate, --key: both are needed for TLS, or neither")
    if certificate is None and host not in ("127.0.0.1", "::1", "localhost"):
        raise InputError(
            f"--host: got {host}; without --certificate and --key it listens on 127.0.0.1 only, "
            "behind a proxy that has TLS",
            host,
        )
    token = secrets.token_urlsafe(24)
    how = pp.collect.Serving(
        folder,
        database,
        host,
        port,
        team_port,
        token,
        workers,
        tokens,
        tuple(origin or ()),
        certificate,
        key,
        tuple(proxy or ()),
        pp.collect.Limits(rate=rate),
    )
    scheme = "http" if certificate is None else "https"
    shown = f"[{host}]" if ":" in host else host

    def ready(public: int, own: int) -> None:
        say(f"the page: {scheme}://{shown}:{public}/")
        say(f"the team's page: http://127.0.0.1:{own}/?token={token}")
        say("Ctrl-C stops the server; acknowledged reports are kept")
        sys.stdout.flush()  # a log that is read while it serves

    pp.collect.serve(how, ready)


@app.command()
def export(
    folder: Folder,
    database: Database,
    out: Annotated[
        Path,
        typer.Option(metavar="FOLDER", help="Folder for the files of reports.", show_default=False),
    ],
    as_json: Json = False,
) -> None:
    """Write the reports that were not exported before, for count, estimate and mine."""
    survey = pp.collect.Survey.read(folder)
    store = pp.collect.Store(database, survey.id, survey.text(), make=False)
    try:
        written = pp.collect.export_reports(survey, store, out)
    finally:
        store.close()
    if as_json:
        print_json({"written": [{"file": str(path), "reports": n} for path, n in written]})
        return
    for path, n in written:
        say(f"{path}: {n:,} {'report' if n == 1 else 'reports'}")
    if not written:
        say(f"{out}: has all reports already")


@app.command()
def tokens(
    folder: Folder,
    database: Database,
    n: Annotated[int, typer.Option("-n", min=1, max=1_000_000, help="How many tokens to make.")],
    out: Annotated[
        Path,
        typer.Option(
            metavar="FILE",
            help="File for the tokens, one on each line, for invitations.",
            show_default=False,
        ),
    ],
    force: Force = False,
) -> None:
    """Make single-use tokens; the database keeps salted hashes only."""
    survey = pp.collect.Survey.read(folder)
    require_new(out, force, ())
    store = pp.collect.Store(database, survey.id, survey.text())
    try:
        # The file first: tokens that nobody was given could not be told from others.
        with pp.files.replacing(out, mode=0o600) as part:
            part.write_text("\n".join(store.make_tokens(n)) + "\n", encoding="utf-8")
    finally:
        store.close()
    say(f"{out}: {n:,} tokens; a page is opened with #token=... after its address")


@app.command()
def rehearse(
    folder: Folder,
    data: Annotated[
        Path,
        typer.Argument(metavar="DATA", help="File of invented true answers.", show_default=False),
    ],
    address: Annotated[
        str,
        typer.Option(
            "--to", metavar="URL", help="Address of the page that is served.", show_default=False
        ),
    ],
    devices: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="File that stores permanent symbols between waves, in the order of the records.",
            show_default="new ones",
        ),
    ] = None,
) -> None:
    """Try out a survey: send a report for each record of a file, as the page would."""
    sent = pp.collect.rehearse(pp.collect.Survey.read(folder), data, address, devices=devices)
    say(f"{sent:,} {'report' if sent == 1 else 'reports'} sent and acknowledged")
