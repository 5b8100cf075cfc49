"""``ppdm codebook``: a codebook read off a file, for a person to edit."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from ppdm_dask.cli.output import print_json, print_table, say
from ppdm_dask.cli.survey_files import require_new

if TYPE_CHECKING:
    from ppdm_dask.survey.proposal import Column, Proposal

__all__ = ["propose"]

SHOWN = 60
"""Letters of a column's categories that the table shows."""


def propose(
    data: Path,
    out: Path | None,
    *,
    order: Any,
    most: int,
    bins: int,
    force: bool,
    as_json: bool,
) -> None:
    """Write the proposal, or print it where no file is named."""
    from ppdm_dask.files.writing import write_text
    from ppdm_dask.survey.proposal import propose_codebook

    require_new(out, force, (data,), (".toml",))
    found = propose_codebook(data, most=most, bins=bins, order=order)
    if out is not None:
        write_text(out, found.text(), [data])
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
        _print(found)
        say(f"\n{len(found.codebook.names)} attributes, for you to edit: {out}")


def _facts(column: Column) -> dict[str, Any]:
    return {
        "name": column.name,
        "missing": column.missing,
        "different": None if column.labels is None else len(column.labels),
        "proposed": None if column.attribute is None else column.attribute.config(),
        "left_out": column.left_out or None,
        "remedy": column.remedy or None,
        "notes": column.notes,
    }


def _print(found: Proposal) -> None:
    from ppdm_dask.drawing.tables import plain_table

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
    print_table(plain_table(header, rows, right=(1, 2)))
