"""``ppdm perturb``: release a perturbed file, with its metrics and a report."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ppdm_dask.cli.output import print_json, print_lines, print_table
from ppdm_dask.cli.ownership import own
from ppdm_dask.errors import DataError, InputError

if TYPE_CHECKING:
    import pandas as pd

    from ppdm_dask.perturb import Perturbation
    from ppdm_dask.perturb.columns import ColumnSummary, Floats
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
    as_json: bool,
) -> None:
    """Perturb a file, write release and report, and print the metrics."""
    from ppdm_dask.experiments.files import write_text
    from ppdm_dask.perturb import perturbation_from_config
    from ppdm_dask.perturb.disclosure import check_interval
    from ppdm_dask.randomness import Stream
    from ppdm_dask.report.release import release_html

    method = perturbation_from_config(parameters)
    check_interval(interval)
    stream = Stream.from_entropy() if simulate is None else Stream.from_seed(simulate)
    if data.suffix not in (".csv", ".parquet"):
        raise DataError(f"{data}: a file that ends in .csv or .parquet is needed", data)
    own(out)
    if out.suffix in (".csv", ".parquet"):
        if workers is not None:
            right = "workers write a folder of parts; give --out a name without an ending"
            raise InputError(f"--workers: got {workers}; {right}", workers)
        found = _in_memory(data, out, method, stream, columns, keep, interval)
    else:
        found = _in_parts(data, out, method, stream, columns, keep, interval, workers)
    found = {"data": str(data), "out": str(out), **found}
    report = out.with_name(out.name + ".report.html")
    write_text(report, release_html(found))
    found["report"] = str(report)
    if as_json:
        print_json(found)
    else:
        _print(found)


def _read(data: Path) -> pd.DataFrame:
    from ppdm_dask.experiments.inputs import parse_data

    try:
        content = data.read_bytes()
    except OSError as error:
        raise DataError(f"{data}: cannot be read: {error.strerror}", data) from None
    return parse_data(data, content)


def _chosen(
    data: Path, there: Sequence[str], columns: Sequence[str], keep: Sequence[str]
) -> list[str]:
    """Columns to perturb: those named, else all that are not kept."""
    for name in (*columns, *keep):
        if name not in there:
            raise DataError(
                f"{data}: column {name!r} is absent; the columns are {', '.join(there)}", name
            )
    for name in columns:
        if name in keep:
            raise InputError(f"column {name!r}: either perturb it or keep it, not both", name)
    return list(columns) or [name for name in there if name not in keep]


def _in_memory(
    data: Path,
    out: Path,
    method: Perturbation,
    stream: Stream,
    columns: Sequence[str],
    keep: Sequence[str],
    interval: float,
) -> dict[str, Any]:
    from ppdm_dask.perturb.columns import read_matrix
    from ppdm_dask.perturb.disclosure import disclosure
    from ppdm_dask.perturb.metrics import distortion
    from ppdm_dask.perturb.release import released_frame, write_csv, write_parquet

    frame = _read(data)
    chosen = _chosen(data, list(map(str, frame.columns)), columns, keep)
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
    except DataError as error:
        raise DataError(f"{data}: {error}", error.subject) from None
    table = released_frame(released, method, frame, keep)
    if out.suffix == ".csv":
        write_csv(table, out)
    else:
        write_parquet(table, out, method, stream.simulated)
    return _found(method, stream, method.summary_, keep, metrics, notes)


_NOT_LINKED = f"Linkage is not computed for more than {LINKED:,} records."


def _interval_alone(pairs: Any, interval: float) -> dict[str, float | None]:
    from ppdm_dask.perturb.disclosure import within_interval

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
    from ppdm_dask.parallel.perturbing import perturb_file_in_parts
    from ppdm_dask.perturb import AIBR
    from ppdm_dask.perturb.metrics import distortion_of_columns

    if data.suffix != ".parquet" or not isinstance(method, AIBR):
        raise InputError(
            f"--out: got {str(out)!r}; a folder of parts is for a .parquet file and --method aibr, "
            "give a name that ends in .csv or .parquet",
            out,
        )
    try:
        there = _parquet_columns(data)
        chosen = _chosen(data, there, columns, keep)
        parts = perturb_file_in_parts(method, data, chosen, stream.child(1), out, keep, workers)
        metrics: dict[str, float | None] = dict(
            distortion_of_columns(_column_pairs(data, parts.files, chosen))._asdict()
        )
        metrics |= _interval_alone(_column_pairs(data, parts.files, chosen), interval)
    except DataError as error:
        text = str(error)
        raise DataError(
            text if text.startswith((str(data), str(out))) else f"{data}: {text}", error.subject
        ) from None
    notes = ["Linkage is not computed for a release in parts."]
    return _found(method, stream, method.summary_, keep, metrics, notes)


def _parquet_columns(data: Path) -> list[str]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        return list(pq.read_schema(data).names)
    except FileNotFoundError:
        raise DataError(f"{data}: there is no such file", data) from None
    except (OSError, pa.ArrowInvalid) as error:
        what = str(error).splitlines()[0]
        raise DataError(f"{data}: cannot be read as Parquet: {what}", data) from None


def _column_pairs(
    data: Path, files: Sequence[Path], names: Sequence[str]
) -> Iterator[tuple[Floats, Floats]]:
    import pandas as pd
    import pyarrow.parquet as pq

    from ppdm_dask.perturb.columns import read_matrix

    for name in names:
        before = pq.read_table(data, columns=[name]).to_pandas()
        after = pd.concat([pq.read_table(file, columns=[name]).to_pandas() for file in files])
        yield read_matrix(before)[0][:, 0], read_matrix(after)[0][:, 0]


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
    from ppdm_dask.report.release import METRIC_WORDS
    from ppdm_dask.report.tables import plain_table

    rows = [
        [METRIC_WORDS[key], "not computed" if value is None else f"{value:.4g}"]
        for key, value in found["metrics"].items()
    ]
    print_table(plain_table(["metric", "value"], rows, right=(1,)))
    print()
    print_lines([*found["notes"], f"not protected: {found['caveat']}"])
    if found["simulated"]:
        print("simulated: whoever knows the seed can repeat the draws")
    print(f"release: {found['out']}")
    print(f"report: {found['report']}")
