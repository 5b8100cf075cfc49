"""The report of a release: what was done, how far it is from the original, what it gives away."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from typing import Any

__all__ = ["METRIC_WORDS", "release_html"]

METRIC_WORDS = {
    "vd": "VD: distance of release and original, relative to the original",
    "rp": "RP: mean change of a value's rank in its column",
    "rk": "RK: share of values that keep their rank in their column",
    "cp": "CP: mean change of a column's rank among the column means",
    "ck": "CK: share of columns that keep their rank among the column means",
    "linkage": "linkage: share of released records whose nearest original is their own",
    "interval": "interval: share of values released within a small interval of the original",
}
"""Metrics of a release in words."""

_STYLE = """
body { font: 15px/1.5 sans-serif; max-width: 48em; margin: 2em auto; padding: 0 1em; color: #222 }
table { border-collapse: collapse; margin: 1em 0 }
td, th { padding: .25em .9em; border-bottom: 1px solid #ddd; text-align: left }
td.number, th.number { text-align: right; font-variant-numeric: tabular-nums }
p.caveat { border-left: 4px solid #D55E00; padding: .4em 1em; background: #fbf3ee }
"""


def release_html(found: Mapping[str, Any]) -> str:
    """Return one HTML page without scripts or outside parts.

    Parameters
    ----------
    found : mapping
        As ``ppdm perturb --json`` prints it: ``data``, ``out``, ``method``, ``simulated``,
        ``records``, ``columns`` (a list with name, low, high, missing), ``kept``, ``metrics``,
        ``notes`` and ``caveat``.
    """
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
        "Simulated: whoever knows the seed can repeat the draws."
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
