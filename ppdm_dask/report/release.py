"""Release a perturbed file: what was done, how far it is from the original, what it gives away."""

from __future__ import annotations

import html
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import ppdm_dask as pp
from ppdm_dask.arrays import Floats
from ppdm_dask.errors import InputError
from ppdm_dask.files.reader import AS_FOUND
from ppdm_dask.files.regular import ending
from ppdm_dask.shown import shown

if TYPE_CHECKING:
    from ppdm_dask.perturb.base import Perturbation

__all__ = ["METRIC_WORDS", "release_file"]

LINKED = 100_000
"""Records above which linkage is not computed."""

METRIC_WORDS = {
    "vd": "VD: distance of release and original, relative to the original",
    "rp": "RP: mean change of a value's rank in its column",
    "rk": "RK: share of values that keep their rank in their column",
    "cp": "CP: mean change of a column's rank among the column means",
    "ck": "CK: share of columns that keep their rank among the column means",
    "linkage": "linkage: share of released records whose nearest original is their own",
    "interval": "interval: share of values released within a small interval of the original",
}
"""Metrics of a release, explained."""

_STYLE = """
body { font: 15px/1.5 sans-serif; max-width: 48em; margin: 2em auto; padding: 0 1em; color: #222 }
table { border-collapse: collapse; margin: 1em 0 }
td, th { padding: .25em .9em; border-bottom: 1px solid #ddd; text-align: left }
td.number, th.number { text-align: right; font-variant-numeric: tabular-nums }
p.caveat { border-left: 4px solid #D55E00; padding: .4em 1em; background: #fbf3ee }
"""


Metrics = dict[str, float | None]


def release_file(
    data: Path,
    out: Path,
    method: Perturbation,
    stream: pp.Stream,
    *,
    columns: Sequence[str] = (),
    keep: Sequence[str] = (),
    interval: float = 0.05,
    how: pp.files.Reading = AS_FOUND,
    workers: int | None = None,
    safe: bool = False,
) -> dict[str, Any]:
    """Perturb columns of a file, measure the release, and write it with a page beside it.

    Parameters
    ----------
    data : Path
        A data file of any format.
    out : Path
        A name that ends in ``.csv`` or ``.parquet``, else a folder of parts, which only AIBR can
        write, from Parquet.
    method : Perturbation
    stream : Stream
    columns, keep : sequence of str
        Columns to perturb, by default all that are not kept; and columns to release unchanged.
    interval : float
        Half-width of a disclosed interval, a share of the range.
    how : Reading
        How to read the data file, if known.
    workers : int, optional
        Processes that write parts; by default threads do.
    safe : bool
        Whether a CSV's texts are made safe for spreadsheets.

    Returns
    -------
    dict
        Facts of the release as JSON values, including ``report``, the file of the page.

    Raises
    ------
    InputError
        One line on what is wrong with the columns, their values or the names of the files.
    """
    asked = _Asked(data, out, method, stream, columns, keep, interval, how)
    if ending(out) in (".csv", ".parquet"):
        if workers is not None:
            right = "workers write a folder of parts; give --out a name without an ending"
            raise InputError(f"--workers: got {workers}; {right}", workers)
        found = _whole(asked, safe)
    else:
        found = _in_parts(asked, workers)
    found = {"data": str(data), "out": str(out), **found}
    report = out.with_name(out.name + ".report.html")
    pp.files.write_text(report, _page(found), [data])
    return {**found, "report": str(report)}


@dataclass(frozen=True)
class _Asked:
    """What :func:`release_file` was asked for."""

    data: Path
    out: Path
    method: Perturbation
    stream: pp.Stream
    columns: Sequence[str]
    keep: Sequence[str]
    interval: float
    how: pp.files.Reading

    def chosen(self, file: pp.files.DataFile) -> list[str]:
        """Columns to perturb."""
        file.require((*self.columns, *self.keep))
        for name in self.columns:
            if name in self.keep:
                what = f"column {shown(name)}: either perturb it or keep it, not both"
                raise InputError(what, name)
        return list(self.columns) or [name for name in file.columns if name not in self.keep]

    def interval_only(self, pairs: Iterable[tuple[Floats, Floats]]) -> Metrics:
        """Measures of disclosure where records are not linked."""
        return {"linkage": None, "interval": pp.perturb.within_interval(pairs, self.interval)}

    def facts(self, metrics: Metrics, notes: list[str]) -> dict[str, Any]:
        """The release as JSON values, once the method is fitted."""
        summary = self.method.summary_
        return {
            "method": self.method.config(),
            "simulated": self.stream.simulated,
            "records": summary.n,
            "columns": [
                {"name": name, "low": float(low), "high": float(high), "missing": int(missing)}
                for name, low, high, missing in zip(
                    summary.names, summary.low, summary.high, summary.missing, strict=True
                )
            ],
            "kept": list(self.keep),
            # JSON has no NaN, which stands for a metric that these columns do not have.
            "metrics": {k: None if v is None or math.isnan(v) else v for k, v in metrics.items()},
            "notes": notes,
            "caveat": self.method.caveat,
        }


