"""The tables of a result for a page: those that the terminal shows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import xarray as xr
    from rich.console import RenderableType
    from rich.table import Table

__all__ = ["result_tables", "undefined_cells"]


def result_tables(ds: xr.Dataset) -> list[dict[str, Any]]:
    """Caption, header, rows and alignment of every table of a result."""
    kind = ds.attrs.get("experiment")
    if kind == "perturbation":
        from ppdm_dask.report.perturbation import perturbation_tables

        return [_plain(caption, table) for caption, table in perturbation_tables(ds)]
    if kind == "front":
        from ppdm_dask.report.fronts import front_tables

        return [_plain(caption, table) for caption, table in front_tables(ds)]
    from ppdm_dask.report.tables import entry_heading, entry_table

    found = []
    for i in range(ds.sizes["data"]):
        found += _grouped(entry_heading(ds, i), entry_table(ds, i))
    return found


def undefined_cells(ds: xr.Dataset) -> list[str]:
    """Which cells are undefined, and why."""
    kind = ds.attrs.get("experiment")
    if kind == "front":
        from ppdm_dask.report.fronts import undefined_cases

        return undefined_cases(ds)
    if kind == "perturbation":
        return []  # a setting that an entry does not ask for is no cell
    from ppdm_dask.report.tables import undefined_notes

    return [note.removeprefix("undefined ") for note in undefined_notes(ds)]


def _grouped(caption: str, group: RenderableType) -> list[dict[str, Any]]:
    """Tables of a group, each below the values of the outer axes that stand before it."""
    from rich.table import Table
    from rich.text import Text

    found, where = [], ""
    for part in getattr(group, "renderables", [group]):
        if isinstance(part, Text):
            where = part.plain.strip()
        elif isinstance(part, Table):
            found.append(_plain(f"{caption}\n{where}" if where else caption, part))
    return found


def _plain(caption: str, table: Table) -> dict[str, Any]:
    columns = [[str(cell) for cell in column.cells] for column in table.columns]
    header = [" ".join(str(column.header).split()) for column in table.columns]
    # In a terminal "clean test:" stands once above two columns.
    for i in range(1, len(header)):
        before = header[i - 1].split(": ")
        if header[i] == "variance" and len(before) == 2:
            header[i] = f"{before[0]}: variance"
    return {
        "caption": caption.split("\n"),
        "header": header,
        "right": [column.justify == "right" for column in table.columns],
        "rows": [list(row) for row in zip(*columns, strict=True)],
    }
