"""``ppdm codebook``, ``audit`` and ``disguise``: from answers to reports, where the answers are."""

from __future__ import annotations

import math
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

import ppdm_dask as pp
from ppdm_dask.cli.counting import RecordsReporter
from ppdm_dask.cli.options import (
    Cluster,
    CodebookFile,
    Data,
    Decimal,
    Delimiter,
    DesignFile,
    Encoding,
    Force,
    Json,
    PartWorkers,
    Sheet,
    Split,
    SplitAt,
    named,
    plain,
    read_both,
    require_new,
    require_new_folder,
)
from ppdm_dask.cli.output import note, print_json, print_lines, print_rows, say
from ppdm_dask.errors import InputError
from ppdm_dask.extras import missing
from ppdm_dask.files.regular import ending

if TYPE_CHECKING:
    from ppdm_dask.arrays import Floats


def audit(
    design: DesignFile,
    prior: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="TOML: a table \\[prior.ATTRIBUTE] of categories and proportions each.",
            show_default="equal",
        ),
    ] = None,
    codebook: Annotated[
        Path | None,
        typer.Option(
            metavar="C", help="Codebook, to check names and categories.", show_default=False
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Show what a report reveals: every privacy measure of a design, explained."""
    if codebook is None:
        book, plan = None, pp.designs.read_design(design)
    else:
        book, plan = read_both(codebook, design)
    priors: dict[str, Floats] = {}
    if prior is not None:
        plan, priors = pp.survey.prior_arrays(prior, pp.survey.read_priors(prior), plan, book)
    try:
        subjects = pp.audit.audit(plan, priors)
    except InputError as error:
        # Only the prior's file can be at fault: the design has been read.
        raise InputError(f"{prior}: {error}", error) from None
    labels = {} if book is None else {name: book[name].categories for name in plan.attributes}
    certain = pp.audit.certainties(plan, labels)
    far, lacking = [], None
    try:
        far = [each for block in plan.blocks for each in pp.search.distances(block, priors)]
    except ModuleNotFoundError as error:
        lacking = missing(error, "how far a design is from the best one")
        if lacking is None:
            raise
    if as_json:
        found = [asdict(subject) for subject in subjects]
        for finding in (each for subject in found for each in subject["findings"]):
            finding["value"] = plain(finding["value"])
        print_json(
            {
                "design": str(design),
                "undefined": plan.undefined,
                "subjects": found,
                "certain": [asdict(each) for each in certain],
                "best_possible": None if lacking else [asdict(each) for each in far],
            }
        )
        return
    for subject in subjects:
        rows = [[f.measure, _value(f.value), f.sentence] for f in subject.findings]
        say(f"{subject.name}: {subject.prior}")
        print_rows(["measure", "value", "meaning"], rows, right=(1,))
        say()
    print_lines(each.sentence for each in certain)
    if any(each.degree in ("nearly", "likely") for each in certain):
        say('"likely" assumes that each answer was equally likely before')
    print_lines(each.sentence for each in far)
    if lacking is not None:
        note(str(lacking))
    say("epsilon and gamma hold for any prior; the others for the prior that is named")
    if plan.undefined:
        say(f"the design as a whole allows no estimate: {plan.undefined}")


def _value(value: float | None) -> str:
    if value is None:
        return "-"
    return "infinite" if math.isinf(value) else f"{value:.4g}"


SHOWN = 60
"""Characters of a column's categories that the table shows."""


def codebook(
    data: Data,
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write the codebook: .toml.", show_default="print it"),
    ] = None,
    order: Annotated[
        Literal["sorted", "appearance"], typer.Option(help="Order of the categories.")
    ] = "sorted",
    most: Annotated[
        int,
        typer.Option(
            "--max-categories",
            min=2,
            metavar="N",
            help="With more distinct values than this, numbers are cut into bins, and texts "
            "are left out with a note.",
        ),
    ] = 20,
    bins: Annotated[int, typer.Option(min=2, metavar="K", help="Number of bins for numbers.")] = 4,
    missing: Annotated[
        list[str] | None,
        typer.Option(
            "--missing-code",
            metavar="VALUE",
            help="Value that stands for a missing one, in any column: -99, Refused, ...",
            show_default="those that the file declares",
        ),
    ] = None,
    distinct: Annotated[
        bool,
        typer.Option("--distinct-missing", help="Make a category for each kind of missing values."),
    ] = False,
    delimiter: Delimiter = None,
    encoding: Encoding = None,
    decimal: Decimal = None,
    sheet: Sheet = None,
    split: Split = None,
    split_at: SplitAt = ";",
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Propose a codebook from a file, for you to edit."""
    # Before the data are read, which may take minutes.
    require_new(out, force, (data,), (".toml",))
    found = pp.survey.propose_codebook(
        data,
        most=most,
        bins=bins,
        order=order,
        how=pp.files.Reading(delimiter, encoding, decimal, sheet, tuple(split or ()), split_at),
        missing_codes=missing or (),
        apart=distinct,
    )
    if found.note:
        note(f"{data}: {found.note}")
    if out is not None:
        pp.files.write_text(out, found.text(), [data])
    if as_json:
        print_json(
            {
                "data": str(data),
                "out": None if out is None else str(out),
                "records": found.n,
                "columns": [_facts(column) for column in found.columns],
            }
        )
    elif out is None:
        say(found.text().rstrip("\n"))
    else:
        _print_proposal(found)
        say(f"\n{len(found.codebook.names)} attributes, for you to edit: {out}")


def _facts(column: pp.survey.Column) -> dict[str, Any]:
    return {
        "name": column.name,
        "missing": column.missing,
        "different": None if column.labels is None else len(column.labels),
        "proposed": None if column.attribute is None else column.attribute.config(),
        "left_out": column.left_out or None,
        "remedy": column.remedy or None,
        "notes": column.notes,
    }


def _print_proposal(found: pp.survey.Proposal) -> None:
    rows = []
    for column in found.columns:
        if column.attribute is None:
            what, size = f"left out: {column.left_out}\n{column.remedy}", "-"
        else:
            size = f"{len(column.attribute):,}"
            what = ", ".join(column.attribute.categories)
            what = what if len(what) <= SHOWN else what[: SHOWN - 3] + "..."
            what = "\n".join([what, *(f"look at it: {note}" for note in column.notes)])
        rows.append([column.name, size, f"{column.missing:,}", what])
    header = ["column", "categories", "missing", "proposed"]
    print_rows(header, rows, right=(1, 2))


def disguise(
    data: Annotated[
        list[Path],
        typer.Argument(
            metavar="DATA...",
            help="Files of answers, folders of them, or patterns.",
            show_default=False,
        ),
    ],
    codebook: CodebookFile,
    design: DesignFile,
    out: Annotated[
        Path,
        typer.Option(
            metavar="R",
            help="The reports: a .parquet or .csv file, or a folder of parts.",
            show_default=False,
        ),
    ],
    keep: Annotated[
        list[str] | None,
        typer.Option(
            "--keep-undisguised",
            metavar="A,B",
            help="Columns to keep undisguised.",
            show_default="none",
        ),
    ] = None,
    drop: Annotated[
        list[str] | None,
        typer.Option(metavar="A,B", help="Columns to leave out.", show_default="none"),
    ] = None,
    accept: Annotated[
        list[str] | None,
        typer.Option(
            "--accept-certain",
            metavar="NAME",
            help="Accept that a report can make this answer certain: attribute, label or "
            "ATTRIBUTE=LABEL.",
            show_default="none",
        ),
    ] = None,
    simulate: Annotated[
        int | None,
        typer.Option(
            min=0,
            metavar="SEED",
            help="Simulate with this seed; this protects nobody.",
            show_default=False,
        ),
    ] = None,
    block: Annotated[
        int | None,
        typer.Option(
            min=1,
            metavar="N",
            help="Records held in memory at a time.",
            show_default="65,536; more where there are few columns",
        ),
    ] = None,
    delimiter: Delimiter = None,
    encoding: Encoding = None,
    decimal: Decimal = None,
    sheet: Sheet = None,
    split: Split = None,
    split_at: SplitAt = ";",
    workers: PartWorkers = 0,
    cluster: Cluster = None,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Disguise the answers of files, on the client side; true answers stay in the files."""
    book, plan = read_both(codebook, design)
    place = pp.cluster.Place(workers, cluster, out.absolute().parent)
    files = pp.files.expand(data)
    if ending(out):
        require_new(out, force, (*files, codebook, design))
    else:
        require_new_folder(out, force, (*files, codebook, design))
    # What a CSV file cannot say of its reports stands in a second one.
    if ending(out) == ".csv":
        require_new(pp.survey.beside(out), force, (*files, codebook, design))
    stream = pp.Stream.from_entropy() if simulate is None else pp.Stream.from_seed(simulate)
    reading = pp.files.Reading(delimiter, encoding, decimal, sheet, tuple(split or ()), split_at)
    columns = pp.files.open_data(files[0], how=replace(reading, known=book.names)).columns
    with RecordsReporter("disguise") as progress:
        done = pp.survey.disguise_file(
            files,
            book,
            plan,
            stream,
            out,
            keep=named(keep, columns),
            drop=named(drop, columns),
            accept=accept or [],
            block=block,
            how=reading,
            place=place,
            progress=progress,
            say=progress.say,
        )
    if as_json:
        blocks = [
            {
                "attributes": list(part.attributes),
                "id": part.id,
                "epsilon": plain(pp.audit.epsilon_of(part)),
            }
            for part in plan.blocks
        ]
        print_json(
            {
                "data": str(data[0]) if len(data) == 1 else [str(path) for path in data],
                "out": str(out),
                "parts": done.parts,
                "records": done.records,
                "simulated": done.simulated,
                "disguised": list(done.disguised),
                "undisguised": list(done.undisguised),
                "dropped": list(done.dropped),
                "blocks": blocks,
                "certain": [asdict(each) for each in done.certain],
                "again": [asdict(each) for each in done.before.again],
                "problem": done.before.problem or None,
            }
        )
        return
    for part in plan.blocks:
        say(f"{', '.join(part.attributes)}: {part.id}, {_protection(pp.audit.epsilon_of(part))}")
    for each in done.certain:
        say(each.sentence)
    for name in done.undisguised:
        how = pp.survey.kept_as(book, name)
        say(f"{name}: undisguised, {how}; the file of reports holds the truth")
    if done.dropped:
        say(f"left out: {', '.join(done.dropped)}")
    if done.simulated:
        say("simulated: anyone who knows the seed can undo the disguise; it protects nobody")
    print_lines(each.sentence() for each in done.before.again)
    if done.before.problem:
        say(done.before.problem)
    where = f"{out}, {done.parts} {'part' if done.parts == 1 else 'parts'}" if done.parts else out
    say(f"{done.records:,} {'report' if done.records == 1 else 'reports'}: {where}")


def _protection(epsilon: float | None) -> str:
    if epsilon is None:
        return "epsilon not computed: the block is too large"
    if math.isinf(epsilon):
        return "epsilon infinite: some reports rule an answer out"
    # Above 700 the exponential leaves the range of a double.
    times = f"{math.exp(epsilon):.4g}" if epsilon < 700 else f"e^{epsilon:.4g}"
    most = f"a report is at most {times} times likelier for one answer than another"
    return f"epsilon {epsilon:.4g}: {most}"