def _whole(asked: _Asked, safe: bool) -> dict[str, Any]:
    import pandas as pd

    data, method, stream, keep = asked.data, asked.method, asked.stream, asked.keep
    file = pp.files.open_data(data, how=asked.how)
    chosen = asked.chosen(file)
    block = file.read([name for name in file.columns if name in {*chosen, *keep}], kept=keep)
    frame = block.frame
    try:
        values, names = pp.perturb.read_matrix(frame[chosen])
        original = pd.DataFrame(values, columns=list(names))
        released = method.fit(original, stream=stream.child(0)).perturb(original, stream.child(1))
        metrics: Metrics = dict(pp.perturb.distortion(values, released)._asdict())
        notes = []
        # Linkage compares every released record with every original one.
        if len(values) <= LINKED:
            metrics |= pp.perturb.disclosure(values, released, asked.interval)._asdict()
        else:
            metrics |= asked.interval_only(zip(values.T, released.T, strict=True))
            notes.append(f"Linkage is not computed for more than {LINKED:,} records.")
    except InputError as error:  # also a parameter that these records do not allow
        raise type(error)(f"{data}: {error}{block.place(error.row)}", error.subject) from None
    table = pp.perturb.released_frame(released, method, frame, keep)
    if ending(asked.out) == ".csv":
        pp.perturb.write_csv(table, asked.out, (data,), safe=safe)
    else:
        pp.perturb.write_parquet(table, asked.out, method, stream.simulated, (data,))
    return asked.facts(metrics, notes)


def _in_parts(asked: _Asked, workers: int | None) -> dict[str, Any]:
    """Row group by row group; no more than a column of the data is held at a time."""
    data, out, method = asked.data, asked.out, asked.method
    if ending(data) != ".parquet" or not isinstance(method, pp.perturb.AIBR):
        raise InputError(
            f"--out: got {str(out)!r}; a folder of parts is for a .parquet file and --method aibr, "
            "give a name that ends in .csv or .parquet",
            out,
        )
    try:
        file = pp.files.open_data(data, how=asked.how)
        chosen = asked.chosen(file)
        parts = pp.cluster.perturb_file_in_parts(
            method, data, chosen, asked.stream.child(1), out, asked.keep, workers
        )
        # The columns are read twice, as both metrics would otherwise hold all of them.
        pairs = _column_pairs(file, parts.files, chosen)
        metrics: Metrics = dict(pp.perturb.distortion_of_columns(pairs)._asdict())
        metrics |= asked.interval_only(_column_pairs(file, parts.files, chosen))
    except InputError as error:
        text = str(error)
        raise type(error)(
            text if text.startswith((str(data), str(out))) else f"{data}: {text}", error.subject
        ) from None
    return asked.facts(metrics, ["Linkage is not computed for a release in parts."])


def _column_pairs(
    file: pp.files.DataFile, parts: Sequence[Path], names: Sequence[str]
) -> Iterator[tuple[Floats, Floats]]:
    released = [pp.files.open_data(part) for part in parts]
    for name in names:
        yield _numbers([file], name), _numbers(released, name)


def _numbers(files: Sequence[pp.files.DataFile], name: str) -> Floats:
    """A column of files that follow each other; no more than its numbers are held."""
    blocks = (block for file in files for block in file.blocks([name]))
    return np.concatenate([pp.perturb.read_matrix(block.frame)[0][:, 0] for block in blocks])


def _page(found: Mapping[str, Any]) -> str:
    """One HTML page, without scripts or other files, on the facts of a release."""
    # Without a template: Jinja would be loaded for one short page.
    method = dict(found["method"])
    name = method.pop("id")
    parameters = ", ".join(f"{key} = {value}" for key, value in method.items())
    columns = [
        [column["name"], f"{column['low']:g}", f"{column['high']:g}", f"{column['missing']:,}"]
        for column in found["columns"]
    ]
    metrics = [
        [METRIC_WORDS[key], "not computed" if value is None else f"{value:.6g}"]
        for key, value in found["metrics"].items()
    ]
    draws = (
        "Simulated: anyone who knows the seed can repeat the draws."
        if found["simulated"]
        else "The draws cannot be repeated."
    )
    kept = ", ".join(found["kept"]) or "none"
    parts = [
        f"<h1>Release of {html.escape(str(found['data']))}</h1>",
        f"<p>Method <b>{html.escape(name)}</b> ({html.escape(parameters)}), "
        f"{found['records']:,} records. {draws} Columns kept as they are: {html.escape(kept)}.</p>",
        "<p>This page tells the range of the original: keep it with the original.</p>",
        f'<p class="caveat"><b>What this does not protect.</b> {html.escape(found["caveat"])}</p>',
        "<h2>Metrics</h2>",
        _table(["metric", "value"], metrics, {1}),
        *(f"<p>{html.escape(note)}</p>" for note in found["notes"]),
        "<h2>Perturbed columns</h2>",
        _table(["column", "smallest", "largest", "missing"], columns, {1, 2, 3}),
    ]
    title = html.escape(f"Release of {found['data']}")
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
        f"<style>{_STYLE}</style></head><body>\n" + "\n".join(parts) + "\n</body></html>\n"
    )


def _table(header: Sequence[str], rows: Sequence[Sequence[str]], right: set[int]) -> str:
    def line(cells: Sequence[str], tag: str) -> str:
        made = [
            f"<{tag}{' class=number' if i in right else ''}>{html.escape(cell)}</{tag}>"
            for i, cell in enumerate(cells)
        ]
        return f"<tr>{''.join(made)}</tr>"

    return f"<table>{line(header, 'th')}{''.join(line(row, 'td') for row in rows)}</table>"
