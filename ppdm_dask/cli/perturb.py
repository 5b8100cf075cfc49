"""``ppdm perturb``: release a perturbed file, with its metrics and a report."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ppdm_dask.cli.names import named
from ppdm_dask.cli.output import print_json, print_lines, print_table, say
from ppdm_dask.errors import InputError
from ppdm_dask.files.lock import own
from ppdm_dask.files.reader import DataFile, open_data
from ppdm_dask.files.regular import ending
from ppdm_dask.shown import shown

if TYPE_CHECKING:
    import pandas as pd

    from ppdm_dask.arrays import Floats
    from ppdm_dask.perturb import Perturbation
    from ppdm_dask.perturb.columns import ColumnSummary
    from ppdm_dask.randomness import Stream

__all__ = ["perturb_file"]

LINKED = 100_000
"""Records above which linkage is not computed."""


def perturb_file(
    data: Path,
    out: Path,
    *,
    parameters: Mapping[str, Any],
    columns: Sequence[str],
    keep: Sequence[str],
    interval: float,
    simulate: int | None,
    workers: int | None,
    safe: bool = False,
    as_json: bool,
) -> None:
    """Perturb a file, write release and report, and print the metrics."""
    from ppdm_dask.files.writing import write_text
    from ppdm_dask.perturb import perturbation_from_config
    from ppdm_dask.perturb.metrics import check_interval
    from ppdm_dask.randomness import Stream
    from ppdm_dask.report.release import release_html

    method = perturbation_from_config(parameters)
    check_interval(interval)
    stream = Stream.from_entropy() if simulate is None else Stream.from_seed(simulate)
    own(out)
    if ending(out) in (".csv", ".parquet"):
        if workers is not None:
            right = "workers write a folder of parts; give --out a name without an ending"
            raise InputError(f"--workers: got {workers}; {right}", workers)
        found = _in_memory(data, out, method, stream, columns, keep, interval, safe)
    else:
        found = _in_parts(data, out, method, stream, columns, keep, interval, workers)
    found = {"data": str(data), "out": str(out), **found}
    report = out.with_name(out.name + ".report.html")
    write_text(report, release_html(found), [data])
    found["report"] = str(report)
    if as_json:
        print_json(found)
    else:
        _print(found)


def _chosen(
    file: DataFile, columns: Sequence[str], keep: Sequence[str]
) -> tuple[list[str], list[str]]:
    """Columns to perturb, which are those named, else all that are not kept; and those to keep."""
    columns, kept = named(columns, file.columns), named(keep, file.columns)
    file.require((*columns, *kept))
    for name in columns:
        if name in kept:
            raise InputError(f"column {shown(name)}: either perturb it or keep it, not both", name)
    return columns or [name for name in file.columns if name not in kept], kept


def _in_memory(
    data: Path,
    out: Path,
    method: Perturbation,
    stream: Stream,
    columns: Sequence[str],
    keep: Sequence[str],
    interval: float,
    safe: bool,
) -> dict[str, Any]:
    from ppdm_dask.perturb.columns import read_matrix
    from ppdm_dask.perturb.metrics import disclosure, distortion
    from ppdm_dask.perturb.release import released_frame, write_csv, write_parquet

    file = open_data(data)
    chosen, kept = _chosen(file, columns, keep)
    block = file.read([name for name in file.columns if name in {*chosen, *kept}], kept=kept)
    frame = block.frame
    try:
        values, names = read_matrix(frame[chosen])
        original = _named(values, names)
        released = method.fit(original, stream=stream.child(0)).perturb(original, stream.child(1))
        metrics: dict[str, float | None] = dict(distortion(values, released)._asdict())
        notes = []
        if len(values) <= LINKED:
            metrics |= disclosure(values, released, interval)._asdict()
        else:
            metrics |= _interval_alone(zip(values.T, released.T, strict=True), interval)
            notes.append(_NOT_LINKED)
    except InputError as error:  # also a parameter that these records do not allow
        raise type(error)(f"{data}: {error}{block.place(error.row)}", error.subject) from None
    table = released_frame(released, method, frame, kept)
    if ending(out) == ".csv":
        write_csv(table, out, (data,), safe=safe)
    else:
        write_parquet(table, out, method, stream.simulated, (data,))
    return _found(method, stream, method.summary_, kept, metrics, notes)


_NOT_LINKED = f"Linkage is not computed for more than {LINKED:,} records."


def _interval_alone(pairs: Any, interval: float) -> dict[str, float | None]:
    from ppdm_dask.perturb.metrics import within_interval

    return {"linkage": None, "interval": within_interval(pairs, interval)}


def _named(values: Floats, names: Sequence[str]) -> pd.DataFrame:
    import pandas as pd

    return pd.DataFrame(values, columns=list(names))


def _in_parts(
    data: Path,
    out: Path,
    method: Perturbation,
    stream: Stream,
    columns: Sequence[str],
    keep: Sequence[str],
    interval: float,
    workers: int | None,
) -> dict[str, Any]:
    """Row group by row group; no more than a column of the data is held at a time."""
    from ppdm_dask.cluster.perturbing import perturb_file_in_parts
    from ppdm_dask.perturb import AIBR
    from ppdm_dask.perturb.metrics import distortion_of_columns

    if ending(data) != ".parquet" or not isinstance(method, AIBR):
        raise InputError(
            f"--out: got {str(out)!r}; a folder of parts is for a .parquet file and --method aibr, "
            "give a name that ends in .csv or .parquet",
            out,
        )
    try:
        file = open_data(data)
        chosen, kept = _chosen(file, columns, keep)
        parts = perturb_file_in_parts(method, data, chosen, stream.child(1), out, kept, workers)
        metrics: dict[str, float | None] = dict(
            distortion_of_columns(_column_pairs(file, parts.files, chosen))._asdict()
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
    file: DataFile, parts: Sequence[Path], names: Sequence[str]
) -> Iterator[tuple[Floats, Floats]]:
    released = [open_data(part) for part in parts]
    for name in names:
        yield _numbers([file], name), _numbers(released, name)


def _numbers(files: Sequence[DataFile], name: str) -> Floats:
    """A column of files that follow each other; no more than its numbers are held."""
    from ppdm_dask.perturb.columns import read_matrix

    blocks = (block for file in files for block in file.blocks([name]))
    return np.concatenate([read_matrix(block.frame)[0][:, 0] for block in blocks])


def _found(
    method: Perturbation,
    stream: Stream,
    summary: ColumnSummary,
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
    from ppdm_dask.drawing.tables import plain_table
    from ppdm_dask.report.release import METRIC_WORDS

    rows = [
        [METRIC_WORDS[key], "not computed" if value is None else f"{value:.4g}"]
        for key, value in found["metrics"].items()
    ]
    print_table(plain_table(["metric", "value"], rows, right=(1,)))
    say()
    print_lines([*found["notes"], f"not protected: {found['caveat']}"])
    if found["simulated"]:
        say("simulated: whoever knows the seed can repeat the draws")
    say(f"release: {found['out']}")
    say(f"report: {found['report']}")
