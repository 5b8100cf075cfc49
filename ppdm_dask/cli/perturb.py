"""``ppdm perturb``: release a perturbed file, with its metrics and a report."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

import ppdm_dask as pp
from ppdm_dask.cli.options import Data, Json, SpreadsheetSafe, named
from ppdm_dask.cli.output import print_json, print_lines, print_rows, say
from ppdm_dask.errors import InputError
from ppdm_dask.files.lock import own
from ppdm_dask.files.regular import ending
from ppdm_dask.shown import shown

if TYPE_CHECKING:
    from ppdm_dask.arrays import Floats

__all__ = ["Method", "perturb"]

Method = Literal["aibr", "bsvd", "ssvd", "kcg"]

LINKED = 100_000
"""Records above which linkage is not computed."""


def perturb(
    data: Data,
    name: Annotated[Method, typer.Option("--method", help="How to perturb.", show_default=False)],
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
    as_json: Json = False,
) -> None:
    """Perturb columns of numbers, and report what the release keeps and gives away."""
    given = {"e": e, "integers": integers or None, "constant": constant}
    parameters: dict[str, Any] = {"id": name, "k": k}
    parameters |= {key: value for key, value in given.items() if value is not None}
    method = pp.perturb.perturbation_from_config(parameters)
    pp.perturb.check_interval(interval)
    stream = pp.Stream.from_entropy() if simulate is None else pp.Stream.from_seed(simulate)
    own(out)
    if ending(out) in (".csv", ".parquet"):
        if workers is not None:
            right = "workers write a folder of parts; give --out a name without an ending"
            raise InputError(f"--workers: got {workers}; {right}", workers)
        found = _in_memory(data, out, method, stream, columns, keep, interval, spreadsheet_safe)
    else:
        found = _in_parts(data, out, method, stream, columns, keep, interval, workers)
    found = {"data": str(data), "out": str(out), **found}
    report = out.with_name(out.name + ".report.html")
    pp.files.write_text(report, pp.report.release_html(found), [data])
    found["report"] = str(report)
    if as_json:
        print_json(found)
    else:
        _print(found)


def _chosen(
    file: pp.files.DataFile, columns: Sequence[str] | None, keep: Sequence[str] | None
) -> tuple[list[str], list[str]]:
    """Columns to perturb, which are those named, else all that are not kept; and those to keep."""
    asked, kept = named(columns, file.columns), named(keep, file.columns)
    file.require((*asked, *kept))
    for name in asked:
        if name in kept:
            raise InputError(f"column {shown(name)}: either perturb it or keep it, not both", name)
    return asked or [name for name in file.columns if name not in kept], kept


def _in_memory(
    data: Path,
    out: Path,
    method: pp.perturb.Perturbation,
    stream: pp.Stream,
    columns: Sequence[str] | None,
    keep: Sequence[str] | None,
    interval: float,
    safe: bool,
) -> dict[str, Any]:
    import pandas as pd

    file = pp.files.open_data(data)
    chosen, kept = _chosen(file, columns, keep)
    block = file.read([name for name in file.columns if name in {*chosen, *kept}], kept=kept)
    frame = block.frame
    try:
        values, names = pp.perturb.read_matrix(frame[chosen])
        original = pd.DataFrame(values, columns=list(names))
        released = method.fit(original, stream=stream.child(0)).perturb(original, stream.child(1))
        metrics: dict[str, float | None] = dict(pp.perturb.distortion(values, released)._asdict())
        notes = []
        if len(values) <= LINKED:
            metrics |= pp.perturb.disclosure(values, released, interval)._asdict()
        else:
            metrics |= _interval_alone(zip(values.T, released.T, strict=True), interval)
            notes.append(_NOT_LINKED)
    except InputError as error:  # also a parameter that these records do not allow
        raise type(error)(f"{data}: {error}{block.place(error.row)}", error.subject) from None
    table = pp.perturb.released_frame(released, method, frame, kept)
    if ending(out) == ".csv":
        pp.perturb.write_csv(table, out, (data,), safe=safe)
    else:
        pp.perturb.write_parquet(table, out, method, stream.simulated, (data,))
    return _found(method, stream, method.summary_, kept, metrics, notes)


_NOT_LINKED = f"Linkage is not computed for more than {LINKED:,} records."


def _interval_alone(pairs: Any, interval: float) -> dict[str, float | None]:
    return {"linkage": None, "interval": pp.perturb.within_interval(pairs, interval)}


def _in_parts(
    data: Path,
    out: Path,
    method: pp.perturb.Perturbation,
    stream: pp.Stream,
    columns: Sequence[str] | None,
    keep: Sequence[str] | None,
    interval: float,
    workers: int | None,
) -> dict[str, Any]:
    """Row group by row group; no more than a column of the data is held at a time."""
    if ending(data) != ".parquet" or not isinstance(method, pp.perturb.AIBR):
        raise InputError(
            f"--out: got {str(out)!r}; a folder of parts is for a .parquet file and --method aibr, "
            "give a name that ends in .csv or .parquet",
            out,
        )
    try:
        file = pp.files.open_data(data)
        chosen, kept = _chosen(file, columns, keep)
        parts = pp.cluster.perturb_file_in_parts(
            method, data, chosen, stream.child(1), out, kept, workers
        )
        metrics: dict[str, float | None] = dict(
            pp.perturb.distortion_of_columns(_column_pairs(file, parts.files, chosen))._asdict()
        )
        metrics |= _interval_alone(_column_pairs(file, parts.files, chosen), interval)
    except InputError as error:
        text = str(error)
        raise type(error)(
            text if text.startswith((str(data), str(out))) else f"{data}: {text}", error.subject
        ) from None
    notes = ["Linkage is not computed for a release in parts."]
    return _found(method, stream, method.summary_, kept, metrics, notes)


def _column_pairs(
    file: pp.files.DataFile, parts: Sequence[Path], names: Sequence[str]
) -> Iterator[tuple[Floats, Floats]]:
    released = [pp.files.open_data(part) for part in parts]
    for name in names:
        yield _numbers([file], name), _numbers(released, name)


def _numbers(files: Sequence[pp.files.DataFile], name: str) -> Floats:
    """A column of files that follow each other; no more than its numbers are held."""
    import numpy as np

    blocks = (block for file in files for block in file.blocks([name]))
    return np.concatenate([pp.perturb.read_matrix(block.frame)[0][:, 0] for block in blocks])


def _found(
    method: pp.perturb.Perturbation,
    stream: pp.Stream,
    summary: pp.perturb.ColumnSummary,
    keep: Sequence[str],
    metrics: Mapping[str, float | None],
    notes: list[str],
) -> dict[str, Any]:
    return {
        "method": method.config(),
        "simulated": stream.simulated,
        "records": summary.n,
        "columns": [
            {"name": name, "low": float(low), "high": float(high), "missing": int(missing)}
            for name, low, high, missing in zip(
                summary.names, summary.low, summary.high, summary.missing, strict=True
            )
        ],
        "kept": list(keep),
        "metrics": {k: None if v is None or math.isnan(v) else v for k, v in metrics.items()},
        "notes": notes,
        "caveat": method.caveat,
    }


def _print(found: Mapping[str, Any]) -> None:
    rows = [
        [pp.report.METRIC_WORDS[key], "not computed" if value is None else f"{value:.4g}"]
        for key, value in found["metrics"].items()
    ]
    print_rows(["metric", "value"], rows, right=(1,))
    say()
    print_lines([*found["notes"], f"not protected: {found['caveat']}"])
    if found["simulated"]:
        say("simulated: whoever knows the seed can repeat the draws")
    say(f"release: {found['out']}")
    say(f"report: {found['report']}")
